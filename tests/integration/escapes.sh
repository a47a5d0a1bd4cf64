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
        status 1 git config core.pager # as git says that it is not set
}

# Red without: each of the fixes it once found, e.g. reopen() of a directory in place_open(), RWF_APPEND in write_some()
model() {
        need_command python3
        cp "$TOP/tests/integration/fs-model.py" .
        sandbox -- sh -c 'for seed in 1 2 3; do python3 fs-model.py $seed 4000 || exit 1; done'
        sandbox -- python3 fs-model.py 11 4000 held
}

# Pages of a mapping have a place, also when the file was opened for appending.
# Red with O_APPEND in what handle_flags() (fs/handle.c) returns
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
os.close(os.open('.envrc', os.O_CREAT | os.O_WRONLY)) # held, however deep
os.fchdir(top); os.mkdir('x')
for i in range(1500): os.mkdir('x/%d' % i); os.close(os.open('x/%d/f' % i, os.O_CREAT))
os.fchdir(top)
for i in range(3900): os.chdir('d')
os.close(os.open('g', os.O_CREAT | os.O_WRONLY))
assert sorted(os.listdir('.')) == ['.envrc', 'g']
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
        [ "$(id -u)" = 0 ] || skip 'only root makes devices'
        mknod null c 1 3 2>/dev/null && : 2>/dev/null >null || skip 'no device nodes here'
        chmod 666 null
        # shellcheck disable=SC2094 # it is a device
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

# A hidden file by every way to it, a protected one by every way to change it, while directories around them move.
# Red without: GUARD_HIDE in spot_look(); GUARD_PROTECT in spot_admit() or in place_admit(); tree_same_rules()
hidden_and_protected() {
        mkdir secret keep empty
        echo canary | tee secret/key >keep/file
        tree . >"$T/before"
        inside --hide /secret/key --protect '/keep/**' <<'PY'
libc = ctypes.CDLL(None, use_errno=True)
def exchange(a, b):
    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2) < 0: raise OSError(ctypes.get_errno(), a)
os.symlink('secret', 'link'); os.symlink('secret/key', 'link2')
def look():
    for p in 'secret/key', 'link/key', 'link2', './secret/../secret/key', 'moved/key', 'empty/key':
        assert no(open, p) in (errno.ENOENT, errno.ENOTDIR), p
    for d in 'secret', 'link', 'empty': assert 'key' not in os.listdir(d)
look()
no(os.rename, 'secret', 'moved'); no(exchange, 'secret', 'empty'); no(os.link, 'secret/key', 'x'); no(os.rename, 'secret/key', 'x')
no(open, 'secret/key', 'w'); no(os.rmdir, 'secret'); no(os.mkdir, 'secret/key'); no(os.unlink, 'secret/key')
look()
fd = os.open('keep/file', os.O_RDONLY)
again = '/proc/self/fd/%d' % fd
for f in (lambda p: open(p, 'r+'), lambda p: open(p, 'a'), lambda p: os.truncate(p, 0), lambda p: os.chmod(p, 0o777),
          lambda p: os.utime(p, (1, 1)), lambda p: os.setxattr(p, 'user.evil', b'1'), lambda p: os.link(p, 'x')):
    no(f, 'keep/file'); no(f, again)
no(os.unlink, 'keep/file'); no(os.rename, 'keep/file', 'x'); no(os.rename, 'keep', 'x'); no(exchange, 'keep', 'empty')
no(os.fchmod, fd, 0o777); no(open, 'keep/new', 'w'); no(os.symlink, 'x', 'keep/new'); no(os.rename, 'link', 'keep/new')
os.unlink('link'); os.unlink('link2')
PY
        tree . | diff "$T/before" -
}

