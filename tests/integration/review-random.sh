#!/usr/bin/env bash
# Random changes in a plain directory and in a run: when all has landed, both are the same, and nothing is a conflict,
# for nobody else has written. Red when a change of apply's own is taken for one of the host's.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
need_python() { need_command python3; }

# tree DIR: names, types, modes, contents
tree() {
        (cd "$1" && find . -mindepth 1 \( -type f -printf '%p f %m\n' -exec sed 's/^/  /' {} \; -o -type l -printf '%p l %l\n' \
                -o -printf '%p %y %m\n' \))
}
sorted() { python3 -c 'import sys; print("".join(sorted("\n" + x for x in sys.stdin.read().replace("\n  ", "|").split("\n"))))'; }

# lands SEED ENGINE HOW: three runs, one after the other
lands() {
        local seed=$1 engine=$2 how=$3 round name mode=cow
        need_python
        [ "$engine" = fuse ] || "$C" run --workspace-mode cow --engine overlay -- true 2>"$T/why" || skip "$(tail -1 "$T/why")"
        echo "seed $seed"
        [ "$how" != staged ] || mode=staged
        rm -rf "$T/bare"
        mkdir "$T/bare"
        (cd "$T/bare" && python3 "$here/review-random.py" "$seed" 60)
        cp -a "$T/bare/." .
        cp "$here/review-random.py" "$T/changes.py"
        sleep 0.05
        for round in 1 2 3; do
                (cd "$T/bare" && python3 "$T/changes.py" "$seed$round" 25)
                sandbox --workspace-mode "$mode" --engine "$engine" --mount "type=bind,source=$T/changes.py,target=/r.py,readonly" -- \
                        python3 /r.py "$seed$round" 25
                if [ "$how" = parts ]; then # a path may wait for another: what is left lands with the rest
                        for name in c e a d b; do "$C" apply -- "$name" >>"$T/said" 2>&1 || true; done
                fi
                [ "$how" = staged ] || [ -z "$("$C" diff 2>/dev/null)" ] || "$C" apply || fail "seed $seed, round $round: apply"
                eq '' "$("$C" diff 2>/dev/null)" "seed $seed, round $round: left"
                diff <(tree "$T/bare" | sorted) <(tree . | sorted) || fail "seed $seed, round $round: another tree"
        done
}

seeds=(1 2 9)
[ -z "${COFFERDAM_LONG-}" ] || seeds+=({20..99} $RANDOM)
for seed in "${seeds[@]}"; do
        for engine in fuse overlay; do
                for how in staged whole parts; do t "seed $seed, $engine, $how" lands "$seed" "$engine" "$how"; done
        done
done
finish
