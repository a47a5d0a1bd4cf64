"""A client of a run that does not behave: control.py RUN-DIRECTORY WHAT [COUNT]; see control.sh"""
import array
import os
import re
import socket
import struct
import sys
import time

# struct run_msg of runtime/run/message.h
FIELDS, RUN_ID, CODE = "<IiiiIII3IHH", 13, 32
HEADER = open(os.path.join(os.path.dirname(__file__), "../../runtime/run/message.h"), encoding="utf-8").read()
ERROR = open(os.path.join(os.path.dirname(__file__), "../../runtime/base/error.h"), encoding="utf-8").read()
TYPES = re.findall(r"^\s+RUN_MSG_([A-Z_]+),", HEADER, re.M)
TEXT = int(re.search(r"ERROR_MSG_MAX = (\d+)", ERROR).group(1))
STDIN, STDOUT, STDERR, TTY, DETACH = 1, 2, 4, 8, 16


def message(kind, code=0, flags=0, size=(0, 0, 0)):
    head = struct.pack(FIELDS, TYPES.index(kind), code, 0, 0, 0, 0, flags, *size, 24, 80)
    body = head + bytes(RUN_ID + CODE + TEXT)
    return body + bytes(-len(body) % 4)


def connect(seconds=60.0):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("control")  # blocks while the queue is full: with a timeout it would fail with EAGAIN
    s.settimeout(seconds)
    return s


def send(s, data, fds=()):
    extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    s.sendmsg([data], extra)


def run(s, *argv, flags=STDIN | STDOUT | STDERR):
    words = ("",) + argv
    data = b"".join(w.encode() + b"\0" for w in words)
    block = os.memfd_create("block")
    os.write(block, data)
    null = os.open("/dev/null", os.O_RDWR)
    streams = [null] * bin(flags & 7).count("1")
    send(s, message("EXEC", flags=flags, size=(len(argv), 0, len(data))), [block] + streams)
    os.close(block)
    os.close(null)


def answer(s):
    data = s.recv(65536)
    return TYPES[struct.unpack("<I", data[:4])[0]] if data else None


def many(what, count=50):
    for _ in range(count):
        what()


def new():
    connect().close()


def half():
    s = connect()
    send(s, message("EXEC")[:100])
    assert s.recv(10) == b"", "half a message is answered"


def started(close=True):
    s = connect()
    run(s, "sleep", "1000")
    assert answer(s) == "STARTED"
    s.close() if close else None


def unheard():
    """Gone before it is told that its command runs."""
    s = connect()
    run(s, "sleep", "1000")
    s.close()


def deaf():
    """Takes no answer, and stays."""
    s = connect()
    s.shutdown(socket.SHUT_RD)
    run(s, "sleep", "1000")
    kept.append(s)
    time.sleep(0.05)


def terminal():
    s = connect()
    run(s, "sleep", "1000", flags=TTY)
    assert answer(s) == "STARTED"
    s.close()


def detach():
    s = connect()
    run(s, "true", flags=DETACH)
    s.close()


def lists():
    s = connect()
    send(s, message("LIST"))
    s.close()


def unread():
    """Asks for more than its socket takes."""
    s = connect(5)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    try:
        for _ in range(2000):
            send(s, message("SIGNAL"))
    except OSError:
        pass
    s.close()


def flood():
    """Every type in every state, with every number of descriptors."""
    null = os.open("/dev/null", os.O_RDWR)
    for first in TYPES:
        for second in TYPES:
            if "STOP" in (first, second) or first == "TYPE_COUNT" or second == "TYPE_COUNT":
                continue
            s = connect(5)
            try:
                send(s, message(first, size=(1, 0, 4)), [null] * (len(first) % 6))
                send(s, message(second), [null] * (len(second) % 3))
            except OSError:
                pass
            s.close()
    os.close(null)


def descriptors():
    """As many as a message can carry, and files that are no block."""
    read, write = os.pipe()
    for fd in (read, write, os.open("/dev/zero", os.O_RDONLY), os.open("/", os.O_RDONLY), os.open("/proc/self/mem", os.O_RDONLY)):
        for n in (1, 2, 4, 5, 16, 253):
            s = connect()
            try:
                send(s, message("EXEC", flags=STDIN, size=(1, 0, 64)), [fd] * n)
                assert s.recv(4096) == b"", "that is no command"
            except ConnectionError:
                pass
            s.close()


def crowd(count):
    for _ in range(count):
        try:
            kept.append(connect(0.2))
        except OSError: # as many as wait to be accepted
            break
    open(os.environ["CROWD"], "w", encoding="utf-8").close()
    time.sleep(60)


kept = []
WHAT = {
    "new": lambda: many(new, 200), "half": lambda: many(half), "exec": lambda: (many(started, 40), many(unheard, 40)),
    "deaf": lambda: many(deaf, 20), "tty": lambda: many(terminal, 20), "detach": lambda: many(detach, 20),
    "list": lambda: many(lists), "stop-unread": lambda: many(unread, 5), "flood": flood, "fds": descriptors,
    "crowd": lambda: crowd(int(sys.argv[3])),
}
os.environ["CROWD"] = os.path.abspath("crowd")
os.chdir(sys.argv[1])
WHAT[sys.argv[2]]()
