#!/usr/bin/env bash
# Regions where every change goes to the upper (guard-mount -c, -s): the host's directory stays as it is, what is seen
# is what a plain directory would show, and rules hold for what was moved
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

cp "$HELPERS/guard-mount" "$HELPERS/cow-model" "$T/bin/"
export PATH=$T/bin:$PATH

# g [OPTION...] -- CMD...: CMD in the workspace, copied on write to $U, one per test
U=
g() {
        local opts=() rc=0
        : "${U:=$T/upper$count}"
        mkdir -p "$U"
        while [ "$1" != -- ]; do
                opts+=("$1")
                shift
        done
        shift
        timeout -k 5 250 guard-mount -c -u "$U" "${opts[@]}" "$W" -- "$@" || rc=$?
        [ "$rc" != 77 ] || skip 'no user namespaces or no /dev/fuse here'
        return "$rc"
}

py() { g "$@" -- python3 -c "$(cat)"; }

# tree DIR: every name with type, mode, times of files and content
tree() { (cd "$1" && find . -mindepth 1 \( -type f -printf '%p %m %s %T@ ' -exec sha256sum {} \; -o -printf '%p %y %m %l\n' \) | sort); }

fixture() {
        mkdir -p dir/sub/deep empty
        echo one >dir/one
        echo two >dir/sub/two
        echo three >dir/sub/deep/three
        ln -s one dir/link
        mkfifo dir/fifo
        chmod 640 dir/sub/two
        chmod 2755 dir/sub
        touch -d '2001-02-03 04:05:06.789' dir/one dir/sub dir
}

host_stays() {
        fixture
        tree . >"$T/before"
        g -- sh -ec 'echo more >>dir/one; mv dir moved; rm moved/sub/two; chmod 700 moved/sub; mkdir dir; echo x >dir/one
                ln moved/one moved/hard; rmdir empty; mv moved/sub/deep dir/; touch -d @1 moved; rm moved/link
                python3 -c "import os; os.setxattr(\"dir\", \"user.a\", b\"1\")"; truncate -s 0 dir/deep/three'
        tree . | diff "$T/before" -
        g -- sh -ec 'cat moved/one moved/hard dir/one; ls -A . moved dir dir/deep; stat -c %a moved/sub; [ ! -s dir/deep/three ]' >said
        eq "one more one more x .: dir moved said dir: deep one dir/deep: three moved: fifo hard one sub 2700" \
                "$(tr -s '\n ' '  ' <said | sed 's/ $//')"
}

# staged is the same until a command ends: nothing lands by itself, not even what the judge would take. (Without the
# question for the kind of region in upper_judged() it is landlock that refuses.)
nothing_lands_alone() {
        local kind
        git init -q .
        cp .git/config "$T/config"
        for kind in -c -s; do
                U=$T/upper$count$kind
                g "$kind" -b -n -- sh -ec 'git config user.name some; printf "[user]\n\tname = somebody\n" >>.git/config' 2>said
                cmp .git/config "$T/config"
                eq somebody "$(g "$kind" -b -- git config user.name)"
        done
}

# Plain changes are told to nobody, held ones are.
held_is_told() {
        g -n -h '*.held' -- sh -ec 'echo 1 >plain; mkdir d; mv plain d/; echo 2 >d/x.held' 2>said
        eq 'notice: held create d/x.held rule=*.held detail=' "$(cat said)"
}

# What a rule hides below a renamed directory is neither listed nor opened nor made anew. Red when states_verdict()
# looks at the visible path only.
hidden_stays_hidden() {
        mkdir -p a/b/keys
        echo secret >a/b/keys/id
        echo plain >a/b/file
        g -H '/a/b/keys' -- sh -ec 'mv a z; mv z/b c; [ "$(ls -A c)" = file ]; ! cat c/keys/id 2>/dev/null; ! mkdir c/keys 2>/dev/null
                mkdir -p a/b; [ -z "$(ls -A a/b)" ]; ! mkdir a/b/keys 2>/dev/null; mv c d; ! stat d/keys 2>/dev/null'
        # by what is on disk only
        g -H '/a/b/keys' -- sh -ec '! cat d/keys/id 2>/dev/null; [ "$(ls -A d)" = file ]; [ "$(cat d/file)" = plain ]'
}

