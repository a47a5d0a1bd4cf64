#!/usr/bin/env python3
"""initramfs.py CMD... - runs CMD where "/" is the first mount of all, with no other below it

The kernel's own first file system (rootfs) lies below every other. In a mount namespace of our own all that lies on it is
taken off, and parts of the host are attached to directories that are made in it and removed at the end. Takes root.
"""
import ctypes
import os
import sys

CLONE_NEWNS, MS_REC_PRIVATE, MNT_DETACH = 0x20000, 0x44000, 2
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429
OPEN_TREE_CLONE_RECURSIVE, EMPTY_PATH, MOVE_EMPTY_PATH = 0x80001, 0x1000, 4
SHOWN = ["usr", "etc", "dev", "proc", "tmp", "var", "run"]
LINKS = ["bin", "sbin", "lib", "lib64"]
libc = ctypes.CDLL(None, use_errno=True)


def must(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def tree(name):
    fd = os.open("/" + name, os.O_PATH)
    return must(libc.syscall(SYS_OPEN_TREE, fd, b"", OPEN_TREE_CLONE_RECURSIVE | EMPTY_PATH), "open_tree " + name)


def main():
    must(libc.unshare(CLONE_NEWNS), "unshare")
    must(libc.mount(None, b"/", None, MS_REC_PRIVATE, None), "mount --make-rprivate /")
    namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    trees = {name: tree(name) for name in SHOWN}
    while libc.umount2(b"/", MNT_DETACH) == 0:
        must(libc.setns(namespace, 0), "setns")
    os.chdir("/")
    dirs, links = [], []
    try:
        for name, fd in trees.items():
            if not os.path.isdir("/" + name):
                os.mkdir("/" + name)
                dirs.append("/" + name)
            must(libc.syscall(SYS_MOVE_MOUNT, fd, b"", -100, b"/" + name.encode(), MOVE_EMPTY_PATH), "move_mount")
        for name in LINKS:
            if not os.path.lexists("/" + name):
                os.symlink("usr/" + name, "/" + name)
                links.append("/" + name)
        return os.spawnvp(os.P_WAIT, sys.argv[1], sys.argv[1:])
    finally:
        for name in SHOWN:
            libc.umount2(b"/" + name.encode(), MNT_DETACH)
        for link in links:
            os.unlink(link)
        for path in dirs:
            os.rmdir(path)


sys.exit(main())
