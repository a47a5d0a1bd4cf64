# shellcheck shell=bash
# net-run.sh - sourced after net-lab.sh: runs on a host whose name server is the lab's
#
# The caller has made the mount namespace, in which /etc/resolv.conf is the lab's from here on.
mount --bind "$T/resolv.conf" /etc/resolv.conf || { echo '1..0 # SKIP no mount over /etc/resolv.conf'; exit 0; }
# an ordinary user has the lab's capabilities, which are not for the runs
as_caller=()
[ "$(id -u)" = 0 ] || as_caller=(setpriv --ambient-caps=-all --inh-caps=-all)
sandbox() { timeout -k 5 150 "${as_caller[@]}" "$C" run --events "$W/events" "$@"; }
# events TYPE: what the latest runs told, a line each
events() { python3 - "$W/events" "$1" <<'PY'
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["type"] == sys.argv[2]:
        d = e["data"]
        print(" ".join(str(d.get(k)) for k in ("host", "port", "count", "rule", "reason")) if e["type"] == "network_blocked"
              else json.dumps(d))
PY
}
cp "$CERT" "$T/ca.pem"
inside='cp /dev/stdin /tmp/ca.pem; export CURL_CA_BUNDLE=/tmp/ca.pem GIT_SSL_CAINFO=/tmp/ca.pem NODE_EXTRA_CA_CERTS=/tmp/ca.pem SSL_CERT_FILE=/tmp/ca.pem;'
# work OPTION... -- SHELL: a run whose command trusts the lab's certificates
work() {
        local options=()
        while [ "$1" != -- ]; do options+=("$1"); shift; done
        sandbox "${options[@]}" -- sh -c "$inside $2" <"$T/ca.pem"
}

# stays OPTION...: a run that lasts until the test ends
stays() {
        work "$@" -- 'touch up; while [ -e up ]; do sleep 0.1; done' &
        trap 'rm -f "$W/up"; wait' EXIT
        wait_for 60 test -e up
}
