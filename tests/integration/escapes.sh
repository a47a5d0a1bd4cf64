#!/usr/bin/env bash
# What an attacker tries who has read the code: each test plants a canary on the host and lets a command inside go for
# it. "Red without" names the line that was taken out once to see the test fail
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"


# inside [OPTION...] <<SCRIPT: python in a sandbox on the workspace; no(f, args) wants a refusal and prints anything else
inside() {
        need_command python3
        sandbox "$@" -- python3 -c 'import ctypes, errno, mmap, os, socket, stat, struct, sys, threading
def no(f, *a, **k):
    try: r = f(*a, **k)
    except OSError as e: return e.errno
    raise SystemExit("allowed: %s %s -> %s" % (getattr(f, "__name__", f), a, r))
'"$(cat)"
}

# tree DIR: every name with type, mode and content
tree() { (cd "$1" && find . -mindepth 1 \( -type f -printf '%p %m %s ' -exec sha256sum {} \; -o -printf '%p %y %m %l\n' \) | sort); }

# A held file is opened for reading, its name goes, and the descriptor is opened again for writing.
# Red without: the check of st_nlink in handle_dup_to_change()
nameless() {
        git init -q .
        mkdir -p .vscode/sub
        echo canary | tee .envrc >.vscode/tasks.json
        printf '#!/bin/sh\n' >.git/hooks/pre-commit
        chmod 644 .git/hooks/pre-commit .envrc .vscode/tasks.json
        tree . >"$T/before"
        inside <<'PY'
def again(fd, flags): os.write(os.open('/proc/self/fd/%d' % fd, flags), b'evil')
for path in '.envrc', '.vscode/tasks.json', '.git/hooks/pre-commit':
    for way in 'unlink', 'rename':
        fd = os.open(path, os.O_RDONLY)
        if way == 'unlink': os.unlink(path)
        open('x', 'w').write('x'); os.rename('x', path)
        for flags in os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND: no(again, fd, flags) if way == 'unlink' else None
        if way == 'unlink':
            no(os.fchmod, fd, 0o777); no(os.utime, fd, (1, 1)); no(os.setxattr, fd, 'user.evil', b'1')
            no(os.truncate, '/proc/self/fd/%d' % fd, 0); no(os.link, '/proc/self/fd/%d' % fd, 'y')
d = os.open('.vscode/sub', os.O_RDONLY)
os.rmdir('.vscode/sub')
no(os.fchmod, d, 0o777)
no(os.open, 'f', os.O_CREAT | os.O_WRONLY, dir_fd=d)
# what is gone for everybody can be written on
fd = os.open('plain', os.O_CREAT | os.O_RDONLY, 0o644)
os.unlink('plain')
again(fd, os.O_RDWR); os.fchmod(fd, 0o600)
assert os.fstat(fd).st_size == 4
PY
        tree . | diff "$T/before" -
}

# The workspace is a linked worktree: what of the common directory its git can write must not run anything either.
# Red without: .builtin_rules and .base in add_common() (worktree.c)
linked_worktree() {
        git init -q main
        git -C main commit -q --allow-empty -m first
        git -C main worktree add -q ../tree
        git -C main worktree add -q ../other
        cp main/.git/config "$T/config"
        cd tree
        inside <<'PY'
own = open('.git').read().split()[1]
common = os.path.dirname(os.path.dirname(own))
evil = {'git-rebase-todo': 'exec evil\n', 'commondir': '../../lfs\n', 'gitdir': '/evil/.git\n'}
def put(path):
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, 'w').write(evil.get(os.path.basename(path), 'evil\n[core]\n\tfsmonitor = evil\n'))
    except OSError as e: assert e.errno in (errno.EROFS, errno.EACCES), (path, e)
for d in own, common, common + '/worktrees/new', common + '/worktrees/other', common + '/modules/m', common + '/lfs', common + '/rr-cache', common + '/logs':
    for name in ('rebase-merge/git-rebase-todo rebase-merge/strategy sequencer/opts config.worktree config commondir gitdir '
                 'hooks/pre-commit hooks/x/y info/attributes objects/info/alternates remotes/r branches/b').split():
        put(d + '/' + name)
    for name in 'hooks/post-checkout', 'objects', 'refs/l', 'worktrees/l', 'modules/l':
        try: os.makedirs(os.path.dirname(d + '/' + name), exist_ok=True); os.symlink('/evil', d + '/' + name)
        except OSError as e: assert e.errno in (errno.EROFS, errno.EEXIST), (d, name, e)
PY
        cd ..
        # git reads info/, remotes/ and branches/ of the common directory only; below logs/ nothing but logs
        eq '' "$(cd main/.git && grep -rl evil . | grep -v -e '^./logs/' -e '^./worktrees/[a-z]*/\(info\|remotes\|branches\)/')" \
                'files of the host'
        eq '' "$(find main/.git -type l | head)" 'links of the host'
        cmp main/.git/config "$T/config"
        git -C main status -s >/dev/null
        # and git works, also on the host afterwards
        cd tree
        sandbox -- sh -c 'git config user.name x && git config user.email x@example.org && git remote add origin https://example.org/x && echo 1 >f && git add f &&
                git commit -qm second && git config core.pager evil'
        eq second "$(git log -1 --format=%s)"
        eq https://example.org/x "$(git config remote.origin.url)"
        eq '' "$(git config core.pager || true)"
}

# Red without: each of the fixes it once found, e.g. reopen() of a directory in place_open(), RWF_APPEND in write_some()
model() {
        need_command python3
        cp "$TOP/tests/integration/fs-model.py" .
        sandbox -- sh -c 'for seed in 1 2 3; do python3 fs-model.py $seed 4000 || exit 1; done'
        sandbox -- python3 fs-model.py 11 4000 held
}

