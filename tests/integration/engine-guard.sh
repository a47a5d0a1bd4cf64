#!/usr/bin/env bash
# The guard and its pins in containers: what rules do to ways of changing a name (guard.sh), and bind sources that change on
# the host before the mount, between mount and command, and during the run (pins.sh)
# shellcheck source=tests/integration/lib.sh
if [ "$(id -u)" = 0 ] && [ -z "${COFFERDAM_MOUNTS-}" ]; then # what is mounted over sources stays here
        exec unshare -m --propagation private env COFFERDAM_MOUNTS=1 "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"
# shellcheck source=tests/integration/guard-lib.sh
. "$here/guard-lib.sh"
# shellcheck source=tests/integration/pins-lib.sh
. "$here/pins-lib.sh"

sources_clean() { # of the deepest first
        [ "$(id -u)" != 0 ] || grep -o " $T/d[^ ]*" /proc/self/mounts | sort -r | while read -r place; do umount -l "$place"; done
}
trap 'sources_clean; engines_clean; clean' EXIT
trap 'echo "Bail out! killed"; sources_clean; engines_clean; clean; exit 143' INT TERM HUP

cp "$HELPERS/swap" "$T/bin/"
export PATH=$T/bin:$PATH
long=${COFFERDAM_LONG:+1}
# a few of each kind: which ways there are is for pins.sh
ways='rename_source link_parent' mount_ways=mount_source

in_containers_of() {
        engine=$1
        how=(-d "$1" --image busy:1 --mount 'type=bind,source=/usr,target=/usr,readonly')
}

U=
g() {
        local opts=() rc=0
        while [ "$1" != -- ]; do
                case $1 in
                -p) opts+=(--protect "$2") ;;
                -h) opts+=(--hold "$2") ;;
                -H) opts+=(--hide "$2") ;;
                -b) # they always hold
                        shift
                        continue
                        ;;
                esac
                shift 2
        done
        shift
        sandbox "${how[@]}" "${opts[@]}" -- "$@" || rc=$?
        U=$(echo "$XDG_STATE_HOME"/cofferdam/runs/*/upper/0)
        return "$rc"
}
guards() {
        engine_ready "$engine"
        rm -rf "$XDG_STATE_HOME/cofferdam/runs"
        "$@"
        "$C" discard >/dev/null 2>&1 || true
}
# a workspace of each kind, and a bind that is read-only
keeps_kinds() {
        local mode id
        engine_ready "$engine"
        mkdir "$T/shown.$engine"
        echo shown >"$T/shown.$engine/f"
        for mode in staged cow; do
                mkdir "$mode"
                cd "$mode"
                echo old >f
                id=$("$C" start "${how[@]}" --mount "type=bind,source=$T/shown.$engine,target=/shown,readonly" --workspace-mode $mode)
                eq 'new shown' "$("$C" exec "$id" -- sh -c 'echo new >f; rm -f gone; for f in /shown/f /shown/g; do ! { echo x >$f; } 2>/dev/null || echo "written: $f"; done
                        ! rm /shown/f 2>/dev/null || echo removed; cat f /shown/f' | xargs)" "$mode"
                eq old "$(cat f)" 'what has not landed'
                "$C" stop -t 0 "$id" >/dev/null
                [ $mode = staged ] || "$C" apply >/dev/null
                eq new "$(cat f)" "$mode, in the end"
                cd ..
        done
        eq f "$(ls "$T/shown.$engine")"
}

# at run CMD...: before the engine makes the container, and so before the mount
at() {
        local way=$2 real rc=0
        shift 2
        real=$(command -v "$engine")
        mkdir -p "$T/shim"
        printf '#!/bin/bash\n[ "$1" != run ] || sh -c "$WAY"\nexec %s "$@"\n' "$real" >"$T/shim/$engine"
        chmod +x "$T/shim/$engine"
        env WAY="$way" PATH="$T/shim:$PATH" timeout 200 "$@" || rc=$?
        rm "$T/shim/$engine"
        return "$rc"
}
pinned() {
        engine_ready "$engine"
        "$@"
}
# between the mount and a command
before_a_command() {
        local way id rc
        for way in $ways; do
                rc=0
                sources
                id=$("$C" start "${how[@]}" --mount "type=bind,source=$D/up/mid/src,target=/data")
                sh -c "${!way}"
                "$C" exec "$id" -- cat /data/f </dev/null >out 2>err || rc=$?
                lacks "$(cat out)" canary "$way"
                [ "$rc" != 0 ] || fail "$way: the command ran"
                "$C" events "$id" >told || true
                "$C" rm -f "$id" >/dev/null || true
                has "$(cat told)" '"type":"bind_source_changed"' "$way"
        done
}
mounted() {
        [ "$(id -u)" = 0 ] || skip 'only root can mount where podman works'
        pinned "$@"
}

for engine in podman docker; do
        in_containers_of $engine
        t "$engine: a protected name, by every way" guards protected_every_way
        t "$engine: a hidden name, by every way" guards hidden_every_way
        t "$engine: a held file that is changed" guards held_change
        t "$engine: links to and from held names" guards links_are_refused
        t "$engine: a hard link from before the run" guards old_link_is_held
        t "$engine: a directory is renamed when no rule changes" guards directory_rename
        t "$engine: a judged file lands" guards judged_file_lands_at_close
        t "$engine: staged and cow workspaces, a read-only bind" keeps_kinds
        t "$engine: a source that changes before the mount" pinned when run
        t "$engine: a source that changes between mount and command" pinned before_a_command
        t "$engine: a source that changes during the run" pinned during_the_run
        t "$engine: a mount over a source before the mount" mounted when_mounted run
        t "$engine: a mount over a source during the run" mounted during_the_run_mounted
        t "$engine: lookups under a swapper of the source" pinned race_of_lookups up/mid/src evil
done
finish
