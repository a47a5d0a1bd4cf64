#!/usr/bin/env bash
# The guard alone (guard-mount): what rules do to every way of changing a name, what the host has afterwards, and that
# descriptors, links, mappings and renames do not lead around a rule
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

cp "$HELPERS/guard-mount" "$HELPERS/make-name" "$T/bin/"
export PATH=$T/bin:$PATH

# g [OPTION...] -- CMD...: CMD in the workspace under the guard; held files go to $U, one per test
U=
g() {
        local opts=()
        : "${U:=$T/upper$count}"
        mkdir -p "$U"
        while [ "$1" != -- ]; do
                opts+=("$1")
                shift
        done
        shift
        local rc=0
        timeout -k 5 150 guard-mount -u "$U" "${opts[@]}" "$W" -- "$@" || rc=$?
        [ "$rc" != 77 ] || skip 'no user namespaces or no /dev/fuse here'
        return "$rc"
}

# shellcheck source=tests/integration/guard-lib.sh
. "$here/guard-lib.sh"

ways='create overwrite append rename link symlink tmpfile directory mkfifo socket'

held_every_way() {
        local way
        U=$T/upper
        for way in $ways; do
                rm -rf "${W:?}"/* "$W"/.[!.]* "$U"
                mkdir .vscode
                echo 'content' | g -h '**/.vscode/**' -- make-name "$way" .vscode/x >said || true
                if [ -e .vscode/x ] || [ -L .vscode/x ]; then fail "$way: it is on the host"; fi
                grep -q '^made' said || continue
                if [ ! -e "$U/.vscode/x" ] && [ ! -L "$U/.vscode/x" ]; then fail "$way: it is not in the upper"; fi
                g -h '**/.vscode/**' -- sh -c 'ls -A .vscode' >said
                eq x "$(cat said)" "$way: seen inside"
        done
        for way in create overwrite append rename; do
                rm -rf "${W:?}"/* "$W"/.[!.]* "$U"
                mkdir .vscode
                echo 'content' | g -h '**/.vscode/**' -- make-name "$way" .vscode/x >said
                has "$(cat said)" made "$way"
        done
}

read_only_region() {
        echo keep >x
        mkdir d
        tree . >"$T/before"
        ! g -r -- sh -c 'echo a >x' 2>/dev/null || fail 'written'
        g -r -- sh -c '! touch y 2>/dev/null && ! rm x 2>/dev/null && ! rmdir d 2>/dev/null && ! mv x z 2>/dev/null && cat x' >"$T/seen"
        eq keep "$(cat "$T/seen")"
        tree . | diff "$T/before" -
        eq '' "$(ls -A "$U")" 'upper'
}

numbers_of_their_own() { # the host's file that became a held one is gone, and its number is given again
        py -h config <<'PY'
import os
for i in range(50):
    open('lock', 'w').close()
    os.rename('lock', 'config')
    os.mkdir('d%d' % i)
    assert os.stat('config').st_ino not in [os.stat('d%d' % k).st_ino for k in range(i + 1)], i
PY
}
held_deletion() {
        mkdir -p proj/.vscode/sub other
        echo 1 >proj/.vscode/tasks.json
        echo 2 >proj/.vscode/sub/x
        echo 3 >proj/code
        g -b -- sh -ec '
                rm proj/.vscode/tasks.json; [ ! -e proj/.vscode/tasks.json ]; [ "$(ls proj/.vscode)" = sub ]
                rm -rf proj; [ ! -e proj ]; [ "$(ls -A)" = other ]
                mkdir proj; [ -z "$(ls -A proj)" ]; echo new > proj/code; mkdir proj/.vscode; [ -z "$(ls -A proj/.vscode)" ]
                echo fresh > proj/.vscode/tasks.json; [ "$(cat proj/.vscode/tasks.json)" = fresh ]'
        eq 1 "$(cat proj/.vscode/tasks.json)" 'held file'
        eq 2 "$(cat proj/.vscode/sub/x)" 'held file'
        eq new "$(cat proj/code)" 'the directory that was made again'
        g -b -- sh -ec '[ "$(cat proj/.vscode/tasks.json)" = fresh ]; [ "$(ls proj/.vscode)" = tasks.json ]'
}

# a directory is removed although the host keeps a held file in it; then a file takes its name
deletion_then_file() {
        mkdir -p d/.vscode
        echo 1 >d/.vscode/x
        g -b -- sh -ec 'rm -rf d; echo file > d; [ "$(cat d)" = file ]; rm d; [ ! -e d ]; ln -s x d; rm d; mkdir d; rmdir d; [ ! -e d ]'
        eq 1 "$(cat d/.vscode/x)"
}

# what was judged is what lands: not what a descriptor, a link or a mapping writes afterwards
late_writes() {
        py -b <<'PY'
import mmap, os, time
safe, evil = b'[core]\n\tbare = false\n', b'[core]\n\tfsmonitor=x\n'
def seen(): return open('.git/config', 'rb').read()
for i in range(40):
    fd = os.open('a', os.O_RDWR | os.O_CREAT); os.write(fd, safe)
    os.rename('a', '.git/config')            # while it is open for writing
    assert seen() == safe
    os.pwrite(fd, evil, 0); assert seen()[:len(evil)] == evil, 'the descriptor must follow'
    os.close(fd)
    open('b', 'wb').write(safe); os.link('b', 'c'); os.rename('b', '.git/config')
    open('c', 'wb').write(evil); os.unlink('c')
    fd = os.open('d', os.O_RDWR | os.O_CREAT); os.write(fd, safe)
    m = mmap.mmap(fd, len(safe)); os.rename('d', '.git/config')
    m[:len(evil)] = evil; m.flush(); os.close(fd); m.close()
PY
}

judged_bytes_land() {
        mkdir -p .git
        late_writes &
        local pid=$! bad=0
        while kill -0 "$pid" 2>/dev/null; do
                ! grep -qs fsmonitor .git/config || bad=1
        done
        wait "$pid"
        eq 0 "$bad" 'evil bytes on the host'
        ! grep -r fsmonitor . || fail 'evil bytes on the host'
        [ -e .git/config ] || fail 'the safe version has not landed'
        has "$(cat "$T/upper$count/.git/config")" fsmonitor 'the held version'
}

file_region() {
        echo one >f
        W=$W/f
        g -- sh -ec "cat '$W'; echo two >>'$W'; cat '$W'; stat -c %s '$W'" >"$T/seen"
        eq 'one one two 8' "$(xargs <"$T/seen")"
        ! g -r -- sh -c "echo three >>'$W'" 2>/dev/null || fail 'written'
        eq 'one two' "$(xargs <f)"
}

conflict_is_kept() {
        mkdir .git
        echo '[core]' >.git/config
        py -b <<'PY' &
import os, time
f = open('.git/config', 'a'); f.write('\tbare = false\n'); f.flush()
open('started', 'w').close()
while not os.path.exists('edited'): time.sleep(0.05)
f.close()
PY
        wait_for 60 test -e started
        printf '[core]\n\tignorecase = true\n' >.git/config.new
        mv .git/config.new .git/config
        touch edited
        wait $!
        has "$(cat .git/config)" ignorecase 'the edit of the host'
        lacks "$(cat .git/config)" bare
        has "$(cat "$T/upper$count/.git/config")" bare 'the held version'
}

# one process makes x/tasks.json, another renames x to .vscode and back
directory_rename_race() {
        py -b <<'PY'
import os, threading, time
stop = time.time() + 4
def make():
    while time.time() < stop:
        try:
            os.close(os.open('x/tasks.json', os.O_CREAT | os.O_WRONLY))
            os.unlink('x/tasks.json')
        except OSError: pass
def move():
    n = 0
    while time.time() < stop:
        try: os.rename('x', '.vscode'); n += 1
        except OSError: pass
        try: os.rename('.vscode', 'x')
        except OSError: pass
    assert n > 10, n
os.mkdir('x')
ts = [threading.Thread(target=t) for t in (make, make, move)]
[t.start() for t in ts]; [t.join() for t in ts]
PY
}

watch_for_canary() {
        directory_rename_race &
        local pid=$! seen=0
        while kill -0 "$pid" 2>/dev/null; do [ ! -e .vscode/tasks.json ] || seen=1; done
        wait "$pid"
        eq 0 "$seen" 'a held name on the host'
        [ ! -e .vscode/tasks.json ] || fail 'left on the host'
}

# the host (or another process of the caller) swaps a file for a link that leads out
host_swaps() {
        echo canary >"$T/canary"
        echo fine >f
        mkdir d
        echo fine >d/f
        mkdir "$T/outside"
        echo canary >"$T/outside/f"
        (
                end=$((SECONDS + 6))
                while [ $SECONDS -lt $end ]; do
                        ln -sfn "$T/canary" f.new && mv -T f.new f
                        mv -T d d.away && ln -sn "$T/outside" d
                        echo fine >f.new && mv -T f.new f
                        rm d && mv -T d.away d
                done
        ) 2>/dev/null &
        # links lead where they lead (there is no root of the sandbox here): what counts is that a name that was
        # looked up as a regular file or directory never does
        py <<'PY'
import os, time
end = time.time() + 4; n = 0
while time.time() < end:
    for p in ('f', 'd/f'):
        try:
            fd = os.open(p, os.O_RDONLY | os.O_NOFOLLOW) if p == 'f' else os.open('f', os.O_RDONLY | os.O_NOFOLLOW, dir_fd=os.open('d', os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY))
            data = os.read(fd, 100); os.close(fd)
            assert data in (b'fine\n', b''), data; n += 1
        except OSError: pass
        os.closerange(3, 400) if p != 'f' else None
assert n > 10, n
PY
        kill "$!" 2>/dev/null || true
        wait "$!" 2>/dev/null || true
}

host_edits_show() {
        echo one >f
        py <<'PY' &
import os, time
assert open('f').read() == 'one\n' and not os.path.exists('new')
open('ready', 'w').close()
end = time.time() + 60
while open('f').read() != 'three!\n' or not os.path.exists('new'):
    assert time.time() < end, 'the edit of the host is not seen'
    time.sleep(0.1)
PY
        wait_for 60 test -e ready
        echo 'three!' >f
        touch new
        wait $!
}

nothing_privileged() {
        py <<'PY'
import errno, os, stat
def no(want, f, *a):
    try: f(*a)
    except OSError as e: assert e.errno in want, (a, e)
    else: raise SystemExit('allowed: %s' % (a,))
open('f', 'w').close()
for mode in (0o4755, 0o2755, 0o6755): no([errno.EPERM], os.chmod, 'f', mode)
no([errno.EPERM], os.mknod, 'null', stat.S_IFCHR | 0o666, os.makedev(1, 3))
no([errno.EPERM], os.mknod, 'sda', stat.S_IFBLK | 0o666, os.makedev(8, 0))
no([errno.EPERM, errno.EINVAL], os.chown, 'f', os.getuid() + 1, -1)
no([errno.EPERM], os.setxattr, 'f', 'security.capability', b'\1\0\0\2\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0')
no([errno.EPERM], os.setxattr, 'f', 'user.overlay.whiteout', b'y')
no([errno.EPERM], os.setxattr, 'f', 'user.overlay.cofferdam.origin', b'y')
os.chown('f', os.getuid(), os.getgid())
os.setxattr('f', 'user.mine', b'value')
assert os.getxattr('f', 'user.mine') == b'value' and os.listxattr('f') == ['user.mine']
os.removexattr('f', 'user.mine'); assert os.listxattr('f') == []
PY
        eq '' "$(find . -perm /6000)" 'set-id files'
}

# descriptors do not grow with the tree
few_descriptors() {
        py <<'PY'
import os
os.mkdir('t')
for i in range(300):
    os.mkdir('t/%d' % i)
    for j in range(3): open('t/%d/%d' % (i, j), 'w').write(str(j))
PY
        (
                ulimit -n 64
                g -- sh -ec 'find . -type f | wc -l; find . -type f -exec cat {} + | wc -c; rm -rf t; ls -A'
        ) >"$T/seen"
        eq '900 900' "$(xargs <"$T/seen")"
}

deep_tree() {
        py <<'PY'
import os
top = os.open('.', os.O_RDONLY)
for i in range(1000): os.mkdir('d'); os.chdir('d')
open('leaf', 'w').write('x'); assert open('leaf').read() == 'x'
os.fchdir(top)
PY
        py <<'PY'
import os
for i in range(1000): os.chdir('d')
assert open('leaf').read() == 'x'
PY
        g -- rm -rf d
        [ ! -e d ] || fail 'left'
}

odd_names() {
        py <<'PY'
import os
names = [b'a' * 255, b'\xff\xfe', b'new\nline', b' ', b'\\', b'*', b'.cofferdam-x', '\u00e4'.encode()]
for n in names: open(n, 'w').write('x')
assert sorted(os.listdir(b'.')) == sorted(names), os.listdir(b'.')
for i, n in enumerate(names): os.rename(n, n[:-1] + bytes([65 + i]))
try: open(b'a' * 256, 'w')
except OSError as e: assert e.errno == 36
else: raise SystemExit('256 bytes')
for i, n in enumerate(names): os.unlink(n[:-1] + bytes([65 + i]))
assert os.listdir(b'.') == []
PY
}

git_lives() {
        git init -q "$T/origin$count"
        git -C "$T/origin$count" commit -q --allow-empty -m first
        cp -r "$T/origin$count" origin
        g -b -- sh -ec '
                git clone -q ./origin c && cd c && git remote set-url origin https://example.org/o.git && echo a >a && git add a && git commit -qm a && git switch -qc topic && echo b >b &&
                git add b && git commit -qm b && git switch -q - && echo c >c && git add c && git commit -qm c && git rebase -q topic &&
                git remote add other https://example.org/x.git && git worktree add -q ../wt && cd ../wt && echo d >d && git add d &&
                git commit -qm d && cd ../c && git worktree remove ../wt && git gc -q && git fsck && git status --porcelain
                cd .. && git init -q made && rm -rf origin'
        git -C c fsck 2>&1
        eq '' "$(git -C c status --porcelain)" 'status on the host'
        eq https://example.org/x.git "$(git -C c config remote.other.url)" 'a safe key'
        [ ! -e wt ] || fail 'the removed worktree is on the host'
        [ ! -e origin ] || fail 'the removed repository is on the host'
        eq '' "$(find . -name '.cofferdam*')" 'temporary files'
        g -b -- sh -c 'cd c && git config core.fsmonitor /bin/false && git config core.fsmonitor'
        eq '' "$(git -C c config core.fsmonitor || :)" 'a key that runs something'
}

# With timeouts of a day the kernel asks again only about what it was made to forget; red without trim_check().
bounded() {
        mkdir many
        mkfifo "$T/go"
        (cd many && seq -f 'file-%04.0f' 1 3000 | xargs touch)
        g -T 86400 -N 1000 -- python3 -c "
import os, time
names = ['many/file-%04d' % i for i in range(1, 3001)]
assert all(os.path.exists(n) for n in names)
held = open(names[0])
open('ready', 'w').close()
input()
end = time.monotonic() + 60
while True: # it is made to forget in the background
    known = sum(os.path.exists(n) for n in names)
    if known <= 1000 or time.monotonic() > end: break
    time.sleep(0.1)
assert 0 < known <= 1000, known
assert held.read() == ''
" <"$T/go" &
        local inside=$!
        exec 7>"$T/go"
        wait_for 60 test -e ready
        rm -r many
        echo >&7
        wait "$inside"
}

exclusive_region() {
        g -x -b -- sh -ec 'git init -q r && cd r && for i in 1 2 3 4 5; do echo $i >>f; done && git add f && git commit -qm f && seq 1 100000 >big && tail -n1 big'
        eq '1 2 3 4 5' "$(xargs <r/f)"
        eq 100000 "$(tail -n1 r/big)"
}

# What the host's git already runs or reads here by its configuration is held like what it finds by itself.
# Red without gitnames_read() in add_rules() (drivers/native/regions.c).
named_by_git() {
        local f
        git init -q .
        mkdir -p tools/git conf scripts
        echo '#!/bin/sh' >scripts/smudge.js
        echo old >mon.sh
        git config core.hooksPath tools/git
        git config core.fsmonitor ./mon.sh
        git config include.path ../conf/git.inc
        git config filter.x.smudge 'node scripts/smudge.js --fast'
        git config alias.go '!sh ./go.sh'
        echo old >go.sh
        printf '[core]\n\tattributesFile = %s/attr\n' "$W" >"$T/home/.gitconfig"
        sandbox "$@" -- sh -ec 'for f in tools/git/pre-commit tools/git/new/x conf/git.inc scripts/smudge.js mon.sh go.sh attr scripts/other; do
                mkdir -p "$(dirname $f)"; echo evil >$f; done; mv scripts/other scripts/fine; cat mon.sh' >out || fail 'inside'
        rm "$T/home/.gitconfig"
        eq evil "$(cat out)" 'seen inside'
        for f in tools/git/pre-commit tools/git/new conf/git.inc attr; do [ ! -e $f ] || fail "$f is on the host"; done
        eq old "$(cat mon.sh)"
        eq old "$(cat go.sh)"
        lacks "$(cat scripts/smudge.js)" evil
        eq evil "$(cat scripts/fine)" 'what nothing names'
        has "$("$C" diff --held)" tools/git/pre-commit
        has "$("$C" explain mon.sh write)" 'git configuration names it'
}

t 'a name made in any way is held' held_every_way
t 'a protected name answers EROFS to any change' protected_every_way
t 'a hidden name is not there and cannot be made' hidden_every_way
t 'a read-only region takes nothing' read_only_region
t 'a file that becomes a held one has a number of its own' numbers_of_their_own
t 'a held change is seen by all openers and not by the host' held_change
t 'a held deletion is seen inside only, also when its directory goes' held_deletion
t 'another object takes the name of a directory that the host keeps' deletion_then_file
t 'the bytes that were judged land, not later ones' judged_bytes_land
t 'a judged file is on the host when close returns' judged_file_lands_at_close
t 'a judged file lands when it is changed without being opened' judged_file_lands_without_open
t 'a region that is one file' file_region
t 'an edit of the host is not overwritten by a landing' conflict_is_kept
t 'links to and from held names are refused' links_are_refused
t 'a hard link from before the run does not lead around a hold' old_link_is_held
t 'a directory is renamed when no rule changes, else EXDEV' directory_rename
t 'renaming a directory while a name is made in it' watch_for_canary
t 'the host swaps files for links' host_swaps
t 'edits of the host show within a second' host_edits_show
t 'nothing privileged reaches the host' nothing_privileged
t 'a tree with 64 descriptors' few_descriptors
t 'a thousand levels' deep_tree
t 'names of any bytes' odd_names
t 'git lives, and its repository is sound on the host' git_lives
t 'what is remembered is bounded' bounded
t 'an exclusive region' exclusive_region
t 'what the git configuration of the host names is held' named_by_git
t 'and in a staged workspace' named_by_git --workspace-mode staged
finish
