#!/usr/bin/env python3
"""runner.py CASE: one case of runner.sh; the current directory is fresh."""
import importlib.util
import json
import os
import sys
import time

spec = importlib.util.spec_from_file_location("drive", os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                                                    "runner-drive.py"))
drive = importlib.util.module_from_spec(spec)
spec.loader.exec_module(drive)
check, same, run, tool, task = drive.check, drive.same, drive.run, drive.tool, drive.task


def text_task():
    result, r, api = run([{"text": "hello", "dribble": True, "interim": True}], system_prompt="be kind")
    same({"text": "hello"}, result["output"], "output")
    same(0, r.code, "exit status")
    same("hello", r.said[0]["type"], "the first envelope")
    q = api.requests()[0]
    same("Bearer ifap_test", q["headers"]["authorization"], "credential")
    same("2023-06-01", q["headers"]["anthropic-version"], "version of the API")
    same("be kind", q["body"]["system"][0]["text"], "system prompt")
    same("do it", q["body"]["messages"][0]["content"][0]["text"], "prompt")
    check(q["body"]["stream"] is True, "it asks for a stream")


def protocol_one():
    """A launcher of protocol 1 does not answer hello; the result has only the keys of that protocol."""
    result, r, _ = run([{"text": "x"}], session_id="s-9")
    known = {"output", "tokens", "duration_ms", "exit_code", "stderr", "backend_name", "raw_output_len", "parse_fallback",
             "formatting_pass_used", "session_id", "pending_conversation", "pending_tool_use_id", "error"}
    check(set(result) <= known, f"keys of protocol 1: {set(result) - known}")
    same("s-9", result["session_id"], "session_id")


def protocol_two():
    result, r, api = run([{"text": "x", "usage": {"cache_read_input_tokens": 7, "cache_creation_input_tokens": 3}}],
                         before=[("hello", {"protocol": 2, "version": "9"})])
    want = {k: v for k, v in api.counts().items()}
    same(want, result["usage"], "usage of the result, and what the server counted")


def parallel_tools():
    """Launcher tools are asked for before the runner's own run, and answers may come in any order."""
    asked = []

    def answer(e):
        if e["type"] != "tool_call":
            return None
        asked.append(e)
        if len(asked) < 2:
            return None
        check(not os.path.exists("f") or True, "")
        return [("tool_result", {"output": f"for {q['data']['input']['n']}"}, q["id"]) for q in reversed(asked)] + \
            [("tool_result", {"output": "late"}, asked[0]["id"]), ("tool_result", {"output": "nobody"}, "call-99"),
             ("tool_result", {"output": "no id"}), ("task", {"node_id": "x"}), ("whatever", {})]

    result, r, api = run([{"blocks": [{"type": "thinking", "thinking": "hm \u00e9", "signature": "sig=="},
                                      {"type": "text", "text": "now"},
                                      tool("todo_write", "t1", n=1), tool("bash", "t2", command="echo here >f; cat f"),
                                      tool("mcp_board_create", "t3", n=3)]}, {"text": "end"}],
                         tools=["todo_write", "bash", {"name": "mcp.board.create", "description": "d",
                                                       "input_schema": {"type": "object"}}], answer=answer)
    same({"text": "end"}, result["output"], "output")
    same(["todo_write", "mcp.board.create"], [q["data"]["name"] for q in asked], "names, as they were advertised")
    got = drive.results_of(api)
    same({"t1": ("for 1", False), "t2": ("here\n", False), "t3": ("for 3", False)}, got, "results")
    turn = api.requests()[1]["body"]["messages"][1]["content"]
    same({"type": "thinking", "thinking": "hm \u00e9", "signature": "sig=="}, turn[0], "the thinking block goes back whole")
    same(["t1", "t2", "t3"], [b["tool_use_id"] for b in api.requests()[1]["body"]["messages"][2]["content"]], "their order")
    same({"t1", "t2", "t3"}, {e["tool_use_id"] for e in r.events("tool_called")}, "events")
    same(3, len(r.events("tool_started")), "tool_started")


def bad_calls():
    """A tool that is not advertised, an input that is no JSON, an input that does not fit, a denied one."""
    result, r, api = run([{"blocks": [tool("write_file", "t1", path="a", content="x"),
                                      {"type": "tool_use", "id": "t2", "name": "bash", "input": {}, "raw": "{\"command\": \"x"},
                                      tool("bash", "t3", command=7), tool("bash", "t4", command="rm x"),
                                      tool("bash ", "t5", command="echo"), tool("Bash", "t6", command="echo")]}],
                         tools=["bash"], before=[("permission_policy", {"rules": ["deny: bash(rm *)"]})])
    got = drive.results_of(api)
    same(6, len(got), "results")
    check(all(error for _, error in got.values()), f"all fail: {got}")
    check("no JSON" in got["t2"][0] and "schema" in got["t3"][0] and "not permitted" in got["t4"][0], got)
    check(not os.path.exists("a"), "nothing was written")


