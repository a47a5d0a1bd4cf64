#!/usr/bin/env bash
# The auth proxy: a service of its own on loopback, with a server of the tests behind it (auth-upstream.py)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
for program in python3 openssl; do
        command -v "$program" >/dev/null || {
                echo "1..0 # SKIP no $program on this machine"
                exit 0
        }
done
[ -x "$T/libexec/cofferdam-auth-proxy" ] || {
        echo '1..0 # SKIP the auth proxy was not built: ./dev setup'
        exit 0
}
A=$T/auth
mkdir "$A" "$A/git"
export C
export CLOCK_SHIM=$HELPERS/libclock-shim.so
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj '/CN=test authority' \
        -keyout "$A/ca.key" -out "$A/ca.pem" 2>/dev/null
openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=server -keyout "$A/server.key" -out "$A/server.csr" 2>/dev/null
names=DNS:api.anthropic.com,DNS:api.example.com,DNS:git.example.com,DNS:a.wild.example.org,DNS:b.a.wild.example.org,IP:127.0.0.1
openssl x509 -req -days 30 -in "$A/server.csr" -CA "$A/ca.pem" -CAkey "$A/ca.key" -CAcreateserial -out "$A/server.crt" \
        -extfile <(echo "subjectAltName=$names") 2>/dev/null
cat "$A/server.key" "$A/server.crt" >"$A/server.pem"
: >"$A/seen"
GIT_BASIC=$(printf 'oauth2:glpat-REALBASIC' | base64) python3 "$TOP/tests/integration/auth-upstream.py" "$A" >"$A/upstream.log" 2>&1 &
upstream=$!
trap 'kill "$upstream" 2>/dev/null; clean' EXIT
wait_for 10 test -s "$A/port" || { cat "$A/upstream.log"; echo 'Bail out! no server'; exit 1; }

check() { python3 "$TOP/tests/integration/auth-proxy.py" "$A" "$1"; }

t 'the decisions about the model API, by hand and by a client' check model
t 'the decisions about hosts of secrets, by hand and by a client' check secret
t 'what is no request, or two, is refused and ends the connection' check refused
t 'a token in each of its places, and none of them is sent on' check places
t 'each injection; headers of one connection end there' check injections
t 'a token is dead from the second of its expiry on' check expiry
t 'the admin side: its key, what it refuses, what it revokes' check admin
t 'bodies: 32 MiB, one byte more, cut short, waited for' check bodies
t 'servers that redirect, hint, break off, never answer' check servers
t 'only servers that are who they are, at addresses that are public' check addresses
t 'an event is passed on when it comes' check first_bytes
t 'who goes, and who is revoked, ends at the server within a second' check gone
t 'a client that does not read holds up its own server only' check slow_client
t '200 streams at once in 80 MiB' check many
t 'limits on requests of a token and on clients' check limits
t 'SIGTERM lets requests finish' check stop
t 'unix sockets, TLS' check ways_in
t 'bad settings are one line that names them' check bad_input
t 'readiness, memory, a log that nobody reads' check notify
finish
