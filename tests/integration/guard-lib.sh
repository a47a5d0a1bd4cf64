# shellcheck shell=bash
# guard-lib.sh - what rules do to ways of changing a name, under the guard alone or in a sandbox of any driver: g [OPTION...] -- CMD...
# runs CMD in the workspace under it, with -p, -h, -H PATTERN (protect, hold, hide) and -b (the rules that are built in); what is
# held lies in $U then
# shellcheck disable=SC2154

# py [OPTION...] <<SCRIPT: python under the guard
py() { g "$@" -- python3 -c "$(cat)"; }

# tree DIR: every name with type, mode and content, for comparing before and after
tree() { (cd "$1" && find . -mindepth 1 \( -type f -printf '%p %m %s ' -exec sha256sum {} \; -o -printf '%p %y %m %l\n' \) | sort); }

safe_config='[core]
	bare = false'

protected_every_way() {
        mkdir d
        echo keep >d/x
        mkdir d/sub
        tree . >"$T/before"
        py -p 'd/**' <<'PY'
import errno, os
def no(f, *a, **k):
    try: f(*a, **k)
    except OSError as e: assert e.errno == errno.EROFS, (f, a, e)
    else: raise SystemExit('allowed: %s %s' % (f, a))
open('plain', 'w').close()
no(open, 'd/x', 'w'); no(open, 'd/x', 'a'); no(open, 'd/x', 'r+'); no(open, 'd/new', 'w')
no(os.mkdir, 'd/new'); no(os.symlink, 'x', 'd/new'); no(os.mkfifo, 'd/new'); no(os.unlink, 'd/x'); no(os.rmdir, 'd/sub')
no(os.rename, 'd/x', 'y'); no(os.rename, 'plain', 'd/x'); no(os.rename, 'plain', 'd/new'); no(os.link, 'd/x', 'y')
no(os.link, 'plain', 'd/new'); no(os.chmod, 'd/x', 0o600); no(os.truncate, 'd/x', 0); no(os.utime, 'd/x', (1, 1))
no(os.setxattr, 'd/x', 'user.a', b'1')
assert open('d/x').read() == 'keep\n'
os.unlink('plain')
PY
        tree . | diff "$T/before" -
}

hidden_every_way() {
        mkdir d
        echo secret >d/key
        echo other >d/open
        py -H 'd/key' <<'PY'
import errno, os
def no(want, f, *a, **k):
    try: f(*a, **k)
    except OSError as e: assert e.errno == want, (f, a, e)
    else: raise SystemExit('allowed: %s %s' % (f, a))
no(errno.ENOENT, open, 'd/key'); no(errno.ENOENT, os.stat, 'd/key'); no(errno.ENOENT, os.rename, 'd/key', 'k')
no(errno.ENOENT, os.link, 'd/key', 'k'); no(errno.ENOENT, os.unlink, 'd/key'); no(errno.ENOENT, os.truncate, 'd/key', 0)
no(errno.EACCES, open, 'd/key', 'w'); no(errno.EACCES, os.mkdir, 'd/key'); no(errno.EACCES, os.symlink, 'x', 'd/key')
no(errno.EACCES, os.rename, 'd/open', 'd/key')
assert os.listdir('d') == ['open'], os.listdir('d')
assert [e.name for e in os.scandir('d') if e.stat()] == ['open']
PY
        eq secret "$(cat d/key)"
}

held_change() {
        echo old >f
        chmod 640 f
        touch -d '2001-02-03 04:05:06.123456789' f
        tree . >"$T/before"
        py -h 'f' <<'PY'
import os
reader = open('f')                       # opened before it is copied up
ino = os.stat('f').st_ino
os.chmod('f', 0o600)
assert os.stat('f').st_mtime_ns % 10**9 == 123456789
with open('f', 'a') as w: w.write('new\n')
assert reader.read() == 'old\nnew\n', 'an open file does not follow'
assert os.fstat(reader.fileno()).st_size == 8
assert os.stat('f').st_ino == ino, 'the inode number changed'
open('f', 'w').write('all new')
assert open('f').read() == 'all new'
PY
        tree . | diff "$T/before" -
        eq 'all new' "$(cat "$U/f")" 'upper'
        eq 600 "$(stat -c %a "$U/f")" 'mode in the upper'
}

judged_file_lands_at_close() {
        mkdir .git
        g -b -- sh -c "printf '%s\n' '$safe_config' >.git/config; cat .git/config" >seen
        eq "$safe_config" "$(cat .git/config)" 'host'
        eq "$safe_config" "$(cat seen)" 'inside'
        eq '' "$(find "$U" -type f)" 'upper'
        eq '' "$(find . -name '.cofferdam*')" 'temporary files'
}

# chmod, truncate, touch and attributes of a judged file: nobody opens or closes it
judged_file_lands_without_open() {
        mkdir .git
        echo '[core]' >.git/config
        py -b <<'PY'
import os
os.chmod('.git/config', 0o600); os.setxattr('.git/config', 'user.note', b'1'); os.utime('.git/config', (7, 7))
assert os.stat('.git/config').st_mode & 0o777 == 0o600 and os.stat('.git/config').st_mtime == 7
os.truncate('.git/config', 0)
PY
        eq '600 0' "$(stat -c '%a %s' .git/config)"
        eq '' "$(find "$U" -mindepth 1)" 'upper'
}

links_are_refused() {
        echo h >held
        echo p >plain
        py -h held -h 'dir/**' <<'PY'
import errno, os
def no(f, *a):
    try: f(*a)
    except OSError as e: assert e.errno == errno.EPERM, (a, e)
    else: raise SystemExit('allowed: %s' % (a,))
no(os.link, 'held', 'out'); os.mkdir('dir'); no(os.link, 'plain', 'dir/x'); no(os.link, 'plain', 'dir/held')
os.link('plain', 'second'); assert os.stat('plain').st_nlink == 2
open('second', 'w').write('both'); assert open('plain').read() == 'both'
PY
        eq both "$(cat plain)"
        eq h "$(cat held)"
}

# a hard link made on the host before the run, between an allowed and a held name
old_link_is_held() {
        echo one >held
        ln held open
        g -h held -- sh -ec 'cat held open >/dev/null; echo two >open; cat held'
        eq one "$(cat held)" 'the held name'
        eq one "$(cat open)" 'its other name'
}

directory_rename() {
        mkdir x
        echo evil >x/tasks.json
        py -b <<'PY'
import errno, os
def no(f, *a):
    try: f(*a)
    except OSError as e: assert e.errno == errno.EXDEV, (a, e)
    else: raise SystemExit('allowed: %s' % (a,))
no(os.rename, 'x', '.vscode')
os.mkdir('y'); os.rename('y', '.vscode')          # nothing in it: nothing differs
open('.vscode/a', 'w').write('held')
os.mkdir('proj'); os.mkdir('proj/.vscode'); open('proj/.vscode/a', 'w').write('1'); open('proj/code', 'w').write('2')
os.rename('proj', 'moved')                        # the same rules below: with its part of the upper
assert open('moved/.vscode/a').read() == '1' and open('moved/code').read() == '2'
assert os.listdir('moved/.vscode') == ['a'] and not os.path.exists('proj')
open('moved/.vscode/b', 'w').write('3')
PY
        [ ! -e .vscode/tasks.json ] || fail 'renamed into place'
        eq '' "$(ls -A moved/.vscode)" 'on the host'
        eq 'a b' "$(cd "$U/moved/.vscode" && echo ?)" 'in the upper'
        [ ! -e "$U/proj" ] || fail 'left behind in the upper'
}
