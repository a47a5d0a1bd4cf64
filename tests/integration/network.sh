#!/usr/bin/env bash
# Runs whose network is an allowlist or a denylist, with real clients inside and real servers outside. The host of
# these runs is a network namespace of the script's own, with a name server that it has put into /etc/resolv.conf.
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
# shellcheck source=tests/integration/net-run.sh
. "$here/net-run.sh"

names() {
        eq 'hello from nginx' "$(work --network allowlist --allow allowed.example -- 'curl -sS -m 60 https://allowed.example/x')"
        # goes red without on_blocked()
        status 56 work --network allowlist --allow allowed.example -- 'curl -sS -m 60 https://denied.example/x' 2>"$W/said"
        has "$(cat "$W/said")" 'response 403'
        eq 'denied.example 443 1 None no rule allows it' "$(events network_blocked)"
        has "$(events sandbox_finished)" '"blocked": 1'
        eq 'X-Cofferdam-Reason: a rule denies it' "$(work --network allowlist --allow '**.example' --deny denied.example -- \
                'curl -s -m 60 -D - http://denied.example/ | grep -i x-cofferdam' | tr -d '\r')"
        has "$(events network_blocked)" 'denied.example 80 1 !denied.example a rule denies it'
}

denylist() {
        rm -f "$W/events"
        eq 'hello from nginx' "$(work --network denylist --deny denied.example -- \
                'curl -sS -m 60 https://allowed.example/x; curl -s -m 60 https://denied.example/x || :')"
        eq 'denied.example 443 1 !denied.example a rule denies it' "$(events network_blocked)"
        has "$(work --network denylist --allow denied.example -- true 2>&1)" "'denied.example' changes nothing in a denylist"
}

python_client() {
        eq 'hello from nginx' "$(work --network allowlist --allow allowed.example -- \
                "python3 -c 'import urllib.request as u; print(u.urlopen(\"https://allowed.example/x\", timeout=60).read().decode().strip())'")"
}

