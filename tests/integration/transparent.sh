#!/usr/bin/env bash
# Programs that know of no proxy, inside of runs with an allowlist or a denylist: each is allowed or refused by the same
# rules, refused at once, and told about. As in network.sh, the host is a network namespace of the script's own.
if [ -z "${COFFERDAM_NET_NS-}" ]; then
        flags=(-nm)
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
cp "$CERT" "$T/ca.pem"

# more servers of the lab: a greeting on 4444 and 4445, HTTP on 8080, and both families
python3 - >"$T/lab/more" 2>&1 <<'PY' &
import socket, threading
def serve(family, host, port, text):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host, port))
    s.listen(64)
    def loop():
        while True:
            c, _ = s.accept()
            if port in (80, 8080):
                c.recv(4096)
            c.sendall(text)
            c.shutdown(socket.SHUT_WR)
            c.close()
    threading.Thread(target=loop).start()
page = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\npage\n"
for port in (4444, 4445):
    serve(socket.AF_INET, "93.184.216.34", port, b"greeting\n")
    serve(socket.AF_INET6, "2606:2800:220:1::1", port, b"greeting\n")
serve(socket.AF_INET, "93.184.216.34", 8080, page)
serve(socket.AF_INET6, "2606:2800:220:1::1", 80, page)
print("ready", flush=True)
PY
servers+=($!)
wait_for 60 grep -q ready "$T/lab/more" || { cat "$T/lab/more"; echo 'Bail out! no servers'; exit 1; }

# events TYPE: "HOST PORT REASON" of refusals, each once
events() { python3 - "$W/events" "$1" <<'PY' | sort -u
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["type"] == sys.argv[2]:
        d = e["data"]
        print(" ".join(str(d.get(k)) for k in ("host", "port", "reason")) if e["type"] == "network_blocked" else json.dumps(d))
PY
}
inside='exec 2>&1; cp /dev/stdin /tmp/ca.pem; export CURL_CA_BUNDLE=/tmp/ca.pem NODE_EXTRA_CA_CERTS=/tmp/ca.pem SSL_CERT_FILE=/tmp/ca.pem
unset HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy all_proxy
fetch() { curl -g -sS -m 60 -w " %{http_code}\n" "$@"; }
in_time() { s=$(date +%s%N); "$@"; e=$((($(date +%s%N) - s) / 1000000)); [ "$e" -lt 8000 ] || echo "late: $e ms"; }
'
# work OPTION... -- SHELL: a run whose command trusts the lab's certificates
work() {
        local options=()
        while [ "$1" != -- ]; do options+=("$1"); shift; done
        rm -f "$W/events"
        timeout -k 5 200 "${as_caller[@]}" "$C" run --events "$W/events" --network allowlist --preset none "${options[@]}" -- \
                bash -c "$inside $2" <"$T/ca.pem"
}
rules=(--allow allowed.example --allow allowed.example:4444/tcp --allow allowed.example:8080)
cat >"$T/raw.py" <<'PY'
# raw.py [HOST PORT]...: for each what comes first over TCP, or the errno, and whether it took longer than a refusal does
import errno, socket, sys, time
for host, port in zip(sys.argv[1::2], sys.argv[2::2]):
    start = time.monotonic()
    try:
        word = repr(socket.create_connection((host, int(port)), timeout=60).recv(9))
    except OSError as e:
        word = "none" if isinstance(e, socket.gaierror) else errno.errorcode.get(e.errno, str(e))
    took = time.monotonic() - start
    print(host, port, word, "" if took < 8 else "late %.1f" % took)
PY

