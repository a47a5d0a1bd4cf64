#!/usr/bin/env bash
# Real servers of Debian's outside (OpenSSH, git http-backend behind nginx with TLS, a registry of npm's) and the usual
# clients inside. The host of these runs is a network namespace of the script's own.
if [ -z "${COFFERDAM_NET_NS-}" ]; then
        flags=(-nm)
        # the capabilities are for the lab, not for the runs: see sandbox() in net-run.sh
        [ "$(id -u)" = 0 ] || flags=(--map-current-user --keep-caps -nm)
        COFFERDAM_NET_NS=1 exec unshare "${flags[@]}" "$0" "$@"
fi
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/net-lab.sh
. "$here/net-lab.sh"
# shellcheck source=tests/integration/net-run.sh
. "$here/net-run.sh"

server sshd >/dev/null || { echo "1..0 # SKIP no sshd on this machine: './dev setup' gets it"; exit 0; }
me=$(id -un)
# sshd of root wants a user and a directory that its package would make, and root not to be locked; only we see them
if [ "$(id -u)" = 0 ]; then
        sed '/^sshd:/d' /etc/passwd >"$T/passwd" && echo 'sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin' >>"$T/passwd"
        echo 'root:*:19000::::::' >"$T/shadow" && chmod 600 "$T/shadow"
        mount --bind "$T/passwd" /etc/passwd && mount --bind "$T/shadow" /etc/shadow && mount -t tmpfs -o mode=755 none /run &&
                mkdir /run/sshd || { echo 'Bail out! no place for sshd'; exit 1; }
fi
serving() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# --- sshd ---
mkdir -m 700 "$T/ssh"
ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/host"
ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/key"
cp "$T/ssh/key.pub" "$T/ssh/may"
cat >"$T/ssh/conf" <<CONF
ListenAddress 93.184.216.34:22
HostKey $T/ssh/host
AuthorizedKeysFile $T/ssh/may
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
PidFile none
CONF
# from OpenSSH 9.8 on sshd executes the rest of itself, which was not installed where it looks for it
for part in session auth; do
        [ ! -x "$SERVERS/usr/lib/openssh/sshd-$part" ] ||
                echo "Sshd${part^}Path $SERVERS/usr/lib/openssh/sshd-$part" >>"$T/ssh/conf"
done
serve sshd -D -e -f "$T/ssh/conf" 2>"$T/ssh/log"
wait_for 60 serving 93.184.216.34 22 || { cat "$T/ssh/log"; echo 'Bail out! no sshd'; exit 1; }

# --- git http-backend, and a registry ---
backend=$(git --exec-path)/git-http-backend
mkdir "$T/git" "$T/npm"
git init -q -b main "$T/git/src" && (cd "$T/git/src" && echo hi >f && git add f && git commit -qm 1)
for repo in https ssh; do
        git clone -q --bare "$T/git/src" "$T/git/$repo.git" && git -C "$T/git/$repo.git" config http.receivepack true
done
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=corp.example \
        -addext 'subjectAltName=DNS:git.corp.example,DNS:npm.corp.example' -keyout "$T/git/key.pem" -out "$T/git/ca.pem" 2>/dev/null
cp "$T/git/ca.pem" "$T/ca.pem"
cat >"$T/git/conf" <<CONF
user root root; daemon off; master_process off; pid $T/git/pid; error_log $T/git/err;
events { worker_connections 256; }
http { access_log off; client_body_temp_path $T/git/t1; proxy_temp_path $T/git/t2; fastcgi_temp_path $T/git/t3;
 uwsgi_temp_path $T/git/t4; scgi_temp_path $T/git/t5; client_max_body_size 0;
 ssl_certificate $T/git/ca.pem; ssl_certificate_key $T/git/key.pem;
 server { listen 93.184.216.40:443 ssl http2; server_name git.corp.example;
  location / { fastcgi_pass unix:$T/git/fcgi; fastcgi_param SCRIPT_FILENAME $backend; fastcgi_param GIT_PROJECT_ROOT $T/git;
   fastcgi_param GIT_HTTP_EXPORT_ALL 1; fastcgi_param PATH_INFO \$uri; fastcgi_param QUERY_STRING \$query_string;
   fastcgi_param REQUEST_METHOD \$request_method; fastcgi_param CONTENT_TYPE \$content_type;
   fastcgi_param CONTENT_LENGTH \$content_length; fastcgi_param HTTP_CONTENT_ENCODING \$http_content_encoding;
   fastcgi_param GIT_PROTOCOL \$http_git_protocol; } }
 server { listen 93.184.216.40:443 ssl http2; server_name npm.corp.example; root $T/npm; default_type application/json;
  location /-/npm/v1/security/ { return 200 '{}'; }
  location ~ ^/[a-z]+\$ { try_files \$uri/index.json =404; } } }