# programs that know of no proxy: by the same rules; goes red without proxy_lead_consume()
led() {
        local out rules=(--network allowlist --allow allowed.example --allow allowed.example:7/tcp --allow loop.example
                --allow a.wild.example:443)
        out=$(work "${rules[@]}" -- '
                exec 2>&1
                unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
                fetch() { curl -sS -m 60 -w " %{http_code}\n" "$@"; }
                fetch https://allowed.example/x | tail -n 2
                fetch --tls-max 1.2 -o /dev/null https://a.wild.example/x
                fetch -o /dev/null http://allowed.example/y
                fetch -o /dev/null -H "Host: denied.example" http://allowed.example/y # goes red without take_plain()
                fetch -o /dev/null https://denied.example/x
                fetch -o /dev/null http://a.wild.example/
                fetch -o /dev/null http://loop.example/
                fetch -o /dev/null https://allowed.example:444/
                fetch -o /dev/null https://198.18.77.1/
                python3 - <<PY
import errno, socket, time
start = time.monotonic()
s = socket.create_connection(("allowed.example", 7), timeout=60)
print("raw", s.recv(3))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.settimeout(9)
u.connect((socket.gethostbyname("allowed.example"), 443))
try:
    u.send(b"quic")
    u.recv(9)
except OSError as e:
    print("udp", errno.errorcode[e.errno])
print("in time" if time.monotonic() - start < 8 else "late")
PY
                echo "openssl: $(openssl s_client -connect allowed.example:443 -servername denied.example </dev/null 2>&1 | grep -c "unrecognized name")"
                ')
        eq "hello from nginx
 200
 200
 200
 403
curl: (6) Could not resolve host: denied.example
 000" "$(head -n 7 <<<"$out")"
        # another port of the name, a private address, a port that leads nowhere, an address that stands for no name:
        # refused or reset, and none of it by time
        eq 4 "$(sed -n 8,15p <<<"$out" | grep -c '^curl: ([0-9]*)')" "$out"
        eq 4 "$(sed -n 8,15p <<<"$out" | grep -c '^ 000')" "$out"
        lacks "$out" 'timed out'
        has "$out" "raw b'hi\\n'
udp ECONNREFUSED
in time
openssl: 1"
        has "$(events network_blocked)" 'denied.example 0 1 None no rule allows it'
        has "$(events network_blocked)" 'a.wild.example 80 1 a.wild.example:443 the rule allows other ports'
        has "$(events network_blocked)" 'loop.example 80 1 loop.example it leads to an address that no rule names: a loopback address'
        has "$(events network_blocked)" 'the server name (SNI) is not the name'
        # a question carries nothing out
        : >"$T/lab/queries"
        work "${rules[@]}" -- 'getent ahostsv4 c2VjcmV0.denied.example; getent ahostsv4 allowed.example' >said || true
        has "$(cat said)" '198.18.0.'
        eq '' "$(cat "$T/lab/queries")"
        status 6 work "${rules[@]}" --no-transparent -- "curl -sS -m 60 --noproxy '*' https://allowed.example/x" 2>said
}

led_clients() {
        eq 'hello from nginx' "$(work --network allowlist --allow allowed.example -- \
                "curl -sS -m 60 --noproxy '*' https://allowed.example/x")"
        if command -v node >/dev/null; then
                eq 'hello from nginx' "$(work --network allowlist --allow allowed.example -- "node -e '
                        fetch(\"https://allowed.example/x\").then(r => r.text()).then(t => process.stdout.write(t))'")"
        fi
        if command -v java >/dev/null && command -v javac >/dev/null; then
                cat >Fetch.java <<'JAVA'
public class Fetch {
        public static void main(String[] a) throws Exception {
                System.out.println(((java.net.HttpURLConnection) new java.net.URL("http://" + a[0] + "/").openConnection()).getResponseCode());
        }
}
JAVA
                eq 200 "$(work --network allowlist --allow allowed.example -- 'java Fetch.java allowed.example')"
                status 1 work --network allowlist --allow allowed.example -- 'java Fetch.java denied.example' 2>said
                has "$(cat said)" UnknownHostException
        fi
}

# the proxy of a root caller's run works as the user of the run
as_another() {
        local user
        [ "$(id -u)" = 0 ] || skip 'only root can run as another user'
        user=$(id -u nobody)
        mkdir there
        chown nobody there
        work --user "$user" -w "$W/there" --network allowlist --allow allowed.example -- \
                "touch up; curl -sS --noproxy '*' -m 60 https://allowed.example/x; while [ -e up ]; do sleep 0.1; done" >said &
        trap 'rm -f "$W/there/up"; wait' EXIT
        wait_for 60 grep -q nginx said
        has "$(cat "/proc/$(proxy_pid)/status")" "Uid:	$user	$user	$user	$user"
}

# nothing but the proxy leads out, and what does not is refused at once; goes red with the host's network namespace
no_way_out() {
        cat >way.py <<'PY'
import errno, socket, time
def tries(family, kind, to):
    start = time.monotonic()
    try:
        s = socket.socket(family, kind)
        s.settimeout(5)
        s.connect(to)
        if kind == socket.SOCK_DGRAM:
            s.send(b"x")
        word = "yes"
    except OSError as e:
        word = errno.errorcode.get(e.errno, str(e))
    took = time.monotonic() - start
    print(to[0], to[1], word, "at once" if took < 4 else took)
tries(socket.AF_INET, socket.SOCK_STREAM, ("93.184.216.34", 443))
tries(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 53))
tries(socket.AF_INET, socket.SOCK_DGRAM, ("93.184.216.34", 443))
tries(socket.AF_INET6, socket.SOCK_STREAM, ("2606:2800:220:1::1", 443))
tries(socket.AF_INET6, socket.SOCK_STREAM, ("::1", 80))
tries(socket.AF_INET6, socket.SOCK_DGRAM, ("2606:2800:220:1::1", 443))
PY
        python3 way.py >host # the lab is there: what fails below fails because of the sandbox
        eq 4 "$(grep -c 'yes at once' host)" "$(cat host)" # none of it serves TCP over IPv6
        lacks "$(cat host)" ENETUNREACH
        work --network allowlist --no-transparent --allow '**' -- 'python3 way.py' >inside
        eq '93.184.216.34 443 ENETUNREACH at once
127.0.0.1 53 ECONNREFUSED at once
93.184.216.34 443 ENETUNREACH at once
2606:2800:220:1::1 443 ENETUNREACH at once
::1 80 ECONNREFUSED at once
2606:2800:220:1::1 443 ENETUNREACH at once' "$(cat inside)"
        # the lab's own loopback, by every way to say so
        eq '403 403 403 403' "$(work --network allowlist --allow '**' -- \
                'for h in localhost loop.example 127.1 [::ffff:127.0.0.1]; do curl -g -s -m 60 --noproxy "" -o /dev/null -w "%{http_code} " "http://$h/"; done' | sed 's/ $//')"
}

