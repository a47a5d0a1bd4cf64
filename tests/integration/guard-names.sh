#!/usr/bin/env bash
# What the host would later run is held, whatever way the name is made and wherever: nothing of it is on the host
# afterwards, all of it is visible inside and in the diff; what no rule speaks of lands
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# below the top of a working tree
held='.gitmodules .envrc .vscode/tasks.json .vscode/deep/er/x .idea/workspace.xml .devcontainer/devcontainer.json
        .devcontainer.json .mcp.json .claude/settings.json .claude/settings.local.json .claude/hooks/h
        .claude/agents/a.md .claude/commands/c.md .cursor/rules .gitlab-ci.yml .github/workflows/ci.yml
        .pre-commit-config.yaml .husky/pre-commit .npmrc .yarnrc .yarnrc.yml .cargo/config.toml .cofferdam.yaml .githooks/pre-commit
        lefthook.yml .lefthook-local.json .helix/languages.toml .kiro/settings/mcp.json .aider.conf.yml .github/hooks/h.json'
# below a git directory
held_git='hooks/pre-commit hooks/deep/x config config.worktree info/attributes'
allowed='plain.txt .vscodex .envrc2 vscode/tasks.json .github/README .claude/notes'
allowed_git='hooks/mine.sample description info/exclude'

# a workspace that is a repository and holds one nested, one submodule and one linked worktree
fixture() {
        rm -rf "$T/state/cofferdam"
        git init -q .
        git commit -q --allow-empty -m first
        git init -q deep/er/nested
        git init -q "$T/module" 2>/dev/null
        [ -n "$(git -C "$T/module" rev-parse -q --verify HEAD)" ] || git -C "$T/module" commit -q --allow-empty -m first
        git -c protocol.file.allow=always submodule -q add "$T/module" module 2>/dev/null
        rm -f .gitmodules # its own name is one of those that are tried
        git worktree add -q tree
        cp "$HELPERS/make-name" .
}

# paths TREE_NAMES GIT_NAMES: at the top, in a nested repository, in a submodule, in a linked worktree, and in a
# repository that the work makes
paths() {
        local place name
        for place in '' deep/er/nested/ module/ tree/ later/ a/b/c/; do
                for name in $1; do echo "$place$name"; done
        done
        for place in .git deep/er/nested/.git .git/modules/module later/.git; do
                for name in $2; do echo "$place/$name"; done
        done
}

# what every name is given: runs something when it is a git configuration
content='[core] fsmonitor = /tmp/evil'

cat >"$T/inside" <<'SH'
# inside WAY LIST: makes each name, prints what became of it
way=$1
above() { case $1 in */*) echo "${1%/*}" ;; *) echo . ;; esac; }
shows() {
        IFS= read -r line <"$1" && case $line in *fsmonitor*) return ;; esac
        grep -qF fsmonitor "$1"
}
printf '%s\n' "$content" >/tmp/content
mkdir -p a/b/c
git init -q later
while read -r path; do
        parent=$(above "$path")
        [ "$way" != directory ] || parent=$(above "$parent")
        [ -d "$parent" ] || mkdir -p "$parent" 2>/dev/null
        said=$(./make-name "$way" "$path" </tmp/content)
        case $said in
        made)
                if [ -L "$path" ] || [ -p "$path" ] || [ -S "$path" ] || shows "$path"; then echo "visible $path"
                else echo "INVISIBLE $path"; fi ;;
        *) echo "$said $path" ;;
        esac
done <"$2"
SH

# fingerprint LIST: type and content of each path that is there
fingerprint() {
        local path
        while read -r path; do
                if [ -L "$path" ]; then echo "$path -> $(readlink "$path")"
                elif [ -f "$path" ]; then echo "$path $(sha256sum <"$path")"
                elif [ -e "$path" ]; then echo "$path $(stat -c %F "$path")"; fi
        done <"$1"
}

# unchanged: no name has come to the host and none has other content. A git configuration that the work made itself by
# `git init` may be there, and one that the judge would let through may be gone: its removal lands, so that `rm -rf`
# leaves no torn repository.
unchanged() {
        fingerprint names >after
        grep -v '^later/.git/config ' after | diff before - >changes || true
        ! grep -vE '^([0-9]|---|< .*\.git/(modules/[a-z]*/)?config [0-9a-f]* )' changes || fail 'something landed on the host'
}

