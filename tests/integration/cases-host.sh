#!/usr/bin/env bash
# Faults that users of other sandboxes reported, seen from the host: start-up errors, exit status, signals, terminal,
# crashes
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
cases=$SHARED/cases/host-open

one() {
        local rc=0 said
        # what emits the protocol of launcher and runner, and what makes the output of the command of it again
        if command -v python3 >/dev/null && [ -x "$T/libexec/cofferdam-runner" ]; then
                export C SBX_NDJSON="$here/case-ndjson.py launch" SBX_NDJSON_OUT="$here/case-ndjson.py raw"
        fi
        said=$(SBX="$C run --" SBX_DOCTOR="$C doctor" timeout -k 5 150 sh "$1" 2>&1) || rc=$?
        echo "$said"
        [ "$rc" != 77 ] || skip "case says: ${said##*skip: }"
        [ "$rc" = 0 ] || fail "exit status $rc"
        eq ok "$(tail -n 1 <<<"$said")" 'last line'
        eq '' "$(ls -A)" 'files left in the workspace'
}

[ -d "$cases" ] || {
        echo '1..0 # SKIP the shared case scripts are not beside the checkout'
        exit 0
}
for script in "$cases"/*.sh; do t "$(basename "$script" .sh)" one "$script"; done
finish