# a server of the work's own is reached past the proxy, whatever the caller's NO_PROXY was
own_loopback() {
        eq 'served x.example,localhost,y.example,127.0.0.1,0.0.0.0' "$(work --network allowlist -e NO_PROXY=x.example,localhost -e no_proxy=y.example,x.example -- '
                echo served >/tmp/page; cd /tmp; python3 -m http.server -b 127.0.0.1 8000 >/dev/null 2>&1 & 
                for i in $(seq 600); do curl -s -m 60 http://localhost:8000/page && break; sleep 0.1; done; kill $!; echo $NO_PROXY $no_proxy' |
                tr '\n' ' ' | cut -d ' ' -f 1,2)"
}

# the sockets are nobody else's: the work cannot listen on the port, and no process of the host sees it
sockets() {
        status 1 work --network allowlist -- 'python3 -c "
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1); s.bind((\"127.0.0.1\", 3128))"' 2>"$W/said"
        has "$(cat "$W/said")" 'Address already in use'
        stays --network allowlist
        status 7 curl -s -m 60 http://127.0.0.1:3128/
}

proxy_pid() {
        local pid comm state session line
        for pid in $(helper_pids led); do
                if look "$pid" && [ "$comm" = cofferdam-proxy ]; then echo "$pid"; fi
        done
}

# goes red without the pidfd in native_poll(), native_dispatch()
proxy_dies() {
        local rc=0
        work --network allowlist -- 'touch up; sleep 600' 2>"$W/said" &
        run=$!
        wait_for 60 test -e up
        kill -KILL "$(proxy_pid)"
        wait "$run" || rc=$?
        eq 125 "$rc"
        has "$(cat "$W/said")" 'the egress proxy died'
        has "$(events sandbox_finished)" '"failure_code": "EGRESS_LOST"'
}

# it has nothing of the caller's; goes red without egress_confine() and confine_helper()
proxy_is_confined() {
        local pid status
        exec 9<"$CERT"
        stays --network allowlist
        pid=$(proxy_pid)
        wait_for 60 grep -q 'Seccomp:.2' "/proc/$pid/status"
        status=$(cat "/proc/$pid/status")
        has "$status" 'CapEff:	0000000000000000'
        has "$status" 'NoNewPrivs:	1'
        lacks "$(tr '\0' ' ' <"/proc/$pid/cmdline")" allowlist
        [ "$(id -u)" = 0 ] || return 0 # its descriptors are hidden from its own user
        has "$status" 'CapBnd:	0000000000000000'
        lacks "$(ls -l "/proc/$pid/fd")" "$T"
        eq '' "$(tr -d '\0' <"/proc/$pid/environ")"
}

# another policy for a run that lives: what it refuses ends, also what is open; goes red without network_answer() and
# without the end of tunnels in proxy_set_policy()
replaced() {
        cat >tunnel.py <<'PY'
import socket
s = socket.create_connection(("127.0.0.1", 3128), timeout=600)
s.sendall(b"CONNECT allowed.example:7 HTTP/1.1\r\nHost: allowed.example:7\r\n\r\n")
while b"hi\n" not in s.recv(1000):
    pass
open("open", "w").close()
s.recv(1000)
print("ended")
PY
        status 0 "${as_caller[@]}" "$C" start --events "$W/events" --network allowlist --allow allowed.example \
                --allow allowed.example:7/tcp --preset none >id
        id=$(cat id)
        trap '"$C" stop "$id" >/dev/null || true' EXIT
        code() { "$C" exec "$id" -- curl -s -m 60 -o /dev/null -w '%{http_code}' "http://$1/"; }
        eq 200 "$(code allowed.example)"
        eq 403 "$(code other.example)"
        "$C" exec "$id" -- python3 tunnel.py >end &
        wait_for 60 test -e open
        # added behind the others; what stays allowed stays open
        status 0 "$C" net "$id" --allow other.example
        eq 200 "$(code other.example)"
        eq '' "$(cat end)"
        eq 'mode allowlist
preset none
allow allowed.example
allow allowed.example:7/tcp
allow other.example' "$("$C" net "$id")"
        # one that does not compile changes nothing
        status 1 "$C" net "$id" --replace --allow 'a*b' 2>"$W/said"
        has "$(cat "$W/said")" "network.rules[0]: 'a*b', byte 2"
        status 1 "$C" net "$id" --preset nosuch 2>"$W/said"
        has "$(cat "$W/said")" "no preset 'nosuch'"
        eq 200 "$(code other.example)"
        eq '' "$(cat end)"
        status 0 "$C" net "$id" --deny allowed.example
        wait_for 60 grep -q ended end
        eq 403 "$(code allowed.example)"
        status 1 "$C" explain --host allowed.example:80 "$id" >"$W/said"
        has "$(cat "$W/said")" '!allowed.example'
        status 0 "$C" net "$id" --replace
        eq 403 "$(code other.example)"
        eq 3 "$(events network_policy_changed | wc -l)"
        has "$(events network_policy_changed | tail -n 1)" '"rules": []'
}

# more rules than an event holds: the event has its other keys; goes red without network_shown()
many_rules() {
        python3 -c 'import json
print(json.dumps({"network": {"mode": "allowlist", "rules": ["host-%d.example" % i for i in range(4000)]}}))' >many.json
        id=$("${as_caller[@]}" "$C" start --spec many.json --events "$W/events")
        trap '"$C" stop "$id" >/dev/null || true' EXIT
        status 0 "$C" net "$id" --allow one-more.example
        eq 4001 "$("$C" net "$id" | grep -c '^allow ')"
        eq '['"'native'"', '"'allowlist'"'] True True
['"'network_policy_changed'"'] True True' "$(python3 - "$W/events" <<'PY'
import json, sys
for e in map(json.loads, open(sys.argv[1])):
    d = e["data"]
    if e["type"] == "sandbox_started":
        said, net, total = [d["driver"], d["network"]], d["isolation"]["network"], 4000
    elif e["type"] == "network_policy_changed":
        said, net, total = [e["type"]], d, 4001
    else:
        continue
    print(said, len(net["rules"]) > 100, len(net["rules"]) + net["rules_left_out"] == total)
PY
)"
        "$C" stop "$id" >/dev/null
        status 1 "$C" net "$id" --allow x.example 2>"$W/said"
        id=$("${as_caller[@]}" "$C" start)
        status 1 "$C" net "$id" --allow x.example 2>"$W/said"
        has "$(cat "$W/said")" 'has no rules'
        eq 'mode none' "$("$C" net "$id")"
}

