#!/usr/bin/env bash
# The client of clusters against a real one: the lab that COFFERDAM_K8S=1 ./dev test starts (old: 1.20, and exec is v4)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube-lab-lib.sh
. "$(dirname "$0")/kube-lab-lib.sh"
lab_ready
export KUBECONFIG=$LAB/conf/admin.kubeconfig
N=cofferdam-client-$$
drive() { timeout -k 2 150 "$HELPERS/kube-drive" --ns "$N" "$@"; }
end_lab() {
        drive delete namespaces "$N" >/dev/null 2>&1
        clean
}
trap end_lab EXIT
trap 'echo "Bail out! killed"; end_lab; exit 143' INT TERM HUP

pod() {
        drive create pods <<<"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"$1\",\"labels\":{\"app\":\"$1\"}},\"spec\":{
                \"terminationGracePeriodSeconds\":1,\"automountServiceAccountToken\":false,\"restartPolicy\":\"Never\",
                \"securityContext\":{\"runAsNonRoot\":true,\"runAsUser\":10001,\"seccompProfile\":{\"type\":\"RuntimeDefault\"}},
                \"volumes\":[{\"name\":\"tmp\",\"emptyDir\":{\"sizeLimit\":\"512Mi\"}}],
                \"containers\":[{\"name\":\"main\",\"image\":\"lab.local/busybox:1\",\"imagePullPolicy\":\"IfNotPresent\",\"command\":[\"sh\",\"-c\",\"$2\"],
                        \"volumeMounts\":[{\"name\":\"tmp\",\"mountPath\":\"/tmp\"}],
                        \"securityContext\":{\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,\"capabilities\":{\"drop\":[\"ALL\"]}}}]}}" >/dev/null
}
phase() { drive get pods "$1" | grep -q "\"phase\":\"$2\""; }

namespace() {
        has "$(drive version)" v1.
        echo "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"$N\"}}" | drive create namespaces >/dev/null
        has_account() { drive get serviceaccounts default >/dev/null 2>&1; }
        wait_for 60 has_account
        pod main 'echo hello; sleep 100000'
        wait_for 60 phase main Running
}

watched() {
        "$HELPERS/kube-drive" --ns "$N" watch pods 100 app=gone >seen &
        local watcher=$!
        pod gone 'exit 3'
        wait_for 60 grep -q 'MODIFIED gone Failed' seen
        drive delete pods gone
        drive gone pods gone 60
        wait_for 60 grep -q 'DELETED gone' seen
        kill "$watcher"
        grep -q '^ADDED gone Pending' seen
}

commands() {
        local fd
        status 7 drive exec main - sh -c 'echo out; echo err >&2; exit 7' >out 2>err
        eq out "$(cat out)"
        eq err "$(cat err)"
        status 127 drive exec main - /nonexistent/x 2>err
        grep -q '^not started: ' err || fail "$(cat err)"
        status 137 drive exec main - sh -c 'kill -9 $$'
        # more than it reads: that is taken behind it, or containerd 1.6 may never tell of its end, to kubectl neither
        head -c 5000000 /dev/zero >unread
        status 4 timeout 60 "$HELPERS/kube-drive" --ns "$N" exec main i sh -c 'head -c 10 >/dev/null; exit 4' <unread
        # whose stdin stays open: what waits for it goes, too, and says nothing
        mkfifo in
        exec {fd}<>in
        status 4 drive exec main i sh -c 'exit 4' <in 2>err
        exec {fd}>&-
        eq '' "$(cat err)"
        eq hello "$(drive logs main 0)"
        local i
        for i in {1..10}; do (printf %s "$i" | drive exec main i sh -c 'sleep 0.3; cat' >"o$i") & done
        wait
        for i in {1..10}; do eq "$i" "$(cat "o$i")"; done
        (drive exec main - true && drive exec nobody - true) 2>err && fail 'a pod that is not there'
        grep -q '^ENOENT' err || fail "$(cat err)"
}

# 100 MB in and out, byte by byte the same; then again by the program itself in the place of sh
transfers() {
        head -c 100000000 /dev/urandom >big
        drive exec main i sh -c 'cat >/tmp/big' <big
        drive exec main - cat /tmp/big | cmp - big
        drive exec main i sh -c 'cat >/tmp/cofferdam; chmod 755 /tmp/cofferdam' <"$C"
        export FRAME=/tmp/cofferdam
        eq "$(sha256sum <big)" "$(drive exec main i sha256sum <big)"
        status 4 timeout 60 "$HELPERS/kube-drive" --ns "$N" exec main i sh -c 'head -c 10 >/dev/null; exit 4' < <(head -c 5000000 big)
        cp big same
        drive exec main i cat <big | cmp - same
        unset FRAME
        # what unpacks the frames is gone, too: process 1 of this pod reaps nobody. Its parents outside may be late.
        no_zombies() { [ "$(drive exec main - sh -c 'grep -lE "^State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l')" = 0 ]; }
        wait_for 60 no_zombies || fail 'zombies in the pod'
}

terminal() {
        local fd writer
        mkfifo in
        exec {fd}<>in
        drive exec main it sh <in >out &
        writer=$!
        printf 'stty size; echo $((6*7)); exit 9\r' >in
        status 9 wait $writer
        exec {fd}>&-
        has "$(cat out)" '24 80'
        has "$(cat out)" 42
}

doctor() {
        "$T/libexec/cofferdam-kubernetes" doctor --namespace "$N" --prove-network lab.local/busybox:1 >rows
        has "$(cat rows)" 'a pod that a policy allows nothing reached another one: accepted and not enforced'
        has "$(cat rows)" 'all 26 that runs need'
        eq main "$(drive list pods)" 'pods afterwards'
        eq '' "$(drive list networkpolicies)"
}

t 'a namespace, and a pod that runs' namespace
t 'a watch from creation to the end' watched
t 'commands' commands
t '100 MB both ways' transfers
t 'a terminal' terminal
t 'this cluster enforces no policy, and doctor says so' doctor
finish