# The way of every name: that nothing of it lands, in a staged workspace also not at the end, and all of it is in the diff.
nothing_lands() { # WAY [OPTION...]
        local way=$1
        shift
        fixture
        paths "$held" "$held_git" >names
        if [ "$way" = directory ]; then # only where the directory of the name is not there yet
                grep / names | grep -vE '(^|/)(module|tree|nested|later|c|hooks|info|\.git)/[^/]*$' >few
                mv few names
        fi
        cp "$T/inside" inside.sh
        fingerprint names >before
        sandbox "$@" -e content="$content" -- sh inside.sh "$way" names >said
        sort said | cut -d' ' -f1,2 | sed 's/ .*[/.].*//' | uniq -c
        ! grep INVISIBLE said || fail 'made, but not visible inside'
        case $way in # may be refused altogether: programs fall back to another way
        link | tmpfile | directory) ;;
        *) grep -q '^visible' said || fail 'nothing could be made at all' ;;
        esac
        unchanged
        ! grep -rlsF 'fsmonitor = /tmp/evil' . --exclude=inside.sh || fail 'the content is on the host'
        in_diff
        discarded
}

# all that was visible is in the diff of the run, and applying is what would bring it
in_diff() {
        "$C" diff --held >held.diff
        awk 'NR == FNR { if (/^[AMT] /) { sub(/  \[.*$/, ""); lines[n++] = $0 } next }
                $1 == "visible" {
                        for (i = 0; i < n && substr(lines[i], length(lines[i]) - length($2) + 1) != $2; i++) ;
                        if (i == n) { print $2; missing = 1 }
                } END { exit missing }' held.diff said >missing || fail "not in the diff: $(cat missing)"
}

discarded() {
        "$C" discard
        eq '' "$("$C" diff --held 2>/dev/null)" 'diff after discard'
        eq '' "$(git config --get core.fsmonitor)" 'the repository of the host'
}

by_tar() {
        fixture
        paths "$held" "$held_git" | grep -v '^later' >names
        fingerprint names >before
        mkdir "$T/src"
        while read -r path; do
                mkdir -p "$T/src/$(dirname "$path")"
                printf '%s\n' "$content" >"$T/src/$path"
        done <names
        tar -C "$T/src" -cf names.tar .
        rm -rf "$T/src"
        sandbox -- tar -xf names.tar
        unchanged
        "$C" diff --held | grep -c . >n
        [ "$(cat n)" -ge "$(wc -l <names)" ] || fail "the diff has $(cat n) lines, $(wc -l <names) names were held"
        "$C" discard
}

lands() {
        fixture
        paths "$allowed" "$allowed_git" | grep -v '^tree/' >names
        cp "$T/inside" inside.sh
        sandbox -e content="$content" -- sh inside.sh overwrite names >said
        ! grep -v '^visible' said || fail 'not made'
        while read -r path; do
                has "$(cat "$path")" fsmonitor "$path on the host"
        done <names
        eq '' "$("$C" diff --held 2>/dev/null)" 'held'
}

existing_is_kept() {
        fixture
        mkdir .vscode
        echo old >.vscode/tasks.json
        echo old >.git/hooks/post-commit
        chmod +x .git/hooks/post-commit
        sandbox -- sh -c 'echo new >.vscode/tasks.json; echo new >>.git/hooks/post-commit; rm .git/hooks/post-commit
                chmod 777 .vscode/tasks.json; mv .vscode .gone; cat .gone/tasks.json; ls .git/hooks' >out
        eq old "$(cat .vscode/tasks.json)"
        eq old "$(cat .git/hooks/post-commit)"
        eq 755 "$(stat -c %a .git/hooks/post-commit)"
        has "$(cat out)" new
        "$C" discard
}

