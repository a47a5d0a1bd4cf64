"""What the work tries, one function per class of attack: run inside, in three ways, by classes.sh.

Usage: classes.py FACTS WAY. WAY is how it was started; FACTS is what classes.sh planted on the host. Prints one line per class, "NAME ok" or
"NAME what went through". Nothing of the machine is changed where a defence is missing: files are opened, not written to.
"""
import ctypes
import errno
import json
import mmap
import os
import platform
import re
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import time

with open(sys.argv[1], encoding="utf-8") as facts_file:
    facts = json.load(facts_file)
facts["way"] = sys.argv[2]
engine = facts["driver"] in ("podman", "docker")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
x86 = platform.machine() == "x86_64"
# x86-64, aarch64
NR = {"unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "clone3": (435, 435),
      "clone": (56, 220), "fsopen": (430, 430), "open_tree": (428, 428), "move_mount": (429, 429), "bpf": (321, 280),
      "keyctl": (250, 219), "add_key": (248, 217), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "io_uring_setup": (425, 425),
      "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "ioctl": (16, 29), "ptrace": (101, 117),
      "process_vm_readv": (310, 270), "init_module": (175, 105), "kexec_load": (246, 104), "open_by_handle_at": (304, 265)}
PROC_MAGIC, DEVPTS_MAGIC, TMPFS_MAGIC = 0x9fa0, 0x1cd1, 0x01021994
TIOCSTI, TIOCLINUX = 0x5412, 0x541c
HIGH = 1 << 32
REFUSED = (errno.EPERM, errno.ENOSYS)


class Through(Exception):
    """something went through"""


def want(true, what):
    if not true:
        raise Through(what)


def refused(f, *args, by=None, **kw):
    """f fails, with one of the errors of @by; returns which."""
    try:
        r = f(*args, **kw)
    except OSError as e:
        want(by is None or e.errno in by, f"{args}: {errno.errorcode[e.errno]}, not {by}")
        return e.errno
    raise Through(f"{getattr(f, '__name__', f)}{args} -> {r}")


def call(name, *args):
    """The system call in a child, which some of them change. Returns its errno, 0: it went through."""
    nr = NR[name][0 if x86 else 1] if isinstance(name, str) else name
    return in_child(lambda: libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) for a in args]))


def in_child(f):
    ears = os.pipe()
    pid = os.fork()
    if pid == 0:
        ctypes.set_errno(0)
        r = f()
        os.write(ears[1], str(ctypes.get_errno() if r < 0 else 0).encode())
        os._exit(0)
    os.close(ears[1])
    said = os.read(ears[0], 16)
    os.close(ears[0])
    status = os.waitpid(pid, 0)[1]
    return int(said) if said else -os.WTERMSIG(status)


def quietly(f, *args, **kw):
    try:
        return f(*args, **kw)
    except OSError:
        return None


def text(path):
    with open(path, "rb") as f:
        return f.read().decode("utf-8", "replace")


def pids():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def mounts():
    """(mount point, options, type, options of the file system) of every mount"""
    for line in text("/proc/self/mountinfo").splitlines():
        words = line.split()
        dash = words.index("-")
        yield words[4], words[5].split(","), words[dash + 1], words[dash + 3].split(",")


def magic(path):
    buf = (ctypes.c_long * 32)()
    want(libc.statfs(path.encode(), buf) == 0, f"statfs {path}")
    return buf[0]


# --- paths and mounts

# red when: the file server resolves the root of a region by its path at each use (and has no Landlock); before the
# start: pins.sh
def bind_source():
    for n in range(100):  # each name for the first time: nothing of it is in a cache
        got = quietly(text, f"/data/file{facts['way']}{n}")
        want(got == "real\n", f"the bind shows {got!r}")
        time.sleep(0.002)
    want(facts["canary"] not in os.listdir("/data"), "the other directory")


