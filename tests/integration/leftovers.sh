#!/usr/bin/env bash
# Whoever dies, and whenever: no process, mount, FUSE connection, directory or cgroup of ours stays
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
mark=7$$

# children PID: its live children
children() { cat /proc/"$1"/task/*/children 2>/dev/null | tr ' ' '\n' | grep .; }

# The device number of a FUSE mount names its connection in fusectl, which only root can look at.
connections() {
        [ "$(id -u)" = 0 ] || return 0
        unshare -m sh -c 'mkdir "$0" 2>/dev/null; mount -t fusectl none "$0" && ls "$0"' "$T/fusectl"
}
# The number of a connection that has ended may be somebody else's by now: then a process has it mounted.
no_connection() { ! connections | grep -qx "$1" || cat /proc/[0-9]*/mountinfo 2>/dev/null | grep -q " 0:$1 .* - fuse"; }

cgroups() { find /sys/fs/cgroup -type d -iname '*cofferdam*' ! -name 'cofferdam-probe-*' 2>/dev/null | sort; }

# begin SCRIPT: a sandbox with a family of processes that do not want to end; sets $client
begin() {
        rm -rf "$W/ready" "$T/state/cofferdam"
        env --default-signal=INT,QUIT setsid "$C" run -- sh -c "trap '' TERM HUP INT
                sleep 9$mark & (setsid sleep 8$mark &) ; stat -c %d . >ready; ${1-wait; sleep 600}" >out 2>err &
        client=$!
}

ready() { [ -s ready ]; }

# nothing_left: after a run that has ended
nothing_left() {
        wait_for 60 none_of_ours || fail "processes of ours: $(for pid in $(ours); do look "$pid" && echo "$pid $comm $line"; done)"
        wait_for 60 none_live "sleep 9$mark" || fail 'a child of the command lives'
        wait_for 60 none_live "sleep 8$mark" || fail 'a detached child of the command lives'
        eq '' "$(grep -F "$T" /proc/self/mountinfo | head -n 3)" 'mounts'
        eq "$cgroups_before" "$(cgroups)" 'cgroups'
        eq '' "$(find "$T/run" -mindepth 1 ! -type d | head)" 'sockets'
        if [ -s ready ]; then wait_for 60 no_connection "$(cat ready)" || fail 'the FUSE connection stays'; fi
        eq '' "$(find . -mindepth 1 ! -name ready ! -name out ! -name err ! -name file | head)" 'files in the workspace'
}

no_run_left() { eq '' "$(ls "$T/state/cofferdam/runs" 2>/dev/null)" 'run directories'; }

by_itself() {
        begin 'exit 4'
        rc=0
        wait "$client" || rc=$?
        eq 4 "$rc"
        nothing_left
        no_run_left
}

# killed WHO: SIGKILL to one part of a run
killed() {
        local victims pid rc=0
        begin
        wait_for 60 ready || fail "the command did not start: $(cat err)"
        victims=$(parts "$1")
        [ -n "$victims" ] || fail "no such part: $1"
        echo "killing $1: $victims"
        for pid in $victims; do kill -KILL "$pid" 2>/dev/null || true; done # one may die of the other
        wait_for 60 not_running || fail 'the client still waits'
        wait "$client" || rc=$?
        echo "exit status $rc: $(cat err)"
        [ "$rc" != 0 ] || fail 'the run looks successful'
        case $1 in
        client | all) ;;
        *)
                eq 125 "$rc" 'exit status'
                eq 1 "$(wc -l <err)" 'lines on stderr'
                ;;
        esac
        nothing_left
        [ "$1" = all ] || no_run_left # nobody is left to remove it: gc does
}
not_running() { ! kill -0 "$client" 2>/dev/null; }
# Two that come before the client looks are one: another each time that it is asked for.
interrupted() { ! kill -INT "$client" 2>/dev/null; }

