#!/usr/bin/env bash
# What the helper processes of an idle run weigh: proportional (PSS) and resident (RSS) memory of each, in KiB
# Usage: mem.sh [COFFERDAM]
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
place=$(mktemp -d /tmp/cofferdam-bench.XXXXXX)
cleanup() {
        if [ -n "${client-}" ]; then
                kill "$client"
                wait "$client"
        fi 2>/dev/null
        rm -rf "$place"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

weigh() { # weigh NAME PID
        local pss rss
        pss=$(awk '/^Pss:/ { print $2 }' "/proc/$2/smaps_rollup" 2>/dev/null)
        rss=$(awk '/^Rss:/ { print $2 }' "/proc/$2/smaps_rollup" 2>/dev/null)
        if [ -z "$pss" ]; then
                printf '| %-12s | %8s | %8s |\n' "$1" '?' '?'
                return
        fi
        printf '| %-12s | %8s | %8s |\n' "$1" "$pss" "$rss"
        total=$((total + pss))
}

mkdir "$place/work" && cd "$place/work" || exit 1
# something to serve: an idle run has been used before it became idle
for i in $(seq 200); do echo "$i" >"f$i"; done
XDG_STATE_HOME=$place/state "$cofferdam" run -- sh -c 'cat f* >all; ls -lR . >/dev/null; : >ready; sleep 60' </dev/null &
client=$!
for _ in $(seq 100); do [ ! -e ready ] || break; sleep 0.1; done
[ -e ready ] || { echo 'the run did not start' >&2; exit 1; }
sleep 1
supervisor=$(tr ' ' '\n' <"/proc/$client/task/$client/children" | head -n 1)
total=0
printf '| process      | PSS KiB  | RSS KiB  |\n|--------------|----------|----------|\n'
weigh run "$client"
weigh supervisor "$supervisor"
# shellcheck disable=SC2013 # numbers
for pid in $(cat "/proc/$supervisor/task/$supervisor/children"); do
        if grep -qE '^NSpid:.*[[:space:]]1$' "/proc/$pid/status"; then weigh init "$pid"; else weigh fsd "$pid"; fi
done
printf '| %-12s | %8s |          |\n' sum "$total"
echo "target: 10240 KiB; $((total * 100 / 10240)) % of it"
