#!/usr/bin/env bash
# Credentials of a run in a pod, against the tests' own API server: where they are, and where they are not
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube.sh
. "$(dirname "$0")/kube.sh"
kube_start

secret=hunter2-$RANDOM$RANDOM

normal() {
        fake set '{"pods": [], "deny": [], "delete_seconds": 0.05, "secret_seconds": 0.05, "tokens": {"admin-token": "admin"}, "allow": null}'
        fake faults '[]'
        forget
        mkdir -p ws
        echo one >ws/a
}
# the copy's directory inside is /copy/space, so ../.. is the root of the pod, which the fake keeps below its own directory
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

# The link, the variable and the file; one Secret, of the pod alone, made behind it. Red with the value in the order, with
# the owners of the other objects, with a Secret before its pod
as_files() {
        local id
        normal
        printf '%s\nsecond line\n' "$secret" >"$T/source"
        head -c 300 /dev/urandom >"$T/bytes"
        # the owner of everything else
        fake object '{"resource": "pods", "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker", "namespace": "test", "uid": "u-1",
                "labels": {}}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}}}'
        printf '{"version":1,"kubernetes":{"owner_pod":"worker/u-1"}}' >s.json
        id=$(TOKEN=$secret start -s s.json --secret "TOKEN=file:$T/source,as=file,env=TOKEN_FILE,path=/home/claude/.config/app/token" \
                --secret "BYTES=file:$T/bytes,as=file" --secret B=env:TOKEN,as=env)
        # shellcheck disable=SC2016
        "$C" exec "$id" sh -c 'cat ../../run/secrets/TOKEN ../../home/claude/.config/app/token; echo "$TOKEN_FILE"; stat -c %a ../../run/secrets/TOKEN; ls ../../run/secrets' >out
        eq "$(printf '%s\nsecond line\n%s\nsecond line\n/run/secrets/TOKEN\n400\nBYTES\nTOKEN' "$secret" "$secret")" "$(cat out)"
        "$C" exec "$id" cat ../../run/secrets/BYTES | cmp - "$T/bytes"
        eq 1 "$(query 'len(secrets)')"
        eq True "$(query '[(o["kind"], o["uid"]) for o in secrets[0]["metadata"]["ownerReferences"]] == [("Pod", pods[0]["metadata"]["uid"])]')"
        eq True "$(query 'all(secrets[0]["metadata"][k] == {**pods[0]["metadata"][k], **more} for k, more in
                (("annotations", {}), ("labels", {"app.kubernetes.io/component": "prompt-data"})))')"
        eq "pods secrets" "$(fake_get log | tail -n "+$((seen + 1))" | jq -r 'select(.method == "POST" and .code == 201).path' | sed 's|.*/||' | tr '\n' ' ' | sed 's/ $//')"
        nowhere "$secret"
        status 0 "$C" stop "$id" >out
        [ ! -e ws/TOKEN ] || fail 'it came back with the workspace'
        curl -sS --cacert "$K/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$KUBE_URL/api/v1/namespaces/test/pods/worker?gracePeriodSeconds=0" >/dev/null
        clear
}

# A reader sees the old or the new one; another one is not turned back. Red where PATCH has all keys, or reads the source again
replaced() {
        local id new=fresh-$RANDOM$RANDOM
        normal
        echo "$secret" >"$T/source"
        echo other >"$T/other"
        id=$(start --secret "A=file:$T/source,as=file" --secret "B=file:$T/other,as=file")
        echo "$new" | status 0 "$C" secret "$id" A
        has_new() { [ "$("$C" exec "$id" cat ../../run/secrets/A)" = "$new" ]; }
        wait_for 60 has_new || fail 'it does not come in'
        echo else | status 0 "$C" secret "$id" B
        has_other() { [ "$("$C" exec "$id" cat ../../run/secrets/B)" = else ]; }
        wait_for 60 has_other || fail 'the second does not come in'
        has_new || fail 'the first was turned back'
        eq 2 "$("$C" events "$id" | grep -c secret_refreshed)"
        nowhere "$new"
        # a server that repeats what it was sent
        for code in 403 404 409 422 500; do
                fake faults "[{\"method\": \"PATCH\", \"path\": \"/secrets/\", \"status\": $code, \"message\": \"no $new in\", \"times\": 0}]"
                echo "$new" | status 1 "$C" secret "$id" A 2>err
                eq 1 "$(wc -l <err)" "$(cat err)"
                has "$(cat err)" "HTTP $code"
                lacks "$(cat err)" "$new"
        done
        fake faults '[{"method": "PATCH", "path": "/secrets/", "status": 403}]'
        echo "$new" | status 1 "$C" secret "$id" A 2>err
        has "$(cat err)" 'the right to patch secrets, see the Role ironflow-worker-secrets'
        fake faults '[{"method": "PATCH", "path": "/secrets/", "slow": 30}]'
        # nobody waits meanwhile
        echo "$new" | "$C" secret "$id" A >slow.out 2>&1 &
        status 0 timeout 20 "$C" exec "$id" true
        status 0 "$C" stop "$id" >out
        code=0
        wait $! || code=$?
        eq 1 "$code" "$(cat slow.out)"
        has "$(cat slow.out)" 'it has just ended'
        clear
}