# One thread renames a directory and a file to and from held names, others write wherever they can.
# Red without: place_admit() in open_node(); handle_repoint() in settle()
raced() {
        git init -q .
        mkdir .vscode
        echo canary | tee .envrc >.vscode/tasks.json
        inside <<'PY'
import time
end, libc = time.time() + 6, ctypes.CDLL(None, use_errno=True)
def quiet(f, *a):
    try: return f(*a)
    except OSError: return None
def swap(a, b): libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
def mover():
    while time.time() < end:
        quiet(os.mkdir, 'd'); quiet(os.rename, 'd', '.vscode'); quiet(os.rename, '.vscode', 'd'); swap('d', '.vscode')
        quiet(os.rename, 'f', '.envrc'); quiet(os.rename, '.envrc', 'f'); swap('f', '.envrc'); quiet(os.unlink, '.envrc')
        quiet(os.rename, 'd', '.git/hooks/d'); quiet(os.rename, 'config.new', '.git/config')
def writer(paths):
    fds = []
    while time.time() < end:
        for p in paths:
            fd = quiet(os.open, p, os.O_RDWR | os.O_CREAT, 0o755)
            if fd is not None: fds.append(fd)
        for fd in fds[-8:]: quiet(os.pwrite, fd, b'[core]\n\tfsmonitor = evil\n', 0)
        while len(fds) > 12: os.close(fds.pop(0))
workers = [threading.Thread(target=mover)] * 1 + [threading.Thread(target=writer, args=(p,)) for p in
           (['d/tasks.json', 'f'], ['.vscode/tasks.json', 'f', '.envrc'], ['config.new', '.git/hooks/d/pre-commit', 'd/pre-commit'])]
for w in workers: w.start()
for w in workers: w.join()
PY
        eq '' "$(grep -rl evil .vscode .envrc .git/config .git/hooks 2>/dev/null)"
        git status -s >/dev/null
}

# Set-id bits, devices and other owners never reach the host. Red without: check() in setattr() (fs/attr.c), check_mode()
set_id() {
        inside <<'PY'
fd = os.open('tool', os.O_CREAT | os.O_RDWR, 0o755)
for mode in 0o4755, 0o2755, 0o6755: no(os.chmod, 'tool', mode); no(os.fchmod, fd, mode)
for mode in 0o4755, 0o2755: no(os.mknod, 'n%o' % mode, stat.S_IFREG | mode)
for t in stat.S_IFCHR, stat.S_IFBLK: no(os.mknod, 'dev', t | 0o666, os.makedev(1, 3))
no(os.chown, 'tool', 65534, 65534)
os.mkdir('d'); no(os.chmod, 'd', 0o4755)
try: os.close(os.open('created', os.O_CREAT | os.O_WRONLY, 0o6755))
except OSError: pass
PY
        eq '' "$(find . -perm /6000 -type f -o -type b -o -type c -o ! -user "$(id -u)")"
}

# Whoever knows an abstract name reaches its socket over a network that is open, unless landlock stands between.
# Red without: landlock_work() in stage_confine() (drivers/native/sandbox.c)
sockets() {
        need_command python3
        python3 -c 'import socket, sys, time
a = socket.socket(socket.AF_UNIX); a.bind("\0cofferdam-canary-" + sys.argv[1]); a.listen(5)
b = socket.socket(socket.AF_UNIX); b.bind("canary.sock"); b.listen(5)
open("listening", "w").close(); time.sleep(600)' $$ &
        local server=$!
        wait_for 60 test -e listening
        for net in none open; do
                inside --network $net <<PY || { kill "$server"; fail "network $net"; }
for name in '\0cofferdam-canary-$$', 'canary.sock': no(socket.socket(socket.AF_UNIX).connect, name)
for family in 16, 17, 38, 40, 44:
    if family != 16: no(socket.socket, family, socket.SOCK_STREAM)
for protocol in range(1, 23): no(socket.socket, 16, socket.SOCK_RAW, protocol)
PY
        done
        kill "$server"
}

