#!/usr/bin/env bash
# Regions whose changes stay in the run, by both engines: what the host sees, what the work sees, what is kept and where
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

runs=$XDG_STATE_HOME/cofferdam/runs

# forget: the runs of earlier tests
forget() { chmod -R u+rwX "$runs" 2>/dev/null || :; rm -rf "$runs"; }

# the_run: directory of the only run there is
the_run() {
        local all=("$runs"/*/)
        eq 1 ${#all[@]} 'runs'
        echo "${all[0]%/}"
}

tree() { (cd "$1" && find . -mindepth 1 \( -type f -printf '%p %m %s %T@ ' -exec sha256sum {} \; -o -printf '%p %y %m %l\n' \) | sort); }

# row EXPR [RUN]: of the state of the run, in which r is the first region with what EXPR says of it
row() {
        python3 - "$1" "$(the_run)/state.json" <<'PY'
import json, sys
state = json.load(open(sys.argv[2]))
print(eval(sys.argv[1], {'s': state, 'r': state['regions'][0], 'all': state['regions']}))
PY
}

sample() {
        forget
        mkdir -p d/sub gone
        echo one >f
        echo two >d/x
        echo three >d/sub/y
        echo four >gone/z
        chmod 640 f
        touch -d '2001-02-03 04:05:06.123456789' f d/x
        tree . >"$T/before"
        sleep 0.05 # the clock of change times ticks every few ms: what is made from here on is later
}
untouched() { tree "$W" | diff "$T/before" - || fail 'the host has changed'; }

git_env=(-e GIT_AUTHOR_NAME -e GIT_AUTHOR_EMAIL -e GIT_COMMITTER_NAME -e GIT_COMMITTER_EMAIL)
change='echo more >>f; echo new >n; rm d/x; rm -r gone; mkdir -p m/k; echo deep >m/k/l; chmod 600 d/sub/y; ln -s f s'

# cow ENGINE [OPTION...]
cow() {
        local engine=$1
        shift
        sandbox --workspace-mode cow --engine "$engine" "$@"
}

cow_keeps() {
        sample
        cow "$1" -- sh -ec "$change; cat f n m/k/l; ls; ls d; [ ! -e d/x ] && [ ! -e gone ] && stat -c %a f d/sub/y" >"$T/seen"
        eq 'one more new deep d f m n s sub 640 600' "$(xargs <"$T/seen")" 'inside'
        untouched
        eq "cow $1 disk" "$(row 'r["kind"] + " " + r["engine"] + " " + r["upper"]')" 'state'
        local upper
        upper=$(the_run)/upper/0
        eq "$(id -u)" "$(find "$upper" -printf '%U\n' | sort -u)" 'owner of what is kept'
        eq $'one\nmore' "$(cat "$upper/f")"
        eq new "$(cat "$upper/n")"
        eq deep "$(cat "$upper/m/k/l")"
        "$C" diff >out
        eq $'M d/sub/y\nD d/x\nM f\nD gone\nA m\nA m/k\nA m/k/l\nA n\nA s' "$(LC_ALL=C sort -k2 out)" 'diff'
        "$C" apply >out
        eq $'one\nmore' "$(cat f)"
        eq deep "$(cat m/k/l)"
        if [ -e d/x ] || [ -e gone ]; then fail 'not deleted'; fi
        eq '' "$(ls "$runs")" 'a run is left'
}

# what the work can try on a lower that it can only read: nothing of it reaches the host
lower_is_safe() {
        sample
        cow "$1" -- python3 - <<'PY'
import fcntl, mmap, os
fd = os.open('f', os.O_RDONLY)
view = mmap.mmap(fd, 4, prot=mmap.PROT_READ)
for flags in (os.O_RDWR, os.O_WRONLY | os.O_APPEND):
    again = os.open('/proc/self/fd/%d' % fd, flags)
    os.write(again, b'mine'); os.close(again)
path = os.open('d/sub/y', os.O_PATH)
again = os.open('/proc/self/fd/%d' % path, os.O_RDWR | os.O_TRUNC)
m = os.open('d/x', os.O_RDWR); os.truncate(m, 4096)
map = mmap.mmap(m, 4096); map[:4] = b'mine'; map.flush()
os.chmod('/proc/self/fd/%d' % path, 0o600); os.utime('/proc/self/fd/%d' % fd, (1, 1))
os.link('f', 'hard'); open('hard', 'a').write('more')
os.rename('gone/z', 'moved'); os.rename('moved', 'd/z'); os.rmdir('gone')
d = os.open('.', os.O_RDONLY)
os.mkdir('new', dir_fd=d); os.symlink('/etc/passwd', 'd/link')
assert open('f').read().endswith('more') and open('d/x').read(4) == 'mine'
view.close()
PY
        untouched
}

# a rule that hides and the refused places below a workspace are not there, and what takes their names does not land
hidden_is_hidden() {
        sample
        echo secret >d/key
        tree . >"$T/before"
        sandbox --workspace-mode cow --hide d/key -- sh -c 'ls -A d; cat d/key 2>&1; cat /proc/self/fd/9 2>&1 9<d/key; find . -name key; grep -r secret . || :' >"$T/seen"
        [ "$1" = fuse ] || status 125 cow "$1" --hide d/key -- true 2>/dev/null
        lacks "$(cat "$T/seen")" secret
        eq "$(printf 'sub\nx')" "$(head -n 2 "$T/seen")" 'listed'
        untouched
}

# dot files of a home as a workspace: no keys, in whichever engine
home_shows_no_keys() {
        forget
        mkdir -p "$HOME/.ssh" "$HOME/.aws" "$HOME/plain" "$HOME/.config/gh"
        echo canary >"$HOME/.ssh/id_ed25519"
        echo canary >"$HOME/.aws/credentials"
        echo canary >"$HOME/.config/gh/hosts.yml"
        echo canary >"$HOME/.netrc"
        echo fine >"$HOME/plain/f"
        printf 'home: {persist: ["~"]}\nworkspace: {mode: cow, engine: %s}\n' "$1" >spec.yaml
        sandbox -s spec.yaml -- sh -c 'cd; cat plain/f; ls -A .ssh .aws .config/gh .netrc 2>/dev/null; grep -rs canary . || echo none' >"$T/seen"
        eq 'fine none' "$(xargs <"$T/seen")"
        rm -rf "${HOME:?}"/.[a-z]* "$HOME/plain"
}

persist_lands_by_apply() {
        forget
        mkdir -p "$HOME/app/sub"
        echo one >"$HOME/app/conf"
        printf 'home: {persist: [~/app]}\n' >spec.yaml
        sandbox -s spec.yaml -- sh -ec 'cat ~/app/conf; echo two >~/app/conf; echo x >~/app/sub/n; echo lost >~/other' >"$T/seen"
        eq one "$(cat "$T/seen")"
        eq one "$(cat "$HOME/app/conf")" 'host'
        "$C" diff >out
        eq "M $HOME/app/conf"$'\n'"A $HOME/app/sub/n" "$(LC_ALL=C sort -k2 out)" 'diff'
        "$C" apply >/dev/null
        eq two "$(cat "$HOME/app/conf")"
        eq x "$(cat "$HOME/app/sub/n")"
        [ ! -e "$HOME/other" ] || fail 'the rest of the home landed'
        rm -rf "$HOME/app"
}

persist_refuses() {
        printf 'home: {persist: [/etc]}\n' >spec.yaml
        status 2 sandbox -s spec.yaml -- true 2>err
        has "$(cat err)" "home.persist: '/etc' is not below the home"
        printf 'home: {persist: [~/nothing]}\n' >spec.yaml
        status 125 sandbox -s spec.yaml -- true 2>err
        has "$(cat err)" home.persist
        mkdir -p "$HOME/.ssh"
        printf 'home: {persist: [~/.ssh]}\n' >spec.yaml
        status 125 sandbox -s spec.yaml -- true 2>err
        has "$(cat err)" refused
        rm -rf "$HOME/.ssh"
}

begun() { [ -e ready ] || [ -n "$(find "$runs" -path '*/upper/0/ready')" ]; }

# in_memory OPTION...: a mount at $T/data whose changes are nobody's afterwards
in_memory() {
        forget
        mkdir -p "$T/data"
        echo one >"$T/data/f"
        sandbox "$@" -- sh -ec "echo two >$T/data/f; echo x >$T/data/n; cat $T/data/f; touch ready; until [ -e end ]; do sleep 0.05; done" >"$T/seen" &
        wait_for 60 begun
        eq '' "$(find "$runs" -path '*/upper/[1-9]*' -o -path '*/work/[1-9]*')" 'on disk'
        eq '' "$(grep -rs '^two' "$T/state" || :)" 'on disk'
        touch end
        wait $!
        eq two "$(cat "$T/seen")"
        eq one "$(cat "$T/data/f")" 'host'
        [ ! -e "$T/data/n" ] || fail 'a new file is on the host'
        eq '' "$("$C" diff 2>/dev/null | grep -v ready)" 'diff'
        rm -rf "$T/data" ready end
}

memory_has_a_size() {
        forget
        mkdir -p "$T/data"
        sandbox --mount "type=overlay,source=$T/data,target=$T/data,upper=tmpfs,size=1Mi" -- \
                sh -c "head -c 3M /dev/zero >$T/data/big" 2>err && fail 'there is no limit'
        has "$(cat err)" 'No space left'
        rm -rf "$T/data"
}

cache_kinds() {
        forget
        mkdir -p "$T/c"
        echo one >"$T/c/f"
        sandbox --cache "$T/c:shared" -- sh -c "echo two >$T/c/f"
        eq two "$(cat "$T/c/f")" 'shared'
        sandbox --cache "$T/c:ro" -- sh -c "cat $T/c/f; ! echo three >$T/c/f" >"$T/seen" 2>&1
        has "$(cat "$T/seen")" 'Read-only'
        eq two "$(cat "$T/c/f")" 'ro'
        eq '' "$(ls "$runs")" 'runs'
        sandbox --cache "$T/c" -- sh -c "echo four >$T/c/f"
        eq two "$(cat "$T/c/f")" 'cow'
        eq "M $T/c/f" "$("$C" diff)" 'diff'
        "$C" apply >/dev/null
        eq four "$(cat "$T/c/f")" 'applied'
        sandbox --mount "type=overlay,source=$T/c,target=$T/w$count" -w "$T/home" -- true 2>/dev/null || :
        rm -rf "$T/c"
}

overlay_mount_elsewhere() {
        forget
        mkdir -p "$T/src/sub"
        echo one >"$T/src/sub/f"
        sandbox --mount "type=overlay,source=$T/src,target=/data" -- sh -ec 'echo two >/data/sub/f; cat /data/sub/f' >"$T/seen"
        eq two "$(cat "$T/seen")"
        eq one "$(cat "$T/src/sub/f")"
        eq 'M /data/sub/f' "$("$C" diff)"
        rm -rf "$T/src"
}

# Cow regions beside the workspace: a cache, what home.persist names, an overlay mount. Each is shown under its target,
# landed by path, dropped by path; what a rule of the workspace's built-in list would hold is flagged there too.
# Red when apply or discard take the first region only, or a path of the target for one of the workspace.
others_are_reviewed() { # OPTION...
        forget
        local kind dir
        mkdir -p "$HOME/app" "$T/cache" "$T/over"
        for dir in "$HOME/app" "$T/cache" "$T/over"; do
                mkdir -p "$dir/d"
                echo one >"$dir/f"
                echo one >"$dir/d/gone"
                echo one >"$dir/busy"
        done
        echo one >f
        printf 'home: {persist: [~/app]}\n' >"$T/spec.yaml"
        sandbox -s "$T/spec.yaml" "$@" --cache "$T/cache" --mount "type=overlay,source=$T/over,target=/over" -- sh -ec '
                for dir in ~/app "$1" /over; do
                        echo two >"$dir/f"; rm "$dir/d/gone"; mkdir -p "$dir/n"; echo new >"$dir/n/x"; echo two >"$dir/busy"
                done' sh "$T/cache"
        for dir in "$HOME/app" "$T/cache" "$T/over"; do
                eq one "$(cat "$dir/f")" "the host, $dir"
                [ -e "$dir/d/gone" ] && [ ! -e "$dir/n" ] || fail "the host has changed, $dir"
                echo host >"$dir/busy"
        done
        "$C" diff >out || :
        for kind in "$HOME/app" "$T/cache" /over; do
                eq "M! $kind/busy D $kind/d/gone M $kind/f A $kind/n A $kind/n/x" \
                        "$(grep -F " $kind/" out | sed 's/  \[.*//' | xargs)" "diff of $kind"
        done
        eq 15 "$(wc -l <out)" "$(cat out)"
        has "$("$C" diff --patch || :)" "# elsewhere, not in this patch: M $T/cache/f" 'patch'
        # by path, of one region only
        status 0 "$C" apply -- "$T/cache/f" >/dev/null
        eq two "$(cat "$T/cache/f")"
        eq one "$(cat "$HOME/app/f")"
        eq one "$(cat f)"
        status 0 "$C" discard -- /over/n >/dev/null
        lacks "$("$C" diff || :)" /over/n
        # all of it; what the host changed meanwhile stays
        status 1 "$C" apply >/dev/null 2>&1
        for dir in "$HOME/app" "$T/cache" "$T/over"; do
                eq two "$(cat "$dir/f")"
                [ ! -e "$dir/d/gone" ] || fail "a deletion did not land, $dir"
                eq host "$(cat "$dir/busy")"
        done
        eq new "$(cat "$HOME/app/n/x")"
        [ ! -e "$T/over/n" ] || fail 'what was discarded landed'
        eq 3 "$("$C" diff | grep -c '^M! .*/busy')"
        status 0 "$C" apply --force >/dev/null
        eq 'two two two' "$(cat "$HOME/app/busy" "$T/cache/busy" "$T/over/busy" | xargs)"
        eq '' "$("$C" diff 2>/dev/null)"
        rm -rf "$HOME/app" "$T/cache" "$T/over"
}

# caches of package managers are there, and nothing of what a run does to them outlives it
host_caches() {
        forget
        mkdir -p "$HOME/.npm/_cacache" "$HOME/.cargo/registry"
        echo one >"$HOME/.npm/_cacache/x"
        sandbox -- sh -ec 'cat ~/.npm/_cacache/x; echo bad >~/.npm/_cacache/x; echo n >~/.cargo/registry/n; [ ! -e ~/go ]' >"$T/seen"
        eq one "$(cat "$T/seen")"
        eq one "$(cat "$HOME/.npm/_cacache/x")"
        eq '' "$(ls -A "$HOME/.cargo/registry")"
        eq '' "$(ls "$runs")" 'runs'
        sandbox --host-state none -- sh -ec '[ ! -e ~/.npm ]'
        # together they hold what a home may: red without .memory_common in cache_add()
        sandbox --home-size 4Mi -- sh -c 'head -c 3M /dev/zero >~/.npm/a && head -c 3M /dev/zero >~/.cargo/registry/b' 2>err && fail 'no limit'
        has "$(cat err)" 'No space left'
        # a cache that the caller asked for by name is that one
        sandbox --cache "$HOME/.npm:ro" -- sh -c '! touch ~/.npm/x' 2>/dev/null
        rm -rf "$HOME/.npm" "$HOME/.cargo"
}

bypass_is_the_host() {
        forget
        mkdir -p node_modules/a/b d
        sandbox --workspace-mode cow --bypass node_modules/a --keep --events ev -- \
                sh -ec 'echo x >node_modules/a/b/f; echo y >node_modules/g; mkdir node_modules/a/.vscode; echo t >node_modules/a/.vscode/t'
        eq x "$(cat node_modules/a/b/f)"
        has "$("$C" explain --bypass node_modules/a node_modules/a/.envrc write)" 'no rule holds in it'
        lacks "$("$C" explain --bypass node_modules/a node_modules/.envrc write)" 'no rule holds in it'
        eq t "$(cat node_modules/a/.vscode/t)" 'no rule holds in it'
        [ ! -e node_modules/g ] || fail 'beside it'
        eq 'A node_modules/g' "$("$C" diff)"
        eq "node_modules/a $W/node_modules/a" "$(row '" ".join((s["plan"]["bypass"][0][k]) for k in ("path", "source"))')" 'state'
        has "$(grep sandbox_started ev)" '"bypass":[{"path":"node_modules/a"'
        "$C" discard >/dev/null
}

# the one thing that would outlive the run as a danger: red without .no_setid in start_all()
bypass_takes_no_set_id() {
        forget
        mkdir b
        cp /bin/true b/t
        sandbox --bypass b -- python3 - <<'PY'
import ctypes, errno, os, struct
def no(want, f, *a):
    try: f(*a)
    except OSError as e: assert e.errno == want, (a, e)
    else: raise SystemExit('allowed: %s' % (a,))
for mode in (0o4755, 0o2755, 0o6777): no(errno.EPERM, os.chmod, 'b/t', mode)
no(errno.EPERM, os.open, 'b/n', os.O_CREAT | os.O_WRONLY, 0o4755)
no(errno.EPERM, os.open, 'b', os.O_TMPFILE | os.O_WRONLY, 0o4755)
no(errno.EPERM, os.mknod, 'b/m', 0o104755)
how = struct.pack('QQQ', os.O_CREAT | os.O_WRONLY, 0o4755, 0)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(437, -100, b'b/o', how, 24) == -1 and ctypes.get_errno() == errno.ENOSYS
os.chmod('b/t', 0o755); os.close(os.open('b/n', os.O_CREAT | os.O_WRONLY, 0o755)); os.mkdir('b/d', 0o1777)
PY
        eq '' "$(find b -perm /6000)" 'set-id files'
        [ -e b/n ] || fail 'nothing was made'
}

bypass_refuses() {
        forget
        mkdir -p .git/hooks .git/objects real d
        ln -s real link
        local dir
        for dir in .git .git/hooks missing link link/x; do
                status 125 sandbox --bypass "$dir" -- true 2>err
                has "$(cat err)" "bypass '$dir'"
        done
        status 125 sandbox --hide real/secret --bypass real -- true 2>err
        has "$(cat err)" 'rules of the guard are about names in it'
        status 125 sandbox --protect real --bypass real -- true 2>err
        has "$(cat err)" "the rule 'real' is about it"
        status 2 sandbox --workspace-mode ro --bypass real -- true 2>err
        status 2 sandbox --bypass /real -- true 2>err
        sandbox --bypass .git/objects -- touch .git/objects/x
        [ -e .git/objects/x ] || fail 'objects'
        printf 'workspace: {bypass: [real]}\n' >spec.yaml
        status 2 sandbox -s spec.yaml --tier workflow -- true 2>err
        has "$(cat err)" 'only the operator may set this'
}

# the path of a bypass leads somewhere else when the sandbox is built: nothing of that is served
engine_is_refused_or_said() {
        echo one >f
        forget
        status 125 cow overlay --protect f -- true 2>err
        has "$(cat err)" 'a rule protects or hides paths'
        cow overlay --isolation degrade --protect f --keep --events ev -- sh -c '! echo two >f' 2>err
        has "$(cat err)" 'engine overlay'
        has "$(grep sandbox_degraded ev)" '"wanted":"engine overlay","got":"engine fuse"'
        eq fuse "$(row 'r["engine"]')"
        status 2 sandbox --engine overlay -- true 2>err
        forget
}

# a person works beside the run: what is replaced, removed or made on the host reaches the work, also under names that
# the kernel had cached; red with overlay without forget_lower() or lowers_look()
host_edits_reach() {
        sample
        sandbox --workspace-mode cow --engine "$1" -- sh -c 'cat f d/x gone/z; ls new d/new 2>/dev/null
                touch begun
                for i in $(seq 600); do sleep 0.1; [ "$(cat f d/x 2>&1)" = "$(printf "f2\nx2")" ] && [ -e new ] && [ -e d/new ] && [ ! -e gone ] && break; done
                cat f d/x new d/new; ls; echo mine >f; cat f; rm d/x; ls d' >"$T/seen" 2>&1 &
        wait_for 60 begun_there
        sleep 1.2 # the answers the kernel has are older than their timeout
        local name
        for name in f d/x; do
                echo "${name#d/}2" >"$name.tmp"
                mv "$name.tmp" "$name"
        done
        echo n >new
        echo dn >d/new
        rm -r gone
        wait $!
        eq 'one two four f2 x2 n dn begun d f new mine new sub' "$(xargs <"$T/seen")"
        "$C" discard >/dev/null
}
begun_there() { [ -n "$(find "$runs" -path '*/upper/0/begun')" ]; }

# staged: what rules allow is on the host when the command has ended, and not before; what they hold waits
staged_lands() {
        sample
        mkdir "$T/signs"
        sandbox --workspace-mode staged --engine "$1" --keep --mount "type=bind,source=$T/signs,target=/signs" -- \
                sh -ec "$change; mkdir .vscode; echo t >.vscode/t; touch begun; until [ -e /signs/end ]; do sleep 0.05; done" &
        wait_for 60 begun_there
        untouched
        touch "$T/signs/end"
        wait $!
        rm -r "$T/signs"
        eq "staged $1" "$(row 'r["kind"] + " " + r["engine"]')" 'state'
        eq $'one\nmore' "$(cat f)"
        eq deep "$(cat m/k/l)"
        if [ -e d/x ] || [ -e gone ]; then fail 'not deleted'; fi
        [ ! -e .vscode/t ] || fail 'held, and landed'
        has "$("$C" diff)" '.vscode/t'
        forget
}

# the fast engine, unless something speaks against it
auto_chooses() {
        forget
        touch f
        sandbox --workspace-mode cow --keep -- true
        eq 'overlay' "$(row 'r["engine"]')"
        forget
        sandbox --workspace-mode cow --hide f --keep -- true
        eq 'fuse a rule protects or hides paths, and overlayfs asks no rule before a write' \
                "$(row 'r["engine"] + " " + r["engine_reason"]')"
        forget
}

# the end waits for nobody's timeout: the file server goes by itself, when the last mount has. Red, by 2 s, with
# anything left that holds an overlay while native_stop() waits for the server
ends_at_once() {
        local begin took
        for _ in {1..30}; do # others have the machine, too
                begin=$(date +%s%3N)
                "$C" run --workspace-mode cow --engine "$1" -- true
                took=$(($(date +%s%3N) - begin))
                ((took >= 1900)) || return 0
        done
        fail "none of 30 took less than 1900 ms, the last one $took ms"
}

killed_then_diff() {
        sample
        env --default-signal setsid "$C" run --workspace-mode cow --engine "$1" -- sh -c 'echo more >>f; echo new >n; rm d/x; touch m; sleep 600' >/dev/null 2>"$T/err" &
        local client=$! supervisor
        wait_for 60 test -e "$runs"
        wait_for 60 sh -c "ls $runs/*/upper/0/m" >/dev/null 2>&1 || fail "not begun: $(cat "$T/err")"
        supervisor=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["supervisor"]["pid"])' "$(the_run)/state.json")
        kill -KILL "$supervisor"
        wait "$client" || :
        wait_for 60 none_of_ours || fail 'processes are left'
        "$C" diff >"$T/got"
        eq $'D d/x\nM f\nA m\nA n' "$(LC_ALL=C sort -k2 "$T/got")"
        untouched
        "$C" apply >/dev/null
        eq $'one\nmore' "$(cat f)"
        [ ! -e d/x ] || fail 'not deleted'
}

git_and_npm() {
        need_command git
        forget
        git init -q .
        echo a >a
        git add a
        git commit -qm first
        tree . >"$T/before"
        cow "$1" "${git_env[@]}" -- sh -ec 'git switch -qc topic; echo b >b; git add b; git commit -qm b; git switch -q -; git merge -q topic
                git gc -q; git fsck; git status --porcelain; git worktree add -q ../wt 2>/dev/null || git worktree add -q wt; rm -rf wt; git worktree prune' >"$T/seen" 2>&1
        untouched
        "$C" discard >/dev/null
        command -v npm >/dev/null || return 0
        mkdir -p pkg
        echo '{"name":"dep","version":"1.0.0"}' >pkg/package.json
        echo '{"name":"top","version":"1.0.0"}' >package.json
        tree . >"$T/before"
        cow "$1" -- sh -ec 'npm install --offline --no-audit --no-fund ./pkg >/dev/null; test -e node_modules/dep/package.json; rm -rf node_modules; npm ci --offline >/dev/null; ls node_modules' >"$T/seen"
        eq dep "$(cat "$T/seen")"
        untouched
        "$C" discard >/dev/null
}

# a linked worktree: its common directory is kept back as the workspace is
worktree_follows() {
        need_command git
        forget
        git init -q main
        git -C main commit -q --allow-empty -m first
        git -C main worktree add -q "$W/wt"
        tree main/.git >"$T/before"
        sandbox -w wt --workspace-mode cow "${git_env[@]}" -- sh -ec 'echo a >a; git add a; git commit -qm inside; git log --oneline | wc -l' >"$T/seen"
        eq 2 "$(cat "$T/seen")"
        tree main/.git | diff "$T/before" - || fail 'the common directory has changed'
        eq 1 "$(git -C wt log --oneline | wc -l)" 'host'
        eq cow,cow "$(row '",".join(x["kind"] for x in all[:2])')"
        (cd wt && "$C" apply >/dev/null)
        eq 2 "$(git -C wt log --oneline | wc -l)" 'after apply'
        git -C wt fsck
}

# root's run as somebody else: what is kept is theirs
for_another_user() {
        [ "$(id -u)" = 0 ] || skip 'only root can be somebody else'
        sample
        chown -R 4242:4242 .
        chmod 711 "$T"
        tree . >"$T/before"
        cow "$1" --user 4242:4242 -- sh -ec "$change; id -u"
        untouched
        eq 4242 "$(find "$(the_run)/upper/0" -printf '%U\n' | sort -u)" 'owner'
        "$C" apply >/dev/null
        eq "4242 4242" "$(stat -c '%u %g' n)"
}

# red with overlay without resemble() in drivers/native/uppers.c: 700, and the time of the start
top_is_the_hosts() {
        local mode
        forget
        for mode in 755 1777 550; do
                chmod $mode .
                touch -d '2001-02-03 04:05:06.789' .
                eq "$(stat -c '%a %U %y' .)" "$(cow "$1" -- stat -c '%a %U %y' .)" "mode $mode"
        done
        chmod 755 .
        forget
}

# red (as a user) with a plain open in place of run_dir_upper(): the run has no changes then, and is removed
top_without_rights() {
        forget
        cow "$1" -- sh -c 'echo x >new; chmod 0 .'
        eq 'A new' "$("$C" diff | tr -s ' ')"
        "$C" apply >/dev/null
        eq x "$(cat new)"
        forget
}

for engine in fuse overlay; do
        t "cow, $engine: the top directory has mode and time of the host's" top_is_the_hosts "$engine"
        t "cow, $engine: a work that takes all rights from its top directory loses nothing" top_without_rights "$engine"
        t "cow, $engine: the run has its version, the host its own, until apply" cow_keeps "$engine"
        t "cow, $engine: no descriptor, mapping or link of the work leads to the host" lower_is_safe "$engine"
        t "cow, $engine: what is hidden is not there" hidden_is_hidden "$engine"
        t "cow, $engine: a whole home shows no keys" home_shows_no_keys "$engine"
        t "cow, $engine: what a killed run changed can be seen and applied" killed_then_diff "$engine"
        t "cow, $engine: what the host changes meanwhile is seen" host_edits_reach "$engine"
        t "cow, $engine: ends when its command has" ends_at_once "$engine"
        t "staged, $engine: what rules allow lands at the end" staged_lands "$engine"
        t "cow, $engine: git and npm work" git_and_npm "$engine"
        t "cow, $engine: for another user" for_another_user "$engine"
done
t 'home.persist: changes wait for apply' persist_lands_by_apply
t 'home.persist: what it refuses' persist_refuses
t 'a cache in memory leaves nothing' in_memory --cache "$T/data:tmpfs"
t 'an overlay in memory leaves nothing' in_memory --mount "type=overlay,source=$T/data,target=$T/data,upper=tmpfs"
t 'the same by the overlay engine' in_memory --cache "$T/data:tmpfs" --workspace-mode cow --engine overlay
t 'an upper in memory has a size' memory_has_a_size
t 'caches: kept, shared, read-only' cache_kinds
t 'an overlay mount at another place' overlay_mount_elsewhere
t 'caches, home.persist, overlay mounts: diff, apply, discard' others_are_reviewed
t 'the same beside a cow workspace by the kernel' others_are_reviewed --workspace-mode cow --engine overlay
t 'host_state auto: package caches for this run only' host_caches
t 'bypass: a directory as the host has it' bypass_is_the_host
t 'bypass: nothing set-id is made' bypass_takes_no_set_id
t 'bypass: what is refused' bypass_refuses
t 'auto takes the overlay unless a rule has to refuse' auto_chooses
t 'an engine that cannot be had is refused, or said' engine_is_refused_or_said
t 'a linked worktree of a cow workspace' worktree_follows
finish