# Red when tree_may_move() is not asked.
protected_stays() {
        mkdir -p a/b/p
        echo 1 >a/b/p/f
        py -p '/a/b/p/**' -p '/x/forbidden' <<'PY'
import errno, os, time
def no(f, *a):
    try: f(*a)
    except OSError as e: assert e.errno == errno.EROFS, (f, a, e)
    else: raise SystemExit('allowed: %s %s' % (f, a))
no(os.rename, 'a', 'z'); no(os.rename, 'a/b', 'z'); no(os.unlink, 'a/b/p/f'); no(open, 'a/b/p/f', 'w')
os.mkdir('y'); open('y/forbidden', 'w').close(); no(os.rename, 'y', 'x')
assert open('a/b/p/f').read() == '1\n'
PY
}

# A record that was tampered with leads nowhere: not out of the region, not through a link, not to what is hidden
bad_redirects() {
        local value
        mkdir -p inside hide outside/up
        echo secret >hide/s
        echo outside >"$T/out"
        ln -s "$T" way
        U=$T/upper$count
        mkdir -p "$U/d"
        for value in /.. /../.. / '' . .. /inside/../.. /way /way/home //inside /hide hide/../inside /inside/ "/$(printf %5000s x)"; do
                python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.overlay.redirect", sys.argv[2].encode())' "$U/d" "$value" 2>/dev/null || continue
                [ -z "$(g -H /hide -- ls -A d 2>/dev/null)" ] || fail "'$value' shows something"
        done
        echo in >inside/file
        python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.overlay.redirect", b"/inside")' "$U/d"
        eq file "$(g -- ls -A d)"
}

# Names of one file that the work has seen lead to the copy together; one it has not seen keeps the old content and the
# number. All seen: the number stays, also later.
links_of_the_lower() {
        echo 1 >a && ln a b && ln a c
        echo 1 >x && ln x y
        py <<'PY'
import os
old = os.stat('a').st_ino
assert os.stat('b').st_ino == old
fd = os.open('b', os.O_RDONLY)
open('a', 'a').write('2\n')
assert os.pread(fd, 9, 0) == b'1\n2\n' == open('b', 'rb').read()
assert os.stat('a').st_ino == os.stat('b').st_ino != os.stat('c').st_ino == old
assert open('c').read() == '1\n' and os.stat('a').st_nlink == 2
old = os.stat('x').st_ino
os.stat('y'); os.chmod('x', 0o600)
assert os.stat('x').st_ino == os.stat('y').st_ino == old and os.stat('y').st_mode & 0o777 == 0o600
open('number', 'w').write(str(old))
PY
        py <<'PY'
import os
assert os.stat('x').st_ino == os.stat('y').st_ino == int(open('number').read())
assert open('b').read() == '1\n2\n' and open('c').read() == '1\n'
PY
        eq '1 1 1' "$(cat a b c | tr '\n' ' ' | sed 's/ $//')"
}

# deeper and longer than PATH_MAX, as far as the host's own tree may be
deep() {
        py <<'PY'
import os
top = os.open('.', os.O_RDONLY)
name = 'n' * 200
for i in range(60):
    os.mkdir(name); os.chdir(name)
open('f', 'w').write('deep')
os.chdir('..'); os.rename(name, 'm'); os.chdir('m')
assert open('f').read() == 'deep' and os.listdir() == ['f']
PY
        py <<'PY'
import os
for i in range(59):
    os.chdir('n' * 200)
assert open('m/f').read() == 'deep'
PY
        find . -mindepth 1 | diff /dev/null -
}

# the host edits below: what was not touched shows it, what was copied does not, and nothing else is ever shown
host_edits() {
        mkdir -p d/e
        echo 1 >d/a
        echo 1 >d/e/b
        (
                set +e
                for _ in {1..3000}; do [ -e "$T/go" ] && break || sleep 0.02; done
                echo 2 >d/x && mv d/x d/a
                echo 2 >d/new
                mv d/e d/was
                mkdir d/e
                echo 3 >d/e/b
                : >"$T/done"
        ) &
        g -- sh -ec 'echo mine >>d/a; cat d/e/b; : >"$0/go"; for i in $(seq 3000); do [ -e "$0/done" ] && break || sleep 0.02; done
                sleep 1.2; cat d/a; cat d/e/b d/new d/was/b' "$T" >said
        wait
        eq '1 1 mine 3 2 1' "$(tr '\n' ' ' <said | sed 's/ $//')"
}