# Pages of a mapping have a place, also when the file was opened for appending.
# Red without: !fi->writepage in write_some()
append() {
        inside <<'PY'
import fcntl
open('m', 'wb').write(b'A' * 8192)
fd = os.open('m', os.O_RDWR | os.O_APPEND)
m = mmap.mmap(fd, 8192); m[0:3] = b'xyz'; m.flush(); m.close()
fcntl.fcntl(fd, fcntl.F_SETFL, 0); os.pwrite(fd, b'p', 3)
fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND); os.write(fd, b'end')
assert open('m', 'rb').read() == b'xyzp' + b'A' * 8188 + b'end'
PY
}

# A tree deeper than the stack of the caller is long.
# Red without: pthread_attr_setstacksize() in start_worker()
deep() {
        (ulimit -s 256; inside) <<'PY'
os.mkdir('deep'); os.chdir('deep')
top = os.open('.', os.O_RDONLY)
for i in range(3900): os.mkdir('d'); os.chdir('d')
no(os.open, '.envrc', os.O_CREAT | os.O_WRONLY)
os.fchdir(top); os.mkdir('x')
for i in range(1500): os.mkdir('x/%d' % i); os.close(os.open('x/%d/f' % i, os.O_CREAT))
os.fchdir(top)
for i in range(3900): os.chdir('d')
os.close(os.open('g', os.O_CREAT | os.O_WRONLY))
assert os.listdir('.') == ['g']
PY
        eq '' "$(find . -name .envrc)"
}

# Standard descriptors are files of the host that the caller opened for one thing: nothing else can be done with them.
# Red without: relay_init() in execute() (runtime/run/engine.c)
redirected() {
        mkdir host
        echo canary >host/in
        echo canary >host/log
        chmod 600 host/in host/log
        cat >host/script <<'PY'
import os, errno
def quiet(f, *a):
    try: f(*a)
    except OSError: pass
def again(fd, flags): os.write(os.open('/proc/self/fd/%d' % fd, flags), b'evil')
for fd in 0, 1, 2:
    for flags in os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC: quiet(again, fd, flags) if fd == 0 else None
    quiet(os.fchmod, fd, 0o4755); quiet(os.ftruncate, fd, 0); quiet(os.utime, fd, (1, 1)); quiet(os.setxattr, fd, 'user.evil', b'1')
    quiet(os.chmod, '/proc/self/fd/%d' % fd, 0o4755); quiet(os.chmod, '/dev/stdin', 0o4755)
PY
        mkdir work
        cp host/script work/script.py
        sandbox --workspace "$W/work" -- python3 script.py <host/in >>host/log 2>>host/log
        eq canary "$(cat host/in)" 'stdin'
        eq 600 "$(stat -c %a host/in)" 'mode of stdin'
        eq canary "$(head -n 1 host/log)" 'stdout'
        eq 600 "$(stat -c %a host/log)" 'mode of stdout'
        eq '' "$(head -c 200 host/log | grep -c evil | grep -v '^0$')" 'stdout'
        # a directory leads out as a whole
        status 125 sandbox -- true <host
}

# uid 0 inside owns the host's /dev/null. A copy of it below a directory stands in for it here.
# Red without: own_device() in on_exec() (drivers/native/init.c)
devices() {
        [ "$(id -u)" = 0 ] || skip 'devices are made by root'
        mknod null c 1 3 2>/dev/null && : 2>/dev/null >null || skip 'no device nodes here'
        chmod 666 null
        sandbox -- python3 -c 'import os
for fd in 0, 1, 2:
    try: os.fchmod(fd, 0)
    except OSError: pass' <null >null 2>null
        eq 666 "$(stat -c %a null)" 'mode of the host'"'"'s device'
        eq '' "$(sandbox -- cat <null)"
}

# What landed by its content under one name is moved to a name where it means something else.
# Red without: the last return of compare_entry() (fs/tree.c); the module's worktree without tree_same_place()
judged_then_moved() {
        git init -q .
        inside <<'PY'
def move(file, text, old, new):
    os.makedirs(os.path.dirname(old + '/' + file), exist_ok=True)
    open(old + '/' + file, 'w').write(text)
    assert no(os.rename, old, new) in (errno.EXDEV, errno.ENOENT), (old, new)
    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs(new, exist_ok=True)
    for flags in 1, 2: assert libc.renameat2(-100, old.encode(), -100, new.encode(), flags) < 0, (old, new)
move('config', 'build.rustc-wrapper = "evil"\n', 'a', '.cargo')
move('config', 'ProxyCommand evil\n', 'b', '.ssh')
move('deep/config', 'evil\n', 'c', '.idea')
move('config', 'evil\n', 'd', '.git/hooks')
move('config', '[core]\n\tworktree = ../../../../../evil\n', '.git/modules/x/y/z', '.git/modules/z')
# a directory moves as ever where its files mean the same
os.makedirs('e/sub'); open('e/sub/config', 'w').write('harmless\n'); os.rename('e', 'f'); os.rename('f/sub', 'g')
PY
        [ -f g/config ] || fail 'the harmless one did not land'
        eq '' "$(grep -rl evil .cargo .ssh .idea .git/hooks .git/modules/z 2>/dev/null)"
}

t 'a descriptor of a removed held file cannot be opened again for writing' nameless
t 'what a linked worktree shares with others runs nothing' linked_worktree
t 'a random sequence of calls has the results that it has on a tmpfs' model
t 'a file opened for appending is written where it is mapped' append
t 'a deep tree does not overflow the stack of the file server' deep
t 'a device as a standard descriptor is the one of the sandbox' devices
t 'a redirected file can only be read, or only be written' redirected
t 'what landed by its content does not move to where it means something else' judged_then_moved
finish