# red when: one node more in nodes[]; /proc cloned from the host instead of mounted; by a link: mnt_point() without
# O_NOFOLLOW
def mount_target():
    # the workspace has links of the names 'dev' and 'proc' to a directory of the host's
    for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
        st = os.stat("/dev/" + name)
        want(stat.S_ISCHR(st.st_mode) and st.st_rdev == os.makedev(1, minor), f"/dev/{name} is not it")
    for path, kind in (("/proc", PROC_MAGIC), ("/dev/pts", DEVPTS_MAGIC), ("/dev/shm", TMPFS_MAGIC), ("/tmp", TMPFS_MAGIC)):
        want(magic(path) == kind, f"{path} is something else")
    for name in os.listdir("/dev"):
        mode = os.lstat("/dev/" + name).st_mode
        want(not stat.S_ISBLK(mode), f"/dev/{name} is a disk")
        want(not stat.S_ISCHR(mode) or name in ("null", "zero", "full", "random", "urandom", "tty"), f"/dev/{name}")
    refused(os.open, facts["workspace"] + "/proc/secret", os.O_RDONLY)
    want(text(facts["workspace"] + "/in/file") == "real\n", "the bind in the workspace")


# red when: proc/sys is not in proc_masks[] (as root: nobody else owns those files); proc/keys is not for_all (as a user)
def proc_writes():
    # opened, never written to: where the defence is out, this is a switch of the machine
    for name in ("sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hostname", "sys/vm/drop_caches",
                 "sys/net/ipv4/ip_forward", "sys/user/max_user_namespaces", "sysrq-trigger", "irq/default_smp_affinity",
                 "1/mem"):
        try:
            fd = os.open("/proc/" + name, os.O_WRONLY)
        except OSError:
            continue
        of = os.fstat(fd)
        os.close(fd)
        want(of.st_rdev == os.makedev(1, 3), f"/proc/{name} can be opened for writing")
    want(facts["canary"] not in (quietly(text, "/proc/keys") or ""), "/proc/keys shows a key of the host's")
    for name in ("kcore", "kmsg", "keys", "timer_list"):
        want(not quietly(lambda n: open(n, "rb").read(64), "/proc/" + name), f"/proc/{name} can be read")


# red when: no PR_SET_DUMPABLE in stage_confine(); as a command: landlock_work(false, ...) and no sealed_copy()
def own_executable():
    for _ in range(20):
        for pid in pids():
            path = f"/proc/{pid}/exe"
            target = quietly(os.readlink, path) or ""
            want("cofferdam" not in target, f"{path} is {target}")
            if pid == 1:
                refused(os.open, path, os.O_PATH, by=(errno.EACCES,))
            elif target:
                refused(os.open, path, os.O_WRONLY)
        time.sleep(0.01)


# red when: neither confine_fds() in stage_confine() nor close_range(2) in child(); a directory by one: no
# PR_SET_DUMPABLE
def descriptors():
    for fd in range(256):
        if fd > 2:
            want(quietly(os.fstat, fd) is None or fd in facts["own"], f"descriptor {fd} is open")
    want(os.getcwd() == facts["workspace"], f"current directory {os.getcwd()}")
    for fd in 0, 1, 2:
        want(not stat.S_ISDIR(os.fstat(fd).st_mode), f"descriptor {fd} is a directory")
        target = os.readlink(f"/proc/self/fd/{fd}")
        want(target == "/dev/null" or target.startswith("pipe:"), f"descriptor {fd} is {target}")


# what follows them: 'links: landed through one' in classes.sh
# red when: open_beneath() and all of fs/ follow links, and the file server has no Landlock
def links():
    # planted by the work; the host's side follows none of them when it lands, compares and removes (classes.sh looks)
    for name, to in (("absolute", facts["outside"]), ("dots", "../" * 20 + facts["outside"].lstrip("/")),
                     ("magic", "/proc/1/root" + facts["outside"]), ("chain", "absolute"), (".idea", facts["outside"])):
        quietly(os.symlink, to, name)
        refused(text, name + "/secret")
        refused(os.open, name + "/new", os.O_CREAT | os.O_WRONLY)
        refused(os.mkdir, name + "/newdir")