# parts WHO: the client forks the supervisor; that one the file server (several threads) and init (pid 1 inside)
parts() {
        local supervisor pid
        supervisor=$(children "$client" | head -n 1)
        case $1 in
        client) echo "$client" ;;
        supervisor) echo "$supervisor" ;;
        all)
                echo "$client" "$supervisor"
                children "$supervisor"
                ;;
        *)
                for pid in $(children "$supervisor"); do
                        if look "$pid" && [ "$comm" = "cofferdam-$1" ]; then echo "$pid"; fi
                done
                ;;
        esac
        return 0
}

# killed at a random moment, mostly while it starts
killed_early() {
        local i victims rounds=12
        [ -z "${COFFERDAM_LONG-}" ] || rounds=200
        for i in $(seq "$rounds"); do
                begin
                sleep "0.0$((RANDOM % 60 / 10))$((RANDOM % 10))"
                victims=$(parts "$1" | tr '\n' ' ')
                # shellcheck disable=SC2086 # numbers
                kill -KILL ${victims:-$client} 2>/dev/null || kill -KILL "$client"
                wait_for 60 not_running || fail "round $i: the client still waits after the death of '$victims'"
                wait "$client" || true
                nothing_left
        done
}

# stopped WHO: a part that does not answer holds nobody up who means it
stopped() {
        local rc=0
        begin 'while :; do cat file >/dev/null; done'
        : >file
        wait_for 60 ready || fail "the command did not start: $(cat err)"
        # shellcheck disable=SC2046 # numbers
        kill -STOP $(parts "$1")
        sleep 0.2
        wait_for 60 interrupted || fail 'the client still waits'
        wait "$client" || rc=$?
        [ "$rc" != 0 ] || fail 'the run looks successful'
        nothing_left
        no_run_left
}

# a file server that cannot hear of the end of its supervisor; red when it is in the supervisor's group of processes
stopped_and_killed() {
        begin 'while :; do cat file >/dev/null; done'
        : >file
        wait_for 60 ready || fail "the command did not start: $(cat err)"
        # shellcheck disable=SC2046 # numbers
        kill -STOP $(parts fsd)
        sleep 0.2
        # shellcheck disable=SC2046 # numbers
        kill -KILL $(parts supervisor)
        wait_for 60 not_running || fail 'the client still waits'
        wait "$client" || true
        nothing_left
}

