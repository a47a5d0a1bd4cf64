#!/usr/bin/env python3
"""Case 21 through the protocol of launcher and runner: SBX_NDJSON and SBX_NDJSON_OUT of the shared cases.

    case-ndjson.py launch CMD...   have a task execute CMD by the tool bash, in the directory as workspace; prints the
                                   lines that the runner wrote
    case-ndjson.py raw             the output of CMD out of those lines

Output longer than the tool gives at once is read in pieces, whose borders fall into characters. A byte that is no part
of a character stands as \\xNN; text that looks so as well cannot be told from it, and the case has none.
The environment: C (cofferdam; its runner is beside it).
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile

PIECE, PIECES = 30001, 16
API = os.path.join(os.path.dirname(os.path.realpath(__file__)), "messages-api.py")
# what the launcher starts inside: the model's server, and the runner, of whom it keeps what it says
RUNNER = """#!/bin/sh
python3 /run/real/api /run/said &
while [ ! -s /run/said/port ]; do sleep 0.02; done
ANTHROPIC_BASE_URL=http://127.0.0.1:$(cat /run/said/port) /run/real/runner | tee /run/said/lines
kill $!
"""


def calls(command):
    yield f"{command} >.out 2>&1; echo $?"
    for i in range(PIECES):
        yield f"dd if=.out bs={PIECE} skip={i} count=1 2>/dev/null"
    yield "rm .out"


def launch(words):
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        blocks = [{"type": "tool_use", "id": f"t{i}", "name": "bash", "input": {"command": c}}
                  for i, c in enumerate(calls(shlex.join(words)))]
        for name in ("said", "bin", "libexec"):
            os.mkdir(f"{place}/{name}")
        with open(f"{place}/said/script.json", "w", encoding="utf-8") as f:
            json.dump([{"blocks": blocks}, {"text": "done"}], f)
        with open(f"{place}/task.json", "w", encoding="utf-8") as f:
            json.dump({"version": 1, "node_id": "n", "user_prompt": "p", "model": "m", "allowed_tools": ["bash"],
                       "context_window": 10000000}, f)
        subprocess.run(["cp", "-L", os.environ["C"], f"{place}/bin/cofferdam"], check=True)
        with open(f"{place}/libexec/cofferdam-runner", "w", encoding="utf-8") as f:
            f.write(RUNNER)
        os.chmod(f"{place}/libexec/cofferdam-runner", 0o755)
        real = os.path.realpath(os.path.join(os.path.dirname(os.environ["C"]), "../libexec/cofferdam-runner"))
        code = subprocess.run([f"{place}/bin/cofferdam", "launch", "--task", f"{place}/task.json", "--network", "none",
                               "--mount", f"type=bind,source={real},target=/run/real/runner,readonly",
                               "--mount", f"type=bind,source={API},target=/run/real/api,readonly",
                               "--mount", f"type=bind,source={place}/said,target=/run/said"],
                              stdout=subprocess.DEVNULL).returncode
        if code != 0:
            return code
        with open(f"{place}/said/lines", "rb") as f:
            sys.stdout.buffer.write(f.read())
        return 0


def raw():
    """Red without what text_json() does to bytes that are no character."""
    last = [e for e in map(json.loads, sys.stdin.buffer) if e["type"] == "session_capture"][-1]
    results = [b["content"] for m in last["data"]["messages"] if isinstance(m["content"], list)
               for b in m["content"] if b["type"] == "tool_result"]
    for text in results[1:1 + PIECES]:
        text = text if isinstance(text, str) else "".join(b["text"] for b in text)
        if text != "[no output]":
            sys.stdout.buffer.write(re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), text.encode()))


sys.exit(launch(sys.argv[2:]) if sys.argv[1] == "launch" else raw())
