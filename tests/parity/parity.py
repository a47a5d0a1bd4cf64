#!/usr/bin/env python3
"""The same specification, the same observable result: each case of cases.yaml on each driver that is named.

  parity.py [--write FILE] [--document FILE] [--only WORDS] COFFERDAM DRIVER[+WORD][=OPTION...]...

Prints TAP, then the matrix of drivers and cases; --write puts the matrix into FILE (docs/parity.md), between its marks,
and --document looks whether FILE names each case.
The working directory is used and must be empty. Engines are found by the environment (DOCKER_HOST, CONTAINERS_CONF).
"""
import argparse
import concurrent.futures
import fcntl
import http.server
import json
import os
import pty
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import yaml

CASE_SECONDS = 120
# Cases of a driver that mostly waits, for a cluster: so many side by side, each with a home and a state of its own
SIDE_BY_SIDE = {"kubernetes": 4}
HERE = os.path.dirname(os.path.abspath(__file__))


class Canary(http.server.BaseHTTPRequestHandler):
    """A server of the host."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"canary\n")

    def log_message(self, *_):
        pass


class Failed(Exception):
    """What a case gave differs from what its row says."""


def want(what, wanted, got):
    if wanted != got:
        raise Failed(f"{what}: want {wanted!r}, got {got!r}")


class Case:
    """One row on one driver."""

    def __init__(self, row, driver, options, place, port, program):
        column, driver = driver, driver.partition("+")[0]
        self.name = row["name"]
        role = "root" if os.geteuid() == 0 else "user"
        row = dict(row)
        self.why = None
        for key in (column, f"{column}/{role}"):
            other = row.get("differs", {}).get(key)
            if other:
                self.why = other["why"]
                row.update({k: v for k, v in other.items() if k != "why"})
        self.row = row
        self.T = place
        self.W = os.path.join(place, "w")
        self.events_file = os.path.join(place, "events")
        self.program = program
        with open("/proc/self/oom_score_adj", encoding="ascii") as f:
            score = f.read().strip()
        apart = driver in SIDE_BY_SIDE
        self.home = os.path.join(place, "home") if apart else os.environ["HOME"]
        self.values = {
            "BASE_SCORE": score,
            "W": self.W, "T": self.T, "HOME": self.home, "PORT": str(port), "NAME": driver,
            "UID": str(os.getuid()), "GID": str(os.getgid()), "C": program,
        }
        self.driver_options = ["--driver", driver] + ([] if row.get("own_image") else options)
        self.env = dict(os.environ, CALLERS="of the caller", PARITY_KEY="real-credential", T=self.T, W=self.W,
                        C=program, EVENTS=self.events_file, HOME=self.home)
        os.makedirs(self.W)
        if apart:
            self.env["XDG_STATE_HOME"] = os.path.join(place, "state")
            os.mkdir(self.home)

    def fill(self, text):
        return re.sub(r"\$(W|T|HOME|PORT|NAME|UID|GID)\b", lambda m: self.values[m.group(1)], text)

    def fill_all(self, value):
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, dict):
            return {k: self.fill_all(v) for k, v in value.items()}
        return [self.fill_all(v) for v in value] if isinstance(value, list) else value

    def shell(self, text):
        """A piece of shell on the host."""
        options = self.driver_options + ["--events", self.events_file]
        head = 'cof() { "$C" "$@"; }\nDRIVER=' + shlex.quote(" ".join(options)) + "\n"
        return ["bash", "-c", head + self.fill(text) if "cof" in text or "$DRIVER" in text else self.fill(text)]

    def host(self, key):
        if key in self.row:
            done = subprocess.run(self.shell(self.row[key]), cwd=self.W, env=self.env, capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=CASE_SECONDS, check=False)
            if done.returncode != 0:
                raise Failed(f"{key} on the host: {(done.stderr or b'it does not hold').decode(errors='replace').strip()}")

    def argv(self):
        command = self.row["command"]
        argv = [self.program, "run"] + self.driver_options + ["--events", self.events_file]
        if "spec" in self.row:
            spec = os.path.join(self.T, "case.json")
            with open(spec, "w", encoding="utf-8") as f:
                json.dump(self.fill_all(self.row["spec"]), f)
            argv += ["--spec", spec]
        argv += shlex.split(self.fill(self.row.get("options", "")))
        if self.row.get("json_code"):
            argv.append("--json")
        if self.row.get("tty"):
            argv.append("-t")
        words = command if isinstance(command, list) else ["sh", "-c", command]
        return argv + ["--"] + [word.replace("$PORT", self.values["PORT"]).replace("$BASE_SCORE", self.values["BASE_SCORE"]) for word in words]

    def stdin(self):
        many = self.row.get("stdin_repeat")
        if many:
            return (many["text"] * many["times"] + many["then"]).encode()
        return self.row.get("stdin", "").encode()

    def on_terminal(self):
        """The command on a terminal of 33 lines and 99 columns."""
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 99, 0, 0))
        with subprocess.Popen(self.argv(), cwd=self.W, env=self.env, stdin=slave, stdout=slave, stderr=subprocess.PIPE,
                              start_new_session=True) as child:
            os.close(slave)
            timer = threading.Timer(CASE_SECONDS, child.kill)
            timer.start()
            out = b""
            while True:
                try:
                    some = os.read(master, 65536)
                except OSError:
                    break
                if not some:
                    break
                out += some
            err = child.stderr.read()
            timer.cancel()
        os.close(master)
        return subprocess.CompletedProcess([], child.returncode, out, err)

    def execute(self):
        self.host("prepare")
        if self.row.get("tty"):
            return self.on_terminal()
        argv = self.shell(self.row["host"]) if "host" in self.row else self.argv()
        return subprocess.run(argv, cwd=self.W, env=self.env, input=self.stdin(), capture_output=True,
                              timeout=CASE_SECONDS, check=False)

    def events(self):
        try:
            with open(self.events_file, encoding="utf-8") as f:
                return [json.loads(line) for line in f]
        except FileNotFoundError:
            return []

    def check_events(self):
        seen = self.events()
        for wanted in self.row.get("events", []):
            (kind, data), = self.fill_all(wanted).items()
            if not any(e["type"] == kind and all(e["data"].get(k) == v for k, v in data.items()) for e in seen):
                raise Failed(f"no event {kind} {data}; there are " + ", ".join(e["type"] for e in seen))
        if self.row.get("gapless"):
            want("numbers of the events", list(range(seen[0]["seq"], seen[0]["seq"] + len(seen))), [e["seq"] for e in seen])

    def check_files(self):
        for name, content in self.row.get("files", {}).items():
            path = os.path.join(self.W, name)
            if content is None:
                want(f"'{name}' on the host", False, os.path.lexists(path))
                continue
            with open(path, encoding="utf-8") as f:
                want(f"'{name}' on the host", content, f.read())
        for name in self.row.get("host_owner", []):
            st = os.stat(os.path.join(self.W, name))
            want(f"owner of '{name}'", (os.getuid(), os.getgid()), (st.st_uid, st.st_gid))

    def check(self):
        done = self.execute()
        row = self.row
        codes = row.get("exit", 0)
        said = done.stderr.decode(errors="replace").strip()
        if done.returncode not in (codes if isinstance(codes, list) else [codes]):
            raise Failed(f"exit status: want {codes}, got {done.returncode}; stdout {done.stdout[-300:]!r}; said: {said[-600:]}")
        if "stdout" in row and row["stdout"] is not None and done.stdout.decode(errors="replace") != self.fill(row["stdout"]):
            raise Failed(f"stdout: want {self.fill(row['stdout'])!r}, got {done.stdout[-600:]!r}; said: {said[-600:]}")
        if "stdout_words" in row:
            want("stdout", row["stdout_words"], " ".join(done.stdout.decode().split()))
        if "stdout_bytes" in row:
            want("bytes of stdout", row["stdout_bytes"], len(done.stdout))
        if row.get("stderr", "") not in said:
            raise Failed(f"stderr: {row['stderr']!r} is not in: {said}")
        if "json_code" in row:
            want("failure_code", row["json_code"], json.loads(said.splitlines()[-1]).get("failure_code"))
        self.check_files()
        self.host("host_after")
        self.check_events()

    def clean(self):
        """Runs that the case kept, and what it put into the home."""
        for line in subprocess.run([self.program, "ps", "-aq"], env=self.env, capture_output=True, check=False).stdout.split():
            subprocess.run([self.program, "rm", "-f", line], env=self.env, capture_output=True, timeout=60, check=False)
        for name in os.listdir(self.home):
            if "parity" in name or name == "canary":
                path = os.path.join(self.home, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        shutil.rmtree(self.T, ignore_errors=True)


def verdict(case):
    """What a case gave: 'same', 'differs' (with its reason), or 'FAIL' with what was seen."""
    try:
        case.check()
        return ("differs", case.why) if case.why else ("same", "")
    except Failed as failed:
        return "FAIL", str(failed)
    except subprocess.TimeoutExpired:
        return "FAIL", f"not over after {CASE_SECONDS} s"
    finally:
        case.clean()


def verdicts(cases, workers):
    """Of @cases, in their order."""
    if workers == 1:
        yield from map(verdict, cases)
        return
    pool = concurrent.futures.ThreadPoolExecutor(workers)
    try:
        yield from pool.map(verdict, cases)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def matrix(rows, drivers, results):
    """As Markdown: a line for each case, a column for each driver, and the reasons below."""
    lines = ["| group | case | " + " | ".join(drivers) + " |", "|---" * (len(drivers) + 2) + "|"]
    reasons = []
    for row in rows:
        cells = []
        for driver in drivers:
            kind, why = results.get((row["name"], driver), ("-", ""))
            if kind == "differs":
                if why not in reasons:
                    reasons.append(why)
                kind = f"differs ({reasons.index(why) + 1})"
            cells.append(kind)
        lines.append(f"| {row['group']} | {row['name']} | " + " | ".join(cells) + " |")
    return lines + [""] + [f"{i}. {why}" for i, why in enumerate(reasons, 1)]


def write_between_marks(path, lines):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    begin, end = "<!-- matrix -->\n", "<!-- end of matrix -->\n"
    head, rest = text.split(begin)
    with open(path, "w", encoding="utf-8") as f:
        f.write(head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1])


def undocumented(path, rows):
    """Cases that the document does not name."""
    with open(path, encoding="utf-8") as f:
        lines = f.readlines()
    return [row["name"] for row in rows if not any(line.startswith(f"| {row['group']} | {row['name']} |") for line in lines)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write")
    parser.add_argument("--document")
    parser.add_argument("--only", default="")
    parser.add_argument("program")
    parser.add_argument("drivers", nargs="+")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with open(os.path.join(HERE, "cases.yaml"), encoding="utf-8") as f:
        rows = [row for row in yaml.safe_load(f) if args.only in row["name"] or args.only in row["group"]]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canary)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    role = "root" if os.geteuid() == 0 else "user"
    drivers = [d.partition("=")[0] for d in args.drivers]
    results, number, begin = {}, 0, time.monotonic()
    for spec in args.drivers:
        driver, _, options = spec.partition("=")
        mine = [row for row in rows if options or not row.get("image")]
        can = [row.get("roles", role) == role for row in mine]
        outcomes = verdicts((Case(row, driver, options.split(), os.path.join(os.getcwd(), f"{driver}-{i}"),
                                  server.server_port, args.program)
                             for i, row in enumerate(mine) if can[i]), SIDE_BY_SIDE.get(driver, 1))
        for i, row in enumerate(mine):
            number += 1
            title = f"{number} - {driver}: {row['group']}: {row['name']}"
            if not can[i]:
                print(f"ok {title} # SKIP only {'root' if row['roles'] == 'root' else 'a user'} can")
                continue
            kind, why = results[row["name"], driver] = next(outcomes)
            print(f"{'not ok' if kind == 'FAIL' else 'ok'} {title}", flush=True)
            if kind == "FAIL":
                print("#   " + why.replace("\n", "\n#   "), flush=True)
    if args.document:
        number += 1
        missing = undocumented(args.document, rows)
        print(f"{'not ok' if missing else 'ok'} {number} - the document names each case")
        for name in missing:
            print(f"#   {name}: write it with COFFERDAM_WRITE={args.document}")
    print(f"1..{number}")
    lines = matrix(rows, drivers, results)
    print("\n".join("# " + line for line in lines))
    print(f"# {role}, {time.monotonic() - begin:.0f} s")
    if args.write:
        write_between_marks(args.write, lines)


main()
