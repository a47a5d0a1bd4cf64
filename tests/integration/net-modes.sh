#!/usr/bin/env bash
# What the network modes let through and what not. The host of these runs is a network namespace of the script's own.
if [ -z "${COFFERDAM_NET_NS-}" ]; then
        flags=(-nm)
        # the capabilities are for the lab, not for the runs: see sandbox() below
        [ "$(id -u)" = 0 ] || flags=(--map-current-user --keep-caps -nm)
        COFFERDAM_NET_NS=1 exec unshare "${flags[@]}" "$0" "$@"
fi
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/net-lab.sh
. "$here/net-lab.sh"
mount --bind "$T/resolv.conf" /etc/resolv.conf || { echo '1..0 # SKIP no mount over /etc/resolv.conf'; exit 0; }
as_caller=()
[ "$(id -u)" = 0 ] || as_caller=(setpriv --ambient-caps=-all --inh-caps=-all)
sandbox() { timeout -k 5 200 "${as_caller[@]}" "$C" run --events "$W/events" "$@"; }

# Servers of the host's loopback: each says its address and port.
cat >"$T/own.py" <<'PY'
import http.server, socket, sys, threading

class Server(http.server.ThreadingHTTPServer):
    def server_bind(self):
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        super().server_bind()

class Six(Server):
    address_family = socket.AF_INET6

class Says(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = ("%s %d" % self.server.server_address[:2]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *args):
        pass

for at in (("127.0.0.1", 81), ("127.0.0.1", 8081), ("127.0.0.1", 8083), ("127.0.0.2", 8084), ("::1", 82), ("::1", 8082),
           ("::1", 8081), ("93.184.216.34", 8085), ("2606:2800:220:1::1", 80), ("2606:2800:220:1::1", 8085)):
    threading.Thread(target=(Six if ":" in at[0] else Server)(at, Says).serve_forever).start()
open(sys.argv[1], "w").close()
PY
python3 "$T/own.py" "$T/own.ready" &
servers+=($!)
wait_for 60 test -e "$T/own.ready"

# reaches RULE... -- URL...: what each URL gives through the proxy, a line each
reaches() {
        local options=()
        while [ "$1" != -- ]; do options+=("$1"); shift; done
        shift
        sandbox "${options[@]}" -- sh -c 'for u; do curl -g -sS -m 60 --noproxy "" -w " %{http_code}\n" "$u" 2>&1 | tail -n 1; done' sh "$@"
}

# one port of the host's loopback, and nothing else of it; goes red without decide_alias()
loopback_of_the_host() {
        local alias=host.docker.internal
        eq '127.0.0.1 8081 200
127.0.0.1 8081 200
::1 8082 200' "$(reaches --network allowlist --allow $alias:8081 --allow $alias:8082 -- \
                http://$alias:8081/ http://Host.Docker.Internal.:8081/ http://$alias:8082/)"
        # other ports, other names and addresses for it, an address beside 127.0.0.1, a name below
        eq '403 403 403 403 403 403 403 502 403' "$(reaches --network allowlist --allow $alias:8081 --allow $alias:8084 -- \
                http://$alias:8083/ http://$alias/ http://127.0.0.1:8081/ http://localhost:8081/ 'http://[::1]:8081/' \
                'http://[::ffff:127.0.0.1]:8081/' http://loop.example:8081/ http://$alias:8084/ http://x.$alias:8081/ |
                grep -o '...$' | tr '\n' ' ' | sed 's/ $//')"
        has "$(cat events)" 'it leads to an address that no rule names: the loopback of the host'
        # what allows everything allows nothing of it
        eq '403 403 403' "$(reaches --network allowlist --allow '**:*' --allow '**.internal:8081' -- \
                http://$alias:8081/ http://$alias/ http://$alias:8082/ | grep -o '...$' | tr '\n' ' ' | sed 's/ $//')"
        eq '127.0.0.1 8081 200
 403' "$(reaches --network denylist --deny denied.example --allow $alias:8081 -- http://$alias:8081/ http://$alias:8083/ |
                sed 's/^cofferdam.*\( 403\)/\1/')"
        # a rule behind it that denies wins, the name or its address
        eq '403' "$(reaches --network allowlist --allow $alias:8081 --deny $alias -- http://$alias:8081/ | grep -o '...$')"
        eq '403' "$(reaches --network allowlist --allow $alias:8082 --deny '[::1]' --deny 127.0.0.1 -- http://$alias:8082/ | grep -o '...$')"
        # it is not a name that anybody is asked for
        : >"$T/lab/queries"
        reaches --network allowlist --allow $alias:8081 -- http://$alias:8081/ >/dev/null
        eq '' "$(cat "$T/lab/queries")"
        # TLS and raw protocols alike, in a tunnel
        eq '127.0.0.1 8081 200' "$(sandbox --network allowlist --allow $alias:8081 -- curl -sS -p -m 60 -w ' %{http_code}' http://$alias:8081/)"
        # no address and no range does; goes red when match_addr() forgets @least, and without refuse_own()
        for rule in '0.0.0.0/0:*' '[::]/0:*' '126.0.0.0/7:*'; do
                eq '403 403 403 403 403 ' "$(reaches --network allowlist --allow "$rule" --allow loop.example:8081 -- http://127.0.0.1:8081/ \
                        'http://[::1]:8082/' http://0.0.0.0:8081/ 'http://[::ffff:127.0.0.1]:8081/' http://loop.example:8081/ | grep -o '...$' | tr '\n' ' ')" "$rule"
        done
        for rule in 127.0.0.1:8081 '[::1]:8082' 0.0.0.0:8081 '127.0.0.0/8:8081'; do
                status 2 sandbox --network allowlist --allow "$rule" -- true 2>said
                has "$(cat said)" "write '$alias:808"
        done
        # a whole host is not a port
        status 2 sandbox --network allowlist --allow $alias -- true 2>said
        has "$(cat said)" "network.rules[0]: '$alias', byte 1"
        has "$(cat said)" "write '$alias:8080'"
}

