#!/usr/bin/env bash
# pod run, pod up, job run, env ls and env rm against the tests' own API server, which runs the commands here
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
checks() { /usr/bin/python3 "$TOP/tests/integration/kube-checks.py" "$@"; }

fake=$T/fake
[ -e "$T/libexec/cofferdam-kubernetes" ] || { echo '1..0 # SKIP case says: built without the libraries of clusters' && exit 0; }
mkdir "$fake"
/usr/bin/python3 "$TOP/tests/integration/kube-fake.py" "$fake" >"$T/fake.log" 2>&1 &
server=$!
wait_for 60 test -s "$fake/pid" || { cat "$T/fake.log" && echo 'Bail out! the API server does not start' && exit 1; }
export KUBECONFIG=$fake/kubeconfig
base=https://127.0.0.1:$(cat "$fake/port")

tell() { curl -sS --fail-with-body --cacert "$fake/ca.crt" -X POST -d "$2" "$base/fake/$1" >/dev/null; }
ask() { curl -sS --fail --cacert "$fake/ca.crt" "$base/fake/$1"; }
# query EXPRESSION: over the objects o of the server
query() { ask objects | /usr/bin/python3 -c "import json, sys
o = json.load(sys.stdin)
pods = [x for x in o if x['kind'] == 'Pod']
jobs = [x for x in o if x['kind'] == 'Job']
claims = [x for x in o if x['kind'] == 'PersistentVolumeClaim']
print($1)"; }
# of out: FIELD
field() { /usr/bin/python3 -c "import json; v = json.load(open('out')).get('$1', 'no field'); print(v)"; }
normal() {
        tell set '{"pods": [], "deny": [], "delete_seconds": 0.05}'
        tell faults '[]'
}
nothing_left() { [ "$(query 'len(pods) + len(jobs)')" = 0 ]; }
clear() { wait_for 60 nothing_left || fail "left behind: $(query '[x["metadata"]["name"] for x in pods + jobs]')"; }
pod() { timeout 150 "$C" pod run --image i "$@"; }
job() { timeout 150 "$C" job run --image i "$@"; }

exit_code_and_log() {
        normal
        status 0 pod -- echo 'a  b' >out 2>err
        eq 'a  b' "$(cat out)"
        eq '' "$(cat err)"
        status 3 pod -c 'echo one; echo two >&2; exit 3' >out 2>err
        eq $'one\ntwo' "$(cat out)"
        status 7 pod --json -c 'printf "\303\251"; exit 7' >out
        eq False "$(field success)"
        eq Failed "$(field phase)"
        eq 7 "$(field exit_code)"
        eq Error "$(field reason)"
        eq é "$(field logs)"
        eq False "$(field logs_truncated)"
        status 0 pod --json -- true >out
        eq 'True Succeeded 0 None' "$(field success) $(field phase) $(field exit_code) $(field reason)"
        clear
}

stdin_reaches_the_command() {
        normal
        { head -c 261119 /dev/zero | tr '\0' x && echo; } >in
        status 0 pod --sandboxed --stdin in --max-log-bytes 512Ki -c 'cat' >out
        cmp in out || fail 'not what went in'
        printf '$(HOME) é' | status 0 pod --stdin - -- cat >out
        # shellcheck disable=SC2016
        eq '$(HOME) é' "$(cat out)"
        echo x >>in
        status 125 pod --stdin in -- cat >out 2>err
        has "$(cat err)" 'larger than 255 KiB'
        printf '\377' | status 2 pod --stdin - -- cat >out 2>err
        has "$(cat err)" 'not UTF-8'
        clear
}

the_end_of_a_long_log() {
        normal
        status 0 pod --max-log-bytes 100B --json -c 'yes 123456789 | head -n 100' >out
        eq True "$(field logs_truncated)"
        has "$(field logs)" '[... 900 bytes truncated ...]'
        has "$(field logs)" $'\n123456789'
        clear
}

ended_by_the_cluster() {
        normal
        status 124 pod --active-deadline 1s --json -- sleep 30 >out 2>err
        eq 'None DeadlineExceeded' "$(field exit_code) $(field reason)"
        tell set '{"pods": [{"match": "", "end": {"exitCode": 137, "reason": "OOMKilled"}}]}'
        status 137 pod --json -- sleep 30 >out
        eq '137 OOMKilled' "$(field exit_code) $(field reason)"
        tell set '{"pods": [{"match": "", "end": {"exitCode": 137, "reason": "Error"}, "pod_reason": "Evicted"}]}'
        status 137 pod --json -- sleep 30 >out
        eq Evicted "$(field reason)"
        normal
        clear
}

time_is_over() {
        normal
        status 124 pod --name slow --timeout 4s -c 'echo begun; sleep 30' >out 2>err
        eq "cofferdam: pod run: pod 'slow' did not finish within 4s" "$(cat err)"
        eq begun "$(cat out)"
        tell set '{"pods": [{"match": "", "stay": "Pending", "unschedulable": "0/1 nodes are available: 1 Insufficient cpu."}]}'
        status 124 pod --name big --timeout 2500ms -- true >out 2>err
        has "$(cat err)" "pod 'big' did not finish within 2500ms: SANDBOX_CAPACITY: 0/1 nodes are available"
        normal
        clear
}

# at once, and not when the time is over
never_starts() {
        local reason
        for reason in ErrImagePull ImagePullBackOff InvalidImageName CreateContainerConfigError CrashLoopBackOff; do
                normal
                tell set "{\"pods\": [{\"match\": \"\", \"stay\": \"Pending\", \"waiting\": \"$reason\", \"message\": \"the cause\"}]}"
                status 125 pod --name "${reason,,}" --timeout 5m -- true >out 2>err
                eq "cofferdam: pod run: pod '${reason,,}' cannot start: $reason: the cause" "$(cat err)"
        done
        status 125 job --name j --timeout 5m -- true >out 2>err
        has "$(cat err)" "'j' cannot start: CrashLoopBackOff"
        normal
        clear
}

what_the_server_refuses() {
        normal
        tell set '{"deny": ["create pods", "create jobs"]}'
        status 125 pod --name p -- true >out 2>err
        has "$(cat err)" "failed to create pod 'p'"
        eq 1 "$(wc -l <err)" lines
        status 125 job --name p --json -- true >out 2>err
        has "$(field error)" "failed to create job 'p'"
        normal
        status 0 pod --keep --name p -- true
        status 125 pod --name p -- true 2>err
        has "$(cat err)" "failed to create pod 'p'"
        eq 1 "$(query 'len(pods)')" 'pods: that of somebody else stays'
        timeout 60 curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$base/api/v1/namespaces/test/pods/p" >/dev/null
        # a log that cannot be read does not hide how it ended
        tell faults '[{"method": "GET", "path": "/log", "times": 0, "status": 403, "reason": "Forbidden"}]'
        status 4 pod -c 'echo x; exit 4' >out 2>err
        has "$(cat err)" 'log of pod'
        normal
        clear
}

# carried out, and the answer lost: nothing stays
answer_is_lost() {
        normal
        tell faults '[{"method": "POST", "path": "/pods$", "times": 0, "done": true, "cut": true}]'
        status 125 pod --name lost -- sleep 60 >out 2>err
        has "$(cat err)" "failed to create pod 'lost'"
        clear
        # once: the next attempt finds its own
        tell faults '[{"method": "POST", "path": "/pods$", "times": 1, "done": true, "cut": true}]'
        status 5 pod --name found -c 'exit 5' >out 2>err
        normal
        clear
}

told_to_stop() {
        local pid rc=0
        normal
        "$C" pod run --image i --name s -- sleep 60 >out 2>err &
        pid=$!
        wait_for 60 eval '[ "$(query "len(pods)")" = 1 ]' || fail 'no pod'
        kill -TERM "$pid"
        wait "$pid" || rc=$?
        eq 143 "$rc" 'exit code'
        clear
}

owner_is_looked_at() {
        local uid
        normal
        status 0 pod --keep --name worker -- true
        uid=$(query 'pods[0]["metadata"]["uid"]')
        status 125 pod --owner-pod worker/00000000-dead -- true 2>err
        has "$(cat err)" "owner pod 'worker' has uid '$uid', not '00000000-dead'"
        status 125 pod --owner-pod nobody/1 -- true 2>err
        has "$(cat err)" "owner pod 'nobody'"
        status 2 pod --owner-pod worker/ -- true 2>err
        has "$(cat err)" 'non-empty name and uid'
        eq 1 "$(query 'len(pods)')" pods
        status 0 pod --owner-pod "worker/$uid" --keep --name child -- true
        eq "worker $uid False False" "$(query '*[(r["name"], r["uid"], r["controller"], r["blockOwnerDeletion"]) for p in pods if p["metadata"]["name"] == "child" for r in p["metadata"]["ownerReferences"]][0]' 2>/dev/null || query '" ".join(str(v) for p in pods if p["metadata"]["name"] == "child" for r in p["metadata"]["ownerReferences"] for v in (r["name"], r["uid"], r["controller"], r["blockOwnerDeletion"]))')"
        curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$base/api/v1/namespaces/test/pods/worker" >/dev/null
        clear
}

labels_and_expiry() {
        local before after
        normal
        before=$(date +%s)
        status 0 pod --keep --name l --run-id 'a b' --step 'fix bug/42' --label team=x --timeout 100s --expiry-margin 20s -- true
        after=$(date +%s)
        eq 'ironflow pod-run a-b-10a3f9f2 a-b-10a3f9f2 fix-bug-42-b8a85051 x' "$(query '" ".join(pods[0]["metadata"]["labels"][k] for k in ("app.kubernetes.io/managed-by", "app.kubernetes.io/component", "ironflow.io/run-id", "ironflow.io/root-run-id", "ironflow.io/step", "team"))')"
        eq True "$(query "$before + 120 <= int(pods[0]['metadata']['annotations']['ironflow.io/expires-at']) <= $after + 120")"
        curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$base/api/v1/namespaces/test/pods/l" >/dev/null
        clear
        for key in app.kubernetes.io/managed-by app.kubernetes.io/component ironflow.io/run-id; do
                status 2 pod --label $key=x -- true 2>err
                has "$(cat err)" "pod label '$key' is reserved: ironflow sets it on every object it creates"
        done
}

# the manifest alone
dry() { "$C" pod run --dry-run --json --image i --name n "$@" >out; }
spec() { /usr/bin/python3 -c "import json; s = json.load(open('out')); s = s['spec'].get('template', s)['spec'] if s['kind'] == 'Job' else s['spec']; c = s['containers'][0]; print($1)"; }

manifest_of_a_pod() {
        dry -- true
        eq 'n n Never None None' "$(spec '"n", c["name"], s["restartPolicy"], s.get("securityContext"), c.get("securityContext")' | tr -d "(),'")"
        eq False "$(spec 's["enableServiceLinks"]')"
        dry --security 1000:2000:3000 -- true
        eq '1000 2000 3000 OnRootMismatch True' "$(spec '" ".join(str(s["securityContext"][k]) for k in ("runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy", "runAsNonRoot"))')"
        dry --security 1000 --fs-group-change-policy Always --privilege-escalation false --automount-token false -- true
        eq 'Always False False' "$(spec 's["securityContext"]["fsGroupChangePolicy"], c["securityContext"]["allowPrivilegeEscalation"], s["automountServiceAccountToken"]' | tr -d "(),'")"
        dry --pvc a:/a --pvc b:/b --pvc c:/c -- true
        eq 'workspace workspace-1 workspace-2' "$(spec '" ".join(v["name"] for v in s["volumes"])')"
        dry --scratch target:/target:10Gi --scratch cache:/cache:50Gi:fast-ssd -- true
        eq "10Gi fast-ssd 50Gi" "$(spec 's["volumes"][0]["emptyDir"]["sizeLimit"], s["volumes"][1]["ephemeral"]["volumeClaimTemplate"]["spec"]["storageClassName"], s["volumes"][1]["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"]' | tr -d "(),'")"
        dry --toleration 'dedicated=worker:NoSchedule,gpu:NoExecute' --runtime-class gvisor --node-selector pool=x --pull-secret r -- true
        eq "Equal Exists gvisor x r" "$(spec 's["tolerations"][0]["operator"], s["tolerations"][1]["operator"], s["runtimeClassName"], s["nodeSelector"]["pool"], s["imagePullSecrets"][0]["name"]' | tr -d "(),'")"
        "$C" job run --dry-run --json --image i --name n -- true >out
        eq 0 "$(/usr/bin/python3 -c 'import json; print(json.load(open("out"))["spec"]["backoffLimit"])')"
}

sandboxed_is_restricted() {
        "$C" pod run --dry-run --json --image i --name n --sandboxed --stdin /dev/null --scratch a:/a:1Gi --timeout 1m -- true >out
        checks restricted out >log || fail "$(cat log)"
        eq '10001 512Mi False 120' "$(spec 's["securityContext"]["runAsUser"], s["volumes"][0]["emptyDir"]["sizeLimit"], s["automountServiceAccountToken"], s["activeDeadlineSeconds"]' | tr -d "(),'")"
        "$C" pod run --dry-run --json --image i --name n --sandboxed --security 1234 -- true >out
        checks restricted out >log || fail "$(cat log)"
        eq 1234 "$(spec 's["securityContext"]["fsGroup"]')"
        "$C" job run --dry-run --json --image i --name n --sandboxed -- true >out
        checks restricted out >log || fail "$(cat log)"
        "$C" pod run --dry-run --json --image i --name n -- true >out
        status 1 checks restricted out >log
}

mistakes() {
        local want
        while IFS='|' read -r words want; do
                # shellcheck disable=SC2086 # words
                status 2 "$C" pod run $words >out 2>err </dev/null
                has "$(cat err)" "$want"
                eq 1 "$(wc -l <err)" lines
        done <<'ROWS'
--image i|no command
-- true|image: a pod needs one
--image i -c x -- true|leave one of them out
--image i --security 0 -- true|run_as_user must be greater than 0
--image i --toleration a:Never -- true|effect 'Never' is unknown
--image i --scratch a:/b -- true|want NAME:PATH:SIZE
--image i --pvc a -- true|want CLAIM:PATH
--image i --timeout 5 -- true|--timeout
--image i --sandboxed --env ANTHROPIC_API_KEY=x -- true|use env_from_secret
--image i --sandboxed --automount-token true -- true|not sandboxed
--image i --name A -- true|name 'A'
--image i --memory-limit 5x -- true|memory_limit
--image i --volume type=host,source=/,target=/h --sandboxed -- true|no directory of the node
ROWS
        status 2 "$C" pod run --image i --runtime-class ' ' -- true 2>err
        has "$(cat err)" 'runtime class must not be empty'
        status 2 "$C" pod up --image i -- true 2>err
        has "$(cat err)" '--lifetime'
        status 2 "$C" pod fly 2>err
        has "$(cat err)" 'run or up'
}

a_service_stays() {
        normal
        status 0 timeout 150 "$C" pod up --image i --name web --lifetime 2h --run-id r -- sleep 60 >out
        has "$(cat out)" 'web 10.'
        eq Running "$(query 'pods[0]["status"]["phase"]')"
        eq True "$(query "abs(int(pods[0]['metadata']['annotations']['ironflow.io/expires-at']) - $(date +%s) - 7260) < 300")"
        status 0 timeout 150 "$C" pod up --image i --name db --lifetime 2h --json -- sleep 60 >out
        has "$(field ip)" 10.
        for name in web db; do curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$base/api/v1/namespaces/test/pods/$name?gracePeriodSeconds=0" >/dev/null; done
        clear
        tell set '{"pods": [{"match": "", "stay": "Pending"}]}'
        { wait_for 60 eval '[ "$(query "len(pods)")" = 1 ]' && tell status '{"ns": "test", "name": "bad", "status": {"phase": "Failed"}}'; } &
        status 125 timeout 150 "$C" pod up --image i --name bad --lifetime 2h -- sleep 60 >out 2>err
        has "$(cat err)" "pod 'bad' ended before it was ready"
        clear
        status 124 timeout 150 "$C" pod up --image i --name late --lifetime 2h --timeout 1s -- false >out 2>err
        has "$(cat err)" "pod 'late' did not become ready within 1s"
        normal
        clear
}

a_job_runs() {
        normal
        status 0 job --name j1 -c 'echo from a job' >out
        eq 'from a job' "$(cat out)"
        status 9 job --name j2 --json -c 'echo x; exit 9' >out
        eq 'False Failed 9' "$(field success) $(field phase) $(field exit_code)"
        clear
        ask log | grep -q '"DELETE".*jobs/j2.*Background\|Background.*jobs/j2' || fail 'no background propagation'
        status 124 job --name j3 --timeout 2s -- sleep 30 >out 2>err
        has "$(cat err)" "job 'j3' did not finish within 2s"
        clear
}

environments_are_listed_and_removed() {
        local now
        normal
        now=$(date +%s)
        claim() { # NAME COMPONENT MANAGER EXPIRES
                tell object "{\"resource\": \"persistentvolumeclaims\", \"object\": {\"apiVersion\": \"v1\", \"kind\": \"PersistentVolumeClaim\", \"metadata\": {\"name\": \"$1\", \"namespace\": \"test\", \"labels\": {\"app.kubernetes.io/managed-by\": \"$3\", \"app.kubernetes.io/component\": \"$2\", \"ironflow.io/run-id\": \"r1\", \"ironflow.io/step\": \"clone\"}, \"annotations\": {\"ironflow.io/expires-at\": \"$4\"}}, \"spec\": {\"accessModes\": [\"ReadWriteOnce\"], \"resources\": {\"requests\": {\"storage\": \"20Gi\"}}}, \"status\": {\"phase\": \"Bound\"}}}"
        }
        claim ironflow-env-1 environment ironflow $((now + 7200))
        claim ironflow-env-2 environment ironflow $((now - 5))
        claim other environment somebody $((now - 5))
        claim data data ironflow x
        status 0 "$C" env ls >out
        eq 3 "$(wc -l <out)" lines
        has "$(cat out)" "ironflow-env-1"
        grep -qE '^ironflow-env-1 +Bound +20Gi +in (2h00m|1h59m) +r1 +clone$' out || fail "$(cat out)"
        has "$(grep env-2 out)" expired
        status 0 "$C" env ls --json --run-id r1 >out
        eq 2 "$(/usr/bin/python3 -c 'import json; print(len(json.load(open("out"))))')"
        status 0 "$C" env ls --run-id r2 >out
        eq 1 "$(wc -l <out)" lines
        status 1 "$C" env rm other data ironflow-env-1 2>err
        has "$(cat err)" "environment 'other' not found or expired"
        has "$(cat err)" "environment 'data' not found or expired"
        eq "data ironflow-env-2 other" "$(query '" ".join(sorted(c["metadata"]["name"] for c in claims))')"
        status 2 "$C" env rm 2>err
        status 2 env -u KUBECONFIG HOME=/nonexistent "$C" env rm 2>err # asks no cluster for nothing
        has "$(cat err)" 'say which'
        status 2 "$C" env ls x 2>err
        has "$(cat err)" "unexpected 'x'"
        status 2 "$C" env rm A 2>err
        has "$(cat err)" 'environment_id must only contain'
        tell set '{"deny": ["list persistentvolumeclaims"]}'
        status 1 "$C" env ls >out 2>err
        eq 1 "$(wc -l <err)" lines
        normal
}

# all of it with the Role of images/kubernetes/rbac.yaml and nothing more
role_is_enough() {
        normal
        "$C" manifest --admin --json "$TOP/tests/assets/kube-golden/minimal.yaml" >admin.json
        tell set "$(/usr/bin/python3 -c 'import json
print(json.dumps({"allow": [f"{v} {r}" for o in json.load(open("admin.json")) if o["kind"] == "Role" and o["metadata"]["name"] == "ironflow-worker"
                            for rule in o["rules"] for r in rule["resources"] for v in rule["verbs"]]}))')"
        status 3 pod -c 'echo x; exit 3' >out 2>err
        eq x "$(cat out)"
        eq '' "$(cat err)"
        status 4 job -c 'echo y; exit 4' >out 2>err
        eq y "$(cat out)"
        eq '' "$(cat err)"
        status 0 timeout 150 "$C" pod up --image i --name web --lifetime 1h -- sleep 60 >out 2>err
        status 0 "$C" env ls >out 2>err
        tell set '{"allow": null}'
        curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$base/api/v1/namespaces/test/pods/web?gracePeriodSeconds=0" >/dev/null
        clear
        # and it is the Role that the server goes by
        tell set '{"allow": ["list pods"]}'
        status 125 pod -- true >out 2>err
        tell set '{"allow": null}'
}

without_a_cluster() {
        export KUBECONFIG=$W/none
        unset KUBERNETES_SERVICE_HOST
        status 125 pod -- true >out 2>err
        eq 1 "$(wc -l <err)" lines
        status 0 "$C" pod run --dry-run --image i -- true >out
}

t 'exit code, reason and log' exit_code_and_log
t 'stdin reaches the command, up to 255 KiB' stdin_reaches_the_command
t 'of a long log the end is kept' the_end_of_a_long_log
t 'what the cluster ended says so' ended_by_the_cluster
t 'the time is over' time_is_over
t 'what never starts is said at once' never_starts
t 'what the server refuses' what_the_server_refuses
t 'an answer that is lost leaves nothing' answer_is_lost
t 'a signal leaves nothing' told_to_stop
t 'the owner is looked at first' owner_is_looked_at
t 'labels and expiry' labels_and_expiry
t 'the manifest follows the options' manifest_of_a_pod
t 'a sandboxed pod fits PodSecurity restricted' sandboxed_is_restricted
t 'mistakes are usage errors of one line' mistakes
t 'a service stays when it is ready' a_service_stays
t 'a Job runs and goes' a_job_runs
t 'environments are listed and removed' environments_are_listed_and_removed
t 'the Role of the worker is enough' role_is_enough
t 'without a cluster' without_a_cluster
kill "$server" && wait "$server"
finish
