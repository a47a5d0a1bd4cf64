#!/usr/bin/env python3
"""The network of the proxy tests: a DNS server and plain origins, in the network namespace of the caller.

Usage: net-lab.py DIR. Serves DNS on 127.0.0.1:53 (UDP and TCP), HTTP on port 80 of every address, an echo on port 7,
the start of TLS on the ports of ASKS.
What the HTTP origin saw is in DIR/seen, one JSON line a request; DIR/queries has the names that DNS was asked for.
"""
import hashlib
import json
import os
import socket
import socketserver
import struct
import sys
import threading
import time

DIR = sys.argv[1]
WEB = "93.184.216.34"
ZONE = {
    "allowed.example": [WEB], "denied.example": [WEB], "other.example": [WEB], "a.wild.example": [WEB],
    "xn--bcher-kva.example": [WEB],
    "git.corp.example": ["93.184.216.40"], "npm.corp.example": ["93.184.216.40"],
    "private.example": ["10.0.0.1"], "loop.example": ["127.0.0.1"], "meta.example": ["169.254.169.254"],
    "mapped.example": ["::ffff:127.0.0.1"], "nat64.example": ["64:ff9b::127.0.0.1"], "six.example": ["::1"],
    "linklocal.example": ["fe80::1"], "multicast.example": ["224.0.0.1"], "broadcast.example": ["255.255.255.255"],
    "zero.example": ["0.0.0.0"], "mixed.example": ["127.0.0.1", WEB, "10.0.0.1"],
    "many.example": ["198.51.100.%d" % (i % 250) for i in range(1000)] + [WEB],
    "manyweb.example": [WEB] * 1000,
    "closed.example": ["93.184.216.35"],
    "halfdead.example": ["93.184.216.35", WEB], "dual.example": ["2606:2800:220:1::1", WEB],
    "sixweb.example": ["2606:2800:220:1::1"], "empty.example": [], "slow.example": [WEB],
}
ASKS = {9443: 0, 9444: 1, 9445: 1, 9446: 2}  # for other ClientHellos before the answer; 9445 with records of a byte
flips = {}
lock = threading.Lock()


def log(name, text):
    with lock, open(os.path.join(DIR, name), "a", encoding="utf-8") as f:
        f.write(text + "\n")


def answer(query, limit):
    qid, flags, _, _, _, _ = struct.unpack("!6H", query[:12])
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += 1 + query[at]
    qtype, _ = struct.unpack("!2H", query[at + 1:at + 5])
    question, name = query[12:at + 5], ".".join(labels).lower()
    log("queries", name)
    if name == "silent.example" or name.endswith(".silent.example"):
        return None
    if name == "slow.example":
        time.sleep(1)
    if name == "flip.example":
        with lock:
            flips[qtype] = flips.get(qtype, 0) + 1
        addrs = [WEB] if flips[qtype] % 2 else ["127.0.0.1"]
    else:
        addrs = ZONE.get(name)
    rcode, records = (3, []) if addrs is None else (0, [])
    for a in addrs or []:
        family = socket.AF_INET6 if ":" in a else socket.AF_INET
        if qtype == (28 if ":" in a else 1):
            data = socket.inet_pton(family, a)
            records.append(struct.pack("!HHHIH", 0xC00C, qtype, 1, 1, len(data)) + data)
    body = b"".join(records)
    flags = 0x8180 | rcode
    if len(body) + 12 + len(question) > limit:
        body, records, flags = b"", [], flags | 0x0200
    return struct.pack("!6H", qid, flags, 1, len(records), 0, 0) + question + body


class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        reply = answer(self.request[0], 1232)
        if reply:
            self.request[1].sendto(reply, self.client_address)


class Tcp(socketserver.BaseRequestHandler):
    def handle(self):
        while True:
            f = self.request.makefile("rb")
            head = f.read(2)
            if len(head) < 2:
                return
            query = f.read(struct.unpack("!H", head)[0])
            reply = answer(query, 65535)
            self.request.sendall(struct.pack("!H", len(reply)) + reply)


