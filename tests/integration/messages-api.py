#!/usr/bin/env python3
"""A Messages API that answers as it is told: messages-api.py DIR [--tls CERT KEY] [--context BYTES]

DIR/script.json is a list, one entry for each request, in order:
  {"text": T}                          an answer in words
  {"blocks": [..], "stop": REASON}     blocks as the API has them; "stop" defaults to tool_use where there is one
  {"status": N, "retry_after": S, "error": {"type", "message"}}
  "cut": N                             the connection is closed after N events
  "sse_error": {"type", "message"}     an error event in place of message_stop
  "interim": true                      "100 Continue" first
  "dribble": true                      every byte in a write of its own
  "silent": S                          nothing for so long, then nothing more
  "usage": {..}                        what is counted; else 10 input and 5 output tokens
  "raw": TEXT                          these bytes are the body
  "times": N                           that often
  "loop": true                         this entry stays
After the last entry every request is answered with the text "done". With --context a request over BYTES is refused as
too long and takes no entry.
DIR/port is written when it listens, DIR/requests.jsonl has what was asked, DIR/counts.json what was counted.
"""
import argparse
import http.server
import json
import os
import ssl
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("dir")
parser.add_argument("--tls", nargs=2)
parser.add_argument("--context", type=int, default=0)
args = parser.parse_args()
lock = threading.Lock()
with open(os.path.join(args.dir, "script.json"), encoding="utf-8") as f:
    script = json.load(f)
counts = {"requests": 0, "input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 0,
          "cache_read_input_tokens": 0}


def events_of(step):
    """The events of an answer, and where the input was cut into pieces it is cut within a character too."""
    usage = {"input_tokens": 10, "output_tokens": 5, **step.get("usage", {})}
    blocks = step.get("blocks") or [{"type": "text", "text": step.get("text", "done")}]
    stop = step.get("stop") or ("tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn")
    out = [("message_start", {"message": {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
                                          "model": "m", "usage": {**usage, "output_tokens": 1}}})]
    out.append(("ping", {}))
    for i, b in enumerate(blocks):
        kind = b["type"]
        if kind == "text":
            start, deltas = {"type": "text", "text": ""}, [("text_delta", "text", b["text"])]
        elif kind == "thinking":
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [("thinking_delta", "thinking", b["thinking"]), ("signature_delta", "signature", b["signature"])]
        elif kind == "tool_use":
            start = {"type": "tool_use", "id": b["id"], "name": b["name"], "input": {}}
            deltas = [("input_json_delta", "partial_json", b.get("raw") or json.dumps(b["input"]))]
        else:
            start, deltas = b, []
        out.append(("content_block_start", {"index": i, "content_block": start}))
        for delta, key, text in deltas:
            half = len(text) // 2
            for part in ([text[:half], text[half:]] if key != "signature" else [text]):
                out.append(("content_block_delta", {"index": i, "delta": {"type": delta, key: part}}))
        out.append(("content_block_stop", {"index": i}))
    out.append(("message_delta", {"delta": {"stop_reason": stop, "stop_sequence": None},
                                  "usage": {"output_tokens": usage["output_tokens"]}}))
    out.append(("message_stop", {}))
    return out, usage


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def fail(self, status, error, retry_after=None):
        body = json.dumps({"type": "error", "error": error}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()
        self.wfile.write(body)

    def chunk(self, data, dribble):
        data = data.encode()
        for piece in ([bytes([b]) for b in data] if dribble else [data]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()

    def count(self, **more):
        with lock:
            for key, value in more.items():
                counts[key] += value
            with open(os.path.join(args.dir, "counts.new"), "w", encoding="utf-8") as f:
                json.dump(counts, f)
            os.rename(os.path.join(args.dir, "counts.new"), os.path.join(args.dir, "counts.json"))

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        record = {"path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()}, "time": time.time(),
                  "body": json.loads(body)}
        with lock:
            with open(os.path.join(args.dir, "requests.jsonl"), "a", encoding="utf-8") as f:
                f.write(json.dumps(record) + "\n")
        self.count(requests=1)
        if args.context and len(body) > args.context:
            self.fail(400, {"type": "invalid_request_error",
                            "message": f"prompt is too long: {len(body)} tokens > {args.context} maximum"})
            return
        with lock:
            step = (script[0] if script[0].get("loop") else script.pop(0)) if script else {}
        if "status" in step:
            self.fail(step["status"], step.get("error", {"type": "api_error", "message": "no"}), step.get("retry_after"))
            return
        self.answer(step)

    def answer(self, step):
        if step.get("interim"):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if "silent" in step:
            time.sleep(step["silent"])
            self.close_connection = True
            return
        if "raw" in step:
            for _ in range(step.get("times", 1)):
                self.chunk(step["raw"], False)
            self.wfile.write(b"0\r\n\r\n")
            return
        events, usage = events_of(step)
        for i, (name, data) in enumerate(events):
            if step.get("cut") == i:
                self.close_connection = True
                return
            if name == "message_stop" and "sse_error" in step:
                name, data = "error", {"error": step["sse_error"]}
            if name == "message_start":
                self.count(input_tokens=usage["input_tokens"], output_tokens=1,
                           cache_creation_input_tokens=usage.get("cache_creation_input_tokens", 0),
                           cache_read_input_tokens=usage.get("cache_read_input_tokens", 0))
            if name == "message_delta":
                self.count(output_tokens=usage["output_tokens"] - 1)
            self.chunk(f"event: {name}\ndata: {json.dumps({'type': name, **data}, ensure_ascii=False)}\n\n",
                       step.get("dribble"))
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], OSError):  # a client that hung up is no fault of ours
            super().handle_error(request, client_address)


server = Server(("127.0.0.1", 0), Handler)
if args.tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*args.tls)
    server.socket = context.wrap_socket(server.socket, server_side=True)
with open(os.path.join(args.dir, "port.new"), "w", encoding="utf-8") as f:
    f.write(str(server.server_address[1]))
os.rename(os.path.join(args.dir, "port.new"), os.path.join(args.dir, "port"))
server.serve_forever()
