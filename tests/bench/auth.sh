#!/usr/bin/env bash
# The auth proxy beside nginx as a plain reverse proxy, both in front of the same server with TLS, in turn
# Usage: auth.sh [COFFERDAM]; ROUNDS=N (default 5), SECONDS_EACH=N (default 2)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
program=${1:-$top/build/cofferdam}
build=$(dirname "$(readlink -f "$program")")/..
servers=${COFFERDAM_SERVERS-$top/build/servers}
place=$(mktemp -d /var/tmp/cofferdam-bench.XXXXXX)
chmod 755 "$place"
pids=()
stop() {
        [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
        wait
        rm -rf "$place"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

nginx=$servers/usr/sbin/nginx
[ -x "$nginx" ] || nginx=$(PATH=$PATH:/usr/sbin command -v nginx) || { echo 'left out: needs nginx'; exit 0; }
[ -x "$build/libexec/cofferdam-auth-proxy" ] || { echo 'left out: the auth proxy was not built'; exit 0; }
libs=("$servers"/usr/lib/*-linux-gnu* "$servers"/lib/*-linux-gnu*)
export LD_LIBRARY_PATH
user=
[ "$(id -u)" != 0 ] || user='user root root;'

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3 -subj /CN=api.anthropic.com \
        -addext 'subjectAltName=DNS:api.anthropic.com' -keyout "$place/key.pem" -out "$place/cert.pem" 2>/dev/null
temp() { for t in client_body proxy fastcgi uwsgi scgi; do printf '%s_temp_path %s/%s-%s; ' "$t" "$place" "$1" "$t"; done; }
cat >"$place/server.conf" <<CONF
daemon off; master_process off; pid $place/server.pid; $user
events { worker_connections 1024; }
http { access_log off; $(temp s) keepalive_requests 1000000; default_type application/json;
 ssl_certificate $place/cert.pem; ssl_certificate_key $place/key.pem;
 upstream page { server 127.0.0.1:19100; keepalive 64; keepalive_requests 1000000; }
 server { listen 127.0.0.1:19101; listen 127.0.0.1:19102 ssl; listen 127.0.0.1:19103 ssl http2;
  # reads the request before it answers, as a server that does something with it
  location / { proxy_pass http://page; proxy_http_version 1.1; proxy_set_header Connection ""; } }
 server { listen 127.0.0.1:19100;
  location / { return 200 '{"type":"message","content":[{"type":"text","text":"$(printf '%0900d' 0)"}]}'; } } }
CONF
cat >"$place/proxy.conf" <<CONF
daemon off; master_process off; pid $place/proxy.pid; $user
events { worker_connections 1024; }
http { access_log $place/access.log; $(temp p) keepalive_requests 1000000;
 upstream api { server 127.0.0.1:19102; keepalive 64; keepalive_requests 1000000; }
 server { listen 127.0.0.1:19111;
  location / { proxy_pass https://api; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host api.anthropic.com;
   proxy_set_header Authorization "Bearer REAL"; proxy_ssl_verify on; proxy_ssl_trusted_certificate $place/cert.pem;
   proxy_ssl_name api.anthropic.com; proxy_ssl_server_name on; proxy_request_buffering off; proxy_buffering off; } } }
CONF
for what in server proxy; do
        LD_LIBRARY_PATH=$(IFS=: && echo "${libs[*]}") "$nginx" -c "$place/$what.conf" -p "$place" -e "$place/$what.err" &
        pids+=($!)
done

# relay PORT SERVER_PORT: an auth proxy, and a request to it with a token
IRONFLOW_AUTH_PROXY_ADMIN_KEY=$(openssl rand -hex 32)
export IRONFLOW_AUTH_PROXY_ADMIN_KEY
request() {
        printf 'POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 60\r\n\r\n%060d' "$1" 0
}
relay() {
        "$program" auth-proxy --listen "127.0.0.1:$1" --ca-file "$place/cert.pem" --route "api.anthropic.com=127.0.0.1:$2" \
                >"$place/said.$1" 2>"$place/log.$1" &
        pids+=($!)
        until [ -s "$place/said.$1" ]; do sleep 0.1; done
        curl -sS --noproxy '*' "http://127.0.0.1:$1/admin/v1/tokens" -H "Authorization: Bearer $IRONFLOW_AUTH_PROXY_ADMIN_KEY" \
                -d "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":$(($(date +%s) + 3600)),\"credential\":{\"kind\":\"oauth_token\",\"value\":\"REAL\"}}" |
                sed 's/.*"token":"\([^"]*\)".*/\1/' >"$place/token"
        request "$(cat "$place/token")" >"$place/request.$1"
}
relay 19121 19102
relay 19122 19103
request none | tee "$place/request.19101" >"$place/request.19111"

# on_cpu PORT: nanoseconds that the process behind it has had of a processor
on_cpu() {
        local pid=${pids[0]}
        case $1 in 19111) pid=${pids[1]} ;; 19121) pid=${pids[2]} ;; 19122) pid=${pids[3]} ;; esac
        cut -d' ' -f1 "/proc/$pid/schedstat"
}

echo '## auth proxy beside nginx: requests per second, median and 99th percentile in us'
for clients in 1 50; do
        for ((round = 1; round <= ${ROUNDS:-5}; round++)); do
                for port in 19101 19111 19121 19122; do
                        before=$(on_cpu "$port")
                        result=$("$build/tests/bench/http-load" "$port" "$clients" "${SECONDS_EACH:-2}" "$place/request.$port")
                        echo "$clients $port $result $(($(on_cpu "$port") - before)) ${SECONDS_EACH:-2}"
                done
        done
done >"$place/results"
awk 'function mid(text,   v, n, i, j, t) {
                n = split(text, v, " ")
                for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
                return v[int((n + 1) / 2)]
        }
        { key = $1 " " $2; rate[key] = rate[key] " " $3; p50[key] = p50[key] " " $4; p99[key] = p99[key] " " $5
          cpu[key] = cpu[key] " " $6 / 1000 / ($3 * $7)
          if ($2 == 19111) { r = $3; l = $4 }
          if ($2 > 19111) { rrate[key] = rrate[key] " " $3 / r; rlat[key] = rlat[key] " " $4 / l } }
        END {
                name[19101] = "server,_no_TLS"; name[19111] = "nginx"; name[19121] = "auth_proxy"; name[19122] = "auth_proxy,_HTTP/2"
                print "clients what per_s p50_us p99_us cpu_us rate/nginx p50/nginx"
                for (c = 1; c <= 50; c += 49) for (p = 19101; p <= 19122; p++) {
                        key = c " " p
                        if (key in rate) printf "%d %s %.0f %.0f %.0f %.0f %s %s\n", c, name[p], mid(rate[key]), mid(p50[key]), mid(p99[key]), mid(cpu[key]),
                                key in rrate ? sprintf("%.2f", mid(rrate[key])) : "-", key in rlat ? sprintf("%.2f", mid(rlat[key])) : "-"
                }
        }' "$place/results" | column -t
for pid in "${pids[@]:2}"; do sed -n "s/^VmHWM:[^0-9]*/peak memory of an auth proxy, KiB: /p" "/proc/$pid/status"; done
