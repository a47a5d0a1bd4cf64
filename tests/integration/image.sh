#!/usr/bin/env bash
# `cofferdam image`, with Debian's docker-registry on loopback and a front before it that misbehaves (image.py)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
for program in python3 openssl zstd busybox; do
        command -v "$program" >/dev/null || {
                echo "1..0 # SKIP no $program on this machine"
                exit 0
        }
done
[ -x "$T/libexec/cofferdam-image" ] || {
        echo '1..0 # SKIP cofferdam-image was not built: ./dev setup'
        exit 0
}
REGISTRY=$(command -v docker-registry || echo "${COFFERDAM_SERVERS:-$TOP/build/servers}/usr/bin/docker-registry")
[ -x "$REGISTRY" ] || {
        echo '1..0 # SKIP no docker-registry: ./dev setup fetches it'
        exit 0
}
IMAGE_LAB=$T/lab
export C REGISTRY IMAGE_LAB
mkdir "$IMAGE_LAB"
(
        cd "$IMAGE_LAB" || exit 1
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj '/CN=test authority' -keyout ca.key -out ca.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server -keyout server.key -out server.csr
        openssl x509 -req -days 30 -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.crt \
                -extfile <(echo 'subjectAltName=DNS:localhost,IP:127.0.0.1')
        openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj '/CN=token issuer' -keyout token.key -out token.pem
        openssl x509 -in token.pem -outform DER -out token.der
) >/dev/null 2>&1 || {
        echo 'Bail out! no keys'
        exit 1
}
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY all_proxy REGISTRY_AUTH_FILE DOCKER_CONFIG SSL_CERT_FILE

# each test has a store of its own
lab() {
        export XDG_STATE_HOME=$W/state
        python3 "$TOP/tests/integration/image.py" "$@"
}

# podman with a store of its own
podman_here() {
        XDG_RUNTIME_DIR=$T/pod/xdg timeout -k 5 150 podman --root "$T/pod/root" --runroot "$T/pod/runroot" --tmpdir "$T/pod/tmp" \
                --events-backend=file --storage-driver=vfs --runtime runc --cgroup-manager=cgroupfs "$@"
}

# a disk of our own, which is full soon
full_disk() {
        local words=(--mount)
        [ "$(id -u)" = 0 ] || words+=(--user --map-current-user --keep-caps)
        mkdir "$W/state"
        # shellcheck disable=SC2016 # for the shell inside
        XDG_STATE_HOME=$W/state unshare "${words[@]}" sh -c 'mount -t tmpfs -o size=8m,mode=0700 none "$0" && exec python3 "$@"' \
                "$W/state" "$TOP/tests/integration/image.py" full_disk
}

as_podman() {
        [ "$(id -u)" = 0 ] || skip 'only root mounts an image of podman where it can be looked at'
        need_command podman
        mkdir -p "$T/pod/xdg"
        export T
        export -f podman_here
        printf '#!/bin/bash\npodman_here "$@"\n' >"$T/podman"
        chmod +x "$T/podman"
        lab same_view "$T/podman"
}

t 'pull by tag, digest and index; TLS, tokens' lab tls_token
t 'logins of podman and docker, and the programs they name' lab basic_logins
t 'a pull goes on where it was' lab resume
t 'tokens that expire' lab expired
t 'what is not what its digest says is refused' lab corrupted
t 'credentials stay with their host' lab redirects
t 'hostile layers' lab hostile
t 'manifests that lead elsewhere' lab foreign_words
t 'layers that want into each other' lab across_layers
t 'an archive that wants all memory' lab memory
t 'tokens of elsewhere, errors without an end' lab elsewhere
t 'a login that a redirection asks for' lab foreign_challenge
t 'pulls at the same time' lab concurrent
t 'behind another pull' lab waits
t 'problems that pass' lab retried
t 'a killed pull' lab killed
t 'killed while it unpacks' lab killed_unpacking
t 'a full disk' full_disk
t 'a store that others can write' lab foreign_store
t 'layouts and archives' lab formats
t 'gc by age and size' lab collect
t 'progress' lab progress
t 'run with an image' lab root_of_image
t 'users of an image' lab users_of_image
t 'an image with links where directories are ours' lab traps_of_image
t 'run with a directory as root' lab rootfs_dir
t 'a run keeps its image' lab started
t 'gc while a run looks for its image' lab collected_meanwhile
t 'names that are none' lab bad_names
# the base image: the same twice, taken by cofferdam, and what it says
base_image() {
        export XDG_STATE_HOME=$W/state
        "$TOP/images/build.sh" --variant "$1" --name "base:$1" one.tar
        if [ "$1" = busybox ]; then
                "$TOP/images/build.sh" --variant "$1" --name "base:$1" two.tar
                cmp one.tar two.tar || fail 'not the same twice'
        fi
        "$C" image import one.tar
        has "$("$C" image ls)" "docker.io/library/base:$1"
        mkdir w
        eq "$(id -u) $1" "$(sandbox -d native -w w --image "base:$1" -- sh -c "id -u | tr '\\n' ' '; test -d /root && ls / >/dev/null && echo $1")"
        [ "$1" = busybox ] || sandbox -d native -w w --image "base:$1" -- git --version
        "$C" image rm "base:$1"
        status 2 "$TOP/images/build.sh" --variant nosuch x.tar
}

debian_base() {
        [ -n "${COFFERDAM_LONG-}" ] || skip 'opt-in: ./dev test --long makes the image of Debian packages'
        need_command mmdebstrap
        base_image debian
}

t 'the base image, of busybox' base_image busybox
t 'the base image, of Debian' debian_base
t 'the same view as podman' as_podman
finish
