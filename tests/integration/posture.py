"""The walls around commands, read from outside and compared field by field.

Usage: posture.py COFFERDAM. Runs in the workspace. Prints what differs; exit status 1 when something does.
"""
import json
import os
import re
import subprocess
import sys
import time

cofferdam = sys.argv[1]
NAMESPACES = ["cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"]
STATUS = ["Umask", "State", "NStgid", "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
          "Seccomp", "Seccomp_filters", "SigBlk", "SigIgn", "SigCgt", "Cpus_allowed", "Mems_allowed", "CoreDumping", "THP_enabled"]
NOT_COMPARED = {"State", "NStgid"}
NANOSLEEP = {"35", "230", "101", "115"}  # nanosleep, clock_nanosleep: x86-64, aarch64


def read(path):
    with open(path, "rb") as f:
        return f.read().decode("utf-8", "replace")


def marker(name):
    """How long a sleep(1) of this test sleeps: the same test of another user may look about now, too."""
    return f"{name}.{os.getpid()}"


def processes():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def find(name, deadline=60):
    """The host's pid of the sleep(1) that has the marker as its argument, once it sleeps: its loader has files open."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        for pid in processes():
            try:
                if read(f"/proc/{pid}/cmdline").split("\0")[:2] == ["sleep", marker(name)] and \
                        read(f"/proc/{pid}/syscall").split()[0] in NANOSLEEP:
                    return pid
            except OSError:
                pass
        time.sleep(0.05)
    sys.exit(f"no process 'sleep {marker(name)}'")


def posture(pid):
    p = f"/proc/{pid}/"
    status = dict(line.split(":\t", 1) for line in read(p + "status").splitlines() if ":\t" in line)
    stat = read(p + "stat").rsplit(") ", 1)[1].split()
    ns_pid = int(status["NStgid"].split()[-1])
    got = {f"ns/{n}": os.readlink(p + "ns/" + n) for n in NAMESPACES if os.path.islink(p + "ns/" + n)}
    got.update({k: status[k].strip() for k in STATUS if k in status and k not in NOT_COMPARED})
    got["limits"] = read(p + "limits")
    got["session leader"] = int(stat[3]) == pid
    got["group leader"] = int(stat[2]) == pid
    got["has a terminal"] = int(stat[4]) != 0
    got["root"] = os.readlink(p + "root")
    got["cwd"] = os.readlink(p + "cwd")
    got["cgroup"] = read(p + "cgroup")
    got["descriptors"] = sorted(int(f) for f in os.listdir(p + "fd"))
    got["oom_score_adj"] = read(p + "oom_score_adj")
    got["nice"], got["policy"] = stat[16], stat[38]
    got["mounts"] = re.sub(r"^\d+ \d+ ", "", read(p + "mountinfo"), flags=re.M)
    for name in ("personality", "loginuid", "coredump_filter", "timerslack_ns"):
        try:
            got[name] = read(p + name)
        except OSError as e:
            got[name] = e.errno
    assert ns_pid > 1
    return got


def run(*args, **kw):
    return subprocess.Popen([cofferdam, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, **kw)


found = {}
bad = []


def look(name, what):
    found[name] = posture(find(what))


# four ways to the same walls; the namespaces of one run are not those of another
first = run("run", "--", "sleep", marker("7001"))
look("run", "7001")
second = run("exec", [l.split()[0] for l in subprocess.check_output([cofferdam, "ps"], text=True).splitlines()[1:]][0],
             "sleep", marker("7002"))
look("exec into run", "7002")
for p in (first, second):
    p.terminate()
    p.wait()
creating = run("start", "--post-create", f"sleep {marker('7003')}; true")
look("post_create", "7003")
os.kill(find("7003"), 15)
creating.wait()
run_id = subprocess.check_output([cofferdam, "ps", "-q"], text=True).split()[0]
others = [run("exec", run_id, "sleep", marker("7004")), run("exec", "-t", run_id, "sleep", marker("7005"))]
look("exec", "7004")
look("exec -t", "7005")
subprocess.check_call([cofferdam, "exec", "-d", run_id, "sleep", marker("7006")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
look("exec -d", "7006")

# the expected walls, whatever was compared with what
caps = {key: "0" * 16 for key in STATUS if key.startswith("Cap")}
want = {**caps, "NoNewPrivs": "1", "Seccomp": "2", "Umask": "0022", "descriptors": [0, 1, 2], "session leader": True,
        "SigBlk": "0" * 16, "SigIgn": "0" * 16, "root": "/"}
for name, got in found.items():
    for key, value in want.items():
        if key == "session leader" and name == "post_create":
            continue  # the shell leads, its child was found
        if got.get(key) != value:
            bad.append(f"{name}: {key}: want {value!r}, got {got.get(key)!r}")
    for n in NAMESPACES:
        mine = os.path.islink(f"/proc/self/ns/{n}") and os.readlink(f"/proc/self/ns/{n}")
        if mine and got.get(f"ns/{n}") == mine and not n.startswith("time"):
            bad.append(f"{name}: the host's {n} namespace")

# one run: everything is the same but what the difference is about
for name in ("exec", "exec -t", "exec -d"):
    for key in found["post_create"]:
        if key in ("session leader", "group leader", "SigCgt") or (key == "has a terminal" and name == "exec -t"):
            continue
        if found["post_create"][key] != found[name][key]:
            bad.append(f"{name} is not as post_create: {key}: {found['post_create'][key]!r} / {found[name][key]!r}")
# two runs: all but the numbers of namespaces
for key in found["run"]:
    if key == "session leader" or key == "group leader":
        continue
    if found["run"][key] != found["exec into run"][key]:
        bad.append(f"exec into run is not as run: {key}: {found['run'][key]!r} / {found['exec into run'][key]!r}")
    if not key.startswith("ns/") and key not in ("mounts",) and found["run"][key] != found["exec"][key]:
        bad.append(f"exec is not as run: {key}: {found['run'][key]!r} / {found['exec'][key]!r}")
if not found["exec -t"]["has a terminal"]:
    bad.append("exec -t: no controlling terminal")

subprocess.check_call([cofferdam, "rm", "-f", run_id], stdout=subprocess.DEVNULL)
for p in others:
    p.wait()
print("\n".join(bad) if bad else json.dumps({k: v for k, v in found["exec"].items() if k not in ("mounts", "limits")}))
sys.exit(bool(bad))
