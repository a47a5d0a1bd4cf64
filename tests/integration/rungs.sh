#!/usr/bin/env bash
# What each rung of the ladder (docs/ladder.md) keeps, with the thing taken away that it stands in for
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

deny=$HELPERS/deny
without() {
        local what=$1
        shift
        timeout -k 5 200 "$deny" "$what" "$C" run --isolation degrade "$@" 2>"$T/err"
}

# Red without the check of no_userns in no_more_namespaces() (the host's sysctl), without stage_masks() (shadow), and without
# confine_caps() (the capabilities).
root_without_userns() {
        [ "$(id -u)" = 0 ] || skip 'only root works without a user namespace'
        local before after out
        before=$(cat /proc/sys/user/max_user_namespaces)
        # shellcheck disable=SC2016
        out=$(without userns -- sh -c '
                id -u; grep -c . /etc/shadow
                grep -c "^Cap.*0000000000000000$" /proc/self/status
                echo 1 >/proc/sys/kernel/printk || echo read-only
                unshare -m true || echo no namespaces; chroot / true || echo no chroot
                chown 12345 file || echo no chown; mknod node c 1 3 || echo no devices
                kill -0 '$$' || echo no such process; ls /proc | grep -c "^[0-9]"; test -e /root || echo no home of root
                echo x >new' 2>"$T/inside") || fail "$(cat "$T/err" "$T/inside")"
        eq '0 0 5 read-only no namespaces no chroot no chown no devices no such process' \
                "$(head -n 9 <<<"$out" | xargs)"
        has "$(cat "$T/err")" 'instead of user namespace'
        eq x "$(cat new)" 'a direct workspace'
        after=$(cat /proc/sys/user/max_user_namespaces)
        eq "$before" "$after" 'max_user_namespaces of the host'
        # the guard is there as ever
        mkdir -p .git/hooks
        without userns -- sh -c 'echo evil >.git/hooks/post-commit'
        [ ! -e .git/hooks/post-commit ] || fail 'a hook reached the host'
}
userns_stays_for_others() {
        [ "$(id -u)" = 0 ] || skip 'only root works without a user namespace'
        status 125 without userns --user 1234:1234 -- true
        has "$(cat "$T/err")" 'user namespaces: '
}

# Red when attach_source() attaches the source itself, writable.
no_guard_reviews_everything() {
        mkdir -p .git/hooks sub
        printf 'old\n' >file
        printf 'kept\n' >sub/kept
        without fuse --name reviewed -- sh -c 'echo evil >.git/hooks/pre-commit; echo new >file; rm sub/kept; echo y >added; cat file added' >out ||
                fail "$(cat "$T/err")"
        eq 'new y' "$(xargs <out)"
        rm out
        has "$(cat "$T/err")" 'every change waits for review instead of guard'
        eq 'old kept' "$(cat file sub/kept | xargs)" 'the host'
        [ ! -e .git/hooks/pre-commit ] && [ ! -e added ] || fail 'something reached the host'
        "$C" diff >"$T/diff"
        has "$(cat "$T/diff")" 'M file'
        has "$(cat "$T/diff")" 'A .git/hooks/pre-commit'
        has "$("$C" inspect reviewed)" '"wanted": "guard"'
        "$C" apply reviewed file added >/dev/null
        eq 'new y' "$(cat file added | xargs)" 'what was applied'
        [ ! -e .git/hooks/pre-commit ] || fail 'what was not applied reached the host'
        "$C" discard >/dev/null
}
# Red without unkept() in rungs_regions().
no_guard_hides_nothing_by_halves() {
        echo secret >token
        status 125 without fuse --hide token -- cat token >out
        eq '' "$(cat out)"
        has "$(cat "$T/err")" 'a rule hides paths in it'
        status 125 without fuse --protect token -- true
        has "$(cat "$T/err")" 'a rule protects paths in it'
}
# a file beside the workspace that no rule allows is not there either
no_guard_shows_no_more() {
        mkdir ws
        echo secret >outside
        ln -s ../outside ws/link
        eq no "$(without fuse -w ws -- sh -c 'cat link ../outside 2>/dev/null || echo no')"
}
# Red with the mount of attach_source() made writable.
no_guard_no_overlay_is_readonly() {
        echo old >file
        # shellcheck disable=SC2016
        out=$(without fuse,overlay -- sh -c '
                echo new >file || echo read-only; echo new >other || echo read-only; rm -f file || echo read-only
                echo x >/tmp/x && echo x >"$HOME/x" && echo room; cat file' 2>/dev/null) || fail "$(cat "$T/err")"
        eq 'read-only read-only read-only room old' "$(xargs <<<"$out")"
        eq old "$(cat file)"
        [ ! -e other ] || fail 'made on the host'
}
# Red without "overlay" as what explains a root that cannot be mounted: then doctor is said to find nothing.
no_overlay_no_image() {
        need_command busybox
        mkdir -p "$T/rootfs/bin" && cp "$(command -v busybox)" "$T/rootfs/bin/sh"
        status 0 "$C" run --rootfs "$T/rootfs" -- sh -c true
        status 125 without overlay --rootfs "$T/rootfs" -- sh -c true
        has "$(cat "$T/err")" 'cofferdam: overlayfs: '
        has "$(cat "$T/err")" 'no image or directory as the root'
        has "$(cat "$T/err")" 'remedy: '
        eq 1 "$(wc -l <"$T/err")" 'lines of the refusal'
        status 0 without overlay -- sh -c true
        # an image that only the repository wants is done without, and not even asked for; unless all is to be as said.
        # Red without root_possible() in the plan
        mkdir there
        echo 'image: localhost:1/nosuch' >there/.cofferdam.yaml
        eq yes "$(cd there && "$deny" overlay "$C" run --events "$T/events" -- sh -c 'test -d /usr/bin && echo yes' 2>"$T/err")" "$(cat "$T/err")"
        has "$(cat "$T/err")" "the repository's image is not used, but the host's root: overlayfs: "
        eq 1 "$(wc -l <"$T/err")" 'lines of the warning'
        has "$(grep spec_key_refused "$T/events")" overlayfs
        (cd there && status 125 "$deny" overlay "$C" run --mode inline -- true 2>"$T/err")
        has "$(cat "$T/err")" 'cofferdam: overlayfs: '
        # an operator who names no driver gets one that shows images; red without root_possible() in native_probe()
        mkdir bin
        printf '#!/bin/sh\necho "$*" >>"%s"\nexit 1\n' "$PWD/asked" >bin/podman
        chmod +x bin/podman
        (cd there && status 125 env PATH="$PWD/../bin:$PATH" "$deny" overlay "$C" run --image localhost:1/nosuch -- true 2>"$T/err")
        [ -e asked ] || fail "no other driver was asked: $(cat "$T/err")"
        rm asked
        (cd there && status 125 env PATH="$PWD/../bin:$PATH" "$C" run --image localhost:1/nosuch -- true 2>"$T/err")
        [ ! -e asked ] || fail 'another driver was asked'
        has "$(cat "$T/err")" localhost:1
        status 125 "$deny" overlay "$C" run --driver native --image localhost:1/nosuch -- true 2>"$T/err"
        has "$(cat "$T/err")" 'cofferdam: overlayfs: '
}
no_proc_is_empty() {
        eq '0 ok' "$(without proc -- sh -c 'ls -A /proc | wc -l; echo x >file && echo ok' | xargs)"
        has "$(cat "$T/err")" 'instead of /proc'
        eq x "$(cat file)"
        printf 'seeded\n' >seed
        # shellcheck disable=SC2016
        eq seeded "$(without proc --seed "$PWD/seed:~/seed" -- sh -c 'cat "$HOME/seed"')"
        mkdir dir && echo in >dir/file
        # shellcheck disable=SC2016
        eq in "$(without proc --seed "$PWD/dir:~/dir" -- sh -c 'cat "$HOME/dir/file"')"
        eq 1 "$(without proc --workspace-mode cow -- sh -c 'echo y >cow; ls cow | wc -l')"
        "$C" discard >/dev/null
}

# Red without .unix_only (the first three), and without landlock_scope() in stage_confine() (the last).
no_netns_no_network() {
        cat >try.py <<'EOF'
import ctypes, os, socket, sys
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
    try:
        socket.socket(family, socket.SOCK_DGRAM if family == socket.AF_PACKET else socket.SOCK_STREAM)
        print('made', family)
    except OSError:
        pass
if ctypes.CDLL(None, use_errno=True).syscall(425, 4, ctypes.create_string_buffer(256)) >= 0:
    print('io_uring')
a, b = socket.socketpair()
a.send(b'x')
name = sys.argv[1]
s = socket.socket(socket.AF_UNIX)
try:
    s.connect('\0' + name)
    print('reached the host')
except PermissionError:
    print('refused')
EOF
        python3 - "$W/ready" "cofferdam-test-$$" <<'EOF' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind('\0' + sys.argv[2])
s.listen()
open(sys.argv[1], 'w').close()
time.sleep(600)
EOF
        local server=$!
        wait_for 60 test -e ready
        rc=0
        without newnet -- python3 try.py "cofferdam-test-$$" >out || rc=$?
        kill "$server"
        eq 0 "$rc" "$(cat "$T/err")"
        eq refused "$(cat out)"
        status 125 without newnet --network allowlist -- true
        status 125 without newnet,landlock -- true
}
strict_takes_none() {
        for what in fuse proc newnet; do
                status 125 "$deny" "$what" "$C" run -- touch ran 2>/dev/null
                [ ! -e ran ] || fail "ran without $what"
        done
}
# two things at once that both have a rung
two_rungs() {
        echo old >file
        eq '0 new' "$(without fuse,proc,newnet -- sh -c 'ls -A /proc | wc -l; echo new >file; cat file' | xargs)"
        eq 3 "$(grep -c '^cofferdam: degraded: ' "$T/err")" 'lines about rungs'
        eq old "$(cat file)"
        "$C" discard >/dev/null
}

fenced() { timeout -k 5 200 "$deny" userns "$C" run --isolation degrade --mode auto "$@" 2>"$T/err"; }

# Red, by line: without landlock_confine() in fence_enter() (files, kill, environ, the abstract socket), without its
# first filter_load() (modes, sockets, queues, limits, watches), with the caller's environment in fill_env().
# Red without close_range() in become().
fence_closes_descriptors() {
        [ "$(id -u)" != 0 ] || skip 'only a user gets a fence'
        echo secret >"$HOME/secret"
        exec 5<"$HOME/secret" 6>>"$HOME/log"
        # shellcheck disable=SC2016
        without userns --mode auto -- sh -c 'cat <&5; echo evil >&6; ls /proc/self/fd | wc -l' >out 2>"$T/inside" || fail "$(cat "$T/err")"
        exec 5<&- 6>&-
        eq 4 "$(cat out)" 'descriptors' # one of them is of ls
        eq '' "$(cat "$HOME/log")"
}
fence_keeps() {
        [ "$(id -u)" != 0 ] || skip 'only a user gets a fence'
        mkdir ws other
        echo secret >"$HOME/secret"
        echo theirs >other/file
        ln -s ../other/file ws/link
        cat >ws/try.py <<'EOF'
import ctypes, os, signal, socket, sys
other, home, parent, abstract, named = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
def reaches(what, call):
    try:
        result = call()
        if result is None or result is not False:
            print('reached', what)
    except OSError:
        pass
def raw(number, *args):
    ctypes.set_errno(0)
    return libc.syscall(number, *args) >= 0
def abstract_socket():
    s = socket.socket(socket.AF_UNIX)
    s.connect('\0' + abstract)
def datagram():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    a.sendto(b'x', named)
reaches('secret of the home', lambda: open(home + '/secret'))
reaches('home', lambda: os.listdir(home))
reaches('other file', lambda: open(other + '/file'))
reaches('other file by a link', lambda: open('link'))
reaches('new file elsewhere', lambda: open(other + '/new', 'w'))
reaches('truncate', lambda: os.truncate(other + '/file', 0))
reaches('remove', lambda: os.remove(other + '/file'))
reaches('rename in', lambda: os.rename(other + '/file', 'taken'))
reaches('rename out', lambda: os.rename('mine', other + '/mine'))
reaches('link', lambda: os.link(other + '/file', 'linked'))
reaches('mode', lambda: os.chmod(other + '/file', 0o777))
reaches('time', lambda: os.utime(other + '/file'))
reaches('attribute', lambda: os.setxattr(other + '/file', 'user.x', b'1'))
reaches('directory of programs', lambda: open('/usr/new', 'w'))
reaches('temporary files of all', lambda: open('/tmp/cofferdam-fence', 'w'))
reaches('kill', lambda: os.kill(int(parent), 0))
reaches('environment of a process', lambda: open(f'/proc/{parent}/environ').read())
reaches('memory of a process', lambda: open(f'/proc/{parent}/mem', 'rb'))
reaches('files of a process', lambda: os.readlink(f'/proc/{parent}/fd/0'))
reaches('a file of a process', lambda: open(f'/proc/{parent}/fd/0'))
reaches('root of a process', lambda: os.listdir(f'/proc/{parent}/root/'))
reaches('limits of a process', lambda: raw(302, int(parent), 7, None, ctypes.create_string_buffer(16)))
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
    reaches(f'socket {family}', lambda: socket.socket(family))
reaches('abstract socket', abstract_socket)
reaches('datagram', datagram)
reaches('shared memory', lambda: raw(29, 0, 4096, 0o1600))
reaches('message queue', lambda: raw(240, b'cofferdam', 0o102, 0o600, None))
reaches('watch', lambda: raw(294, 0))
reaches('io_uring', lambda: raw(425, 4, ctypes.create_string_buffer(256)))
reaches('user namespace', lambda: raw(272, 0x10000000))
reaches('mount', lambda: raw(165, b'none', b'/tmp', b'tmpfs', 0, None))
assert 'COFFERDAM_TEST_SECRET' not in os.environ
open('mine', 'w').write('new')
open(os.environ['HOME'] + '/x', 'w').write('x')
open(os.environ['TMPDIR'] + '/x', 'w').write('x')
a, b = socket.socketpair()
print('kept')
EOF
        python3 - "cofferdam-fence-$$" "$W/named" <<'EOF' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind('\0' + sys.argv[1])
s.listen()
d = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
d.bind(sys.argv[2])
open('listens', 'w').close()
time.sleep(600)
EOF
        local server=$! rc=0
        wait_for 60 test -e listens
        COFFERDAM_TEST_SECRET=1 fenced -w ws --events "$W/events" -- \
                python3 try.py "$W/other" "$HOME" "$server" "cofferdam-fence-$$" "$W/named" >out || rc=$?
        kill "$server"
        eq 0 "$rc" "$(cat "$T/err")"
        eq kept "$(cat out)"
        eq theirs "$(cat other/file)"
        eq new "$(cat ws/mine)"
        has "$(cat events)" '"type":"sandbox_skipped"'
        has "$(cat events)" '"reason":"user namespaces: '
        has "$(cat "$T/err")" 'instead of sandbox: user namespaces: '
        eq '' "$("$C" ps -aq)" 'runs that are left'
}
# what it cannot keep is refused, and nobody falls that far without having said so
fence_refuses() {
        [ "$(id -u)" != 0 ] || skip 'only a user gets a fence'
        local options
        for options in '--network open' '--network allowlist' '--hold x' '--workspace-mode cow' '--memory 1Gi' '--cache /usr/share'; do
                # shellcheck disable=SC2086
                status 125 fenced $options -- touch "$W/ran"
                eq 1 "$(wc -l <"$T/err")" "lines on stderr of $options"
        done
        status 125 timeout 200 "$deny" userns "$C" run --mode auto -- touch ran 2>"$T/err"
        status 125 timeout 200 "$deny" userns "$C" run --isolation degrade -- touch ran 2>"$T/err"
        status 2 fenced -w / -- touch "$W/ran"
        status 2 fenced -w "$HOME" -- touch "$W/ran"
        status 2 "$C" run --driver landlock -- true 2>"$T/err"
        [ ! -e ran ] || fail 'it ran'
        # an author of workflows does not choose to be let out; red without by_operator()
        printf '{"mode": "auto", "isolation": "degrade"}' >workflow.json
        status 125 "$deny" userns "$C" run --tier workflow --spec workflow.json -- true 2>"$T/err"
        has "$(cat "$T/err")" 'user namespaces: '
        status 125 "$deny" userns "$C" run --tier workflow --spec workflow.json --isolation degrade -- true 2>"$T/err"
}

# Red without what add_places() does for regions.
no_guard_covers_sockets() {
        need_command python3
        mkdir ws
        python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX)
s.bind(os.getcwd() + "/ws/socket")
s.listen(5)
s.settimeout(600)
s.accept()' 2>"$T/listener" &
        local listener=$!
        wait_for 60 test -S ws/socket || fail 'no listener'
        (cd ws && without fuse,overlay -- /usr/bin/python3 -c '
import socket
try:
    socket.socket(socket.AF_UNIX).connect("socket")
    print("connected")
except ConnectionRefusedError:
    print("refused")') >out || fail "$(cat "$T/err")"
        kill "$listener"
        eq refused "$(cat out)"
}

t 'a fence, when nothing else can be had' fence_keeps
t 'a fence keeps what the caller left open' fence_closes_descriptors
t 'a fence refuses what it cannot keep' fence_refuses
t 'root without a user namespace' root_without_userns
t 'a user namespace stays for others than root' userns_stays_for_others
t 'no guard: everything waits for review' no_guard_reviews_everything
t 'no guard: a rule that only it keeps' no_guard_hides_nothing_by_halves
t 'no guard: nothing else is shown' no_guard_shows_no_more
t 'no guard, no overlayfs: read-only' no_guard_no_overlay_is_readonly
t 'no overlayfs: no image as the root' no_overlay_no_image
t 'no guard, no overlayfs: sockets lead nowhere' no_guard_covers_sockets
t 'no /proc: an empty one' no_proc_is_empty
t 'no net namespace: no network' no_netns_no_network
t 'strict isolation takes no rung' strict_takes_none
t 'several rungs at once' two_rungs
finish