CONF
ip addr add 93.184.216.40/32 dev lo
serve fcgiwrap -c 2 -s "unix:$T/git/fcgi" 2>"$T/git/log"
serve nginx -c "$T/git/conf" -p "$T/git" -e "$T/git/err" >/dev/null 2>&1
wait_for 60 serving 93.184.216.40 443 && wait_for 60 test -S "$T/git/fcgi" ||
        { cat "$T/git/err" "$T/git/log"; echo 'Bail out! no git server'; exit 1; }

# --- ssh: by its port, without TLS or HTTP, so the rule says /tcp ---
over_ssh() { # BRANCH OPTION... of run; SSH: the command inside
        local branch=$1
        shift
        eq 'over ssh' "$(work "$@" -- "$SSH $me@allowed.example echo over ssh")" "$(tail -n 5 "$T/ssh/log")"
        eq 'hi
pushed
done' "$(work "$@" -- "export GIT_SSH_COMMAND='$SSH'; cd /tmp && exec 2>&1 && git clone -q ssh://$me@allowed.example$T/git/ssh.git r &&
                cd r && git checkout -q -B $branch origin/main && cat f && echo pushed >f && git -c user.name=t -c user.email=t@example.org commit -qam 2 && git push -q origin $branch &&
                git fetch -q origin && git show origin/$branch:f && echo done")"
        git -C "$T/git/ssh.git" rev-parse -q --verify "refs/heads/$branch" >/dev/null || fail 'nothing was pushed'
        status 255 work "$@" -- "$SSH $me@denied.example true" 2>said
}
ssh_options="-i $T/ssh/key -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"

ssh_led() {
        cp "$T/ssh/key" key
        SSH="ssh ${ssh_options/$T\/ssh\/key/$W/key}"
        over_ssh led --network allowlist --allow allowed.example:22/tcp
        has "$(cat said)" 'Could not resolve hostname denied.example'
        # without "/tcp" it must be TLS, which it is not; goes red without take_hello()
        status 255 work --network allowlist --allow allowed.example:22 -- "$SSH -o ConnectTimeout=9 $me@allowed.example true" 2>said
        has "$(events network_blocked)" 'allowed.example 22'
}

# what OpenBSD's nc -X connect does, which is not on every machine
ssh_connect() {
        cp "$T/ssh/key" key
        cat >connect.py <<'PY'
import os, socket, sys, threading
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall("CONNECT {0}:{1} HTTP/1.1\r\nHost: {0}:{1}\r\n\r\n".format(*sys.argv[1:]).encode())
head = b""
while b"\r\n\r\n" not in head:
    more = s.recv(1)
    if not more:
        break
    head += more
if not head.startswith(b"HTTP/1.1 200 "):
    sys.exit(head.decode())
def up():
    while True:
        data = os.read(0, 65536)
        if not data:
            break
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while True:
    data = s.recv(65536)
    if not data:
        break
    os.write(1, data)
PY
        SSH="ssh ${ssh_options/$T\/ssh\/key/$W/key} -o \"ProxyCommand python3 $W/connect.py %h %p\""
        over_ssh connect --network allowlist --allow allowed.example:22/tcp --no-transparent
        has "$(cat said)" 'HTTP/1.1 403 '
        has "$(events network_blocked)" 'denied.example 22 1 None no rule allows it'
}

# --- git over https ---
over_https() { # BRANCH GIT-OPTION
        work --network allowlist --allow git.corp.example -- "exec 2>&1; git='git $2'; cd /tmp &&
                \$git clone -q https://git.corp.example/https.git r && cd r && git checkout -q -B $1 origin/main && cat f &&
                head -c 3000000 /dev/urandom >big && git add big && git -c user.name=t -c user.email=t@example.org commit -qm big &&
                \$git push -q origin $1 && \$git fetch -q origin && git rev-parse origin/$1 >$W/pushed &&
                ! \$git ls-remote https://denied.example/https.git 2>/dev/null && echo done"
}
git_https() {
        eq 'hi
done' "$(over_https proxied '')" "$(tail -n 3 "$T/git/err" "$T/git/log")"
        eq "$(cat pushed)" "$(git -C "$T/git/https.git" rev-parse proxied)"
        has "$(events network_blocked)" 'denied.example 443'
        eq 'hi
done' "$(over_https led '-c http.proxy=')"
        eq "$(cat pushed)" "$(git -C "$T/git/https.git" rev-parse led)"
        # the objects arrived whole
        git -C "$T/git/https.git" fsck --no-dangling 2>&1 || fail 'git fsck'
}