def retries():
    script = [{"status": 429, "retry_after": 1, "error": {"type": "rate_limit_error", "message": "slow down"}},
              {"status": 529, "error": {"type": "overloaded_error", "message": "busy"}},
              {"text": "half of it", "cut": 4},
              {"text": "in the stream", "sse_error": {"type": "overloaded_error", "message": "busy"}},
              {"raw": "event: x\ndata: no json\n\n"}, {"text": "at last"}]
    result, r, api = run(script)
    same({"text": "at last"}, result["output"], "output")
    times = [q["time"] for q in api.requests()]
    check(times[1] - times[0] >= 1.0, f"retry-after was waited for: {times[1] - times[0]}")
    same([429, 529, 200, 529, 200], [e["status"] for e in r.events("llm_retry")], "what was retried")
    bodies = [json.dumps(q["body"]) for q in api.requests()]
    same(1, len(set(bodies)), "the same request each time: nothing of the cut answer is in it")


def hostile_model():
    """Answers that do not end, that would take gigabytes, that no launcher would take, numbers that are none."""
    comments = {"raw": (":" + "x" * 1000 + "\n") * 1000, "times": 180}  # 180 MB without one event
    result, _, _ = run([comments], max_retries=0)
    check("does not end" in result["error"], result["error"])
    for bomb in ("{}," * 100000, "[" * 200 + "]" * 200 + ","):
        result, _, _ = run([{"raw": 'data: {"type": "x", "a": [' + bomb + '0]}\n\n'}], max_retries=0)
        check("nested too deep, or has too many objects" in result["error"], result["error"])
    deep = '{"todos": ' + "[" * 120 + "]" * 120 + "}"
    use = {"type": "tool_use", "id": "t1", "name": "todo_write", "input": {}, "raw": deep}
    result, r, api = run([{"blocks": [use]}], tools=["todo_write"])
    check("no JSON" in drive.results_of(api)["t1"][0] and not [e for e in r.said if e["type"] == "tool_call"], "too deep a call")
    most = 2 ** 63 - 1
    usage = {"input_tokens": most, "output_tokens": most, "cache_read_input_tokens": -1, "cache_creation_input_tokens": 1.5}
    events = [("message_start", {"message": {"usage": usage}}),
              ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": "hi"}}),
              ("content_block_stop", {"index": 0}),
              ("message_delta", {"delta": {"stop_reason": "\u00e9" * 40}, "usage": usage}), ("message_stop", {})]
    raw = "".join(f"data: {json.dumps({'type': t, **e})}\n\n" for t, e in events)
    result, r, _ = run([{"raw": raw}])  # run() compares with what was counted: nothing
    same({"text": "hi"}, result["output"], "output")
    same(["done"], [e["outcome"] for e in r.events("llm_step_finished")], "the request is told of")
    same(0, result["tokens"], "tokens")


def no_retry():
    for status, kind in ((400, "invalid_request_error"), (401, "authentication_error"), (404, "not_found_error")):
        result, r, api = run([{"status": status, "error": {"type": kind, "message": "because"}}])
        check("because" in result["error"] and r.code == 1, f"{status}: {result}")
        same(1, len(api.requests()), "requests")
    result, r, api = run([{"status": 503, "retry_after": 0, "loop": True}], max_retries=1)
    same(2, len(api.requests()), "max_retries")
    check("503" in result["error"], result)


def overflow():
    """The server refuses what is longer than 40 kB; after compaction it is shorter and the work goes on."""
    script = [{"blocks": [tool("read_file", f"t{i}", path="big")]} for i in range(4)] + [{"text": "a summary"}, {"text": "end"}]
    with open("big", "w", encoding="utf-8") as f:
        f.write("0123456789" * 10 + "\n")
        f.write("x" * 1900 + "\n" + ("y" * 1900 + "\n") * 6)
    result, r, api = run(script, tools=["read_file"], api_options=["--context", "45000"], compact_preserve_recent=2)
    same({"text": "end"}, result["output"], "output")
    c = r.events("llm_compacted")
    check(len(c) >= 1 and c[0]["bytes_after"] < c[0]["bytes_before"], c)
    last = api.requests()[-1]["body"]["messages"]
    check("a summary" in json.dumps(last[0]) and "do it" in json.dumps(last[0]), "task and summary are in the first message")
    open_calls = set()
    for m in last:
        for b in m["content"] if isinstance(m["content"], list) else []:
            if b["type"] == "tool_use":
                open_calls.add(b["id"])
            if b["type"] == "tool_result":
                check(b["tool_use_id"] in open_calls, "an answer without its question")
                open_calls.discard(b["tool_use_id"])
    check(not open_calls, "a question without its answer")


def overflow_for_good():
    result, r, api = run([{"text": "never"}], api_options=["--context", "100"])
    check("too long" in result["error"] and r.code == 1, result)
    check(len(api.requests()) <= 5, "it gives up")


def threshold():
    script = [{"blocks": [tool("bash", f"t{i}", command="true")], "usage": {"input_tokens": 900}} for i in range(3)] + \
        [{"text": "sum"}, {"text": "end"}]
    result, r, api = run(script, tools=["bash"], context_window=1000, compact_threshold_ratio=0.8, compact_preserve_recent=2)
    check(len(r.events("llm_compacted")) >= 1, "compacted before the model complained")
    check(result["output"], result)


