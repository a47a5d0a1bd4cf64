#!/usr/bin/env bash
# The file system kit of ../shared/bench inside a sandbox against the bare directory, in turn
# Usage: fs.sh [COFFERDAM]; ROUNDS=N (default 3), SECTIONS='md git tar cc sq dir', COFFERDAM_SHARED=DIR
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
kit=${COFFERDAM_SHARED:-$here/../../../shared}/bench
sections=${SECTIONS:-md git tar cc sq dir}
[ -x "$kit/fs.sh" ] || { echo "fs: no kit in $kit (set COFFERDAM_SHARED)" >&2; exit 1; }
command -v jq >/dev/null || { echo 'fs: needs jq' >&2; exit 1; }

# Inputs and tools lie where a sandbox shows the host, read-only, so that both sides read them natively; and
# smaller than the kit's defaults, which are for a machine of its own.
export BENCH_HOME=${BENCH_HOME:-/var/cache/cofferdam-bench-$(id -un)} FS_MD=${FS_MD:-5000} FS_NM=${FS_NM:-5000} FS_DIR=${FS_DIR:-20000}
mkdir -p "$BENCH_HOME/out" 2>/dev/null || {
        echo "fs: cannot make '$BENCH_HOME': run as root, or set BENCH_HOME to a place of yours outside of /home and /tmp" >&2
        exit 1
}
rm -rf "$BENCH_HOME/kit" && cp -rL "$kit" "$BENCH_HOME/kit" && chmod -R u+w "$BENCH_HOME/kit" || exit 1
place=$(mktemp -d /var/tmp/cofferdam-bench.XXXXXX)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM HUP
mkdir "$place/bare" "$place/boxed" "$place/state"
export XDG_STATE_HOME=$place/state
# shellcheck source=/dev/null # of the kit
(. "$BENCH_HOME/kit/lib.sh" && build_tools && "$BENCH_HOME/kit/fsdata.sh") || exit 1

bare() {
        # neither side drops caches: inside nobody can
        if [ "$(id -u)" = 0 ]; then
                # shellcheck disable=SC2016
                unshare -m --propagation private sh -c 'mount --bind /dev/null /proc/sys/vm/drop_caches; exec "$@"' sh \
                        "$BENCH_HOME/kit/fs.sh" "$place/bare" "$@"
        else
                "$BENCH_HOME/kit/fs.sh" "$place/bare" "$@"
        fi
}
boxed() {
        "$cofferdam" run -w "$place/boxed" -e BENCH_HOME -e FS_MD -e FS_NM -e FS_DIR \
                --mount "type=tmpfs,target=$BENCH_HOME/out,size=64Mi" -- "$BENCH_HOME/kit/fs.sh" "$place/boxed" "$@"
}

for round in $(seq "${ROUNDS:-3}"); do
        for side in bare boxed; do
                # shellcheck disable=SC2086 # words
                $side $sections </dev/null | jq -c --arg p $side --argjson r "$round" '. + {peer: $p, round: $r}' \
                        >>"$place/results"
                echo "fs: round $round, $side: done" >&2
        done
done
python3 "$here/ratios.py" "$place/results"