# red when: no HOLD("**/.envrc")
def hard_links():
    for old in ".git/hooks/pre-commit", ".envrc", "keep/file":
        refused(os.link, old, "free")
        quietly(os.rename, old, "moved")
        quietly(os.rename, "moved", old)
    refused(os.rename, "keep", "aside")
    for old in ".git", ".vscode":
        refused(os.rename, old, "aside")
        want(libc.renameat2(-100, old.encode(), -100, b"empty", 2) < 0, f"{old} exchanged")
    for name in ".ENVRC", ".envrc\u200d":
        quietly(lambda n: open(n, "w", encoding="utf-8").write("evil\n"), name)
    with open("plain", "w", encoding="utf-8") as f:
        f.write("evil\n")
    for new in ".envrc2", "keep/new", "keep/file", ".git/hooks/post-merge":
        quietly(os.link, "plain", new)
        quietly(os.rename, "plain", new)
    quietly(os.unlink, "plain")


# red when: no place_admit() in open_node()
def reopened():
    for name in ".git/hooks/pre-commit", ".vscode/tasks.json", "keep/file":
        fd = os.open(name, os.O_RDONLY)
        for flags in os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_WRONLY | os.O_APPEND:
            again = quietly(os.open, f"/proc/self/fd/{fd}", flags)
            if again is not None:
                os.write(again, b"evil\n")
                os.close(again)
        os.close(fd)
    refused(os.open, "keep/file", os.O_RDWR)


# red when: spot_look() without GUARD_HIDE
def masked():
    me, cwd = os.getpid(), facts["workspace"]
    ways = ["secret/key", f"/proc/self/cwd/secret/key", f"/proc/{me}/root{cwd}/secret/key", f"/proc/1/root{cwd}/secret/key",
            "./secret/../secret/key", "secret//key", "through/key"]
    quietly(os.symlink, "secret", "through")
    fd = os.open("secret", os.O_RDONLY)
    for way in ways:
        refused(text, way)
        refused(os.stat, way)
        refused(os.open, way, os.O_PATH)
        refused(os.link, way, "copy")
        refused(os.rename, way, "copy")
        refused(os.open, way, os.O_WRONLY)
        refused(os.execv, way, [way])
    for f in (lambda: os.open("key", os.O_RDONLY, dir_fd=fd), lambda: os.readlink("key", dir_fd=fd),
              lambda: os.getxattr("secret/key", "user.x"), lambda: os.rename("secret", "aside"), lambda: os.unlink("secret/key"),
              lambda: os.open(f"/proc/self/fd/{fd}/key", os.O_RDONLY)):
        refused(f)
    loader = "/lib64/ld-linux-x86-64.so.2"
    for tool in ["cat", "secret/key"], ["dd", "if=secret/key"], ["tar", "cf", "-", "secret"], [loader, "/bin/cat", "secret/key"]:
        said = subprocess.run(tool, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False) if os.path.exists(tool[0]) or \
            "/" not in tool[0] else None
        want(said is None or b"canary" not in said.stdout, f"{tool} reads it")
    want("key" not in os.listdir("secret"), "it is listed")
    os.unlink("through")
    os.close(fd)


# --- the workspace attacks the host later

# red when: no HOLD of hooks/: the host's git runs the hook
def git_of_the_host():
    touch = "touch " + facts["outside"] + "/touched"
    keys = ("core.hooksPath core.fsmonitor core.sshCommand core.pager core.editor diff.external diff.x.textconv filter.x.clean "
            "filter.x.smudge filter.x.process merge.x.driver gpg.program credential.helper alias.st includeIf.gitdir:/.path "
            "url.ext::x.insteadOf core.worktree core.attributesFile init.templateDir").split()
    for repo in "", "nested/", "made/":
        if repo == "made/":
            quietly(os.makedirs, "made/.git/hooks")
        for hook in "pre-commit", "post-checkout", "post-index-change", "fsmonitor-watchman":
            for how in "create", "rename":
                put(repo + ".git/hooks/" + hook, "#!/bin/sh\n" + touch + "\n", how, 0o755)
        for key in keys:
            section, _, name = key.rpartition(".")
            top, _, sub = section.partition(".")
            head = f'[{top} "{sub}"]' if sub else f"[{top}]"
            put(repo + ".git/config", f"[core]\n\trepositoryformatversion = 0\n{head}\n\t{name} = {touch}\n", "rename", 0o644)
            put(repo + ".git/config", f"{head}\n\t{name} = {touch}\n", "append", 0o644)
        for name in "modules/m/config", "worktrees/w/gitdir", "commondir", "config.worktree", "info/attributes", "objects/info/alternates":
            put(repo + ".git/" + name, touch + "\n", "create", 0o644)