# the same for programs that know of no proxy
loopback_led() {
        local alias=host.docker.internal
        out=$(sandbox --network allowlist --allow $alias:81 --allow $alias:82 --allow $alias:8081 -- sh -c "
                exec 2>&1
                unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
                curl -sS -m 60 -w ' %{http_code}\n' http://$alias:81/
                curl -sS -m 60 -w ' %{http_code}\n' http://$alias:82/
                curl -sS -m 60 -w ' %{http_code}\n' http://$alias:8081/
                curl -sS -m 60 -w ' %{http_code}\n' http://$alias:8083/
                curl -sS -m 60 -w ' %{http_code}\n' http://$alias/
                curl -sS -m 60 -w ' %{http_code}\n' http://127.0.0.1:81/
                curl -sS -m 60 -w ' %{http_code}\n' http://loop.example:81/; true")
        eq '127.0.0.1 81 200
::1 82 200
127.0.0.1 8081 200' "$(head -n 3 <<<"$out")"
        eq 4 "$(grep -c ' 000$' <<<"$out")" "$out"
        lacks "$out" 'timed out'
        status 6 sandbox --network allowlist --allow '**' -- curl -sS -m 60 --noproxy '*' http://$alias:81/ 2>said
}

# a rule that is taken back closes what is open; goes red when conn_recheck() forgets the alias, either way
loopback_replaced() {
        local alias=host.docker.internal
        cat >held.py <<'PY'
import socket
s = socket.create_connection(("127.0.0.1", 3128), timeout=600)
s.sendall(b"CONNECT host.docker.internal:8081 HTTP/1.1\r\nHost: host.docker.internal:8081\r\n\r\n")
s.recv(1000)
open("open", "w").close()
s.recv(1000)
print("ended")
PY
        id=$("${as_caller[@]}" "$C" start --network allowlist --allow $alias:8081)
        trap '"$C" stop "$id" >/dev/null || true' EXIT
        "$C" exec "$id" -- python3 held.py >end &
        wait_for 60 test -e open
        status 0 "$C" net "$id" --allow other.example
        eq '127.0.0.1 8081' "$("$C" exec "$id" -- curl -sS -m 60 http://$alias:8081/)"
        eq '' "$(cat end)"
        status 0 "$C" net "$id" --deny $alias
        wait_for 60 grep -q ended end
}

explained() {
        local alias=host.docker.internal
        status 0 "$C" explain --host $alias:8081 --network allowlist --allow $alias:8081 >said
        has "$(cat said)" "rule    $alias:8081"
        has "$(cat said)" '127.0.0.1, then ::1, of the host'
        status 1 "$C" explain --host $alias:8081 --network allowlist --allow '**:*' >said
        has "$(cat said)" 'the loopback of the host'
        status 1 "$C" explain --host $alias:8081 --network denylist >said
}

# none: no interface but lo, and it works, in both families
alone() {
        eq 'lo ::1 ok 127.0.0.1 ok' "$(sandbox --network none -- python3 -c '
import os, socket
say = [" ".join(sorted(os.listdir("/sys/class/net"))) if os.path.isdir("/sys/class/net") else
       " ".join(line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:])]
for family, at in ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.1")):
    s = socket.create_server((at, 8081), family=family)
    c = socket.create_connection((at, 8081), timeout=60)
    s.accept()[0].sendall(b"ok")
    say += [at, c.recv(9).decode()]
print(*say)')"
        out=$(sandbox --network none -- sh -c 'for u in http://127.0.0.1:8081/ http://[::1]:8081/ http://93.184.216.34/ http://host.docker.internal:8081/; do
                curl -g -s -m 60 $u; echo $?; done')
        eq '7 7 7 6' "$(tr '\n' ' ' <<<"$out" | sed 's/ $//')"
}

# IPv6, outside and in between: a name that has no other address, a literal, the proxy's own socket; with a proxy and
# without; goes red when choose() of dial.c takes IPv4 addresses only
six() {
        out=$(sandbox --network allowlist --allow sixweb.example --allow sixweb.example:8085 --allow '[2606:2800:220:1::1]' -- sh -c '
                exec 2>&1
                get() { curl -g -sS -m 60 -w " %{http_code}\n" "$@" | tail -n 1; }
                get http://sixweb.example/
                get --proxy "http://[::1]:3128" http://sixweb.example:8085/
                get "http://[2606:2800:220:1::1]/"
                get -o /dev/null "http://[2606:2800:220:1::1]:8085/"
                get -o /dev/null "http://[2606:2800:220:1::2]/"
                get --noproxy "*" http://sixweb.example/; true')
        eq '2606:2800:220:1::1 80 200
2606:2800:220:1::1 8085 200
2606:2800:220:1::1 80 200
 403
 403
2606:2800:220:1::1 80 200' "$out"
        eq 'true false' "$(sandbox --network denylist --deny '2606:2800::/32' -- sh -c '
                get() { [ "$(curl -g -s -m 60 -o /dev/null -w "%{http_code}" "$1")" = 200 ] && echo true || echo false; }
                get http://allowed.example/; get http://sixweb.example/' | tr '\n' ' ' | sed 's/ $//')"
}

# --- open, of root: a host that forwards, and what is beyond it ---
# Says whose address it saw, over IPv4 and IPv6; the lab's tables of nftables, when it is called "tables".
cat >"$T/beyond.py" <<'PY'
import socket, struct, sys, threading

def tables():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    s.sendall(struct.pack("=IHHIIBBH", 20, 10 << 8 | 1, 0x301, 1, 0, 0, 0, 0))  # NFT_MSG_GETTABLE, dump
    data = s.recv(65536)
    while data:
        size, kind = struct.unpack("=IH", data[:6])
        if kind == 3:  # NLMSG_DONE
            return
        at = 20
        while at + 4 <= size:
            n, what = struct.unpack("=HH", data[at:at + 4])
            if what & 0x3fff == 1:  # NFTA_TABLE_NAME
                print(data[at + 4:at + n - 1].decode())
            at += n + 3 & ~3
        data = data[size + 3 & ~3:] or s.recv(65536)

def serve(family, at):
    s = socket.create_server((at, 80), family=family)
    while True:
        c, peer = s.accept()
        c.recv(1000)
        text = peer[0].encode()
        c.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        c.close()

def attr(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)

def message(kind, flags, family, res, *attrs):
    body = struct.pack("=BB", family, 0) + struct.pack("!H", res) + b"".join(attrs)
    return struct.pack("=IHHII", 16 + len(body), kind, 1 | flags, 1, 0) + body

def be(v):
    return struct.pack("!I", v)

def hold():
    """The tables of three places in four, until this process ends: each is this socket's, flag 2."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    for first in range(0, 16383, 256):
        s.sendall(message(16, 0, 0, 10) +
                  b"".join(message(10 << 8 | 0, 0x400, 1, 0, attr(1, b"cofferdam%04x\0" % i), attr(2, be(2)))
                           for i in range(first, min(first + 256, 16383)) if i % 4) + message(17, 4, 0, 10))
        assert struct.unpack("=i", s.recv(65536)[16:20])[0] == 0
    print("holding", flush=True)
    while True:
        s.recv(65536)

def drop():
    """A table that drops what is forwarded, until this process ends."""
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    s.sendall(message(16, 0, 0, 10) + message(10 << 8 | 0, 0x400, 2, 0, attr(1, b"other\0"), attr(2, be(2))) +
              message(10 << 8 | 3, 0x400, 2, 0, attr(1, b"other\0"), attr(3, b"forward\0"),
                      attr(4 | 0x8000, attr(1, be(2)) + attr(2, be(0))), attr(5, be(0)), attr(7, b"filter\0")) +
              message(17, 4, 0, 10))
    assert struct.unpack("=i", s.recv(65536)[16:20])[0] == 0
    print("dropping", flush=True)
    while True:
        s.recv(65536)

if sys.argv[1] == "tables":
    tables()
elif sys.argv[1] == "drop":
    drop()
elif sys.argv[1] == "hold":
    hold()
else:
    for family, at in ((socket.AF_INET, "10.77.0.2"), (socket.AF_INET6, "fd77::2")):
        threading.Thread(target=serve, args=(family, at)).start()
    open(sys.argv[1], "w").close()
PY
beyond() { nsenter -t "$other" -n "$@"; }
uplinks() { ip -o link | grep -o 'cofferdam[0-9a-f]*' || true; }
tables() { python3 "$T/beyond.py" tables; }
nothing_left() { [ -z "$(uplinks)$(tables)" ]; }

# needs_uplink: the lab becomes a host between the sandbox and another network; once
needs_uplink() {
        [ "$(id -u)" = 0 ] || skip 'only root has a network namespace with a way out'
        unshare -n sleep 600 &
        other=$!
        trap 'kill $other "${beyond:-$other}" 2>/dev/null || true; ip link del up0 2>/dev/null || true; wait 2>/dev/null || true' EXIT
        elsewhere() { [ "$(readlink "/proc/$other/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }
        wait_for 60 elsewhere
        gone() { ! ip link show up0 >/dev/null 2>&1; }
        wait_for 60 gone
        ip link add up0 type veth peer name up0 netns "$other"
        ip link set up0 up && ip addr add 10.77.0.1/24 dev up0 && ip -6 addr add fd77::1/64 dev up0 nodad
        beyond ip link set lo up && beyond ip link set up0 up
        beyond ip addr add 10.77.0.2/24 dev up0 && beyond ip -6 addr add fd77::2/64 dev up0 nodad
        echo 1 >/proc/sys/net/ipv4/ip_forward
        echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
        beyond python3 "$T/beyond.py" "$W/beyond.ready" &
        beyond=$!
        wait_for 60 test -e "$W/beyond.ready"
        echo 'nameserver 10.77.0.2' >"$T/resolv.conf"
        nothing_left || fail "left of an earlier one: $(uplinks) $(tables)"
}

# a namespace of its own, whose packets leave as the host's; goes red without masquerade_from()
open_of_root() {
        needs_uplink
        settings=$(sysctl -a 2>/dev/null | grep -E '^net.ipv[46].conf.(all|default|up0|lo)|^net.ipv4.ip_forward')
        out=$(sandbox --network open -- sh -c '
                exec 2>&1
                curl -sS -m 60 http://10.77.0.2/; echo
                curl -g -sS -m 60 "http://[fd77::2]/"; echo
                grep -c : /proc/net/dev
                for u in http://127.0.0.1:8081/ "http://[::1]:8082/"; do curl -g -s -m 60 "$u"; echo $?; done')
        eq '10.77.0.1
fd77::1
2
7
7' "$out"
        chmod 777 .
        eq "$(id -u nobody) 10.77.0.1" "$(sandbox --user nobody --network open -- sh -c 'echo "$(id -u) $(curl -sS -m 60 http://10.77.0.2/)"')"
        wait_for 60 nothing_left || fail "left: $(uplinks) $(tables)"
        eq "$settings" "$(sysctl -a 2>/dev/null | grep -E '^net.ipv[46].conf.(all|default|up0|lo)|^net.ipv4.ip_forward')"
        status 0 sandbox --network none -- true
}

# each its own place, none that has an address of the host's; nobody beyond reaches in
open_places() {
        needs_uplink
        a=$("$C" start --network open)
        b=$("$C" start --network open)
        trap '"$C" stop "$a" "$b" >/dev/null 2>&1 || true; kill $other $beyond 2>/dev/null || true; ip link del up0 2>/dev/null || true; wait || true' EXIT
        has "$("$C" doctor --strict --network open)" 'open: a namespace of its own'
        eq 2 "$(uplinks | sort -u | wc -l)"
        eq "$(uplinks | sort -u)" "$(tables | sort -u)"
        eq 'veth, masquerade' "$("$C" inspect "$a" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["plan"]["mechanisms"]["network"])')"
        at=$("$C" exec "$a" -- sh -c "ip -4 -o addr show eth0 2>/dev/null || hostname -I" | grep -o '198\.19\.[0-9.]*' | head -n 1)
        has "$at" 198.19.
        "$C" exec -d "$a" -- python3 -c "
import socket
s = socket.create_server(('0.0.0.0', 9000))
while True: s.accept()[0].sendall(b'in')"
        answers_host() { (exec 3<>"/dev/tcp/$at/9000") 2>/dev/null; }
        wait_for 60 answers_host # the host itself does reach it
        beyond ip route add 198.19.0.0/16 via 10.77.0.1
        # goes red without the rule of the chain "in"
        status 1 beyond timeout 60 python3 -c "import socket; socket.create_connection(('$at', 9000), timeout=0.5)" 2>said
        status 1 "$C" exec "$b" -- timeout 60 python3 -c "import socket; socket.create_connection(('$at', 9000), timeout=0.5)" 2>said
        "$C" stop "$a" >/dev/null
        one_left() { [ "$(uplinks | sort -u)" = "$(tables)" ] && [ "$(tables | wc -l)" = 1 ]; }
        wait_for 60 one_left || fail "$(uplinks) $(tables)"
        eq 10.77.0.1 "$("$C" exec "$b" -- curl -sS -m 60 http://10.77.0.2/)"
}

# whoever is killed, nothing of it stays on the host
open_killed() {
        needs_uplink
        id=$("$C" start --network open)
        trap '"$C" rm "$id" >/dev/null 2>&1 || true; kill $other $beyond 2>/dev/null || true; ip link del up0 2>/dev/null || true; wait || true' EXIT
        nothing_left && fail 'it has no way out'
        pid=$("$C" inspect "$id" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["supervisor"]["pid"])')
        kill -KILL "$pid"
        wait_for 60 nothing_left || fail "left: $(uplinks) $(tables)"
        eq 10.77.0.1 "$(sandbox --network open -- curl -sS -m 60 http://10.77.0.2/)"
}

# a host that forwards nothing, or where somebody drops it, is not made to: its own namespace is used, and that is said;
# goes red without veth_hindrance()
open_of_the_host() {
        needs_uplink
        # the kernel removes the devices of a namespace some time after its end
        wait_for 60 eval '[ -z "$(uplinks)" ]' || fail "left: $(uplinks)"
        # says REASON: what the record of such a run says
        says() {
                id=$("$C" start --network open)
                eq "$(readlink /proc/self/ns/net)" "$("$C" exec "$id" readlink /proc/self/ns/net)"
                has "$("$C" inspect "$id" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["plan"]["network"]["why"])')" "$1"
                has "$("$C" doctor --strict --network open)" "open: the host's namespace: "
                eq '' "$(uplinks)$(tables | grep -v other || true)"
                "$C" stop "$id" >/dev/null
        }
        echo 0 >/proc/sys/net/ipv4/ip_forward
        says 'sysctl -w net.ipv4.ip_forward=1'
        eq 0 "$(cat /proc/sys/net/ipv4/ip_forward)"
        echo 1 >/proc/sys/net/ipv4/ip_forward
        echo 'nameserver 127.0.0.53' >"$T/resolv.conf"
        says 'name servers of this host are on its loopback'
        echo 'nameserver 10.77.0.2' >"$T/resolv.conf"
        ip route add 198.19.0.0/16 via 10.77.0.2
        says 'a route to 198.19.0.0/16'
        ip route del 198.19.0.0/16
        ip route add 198.19.0.0/17 via 10.77.0.2 # half of the places: red without is_used()
        for _ in 1 2 3; do
                eq 10.77.0.1 "$(sandbox --network open -- curl -sS -m 60 http://10.77.0.2/)"
        done
        ip route del 198.19.0.0/17
        python3 "$T/beyond.py" hold >holding &
        held=$!
        trap 'kill $held $other $beyond 2>/dev/null || true; ip link del up0 2>/dev/null || true; wait || true' EXIT
        wait_for 60 test -s holding
        # red when find_place() ends at EPERM
        for _ in 1 2 3; do
                eq 10.77.0.1 "$(sandbox --network open -- curl -sS -m 60 http://10.77.0.2/)"
        done
        kill $held
        wait $held || true
        python3 "$T/beyond.py" drop >dropping &
        trap 'kill $! $other $beyond 2>/dev/null || true; ip link del up0 2>/dev/null || true; wait || true' EXIT
        wait_for 60 test -s dropping
        says "the table 'other'"
}

t 'the loopback of the host: the port that a rule names, nothing else' loopback_of_the_host
t 'the loopback of the host without a proxy' loopback_led
t 'the loopback of the host and another policy' loopback_replaced
t 'the loopback of the host explained' explained
t 'none: loopback alone' alone
t 'allowlist, denylist: IPv6' six
t 'open, of root: its own namespace' open_of_root
t 'open, of root: places' open_places
t 'open, of root: killed' open_killed
t 'open, of root: where it cannot be' open_of_the_host
finish