# a link does not carry a held file out from under its rule, nor a harmless name in
links() {
        fixture
        mkdir .vscode
        echo old >.vscode/tasks.json
        sandbox -- sh -c 'ln .vscode/tasks.json out 2>/dev/null && echo new >out
                ln -s .vscode innocent && echo new >innocent/settings.json
                ln -s .git/hooks h && echo new >h/pre-push; mkdir d && ln -s ../.git/hooks d/x && echo new >d/x/post-merge; true'
        eq old "$(cat .vscode/tasks.json)"
        [ ! -e .vscode/settings.json ] || fail 'through a link to a directory'
        [ ! -e .git/hooks/pre-push ] || fail 'through a link to the hooks'
        [ ! -e .git/hooks/post-merge ] || fail 'through a nested link'
        [ ! -L h ] && [ ! -L d/x ] || fail 'a link into the git directory landed'
        "$C" discard
}

# what is held in a directory that is there already is listed with the rest
held_is_listed() {
        fixture
        sandbox -- sh -c 'echo x >.envrc; ls -A; ln -s .git moved; mv moved again; ls -A | grep -x again; readlink again' >out
        has "$(cat out)" .envrc
        eq $'again\n.git' "$(tail -n 2 out)"
        [ ! -L again ] || fail 'a link into the git directory landed by rename'
        "$C" discard
}

setuid_never() {
        fixture
        sandbox -- sh -c 'cp /bin/true t; chmod 6755 t; chmod u+s t; mknod dev c 1 3; true' 2>/dev/null
        case $(stat -c %a t) in [0-7][0-7][0-7]) ;; *) fail "set-id bits on the host: $(stat -c %a t)" ;; esac
        [ ! -e dev ] || fail 'a device node'
}

# protect: no write at all; hide: not there; allow: lands although the built-in list holds it
own_rules() {
        fixture
        mkdir keep
        echo old >keep/file
        echo secret >.env
        sandbox --protect '/keep/**' --hide .env --allow-write .envrc -- sh -c '
                echo new >keep/file; echo new >keep/new; rm -f keep/file; mv keep gone
                cat .env; ls -A | grep -x .env; echo x >.env; echo lands >.envrc; true' >out 2>err
        eq '' "$(cat out)"
        eq old "$(cat keep/file)"
        eq secret "$(cat .env)"
        eq lands "$(cat .envrc)"
        eq 1 "$(find keep -type f | wc -l)"
        has "$(cat err)" 'Read-only file system'
}

# the config of git: what every git command writes lands at once, what runs something is held
git_config_is_judged() {
        fixture
        sandbox -- sh -c 'git remote add o https://example.org/x.git && git config branch.b.merge refs/heads/b &&
                git config user.name somebody' || fail 'git config failed'
        eq https://example.org/x.git "$(git config remote.o.url)"
        eq somebody "$(git config user.name)"
        sandbox -- sh -c 'git config core.pager "sh -c evil" && git config core.pager' >out
        eq 'sh -c evil' "$(cat out)"
        eq '' "$(git config core.pager)"
        "$C" diff --held >held.diff
        has "$(cat held.diff)" .git/config
        "$C" discard
}

for way in create overwrite append rename link symlink tmpfile directory mkfifo socket; do
        t "by $way" nothing_lands "$way"
        for mode in cow staged; do
                for engine in fuse overlay; do
                        t "by $way, $mode, $engine" nothing_lands "$way" --workspace-mode "$mode" --engine "$engine"
                done
        done
done
t 'by tar' by_tar
t 'what no rule speaks of lands' lands
t 'what was there stays as it was' existing_is_kept
t 'links do not help' links
t 'what is held is listed' held_is_listed
t 'no set-id bits, no devices' setuid_never
t 'protect, hide and allow' own_rules
t 'the configuration of git is judged by content' git_config_is_judged
finish
