#!/usr/bin/env bash
# Images that are made to break out of the hands of who runs them, and engines that do not answer as they should
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"

# image ENGINE NAME CHANGE...: busy:1 with what a Dockerfile can say
image() {
        local engine=$1 name=$2 change=()
        shift 2
        engine_ready "$engine"
        for line; do change+=(--change "$line"); done
        "$engine" import "${change[@]}" "$E/image.tar" "$name" >out 2>&1 || fail "import: $(cat out)"
}
# Volumes, also on our own places: the root is read-only in all of them. Red without freeze() (drivers/oci/inject.c)
has_no_volumes() {
        image "$1" volumes:1 'VOLUME ["/data", "/run", "/run/cofferdam/fuse", "/run/cofferdam/aside", "/run/secrets", "/etc", "/home", "/dev/shm/x", "/w\nx"]'
        echo secret >"$T/source"
        boxed "$1" --image volumes:1 --secret "A=file:$T/source,as=file" -- sh -c '
                cat /run/secrets/A
                for dir in / /data /run /run/cofferdam /run/cofferdam/fuse /run/cofferdam/aside /etc /home /run/secrets "/w
x"; do ! touch "$dir/x" 2>/dev/null || echo "writable: $dir"; done
                for file in /etc/hosts /etc/hostname /etc/resolv.conf /run/.containerenv; do ! echo x 2>/dev/null >>$file || echo "writable: $file"; done
                touch /tmp/x ~/x ./x && ls /run/cofferdam/fuse /run/cofferdam/aside; echo >/dev/shm/y; echo end' >out 2>err || fail "$(cat err)"
        eq 'secret /run/cofferdam/aside: /run/cofferdam/fuse: end' "$(xargs <out)"
        if [ "$1" = docker ]; then eq '' "$(docker volume ls -q)" 'volumes that are left'; else eq '' "$(podman volume ls -q)" 'volumes that are left'; fi
}
# A program that the engine starts in the container by itself. Red without --no-healthcheck (docker)
checks_no_health() {
        printf 'FROM busy:1\nHEALTHCHECK --interval=1s --timeout=5s CMD touch /tmp/health; sleep 60\n' >Dockerfile
        engine_ready "$1"
        if [ "$1" = podman ]; then set -- podman --format docker; fi
        "$1" build "${@:2}" -t health:1 . >out 2>&1 || fail "$(cat out)"
        id=$("$C" start -d "$1" --image health:1)
        check=$("$1" inspect --format '{{json .Config.Healthcheck}}' "cofferdam-$id")
        [[ $check =~ ^(null|.*NONE.*)$ ]] || fail "$check"
        "$C" stop -t 0 "$id" >/dev/null
        "$C" rm "$id" >/dev/null
}

for engine in podman docker; do
        t "$engine: volumes of the image" has_no_volumes $engine
        t "$engine: a health check of the image" checks_no_health $engine
done
finish