def put(path, what, how, mode):
    """Makes @path one way or another; whether that works is not what is asked."""
    quietly(os.makedirs, os.path.dirname(path) or ".", exist_ok=True)
    try:
        if how == "rename":
            with open("put", "w", encoding="utf-8") as f:
                f.write(what)
            os.chmod("put", mode)
            os.rename("put", path)
        elif how == "link":
            with open("put", "w", encoding="utf-8") as f:
                f.write(what)
            os.link("put", path)
        elif how == "symlink":
            os.symlink(facts["outside"] + "/secret", path)
        elif how == "tar":
            with open("put", "w", encoding="utf-8") as f:
                f.write(what)
            with tarfile.open("put.tar", "w") as tar:
                tar.add("put", path)
            with tarfile.open("put.tar") as tar:
                tar.extractall()
        else:
            with open(path, "a" if how == "append" else "w", encoding="utf-8") as f:
                f.write(what)
            os.chmod(path, mode)
    except OSError:
        pass
    for name in "put", "put.tar":
        quietly(os.unlink, name)


# red when: no HOLD("**/.envrc")
def missing_names():
    for name in facts["guarded"]:
        for how in "create", "rename", "link", "tar", "symlink":
            put("empty/" + name, "evil\n", how, 0o755)
            quietly(os.unlink, "empty/" + name) if how == "symlink" else None
        put("empty/" + name, "evil\n", "create", 0o755)
    quietly(os.mkdir, "empty/dir")
    quietly(os.mkdir, "empty/dir/hooks")
    quietly(os.rename, "empty/dir", "empty/.git")


# red when: start_init() executes git by name
def helpers_by_name():
    for name in "fusermount3", "newuidmap", "newgidmap", "git", "ip", "nft", "mount":
        put("evil-bin/" + name, "#!/bin/sh\ntouch " + facts["outside"] + "/touched\n", "create", 0o755)


# red when: no HOLD of .cofferdam.yaml
def own_policy():
    put(".cofferdam.yaml", "version: 1\nnetwork: {mode: open}\n", "create", 0o644)
    want(not os.environ.get("COFFERDAM_RUN_DIR"), "the run directory is told")
    for base, _, names in os.walk(facts["state"]):
        want(False, f"{base} is there: {names}")
    want(quietly(os.stat, facts["state"]) is None or not os.listdir(facts["state"]), "the state of cofferdam is there")


# --- processes and the kernel's surface

# red when: checks[] without TIOCSTI
def typing():
    for fd in 0, 1, 2, 99:
        for request in TIOCSTI, TIOCSTI | HIGH, TIOCSTI | HIGH << 31, TIOCLINUX, TIOCLINUX | HIGH:
            want(call("ioctl", fd, request, 0) == errno.EPERM, f"ioctl({fd}, {request:#x}) is not refused")


# red when: no PR_SET_DUMPABLE
def others():
    for pid in facts["pids"] + [1]:
        want(call("ptrace", 0x4206, pid, 0, 0) in (errno.EPERM, errno.ESRCH), f"ptrace of {pid}")
        want(call("process_vm_readv", pid, 0, 0, 0, 0, 0) in (0, errno.EPERM, errno.ESRCH, errno.EINVAL), f"process_vm_readv of {pid}")
        if pid != 1:
            refused(os.kill, pid, 0, by=(errno.ESRCH,))
            want(not os.path.exists(f"/proc/{pid}"), f"/proc/{pid}")
    os.kill(1, signal.SIGTERM)
    os.kill(1, signal.SIGKILL)
    refused(open, "/proc/1/mem", "rb")