# uid 0 inside is uid 0 outside. Red without: "proc/sys" in proc_masks[]; PR_SET_DUMPABLE in stage_confine()
proc() {
        SECRET_OF_CALLER=canary inside <<'PY'
for path in ('sys/kernel/core_pattern', 'sys/kernel/hostname', 'sys/vm/drop_caches', 'sys/kernel/modprobe', 'sysrq-trigger',
             'irq/default_smp_affinity', '1/mem', '1/environ', '1/uid_map', '1/clear_refs'):
    try: fd = os.open('/proc/' + path, os.O_WRONLY)
    except OSError: continue
    if os.stat(fd).st_rdev == os.makedev(1, 3): continue
    # not written to: where the defence is out, this is the switch of the machine that tests it
    if path[0] != '1': raise SystemExit('open for writing: ' + path)
    if path != '1/clear_refs': no(os.write, fd, b'1\n')
for name in 'environ', 'mem', 'maps', 'exe', 'root', 'cwd', 'fd/0', 'fd/3', 'auxv':
    path = '/proc/1/' + name
    try: data = os.readlink(path) if os.path.islink(path) else open(path, 'rb').read(4096)
    except OSError: continue
    raise SystemExit('%s: %r' % (path, data))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.ptrace(16, 1, 0, 0) < 0
for root, dirs, files in os.walk('/proc'):
    dirs[:] = [d for d in dirs if d.isdigit() and root == '/proc']
    for f in files:
        if f == 'environ':
            try: assert b'canary' not in open(root + '/' + f, 'rb').read(), root
            except OSError: pass
PY
}

# What was held is landed on a host that has changed: a directory on the way is now a link that leads out.
# Two walls, either of which is enough: the conflict that diff_walk() finds, and RESOLVE_NO_SYMLINKS in open_beneath()
applied() {
        mkdir -p d outside/.vscode
        inside <<'PY'
os.makedirs('d/.vscode'); open('d/.vscode/tasks.json', 'w').write('evil')
os.symlink('../outside', 'd/.idea'); open('.envrc', 'w').write('evil')
PY
        mv d gone
        ln -s outside d
        "$C" diff >/dev/null || true
        "$C" apply >/dev/null 2>&1 || true
        eq '' "$(find outside -mindepth 2)"
        "$C" apply --force >/dev/null 2>&1 || true
        eq '' "$(find outside -mindepth 2)" 'by force'
        eq evil "$(cat .envrc)"
        "$C" discard >/dev/null || true
        [ -d outside/.vscode ] || fail 'what the link leads to was removed'
}

# The source of a bind is exchanged with another directory while the run uses it, and before each start.
# Red without: pin.fd as .root_fd in fsd_config(), were the path opened there
swapped() {
        need_command python3
        mkdir -p parent/source other/source work
        echo real >parent/source/file
        echo canary >other/source/file
        python3 -c 'import ctypes, time
libc, end = ctypes.CDLL(None), time.time() + 150
while time.time() < end: libc.renameat2(-100, b"parent", -100, b"other", 2); time.sleep(0.002)' &
        local racer=$!
        for _ in 1 2 3; do # by pin the run goes on with what it had; by stop, the default of a bind, it ends
                sandbox --workspace "$W/work" --mount "type=bind,source=$W/parent/source,target=/data,on_source_change=pin" -- sh -c '
                        first=$(cat /data/file) || exit 0
                        for i in $(seq 300); do
                                now=$(cat /data/file)
                                [ "$now" = "$first" ] || { echo "changed: $first, $now"; exit 1; }
                        done' || fail 'the source changed under the run'
        done
        kill "$racer" 2>/dev/null || true
        wait "$racer" || true
}