# a laptop moves: another resolv.conf takes the place of the old one, and what was asked of the old name servers is asked
# of the new ones; goes red without egress_send_resolv_conf(), and the question under way without reconfigure()
moves() {
        local out
        echo 'nameserver 127.0.0.9' >"$W/resolv.old"
        cp "$T/resolv.conf" "$W/resolv.new"
        mount --bind "$W/resolv.old" /etc/resolv.conf
        trap 'umount -l /etc/resolv.conf; umount -l /etc/resolv.conf || true; stop_silent' EXIT
        python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("127.0.0.9", 53)); time.sleep(600)' &
        silent=$!
        stop_silent() { kill "$silent" 2>/dev/null || true; wait "$silent" 2>/dev/null || true; }
        work --network allowlist --allow allowed.example -- \
                'curl -sS -m 60 https://allowed.example/x & touch up; wait; curl -sS -m 60 https://allowed.example/x' >said 2>&1 &
        run=$!
        wait_for 60 test -e up
        sleep 0.7
        mount --bind "$W/resolv.new" /etc/resolv.conf
        SECONDS=0
        wait "$run" || fail "$(cat said)"
        eq 'hello from nginx
hello from nginx' "$(cat said)"
        [ "$SECONDS" -le 12 ] || fail "it took $SECONDS seconds"
}

