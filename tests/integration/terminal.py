#!/usr/bin/env python3
"""Runs a command in a new terminal of 50 rows and 132 columns and plays steps to it.

Usage: terminal.py STEP... -- COMMAND [ARG...]
  expect:TEXT   wait until the terminal shows TEXT (a minute)
  send:TEXT     type TEXT; \\x03 and the like are understood
  size:R,C      resize
  hangup        close the terminal
  pause:N       wait N seconds
  exit:N        the command ends with status N within a minute (128+signal when killed)
Prints what the terminal showed; exit status 1 when a step fails.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 60


class Failure(Exception):
    pass


class Terminal:
    def __init__(self, command):
        self.shown, self.seen = b"", 0
        sized = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
            os.close(sized[1])
            os.read(sized[0], 1)  # until the size is set
            os.execvp(command[0], command)
        self.size("50,132")
        for end in sized:
            os.close(end)

    def read(self, seconds):
        if self.fd is None or not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.shown += data
        return bool(data)

    def expect(self, text):
        want, end = text.encode().decode("unicode_escape").encode("latin-1"), time.monotonic() + LIMIT
        while want not in self.shown[self.seen:]:
            if time.monotonic() > end:
                raise Failure(f"'{text}' did not appear")
            if not self.read(0.2):
                time.sleep(0.02)
        self.seen = self.shown.index(want, self.seen) + len(want)

    def send(self, text):
        os.write(self.fd, text.encode().decode("unicode_escape").encode("latin-1"))

    def size(self, text):
        rows, columns = map(int, text.split(","))
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def pause(self, text):
        end = time.monotonic() + float(text)
        while time.monotonic() < end:
            self.read(0.05)

    def hangup(self, _):
        os.close(self.fd)
        self.fd = None

    def exit(self, text):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            self.read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = None
                while self.read(0.1):
                    pass
                code = os.waitstatus_to_exitcode(status)
                code = 128 - code if code < 0 else code
                if code != int(text):
                    raise Failure(f"exit status {code}, want {text}")
                return
        raise Failure("the command did not end")


def main():
    split = sys.argv.index("--")
    terminal = Terminal(sys.argv[split + 1:])
    try:
        for step in sys.argv[1:split]:
            verb, _, text = step.partition(":")
            getattr(terminal, verb)(text)
    except Failure as failure:
        print(f"{step}: {failure}")
        return 1
    finally:
        if terminal.pid:
            os.kill(terminal.pid, signal.SIGKILL)
        print(terminal.shown.decode("utf-8", "replace"))
    return 0


sys.exit(main())
