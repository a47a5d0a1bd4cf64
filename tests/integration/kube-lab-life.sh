#!/usr/bin/env bash
# runs by driver kubernetes on a real server: the lab that COFFERDAM_K8S=1 ./dev test starts, as the service account
# of images/kubernetes/rbac.yaml and with its rights only
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
[ -n "${COFFERDAM_K8S-}" ] || { echo '1..0 # SKIP opt-in: COFFERDAM_K8S=1 starts a Kubernetes server' && exit 0; }
[ "$(id -u)" = 0 ] || { echo '1..0 # SKIP only root has the keys of the lab' && exit 0; }
lab=${K8S_LAB:-/var/tmp/k8s-lab}
admin() { timeout -k 2 60 kubectl --kubeconfig "$lab/conf/admin.kubeconfig" "$@"; }
N=cofferdam-life-$$
end_lab() {
        admin delete ns "$N" --wait=false >/dev/null 2>&1
        clean
}
trap end_lab EXIT
trap 'echo "Bail out! killed"; end_lab; exit 143' INT TERM HUP

admin create ns "$N" >/dev/null || { echo 'Bail out! the lab does not answer' && exit 1; }
admin create sa worker -n "$N" >/dev/null
sed "s/ironflow-agents/$N/; s/namespace: ironflow\$/namespace: $N/; s/name: ironflow-worker\$/name: worker/" "$TOP/images/kubernetes/rbac.yaml" | admin apply -f - >/dev/null
token() { # SECONDS: of the worker
        admin create --raw "/api/v1/namespaces/$N/serviceaccounts/worker/token" -f - \
                <<<"{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenRequest\",\"spec\":{\"expirationSeconds\":$1}}" | jq -r .status.token
}
export KUBECONFIG=$T/kubeconfig
token 3600 >"$T/token"
cat >"$KUBECONFIG" <<END
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: worker, namespace: $N}}]
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:16443", certificate-authority: $lab/pki/ca.crt}}]
users: [{name: worker, user: {tokenFile: $T/token}}]
END
pods() { admin get pods -n "$N" -o name; }
none() { [ -z "$(pods)" ]; }
clear() { wait_for 60 none || fail "left behind: $(pods)"; }
run() { timeout -k 5 150 "$C" run -d kubernetes --image lab.local/busybox:1 -w "$W/ws" "$@"; }
start() { timeout -k 5 150 "$C" start -d kubernetes --image lab.local/busybox:1 -w "$W/ws" "$@"; }

rights_of_the_role_only() {
        eq no "$(admin auth can-i create networkpolicies -n "$N" --as="system:serviceaccount:$N:worker" || true)"
        eq no "$(admin auth can-i list secrets -n "$N" --as="system:serviceaccount:$N:worker" || true)"
        mkdir ws
        status 0 run -- sh -c 'touch /usr/local/probe 2>/dev/null && exit 9; ls /var/run/secrets/kubernetes.io/serviceaccount 2>/dev/null && exit 8; id -u' >out
        eq 10001 "$(cat out)"
        clear
}

big_workspace() {
        mkdir ws
        (cd ws && git init -q && for d in $(seq 200); do mkdir "d$d" && for f in $(seq 100); do echo "$d $f" >"d$d/f$f"; done; done
                git add -A && git -c user.name=n -c user.email=e commit -qm first)
        status 0 run --events events -- sh -c 'find . -name "f*" -type f -path "./d*" | wc -l; rm -r d7; echo new >d8/new; echo changed >d9/f1' >out
        eq 20000 "$(cat out)"
        git -C ws fsck --strict >/dev/null 2>&1 || fail 'the repository is damaged'
        eq 102 "$(git -C ws status --short | wc -l)"
        [ ! -e ws/d7 ] && [ -e ws/d8/new ] || fail 'changes are missing'
        clear
}

