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
sandbox() { timeout -k 5 60 "${as_caller[@]}" "$C" run --events "$W/events" "$@"; }

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
           ("::1", 8081), ("93.184.216.34", 8085)):
    threading.Thread(target=(Six if ":" in at[0] else Server)(at, Says).serve_forever).start()
open(sys.argv[1], "w").close()
PY
python3 "$T/own.py" "$T/own.ready" &
servers+=($!)
wait_for 10 test -e "$T/own.ready"

# reaches RULE... -- URL...: what each URL gives through the proxy, a line each
reaches() {
        local options=()
        while [ "$1" != -- ]; do options+=("$1"); shift; done
        shift
        sandbox "${options[@]}" -- sh -c 'for u; do curl -g -sS -m 9 --noproxy "" -w " %{http_code}\n" "$u" 2>&1 | tail -n 1; done' sh "$@"
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
                http://$alias:8083/ http://$alias/ http://127.0.0.1:8081/ http://localhost:8081/ http://[::1]:8081/ \
                http://[::ffff:127.0.0.1]:8081/ http://loop.example:8081/ http://$alias:8084/ http://x.$alias:8081/ |
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
        eq '127.0.0.1 8081 200' "$(sandbox --network allowlist --allow $alias:8081 -- curl -sS -p -m 9 -w ' %{http_code}' http://$alias:8081/)"
        # a whole host is not a port
        status 2 sandbox --network allowlist --allow $alias -- true 2>said
        has "$(cat said)" "network.rules[0]: '$alias', byte 1"
        has "$(cat said)" "write '$alias:8080'"
}

# the same for programs that know of no proxy
loopback_led() {
        local alias=host.docker.internal
        out=$(sandbox --network allowlist --allow $alias:81 --allow $alias:82 -- sh -c "
                exec 2>&1
                unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
                curl -sS -m 9 -w ' %{http_code}\n' http://$alias:81/
                curl -sS -m 9 -w ' %{http_code}\n' http://$alias:82/
                curl -sS -m 9 -w ' %{http_code}\n' http://$alias/
                curl -sS -m 9 -w ' %{http_code}\n' http://127.0.0.1:81/
                curl -sS -m 9 -w ' %{http_code}\n' http://loop.example:81/; true")
        eq '127.0.0.1 81 200
::1 82 200' "$(head -n 2 <<<"$out")"
        eq 3 "$(grep -c ' 000$' <<<"$out")" "$out"
        lacks "$out" 'timed out'
        status 6 sandbox --network allowlist --allow '**' -- curl -sS -m 9 --noproxy '*' http://$alias:81/ 2>said
}

# a rule that is taken back closes what is open; goes red when conn_recheck() forgets the alias, either way
loopback_replaced() {
        local alias=host.docker.internal
        cat >held.py <<'PY'
import socket, time
s = socket.create_connection(("127.0.0.1", 3128), timeout=20)
s.sendall(b"CONNECT host.docker.internal:8081 HTTP/1.1\r\nHost: host.docker.internal:8081\r\n\r\n")
s.recv(1000)
open("open", "w").close()
start = time.monotonic()
s.recv(1000)
print("ended", "late" if time.monotonic() - start > 10 else "in time")
PY
        id=$("${as_caller[@]}" "$C" start --network allowlist --allow $alias:8081)
        trap '"$C" stop "$id" >/dev/null || true' EXIT
        "$C" exec "$id" -- python3 held.py >end &
        wait_for 10 test -e open
        status 0 "$C" net "$id" --allow other.example
        eq '127.0.0.1 8081' "$("$C" exec "$id" -- curl -sS -m 9 http://$alias:8081/)"
        eq '' "$(cat end)"
        status 0 "$C" net "$id" --deny $alias
        wait_for 5 grep -q ended end
        eq 'ended in time' "$(cat end)"
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
    c = socket.create_connection((at, 8081), timeout=5)
    s.accept()[0].sendall(b"ok")
    say += [at, c.recv(9).decode()]
print(*say)')"
        out=$(sandbox --network none -- sh -c 'for u in http://127.0.0.1:8081/ http://[::1]:8081/ http://93.184.216.34/ http://host.docker.internal:8081/; do
                curl -g -s -m 5 $u; echo $?; done')
        eq '7 7 7 6' "$(tr '\n' ' ' <<<"$out" | sed 's/ $//')"
}

t 'the loopback of the host: the port that a rule names, nothing else' loopback_of_the_host
t 'the loopback of the host without a proxy' loopback_led
t 'the loopback of the host and another policy' loopback_replaced
t 'the loopback of the host explained' explained
t 'none: loopback alone' alone
finish