curl_client() {
        eq 'hello from nginx
 200
page
 200
curl: (6) Could not resolve host: denied.example
 000' "$(work "${rules[@]}" -- 'fetch --noproxy "*" https://allowed.example/x
                fetch --noproxy "*" http://allowed.example:8080/
                in_time fetch https://denied.example/x')"
        eq 'denied.example 0 no rule allows it' "$(events network_blocked)"
        # each family alone
        eq '200 200' "$(work "${rules[@]}" -- 'for f in -4 -6; do fetch $f -o /dev/null https://allowed.example/x; done' | xargs)"
        # a name on a port that its rule does not name, below and above 1024
        has "$(work "${rules[@]}" -- 'in_time fetch http://allowed.example:4446/; in_time fetch http://allowed.example:81/')" ' 000'
        has "$(events network_blocked)" 'allowed.example 4446 the rule allows other ports'
        has "$(events network_blocked)" 'allowed.example 81 the rule allows other ports'
}

python_client() {
        eq 'hello from nginx
<urlopen error [Errno -2] Name or service not known>' "$(work "${rules[@]}" -- "python3 -c '
import urllib.request as u
for h in (\"allowed\", \"denied\"):
    try: print(u.urlopen(\"https://%s.example/x\" % h, timeout=60).read().decode().strip())
    except OSError as e: print(e)'")"
        has "$(events network_blocked)" 'denied.example 0 no rule allows it'
}

# ports of any protocol, from 1024 on; goes red without add_redirect()
raw_client() {
        cp "$T/raw.py" .
        eq "allowed.example 4444 b'greeting\\n' 
allowed.example 4445 ECONNRESET 
denied.example 4444 none " "$(work "${rules[@]}" -- 'python3 raw.py allowed.example 4444 allowed.example 4445 denied.example 4444')"
        has "$(events network_blocked)" 'allowed.example 4445 the rule allows other ports'
}

# names of the host's own file: by the stub, as all others; goes red when etc_add() shows the host's
hosts_file() {
        cp "$T/raw.py" .
        printf '93.184.216.34 corp-git allowed.example\n10.1.2.3 secret-host\n' >"$T/hosts"
        mount --bind "$T/hosts" /etc/hosts
        trap 'umount /etc/hosts' EXIT
        eq "corp-git 4444 b'greeting\\n' 
allowed.example 4444 b'greeting\\n' 
127.0.0.1 localhost
::1 localhost ip6-localhost ip6-loopback" "$(work --allow corp-git:4444/tcp "${rules[@]}" -- 'python3 raw.py corp-git 4444 allowed.example 4444; cat /etc/hosts')"
        has "$(work --transparent=false "${rules[@]}" -- 'cat /etc/hosts')" secret-host
}

node_client() {
        need_command node
        cat >client.js <<'JS'
const net = require("net");
const tcp = (host, port) => new Promise(done => {
        const start = Date.now(), s = net.connect(port, host);
        const say = w => { s.destroy(); console.log("tcp", host, port, w, Date.now() - start < 900 ? "" : "late"); done(); };
        s.on("data", d => say(d.toString().trim())).on("error", e => say(e.code)).on("end", () => say("end"));
});
const web = url => fetch(url).then(r => r.text(), e => e.cause.code).then(t => console.log("web", url, t.trim()));
(async () => {
        await web("https://allowed.example/x");
        await web("http://allowed.example:8080/");
        await web("https://denied.example/x");
        await tcp("allowed.example", 4444);
        await tcp("allowed.example", 4445);
        await tcp("93.184.216.34", 4444);
})();
JS
        eq 'web https://allowed.example/x hello from nginx
web http://allowed.example:8080/ page
web https://denied.example/x ENOTFOUND
tcp allowed.example 4444 greeting 
tcp allowed.example 4445 ECONNRESET 
tcp 93.184.216.34 4444 ECONNRESET ' "$(work "${rules[@]}" -- 'node client.js')"
        eq '93.184.216.34 4444 no rule allows it
allowed.example 4445 the rule allows other ports
denied.example 0 no rule allows it' "$(events network_blocked)"
}

java_client() {
        if ! command -v java >/dev/null || ! command -v javac >/dev/null; then skip 'opt-in: no compiler of Java here'; fi
        cat >Client.java <<'JAVA'
import java.net.*;
public class Client {
        static void say(String what, long start, String got) {
                System.out.println(what + " " + got + (System.nanoTime() - start < 900_000_000L ? "" : " late"));
        }
        static void web(String url) {
                long start = System.nanoTime();
                try { say(url, start, "" + ((HttpURLConnection) new URL(url).openConnection()).getResponseCode());
                } catch (Exception e) { say(url, start, e.getClass().getSimpleName()); }
        }
        static void tcp(String host, int port) {
                long start = System.nanoTime();
                try (Socket s = new Socket(host, port)) { say(host + ":" + port, start, s.getInputStream().read() < 0 ? "end" : "greeting");
                } catch (Exception e) { say(host + ":" + port, start, e.getClass().getSimpleName()); }
        }
        public static void main(String[] a) {
                web("http://allowed.example/");
                web("http://denied.example/");
                tcp("allowed.example", 4444);
                tcp("allowed.example", 4445);
                tcp("93.184.216.34", 4444);
        }
}
JAVA
        eq 'http://allowed.example/ 200
http://denied.example/ UnknownHostException
allowed.example:4444 greeting
allowed.example:4445 SocketException
93.184.216.34:4444 SocketException' "$(work "${rules[@]}" -- 'java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 Client.java' | sed '1s/ late$//')"
        has "$(events network_blocked)" 'denied.example 0 no rule allows it'
        has "$(events network_blocked)" 'allowed.example 4445 the rule allows other ports'
        has "$(events network_blocked)" '93.184.216.34 4444 no rule allows it'
}

# a client with a resolver of its own, as those of Go: over UDP and TCP, from the server of resolv.conf or any other;
# nothing of it is heard outside. Goes red without asker_new_consume() and the redirection of port 53
own_resolver() {
        cp "$HELPERS/own-resolver" .
        : >"$T/lab/queries"
        work "${rules[@]}" -- '
                for s in 127.0.0.1 8.8.8.8 ::1 2001:4860:4860::8888; do for t in "" -t; do
                        ./own-resolver $t $s allowed.example 4444; done; done
                ./own-resolver -a 9.9.9.9 allowed.example 4444
                in_time ./own-resolver 8.8.8.8 denied.example 4444; in_time ./own-resolver -t 8.8.8.8 denied.example 4444' >said || true
        eq '8 198.18.0.2 greeting|1 2001:2::2 greeting|2 rcode 3' "$(sort said | uniq -c | sed 's/^ *//' | sort -k 2 | paste -sd '|')"
        eq 'denied.example 0 no rule allows it' "$(events network_blocked)"
        # what is asked for when it is connected to, by the proxy, is the allowed name only
        eq allowed.example "$(sort -u "$T/lab/queries")"
        # a name that exists does so for every type; what names no host, or is no question, is told
        cat >odd.py <<'PY'
import socket, struct
def ask(name, kind, cls=1):
    wire = b"".join(bytes([len(l)]) + l for l in name) + b"\0"
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(60)
    s.sendto(struct.pack("!6H", 7, 256, 1, 0, 0, 0) + wire + struct.pack("!2H", kind, cls), ("127.0.0.1", 53))
    answer = s.recv(999)
    print(kind, "rcode", answer[3] & 15, "answers", answer[7])
PTR, TXT, A = 12, 16, 1
ask([b"allowed", b"example"], PTR)
ask([b"allowed", b"example"], TXT)
ask([b"denied", b"example"], PTR)
ask([b"4", b"3", b"2", b"1", b"in-addr", b"arpa"], PTR)
ask([b"a.b", b"example"], A)
ask([b"version", b"bind"], TXT, 3)
s = socket.create_connection(("8.8.8.8", 53), timeout=60)
s.sendall(b"GET / HTTP/1.0\r\n\r\n")
try: print(s.recv(9))
except OSError: print(b"")
PY
        eq "12 rcode 0 answers 0
16 rcode 0 answers 0
12 rcode 3 answers 0
12 rcode 3 answers 0
1 rcode 3 answers 0
16 rcode 5 answers 0
b''" "$(work "${rules[@]}" -- 'python3 odd.py')"
        eq '(no name of a host) 0 a question that is not answered here
(no name of a host) 0 a question that names no host
8.8.8.8 53 not a question to a name server' "$(events network_blocked)"
        # a name server that a rule allows is that name server
        has "$(work --allow 93.184.216.34:53/tcp -- './own-resolver -t 93.184.216.34 allowed.example 4444' || true)" 'no answer'
}

# addresses in place of names: by rules of addresses; refused ones at once and told
literals() {
        cp "$T/raw.py" .
        work --allow 93.184.216.0/24:4444/tcp --allow '[2606:2800::/32]:4444/tcp' --allow '[2606:2800:220:1::1]' --allow 93.184.216.34:443 -- '
                python3 raw.py 93.184.216.34 4444 93.184.216.34 4445 2606:2800:220:1::1 4444 2606:2800:220:1::1 4445 \
                        169.254.169.254 80 10.0.0.1 5432 fd00::1 22 2606:2801::1 443 198.18.77.1 443 2001:2::ffff 443
                fetch http://[2606:2800:220:1::1]/
                fetch --resolve allowed.example:443:93.184.216.34 https://allowed.example/x
                in_time fetch http://93.184.216.34:8080/' >said
        eq "93.184.216.34 4444 b'greeting\\n' 
93.184.216.34 4445 ECONNRESET 
2606:2800:220:1::1 4444 b'greeting\\n' 
2606:2800:220:1::1 4445 ECONNRESET 
169.254.169.254 80 ECONNRESET 
10.0.0.1 5432 ECONNRESET 
fd00::1 22 ECONNRESET 
2606:2801::1 443 ECONNRESET 
198.18.77.1 443 ECONNRESET 
2001:2::ffff 443 ECONNRESET 
page
 200
hello from nginx
 200" "$(head -n 14 said)"
        lacks "$(cat said)" late
        eq '10.0.0.1 5432
169.254.169.254 80
198.18.77.1 443
2001:2::ffff 443
2606:2800:220:1::1 4445
2606:2801::1 443
93.184.216.34 4445
93.184.216.34 8080
fd00::1 22' "$(events network_blocked | cut -d ' ' -f 1,2 | sort)"
}

# an address that the client had from elsewhere: the name that it says decides, and is what is connected to. The lab's
# 93.184.216.99 does not exist: what arrives has been looked up. Goes red without take_tls(), take_http()
address_from_elsewhere() {
        cp "$T/raw.py" .
        work "${rules[@]}" --deny bad.allowed.example -- '
                at() { fetch --resolve "$1:$2:93.184.216.99" "$3://$1:$2/x"; }
                at allowed.example 443 https
                at allowed.example 8080 http
                in_time at denied.example 443 https
                in_time at denied.example 80 http
                in_time at allowed.example 444 https
                in_time fetch http://93.184.216.34/
                in_time fetch -k https://93.184.216.34/
                python3 raw.py 93.184.216.34 443
                python3 - <<PY
import socket
s = socket.create_connection(("93.184.216.35", 443)); s.close() # leaves without a word
s = socket.create_connection(("93.184.216.36", 443)); s.send(b"nonsense\\n\\n")
try: s.recv(9)
except OSError: pass
PY
                ' >said
        eq 'hello from nginx
 200
page
 200' "$(head -n 4 said)"
        lacks "$(cat said)" late
        lacks "$(cat said)" 'timed out'
        has "$(cat said)" '403'
        eq '93.184.216.34 443 no rule allows it
93.184.216.34 80 no rule allows it
93.184.216.35 443 no rule allows it
93.184.216.36 443 no rule allows it
93.184.216.99 444 no rule allows it
denied.example 443 no rule allows it
denied.example 80 no rule allows it' "$(events network_blocked)"
        # an address that a rule allows may not be used for a name that a rule denies
        work --allow '**' --deny denied.example -- '
                fetch -o /dev/null --resolve other.example:443:93.184.216.34 https://other.example/x
                in_time fetch -o /dev/null --resolve denied.example:443:93.184.216.34 https://denied.example/x
                in_time fetch -o /dev/null --resolve denied.example:80:93.184.216.34 http://denied.example/x' >said
        eq ' 200| 000| 403' "$(grep '^ ' said | paste -sd '|')" "$(cat said)"
        eq 'denied.example 443 a rule denies it
denied.example 80 a rule denies it' "$(events network_blocked)"
}

# UDP is refused at once, and told with the name; goes red without add_refusal()
udp() {
        cat >udp.py <<'PY'
import errno, socket, time
def send(host, port):
    start = time.monotonic()
    family, _, _, _, to = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(60)
    try:
        s.connect(to)
        s.send(b"\xc3quic")
        s.recv(9)
        word = "answer"
    except OSError as e:
        word = errno.errorcode.get(e.errno, str(e))
    print(host, port, word, "" if time.monotonic() - start < 8 else "late")
send("allowed.example", 443)
send("8.8.8.8", 123)
send("2606:2800:220:1::1", 443)
# a port of the work's own is not where it goes
mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mine.bind(("0.0.0.0", 5353))
mine.settimeout(0.2)
send("9.9.9.9", 5353)
try: print(mine.recv(9))
except OSError as e: print("nothing")
here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
here.sendto(b"x", ("127.0.0.1", 5353))
print(mine.recv(9))
PY
        cat >>udp.py <<'PY'
# nobody answers for many; goes red without add_many()
send("224.0.0.1", 443)
send("239.255.255.250", 1900)
send("ff0e::1", 1900)
PY
        eq "allowed.example 443 ECONNREFUSED 
8.8.8.8 123 ECONNREFUSED 
2606:2800:220:1::1 443 ECONNREFUSED 
9.9.9.9 5353 ECONNREFUSED 
nothing
b'x'
224.0.0.1 443 EPERM 
239.255.255.250 1900 EPERM 
ff0e::1 1900 EPERM " "$(work "${rules[@]}" -- 'python3 udp.py')"
        eq '224.0.0.1 443
239.255.255.250 1900
2606:2800:220:1::1 443
8.8.8.8 123
9.9.9.9 5353
allowed.example 443
ff0e::1 1900' "$(events network_blocked | cut -d ' ' -f 1,2)"
}

# servers of the work's own, by every name of the machine
own_servers() {
        cat >own.py <<'PY'
import socket, threading
def serve(family, host):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind((host, 0))
    s.listen(9)
    def loop():
        while True: s.accept()[0].sendall(b"mine")
    threading.Thread(target=loop, daemon=True).start()
    return s.getsockname()[1]
four, six = serve(socket.AF_INET, "0.0.0.0"), serve(socket.AF_INET6, "::")
outward = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
outward.connect(("8.8.8.8", 9))
for host, port in (("127.0.0.1", four), ("127.9.9.9", four), ("localhost", four), (socket.gethostname(), four), ("0.0.0.0", four),
                   (outward.getsockname()[0], four), ("::1", six), ("127.0.0.1", six), ("2001:2::1", six)):
    print(socket.create_connection((host, port), timeout=60).recv(9).decode(), end=" ")
PY
        eq 'mine mine mine mine mine mine mine mine mine ' "$(work --allow nothing.example -- 'python3 own.py')"
        eq '' "$(events network_blocked)"
}

# the rules cannot be seen or changed, the sockets not be taken, not even in user namespaces of the work's own
work_changes_nothing() {
        local other=()
        cp "$T/raw.py" .
        cat >change.py <<'PY'
import ctypes, errno, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def word(f):
    try: return f()
    except OSError as e: return errno.errorcode[e.errno]
def netfilter():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    return "socket"
def route(kind, body):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.send(struct.pack("=IHHII", 16 + len(body), kind, 5, 1, 0) + body)
    code = struct.unpack("=i", s.recv(4096)[16:20])[0]
    return errno.errorcode.get(-code, "done")
def bind(host, port):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((host, port))
    return "bound"
def tries():
    lo = socket.if_nametoindex("lo")
    print(word(netfilter), word(lambda: route(17, struct.pack("=BBHiII", 0, 0, 0, lo, 0, 1))),
          word(lambda: route(25, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 255, 0, 254, 2, 0))),
          word(lambda: bind("127.0.0.1", 3)), word(lambda: bind("0.0.0.0", 53)), flush=True)
tries()
if len(sys.argv) > 1:
    uid = os.getuid()
    assert libc.unshare(0x10000000) == 0, os.strerror(ctypes.get_errno())
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write("0 %d 1" % uid)
    assert "CapEff:\t000001ffffffffff" in open("/proc/self/status").read()
    tries()
PY
        work --allow nothing.example -- 'python3 change.py; python3 raw.py 93.184.216.34 4444' >said
        has "$(cat said)" 'EPROTONOSUPPORT EPERM EPERM EACCES EACCES'
        has "$(cat said)" '93.184.216.34 4444 ECONNRESET'
        printf 'security: {nested_userns: true}\n' >nested.yaml
        [ "$(id -u)" != 0 ] || { chown nobody .; other=(--user "$(id -u nobody)"); }
        work --allow nothing.example --spec nested.yaml "${other[@]}" -- 'python3 change.py nested; python3 raw.py 93.184.216.34 4444' >said
        eq 2 "$(grep -c 'EPROTONOSUPPORT EPERM EPERM EACCES EACCES' said)" "$(cat said)"
        has "$(cat said)" '93.184.216.34 4444 ECONNRESET'
        # a loopback connection to the listener itself leads nowhere
        has "$(work --allow '**' --allow '0.0.0.0/0:3/tcp' -- 'python3 raw.py 127.0.0.1 3')" "b''"
}

# rules that come later are about every port at once, and what they no longer allow ends
named_later() {
        cp "$T/raw.py" .
        id=$("${as_caller[@]}" "$C" start --events "$W/events" --network allowlist --preset none --allow nothing.example)
        trap '"$C" stop "$id" >/dev/null || true' EXIT
        raw() { "$C" exec "$id" -- python3 raw.py "$@"; }
        eq 'allowed.example 4444 none ' "$(raw allowed.example 4444)"
        status 0 "$C" net "$id" --allow allowed.example:4444/tcp
        eq "allowed.example 4444 b'greeting\\n' " "$(raw allowed.example 4444)"
        eq 'allowed.example 4445 ECONNRESET ' "$(raw allowed.example 4445)"
        status 0 "$C" net "$id" --deny allowed.example
        eq 'allowed.example 4444 none ' "$(raw allowed.example 4444)"
        # the name that was said to an allowed address is asked about too: goes red without note_said()
        status 0 "$C" net "$id" --allow 93.184.216.34
        cat >held.py <<'PY'
import socket, ssl
context = ssl._create_unverified_context()
s = context.wrap_socket(socket.create_connection(("93.184.216.34", 443), timeout=100), server_hostname="other.example")
print("held", flush=True)
try:
    print("ended" if not s.recv(1) else "?")
except OSError as e:
    print("stays" if isinstance(e, TimeoutError) else "ended")
PY
        "$C" exec "$id" -- python3 held.py >held &
        wait_for 60 grep -q held held
        status 0 "$C" net "$id" --deny other.example
        wait $!
        eq 'held
ended' "$(cat held)"
}

# many at once, and questions that never end, disturb nobody
crowd() {
        cat >crowd.py <<'PY'
import socket, time
held = []
for i in range(200): # half of a question, silence to an address that only a name could allow
    s = socket.create_connection(("127.0.0.1", 53)); s.send(b"\x01"); held.append(s)
    s = socket.create_connection(("93.184.216.34", 443)); held.append(s)
start = time.monotonic()
s = socket.create_connection(("allowed.example", 4444), timeout=60)
assert s.recv(9) == b"greeting\n"
print("served" if time.monotonic() - start < 8 else "late")
PY
        eq served "$(work "${rules[@]}" -- 'python3 crowd.py')"
}

# a kernel without it: by ports below 1024, which is said; asked for by name, it is refused. $HELPERS/deny takes it away.
without_nftables() {
        local deny=("$HELPERS/deny" nftables) said
        export XDG_STATE_HOME=$W/state # no memory of a kernel that has it
        rm -f "$W/events"
        "${as_caller[@]}" "${deny[@]}" "$C" run --events "$W/events" --network allowlist --preset none "${rules[@]}" -- \
                bash -c "$inside fetch https://allowed.example/x; in_time fetch http://allowed.example:8080/; in_time fetch http://93.184.216.34/" \
                <"$T/ca.pem" >out 2>err
        eq 'hello from nginx
 200' "$(head -n 2 out)"
        eq 2 "$(grep -c ' 000' out)" "$(cat out)"
        lacks "$(cat out)" late
        said='degraded: transparent network by ports below 1024 instead of transparent network by nftables'
        has "$(cat err)" "$said"
        has "$(events sandbox_degraded)" '"transparent network by ports below 1024"'
        id=$("${as_caller[@]}" "${deny[@]}" "$C" start --network allowlist --isolation degrade --transparent 2>err)
        has "$(cat err)" "$said"
        has "$("$C" inspect "$id")" '"transparent network by nftables"'
        has "$("$C" inspect "$id")" '"transparent": "ports"'
        "$C" stop "$id" >/dev/null
        status 125 "${as_caller[@]}" "${deny[@]}" "$C" run --network allowlist --transparent -- true 2>err
        has "$(cat err)" 'network.transparent is not possible here'
        has "$(cat err)" 'sudo modprobe'
        eq 1 "$(wc -l <err)" "$(cat err)"
        status 0 "${as_caller[@]}" "${deny[@]}" "$C" run --network allowlist --transparent=false -- true 2>err
        eq '' "$(cat err)"
        "${deny[@]}" "$C" doctor >out
        has "$(grep -A 6 '^nftables' out)" 'degraded'
        has "$(grep -A 6 '^nftables' out | tr -s ' \n' ' ')" '(NFLOG): Protocol not supported'
        status 0 "${as_caller[@]}" "$C" run --network allowlist -- true 2>err
        eq '' "$(cat err)"
}

denylist() {
        cp "$T/raw.py" .
        work --network denylist --deny denied.example --deny 93.184.216.0/24:4445 -- '
                python3 raw.py allowed.example 4444 denied.example 4444 93.184.216.34 4444 93.184.216.34 4445 10.0.0.1 80' >said
        eq "allowed.example 4444 b'greeting\\n' 
denied.example 4444 none 
93.184.216.34 4444 b'greeting\\n' 
93.184.216.34 4445 ECONNRESET 
10.0.0.1 80 ECONNRESET " "$(cat said)"
        eq '10.0.0.1 80 it leads to an address that no rule names: a private address
93.184.216.34 4445 a rule denies it
denied.example 0 a rule denies it' "$(events network_blocked)"
}

t 'curl' curl_client
t 'python' python_client
t 'any protocol, ports from 1024 on' raw_client
t "names of the host's own file" hosts_file
t 'node' node_client
t 'java' java_client
t 'a resolver of its own' own_resolver
t 'addresses in place of names' literals
t 'an address from elsewhere, with a name' address_from_elsewhere
t 'UDP' udp
t 'servers inside' own_servers
t 'the work changes nothing of it' work_changes_nothing
t 'rules that come later' named_later
t 'a crowd' crowd
t 'a denylist' denylist
t 'without nftables' without_nftables
finish
