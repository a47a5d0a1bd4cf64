# shellcheck shell=bash
# engine-lib.sh - container engines for scripts: storage of their own below $T, one small image, nothing left
#
# engine_ready podman|docker   once each: the engine can be called by its name, and has the image busy:1. A docker daemon
#                              is started when it is wanted first. Skips the test where the engine cannot be.
# engines_clean                ends and removes it all; called when the script ends
# boxed ENGINE [OPTION...] -- CMD...   `cofferdam run` on the image

E=$T/engines
mkdir -p "$E/bin"
: >"$E/mounts"
SERVERS=${COFFERDAM_SERVERS-$TOP/build/servers}

# /bin/busybox under its names, and what an image says of itself
make_image() {
        local root=$E/image name
        [ ! -e "$E/image.tar" ] || return 0
        mkdir -p "$root/bin" "$root/etc" "$root/usr/local/bin"
        cp /bin/busybox "$root/bin/busybox"
        for name in $(busybox --list); do [ "$name" = busybox ] || ln -s busybox "$root/bin/$name"; done
        # what busybox lacks: a shell that opens connections, with what it is linked to
        cp /bin/bash "$root/bin/bash"
        ldd /bin/bash | grep -o '/[^ ]*' | while read -r name; do
                mkdir -p "$root$(dirname "$name")"
                cp -L "$name" "$root$name"
        done
        echo root:x:0:0:root:/root:/bin/sh >"$root/etc/passwd"
        echo root:x:0: >"$root/etc/group"
        echo app:x:4321:4322::/srv/app:/bin/sh >>"$root/etc/passwd"
        tar -C "$root" -cf "$E/image.tar" .
}

import_image() { # ENGINE: with variables, a directory and a command that is never run
        "$1" import --change 'ENV OF_IMAGE=yes' --change 'ENV PATH=/usr/local/bin:/bin:/usr/bin' --change 'WORKDIR /etc' \
                --change 'CMD ["false"]' "$E/image.tar" busy:1 >"$E/import" 2>&1 || {
                cat "$E/import"
                return 1
        }
}

podman_ready() {
        need_command podman
        [ "$(id -u)" = 0 ] || need_command newuidmap
        cat >"$E/storage.conf" <<X
[storage]
driver = "overlay"
graphroot = "$E/podman"
rootless_storage_path = "$E/podman"
runroot = "$E/podman-run"
X
        # its own locks too: those of a user are the same ones for every store, and who finds none of its runs frees all
        printf '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nlock_type = "file"\ntmp_dir = "%s"\n' "$E/podman-tmp" >"$E/containers.conf"
        # crun of Debian 12 does not do with control groups of both versions at once
        if [ -d /sys/fs/cgroup/unified ] && command -v runc >/dev/null; then echo 'runtime = "runc"' >>"$E/containers.conf"; fi
        import_image podman || fail 'podman import'
}

docker_network=(--bridge=none --ip-forward=false --iptables=false --ip6tables=false)
# Its containerd gives up where a machine is so busy that it takes 15 seconds: once more, then.
docker_start() {
        local pid
        for _ in 1 2 3; do
                rm -f "$E/docker.pid"
                docker_daemon
                wait_for 100 up_or_over "$pid" || true
                ! docker version >/dev/null 2>&1 || return 0
                ! over "$pid" || continue
                break
        done
        tail -n 20 "$E/docker.log"
        fail 'dockerd does not come up'
}
up_or_over() { docker version >/dev/null 2>&1 || over "$1"; }
docker_daemon() {
        dockerd --data-root "$E/docker" --exec-root "$E/docker-run" -H "$DOCKER_HOST" --pidfile "$E/docker.pid" "${docker_network[@]}" --exec-opt native.cgroupdriver=cgroupfs >"$E/docker.log" 2>&1 &
        pid=$!
        disown
}

docker_ready() {
        [ "$(id -u)" = 0 ] || skip 'only root can start a docker daemon'
        need_command dockerd
        need_command docker
        docker_start
        import_image docker || fail 'docker import'
}

# the engines that tests find; programs that are fetched and not installed come last
export PATH=$PATH:$SERVERS/usr/sbin:$SERVERS/usr/bin
export DOCKER_HOST=unix://$E/docker.sock CONTAINERS_STORAGE_CONF=$E/storage.conf CONTAINERS_CONF=$E/containers.conf

engine_ready() {
        make_image
        [ -e "$E/ready-$1" ] || { "$1_ready" && : >"$E/ready-$1"; }
}

boxed() {
        local engine=$1
        shift
        case "$*" in *--image*) sandbox -d "$engine" "$@" ;; *) sandbox -d "$engine" --image busy:1 "$@" ;; esac
}

# over PID: it has ended, whoever reaps it
over() {
        local comm state session line
        ! look "$1"
}

# containers ENGINE: the names of all of ours
containers() { "$1" ps -a --filter label=app.kubernetes.io/managed-by=cofferdam --format '{{.Names}}'; }

engines_clean() {
        local pid place
        if [ -e "$E/storage.conf" ]; then
                podman rm -fa -t 0 >/dev/null 2>&1
                if [ "$(id -u)" != 0 ]; then # files of other users, which a user's podman can remove; then the process that it leaves
                        podman unshare rm -rf "$E/podman" "$E/podman-run" >/dev/null 2>&1
                        pid=$(cat "$E/podman-tmp/pause.pid" 2>/dev/null) && kill "$pid"
                fi
        fi
        if [ -e "$E/docker.pid" ]; then
                pid=$(cat "$E/docker.pid")
                docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1
                kill "$pid"
                wait_for 60 over "$pid"
        fi
        # the deepest first; a user has made none that is seen here
        [ "$(id -u)" != 0 ] || grep -o " $E/[^ ]*" /proc/self/mounts | sort -r | while read -r place; do umount -l "$place"; done
}
trap 'engines_clean; clean' EXIT
trap 'echo "Bail out! killed"; engines_clean; clean; exit 143' INT TERM HUP