# red when: no PR_SET_DUMPABLE
def proc_pid():
    for pid in pids():
        for name in "root", "cwd":
            target = quietly(os.readlink, f"/proc/{pid}/{name}")
            want(target is None or pid != 1, f"/proc/1/{name} is {target}")
            want(target is None or name != "root" or target == "/", f"/proc/{pid}/root is {target}")
        for name in "environ", "cmdline":
            got = quietly(text, f"/proc/{pid}/{name}") or ""
            want(facts["canary"] not in got, f"/proc/{pid}/{name} has the canary")
    want(pids() and max(pids()) < 1000, "process ids of the host")
    want(facts["canary"] not in str(os.environ), "the environment has the canary")
    want(not [p for p in pids() if quietly(os.stat, f"/proc/{p}/root{facts['outside']}/secret")], "a root with the canary")


# red when: no confine_caps() in stage_confine()
def walls():
    status = dict(line.split(":\t", 1) for line in text("/proc/self/status").splitlines() if ":\t" in line)
    for key in "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
        want(int(status[key], 16) == 0, f"{key} {status[key]}")
    want(status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", "no filter")
    for name in "user", "mnt", "pid", "ipc", "uts", "cgroup", "net":
        if name == "user" and engine and facts["root"]:
            continue  # a container of root's: docs/threat-model.md, "What is a boundary"
        want(os.readlink("/proc/self/ns/" + name) != facts["namespaces"][name], f"the host's {name} namespace")
    want(len(status["Groups"].split()) <= 1, "groups")


# red when: unshare is SECCOMP_ALLOW
def namespaces():
    for name, args in (("unshare", (0x10000000,)), ("unshare", (0x20000,)), ("unshare", (HIGH,)), ("unshare", (0x40000000,)),
                       ("clone", (0x10000011, 0)), ("clone", (HIGH | 0x40000011, 0)), ("clone3", (0, 0)), ("setns", (-1, 0)),
                       ("mount", (0,) * 5), ("umount2", (0, 0)), ("pivot_root", (0, 0)), ("fsopen", (0, 0)),
                       ("open_tree", (-1, 0, 0)), ("move_mount", (-1, 0, -1, 0, 0)), ("bpf", (-1, 0, 0)), ("keyctl", (0, -3, 0)),
                       ("add_key", (0,) * 5), ("userfaultfd", (-1,)), ("perf_event_open", (0, 0, 0, 0, 0)), ("init_module", (0, 0, 0)),
                       ("kexec_load", (0, 0, 0, -1)), ("open_by_handle_at", (-1, 0, 0))):
        got = call(name, *args)
        want(got in REFUSED, f"{name}{args} is not refused: {errno.errorcode.get(got, got)}")
    # that of a container is the user namespace's, which others may live in
    limit = None if engine else quietly(text, "/proc/sys/user/max_user_namespaces")
    want(limit is None or limit.strip() == "0", f"max_user_namespaces is {limit}")


# red when: another architecture goes TO_ALLOW
def other_numbers():
    for name in "io_uring_setup", "io_uring_enter", "io_uring_register":
        want(call(name, 1, 0, 0, 0) == errno.ENOSYS, f"{name} is not refused")
    for nr in 480, 511, 1000:
        want(call(nr) == errno.ENOSYS, f"call {nr} is not refused")
    if not x86:
        return
    for nr in 39, 41, 56, 512:  # getpid, socket, clone, an entry of x32's own
        want(call(0x40000000 | nr, 2, 1, 0) == errno.ENOSYS, f"x32 call {nr} is not refused")
    for nr in 20, 102:  # getpid, socketcall of i386
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(b"\x53\xb8" + nr.to_bytes(4, "little") + b"\x31\xdb\xcd\x80\x5b\xc3")  # push rbx; eax = nr; int 0x80
        entry = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        want(in_child(entry) == -signal.SIGSYS, f"int 0x80 with {nr} does not end the process")


# red when: the last row of TO_SOCKET goes TO_ALLOW
def families():
    got = []
    for family in range(46):
        for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET:
            fd = libc.socket(family, kind, 0)
            if fd >= 0:
                os.close(fd)
                got.append(family)
    want(set(got) <= {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}, f"families {sorted(set(got))}")
    want({socket.AF_UNIX, socket.AF_INET} <= set(got), "not even the usual ones")
    want(call(41 if x86 else 198, 40 | HIGH, 1, 0) == errno.EAFNOSUPPORT, "AF_VSOCK with a high bit")
    for protocol in range(1, 23):
        want(libc.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) < 0, f"netlink protocol {protocol}")


