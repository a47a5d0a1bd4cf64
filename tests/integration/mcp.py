#!/usr/bin/env python3
"""mcp.py CASE: one case of mcp.sh. `mcp.py server KIND` is a server of these cases."""
import importlib.util
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def load():
    spec = importlib.util.spec_from_file_location("drive", os.path.join(HERE, "runner-drive.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if len(sys.argv) < 3:
    drive = load()
    check, same, tool = drive.check, drive.same, drive.tool


# --- a server that does what its kind says ----------------------------------------------------------------

def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def reply(request, result):
    say({"id": request["id"], "result": result})


def serve(kind):
    held, asked = [], 0
    if kind == "dead":
        sys.exit("no such luck")
    if kind == "mute":
        time.sleep(600)
    for line in sys.stdin:
        m = json.loads(line)
        method = m.get("method")
        if method == "initialize":
            version = {"old": "2024-11-05", "strange": "1999-01-01", "none": None}.get(kind, m["params"]["protocolVersion"])
            reply(m, {"protocolVersion": version, "capabilities": {"tools": {}, "resources": {}},
                      "serverInfo": {"name": "x", "version": "1"}})
        elif method == "tools/list":
            names = ["echo", "a.b c", "secret"] if kind == "names" else ["echo"]
            if kind == "pages":
                page = int(m["params"].get("cursor", 0))
                reply(m, {"tools": [{"name": f"p{page}", "inputSchema": {"type": "object"}}],
                          **({"nextCursor": str(page + 1)} if page < 2 else {})})
                continue
            if kind == "endless":
                reply(m, {"tools": [], "nextCursor": "again"})
                continue
            reply(m, {"tools": [{"name": n, "description": "d", "inputSchema": {"type": "object"}} for n in names]})
        elif method == "tools/call":
            asked += 1
            result = {"content": [{"type": "text", "text": f"{kind} {json.dumps(m['params']['arguments'])}"}]}
            if kind == "dies":
                sys.stderr.write("I fall\n")
                sys.exit(3)
            if kind == "floods":
                while True:
                    say({"method": "notifications/message", "params": {"data": "x" * 100}})
            if kind == "long":
                sys.stdout.write("x" * (6 << 20))
                sys.stdout.flush()
                time.sleep(60)
            if kind == "blank":  # for so long that a client that waits for its end is seen
                end = time.time() + 25
                while time.time() < end:
                    os.write(1, b"\n" * 65536)
            if kind == "bomb":
                sys.stdout.write('{"jsonrpc": "2.0", "id": %d, "result": {"content": [%s0]}}\n' % (m["id"], "{}," * 100000))
                sys.stdout.flush()
                continue
            if kind == "silent":
                held.append(m)
                continue
            if kind == "broken":
                sys.stdout.write("this is no JSON\n")
                sys.stdout.flush()
                continue
            if kind == "rpc1":
                sys.stdout.write('{"id": 1, "result": {}}\n')
                sys.stdout.flush()
                continue
            if kind == "order":
                say({"id": 9999, "result": {"content": []}})
                say({"id": m["id"] - 1, "result": {"content": [{"type": "text", "text": "of the one before"}]}})
                say({"id": "x", "result": {}})
                say({"method": "notifications/progress", "params": {}})
                reply(m, result)
                reply(m, {"content": [{"type": "text", "text": "twice"}]})
                continue
            if kind == "asks":
                say({"id": "q1", "method": "roots/list"})
                say({"id": 5, "method": "sampling/createMessage", "params": {}})
                say({"id": m["id"], "method": "ping"})
                answers = [json.loads(sys.stdin.readline()) for _ in range(3)]
                result = {"content": [{"type": "text", "text": json.dumps(answers)}]}
            if kind == "fails":
                result["isError"] = True
            if kind == "refuses":
                say({"id": m["id"], "error": {"code": -32000, "message": "I will not"}})
                continue
            if kind == "odd":
                result = {"content": [{"type": "image", "data": "iVBORw0K", "mimeType": "image/png"},
                                      {"type": "audio", "data": "QQ==", "mimeType": "audio/wav"}, {"no": 1}, 7,
                                      {"type": "text", "text": "x" * (1 << 20)}]}
            reply(m, result)


def server(kind, **more):
    return {"command": sys.executable, "args": [os.path.abspath(__file__), "server", kind], "origin": "project", **more}


def calls(servers, *uses, tools=(), **more):
    """Calls of one turn to servers; (text or blocks, failed) of each, the run and the server of the model."""
    blocks = [tool(name, f"t{i}", **arguments) for i, (name, arguments) in enumerate(uses)]
    result, r, api = drive.run([{"blocks": [b]} for b in blocks], tools=tools, mcp_servers=servers, **more)
    check("error" not in result, result)
    out = []
    for request in api.requests()[1:]:
        for block in request["body"]["messages"][-1]["content"]:
            c = block["content"]
            if isinstance(c, list) and len(c) == 1 and c[0]["type"] == "text":
                c = c[0]["text"]
            out.append((c, block.get("is_error", False)))
    return out, r, api


def dies():
    got, r, _ = calls({"d": server("dies"), "ok": server("plain")}, ("mcp__d__echo", {}), ("mcp__d__echo", {}),
                      ("mcp__ok__echo", {"a": 1}))
    check(got[0][1] and "exit status 3" in got[0][0] and "I fall" in got[0][0], got[0])
    check(got[1][1] and "exit status 3" in got[1][0], got[1])
    same(("plain {\"a\": 1}", False), got[2], "another server goes on")


def floods():
    got, _, _ = calls({"f": server("floods"), "l": server("long")}, ("mcp__f__echo", {}), ("mcp__l__echo", {}), ("mcp__f__echo", {}))
    check(got[0][1] and "floods" in got[0][0], got[0])
    check(got[1][1] and "longer than" in got[1][0], got[1])
    check(got[2][1] and "floods" in got[2][0], got[2])


def endless():
    """Lines with nothing in them, and one that would take twenty megabytes of memory a megabyte."""
    got, _, _ = calls({k: server(k) for k in ("blank", "bomb")}, ("mcp__blank__echo", {}), ("mcp__bomb__echo", {}))
    check(got[0][1] and "blank lines" in got[0][0], got[0])
    check(got[1][1] and "no JSON" in got[1][0], got[1])


def order():
    got, _, _ = calls({"o": server("order")}, ("mcp__o__echo", {"n": 1}), ("mcp__o__echo", {"n": 2}))
    same([("order {\"n\": 1}", False), ("order {\"n\": 2}", False)], got, "each call has its own answer")


def silent():
    """The default is two minutes, so that the runner is told of less."""
    got, r, _ = calls({"s": server("silent")}, ("mcp__s__echo", {}), mcp_timeout_ms=5000)  # also for its start
    check(got[0][1] and "no answer" in got[0][0], got)
    result, r, _ = drive.run([{"text": "without it"}], mcp_servers={"m": server("mute")}, mcp_timeout_ms=400)
    same({"text": "without it"}, result["output"], "output")
    check("did not answer" in r.events("mcp_server_degraded")[0]["reason"], r.events("mcp_server_degraded"))


def asks():
    got, _, _ = calls({"a": server("asks")}, ("mcp__a__echo", {}))
    answers = {str(a["id"]): a for a in json.loads(got[0][0])}
    same(f"file://{os.getcwd()}", answers["q1"]["result"]["roots"][0]["uri"], "roots")
    same(-32601, answers["5"]["error"]["code"], "sampling is refused")
    check(any(a.get("result") == {} for a in answers.values()), "ping")


def version():
    got, r, _ = calls({"o": server("old"), "s": server("strange"), "n": server("none")}, ("mcp__o__echo", {}), ("mcp__s__echo", {}))
    same(False, got[0][1], "an older version")
    check(got[1][1] and "no tool" in got[1][0], got[1])
    same({"s", "n"}, {e["server"] for e in r.events("mcp_server_degraded")}, "left out")


def broken():
    got, _, _ = calls({"b": server("broken"), "r": server("rpc1"), "f": server("fails"), "x": server("refuses"), "o": server("odd")},
                      ("mcp__b__echo", {}), ("mcp__r__echo", {}), ("mcp__f__echo", {}), ("mcp__x__echo", {}), ("mcp__o__echo", {}))
    check(got[0][1] and "no JSON" in got[0][0], got[0])
    check(got[1][1] and "JSON-RPC" in got[1][0], got[1])
    same(("fails {}", True), got[2], "a tool that says it failed")
    check(got[3][1] and "I will not" in got[3][0], got[3])
    kinds = [b["type"] for b in got[4][0]]
    same(["image", "text", "text", "text", "text"], kinds, "content that the model takes")
    check("bytes cut]" in got[4][0][4]["text"], "a long text is cut")


def names():
    got, r, api = calls({"n": server("names"), "p": server("pages")}, ("mcp__n__echo", {}), ("mcp__n__a_b_c", {"k": 1}),
                        ("mcp__n__secret", {}), allowed_tools=["mcp.n.*", "mcp__p__*", "bash"],
                        before=[("permission_policy", {"rules": ["deny: mcp.n.secret"]})])
    same([False, False, True], [failed for _, failed in got], got)
    have = [t["name"] for t in api.requests()[0]["body"]["tools"]]
    same(["mcp__n__echo", "mcp__n__a_b_c", "mcp__p__p0", "mcp__p__p1", "mcp__p__p2"], have, "tools")
    _, _, api = calls({"n": server("names")}, allowed_tools=["mcp.n.echo"])
    same(["mcp__n__echo"], [t["name"] for t in api.requests()[0]["body"]["tools"]], "only what was named")
    result, r, _ = drive.run([{"text": "x"}], mcp_servers={"e": server("endless")})
    check("pages" in r.events("mcp_server_degraded")[0]["reason"], "a list without an end")


def degraded():
    for servers, want in (({"gone": {"command": "/no/such"}}, "No such file"), ({"dead": server("dead")}, "no such luck"),
                          ({"b@d": server("plain")}, "its name")):
        result, r, _ = drive.run([{"text": "without"}], mcp_servers=servers)
        same({"text": "without"}, result["output"], "output")
        check(want in r.events("mcp_server_degraded")[0]["reason"], f"{want}: {r.events('mcp_server_degraded')}")
    api = drive.Api([])
    r = drive.Run(drive.env_of(api))
    r.send("task", drive.task(mcp_servers={"dead": server("dead")}, allowed_tools=["mcp.dead.*"]))
    result = r.result()
    api.stop()
    check(result["error"].startswith("CAPABILITY_UNSUPPORTED") and r.code == 1, result)


def http():
    import http.server as hs
    import threading
    seen = []

    class H(hs.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            m = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append((m.get("method"), dict(self.headers)))
            kind = self.path.strip("/")
            if "id" not in m:
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            result = {"initialize": {"protocolVersion": "2025-03-26", "capabilities": {"tools": {}}},
                      "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}}.get(
                          m["method"], {"content": [{"type": "text", "text": kind}]})
            text = json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": result})
            if m["method"] == "tools/call" and kind in ("gone", "error"):
                self.send_response(404 if kind == "gone" else 500)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200)
            if m["method"] == "initialize":
                self.send_header("Mcp-Session-Id", "s-1")
            if kind == "json":
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())
                return
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
            self.wfile.write(f": hello\n\nid: 1\ndata: {note}\n\n".encode())
            if not (kind == "cut" and m["method"] == "tools/call"):
                self.wfile.write(f"event: message\ndata: {text}\n\n".encode())
            self.close_connection = True

    s = hs.ThreadingHTTPServer(("127.0.0.1", 0), H)
    threading.Thread(target=s.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{s.server_address[1]}/"
    kinds = ("json", "events", "gone", "error", "cut")
    got, r, _ = calls({k: {"url": base + k, "headers": {"X-Own": "1"}} for k in kinds},
                      *[(f"mcp__{k}__echo", {}) for k in kinds], ("mcp__gone__echo", {}))
    s.shutdown()
    same(("json", False), got[0], "an answer in JSON")
    same(("events", False), got[1], "an answer in events")
    check(got[2][1] and "forgotten" in got[2][0] and got[5][1], got[2])
    check(got[3][1] and "500" in got[3][0], got[3])
    check(got[4][1] and "cut" in got[4][0], got[4])
    late = [h for m, h in seen if m == "tools/call"][0]
    same(("s-1", "2025-03-26", "1"), (late["Mcp-Session-Id"], late["MCP-Protocol-Version"], late["X-Own"]), "headers")


# --- servers from npm, in the sandbox ---------------------------------------------------------------------

def npm(name, *args, **more):
    return {"command": "node", "args": [f"/srv/mcp/node_modules/@modelcontextprotocol/server-{name}/dist/index.js", *args],
            "origin": "workflow", **more}


def filesystem():
    with open("work/f", "w", encoding="utf-8") as f:
        f.write("content of f")
    here = os.path.abspath("work")
    got, _, api = calls({"fs": npm("filesystem", here)}, ("mcp__fs__read_text_file", {"path": here + "/f"}),
                        ("mcp__fs__write_file", {"path": here + "/g", "content": "new"}),
                        ("mcp__fs__read_text_file", {"path": "/etc/passwd"}), ("mcp__fs__list_directory", {"path": here}),
                        work_dir=here)
    same(("content of f", False), got[0], "a file")
    same("new", open("work/g", encoding="utf-8").read(), "what was written")
    check(got[2][1] and "root:" not in got[2][0], got[2])
    check("[FILE] f" in got[3][0] and "[FILE] g" in got[3][0], got[3])
    check(len(api.requests()[0]["body"]["tools"]) > 8, "its tools")


def everything_calls(servers):
    got, r, _ = calls(servers, ("mcp__all__echo", {"message": "hi"}), ("mcp__all__add", {"a": 2, "b": 40}),
                      ("mcp__all__getTinyImage", {}), ("mcp__all__add", {"a": "x"}), ("list_mcp_resources", {"server": "all"}),
                      ("read_mcp_resource", {"server": "all", "uri": "test://static/resource/1"}),
                      ("mcp__all__annotatedMessage", {"messageType": "error"}),
                      tools=["list_mcp_resources", "read_mcp_resource"])
    check(got[0] == ("Echo: hi", False), got[0])
    check("42" in got[1][0] and not got[1][1], got[1])
    check(any(b["type"] == "image" for b in got[2][0]), "an image")
    check(got[3][1], got[3])
    check("test://static/resource/1" in got[4][0] and not got[4][1], got[4])
    check("Resource 1" in got[5][0] or "plaintext" in got[5][0], got[5])
    check(not [e for e in r.said if e["type"] == "tool_call"], "nothing of it crossed to the launcher")


def everything():
    everything_calls({"all": npm("everything")})


def everything_http():
    import subprocess
    import urllib.error
    import urllib.request
    p = subprocess.Popen(["node", "/srv/mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp"],
                         env={**os.environ, "PORT": "3457"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(900):
            try:
                urllib.request.urlopen("http://127.0.0.1:3457/mcp", timeout=5)
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.1)
        everything_calls({"all": {"url": "http://127.0.0.1:3457/mcp"}})
    finally:
        p.kill()
        p.wait()


def memory():
    where = os.path.abspath("work/memory.json")
    got, _, _ = calls({"mem": npm("memory", env={"MEMORY_FILE_PATH": where})},
                      ("mcp__mem__create_entities", {"entities": [{"name": "A", "entityType": "t", "observations": ["o1"]}]}),
                      ("mcp__mem__add_observations", {"observations": [{"entityName": "A", "contents": ["o2"]}]}),
                      ("mcp__mem__read_graph", {}))
    check("o1" in str(got[2][0]) and "o2" in str(got[2][0]), got[2])
    check(os.path.exists(where), "its environment")


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(sys.argv[2])
    else:
        globals()[sys.argv[1]]()