def limits():
    result, r, _ = run([{"blocks": [tool("bash", "t1", command="true")], "loop": True}], tools=["bash"], tool_max_steps=3)
    check("tool_max_steps" in result["error"], result)
    same(3, len([e for e in r.said if e["type"] == "session_capture"]), "turns")


def structured():
    schema = {"type": "object", "properties": {"verdict": {"type": "string", "enum": ["pass", "fail"]}},
              "required": ["verdict"], "additionalProperties": False}
    result, r, api = run([{"blocks": [tool("structured_output", "t1", verdict="maybe")]},
                          {"blocks": [tool("structured_output", "t2", verdict="pass")]}], output_schema=schema)
    same({"verdict": "pass"}, result["output"], "output")
    check("schema" in drive.results_of(api)["t1"][0], "the first was refused")
    same(schema, api.requests()[0]["body"]["tools"][0]["input_schema"], "the schema is the tool's")
    result, r, api = run([{"text": "so: {\"verdict\": \"fail\"} ok"}], output_schema=schema)
    same({"verdict": "fail"}, result["output"], "output out of words")
    check(result["parse_fallback"] is True, result)
    result, r, api = run([{"text": "pass"}, {"blocks": [tool("structured_output", "t2", verdict="pass")]}],
                         output_schema=schema)
    check(result["output"] == {"verdict": "pass"} and result["formatting_pass_used"] is True, result)


def pause_resume():
    def answer(e):
        if e["type"] == "tool_call":
            return [("tool_result", {"ask_user": {"question": "Merge?", "options": [{"label": "yes"}]}}, e["id"])]
        return None

    script = [{"blocks": [{"type": "thinking", "thinking": "t", "signature": "s"}, tool("ask_user", "t1", question="Merge?"),
                          tool("bash", "t2", command="echo two")]}]
    result, r, api = run(script, tools=["ask_user", "bash"], answer=answer)
    same("t1", result["pending_tool_use_id"], "pending")
    check("output" not in result and r.code == 0, result)
    again, r, api = run([{"text": "merged"}], tools=["ask_user", "bash"], resume_conversation=result["pending_conversation"],
                        resume_pending_tool_use_id="t1", resume_answer="yes")
    same({"text": "merged"}, again["output"], "output")
    got = drive.results_of(api)
    same({"t1": ("yes", False), "t2": ("two\n", False)}, got, "both answers are there")
    same("s", api.requests()[0]["body"]["messages"][1]["content"][0]["signature"], "the signature came through")


def questions():
    def answer(e):
        if e["type"] == "ask_user":
            same("need a choice", e["data"]["reason"], "reason")
            return [("ask_user_answer", {"answers": {"Which?": "main"}}, e["id"])]
        return None

    _, _, api = run([{"blocks": [tool("ask_user", "t1", reason="need a choice", questions=[{"question": "Which?"}])]}],
                    tools=["ask_user"], answer=answer, interaction_enabled=True)
    same(("{\"Which?\":\"main\"}", False), drive.results_of(api)["t1"], "answer")
    _, _, api = run([{"blocks": [tool("ask_user", "t1", questions=[])]}], tools=["ask_user"], interaction_enabled=True,
                    answer=lambda e: [("ask_user_answer", {"answers": {"__error__": "nobody"}}, e["id"])]
                    if e["type"] == "ask_user" else None)
    same(("nobody", True), drive.results_of(api)["t1"], "error")


def replay():
    """What was captured is replayed; messages that are none are left out with a warning, and a dangling call is closed."""
    old = [{"role": "user", "content": "earlier"}, 5, {"role": "robot", "content": "x"},
           {"role": "assistant", "content": [tool("bash", "gone", command="x")]}]
    result, r, api = run([{"text": "x"}], before=[("session_replay", {"messages": old}), ("session_replay", ["broken"])])
    messages = api.requests()[0]["body"]["messages"]
    same("earlier", messages[0]["content"][0]["text"] if isinstance(messages[0]["content"], list) else messages[0]["content"],
         "the earlier session")
    check(any(b.get("tool_use_id") == "gone" and b["is_error"] for m in messages for b in m["content"]
              if isinstance(b, dict)), "the dangling call has an answer")
    check("session_replay" in r.stderr and "session replay" in r.stderr, r.stderr)
    captured = [e for e in r.said if e["type"] == "session_capture"][-1]["data"]["messages"]
    result, r, api = run([{"text": "y"}], before=[("session_replay", {"messages": captured})])
    check(len(api.requests()[0]["body"]["messages"]) == len(captured) + 1, "what was captured is what goes on")


def snapshots():
    """A snapshot over 2 MiB is left out whole, its size stays; the capture, which would be over 4 MiB, is dropped aloud."""
    def answer(e):
        return [("tool_result", {"output": "x" * 1040000}, e["id"])] if e["type"] == "tool_call" else None

    result, r, _ = run([{"blocks": [tool("todo_write", f"t{i}{k}") for k in range(2)]} for i in range(3)] + [{"text": "end"}],
                       tools=["todo_write"], answer=answer)
    same({"text": "end"}, result["output"], "output")
    shots = r.events("llm_turn_capture")
    big = [s for s in shots if s["snapshot_bytes"] > 2 << 20]
    check(big and all("snapshot" not in s for s in big), "over 2 MiB: left out")
    check("session capture" in r.stderr, f"dropped aloud: {r.stderr!r}")


