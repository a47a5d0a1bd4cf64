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

# A run of which nobody has the id ends. Red when the supervisor lets go before it is answered.
nobody_heard() {
        status 125 "$C" start >/dev/full 2>err
        has "$(cat err)" 'tell the id of the run: No space left on device'
        wait_for 5 none_of_ours || fail 'it lives on'
        eq '' "$(ls -A "$T/state/cofferdam/runs")" 'runs'
}

t 'nobody hears that a run lives' nobody_heard
t 'killed at random points' random_points
finish
