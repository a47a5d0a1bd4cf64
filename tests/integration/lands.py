#!/usr/bin/env python3
"""lands.py attack NAME | walk | list | state PATH...: attacks, inside the guard, on rules that judge where a path lands

The work wants a byte of what is hidden, a write to what is protected, or the host to get what is held. Each attack does
what it can and goes on when it is refused; afterwards everything that can be read is printed. lands.sh knows what must
not be there.
"""
import ctypes
import mmap
import os
import stat
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = -100, 1, 2, 4
O_PATH = 0o10000000
MARK = b'WRITTEN-BY-THE-WORK'
RULED = ['keep', 'held', 'secret', 'outer/keep', 'outer/held', 'outer/secret']
FILES = [f'{d}/file' for d in RULED]
made = 0


def attempt(call, *args, **kwargs):
    """What the call returns; None when it is refused."""
    try:
        return call(*args, **kwargs)
    except OSError:
        return None


def renameat2(a, b, flags):
    if libc.renameat2(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), flags) < 0:
        raise OSError(ctypes.get_errno(), a)
    return True


def linkat(a, b, flags):
    if libc.linkat(AT_FDCWD, os.fsencode(a), AT_FDCWD, os.fsencode(b), flags) < 0:
        raise OSError(ctypes.get_errno(), a)
    return True


def name():
    global made
    made += 1
    return f'pub/made{made}'


def spoil(path, dir_fd=None):
    """Every way to change what a path leads to."""
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND):
        fd = attempt(os.open, path, flags, dir_fd=dir_fd)
        if fd is not None:
            attempt(os.write, fd, MARK)
            os.close(fd)
    attempt(os.chmod, path, 0o777, dir_fd=dir_fd)
    attempt(os.utime, path, (7, 7), dir_fd=dir_fd)
    if dir_fd is None:
        attempt(os.truncate, path, 1)
        attempt(os.setxattr, path, 'user.mark', MARK)
    fd = attempt(os.open, path, os.O_RDONLY, dir_fd=dir_fd)
    if fd is not None:
        spoil_fd(fd)