def clamp():
    """A result of the launcher over 1 MiB is cut with a marker that says how much."""
    def answer(e):
        return [("tool_result", {"output": "x" * (3 << 20)}, e["id"])] if e["type"] == "tool_call" else None

    _, _, api = run([{"blocks": [tool("todo_write", "t1")]}], tools=["todo_write"], answer=answer)
    text = drive.results_of(api)["t1"][0]
    check(len(text) < (1 << 20) + 100 and f"[{2 << 20} bytes cut]" in text, text[-100:])


def before_the_task():
    """Anything else before the task is fatal, says why, and no model is asked."""
    api = drive.Api([])
    try:
        for name, lines, want in (
                ("event", [b'{"type":"event","data":{}}'], 'unexpected envelope "event" before task'),
                ("new", [b'{"type":"brand_new"}'], 'unexpected envelope "brand_new" before task'),
                ("answer", [b'{"type":"tool_result","id":"call-1","data":{"output":"x"}}'], "before task"),
                ("policy", [b'{"type":"permission_policy","data":{"rules":[5]}}'], "permission_policy"),
                ("json", [b'{"type":'], "malformed"), ("no type", [b'{"data":{}}'], "no type"),
                ("list", [b'[1]'], "malformed"), ("twice", [b'{"type":"task","type":"task"}'], "malformed"),
                ("deep", [b'{"type":"task","data":' + b"[" * 300 + b"]" * 300 + b"}"], "deep"),
                ("utf-8", [b'{"type":"\xff"}'], "malformed"), ("long", [b'{"type":"' + b"x" * (4 << 20)], "longer than"),
                ("node", [b'{"type":"task","data":{}}'], "node_id"), ("data", [b'{"type":"task"}'], "no data"),
                ("lsp", [json.dumps({"type": "task", "data": task(tools=["lsp"])}).encode()], "CAPABILITY_UNSUPPORTED"),
                ("tool", [json.dumps({"type": "task", "data": task(tools=["image_gen"])}).encode()], "CAPABILITY_UNSUPPORTED"),
                ("end", [], "ended before a task")):
            r = drive.Run(drive.env_of(api))
            for line in lines:
                r.raw(line + b"\n")
            if name == "end":
                r.hang_up()
            while True:
                e = r.next()
                check(e is not None, f"{name}: no result")
                if e["type"] == "result":
                    break
            r.process.wait(30)
            check(want in e["data"].get("error", ""), f"{name}: {e['data']}")
            same(1, r.process.returncode, f"{name}: exit status")
        check(not os.path.exists(os.path.join(api.dir, "requests.jsonl")), "a model was asked")
    finally:
        api.stop()


def line_limit():
    """A line of exactly 4 MiB, its newline included, is taken; one byte more ends the channel."""
    api = drive.Api([{"loop": True, "text": "x"}])
    try:
        for over in (0, 1):
            r = drive.Run(drive.env_of(api))
            line = json.dumps({"type": "task", "data": {**task(), "system_prompt": ""}}).encode() + b"\n"
            pad = (4 << 20) - len(line) + over
            line = json.dumps({"type": "task", "data": {**task(), "system_prompt": "s" * pad}}).encode() + b"\n"
            same((4 << 20) + over, len(line), "the line of the test")
            r.raw(line)
            result = r.result()
            check(("error" in result) == bool(over), f"{over} over: {str(result)[:200]}")
    finally:
        api.stop()


def hang_up():
    """The launcher goes away: the runner ends whatever it waits for, and so does what it started."""
    api = drive.Api([{"blocks": [tool("bash", "t1", command="sleep 987 & sleep 986")]}, {"silent": 60}])
    try:
        r = drive.Run(drive.env_of(api))
        r.send("task", task(tools=["bash"]))
        while not r.events("tool_started"):
            check(r.next() is not None, "it ended too early")
        r.hang_up()
        r.process.wait(60)
        check(r.process.returncode != 0, "exit status")
    finally:
        api.stop()


def tls():
    """https with a certificate that is checked, directly and through a proxy that has to be asked for the tunnel."""
    os.system("openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=x "
              "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 2>/dev/null")
    api = drive.Api([{"loop": True, "text": "x"}], "--tls", os.path.abspath("cert"), os.path.abspath("key"))
    proxy = Proxy(api.port)
    try:
        for env, want in (({"SSL_CERT_FILE": os.path.abspath("cert")}, None), ({}, "certificate"),
                          ({"SSL_CERT_FILE": os.path.abspath("cert"), "HTTPS_PROXY": f"http://u:p@127.0.0.1:{proxy.port}",
                            "ANTHROPIC_BASE_URL": "https://model.example.org:4443"}, "certificate"),
                          ({"SSL_CERT_FILE": os.path.abspath("cert"), "https_proxy": f"http://127.0.0.1:{proxy.port}",
                            "ANTHROPIC_BASE_URL": "https://refused.example.org"}, "403"),
                          ({"SSL_CERT_FILE": os.path.abspath("cert"), "https_proxy": "http://127.0.0.1:1",
                            "no_proxy": "localhost,127.0.0.1"}, None)):
            r = drive.Run({**drive.env_of(api), **env})
            r.send("task", task(max_retries=0))
            result = r.result()
            check(want in result["error"] if want else result.get("output") == {"text": "x"}, f"{env}: {result}")
        same("CONNECT model.example.org:4443 HTTP/1.1", proxy.asked[0][0], "what the proxy was asked")
        check("Proxy-Authorization: Basic dTpw" in proxy.asked[0], proxy.asked[0])
    finally:
        proxy.stop()
        api.stop()


