#!/usr/bin/env bash
# Credentials of a run in a pod, against the tests' own API server: where they are, and where they are not
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube.sh
. "$(dirname "$0")/kube.sh"
kube_start

secret=hunter2-$RANDOM$RANDOM

normal() {
        fake set '{"pods": [], "deny": [], "delete_seconds": 0.05, "secret_seconds": 0.05, "tokens": {"admin-token": "admin"}}'
        fake faults '[]'
        forget
        mkdir -p ws
        echo one >ws/a
}
words=(-d kubernetes --image i --workspace-target /copy/space)
run() { timeout -k 5 90 "$C" run "${words[@]}" -w "$W/ws" "$@"; }
start() { timeout -k 5 90 "$C" start "${words[@]}" -w "$W/ws" "$@"; }
query() { fake_get objects | /usr/bin/python3 -c "import json, sys
made = [x for x in json.load(sys.stdin) if x.get('metadata', {}).get('labels', {}).get('app.kubernetes.io/managed-by') == 'ironflow']
pods, secrets = ([x for x in made if x['kind'] == k] for k in ('Pod', 'Secret'))
print($1)"; }
nothing_left() { [ "$(query 'len(made)')" = 0 ]; }
clear() {
        wait_for 60 nothing_left || fail "left behind: $(query '[x["metadata"]["name"] for x in made]')"
        wait_for 60 none_of_ours || fail "processes are left: $(ours)"
}

# nowhere VALUE: not in an object but the data of Secrets, nor in a URL; not in the run's directory, its events and reports,
# nor the command lines and environments of what serves it
nowhere() {
        local run pid what
        fake_get objects >seen.objects
        fake_get log | tail -n "+$((${seen-0} + 1))" >seen.log
        /usr/bin/python3 - "$1" <<'PY' || fail 'in the cluster'
import base64, json, sys
forms = sys.argv[1], base64.b64encode(sys.argv[1].encode()).decode()[:-4]
for o in json.load(open("seen.objects")):
    if o["kind"] == "Secret":
        o.pop("data", None)
    assert not any(f in json.dumps(o) for f in forms), o["kind"]
for q in map(json.loads, open("seen.log")):
    if "/secrets" in q["path"]:
        q.pop("body", None)
    assert not any(f in json.dumps(q) for f in forms), q["path"]
PY
        grep -rqF "$1" "$T/state" "$T/run" && fail 'in the state directory'
        for run in "$T"/state/cofferdam/runs/*; do
                [ -d "$run" ] || continue
                "$C" inspect "${run##*/}" >report 2>&1 || true
                "$C" events "${run##*/}" >>report 2>&1 || true
                lacks "$(cat report)" "$1"
        done
        for pid in $(ours); do
                for what in cmdline environ; do
                        tr '\0' '\n' <"/proc/$pid/$what" 2>/dev/null | grep -qF "$1" && fail "in $what of $pid"
                done
        done
        return 0
}

# red where start() is handed all variables of the commands: the value stood in the pod's specification
as_variables() {
        local id
        normal
        id=$(TOKEN=$secret start --secret A=env:TOKEN,as=env --secret B=env:TOKEN,as=env,env=INSIDE)
        # shellcheck disable=SC2016
        eq "$secret $secret none" "$("$C" exec "$id" sh -c 'echo "$A $INSIDE ${TOKEN-none}"')"
        script -qec "$C exec -t $id sh -c 'echo \$A'" /dev/null </dev/null >out
        has "$(cat out)" "$secret"
        nowhere "$secret"
        "$C" stop "$id" >/dev/null
        clear
}

t 'variables come with each command, and stand in no object' as_variables
kube_stop
finish