commands_and_streams() {
        local id i
        mkdir ws
        id=$(start)
        for i in 1 2 3 4; do "$C" exec "$id" -- sh -c "sleep 1; exit $i" & done
        for i in 1 2 3 4; do wait -n || true; done
        head -c 100000000 /dev/urandom >big
        "$C" exec "$id" cat <big >back
        cmp back big
        script -qec "$C exec -t $id sh -c 'tty; stty size <\$(tty) 2>/dev/null; exit 4'" /dev/null </dev/null >out || true
        has "$(cat out)" /dev/pts/
        "$C" exec "$id" sleep 100 &
        i=$!
        sleep 1
        kill -TERM $i
        status 143 wait $i
        status 0 "$C" stop "$id" >out
        clear
}

a_racer_inside() {
        local config
        mkdir ws && git -C ws init -q && config=$(cat ws/.git/config) && mkdir outside
        # tar may never get a whole copy of it: then the run says so, and nothing lands
        run --keep -- sh -c 'mkdir -p .git/hooks d; echo x >d/f
                (while :; do mv d e; ln -s ../outside d; ln -s .git/hooks g; rm -f d g; mv e d; echo evil >.git/hooks/pre-push; echo evil >>.git/config; done) >/dev/null 2>&1 &
                sleep 0.3' >out 2>err || true
        eq "$config" "$(cat ws/.git/config)"
        [ ! -e ws/.git/hooks/pre-push ] && [ ! -L ws/d ] || fail "$(ls -lR ws)"
        eq '' "$(ls outside)"
        eq '' "$(find ws -perm /6000)"
        clear
}

# a run's processes have a variable of their own; in turn all of them die, one, those of the cluster, or the others. Red
# without left(): a pod whose `life` was killed alone was nobody's
killed_at_any_point() {
        local other k p victims
        mkdir ws
        other=$(start)
        for k in $(seq "${COFFERDAM_POINTS:-8}"); do
                MARK=$N.$k run -- sleep 3 >/dev/null 2>&1 &
                sleep "$(awk -v k="$k" 'BEGIN { srand(k); print rand() * 3 }')"
                victims=()
                for p in $(ours; pgrep cofferdam-kube || true); do
                        ! grep -qz "^MARK=$N.$k$" "/proc/$p/environ" 2>/dev/null || victims+=("$p:$(cat "/proc/$p/comm")")
                done
                case $((k % 4)) in
                0) mapfile -t victims < <(printf '%s\n' "${victims[@]}" | shuf -n 1) ;;
                1) mapfile -t victims < <(printf '%s\n' "${victims[@]}" | grep kube || true) ;;
                2) mapfile -t victims < <(printf '%s\n' "${victims[@]}" | grep -v kube || true) ;;
                esac
                for p in "${victims[@]}"; do kill -9 "${p%%:*}" 2>/dev/null || true; done
                echo "point $k: ${victims[*]}"
                wait || true
                "$C" gc >/dev/null 2>&1 || true
        done
        one() { "$C" gc >/dev/null 2>&1 || true; [ "$(pods | wc -l)" = 1 ]; }
        wait_for 90 one || fail "$(pods)"
        status 0 "$C" exec "$other" true
        "$C" stop "$other" >out
        clear
}

one_attempt_at_a_time() {
        local first
        mkdir ws
        printf '{"version":1,"kubernetes":{"run_id":"r1","step":"fix it"}}' >s.json
        first=$(start -s s.json)
        admin get pods -n "$N" -o json >before
        status 0 run -s s.json -- true
        admin get pods -n "$N" -L ironflow.io/step -o json >after
        eq 0 "$(jq '.items | length' after)"
        "$C" stop "$first" >out 2>err || true
        clear
}

a_token_expires_under_a_run() {
        local id
        mkdir ws
        id=$(start)
        echo expired >"$T/token"
        token 3600 >"$T/token.new" && mv "$T/token.new" "$T/token"
        status 0 "$C" exec "$id" true
        status 0 "$C" stop "$id" >out
        clear
}

t 'the rights of the Role, and the walls of the pod' rights_of_the_role_only
t '20000 files and their history' big_workspace
t 'commands, 100 MB, a terminal, signals' commands_and_streams
t 'a racer inside during the export' a_racer_inside
t 'killed at any point, then gc' killed_at_any_point
t 'one attempt of a step at a time' one_attempt_at_a_time
t 'a token is read again' a_token_expires_under_a_run
finish
