#!/usr/bin/env bash
# Rules judge where a path lands: attacks with hard links, renames of parents, exchanges, descriptors, mappings, parents
# that are swapped, whiteouts of the work's own making and other spellings, in each kind of region
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

need_command python3
cp "$HELPERS/guard-mount" "$T/bin/"
cp "$TOP/tests/integration/lands.py" "$T/"
export PATH=$T/bin:$PATH
rules=(-b -p '/keep/**' -p '/outer/keep/**' -h '/held/**' -h '/outer/held/**' -H '/secret/**' -H '/outer/secret/**')

fixture() {
        local d
        mkdir -p keep held secret outer/keep outer/held outer/secret pub/deep
        for d in keep held outer/keep outer/held; do echo "old content" >$d/file; done
        echo HIDDEN-BYTES >secret/file
        echo HIDDEN-BYTES >outer/secret/file
        echo public >pub/file
        echo public >pub/deep/file
        echo public >outer/file
}

state() { python3 "$T/lands.py" state "$@" 2>&1 | sort; }

# what no attack may change
ruled() { state keep held secret outer/keep outer/held outer/secret | grep -vE '^(outer/)?(keep|held|secret) '; } # the directories themselves are under no rule

under() { # KIND COMMAND...
        local kind=$1 rc=0
        shift
        # shellcheck disable=SC2086 # an option or none
        timeout -k 5 60 guard-mount $kind -u "$T/upper$count" "${rules[@]}" "$W" -- "$@" || rc=$?
        [ "$rc" != 77 ] || skip 'no user namespaces or no /dev/fuse here'
        return "$rc"
}

attack() { # KIND NAME
        fixture
        mkdir -p "$T/upper$count"
        ruled >"$T/ruled"
        state . >"$T/all"
        under "$1" python3 "$T/lands.py" attack "$2" >"$T/said" 2>"$T/err" || fail "the attack ended early: $(tail -n 3 "$T/err")"
        under "$1" python3 "$T/lands.py" walk >>"$T/said" # what the upper holds, read again
        ! grep -a HIDDEN-BYTES "$T/said" || fail 'a hidden byte was read'
        ruled >"$T/ruled.after"
        diff "$T/ruled" "$T/ruled.after" || fail 'a ruled file has changed on the host'
        ! find keep held secret outer/keep outer/held outer/secret -name '*mark*' | grep . || fail 'a new name on the host'
        ! grep -rl WRITTEN-BY-THE-WORK keep held secret outer/keep outer/held outer/secret || fail 'the work has written there'
        [ -z "$(find . -name '.cofferdam-*')" ] || fail 'a name of ours on the host'
        ! state . | grep -aE "'(user|trusted)\.(overlay|cofferdam)" || fail 'the attributes of an overlay on the host'
        if [ -n "$1" ]; then
                state . | diff "$T/all" - || fail 'the host has changed'
        fi
}

# the attacks are attacks: on the bare directory each of them spoils or reads something
attacks_work() {
        local name
        for name in $(python3 "$T/lands.py" list); do
                case $name in swapped_parents | spellings) continue ;; esac # a race; needs a file system that folds case
                rm -rf ./*
                fixture
                ruled >"$T/ruled"
                python3 "$T/lands.py" attack "$name" >"$T/said" 2>"$T/err" || fail "$name: $(tail -n 3 "$T/err")"
                if ruled | diff -q "$T/ruled" - >/dev/null && ! grep -qa HIDDEN-BYTES "$T/said"; then fail "$name does nothing"; fi
        done
}

t 'the attacks work without a guard' attacks_work
for name in $(python3 "$T/lands.py" list); do
        t "$name, direct" attack '' "$name"
        t "$name, cow" attack -c "$name"
        t "$name, staged" attack -s "$name"
done
finish
