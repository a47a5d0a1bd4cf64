#!/usr/bin/env bash
# Git stays whole: what git does inside leaves repositories that the host's git uses without complaint, and nothing in
# them that makes the host's git run, fetch or trust something
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# host GIT_ARGS...: git as the person runs it; hooks, filters and helpers of its own configuration do not exist
host() { git -c protocol.file.allow=user "$@"; }

# sound DIR: the host's git finds nothing wrong, and knows the branch
sound() {
        host -C "$1" fsck --strict --no-dangling >"$T/fsck" 2>&1 || fail "fsck of $1: $(cat "$T/fsck")"
        eq '' "$(grep -v '^notice:' "$T/fsck")" "fsck of $1"
        eq '' "$(host -C "$1" status --porcelain 2>&1)" "status of $1"
        host -C "$1" rev-parse -q --verify HEAD >/dev/null || fail "HEAD of $1"
}

# What the addresses stand for inside: a network is not needed
cat >"$T/preamble" <<'SH'
export GIT_CONFIG_COUNT=3 GIT_CONFIG_KEY_0=url.file://$PWD/up.git.insteadOf GIT_CONFIG_VALUE_0=https://example.org/up
export GIT_CONFIG_KEY_1=protocol.file.allow GIT_CONFIG_VALUE_1=always
export GIT_CONFIG_KEY_2=url.file://$PWD/lib.git.insteadOf GIT_CONFIG_VALUE_2=https://example.org/lib
export GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org
export GIT_EDITOR=true GIT_TERMINAL_PROMPT=0
set -eux
SH

upstreams() {
        git init -q seed
        (cd seed && seq 100 >f && git add f && git commit -qm first && git branch -q side)
        git clone -q --bare seed up.git
        git clone -q --bare seed lib.git
        rm -rf seed
}

