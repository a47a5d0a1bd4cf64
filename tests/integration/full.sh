#!/usr/bin/env bash
# A full disk under the state of a run, its logs and what it holds: said, and nothing is broken by it
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# A small disk of our own as the state directory. $T/disk is it; fill and drain change how much is free.
if [ -z "${COFFERDAM_SMALL_DISK-}" ]; then
        clean # the script runs once more where it can mount
        words=(--mount)
        [ "$(id -u)" = 0 ] || words+=(--user --map-current-user --keep-caps)
        if unshare "${words[@]}" sh -c 'mount -t tmpfs -o size=64k none /mnt' 2>/dev/null; then
                COFFERDAM_SMALL_DISK=1 exec unshare "${words[@]}" "$0" "$@"
        fi
        echo "1..0 # SKIP no mounts here"
        exit 0
fi

disk() {
        XDG_STATE_HOME=$T/disk
        mkdir -p "$XDG_STATE_HOME"
        mount -t tmpfs -o "size=${1-4m},mode=0700" none "$XDG_STATE_HOME" || fail 'mount'
        trap 'umount "$XDG_STATE_HOME"' EXIT
}
fill() { head -c 100000000 /dev/zero >"$XDG_STATE_HOME/filler" 2>/dev/null || true; }
drain() { rm -f "$XDG_STATE_HOME/filler"; }
cd_run() { timeout -k 5 60 "$C" "$@"; }
runs() { ls -A "$XDG_STATE_HOME/cofferdam/runs"; }
# whole FILE: each line is an event, the numbers rise
whole() { python3 -c 'import json,sys; s=[json.loads(l)["seq"] for l in open(sys.argv[1])]; assert s and s == sorted(set(s)), s' "$1" || fail "$1 is torn"; }

nothing_starts() {
        disk
        cd_run run -- true
        fill
        status 125 cd_run run -- touch ran 2>err
        has "$(cat err)" 'No space left on device'
        eq 1 "$(wc -l <err)" 'lines on stderr'
        status 125 cd_run start 2>err
        has "$(cat err)" 'No space left on device'
        [ ! -e ran ] || fail 'it ran'
        drain
        cd_run gc
        eq '' "$(runs)"
}

# The command does not notice; what could not be written is said, and mended later.
state_and_events() {
        local id file
        disk
        id=$(cd_run start)
        file=$XDG_STATE_HOME/cofferdam/runs/$id/events.jsonl
        fill
        for i in $(seq 40); do eq "$i" "$(cd_run exec "$id" echo "$i" </dev/null)"; done
        whole "$file"
        drain
        cd_run exec "$id" true </dev/null
        whole "$file"
        has "$(cat "$file")" '"sandbox_degraded"'
        has "$(cat "$file")" 'before this'
        fill
        cd_run stop -t 0 "$id" >/dev/null
        wait_for 60 none_of_ours
        whole "$file"
        eq "$id" "$(cd_run ps -aq)"
        drain
        eq "$id removed" "$(cd_run gc)"
}
runs_end_as_they_end() {
        disk
        "$C" run --keep -- sh -c ': >ready; while [ ! -e go ]; do sleep 0.02; done; exit 7' 2>err &
        wait_for 60 test -e ready
        fill
        : >go
        status 7 wait $!
        has "$(cat err)" 'could not be written'
        drain
        has "$(cd_run gc)" 'kept for review'
        eq '' "$(cd_run gc)"
}

upper_is_full() {
        local mode engine
        disk
        for engine in fuse overlay; do
                mode=$(sandbox --workspace-mode cow --engine $engine -- sh -c 'echo small >s; head -c 9000000 /dev/zero >big; echo $?; exit 5' 2>err) || eq 5 $? "exit status: $(cat err)"
                eq 1 "$mode" 'head'
                has "$(cat err)" 'No space left on device'
                [ ! -e big ] || fail 'it is on the host'
                eq small "$(cat "$XDG_STATE_HOME/cofferdam/runs"/*/upper/0/s)"
                cd_run discard
        done
        sandbox -- sh -c 'mkdir .vscode; echo ok >.vscode/tasks.json; head -c 9000000 /dev/zero >.vscode/launch.json' 2>err || true
        has "$(cat err)" 'No space left on device'
        rm -f err
        has "$(cd_run diff)" .vscode/tasks.json
        cd_run discard
}

log_is_full() {
        local id n
        disk
        id=$(cd_run start)
        n=$(cd_run exec -d "$id" sh -c 'seq 1 1000000; : >written' </dev/null)
        wait_for 60 test -e written || fail 'the command hangs'
        wait_for 60 lost || fail "$(cd_run events "$id")"
        has "$(cd_run logs "$id" "$n" | head -n 2 | xargs)" '1 2'
        rm "$XDG_STATE_HOME/cofferdam/runs/$id/log/$n.out"
        eq ok "$(cd_run exec "$id" echo ok </dev/null)"
        cd_run stop -t 0 "$id" >/dev/null
        cd_run rm "$id"
}
lost() { cd_run events "$id" | grep -q "all output of command $n"; }

t 'a run does not start' nothing_starts
t 'state and events' state_and_events
t 'a run ends as its command does' runs_end_as_they_end
t 'what is held' upper_is_full
t 'logs' log_is_full
finish
