"""fs-model.py SEED STEPS [held]: the same random file system calls in a directory here and in one on the tmpfs at /tmp

Few names, descriptors that outlive their names, changed modes, hard links, renames of every kind. Result, errno, data
and attributes have to be the same. With "held" some names are ones that the built-in rules hold: then a rename may be
EXDEV and a link EPERM, and the trees start over. Prints the first difference with the steps before it, exits 1.
"""
import ctypes
import errno
import mmap
import os
import random
import stat
import sys

SEED, STEPS, HELD = int(sys.argv[1]), int(sys.argv[2]), len(sys.argv) > 3
RESTART, DESCRIPTORS = 400, 24
NAMES = ['a', 'b', 'c', '.envrc', '.npmrc', '.vscode', 'd', 'x'] if HELD else ['a', 'b', 'c', 'd', 'e', 'x']
MODES = [0o600, 0o644, 0o700, 0o755, 0o444]
random_ = random.Random(SEED)
libc = ctypes.CDLL(None, use_errno=True)


def renameat2(old, new, flags):
    if libc.renameat2(-100, old.encode(), -100, new.encode(), flags) < 0:
        raise OSError(ctypes.get_errno(), old)


def attributes(s):
    if stat.S_ISDIR(s.st_mode):
        return 'directory', s.st_mode & 0o7777
    return s.st_mode, s.st_size, 0 if HELD else s.st_nlink


def map_and_write(fd, at, flush):
    if os.fstat(fd).st_size == 0 or stat.S_ISDIR(os.fstat(fd).st_mode):
        return None
    with mmap.mmap(fd, 0) as m:
        m[at % len(m)] = 35
        if flush:
            m.flush()
        return bytes(m[:100])


def set_time(path, ns):
    os.utime(path, ns=(ns, ns))
    return os.stat(path).st_mtime_ns


def end_of(fd):
    return 'directory' if stat.S_ISDIR(os.fstat(fd).st_mode) else os.lseek(fd, 0, os.SEEK_END)


class Pair:
    """the directory under test and the model"""

    def __init__(self):
        self.count, self.fds, self.log = 0, [], []
        self.restart()

    def restart(self):
        for pair in self.fds:
            for fd in pair:
                os.close(fd)
        self.count += 1
        name = 'model-%d-%d' % (SEED, self.count)
        self.dirs = [os.path.abspath(name), '/tmp/' + name]
        for d in self.dirs:
            os.mkdir(d)
        self.fds.clear()
        self.log.clear()

    def call(self, what, targets, f):
        got = []
        for target in targets:
            try:
                got.append(f(target))
            except OSError as e:
                got.append(errno.errorcode.get(e.errno, e.errno))
        self.log.append((what, got))
        return got

    def opened(self, got):
        """both or none; what is in the way of comparing goes"""
        if all(isinstance(fd, int) for fd in got):
            self.fds.append(got)
            if len(self.fds) > DESCRIPTORS:
                for fd in self.fds.pop(random_.randrange(len(self.fds))):
                    os.close(fd)
            return ['open', 'open']
        for fd in got:
            if isinstance(fd, int):
                os.close(fd)
        return ['open' if isinstance(fd, int) else fd for fd in got]


def on_path(pair, op, k):
    p, q = ('/'.join(random_.choice(NAMES) for _ in range(random_.choice([1, 1, 1, 2, 2, 3]))) for _ in 'pq')
    mode, data, off = MODES[k % 5], bytes([65 + k % 26]) * (k % 50), k % 5000
    calls = {
        'trunc': lambda d: os.truncate(d + p, off), 'unlink': lambda d: os.unlink(d + p),
        'rename': lambda d: os.rename(d + p, d + q), 'noreplace': lambda d: renameat2(d + p, d + q, 1),
        'exchange': lambda d: renameat2(d + p, d + q, 2), 'link': lambda d: os.link(d + p, d + q),
        'symlink': lambda d: os.symlink(p, d + q), 'readlink': lambda d: os.readlink(d + p),
        'mkdir': lambda d: os.mkdir(d + p, [0o755, 0o700][k & 1]), 'rmdir': lambda d: os.rmdir(d + p),
        'stat': lambda d: attributes(os.lstat(d + p)), 'list': lambda d: sorted(os.listdir(d + p)),
        'chmod': lambda d: os.chmod(d + p, mode), 'utime': lambda d: set_time(d + p, k),
        'setxattr': lambda d: os.setxattr(d + p, 'user.a', data), 'getxattr': lambda d: os.getxattr(d + p, 'user.a'),
    }
    roots = [d + '/' for d in pair.dirs]
    if op not in ('open', 'create', 'append'):
        return pair.call((op, p, q), roots, calls[op])
    flags = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR][k % 4] | [0, 0, os.O_TRUNC][k % 3]
    flags |= {'open': 0, 'create': os.O_CREAT | [0, os.O_EXCL][k & 1], 'append': os.O_CREAT | os.O_APPEND}[op]
    return pair.opened(pair.call((op, p, oct(flags)), roots, lambda d: os.open(d + p, flags, mode)))


def on_fd(pair, op, k):
    fds = random_.choice(pair.fds)
    data, off = bytes([65 + k % 26]) * (k % 9000), k % 5000
    flags = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR][k % 3]
    calls = {
        'write': lambda fd: os.pwrite(fd, data, off), 'read': lambda fd: os.pread(fd, 10000, off),
        'ftrunc': lambda fd: os.ftruncate(fd, off), 'fstat': lambda fd: attributes(os.fstat(fd)),
        'fallocate': lambda fd: os.posix_fallocate(fd, off, 100), 'seek': end_of,
        'mmap': lambda fd: map_and_write(fd, off, k & 1), 'again': lambda fd: os.open('/proc/self/fd/%d' % fd, flags),
        'fchmod': lambda fd: stat.S_ISDIR(os.fstat(fd).st_mode) or os.fchmod(fd, MODES[k % 5]), 'close': os.close,
    }
    if op == 'close':
        pair.fds.remove(fds)
    got = pair.call((op, fds, off, k % 9000), fds, calls[op])
    return pair.opened(got) if op == 'again' else got


ON_PATH = ('open open create append trunc unlink unlink rename rename rename noreplace exchange link symlink readlink '
           'mkdir rmdir stat list chmod utime setxattr getxattr').split()
ON_FD = 'write write read ftrunc fstat fallocate seek mmap again fchmod close'.split()
pair = Pair()
for n in range(STEPS):
    op = random_.choice(ON_PATH + ON_FD)
    if op in ON_FD and not pair.fds:
        continue
    here, there = (on_fd if op in ON_FD else on_path)(pair, op, random_.randrange(1 << 30))
    if n % RESTART == RESTART - 1:
        pair.restart()
    if here == there:
        continue
    # a directory that may not be searched cannot be compared with its upper part either
    if HELD and here in ('EXDEV', 'EPERM', 'EACCES'):
        pair.restart()
        continue
    for line in pair.log[-60:]:
        print(*line)
    sys.exit('seed %d, step %d: %s instead of %s' % (SEED, n, str(here)[:200], str(there)[:200]))
