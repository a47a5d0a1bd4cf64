#!/usr/bin/env bash
# The checks of a live pod, as an administrator runs them, in a cluster that has the files of images/kubernetes: the walls
# of the pod, the rights of the worker, and the auth proxy in front of it. The proxy is a process of this host, at the
# address of the bridge that pods are on; what it relays to is auth-run.py.
# This cluster enforces no network policy and knows no names: that egress fails says nothing of the policies.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube-lab-lib.sh
. "$(dirname "$0")/kube-lab-lib.sh"
lab_ready
servers=()
end_lab() {
        local pid
        for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null; done
        admin delete ns ironflow-agents ironflow --wait=false >/dev/null 2>&1
        lab_end
        clean
}
trap end_lab EXIT
trap 'echo "Bail out! killed"; end_lab; exit 143' INT TERM HUP

kubectl() { admin "$@"; }
gone() { ! admin get ns ironflow-agents >/dev/null 2>&1 && ! admin get ns ironflow >/dev/null 2>&1; }
admin delete ns ironflow-agents ironflow --wait=false >/dev/null 2>&1
wait_for 90 gone || { echo 'Bail out! the namespaces of another run stay' && exit 1; }
applied=0
admin create ns ironflow >/dev/null && admin create sa ironflow-worker -n ironflow >/dev/null &&
        for file in namespace rbac quota networkpolicy-deny-all networkpolicy-auth-proxy managed-settings; do
                admin apply -f "$TOP/images/kubernetes/$file.yaml" >>"$T/applied" 2>&1 || applied=1
        done
[ $applied = 0 ] || { cat "$T/applied"; echo 'Bail out! not applied' && exit 1; }
lab_image lab.local/agent:$$ /usr/bin/curl /usr/bin/git || { echo 'Bail out! no image' && exit 1; }
lab_context ironflow-agents ironflow ironflow-worker
limits='{"version":1,"limits":{"memory":"256Mi","cpus":0.2},"kubernetes":{"run_id":"r1","step":"investigate","egress_profile":"anthropic-only","env_from_secret":["CLAUDE_CODE_OAUTH_TOKEN=claude-oauth/token"]}}'
live() { timeout -k 5 150 "$C" start -d kubernetes --image lab.local/agent:$$ -w "$W/ws" "$@"; }
# the pod of the test
find_pod() { pod=$(kubectl -n ironflow-agents get pod -l app.kubernetes.io/component=claude-runner -o jsonpath='{.items[0].metadata.name}'); }
none() { [ -z "$(admin get pods -n ironflow-agents -o name)" ]; }
clear() { wait_for 60 none || fail "left behind: $(admin get pods -n ironflow-agents)"; }

walls_of_the_pod() {
        local id pod context
        mkdir ws
        echo "$limits" >spec.json
        kubectl -n ironflow-agents create secret generic claude-oauth --from-literal=token=sk-ant-oat-of-the-test >/dev/null
        id=$(live --spec spec.json)
        find_pod
        context=$(kubectl -n ironflow-agents get pod -l app.kubernetes.io/component=claude-runner \
                -o jsonpath='{.items[0].spec.containers[0].securityContext}')
        eq 'true false true ALL RuntimeDefault' "$(jq -r '[.runAsNonRoot, .allowPrivilegeEscalation, .readOnlyRootFilesystem, .capabilities.drop[0], .seccompProfile.type] | join(" ")' <<<"$context")"
        kubectl -n ironflow-agents get pod "$pod" -o yaml | grep -A3 CLAUDE_CODE_OAUTH_TOKEN >token.yaml
        has "$(cat token.yaml)" secretKeyRef
        eq 0 "$(kubectl -n ironflow-agents get pod "$pod" -o yaml | grep -c sk-ant)"
        status 1 kubectl -n ironflow-agents exec "$pod" -- ls /var/run/secrets/kubernetes.io/serviceaccount 2>err
        has "$(cat err)" 'No such file'
        status 1 kubectl -n ironflow-agents exec "$pod" -- touch /usr/local/probe 2>err
        has "$(cat err)" 'Read-only file system'
        ! kubectl -n ironflow-agents exec "$pod" -- curl -sS -m 5 https://example.com 2>err || fail 'out of the cluster'
        eq no "$(kubectl auth can-i create networkpolicies -n ironflow-agents --as=system:serviceaccount:ironflow:ironflow-worker || true)"
        kubectl -n ironflow-agents get pods -L ironflow.io/run-id,ironflow.io/root-run-id,ironflow.io/step \
                -o custom-columns='NAME:.metadata.name,EXPIRES:.metadata.annotations.ironflow\.io/expires-at' >columns
        eq 'NAME EXPIRES' "$(awk 'NR == 1 { print $1, $2 }' columns)"
        [[ $(awk 'NR == 2 { print $1, $2 }' columns) =~ ^"$pod"\ [0-9]{10}$ ]] || fail "$(cat columns)"
        kubectl -n ironflow-agents get pods -L ironflow.io/run-id,ironflow.io/root-run-id,ironflow.io/step >labels
        eq 'RUN-ID ROOT-RUN-ID STEP' "$(awk 'NR == 1 { print $(NF-2), $(NF-1), $NF }' labels)"
        eq 'r1 r1 investigate' "$(awk 'NR == 2 { print $(NF-2), $(NF-1), $NF }' labels)"
        status 0 "$C" stop "$id" >out
        clear
}

