#!/usr/bin/env bash
# What the work may use. As root by control groups of version 1, or 2 where the host has them; as a user by rlimits,
# which have to be asked for.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

bomb='x = bytearray(400 << 20); print("survived")'
weak=()
[ "$(id -u)" = 0 ] || weak=(--isolation degrade)
groups() { find /sys/fs/cgroup -name 'cofferdam-*' ! -name 'cofferdam-probe-*' 2>/dev/null; }
inspected() { timeout 100 "$C" inspect "$1" | python3 -c "import json,sys; d = json.load(sys.stdin)[0]; print(d$2)"; }
# a second sandbox answers while the first is busy: the time is generous, it only tells stuck from slow
neighbour_answers() { eq ok "$(mkdir -p next && timeout 100 "$C" run -w next -- echo ok)" neighbour; }

strict_refuses() {
        [ "$(id -u)" != 0 ] || skip 'only a user has none: root has control groups'
        status 125 sandbox --memory 64Mi -- true 2>err
        has "$(cat err)" 'limits.memory: no control group'
        has "$(cat err)" 'systemd-run'
        status 125 sandbox --cpus 1 -- true 2>err
        status 0 sandbox --pids 50 -- true
}

# red when cgroup_enter() is left out
memory_bomb() {
        local rc=0
        sandbox "${weak[@]}" --memory 64Mi -- /usr/bin/python3 -c "$bomb" >out 2>err || rc=$?
        eq '' "$(cat out)"
        if [ "$(id -u)" = 0 ]; then
                eq 137 "$rc"
                has "$(cat err)" "out of memory: the limit of 64 MiB was reached"
                has "$(cat err)" "python3"
                rc=0
                sandbox --events ev --memory 64Mi -- sh -c "/usr/bin/python3 -c '$bomb'; exit 9" >out 2>err || rc=$?
                eq 9 "$rc"
                has "$(cat err)" "a process of 'sh'"
                has "$(cat ev)" '"failure_code":"OUT_OF_MEMORY"'
                has "$(cat ev)" '"oom":true'
        else
                eq 1 "$rc"
                has "$(cat err)" MemoryError
        fi
        eq '' "$(groups)" 'control groups left'
}

# what the tmpfs hold counts too
shm_filler() {
        local rc=0
        [ "$(id -u)" = 0 ] || skip 'only root has a control group here'
        sandbox --memory 64Mi -- sh -c 'head -c 200M /dev/zero >/dev/shm/x' 2>err || rc=$?
        [ "$rc" != 0 ] || fail 'wrote 200 MB'
}

fork_bomb() {
        sandbox --pids 40 --timeout 100s "${weak[@]}" -- sh -c 'f() { f & f & wait; }; f 2>/dev/null; true' >/dev/null 2>&1 &
        sleep 1
        neighbour_answers
        wait $! || true
        sandbox --pids 40 "${weak[@]}" -- /usr/bin/python3 -c '
import os
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            os.read(os.pipe()[0], 1)
        n += 1
except OSError: pass
print(n, flush=True)
os._exit(0)' >n
        [ "$(cat n)" -lt 45 ] || fail "$(cat n) processes"
}

# half a processor: the work gets clearly less than a whole one
cpu_share() {
        local ms
        [ "$(id -u)" = 0 ] || skip 'only root has a control group here'
        sandbox --cpus 0.2 -- /usr/bin/python3 -c '
import time
end = time.monotonic() + 2
while time.monotonic() < end: pass
print(int(time.process_time() * 1000))' >ms
        ms=$(cat ms)
        [ "$ms" -lt 1000 ] || fail "$ms ms of 2000"
}

rlimits() {
        cat >spec.yaml <<'Y'
limits: {open_files: 100, file_size: 1Mi}
Y
        eq 100,100 "$(sandbox --spec spec.yaml -- bash -c 'echo $(ulimit -Sn),$(ulimit -Hn)')"
        status 0 sandbox --spec spec.yaml -- sh -c 'head -c 2M /dev/zero >big 2>/dev/null; [ $(stat -c %s big) -le 1048576 ]'
        echo 'limits: {open_files: 1000000000}' >spec.yaml
        status 2 sandbox --spec spec.yaml -- true 2>err
        has "$(cat err)" 'ulimit -Hn'
}

said() {
        local id
        id=$(timeout 100 "$C" start "${weak[@]}" --memory 64Mi --pids 50 --cpus 1.5)
        if [ "$(id -u)" = 0 ]; then
                has "$(inspected "$id" "['plan']['limits']['memory']['by']")" cgroup
                eq 0 "$(inspected "$id" "['plan']['degraded']" | grep -c wanted)"
                [ -d "$(inspected "$id" "['plan']['cgroups'][0]")" ] || fail 'no such group'
        else
                has "$(inspected "$id" "['plan']['limits']['memory']['by']")" rlimit
                has "$(timeout 100 "$C" events --type sandbox_degraded "$id")" limits.memory
        fi
        timeout 100 "$C" stop -t 0 "$id" >/dev/null
        timeout 100 "$C" rm "$id" >/dev/null
        eq '' "$(groups)" 'control groups left'
}

# the supervisor cannot clear up: gc does
killed_leaves_no_group() {
        local id pid
        [ "$(id -u)" = 0 ] || skip 'only root has a control group here'
        id=$(timeout 100 "$C" start --memory 64Mi)
        pid=$(inspected "$id" "['supervisor']['pid']")
        kill -KILL "$pid"
        wait_for 60 none_of_ours
        [ -n "$(groups)" ] || fail 'the test has nothing to look for'
        timeout 100 "$C" gc >/dev/null
        eq '' "$(groups)" 'control groups left'
}

# a million lines a second: the reader is a file, and a neighbour does not notice
logger() {
        local id
        id=$(timeout 100 "$C" start)
        timeout 100 "$C" exec -d "$id" -- yes 'a line of a log that nobody reads' >/dev/null
        sleep 1
        neighbour_answers
        eq ok "$(timeout 100 "$C" exec "$id" echo ok </dev/null)"
        timeout 100 "$C" stop -t 1 "$id" >/dev/null
        timeout 100 "$C" rm "$id" >/dev/null
}

tmp_fillers() {
        status 0 sandbox --tmp-size 4Mi -- sh -c '! head -c 8M /dev/zero >/tmp/x 2>err; grep -q "No space" err'
        sandbox --tmp-size 4Mi -- /usr/bin/python3 -c '
n = 0
try:
    while n < 200000:
        open(f"/tmp/f{n}", "w").close(); n += 1
except OSError: pass
print(n)' >n
        [ "$(cat n)" -lt 200000 ] || fail 'any number of inodes in 4 MiB'
}

# red where pid 1 starts commands with its own score: a limit that a large and a small command share ends pid 1 for the small
commands_die_first() {
        local base
        read -r base </proc/self/oom_score_adj
        eq $((base + 500)) "$(sandbox -- cat /proc/self/oom_score_adj)" 'score of a command'
        eq $((base + 500)) "$(sandbox -- sh -c 'cat /proc/self/oom_score_adj')" 'and of its children'
}

t 'what cannot be enforced is refused' strict_refuses
t 'a memory bomb' memory_bomb
t 'a filler of /dev/shm' shm_filler
t 'a fork bomb, and a neighbour' fork_bomb
t 'a share of the processors' cpu_share
t 'open files and file size' rlimits
t 'who enforces what is said' said
t 'a killed supervisor leaves no control group' killed_leaves_no_group
t 'a flood of lines' logger
t 'fillers of /tmp: bytes and inodes' tmp_fillers
t 'who is killed first when memory runs out' commands_die_first
finish
