#!/usr/bin/env bash
# How long until the first command of a run has spoken in its pod, against kubectl run + wait + exec; and a further
# `true`, against kubectl exec. In turn, on the server of the lab: COFFERDAM_K8S=1 ./dev test starts it, or K8S_LAB says
# where it is.
# Usage: kube.sh [COFFERDAM]; STARTS=N (default 10), ROUNDS=N (default 40)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
rounds=$(dirname "$cofferdam")/tests/bench/rounds
[ -x "$rounds" ] || rounds=$here/../../build/tests/bench/rounds
export KUBECONFIG=${K8S_LAB:-/var/tmp/k8s-lab}/conf/admin.kubeconfig
image=lab.local/busybox:1
ns=cofferdam-bench-$$
[ -r "$KUBECONFIG" ] || { echo "kube.sh: no lab: '$KUBECONFIG' is not there" >&2 && exit 1; }
k() { kubectl -n "$ns" "$@"; }

place=$(mktemp -d /tmp/cofferdam-bench.XXXXXX)
id=
cleanup() {
        [ -z "$id" ] || "$cofferdam" rm -f "$id"
        kubectl delete ns "$ns" --wait=false
        rm -rf "$place"
} >/dev/null 2>&1
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
kubectl create ns "$ns" >/dev/null || exit 1
mkdir "$place/work" "$place/run"
export XDG_STATE_HOME=$place XDG_RUNTIME_DIR=$place/run
printf '{"version":1,"driver":"kubernetes","image":"%s","kubernetes":{"namespace":"%s"}}' "$image" "$ns" >"$place/spec.json"
while ! k get sa default >/dev/null 2>&1; do sleep 0.2; done

ms() { echo $((($(date +%s%N) - $1) / 1000000)); }

# Each until it has heard the command; the end of the pod is not measured, and over before the next one starts.
by_cofferdam() {
        local since line fd
        since=$(date +%s%N)
        exec {fd}< <("$cofferdam" run -s "$place/spec.json" -w "$place/work" -- echo there 2>"$place/err")
        read -r line <&"$fd"
        [ "$line" = there ] || { echo "kube.sh: cofferdam: $(cat "$place/err")" >&2 && return 1; }
        ms "$since"
        cat <&"$fd" >/dev/null
        exec {fd}<&-
}
by_kubectl() {
        local since
        since=$(date +%s%N)
        k run bench --image="$image" --restart=Never --command -- sleep 600 >/dev/null 2>&1 || return 1
        k wait --for=condition=Ready pod/bench --timeout=120s >/dev/null || return 1
        [ "$(k exec bench -- echo there)" = there ] || return 1
        ms "$since"
        k delete pod bench --grace-period=0 --force --wait=true >/dev/null 2>&1
}
table() { # NAME FILE
        sort -n "$2" | awk -v name="$1" '{ v[NR] = $1 } END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
                printf "%-34s median %6d ms   min %6d ms   %d starts\n", name, m, v[1], NR }'
}

echo '### Start to first command'
for ((i = 0; i < ${STARTS:-10}; i++)); do
        if ((i % 2)); then order=(by_kubectl by_cofferdam); else order=(by_cofferdam by_kubectl); fi
        for who in "${order[@]}"; do "$who" >>"$place/$who" || exit 1; done
done
table 'kubectl run + wait + exec' "$place/by_kubectl"
table 'cofferdam run' "$place/by_cofferdam"

echo '### A further true'
id=$("$cofferdam" start -s "$place/spec.json" -w "$place/work") || exit 1
pod=$(k get pods -o name | head -n 1)
"$rounds" "${ROUNDS:-40}" 'kubectl exec' kubectl -n "$ns" exec "$pod" -- true :: 'cofferdam exec' "$cofferdam" exec "$id" true
