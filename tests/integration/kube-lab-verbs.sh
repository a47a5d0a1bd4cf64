#!/usr/bin/env bash
# pod run, pod up, job run, env ls and rm, environments and the volume of sessions on a real server, with the rights of
# images/kubernetes/rbac.yaml; what every option makes: kube-verbs.sh
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube-lab-lib.sh
. "$(dirname "$0")/kube-lab-lib.sh"
lab_ready
N=cofferdam-verbs-$$
end_lab() {
        admin delete ns "$N" --wait=false >/dev/null 2>&1
        clean
}
trap end_lab EXIT
trap 'echo "Bail out! killed"; end_lab; exit 143' INT TERM HUP
admin create ns "$N" >/dev/null && admin create sa worker -n "$N" >/dev/null && lab_roles "$N" || { echo 'Bail out! no namespace' && exit 1; }
lab_context "$N" "$N" worker
# the server has made what it gives each pod
account() { admin get sa default -n "$N" >/dev/null 2>&1; }
wait_for 60 account

# volumes of an earlier run are emptied and offered again
K8S_LAB=$LAB timeout 100 bash "$SHARED/k8s-lab/lab" up all >"$T/up" 2>&1 || { cat "$T/up" && echo 'Bail out! the lab' && exit 1; }

image=lab.local/busybox:1
pod() { timeout -k 5 120 "$C" pod run --pull-policy IfNotPresent --image $image "$@"; }
job() { timeout -k 5 120 "$C" job run --pull-policy IfNotPresent --image $image "$@"; }
run() { timeout -k 5 150 "$C" run -d kubernetes --image $image -w "$W/ws" "$@"; }
field() { jq -r "$1" out; }
none() { [ -z "$(admin get pods,jobs -n "$N" -o name)" ]; }
clear() { wait_for 60 none || fail "left behind: $(admin get pods,jobs -n "$N")"; }

pods_that_end() {
        status 3 pod -c 'echo one; echo two >&2; exit 3' >out 2>err
        eq $'one\ntwo' "$(cat out)"
        status 7 pod --json -c 'exit 7' >out
        eq 'false Failed 7 Error' "$(field '"\(.success) \(.phase) \(.exit_code) \(.reason)"')"
        { head -c 261119 /dev/zero | tr '\0' x && echo; } >in
        status 0 pod --sandboxed --stdin in --max-log-bytes 512Ki -c cat >out
        cmp in out || fail 'not what went in'
        status 0 pod --max-log-bytes 100B --json -c 'yes 123456789 | head -n 100' >out
        has "$(field .logs)" '[... 900 bytes truncated ...]'
        eq true "$(field .logs_truncated)"
        clear
}

pods_that_are_ended() {
        status 124 pod --active-deadline 2s --json -- sleep 60 >out
        eq 'null DeadlineExceeded' "$(field '"\(.exit_code) \(.reason)"')"
        # more than its limit, in memory
        status 137 pod --memory-limit 16Mi --json -c 'x=$(head -c 100000000 /dev/zero | tr "\0" x); echo ${#x}' >out
        eq '137 OOMKilled' "$(field '"\(.exit_code) \(.reason)"')"
        status 124 pod --name slow --timeout 3s -c 'echo begun; sleep 60' >out 2>err
        has "$(cat err)" "pod 'slow' did not finish within 3s"
        clear
}

pods_that_never_start() {
        local before=$SECONDS
        status 125 timeout -k 5 120 "$C" pod run --pull-policy Never --image lab.local/none:1 --name none --timeout 100s -- true 2>err
        has "$(cat err)" "pod 'none' cannot start: ErrImageNeverPull"
        [ $((SECONDS - before)) -lt 90 ] || fail 'only when the time was over'
        status 124 pod --name big --cpu-request 1000 --timeout 5s -- true 2>err
        has "$(cat err)" "SANDBOX_CAPACITY"
        status 2 pod --label app.kubernetes.io/managed-by=x -- true 2>err
        has "$(cat err)" 'is reserved'
        clear
}

