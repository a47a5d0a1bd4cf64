"""What the work tries against our own parts of a container: run inside by engine-escapes.sh.

Usage: engine-escapes.py PROBE. Prints a line for each thing that went through, then "end".
"""
import ctypes
import fcntl
import os
import platform
import socket
import stat
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
x86 = platform.machine() == "x86_64"
INIT = "/run/cofferdam/ctl/init"
# x86-64, aarch64
NR = {"ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
      "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438)}


def call(name, *args):
    return libc.syscall(ctypes.c_long(NR[name][0 if x86 else 1]), *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])


def through(*what):
    print("went through:", *what)


def attempt(f, *args):
    """Whether f(*args) works; a descriptor that it returns is closed."""
    try:
        got = f(*args)
    except OSError:
        return False
    if f in (os.open, os.memfd_create):
        os.close(got)
    return True


def changes(path):
    """every way to change a name or what it leads to"""
    with open("mine", "w", encoding="utf-8"):
        pass
    yield from ((os.chmod, path, 0o4777), (os.chown, path, 1, 1), (os.utime, path, (1, 1)), (os.setxattr, path, "user.x", b"1"),
                (os.link, path, "out"), (os.rename, path, "out"), (os.rename, path, path + "2"), (os.rename, "mine", path),
                (os.link, "mine", path + "2"), (os.symlink, "mine", path + "2"), (os.unlink, path))
    if os.path.isdir(path):
        yield from ((os.rmdir, path), (os.mkdir, path + "/x"), (os.mkfifo, path + "/y"), (os.open, path + "/z", os.O_CREAT | os.O_WRONLY),
                    (os.open, path, os.O_TMPFILE | os.O_WRONLY))
    else:
        yield from ((os.truncate, path, 0), (os.open, path, os.O_WRONLY), (os.open, path, os.O_RDWR | os.O_TRUNC))


def executable():
    """The program that the first process is, by its name and as that of a process of the work's"""
    r, w = os.pipe()  # a full one, so that who writes to it stays
    fcntl.fcntl(w, fcntl.F_SETFL, os.O_NONBLOCK)
    while attempt(os.write, w, b"x"):
        pass
    fcntl.fcntl(w, fcntl.F_SETFL, 0)
    with subprocess.Popen([INIT, "--version"], stdout=w) as p:
        exe = f"/proc/{p.pid}/exe"
        assert os.readlink(exe) == INIT
        for path in INIT, exe:
            fd = os.open(path, os.O_RDONLY)
            for name in path, f"/proc/self/fd/{fd}":
                for f, *args in changes(name):
                    # the names of /proc cannot be changed; a link of one's own is none of the program
                    if attempt(f, *args) and not (args[0] != name and f in (os.link, os.symlink)):
                        through(f.__name__, args)
            os.close(fd)
        p.kill()
    os.close(r)


def first():
    """The first process: what is read or written of it, and signals"""
    for name in ("mem", "environ", "maps", "smaps", "auxv", "root", "cwd", "exe", "fd", "fdinfo", "map_files", "ns/mnt", "stack", "syscall", "io",
                 "pagemap", "personality", "task/1/mem", "task/1/fd", "root/etc", "cwd/etc", "fd/0", "fd/3", "fd/4"):
        for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR:
            # what can be opened says nothing by itself: reading is asked again
            if attempt(lambda n, f: os.read(os.open(n, f), 1), "/proc/1/" + name, flags):
                through(name, flags)
        if attempt(os.readlink, "/proc/1/" + name):
            through(name)
    vectors()
    for request in 16, 0x4206:  # attach, seize
        if call("ptrace", request, 1, 0, 0) >= 0:
            through("ptrace", request)
    pidfd = call("pidfd_open", 1, 0)
    for fd in range(16):
        if call("pidfd_getfd", pidfd, fd, 0) >= 0 or call("kcmp", 1, os.getpid(), 0, fd, 0) >= 0:
            through("descriptor", fd)
    for sig in range(1, 65):
        attempt(os.kill, 1, sig)
        call("pidfd_send_signal", pidfd, sig, 0, 0)
    with open("/proc/1/stat", encoding="utf-8") as f:
        if f.read().rsplit(") ", 1)[1][0] in "TtZX":
            through("it is stopped")


def vectors():
    class iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]

    room = ctypes.create_string_buffer(64)
    local = iovec(ctypes.addressof(room), 64)
    for at in 0x400000, 0x7fff00000000, id(libc):
        remote = iovec(at, 64)
        for name in "process_vm_readv", "process_vm_writev":
            if call(name, 1, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) >= 0 or ctypes.get_errno() == 14:
                through(name)


def sockets():
    """Ways to the supervisor and the proxy"""
    for name in "/run/cofferdam/ctl/socket", "/run/cofferdam/ctl/control", "/run/cofferdam/socket":
        for kind in socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM:
            for f in socket.socket.connect, socket.socket.bind:
                with socket.socket(socket.AF_UNIX, kind) as s:
                    if attempt(f, s, name):
                        through(f.__name__, name)
    with open("/proc/net/unix", encoding="utf-8") as f:
        for line in f.read().splitlines()[1:]:
            words = line.split()
            if len(words) > 7 and int(words[3], 16) & 0x10000:  # it listens
                through(line)
    ports()
    for pid in [p for p in os.listdir("/proc") if p.isdigit() and p != str(os.getpid())]:
        for fd in range(32):
            if attempt(os.readlink, f"/proc/{pid}/fd/{fd}"):
                through("descriptor", fd, "of", pid)
    for base, _, names in os.walk("/run"):
        for name in names:
            if stat.S_ISSOCK(os.lstat(f"{base}/{name}").st_mode):
                through(f"{base}/{name}")


def ports():
    listen = []
    for file in "tcp", "tcp6":
        with open("/proc/net/" + file, encoding="utf-8") as f:
            rows = [line.split() for line in f.read().splitlines()[1:]]
        listen += [int(words[1].split(":")[1], 16) for words in rows if words[3] == "0A"]
    if not listen:
        through("nothing listens")
    for port in listen:
        for family, place in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"), (socket.AF_INET6, "::ffff:127.0.0.1")):
            with socket.socket(family) as s:
                for option in socket.SO_REUSEADDR, socket.SO_REUSEPORT:
                    s.setsockopt(socket.SOL_SOCKET, option, 1)
                if attempt(s.bind, (place, port)) and attempt(s.listen):
                    through(place, port)


def files():
    """What is put in a container"""
    for path in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/run/secrets/A", "/run/secrets", "/run/cofferdam",
                 "/run/cofferdam/ctl", INIT, "/run/.containerenv", "/.dockerenv", "/run", "/etc", "/", "/bin/busybox", "/sys/fs/cgroup"):
        if os.path.exists(path):
            for f, *args in changes(path):
                if attempt(f, *args):
                    through(f.__name__, args)
    with open("/run/secrets/A", encoding="utf-8") as f:
        print(f.read().strip())


{"executable": executable, "first": first, "sockets": sockets, "files": files}[sys.argv[1]]()
print("end")
