#!/usr/bin/env python3
"""Checks of the auth proxy: auth-proxy.py DIR CHECK

DIR holds what auth-proxy.sh made: server.pem and ca.pem, port (of auth-upstream.py), seen. $C is the program. Every
check starts its own proxy and looks, when it has ended, for secrets in all that it wrote.
"""
import base64
import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

here = os.path.dirname(os.path.abspath(__file__))
assets = os.path.join(here, "..", "assets", "auth")
where = sys.argv[1]
KEY = "admin-key-" + "k" * 40
SECRETS = {"oauth": "sk-ant-oat-REALOAUTH", "key": "sk-ant-api-REALKEY", "secret": "ghp_REALSECRET", "basic": "glpat-REALBASIC"}
HOSTS = ["api.anthropic.com", "api.example.com", "git.example.com", "a.wild.example.org", "b.a.wild.example.org"]
tokens = set()


def fail(text):
    print("FAIL:", text)
    sys.exit(1)


def eq(want, got, what=""):
    if want != got:
        fail("%s: want %r, got %r" % (what, want, got))


def wait_until(what, seconds, condition):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.02)
    return fail("not within %s s: %s" % (seconds, what))


def seen_since(mark):
    with open(os.path.join(where, "seen"), encoding="utf-8") as f:
        f.seek(mark)
        return [json.loads(line) for line in f.read().splitlines()]


def requests_since(mark):
    """Without what a server noted of connections, also of an earlier check's."""
    return [s for s in seen_since(mark) if "method" in s]


def seen_mark():
    return os.path.getsize(os.path.join(where, "seen"))


class Answer:
    def __init__(self, status, headers, body, complete=True):
        self.status, self.headers, self.body, self.complete = status, headers, body, complete

    def get(self, name):
        return [v for n, v in self.headers if n == name]

    def error(self):
        found = json.loads(self.body)
        eq("error", found["type"], "type of the body")
        return found["error"]


def read_answer(f, method="GET"):
    """One answer, strictly: what is not complete is said."""
    while True:
        line = f.readline()
        if not line:
            return None
        version, status, _ = (line.decode("latin-1").rstrip("\r\n") + " ").split(" ", 2)
        eq("HTTP/1.1", version, "version")
        headers = []
        while True:
            line = f.readline()
            if line in (b"\r\n", b""):
                break
            if not line.endswith(b"\r\n"):
                fail("a line without CR LF: %r" % line)
            name, value = line.decode("latin-1")[:-2].split(": ", 1)
            headers.append((name.lower(), value))
        if int(status) >= 200:
            break
    found = dict(headers)
    if method == "HEAD" or int(status) in (204, 304):
        return Answer(int(status), headers, b"")
    if found.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            size = f.readline()
            if not size:
                return Answer(int(status), headers, body, False)
            data = f.read(int(size, 16))
            body += data
            f.readline()
            if int(size, 16) == 0:
                return Answer(int(status), headers, body)
            if len(data) < int(size, 16):
                return Answer(int(status), headers, body, False)
    if "content-length" in found:
        body = f.read(int(found["content-length"]))
        return Answer(int(status), headers, body, len(body) == int(found["content-length"]))
    return Answer(int(status), headers, f.read())


