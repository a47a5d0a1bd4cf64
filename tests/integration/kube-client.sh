#!/usr/bin/env bash
# The client of clusters (kubernetes/client/) against the tests' own API server. The real one: kube-lab.sh
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube.sh
. "$here/kube.sh"
kube_start

# k NAME FUNCTION...: a test that begins with a server that does what it should, and without pods
k() { t "$1" fresh "${@:2}"; }
fresh() {
        fake faults '[]'
        fake set '{"deny": [], "allow": null, "pods": [], "delete_seconds": 0.05, "tokens": {"admin-token": "admin"},
                "exec_protocols": ["v5.channel.k8s.io", "v4.channel.k8s.io"]}'
        "$@"
        fake faults '[]'
        fake set '{"deny": [], "allow": null}'
        drive list pods | while read -r name; do drive delete pods "$name" '' now </dev/null 2>&1 || :; done
}

# says WANT CMD...: fails, and says WANT
says() {
        local want=$1 rc=0
        shift
        "$@" >said 2>&1 || rc=$?
        [ "$rc" = 1 ] || fail "want a failure of '$*', got $rc: $(cat said)"
        has "$(cat said)" "$want" "'$*'"
        eq 1 "$(wc -l <said)" "lines of '$(cat said)'"
        lacks "$(cat said)" admin-token # no credential in a message
}

object() { echo "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"$1\"${2-}}}"; }

# --- configuration ---

contexts() {
        eq "context 'fake' of $K/kubeconfig" "$(drive where | head -n 1)"
        eq test "$(drive where | tail -n 1)"
        drive list pods >/dev/null
        fake set '{"allow": ["list pods"]}'
        drive --context cert list pods
        eq 1 "$(fake_get log | grep -c '"user": "cert-user"')" 'requests with a certificate'
        fake set '{"allow": null}'
        says "no context 'nope'" drive --context nope where
        says 'ENOENT' drive --kubeconfig /nonexistent where
}

# the first file that names something wins; one that is missing is passed over
merged() {
        cat >one <<Y
current-context: second
contexts: [{name: second, context: {cluster: fake, user: basic, namespace: from-one}}]
Y
        cat >two <<Y
current-context: fake
users: [{name: basic, user: {username: joe, password: "p w"}}]
contexts: [{name: second, context: {cluster: nope}}]
Y
        export KUBECONFIG=$W/one:$W/missing:$W/two:$K/kubeconfig
        eq "context 'second' of $W/one" "$(drive where | head -n 1)"
        eq from-one "$(drive where | tail -n 1)"
        forget
        drive list pods >/dev/null
        eq 1 "$(asked 'q["user"] == "basic:joe:p w" and q["path"] == "/api/v1/namespaces/from-one/pods"')"
}

# config WORDS-OF-CLUSTER WORDS-OF-USER [CONTEXT]
config() {
        cat >config <<Y
current-context: a
clusters:
- name: c
  cluster: {$1}
users:
- name: u
  user: {$2}
contexts: [{name: a, context: {cluster: c, user: u${3-}}}]
Y
}

wrong_configs() {
        local good="server: 'https://127.0.0.1:1', certificate-authority: $K/ca.crt"
        export KUBECONFIG=$W/config
        while IFS='|' read -r cluster user want; do
                config "${cluster/GOOD/$good}" "$user"
                says "$want" drive where
        done <<'ROWS'
|token: x|want https://HOST
server: ftp://x|token: x|'/|
server: 'https://u:p@h'|token: x|want https://HOST
server: 'http://example.com'|token: x|would show credentials
GOOD, insecure-skip-tls-verify: true|token: x|want one of them
GOOD, insecure-skip-tls-verify: maybe|token: x|want true or false
server: 'https://h', certificate-authority-data: '!!'|token: x|no base64
server: 'https://h', certificate-authority: nowhere.crt|token: x|nowhere.crt
GOOD|token: x, username: y|want one of them
GOOD|client-certificate: /dev/null|client-certificate
GOOD|token: "a\nb"|control character
GOOD|auth-provider: {name: gcp}|Kubernetes 1.26 removed it
GOOD|exec: {command: x}|exec.apiVersion
GOOD|exec: {apiVersion: client.authentication.k8s.io/v1}|exec: no command
GOOD|exec: {command: x, apiVersion: client.authentication.k8s.io/v1}, token: x|want one of them
GOOD|as-groups: [a]|need as
GOOD|as: a, as-user-extra: {x: [y]}|not supported
ROWS
        printf 'a: [b\n' >config
        says "config' line 2" drive where
        printf 'clusters: []\n' >config
        HOME=$W says "no cluster: no file with one in KUBECONFIG $KUBECONFIG" drive where
        head -c 1100000 /dev/zero | tr '\0' '#' >config
        says EFBIG drive where
        : >config
        HOME=$W says 'no cluster: no file with one in KUBECONFIG' drive where
        unset KUBECONFIG
        HOME=$W says 'no cluster: no kubeconfig' drive where
}

watched() { [ "$(asked '"watch=1" in q["query"]')" -gt 0 ]; }

