"""review-random.py SEED COUNT: random changes of the current directory; what a call refuses is no change"""
import errno, os, random, shutil, sys

rand = random.Random(int(sys.argv[1]))
calls = ['write'] * 2 + ['append'] + ['mkdir'] * 2 + ['rename'] * 3 + ['made', 'unlink', 'rmtree', 'rmdir', 'symlink', 'chmod']


def path():
    return '/'.join(rand.choice('abcde') for _ in range(rand.choice((1, 1, 2, 2, 3))))


def is_dir(p):
    return os.path.isdir(p) and not os.path.islink(p)


def move(p, q):
    try:
        os.rename(p, q)
    except OSError as e:  # the kernel's overlay: as mv(1) does, onto an empty directory as rename(2) does
        if e.errno != errno.EXDEV:
            raise
        if is_dir(q):
            os.rmdir(q)
        shutil.copytree(p, q, symlinks=True)
        shutil.rmtree(p)


def put(p, mode, text):
    with open(p, mode) as f:
        f.write(text)


def change(call, p, q, text, mode):
    if call == 'made':  # a directory that comes to its place whole
        os.makedirs('new/in')
        put('new/in/f', 'w', text)
        move('new', q)
    elif call == 'rmtree' and is_dir(p):
        shutil.rmtree(p)
    elif call == 'chmod' and not os.path.islink(p):
        os.chmod(p, mode | (0o111 if is_dir(p) else 0))
    else:
        {'write': lambda: put(p, 'w', text), 'append': lambda: put(p, 'a', text), 'mkdir': lambda: os.makedirs(p),
         'rename': lambda: move(p, q), 'unlink': lambda: os.unlink(p), 'rmdir': lambda: os.rmdir(p),
         'symlink': lambda: os.symlink(q, p)}.get(call, lambda: None)()


for _ in range(int(sys.argv[2])):
    what = rand.choice(calls), path(), path(), '%d\n' % rand.randrange(1000), rand.choice((0o644, 0o600, 0o755, 0o640))
    try:
        change(*what)
    except OSError:
        pass
    if os.path.lexists('new'):
        shutil.rmtree('new')
