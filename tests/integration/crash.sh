#!/usr/bin/env bash
# kill -9 at random points: nothing of a run stays but what it holds
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# COFFERDAM_SEED repeats a series. Red when fsd does not hold a lock on its upper, when gc does not remove the control
# group of a run that had not written its state, when the client does not bury what the supervisor left.
random_points() {
        local n=24
        [ -z "${COFFERDAM_LONG-}" ] || n=200
        python3 "$here/crash.py" "$C" "$W" "${COFFERDAM_POINTS:-$n}" "${COFFERDAM_SEED:-$RANDOM}" || fail 'something was left'
}

# A run of which nobody has the id ends. Red when the supervisor lets go before it is answered.
nobody_heard() {
        status 125 "$C" start >/dev/full 2>err
        has "$(cat err)" 'tell the id of the run: No space left on device'
        wait_for 60 none_of_ours || fail 'it lives on'
        eq '' "$(ls -A "$T/state/cofferdam/runs")" 'runs'
}

# as ID PID START BOOT: the state of a run as another supervisor's; "" leaves a value as it is
as() {
        python3 - "$T/state/cofferdam/runs/$1/state.json" "$2" "$3" "$4" <<'P'
import json, os, sys
path, pid, start, boot = sys.argv[1:]
state = json.load(open(path))
s = state["supervisor"]
if pid: s["pid"] = int(pid)
if start: s["start_time"] = int(start)
if boot: s["boot_id"] = boot
json.dump(state, open(path + ".new", "w"))
os.rename(path + ".new", path)
P
}
status_of() { "$C" inspect "$1" | sed -n 's/^  "status": "\(.*\)",/\1/p'; }
start_of() { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f20; }

# The machine was switched off: nobody holds a lock, and the numbers are nobody's or somebody else's by now.
after_a_reboot() {
        local id row
        for row in "0x" '999999999 1 x' "$$ 1 " "$$ $(start_of $$) another"; do
                # shellcheck disable=SC2086 # words
                set -- $row
                id=$("$C" start)
                "$C" exec "$id" sh -c 'mkdir -p .vscode; echo held >.vscode/tasks.json' </dev/null
                kill -KILL "$("$C" inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["supervisor"]["pid"])')"
                wait_for 60 none_of_ours
                [ "$1" = 0x ] || as "$id" "$1" "${2-}" "${3-}"
                eq dead "$(status_of "$id")" "with '$row'"
                eq '' "$("$C" ps -q)"
                status 125 "$C" exec "$id" true 2>err
                has "$(cat err)" 'cofferdam gc'
                eq "$id kept for review" "$("$C" gc)" "with '$row'"
                eq finished "$(status_of "$id")"
                "$C" apply "$id"
                eq held "$(cat .vscode/tasks.json)"
                rm -r .vscode
                "$C" rm "$id" 2>err || has "$(cat err)" 'no run'
        done
}

# Whatever its state says: a run whose supervisor holds the lock lives.
gc_believes_the_lock() {
        local id pid
        id=$("$C" start)
        pid=$("$C" inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["supervisor"]["pid"])')
        as "$id" 999999999 1 another
        eq '' "$("$C" gc)"
        "$C" run -- true
        rm "$T/state/cofferdam/runs/$id/state.json"
        eq '' "$("$C" gc)"
        "$C" run -- true
        kill -0 "$pid" || fail 'the supervisor is gone'
        eq ok "$("$C" exec "$id" echo ok </dev/null)"
        "$C" stop -t 0 "$id" >/dev/null
        "$C" rm "$id" >/dev/null
}

# What a write that did not come to its end leaves in an upper. Red when the run is kept for whatever is in there.
on_the_way_is_no_change() {
        local id file
        mkdir .vscode
        for file in '' tasks.json; do
                id=$("$C" start)
                kill -KILL "$("$C" inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["supervisor"]["pid"])')"
                wait_for 60 none_of_ours
                mkdir -p "$T/state/cofferdam/runs/$id/upper/0/.vscode"
                [ -z "$file" ] || echo held >"$T/state/cofferdam/runs/$id/upper/0/.vscode/$file"
                "$C" gc >/dev/null
                eq "${file:+$id}" "$(ls "$T/state/cofferdam/runs")" "with '$file'"
        done
        eq 'A .vscode/tasks.json' "$("$C" diff "$id" | cut -d' ' -f1,2)"
        "$C" rm -f "$id" >/dev/null
}

t 'after a reboot' after_a_reboot
t 'what is only on the way is no change' on_the_way_is_no_change
t 'a lock that is held counts' gc_believes_the_lock
t 'nobody hears that a run lives' nobody_heard
t 'killed at random points' random_points
finish