# one line with the remedy, without the server's words, and nothing left
refused() {
        normal
        for code in 403 409 422; do
                fake faults "[{\"method\": \"POST\", \"path\": \"/secrets\", \"status\": $code, \"message\": \"$secret\", \"times\": 0}]"
                TOKEN=$secret status 125 run --events events --secret A=env:TOKEN,as=file -- true >out 2>err
                eq 1 "$(wc -l <err)" "$(cat err)"
                lacks "$(cat err events)" "$secret"
                has "$(cat err)" "create Secret"
                has "$(cat err)" "HTTP $code"
                [ "$code" != 403 ] || has "$(cat err)" 'see the Role ironflow-worker-secrets of images/kubernetes/rbac.yaml'
                clear
        done
        fake faults '[]'
        # what does not fit is said before anything is made; what does, does
        forget
        head -c 1048576 /dev/zero >"$T/large"
        echo other >"$T/other"
        status 125 run --secret "A=file:$T/large,as=file" --secret "B=file:$T/other,as=file" -- true >out 2>err
        has "$(cat err)" 'more than 1 MiB together'
        eq 0 "$(asked 'q["method"] == "POST"')" 'requests'
        status 0 run --secret "A=file:$T/large,as=file" -- wc -c ../../run/secrets/A >out
        has "$(cat out)" 1048576
        TOKEN=$secret status 2 run --secret A=env:TOKEN,as=file,path=/home/claude -- true >out 2>err
        has "$(cat err)" 'is in no volume of the pod'
        clear
}

# lives: the processes that look after the pod of a run with MARK in its environment
lives() {
        pgrep -f 'cofferdam-kubernetes life' -u "$(id -u)" | while read -r p; do
                ! grep -qz "^MARK=$1$" "/proc/$p/environ" 2>/dev/null || echo "$p"
        done
}

# between the pod and its Secret, and behind both: gc ends the pod, and the cluster what is the pod's. Nobody lists Secrets
killed_between() {
        local pid
        normal
        fake set '{"deny": ["list secrets", "get secrets", "watch secrets"]}'
        fake faults '[{"method": "POST", "path": "/secrets", "slow": 600, "times": 0}]'
        MARK=a$$ TOKEN=$secret run --secret A=env:TOKEN,as=file -- true >out 2>err &
        pid=$!
        pod_there() { [ "$(query 'len(pods)')" = 1 ]; }
        wait_for 60 pod_there || fail "no pod: $(cat err)"
        kill -9 "$(lives "a$$")"
        code=0
        wait $pid || code=$?
        eq 125 "$code" "$(cat err)"
        eq 1 "$(wc -l <err)" "$(cat err)"
        status 0 "$C" gc >out 2>err
        clear
        fake faults '[]'
        MARK=b$$ TOKEN=$secret start --secret A=env:TOKEN,as=file >id
        eq 1 "$(query 'len(secrets)')"
        kill -9 "$(lives "b$$")"
        dead() { "$C" ps -a | grep "$(cat id)" | grep -q dead; }
        wait_for 60 dead || fail "$("$C" ps -a)"
        status 0 "$C" gc >out 2>err
        clear
}

# both Roles of images/kubernetes/rbac.yaml, and nothing more; without the second, only runs without files
roles_are_enough() {
        local id
        normal
        allow() { # ROLE...
                "$C" manifest --admin --json "$TOP/tests/assets/kube-golden/minimal.yaml" >admin.json
                fake set "$(/usr/bin/python3 -c 'import json, sys
print(json.dumps({"allow": [f"{v} {r}" for o in json.load(open("admin.json")) if o["kind"] == "Role" and o["metadata"]["name"] in sys.argv[1:]
                            for rule in o["rules"] for r in rule["resources"] for v in rule["verbs"]]}))' "$@")"
        }
        allow ironflow-worker ironflow-worker-secrets
        id=$(TOKEN=$secret start --secret A=env:TOKEN,as=file)
        echo new | status 0 "$C" secret "$id" A
        status 0 "$C" stop "$id" >out 2>err
        lacks "$(cat err)" 'left behind'
        clear
        allow ironflow-worker
        TOKEN=$secret status 125 run --secret A=env:TOKEN,as=file -- true >out 2>err
        has "$(cat err)" 'ironflow-worker-secrets'
        TOKEN=$secret status 0 run --secret A=env:TOKEN,as=env -- true >out 2>err
        clear
}

