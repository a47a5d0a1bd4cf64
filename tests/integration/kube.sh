# shellcheck shell=bash
# kube.sh - the fake API server (kube-fake.py), for scripts that have sourced lib.sh; one for the whole script in $K
#
# kube_start [JSON SETTINGS]   start it; KUBECONFIG is its; ended with the script
# fake WORD [JSON]             script it: set, faults, compact, cut, status, object (see kube-fake.py)
# fake_get WORD                log, objects
# asked [JQ-LIKE PYTHON]       requests since the last `forget`: python expression on `q` (a dict); prints their number
# drive ARG...                 the client of kubernetes/client/ by hand (kube-drive.c)
K=$T/kube

for program in python3 openssl curl; do
        command -v "$program" >/dev/null || {
                echo "1..0 # SKIP no $program on this machine"
                exit 0
        }
done
[ -x "$HELPERS/kube-drive" ] || {
        echo '1..0 # SKIP the kubernetes driver was not built: ./dev setup'
        exit 0
}

kube_stop() {
        [ -z "${kube_pid-}" ] || kill "$kube_pid" 2>/dev/null
        [ -z "${kube_pid-}" ] || wait "$kube_pid" 2>/dev/null
        kube_pid=
}

kube_start() {
        python3 "$TOP/tests/integration/kube-fake.py" "$K" "${1-{\}}" >"$T/kube.log" 2>&1 &
        kube_pid=$!
        trap 'kube_stop; clean' EXIT
        trap 'echo "Bail out! killed"; kube_stop; clean; exit 143' INT TERM HUP
        wait_for 60 test -s "$K/pid" || { cat "$T/kube.log"; echo 'Bail out! no fake API server'; exit 1; }
        KUBE_URL=https://127.0.0.1:$(cat "$K/port")
        export KUBECONFIG=$K/kubeconfig KUBE_URL
        unset KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT HTTPS_PROXY https_proxy NO_PROXY no_proxy
}

fake() { curl -fsS --max-time 60 --cacert "$K/ca.crt" -X POST -d "${2-{\}}" "$KUBE_URL/fake/$1" >/dev/null; }
fake_get() { curl -fsS --max-time 60 --cacert "$K/ca.crt" "$KUBE_URL/fake/$1"; }
forget() { seen=$(fake_get log | wc -l); }
asked() { fake_get log | tail -n "+$((${seen-0} + 1))" | python3 -c "import json, re, sys
print(sum(1 for q in map(json.loads, sys.stdin) if $1))"; }
drive() { timeout -k 2 100 "$HELPERS/kube-drive" "$@"; }

# pod NAME COMMAND...: make one, and wait until it runs, or has run
pod() {
        local name=$1
        shift
        python3 - "$name" "$@" <<'PY' | drive create pods >/dev/null
import json, sys
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": sys.argv[1], "labels": {"app": sys.argv[1]}}, "spec": {
    "terminationGracePeriodSeconds": 1, "containers": [{"name": "main", "image": "x", "command": sys.argv[2:]}]}}))
PY
        wait_for 60 running "$name"
}
running() { drive get pods "$1" 2>/dev/null | grep -qE '"phase":"(Running|Succeeded|Failed)"'; }