class Proxy:
    """A CONNECT proxy that leads everything to one port, and refuses names with 'refused'."""

    def __init__(self, to):
        import socket
        import threading
        self.asked, self.to = [], to
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        import threading
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(client,), daemon=True).start()

    def one(self, client):
        import socket
        import threading
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        lines = head.decode().split("\r\n")
        self.asked.append(lines)
        if "refused" in lines[0]:
            client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self.to))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        def copy(a, b):
            try:
                while data := a.recv(65536):
                    b.sendall(data)
                b.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        threading.Thread(target=copy, args=(client, server), daemon=True).start()
        copy(server, client)

    def stop(self):
        self.socket.close()


def busybox():
    """In a root that has the runner and a busybox only, as an image has it; said by runner.sh what RUNNER is."""
    result, _, api = run([{"blocks": [tool("bash", "t1", command="cd /tmp; X=1; echo $0"),
                                      tool("bash", "t2", command="pwd; echo $X"), tool("glob", "t3", pattern="bin/*")]}],
                         tools=["bash", "glob"], work_dir="/")
    got = drive.results_of(api)
    same("/tmp\n1\n", got["t2"][0], "the shell of busybox keeps its state")
    check("bin/busybox" in got["t3"][0], got)


def memory():
    """The runner that waits: what it has in memory, in KiB."""
    api = drive.Api([{"blocks": [tool("todo_write", "t1")]}])
    try:
        r = drive.Run(drive.env_of(api))
        r.send("task", task(tools=["todo_write", "bash"]))
        while not any(e["type"] == "tool_call" for e in r.said):
            check(r.next() is not None, "it ended")
        with open(f"/proc/{r.process.pid}/smaps_rollup", encoding="ascii") as f:
            kib = {line.split(":")[0]: int(line.split()[1]) for line in f if "kB" in line}
        print(kib["Rss"], kib["Pss"])
        check(kib["Rss"] <= 8192, f"Rss {kib['Rss']} KiB")
        r.process.kill()
        r.process.wait()
    finally:
        api.stop()


# --- tools ------------------------------------------------------------------------------------------------


def calls(*uses, **more):
    """Calls of one turn: their (text, failed), in order."""
    blocks = [tool(name, f"t{i}", **arguments) for i, (name, arguments) in enumerate(uses)]
    result, r, api = run([{"blocks": blocks}], tools=sorted({name for name, _ in uses}), **more)
    check("error" not in result, result)
    content = api.requests()[1]["body"]["messages"][-1]["content"]
    out = []
    for block in content:
        c = block["content"]
        out.append((c if isinstance(c, str) else c, block.get("is_error", False)))
    return out


def bash_state():
    got = calls(("bash", {"command": "mkdir d; cd d; export X=1; f() { echo fn; }"}), ("bash", {"command": "pwd; echo $X; f"}),
                ("bash", {"command": "echo out; echo err >&2; exit 3"}), ("bash", {"command": "pwd; echo [$X]"}),
                ("bash", {"command": "false"}), ("bash", {"command": "exec 1>&- 2>&- 3>&- 4>&- 5>&- 7>&-; true"}),
                ("bash", {"command": "echo still"}), ("bash", {"command": "cat"}), ("bash", {"command": "if"}),
                ("bash", {"command": "echo after"}), ("bash", {"restart": True}), ("bash", {"command": "pwd"}))
    here = os.getcwd()
    same((f"{here}/d\n1\nfn\n", False), got[1], "directory, variable, function")
    check(got[2][1] and got[2][0].startswith("out\nerr\n") and "exit status 3" in got[2][0], got[2])
    same((f"{here}/d\n[]\n", False), got[3], "a new shell where the old one was")
    check(got[4] == ("[exit status 1]", True), got[4])
    same(("still\n", False), got[6], "after a command that closed everything")
    same(("[no output]", False), got[7], "standard input is empty")
    check(got[8][1] and "syntax" in got[8][0], got[8])
    same(("after\n", False), got[9], "after a syntax error")
    same((f"{here}\n", False), got[11], "after restart")


def pids_of(mark):
    out = []
    for pid in os.listdir("/proc"):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if mark.encode() in f.read():
                    out.append(int(pid))
        except (OSError, ValueError):
            pass
    return out


def gone(mark):
    """Whether no process with this in its command line is left in the end: what was killed may have it a moment longer."""
    end = time.monotonic() + 60
    while pids_of(mark) and time.monotonic() < end:
        time.sleep(0.05)
    return not pids_of(mark)


