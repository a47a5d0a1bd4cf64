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

t 'a descriptor of a removed held file cannot be opened again for writing' nameless
finish
