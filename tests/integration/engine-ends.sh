#!/usr/bin/env bash
# Engines whose disk is full, and whose helpers die under a command: a failure with a code, in time, and nothing left
# shellcheck source=tests/integration/lib.sh
if [ "$(id -u)" = 0 ] && [ -z "${ENDS_APART-}" ]; then exec env ENDS_APART=1 unshare -m --propagation private "$0" "$@"; fi # the small disk is not the machine's
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"

# All that engines of this script write is on a disk of its own
if [ "$(id -u)" = 0 ]; then
        end() {
                rm -f "$E/full"
                [ ! -s "$T/registry.pid" ] || kill "$(cat "$T/registry.pid")" 2>/dev/null
                engines_clean
                umount -l "$E"
                clean
        }
        trap end EXIT
        trap 'echo "Bail out! killed"; end; exit 143' INT TERM HUP
        mount -t tmpfs -o size=96m,mode=755 none "$E"
        mkdir "$E/bin"
        : >"$E/mounts"
fi

nothing_left() { # ENGINE
        "$C" gc >/dev/null
        eq '' "$(containers "$1")" 'containers'
        eq '' "$(ls "$XDG_STATE_HOME/cofferdam/runs" 2>/dev/null)" 'runs'
}

# registry: one on the loopback, at $REGISTRY
registry() {
        local program
        program=$(command -v docker-registry) || skip 'no docker-registry: ./dev setup fetches it'
        if [ ! -e "$T/registry.yml" ]; then
                printf 'version: 0.1\nstorage: {filesystem: {rootdirectory: %s/registry}}\nhttp: {addr: "127.0.0.1:0"}\n' "$T" >"$T/registry.yml"
                "$program" serve "$T/registry.yml" >"$T/registry.log" 2>&1 &
                echo $! >"$T/registry.pid"
                disown
        fi
        wait_for 60 grep -q 'listening on' "$T/registry.log" || fail "$(cat "$T/registry.log")"
        REGISTRY=$(sed -n 's/.*listening on \([0-9.:]*\).*/\1/p' "$T/registry.log" | head -n 1)
        printf '[[registry]]\nlocation = "%s"\ninsecure = true\n' "$REGISTRY" >"$T/registries.conf"
        export CONTAINERS_REGISTRIES_CONF=$T/registries.conf
}

# Run, build and pull have no room; a command in a container that is there needs none
has_a_full_disk() {
        local id words images
        [ "$(id -u)" = 0 ] || skip 'only root can mount a small disk'
        engine_ready "$1"
        registry
        mkdir ctx data
        head -c 4000000 /dev/urandom >data/bytes
        tar -C data -cf data.tar bytes
        "$1" import data.tar "$REGISTRY/data:1" >said 2>&1 && "$1" push "$REGISTRY/data:1" >said 2>&1 && "$1" rmi "$REGISTRY/data:1" >said 2>&1 || fail "$(cat said)"
        cp data/bytes ctx/
        printf 'FROM busy:1\nCOPY bytes /bytes\n' >ctx/Dockerfile
        printf 'build: {context: ctx}\n' >spec.yaml
        id=$("$C" start -d "$1" --image busy:1)
        images=$("$1" images -q --no-trunc | sort)
        trap 'rm -f "$E/full"' EXIT
        cat /dev/zero >"$E/full" 2>/dev/null || true
        for words in '--image busy:1' '-s spec.yaml' "--image $REGISTRY/data:1"; do
                # shellcheck disable=SC2086 # words
                status 125 sandbox -d "$1" $words --events "$W/events" -- true >out 2>err
                has "$(cat events)" '"failure_code":"SANDBOX_CAPACITY"' "$words: $(cat err)"
                has "$(tail -n 1 err)" 'no space left on device' "$words"
                rm events
        done
        eq still "$("$C" exec "$id" -- echo still)"
        rm "$E/full"
        eq "$images" "$("$1" images -q --no-trunc | sort)" 'images'
        eq now "$(boxed "$1" -- echo now)"
        "$C" stop "$id" >/dev/null
        "$C" rm "$id" >/dev/null
        nothing_left "$1"
}

# monitors ENGINE ID: what the engine keeps beside the container of a run
monitors() {
        case $1 in
        podman) live_pids "-n cofferdam-$2 " ;;
        docker) live_pids "-id $(docker inspect --format '{{.Id}}' "cofferdam-$2") " ;;
        esac
}
# The monitor is killed while a command runs. conmon's death is nobody's; with its shim containerd ends the container
loses_its_monitor() { # ENGINE run|exec
        local id rc=0 want=3
        engine_ready "$1"
        # shellcheck disable=SC2016 # for the shell inside
        set -- "$@" sh -c 'echo >here; until [ -e go ]; do sleep 0.1; done; exit 3'
        if [ "$2" = exec ]; then
                id=$("$C" start -d "$1" --image busy:1)
                "$C" exec "$id" -- "${@:3}" 2>err &
        else
                boxed "$1" --events "$W/events" -- "${@:3}" 2>err &
        fi
        wait_for 60 [ -e here ] || fail 'no command runs'
        id=$(ls "$XDG_STATE_HOME/cofferdam/runs")
        set -- "$1" "$2" "$(monitors "$1" "$id" | head -n 1)"
        [ "$3" ] || fail 'no monitor'
        kill -KILL "$3"
        if [ "$1" = docker ]; then want=125; else : >go; fi
        wait $! || rc=$?
        eq "$want" "$rc" "exit status: $(cat err)"
        if [ "$want" = 125 ]; then
                eq 1 "$(wc -l <err)"
                has "$(cat err)" 'first process died'
                [ "$2" = exec ] || has "$(cat events)" '"failure_code":"'
        fi
        if [ "$2" = exec ]; then
                "$C" stop "$id" >/dev/null 2>&1 || true
                "$C" rm "$id" >/dev/null 2>&1 || true
        fi
        nothing_left "$1"
}

for engine in podman docker; do
        t "$engine: its disk is full" has_a_full_disk $engine
        for what in run exec; do t "$engine: what watches the container is killed, $what" loses_its_monitor $engine $what; done
done
finish
