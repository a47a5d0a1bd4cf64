# shellcheck shell=bash
# net-lab.sh - sourced after lib.sh in a network namespace of the script's own: a name server, public addresses, and
# nginx with TLS. Ended with the script.
#
# $LAB         what net-lab.py writes: seen (requests), queries (names)
# $CERT        the certificate authority of the servers
# $T/nginx     what https://allowed.example/ and its like serve
# $T/resolv.conf names the name server
# serve NAME ARG...: a server of Debian's, started in the background; its pid goes to servers

# server NAME: its path. Where its package is not installed it was taken apart by ./dev, which starts no service.
SERVERS=${COFFERDAM_SERVERS-$TOP/build/servers}
server() {
        if [ -x "$SERVERS/usr/sbin/$1" ]; then echo "$SERVERS/usr/sbin/$1"; else PATH=$PATH:/usr/sbin command -v "$1"; fi
}
serve() {
        local path libs
        path=$(server "$1") || fail "no $1: './dev test' gets it"
        libs=("$SERVERS"/usr/lib/*-linux-gnu* "$SERVERS"/lib/*-linux-gnu*)
        shift
        LD_LIBRARY_PATH=$(IFS=: && echo "${libs[*]}") "$path" "$@" &
        servers+=($!)
}
server nginx >/dev/null || {
        echo '1..0 # SKIP no nginx on this machine'
        exit 0
}
for program in python3 openssl curl ip; do
        command -v "$program" >/dev/null || {
                echo "1..0 # SKIP no $program on this machine"
                exit 0
        }
done
ip link set lo up
ip addr add 93.184.216.34/32 dev lo
ip -6 addr add 2606:2800:220:1::1/128 dev lo 2>/dev/null || true
mkdir "$T/lab" "$T/nginx"
echo 'nameserver 127.0.0.1' >"$T/resolv.conf"
export LAB=$T/lab
# shellcheck disable=SC2034 # for the scripts
CERT=$T/nginx/cert.pem

# --- servers, ended by the pids that are kept here ---
servers=()
stop_servers() {
        local pid
        for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null; done
        wait 2>/dev/null
}
trap 'stop_servers; clean' EXIT
python3 "$TOP/tests/integration/net-lab.py" "$T/lab" >"$T/lab/log" 2>&1 &
servers+=($!)
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=allowed.example \
        -addext 'subjectAltName=DNS:allowed.example,DNS:denied.example,DNS:other.example,DNS:a.wild.example' \
        -keyout "$T/nginx/key.pem" -out "$T/nginx/cert.pem" 2>/dev/null
echo 'hello from nginx' >"$T/nginx/x"
cat >"$T/nginx/conf" <<CONF
user root root; daemon off; master_process off; pid $T/nginx/pid; error_log $T/nginx/err;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path $T/nginx/t1; proxy_temp_path $T/nginx/t2; fastcgi_temp_path $T/nginx/t3;
 uwsgi_temp_path $T/nginx/t4; scgi_temp_path $T/nginx/t5;
 server { listen 93.184.216.34:443 ssl http2; ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate $T/nginx/cert.pem; ssl_certificate_key $T/nginx/key.pem;
 root $T/nginx; index index.json; location = /greet { default_type application/json; alias $T/nginx/greet/index.json; } }
 server { listen 93.184.216.34:9442 ssl; ssl_protocols TLSv1.3; ssl_ecdh_curve X25519; ssl_certificate $T/nginx/cert.pem; ssl_certificate_key $T/nginx/key.pem; root $T/nginx; } }
CONF
serve nginx -c "$T/nginx/conf" -p "$T/nginx" -e "$T/nginx/err" >/dev/null 2>&1
answers() { [ -s "$T/lab/ready" ] && (exec 3<>/dev/tcp/93.184.216.34/443) 2>/dev/null; }
wait_for 60 answers || { cat "$T/lab/log" "$T/nginx/err"; echo 'Bail out! no servers'; exit 1; }
