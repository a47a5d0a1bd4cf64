#!/usr/bin/env bash
# How long `true` takes: bare, in bubblewrap, crun, podman and cofferdam, in turn, as root and as an ordinary user
# Usage: startup.sh [COFFERDAM]; ROUNDS=N (default 40)
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
rounds=$(dirname "$cofferdam")/../tests/bench/rounds
[ -x "$rounds" ] || rounds=$here/../../build/tests/bench/rounds
place=$(mktemp -d /tmp/cofferdam-bench.XXXXXX)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM HUP
chmod 755 "$place"
# cofferdam's state is in memory, as crun's and podman's is: the file system of the disk is not what is measured
state=$(mktemp -d /dev/shm/cofferdam-bench.XXXXXX)
trap 'rm -rf "$place" "$state"' EXIT
chmod 755 "$state"
mkdir "$state/root"

# Everyone runs /bin/true of the host but crun and podman, who get a root of their own with the same program in it.
mkdir -p "$place"/root/{bin,dev,proc,sys,tmp,etc,run} "$place/bundle" "$place/work"
cp -L "$cofferdam" "$place/cofferdam"
cp "$rounds" "$place/rounds"
cp -L /bin/true "$place/root/bin/true"
ldd /bin/true | grep -oE '/[^ ]+' | while read -r lib; do
        mkdir -p "$place/root$(dirname "$lib")"
        cp -L "$lib" "$place/root$lib"
done
chmod 1777 "$place/work" "$place/bundle"

# bundle ROOTLESS: an OCI bundle for crun
bundle() {
        (cd "$place/bundle" && rm -f config.json && crun spec ${1:+--rootless} && python3 - "$place/root" <<'PY'
import json, sys
c = json.load(open("config.json"))
c["process"].update(terminal=False, args=["/bin/true"], rlimits=[])
c["root"] = {"path": sys.argv[1], "readonly": True}
c["linux"].pop("resources", None)
json.dump(c, open("config.json", "w"))
PY
        ) >/dev/null 2>&1
}

# race PREFIX...: one table, as the user that PREFIX makes
race() {
        local hard args
        hard=$(ulimit -Hn)
        args=("${ROUNDS:-40}"
                bare /bin/true
                :: 'bwrap --unshare-all' bwrap --unshare-all --die-with-parent --ro-bind / / --dev /dev --proc /proc
                --tmpfs /tmp --bind "$place/work" "$place/work" --chdir "$place/work" /bin/true
                :: 'cofferdam run' "$place/cofferdam" run -w "$place/work" -- /bin/true)
        if command -v crun >/dev/null && bundle "$1"; then
                args+=(:: crun crun --cgroup-manager=disabled run --bundle "$place/bundle" "bench$$")
        fi
        if command -v podman >/dev/null; then
                args+=(:: podman podman --cgroup-manager=cgroupfs --events-backend=file run --rm --network none
                        --ulimit "nofile=1024:$hard" --ulimit nproc=4096:4096 --rootfs "$place/root" /bin/true)
        fi
        (cd "$place/work" && "${@:2}" "$place/rounds" "${args[@]}")
}

# crun refuses a cgroup layout that is half v1, half v2: show it one of them, in a mount namespace of its own
view=()
if [ "$(id -u)" = 0 ] && [ -d /sys/fs/cgroup/unified ]; then
        # shellcheck disable=SC2016
        view=(unshare -m --propagation private sh -c 'umount -l /sys/fs/cgroup/unified; exec "$@"' sh)
fi

if [ "$(id -u)" = 0 ]; then
        echo '### As root'
        race '' "${view[@]}" env "XDG_STATE_HOME=$state/root"
        id cofftest >/dev/null 2>&1 || exit 0
        mkdir -p "$place/user" "$state/user" && chown cofftest: "$place/user" "$state/user" "$place/bundle" && rm -f "$place/bundle/config.json"
        echo '### As an ordinary user'
        race rootless "${view[@]}" setpriv --reuid cofftest --regid cofftest --init-groups env -i HOME=/home/cofftest \
                PATH=/usr/bin:/bin "XDG_STATE_HOME=$state/user" "XDG_RUNTIME_DIR=$place/user"
else
        echo '### As an ordinary user'
        race rootless env "XDG_STATE_HOME=$state/root"
fi
echo '### Where the time goes (cofferdam run --trace-setup, one run of each)'
cd "$place/work" || exit 1
XDG_STATE_HOME=$state/root "$place/cofferdam" run --trace-setup -- /bin/true
