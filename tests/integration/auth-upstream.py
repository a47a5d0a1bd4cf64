#!/usr/bin/env python3
"""A TLS server on loopback that behaves well and badly, for auth-proxy.sh.

auth-upstream.py DIR: uses DIR/server.pem, writes its port to DIR/port. Each request is one line of JSON in DIR/seen;
what happens to a connection later is written there too ("gone", "sent"). It speaks HTTP/1.1 by hand, so that the tests
know each byte.
"""
import hashlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time

where = sys.argv[1]
seen = open(os.path.join(where, "seen"), "a", buffering=1)
lock = threading.Lock()


def note(**what):
    with lock:
        seen.write(json.dumps(what) + "\n")


class Client:
    def __init__(self, sock):
        self.sock = sock
        self.file = sock.makefile("rb")

    def send(self, text):
        self.sock.sendall(text.encode("latin-1") if isinstance(text, str) else text)

    def read_request(self):
        line = self.file.readline()
        if not line:
            return None
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = []
        while True:
            line = self.file.readline()
            if line in (b"\r\n", b""):
                break
            name, value = line.decode("latin-1").rstrip("\r\n").split(":", 1)
            headers.append([name.lower(), value.strip()])
        return method, target, headers

    def read_body(self, headers):
        found = dict(headers)
        total, digest = 0, hashlib.sha256()
        if found.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.file.readline(), 16)
                data = self.file.read(size)
                total += len(data)
                digest.update(data)
                self.file.readline()
                if size == 0:
                    break
        else:
            left = int(found.get("content-length", "0"))
            while left > 0:
                data = self.file.read(min(left, 65536))
                if not data:
                    return None
                left -= len(data)
                total += len(data)
                digest.update(data)
        return total, digest.hexdigest()

    def wait_gone(self, target):
        """Blocks until the other side has gone."""
        try:
            gone = self.file.read(1) == b""
        except OSError:
            gone = True
        note(event="gone", target=target, clean=gone, at=time.monotonic())


OK = "HTTP/1.1 200 OK\r\n"


def echo(c, method, target, headers, body):
    said = json.dumps({"method": method, "target": target, "headers": headers, "body": body})
    extra = "request-id: r1\r\nanthropic-ratelimit-requests-remaining: 7\r\nrepeated: a\r\nrepeated: b\r\n"
    c.send(OK + extra + "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
           % (len(said), "" if method == "HEAD" else said))
    return True