# --- what the proxy relays to, and the proxy ---
random() { head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
secret=glpat-$(random) model=sk-ant-$(random) admin_key=$(random)$(random)
mkdir -p "$T/up/www/auth"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=api.github.com \
        -addext 'subjectAltName=DNS:api.github.com,DNS:api.anthropic.com' -keyout "$T/up/key.pem" -out "$T/up/cert.pem" 2>/dev/null
echo 'hello from upstream' >"$T/up/www/hello"
python3 "$TOP/tests/integration/auth-run.py" "$T/up" 0 >"$T/up/log" 2>&1 &
servers+=($!)
wait_for 60 test -s "$T/up/port" || { cat "$T/up/log"; echo 'Bail out! no upstream'; exit 1; }
up=127.0.0.1:$(cat "$T/up/port")
# the bridge is there since the first pod
start_proxy() {
        local address
        address=$(ip -4 -o addr show dev cnilab0 | awk '{ sub("/.*", "", $4); print $4 }')
        IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key "$T/libexec/cofferdam-auth-proxy" --listen "$address:0" --admin-listen "unix:$T/admin" \
                --ca-file "$T/up/cert.pem" --allow-address 127.0.0.0/8 --route "api.github.com=$up" --route "api.anthropic.com=$up" >"$T/service.log" 2>&1 &
        servers+=($!)
        wait_for 60 grep -qs ready: "$T/service.log" || { cat "$T/service.log"; echo 'Bail out! no service'; exit 1; }
        relay=http://$address:$(grep -o "$address:[0-9]*" "$T/service.log" | head -n 1 | cut -d: -f2)
        printf 'auth_proxy: {url: "%s", admin_url: "unix:%s/admin"}\n' "$relay" "$T" >"$T/proxy.yaml"
}
proxied() {
        GITHUB_TOKEN=$secret ANTHROPIC_API_KEY=$model IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key live --spec "$T/proxy.yaml" \
                --model-auth proxied --secret GITHUB_TOKEN=env:GITHUB_TOKEN,host=api.github.com "$@"
}

# red when the pod is given an address of this host's loopback, where it finds nothing
proxy_in_front() {
        local id pod token
        mkdir ws
        id=$(proxied)
        find_pod
        eq 0 "$(kubectl -n ironflow-agents exec "$pod" -- env | grep -c 'sk-ant')"
        eq 401 "$(kubectl -n ironflow-agents exec "$pod" -- sh -c \
                'curl -s -o /dev/null -w "%{http_code}" -H "Authorization: Bearer wrong" "$ANTHROPIC_BASE_URL/v1/messages"')"
        eq ifap_ "$(kubectl -n ironflow-agents exec "$pod" -- sh -c 'echo "$GITHUB_TOKEN" | cut -c1-5')"
        eq 403 "$(kubectl -n ironflow-agents exec "$pod" -- sh -c \
                'curl -s -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $GITHUB_TOKEN" "$GITHUB_TOKEN_URL/example.com/"')"
        # and what it is for
        eq 'hello from upstream' "$("$C" exec "$id" -- sh -c 'curl -sS -H "Authorization: Bearer $GITHUB_TOKEN" "$GITHUB_TOKEN_URL/api.github.com/hello"')"
        grep -q "^authorization: Bearer $secret" "$T/up/seen" || fail 'the credential did not arrive'
        status 0 "$C" exec "$id" -- sh -c 'curl -sS -H "Authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -d "{}" "$ANTHROPIC_BASE_URL/v1/messages"' >out
        grep -q "^x-api-key: $model" "$T/up/seen" || fail 'the key did not arrive'
        # the admin side is not where pods are
        eq 403 "$("$C" exec "$id" -- sh -c 'curl -s -o /dev/null -w "%{http_code}" -H "Authorization: Bearer $ANTHROPIC_AUTH_TOKEN" -d "{}" "$ANTHROPIC_BASE_URL/admin/v1/tokens"')"
        # neither in what the cluster keeps, nor in any process of the pod
        ! admin get pod "$pod" -n ironflow-agents -o json | grep -e "$secret" -e "$model" -e "$admin_key" || fail 'in the pod'
        ! admin get events,configmaps,secrets -n ironflow-agents -o json | grep -e "$secret" -e "$model" -e "$admin_key" || fail 'in the namespace'
        token=$("$C" exec "$id" -- sh -c 'echo "$GITHUB_TOKEN"')
        status 0 "$C" stop "$id" >out
        eq 401 "$(curl -s -o /dev/null -w '%{http_code}' -m 10 -H "Authorization: Bearer $token" "$relay/r/api.github.com/hello")" 'after the run'
        clear
}

# before any pod is made
without_a_service() {
        mkdir ws
        echo 'auth_proxy: {url: "http://127.0.0.1:1"}' >spec.yaml
        IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key ANTHROPIC_API_KEY=$model status 125 live --spec spec.yaml --model-auth proxied 2>err
        has "$(cat err)" 'is of this one only'
        ANTHROPIC_API_KEY=$model status 125 live --model-auth proxied 2>err
        has "$(cat err)" 'set auth_proxy.url'
        GITHUB_TOKEN=$secret IRONFLOW_AUTH_PROXY_ADMIN_KEY=wrong status 125 live --spec "$T/proxy.yaml" --secret GITHUB_TOKEN=env:GITHUB_TOKEN,host=api.github.com 2>err
        none || fail "a pod: $(admin get pods -n ironflow-agents)"
}

t 'the walls of a pod, and the rights of the worker' walls_of_the_pod
start_proxy
t 'the auth proxy in front: tokens only, 401, 403' proxy_in_front
t 'no service that the pod reaches: no pod' without_a_service
finish
