"""Kills parts of runs at random points and looks what is left: crash.py COFFERDAM WORK-DIRECTORY COUNT SEED

Each point: a run or a started run with a work that writes files one after the other, each to a name that is held or,
in a cow workspace, to any; what has been written is printed, so it is known. At a random moment of the set-up, the
work, an exec, stop or the teardown one part, or all of them, are killed. Then the rest must go by itself, and gc must
leave no run that holds nothing, and no write that was printed may be missing from diff, and from the workspace after
apply.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

PATIENCE = 60.0
FAILURES_MAX = 4
PROGRAM, TOP, COUNT, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
STATE = os.path.join(os.environ["XDG_STATE_HOME"], "cofferdam")
RUNS = os.path.join(STATE, "runs")
WORK = "i=0; while [ $i -lt {n} ]; do i=$((i+1)); echo $i >{dir}/k$i && echo $i || exit 9; {pause} done"
PARTS = ("client", "supervisor", "fsd", "init", "all", "all")
KNOWN = ("overlayfs-works", "nftables-works") # what was found out of the host, kept for the next run
STAGES = ("setup", "setup", "work", "exec", "stop", "end")


class Left(Exception):
    pass


def read(path, binary=False):
    try:
        with open(path, "rb") as f:
            data = f.read()
    except OSError:
        return b"" if binary else ""
    return data if binary else data.decode("utf-8", "replace")


def processes():
    """pid -> (comm, state, parent, session, command line) of all that are not zombies: pid 1 may reap late."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        stat = read(f"/proc/{name}/stat")
        if not stat:
            continue
        comm, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
        if rest[0] in "ZX":
            continue
        line = read(f"/proc/{name}/cmdline").replace("\0", " ")
        found[int(name)] = (comm, rest[0], int(rest[1]), int(rest[3]), line)
    return found


def ours(mark):
    """Processes of the program under test and of the work. Helpers hide their exe link; their session tells whose."""
    every = processes()
    left = []
    for pid, (comm, state, _, session, line) in every.items():
        if pid == os.getpid():
            continue
        try:
            exe = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            exe = ""
        leader = every.get(session)
        if (PROGRAM in line or mark in line or exe.startswith(PROGRAM) or
                (comm.startswith("cofferdam-") and not exe and (leader is None or PROGRAM in leader[4])) or
                (comm.startswith("cofferdam") and not line)): # exits, and still holds its files
            left.append((pid, comm, state, line[:80]))
    return left


def children(pid):
    return [int(p) for p in read(f"/proc/{pid}/task/{pid}/children").split()]


def parts(supervisor):
    found = {}
    if supervisor:
        for pid in children(supervisor):
            comm = read(f"/proc/{pid}/comm").strip()
            found["fsd" if comm == "cofferdam-fsd" else "init"] = pid # before it has its name it is either
    return found


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if not value:
            return
        if time.monotonic() > end:
            raise Left(f"{what}: {value}")
        time.sleep(0.01)


