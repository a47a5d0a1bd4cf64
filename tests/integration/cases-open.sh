#!/usr/bin/env bash
# Faults that users of other sandboxes reported: each script of the shared cases that runs inside a sandbox, with the
# files made by the script itself and with the files already there when the sandbox starts (prep)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
cases=$SHARED/cases/open

# What other parts of the program are for; each is excluded by number with its reason.
declare -A not_here=(
        [08]='egress proxy' [22]='egress proxy' [23]='egress proxy' [24]='egress proxy' [25]='egress proxy'
)

# one SCRIPT [prep]
one() {
        local script=$1 rc=0 said
        [ -z "${2-}" ] || (cd "$W" && sh "$script" prep) || fail 'prep failed'
        said=$(CASE_SANDBOXED=1 sandbox -e CASE_SANDBOXED \
                --mount "type=bind,source=$cases,target=/cases,readonly" -- sh "/cases/$(basename "$script")" 2>&1) || rc=$?
        echo "$said"
        [ "$rc" != 77 ] || skip "case says: ${said##*skip: }"
        [ "$rc" = 0 ] || fail "exit status $rc"
        eq ok "$(tail -n 1 <<<"$said")" 'last line'
}

[ -d "$cases" ] || {
        echo '1..0 # SKIP the shared case scripts are not beside the checkout'
        exit 0
}
for script in "$cases"/*.sh; do
        name=$(basename "$script" .sh)
        [ -z "${not_here[${name%%-*}]-}" ] || continue
        t "$name" one "$script"
        ! grep -q '^prep()' "$script" || t "$name, prepared" one "$script" prep
done
finish
