#!/usr/bin/env bash
# cofferdam explain says what the guard does, which rule decides and who said it
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

rules=(--protect '**/keep/**' --hide '**/secret/**' --hold '*.key')

# Each operation on each kind of name: what explain says before is what happens then, to the work and to the host. Red
# for instance when fs/admit.c refuses with another errno, or the judge is not asked about removals.
tells_the_truth() { # [OPTION...]
        need_command python3
        cp "$TOP/tests/integration/explain.py" "$T/explain.py"
        mkdir work
        cd work
        [[ $* != *overlay* ]] || { rules=(--hold '*.key'); export OVERLAY=1; } # what protects or hides is the fuse engine's
        python3 "$T/explain.py" prepare "$C" explain "${rules[@]}" "$@"
        cp "$T/explain.py" .
        sandbox "${rules[@]}" "$@" -e OVERLAY="${OVERLAY-}" -- python3 explain.py act >../ends.json
        python3 "$T/explain.py" compare
}

field() { python3 -c "import json,sys; d=json.load(open('$1'))
for k in '$2'.split('.'): d = d[k]
print(d)"; }

who_said_it() {
        need_command python3
        mkdir .vscode d
        printf 'guard:\n  rules:\n    - {path: d/x, do: hide}\n    - {path: d/y, do: protect}\n' >s.yaml
        "$C" explain --json .vscode/tasks.json >a
        eq 'built-in: Shells, editors and debuggers' "$(field a rule.from)"
        eq '**/.vscode/**' "$(field a rule.pattern)"
        "$C" explain --json ./s.yaml d/y >a
        eq './s.yaml:4' "$(field a rule.from)"
        "$C" explain --json -s s.yaml --allow-write d/y d/y >a
        eq '--allow-write' "$(field a rule.from)"
        "$C" explain --json d/y >a
        eq 'no rule matches' "$(field a rule.from)"
        "$C" explain -s s.yaml d/y >a
        has "$(cat a)" "protect d/y (s.yaml:4)"
}

# a path is judged by where it leads
follows_links() {
        mkdir -p .vscode real
        ln -s .vscode code
        ln -s "$PWD/real" abs
        ln -s /etc/passwd out
        ln -s loop loop
        eq "$W/.vscode/x" "$("$C" explain code/x | head -n 1)"
        eq "$W/.vscode/x" "$("$C" explain real/../code/../code/./x | head -n 1)"
        eq "$W/real/x" "$("$C" explain abs/x | head -n 1)"
        eq "$W/out" "$("$C" explain out | head -n 1)"
        has "$("$C" explain out)" 'symlink to /etc/passwd'
        eq "/etc/x" "$("$C" explain abs/../../../../../../../etc/x | head -n 1)"
        has "$("$C" explain /etc/x)" 'the root of the host'
        has "$("$C" explain /tmp/x)" 'memory of the sandbox'
        status 1 "$C" explain loop/x 2>err
        has "$(cat err)" 'too many symbolic links'
}

exit_codes() {
        mkdir keep
        status 0 "$C" explain a write >/dev/null
        status 1 "$C" explain --protect 'keep/**' keep/a write >/dev/null
        status 0 "$C" explain --protect 'keep/**' keep/a read >/dev/null
        status 1 "$C" explain /usr/bin/x create >/dev/null
        {
                status 2 "$C" explain
                status 2 "$C" explain a b c d
                status 2 "$C" explain a b eat
                status 1 "$C" explain 0123456789ab a
                status 1 "$C" explain ./none.yaml a
        } 2>err
        eq 5 "$(wc -l <err)" 'lines on stderr'
}

# of a run: its own rules and what it holds, also of what it made
of_a_run() {
        need_command python3
        git init -q .
        sandbox --name it --hide secret -- sh -c 'git config core.pager evil; mkdir -p new/.git; printf "[alias]\na = b\n" >new/.git/config; ln -s .vscode code; rm -f .git/description; ln -s .git held'
        "$C" explain --json it .git/config >a
        eq run "$(field a version)"
        eq held "$(field a judge.verdict)"
        eq core.pager "$(field a judge.reason)"
        "$C" explain --json it secret >a
        eq --hide "$(field a rule.from)"
        "$C" explain --json it held >a
        eq 'symlink run' "$(field a type) $(field a version)"
        "$C" explain --json it new/.git/config >a
        eq alias.a "$(field a judge.reason)"
        "$C" explain --json it .git/description >a
        eq nothing "$(field a type)"
        "$C" discard it
}

# what explain reads was written by an attacker
hostile_names() {
        local n
        for n in $'a\nb' $'\033[31mred' $'\xff\xfe' "$(printf 'x%.0s' {1..255})"; do
                : >"$n"
                "$C" explain "$n" >out
                ! LC_ALL=C grep -qP '[\x00-\x09\x0b-\x1f\x7f-\xff]' out || fail 'control bytes reach the terminal'
                "$C" explain --json "$n" | python3 -m json.tool >/dev/null || fail 'not JSON'
        done
        mkdir -p .git
        mkfifo .git/config
        timeout 60 "$C" explain .git/config >/dev/null || fail 'hangs on a FIFO'
        rm .git/config
        truncate -s 3G .git/config
        has "$("$C" explain .git/config)" 'too long to be judged'
}

t 'what explain says is what happens, direct' tells_the_truth
t 'what explain says is what happens, cow' tells_the_truth --workspace-mode cow --engine fuse
t 'what explain says is what happens, staged' tells_the_truth --workspace-mode staged --engine fuse
t 'what explain says is what happens, staged by the kernel' tells_the_truth --workspace-mode staged --engine overlay
t 'what explain says is what happens, cow by the kernel' tells_the_truth --workspace-mode cow --engine overlay
t 'who said a rule' who_said_it
t 'links on the way are followed' follows_links
t 'exit codes' exit_codes
t 'the rules and the contents of a run' of_a_run
t 'hostile names and contents' hostile_names
finish