everyday() { # [OPTION...]
        upstreams
        cat "$T/preamble" - >work.sh <<'SH'
git clone -q https://example.org/up c
cd c
git remote add second git@example.org:a/b.git
git remote rename second third
git switch -q -c topic
echo a >a; git add a; git commit -q -m a
git push -q -u origin topic
git fetch -q --all 2>/dev/null || git fetch -q origin
git branch -q --set-upstream-to=origin/HEAD topic
git config branch.topic.rebase true
git config user.name 'somebody else'
git switch -q --detach origin/HEAD; echo b >b; git add b; git commit -q -m b; git switch -q -C other
git rebase -q topic
git -c sequence.editor=: rebase -q -i --exec 'test -e a' HEAD~1
git cherry-pick -x "$(git commit-tree -p HEAD -m picked 'HEAD^{tree}')" --allow-empty >/dev/null
git revert --no-edit HEAD~1 >/dev/null
echo dirty >>f; git stash -q; git stash pop -q; git stash -q; git stash drop -q
git merge -q --no-ff -m m topic~0 || true
# a conflict that is given up, in a merge, a rebase and a cherry-pick
git switch -q -c left; echo left >x; git add x; git commit -q -m left
git switch -q -c right HEAD~1; echo right >x; git add x; git commit -q -m right
git merge -q left >/dev/null 2>&1 && exit 1; git merge --abort
git rebase -q left >/dev/null 2>&1 && exit 1; git rebase --abort
git cherry-pick left >/dev/null 2>&1 && exit 1; git cherry-pick --abort
git rebase -q left >/dev/null 2>&1 && exit 1; echo both >x; git add x; git rebase --continue >/dev/null
git bisect start HEAD HEAD~2 >/dev/null; git bisect run true >/dev/null; git bisect reset >/dev/null 2>&1
git tag -a -m t v1; git tag light; git notes add -m n HEAD
git format-patch -q -1 -o /tmp/p; git reset -q --hard HEAD~1; git am -q /tmp/p/*.patch
git worktree add -q ../wt other; (cd ../wt && echo w >w && git add w && git commit -q -m w)
git worktree add -q -b moved ../wt2; git worktree move ../wt2 ../wt3; git worktree lock ../wt3; git worktree unlock ../wt3
git worktree remove ../wt3; git worktree prune
git submodule --quiet add https://example.org/lib deps/lib; git commit -q -m submodule
git submodule --quiet update --init; git submodule --quiet sync
git submodule --quiet deinit -f deps/lib; git submodule --quiet update --init
(cd deps/lib && git switch -q -c inlib 2>/dev/null && echo l >l && git add l && git commit -q -m l)
git add deps/lib; git commit -q -m bump
git update-index --split-index; git update-index --no-split-index; git update-index --untracked-cache
git update-index --split-index; git status --porcelain
git pack-refs --all; git repack -q -a -d; git commit-graph write --reachable 2>/dev/null; git multi-pack-index write 2>/dev/null
git maintenance run --quiet --task=commit-graph --task=loose-objects --task=incremental-repack
git maintenance run --quiet; git gc -q; git gc -q --aggressive --prune=now; git reflog expire --expire=now --all
git sparse-checkout set --cone deps 2>/dev/null; git sparse-checkout disable
echo x >later; git add later; git commit -q --amend --no-edit; git commit -q -m later --allow-empty
git remote -v
cd ..
git init -q made; git -C made commit -q --allow-empty -m first
git init -q --bare bare.git; git -C c push -q ../bare.git HEAD:refs/heads/main
git clone -q --mirror https://example.org/up mirror.git 2>/dev/null; rm -rf mirror.git
SH
        sandbox "$@" -- bash work.sh >said 2>err || fail "inside: $(tail -n 5 err)"
        if [[ "$*" == *cow* ]]; then "$C" apply >applied 2>&1 || fail "apply: $(cat applied)"; fi
        sound c
        sound wt
        sound c/deps/lib
        sound made
        host -C bare.git fsck --strict 2>&1
        eq "$(grep -E '(fetch|push)' said | sed "s,file://$W/up.git,https://example.org/up,")" "$(host -C c remote -v)" 'remotes'
        eq 'somebody else' "$(host -C c config user.name)"
        eq true "$(host -C c config branch.topic.rebase)"
        has "$(host -C c submodule status)" deps/lib
        has "$(host -C c worktree list)" "$W/wt"
        eq later "$(host -C c log -1 --format=%s)"
        # and it goes on from there
        host -C c switch -q topic
        host -C c gc -q
        host -C c worktree remove --force "$W/wt"
        host -C c submodule --quiet update --init 2>&1
        (cd c && echo host >host && git add host && git commit -q -m host)
        eq '' "$("$C" diff 2>/dev/null)" 'held'
        eq '' "$(find . -name '.cofferdam*')" 'temporary files'
}

# a hook that the work makes runs for the work, and is not on the host
hooks_run_inside() {
        git init -q .
        sandbox -- sh -ec 'mkdir -p .git/hooks; printf "#!/bin/sh\necho hook >>ran\n" >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit
                echo a >a; git add a; git -c user.name=t -c user.email=t@e commit -q -m a; cat ran; rm ran' >"$T/hooked"
        eq hook "$(cat "$T/hooked")"
        [ ! -e .git/hooks/pre-commit ] || fail 'the hook is on the host'
        git commit -q --allow-empty -m host
        [ ! -e ran ] || fail 'the hook ran on the host'
        sound .
        "$C" discard
}

# `maintenance start` also writes two keys beside what it asks of the host's scheduler, which is not there
maintenance_start() {
        git init -q .
        git commit -q --allow-empty -m first
        sandbox -- sh -c 'git maintenance register; git maintenance start --scheduler=crontab; git remote add o https://example.org/o' 2>/dev/null
        eq https://example.org/o "$(host remote get-url o)"
        eq incremental "$(host config maintenance.strategy)"
        sound .
        eq '' "$("$C" diff 2>/dev/null)" held
}

# The work wants the host's git to run ./evil, by any way that is not a name of a hook (guard-names.sh has these). The
# person then does what people do. Each line: NAME|what the work does in a repository with a submodule-free history
ways() {
        cat <<'WAYS'
hooksPath|mkdir h; cp evil h/pre-commit; cp evil h/post-checkout; git config core.hooksPath h
hooksPath by include|mkdir h; cp evil h/pre-commit; printf '[core]\n\thooksPath = h\n' >x; git config include.path ../x
includeIf|printf '[core]\n\tfsmonitor = ./evil\n' >x; git config includeIf.gitdir:/.path ../x
fsmonitor|git config core.fsmonitor ./evil
fsmonitor in the index|git -c core.fsmonitor=./evil update-index --fsmonitor; git config core.fsmonitor ./evil
worktree configuration|git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./evil
filter|printf '* filter=e\n' >.gitattributes; git config filter.e.clean ./evil; git config filter.e.smudge ./evil
filter of info/attributes|mkdir -p .git/info; printf '* filter=e diff=e merge=e\n' >.git/info/attributes; git config filter.e.clean ./evil
textconv|printf '* diff=e\n' >.gitattributes; git config diff.e.textconv ./evil; echo more >>f
diff driver|printf '* diff=e\n' >.gitattributes; git config diff.e.command ./evil; echo more >>f
diff.external|git config diff.external ./evil; echo more >>f
merge driver|printf '* merge=e\n' >.gitattributes; git config merge.e.driver ./evil
pager|git config core.pager ./evil; git config pager.status ./evil; git config pager.log ./evil
editor|git config core.editor ./evil; git config sequence.editor ./evil
alias|git config alias.st '!./evil'; git config alias.log '!./evil'
credential|git config credential.helper '!./evil'
ext remote|git config protocol.ext.allow always; git remote add o 'ext::./evil'
remote of a path|git init -q --bare r.git; cp evil r.git/hooks/x; git remote add o ./r.git; git config remote.o.uploadpack ./evil
remotes file|git init -q --bare r.git; cp evil r.git/hooks/post-receive; mkdir -p .git/remotes; echo "URL: $PWD/r.git" >.git/remotes/o
branches file|git init -q --bare r.git; cp evil r.git/hooks/post-receive; mkdir -p .git/branches; echo "$PWD/r.git" >.git/branches/o
insteadOf|git init -q --bare r.git; cp evil r.git/hooks/post-receive; git config "url.$PWD/r.git.insteadOf" https://example.org/x; git remote add o https://example.org/x
promisor|git config extensions.partialClone o; git config remote.o.promisor true; git config remote.o.url ext::./evil; git config protocol.ext.allow always; rm -rf .git/objects/??
bundle URI|git config fetch.bundleURI file://$PWD/x; git config bundle.version 1; git config bundle.x.uri ext::./evil
gpg|git config gpg.program ./evil; git config commit.gpgSign true; git config log.showSignature true
ssh|git config core.sshCommand ./evil; git remote add o git@localhost:x
trailer|git config trailer.x.command ./evil; git config trailer.x.key X
rebase exec|git commit -q --allow-empty -m e; git -c sequence.editor=: rebase -q -i --root --exec false --exec ./evil
rebase strategy|git switch -q -c l; echo 1 >f; git commit -qam 1; git switch -q -c r HEAD~1; echo 2 >f; git commit -qam 2; echo 3 >>f; git commit -qam 3; git rebase -q l; mkdir -p bin; cp evil bin/git-merge-evil; echo evil >.git/rebase-merge/strategy; : >.git/rebase-merge/strategy_opts
author script|mkdir -p .git/rebase-merge .git/rebase-apply; for d in merge apply; do echo "GIT_AUTHOR_NAME='x'; ./evil" >.git/rebase-$d/author-script; done
sequencer|git switch -q -c l; echo 1 >f; git commit -qam 1; git switch -q -c r HEAD~1; echo 2 >f; git commit -qam 2; echo 3 >>f; git commit -qam 3; git switch -q l; git cherry-pick r~1 r; mkdir -p bin; cp evil bin/git-merge-evil; printf '[options]\n\tstrategy = evil\n' >.git/sequencer/opts
gitfile|cp -r .git other; printf '[core]\n\tfsmonitor = ./evil\n' >>other/config; rm -rf .git; echo 'gitdir: other' >.git
gitfile beside|cp -r .git g; printf '[core]\n\tfsmonitor = %s/evil\n' "$PWD" >>g/config; mkdir sub; echo 'gitdir: ../g' >sub/.git
git directory moved|cp -r .git g; printf '[core]\n\tfsmonitor = ./evil\n' >>g/config; mv .git away; mv g .git
git directory exchanged|cp -r .git g; printf '[core]\n\tfsmonitor = ./evil\n' >>g/config; python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b".git", -100, b"g", 2)'
git directory linked|cp -r .git g; printf '[core]\n\tfsmonitor = ./evil\n' >>g/config; rm -rf .git; ln -s g .git
commondir|cp -r .git g; printf '[core]\n\tfsmonitor = ./evil\n' >>g/config; echo ../g >.git/commondir
linked worktree|git worktree add -q wt; cp -r .git g; printf '[core]\n\tfsmonitor = %s/evil\n' "$PWD" >>g/config; echo ../../../g >.git/worktrees/wt/commondir; echo "gitdir: $PWD/g" >wt/.git
bare repository|git init -q --bare b; printf '[core]\n\tfsmonitor = ../evil\n\tworktree = .\n\tbare = false\n' >>b/config; git -C b --git-dir=. --work-tree=.. add f
bare repository moved|git init -q --bare .b; printf '[core]\n\tfsmonitor = ../evil\n\tworktree = .\n\tbare = false\n' >>.b/config; mv .b b
bare repository of a file moved|mkdir b; cp -r .git/objects .git/refs .git/HEAD .git/index b; printf '[core]\n\tfsmonitor = ../evil\n\tworktree = .\n' >b/c; mv b/c b/config
nested repository|git init -q sub; git -C sub config core.fsmonitor ../evil; git -C sub -c user.name=t -c user.email=t@e commit -q --allow-empty -m x
submodule update|git init -q s; git -C s commit -q --allow-empty -m 1; printf '[submodule "s"]\n\tpath = s\n\turl = ./s\n' >.gitmodules; git update-index --add --cacheinfo 160000,$(git -C s rev-parse HEAD),s; git -C s commit -q --allow-empty -m 2; git config submodule.s.update "!$PWD/evil"; git config submodule.s.url ./s; git config submodule.s.active true
submodule of a path|git init -q s; git -C s -c user.name=t -c user.email=t@e commit -q --allow-empty -m x; git -C s config uploadpack.packObjectsHook ./evil; printf '[submodule "s"]\n\tpath = s\n\turl = ./s\n' >.gitmodules; git -c protocol.file.allow=always submodule add ./s t
submodule name|printf '[submodule "../hooks"]\n\tpath = s\n\turl = https://example.org/x\n' >.gitmodules
submodule configuration|mkdir -p .git/modules/s; cp -r .git/objects .git/refs .git/HEAD .git/modules/s; printf '[core]\n\tfsmonitor = ../evil\n\tworktree = ../../../sub\n' >.git/modules/s/config; mkdir sub; echo 'gitdir: ../.git/modules/s' >sub/.git
alternates|git init -q o; echo "$PWD/o/.git/objects" >.git/objects/info/alternates; echo "$PWD/../../../etc" >>.git/objects/info/alternates
hooks linked|mkdir h; cp evil h/pre-commit; cp evil h/post-checkout; rm -rf .git/hooks; ln -s ../h .git/hooks
hooks renamed to|mkdir h; cp evil h/pre-commit; cp evil h/post-checkout; rm -rf .git/hooks; mv h .git/hooks
hooks by parent|mkdir -p x/hooks; cp evil x/hooks/pre-commit; cp -r .git/* x; rm -rf .git; mv x .git
config hard link|printf '[core]\n\tfsmonitor = ./evil\n' >x; ln -f x .git/config; echo >>x
config in capitals|printf '[core]\n\tfsmonitor = ./evil\n' >.git/CONFIG; mkdir .GIT; cp .git/CONFIG .GIT/config
spelling|printf '\xef\xbb\xbf[CORE]\r\n  FSMonitor = "./ev"il ; x\r\n' >.git/config
spelling of a section|printf '[core "x"]\n[core]fsmonitor=./ev\\\nil\n' >.git/config
WAYS
}

fire() { # each with its output thrown away: what matters is whether the canary sings
        local d
        for d in . sub wt b s g; do
                [ -d "$d" ] || continue
                (
                        cd "$d" || exit
                        export EDITOR=true GIT_TERMINAL_PROMPT=0 PATH=$W/repo/bin:$PATH
                        git rebase --continue; git add -A; git rebase --continue; git cherry-pick --continue; git am --continue; git rebase --abort
                        git status; git diff; git log -p -1; git st; git show
                        echo host >>f; git add f; git commit; git commit -m host; git diff HEAD~1
                        git stash; git stash pop; git switch -c host
                        git switch -c one HEAD~1; sed -i 1d f; git commit -am one; git merge -m m host; git checkout -f host
                        timeout 5 git fetch o; timeout 5 git fetch --all; timeout 5 git pull; timeout 5 git push o HEAD:refs/heads/pushed
                        git submodule update --init; git submodule status; git gc; git fsck; git log -p
                        echo url=https://example.org | git credential fill
                        git interpret-trailers </dev/null; git worktree list; git blame f; git grep x; git archive HEAD
                ) </dev/null >/dev/null 2>&1 || :
        done
}

bytes_of() { (cd "$1" && find . -printf '%p %y %m %l\n' -type f -exec sha256sum {} + | sort); }

no_way_runs() { # [OPTION...]
        local name what before n=0
        while IFS='|' read -r name what; do
                n=$((n + 1))
                chmod -R u+rwX "$T/state" # overlayfs makes a directory in its work directory that has no rights at all
                rm -rf "$W/repo" "$T/state/cofferdam" "$T/sung"
                mkdir "$W/repo"
                cd "$W/repo"
                git init -q -b main .
                seq 20 >f
                # the canary sings on the host only: inside there is no such directory
                printf '#!/bin/sh\necho "$0 $*" >>%s/sung 2>/dev/null\nexit 0\n' "$T" >evil
                chmod +x evil
                git add f
                git commit -q -m first
                before=$(bytes_of .)
                sandbox "$@" -- bash -c "git config --global user.name t; git config --global user.email t@e; $what" >"$T/inside" 2>&1 </dev/null || :
                [ "$before" != "$(bytes_of .)" ] || continue # nothing is there that was not
                fire
                if [ -s "$T/sung" ]; then fail "$name: the host ran $(head -n 2 "$T/sung"); inside: $(cat "$T/inside")"; fi
        done < <(ways)
        [ "$n" -gt 50 ] || fail "only $n ways"
}

# the canary would sing: the same ways on the bare directory
ways_work() {
        local name what sung=0 silent=
        while IFS='|' read -r name what; do
                rm -rf "$W/repo" "$T/sung"
                mkdir "$W/repo"
                cd "$W/repo"
                git init -q -b main .
                seq 20 >f
                printf '#!/bin/sh\necho "$0 $*" >>%s/sung 2>/dev/null\nexit 0\n' "$T" >evil
                chmod +x evil
                git add f
                git commit -q -m first
                (HOME=$W/home && mkdir -p "$HOME" && export HOME && bash -c "git config --global user.name t; git config --global user.email t@e; $what") >/dev/null 2>&1 </dev/null || :
                rm -f "$T/sung"
                fire
                if [ -s "$T/sung" ]; then sung=$((sung + 1)); else silent="$silent, $name"; fi
        done < <(ways)
        echo "$sung sing; silent: $silent"
        [ "$sung" -ge 40 ] || fail "only $sung ways make the host run something; silent: $silent"
}

judge_config() {
        need_command python3
        export HELPERS
        python3 "$TOP/tests/integration/git-config.py" "$@"
}

t 'documented keys: what is not reviewed is held' judge_config keys
t 'files by hand: the reader reads what git reads' judge_config differ
t 'files at random: the reader reads what git reads' judge_config random "${COFFERDAM_SEED:-$RANDOM}" "$([ -n "${COFFERDAM_LONG-}" ] && echo 20000 || echo 400)"
t 'everyday git in a direct workspace is whole on the host' everyday
for engine in fuse overlay; do
        t "everyday git in a staged workspace is whole on the host, $engine" everyday --workspace-mode staged --engine "$engine"
done
t 'everyday git in a cow workspace is whole on the host once it is applied, fuse' everyday --workspace-mode cow --engine fuse
t 'everyday git in a cow workspace is whole on the host once it is applied, overlay' everyday --workspace-mode cow --engine overlay
t 'a hook made inside runs inside' hooks_run_inside
t 'maintenance start' maintenance_start
t 'the ways to be run work without a guard' ways_work
t 'no way to be run by the git of the host, direct' no_way_runs
t 'no way to be run by the git of the host, cow' no_way_runs --workspace-mode cow
t 'no way to be run by the git of the host, staged' no_way_runs --workspace-mode staged --engine fuse
t 'no way to be run by the git of the host, staged by the kernel' no_way_runs --workspace-mode staged --engine overlay
finish
