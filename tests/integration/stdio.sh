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

# What the caller's descriptors are of stays out: each line of the program is said by the work. Red when relay_init() takes
# regular files only.
no_way_by_socket() {
        need_command python3
        python3 - "$C" <<'PY' || fail 'by a socket'
import socket, subprocess, sys
inside = """
import socket, os
for fd in (0, 1):
    try:
        socket.socket(fileno=os.dup(fd))
        print('a socket')
    except OSError as e:
        print('none', flush=True)
print(input())
"""
server = socket.create_server(("127.0.0.1", 0))
for kind in ("stream", "datagram"):
    if kind == "stream":
        end = socket.create_connection(server.getsockname())
        other = server.accept()[0]
    else:
        end, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.send(b"typed\n")
    run = subprocess.Popen([sys.argv[1], "run", "--", "/usr/bin/python3", "-c", inside], stdin=end, stdout=end, stderr=2)
    end.close()
    said = b""
    while said.count(b"\n") < 3:
        more = other.recv(4096)
        assert more, said
        said += more
    assert said == b"none\nnone\ntyped\n", said
    assert run.wait() == 0
# one that can be connected to nothing else is passed on
end, other = socket.socketpair()
run = subprocess.run([sys.argv[1], "run", "--", "/usr/bin/python3", "-c", "import socket; print(socket.socket(fileno=0).type)"],
                     stdin=end, capture_output=True, text=True)
assert run.stdout == "1\n", run # SOCK_STREAM
PY
}
no_way_by_terminal() {
        need_command python3
        python3 - "$C" <<'PY' || fail 'by a terminal'
import os, pty, sys, time
script = """
"$0" run -- sh -c '[ -t 2 ] && echo terminal; readlink /proc/self/fd/2 >&2; read x; echo "work: $x"' </dev/null >out &
sleep 1; read x; echo "shell: $x"; wait
"$0" run -- sh -c 'read x; echo "work: $x" >&2' >out2
"""
pid, master = pty.fork()
if pid == 0:
    os.execvp("bash", ["bash", "-mc", script, sys.argv[1]])
said, sent, end = b"", 0, time.time() + 30
while time.time() < end:
    try:
        more = os.read(master, 4096)
    except OSError:
        break
    said += more
    if sent == 0 and b"pipe:" in said:
        os.write(master, b"secret\n")
        sent = 1
    if sent == 1 and b"shell: secret" in said:
        os.write(master, b"for the work\n")
        sent = 2
os.close(master) # whoever still waits is hung up on
os.waitpid(pid, 0)
assert open("out").read() == "work: \n", open("out").read()
assert b"shell: secret" in said and b"work: for the work" in said, said
PY
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
t 'no way out by a socket' no_way_by_socket
t 'no way out by a terminal' no_way_by_terminal
finish
