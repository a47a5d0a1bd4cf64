#!/usr/bin/env bash
# The image of the auth proxy, built and run by podman: not root, a root file system that cannot be written, no
# capability, no network. And the manifests of a cluster.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
pod=$T/pod

podman_here() {
        XDG_RUNTIME_DIR=$pod/xdg timeout -k 5 150 podman --root "$pod/root" --runroot "$pod/runroot" --tmpdir "$pod/tmp" \
                --events-backend=file --storage-driver=vfs --runtime runc --cgroup-manager=cgroupfs "$@"
}

podman_left() {
        local group
        [ -e "$pod/root" ] || return 0
        podman_here rm -fa -t 0
        for group in /sys/fs/cgroup/{,*/}"${T##*/}"; do # conmon leaves it a moment after podman
                [ ! -d "$group" ] || wait_for 60 find "$group" -depth -type d -exec rmdir {} +
        done
} >/dev/null 2>&1

trap 'podman_left; clean' EXIT
trap 'echo "Bail out! killed"; podman_left; clean; exit 143' INT TERM HUP

image() {
        [ "$(id -u)" = 0 ] || skip 'only root builds it here: the other needs ranges of subordinate IDs'
        need_command podman
        [ -x "$T/libexec/cofferdam-auth-proxy" ] || skip 'the auth proxy is not built'
        HOME=$pod/home
        mkdir -p "$pod/xdg" "$HOME" "$W/sockets"
        chown 10002:10002 "$W/sockets"
        export -f podman_here
        export pod
        printf '#!/bin/bash\npodman_here "$@"\n' >"$T/podman"
        chmod +x "$T/podman"
        "$TOP/images/auth-proxy/build.sh" "$T/libexec/cofferdam-auth-proxy" localhost/auth-proxy:test "$T/podman" || fail 'build'
        podman_here run -d --name it --log-level=error --read-only --cap-drop all --security-opt no-new-privileges --network none \
                --ulimit nofile=1024:20000 --ulimit nproc=4096:32768 --cgroup-parent "/${T##*/}" \
                -e "IRONFLOW_AUTH_PROXY_ADMIN_KEY=$(printf '%064d' 1)" -v "$W/sockets:/sockets" localhost/auth-proxy:test \
                --listen unix:/sockets/relay --admin-listen unix:/sockets/admin || fail 'run'
        wait_for 60 test -S sockets/admin || fail "$(podman_here logs it 2>&1)"
        eq ok "$(curl -s --unix-socket sockets/admin http://x/healthz | tr -d '\n')" health
        eq 401 "$(curl -s -o /dev/null -w '%{http_code}' --unix-socket sockets/relay http://x/r/api.example.org/)" relay
        has "$(curl -s --unix-socket sockets/admin -H "Authorization: Bearer $(printf '%064d' 1)" -d "{\"run_id\":\"r\",\"step\":\"s\",
                \"expires_at\":$(($(date +%s) + 60)),\"credential\":{\"kind\":\"api_key\",\"value\":\"x\"}}" http://x/admin/v1/tokens)" ifap_
        pid=$(podman_here inspect -f '{{.State.Pid}}' it)
        eq '10002 10002 10002 10002' "$(sed -n 's/^Uid:\t//p' "/proc/$pid/status" | tr '\t' ' ')" 'user'
        for set in CapInh CapPrm CapEff CapBnd CapAmb; do
                eq 0000000000000000 "$(sed -n "s/^$set:\t//p" "/proc/$pid/status")" "$set"
        done
        eq 1 "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$pid/status")" NoNewPrivs
        has "$(awk '$5 == "/" { print $6 }' "/proc/$pid/mountinfo")" ro 'the root'
        eq '' "$(find "/proc/$pid/root/" -xdev \( -perm -4000 -o -perm -2000 \) -type f)" 'set-user-ID files'
        podman_here stop -t 5 it >/dev/null
        eq 0 "$(podman_here inspect -f '{{.State.ExitCode}}' it)" 'exit status after SIGTERM'
}

# red when one of the lines leaves the manifest
manifests() {
        /usr/bin/python3 - "$TOP/images/kubernetes/auth-proxy.yaml" <<'PY' || fail "$(cat "$T/out")"
import sys
import yaml

docs = {d['kind']: d for d in yaml.safe_load_all(open(sys.argv[1], encoding='utf-8'))}
assert set(docs) == {'Namespace', 'ServiceAccount', 'Deployment', 'Service', 'NetworkPolicy'}, docs.keys()
pod = docs['Deployment']['spec']['template']['spec']
assert pod['automountServiceAccountToken'] is False and pod['enableServiceLinks'] is False
assert pod['securityContext']['runAsNonRoot'] is True and pod['securityContext']['runAsUser'] == 10002
assert pod['securityContext']['seccompProfile']['type'] == 'RuntimeDefault'
for name in 'hostNetwork', 'hostPID', 'hostIPC', 'volumes':
    assert name not in pod, name
for c in pod['containers']:
    s = c['securityContext']
    assert s['readOnlyRootFilesystem'] is True and s['allowPrivilegeEscalation'] is False
    assert s['capabilities'] == {'drop': ['ALL']} and s['runAsNonRoot'] is True
    assert all('value' not in e for e in c['env']), 'a value in plain text'
    assert c['resources']['limits']['memory']
    ports = {p['name'] for p in c['ports']}
    assert ports == {'relay', 'admin'}
selector = docs['Deployment']['spec']['selector']['matchLabels']
assert docs['Service']['spec']['selector'] == selector == docs['NetworkPolicy']['spec']['podSelector']['matchLabels']
for rule in docs['NetworkPolicy']['spec']['ingress']:
    who = rule['from'][0]['podSelector']['matchLabels']
    if 'claude-runner' in who.values():
        assert [p['port'] for p in rule['ports']] == ['relay'], 'sandboxes reach the admin side'
PY
}

t 'the image: not root, read-only, no capability, and it serves' image
t 'the manifests of a cluster keep the pod as narrow' manifests
finish
