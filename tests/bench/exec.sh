#!/usr/bin/env bash
# How long a further `true` takes in a sandbox that runs: bare, nsenter into the same namespaces, cofferdam exec, crun
# exec and podman exec, in turn, as root and as an ordinary user
# Usage: exec.sh [COFFERDAM]; ROUNDS=N (default 60)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
rounds=$(dirname "$cofferdam")/../tests/bench/rounds
[ -x "$rounds" ] || rounds=$here/../../build/tests/bench/rounds

# What has to be undone, last first.
undo=()
cleanup() {
        local i
        for ((i = ${#undo[@]} - 1; i >= 0; i--)); do eval "${undo[i]}" >/dev/null 2>&1; done
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP
place=$(mktemp -d /tmp/cofferdam-bench.XXXXXX)
undo+=("rm -rf '$place'")
# cofferdam's state is in memory, as crun's and podman's is: the file system of the disk is not what is measured
state=$(mktemp -d /dev/shm/cofferdam-bench.XXXXXX)
undo+=("rm -rf '$state'")
chmod 755 "$place" "$state"
cp -L "$cofferdam" "$place/cofferdam"
cp "$rounds" "$place/rounds"

# Everyone runs /bin/true of the host but crun and podman, who get a root of their own with the same program in it.
mkdir -p "$place"/root/{bin,dev,proc,sys,tmp,etc,run}
for program in true sleep; do cp -L "/bin/$program" "$place/root/bin/$program"; done
ldd /bin/true /bin/sleep | grep -oE '/[^ ]+[^:]' | sort -u | while read -r lib; do
        [ -f "$lib" ] || continue
        mkdir -p "$place/root$(dirname "$lib")"
        cp -L "$lib" "$place/root$lib"
done

bundle() {
        (cd "$1" && crun spec ${2:+--rootless} && python3 - "$place/root" <<'PY'
import json, sys
c = json.load(open("config.json"))
c["process"].update(terminal=False, args=["/bin/sleep", "1000"], rlimits=[])
c["root"] = {"path": sys.argv[1], "readonly": True}
c["linux"].pop("resources", None)
json.dump(c, open("config.json", "w"))
PY
        ) >/dev/null 2>&1
}

# race NAME ROOTLESS PREFIX...: one table, as the user that PREFIX makes
race() {
        local name=$1 rootless=$2 dir=$place/${1##* } id pid args hard
        local kept=$state/${1##* }
        shift 2
        hard=$(ulimit -Hn)
        echo "### As $name"
        mkdir -p "$dir/work" "$dir/bundle" "$kept" "$dir/run"
        [ -z "${owner-}" ] || chown -R "$owner" "$dir" "$kept"
        local as=("$@" env "XDG_STATE_HOME=$kept" "XDG_RUNTIME_DIR=$dir/run")
        id=$("${as[@]}" "$place/cofferdam" start -w "$dir/work") || return 1
        undo+=("${as[*]@Q} ${place@Q}/cofferdam rm -f $id")
        # a process to enter beside: the first one, init, cannot be looked at by an ordinary user
        "${as[@]}" "$place/cofferdam" exec -d "$id" /bin/sleep 1000 >/dev/null
        pid=$("${as[@]}" "$place/cofferdam" inspect "$id" | sed -n 's/^   "pid": \([0-9]*\),*/\1/p' | head -n 1)
        for pid in $(pgrep -P "$pid"); do pgrep -P "$pid" && break; done >"$dir/pid"
        pid=$(head -n 1 "$dir/pid")
        args=("${ROUNDS:-60}" bare /bin/true
                :: nsenter nsenter -t "$pid" -U -m -p -n -i -u -C --preserve-credentials /bin/true
                :: 'cofferdam exec' "$place/cofferdam" exec "$id" /bin/true)
        if command -v crun >/dev/null && bundle "$dir/bundle" "$rootless"; then
                [ -z "${owner-}" ] || chown -R "$owner" "$dir/bundle"
                if "${as[@]}" crun --cgroup-manager=disabled run -d --bundle "$dir/bundle" "bench$$" >/dev/null 2>"$dir/crun" </dev/null; then
                        undo+=("${as[*]@Q} crun delete -f bench$$")
                        args+=(:: 'crun exec' crun exec "bench$$" /bin/true)
                else
                        echo "crun cannot: $(tail -n 1 "$dir/crun")"
                fi
        fi
        if command -v podman >/dev/null; then
                if "${as[@]}" podman --cgroup-manager=cgroupfs --events-backend=file --runtime runc run -d --name "bench$$" --network none \
                        --ulimit "nofile=1024:$hard" --ulimit nproc=4096:4096 --rootfs "$place/root" /bin/sleep 1000 >/dev/null 2>"$dir/podman"; then
                        undo+=("${as[*]@Q} podman system migrate" "${as[*]@Q} podman rm -f -t 0 bench$$")
                        args+=(:: 'podman exec' podman --events-backend=file --runtime runc exec "bench$$" /bin/true)
                else
                        echo "podman cannot: $(tail -n 1 "$dir/podman")"
                fi
        fi
        (cd "$dir/work" && "${as[@]}" "$place/rounds" "${args[@]}")
}

# crun refuses a cgroup layout that is half v1, half v2: show it one of them, in a mount namespace of its own
if [ "$(id -u)" = 0 ] && [ -d /sys/fs/cgroup/unified ] && [ -z "${COFFERDAM_BENCH_VIEW-}" ]; then
        cleanup
        trap - EXIT
        # shellcheck disable=SC2016
        COFFERDAM_BENCH_VIEW=1 exec unshare -m --propagation private sh -c 'umount -l /sys/fs/cgroup/unified; exec "$@"' sh "$0" "$@"
fi
if [ "$(id -u)" = 0 ]; then
        race root '' env
        id cofftest >/dev/null 2>&1 || exit 0
        owner=cofftest:cofftest
        race 'an ordinary user' rootless setpriv --reuid cofftest --regid cofftest --init-groups env -i HOME=/home/cofftest PATH=/usr/bin:/bin
else
        race 'an ordinary user' rootless env
fi