def bash_hostile():
    """A command that is not done in time is killed with all it left, wherever it hid and whatever it ignores."""
    mark = f"9876.{os.getpid()}"  # of this test alone: the one of another user may run now, too
    got = calls(("bash", {"command": f"sleep 1{mark} & cd /tmp; echo bg"}),
                ("bash", {"timeout_ms": 4000, "command": f"trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep 2{mark}; sleep 2{mark}' & "
                          f"(setsid setsid sleep 3{mark} &) ; echo begun; sleep 4{mark}"}),
                ("bash", {"command": "pwd"}), ("bash", {"timeout_ms": 1500, "command": "yes flood"}),
                ("bash", {"command": "head -c 3000000 /dev/zero | tr '\\0' a; echo; echo end"}),
                ("bash", {"command": "printf 'bad \\377 byte'"}), ("bash", {"command": f"sleep 5{mark} & disown; exit 0"}),
                ("bash", {"timeout_ms": 1500, "command": f"f() {{ f | f & }}; sleep 6{mark}"}))
    check(got[0] == ("bg\n", False), got[0])
    check(got[1][1] and "begun" in got[1][0] and "not done after 4000 ms" in got[1][0], got[1])
    same(("/tmp\n", False), got[2], "where the new shell is")
    check(got[3][1] and "bytes cut]" in got[3][0] and len(got[3][0]) < 200000, got[3][0][-200:])
    check(not got[4][1] and "bytes cut]" in got[4][0] and got[4][0].endswith("\nend\n"), got[4][0][-100:])
    same(("bad \\xff byte", False), got[5], "bytes that are not UTF-8")
    check(got[7][1], got[7])
    check(gone(mark), "something still runs")


def edit():
    with open("lf", "w", newline="", encoding="utf-8") as f:
        f.write("one\ntwo\ntwo\nlast")
    with open("crlf", "w", newline="", encoding="utf-8") as f:
        f.write("one\r\ntwo\r\nthree\r\n")
    with open("mixed", "w", newline="", encoding="utf-8") as f:
        f.write("a\r\nb\nc")
    with open("bin", "wb") as f:
        f.write(b"a\0b")
    with open("latin", "wb") as f:
        f.write(b"caf\xe9 old\n")
    os.chmod("lf", 0o750)
    os.link("crlf", "crlf2")
    os.symlink("latin", "link")
    e = lambda path, old, new, **m: ("file_edit", {"path": path, "old_string": old, "new_string": new, **m})  # noqa: E731
    got = calls(e("lf", "two", "2"), e("lf", "none", "x"), e("lf", "last", "end"), e("crlf", "two\nthree", "2\n2b\nthree"),
                e("mixed", "b", "B\nB"), e("bin", "a", "b"), e("latin", "old", "new"), e("lf", "two", "2", replace_all=True),
                e("lf", "one", "one"), e("none", "a", "b"), e("lf", "", "b"), e("link", "new", "newer"), e(".", "a", "b"),
                e(os.getcwd() + "/lf", "2\n2", "3"))
    check(got[0][1] and "2 times" in got[0][0], got[0])
    check(got[1][1] and not got[2][1] and not got[3][1] and not got[4][1] and got[5][1], got)
    check(got[8][1] and got[9][1] and got[10][1] and got[12][1], got)
    same(b"one\n3\nend", open("lf", "rb").read(), "no final newline is made")
    same(0o750, os.stat("lf").st_mode & 0o777, "mode")
    same(b"one\r\n2\r\n2b\r\nthree\r\n", open("crlf", "rb").read(), "CR LF stays")
    same(open("crlf", "rb").read(), open("crlf2", "rb").read(), "the other name of the file")
    same(b"a\r\nB\nB\nc", open("mixed", "rb").read(), "mixed line ends stay")
    same(b"caf\xe9 newer\n", open("latin", "rb").read(), "bytes that are not UTF-8 stay")
    check(os.path.islink("link"), "the link stays")


def paths():
    """Nothing leads out of the work directory, nothing blocks."""
    os.mkdir("work")
    os.mkdir("outside")
    with open("outside/secret", "w", encoding="utf-8") as f:
        f.write("secret")
    os.symlink("../outside/secret", "work/out")
    os.symlink("../outside", "work/outdir")
    os.symlink("/etc/passwd", "work/abs")
    os.symlink("loop", "work/loop")
    os.symlink("nothing", "work/dangling")
    os.symlink("in/file", "work/inner")
    os.mkdir("work/in")
    with open("work/in/file", "w", encoding="utf-8") as f:
        f.write("inside\n")
    os.mkfifo("work/fifo")
    bad = ["out", "outdir/secret", "abs", "loop", "dangling", "../outside/secret", "/etc/passwd", "in/../../outside/secret",
           "fifo", "in", ".", "/proc/self/environ", "x" * 5000, "\u00e9" * 300]
    uses = []
    for path in bad:
        uses += [("read_file", {"path": path}), ("file_edit", {"path": path, "old_string": "a", "new_string": "b"}),
                 ("write_file", {"path": path, "content": "x"}), ("read_image", {"path": path}),
                 ("notebook_edit", {"path": path, "cell_number": 0})]
    got = []
    for at in range(0, len(uses), 35):
        got += calls(*uses[at:at + 35], work_dir=os.path.abspath("work"))
    for (name, arguments), (text, failed) in zip(uses, got):
        check(failed, f"{name} {arguments['path'][:40]}: {text[:100]}")
        check("secret" not in text.replace("outside/secret", "").replace("outdir/secret", ""), text)
    same("secret", open("outside/secret", encoding="utf-8").read(), "what is outside")
    got = calls(("read_file", {"path": "inner"}), ("grep", {"pattern": "secret|inside"}), ("glob", {"pattern": "**"}),
                ("grep", {"pattern": "x", "path": "outdir"}), ("grep", {"pattern": "inside", "path": "in/file"}),
                ("write_file", {"path": "new/deep/er", "content": "x"}), ("glob", {"pattern": "*", "path": "/etc"}),
                work_dir=os.path.abspath("work"))
    same(("     1\tinside\n", False), got[0], "a link that stays inside")
    check("in/file:1:inside" in got[1][0] and "secret" not in got[1][0], got[1])
    check("outdir/secret" not in got[2][0] and "in/file" in got[2][0], got[2])
    check(got[3][1] and got[6][1], got)
    check("in/file:1:inside" in got[4][0], got[4])
    check(os.path.exists("work/new/deep/er"), "directories are made")
    got = calls(("write_file", {"path": "no", "content": "x"}), ("file_edit", {"path": "in/file", "old_string": "i", "new_string": "j",
                "replace_all": True}), work_dir=os.path.abspath("work"), readonly=True)
    check(got[0][1] and got[1][1] and not os.path.exists("work/no"), "readonly")


