#!/usr/bin/env bash
# What a command can see and do: of the host only what it shall, of privilege nothing
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

inside() { sandbox -- sh -c "$1"; }

# absent PATH...: does not exist inside, whatever it is on the host
absent() {
        local path
        for path in "$@"; do
                [ -e "$path" ] || [ -L "$path" ] || continue
                eq '' "$(inside "ls -A '$path' 2>/dev/null; cat '$path' 2>/dev/null" | head -c 300)" "content of $path"
        done
}

homes() {
        echo canary >"$HOME/secret-of-caller"
        eq '' "$(inside "cat '$HOME/secret-of-caller' 2>/dev/null; cat ~/secret-of-caller 2>/dev/null")"
        if [ "$(id -u)" = 0 ]; then
                mkdir -p "$T/other"
                echo canary >"$T/other/secret"
                eq '' "$(inside "cat '$T/other/secret' 2>/dev/null")" 'file beside the workspace'
        fi
        absent "$T/state" "$T/bin" /root /srv /mnt /media /boot
        eq '' "$(inside 'ls -A /home' 2>/dev/null | grep -vx "$(basename "$HOME")" | head)" 'other homes'
}

run_and_tmp() {
        local canary=/tmp/cofferdam-canary.$$
        echo canary >"$canary"
        inside "cat $canary" >out 2>/dev/null || true
        rm -f "$canary"
        eq '' "$(cat out)" 'a file of the host in /tmp'
        [ -w /run ] && { canary=/run/cofferdam-canary.$$; echo canary >"$canary"; }
        inside "cat $canary" >out 2>/dev/null || true
        rm -f "$canary"
        eq '' "$(cat out)" 'a file of the host in /run'
        eq '' "$(inside 'find /run /var/run -type s 2>/dev/null | head')" 'sockets'
}

shadow() {
        local file
        for file in /etc/shadow /etc/gshadow /etc/shadow- /etc/sudoers /etc/ssh/ssh_host_ed25519_key /etc/ssl/private; do
                [ -e "$file" ] || continue
                eq '' "$(inside "cat $file 2>/dev/null || ls $file/* 2>/dev/null" | head -c 100)" "$file"
        done
        # any file below /etc that others may not read on the host
        find /etc -xdev -type f ! -perm -004 2>/dev/null | head -n 50 >list
        cp list "$W/list.txt"
        eq '' "$(inside 'while read -r f; do head -c 1 "$f" 2>/dev/null && echo "$f"; done <list.txt')" 'readable'
}

root_is_readonly() {
        local dir
        for dir in / /usr /usr/bin /etc /opt /var /lib; do
                [ -d "$dir" ] || continue
                if inside "touch $dir/cofferdam-canary" 2>/dev/null && [ -e "$dir/cofferdam-canary" ]; then
                        rm -f "$dir/cofferdam-canary"
                        fail "$dir of the host is writable"
                fi
        done
        # not by a hard link, a rename, a mount or through /proc either
        inside 'ln /etc/passwd hard 2>/dev/null && echo linked; mount -t tmpfs x /mnt 2>/dev/null && echo mounted
                echo x 2>/dev/null >/proc/1/root/etc/canary && echo written; true' >out 2>/dev/null
        eq '' "$(cat out)"
}

descriptors() {
        local list
        # ls itself has its directory open as 3
        list=$(exec 7</etc/passwd 8>"$T/leak" 9<"$T"; sandbox -- sh -c 'exec ls /proc/self/fd' | tr '\n' ' ')
        eq '0 1 2 3 ' "$list"
        eq '' "$(inside 'for fd in /proc/[0-9]*/fd/*; do readlink "$fd"; done 2>/dev/null' |
                grep -E "fuse|$T/(state|bin)|socket|memfd" | head)" 'descriptors of ours'
}

environment() {
        local text
        text=$(SECRET_OF_CALLER=canary LD_PRELOAD_X=1 DBUS_SESSION_BUS_ADDRESS=unix:path=/x SSH_AUTH_SOCK=/x sandbox -- env)
        echo "$text"
        lacks "$text" canary
        lacks "$text" DBUS_SESSION_BUS_ADDRESS
        lacks "$text" SSH_AUTH_SOCK
        has "$text" "HOME="
        has "$text" "PATH="
        eq canary "$(SECRET_OF_CALLER=canary sandbox -e SECRET_OF_CALLER -- printenv SECRET_OF_CALLER)" '-e NAME'
        eq v=1 "$(sandbox -e NAME=v=1 -- printenv NAME)" '-e NAME=VALUE'
        eq '' "$(SECRET_OF_CALLER=canary sandbox -- sh -c 'for e in /proc/[0-9]*/environ; do tr "\0" "\n" <"$e"; done 2>/dev/null' |
                grep canary)" 'environment of a process of ours'
        eq '' "$(SECRET_OF_CALLER=canary sandbox -- sh -c 'cat /proc/[0-9]*/cmdline 2>/dev/null' | tr '\0' '\n' | grep canary)"
}

