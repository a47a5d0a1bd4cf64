#!/usr/bin/env python3
"""Memory of idle tunnels: tunnels.py COUNT PORT ADDRESS COMMAND...: starts the proxy COMMAND, opens COUNT tunnels through its
port PORT to a server at ADDRESS, and prints what the proxy holds then. Fewer when the limit of descriptors is too low: the proxy needs two each.
"""
import os
import resource
import selectors
import socket
import subprocess
import sys
import time

SPARE = 300  # descriptors that are no tunnel's


def hold(server):
    """Accepts and keeps, in a process of its own: it needs a descriptor for each tunnel too."""
    server.listen(4096)
    kept = []
    while True:
        kept.append(server.accept()[0])


def memory(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return {line.split(":")[0]: int(line.split()[1]) for line in f if line.startswith(("VmRSS", "VmHWM"))}


def main():
    count, port, address = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    try:  # root may raise it, with the capability for that
        hard = max(hard, 2 * count + SPARE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, PermissionError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    n = min(count, (hard - SPARE) // 2)
    server = socket.create_server((address, 0), backlog=4096)
    target = server.getsockname()[1]
    keeper = os.fork()
    if keeper == 0:
        hold(server)
    proxy = subprocess.Popen(sys.argv[4:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        proxy.stdout.readline()  # "ready"
        before, start, tunnels = memory(proxy.pid), time.monotonic(), []
        for _ in range(n):
            s = socket.create_connection(("127.0.0.1", port))
            s.sendall(f"CONNECT {address}:{target} HTTP/1.1\r\nHost: {address}:{target}\r\n\r\n".encode())
            answer = s.recv(1000)
            if not answer.startswith(b"HTTP/1.1 200 "):
                sys.exit(f"tunnel {len(tunnels)}: {answer}")
            tunnels.append(s)
        took, after = time.monotonic() - start, memory(proxy.pid)
        poll = selectors.DefaultSelector()
        for s in tunnels:
            poll.register(s, selectors.EVENT_READ)
        if poll.select(0):
            sys.exit("a tunnel has ended")
        print(f"tunnels\t{n}" + (f" (limit of descriptors: {hard})" if n < count else ""))
        print(f"opened in\t{took:.1f} s")
        print(f"resident before\t{before['VmRSS'] / 1024:.1f} MiB")
        print(f"resident with them\t{after['VmRSS'] / 1024:.1f} MiB (peak {after['VmHWM'] / 1024:.1f})")
    finally:
        proxy.stdin.close()
        proxy.wait()
        os.kill(keeper, 9)
        os.waitpid(keeper, 0)


main()