# --- npm, as the README shows it ---
registry() { # SCRIPT: a package that runs it after it was installed; '': none
        mkdir -p package "$T/npm/greet/-"
        python3 -c 'import json, sys
print(json.dumps({"name": "greet", "version": "1.0.0", "main": "greet.js",
                  "scripts": {"postinstall": sys.argv[1]} if sys.argv[1] else {}}))' "$1" >package/package.json
        echo "module.exports = 'hello from npm'" >package/greet.js
        tar -czf "$T/npm/greet/-/greet-1.0.0.tgz" package
        python3 - "$T/npm/greet/-/greet-1.0.0.tgz" "$1" >"$T/npm/greet/index.json" <<'PY'
import base64, hashlib, json, sys
data = open(sys.argv[1], "rb").read()
dist = {"tarball": "https://npm.corp.example/greet/-/greet-1.0.0.tgz",
        "integrity": "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()}
v = {"name": "greet", "version": "1.0.0", "main": "greet.js", "dist": dist, "hasInstallScript": sys.argv[2] != ""}
print(json.dumps({"name": "greet", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": v}}))
PY
        rm -rf package
}

# shown FILE: the commands of README.md's example, from that which shows .npmrc to the next paragraph, and what each says
shown() {
        awk '/^    \$ cat \.npmrc$/ { on = 1 } on && /^[^ ]/ { exit } on { sub(/^    /, ""); print }' "$TOP/README.md" |
                sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
}

npm_as_shown() {
        local line
        need_command npm
        registry ''
        mkdir app && cd app
        cp "$T/git/ca.pem" corp-ca.pem
        shown >"$W/shown"
        [ "$(grep -c '^\$ ' "$W/shown")" -ge 5 ] || fail 'README.md shows something else'
        awk '/^\$ cat / { on = 1; next } /^\$/ { on = 0 } on' "$W/shown" >.npmrc
        mkdir "$W/bin"
        cat >"$W/bin/cofferdam" <<SH
#!/bin/sh
exec ${as_caller[*]} $C "\$@"
SH
        chmod 755 "$W/bin/cofferdam"
        while IFS= read -r line; do
                echo "\$ $line"
                PATH=$W/bin:$PATH timeout 200 sh -c "$line" 2>&1 </dev/null || true
        done < <(sed -n 's/^\$ //p' "$W/shown") >"$W/got"
        # times differ
        eq "$(sed 's/ in [0-9.]*m\?s$/ in 1s/' "$W/shown")" "$(sed 's/ in [0-9.]*m\?s$/ in 1s/' "$W/got")"
}

# neither a tarball that the registry says another host has, nor what a script of the package wants
npm_elsewhere() {
        need_command npm
        registry "curl -s -m 60 https://tracker.example/ >stolen; node -e \"fetch('https://tracker.example/').catch(() => 0)\""
        printf 'registry=https://npm.corp.example/\ncafile=ca.pem\nfetch-retries=0\n' >.npmrc
        cp "$T/git/ca.pem" ca.pem
        status 0 sandbox --network allowlist --allow npm.corp.example -- npm install --no-audit greet >said 2>&1
        eq '' "$(cat node_modules/greet/stolen)"
        has "$(events network_blocked)" 'tracker.example 443'
        lacks "$(cat "$T/lab/queries")" tracker
        rm -r node_modules package-lock.json
        sed -i 's,https://npm.corp.example/greet/-,https://allowed.example/greet/-,' "$T/npm/greet/index.json"
        status 1 sandbox --network allowlist --allow npm.corp.example -- npm install --no-audit greet >said 2>&1
        has "$(events network_blocked)" 'allowed.example 443'
        [ ! -e node_modules/greet ] || fail 'it was installed'
}

t 'ssh, and git over it, to a port that is led' ssh_led
t 'ssh, and git over it, through CONNECT' ssh_connect
t 'git over https: clone, push, fetch' git_https
t 'npm installs what the README shows, and nothing else' npm_as_shown
t 'npm and what it installs do not fetch from elsewhere' npm_elsewhere
finish