memory_of_init() {
        inside 'head -c 1 /proc/1/mem 2>/dev/null && echo read; head -c 1 /proc/1/maps 2>/dev/null && echo maps
                head -c 1 /proc/1/environ 2>/dev/null; ls /proc/1/map_files 2>/dev/null
                for fd in /proc/1/fd/*; do readlink "$fd"; done; true' >out
        eq '' "$(cat out)"
}

privilege() {
        local line
        inside "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status" >out
        cat out
        while read -r line; do
                case $line in
                Cap*) eq 0000000000000000 "${line##*[[:space:]]}" "$line" ;;
                NoNewPrivs*) eq 1 "${line##*[[:space:]]}" "$line" ;;
                Seccomp*) eq 2 "${line##*[[:space:]]}" "$line" ;;
                esac
        done <out
        eq 7 "$(wc -l <out)" 'lines'
}

# nothing that gives privilege back works
no_way_up() {
        inside 'unshare -U true 2>/dev/null && echo userns
                unshare -m true 2>/dev/null && echo mountns
                chroot / true 2>/dev/null && echo chroot
                mknod n c 1 3 2>/dev/null && echo mknod
                su -c id 2>/dev/null </dev/null && echo su
                kill -0 1 2>/dev/null && kill -9 1 2>/dev/null; sleep 0.1
                dmesg >/dev/null 2>&1 && echo dmesg
                nsenter -t 1 -m true 2>/dev/null && echo nsenter
                hostname changed 2>/dev/null && echo hostname
                date -s 2000-01-01 >/dev/null 2>&1 && echo date
                true' >out
        eq '' "$(cat out)"
}

proc_is_its_own() {
        eq 1 "$(inside 'ls -d /proc/1 | wc -l')"
        [ "$(inside 'ls -d /proc/[0-9]* | wc -l')" -lt 8 ] || fail 'processes of the host'
        # opened for writing only: a sandbox that lets this through must not harm the machine that tests it
        inside 'for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/sys/kernel/modprobe /proc/sys/vm/drop_caches \
                /proc/sys/kernel/hostname /proc/sys/net/ipv4/ip_forward; do
                if [ -e $f ] && (: >>$f) 2>/dev/null; then echo "wrote $f"; fi; done
                cat /proc/kcore /proc/kmsg /proc/kallsyms /proc/keys /proc/timer_list 2>/dev/null | tr -d "\0" | head -c 64 |
                        grep -v "^0000000000000000"; true' >out 2>/dev/null
        lacks "$(cat out)" wrote
        has "$(inside 'cat /proc/self/mountinfo')" ' / /proc '
}

# what is seen of the namespaces is not the host's
namespaces() {
        local ns
        for ns in user mnt pid ipc uts cgroup net; do
                [ "$(readlink /proc/self/ns/"$ns")" != "$(inside "readlink /proc/self/ns/$ns")" ] || fail "the $ns namespace is the host's"
        done
        # open: the host's, but for root of a host that forwards (net-modes.sh)
        id=$("$C" start --network open)
        trap '"$C" stop "$id" >/dev/null' EXIT
        ns=own
        [ "$(readlink /proc/self/ns/net)" != "$("$C" exec "$id" readlink /proc/self/ns/net)" ] || ns=host
        eq "$ns" "$("$C" inspect "$id" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["plan"]["network"]["namespace"])')"
        [ "$(id -u)" = 0 ] || eq host "$ns"
}

no_network() {
        eq lo "$(inside 'ls /sys/class/net 2>/dev/null || tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " "' | tr '\n' ' ' | sed 's/ $//')" 'interfaces'
        inside "perl -MSocket -e 'socket(S, 40, SOCK_STREAM, 0) and print qq(vsock\n); socket(S, 17, SOCK_RAW, 0) and print qq(packet\n);
                socket(S, 38, 5, 0) and print qq(alg\n)'" >out
        eq '' "$(cat out)" 'socket families'
}

identity() {
        eq "$(id -u):$(id -g)" "$(inside 'echo $(id -u):$(id -g)')"
        eq "$(id -un)" "$(inside 'id -un')"
        eq "$W" "$(inside pwd)" 'current directory'
        eq 0022 "$(umask 077; inside umask)" 'umask'
}

home_and_tmp() {
        inside 'set -e; echo x >~/f; mv ~/f ~/g; ln ~/g ~/h; printf "#!/bin/sh\necho ran\n" >~/prog; chmod +x ~/prog; ~/prog
                echo x >/tmp/f; [ "$(stat -f -c %T /tmp)" = tmpfs ]; [ "$(stat -f -c %T ~)" = tmpfs ]
                [ "$(stat -c %a /tmp)" = 1777 ]; [ "$(stat -c %u ~)" = "$(id -u)" ]' >out
        eq ran "$(cat out)"
        [ ! -e "$HOME/g" ] || fail 'the home of the host was written'
}

# the workspace is ours and nothing of ours is on the host
workspace() {
        inside 'echo made >new; mkdir -p a/b; echo deep >a/b/c; ln -s a link'
        eq made "$(cat new)"
        eq deep "$(cat link/b/c)"
        eq "$(id -u)" "$(stat -c %u new)" 'owner on the host'
        eq 'a link new' "$(find . -maxdepth 1 -mindepth 1 -printf '%f\n' | sort | tr '\n' ' ' | sed 's/ $//')" 'names'
        eq '' "$(grep -F "$T" /proc/self/mountinfo)" 'mounts on the host'
}

# Homes of services are often there. Red without home_to_cover() (HOME), and without hide_own_home() (that of /etc/passwd).
home_in_opt() {
        [ "$(id -u)" = 0 ] || skip 'only root mounts over /opt'
        local id=65533
        cp -L "$C" "$T/cofferdam"
        chmod 755 "$T" "$T/cofferdam" .
        # shellcheck disable=SC2016
        unshare -m --propagation private sh -ec '
                mount -t tmpfs tmpfs /opt
                for home in one two; do mkdir /opt/$home; echo canary >/opt/$home/.netrc; done
                mkdir /opt/one/ws
                chown -R "$1:$1" /opt/one /opt/two
                chmod 700 /opt/one /opt/two
                sed "/^service:/d" /etc/passwd >"$2/passwd"
                echo "service:x:$1:$1::/opt/two:/bin/sh" >>"$2/passwd"
                mount --bind "$2/passwd" /etc/passwd
                cd /opt/one/ws
                HOME=/opt/one XDG_STATE_HOME=/opt/one/state exec setpriv --reuid "$1" --regid "$1" --clear-groups "$2/cofferdam" run -- \
                        sh -c "ls -a /opt/one /opt/two; pwd; echo new >file; cat /opt/one/.netrc /opt/two/.netrc || true"
        ' sh "$id" "$T" >out 2>err || fail "$(cat err)"
        lacks "$(cat out err)" canary
        has "$(cat out)" /opt/one/ws
}

# Red without stage_sockets().
sockets_in_opt() {
        [ "$(id -u)" = 0 ] || skip 'only root mounts over /opt'
        need_command python3
        cp -L "$C" "$T/cofferdam"
        chmod 755 "$T" "$T/cofferdam"
        mkdir -m 777 "$T/state.u" && mkdir ws && chmod 777 . ws
        cat >listen.py <<'PY'
import os, socket
s = socket.socket(socket.AF_UNIX)
os.mkdir("/opt/svc")
s.bind("/opt/svc/socket")
os.chmod("/opt/svc/socket", 0o777)
s.listen(5)
while True:
    c = s.accept()[0]
    c.send(b"HOST")
    c.close()
PY
        cat >ws/connect.py <<'PY'
import os, socket
assert os.path.exists("/opt/svc/socket")
s = socket.socket(socket.AF_UNIX)
try:
    s.connect("/opt/svc/socket")
    print(s.recv(9))
except ConnectionRefusedError:
    print("refused")
PY
        # shellcheck disable=SC2016
        unshare -m --propagation private sh -ec '
                mount -t tmpfs tmpfs /opt
                python3 listen.py & listener=$!
                trap "kill $listener" EXIT
                until [ -w /opt/svc/socket ]; do sleep 0.05; done
                cd ws
                "$1/cofferdam" run -- /usr/bin/python3 connect.py
                HOME=/nonexistent XDG_STATE_HOME="$1/state.u" setpriv --reuid 65533 --regid 65533 --clear-groups "$1/cofferdam" run -- /usr/bin/python3 connect.py
                /usr/bin/python3 connect.py
        ' sh "$T" >out 2>err || fail "$(cat out err)"
        eq "refused refused b'HOST'" "$(xargs -d '\n' <out)"
}

t 'homes and what lies beside the workspace are absent' homes
t '/tmp and /run are its own' run_and_tmp
t 'files that only root reads are not readable' shadow
t 'the root of the host is read-only' root_is_readonly
t 'descriptors are 0, 1 and 2' descriptors
t 'the environment is built, not inherited' environment
t 'the memory of init is closed' memory_of_init
t 'no capability, no new privileges, a filter' privilege
t 'no way up' no_way_up
t '/proc is its own and its switches are closed' proc_is_its_own
t 'namespaces are its own' namespaces
t 'no network but the loopback' no_network
t 'identity, directory and umask' identity
t 'home and /tmp take files' home_and_tmp
t 'the workspace is the real one' workspace
t 'a home in what is shown is not' home_in_opt
t 'a socket in what is shown leads nowhere' sockets_in_opt
finish