class Web(socketserver.StreamRequestHandler):
    """One request a connection, unless the client goes on; every byte of it is logged."""

    def handle(self):
        while True:
            line = self.rfile.readline().decode("latin-1")
            if not line:
                return
            headers = []
            while True:
                h = self.rfile.readline().decode("latin-1").rstrip("\r\n")
                if not h:
                    break
                headers.append(h)
            body = self.read_body(headers)
            log("seen", json.dumps({"line": line.strip(), "headers": headers, "body": body.decode("latin-1")}))
            if not self.reply(line.split()[1], headers, body):
                return

    def read_body(self, headers):
        low = [h.lower() for h in headers]
        for h in low:
            if h.startswith("content-length:"):
                return self.rfile.read(int(h.split(":")[1]))
        body = b""
        if "transfer-encoding: chunked" in low:
            while True:
                size = int(self.rfile.readline().split(b";")[0], 16)
                body += self.rfile.read(size)
                if size == 0:
                    while self.rfile.readline().strip():
                        pass
                    break
                self.rfile.readline()
        return body

    def reply(self, path, headers, body):
        w = self.wfile
        if path == "/sse":
            w.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            for i in range(3):
                w.write(b"data: %d\n\n" % i)
                w.flush()
                time.sleep(0.7)
            return False
        if path == "/chunks":
            w.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            w.flush()
            time.sleep(2)
            w.write(b"6\r\n world\r\n0\r\n\r\n")
            return True  # stays open: the end is in the chunks
        if path == "/stay":
            w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nstay")
            return True
        if path == "/two":
            w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nstay")
            return False
        if path == "/cut":
            w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\ncut")
            return False
        if path == "/ws":
            w.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
            while True:
                data = self.connection.recv(100)
                if not data:
                    return False
                w.write(data.upper())
        if path == "/never":
            time.sleep(5)
            return False
        if path == "/big":
            w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n")
            for _ in range(200):
                w.write(b"x" * 100000)
            return True
        if "Expect: 100-continue" in headers:
            w.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        w.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nKeep-Alive: timeout=5\r\nConnection: keep-alive, X-Hop\r\n"
                b"X-Hop: 1\r\nX-End: 2\r\n\r\n" % len(body) + body)
        return True


class Echo(socketserver.BaseRequestHandler):
    """Speaks first; repeats; after the end of the input says how much it was."""

    def handle(self):
        self.request.sendall(b"hi\n")
        total = 0
        while True:
            data = self.request.recv(65536)
            if not data:
                break
            total += len(data)
            if total <= 65536:
                self.request.sendall(data)
        self.request.sendall(b"\ntotal %d\n" % total)


class Hello(socketserver.BaseRequestHandler):
    """Takes ClientHellos as they come and answers with a ServerHello, then repeats."""

    def take(self, f):
        message = b""
        while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
            head = f.read(5)
            body = f.read(int.from_bytes(head[3:], "big"))
            if len(head) < 5:
                return False
            message += body if head[0] == 22 else b""
        return message[0] == 1

    def say(self, random, size):
        body = b"\3\3" + random + b"\0\x13\1\0\0\6\0\x2b\0\2\3\4"
        message = b"\2" + len(body).to_bytes(3, "big") + body
        for i in range(0, len(message), size):
            part = message[i:i + size]
            self.request.sendall(b"\x16\3\3" + len(part).to_bytes(2, "big") + part)

    def handle(self):
        port = self.server.server_address[1]
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.request.makefile("rb") as f:
            for i in range(ASKS[port] + 1):
                if not self.take(f):
                    return
                asks = i < ASKS[port]
                self.say(hashlib.sha256(b"HelloRetryRequest").digest() if asks else bytes(32), 1 if port == 9445 else 4096)
                self.request.sendall(b"\x14\3\3\0\1\1")
            while data := f.read1():
                self.request.sendall(data)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024


def main():
    udp = socketserver.ThreadingUDPServer(("127.0.0.1", 53), Udp)
    servers = [udp, Server(("127.0.0.1", 53), Tcp), Server(("0.0.0.0", 80), Web), Server(("0.0.0.0", 7), Echo)]
    servers += [Server(("0.0.0.0", port), Hello) for port in ASKS]
    for s in servers:
        threading.Thread(target=s.serve_forever, daemon=True).start()
    log("ready", "ready")
    while True:
        time.sleep(3600)


main()