# Several that move, copy and delete the same names at once, with the host doing so below: nothing hangs or ends, nobody
# sees bytes that no one wrote, and the tree is the same when the guard is started anew.
crowd() {
        mkdir -p a/b/c d/e
        for f in a/1 a/b/2 a/b/c/3 d/4 d/e/5; do printf 'lower%.0s' {1..2000} >"$f"; done
        cat >"$T/crowd.py" <<'PY'
import os, random, sys, time
r = random.Random(int(sys.argv[1])); end = time.monotonic() + float(sys.argv[2]); inside = sys.argv[3] == 'inside'
names = ['a', 'b', 'c', 'd', 'e', '1', '2', '3']
def path(): return '/'.join(r.choice(names) for _ in range(r.choice([1, 2, 2, 3])))
def write(p):
    with open(p, r.choice(['a', 'w'])) as f: f.write('inner' * 1000)
def look(p):
    data = open(p, 'rb').read()
    # torn between two writers is possible, other bytes are not
    assert not data.strip(b'lowerinh\0'), (p, data[:100])
calls = [lambda: os.rename(path(), path()), lambda: os.mkdir(path()), lambda: os.rmdir(path()), lambda: os.unlink(path()),
         lambda: write(path()), lambda: write(path()), lambda: os.link(path(), path()), lambda: os.chmod(path(), 0o755),
         lambda: os.listdir(path()), lambda: look(path()), lambda: os.symlink('x', path()), lambda: os.stat(path())]
while time.monotonic() < end:
    try: r.choice(calls)()
    except OSError: pass
    if not inside: time.sleep(0.002)
PY
        python3 "$T/crowd.py" 99 6 host &
        g -- sh -ec 'for i in 1 2 3 4 5 6; do python3 "$0" $i 4 inside & done; for i in 1 2 3 4 5 6; do wait %$i || exit 1; done' "$T/crowd.py"
        wait
        g -- sh -c "$(declare -f shape); shape ." >"$T/first" 2>"$T/first.err"
        g -- sh -c "$(declare -f shape); shape ." >"$T/second" 2>"$T/second.err"
        diff "$T/first" "$T/second" >"$T/differ" || fail "$(head -n 20 "$T/first.err" "$T/second.err" "$T/differ")"
}

# model SEED PIECES OPS: a random tree, then random calls there and in a plain directory, the guard started anew between
# the pieces
model() {
        local i
        mkdir "$T/model$1"
        cow-model prepare "$1" . "$T/model$1"
        U=$T/upper$count.$1
        for ((i = 1; i <= $2; i++)); do
                g -- cow-model run "$1$i" "$3" . "$T/model$1" "$T/numbers$1" || fail "seed $1, piece $i: cow-model prepare $1, run $1$i"
        done
        # the work may have left what the harness cannot remove
        chmod -R u+rwX "$T/model$1" "$U"
        rm -rf "$T/model$1" "$U"
}

random_calls() {
        local seed
        tree . >"$T/before"
        for seed in 1 2 $RANDOM; do
                echo "seed $seed"
                rm -rf "${W:?}"/* "$W"/.[!.]*
                model "$seed" 2 "${COFFERDAM_LONG:+10}2000"
        done
}

# What is deleted, truncated, punched, replaced or closed is free again; a file with holes counts what it has; nothing is
# hidden by a mode, a second name or a file that has none. Red when count_dir() does not open up directories, when
# count_nameless() is not asked, when recount() is not called.
limit() {
        mkdir lower
        truncate -s 3000000 lower/sparse
        head -c 300000 /dev/urandom >lower/big
        g -n -q 1048576 -- python3 -c "$(
                cat <<'PY'
import errno, os, time
def full(f):
    try: f()
    except OSError as e: assert e.errno == errno.EDQUOT, e
    else: raise AssertionError('there was room')
def put(name, n, mode='wb'):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if mode == 'ab' else os.O_TRUNC))
    try:
        while n > 0: n -= os.write(fd, b'x' * min(n, 65536))
    finally: os.close(fd)
def fits(name, n): # a close is told later, and the file counts until then
    end = time.monotonic() + 60
    while True:
        try: return put(name, n)
        except OSError as e:
            if e.errno != errno.EDQUOT or time.monotonic() > end: raise
            time.sleep(0.05)
put('a', 900000)
full(lambda: put('b', 300000)); os.unlink('b')
os.unlink('a'); fits('a', 900000)
os.truncate('a', 100); fits('b', 800000)
full(lambda: put('a', 300000, 'ab')); os.truncate('a', 0)
put('c', 1); os.rename('c', 'b'); fits('a', 800000)
os.link('a', 'a2'); os.unlink('a'); full(lambda: put('b', 300000)); os.unlink('b')
fd = os.open('a2', os.O_RDWR); os.unlink('a2'); full(lambda: put('b', 300000)); os.close(fd)
fits('b', 800000)
os.mkdir('closed'); os.rename('b', 'closed/b'); os.chmod('closed', 0); full(lambda: put('b', 300000))
assert os.stat('closed').st_mode & 0o777 == 0
os.chmod('closed', 0o700); os.unlink('closed/b'); os.unlink('b')
os.chmod('lower/sparse', 0o600); fits('b', 800000)
full(lambda: os.chmod('lower/big', 0o600)); os.unlink('b')
os.chmod('lower/big', 0o600)
full(lambda: os.posix_fallocate(os.open('f', os.O_RDWR | os.O_CREAT), 0, 1 << 40))
with open('p', 'wb') as f: f.truncate(1 << 40); f.write(b'x' * 4096)
def many():
    for i in range(400): os.mkdir('d%d' % i)
full(many)
for n in os.listdir('.'):
    if n[0] == 'd': os.rmdir(n)
PY
        )" 2>said
        eq 'notice: quota   rule=limits.disk detail=1048576' "$(cat said)"
        # what an earlier start left is counted
        g -q 307200 -- sh -c '! head -c 100000 /dev/zero >new' 2>said
        has "$(cat said)" 'quota exceeded'
}

# the whole way: the flag, the file server, the event
limit_of_a_run() {
        "$C" run --engine fuse --workspace-mode cow --disk 1M -- sh -c 'head -c 3000000 /dev/zero >big; head -c 100 /dev/zero >small' \
                >said 2>&1 || true
        has "$(cat said)" 'quota exceeded'
        eq 1 "$(cat "$T"/state/cofferdam/runs/*/events.jsonl | grep -c '"quota_exceeded"')"
        has "$(cat "$T"/state/cofferdam/runs/*/events.jsonl)" '"limit":1000000'
        [ ! -e big ] && [ ! -e small ]
}

