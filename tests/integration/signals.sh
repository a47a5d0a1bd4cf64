#!/usr/bin/env bash
# Signals reach the command once; a second SIGINT ends a command that ignores the first; masks start clean
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# begin SCRIPT: starts the sandbox on a shell script that makes the file 'ready'; sets $client.
# A shell starts background jobs with SIGINT and SIGQUIT ignored: env puts that right.
begin() {
        env --default-signal=INT,QUIT "$C" run -- sh -c "$1" >out 2>err &
        client=$!
        wait_for 60 test -e ready || fail "the command did not start: $(cat err)"
}

# ends STATUS: the client ends with it, and not because the command has
ends() {
        local rc=0
        wait_for 60 not_running || fail 'still running after a minute'
        wait "$client" || rc=$?
        eq "$1" "$rc" 'exit status'
}

forwarded() {
        begin "trap 'echo got $1; exit 5' $1; : >ready; while :; do sleep 0.05; done"
        kill -"$1" "$client"
        ends 5
        eq "got $1" "$(cat out)"
}

forwarded_once() {
        begin "trap 'echo got' USR1; trap 'exit 0' TERM; : >ready; while :; do sleep 0.05; done"
        kill -USR1 "$client"
        wait_for 60 test -s out
        sleep 0.3
        kill -TERM "$client"
        ends 0
        eq got "$(cat out)"
}

default_action() {
        begin ': >ready; exec sleep 600'
        kill -"$1" "$client"
        ends "$2"
}

second_interrupt_kills() {
        begin "trap '' INT TERM; : >ready; while :; do sleep 0.05; done"
        kill -INT "$client"
        wait_for 60 has_taken INT # or the second one would be the same
        sleep 0.3
        kill -0 "$client" || fail 'one SIGINT ended a command that ignores it'
        kill -INT "$client"
        ends 137
}

terminated_while_starting() {
        local i
        for i in $(seq 20); do
                env --default-signal=INT,QUIT "$C" run -- sleep 600 >/dev/null 2>&1 &
                client=$!
                # not before env(1) has become the program: what it ignores is lost
                wait_for 60 is_started
                sleep "0.00$((i % 10))"
                kill -"$1" "$client"
                rc=0
                wait_for 60 not_running || fail "round $i: SIG$1 during the start is lost"
                wait "$client" || rc=$?
                [ "$rc" -gt 128 ] || fail "round $i: exit status $rc"
        done
}
is_started() { [ "$(cat "/proc/$client/comm")" = cofferdam ]; }
not_running() { ! kill -0 "$client" 2>/dev/null; }
# has_taken SIG: no such signal waits for the client
has_taken() {
        local key mask
        while read -r key mask; do
                [ "$key" != ShdPnd: ] || [ $((0x$mask >> ($(kill -l "$1") - 1) & 1)) = 0 ] || return 1
        done <"/proc/$client/status"
}

stop_and_continue() {
        begin ': >ready; until [ -e end ]; do sleep 0.05; done; exit 3'
        kill -STOP "$client"
        sleep 0.2
        : >end
        kill -CONT "$client"
        ends 3
}

# during post_create there is no command yet that could take it. Red when the run ends as if all had gone well.
in_post_create() {
        env --default-signal=INT,QUIT "$C" run --post-create ': >ready; exec sleep 600' -- touch ran >out 2>err &
        client=$!
        wait_for 60 test -e ready || fail "it did not start: $(cat err)"
        kill -CONT "$client"
        wait_for 60 has_taken CONT
        sleep 0.3
        kill -0 "$client" || fail 'SIGCONT ended it'
        kill -"$1" "$client"
        ends "$2"
        [ ! -e ran ] || fail 'the command ran'
}

# a signal that comes when the command has ended changes nothing any more
at_the_end() {
        local i rc
        for i in $(seq 30); do
                "$C" run -- sh -c 'exit 7' 2>err &
                client=$!
                while kill -CONT "$client" 2>/dev/null; do :; done
                rc=0
                wait "$client" || rc=$?
                eq 7 "$rc" "round $i: $(cat err): exit status"
        done
}

clean_mask() {
        local line
        line=$(sandbox -- grep -E '^Sig(Blk|Ign|Pnd)' /proc/self/status)
        echo "$line"
        while read -r name mask; do eq 0000000000000000 "$mask" "$name"; done <<<"$line"
}

for sig in HUP INT QUIT TERM USR1 USR2; do t "$sig is forwarded" forwarded $sig; done
t 'a signal arrives once' forwarded_once
for pair in INT:130 TERM:143 HUP:129 QUIT:131; do
        t "${pair%:*} has its default action" default_action "${pair%:*}" "${pair#*:}"
done
t 'a second SIGINT kills' second_interrupt_kills
t 'SIGTERM while starting' terminated_while_starting TERM
t 'SIGINT while starting' terminated_while_starting INT
for pair in INT:130 TERM:143; do t "SIG${pair%:*} during post_create" in_post_create "${pair%:*}" "${pair#*:}"; done
t 'stopped and continued' stop_and_continue
t 'signals while it ends' at_the_end
t 'the command starts with nothing blocked or ignored' clean_mask
finish
