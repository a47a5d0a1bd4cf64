#!/usr/bin/env bash
# A kit of file system loads inside a sandbox against the bare directory, in turn
# Usage: fs.sh [COFFERDAM]; ROUNDS=N (default 3), SECTIONS='md git tar cc sq dir', COFFERDAM_SHARED=DIR
set -u
here=$(cd "$(dirname "$0")" && pwd)
cofferdam=$(readlink -f "${1:-$here/../../build/cofferdam}")
kit=${COFFERDAM_SHARED:-$here/../../../shared}/bench
sections=${SECTIONS:-md git tar cc sq dir}
[ -x "$kit/fs.sh" ] || { echo "fs: no kit in $kit (set COFFERDAM_SHARED)" >&2; exit 1; }
command -v jq >/dev/null || { echo 'fs: needs jq' >&2; exit 1; }

# Smaller than the kit's defaults, which are for a machine of its own.
export FS_MD=${FS_MD:-5000} FS_NM=${FS_NM:-5000} FS_DIR=${FS_DIR:-20000}
place=$(mktemp -d /var/tmp/cofferdam-bench.XXXXXX)
trap 'rm -rf "$place" ${made:+"$made"}' EXIT
trap 'exit 130' INT TERM HUP
# Inputs and tools lie in /opt, which a sandbox shows as it is, so that both sides read them natively; without the
# right to write there they are mounted, and the sandbox reads them through its file server.
mounts=()
if [ -w /opt ]; then
        made=$(mktemp -d /opt/cofferdam-bench.XXXXXX)
        export BENCH_HOME=$made
else
        export BENCH_HOME=$place/home
        mkdir "$BENCH_HOME"
        mounts=(--mount "type=bind,source=$BENCH_HOME,target=$BENCH_HOME,readonly")
        echo 'fs: no right to write to /opt: reading the inputs counts too' >&2
fi
chmod 755 "$BENCH_HOME"
mkdir "$BENCH_HOME/out"
# the inputs belong to root, who is nobody inside
export GIT_CONFIG_GLOBAL=$BENCH_HOME/gitconfig
printf '[safe]\n\tdirectory = *\n' >"$GIT_CONFIG_GLOBAL"
cp -rL "$kit" "$BENCH_HOME/kit" && chmod -R u+w "$BENCH_HOME/kit" || exit 1
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
        "$cofferdam" run -w "$place/boxed" -e BENCH_HOME -e GIT_CONFIG_GLOBAL -e FS_MD -e FS_NM -e FS_DIR \
                "${mounts[@]}" --mount "type=tmpfs,target=$BENCH_HOME/out,size=64Mi" -- "$BENCH_HOME/kit/fs.sh" "$place/boxed" "$@"
}

for round in $(seq "${ROUNDS:-3}"); do
        for side in bare boxed; do
                # shellcheck disable=SC2086 # words
                $side $sections </dev/null 2>"$place/said" | jq -c --arg p $side --argjson r "$round" '. + {peer: $p, round: $r}' \
                        >>"$place/results"
                grep -v drop_caches "$place/said" >&2
                echo "fs: round $round, $side: done" >&2
        done
done
python3 "$here/ratios.py" "$place/results"
