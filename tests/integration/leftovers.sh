#!/usr/bin/env bash
# Whoever dies, and whenever: no process, mount, FUSE connection, directory or cgroup of ours stays
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
mark=7$$

# children PID: its live children
children() { cat /proc/"$1"/task/*/children 2>/dev/null; }

# The device number of a FUSE mount names its connection in fusectl, which only root can look at.
connections() {
        [ "$(id -u)" = 0 ] || return 0
        unshare -m sh -c 'mkdir "$0" 2>/dev/null; mount -t fusectl none "$0" && ls "$0"' "$T/fusectl"
}
no_connection() { ! connections | grep -qx "$1"; }

cgroups() { find /sys/fs/cgroup -type d -iname '*cofferdam*' 2>/dev/null | sort; }

# begin SCRIPT: a sandbox with a family of processes that do not want to end; sets $client
begin() {
        rm -f "$W/ready"
        env --default-signal=INT,QUIT setsid "$C" run -- sh -c "trap '' TERM HUP INT
                sleep 9$mark & (setsid sleep 8$mark &) ; stat -c %d . >ready; ${1-wait; sleep 60}" >out 2>err &
        client=$!
}

ready() { [ -s ready ]; }

# nothing_left: after a run that has ended
nothing_left() {
        wait_for 10 none_live "$C" || fail "processes of ours: $(live_pids "$C" | xargs -I{} sh -c "tr '\\0' ' ' </proc/{}/cmdline")"
        wait_for 10 none_live "sleep 9$mark" || fail 'a child of the command lives'
        wait_for 10 none_live "sleep 8$mark" || fail 'a detached child of the command lives'
        eq '' "$(grep -F "$T" /proc/self/mountinfo | head -n 3)" 'mounts'
        eq "$cgroups_before" "$(cgroups)" 'cgroups'
        eq '' "$(find "$T/run" -mindepth 1 ! -type d | head)" 'sockets'
        if [ -s ready ]; then wait_for 10 no_connection "$(cat ready)" || fail 'the FUSE connection stays'; fi
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
        wait_for 20 ready || fail "the command did not start: $(cat err)"
        victims=$(parts "$1")
        [ -n "$victims" ] || fail "no such part: $1"
        echo "killing $1: $victims"
        for pid in $victims; do kill -KILL "$pid"; done
        wait_for 15 not_running || fail 'the client still waits'
        wait "$client" || rc=$?
        echo "exit status $rc: $(cat err)"
        [ "$rc" != 0 ] || fail 'the run looks successful'
        case $1 in
        client) ;;
        *)
                eq 125 "$rc" 'exit status'
                eq 1 "$(wc -l <err)" 'lines on stderr'
                ;;
        esac
        nothing_left
        no_run_left
}
not_running() { ! kill -0 "$client" 2>/dev/null; }

# parts WHO: the client forks the supervisor; that one the file server (several threads) and init (pid 1 inside)
parts() {
        local supervisor pid
        supervisor=$(children "$client" | head -n 1)
        case $1 in
        client) echo "$client" ;;
        supervisor) echo "$supervisor" ;;
        init) for pid in $(children "$supervisor"); do is_init "$pid" && echo "$pid"; done ;;
        fsd) for pid in $(children "$supervisor"); do is_init "$pid" || echo "$pid"; done ;;
        all) echo "$client $supervisor $(children "$supervisor")" ;;
        esac
}
is_init() { grep -qE '^NSpid:.*[[:space:]]1$' "/proc/$1/status"; }

# killed at a random moment, mostly while it starts
killed_early() {
        local i pid victims
        for i in $(seq "${COFFERDAM_LONG:+200}" 2>/dev/null || seq 25); do
                begin
                sleep "0.0$((RANDOM % 60 / 10))$((RANDOM % 10))"
                victims=$(parts "$1")
                for pid in $victims; do kill -KILL "$pid" 2>/dev/null || true; done
                if [ -z "$victims" ]; then kill -KILL "$client"; fi
                wait_for 15 not_running || fail "round $i: the client still waits"
                wait "$client" || true
                nothing_left
        done
}

held_content_survives() {
        git init -q "$W/file"
        begin 'echo "echo pwned" >file/.git/hooks/pre-commit; : >file/written; sleep 60'
        wait_for 20 test -e file/written || fail "$(cat err)"
        for pid in $(parts "$1"); do kill -KILL "$pid"; done
        wait_for 15 not_running
        wait "$client" || true
        wait_for 10 none_live "$C"
        [ ! -e file/.git/hooks/pre-commit ] || fail 'the held file is on the host'
        has "$(find "$T/state/cofferdam/runs" -name pre-commit)" pre-commit 'what was held is in the run'
        rm -rf "$T/state/cofferdam/runs"
        rm -rf file
}

cgroups_before=$(cgroups)
for who in client supervisor init fsd all; do t "$who is killed" killed $who; done
t 'a command that leaves children behind' by_itself
for who in client supervisor init fsd all; do t "$who is killed at a random moment" killed_early $who; done
for who in client supervisor fsd; do t "what was held survives the death of $who" held_content_survives $who; done
finish