walls_and_volumes() {
        status 0 pod --sandboxed --scratch work:/work:16Mi -c 'id -u; touch /x 2>/dev/null || echo read-only
                echo a >/work/f && cat /work/f; grep CapEff /proc/self/status; ls /var/run/secrets/kubernetes.io 2>/dev/null || echo no token' >out
        eq $'10001\nread-only\na\nCapEff:\t0000000000000000\nno token' "$(cat out)"
        clear
}

a_service() {
        local address
        status 0 timeout 100 "$C" pod up --pull-policy IfNotPresent --image $image --name web --lifetime 1h --run-id r1 --json -c 'mkdir /tmp/w; echo served >/tmp/w/f; exec httpd -f -p 8000 -h /tmp/w' >out
        address=$(field .ip)
        status 0 pod -c "wget -q -O - http://$address:8000/f" >out
        eq served "$(cat out)"
        eq 'pod-run r1' "$(admin get pod web -n "$N" -o json | jq -r '.metadata.labels | ."app.kubernetes.io/component" + " " + ."ironflow.io/run-id"')"
        admin delete pod web -n "$N" --grace-period=1 >/dev/null
        clear
}

jobs() {
        status 0 job -c 'echo from a job' >out
        eq 'from a job' "$(cat out)"
        status 9 job --json -c 'echo x; exit 9' >out
        eq 'false Failed 9' "$(field '"\(.success) \(.phase) \(.exit_code)"')"
        status 124 job --name late --timeout 3s -- sleep 60 2>err
        has "$(cat err)" "job 'late' did not finish within 3s"
        clear
}

# a claim that outlives its pods: red when the next run makes one of its own
environments() {
        local id name
        mkdir ws
        spec='"environment_volume":"/environment","environment_storage_class":"lab-local","environment_size":"64Mi","run_id":"r1","step":"clone"'
        echo "{\"version\":1,\"kubernetes\":{$spec}}" >first.json
        id=$(timeout -k 5 150 "$C" start -d kubernetes --image $image -w "$W/ws" -s first.json) || fail "no start"
        name=$("$C" inspect "$id" | jq -r '.. | .environment_id? // empty')
        [[ $name == ironflow-env-* ]] || fail "$("$C" inspect "$id")"
        status 0 "$C" exec "$id" -- sh -c 'echo kept >/environment/f'
        status 0 "$C" stop "$id" >out
        clear
        status 0 "$C" env ls >out
        has "$(cat out)" "$name"
        echo "{\"version\":1,\"kubernetes\":{$spec,\"resume_environment\":\"$name\"}}" >second.json
        status 0 run -s second.json -- cat /environment/f >out
        eq kept "$(cat out)"
        eq 1 "$(admin get pvc -n "$N" -o name | wc -l)"
        status 0 "$C" env rm "$name"
        gone() { ! admin get pvc "$name" -n "$N" >/dev/null 2>&1; }
        wait_for 60 gone || fail "$(admin get pvc,pods -n "$N")"
        # before any pod
        status 125 run -s second.json -- true 2>err
        has "$(cat err)" "environment '$name' not found or expired"
        clear
}

sessions() {
        mkdir ws
        admin apply -n "$N" -f - >/dev/null <<'END'
{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"claude-sessions"},"spec":{"storageClassName":"lab-local","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"64Mi"}}}}
END
        echo '{"version":1,"kubernetes":{"sessions_volume":"claude-sessions"}}' >s.json
        status 0 run -s s.json -- sh -c 'echo session >$HOME/.claude/projects/s.jsonl; echo gone >$HOME/.claude/other'
        status 0 run -s s.json -- sh -c 'cat $HOME/.claude/projects/s.jsonl; ls $HOME/.claude/other 2>/dev/null || echo none' >out
        eq $'session\nnone' "$(cat out)"
        eq persistentvolumeclaim/claude-sessions "$(admin get pvc -n "$N" -o name)" 'the claim is the caller'\''s'
        clear
        admin delete pvc claude-sessions -n "$N" --wait=false >/dev/null
}

t 'pods: exit code, log, stdin' pods_that_end
t 'pods: deadline, memory, time' pods_that_are_ended
t 'pods: no image, no room' pods_that_never_start
t 'pods: walls and volumes' walls_and_volumes
t 'pod up: a service that another pod reaches' a_service
t 'Jobs' jobs
t 'an environment is gone on with' environments
t 'sessions outlive the pod' sessions
finish