def spoil_fd(fd):
    """Every way to change what an open descriptor leads to."""
    attempt(os.write, fd, MARK)
    attempt(os.fchmod, fd, 0o777)
    attempt(os.ftruncate, fd, 1)
    attempt(os.setxattr, fd, 'user.mark', MARK)
    attempt(os.utime, f'/proc/self/fd/{fd}', (7, 7))
    attempt(os.posix_fallocate, fd, 0, 100)
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_TRUNC):
        again = attempt(os.open, f'/proc/self/fd/{fd}', flags)
        if again is not None:
            attempt(os.write, again, MARK)
            os.close(again)
    try:
        m = mmap.mmap(fd, 4, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        m[0:4] = MARK[0:4]
    except (OSError, ValueError):
        pass
    attempt(os.close, fd)


def everything(top='.'):
    for path in list(walk(top)):
        if os.path.isfile(path):
            attempt(spoil, path)


def walk(top='.'):
    for root, dirs, files in os.walk(top):
        for n in dirs + files:
            yield os.path.join(root, n)


def hard_links():
    for f in FILES:
        for call in (os.link, lambda a, b: linkat(a, b, 0x400), lambda a, b: linkat(a, b, 0)):
            new = name()
            if attempt(call, f, new):
                pass
            attempt(spoil, new)
        fd = attempt(os.open, f, O_PATH)
        if fd is not None:
            attempt(linkat, f'/proc/self/fd/{fd}', name(), 0x400)
    # the other way: a name under the rule for what can be written by another
    for d in RULED:
        fd = os.open(name(), os.O_RDWR | os.O_CREAT)
        attempt(os.link, f'pub/made{made}', f'{d}/linked')
        os.write(fd, MARK)
        os.close(fd)


def renames():
    for f in FILES:
        for flags in (0, RENAME_NOREPLACE, RENAME_WHITEOUT):
            new = name()
            attempt(renameat2, f, new, flags)
            attempt(spoil, new)
    for d in RULED:
        for target in (f'{d}/file', f'{d}/new'):
            new = name()
            open(new, 'wb').write(MARK)
            attempt(os.rename, new, target)


def parents_renamed():
    for d in ['outer', *RULED]:
        for target in ('pub/moved', 'elsewhere', 'pub/deep/er', f'{d}2'):
            attempt(os.rename, d, target)
            if os.path.isdir(target):
                everything(target)
                attempt(os.rename, target, d)
    attempt(os.mkdir, 'fresh')
    attempt(os.rename, 'outer', 'fresh')
    everything('fresh')
    # a directory that is made, filled and then moved to where a rule is
    os.makedirs('made/keep', exist_ok=True)
    for n in ('made/keep/file', 'made/file', 'made/x'):
        open(n, 'wb').write(MARK)
    attempt(os.rename, 'made/keep', 'keep')
    attempt(os.rename, 'made', 'outer')
    attempt(os.rename, 'made', 'held/made')
    fd = os.open('pub/deep', os.O_RDONLY | os.O_DIRECTORY)
    attempt(os.rename, 'pub/deep', 'held/deep')
    at = attempt(os.open, 'behind', os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    if at is not None:
        os.write(at, MARK)


def exchanges():
    os.makedirs('pub/dir/keep', exist_ok=True)
    for n in ('pub/dir/file', 'pub/dir/keep/file', 'pub/plain'):
        open(n, 'wb').write(MARK)
    for a in ['outer', *RULED]:
        for b in ('pub/dir', 'pub'):
            attempt(renameat2, a, b, RENAME_EXCHANGE)
            everything('pub')
    for f in FILES:
        attempt(renameat2, f, 'pub/plain', RENAME_EXCHANGE)
        everything('pub')


def descriptors():
    for d in RULED:
        fd = attempt(os.open, d, os.O_RDONLY | os.O_DIRECTORY)
        if fd is None:
            fd = attempt(os.open, d, O_PATH)
        if fd is None:
            continue
        for path in ('file', f'../{d.split("/")[-1]}/file', './/./file', '../../' * 30 + os.getcwd()[1:] + f'/{d}/file',
                     'new', '../' * (d.count('/') + 1) + f'pub/../{d}/file'):
            attempt(spoil, path, dir_fd=fd)
        attempt(spoil, f'/proc/self/fd/{fd}/file')
        attempt(spoil, f'/proc/self/cwd/{d}/file')
        made_fd = attempt(os.open, 'new', os.O_WRONLY | os.O_CREAT, dir_fd=fd)
        if made_fd is not None:
            os.write(made_fd, MARK)
    for f in FILES:
        for flags in (O_PATH, os.O_RDONLY):
            fd = attempt(os.open, f, flags)
            if fd is not None:
                spoil_fd(fd)


def mapped_after_open():
    """What was opened while it was allowed, and then gets a name under a rule."""
    for d in RULED:
        path = name()
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.write(fd, b'x' * 4096)
        m = mmap.mmap(fd, 4096, flags=mmap.MAP_SHARED)
        attempt(os.rename, path, f'{d}/file')
        attempt(os.rename, path, f'{d}/mapped')
        m[0:len(MARK)] = MARK
        m.flush()
        attempt(os.write, fd, MARK)
        os.fsync(fd)
        os.close(fd)
        tmp = attempt(os.open, 'pub', os.O_RDWR | os.O_TMPFILE)
        if tmp is not None:
            os.write(tmp, MARK)
            attempt(linkat, f'/proc/self/fd/{tmp}', f'{d}/unnamed', 0x400)
            os.write(tmp, MARK)
            os.close(tmp)
    for f in FILES:  # read-only, mapped, written
        fd = attempt(os.open, f, os.O_RDONLY)
        if fd is not None:
            try:
                m = mmap.mmap(fd, 4, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
                libc.mprotect(ctypes.c_void_p(0), 4096, 3)
                attempt(os.sendfile, fd, os.open('pub/file', os.O_RDONLY), 0, 4)
                attempt(os.copy_file_range, os.open('pub/file', os.O_RDONLY), fd, 4)
                del m
            except (OSError, ValueError):
                pass


def swapped_parents():
    """A parent that is a directory at one moment and a link under a rule at the next, while others go through it."""
    stop = time.monotonic() + 0.7
    os.makedirs('pub/swap.dir', exist_ok=True)
    for n, d in enumerate(RULED):
        attempt(os.symlink, f'../{d}', f'pub/swap.link{n}')

    def swap():
        n = 0
        while time.monotonic() < stop:
            link = f'pub/swap.link{n % len(RULED)}'
            n += 1
            attempt(renameat2, 'pub/swap.dir', link, RENAME_EXCHANGE)
            attempt(os.rename, 'pub/deep', 'pub/deep2')
            attempt(os.rename, 'outer', 'outer2')
            attempt(os.rename, 'outer2', 'outer')
            attempt(os.rename, 'pub/deep2', 'pub/deep')

    def use():
        while time.monotonic() < stop:
            for p in ('pub/swap.dir/file', 'pub/swap.link0/file', 'pub/swap.link2/file', 'outer2/keep/file', 'outer2/secret/file',
                      'pub/deep2/file'):
                fd = attempt(os.open, p, os.O_RDWR | os.O_CREAT)
                if fd is not None:
                    if b'HIDDEN-BYTES' in (attempt(os.read, fd, 100) or b''):
                        print('HIDDEN-BYTES')
                    attempt(os.write, fd, MARK)
                    os.close(fd)
    threads = [threading.Thread(target=f) for f in (swap, use, use)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


OVERLAY = {'whiteout': b'', 'opaque': b'y', 'redirect': b'/secret', 'metacopy': b'', 'origin': b'x', 'nlink': b'L+1',
           'uuid': b'x' * 16, 'impure': b'y', 'protattr': b'i'}


def whiteouts():
    """What looks like the upper's own notes, or an overlay's: it must not be taken for that."""
    os.makedirs('pub/over', exist_ok=True)
    os.makedirs('pub/redirected', exist_ok=True)
    open('pub/zero', 'w').close()
    targets = ['pub', 'pub/over', 'pub/redirected', 'pub/zero', 'pub/file', 'held', 'held/file', 'outer', '.']
    for t in targets:
        for value in (b'/secret', b'secret', b'/outer/secret', b'../secret'):
            for ns in ('user.overlay.', 'trusted.overlay.', 'user.overlay.overlay.', 'user.fuseoverlayfs.'):
                attempt(os.setxattr, t, ns + 'redirect', value)
        for ns in ('user.overlay.', 'trusted.overlay.', 'user.overlay.cofferdam.', 'user.fuseoverlayfs.'):
            for key, value in OVERLAY.items():
                attempt(os.setxattr, t, ns + key, value)
            attempt(os.setxattr, t, ns + 'opaque', b'x')
    attempt(os.mknod, 'pub/dev', 0o600 | stat.S_IFCHR, 0)
    attempt(os.mknod, 'held/dev', 0o600 | stat.S_IFCHR, 0)
    for d in ('pub', 'held', 'secret', 'keep', '.'):
        for n in ('.wh.file', '.wh..wh..opq', '.wh..opq', '.cofferdam-tmp-0123456789abcdef', '.cofferdam-apply-x', '#0'):
            fd = attempt(os.open, f'{d}/{n}', os.O_WRONLY | os.O_CREAT)
            if fd is not None:
                os.write(fd, MARK)
                os.close(fd)
    for d in RULED:
        attempt(os.rename, 'pub/zero', f'{d}/file')
        attempt(os.rename, 'pub/redirected', f'{d}/redirected')


def removals():
    for d in [*RULED, 'outer', 'pub']:
        for path in [d, *reversed(list(walk(d)))]:
            attempt(os.unlink, path)
            attempt(os.rmdir, path)
    for d in RULED:  # made again in their place
        attempt(os.makedirs, d)
        attempt(os.symlink, '../pub', d)
        fd = attempt(os.open, f'{d}/file', os.O_WRONLY | os.O_CREAT)
        if fd is not None:
            os.write(fd, MARK)


def spellings():
    """Names that a file system which folds case takes for the ruled ones."""
    for f in FILES:
        for spelled in (f.upper(), f.capitalize(), f.title(), f.replace('s', '\u017f'), f.replace('k', '\u212a'), f + '.', f + ' ',
                        f.replace('/', '/./'), f.replace('e', 'e\u200d', 1), f.replace('file', 'FILE~1')):
            attempt(spoil, spelled)
            data = attempt(lambda p: open(p, 'rb').read(), spelled)
            if data and b'HIDDEN-BYTES' in data:
                print('HIDDEN-BYTES by', ascii(spelled))
            fd = attempt(os.open, spelled, os.O_RDWR | os.O_CREAT)
            if fd is not None:
                os.write(fd, MARK)
            attempt(os.rename, spelled, name())
    for d in ('keep', 'held', 'secret'):
        for spelled in (d.upper(), d.title()):
            everything(spelled)
            attempt(os.rename, spelled, 'pub/' + spelled)
            attempt(os.mkdir, spelled)
            fd = attempt(os.open, f'{spelled}/new', os.O_WRONLY | os.O_CREAT)
            if fd is not None:
                os.write(fd, MARK)


attacks = {f.__name__: f for f in (hard_links, renames, parents_renamed, exchanges, descriptors, mapped_after_open, swapped_parents,
                                   whiteouts, removals, spellings)}


def show():
    for path in sorted(walk()):
        st = attempt(os.lstat, path)
        if st is None:
            continue
        data = b''
        if stat.S_ISREG(st.st_mode):
            data = attempt(lambda p: open(p, 'rb').read(), path) or b''
        print(path, oct(st.st_mode), data.replace(b'x' * 64, b''), attempt(os.listxattr, path))
    for f in FILES:  # also what is not listed
        print(f, attempt(os.stat, f) is not None, attempt(lambda p: open(p, 'rb').read(), f))


def state(top):
    """Names, types, modes, times, contents and attributes: what an attack must leave as it is."""
    for path in [top, *walk(top)]:
        st = os.lstat(path)
        data = open(path, 'rb').read() if stat.S_ISREG(st.st_mode) else b''
        attrs = {n: os.getxattr(path, n, follow_symlinks=False) for n in os.listxattr(path, follow_symlinks=False)}
        link = os.readlink(path) if stat.S_ISLNK(st.st_mode) else ''
        print(path, oct(st.st_mode), st.st_ino, 0 if stat.S_ISDIR(st.st_mode) else st.st_mtime_ns, st.st_nlink, data, link, attrs)


if __name__ == '__main__':
    if sys.argv[1] == 'state':
        for arg in sys.argv[2:]:
            state(arg)
    elif sys.argv[1] == 'list':
        print('\n'.join(attacks))
    else:
        if sys.argv[1] == 'attack':
            attacks[sys.argv[2]]()
        show()
