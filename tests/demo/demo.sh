#!/bin/sh
# A demonstration that checks itself: one sandbox on a real repository, made for it and removed afterwards.
# Usage: demo.sh [COFFERDAM]. Exit status 1 when something is not as it says.
set -eu
cofferdam=${1:-$(dirname "$0")/../../build/cofferdam}
cofferdam=$(cd "$(dirname "$cofferdam")" && pwd)/$(basename "$cofferdam")
place=$(mktemp -d "${TMPDIR:-/tmp}/cofferdam-demo.XXXXXX")
trap 'cd /; rm -rf "$place"' EXIT
trap 'exit 130' INT TERM HUP
# runs of the demonstration are kept beside it, not among yours; git asks for a name
export XDG_STATE_HOME="$place/state" GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=Demo GIT_AUTHOR_EMAIL=demo@example.org GIT_COMMITTER_NAME=Demo GIT_COMMITTER_EMAIL=demo@example.org

if [ -t 1 ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); else bold='' plain=''; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
show() { # show COMMAND: prints it as a person would type it, and runs it
        printf '  $ %s\n' "$*" | sed "s|$cofferdam|cofferdam|"
        { sh -c "$*" 2>&1 || echo "(exit status $?)"; } | sed 's/^/    /'
}
check() { # check WHAT CMD...: the claim holds, or the demonstration fails
        what=$1
        shift
        if "$@" >/dev/null 2>&1; then
                printf '    ok: %s\n' "$what"
        else
                printf '    NOT SO: %s\n' "$what"
                exit 1
        fi
}
not() { ! "$@"; }

mkdir "$place/hello" && cd "$place/hello"
cat >hello.c <<'C'
#include <stdio.h>

int main(void) {
        puts("hello from the first commit");
        return 0;
}
C
printf 'hello: hello.c\n\t%s -O1 -o hello hello.c\n' "$(command -v cc || command -v gcc)" >Makefile
echo hello >.gitignore
echo 'licence of the project' >LICENSE
git init -q && git add . && git commit -qm 'first'
: >"$place/neighbour"

# What an agent, a build or a package script might do; it cannot know where it runs.
cat >"$place/work.sh" <<'WORK'
try() {
        if sh -c "$1" 2>/dev/null; then echo "  done:    $2"; else echo "  refused: $2"; fi
}
try 'sed -i s/first/second/ hello.c && make -s && ./hello >/dev/null' 'change the program, build and run it'
try 'git commit -qam second'                                  'commit the change'
try 'printf "#!/bin/sh\ntouch /tmp/cofferdam-demo-owned\n" >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit' \
        'plant a git hook that the host would run'
try 'mkdir -p .vscode && echo {} >.vscode/tasks.json'         'write a task for the editor of the host'
try 'echo mine >LICENSE'                                      'overwrite a protected file'
try 'echo key >>/root/.ssh/authorized_keys'                   'add an ssh key for root'
try 'echo x >/etc/cofferdam-demo'                             'write to /etc'
try "rm \"$NEIGHBOUR\""                                       'remove a file beside the workspace'
try 'cat /etc/shadow'                                         'read the passwords of the host'
WORK

title "A repository on the host: $place/hello"
show 'git log --oneline; ls -A'

title 'One sandbox on it, for work that is not trusted'
echo "  \$ cofferdam run --protect /LICENSE -- sh work.sh"
"$cofferdam" run --protect /LICENSE -e "NEIGHBOUR=$place/neighbour" \
        -e GIT_AUTHOR_NAME -e GIT_AUTHOR_EMAIL -e GIT_COMMITTER_NAME -e GIT_COMMITTER_EMAIL \
        --mount "type=bind,source=$place/work.sh,target=/run/work.sh,readonly" -- sh /run/work.sh >"$place/said" </dev/null ||
        { echo "    NOT SO: the run failed with status $?"; exit 1; }
sed 's/^/  /' "$place/said"

title 'What landed on the host: the real work'
show 'git log --oneline; ./hello'
check 'two commits' test "$(git rev-list --count HEAD)" = 2
check 'what was built inside runs outside' ./hello
check 'it was built from the changed source' sh -c './hello | grep -q second'

title 'What was written but is held until you have looked at it'
show "$cofferdam diff"
check 'the hook was written inside' grep -q 'done: .*git hook' "$place/said"
check 'the hook is not on the host' not test -e .git/hooks/pre-commit
check 'the editor task is not on the host' not test -e .vscode/tasks.json
"$cofferdam" diff >"$place/diff"
check 'the diff names both' sh -c "grep -q hooks/pre-commit '$place/diff' && grep -q .vscode/tasks.json '$place/diff'"

title 'What was refused'
grep refused: "$place/said" | sed 's/^/  /'
check 'the protected file is as it was' grep -qx 'licence of the project' LICENSE
check 'nothing new in /etc' not test -e /etc/cofferdam-demo
check 'the file beside the workspace is there' test -e "$place/neighbour"
check 'all five were refused' test "$(grep -c refused: "$place/said")" = 5

title 'Throw away what was held (or land it, with cofferdam apply)'
show "$cofferdam discard"
check 'nothing is held any more' test -z "$("$cofferdam" diff 2>/dev/null)"
check 'the working tree is clean' test -z "$(git status --porcelain)"
check 'git commits without running the hook' sh -c 'git commit -q --allow-empty -m third && ! test -e /tmp/cofferdam-demo-owned'

printf '\n%sAll of the above was checked.%s Next: cd to a project of yours and type\n' "$bold" "$plain"
printf '  %s run -- make test\n' "$cofferdam"
