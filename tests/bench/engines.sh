#!/usr/bin/env bash
# What a container costs through cofferdam beside the engine's own `run` and `exec` of the same image: podman as root and
# as an ordinary user, docker as root with a daemon that is started here; in turn, the medians of the ratios
# Usage: engines.sh [COFFERDAM]; ROUNDS=N (default 20)
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
COFFERDAM=$(readlink -f "${1:-$top/build/cofferdam}")
rounds=${COFFERDAM_ROUNDS:-$(dirname "$COFFERDAM")/tests/bench/rounds}
[ -x "$rounds" ] || rounds=$(dirname "$COFFERDAM")/../tests/bench/rounds
export COFFERDAM COFFERDAM_SERVERS="${COFFERDAM_SERVERS:-$top/build/servers}"
set --
# shellcheck source=tests/integration/lib.sh
. "$top/tests/integration/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$top/tests/integration/engine-lib.sh"
cp "$rounds" "$T/rounds" || exit 1
exec 3>&1

# what cofferdam asks an engine for as well
hard=(--read-only --cap-drop ALL --security-opt no-new-privileges --log-driver none --network none)

# shellcheck disable=SC2317 # t calls it
race() { # ENGINE
        local engine=$1 id
        engine_ready "$engine"
        [ "$engine" = docker ] || hard+=(--ulimit nofile=1024:1024 --ulimit nproc=4096:4096)
        if [ "$engine" = podman ] && [ "$(id -u)" != 0 ]; then hard+=(--userns keep-id); fi
        printf '\n### %s, %s\n' "$engine" "$(role)" >&3
        "$T/rounds" "${ROUNDS:-20}" \
                "$engine run" "$engine" run --rm --pull never "${hard[@]}" --user "$(id -u):$(id -g)" busy:1 true \
                :: 'cofferdam run' "$C" run -d "$engine" --image busy:1 -- true >&3
        id=$("$C" start -d "$engine" --image busy:1)
        "$engine" run --detach --name beside "${hard[@]}" --user "$(id -u):$(id -g)" busy:1 sleep 10000 >/dev/null
        "$T/rounds" "$((${ROUNDS:-20} * 3))" "$engine exec" "$engine" exec beside true :: 'cofferdam exec' "$C" exec "$id" -- true >&3
        "$engine" rm -f beside >/dev/null
        "$C" rm -f "$id" >/dev/null
}

t podman race podman
t docker race docker
if [ "$(id -u)" = 0 ] && id cofftest >/dev/null 2>&1; then
        mkdir "$T/user" "$T/user/tests"
        cp -r "$top/tests/bench" "$top/tests/integration" "$T/user/tests/"
        setpriv --reuid cofftest --regid cofftest --init-groups env -i HOME=/home/cofftest PATH=/usr/bin:/bin ROUNDS="${ROUNDS-}" \
                COFFERDAM_ROUNDS="$T/rounds" bash "$T/user/tests/bench/engines.sh" "$C"
fi
finish
