#!/usr/bin/env bash
# stdin, stdout and stderr pass unchanged and apart, also when they are closed, full or very long
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
MEGA=104857600

# bytes N: reproducible bytes that do not compress to a pattern
bytes() { openssl enc -aes-128-ctr -nosalt -pass pass:cofferdam -in /dev/zero 2>/dev/null | head -c "$1"; }
digest() { sha256sum | cut -d' ' -f1; }

out_100_mb() {
        need_command openssl
        bytes "$MEGA" >big
        eq "$(digest <big)" "$(sandbox -- cat big | digest)"
}
in_100_mb() {
        need_command openssl
        eq "$(bytes "$MEGA" | digest)" "$(bytes "$MEGA" | sandbox -- sha256sum | cut -d' ' -f1)"
}
through_100_mb() {
        need_command openssl
        eq "$(bytes "$MEGA" | digest)" "$(bytes "$MEGA" | sandbox -- cat | digest)"
}
apart() {
        sandbox -- sh -c 'printf out; printf err >&2' >out 2>err
        eq out "$(cat out)" stdout
        eq err "$(cat err)" stderr
}
end_of_file() { eq 0 "$(sandbox -- wc -c </dev/null)"; }
stdin_left_alone() {
        seq 1000 >input
        { sandbox -- true && cat; } <input >rest
        cmp input rest
}
stdin_offset_shared() {
        printf 'one\ntwo\n' >input
        { sandbox -- sh -c 'read -r x; echo "$x"' && cat; } <input >rest
        eq one "$(head -n 1 rest)"
}
append() {
        echo first >log
        sandbox -- sh -c 'echo second' >>log
        eq 'first second' "$(tr '\n' ' ' <log | sed 's/ $//')"
}
closed() {
        local rc=0
        # shellcheck disable=SC2086 # redirections are words of the text that is evaluated
        eval "sandbox -- sh -c 'exit 9' $1" || rc=$?
        eq 9 "$rc" 'exit status'
}
closed_stdin_reads_nothing() {
        sandbox -- sh -c 'if cat; then echo end; else echo error; fi' <&- >out 2>/dev/null
        [ "$(cat out)" = end ] || [ "$(cat out)" = error ] || fail "read from a closed stdin: $(head -c 100 out)"
}
# what is closed for the caller must not be some file of ours inside
closed_opens_no_secret() {
        # shellcheck disable=SC2016 # expanded inside
        sandbox -- sh -c 'for fd in /proc/self/fd/*; do readlink "$fd"; done >list' <&- >&- 2>&-
        cat list
        ! grep -vE "^(/dev/null|/proc/[0-9]*/fd|pipe:.*|$W/list)?$" list || fail 'unexpected descriptor'
}
reader_goes_away() {
        eq y "$(sandbox -- yes 2>/dev/null | head -n 1)"
        rc=$(set +e; { sandbox -- yes 2>/dev/null; echo $? >rc; } | head -n 1 >/dev/null; cat rc)
        eq 141 "$rc" 'exit status'
}
full() {
        local rc=0
        echo x >file
        sandbox -- cat file >/dev/full 2>err || rc=$?
        [ "$rc" != 0 ] || fail 'a full device was not reported'
        has "$(cat err)" 'No space left'
}
binary_names() {
        sandbox -- sh -c 'printf "\377\000\n\033"' | od -An -tx1 >out
        eq ' ff 00 0a 1b' "$(cat out)"
}
many_lines_interleaved() {
        # shellcheck disable=SC2016
        sandbox -- sh -c 'i=0; while [ $i -lt 3000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done' >both 2>&1
        eq 6000 "$(wc -l <both)" lines
        grep '^o' both | cmp - <(seq 0 2999 | sed 's/^/o/')
}

t '100 MB out' out_100_mb
t '100 MB in' in_100_mb
t '100 MB through' through_100_mb
t 'stdout and stderr stay apart' apart
t 'end of file' end_of_file
t 'unread stdin stays for the next' stdin_left_alone
t 'stdin is the same open file' stdin_offset_shared
t 'stdout is appended to' append
for how in '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do t "closed: $how" closed "$how"; done
t 'a closed stdin gives nothing to read' closed_stdin_reads_nothing
t 'closed descriptors are nothing of ours' closed_opens_no_secret
t 'the reader goes away' reader_goes_away
t 'a full device is reported' full
t 'bytes that are no text' binary_names
t 'both streams into one file keep their order' many_lines_interleaved
finish
