#!/usr/bin/env bash
# The driver that isolates nothing says so, and does everything else
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

cof() { timeout -k 5 200 "$C" "$@" </dev/null; }

says_so() {
        eq "$W" "$(cof run --driver noop --events ev -- pwd 2>err)"
        has "$(cat err)" 'commands run on the host'
        has "$(cat ev)" '"type":"sandbox_skipped"'
        eq ok "$(cof run --mode none -- echo ok 2>err)"
        has "$(cat err)" 'commands run on the host'
}

# auto never picks it, and a workflow may not ask for it
is_the_operators() {
        echo 'driver: noop' >w.yaml
        status 2 cof run --spec w.yaml --tier workflow -- touch ran 2>err
        has "$(cat err)" "driver"
        [ ! -e ran ] || fail 'it ran'
        lacks "$(cof run -- sh -c 'ls -d /home/* 2>/dev/null; echo')" /home/ 'auto'
}

refuses_what_it_cannot_keep() {
        local o
        : >"$T/home/s"
        for o in '--memory 1Gi' '--hide x' '--mount type=tmpfs,target=/x' "--seed $T/home/s" '--workspace-mode ro' '--network allowlist' \
                '--network none'; do
                # shellcheck disable=SC2086 # an option and its value
                status 125 cof run --driver noop $o -- true 2>err
                has "$(cat err)" "driver 'noop'" "$o"
        done
        eq ok "$(cof run --driver noop --network open -- echo ok 2>err)"
}

# as native: what is no program is not handed to a shell; red with execvpe(3)
no_shell_is_guessed() {
        local driver
        printf 'echo guessed\n' >text
        chmod 755 text
        for driver in noop native; do
                status 126 cof run --driver "$driver" -- ./text >out 2>err
                eq '' "$(cat out)" "stdout with $driver"
                has "$(cat err)" "exec './text': Exec format error" "$driver"
                status 127 cof run --driver "$driver" -- no-such-program 2>err
        done
        mkdir bin
        printf '#!/bin/sh\necho found\n' >bin/program
        chmod 755 bin/program
        eq found "$(PATH=$W/bin:$PATH cof run --driver noop -e PATH="$W/bin" -- program 2>err)"
        eq ok "$(env -i HOME="$HOME" XDG_STATE_HOME="$T/state" "$C" run --driver noop -- echo ok 2>err)"
}

commands() {
        local id
        id=$(cof start --driver noop -e A=1 2>/dev/null)
        status 7 cof exec "$id" sh -c 'exit 7'
        status 143 cof exec "$id" sh -c 'kill -TERM $$'
        status 127 cof exec "$id" no-such 2>/dev/null
        status 126 cof exec -w /nowhere "$id" true 2>/dev/null
        eq '1 2' "$(cof exec -e B=2 "$id" sh -c 'echo $A $B')"
        eq '2' "$(cof exec -e A=2 "$id" sh -c 'echo $A')"
        eq in "$(echo in | timeout 200 "$C" exec "$id" cat)"
        eq terminal "$(cof exec -t "$id" sh -c '[ -t 0 ] && echo terminal' | tr -d '\r')"
        eq none "$(cof inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["plan"]["mechanisms"]["isolation"])')"
        cof stop "$id" >/dev/null
        cof rm "$id" >/dev/null
}

# red without PR_SET_CHILD_SUBREAPER
leaves_no_process() {
        local id
        id=$(cof start --driver noop 2>/dev/null)
        ln -s "$(command -v sleep)" "$W/left" # a name that no other script looks for
        cof exec "$id" sh -c "setsid sh -c 'exec $W/left 424242' & setsid setsid $W/left 424243 & exit 0"
        wait_for 60 some || fail 'they did not start'
        cof stop -t 0 "$id" >/dev/null
        wait_for 60 none || fail 'a process is left'
        cof rm "$id" >/dev/null
}
some() { [ "$(live_pids "$W/left 42424" | wc -l)" = 2 ]; }
none() { [ "$(live_pids "$W/left 42424" | wc -l)" = 0 ]; }

t 'it is said that nothing is isolated' says_so
t 'only the operator can ask for it' is_the_operators
t 'what only isolation can keep is refused' refuses_what_it_cannot_keep
t 'no shell is guessed' no_shell_is_guessed
t 'commands, as in any run' commands
t 'stop finds what left its session' leaves_no_process
finish
