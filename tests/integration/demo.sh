#!/usr/bin/env bash
# What a newcomer types: the demonstration, and ./dev run -- CMD
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

demonstration() {
        "$TOP/tests/demo/demo.sh" "$C" >out || fail "$(tail -n 5 out)"
        has "$(tail -n 3 out)" 'All of the above was checked'
}

# a program that only claims to do something does not pass
demonstration_can_fail() {
        printf '#!/bin/sh\nexit 0\n' >nothing
        chmod +x nothing
        status 1 "$TOP/tests/demo/demo.sh" ./nothing >out
        has "$(cat out)" 'NOT SO'
}

dev_run() {
        # the first one may build
        "$TOP/dev" run -- true || fail './dev run -- true'
        eq "$W in" "$(printf in | "$TOP/dev" run -- sh -c 'printf "%s " "$PWD"; cat' 2>err)"
        eq '' "$(cat err)" stderr
        status 7 "$TOP/dev" run -- sh -c 'exit 7'
        status 143 "$TOP/dev" run -- sh -c 'kill $$'
        status 1 "$TOP/dev" run --
        status 2 "$TOP/dev" no-such-command >/dev/null 2>&1
}

t 'the demonstration holds' demonstration
t 'the demonstration can fail' demonstration_can_fail
t './dev run -- CMD is the command' dev_run
finish