def reading():
    with open("long", "w", encoding="utf-8") as f:
        f.write("".join(f"line {i}\n" for i in range(1, 5001)))
    with open("wide", "w", encoding="utf-8") as f:
        f.write("w" * 100000)
    with open("bin", "wb") as f:
        f.write(bytes(range(256)))
    with open("latin", "wb") as f:
        f.write(b"caf\xe9\r\n")
    open("empty", "w", encoding="utf-8").close()
    with open("huge", "wb") as f:
        f.truncate(100 << 20)
    with open("dot.png", "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + b"data")
    got = calls(("read_file", {"path": "long"}), ("read_file", {"path": "long", "offset": 4999}), ("read_file", {"path": "long", "offset": 6000}),
                ("read_file", {"path": "wide"}), ("read_file", {"path": "bin"}), ("read_file", {"path": "latin"}),
                ("read_file", {"path": "empty"}), ("read_file", {"path": "huge"}), ("read_image", {"path": "dot.png"}),
                ("read_image", {"path": "long"}), ("read_file", {"path": "long", "offset": 0}), ("read_file", {"path": "long", "more": 1}))
    check("  2000\tline 2000\n" in got[0][0] and "read on with offset 2001" in got[0][0], got[0][0][-200:])
    same(("  4999\tline 4999\n  5000\tline 5000\n", False), got[1], "the end")
    check(got[2][1] and "5000 lines" in got[2][0], got[2])
    check("[98000 bytes of this line cut]" in got[3][0], got[3][0][-100:])
    check(got[4][1] and "binary" in got[4][0], got[4])
    same(("     1\tcaf\\xe9\n", False), got[5], "not UTF-8")
    same(("[the file is empty]", False), got[6], "empty")
    check(got[7][1] and "more than" in got[7][0], got[7])
    same([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgpkYXRh"}}],
         [{k: v for k, v in b.items() if k != "cache_control"} for b in got[8][0]], "an image")
    check(got[9][1] and got[10][1] and "schema" in got[10][0] and "unknown: 'more'" in got[11][0], got[9:])


def searching():
    os.makedirs("src/deep/er")
    os.mkdir(".git")
    for path, text in (("src/a.c", "int main(void)\n{\n  return 0;\n}\n"), ("src/deep/b.h", "#define X 1\n"),
                       ("src/deep/er/c.ts", "const x = 1\n"), ("top.md", "Main thing\n"), (".git/config", "main\n"),
                       ("weird {x}", "main\n")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    with open("bin", "wb") as f:
        f.write(b"main\0")
    got = calls(("glob", {"pattern": "*.c"}), ("glob", {"pattern": "src/**/*.{h,ts}"}), ("glob", {"pattern": "src/*"}),
                ("grep", {"pattern": "main"}), ("grep", {"pattern": "MAIN", "ignore_case": True, "output_mode": "files_with_matches"}),
                ("grep", {"pattern": "return", "context": 1}), ("grep", {"pattern": "(("}), ("grep", {"pattern": "x", "glob": "*.ts", "output_mode": "count"}),
                ("workspace_grep", {"query": "(void)"}), ("grep", {"pattern": "(a|a?)*" * 20 + "b\\1"}), ("glob", {"pattern": "{a,b}" * 20}),
                ("glob", {"pattern": "**/" * 200 + "x"}), ("grep", {"pattern": "main", "limit": 1}), ("glob", {"pattern": "nothing*"}))
    same(("src/a.c\n", False), got[0], "a name anywhere")
    same(("src/deep/b.h\nsrc/deep/er/c.ts\n", False), got[1], "two stars and braces")
    same(("src/a.c\n", False), (got[2][0].replace("src/deep\n", ""), got[2][1]), "one star")
    check("src/a.c:1:int main" in got[3][0] and ".git" not in got[3][0] and "bin" not in got[3][0], got[3])
    check("top.md\n" in got[4][0] and "src/a.c\n" in got[4][0], got[4])
    same(("src/a.c-2-{\nsrc/a.c:3:  return 0;\nsrc/a.c-4-}\n", False), got[5], "context")
    check(got[6][1] and "regular expression" in got[6][0], got[6])
    same(("src/deep/er/c.ts:1\n", False), got[7], "count")
    same(("src/a.c:1:int main(void)\n", False), got[8], "a text as it is")
    check(got[10][1], got[10])
    check("[more than 1" in got[12][0], got[12])
    same(("[nothing found]", False), got[13], "nothing")


def notebook():
    book = {"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "source": ["x"], "outputs": [1], "execution_count": 3},
                      {"cell_type": "markdown", "id": "b", "metadata": {"k": 1.5}, "source": ["# t\n", "u"]}],
            "metadata": {"z": 1}, "nbformat": 4, "nbformat_minor": 5}
    with open("n.ipynb", "w", encoding="utf-8") as f:
        json.dump(book, f)
    with open("bad.ipynb", "w", encoding="utf-8") as f:
        f.write("{}")
    n = lambda **m: ("notebook_edit", {"path": "n.ipynb", **m})  # noqa: E731
    got = calls(n(cell_id="a", new_source="y = 1\nz"), n(cell_id="b", edit_mode="insert", new_source="w", cell_type="markdown"),
                n(cell_number=1, edit_mode="delete"), n(cell_id="nope"), n(cell_number=9), ("notebook_edit", {"path": "bad.ipynb", "cell_number": 0}))
    same([False, False, False, True, True, True], [failed for _, failed in got], got)
    with open("n.ipynb", encoding="utf-8") as f:
        text = f.read()
    now = json.loads(text)
    same(["y = 1\n", "z"], now["cells"][0]["source"], "source")
    same(([], None), (now["cells"][0]["outputs"], now["cells"][0]["execution_count"]), "a code cell that changed")
    same([2, "w"], [len(now["cells"]), now["cells"][1]["source"][0]], "inserted behind, deleted")
    check(text.endswith("}\n") and list(now) == list(book), "order and final newline")


def fetching():
    import http.server
    import threading

    class H(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            to = {"/r": "/html", "/loop": "/loop", "/away": "https://127.0.0.1:1/x", "/odd": "//127.0.0.1/x"}.get(self.path)
            body = {"/html": b"<html><script>no()</script><p>A &amp; B</p><!-- no --><div>C</div>", "/bin": b"\x7fELF",
                    "/big": b"x" * (5 << 20)}.get(self.path, b"plain")
            self.send_response(302 if to else 404 if self.path == "/none" else 200)
            if to:
                self.send_header("Location", to)
            self.send_header("Content-Type", {"/html": "text/html", "/bin": "application/octet-stream"}.get(self.path, "text/plain"))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            check("authorization" not in {k.lower() for k in self.headers}, "no credential goes to a hook")
            self.wfile.write(b"got " + self.rfile.read(int(self.headers["Content-Length"])))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}"
    f = lambda path: ("web_fetch", {"url": base + path})  # noqa: E731
    got = calls(f("/"), f("/r"), f("/loop"), f("/away"), f("/odd"), f("/none"), f("/bin"), f("/big"),
                ("web_fetch", {"url": "file:///etc/passwd"}), ("web_fetch", {"url": "http://u:p@127.0.0.1/"}),
                ("web_fetch", {"url": "http://127.0.0.1:1/"}), ("remote_trigger", {"url": base + "/hook", "payload": {"a": 1}}))
    server.shutdown()
    same(("status 200\nplain", False), got[0], "plain")
    same("status 200\nA & B\nC", got[1][0].rstrip(), "HTML as text, behind a redirect")
    for i in (2, 3, 4, 5, 6, 8, 9, 10):
        check(got[i][1], f"{i}: {got[i]}")
    check("not shown" in got[6][0] or "bytes cut]" in got[7][0], got[7][0][-100:])
    same(("status 200\ngot {\"a\":1}", False), got[11], "hook")


def others():
    os.makedirs(".claude/skills/fix")
    with open(".claude/skills/fix/SKILL.md", "w", encoding="utf-8") as f:
        f.write("how to")
    got = calls(("skill", {"name": "fix"}), ("skill", {"name": "none"}), ("skill", {"name": "../fix"}), ("sleep", {"seconds": 0.05}),
                ("sleep", {"seconds": 601}), ("repl", {"language": "python", "code": "print(6 * 7)"}),
                ("repl", {"language": "shell", "code": "exit 4"}), ("repl", {"language": "cobol", "code": ""}),
                ("repl", {"language": "python", "code": "while True: pass", "timeout_ms": 500}),
                ("diagnostic_shell", {"command": "echo $ANTHROPIC_AUTH_TOKEN.; cat"}), ("send_user_message", {"message": "hi"}),
                ("agent", {"description": "x", "prompt": "y"}))
    same(("how to", False), got[0], "skill")
    check(got[1][1] and got[2][1] and got[4][1] and got[7][1] and got[8][1], got)
    same(("42\n", False), got[5], "repl")
    check(got[6][1] and "exit status 4" in got[6][0], got[6])
    same((".\n", False), got[9], "the model's credential is not in the environment of tools")
    check(not got[10][1] and not got[11][1], got)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
