#!/usr/bin/env python3
"""git-config.py keys|differ|random SEED N: our reader and judge of git's configuration against the git of this machine

keys    every key of git's own documentation (`git help --config`): what is not reviewed below is held in every file
differ  files written by hand, each a way to write what a careless reader takes for something else
random  N files made of the same pieces at random
"""
import os
import random
import re
import subprocess
import sys
import tempfile

HELPER = os.environ['HELPERS'] + '/git-judge'

BOOL = {'true', 'false', '1', '0', '', None}
URL = {'https://evil.example/x', 'git@evil.example:x'}
TEXT = {'true', 'false', '1', '0', '', '!touch x', './evil', '/tmp/evil', 'evil', 'ext::sh -c x', 'file:///tmp/x',
        '../x', '%(trailers)', 'https://evil.example/x', 'git@evil.example:x', 'refs/heads/x', 'always', 'merges', '.',
        '"$HOME"', ':/x', 'a;b', '+refs/heads/*:refs/remotes/x/*'}
REF = {'true', 'false', '1', '0', 'evil', 'refs/heads/x', 'always', 'merges', '"$HOME"', '%(trailers)', 'a;b'}
# each key is given each of these, and no value at all
VALUES = sorted(TEXT | {'--upload-pack=x', '-x'}) + [None]

# What may land at once in a repository's own configuration, with the values of the above it may have. A new key on the
# judge's list makes this test fail until somebody has thought about it here.
REVIEWED = {
    'core.bare': BOOL, 'core.filemode': BOOL, 'core.ignorecase': BOOL, 'core.precomposeunicode': BOOL,
    'core.symlinks': BOOL, 'core.sparsecheckout': BOOL, 'core.sparsecheckoutcone': BOOL, 'index.sparse': BOOL,
    'extensions.worktreeconfig': BOOL, 'submodule.x.active': BOOL,
    'core.repositoryformatversion': {'1', '0'},
    'core.logallrefupdates': BOOL | {'always'},
    'extensions.objectformat': set(),
    'remote.x.url': URL, 'remote.x.pushurl': URL, 'submodule.x.url': URL,
    'remote.x.fetch': {'refs/heads/x', '+refs/heads/*:refs/remotes/x/*'},
    'remote.x.tagopt': set(),
    'branch.x.remote': {'.'},  # no remote of these names is in the file
    'branch.x.merge': {'refs/heads/x'},
    'branch.x.rebase': BOOL | {'merges'},
    'submodule.x.update': set(),
    'submodule.active': TEXT,  # pathspecs
    'user.name': TEXT, 'user.email': TEXT,
    'maintenance.auto': BOOL, 'maintenance.strategy': set(),
    'init.defaultbranch': REF,
}
MODULES = {
    'submodule.x.path': {'true', 'false', '1', '0', 'evil', 'refs/heads/x', 'always', 'merges', '!touch x', '%(trailers)',
                         '"$HOME"', ':/x', 'a;b', 'ext::sh -c x', 'git@evil.example:x', '+refs/heads/*:refs/remotes/x/*'},
    'submodule.x.url': URL | {'./evil', '../x'},
    'submodule.x.update': set(), 'submodule.x.ignore': set(),
    'submodule.x.branch': REF | {'.'},
    'submodule.x.shallow': BOOL, 'submodule.x.fetchrecursesubmodules': BOOL,
}
FILES = {
    '.git/config': REVIEWED, 'a/.git/config.worktree': REVIEWED, '.git/worktrees/w/config.worktree': REVIEWED,
    '.git/modules/m/config': REVIEWED, 'bare.git/config': REVIEWED, 'plain/config': REVIEWED,
    '.gitmodules': MODULES, '.git/sequencer/opts': {},
}


def ask(args, lines):
    p = subprocess.run([HELPER] + args, input=('\n'.join(lines) + '\n').encode(), stdout=subprocess.PIPE, check=True)
    answers = p.stdout.decode('utf-8', 'surrogateescape').split('\n')[:-1]
    assert len(answers) == len(lines), (len(answers), len(lines))
    return answers


