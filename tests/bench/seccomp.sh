#!/usr/bin/env bash
# What the system call filter costs per call, in nanoseconds: bare, in a sandbox, and with a profile of the operator's
# Usage: seccomp.sh [COFFERDAM] [PROFILE]; PROFILE defaults to the one that podman ships, when it is there
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
profile=${2:-/usr/share/containers/seccomp.json}
place=$(mktemp -d /tmp/cofferdam-bench.XXXXXX)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$place"
mkdir "$place/work" "$place/state"
callcost=$(dirname "$cofferdam")/../tests/bench/callcost
[ -x "$callcost" ] || callcost=$here/../../build/tests/bench/callcost
cp "$callcost" "$place/work/callcost"
export XDG_STATE_HOME=$place/state
cd "$place/work" || exit 1

# best NAME COMMAND...: the smaller of five runs of each line, to a file
best() {
        local _
        for _ in 1 2 3 4 5; do "${@:2}" || exit 1; done |
                awk '!($1 in m) || $2 < m[$1] { m[$1] = $2 } !seen[$1]++ { order[++n] = $1 }
                        END { for (i = 1; i <= n; i++) print order[i], m[order[i]] }' >"$place/$1"
}
best bare ./callcost
best sandbox "$cofferdam" run -- ./callcost
files=("$place/bare" "$place/sandbox")
heads='bare | in a sandbox'
if [ -r "$profile" ]; then
        printf 'version: 1\nsecurity: {seccomp: %s}\n' "$profile" >"$place/spec.yaml"
        best profile "$cofferdam" run --spec "$place/spec.yaml" -- ./callcost
        files+=("$place/profile")
        heads+=' | with a profile'
fi
echo "| call, ns | $heads |"
printf '|---|%s\n' "$(printf -- '---:|%.0s' "${files[@]}")"
paste -d' ' "${files[@]}" | awk '{ printf "| %s |", $1; for (i = 2; i <= NF; i += 2) printf " %s |", $i; print "" }'