def sse(c, method, target, headers, body):
    """An event, then one more for each 100 ms up to ?n; ?hold: until the client goes."""
    query = target.partition("?")[2]
    n = int(query.removeprefix("n=") or 5) if query.startswith("n=") else 1
    c.send(OK + "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i in range(n):
        text = "data: %d %.6f\n\n" % (i, time.monotonic())
        c.send("%x\r\n%s\r\n" % (len(text), text))
        if i + 1 < n:
            time.sleep(0.1)
    if query == "hold":
        c.wait_gone(target)
        return False
    c.send("0\r\n\r\n")
    return True


def by_bytes(c, method, target, headers, body):
    c.send(OK + "Content-Length: 10\r\n\r\n")
    for i in range(10):
        c.send(b"%d" % i)
        time.sleep(0.05)
    return True


def flood(c, method, target, headers, body):
    """64 MiB, and how much the other side took after a while."""
    c.send(OK + "Content-Length: %d\r\n\r\n" % (64 << 20))
    sent = 0
    c.sock.settimeout(0.7)
    try:
        while sent < 64 << 20:
            c.send(b"x" * 65536)
            sent += 65536
    except OSError:
        pass
    note(event="sent", bytes=sent)
    return False


def never(c, method, target, headers, body):
    c.wait_gone(target)
    return False


def early(c, method, target, headers, body):
    return echo(c, method, target, headers, None) and False


def fixed(text, keep=False):
    def answer(c, *_):
        c.send(text)
        return keep
    return answer


def reset(c, *_):
    c.send(OK + "Content-Length: 100\r\n\r\nabc")
    time.sleep(0.1)
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return False


def half_chunk(c, *_):
    c.send(OK + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    time.sleep(0.1)
    return False


places = {
    "echo": echo,
    "sse": sse,
    "bytes": by_bytes,
    "flood": flood,
    "never": never,
    "early": early,
    "reset": reset,
    "half-chunk": half_chunk,
    "short": fixed(OK + "Content-Length: 100\r\n\r\nabc"),
    "redirect": fixed("HTTP/1.1 302 Found\r\nLocation: https://api.anthropic.com/v1/elsewhere\r\nContent-Length: 0\r\n\r\n", True),
    "hints": fixed("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + OK +
                   "Content-Length: 2\r\n\r\nok", True),
    "switch": fixed("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"),
    "trailers": fixed(OK + "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n", True),
    "close": fixed(OK + "\r\nuntil the end"),
    "hop": fixed(OK + "Connection: x-named, keep-alive\r\nX-Named: 1\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a=b\r\n"
                 "Proxy-Authenticate: x\r\nAlt-Svc: h3=\":443\"\r\nX-Kept: yes\r\nContent-Length: 2\r\n\r\nok", True),
    "control": fixed(OK + "X-A: a\1b\r\nContent-Length: 2\r\n\r\nok"),
    "bare-cr": fixed(OK + "X-A: a\rX-B: b\r\nContent-Length: 2\r\n\r\nok"),
    "fold": fixed(OK + "X-A: a\r\n b\r\nContent-Length: 2\r\n\r\nok"),
    "both": fixed(OK + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    "two-lengths": fixed(OK + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
    "many-headers": fixed(OK + "".join("X-%d: %s\r\n" % (i, "v" * 400) for i in range(190)) + "Content-Length: 2\r\n\r\nok"),
    "garbage": fixed("220 mail.example ESMTP\r\n"),
    "nothing": fixed(""),
    "limit": fixed("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno", True),
    "no-content": fixed("HTTP/1.1 204 No Content\r\n\r\n", True),
    "not-modified": fixed("HTTP/1.1 304 Not Modified\r\nEtag: \"1\"\r\n\r\n", True),
}


def git(c, method, target, headers, body_file):
    path, _, query = target.partition("?")
    found = dict(headers)
    want = "Basic " + os.environ["GIT_BASIC"]
    if found.get("authorization") != want:
        c.send("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=git\r\nContent-Length: 0\r\n\r\n")
        return False
    env = dict(os.environ, GIT_PROJECT_ROOT=os.path.join(where, "git"), GIT_HTTP_EXPORT_ALL="1", PATH_INFO=path,
               QUERY_STRING=query, REQUEST_METHOD=method, REMOTE_USER="bot", REMOTE_ADDR="127.0.0.1",
               CONTENT_TYPE=found.get("content-type", ""), GIT_PROTOCOL=found.get("git-protocol", ""))
    if "content-encoding" in found:
        env["HTTP_CONTENT_ENCODING"] = found["content-encoding"]
    data = body_file
    env["CONTENT_LENGTH"] = str(len(data))
    out = subprocess.run(["git", "http-backend"], input=data, env=env, stdout=subprocess.PIPE, check=False).stdout
    head, _, rest = out.partition(b"\r\n\r\n")
    status, lines = "200 OK", []
    for line in head.decode().split("\r\n"):
        if line.lower().startswith("status:"):
            status = line.split(":", 1)[1].strip()
        else:
            lines.append(line)
    c.send("HTTP/1.1 %s\r\n%s\r\nContent-Length: %d\r\n\r\n" % (status, "\r\n".join(lines), len(rest)))
    c.send(rest)
    return True


def read_all(c, headers):
    found = dict(headers)
    data = b""
    if found.get("transfer-encoding") == "chunked":
        while True:
            size = int(c.file.readline(), 16)
            data += c.file.read(size)
            c.file.readline()
            if size == 0:
                return data
    return c.file.read(int(found.get("content-length", "0")))


def serve(sock):
    try:
        c = Client(context.wrap_socket(sock, server_side=True))
        keep = True
        while keep:
            request = c.read_request()
            if not request:
                break
            method, target, headers = request
            name = target.partition("?")[0].strip("/").split("/")
            if ".git" in target:
                keep = git(c, method, target, headers, read_all(c, headers))
                continue
            place = name[1] if len(name) > 1 and name[0] == "v1" else name[0]
            body = None if place == "early" else c.read_body(headers)
            note(method=method, target=target, headers=headers, body=body, peer=c.sock.getpeername()[1])
            keep = places.get(place, echo)(c, method, target, headers, body)
        c.sock.close()
    except (OSError, ValueError) as error:
        note(event="error", text=str(error))
        sock.close()


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(os.path.join(where, "server.pem"))
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
with open(os.path.join(where, "port.new"), "w", encoding="ascii") as f:
    f.write(str(listener.getsockname()[1]))
os.rename(os.path.join(where, "port.new"), os.path.join(where, "port"))
threading.stack_size(256 * 1024)
while True:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
