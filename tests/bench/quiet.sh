#!/usr/bin/env bash
# A benchmark on a machine that has other work to do: its processes, and those that container engines start for it, are in
# a group that gets the processors before all others. Root only, control groups of version 1.
# Usage: quiet.sh COMMAND [ARG...]
set -eu
group=/sys/fs/cgroup/cpu/cofferdam-bench.$$
mkdir "$group" || {
        echo "quiet.sh: no control group for processors: root, and version 1, are needed" >&2
        exit 1
}
away() {
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
}
trap away EXIT
trap 'exit 143' INT TERM HUP
echo 200000 >"$group/cpu.shares"
# shellcheck disable=SC2016 # for the inner shell: engines find the group where they look for the root of all
bash -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --cgroup bash -c '\''
        mount --bind "$1" /sys/fs/cgroup/cpu && shift && exec "$@"'\'' quiet.sh "$@"' quiet.sh "$group" "$@"