def reaches(family, address):
    s = socket.socket(family)
    s.settimeout(2)
    try:
        s.connect(address)
    except OSError:
        return False
    finally:
        s.close()
    return True


# red when: no CLONE_NEWNET, and no Landlock
def abstract_sockets():
    want(not reaches(socket.AF_UNIX, "\0" + facts["abstract"]), "the abstract socket is reached")
    want("@" + facts["abstract"] not in (quietly(text, "/proc/net/unix") or ""), "it is listed")


# red when: no CLONE_NEWNET
def path_sockets():
    for path in facts["sockets"] + ["/run/dbus/system_bus_socket", "/run/systemd/private", "/var/run/docker.sock", "/run/docker.sock",
                                    "/run/containerd/containerd.sock", f"/run/user/{os.getuid()}/bus", f"/tmp/tmux-{os.getuid()}/default"]:
        want(not reaches(socket.AF_UNIX, path), f"{path} is reached")
    for name in "DBUS_SESSION_BUS_ADDRESS", "SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DOCKER_HOST", "XDG_RUNTIME_DIR", "TMUX":
        want(facts["canary"] not in os.environ.get(name, ""), f"{name} is told")
    want(not reaches(socket.AF_INET, ("127.0.0.1", facts["port"])), "the host's loopback is reached")


# red when: no CLONE_NEWCGROUP
def cgroups():
    # an engine shows the container's part of it
    want(not [m for m in mounts() if m[2].startswith("cgroup") and not (engine and "ro" in m[1])], "a cgroup file system is mounted")
    for name in "memory.max", "cgroup.procs", "release_agent", "cgroup.kill":
        for base in "/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/proc/1/root/sys/fs/cgroup":
            refused(os.open, f"{base}/{name}", os.O_WRONLY)
    lines = text("/proc/self/cgroup").splitlines()
    want(all(re.fullmatch(r"\d+:[^:]*:/", line) for line in lines), f"own place among the cgroups of the host: {lines}")


# red when: check() in fs/attr.c lets every mode pass
def privileged_files():
    for name in "fuse", "cuse", "kvm", "mem", "kmsg":
        want(not os.path.lexists("/dev/" + name), f"/dev/{name}")
    with open("tool", "w", encoding="utf-8") as f:
        f.write("x")
    for mode in 0o4755, 0o2755:
        refused(os.chmod, "tool", mode)
        quietly(lambda m: os.close(os.open("tool2", os.O_CREAT | os.O_WRONLY, m)), mode)
        quietly(lambda m: os.mknod("tool3", stat.S_IFREG | m), mode)
    for kind in stat.S_IFCHR, stat.S_IFBLK:
        for where in "node", "/tmp/node", os.environ["HOME"] + "/node":
            refused(os.mknod, where, kind | 0o666, os.makedev(1, 3))
    refused(os.setxattr, "tool", "security.capability", b"\1\0\0\2\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0")
    want(not [m for m in mounts() if "nosuid" not in m[1]], "a mount without nosuid")
    want(not [m[0] for m in mounts() if "nodev" not in m[1] and not (m[0] == "/dev/pts" or m[0] == "/dev" and engine or m[0].startswith("/dev/") or m[0].startswith("/proc/"))],
         "a mount without nodev")


CLASSES = {f.__name__: f for f in (
    bind_source, mount_target, proc_writes, own_executable, descriptors, links, hard_links, reopened, masked, git_of_the_host,
    missing_names, helpers_by_name, own_policy, typing, others, proc_pid, walls, namespaces, other_numbers, families,
    abstract_sockets, path_sockets, cgroups, privileged_files)}


def main():
    for name, probe in CLASSES.items():
        try:
            probe()
            print(name, "ok", flush=True)
        except Through as what:
            print(name, what, flush=True)
        except Exception as e:  # a probe that could not be made proves nothing
            print(name, f"could not be tried: {e!r} in line {e.__traceback__.tb_next.tb_lineno if e.__traceback__.tb_next else '?'}", flush=True)


main()
