"""The launcher's side of the envelopes, for tests of the runner alone."""
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNER = os.environ["RUNNER"]


def check(holds, what):
    if not holds:
        sys.exit(f"FAIL: {what}")


def same(want, got, what):
    check(want == got, f"{what}: want {want!r}, got {got!r}")


class Api:
    """messages-api.py in a directory of its own."""

    def __init__(self, script, *options):
        self.dir = tempfile.mkdtemp(prefix="api.")  # not where the runner works
        atexit.register(shutil.rmtree, self.dir, True)
        with open(os.path.join(self.dir, "script.json"), "w", encoding="utf-8") as f:
            json.dump(script, f)
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "messages-api.py"), self.dir, *options])
        port = os.path.join(self.dir, "port")
        while not os.path.exists(port):
            check(self.process.poll() is None, "the server of the test ended")
            time.sleep(0.01)
        with open(port, encoding="utf-8") as f:
            self.port = int(f.read())
        self.url = f"http{'s' if '--tls' in options else ''}://127.0.0.1:{self.port}"

    def requests(self):
        with open(os.path.join(self.dir, "requests.jsonl"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def counts(self):
        with open(os.path.join(self.dir, "counts.json"), encoding="utf-8") as f:
            return json.load(f)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Run:
    """One runner. What it says is kept in .said; answers come from `answer(envelope)`, which may return a list."""

    def __init__(self, env=None, cwd=None, answer=None):
        self.said, self.answer = [], answer
        self.process = subprocess.Popen([RUNNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={"PATH": os.environ["PATH"], "HOME": "/", **(env or {})}, cwd=cwd)

    def send(self, kind, data=None, ident=None):
        line = {"type": kind}
        if ident is not None:
            line["id"] = ident
        if data is not None:
            line["data"] = data
        self.raw(json.dumps(line).encode() + b"\n")

    def raw(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def hang_up(self):
        """Ends what the runner reads; that it ended before it read all is no fault here."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass

    def next(self):
        line = self.process.stdout.readline()
        if not line:
            return None
        check(len(line) <= 4 << 20 and line.endswith(b"\n"), "a line of the runner is too long or not whole")
        envelope = json.loads(line)
        self.said.append(envelope)
        return envelope

    def result(self):
        """Reads on until the result, answering meanwhile."""
        while True:
            envelope = self.next()
            if envelope is None:
                sys.exit(f"FAIL: no result; stderr: {self.process.stderr.read().decode()}; said: {self.said[-3:]}")
            if envelope["type"] == "result":
                self.hang_up()
                self.code = self.process.wait(60)
                self.stderr = self.process.stderr.read().decode()
                check("Sanitizer" not in self.stderr and "runtime error" not in self.stderr, self.stderr)
                return envelope["data"]
            for reply in (self.answer(envelope) or []) if self.answer else []:
                self.send(*reply)

    def events(self, kind):
        return [e["data"]["payload"] for e in self.said if e["type"] == "event" and e["data"]["type"] == kind]


def tool(name, ident, /, **arguments):
    return {"type": "tool_use", "id": ident, "name": name, "input": arguments}


def task(model="m", tools=(), **more):
    return {"node_id": "n", "model": model, "user_prompt": "do it",
            "tool_defs": [t if isinstance(t, dict) else {"name": t} for t in tools], **more}


def env_of(api, **more):
    return {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_AUTH_TOKEN": "ifap_test", **more}


def run(script, tools=(), answer=None, before=(), api_options=(), env=None, **more):
    """A task from beginning to end. Returns the result, the run and the server (stopped, its files are there)."""
    api = Api(script, *api_options)
    try:
        r = Run(env_of(api, **(env or {})), answer=answer)
        for kind, data in before:
            r.send(kind, data)
        r.send("task", task(tools=tools, **more))
        result = r.result()
    finally:
        api.stop()
    for name in ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"):
        told = sum(e[name] for e in r.events("llm_step_finished"))
        same(api.counts()[name], told, f"metering: {name}")
    if "error" not in result or result.get("tokens"):
        same(sum(v for k, v in api.counts().items() if k != "requests"), result["tokens"], "tokens of the result")
    return result, r, api


def results_of(api, request=-1):
    """tool_result blocks that the request had at its end, by id: (text, is_error)."""
    out = {}
    for block in api.requests()[request]["body"]["messages"][-1]["content"]:
        if block["type"] == "tool_result":
            content = block["content"]
            text = content if isinstance(content, str) else "".join(b.get("text", "") for b in content)
            out[block["tool_use_id"]] = (text, block.get("is_error", False))
    return out
