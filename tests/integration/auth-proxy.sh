#!/usr/bin/env bash
# The auth proxy: a service of its own on loopback, with a server of the tests behind it (auth-upstream.py)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/pg.sh
. "$here/pg.sh"
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
nginx=
stop_all() {
        # shellcheck disable=SC2086 # a pid or nothing
        kill "$upstream" $nginx 2>/dev/null
        pg_stop
        clean
}
trap stop_all EXIT
trap 'echo "Bail out! killed"; stop_all; exit 143' INT TERM HUP
wait_for 60 test -s "$A/port" || { cat "$A/upstream.log"; echo 'Bail out! no server'; exit 1; }

# a server that offers HTTP/2; what it is asked comes back
http2() {
        local SERVERS=${COFFERDAM_SERVERS-$TOP/build/servers} path libs port
        path=$SERVERS/usr/sbin/nginx
        [ -x "$path" ] || path=$(PATH=$PATH:/usr/sbin command -v nginx) || skip "no nginx: './dev test' gets it"
        libs=("$SERVERS"/usr/lib/*-linux-gnu* "$SERVERS"/lib/*-linux-gnu*)
        head -c 16M /dev/zero >big
        trap 'kill $nginx 2>/dev/null; wait $nginx || true' EXIT
        up() { [ -s pid ] && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; }
        up_or_over() { up || ! kill -0 "$nginx" 2>/dev/null; }
        for _ in 1 2 3 4 5; do # somebody else may have the port
                port=$((20000 + RANDOM % 10000))
                cat >conf <<CONF
daemon off; master_process off; pid $W/pid; error_log $W/err; $([ "$(id -u)" != 0 ] || echo 'user root root;')
events { worker_connections 64; }
http { access_log off; client_body_temp_path $W/t1; proxy_temp_path $W/t2; fastcgi_temp_path $W/t3; uwsgi_temp_path $W/t4; scgi_temp_path $W/t5;
 client_max_body_size 40m;
 server { listen 127.0.0.1:$port ssl http2; ssl_certificate $A/server.crt; ssl_certificate_key $A/server.key;
  location /v1/none { return 404 none; }
  location = /v1/big { alias $W/big; }
  location /v1/ { return 200 "\$server_protocol \$request_method \$request_uri \$content_length \$http_authorization"; } } }
CONF
                LD_LIBRARY_PATH=$(IFS=: && echo "${libs[*]}") "$path" -c "$W/conf" -p "$W" -e "$W/err" >"$W/said" 2>&1 &
                nginx=$!
                wait_for 60 up_or_over || true
                ! up || break
        done
        up || fail "no nginx: $(cat said err)"
        NGINX_PORT=$port check http2
}

replicas() {
        local part
        pg_start
        trap pg_stop EXIT
        for part in start stop; do # for what stops and starts it in the middle
                { echo '#!/usr/bin/env bash'; declare -p pg_home pg_bin; declare -f pg_as pg_start pg_stop fail; echo "T=$T; pg_$part"; } >"pg-$part"
                chmod +x "pg-$part"
        done
        PG_URL=$PG_URL PG_START=$W/pg-start PG_STOP=$W/pg-stop check replicas
        ! grep -qE 'REALOAUTH|REALSECRET|ifap_' "$pg_home/log" || fail "in the log of the database: $(grep -m1 -E 'REAL|ifap_' "$pg_home/log")"
        # everything that the database wrote to the disk
        pg_stop
        ! grep -rqaE 'REALOAUTH|REALSECRET|ifap_[0-9a-f]{64}' "$pg_home" || fail "in the files of the database: $(grep -rlaE 'REAL|ifap_' "$pg_home")"
}

no_program() {
        local out
        mkdir bin
        cp "$C" bin/cofferdam
        out=$(status 1 bin/cofferdam auth-proxy 2>&1)
        [ -e "$("$C" auth-proxy --help >/dev/null && echo "$T/libexec/cofferdam-auth-proxy")" ]
        has "$out" "'cofferdam-auth-proxy' is not installed: install it"
        eq 1 "$(echo "$out" | wc -l)" lines
}

check() { python3 "$TOP/tests/integration/auth-proxy.py" "$A" "$1"; }

t 'the decisions about the model API, by hand and by a client' check model
t 'the decisions about hosts of secrets, by hand and by a client' check secret
t 'every spelling of a host but its own is refused' check spellings
t 'what is no request, or two, is refused and ends the connection' check refused
t 'a token in each of its places, and none of them is sent on' check places
t 'each injection; headers of one connection end there' check injections
t 'a token is dead from the second of its expiry on' check expiry
t 'the admin side: its key, what it refuses, what it revokes' check admin
t 'bodies: 32 MiB, one byte more, cut short, waited for' check bodies
t 'servers that redirect, hint, break off, never answer' check servers
t 'only servers that are who they are, at addresses that are public' check addresses
t 'a server that offers HTTP/2 gets it' http2
t 'git and curl with nothing but a token' check clients
t 'two proxies share a database; it goes and comes back' replicas
t 'a program that is not installed is one line' no_program
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