def cofferdam(*args, check=True):
    done = subprocess.run([PROGRAM, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    if check and done.returncode != 0:
        raise Left(f"{' '.join(args)}: exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def cgroups():
    """Control groups of runs without a process in them."""
    found = (os.path.join(top, n) for top, dirs, _ in os.walk("/sys/fs/cgroup") for n in dirs
             if n.startswith("cofferdam-"))
    return {d for d in found if not read(os.path.join(d, "cgroup.procs"))}


def connections():
    """FUSE connections, which only root can list."""
    if os.geteuid() != 0:
        return None
    script = 'mkdir -p "$0" && mount -t fusectl none "$0" && ls "$0"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, os.path.join(TOP, "fusectl")], capture_output=True, text=True)
    return set(done.stdout.split())


def mounted():
    """The numbers of connections that a living process has mounted: they are somebody else's."""
    numbers = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            numbers.update(re.findall(r" 0:(\d+) [^\n]* - fuse", read(f"/proc/{name}/mountinfo")))
    return numbers


def no_connections(before):
    """A number that is free may be somebody else's the next moment: ours would be there all the time."""
    left = (connections() or set()) - before
    end = time.monotonic() + PATIENCE
    while left:
        left = (left & connections()) - mounted()
        if left and time.monotonic() > end:
            raise Left(f"FUSE connections: {left}")


class Point:
    """One run that is killed."""

    def __init__(self, number, rng, root):
        self.verb = rng.choice(("run", "run", "start"))
        self.stage = rng.choice(STAGES if self.verb == "start" else ("setup", "setup", "work", "end"))
        self.victim = rng.choice(PARTS)
        self.mode = rng.choice(("direct", "cow"))
        self.engine = rng.choice(("fuse", "overlay")) if self.mode == "cow" else ""
        self.grouped = root and rng.random() < 0.4
        self.delay = rng.uniform(0, {"setup": 0.03, "work": 0.1, "exec": 0.04, "stop": 0.04, "end": 0.03}[self.stage])
        self.mark = f"crash{SEED}x{number}"
        self.place = os.path.join(TOP, self.mark)
        self.dir = ".vscode" if self.mode == "direct" else "d"
        self.out = os.path.join(TOP, "out")
        self.client = None
        self.supervisor = 0

    def __str__(self):
        return (f"{self.verb} {self.stage} {self.victim} {self.mode} {self.engine} {'group ' if self.grouped else ''}"
                f"{self.delay * 1000:.1f}ms")

    def options(self):
        words = ["-w", self.place, "--workspace-mode", self.mode]
        if self.engine:
            words += ["--engine", self.engine]
        if self.grouped:
            words += ["--memory", "512Mi", "--pids", "100"]
        return words

    def work(self):
        short = self.stage in ("setup", "end")
        pause = "" if short else "sleep 0.01;"
        tail = "" if short else f" sleep 600.{self.mark[5:].replace('x', '')} & sleep 600; : {self.mark}"
        return ["sh", "-c", WORK.format(n=3 if short else 10, dir=self.dir, pause=pause) + ";" + tail]

    def spawn(self, *words):
        with open(self.out, "ab") as out, open(self.out + ".err", "ab") as err:
            return subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    start_new_session=True)

    def printed(self):
        return [w for w in read(self.out).split() if w.isdigit() and len(w) < 12]

    def begin(self):
        os.makedirs(os.path.join(self.place, self.dir))
        open(self.out, "w").close()
        open(self.out + ".err", "w").close()
        if self.verb == "run":
            self.client = self.spawn("run", *self.options(), "--", *self.work())
        else:
            self.client = self.spawn("start", *self.options())

    def find(self):
        """The supervisor, when there is one by now."""
        if self.verb == "start" and self.client.poll() is not None:
            for run in os.listdir(RUNS):
                state = read(os.path.join(RUNS, run, "state.json"))
                if state and "supervisor" in (state := json.loads(state)):
                    self.supervisor = state["supervisor"]["pid"]
        else:
            self.supervisor = (children(self.client.pid) or [0])[0]

    def strike(self):
        time.sleep(self.delay)
        if self.victim != "client" or self.verb == "start":
            self.find() if not self.supervisor else None
        found = parts(self.supervisor)
        if self.victim == "all":
            kill([self.client.pid, self.supervisor or self.client.pid, *found.values()])
        elif self.victim == "client":
            kill([self.client.pid])
        elif self.victim == "supervisor":
            kill([self.supervisor or self.client.pid])
        else:
            kill([found.get(self.victim) or self.supervisor or self.client.pid])

    def go(self):
        self.begin()
        if self.stage == "setup":
            self.strike()
        elif self.verb == "run":
            end = 3 if self.stage == "end" else 1
            wait_until(lambda: len(self.printed()) < end and self.client.poll() is None, "the work does not start")
            self.strike()
        else:
            wait_until(lambda: self.client.poll() is None, "start does not return")
            if self.client.returncode != 0:
                raise Left("start: " + read(self.out + ".err"))
            run = read(self.out).strip()
            open(self.out, "w").close()
            self.find()
            if self.stage == "end": # what a run leaves behind is looked at without anybody being killed too
                self.client = self.spawn("exec", run, *self.work())
                self.client.wait()
                self.client = self.spawn("stop", "-t", "0", run)
            elif self.stage == "stop":
                execs = self.spawn("exec", run, *self.work())
                wait_until(lambda: not self.printed(), "the work does not start")
                self.client = self.spawn("stop", "-t", "1", run)
                self.strike()
                if self.victim == "client": # perhaps nobody heard of it
                    subprocess.run([PROGRAM, "stop", "-t", "0", run], capture_output=True, timeout=60, check=False)
                execs.wait(PATIENCE)
            else:
                self.client = self.spawn("exec", run, *self.work())
                if self.stage == "work":
                    wait_until(lambda: not self.printed() and self.client.poll() is None, "the work does not start")
            if self.stage != "stop":
                self.strike()
            self.client.wait(PATIENCE)
            if self.supervisor and self.victim in ("client", "init", "fsd"): # it may live on, and is to be stopped
                subprocess.run([PROGRAM, "stop", "-t", "0", run], capture_output=True, timeout=60, check=False)
        try:
            self.client.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Left("the client still waits") from None
        if self.verb == "start" and self.stage == "setup" and (run := read(self.out).strip()):
            subprocess.run([PROGRAM, "stop", "-t", "0", run], capture_output=True, timeout=60, check=False)
            open(self.out, "w").close() # whoever has told the id has done its part, and the run lives

    def look(self, before, groups_before):
        """After the dust has settled."""
        wait_until(lambda: ours(self.mark) or ours(f"600.{self.mark[5:].replace('x', '')}"), "processes")
        if TOP in read("/proc/self/mountinfo"):
            raise Left("mounts: " + read("/proc/self/mountinfo"))
        no_connections(before)
        cofferdam("gc")
        wait_until(lambda: cgroups() - groups_before, "cgroups")
        if again := cofferdam("gc"):
            raise Left(f"the second gc found {again}")
        if living := cofferdam("ps", "-q"):
            raise Left(f"ps: {living}")
        self.kept()
        self.files()

    def kept(self):
        """Every write that was printed is in a run, and reaches the workspace from there."""
        printed = {f"{self.dir}/k{n}" for n in self.printed()}
        runs = os.listdir(RUNS)
        for run in runs:
            changes = {c["path"] for c in json.loads(cofferdam("diff", "--json", run))["changes"]}
            if not changes and self.verb == "run":
                raise Left(f"run {run} holds nothing: {os.listdir(os.path.join(RUNS, run))}")
            if missing := sorted(n for n in printed if n not in changes):
                raise Left(f"written but not kept: {missing} of {sorted(printed)}")
            if not changes:
                cofferdam("rm", run)
                continue
            cofferdam("apply", run)
        if printed and not runs:
            raise Left(f"no run keeps {sorted(printed)}")
        for name in printed:
            if read(os.path.join(self.place, name)).strip() != name.rsplit("k", 1)[1]:
                raise Left(f"{name} holds {read(os.path.join(self.place, name), True)!r} after apply")

    def files(self):
        for run in os.listdir(RUNS):
            cofferdam("rm", run)
        left = [os.path.join(d, n) for d, _, names in os.walk(STATE) for n in names if n not in KNOWN]
        left += [os.path.join(d, n) for d, dirs, names in os.walk(self.place) for n in names + dirs
                 if n not in (".vscode", "d") and not re.fullmatch(r"k\d+", n)]
        left += [os.path.join(d, n) for d, _, names in os.walk(os.environ["XDG_RUNTIME_DIR"]) for n in names]
        if left or os.listdir(RUNS):
            raise Left(f"files: {left} {os.listdir(RUNS)}")


def main():
    rng = random.Random(SEED)
    failures = 0
    print(f"seed {SEED}, {COUNT} points")
    before, groups_before = connections() or set(), cgroups()
    for number in range(COUNT):
        point = Point(number, rng, os.geteuid() == 0)
        try:
            point.go()
            point.look(before, groups_before)
        except (Left, subprocess.TimeoutExpired) as e:
            failures += 1
            print(f"point {number}: {point}: {e}\n  stderr: {read(point.out + '.err').strip()}")
            for pid, *_ in ours(point.mark):
                kill([pid])
            subprocess.run(["chmod", "-R", "u+rwX", RUNS], check=False)
            shutil.rmtree(RUNS, ignore_errors=True)
            groups_before |= cgroups()
        finally:
            shutil.rmtree(point.place, ignore_errors=True)
        if failures == FAILURES_MAX:
            break
    print(f"{failures} of {COUNT} points left something")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
