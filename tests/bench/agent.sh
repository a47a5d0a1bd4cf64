#!/usr/bin/env bash
# How long a tool call takes from the runner's line to the launcher's answer: a tool of the launcher itself, one that is
# refused, a program of the operator, and the same program started without any of this; then the memory of the real
# runner while it waits
# Usage: agent.sh [COFFERDAM]; ROUNDS=N (default 500)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
place=$(mktemp -d /tmp/cofferdam-bench.XXXXXX)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$place"/{bin,libexec,work,state}
cp -L "$cofferdam" "$place/bin/cofferdam"
install -m 755 "$here/../integration/launch-runner.py" "$place/libexec/cofferdam-runner"
printf '#!/bin/sh\nread -r line\necho "{\\"output\\":\\"\\"}"\n' >"$place/answer"
chmod 755 "$place/answer"
cat >"$place/task.json" <<'E'
{"version":1,"node_id":"bench","allowed_tools":["todo_write","mcp__tools__answer"]}
E
cat >"$place/operator.json" <<E
{"version":1,"tools":{"answer":{"description":"","input_schema":{"type":"object"},"command":["$place/answer"]}}}
E
cat >"$place/work/script.py" <<E
import statistics
import subprocess
import time

rounds = ${ROUNDS:-500}


def measure(call):
    times = []
    for i in range(rounds):
        start = time.perf_counter_ns()
        call(i)
        times.append((time.perf_counter_ns() - start) / 1e6)
    times.sort()
    return [round(t, 3) for t in (times[0], statistics.median(times), times[int(rounds * 0.99)])]


begin()
found = {'tool of the launcher': measure(lambda i: ask(f'a{i}', 'todo_write', {'todos': []})),
         'call that is refused': measure(lambda i: ask(f'b{i}', 'bash')),
         'program of the operator': measure(lambda i: ask(f'c{i}', 'mcp__tools__answer'))}
result(output=found)
E
cat >"$place/bare.py" <<E
import statistics
import subprocess
import time

times = []
for i in range(${ROUNDS:-500}):
    start = time.perf_counter_ns()
    subprocess.run(['$place/answer'], input=b'{}\n', capture_output=True)
    times.append((time.perf_counter_ns() - start) / 1e6)
times.sort()
print('| the program alone, started by Python | {:.3f} | {:.3f} | {:.3f} |'.format(times[0], statistics.median(times), times[int(len(times) * 0.99)]))
E
cd "$place/work" || exit 1
echo '| call | minimum ms | median ms | 99 % ms |'
echo '|---|---|---|---|'
XDG_STATE_HOME=$place/state "$place/bin/cofferdam" launch --task "$place/task.json" --operator "$place/operator.json" 2>/dev/null |
        jq -r '.output | to_entries[] | "| \(.key) | \(.value[0]) | \(.value[1]) | \(.value[2]) |"'
python3 "$place/bare.py"
echo
echo '| the runner while it waits for a tool | resident KiB | proportional KiB |'
echo '|---|---|---|'
mkdir "$place/memory"
cd "$place/memory" || exit 1
RUNNER=$(dirname "$cofferdam")/../libexec/cofferdam-runner python3 "$here/../integration/runner.py" memory |
        while read -r rss pss; do echo "| smaps_rollup | $rss | $pss |"; done
