#!/usr/bin/env bash
# What a newcomer types: the demonstration, and ./dev run -- CMD
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

demonstration() {
        "$TOP/tests/demo/demo.sh" "$C" >out || fail "$(tail -n 5 out)"
        has "$(tail -n 3 out)" 'All of the above was checked'
}

# what differs from run to run: commits, the place, where the program is
steady() { sed -E 's/^( *)[0-9a-f]{7,} /\1COMMIT /; s,/[^ ]*/cofferdam-demo\.[A-Za-z0-9]+,PLACE,; s,^  /[^ ]*/cofferdam run,  COFFERDAM run,'; }

readme_shows_it() {
        awk '/^This is what `.\/dev run` prints/ { on = 1 } on && /^```$/ { n++; next } n == 1' "$TOP/README.md" | steady >want
        "$TOP/tests/demo/demo.sh" "$C" | sed 1d | steady >out
        diff want out || fail 'README.md shows something else'
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
t 'the README shows what it prints' readme_shows_it
t 'the demonstration can fail' demonstration_can_fail
t './dev run -- CMD is the command' dev_run
finish
