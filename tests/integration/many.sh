#!/usr/bin/env bash
# Many runs at the same moment: each works or fails cleanly, ps is right all the time
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
many=40
[ -z "${COFFERDAM_LONG-}" ] || many=200

cd_run() { timeout -k 5 120 "$C" "$@"; }

# What ps says is one line for each run that lives, whole and of this list.
watch_ps() {
        while [ ! -e over ]; do
                cd_run ps --json >ps.json 2>ps.err || { cat ps.err >>ps.bad; continue; }
                python3 -c 'import json; rows = json.load(open("ps.json"))
for r in rows: assert len(r["id"]) == 12 and r["status"] in ("starting", "running"), r' 2>>ps.bad || true
        done
}

runs_at_once() {
        local i rc failed=0
        watch_ps &
        watcher=$!
        for i in $(seq "$many"); do
                { rc=0; cd_run run -- sh -c "echo $i; exit $((i % 100))" >"out.$i" 2>"err.$i" || rc=$?; echo $rc >"rc.$i"; } &
                pids[i]=$!
        done
        for i in $(seq "$many"); do wait "${pids[i]}" || true; done
        : >over
        wait $watcher
        for i in $(seq "$many"); do
                rc=$(cat "rc.$i")
                if [ "$rc" = 125 ]; then # refused for want of something: one line, nothing ran
                        failed=$((failed + 1))
                        eq '1 ' "$(wc -l <"err.$i") $(cat "out.$i")" "run $i: $(cat "err.$i")"
                        continue
                fi
                eq "$((i % 100)) $i" "$rc $(cat "out.$i")" "run $i: $(cat "err.$i")"
                eq '' "$(cat "err.$i")" "stderr of run $i"
        done
        eq '' "$(cat ps.bad 2>/dev/null)" 'ps'
        echo "$failed of $many were refused: $(cat err.* | sort | uniq -c | head -n 3)"
        [ "$failed" = 0 ] || [ "$many" -gt 40 ] || fail 'some were refused'
        eq '' "$(ls -A "$T/state/cofferdam/runs")" 'runs'
}

# all of them live at the same time
starts_at_once() {
        local i
        for i in $(seq "$many"); do
                { rc=0; cd_run start --name "n$i" >"id.$i" 2>"err.$i" || rc=$?; echo $rc >"rc.$i"; } &
                pids[i]=$!
        done
        for i in $(seq "$many"); do wait "${pids[i]}" || true; done
        for i in $(seq "$many"); do
                eq 0 "$(cat "rc.$i")" "start $i: $(cat "err.$i")"
        done
        eq "$(cat id.* | sort)" "$(cd_run ps -q | sort)" 'ps'
        for i in 1 $((many / 2)) "$many"; do eq "$i" "$(cd_run exec "n$i" echo "$i" </dev/null)"; done
        eq '' "$(cd_run gc)" 'gc'
        # shellcheck disable=SC2046 # ids
        cd_run stop -t 0 $(cat id.*) >/dev/null
        eq '' "$(cd_run ps -q)"
        # shellcheck disable=SC2046 # ids
        cd_run rm $(cat id.*) >/dev/null
        eq '' "$(ls -A "$T/state/cofferdam/runs")" 'runs'
}

t "$many runs at once" runs_at_once
t "$many starts at once" starts_at_once
finish
