#!/usr/bin/env bash
# kill -9 at random points: nothing of a run stays but what it holds
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# COFFERDAM_SEED repeats a series. Red when fsd does not hold a lock on its upper, when gc does not remove the control
# group of a run that had not written its state, when the client does not bury what the supervisor left.
random_points() {
        local n=24
        [ -z "${COFFERDAM_LONG-}" ] || n=200
        python3 "$here/crash.py" "$C" "$W" "${COFFERDAM_POINTS:-$n}" "${COFFERDAM_SEED:-$RANDOM}" || fail 'something was left'
}

t 'killed at random points' random_points
finish
