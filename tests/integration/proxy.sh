#!/usr/bin/env bash
# The egress proxy with real servers, in a network namespace of its own with a name server and public addresses
if [ -z "${COFFERDAM_PROXY_NET-}" ]; then
        flags=(-n)
        [ "$(id -u)" = 0 ] || flags=(-rn)
        COFFERDAM_PROXY_NET=1 exec unshare "${flags[@]}" "$0" "$@"
fi
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/net-lab.sh
. "$here/net-lab.sh"
CHECKS=$TOP/tests/integration/proxy-checks.py

# proxy [OPTION...] -- RULE...: the proxy under test, for one test; sets PROXY, its pid is in $pid, reports in $W/out
port=20000
proxy() {
        local options=()
        while [ "$1" != -- ]; do options+=("$1"); shift; done
        shift
        port=$((port + 1))
        export PROXY=$port
        [ -e "$W/fifo" ] || mkfifo "$W/fifo"
        exec 8<>"$W/fifo"
        : >"$W/out"
        "$HELPERS/proxy-serve" -r "$T/resolv.conf" "${options[@]}" 127.0.0.1 "$port" "$@" <&8 >"$W/out" 2>"$W/err" &
        pid=$!
        trap 'kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true' EXIT
        wait_for 60 grep -q ready "$W/out" || fail "no proxy: $(cat "$W/err")"
}
check() { python3 "$CHECKS" "$@"; }
through() { curl -sS --noproxy '' -x "http://127.0.0.1:$PROXY" --cacert "$CERT" -m 60 "$@"; }

tls() {
        proxy -- allowed.example
        eq 'hello from nginx' "$(through https://allowed.example/x)"
        eq 'hello from nginx' "$(through --tls-max 1.2 https://Allowed.Example./x)"
        eq 2 "$(through --http2 -o /dev/null -w '%{http_version}' https://allowed.example/x)" # untouched inside
        status 56 through https://denied.example/x 2>"$W/said"
        has "$(through -v https://denied.example/x 2>&1 || true)" 'X-Cofferdam-Reason: no rule allows it'
        has "$(cat "$W/out")" 'blocked denied.example 443 1 no rule allows it'
        # a rule of another name, by the label boundary
        status 56 through https://notallowed.example/x 2>"$W/said"
        status 56 through https://allowed.example.evil.example/x 2>"$W/said"
}

# goes red without take_hello()
sni() {
        proxy -- allowed.example
        check cells
        check split_hello
        status 1 openssl s_client -proxy "127.0.0.1:$PROXY" -connect allowed.example:443 -noservername </dev/null \
                >"$W/said" 2>&1
        has "$(cat "$W/said")" 'alert'
        has "$(cat "$W/out")" 'no server name (SNI)'
        has "$(cat "$W/out")" 'the server name (SNI) is not the name that was asked for'
}

table() {
        proxy -w 600000 -- 'allowed.example:*/tcp' "b$(printf '\xc3\xbc')cher.example:*/tcp" '93.184.216.34:*/tcp'
        check table_through_connect
        check table_through_http
        kill $pid
        proxy -w 600000 -- allowed.example "b$(printf '\xc3\xbc')cher.example"
        check table_through_sni
}

one() { # CHECK [ARG] [OPTION...] -- RULE...
        local args=("$1")
        shift
        case $1 in [0-9]*) args+=("$1") && shift ;; esac
        proxy "$@"
        check "${args[@]}"
}

token() {
        proxy -t 0123456789abcdef -- allowed.example
        check token 0123456789abcdef
        eq 200 "$(curl -s -o /dev/null -w '%{http_code}' --noproxy '' -x "http://t:0123456789abcdef@127.0.0.1:$PROXY" \
                http://allowed.example/)"
}

denylist() {
        proxy -d -- '!denied.example' '!**.wild.example'
        eq 'hello from nginx' "$(through https://allowed.example/x)"
        status 56 through https://denied.example/x 2>"$W/said"
        status 56 through https://a.wild.example/x 2>"$W/said"
        has "$(cat "$W/out")" 'blocked a.wild.example 443 1 a rule denies it [!**.wild.example]'
        eq 403 "$(through -o /dev/null -w '%{http_code}' http://loop.example/)"
}

empty() {
        proxy --
        eq 403 "$(through -o /dev/null -w '%{http_code}' http://allowed.example/)"
        eq 403 "$(through -o /dev/null -w '%{http_code}' http://localhost/)"
}

# a refused name must not be asked of a name server: the question itself would carry data out
no_lookup() {
        proxy -- allowed.example
        : >"$T/lab/queries"
        through -o /dev/null http://c2VjcmV0.denied.example/
        through -o /dev/null http://allowed.example/
        lacks "$(cat "$T/lab/queries")" denied
        has "$(cat "$T/lab/queries")" allowed.example
}

timeouts() {
        proxy -h 700 -i 1500 -- allowed.example 'allowed.example:7/tcp' silent.example
        check slow_clients 200 700
        eq 504 "$(through -o /dev/null -w '%{http_code}' http://allowed.example/never)"
        python3 - <<'PY'
import socket, os, time
s = socket.create_connection(("127.0.0.1", int(os.environ["PROXY"])), timeout=60)
s.sendall(b"CONNECT allowed.example:7 HTTP/1.0\r\n\r\n")
start = time.monotonic()
while s.recv(1000):
    pass
took = time.monotonic() - start
assert took > 1, took
PY
}