# A directory of the workspace is served at another place too, where it is the root that rules start from.
# Red without: list_fixed() in add_rules() (drivers/native/regions.c)
twice() {
        mkdir -p a/data
        inside --mount "type=bind,source=$W/a/data,target=/data" <<'PY'
libc = ctypes.CDLL(None, use_errno=True)
no(os.rename, 'a/data', '.vscode'); no(os.rename, 'a', '.vscode'); os.mkdir('x')
for old in 'a', 'a/data': assert libc.renameat2(-100, old.encode(), -100, b'x', 2) < 0
open('/data/tasks.json', 'w').write('fine'); open('a/data/other', 'w').write('fine'); os.mkdir('a/data/dir')
PY
        eq fine "$(cat a/data/tasks.json)"
        [ ! -e .vscode ] || fail 'it is on the host'
}

# What another run is about to land is a file with a name for a moment.
# Red without: the last of the built-in rules (fs/rules-builtin.c)
half_landed() {
        git init -q .
        echo canary | tee .git/.cofferdam-tmp-0123456789abcdef >.git/.cofferdam-apply-0123456789abcdef
        inside <<'PY'
for name in 'tmp', 'apply':
    path = '.git/.cofferdam-%s-0123456789abcdef' % name
    no(open, path); no(open, path, 'r+'); no(os.link, path, 'x'); no(os.rename, path, 'x'); no(os.unlink, path); no(os.chmod, path, 0o777)
    no(open, path + 'x', 'w')
assert not [n for n in os.listdir('.git') if 'cofferdam' in n]
PY
        eq canary "$(cat .git/.cofferdam-tmp-*)"
}

# Two runs on one workspace: one holds a directory open, the other renames it to a name under other rules.
# Red without: spot_stayed() in create() (fs/make.c)
two_runs() {
        mkdir foo
        cat >first.py <<'PY'
import os, time
d = os.open('foo', os.O_RDONLY)
def make(name):
    try:
        fd = os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=d); os.write(fd, b'evil'); os.close(fd)
        os.unlink(name, dir_fd=d)
    except OSError: return False
    return True
assert make('x')
open('ready', 'w').close()
end = time.time() + 20
while time.time() < end and make('x'): time.sleep(0.005)
for f in lambda: os.open('tasks.json', os.O_CREAT | os.O_WRONLY, dir_fd=d), lambda: os.mkdir('m', dir_fd=d), \
        lambda: os.symlink('x', 's', dir_fd=d), lambda: os.rename('ready', 'r', dst_dir_fd=d), lambda: os.link('ready', 'l', dst_dir_fd=d):
    try: f()
    except OSError: pass
PY
        need_command python3
        sandbox -- python3 first.py &
        wait_for 60 test -e ready
        sandbox -- sh -c 'for i in $(seq 200); do mv -T foo .vscode 2>/dev/null && exit; sleep 0.01; done'
        wait $!
        [ -d .vscode ] || fail 'the directory was never moved: nothing was tried'
        eq '' "$(ls -A .vscode)" 'in the held directory'
        [ -e ready ] || fail 'what could not be moved is gone'
}

t 'a descriptor of a removed held file cannot be opened again for writing' nameless
t 'what a linked worktree shares with others runs nothing' linked_worktree
t 'a random sequence of calls has the results that it has on a tmpfs' model
t 'a file opened for appending is written where it is mapped' append
t 'a deep tree does not overflow the stack of the file server' deep
t 'a device as a standard descriptor is the one of the sandbox' devices
t 'a redirected file can only be read, or only be written' redirected
t 'what landed by its content does not move to where it means something else' judged_then_moved
t 'a hidden or protected file is not reached by any way round' hidden_and_protected
t 'threads that race renames and writes land nothing in a held file' raced
t 'no set-id bit, device or foreign owner reaches the host' set_id
t 'no socket of the host is reached' sockets
t 'uid 0 changes and reads nothing of the host through /proc' proc
t 'apply does not follow a link that is new on the host' applied
t 'a bind source that is exchanged changes nothing inside' swapped
t 'a directory that is served twice stays under the rules of both places' twice
t 'what another run is about to land is not there' half_landed
t 'two runs on one workspace do not lead each other around the rules' two_runs
finish
