#!/usr/bin/env bash
# The network: decisions of 10 and of 10 000 rules, and the egress proxy beside the least that a CONNECT proxy can do
# Usage: net.sh [COFFERDAM]; ROUNDS=N (default 4). The second part needs the measuring kit in COFFERDAM_SHARED/bench.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=$(dirname "$(readlink -f "${1:-$top/build/cofferdam}")")/..
kit=${COFFERDAM_SHARED-$top/../shared}/bench
place=$(mktemp -d /var/tmp/cofferdam-bench.XXXXXX)
chmod 755 "$place" # nginx reads its files as nobody
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM HUP

# The loopback of the host is no rule's to open, so all of it talks to an address that a namespace of ours has on its own.
address=198.51.100.1
if [ -z "${COFFERDAM_BENCH_NET-}" ]; then
        unshare --net true 2>/dev/null || set -- --map-root-user "${1-}" # an ordinary user
        [ "${1-}" = --map-root-user ] && user=--map-root-user && shift
        # shellcheck disable=SC2086 # one option or none
        COFFERDAM_BENCH_NET=1 exec unshare ${user-} --net "$0" "$@"
fi
ip link set lo up && ip address add "$address/32" dev lo || exit 1

echo '## network rules'
"$build/tests/bench/decide" || exit 1

echo '## memory of 10 000 idle tunnels'
"$here/tunnels.py" 10000 19000 "$address" "$build/tests/integration/proxy-serve" 127.0.0.1 19000 "$address:*/tcp" | column -t -s $'\t' ||
        exit 1

PATH=$PATH:$top/build/servers/usr/sbin:/usr/sbin
echo '## egress proxy, per second or GB/s; ratio to the relay (1.00 and more: as fast)'
if [ ! -x "$kit/proxy.sh" ] || ! command -v nginx >/dev/null || ! command -v jq >/dev/null; then
        echo 'left out: needs the measuring kit, nginx and jq'
        exit 0
fi
cp -r "$kit" "$place/kit" && chmod -R u+w "$place/kit"
find "$place/kit" -type f -exec sed -i "s/127\\.0\\.0\\.1/$address/g; s/INADDR_LOOPBACK/0xc6336401/g" {} + # the same
BENCH_HOME=$place "$place/kit/proxy.sh" -r "${ROUNDS:-4}" -f '^(relay-splice|cofferdam)$' -o "$place/out.jsonl" \
        -a "cofferdam=19000=$build/tests/integration/proxy-serve $address 19000 $address:*/tcp" >"$place/said" 2>&1 ||
        { tail -n 5 "$place/said"; exit 1; }
# the ratio is taken within each round, then its median
jq -s -r 'def mid: sort | .[length / 2 | floor];
        def value: if .test | startswith("bulk") then .gb_s elif .test == "tls_new_curl" then 1e6 / .p50_us else .per_s end;
        [.[] | select(.round)] | . + [.[] | select(.test | startswith("new")) |
                {peer, round, test: (.test | sub("new"; "connect")), per_s: (1e6 / .tunnel_p50_us)}] |
        group_by(.test)[] | . as $g |
        [$g[] | select(.peer == "cofferdam")] as $c | [$g[] | select(.peer == "relay-splice")] as $r |
        [$g[0].test, ([$c[] | value] | mid * 100 | round / 100), ([$r[] | value] | mid * 100 | round / 100),
         ([range($c | length) as $i | ($c[$i] | value) / ($r[$i] | value)] | mid * 100 | round / 100)] | @tsv' \
        "$place/out.jsonl" | column -t -N test,cofferdam,relay,ratio