def quote(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


def entry(key, value):
    """A file with the one key, whatever its parts are."""
    section, rest = key.split('.', 1)
    sub, name = rest.rsplit('.', 1) if '.' in rest else (None, rest)
    head = f'[{section} {quote(sub)}]' if sub is not None else f'[{section}]'
    return f'{head}\n\t{name}' + ('' if value is None else f' = {quote(value)}') + '\n'


def documented():
    text = subprocess.run(['git', 'help', '--config'], stdout=subprocess.PIPE, check=True).stdout.decode()
    keys = [k for k in text.split() if '.' in k]
    # the names in angle brackets and the stars stand for anything
    return sorted({re.sub(r'<[^>]*>|\*', 'x', k) for k in keys})


def keys():
    all_keys = documented()
    assert len(all_keys) > 500 and {'core.fsmonitor', 'alias.x', 'include.path'} <= set(all_keys), len(all_keys)
    known = set(REVIEWED) | set(MODULES)
    spelled = {k.lower(): k for k in all_keys}
    for k in known:  # also those that the documentation of this git does not list
        spelled.setdefault(k, k)
    cases = [(path, low, value) for path in FILES for low in spelled for value in VALUES]
    lines = [f'{path} {entry(spelled[low], value).encode().hex()}' for path, low, value in cases]
    bad = []
    for (path, low, value), said in zip(cases, ask(['judge', '/w'], lines)):
        want = value in FILES[path].get(low, set())
        if want != (said == 'lands'):
            bad.append(f'{path}: {low} = {value!r}: {said}, want it {"to land" if want else "held"}')
        elif not want and low not in known and '_' not in low and low not in said:  # git refuses '_' too
            bad.append(f'{path}: {low} = {value!r}: the reason does not name the key: {said}')
    print(f'{len(spelled)} keys, {len(cases)} questions, {len(bad)} wrong')
    print('\n'.join(bad[:40]))
    return not bad


def git_says(data):
    """What git reads: bytes of --list -z, None: it refuses."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        p = subprocess.run(['git', 'config', '--list', '-z', '--no-includes', '-f', f.name], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, check=False)
    return p.stdout if p.returncode == 0 else None


def compare(files):
    """Whatever the reader accepts it reads as git does."""
    bad = accepted = 0
    for data, said in zip(files, ask(['list'], [f.hex() for f in files])):
        if said == '-':
            continue
        accepted += 1
        want = git_says(data)
        if want != bytes.fromhex(said):
            bad += 1
            if bad <= 10:
                print(f'{data!r}\n  git:    {want!r}\n  reader: {bytes.fromhex(said)!r}')
    print(f'{len(files)} files, {accepted} accepted, {bad} read differently')
    return bad, accepted


# (file, whether the reader has to accept it): what git commands and people write must not be refused
BY_HAND = [
    (b'', True), (b'\n', True), (b'# x', True), (b'; x\r\n', True), (b'\xef\xbb\xbf[a]\nb=c\n', True),
    (b'[a]\r\n\tb = c\r\n', True), (b'[a]b=c', True), (b'[a] b = c ; x', True), (b'[a]\nb\n', True), (b'[a]\nb=\n', True),
    (b'[a "B c"]\nd = e\n', True), (b'[a "B\\"c\\\\d"]\nd = e\n', True), (b'[a.B]\nd = e\n', True), (b'[A.B.C]\nD=e\n', True),
    (b'[a "\\x"]\nb=c\n', True), (b'[a]\nb = c \\\n  d\n', True), (b'[a]\nb = "c ; d" # e\n', True),
    (b'[a]\nb = "c\\\nd"\n', True), (b'[a]\nb = c"d"e\n', True), (b'[a]\nb = \\tx\\n\\b\\"\\\\\n', True),
    (b'[a]\nb = c\nb = d\nB = e\n', True), (b'[a]\n[a]\n[b]c=d\n', True), (b'[a-1]\nb-2 = 3\n', True),
    (b'[a]\n  b   =   c d  e   \n', True), (b'[a]\nb = "  c  "\n', True), (b'[include]\npath = x\n', True),
    (b'[includeIf "gitdir:/x/"]\npath = y\n', True), (b'[a]\nb = c\\\r\n d\r\n', True),
    (b'[a]\nb = ' + b'x' * 60000 + b'\n', True),
    # git takes these, versions of it differ, or it is not sure what they are: refused
    (b'b=c\n', False), (b'[a]\nb = c\td\n', False), (b'[a]\nb\x00=c\n', False), (b'[a]\nb = c\x00d\n', False),
    (b'[a]\rb=c\n', False), (b'[a]\nb = c\rd\n', False), (b'[a "b\nc"]\nd=e\n', False), (b'[a\nb=c\n', False),
    (b'[a]\nb = "c\n', False), (b'[a]\nb = \\q\n', False), (b'[a]\nb = \\x41\n', False), (b'[]\na=b\n', False),
    (b'[a.]\nb=c\n', False), (b'[.a]\nb=c\n', False), (b'[a..b]\nc=d\n', False), (b'[a ""]\nb=c\n', False),
    (b'[a "b" ]\nc=d\n', False), (b'[ a]\nb=c\n', False), (b'[a b]\nc=d\n', False), (b'[a]\n1b=c\n', False),
    (b'[a]\n_b=c\n', False), (b'[a]\nb c\n', False), (b'[a]\nb : c\n', False), (b'\xfe\xff[a]\nb=c\n', False),
    (b'\xff\xfe[\x00a\x00]\x00', False), (b'[a]\n\xef\xbb\xbfb=c\n', False), (b'[a]\n\x0bb=c\n', False),
    (b'[a]\nb = ' + b'x' * 70000 + b'\n', False), (b'[a "' + b'x' * 2000 + b'"]\nb=c\n', False),
    (b'[a]\nb = c \\', False), (b'[a]\nb = c\\', False), (b'[a "b.c"]\nd=e\n', True), (b'[a.b "c"]\nd=e\n', False),
]


def differ():
    bad, _ = compare([f for f, _ in BY_HAND])
    for (f, accept), said in zip(BY_HAND, ask(['list'], [f.hex() for f, _ in BY_HAND])):
        if accept != (said != '-'):
            bad += 1
            print(f'{f[:60]!r}: {"refused" if accept else "accepted"}')
    return bad == 0


PIECES = [b'[core]', b'[CORE]', b'[a "B c"]', b'[a "b\\"c"]', b'[a.B]', b'[a]', b'[a "x', b'"]', b']', b'[', b'\n', b'\n', b'\n',
          b'\r\n', b'\r', b' ', b'\t', b'=', b' = ', b'"', b'\\', b'\\\n', b'\\\r\n', b'\\n', b'\\"', b'#', b';', b' ; c',
          b'fsmonitor', b'pager', b'bare', b'Key-1', b'x', b'y z', b'true', b'\x00', b'\x0b', b'\x0c', b'\xef\xbb\xbf', b'\xff',
          b'\xc3\xa9', b'.', b'-', b'_', b'1', b'\x7f', b'\x08', b':', b'include', b'path']
LINES = [b'[core]\n', b'[a "B c"]\n', b'[a.b]\n', b'\tbare = true\n', b'  x\n', b'k="a\\nb" # c\n', b'k = a \\\n  b\n', b'# c\n', b'\n',
         b'k = a  b\r\n', b'[x]y=z\n', b'K=\n', b'[include]\n', b'path = p\n', b'k = "a;b"c ;d\n']


def random_file(rng):
    out = b''
    for _ in range(rng.randrange(1, 12)):
        out += rng.choice(LINES) if rng.random() < 0.75 else rng.choice(PIECES)
    if rng.random() < 0.3 and out:  # one byte is another, gone, or twice there
        at = rng.randrange(len(out))
        out = out[:at] + rng.choice([b'', bytes([rng.randrange(256)]), out[at:at + 1] * 2]) + out[at + 1:]
    return out


def at_random(seed, n):
    rng = random.Random(seed)
    files = [random_file(rng) for _ in range(n)]
    print(f'seed {seed}')
    bad, accepted = compare(files)
    if accepted < n // 10:
        print('too few of the files are accepted to say anything')
        return False
    return bad == 0


what = sys.argv[1]
ok = {'keys': keys, 'differ': differ}.get(what, lambda: at_random(int(sys.argv[2]), int(sys.argv[3])))()
sys.exit(0 if ok else 1)