# shape DIR: what the two views have to agree on. A directory's size and links differ between file systems.
shape() {
        (cd "$1" && find . \( -type d -printf '%p d %m\n' -o -type f -printf '%p f %m %s %n %T@ ' -exec sha256sum {} \; -o -printf '%p %y %m %l\n' \) |
                sort)
        python3 - "$1" <<'PY'
import os, sys
for root, dirs, files in sorted(os.walk(sys.argv[1], onerror=lambda e: print(e.strerror, len(e.filename), file=sys.stderr))):
    print(os.path.relpath(root, sys.argv[1]), sorted(dirs + files))
    for n in sorted(dirs + files):
        p = os.path.join(root, n)
        if os.path.islink(p) or not (os.path.isfile(p) or os.path.isdir(p)): continue
        try: print(os.path.relpath(p, sys.argv[1]), [(x, os.getxattr(p, x)) for x in sorted(os.listxattr(p)) if x.startswith('user.') and not x.startswith('user.overlay.')])
        except OSError as e: print(p, e)
PY
}

# overlay OPTIONS CMD...: CMD in the kernel's overlayfs, in a user namespace of its own
overlay() {
        local options=$1
        shift
        # shellcheck disable=SC2016 # for the inner shell
        unshare -Urm sh -c 'mkdir -p "$0/mnt" && mount -t overlay -o "userxattr,$1" overlay "$0/mnt" || exit 77
                cd "$0/mnt"; shift; "$@"' "$T" "$options" "$@" || {
                [ $? != 77 ] || skip 'the kernel mounts no overlayfs in a user namespace here'
                false
        }
}

# everything but renamed directories, whose records overlayfs does not follow with userxattr
no_renames='mkdir -p new/in; echo n >new/in/file; rm -r lo/gone; mkdir lo/gone; echo r >lo/gone/fresh; rm lo/file; chmod 750 lo
        echo more >>lo/edit; mv lo/moved lo/other; ln lo/edit lo/hard; ln -s edit lo/sym; rm -r lo/tree; echo f >lo/tree; rm lo/was
        mkdir lo/was; touch -d @1234567 lo/edit; mkfifo pipe; rm lo/link; chmod 600 lo/mode; rmdir empty; mkdir empty; truncate -s 9000 lo/grown
        rm -r lo/deep/b; mkdir -p lo/deep/b/c; echo x >lo/deep/b/c/d'

lower_tree() {
        mkdir -p lo/gone/a lo/tree/b lo/deep/b/e empty kept/sub
        for f in lo/gone/a/f lo/file lo/edit lo/moved lo/was lo/mode lo/tree/b/f lo/deep/b/e/g kept/sub/f lo/grown; do echo "$f" >"$f"; done
        ln -s file lo/link
        chmod 1777 kept
        python3 -c 'import os; os.setxattr("lo/edit", "user.a", b"1"); os.setxattr("lo", "user.b", b"2")'
        touch -d @1000000 kept/sub lo
}