# the rules as a run would have them
explains() {
        status 0 "$C" explain --host api.allowed.example --network allowlist --allow '*.allowed.example' >said
        has "$(cat said)" 'rule    *.allowed.example'
        status 1 "$C" explain --host api.allowed.example:22 --network allowlist --allow '*.allowed.example' >said
        has "$(cat said)" 'the rule allows other ports'
        status 1 "$C" explain --json --host 0x7f.1 --network denylist >said
        has "$(cat said)" '"host": "127.0.0.1"'
        status 0 "$C" explain --host codeload.github.com --network allowlist --preset code-hosts >said
        has "$(cat said)" '(preset code-hosts)'
        status 0 "$C" explain --json --host x.example --network open >said
        has "$(cat said)" '"protocols": "any"'
        status 1 "$C" explain --host x.example >said
        has "$(cat said)" 'connect the run has no network but its own loopback'
        lacks "$(cat said)" rule
        status 0 "$C" explain --host x.example --network open >said
        lacks "$(cat said)" dialled
        status 1 "$C" explain --host https://x.example/ --network open 2>said
        has "$(cat said)" 'not a URL'
        status 2 "$C" explain some-run --host x.example 2>said
        has "$(cat said)" "'--host' comes too late"
        status 1 "$C" explain --host 'x..example' --network open 2>said
        has "$(cat said)" "--host 'x..example'"
        status 2 "$C" explain --host x.example a b
}

bad_rules() {
        status 2 sandbox --network allowlist --allow ok.example --allow 'a*b.example' -- true 2>"$W/said"
        has "$(cat "$W/said")" "network.rules[1]: 'a*b.example', byte 2"
        status 2 sandbox --network allowlist --preset nosuch -- true 2>"$W/said"
        has "$(cat "$W/said")" "network.preset: no preset 'nosuch'"
        status 2 sandbox --allow ok.example -- true 2>"$W/said"
        has "$(cat "$W/said")" 'set network.mode'
        printf 'network:\n  mode: allowlist\n  preset: none\n  rules: [ "!denied.example", allowed.example ]\n' >spec.yaml
        eq 'hello from nginx' "$(work --spec spec.yaml -- 'curl -sS -m 60 https://allowed.example/x')"
}

t 'names through CONNECT and HTTP, and what is refused is told' names
t 'a denylist' denylist
t 'python' python_client
t 'programs that know of no proxy' led
t 'curl without a proxy, node, java' led_clients
t 'as another user' as_another
t 'no other way out' no_way_out
t 'the loopback inside' own_loopback
t 'whose sockets they are' sockets
t 'the proxy dies' proxy_dies
t 'the proxy is confined' proxy_is_confined
t 'other rules while it runs' replaced
t 'more rules than an event holds' many_rules
t 'the host gets other name servers' moves
t 'explain --host' explains
t 'rules that are wrong' bad_rules
finish