class Proxy:
    def __init__(self, *options, env=None, routes=True, split=True, before=()):
        args = [*before, os.environ["C"], "auth-proxy", "--listen", "127.0.0.1:0", "--ca-file", where + "/ca.pem"]
        if split:
            args += ["--admin-listen", "127.0.0.1:0"]
        if routes:
            port = open(where + "/port", encoding="ascii").read()
            for host in HOSTS:
                args += ["--route", "%s=127.0.0.1:%s" % (host, port)]
        self.log = where + "/log.%d" % time.monotonic_ns()
        self.err = open(self.log, "wb")
        self.process = subprocess.Popen(args + list(options), stdout=subprocess.PIPE, stderr=self.err, env=dict(
            os.environ, IRONFLOW_AUTH_PROXY_ADMIN_KEY=KEY, **(env or {})))
        line = self.process.stdout.readline().decode()
        found = re.match(r"ready: relay (\S+) admin (\S+)\n", line)
        if not found:
            fail("not ready: %r %s" % (line, self.lines()))
        self.relay, self.admin = found.group(1), found.group(2)

    def lines(self):
        with open(self.log, encoding="utf-8") as f:
            return f.read()

    def events(self, event=None):
        found = [json.loads(line) for line in self.lines().splitlines()]
        return [e for e in found if event is None or e["event"] == event]

    def connect(self, admin=False, timeout=60):
        place = self.admin if admin else self.relay
        if place.startswith("unix:"):
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(place[5:])
        else:
            host, port = place.rsplit(":", 1)
            sock = socket.create_connection((host, int(port)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(timeout)
        return sock

    def raw(self, data, method="GET", admin=False):
        with self.connect(admin) as sock:
            try:
                sock.sendall(data)
            except OSError:
                pass
            with sock.makefile("rb") as f:
                return read_answer(f, method)

    def call(self, method, path, body=None, headers=(), admin=False):
        data = ("%s %s HTTP/1.1\r\nHost: proxy\r\n" % (method, path)).encode()
        for name, value in headers:
            data += ("%s: %s\r\n" % (name, value)).encode("latin-1")
        if body is not None:
            data += b"Content-Length: %d\r\n" % len(body)
        return self.raw(data + b"\r\n" + (body or b""), method, admin)

    def ask(self, method, path, body=None, key=KEY):
        headers = [("Authorization", "Bearer " + key)] if key else []
        return self.call(method, path, None if body is None else json.dumps(body).encode(), headers, True)

    def issue(self, kind="oauth", run="run-1", step="build", seconds=600, at=None, **more):
        credential = kind if isinstance(kind, dict) else {
            "oauth": {"kind": "oauth_token", "value": SECRETS["oauth"]},
            "key": {"kind": "api_key", "value": SECRETS["key"]},
            "secret": {"name": "GITHUB_TOKEN", "value": SECRETS["secret"], "injection": "bearer",
                       "hosts": ["api.example.com", "*.wild.example.org"]},
            "basic": {"name": "GIT", "value": SECRETS["basic"], "injection": {"basic": {"username": "oauth2"}},
                      "hosts": ["git.example.com"]},
        }[kind]
        answer = self.ask("POST", "/admin/v1/tokens", dict(
            run_id=run, step=step, expires_at=at if at else int(time.time()) + seconds, credential=credential, **more))
        eq(201, answer.status, "issue: %r" % answer.body)
        found = json.loads(answer.body)
        eq(["id", "token"], sorted(found))
        eq(hashlib.sha256(found["token"].encode()).hexdigest(), found["id"], "id")
        if not re.fullmatch("ifap_[0-9a-f]{64}", found["token"]):
            fail("not a token: %s" % found["token"])
        tokens.add(found["token"])
        return found["token"]

    def revoke(self, token):
        return self.ask("DELETE", "/admin/v1/tokens/" + hashlib.sha256(token.encode()).hexdigest()).status

    def look(self):
        """No secret, no whole token, no key in what it wrote and shows of itself."""
        words = [KEY] + list(SECRETS.values()) + list(tokens)
        words += [base64.b64encode(("oauth2:" + SECRETS["basic"]).encode()).decode(), "QUERYWORD", "HEADERWORD"]
        places = [self.log]
        for name in ("environ", "cmdline", "maps"):
            places.append("/proc/%d/%s" % (self.process.pid, name))
        for place in places:
            try:
                data = open(place, "rb").read()
            except OSError:
                continue
            for word in words:
                if word.encode() in data:
                    fail("%s holds %s" % (place, word))

    def stop(self, want=0):
        self.look()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            fail("does not end")
        rest = self.process.stdout.read()
        eq(b"", rest, "stdout")
        self.err.close()
        self.look()
        eq(want, code, "exit code: %s" % self.lines())

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.stop()
        else:
            print(self.lines()[-3000:])
            self.process.kill()
            self.process.wait()


class Clock:
    """The wall clock of a proxy that is started with env: it stands where it was set."""
    def __init__(self):
        self.path, self.start = where + "/clock", int(time.time())
        self.env = {"LD_PRELOAD": os.environ["CLOCK_SHIM"], "CLOCK_FILE": self.path}
        self.set(self.start)

    def set(self, at):
        with open(self.path + ".new", "w", encoding="ascii") as f:
            f.write(str(at))
        os.rename(self.path + ".new", self.path)


def within(seconds, what, attempt, tries=5):
    """attempt() says how long it took: a machine that is busy may be late once, and what is slow is late each time."""
    took = []
    while len(took) < tries:
        took.append(attempt())
        if took[-1] <= seconds:
            return
    fail("%s after %s s" % (what, ", ".join("%.2f" % t for t in took)))


def bearer(token):
    return [("Authorization", "Bearer " + token)] if token else []


def rows(name):
    with open(os.path.join(assets, name + ".tsv"), encoding="ascii") as f:
        return [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]


# --- the decision tables ---

def issue_all(proxy, expires_at):
    have = {kind: proxy.issue(kind) for kind in ("oauth", "key", "secret", "basic")}
    have["revoked"] = proxy.issue("secret")
    eq(204, proxy.revoke(have["revoked"]), "revoke")
    have["expired"] = proxy.issue("oauth", at=expires_at)
    have["unknown"] = "ifap_" + "0" * 64
    have["short"] = "ifap_" + "0" * 63
    have["none"] = ""
    return have


def check_row(row, answer, relayed):
    what, method, status, kind, message = row[0], row[1], int(row[4]), row[5], row[6]
    if answer is None:
        fail("%s: no answer" % what)
    eq(status, answer.status, "%s: %r" % (what, answer.body))
    eq(status == 200, relayed, what + ": sent to a server")
    if kind:
        eq((kind, message), (answer.error()["type"], answer.error()["message"]), what)
        eq(["application/json"], answer.get("content-type"), what)
    if status == 200 and method != "HEAD":
        said = json.loads(answer.body)
        eq(method, said["method"], what)
        target = row[2]
        if target.startswith("/r/"):
            host, slash, rest = target[3:].partition("/")
            host, query, tail = host.partition("?")
            target = ("/" + rest if slash else "/") + query + tail
            eq([host.lower()], [v for n, v in said["headers"] if n == "host"], what)
        eq(target, said["target"], what + ": target")


def table(name):
    clock = Clock()
    with Proxy(env=clock.env) as proxy:
        have = issue_all(proxy, clock.start + 100)
        clock.set(clock.start + 101)
        for row in rows(name):
            row += [""] * (7 - len(row))
            body = b"{}" if row[1] in ("POST", "PUT", "PATCH") else None
            # by hand
            mark = seen_mark()
            host = row[2] if row[1] == "CONNECT" else "proxy"
            if row[2].startswith("http://"):
                host = row[2].split("/")[2]
            data = "%s %s HTTP/1.1\r\nHost: %s\r\n" % (row[1], row[2], host)
            for header in bearer(have[row[3]]):
                data += "%s: %s\r\n" % header
            if body:
                data += "Content-Length: 2\r\n"
            answer = proxy.raw(data.encode() + b"\r\n" + (body or b""), row[1])
            check_row(row, answer, bool(requests_since(mark)))
            # and by a client
            mark = seen_mark()
            place, port = proxy.relay.rsplit(":", 1)
            client = http.client.HTTPConnection(place, int(port), timeout=60)
            client.putrequest(row[1], row[2], skip_host=True, skip_accept_encoding=False)
            client.putheader("Host", host)
            for header in bearer(have[row[3]]):
                client.putheader(*header)
            if body:
                client.putheader("Content-Length", "2")
            client.endheaders(body)
            got = client.getresponse()
            answer = Answer(got.status, [(n.lower(), v) for n, v in got.getheaders()], got.read())
            client.close()
            check_row(row, answer, bool(requests_since(mark)))
        if name == "secret":
            text = proxy.call("GET", "/metrics", admin=True).body.decode()
            for secret, result in (("GITHUB_TOKEN", "relayed"), ("GIT", "relayed"), ("GITHUB_TOKEN", "forbidden_host"),
                                   ("GITHUB_TOKEN", "forbidden_path"), ("GITHUB_TOKEN", "forbidden_method"),
                                   ("", "forbidden_host"), ("", "unknown_token"), ("", "expired"), ("", "revoked")):
                if 'ironflow_auth_proxy_requests_total{secret="%s",result="%s"} ' % (secret, result) not in text:
                    fail("no %s %s in %s" % (secret, result, text))
            if "# TYPE ironflow_auth_proxy_requests_total counter" not in text:
                fail(text)
            said = proxy.events("secret relay")
            one = [e for e in said if e["result"] == "relayed"][0]
            eq({"run_id": "run-1", "step": "build", "secret": "GITHUB_TOKEN", "host": "api.example.com", "upstream_status": 200,
                "level": "info", "token": hashlib.sha256(have["secret"].encode()).hexdigest()[:12]},
               {k: one[k] for k in ("run_id", "step", "secret", "host", "upstream_status", "level", "token")}, "log")
            if not [e for e in said if e["host"] == "<invalid>" and e["result"] == "forbidden_host"]:
                fail("no invalid host in the log")
            if [e for e in said if "@" in e["host"] or "%" in e["host"]]:
                fail("a host in the log that is none")


def model():
    table("model")


def secret():
    table("secret")


def spellings():
    """Every spelling of a host (tests/assets/net/hosts.tsv): only the name itself, in any case, is dialled. The server
    has no certificate for it, so that is 502. red when credential_allows() compares what host_parse() made of it."""
    port = open(where + "/port", encoding="ascii").read()
    with open(os.path.join(assets, "..", "net", "hosts.tsv"), "rb") as f:
        lines = [line.rstrip(b"\n").split(b"\t") for line in f if not line.startswith(b"#") and b"\t" in line]
    with Proxy("--route", "allowed.example=127.0.0.1:" + port) as proxy:
        token = proxy.issue({"name": "T", "value": SECRETS["secret"], "injection": "bearer", "hosts": ["allowed.example"]})
        dialled = 0
        for spelled in (re.sub(rb"\\x([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), line[0]) for line in lines):
            answer = proxy.raw(b"GET /r/%s/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer %s\r\n\r\n"
                               % (spelled, token.encode()))
            # '/' and '?' end the host
            right = re.split(rb"[/?]", spelled, maxsplit=1)[0].lower() == b"allowed.example"
            dialled += right
            want = (502, 400, 403) if right and spelled.lower() != b"allowed.example" else (502,) if right else (400, 403)
            if answer is None or answer.status not in want:
                fail("%r: %s" % (spelled, answer and answer.status))
        if dialled < 3 or len(lines) < 400:
            fail("%d of %d" % (dialled, len(lines)))


def refused():
    with Proxy() as proxy:
        token = proxy.issue("oauth")
        mark = seen_mark()
        for what, status, text in rows("refused"):
            text = text.replace("{token}", "Authorization: Bearer %s\\r\\n" % token)
            text = re.sub(r"\{(\d+)\}", lambda m: "a" * int(m.group(1)), text)
            text = re.sub(r"\{(\d+) headers\}", lambda m: "".join("X-%d: 1\\r\\n" % i for i in range(int(m.group(1)))), text)
            data = text.encode("ascii").decode("unicode_escape").encode("latin-1")
            # a request behind it must not be taken for one: there is one answer and the end
            smuggled = b"GET /v1/smuggled HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n" % token.encode()
            with proxy.connect() as sock:
                try:
                    sock.sendall(data + smuggled)
                except OSError:
                    pass
                with sock.makefile("rb") as f:
                    answer = read_answer(f)
                    if answer is None:
                        fail(what + ": no answer")
                    eq(int(status), answer.status, "%s: %r" % (what, answer.body))
                    eq("invalid_request_error", answer.error()["type"], what)
                    eq(["close"], answer.get("connection"), what)
                    eq(b"", f.read(), what + ": bytes behind the answer")
        if [s for s in seen_since(mark) if "smuggled" in s.get("target", "")]:
            fail("a smuggled request was relayed")


# --- tokens ---

def places():
    """Each place of a token, and that none of them is sent on."""
    with Proxy() as proxy:
        token = proxy.issue("secret")
        oauth = proxy.issue("oauth")

        def basic(user, password):
            return "Basic " + base64.b64encode((user + ":" + password).encode()).decode()

        good = [[("Authorization", "Bearer " + token)], [("authorization", "bEARER   " + token + "  ")], [("X-Api-Key", token)],
                [("Private-Token", token)], [("Authorization", basic("x", token))], [("Authorization", basic("", token))],
                [("Authorization", "Basic  " + basic("oauth2", token)[6:])],
                [("Authorization", "Bearer " + token), ("X-Api-Key", "other"), ("Private-Token", "other")],
                [("X-Api-Key", token), ("Private-Token", "other")], [("Authorization", "Bearer "), ("X-Api-Key", token)],
                [("X-Api-Key", ""), ("Private-Token", token)], [("Authorization", "Digest x"), ("Private-Token", token)]]
        for headers in good:
            headers = headers + [("Cookie", "a=b"), ("Accept", "text/x"), ("X-Mine", "1"), ("X-Mine", "2")]
            said = json.loads(proxy.call("GET", "/r/api.example.com/x", headers=headers).body)
            names = [n for n, _ in said["headers"]]
            eq([["authorization", "Bearer " + SECRETS["secret"]]], [h for h in said["headers"] if h[0] == "authorization"], "injected")
            for name in ("x-api-key", "private-token", "cookie", "accept-encoding", "expect"):
                if name in names:
                    fail("%s was sent on: %s" % (name, said["headers"]))
            eq(["1", "2"], [v for n, v in said["headers"] if n == "x-mine"], "repeated headers")
            eq(["text/x"], [v for n, v in said["headers"] if n == "accept"], "accept")
            if token in json.dumps(said):
                fail("the token was sent on")
        bad = [[("Authorization", token)], [("Authorization", "Bearer" + token)], [("Authorization", "Bearer x"), ("X-Api-Key", token)],
               [("X-Api-Key", "x"), ("Private-Token", token)], [("Authorization", basic("x", token)[:-2])],
               [("Authorization", "Basic " + base64.b64encode(token.encode()).decode())], [("Cookie", token)],
               [("Authorization", "Basic " + base64.b64encode(b"\xff:" + token.encode()).decode())],
               [("Authorization", "Bearer " + token.upper())], [("Authorization", "Bearer " + token + "0")],
               [("Proxy-Authorization", "Bearer " + token)]]
        for headers in bad:
            eq(401, proxy.call("GET", "/r/api.example.com/x", headers=headers).status, headers)
        # what goes upstream for the model, with flags of the client
        said = json.loads(proxy.call("POST", "/v1/messages", b"{}", bearer(oauth) + [
            ("anthropic-beta", "a-1, b-2"), ("Anthropic-Beta", "c-3"), ("X-Api-Key", "dummy")]).body)
        eq([["anthropic-beta", "a-1, b-2,c-3,oauth-2025-04-20"]], [h for h in said["headers"] if h[0] == "anthropic-beta"])
        eq(["Bearer " + SECRETS["oauth"]], [v for n, v in said["headers"] if n == "authorization"])
        said = json.loads(proxy.call("POST", "/v1/messages", b"{}", bearer(oauth) + [
            ("anthropic-beta", "oauth-2025-04-20")]).body)
        eq(["oauth-2025-04-20"], [v for n, v in said["headers"] if n == "anthropic-beta"], "flag once")
        said = json.loads(proxy.call("POST", "/v1/messages", b"{}", [("x-api-key", proxy.issue("key"))]).body)
        eq(["authorization", "x-api-key"], sorted(set(n for n, _ in said["headers"]) & {"authorization", "x-api-key"}
                                                  | {"authorization"}))
        eq([SECRETS["key"]], [v for n, v in said["headers"] if n == "x-api-key"], "api key")
        eq([], [v for n, v in said["headers"] if n == "authorization"], "no authorization with a key")


def injections():
    with Proxy() as proxy:
        value = SECRETS["secret"]
        cases = [("bearer", "authorization", "Bearer " + value), ("private_token", "private-token", value),
                 ("x_api_key", "x-api-key", value), ({"header": "X-Vault-Key"}, "x-vault-key", value),
                 ({"basic": {"username": "u"}}, "authorization", "Basic " + base64.b64encode(("u:" + value).encode()).decode())]
        words = [base64.b64encode(("u:" + value).encode()).decode()]
        for injection, name, want in cases:
            token = proxy.issue({"name": "S", "value": value, "injection": injection, "hosts": ["api.example.com"]})
            forged = [(name, "forged")] if name.startswith("x-v") else []
            said = json.loads(proxy.call("GET", "/r/api.example.com/x?q=QUERYWORD", headers=[
                ("Private-Token", token), ("X-Other", "HEADERWORD")] + forged).body)
            eq([want], [v for n, v in said["headers"] if n == name], injection)
            eq("/x?q=QUERYWORD", said["target"])
        for word in words:
            if word in proxy.lines():
                fail("the log holds an encoded secret")
        # hop by hop, and what Connection names
        token = proxy.issue("secret")
        said = json.loads(proxy.call("GET", "/r/api.example.com/x", headers=bearer(token) + [
            ("Connection", "X-Gone, x-gone-too"), ("X-Gone", "1"), ("X-Gone-Too", "1"), ("TE", "trailers"), ("Keep-Alive", "1"),
            ("Proxy-Authorization", "x"), ("Upgrade", "h2c"), ("Trailer", "x"), ("X-Empty", ""), ("User-Agent", "t")]).body)
        names = [n for n, _ in said["headers"]]
        eq(["authorization", "host", "user-agent", "x-empty"], sorted(names), "headers upstream")
        # Connection that names what is injected takes nothing away
        said = json.loads(proxy.call("GET", "/r/api.example.com/x", headers=bearer(token) + [("Connection", "authorization")]).body)
        eq(["Bearer " + value], [v for n, v in said["headers"] if n == "authorization"], "injected all the same")


def expiry():
    """The second of the expiry, by a clock that the test holds."""
    clock = Clock()
    start, set_clock = clock.start, clock.set
    with Proxy(env=clock.env) as proxy:
        body = {"run_id": "r", "step": "s", "credential": {"kind": "api_key", "value": "x"}}
        for at, status, text in ((start, 400, "expires_at is in the past"), (start - 1, 400, "expires_at is in the past"),
                                 (start + 1, 201, ""), (start + 86400, 201, ""), (0, 400, "expires_at is in the past"),
                                 (start + 86401, 400, "expires_at is more than 24 hours away"),
                                 (-1, 400, "invalid token request body"), (1.5, 400, "invalid token request body"),
                                 ("1", 400, "invalid token request body"), (2**63, 400, "invalid token request body")):
            answer = proxy.ask("POST", "/admin/v1/tokens", dict(body, expires_at=at))
            eq(status, answer.status, at)
            if text:
                eq(text, answer.error()["message"], at)
        token = proxy.issue("secret", at=start + 100)
        for at, status in ((start + 99, 200), (start + 100, 401), (start + 101, 401)):
            set_clock(at)
            eq(status, proxy.call("GET", "/r/api.example.com/x", headers=bearer(token)).status, "at %+d" % (at - start - 100))
        said = [e["result"] for e in proxy.events("secret relay")]
        eq(["relayed", "expired"], said[:2])
        # a stream ends with its token
        ends = iter(range(start + 200, start + 300, 10))

        def cut():
            at = next(ends)
            token = proxy.issue("oauth", at=at)
            with proxy.connect() as sock:
                sock.sendall(b"GET /v1/sse?hold HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
                with sock.makefile("rb") as f:
                    if b"200" not in f.readline():
                        fail("no stream")
                    set_clock(at)
                    began = time.monotonic()
                    rest = f.read()
                    if rest.endswith(b"0\r\n\r\n"):
                        fail("the stream ends as if it were complete")
                    return time.monotonic() - began

        within(1, "cut", cut)


def admin():
    with Proxy() as proxy:
        good = {"run_id": "r/1", "step": "s", "expires_at": int(time.time()) + 60, "credential": {"kind": "api_key", "value": "x"}}
        secret_of = {"name": "N", "value": "v", "injection": "bearer", "hosts": ["a.example"]}
        for headers in ([], [("Authorization", "Bearer wrong")], [("Authorization", "Bearer " + KEY[:-1])], [("Authorization", KEY)],
                        [("Authorization", "bearer " + KEY)], [("X-Api-Key", KEY)], [("Authorization", "Bearer " + KEY + "x")],
                        [("Authorization", "Bearer " + KEY), ("Authorization", "Bearer " + KEY)]):
            for method, path in (("POST", "/admin/v1/tokens"), ("DELETE", "/admin/v1/runs/x/tokens"), ("GET", "/admin/v1/tokens"),
                                 ("DELETE", "/admin/v1/tokens/" + "0" * 64), ("GET", "/admin/"), ("GET", "/admin/x/../v1/tokens")):
                answer = proxy.call(method, path, b"{}" if method == "POST" else None, headers, True)
                eq(401, answer.status, (headers, method, path))
                eq("invalid or missing admin key", answer.error()["message"])
        # the key is asked for before the body: it is refused while the body has not come
        with proxy.connect(True) as sock:
            sock.sendall(b"POST /admin/v1/tokens HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
            eq(401, read_answer(sock.makefile("rb")).status, "before the body")
        marker = "VALUEMARKER"
        for change, text in (({"run_id": ""}, "run_id is empty"), ({"step": ""}, "step is empty"), ({"run_id": 1}, "invalid token request body"),
                             ({"credential": 1}, None), ({"credential": {"kind": "api_key", "value": ""}}, "credential is empty"),
                             ({"credential": {"kind": "api_key", "value": "a b"}}, "credential holds characters a header cannot carry"),
                             ({"credential": {"kind": "api_key", "value": "a\r\nX: b"}}, "credential holds characters a header cannot carry"),
                             ({"credential": {"kind": "other", "value": marker}}, None),
                             ({"credential": dict(secret_of, value=marker, kind="api_key")}, None),
                             ({"credential": dict(secret_of, value=marker, hosts=[])}, "secret N has an empty host allowlist"),
                             ({"credential": dict(secret_of, value=marker, hosts=["*"])}, None),
                             ({"credential": dict(secret_of, value=marker, hosts=["^.*$"])}, None),
                             ({"credential": dict(secret_of, value=marker, hosts=["a.example:443"])}, None),
                             ({"credential": dict(secret_of, value=marker, injection="other")}, None),
                             ({"credential": dict(secret_of, value=marker, injection={"header": "Host"})}, None),
                             ({"credential": dict(secret_of, value=marker, injection={"header": "a b"})}, None),
                             ({"credential": dict(secret_of, value=marker, injection={"basic": {"username": "a:b"}})}, None),
                             ({"credential": dict(secret_of, value=marker, more=1)}, None),
                             ({"source": "nowhere"}, "source is not an IP address"),
                             ({"group": ""}, "group is empty"), ({"group": 1}, None), ({"group": "g" * 257}, None), ({"run_id": "r" * 257}, None)):
            answer = proxy.ask("POST", "/admin/v1/tokens", dict(good, **change))
            eq(400, answer.status, change)
            eq("invalid_request_error", answer.error()["type"])
            if text:
                eq(text, answer.error()["message"], change)
            if marker.encode() in answer.body or marker in proxy.lines():
                fail("a value was repeated: %s" % change)
        key = [("Authorization", "Bearer " + KEY)]
        for body in (b"", b"{", b"[]", b"null", b'{"run_id":"a","run_id":"b"}', b"\xff", b"[" * 3000, json.dumps(good).encode() + b"x"):
            eq(400, proxy.call("POST", "/admin/v1/tokens", body, key, True).status, body[:20])
        eq(413, proxy.call("POST", "/admin/v1/tokens", b" " * 600000, key, True).status, "too large")
        eq(201, proxy.call("POST", "/admin/v1/tokens", json.dumps(good).encode(), key + [("Expect", "100-continue")], True).status)
        data = json.dumps(good).encode()
        chunked = b"".join(b"%x\r\n%s\r\n" % (len(data[i:i + 7]), data[i:i + 7]) for i in range(0, len(data), 7)) + b"0\r\n\r\n"
        eq(201, proxy.raw(b"POST /admin/v1/tokens HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n"
                          % KEY.encode() + chunked, admin=True).status, "in chunks")
        for method, path, status in (("GET", "/admin/v1/tokens", 405), ("GET", "/admin/v1/nothing", 404), ("POST", "/healthz", 405),
                                     ("DELETE", "/admin/v1/tokens/" + "0" * 64, 404), ("DELETE", "/admin/v1/tokens/..", 404),
                                     ("DELETE", "/admin/v1/runs//tokens", 404), ("DELETE", "/admin/v1/runs/a/b/tokens", 404),
                                     ("DELETE", "/admin/v1/runs/%/tokens", 400), ("DELETE", "/admin/v1/runs/%00/tokens", 400),
                                     ("GET", "/v1/messages", 404), ("GET", "/r/api.example.com/x", 404), ("HEAD", "/healthz", 200)):
            eq(status, proxy.ask(method, path).status, (method, path))
        for method, status in (("GET", 200), ("HEAD", 200)):
            eq(status, proxy.call(method, "/metrics", admin=True).status)
        eq(b"ok", proxy.call("GET", "/healthz", admin=True).body)
        # a run with a slash in its name, of which two live
        token = proxy.issue("secret", run="a/b c")
        proxy.issue("oauth", run="a/b c")
        proxy.issue("oauth", run="other")
        eq({"revoked": 2}, json.loads(proxy.ask("DELETE", "/admin/v1/runs/a%2fb%20c/tokens").body))
        eq({"revoked": 0}, json.loads(proxy.ask("DELETE", "/admin/v1/runs/a%2Fb%20c/tokens").body))
        eq(401, proxy.call("GET", "/r/api.example.com/x", headers=bearer(token)).status)
        eq(404, proxy.revoke(token), "twice")
        # some of a run, by their group
        kept, gone = proxy.issue("secret", run="both", group="g 1"), proxy.issue("secret", run="both", group="g 2")
        eq({"revoked": 1}, json.loads(proxy.ask("DELETE", "/admin/v1/runs/g%202/tokens").body))
        eq(401, proxy.call("GET", "/r/api.example.com/x", headers=bearer(gone)).status)
        eq(200, proxy.call("GET", "/r/api.example.com/x", headers=bearer(kept)).status)
        eq({"revoked": 1}, json.loads(proxy.ask("DELETE", "/admin/v1/runs/both/tokens").body))
        eq(401, proxy.call("GET", "/r/api.example.com/x", headers=bearer(kept)).status)
        # bound to an address
        for source, status in (("127.0.0.1", 200), ("::ffff:127.0.0.1", 200), ("127.0.0.2", 401), ("::1", 401)):
            token = proxy.issue("secret", source=source)
            eq(status, proxy.call("GET", "/r/api.example.com/x", headers=bearer(token)).status, source)
        # two requests in one connection, sent at once
        with proxy.connect(True) as sock:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 500 + b"GET /healthz HTTP/1.0\r\nHost: a\r\n\r\n")
            with sock.makefile("rb") as f:
                for _ in range(501):
                    eq(b"ok", read_answer(f).body)
                eq(b"", f.read())
    with Proxy(split=False) as proxy: # one listener for both, as in the seed
        token = proxy.issue("secret")
        eq(200, proxy.call("GET", "/r/api.example.com/x", headers=bearer(token)).status)
        eq(b"ok", proxy.call("GET", "/healthz").body)
        eq(401, proxy.call("GET", "/admin/v1/tokens", headers=bearer(token)).status)


# --- bodies ---

LIMIT = 32 << 20


def chunk(data):
    return b"%x\r\n" % len(data) + data + b"\r\n"


def send_body(proxy, token, total, chunked, more=""):
    head = "POST /v1/up HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n%s" % (token, more)
    head += "Transfer-Encoding: chunked\r\n\r\n" if chunked else "Content-Length: %d\r\n\r\n" % total
    with proxy.connect() as sock:
        sock.sendall(head.encode())
        answer = []
        reader = threading.Thread(target=lambda: answer.append(read_answer(sock.makefile("rb"))))
        reader.start()
        left, block = total, b"x" * 65536
        try:
            while left > 0:
                data = block[:min(left, len(block))]
                sock.sendall(chunk(data) if chunked else data)
                left -= len(data)
            if chunked:
                sock.sendall(b"0\r\n\r\n")
        except OSError:
            pass # answered already
        reader.join(60)
        return answer[0] if answer else None


def bodies():
    with Proxy() as proxy:
        token = proxy.issue("oauth")
        digest = hashlib.sha256(b"x" * LIMIT).hexdigest()
        for chunked in (False, True):
            answer = send_body(proxy, token, LIMIT, chunked)
            eq(200, answer.status, "32 MiB, chunked %s" % chunked)
            eq([LIMIT, digest], json.loads(answer.body)["body"])
            answer = send_body(proxy, token, LIMIT + 1, chunked)
            eq(413, answer.status, "one more, chunked %s" % chunked)
            eq(("request_too_large", "request body too large or unreadable"), (answer.error()["type"], answer.error()["message"]))
        peak = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/%d/status" % proxy.process.pid, encoding="ascii").read()).group(1))
        if peak > 60000:
            fail("bodies are held in memory: %d KiB" % peak)
        # nothing of a body that is too large by its length is sent on
        mark = seen_mark()
        eq(413, proxy.raw(b"POST /v1/up HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nContent-Length: %d\r\n\r\n"
                          % (token.encode(), LIMIT + 1)).status)
        eq([], requests_since(mark))
        for text in (b"", b"{}", b"y" * 100000):
            said = json.loads(proxy.call("POST", "/v1/up", text, bearer(token)).body)
            eq([len(text), hashlib.sha256(text).hexdigest()], said["body"])
        # a client that waits to be told
        with proxy.connect() as sock:
            sock.sendall(b"POST /v1/up HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
                         % token.encode())
            eq(b"HTTP/1.1 100 Continue\r\n\r\n", sock.recv(100))
            sock.sendall(b"{}")
            said = json.loads(read_answer(sock.makefile("rb")).body)
            eq([], [h for h in said["headers"] if h[0] == "expect"])
        eq(401, proxy.raw(b"POST /v1/up HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n").status, "not told to go on")
        # a body that is cut short never reaches the server as a whole
        mark = seen_mark()
        for head in (b"Content-Length: 100\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc"):
            with proxy.connect() as sock:
                sock.sendall(b"POST /v1/up HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n" % token.encode() + head)
                time.sleep(0.2)
        time.sleep(0.3)
        eq([], [s for s in seen_since(mark) if s.get("body")], "a short body")
        # the server answers before it has read: the client gets the answer
        answer = send_body(proxy, token, 1 << 20, False)
        eq(200, answer.status)
        with proxy.connect() as sock:
            sock.sendall(b"POST /v1/early HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nContent-Length: 1000000\r\n\r\nabc" % token.encode())
            with sock.makefile("rb") as f:
                eq(200, read_answer(f).status, "early answer")
        # one that was refused before its body was read, which is here: the next request is where the body ends
        with proxy.connect() as sock, sock.makefile("rb") as f:
            one = b"POST /v1/up HTTP/1.1\r\nHost: a\r\nContent-Length: 39\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nHost: a\r\n\r\nx"
            sock.sendall(one + b"GET /v1/get HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
            eq(401, read_answer(f).status)
            eq("/v1/get", json.loads(read_answer(f).body)["target"])
            sock.settimeout(0.1)
            try:
                fail("a third answer: %r" % sock.recv(100))
            except TimeoutError:
                pass
        # GET with a body, and what follows it in the connection
        with proxy.connect() as sock:
            one = b"GET /v1/get HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\nContent-Length: 3\r\n\r\nabc" % token.encode()
            sock.sendall(one + one)
            with sock.makefile("rb") as f:
                for _ in range(2):
                    eq([3, hashlib.sha256(b"abc").hexdigest()], json.loads(read_answer(f).body)["body"])


# --- servers ---

def servers():
    with Proxy() as proxy:
        token = proxy.issue("oauth")

        def get(path, method="GET"):
            return proxy.call(method, "/v1/" + path, headers=bearer(token))

        answer = get("echo")
        eq((["r1"], ["7"], ["a", "b"]), (answer.get("request-id"), answer.get("anthropic-ratelimit-requests-remaining"),
                                         answer.get("repeated")), "headers of the server")
        mark = seen_mark()
        answer = get("redirect")
        eq((302, ["https://api.anthropic.com/v1/elsewhere"], 1), (answer.status, answer.get("location"), len(requests_since(mark))), "redirect")
        answer = get("hints")
        eq((200, b"ok", []), (answer.status, answer.body, answer.get("link")), "1xx")
        answer = get("trailers")
        eq((200, b"ok", []), (answer.status, answer.body, answer.get("trailer")), "trailers")
        eq((200, b"until the end", True), (get("close").status, get("close").body, get("close").complete), "until the end")
        answer = get("hop")
        eq((["x-kept"], ["yes"]), ([n for n, _ in answer.headers if n != "content-length"], answer.get("x-kept")), "headers")
        eq((429, ["7"]), (get("limit").status, get("limit").get("retry-after")), "429")
        eq((204, 304), (get("no-content").status, get("not-modified").status), "without a body")
        eq(b"0123456789", get("bytes").body, "by bytes")
        for path in ("reset", "half-chunk", "short"):
            answer = get(path)
            eq((200, False), (answer.status, answer.complete), path + " is not complete for the client either")
        answer = get("both")
        eq(b"ok", answer.body, "chunks win over a length")
        for path in ("switch", "control", "bare-cr", "fold", "two-lengths", "many-headers", "garbage", "nothing"):
            answer = get(path)
            eq((502, "the Anthropic API is unreachable"), (answer.status, answer.error()["message"]), path)
        with Proxy("--idle-timeout", "800ms") as hasty:
            began = time.monotonic()
            answer = hasty.call("GET", "/v1/never", headers=bearer(hasty.issue("oauth")))
            eq((502, "api_error"), (answer.status, answer.error()["type"]), "never")
            if not 0.7 < time.monotonic() - began < 60:
                fail("gave up after %.1f s" % (time.monotonic() - began))
        # HTTP/1.0 gets no chunks
        answer = proxy.raw(b"GET /v1/trailers HTTP/1.0\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
        eq((b"ok", [], ["close"]), (answer.body, answer.get("transfer-encoding"), answer.get("connection")), "HTTP/1.0")
        # the same connection for several requests, here and there
        mark = seen_mark()
        with proxy.connect() as sock, sock.makefile("rb") as f:
            for _ in range(3):
                sock.sendall(b"GET /v1/echo HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
                eq(200, read_answer(f).status)
        eq(1, len(set(s["peer"] for s in requests_since(mark))), "connections to the server")


def addresses():
    """Whom it may connect to: names that resolve to the loopback, certificates of others."""
    credential = {"name": "S", "value": SECRETS["secret"], "injection": "bearer",
                  "hosts": ["a.localhost", "other.example.net", "api.example.com"]}
    port = open(where + "/port", encoding="ascii").read()
    with Proxy("--route", "other.example.net=127.0.0.1:" + port) as proxy:
        token = proxy.issue(credential)
        mark = seen_mark()
        for host, reason in (("a.localhost", "loopback"), ("other.example.net", "certificate")):
            answer = proxy.call("GET", "/r/%s/x" % host, headers=bearer(token))
            eq((502, "upstream_error", "upstream unreachable"), (answer.status, answer.error()["type"], answer.error()["message"]), host)
            said = proxy.events("secret relay")[-1]
            if reason not in said["reason"]:
                fail("%s: %s" % (host, said))
        eq([], requests_since(mark), "nothing was sent")
    with Proxy("--allow-address", "127.0.0.0/8", "--allow-address", "::1") as proxy: # now it is tried
        token = proxy.issue(credential)
        eq(502, proxy.call("GET", "/r/a.localhost/x", headers=bearer(token)).status)
        if "loopback" in proxy.events("secret relay")[-1]["reason"]:
            fail("not tried")
    # the system's authorities do not know the test's
    args = ["--ca-file", "/etc/ssl/certs/ca-certificates.crt"]
    if os.path.exists(args[1]):
        with Proxy(*args) as proxy:
            token = proxy.issue("oauth")
            answer = proxy.call("GET", "/v1/echo", headers=bearer(token))
            eq((502, "the Anthropic API is unreachable"), (answer.status, answer.error()["message"]), "unknown authority")
        # nor do those that were named, where the system's do
        certs = where + "/certs"
        os.makedirs(certs)
        shutil.copy(where + "/ca.pem", certs)
        shutil.copy(args[1], certs)
        subprocess.run(["openssl", "rehash", certs], check=True, stderr=subprocess.DEVNULL)
        before = ("unshare", "-Urm", "sh", "-c", 'mount --bind "$0" /etc/ssl/certs && exec "$@"', certs)
        for options, want in (((), 200), (("--ca-file", "/etc/ssl/certs/ca-certificates.crt"), 502)):
            with Proxy(*options, before=before) as proxy:
                eq(want, proxy.call("GET", "/v1/echo", headers=bearer(proxy.issue("oauth"))).status, str(options))
    # another base for the model, by its address
    with Proxy("--upstream", "https://127.0.0.1:%s/gate/way/" % port) as proxy:
        token = proxy.issue("oauth")
        said = json.loads(proxy.call("GET", "/v1/x?y=1", headers=bearer(token)).body)
        eq(("/gate/way/v1/x?y=1", ["127.0.0.1:" + port]), (said["target"], [v for n, v in said["headers"] if n == "host"]))
    with Proxy("--upstream", "https://a.localhost:" + port) as proxy: # by a name: no
        eq(502, proxy.call("GET", "/v1/x", headers=bearer(proxy.issue("oauth"))).status)
        if "loopback" not in proxy.events("model relay")[-1]["reason"]:
            fail("dialled")


def http2():
    """A server that offers HTTP/2 is spoken to in HTTP/2; $NGINX_PORT."""
    port = os.environ["NGINX_PORT"]
    with Proxy("--route", "api.anthropic.com=127.0.0.1:" + port, routes=False) as proxy:
        token = proxy.issue("oauth")
        for _ in range(2):
            eq(b"HTTP/2.0 POST /v1/proto?a=b 5 Bearer " + SECRETS["oauth"].encode(),
               proxy.call("POST", "/v1/proto?a=b", b"hello", bearer(token)).body)
        answer = send_body(proxy, token, 1 << 20, True)
        eq((200, b"HTTP/2.0"), (answer.status, answer.body[:8]), "chunks become data")
        eq(404, proxy.call("GET", "/v1/none", headers=bearer(token)).status)
        # a client that does not read for a while holds up its stream, and gets all of it later
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            place, number = proxy.relay.rsplit(":", 1)
            sock.connect((place, int(number)))
            sock.sendall(b"GET /v1/big HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
            time.sleep(0.5)
            eq(200, proxy.call("POST", "/v1/proto", b"", bearer(token)).status, "another stream meanwhile")
            with sock.makefile("rb") as f:
                answer = read_answer(f)
        eq((200, 16 << 20, True), (answer.status, len(answer.body), answer.complete))
        peak = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/%d/status" % proxy.process.pid, encoding="ascii").read()).group(1))
        if peak > 40000:
            fail("held in memory: %d KiB" % peak)


def clients():
    """Real clients with nothing but a token: git by a rewritten URL, curl for each injection."""
    def run(*args, want=0, env=None):
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=where + "/work",
                              env=dict(os.environ, **(env or {})))
        eq(want, done.returncode, "%s: %s" % (args, done.stdout.decode(errors="replace")[-2000:]))
        return done.stdout.decode(errors="replace")

    os.makedirs(where + "/work", exist_ok=True)
    run("git", "init", "-q", "--bare", where + "/git/repo.git")
    run("git", "--git-dir", where + "/git/repo.git", "config", "http.receivepack", "true")
    with Proxy() as proxy:
        token, relay = proxy.issue("basic"), "http://" + proxy.relay
        # as a driver sets it: https://git.example.com/ is the relay, the token is the password
        password = base64.b64encode(("oauth2:" + token).encode()).decode()
        base = "%s/r/git.example.com/" % relay
        env = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "url.%s.insteadOf" % base, "GIT_CONFIG_VALUE_0": "https://git.example.com/",
               "GIT_CONFIG_KEY_1": "http.%s.extraHeader" % base, "GIT_CONFIG_VALUE_1": "Authorization: Basic " + password,
               "GIT_TERMINAL_PROMPT": "0"}
        run("git", "clone", "-q", "https://git.example.com/repo.git", "one", env=env)
        with open(where + "/work/one/file", "wb") as f:
            f.write(os.urandom(3 << 20)) # more than http.postBuffer: git sends it in chunks
        run("git", "-C", "one", "add", "file")
        run("git", "-C", "one", "commit", "-q", "-m", "x")
        run("git", "-C", "one", "push", "-q", "origin", "HEAD:main", env=env)
        run("git", "clone", "-q", "-b", "main", "https://git.example.com/repo.git", "two", env=env)
        eq(open(where + "/work/one/file", "rb").read(), open(where + "/work/two/file", "rb").read(), "what was pushed and cloned")
        # another host's URL is not rewritten, another repository's host not allowed
        text = run("git", "ls-remote", relay + "/r/api.example.com/repo.git", want=128, env=env)
        eq(204, proxy.revoke(token))
        text = run("git", "-C", "one", "fetch", want=128, env=env)
        if "401" not in text and "Authentication failed" not in text and "could not read Username" not in text:
            fail("git after the revocation: " + text)
        for path in (where + "/work/one/.git/config", where + "/work/two/.git/config"):
            for word in (token, password, SECRETS["basic"]):
                if word in open(path, encoding="utf-8").read():
                    fail("%s holds a token" % path)
        value = SECRETS["secret"]
        for injection, name, want in (("bearer", "authorization", "Bearer " + value), ("private_token", "private-token", value),
                                      ("x_api_key", "x-api-key", value), ({"header": "X-Vault-Key"}, "x-vault-key", value),
                                      ({"basic": {"username": "u"}}, "authorization",
                                       "Basic " + base64.b64encode(("u:" + value).encode()).decode())):
            token = proxy.issue({"name": "S", "value": value, "injection": injection, "hosts": ["api.example.com"]})
            for args in (["-H", "Authorization: Bearer " + token], ["-H", "x-api-key: " + token], ["-H", "Private-Token: " + token],
                         ["-u", "me:" + token]):
                said = json.loads(run("curl", "-sS", "--noproxy", "*", *args, relay + "/r/api.example.com/x?a=b"))
                eq([want], [v for n, v in said["headers"] if n == name], (injection, args))
        token = proxy.issue("oauth")
        text = run("curl", "-sSN", "--noproxy", "*", "-H", "Authorization: Bearer " + token, relay + "/v1/sse?n=3")
        eq(3, text.count("data: "), "events")
        with open(where + "/work/large", "wb") as f:
            f.write(b"x" * (2 << 20))
        said = json.loads(run("curl", "-sS", "--noproxy", "*", "-H", "x-api-key: " + token, "-T", where + "/work/large", "-X", "POST",
                              relay + "/v1/up")) # curl waits for 100 Continue
        eq(2 << 20, said["body"][0])


def replicas():
    """Two proxies that share a database ($PG_URL), a restart, and a database that is not there."""
    env = {"IRONFLOW_AUTH_PROXY_DATABASE_URL": os.environ["PG_URL"], "IRONFLOW_SECRET_KEYS": "1:" + "ab" * 32}
    with Proxy(env=env) as one, Proxy(env=env) as two:
        token = one.issue("oauth")
        eq(200, two.call("GET", "/v1/echo", headers=bearer(token)).status, "issued by the other")

        def cut():
            nonlocal token
            token, streams = one.issue("oauth"), []
            for proxy in (one, two):
                sock = proxy.connect()
                sock.sendall(b"GET /v1/sse?hold HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
                f = sock.makefile("rb")
                eq(b"HTTP/1.1 200 OK\r\n", f.readline())
                streams.append(f)
            began = time.monotonic()
            eq(204, one.revoke(token))
            for f in streams:
                if f.read().endswith(b"0\r\n\r\n"):
                    fail("not cut")
            return time.monotonic() - began

        within(1, "cut", cut)
        eq((401, 401), (one.call("GET", "/v1/echo", headers=bearer(token)).status, two.call("GET", "/v1/echo", headers=bearer(token)).status))
        eq(404, two.revoke(token), "revoked by the other")
        kept = one.issue("secret")
        tokens.add("ab" * 32)
        one.look()
    with Proxy(env=env) as three:
        eq(200, three.call("GET", "/r/api.example.com/x", headers=bearer(kept)).status, "after a restart")
        subprocess.run([os.environ["PG_STOP"]], check=True)
        answer = three.call("GET", "/r/api.example.com/x", headers=bearer(kept))
        eq((503, "auth proxy token registry unavailable"), (answer.status, answer.error()["message"]), "database gone")
        answer = three.ask("POST", "/admin/v1/tokens", {"run_id": "r", "step": "s", "expires_at": int(time.time()) + 60,
                                                        "credential": {"kind": "api_key", "value": "x"}})
        eq((503, "token registry unavailable"), (answer.status, answer.error()["message"]), "database gone, admin")
        eq(503, three.revoke(kept))
        eq(b"ok", three.call("GET", "/healthz", admin=True).body)
        if 'secret="",result="unavailable"} 1' not in three.call("GET", "/metrics", admin=True).body.decode():
            fail("not counted")
        subprocess.run([os.environ["PG_START"]], check=True)
        wait_until("it recovers", 60, lambda: three.call("GET", "/r/api.example.com/x", headers=bearer(kept)).status == 200)
    code, text = run_refused(env=dict(env, IRONFLOW_AUTH_PROXY_DATABASE_URL="postgresql://nobody:DBPASSWORD@127.0.0.1:1/x?connect_timeout=2"))
    eq(1, code, text)
    if "DBPASSWORD" in text:
        fail(text)


# --- streams ---

def behind(proxy, token, n):
    """The median of how late each of n events is, in seconds."""
    late = []
    with proxy.connect() as sock:
        sock.sendall(b"GET /v1/sse?n=%d HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % (n, token.encode()))
        got = b""
        while b"\r\n0\r\n\r\n" not in got:
            data = sock.recv(65536)
            now = time.monotonic()
            late += [now - float(sent) for sent in re.findall(rb"data: \d (\d+\.\d+)", data)]
            got += data
    eq(n, len(late), "events: %r" % got)
    return sorted(late)[n // 2]


def first_bytes():
    with Proxy() as proxy:
        token = proxy.issue("oauth")
        within(0.05, "behind the server", lambda: behind(proxy, token, 8))


def gone():
    """A client that goes takes its request to the server with it; a token that is revoked, its streams."""
    with Proxy() as proxy:
        token = proxy.issue("oauth")
        for path in ("/v1/sse?hold", "/v1/never"):
            mark = seen_mark()
            sock = proxy.connect()
            sock.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % (path.encode(), token.encode()))
            wait_until("the request", 60, lambda: seen_since(mark))
            time.sleep(0.1)
            sock.close()
            wait_until("gone upstream", 60, lambda: [s for s in seen_since(mark) if s.get("event") == "gone"])
        other = proxy.connect()
        other.sendall(b"GET /v1/sse?hold HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % proxy.issue("oauth").encode())

        def cut():
            mark, token, streams = seen_mark(), proxy.issue("oauth"), []
            for path in ("/v1/sse?hold", "/v1/sse?hold", "/v1/never"):
                sock = proxy.connect()
                sock.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % (path.encode(), token.encode()))
                streams.append(sock.makefile("rb"))
            for f in streams[:2]:
                while b"data: 0" not in (line := f.readline()):
                    eq(True, bool(line), "a stream that began")
            wait_until("three requests", 60, lambda: len(requests_since(mark)) == 3)
            began = time.monotonic()
            eq(204, proxy.revoke(token))
            for f in streams[:2]:
                if f.read().endswith(b"0\r\n\r\n"):
                    fail("not cut")
            eq(401, read_answer(streams[2]).status, "not answered yet")
            took = time.monotonic() - began
            eq(3, len(wait_until("gone upstream", 60, lambda: (lambda e: e if len(e) == 3 else None)(
                [s for s in seen_since(mark) if s.get("event") == "gone"]))))
            return took

        wait_until("the other's request", 60, lambda: len(requests_since(mark)) >= 2)
        within(1, "cut", cut)
        other.setblocking(False)
        try:
            while other.recv(65536):
                pass
            fail("the stream of another token was cut")
        except BlockingIOError:
            pass
        other.close()
        eq({"revoked"}, set(e["reason"] for e in proxy.events("relay cut")))


def slow_client():
    """A client that does not read holds up its server, not the memory of the proxy, and not others."""
    with Proxy("--idle-timeout", "3s") as proxy:
        token = proxy.issue("oauth")
        mark = seen_mark()
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        host, port = proxy.relay.rsplit(":", 1)
        sock.connect((host, int(port)))
        sock.sendall(b"GET /v1/flood HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
        eq(200, proxy.call("GET", "/v1/echo", headers=bearer(token)).status, "another client meanwhile")
        sent = wait_until("the server is held up", 60, lambda: [s for s in seen_since(mark) if s.get("event") == "sent"])[0]
        if sent["bytes"] > 24 << 20:
            fail("the proxy took %d bytes" % sent["bytes"])
        rss = int(re.search(r"VmHWM:\s+(\d+)", open("/proc/%d/status" % proxy.process.pid, encoding="ascii").read()).group(1))
        if rss > 60000:
            fail("held in memory: %d KiB" % rss)
        wait_until("cut", 60, lambda: proxy.events("relay cut"))
        sock.close()


def many():
    """200 streams at once, and what they cost."""
    with Proxy() as proxy:
        token = proxy.issue("oauth")
        mark = seen_mark()
        streams = []
        for _ in range(200):
            sock = proxy.connect()
            sock.sendall(b"GET /v1/sse?hold HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
            streams.append(sock)
        for sock in streams:
            with sock.makefile("rb") as f:
                if b"200" not in f.readline():
                    fail("a stream did not begin")
        wait_until("200 requests", 60, lambda: len(seen_since(mark)) >= 200)
        text = open("/proc/%d/status" % proxy.process.pid, encoding="ascii").read()
        rss = int(re.search(r"VmHWM:\s+(\d+)", text).group(1))
        print("peak memory with 200 streams: %d KiB" % rss)
        if rss > 80 * 1024:
            fail("peak memory: %d KiB" % rss)
        # beside them, one whose events are timed
        within(0.05, "behind the server", lambda: behind(proxy, token, 6))
        began = time.monotonic()
        proxy.revoke(token)
        for sock in streams:
            while sock.recv(65536):
                pass
        if time.monotonic() - began > 10: # within() a second: gone()
            fail("all cut after %.1f s" % (time.monotonic() - began))
        eq(b"ok", proxy.call("GET", "/healthz", admin=True).body)


def limits():
    with Proxy("--max-per-token", "2", "--max-clients", "8") as proxy:
        token = proxy.issue("oauth")
        held = []
        for _ in range(2):
            sock = proxy.connect()
            sock.sendall(b"GET /v1/sse?hold HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
            eq(b"HTTP/1.1 200 OK\r\n", sock.makefile("rb").readline())
            held.append(sock)
        answer = proxy.call("GET", "/v1/echo", headers=bearer(token))
        eq((429, "rate_limit_error"), (answer.status, answer.error()["type"]), "third at once")
        eq(200, proxy.call("GET", "/v1/echo", headers=bearer(proxy.issue("oauth"))).status, "another token")
        held.pop().close()
        wait_until("room again", 60, lambda: proxy.call("GET", "/v1/echo", headers=bearer(token)).status == 200)
        # clients that say nothing make room for one that does
        idle = [proxy.connect() for _ in range(40)]
        eq(200, proxy.call("GET", "/v1/echo", headers=bearer(token)).status, "room")
        for sock in idle + held:
            sock.close()
    # a head that takes too long ends, whatever comes meanwhile
    if os.environ.get("COFFERDAM_LONG"):
        with Proxy() as proxy, proxy.connect(timeout=15) as sock:
            began = time.monotonic()
            try:
                while time.monotonic() - began < 14:
                    sock.sendall(b"G")
                    time.sleep(0.5)
                fail("a head may take for ever")
            except OSError:
                pass


def stop():
    """SIGTERM lets requests finish and takes no new ones; a second ends at once."""
    proxy = Proxy()
    token = proxy.issue("oauth")
    idle = proxy.connect()
    with proxy.connect() as sock:
        sock.sendall(b"GET /v1/sse?n=4 HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
        with sock.makefile("rb") as f:
            f.readline()
            proxy.process.send_signal(signal.SIGTERM)
            if not f.read().endswith(b"0\r\n\r\n"):
                fail("a request was cut")
    eq(b"", idle.recv(10), "an idle client")
    eq(0, proxy.process.wait(60))
    proxy.stop()
    proxy = Proxy()
    token = proxy.issue("oauth")
    sock = proxy.connect()
    sock.sendall(b"GET /v1/sse?hold HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
    sock.makefile("rb").readline()
    proxy.process.send_signal(signal.SIGTERM)
    wait_until("stopping", 60, lambda: proxy.events("auth proxy stopping"))
    eq(None, proxy.process.poll(), "waits")
    proxy.process.send_signal(signal.SIGINT)
    eq(0, proxy.process.wait(60))
    proxy.stop()


# --- ways in ---

def ways_in():
    path = where + "/s"
    with Proxy("--listen", "unix:" + path, "--admin-listen", "unix:" + path + "a") as proxy:
        eq(0o600, os.stat(path).st_mode & 0o777, "mode of the socket")
        token = proxy.issue("secret")
        eq(200, proxy.call("GET", "/r/api.example.com/x", headers=bearer(token)).status, "unix socket")
        bound = proxy.issue("secret", source="127.0.0.1")
        eq(401, proxy.call("GET", "/r/api.example.com/x", headers=bearer(bound)).status, "no address to be bound to")
        second = subprocess.run([os.environ["C"], "auth-proxy", "--listen", "unix:" + path], capture_output=True, check=False,
                                env=dict(os.environ, IRONFLOW_AUTH_PROXY_ADMIN_KEY=KEY))
        eq(1, second.returncode, second.stderr)
        eq(200, proxy.call("GET", "/r/api.example.com/x", headers=bearer(token)).status, "still served")
        proxy.process.kill()
        proxy.process.wait()
        proxy.stop(-9)
        raise_no = Proxy("--listen", "unix:" + path, "--admin-listen", "unix:" + path + "a") # over what -9 left
        raise_no.stop()
        eq(False, os.path.exists(path), "the socket after the end")
        proxy.stop = lambda: None
    with Proxy("--tls-cert", where + "/server.pem", "--tls-key", where + "/server.pem") as proxy:
        context = ssl.create_default_context(cafile=where + "/ca.pem")
        plain = proxy.connect
        context.set_alpn_protocols(["http/1.1"])

        def connect(admin=False, timeout=60):
            sock = context.wrap_socket(plain(admin, timeout), server_hostname="api.example.com")
            return sock

        proxy.connect = connect
        token = proxy.issue("secret")
        answer = proxy.call("POST", "/r/api.example.com/x", b"z" * 200000, bearer(token))
        eq([200000, hashlib.sha256(b"z" * 200000).hexdigest()], json.loads(answer.body)["body"])
        answer = proxy.call("GET", "/v1/sse?n=3", headers=bearer(proxy.issue("oauth")))
        eq(3, answer.body.count(b"data:"), "a stream in TLS")
        with connect() as sock, sock.makefile("rb") as f:
            for _ in range(2):
                sock.sendall(b"GET /r/api.example.com/x HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
                eq(200, read_answer(f).status)
        with plain() as sock: # in clear
            sock.sendall(b"GET /v1/x HTTP/1.1\r\nHost: a\r\n\r\n")
            try:
                got = sock.recv(100)
            except ConnectionResetError:
                got = b""
            if b"HTTP/1.1 " in got:
                fail("spoken to in clear")
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        with old.wrap_socket(plain()) as sock:
            sock.sendall(b"GET /r/api.example.com/x HTTP/1.1\r\nHost: a\r\nX-Api-Key: %s\r\n\r\n" % token.encode())
            with sock.makefile("rb") as f:
                eq(200, read_answer(f).status, "TLS 1.2")


def run_refused(*args, env=None):
    done = subprocess.run([os.environ["C"], "auth-proxy"] + list(args), capture_output=True, check=False, timeout=60,
                          env={**os.environ, "IRONFLOW_AUTH_PROXY_ADMIN_KEY": KEY, **(env or {})})
    text = done.stderr.decode()
    eq((b"", 1), (done.stdout, text.count("\n")), "%s: %s" % (args, text))
    return done.returncode, text


def bad_input():
    for args, env, code, part in (
            ([], {"IRONFLOW_AUTH_PROXY_ADMIN_KEY": "short"}, 2, "IRONFLOW_AUTH_PROXY_ADMIN_KEY"),
            ([], {"IRONFLOW_AUTH_PROXY_ADMIN_KEY": "x" * 31 + " "}, 2, "IRONFLOW_AUTH_PROXY_ADMIN_KEY"),
            ([], {"IRONFLOW_AUTH_PROXY_ADMIN_KEY": "x" * 31 + "\u00e9y"}, 2, "header cannot carry"),
            ([], {"IRONFLOW_AUTH_PROXY_DATABASE_URL": "postgres://SECRETDB"}, 2, "no encryption key is configured"),
            (["--database-url", "postgres://SECRETDB"], {}, 2, "set IRONFLOW_SECRET_KEYS"),
            ([], {"IRONFLOW_AUTH_PROXY_DATABASE_URL": "postgres://SECRETDB", "IRONFLOW_SECRET_KEYS": "1:" + "ab" * 32,
                  "IRONFLOW_SECRET_ACTIVE_KEY_VERSION": "2"}, 1, "IRONFLOW_SECRET_ACTIVE_KEY_VERSION: no key of that version"),
            (["--listen", "nowhere"], {}, 1, "want ADDRESS:PORT or unix:PATH"), (["--listen", "example.com:80"], {}, 1, "want an address"),
            (["--listen", "127.0.0.1:70000"], {}, 1, "--listen"), (["--listen", "unix:" + "x" * 200], {}, 1, "want a path"),
            (["--listen", "192.0.2.1:0"], {}, 1, "--listen"), (["--upstream", "http://x.example"], {}, 2, "https://HOST"),
            (["--upstream", "https://"], {}, 2, "--upstream"), (["--upstream", "https://a.example/x?y"], {}, 2, "--upstream"),
            (["--upstream", "https://u@a.example/"], {}, 2, "--upstream"), (["--tls-cert", "x"], {}, 2, "--tls-key"),
            (["--tls-cert", "/none", "--tls-key", "/none"], {}, 1, "certificate '/none': No such file"),
            (["--ca-file", "/none"], {}, 1, "authorities '/none': No such file"), (["--ca-file", "/dev/null"], {}, 1, "/dev/null"),
            (["--route", "x"], {}, 2, "HOST=ADDRESS"),
            (["--route", "a.example=b.example:1"], {}, 2, "HOST=ADDRESS"), (["--allow-address", "10.0.0.1/8"], {}, 2, "10.0.0.0/8"),
            (["--idle-timeout", "5"], {}, 2, "--idle-timeout"), (["--max-clients", "0"], {}, 2, "--max-clients"), (["word"], {}, 2, "word"),
            (["--frob"], {}, 2, "--frob")):
        got, text = run_refused(*args, env=env)
        eq(code, got, (args, text))
        if (part not in text and part != "10.0.0.0/8") or "SECRETDB" in text:
            fail("%s: %s" % (args, text))


def notify():
    """Tells a service manager; and shows nothing of its memory to another process of the user."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(where + "/notify")
    sock.settimeout(60)
    with Proxy(env={"NOTIFY_SOCKET": where + "/notify"}) as proxy:
        eq(b"READY=1", sock.recv(100))
        limits_text = open("/proc/%d/limits" % proxy.process.pid, encoding="ascii").read()
        if not re.search(r"Max core file size\s+0\s+0", limits_text):
            fail(limits_text)
        status = open("/proc/%d/status" % proxy.process.pid, encoding="ascii").read()
        if "NoNewPrivs:\t1\n" not in status or "Seccomp:\t2\n" not in status:
            fail(status)
        if os.getuid() != 0:
            try:
                open("/proc/%d/mem" % proxy.process.pid, "rb").close()
                fail("its memory can be read")
            except OSError:
                pass
        proxy.process.send_signal(signal.SIGTERM)
        eq(b"STOPPING=1", sock.recv(100))
    # a reader of the log that stops reading stops nothing
    read_end, write_end = os.pipe()
    proxy = Proxy()
    proxy.stop()
    args = [os.environ["C"], "auth-proxy", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=write_end, env=dict(os.environ, IRONFLOW_AUTH_PROXY_ADMIN_KEY=KEY))
    os.close(write_end)
    place = re.match(r"ready: relay (\S+)", process.stdout.readline().decode()).group(1)
    proxy.relay = place
    for _ in range(700): # a pipe holds 64 KiB, a line has about 150 bytes
        eq(401, proxy.raw(b"GET /r/a.example/x HTTP/1.1\r\nHost: a\r\n\r\n").status)
    got = b""
    while got.count(b"\n") < 300:
        got += os.read(read_end, 65536)
    os.set_blocking(read_end, False)
    try:
        while os.read(read_end, 65536):
            pass
    except BlockingIOError:
        pass
    proxy.raw(b"GET /r/a.example/x HTTP/1.1\r\nHost: a\r\n\r\n")
    os.set_blocking(read_end, True) # the line may come after the answer
    line = os.read(read_end, 65536).decode()
    process.terminate()
    process.wait(60)
    if json.loads(line.splitlines()[0]).get("lines_lost", 0) < 1:
        fail("lost lines are not said: " + line)


checks = {f.__name__: f for f in (model, secret, spellings, refused, places, injections, expiry, admin, bodies, servers, addresses, http2, clients, replicas,
                                  first_bytes, gone, slow_client, many, limits, stop, ways_in, bad_input, notify)}
if __name__ == "__main__":
    checks[sys.argv[2]]()
