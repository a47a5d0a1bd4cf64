#!/usr/bin/env bash
# Whoever reads the events of a run, slowly, late or not at all: the run does not wait for it
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

numbers() { python3 -c 'import json,sys; s=[json.loads(l)["seq"] for l in open(sys.argv[1])]; assert s == list(range(1, len(s)+1)), s; print(len(s))' "$1"; }
# many N: the options of a run with about N KiB of events: each name is 240 bytes long, and held
many() { echo "for i in \$(seq $1); do : >h\$i-$(printf 'x%.0s' $(seq 230)); done; echo done"; }
# Nobody reads and the pipe is full, more is said than is kept for the reader. Red when events_emit() waits.
nobody_reads() {
        mkfifo pipe
        sleep 600 <>pipe &
        exec 5>pipe
        sandbox --hold 'h*' --events fd:5 -- sh -c "$(many 1500)" >out
        kill %1
        eq 'done' "$(cat out)"
        wait_for 60 none_of_ours || fail 'the supervisor still waits for the reader'
        file=$(ls "$T"/state/cofferdam/runs/*/events.jsonl)
        numbers "$file"
        has "$(grep sandbox_degraded "$file")" 'does not keep up'
        "$C" discard
}

# One that is slow gets all of it, also what is left when the run is over. Red without events_drain().
slow_reader() {
        mkfifo pipe
        { sleep 1; while read -r line; do echo "$line"; done; } <pipe >got &
        sandbox --hold 'h*' --events pipe -- sh -c "$(many 300)"
        wait
        numbers got
        eq "$(cat "$T"/state/cofferdam/runs/*/events.jsonl)" "$(cat got)"
        "$C" discard
}

reader_dies() {
        mkfifo pipe
        head -n 1 <pipe >got &
        sandbox --hold 'h*' --events pipe -- sh -c "$(many 50); exit 7" || eq 7 $?
        wait
        has "$(cat got)" sandbox_started
        numbers "$T"/state/cofferdam/runs/*/events.jsonl
        "$C" discard
}

# up to the crash, and a line that was cut off is ended by the next who writes
complete_after_a_crash() {
        local id file
        id=$("$C" start --hold 'h*')
        file=$T/state/cofferdam/runs/$id/events.jsonl
        timeout 100 "$C" events -f "$id" >followed &
        "$C" exec "$id" sh -c "$(many 100)"
        kill -KILL "$("$C" inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["supervisor"]["pid"])')"
        wait %1 || fail 'the follower does not end'
        eq "$(cat "$file")" "$(cat followed)" 'followed'
        eq 100 "$(grep -c '"type":"guard_held"' "$file")"
        printf '{"seq":999,"time":' >>"$file"
        "$C" gc >/dev/null
        python3 - "$file" <<'P'
import json, sys
lines = open(sys.argv[1]).read().split("\n")
bad = [l for l in lines[:-1] if not l.endswith("}")]
assert bad == ['{"seq":999,"time":'] and lines[-1] == "", bad
s = [json.loads(l)["seq"] for l in lines[:-1] if l.endswith("}")]
assert s == list(range(1, len(s) + 1)), s
P
        has "$(tail -n 1 "$file")" orphan_reaped
        "$C" rm -f "$id"
}

# What lands at the end is told by another process; the sink hears of it in order.
landing_is_told() {
        mkfifo pipe
        cat <pipe >got &
        sandbox --workspace-mode staged --events pipe --keep -- sh -c 'echo 1 >a; echo 2 >b'
        wait
        eq "$(cat "$T"/state/cofferdam/runs/*/events.jsonl)" "$(cat got)"
        numbers got
        has "$(cat got)" apply_finished
        for id in $("$C" ps -aq); do "$C" rm "$id"; done
}

# A flood on both streams of a detached command: bounded on the disk, and the run answers meanwhile.
flood_of_logs() {
        local id n size
        id=$("$C" start)
        n=$("$C" exec -d "$id" sh -c 'yes out & yes err >&2 & until [ -e end ]; do sleep 0.1; done; kill %1 %2')
        for _ in 1 2 3; do timeout 60 "$C" exec "$id" true || fail 'it does not answer'; done
        sleep 2
        : >end
        over() { [ "$("$C" inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["commands"])')" = '[]' ]; }
        wait_for 60 over || fail 'the flood does not end'
        size=$(du -sb "$XDG_STATE_HOME/cofferdam/runs/$id/log" | cut -f1)
        [ "$size" -le $((33 << 20)) ] || fail "logs of $size bytes"
        eq out "$("$C" logs "$id" "$n" | tail -n 1)"
        eq '' "$("$C" logs "$id" "$n" | grep -vx out | head -n 2 | grep -v '^[out]*$')" 'torn lines'
        "$C" stop -t 0 "$id" >/dev/null
        "$C" rm "$id" >/dev/null
}

t 'nobody reads' nobody_reads
t 'a slow reader gets everything' slow_reader
t 'the reader dies' reader_dies
t 'complete after a crash' complete_after_a_crash
t 'the sink hears of what lands' landing_is_told
t 'a flood of logs' flood_of_logs
finish
