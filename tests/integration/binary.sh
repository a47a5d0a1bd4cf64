#!/usr/bin/env bash
# How the program is built: where its code lies, what can be written, what can be executed
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

segments() { readelf -lW "$C"; }

# goes red when cli/meson.build loses 'pie'
position_independent() {
        need_command readelf
        readelf -hW "$C" | grep -q 'Type: *DYN' || fail "$(readelf -hW "$C" | grep Type)"
        eq '' "$(segments | grep -w INTERP)" 'an interpreter of the host is asked for'
}

# the same code at another place in each process; goes red with it, and on a machine without randomization
moves() {
        local _ places=''
        grep -qx 2 /proc/sys/kernel/randomize_va_space || skip 'this machine does not randomize'
        for _ in 1 2 3; do
                rm -f go
                places+="$("$C" run -w . -- sh -c 'until [ -e go ]; do sleep 0.02; done' & wait_for 60 code_of $!; touch go; wait) "
        done
        # shellcheck disable=SC2086 # words
        eq 3 "$(printf '%s\n' $places | wc -l)" 'places'
        # shellcheck disable=SC2086 # words
        [ "$(printf '%s\n' $places | sort -u | wc -l)" -gt 1 ] || fail "always at $places"
}
code_of() { sed -n '/r-xp.*cofferdam/{ s/-.*//p; q }' "/proc/$1/maps" 2>/dev/null | grep .; } # not yet: the shell that begins it

# goes red without -z relro and -z now
tables_are_read_only() {
        segments | grep -qw GNU_RELRO || fail 'no RELRO'
        readelf -dW "$C" | grep -qE 'NOW' || fail "lazy binding: $(readelf -dW "$C" | head -20)"
}

# goes red with -z execstack, or when an object of assembler does not say that it needs none
nothing_is_both() {
        segments | grep -w GNU_STACK | grep -qv E || fail "$(segments | grep -w GNU_STACK)"
        eq '' "$(segments | grep -w LOAD | grep -E 'RWE|W E')" 'segments that can be written and executed'
        eq '' "$(readelf -dW "$C" | grep -w TEXTREL)" 'relocations in code'
}

# goes red without -fstack-protector-strong and -fcf-protection=full
calls_are_checked() {
        nm "$C" 2>/dev/null | grep -qw __stack_chk_fail || skip 'no symbols in this build'
        [ "$(uname -m)" = x86_64 ] || return 0
        objdump -d --disassemble=verb_run "$C" >code || fail
        grep -qw endbr64 code || fail 'no landing pad: verb_run'
        objdump -d --disassemble=file_read "$C" >code || fail
        objdump -d --disassemble=file_replace_at "$C" >>code || fail
        grep -q '__stack_chk_fail' code || fail 'no canary: file_replace_at'
}

# Red without the check of AT_SECURE in dispatch().
set_user_id() {
        [ "$(id -u)" = 0 ] || skip 'only root makes a program that others run as root'
        cp -L "$C" "$T/set-id"
        chmod 4755 "$T/set-id"
        chmod 755 "$T"
        status 125 setpriv --reuid 65534 --regid 65534 --clear-groups "$T/set-id" version 2>err
        has "$(cat err)" 'more rights than who started it'
        chmod 0755 "$T/set-id"
        status 0 setpriv --reuid 65534 --regid 65534 --clear-groups "$T/set-id" version >out
}

t 'position independent, and static' position_independent
t 'the code lies somewhere else each time' moves
t 'tables are read-only' tables_are_read_only
t 'nothing can be written and executed' nothing_is_both
t 'canaries and landing pads' calls_are_checked
t 'set-user-ID is refused' set_user_id
finish
