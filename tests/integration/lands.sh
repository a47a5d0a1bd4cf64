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
        timeout -k 5 200 guard-mount $kind -u "$T/upper$count" "${rules[@]}" "$W" -- "$@" || rc=$?
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

# A workspace on a file system that folds case, which does not say so: what is ruled is ruled in every spelling. Red
# when casefold_detect() does not try the names.
every_spelling() { # [OPTION...]
        local rc=0
        mkdir real mnt
        cp "$T/lands.py" real/
        (cd real && fixture && ruled >"$T/ruled")
        # shellcheck disable=SC2016 # for the inner shell
        unshare "$([ "$(id -u)" = 0 ] && echo --mount || echo --map-current-user)" --keep-caps --mount sh -c '
                "$1" real mnt & server=$!; shift
                for i in 1 2 3 4 5 6 7 8 9 10; do mountpoint -q mnt && break; sleep 0.1; done
                mountpoint -q mnt || exit 77
                cd mnt && cat KEEP/File >/dev/null || exit 78
                "$@"; rc=$?
                cd .. && umount mnt; wait $server; exit $rc' - "$HELPERS/fold-mount" \
                "$C" run --protect '/keep/**' --protect '/outer/keep/**' --hold '/held/**' --hold '/outer/held/**' \
                --hide '/secret/**' --hide '/outer/secret/**' "$@" -- python3 lands.py attack spellings >"$T/said" 2>"$T/err" || rc=$?
        [ "$rc" != 77 ] || skip "no FUSE file system can be mounted here: $(cat "$T/err")"
        [ "$rc" = 0 ] || fail "status $rc: $(tail -n 3 "$T/err")"
        has "$(cat "$T/said")" ./pub/file
        ! grep -av '^./lands.py' "$T/said" | grep -a HIDDEN-BYTES || fail 'a hidden byte was read'
        (cd real && ruled | diff "$T/ruled" -) || fail 'a ruled file has changed on the host'
        ! grep -rl WRITTEN-BY-THE-WORK real/[kK]* real/[hH]* real/[sS]* real/outer || fail 'the work has written there'
}

t 'the attacks work without a guard' attacks_work
t 'every spelling on a file system that folds case, direct' every_spelling
t 'every spelling on a file system that folds case, cow' every_spelling --workspace-mode cow
for name in $(python3 "$T/lands.py" list); do
        t "$name, direct" attack '' "$name"
        t "$name, cow" attack -c "$name"
        t "$name, staged" attack -s "$name"
done
finish
