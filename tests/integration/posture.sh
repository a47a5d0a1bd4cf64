#!/usr/bin/env bash
# Every command has the same walls. Red when exec.c leaves out close_range(2) or umask(2), when init.c gives a second
# command another path, or when sandbox.c confines after it has started the first.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

same_walls() {
        timeout 120 /usr/bin/python3 "$here/posture.py" "$C" || fail 'the walls differ'
}

t 'run, exec, exec -t, exec -d and post_create: the same walls' same_walls
finish