# the verbs take a run whose parts were killed for dead
dead_is_dead() {
        begin
        wait_for 60 ready || fail "the command did not start: $(cat err)"
        # shellcheck disable=SC2046 # numbers
        kill -KILL $(parts all)
        wait "$client" || true
        wait_for 60 none_of_ours
        local run
        run=$(ls "$T/state/cofferdam/runs")
        [ ${#run} = 12 ] || fail "runs: $run"
        status 0 "$C" diff "$run"
        status 0 "$C" discard "$run"
        no_run_left
}

# The next run clears up, also when it ends before that is done. Red without look_around().
next_run_reaps() {
        local run
        begin 'mkdir .vscode; echo x >.vscode/tasks.json; : >file; sleep 600'
        wait_for 60 test -e file || fail "the command did not start: $(cat err)"
        # shellcheck disable=SC2046 # numbers
        kill -KILL $(parts all)
        wait "$client" || true
        wait_for 60 none_of_ours
        run=$(ls "$T/state/cofferdam/runs")
        cp -a "$T/state/cofferdam/runs/$run" "$T/state/cofferdam/runs/000000000000"
        rm -r "$T/state/cofferdam/runs/000000000000/upper/"*
        eq ok "$("$C" run -- echo ok)"
        wait_for 60 none_of_ours
        has "$("$C" inspect "$run")" '"status": "finished"'
        has "$("$C" events "$run" | tail -n 1)" orphan_reaped
        eq "$run" "$(ls -A "$T/state/cofferdam/runs")" 'the one that holds nothing is gone'
        "$C" apply "$run"
        eq x "$(cat .vscode/tasks.json)"
        rm -r .vscode
        no_run_left
}

# Its events and logs are not thrown away by somebody else's start.
next_run_keeps_what_started() {
        local id
        id=$("$C" start)
        n=$("$C" exec -d "$id" sh -c 'echo said' </dev/null)
        wait_for 60 test -s "$T/state/cofferdam/runs/$id/log/$n.out"
        kill -KILL "$("$C" inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["supervisor"]["pid"])')"
        wait_for 60 none_of_ours
        "$C" run -- true
        wait_for 60 none_of_ours
        has "$("$C" inspect "$id")" '"status": "finished"'
        has "$("$C" events "$id" | tail -n 1)" orphan_reaped
        eq said "$("$C" logs "$id" "$n")"
        "$C" rm "$id"
        no_run_left
}

# Two runs on one directory are allowed; the second says so.
sharing_is_said() {
        local id
        id=$("$C" start)
        "$C" run --events ev -- true
        has "$(grep workspace_shared ev)" "\"run\":\"$id\""
        mkdir other
        "$C" run -w other --events ev2 -- true
        eq '' "$(grep workspace_shared ev2)"
        "$C" stop -t 0 "$id" >/dev/null
        "$C" run --events ev3 -- true
        eq '' "$(grep workspace_shared ev3)"
        "$C" rm "$id"
}

# starting, running or ending: nobody else touches it
alive_is_not_discarded() {
        local run
        begin
        wait_for 60 ready || fail "the command did not start: $(cat err)"
        run=$(ls "$T/state/cofferdam/runs")
        status 1 "$C" discard "$run" 2>e
        has "$(cat e)" alive
        rm "$T/state/cofferdam/runs/$run/state.json" # as before it has written one
        status 1 "$C" discard "$run" 2>e
        has "$(cat e)" starting
        rm e
        wait_for 60 interrupted || fail 'the client still waits'
        wait "$client" || true
        nothing_left
        no_run_left
}

# git configs that land while who lands them is killed: git reads the old or the new one, nothing else lies there
killed_while_landing() {
        local i before
        mkdir file
        git init -q file
        before=$(ls -A file/.git)
        for i in $(seq 12); do
                begin 'i=0; while :; do i=$((i+1)); git -C file config user.name "name $i"; git -C file remote add r$i https://x.org/$i; git -C file remote remove r$i; done'
                wait_for 60 ready || fail "the command did not start: $(cat err)"
                sleep "0.$((RANDOM % 2))$((RANDOM % 10))"
                # shellcheck disable=SC2046 # numbers
                kill -KILL $(parts "$1")
                wait_for 60 not_running
                wait "$client" || true
                wait_for 60 none_of_ours
                rm -f file/.git/config.lock # git's own
                eq "$before" "$(ls -A file/.git)" 'names in .git'
                git -C file config -l >/dev/null || fail 'git cannot read its config'
        done
        rm -rf file "$T/state/cofferdam"
}

held_content_survives() {
        git init -q "$W/file"
        begin 'echo "echo pwned" >file/.git/hooks/pre-commit; : >file/written; sleep 600'
        wait_for 60 test -e file/written || fail "$(cat err)"
        for pid in $(parts "$1"); do kill -KILL "$pid"; done
        wait_for 60 not_running
        wait "$client" || true
        wait_for 60 none_of_ours
        [ ! -e file/.git/hooks/pre-commit ] || fail 'the held file is on the host'
        has "$(find "$T/state/cofferdam/runs" -name pre-commit)" pre-commit 'what was held is in the run'
        rm -rf "$T/state/cofferdam/runs"
        rm -rf file
}

cgroups_before=$(cgroups)
for who in client supervisor init fsd all; do t "$who is killed" killed $who; done
t 'a command that leaves children behind' by_itself
for who in client supervisor init fsd all; do t "$who is killed at a random moment" killed_early $who; done
for who in supervisor init fsd; do t "$who is stopped" stopped $who; done
t 'fsd is stopped and supervisor killed' stopped_and_killed
for who in all fsd; do t "$who is killed while git configs land" killed_while_landing $who; done
t 'a run without processes is dead' dead_is_dead
t 'the next run reaps' next_run_reaps
t 'the next run keeps what a started one said' next_run_keeps_what_started
t 'two runs in one workspace' sharing_is_said
t 'a run with processes is alive' alive_is_not_discarded
for who in client supervisor fsd; do t "what was held survives the death of $who" held_content_survives $who; done
finish