# What we wrote, as a lower layer of the kernel's overlayfs, is what the guard shows. Red when a whiteout is made without
# marking its directory.
kernel_reads_ours() {
        lower_tree
        g -- sh -ec "$no_renames"
        g -- sh -c "$(declare -f shape); shape ." >"$T/ours"
        overlay "lowerdir=$U:$W" sh -c "$(declare -f shape); shape ." >"$T/kernels"
        diff "$T/ours" "$T/kernels"
        grep -q './lo/gone/fresh f' "$T/ours"
}

# What the kernel's overlayfs wrote is shown by the guard as the kernel shows it, and goes on from there. Red when char
# 0:0 is no whiteout.
guard_reads_kernels() {
        lower_tree
        U=$T/upper$count
        mkdir "$U" "$T/work"
        overlay "lowerdir=$W,upperdir=$U,workdir=$T/work" sh -ec "$no_renames"
        overlay "lowerdir=$W,upperdir=$U,workdir=$T/work" sh -c "$(declare -f shape); shape ." >"$T/kernels"
        g -- sh -c "$(declare -f shape); shape ." >"$T/ours"
        diff "$T/kernels" "$T/ours"
        [ -n "$(find "$U" -type c)" ]
        g -- sh -ec 'mv lo renamed; echo again >renamed/file; [ ! -e renamed/link ]; mkdir lo; [ -z "$(ls lo)" ]; cat renamed/grown >/dev/null'
        # a redirect as overlayfs writes it: next to where the parent was, or from the root
        mkdir -p "$U/abs" "$U/kept/rel"
        python3 -c 'import os, sys; u = sys.argv[1]
os.setxattr(u + "/abs", "user.overlay.redirect", b"/kept/sub"); os.setxattr(u + "/kept/rel", "user.overlay.redirect", b"sub")' "$U"
        eq 'kept/sub/f kept/sub/f' "$(g -- cat abs/f kept/rel/f | tr '\n' ' ' | sed 's/ $//')"
}

# A copy has the holes, and all else; it is there whole or not at all, also when the server is killed while it copies.
# Red when copy_data() copies holes, and when the copy is made under its name.
whole_copies() {
        local i pid
        truncate -s 1T sparse
        printf x | dd of=sparse bs=1 seek=500G conv=notrunc status=none 2>/dev/null || skip 'no large sparse files here'
        head -c 50000000 /dev/urandom >big
        python3 -c 'import os; os.setxattr("sparse", "user.a", b"1")'
        touch -d '2001-02-03 04:05:06.123456789' sparse
        chmod 4750 sparse 2>/dev/null || true
        py <<'PY'
import os, time
was = os.stat('sparse'); start = time.monotonic()
os.chmod('sparse', 0o640)
now = os.stat('sparse')
assert time.monotonic() - start < 60
assert now.st_mtime_ns == was.st_mtime_ns and now.st_size == was.st_size and now.st_ino == was.st_ino and now.st_blocks < 100
assert os.getxattr('sparse', 'user.a') == b'1'
assert os.pread(os.open('sparse', os.O_RDONLY), 2, 500 << 30) == b'x\0'
PY
        for i in 1 2 3 4 5 6 7 8; do
                rm -rf "$U"
                mkdir "$U"
                guard-mount -c -u "$U" "$W" -- sh -c 'echo x >>big' 2>/dev/null &
                pid=$!
                sleep 0.0$((i * 11))
                # shellcheck disable=SC2046 # pids
                kill -9 $(ps -o pid= --ppid "$pid" || true) 2>/dev/null || true
                wait "$pid" 2>/dev/null || true
                [ ! -e "$U/big" ] || [ "$(stat -c %s "$U/big")" -ge 50000000 ] || fail "after $i: half a copy"
        done
}

t 'the host keeps what it has' host_stays
t 'nothing lands by itself' nothing_lands_alone
t 'only what is held is told' held_is_told
t 'what is hidden stays hidden under another name' hidden_stays_hidden
t 'what is protected keeps its name' protected_stays
t 'records of renames lead nowhere else' bad_redirects
t 'links of the host to one file' links_of_the_lower
t 'a limit on what is kept' limit
t 'limits.disk of a run' limit_of_a_run
t 'many at once, and the host below' crowd
t 'overlayfs shows what the guard wrote' kernel_reads_ours
t 'the guard shows what overlayfs wrote' guard_reads_kernels
t 'copies are whole' whole_copies
t 'trees longer than PATH_MAX' deep
t 'edits of the host below' host_edits
t 'random calls as in a plain directory' random_calls
finish