# a credential that ends under a run, read again from its file or asked of its plugin: what watches, what waits in a command,
# what is started later and what brings the workspace back. Red where 401 ends the watch for good, or the file is read once
token_expires() { # HOW
        local id how=$1
        normal
        echo admin-token >"$W/token"
        printf '#!/bin/sh\nprintf %%s "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",\\"status\\":{\\"token\\":\\"$(cat %s)\\"}}"\n' "$W/token" >plugin
        chmod +x plugin
        sed "s|token: [^}]*|$([ "$how" = file ] && echo "tokenFile: $W/token" || echo "exec: {apiVersion: client.authentication.k8s.io/v1, command: $W/plugin}")|" \
                "$K/kubeconfig" >config
        lacks "$(cat config)" admin-token
        cp "$K/ca.crt" .
        export KUBECONFIG=$W/config
        id=$(start)
        mkfifo "$W/go"
        "$C" exec "$id" sh -c 'echo in; cat; echo out' <"$W/go" >waits 2>&1 &
        exec 9>"$W/go"
        wait_for 60 grep -q in waits || fail 'the command does not start'
        # the old one is over, and the new one is not there yet: said, and nothing is lost
        fake set '{"tokens": {"new-token": "later"}}'
        fake compact
        drop_watches() { curl -fsS --cacert "$K/ca.crt" -X POST -d '{"watches": true}' "$KUBE_URL/fake/cut" >/dev/null; }
        drop_watches
        status 125 "$C" exec "$id" true 2>err
        eq 1 "$(wc -l <err)" "$(cat err)"
        has "$(cat err)" 401
        refused_watch() { [ "$(asked 'q["code"] == 401 and "/exec" not in q["path"]')" -gt 0 ]; }
        wait_for 60 refused_watch || fail 'nothing watched'
        echo new-token >"$W/new" && mv "$W/new" "$W/token"
        status 0 "$C" exec "$id" sh -c 'echo made >made'
        echo more >&9
        exec 9>&-
        wait $! || fail "the command that waited: $(cat waits)"
        eq "$(printf 'in\nmore\nout')" "$(cat waits)"
        watched_again() { [ "$(asked 'q.get("user") == "later" and q["method"] == "GET" and q["code"] == 200')" -gt 0 ]; }
        wait_for 60 watched_again || fail 'it is not watched any more'
        # and again, at the end of the run
        fake set '{"tokens": {"last-token": "last"}}'
        echo last-token >"$W/new" && mv "$W/new" "$W/token"
        status 0 "$C" stop "$id" >out
        eq made "$(cat ws/made)"
        fake set '{"tokens": {"admin-token": "admin", "last-token": "last"}}'
        clear
}

# What the service is told is the step of the run; what a run that dies has revoked is its own alone. Red with the run of
# cofferdam as run_id, without the group in issue(), and with the run of the cluster in run_revoke()
whose_the_tokens_are() {
        local key service id other pid keeper=
        normal
        key=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
        IRONFLOW_AUTH_PROXY_ADMIN_KEY=$key "$T/libexec/cofferdam-auth-proxy" --listen 127.0.0.1:0 --admin-listen "unix:$T/admin" >"$T/service" 2>&1 &
        service=$!
        wait_for 60 grep -qs ready: "$T/service" || fail "$(cat "$T/service")"
        begin() { # STEP
                printf '{"version":1,"auth_proxy":{"url":"http://relay.example.org:8080","admin_url":"unix:%s"},"kubernetes":{"run_id":"R 1","step":"%s"}}' "$T/admin" "$1" >s.json
                IRONFLOW_AUTH_PROXY_ADMIN_KEY=$key GH=$secret start -s s.json --secret GH=env:GH,host=api.example.org
        }
        said() { jq -Rr "fromjson? // empty | select(.event == \"$1\") | [.run_id, .step, .revoked] | map(. // \"\" | tostring) | join(\"|\")" <"$T/service"; }
        id=$(begin 'fix it')
        for pid in $(ours); do look "$pid" && [ "$comm" = cofferdam-keepe ] && keeper=$pid; done
        other=$(begin 'other')
        eq "$(printf 'R 1|fix it|\nR 1|other|')" "$(said 'token issued')" "$(cat "$T/service")"
        kill -9 "$keeper" "$("$C" inspect "$id" | jq -r '[.. | .supervisor? // empty][0].pid')"
        one_pod() { [ "$(query 'len(pods)')" = 1 ]; }
        wait_for 60 one_pod || fail 'its pod is left'
        dead() { "$C" ps -a | grep "$id" | grep -q dead; }
        wait_for 60 dead
        IRONFLOW_AUTH_PROXY_ADMIN_KEY=$key status 0 "$C" gc >out
        eq "$id||1" "$(said 'run tokens revoked')" "$(cat "$T/service")"
        # all of the run that the service was told
        eq '{"revoked":1}' "$(curl -sS --unix-socket "$T/admin" -X DELETE -H "Authorization: Bearer $key" http://localhost/admin/v1/runs/R%201/tokens)"
        status 0 "$C" stop "$other" >out
        kill "$service"
        wait "$service" || true
        clear
}

t 'a token of a file that expires under a run' token_expires file
t 'a token of a plugin that expires under a run' token_expires plugin
t 'files are one Secret of the pod, made behind it' as_files
t 'a file is replaced in a run that lives' replaced
t 'what the server refuses is said without the value' refused
t 'killed between the pod and its Secret' killed_between
t 'the Roles are enough' roles_are_enough
t 'variables come with each command, and stand in no object' as_variables
t 'tokens say whose they are, and die with their own run alone' whose_the_tokens_are
kube_stop
finish
