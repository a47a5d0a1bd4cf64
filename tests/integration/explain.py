#!/usr/bin/env python3
"""explain.py prepare|act|compare: does the guard do what 'cofferdam explain' says?

prepare  makes one small workspace per case and path below the current directory, and asks explain about each (--json)
act      inside: does each operation, notes how it ended
compare  on the host: the end of each operation, and whether the host has its effect, against what explain said
"""
import errno
import json
import os
import stat
import subprocess
import sys

SAFE = '[core]\n\tbare = false\n'
EVIL = '[core]\n\tpager = ./evil\n'
FILES = {'plain': 'x\n', 'dir/file': 'x\n', '.vscode/tasks.json': 'x\n', 'keep/file': 'x\n', 'secret/file': 'x\n',
         '.git/config': SAFE, '.git/HEAD': 'ref: refs/heads/main\n', '.git/hooks/post-commit': 'x\n', 'config': 'x\n',
         '.npmrc': 'x\n', 'mine.key': 'x\n', 'src': EVIL, 'srcdir/': None, 'empty/': None, '.idea/': None}
PATHS = ['plain', 'absent', 'dir/file', 'dir/absent', 'empty', '.vscode/tasks.json', '.vscode/absent', '.envrc', '.idea', 'keep/file',
         'keep/absent', 'secret/file', 'secret/absent', '.git/config', '.git/HEAD', '.gitmodules', '.git/hooks/pre-commit',
         '.git/hooks/post-commit', '.git/hooks/x.sample', 'config', '.npmrc', 'mine.key', 'sub/.git']
JUDGED = {'.git/config': '[core]\n\tbare = true\n', '.gitmodules': '[submodule "a"]\n\tpath = a\n\turl = https://example.org/a\n', 'config': SAFE}
OPS = ['read', 'write', 'create', 'mkdir', 'symlink', 'unlink', 'rename', 'rename-to', 'link', 'chmod']


def cases():
    for path in PATHS:
        there = path in FILES or path + '/' in FILES
        is_dir = path + '/' in FILES
        for op in OPS:
            if op in ('create', 'mkdir', 'symlink') if there else op in ('read', 'write', 'unlink', 'rename', 'link', 'chmod'):
                continue
            if is_dir and op in ('write', 'link'):
                continue
            if is_dir and op == 'rename-to' and os.environ.get('OVERLAY'):
                continue  # what is renamed is a directory of the host, and overlayfs renames none
            name = f'c{len(OPS) * PATHS.index(path) + OPS.index(op)}'
            yield name, path, op, is_dir, EVIL
            if path in JUDGED and op in ('write', 'create', 'rename-to'):  # the same with what is harmless
                yield name + 'safe', path, op, is_dir, JUDGED[path]


def prepare(explain):
    said = {}
    for name, path, op, _, content in cases():
        for file, text in FILES.items():
            full = f'{name}/{file}'
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if text is not None:
                open(full, 'w').write(content if file == 'src' else text)
        os.makedirs(f'{name}/sub', exist_ok=True)
        os.chmod(f'{name}/srcdir', 0o700)  # to be told from what it replaces
    for name, path, op, _, content in cases():
        p = subprocess.run(explain + ['--json', f'{name}/{path}', op], stdout=subprocess.PIPE, check=False)
        answer = json.loads(p.stdout)
        answer['exit'] = p.returncode
        said[name] = answer
    json.dump(said, open('../said.json', 'w'))
    json.dump({name: host_state(name) for name, *_ in cases()}, open('../before.json', 'w'))


def host_state(top):
    seen = []
    for root, dirs, files in os.walk(top):
        for n in sorted(dirs + files):
            full = f'{root}/{n}'
            st = os.lstat(full)
            what = os.readlink(full) if stat.S_ISLNK(st.st_mode) else open(full).read() if stat.S_ISREG(st.st_mode) else ''
            seen.append([full, oct(st.st_mode), what])
    return sorted(seen)


def act():
    ends = {}
    for name, path, op, is_dir, content in cases():
        full = f'{name}/{path}'
        try:
            if op == 'read':
                os.listdir(full) if is_dir else open(full).read()
            elif op == 'write':
                fd = os.open(full, os.O_WRONLY)
                os.write(fd, content.encode())
                os.close(fd)
            elif op == 'create':
                with open(full, 'x') as f:
                    f.write(content)
            elif op == 'mkdir':
                os.mkdir(full)
            elif op == 'symlink':
                os.symlink('plain', full)
            elif op == 'unlink':
                os.rmdir(full) if is_dir else os.unlink(full)
            elif op == 'rename':
                os.rename(full, f'{name}/moved')
            elif op == 'rename-to':
                os.rename(f'{name}/srcdir' if is_dir else f'{name}/src', full)
            elif op == 'link':
                os.link(full, f'{name}/second')
            else:
                os.chmod(full, 0o700)
            ends[name] = 'ok'
        except OSError as e:
            ends[name] = errno.errorcode[e.errno]
    json.dump(ends, sys.stdout)


def compare():
    said, before, ends = (json.load(open(f'../{n}.json')) for n in ('said', 'before', 'ends'))
    bad = n = 0
    tally = {}
    for name, path, op, _, content in cases():
        answer = said[name]['ops'][op]
        want = answer['result']
        end = ends[name]
        staged = said[name]['region']['kind'] == 'staged'  # what may land has landed when the command ended
        # the question is what becomes of the path, not of what comes to it or where it goes
        moves = {f'{name}/src', f'{name}/srcdir'} if op == 'rename-to' else set()
        if staged and want in ('held', 'judged'):
            moves |= {f'{name}/moved', f'{name}/second'}
        landed = [e for e in host_state(name) if e[0] not in moves] != [e for e in before[name] if e[0] not in moves]
        tally[want] = tally.get(want, 0) + 1
        n += 1
        ok = {'yes': end == 'ok' and not landed, 'host': end == 'ok' and landed, 'run': end == 'ok' and bool(landed) == staged,
              'held': end == 'ok' and not landed, 'judged': end == 'ok' and (op == 'chmod' or landed == (content != EVIL)),
              'refused': end == answer.get('errno') and not landed}[want]
        if not ok or said[name]['exit'] != (want == 'refused'):
            bad += 1
            print(f'{path} {op}: explain says {answer} (exit {said[name]["exit"]}), it was {end}, '
                  f'{"landed" if landed else "did not land"}; rule {said[name]["rule"]}')
    print(f'{n} cases, {bad} wrong: {tally}')
    return bad == 0 and n > 100 and len(tally) >= 3


if sys.argv[1] == 'prepare':
    prepare(sys.argv[2:])
elif sys.argv[1] == 'act':
    act()
else:
    sys.exit(0 if compare() else 1)
