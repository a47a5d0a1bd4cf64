#!/usr/bin/env bash
# `--network open` in containers: the network that the engine gives, with what is outside, and without the host's loopback and
# abstract sockets. "The host" is a network namespace of this script, which root makes, so that no bridge and no rule of an
# engine is on the machine; in it a user's podman is tried too.
# shellcheck source=tests/integration/lib.sh
if [ "$(id -u)" = 0 ] && [ -z "${COFFERDAM_NET_HOST-}" ]; then
        exec unshare -n -m --propagation private env COFFERDAM_NET_HOST=1 "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"
outside=192.0.2.1 # of TEST-NET-1, of no network
docker_network=()

# what engines keep of networks stays in this mount namespace, as does a device for a user
become_the_host() {
        [ ! -e "$T/host" ] || return 0
        ip link set lo up
        ip addr add $outside/32 dev lo
        mount -t tmpfs none /run
        [ ! -d /var/lib/cni ] || mount -t tmpfs none /var/lib/cni
        mount -t tmpfs none /dev/net
        mknod -m 666 /dev/net/tun c 10 200
        : >"$T/host"
}

# servers: one outside, and what is the host's own
servers() {
        python3 - "$W/ports" "cofferdam-open-$$" "$W/reached" $outside 127.0.0.1 <<'PY' &
import os, select, socket, sys
ports, abstract, reached, *places = sys.argv[1:]
ears = [socket.create_server((place, 0)) for place in places] + [socket.socket(socket.AF_UNIX)]
ears[-1].bind("\0" + abstract)
ears[-1].listen()
with open(ports + ".new", "w") as f:
    f.write(" ".join(str(e.getsockname()[1]) for e in ears[:-1]))
os.rename(ports + ".new", ports)
while True:
    for ear in select.select(ears, [], [])[0]:
        with ear.accept()[0] as c:
            c.sendall(b"outside" if ear is ears[0] else b"the host's own")
        if ear is not ears[0]:
            with open(reached, "a") as f:
                f.write(f"{ear.getsockname()}\n")
PY
        wait_for 60 test -e ports || fail 'the servers do not start'
}

# Red with the engine's network that of the host (podman: netns = "host") and no check_apart() (drivers/oci/inject.c)
opens() {
        local engine=$1 server
        [ "$(id -u)" != 0 ] || become_the_host
        [ -w /dev/net/tun ] || skip 'only root can give a user /dev/net/tun, and does so in its half'
        engine_ready "$engine"
        servers
        server=$!
        cat >try.py <<'PY'
import os, socket, sys
def ask(family, place):
    with socket.socket(family) as s:
        s.settimeout(20)
        try:
            s.connect(place)
            return s.recv(100).decode()
        except OSError:
            return ""
outside, own = map(int, open("ports").read().split())
print(ask(socket.AF_INET, ("192.0.2.1", outside)))
# ways to the host's loopback: that itself, the gateway, what slirp4netns makes of it, names of engines
places = {"127.0.0.1", "10.0.2.2"}
for line in open("/proc/net/route").read().splitlines()[1:]:
    gateway = bytes.fromhex(line.split()[2])[::-1]
    if any(gateway): places.add(socket.inet_ntoa(gateway))
for name in "host.containers.internal", "host.docker.internal":
    try: places.add(socket.gethostbyname(name))
    except OSError: pass
for place in sorted(places): print(ask(socket.AF_INET, (place, own)), end="")
print(ask(socket.AF_UNIX, "\0" + sys.argv[1]), end="")
print("end")
PY
        eq 'outside end' "$(boxed "$engine" --mount 'type=bind,source=/usr,target=/usr,readonly' --network open --events events -- \
                python3 try.py "cofferdam-open-$$" 2>err | xargs)" "$(cat err)"
        kill "$server"
        [ ! -e reached ] || fail "reached: $(cat reached)"
        has "$(cat events)" '"network":"open"'
        lacks "$(cat events)" sandbox_degraded
}
of_a_user() {
        become_the_host
        "$here/as.sh" user engine-network 'podman: open' >said 2>&1 || fail "$(cat said)"
        grep -q '^ok 1 - podman: open' said || fail "$(cat said)"
        ! grep -q SKIP said || fail "$(cat said)"
}

# An engine that is told to give containers the host's network: refused by name, whatever is asked for
shares_nothing() {
        local of
        [ "$(id -u)" != 0 ] || become_the_host
        engine_ready podman
        for of in net:open ipc:none pid:none cgroup:none; do
                printf '%s\n' '[containers]' "${of%:*}ns = \"host\"" | cat "$E/containers.conf" - >conf
                case $of in
                net*)
                        CONTAINERS_CONF=$W/conf status 125 boxed podman --network open --events events -- echo started >out 2>err
                        has "$(cat err)" "the host's net namespace"
                        has "$(cat events)" '"failure_code":"'
                        [ ! -s out ] || fail 'a command ran'
                        ;;
                *) # asked for by name, which counts more
                        eq 1 "$(CONTAINERS_CONF=$W/conf boxed podman -- sh -c 'readlink /proc/self/ns/'"${of%:*}" | grep -cvxF "$(readlink "/proc/self/ns/${of%:*}")")" "$of"
                        ;;
                esac
        done
}

for engine in podman docker; do
        t "$engine: open" opens $engine
done
[ "$(id -u)" != 0 ] || t 'podman of a user: open' of_a_user
t 'podman: a configuration that shares namespaces of the host' shares_nothing
finish