# as in a pod; the token is read again for each request
in_cluster() {
        export KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=${KUBE_URL##*:}
        eq 'in-cluster service account' "$(drive --in-cluster "$K/account" where | head -n 1)"
        cp -r "$K/account" acc
        forget
        drive --in-cluster acc list namespaces | grep -q '^test$'
        "$HELPERS/kube-drive" --in-cluster acc watch configmaps 30 >seen &
        watcher=$!
        wait_for 60 watched
        fake set '{"tokens": {"admin-token": "admin", "new-token": "later"}}'
        echo new-token >acc/new && mv acc/new acc/token
        fake set '{"tokens": {"new-token": "later", "admin-token": "x"}}'
        fake cut
        object seen | drive create configmaps >/dev/null
        wait_for 60 test -s seen
        stop_watching seen
        eq 'ADDED seen -' "$(cat seen)" 'what the watch saw after its token was renewed'
        [ "$(asked 'q.get("user") == "later" and "watch=1" in q["query"]')" -ge 1 ] || fail 'the old token went on'
        rm acc/token
        says "acc/token': No such file" drive --in-cluster acc where
        fake set '{"tokens": {"admin-token": "admin"}}'
        drive delete configmaps seen
}

plugin() {
        export KUBECONFIG=$W/config
        local cluster="server: '$KUBE_URL', certificate-authority: $K/ca.crt" v=client.authentication.k8s.io/v1
        cat >plug <<'P'
#!/bin/sh
echo run >>"$COUNT"
cat "$ANSWER" 2>/dev/null || exit 3
printf '%s' "$KUBERNETES_EXEC_INFO" >"$COUNT.info"
P
        chmod +x plug
        config "$cluster" "exec: {command: ./plug, apiVersion: $v, provideClusterInfo: true, installHint: get it from the shop, env: [{name: COUNT, value: $W/count}, {name: ANSWER, value: $W/answer}]}" ', namespace: test'
        say_token() { echo "{\"apiVersion\":\"$v\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"$1\"${2-}}}" >answer; }
        say_token admin-token
        pod plugged sleep 100
        : >count
        drive collect plugged 4 true </dev/null >/dev/null
        eq 1 "$(wc -l <count)" 'runs of the plugin for four calls'
        grep -q "\"server\": *\"$KUBE_URL\"" count.info || fail "no cluster in $(cat count.info)"
        say_token admin-token ',"expirationTimestamp":"2001-01-01T00:00:00Z"'
        : >count
        drive collect plugged 3 true </dev/null >/dev/null
        [ "$(wc -l <count)" -ge 3 ] || fail 'an expired credential was used'
        # 401: asked again, once
        say_token wrong
        : >count
        says EACCES drive list pods
        eq 2 "$(wc -l <count)" 'runs of the plugin after 401'
        say_token ''
        says 'neither a token nor a certificate' drive list pods
        echo '{' >answer
        says 'is not JSON' drive list pods
        echo "{\"apiVersion\":\"${v}beta1\",\"status\":{\"token\":\"x\"}}" >answer
        says apiVersion drive list pods
        rm answer
        says 'ended with code 3' drive list pods
        rm plug
        says 'get it from the shop' drive list pods
        KUBECONFIG=$K/kubeconfig drive delete pods plugged
}

certificate_of_plugin() {
        export KUBECONFIG=$W/config
        local v=client.authentication.k8s.io/v1beta1
        python3 -c "import json, sys; k = sys.argv[1]; print(json.dumps({'apiVersion': '$v', 'status': {'clientCertificateData': open(k + '/cert.crt').read(), 'clientKeyData': open(k + '/cert.key').read()}}))" "$K" >answer
        config "server: '$KUBE_URL', certificate-authority: $K/ca.crt" "exec: {command: cat, args: [$W/answer], apiVersion: $v}"
        forget
        drive list pods
        eq 1 "$(asked 'q["user"] == "cert-user"')"
}

tls() {
        export KUBECONFIG=$W/config
        local port=${KUBE_URL##*:} ca
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3 -subj /CN=other -keyout o.key -out o.crt 2>/dev/null
        config "server: '$KUBE_URL', certificate-authority: $W/o.crt" 'token: admin-token'
        says EKEYREJECTED drive list pods
        config "server: '$KUBE_URL'" 'token: admin-token'
        says EKEYREJECTED drive list pods
        # where all trust the server's authority: it is not the one that was named
        mkdir certs
        cp "$K/ca.crt" certs/
        cp /etc/ssl/certs/ca-certificates.crt certs/
        openssl rehash certs 2>/dev/null
        with_certs() { unshare -Urm sh -c 'mount --bind certs /etc/ssl/certs && exec "$0" "$@"' "$HELPERS/kube-drive" "$@"; }
        with_certs list pods
        config "server: '$KUBE_URL', certificate-authority: $W/o.crt" 'token: admin-token'
        says EKEYREJECTED with_certs list pods
        says EKEYREJECTED with_certs exec any - true
        config "server: '$KUBE_URL', insecure-skip-tls-verify: true" 'token: admin-token'
        drive list pods
        # the certificate is not for this name, and then for another that is said
        config "server: 'https://127.0.0.2:$port', certificate-authority: $K/ca.crt" 'token: admin-token'
        says ENETUNREACH drive list pods # nobody listens there
        ca=$(base64 -w0 "$K/ca.crt")
        config "server: '$KUBE_URL', certificate-authority-data: $ca, tls-server-name: kubernetes.default.svc" 'token: admin-token'
        drive list pods
        config "server: '$KUBE_URL', certificate-authority-data: $ca, tls-server-name: wrong.example" 'token: admin-token'
        says EKEYREJECTED drive list pods
        KUBECONFIG=$K/kubeconfig pod tls sleep 100
        config "server: '$KUBE_URL', certificate-authority-data: $ca, tls-server-name: kubernetes.default.svc" 'token: admin-token' ', namespace: test'
        eq hello "$(drive exec tls - echo hello)" 'exec by tls-server-name'
        drive delete pods tls
        config "server: '$KUBE_URL', certificate-authority: $K/ca.crt" 'token: admin-token, as: someone, as-groups: [g1, "g 2"]'
        forget
        drive list pods
        eq 1 "$(asked 'q["user"] == "someone+g1+g 2"')"
}

# a proxy that only knows CONNECT; it writes what it was asked for, and takes every name for this host
proxies() {
        export KUBECONFIG=$W/config
        local port=${KUBE_URL##*:} pid
        cat >proxy.py <<'P'
import socket, sys, threading
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(50)
open("proxy-port", "w").write(str(s.getsockname()[1]))
def copy(a, b):
    try:
        while True:
            d = a.recv(65536)
            if not d: break
            b.sendall(d)
    except OSError: pass
    for x in (a, b):
        try: x.shutdown(2)
        except OSError: pass
def serve(c):
    head = b""
    while b"\r\n\r\n" not in head:
        d = c.recv(4096)
        if not d: return
        head += d
    where = head.split()[1].decode()
    open("proxied", "a").write(where + "\n")
    u = socket.create_connection(("127.0.0.1", int(where.rsplit(":", 1)[1])))
    c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    threading.Thread(target=copy, args=(u, c), daemon=True).start()
    copy(c, u)
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
P
        python3 proxy.py &
        pid=$!
        # shellcheck disable=SC2064
        trap "kill $pid" EXIT
        wait_for 60 test -s proxy-port
        config "server: 'https://kubernetes.default.svc:$port', certificate-authority: $K/ca.crt" 'token: admin-token' ', namespace: test'
        HTTPS_PROXY=http://127.0.0.1:$(cat proxy-port) drive list pods
        eq "kubernetes.default.svc:$port" "$(cat proxied)" 'HTTPS_PROXY'
        HTTPS_PROXY=http://127.0.0.1:$(cat proxy-port) NO_PROXY=.default.svc says ENETUNREACH drive list pods
        HTTPS_PROXY=http://127.0.0.1:1 says ENETUNREACH drive list pods
        : >proxied
        config "server: '$KUBE_URL', certificate-authority: $K/ca.crt, proxy-url: 'http://127.0.0.1:$(cat proxy-port)'" 'token: admin-token' ', namespace: test'
        pod proxied sleep 100
        eq yes "$(drive exec proxied - echo yes)" 'exec through a proxy'
        grep -q "^127.0.0.1:$port$" proxied || fail "proxy-url: $(cat proxied)"
        drive delete pods proxied
        # what is on this host needs no proxy, as with kubectl
        config "server: '$KUBE_URL', certificate-authority: $K/ca.crt" 'token: admin-token'
        HTTPS_PROXY=http://127.0.0.1:1 drive list pods
}

# --- calls ---

objects() {
        local uid
        uid=$(object one ',"labels":{"a":"b"}' | drive create configmaps)
        has "$(drive get configmaps one)" "$uid"
        says 'EEXIST: POST /api/v1/namespaces/test/configmaps: 409 configmaps "one" already exists' drive create configmaps < <(object one)
        echo '{"data":{"k":"v"},"metadata":{"labels":{"a":null,"c":"d"}}}' | drive patch configmaps one
        has "$(drive get configmaps one)" '"data":{"k":"v"},"kind":"ConfigMap","metadata":{"creationTimestamp"'
        eq one "$(drive list configmaps c=d)"
        eq '' "$(drive list configmaps a=b)"
        object one ',"resourceVersion":"1"' >old
        says EBUSY drive replace configmaps one <old
        object one | drive replace configmaps one
        says EBUSY drive delete configmaps one 00000000-0000-0000-0000-000000000000
        drive delete configmaps one "$uid"
        says 'ENOENT: GET /api/v1/namespaces/test/configmaps/one: 404 configmaps "one" not found' drive get configmaps one
        says ENOENT drive delete configmaps one
        for name in '' . .. 'a/../b' "$(printf 'x%.0s' {1..254})"; do
                drive get configmaps "$name" >said 2>&1 && fail "took '$name'"
                grep -qE 'EINVAL|ENOENT' said || fail "'$name': $(cat said)"
        done
        eq 'v1.31.0 31' "$(drive version)"
}

reviews() {
        fake set '{"deny": ["delete jobs", "* pods/exec"]}'
        eq yes "$(drive allowed delete '' pods '')"
        eq no "$(drive allowed delete batch jobs '')"
        eq no "$(drive allowed get '' pods exec)"
        says 'EPERM: DELETE /apis/batch/v1/namespaces/test/jobs/x: 403 jobs' drive delete jobs x
        pod denied sleep 100
        says EPERM drive exec denied - true
        fake set '{"deny": []}'
        drive delete pods denied
}

# what the server says, and what is made of it; one request each, the last column says how many
failures() {
        while IFS='|' read -r rule want n; do
                fake faults "[{\"path\": \"configmaps\", \"times\": 0, $rule}]"
                forget
                says "$want" timeout 60 "$HELPERS/kube-drive" get configmaps x
                eq "$n" "$(asked '"configmaps" in q["path"]')" "requests for $rule"
        done <<'ROWS'
"status": 400, "message": "bad"|EINVAL|1
"status": 401|EACCES|1
"status": 403, "message": "two\nlines \u001b[31m"|two\nlines \x1b[31m|1
"status": 405|EINVAL|1
"status": 409, "reason": "Conflict"|EBUSY|1
"status": 410, "reason": "Gone"|ESTALE|1
"status": 422|EINVAL|1
"status": 302|EBADMSG|1
"status": 502, "html": true|EREMOTEIO: GET /api/v1/namespaces/test/configmaps/x: 502 <html>a proxy's page\n|5
"status": 429|EAGAIN|5
"cut": true|ECONNRESET|5
"huge": 34000000|EFBIG|1
"deep": 200|EBADMSG|1
"raw": "not json"|EBADMSG|1
"raw": "{\"a\": 1, \"a\": 2}"|EBADMSG|1
"empty": true|EBADMSG|1
ROWS
        fake faults '[]'
        KUBECONFIG=$W/config
        config "server: 'https://127.0.0.1:9', certificate-authority: $K/ca.crt" 'token: admin-token'
        says ENETUNREACH drive list pods
}

# Answers that do not end, or that two readers would read differently: an errno, in the time of a call, and no memory
hostile_answers() {
        local rule want
        object plain | drive create configmaps >/dev/null
        while IFS='|' read -r rule want; do
                fake faults "[{\"path\": \"configmaps\", \"times\": 0, $rule}]"
                (ulimit -v 2000000; says "$want" timeout 100 "$HELPERS/kube-drive" get configmaps plain) || fail "$rule"
                fake faults "[{\"path\": \"/exec\", \"times\": 0, $rule}]"
                (ulimit -v 2000000; timeout 100 "$HELPERS/kube-drive" exec plain - true >out 2>err) && fail "exec: $rule"
                eq 1 "$(wc -l <err)" "exec: $rule: $(cat err)"
        done <<'ROWS'
"bytes": "HTTP/1.1 200 OK\r\nX: ", "again": "x", "at_once": 65536, "repeat": 160|E
"bytes": "HTTP/1.1 200 OK\r\n", "again": "X: y\r\n", "at_once": 10000, "repeat": 100|E
"bytes": "", "again": "HTTP/1.1 100 Continue\r\n\r\n", "at_once": 10000, "repeat": 200|E
"bytes": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\u001f~~~"|EBADMSG
"bytes": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 30\r\n\r\n{}"|E
"bytes": "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"|E
"bytes": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}"|E
"bytes": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "again": "20\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n", "at_once": 5000, "repeat": 300|EFBIG
"bytes": "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"|E
"bytes": "HTTP/0.9 \u0000\r\n\r\n{}"|E
ROWS
        if [ -n "${COFFERDAM_LONG-}" ]; then # one line of the head each half second: over after KUBE_CALL_MS
                fake faults '[{"path": "/exec", "bytes": "HTTP/1.1 101 Switching\r\n", "again": "X: y\r\n", "repeat": 400, "pause": 0.5}]'
                says ETIMEDOUT timeout 100 "$HELPERS/kube-drive" exec plain - true
        fi
        fake faults '[]'
        drive delete configmaps plain
}

retries() {
        local t
        fake faults '[{"path": "configmaps", "times": 2, "status": 429, "retry_after": 1}]'
        t=$(date +%s%N)
        drive list configmaps
        [ $((($(date +%s%N) - t) / 1000000)) -ge 2000 ] || fail 'Retry-After was not waited for'
        fake faults '[{"path": "configmaps", "times": 3, "status": 503}]'
        drive list configmaps
        # in the middle of the answer
        fake faults '[{"path": "configmaps", "times": 2, "cut_after": 10}]'
        drive list configmaps
        # carried out, and the answer lost: it is ours
        fake faults '[{"method": "POST", "path": "configmaps", "done": true, "cut": true}]'
        forget
        object ours ',"annotations":{"t":"1"}' | drive create configmaps >uid
        eq 1 "$(asked 'q["method"] == "GET" and q["path"].endswith("/ours")')" 'look-ups'
        has "$(drive get configmaps ours)" "$(cat uid)"
        # the same, and what is there is another's
        fake faults '[{"method": "POST", "path": "configmaps", "cut": true}]'
        says EEXIST drive create configmaps < <(object ours ',"annotations":{"t":"2"}')
        fake faults '[{"method": "DELETE", "path": "configmaps", "done": true, "cut": true}]'
        says ENOENT drive delete configmaps ours
        # somebody wrote at the same time: it is still the one that was meant, and goes. Red without has_uid()
        object ours | drive create configmaps >uid
        fake faults '[{"method": "DELETE", "path": "configmaps", "status": 409, "reason": "Conflict"}]'
        drive delete configmaps ours "$(cat uid)"
        says ENOENT drive get configmaps ours
        object ours | drive create configmaps >uid
        fake faults '[{"method": "DELETE", "path": "configmaps", "status": 409, "reason": "Conflict", "times": 0}]'
        says EBUSY drive delete configmaps ours "$(cat uid)"
        fake faults '[]'
        drive delete configmaps ours
        fake faults '[]'
}

pages() {
        python3 - "$KUBE_URL" "$K/ca.crt" <<'PY'
import json, ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
import http.client
c = http.client.HTTPSConnection(sys.argv[1][8:], context=context)
for i in range(1200):
    o = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"p{i:04}", "namespace": "many"}}
    c.request("POST", "/fake/object", json.dumps({"resource": "configmaps", "object": o})); c.getresponse().read()
PY
        forget
        eq 1200 "$(drive --ns many list configmaps | sort -u | wc -l)"
        eq 3 "$(asked '"many" in q["path"]')" pages
        # pages without end, and parts that take memory: red without KUBE_LIST_PAGES_MAX, KUBE_NESTS_MAX
        fake faults '[{"path": "limit=", "times": 0, "raw": "{\"metadata\":{\"resourceVersion\":\"1\",\"continue\":\"x\"},\"items\":[]}"}]'
        says 'EFBIG: GET /api/v1/namespaces/many/configmaps: a list without an end' drive --ns many list configmaps
        fake faults '[{"path": "p0001", "times": 0, "many": 600000}]'
        says EBADMSG drive --ns many get configmaps p0001
        # stale between two pages: from the beginning, and nothing twice
        fake faults '[{"path": "continue=", "status": 410, "reason": "Expired"}]'
        eq 1200 "$(drive --ns many list configmaps | wc -l)"
        fake faults '[{"path": "continue=", "status": 410, "reason": "Expired", "times": 0}]'
        says ESTALE drive --ns many list configmaps
        fake faults '[]'
}

# --- watch ---

watching() {
        "$HELPERS/kube-drive" watch configmaps 60 app >"$1" 2>&1 &
        watcher=$!
}
stop_watching() {
        kill "$watcher" || fail "the watch had ended: $(cat "$1")"
        wait "$watcher" || true
}
seen() { grep -qx "$1" "$2"; }
labelled() { object "$1" ',"labels":{"app":"x"}'; }

watches() {
        labelled w1 | drive create configmaps >/dev/null
        watching out
        wait_for 60 seen 'ADDED w1 -' out
        forget
        labelled w2 | drive create configmaps >/dev/null
        object unlabelled | drive create configmaps >/dev/null
        wait_for 60 seen 'ADDED w2 -' out
        echo '{"data":{"a":"b"}}' | drive patch configmaps w2
        wait_for 60 seen 'MODIFIED w2 -' out
        fake cut
        drive delete configmaps w2
        wait_for 60 seen 'DELETED w2 -' out
        eq 0 "$(asked '"limit=" in q["query"]')" 'lists after a cut: it goes on where it was'
        # forgotten, and meanwhile: a hole that only a list fills
        fake faults '[{"path": "watch=1", "times": 0, "status": 503}]'
        fake cut
        labelled w3 | drive create configmaps >/dev/null
        drive delete configmaps w1
        fake compact
        fake faults '[]'
        wait_for 60 seen 'DELETED w1 -' out
        wait_for 60 seen 'ADDED w3 -' out
        [ "$(asked '"limit=" in q["query"]')" -ge 1 ] || fail 'no list after 410'
        stop_watching out
        eq 6 "$(wc -l <out)" "events: $(cat out)"
        drive delete configmaps w3
        drive delete configmaps unlabelled
}

# a version that is too old as status, what is no event, what is cut in the middle
odd_watches() {
        local rule
        for rule in '"gone": "status"' '"gone": "event"' '"line": "garbage"' '"line": "{\"type\":\"ADDED\"}"' '"cut_after": 40' \
                '"line": "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}"' '"cut": true' '"status": 429, "retry_after": 1'; do
                fake faults "[{\"path\": \"watch=1\", \"times\": 2, $rule}]"
                watching out
                sleep 0.3
                labelled odd | drive create configmaps >/dev/null
                wait_for 60 seen 'ADDED odd -' out || fail "$rule: $(cat out)"
                drive delete configmaps odd
                wait_for 60 seen 'DELETED odd -' out || fail "$rule: $(cat out)"
                eq 2 "$(wc -l <out)" "$rule: events: $(cat out)"
                stop_watching out
        done
        # one that does not end: bounded
        fake faults '[{"path": "watch=1", "times": 0, "long_line": 5000000}]'
        says 'EFBIG: watch /api/v1/namespaces/test/configmaps: an event that is too long' drive watch configmaps 20
        fake faults '[{"path": "watch=1", "times": 0, "status": 403}]'
        says EPERM drive watch configmaps 20
        # forgotten versions without end are asked for more and more slowly: red without the pause of after_failure()
        for rule in '"gone": "status"' '"gone": "event"'; do
                fake faults "[{\"path\": \"watch=1\", \"times\": 0, $rule}]"
                forget
                drive watch configmaps 5 >out
                [ "$(asked '"watch=1" in q["query"]')" -le 10 ] || fail "$rule: asked $(asked '"watch=1" in q["query"]') times"
        done
        fake faults '[]'
}

# bookmarks move the version on: after them, a history that was forgotten up to there is no reason to list again
bookmarks() {
        local version
        forget
        watching out
        wait_for 60 watched
        object elsewhere | drive create configmaps >/dev/null # moves the version on, and is no event
        version=$(drive get configmaps elsewhere | grep -o '"resourceVersion":"[0-9]*"' | cut -d'"' -f4)
        fake compact
        marked() { [ "$(asked "'watch=1' in q['query'] and q.get('bookmark', 0) > $version")" -gt 0 ]; }
        wait_for 60 marked || fail 'no bookmark'
        forget
        fake cut
        labelled after | drive create configmaps >/dev/null
        wait_for 60 seen 'ADDED after -' out
        eq 0 "$(asked '"limit=" in q["query"]')" lists
        stop_watching out
        drive delete configmaps after
        drive delete configmaps elsewhere
}

gone() {
        local uid
        fake set '{"delete_seconds": 1}'
        pod slow sleep 100
        uid=$(drive get pods slow | grep -o '"uid":"[^"]*"' | cut -d'"' -f4)
        says ETIMEDOUT drive gone pods slow 1
        drive delete pods slow
        drive delete pods slow # again is no failure
        drive gone pods slow 60
        says ENOENT drive get pods slow
        drive gone pods slow 60
        pod slow sleep 100
        drive gone pods slow 60 "$uid" # another one of that name
        drive delete pods slow '' now
        fake set '{"delete_seconds": 0.05}'
}

# --- commands ---

# exec_all PROTOCOL FRAME: what a command sees and says, over each protocol
exec_all() {
        export FRAME=$2
        [ -n "$FRAME" ] || unset FRAME
        fake set "{\"exec_protocols\": [\"$1.channel.k8s.io\"]}"
        pod ex sleep 1000
        status 7 drive exec ex - sh -c 'echo out; echo err >&2; exit 7' >out 2>err
        eq out "$(cat out)"
        eq err "$(cat err)"
        status 0 drive exec ex - true
        status 137 drive exec ex - sh -c 'kill -9 $$'
        status 127 drive exec ex - /nonexistent/x 2>err
        grep -q 'not started: .*executable file not found' err || fail "$(cat err)"
        eq '0 ' "$(drive exec ex - sh -c 'wc -c; true' | tr -d '\n') " 'stdin of a command that has none'
        printf 'no end of line' | status 3 drive exec ex i sh -c 'cat; exit 3' >out
        eq 'no end of line' "$(cat out)"
        : | status 0 drive exec ex i cat
        # it ends without reading
        head -c 5000000 /dev/zero | status 4 drive exec ex i sh -c 'exit 4'
        # it ends while stdin stays open
        [ -p open ] || mkfifo open
        exec 7<>open
        SECONDS_MAX=60 status 5 drive exec ex i sh -c 'sleep 0.3; exit 5' <open
        exec 7>&-
        head -c 20000000 /dev/urandom >big
        cp big same
        drive exec ex i cat <big | cmp - same
        eq "$(sha256sum <big)" "$(drive exec ex i sha256sum <big)"
        drive exec ex - sh -c 'head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2' 2>err | cmp -n 3000000 - /dev/zero
        eq 3000000 "$(wc -c <err)"
        # an output that nobody reads holds the command up, and does not fill our memory
        { sleep 1; head -c 8000000 | wc -c; } < <(exec "$HELPERS/kube-drive" exec ex - sh -c 'head -c 8000000 /dev/zero') >n
        eq 8000000 "$(cat n)"
        # arguments pass as they are
        eq "a b|*|\$x|ü|&=?#%41|" "$(drive exec ex - printf '%s|' 'a b' '*' '$x' 'ü' '&=?#%41')"
        eq $'0 x\n0 x\n0 x' "$(printf x | drive collect ex 3 cat)"
        drive delete pods ex '' now
        drive gone pods ex 60
        fake set '{"exec_protocols": ["v5.channel.k8s.io", "v4.channel.k8s.io"]}'
}

# red without the loop behind the command in unframe[], and without drain() of frame.c: the command was lost
exec_unread() {
        local frame
        pod unread sleep 1000
        fake set '{"exec_protocols": ["v4.channel.k8s.io"]}'
        head -c 5000000 /dev/zero >big
        for frame in '' "$C"; do
                export FRAME=$frame
                [ -n "$FRAME" ] || unset FRAME
                fake faults '[{"path": "/exec", "exec": "abrupt", "times": 0}]'
                status 4 drive exec unread i sh -c 'head -c 10 >/dev/null; exit 4' <big
                # it does not end: what is dropped is bounded, and the rest is as it was
                fake faults '[{"path": "/exec", "exec": "abrupt", "seconds": 60, "times": 0}]'
                ! { yes | timeout 60 "$HELPERS/kube-drive" exec unread i true 2>err; } || fail 'not lost?'
                has "$(cat err)" 'the connection was lost before the command ended'
        done
        unset FRAME
        fake faults '[]'
        fake set '{"exec_protocols": ["v5.channel.k8s.io", "v4.channel.k8s.io"]}'
        drive delete pods unread '' now
}

terminal() {
        local p
        pod term sleep 1000
        mkfifo open # its end does not come
        exec 7<>open
        for p in v5 v4; do
                fake set "{\"exec_protocols\": [\"$p.channel.k8s.io\"]}"
                drive exec term it sh -c 'sleep 0.3; stty size; tty -s && echo terminal; echo err >&2' <open >out 2>err
                eq $'24 80\nterminal\nerr' "$(tr -d '\r' <out)" "over $p"
                eq '' "$(cat err)"
                printf 'echo typed $((6*7))\rexit 9\r' >&7
                status 9 drive exec term it sh <open >out
                has "$(cat out)" 'typed 42'
        done
        fake set '{"exec_protocols": ["v5.channel.k8s.io", "v4.channel.k8s.io"]}'
        drive delete pods term '' now
}

# lost is not ended: the errno, never an exit code of the command
lost_execs() {
        pod lost sleep 1000
        while IFS='|' read -r rule want; do
                fake faults "[{\"path\": \"/exec\", \"times\": 1, $rule}]"
                says "$want" timeout 60 "$HELPERS/kube-drive" exec lost - sh -c 'printf 0123456789; exit 3'
        done <<'ROWS'
"exec": "cut", "cut_after": 10|ECONNRESET: exec: the connection was lost before the command ended
"exec": "no_status"|ECONNRESET
"exec": "close"|ECONNRESET
"exec": "huge"|EFBIG
"exec": "bad_frame"|EBADMSG
"exec": "bad_opcode"|EBADMSG
"exec": "status", "raw": "garbage"|EBADMSG
"exec": "status", "raw": "{\"status\":\"Failure\",\"message\":\"error dialing backend\"}"|EREMOTEIO: exec: the server could not run the command: error dialing backend
"exec": "status", "raw": "{\"status\":\"Failure\",\"details\":{\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"1e3\"}]}}"|EREMOTEIO
"exec": "status", "raw": "{\"status\":\"Perhaps\"}"|EBADMSG
"cut": true|ECONNRESET
"status": 403, "reason": "Forbidden", "message": "no"|EPERM
"status": 404|ENOENT
"status": 500, "message": "boom"|EREMOTEIO
"raw": "{}"|EBADMSG
"slow": 0.2, "status": 302|EBADMSG
ROWS
        # stdin, whose frames depend on it. Red without is_offered()
        fake faults '[{"path": "/exec", "protocol": "v4.channel.k8s.io"}]'
        says 'EBADMSG: the server chose a subprotocol that was not offered' drive exec lost i cat <"$K/port"
        fake faults '[{"path": "/exec", "exec": "text"}]'
        status 3 drive exec lost - sh -c 'exit 3'
        fake faults '[]'
        says ENOENT drive exec nobody - true
        fake set '{"exec_protocols": []}'
        says EPROTONOSUPPORT drive exec lost - true
        fake set '{"exec_protocols": ["v5.channel.k8s.io", "v4.channel.k8s.io"]}'
        # the node goes, or the pod
        drive exec lost - sh -c ": >'$W/begun'; exec sleep 100" >said 2>&1 &
        wait_for 60 test -e begun
        fake cut
        wait $! && fail 'a cut exec succeeded'
        grep -q ECONNRESET said || fail "$(cat said)"
        SECONDS_MAX=3 says 'ETIMEDOUT: exec: time is over' drive exec lost - sleep 100
        says E2BIG drive exec lost - "$(head -c 70000 /dev/zero | tr '\0' x)"
        drive delete pods lost '' now
}

# a reader that goes away
broken_pipe() {
        pod pipe sleep 1000
        (drive exec pipe - sh -c 'while :; do echo x; done' 2>said || echo $? >rc) | head -n 1 >/dev/null
        eq 1 "$(cat rc)"
        grep -qE 'EPIPE|ECONNRESET' said || fail "$(cat said)"
        drive delete pods pipe '' now
}

many_execs() {
        local i
        pod many sleep 1000
        for i in {1..20}; do (printf '%s' "$i" | drive exec many i sh -c 'sleep 0.2; cat; exit 0' >"o$i") & done
        wait
        for i in {1..20}; do eq "$i" "$(cat "o$i")"; done
        drive delete pods many '' now
}

# silence in both directions, no pong: lost after KUBE_EXEC_DEAD_MS
half_open() {
        [ -n "${COFFERDAM_LONG-}" ] || skip 'opt-in: COFFERDAM_LONG=1 waits 45 seconds'
        pod dead sleep 1000
        fake faults '[{"path": "/exec", "exec": "silent", "seconds": 90}]'
        says 'ETIMEDOUT: exec: nothing heard' drive exec dead - sleep 100
        fake faults '[]'
        # and where pings are answered, silence is no failure
        status 0 drive exec dead - sleep 55
        drive delete pods dead '' now
}

# --- logs ---

logs() {
        pod talk sh -c 'seq 1 300000; echo end >&2'
        ended() { drive get pods talk | grep -q Succeeded; }
        wait_for 60 ended
        seq 1 300000 >want
        echo end >>want
        drive logs talk 10000000 | cmp - want
        drive logs talk 1000 >out
        eq "[... $(($(wc -c <want) - 1000)) bytes truncated ...]" "$(head -n 1 out)"
        tail -n +2 out | cmp - <(tail -c 1000 want)
        drive logs talk 0 >out # the default
        eq "[... $(($(wc -c <want) - 1048576)) bytes truncated ...]" "$(head -n 1 out)"
        drive delete pods talk '' now
        drive gone pods talk 60
        says ENOENT drive logs talk 10
        fake set '{"pods": [{"match": "waits", "stay": "Pending"}]}'
        echo '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"waits"},"spec":{"containers":[{"name":"m"}]}}' | drive create pods >/dev/null
        says 'EINVAL' drive logs waits 10
        fake set '{"pods": []}'
        drive delete pods waits '' now
}

# cut in the middle: nothing twice, nothing missing
followed() {
        pod follow sh -c 'i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.05; done'
        drive follow follow 90 >out &
        sleep 0.6
        fake cut
        fake faults '[{"path": "/log", "times": 1, "cut_after": 100}]'
        sleep 0.4
        fake cut
        wait
        for i in {0..39}; do echo "line $i"; done | cmp - out
        drive delete pods follow
        pod endless sleep 100
        says ETIMEDOUT drive follow endless 1
        drive delete pods endless '' now
}

# --- doctor ---

# doctor_row KEY OPTION...: its state and evidence
doctor_row() {
        local key=$1
        shift
        timeout 100 "$T/libexec/cofferdam-kubernetes" doctor "$@" >rows
        python3 -c 'import json, sys; print(*(r["state"] + ": " + r["evidence"] for r in json.load(open("rows")) if r["key"] == sys.argv[1]))' "$key"
}

doctor() {
        has "$(doctor_row kubernetes_api)" "ok: context 'fake' of $K/kubeconfig, v1.31.0"
        has "$(doctor_row kubernetes_rights)" 'ok: namespace test: all'
        has "$(doctor_row kubernetes_pod_security)" 'ok: namespace test: enforce=restricted'
        has "$(doctor_row kubernetes_pod_security --namespace gone)" 'degraded: namespace gone cannot be read'
        has "$(doctor_row kubernetes_spread --spread-key kubernetes.io/hostname)" 'ok: 1 nodes'
        has "$(doctor_row kubernetes_spread --spread-key zone)" 'degraded: no node has the label zone'
        eq '' "$(doctor_row kubernetes_spread)"
        fake set '{"deny": ["delete jobs", "list persistentvolumeclaims", "get namespaces"]}'
        eq 'degraded: namespace test: may not list persistentvolumeclaims, delete jobs' "$(doctor_row kubernetes_rights)"
        fake set '{"deny": ["* pods/exec", "delete jobs"]}'
        eq 'missing: namespace test: may not get pods/exec, create pods/exec' "$(doctor_row kubernetes_rights)"
        fake set '{"deny": []}'
        fake faults '[{"path": "/version", "status": 401, "times": 0}]'
        has "$(doctor_row kubernetes_api)" 'missing: GET /version: 401'
        eq '' "$(doctor_row kubernetes_rights)"
        fake faults '[]'
        # all of it, by the program itself
        "$C" doctor --target kubernetes >table
        grep -q '^cluster rights *ok' table || fail "$(cat table)"
        "$C" doctor --target kubernetes --json >json
        python3 "$here/schema.py" "$TOP/docs/schema/doctor.json" json
}

# the fake cluster's pods have no addresses of their own: nc there says what a network would
network_is_proved() {
        local left
        mkdir -p "$K/bin"
        printf '#!/bin/sh\n[ "$1" = -l ] && exec sleep 1000\n[ -n "${COFFERDAM_FAKE_NET-}" ] || echo cofferdam\n' >"$K/bin/nc"
        chmod +x "$K/bin/nc"
        fake set '{"net": "enforced"}'
        eq 'ok: a pod reached another one until a policy forbade it' "$(doctor_row kubernetes_network_policy --prove-network x)"
        fake set '{"net": ""}'
        has "$(doctor_row kubernetes_network_policy --prove-network x)" 'degraded: a pod that a policy allows nothing reached'
        fake set '{"deny": ["create networkpolicies"]}'
        has "$(doctor_row kubernetes_network_policy --prove-network x)" 'and we may not make a policy to try one'
        fake set '{"deny": [], "pods": [{"match": "client", "stay": "Pending", "waiting": "ErrImagePull"}]}'
        # given up in the middle: nothing stays
        "$T/libexec/cofferdam-kubernetes" doctor --prove-network x >rows 2>&1 &
        left=$!
        wait_for 60 running_probe
        kill "$left"
        wait "$left" || true
        wait_for 60 nothing_left
        rm "$K/bin/nc"
}
running_probe() { [ -n "$(drive list pods)" ]; }
nothing_left() { [ -z "$(drive list pods)$(drive list networkpolicies)" ]; }

k 'a context of the kubeconfig, with a token and with a certificate' contexts
k 'several files: the first that names something wins' merged
k 'configurations that are wrong say where' wrong_configs
k 'in a cluster: the token is read again, also under a watch' in_cluster
k 'a credential plugin is kept until it expires, and asked again after 401' plugin
k 'a credential plugin gives a certificate' certificate_of_plugin
k 'TLS: authorities, names, impersonation' tls
k 'proxies: HTTPS_PROXY, NO_PROXY, proxy-url' proxies
k 'objects: create, get, list, patch, replace, delete' objects
k 'what we may' reviews
k 'every failure has its errno, one line, and a bound' failures
k 'an answer that does not end, or lies about its length' hostile_answers
k 'refused for now or broken in the middle: again, and nothing twice' retries
k 'long lists come in pages' pages
k 'a watch goes on after a cut, and lists after 410' watches
k 'a watch survives what servers do' odd_watches
k 'bookmarks spare a list' bookmarks
k 'waiting until an object is gone' gone
k 'commands over v5' exec_all v5 ''
k 'commands over v4, stdin in frames unpacked by sh' exec_all v4 ''
k 'commands over v4, stdin in frames unpacked by cofferdam' exec_all v4 "$C"
k 'over v4, the exit code of a command that leaves input unread' exec_unread
k 'a terminal' terminal
k 'a lost connection is not the end of a command' lost_execs
k 'nobody reads' broken_pipe
k 'twenty commands at once' many_execs
k 'a dead connection is noticed' half_open
k 'logs, and their tail' logs
k 'what the doctor says of a cluster' doctor
k 'whether a cluster enforces policies is proved, and nothing stays' network_is_proved
k 'a log that is followed through cuts' followed
kube_stop
finish