# what came back of bodies and frames, and no byte of it is ours
wire() {
        need_command node
        node "$TOP/tests/integration/net-wire.js" serve 93.184.216.34 8443 "$T/nginx/key.pem" "$CERT" >"$W/wire" &
        servers=($!)
        proxy -- allowed.example:8443
        trap 'kill $pid "${servers[0]}" 2>/dev/null || true; wait || true' EXIT
        wait_for 60 grep -q ready "$W/wire"
        eq 'h2 ok
ws ok' "$(timeout 200 node "$TOP/tests/integration/net-wire.js" ask "$PROXY" allowed.example 8443 "$CERT")"
}

malformed() {
        proxy -- allowed.example
        check smuggling
        # goes red without refuse_request()
        has "$(cat "$W/out")" 'blocked - 0 1 a folded header'
        has "$(cat "$W/out")" 'Host and the target differ'
}

# goes red without on_quiet()
probes() {
        proxy -i 10000 -- allowed.example:7/tcp
        exec 7<>"/dev/tcp/127.0.0.1/$PROXY"
        printf 'CONNECT allowed.example:7 HTTP/1.0\r\n\r\n' >&7
        asks() { ss -Hnto state established dst 93.184.216.34:7 | grep -q 'timer:(keepalive,'; }
        connected() { ss -Hnt state established dst 93.184.216.34:7 | grep -q .; }
        wait_for 60 connected
        if asks; then fail 'the server of a tunnel in use is asked'; fi
        wait_for 60 asks || fail "$(ss -Hnto)"
}

rate() {
        local n
        proxy -w 3000 -- allowed.example # a time in which there are many
        check flood
        all_told() { [ "$(awk '/^blocked/ { n += $4 } END { print n }' "$W/out")" = 1000 ]; }
        wait_for 60 all_told || fail "refusals in all reports: $(cat "$W/out")"
        n=$(grep -c '^blocked n1.bad.example 443' "$W/out")
        [ "$n" -ge 1 ] && [ "$n" -le 40 ] || fail "$n reports of one host"
        has "$(cat "$W/out")" 'refusals of many other hosts'
        through -o /dev/null http://api.datadoghq.com/
        lacks "$(cat "$W/out")" datadoghq
}

replaced() {
        proxy -- '*.example:*/tcp'
        check replaced "$W/fifo" "$W/out"
}

replaced_early() {
        proxy -- 'allowed.example:*'
        check replaced_early "$W/fifo"
}

broken_server() {
        proxy -- allowed.example:9002
        check broken_server "$pid"
}

urgent() {
        proxy -- allowed.example:7/tcp
        check urgent "$pid"
}

retries() {
        proxy -- 'allowed.example:*'
        check retries
        has "$(cat "$W/out")" 'blocked allowed.example 9444 1 the server name (SNI) is not the name that was asked for'
        has "$(cat "$W/out")" 'a ClientHello with more behind it in its record'
        # a server that takes none of the keys that a client offers first
        eq 'hello from nginx' "$(through --curves P-521:X25519 https://allowed.example:9442/x)"
}

stuck() {
        proxy -- '*.example:*/tcp'
        python3 "$CHECKS" server_speaks >"$W/speaks" &
        servers=($!)
        trap 'kill $pid "${servers[0]}" 2>/dev/null || true; wait || true' EXIT
        wait_for 60 grep -q ready "$W/speaks"
        check stuck_readers 300 # more than there are pipes
}

memory() {
        proxy -- '*.example:*/tcp'
        check idle_tunnels 400 "$pid" 60
}

t 'TLS through CONNECT, by name' tls
t 'SNI, CONNECT and Host agree or are refused, 27 cells' sni
t 'a ClientHello that the server asks for' retries
t 'the host table through CONNECT, HTTP and SNI' table
t 'no second reading of a request' malformed
t 'hop-by-hop headers end here' one headers -- allowed.example
t 'events and chunks are not held back' one streams -- allowed.example
t 'the end of an answer' one answers -- allowed.example
t 'a WebSocket becomes a tunnel, other upgrades do not' one websocket -- allowed.example
t 'raw tunnels, half closed' one raw_tunnel -- allowed.example:7/tcp
t 'urgent data' urgent
t 'bytes behind CONNECT' one early_bytes -- allowed.example:7/tcp
t 'CONNECT to port 80 is HTTP' one plain_in_tunnel -- allowed.example
t 'what names resolve to' one names -- '*.example' '!denied.example'
t 'HTTP/2 and a WebSocket inside a tunnel' wire
t 'a name is asked for once at a time' one asked_once -- slow.example
t 'no more names at a time than a limit' one many_names -- '**'
t 'the token' token
t 'a denylist' denylist
t 'an empty allowlist' empty
t 'a refused name is not looked up' no_lookup
t 'time limits' timeouts
t 'half closed requests' one half_closed -q 2500 -- allowed.example
t 'more clients than there may be' one too_many_64 -c 64 -- allowed.example
t 'more tunnels than there may be' one too_many_tunnels -c 64 -- allowed.example allowed.example:7/tcp
t 'a flood of refusals' rate
t 'an honest client in a crowd' one crowd 400 -- allowed.example allowed.example:7/tcp
t 'tunnels at full speed' one full_speed 40 -- allowed.example allowed.example:9010/tcp
t 'whether a silent server is there' probes
t 'another policy while it runs' replaced
t 'another policy before a request is whole' replaced_early
t 'clients that do not read' stuck
t 'a server that breaks off, and a client that does not read' broken_server
t 'memory of idle tunnels' memory
finish
