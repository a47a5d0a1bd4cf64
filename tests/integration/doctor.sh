#!/usr/bin/env bash
# doctor: one primitive after the other is taken away; row, exit code, cause and remedy say so, and nothing is left
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

deny=$HELPERS/deny # takes system calls away

# row NAME STATE: the row of that name says STATE; its text goes to $text, with the lines below it
row() {
        text=$(awk -v name="$1  " '/^[^ ]/ { on = index($0, name) == 1 } on' out)
        [ -n "$text" ] || fail "no row '$1' in: $(cat out)"
        [[ $text =~ ^"$1"\ +"$2"\ +[^\ ] ]] || fail "row '$1' is not '$2': $text"
}

narrow() { ! LC_ALL=C.UTF-8 grep -nE '.{81}| $' out || fail 'a line is too long or ends in a blank'; }

healthy() {
        status 0 "$C" doctor >out 2>err
        eq '' "$(cat err)" stderr
        narrow
        ! grep -E '^[^ ].* missing ' out || fail 'something is missing'
        has "$(tail -n 1 out)" 'Everything that a native run requires works here.'
}

# refused WHAT CODE ROW STATE PART...: with WHAT denied doctor exits with CODE, and ROW is STATE with each PART
refused() {
        local what=$1 code=$2 name=$3 state=$4
        shift 4
        status "$code" "$deny" "$what" "$C" doctor >out 2>err
        eq '' "$(cat err)" stderr
        narrow
        row "$name" "$state"
        text=$(tr -s ' \n' ' ' <<<"$text")
        for part; do has "$text" "$part" "$name"; done
        if [ "$code" = 0 ]; then
                has "$(tail -n 1 out)" 'Everything that a native run requires'
        else
                has "$(tail -n 1 out)" 'refused here'
        fi
}

userns_refused_says_it_once() {
        refused userns 1 'user namespaces' missing 'clone(CLONE_NEWUSER): EPERM' seccomp remedy:
        row 'mount namespace' missing
        has "$text" 'not tried: needs user namespaces'
        row 'new /proc' missing
        eq 1 "$(grep -c 'native runs cannot start' out)" 'effects of one cause'
}

# in a user namespace of ours, where even an ordinary user may set the limit
limit_of_zero() {
        unshare -Ur true 2>/dev/null || skip 'no user namespaces here'
        # shellcheck disable=SC2016
        status 1 unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$1" doctor' - "$C" >out
        row 'user namespaces' missing
        has "$(tr -s ' \n' ' ' <<<"$text")" 'max_user_namespaces is 0'
        has "$text" 'sudo sysctl -w user.max_user_namespaces='
}

limit_of_net_namespaces() {
        unshare -Ur true 2>/dev/null || skip 'no user namespaces here'
        # shellcheck disable=SC2016
        status 1 unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_net_namespaces && exec "$1" doctor' - "$C" >out
        row 'net namespace' missing
        has "$text" ENOSPC
        has "$(tr -s ' \n' ' ' <<<"$text")" '/proc/sys/user/max_net_namespaces is 0'
        has "$(tr -s ' \n' ' ' <<<"$text")" 'sudo sysctl -w user.max_net_namespaces='
        row loopback missing
}

no_more_processes() {
        [ "$(id -u)" != 0 ] || skip 'only a user has a limit of processes'
        # shellcheck disable=SC2016
        status 1 bash -c 'ulimit -u 1 && exec "$1" doctor' - "$C" >out
        row 'user namespaces' missing
        has "$text" EAGAIN
        has "$(tr -s ' \n' ' ' <out)" 'ulimit -u'
}

no_more_files() {
        # shellcheck disable=SC2016
        status 1 sh -c 'ulimit -n 4 && exec "$1" doctor' - "$C" >out
        row 'user namespaces' missing
        has "$(tr -s ' \n' ' ' <<<"$text")" 'ulimit -n'
}

in_a_chroot() {
        [ "$(id -u)" = 0 ] || skip 'only root changes its root'
        mkdir root
        cp "$C" root/cofferdam
        status 1 chroot root /cofferdam doctor >out
        row 'user namespaces' missing
        has "$text" 'a chroot'
        row openat2 ok
        row program ok
        row 'other programs' degraded # they are not beside it; red when the row looks elsewhere, or nowhere
        has "$(tr -s ' \n' ' ' <<<"$text")" 'not installed: cofferdam-auth-proxy, cofferdam-image, cofferdam-kubernetes'
        # as schroot makes it: nothing tells that it is one
        status 1 unshare -m sh -c 'mount --bind root root && exec chroot root /cofferdam doctor' >out
        row 'user namespaces' missing
        has "$(tr -s ' \n' ' ' <<<"$text")" 'a chroot whose root is a mount'
        has "$(tr -s ' \n' ' ' <<<"$text")" 'remedy: start cofferdam outside of the chroot'
}

# a root without /proc: the cause is named, and nothing else is blamed
without_proc() {
        [ "$(id -u)" = 0 ] || skip 'only root unmounts /proc'
        # shellcheck disable=SC2016
        status 1 unshare -m --propagation private sh -c 'umount -l /proc && exec "$1" doctor' - "$C" >out
        row 'user namespaces' missing
        has "$(tr -s ' \n' ' ' <<<"$text")" '/proc is not mounted'
        has "$text" 'mount -t proc proc /proc'
}

# fuse_device SETUP STATE PART...: what SETUP makes of /dev/fuse in a private mount namespace
fuse_device() {
        local setup=$1
        shift
        [ -e /dev/fuse ] || skip 'no /dev/fuse to hide'
        [ "$(id -u)" = 0 ] || skip 'only root mounts over /dev in the host'
        status 1 unshare -m --propagation private sh -c "$setup && exec \"\$1\" doctor" - "$C" >out
        row 'FUSE device' missing
        for part; do has "$(tr -s ' \n' ' ' <<<"$text")" "$part"; done
        row 'FUSE mount' missing
        has "$text" 'not tried: needs FUSE device'
}

# FUSE mount in a mode that only root may open: what a fresh machine has
fuse_device_closed() {
        [ "$(id -u)" = 0 ] || skip 'only root makes devices'
        local uid=${SUDO_UID:-$(id -u cofftest 2>/dev/null)}
        [ "${uid:-0}" != 0 ] || skip "no user 'cofftest': ./dev test makes it"
        # shellcheck disable=SC2016
        status 1 unshare -m --propagation private sh -c '
                mount -t tmpfs none /mnt && mknod -m 600 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse &&
                install -m 755 "$1" /mnt/cofferdam &&
                exec setpriv --reuid "$2" --regid "$2" --clear-groups env -i HOME=/mnt /mnt/cofferdam doctor' - \
                "$C" "$uid" >out
        row 'FUSE device' missing
        has "$text" 'mode 0600'
        has "$text" EACCES
        has "$text" 'sudo chmod 666 /dev/fuse'
}

masked_proc() {
        [ "$(id -u)" = 0 ] || skip 'only root mounts over /proc'
        # shellcheck disable=SC2016
        status 1 unshare -m --propagation private sh -c 'mount -t tmpfs none /proc/sys && exec "$1" doctor' - "$C" >out
        row 'new /proc' missing
        has "$text" EPERM
        has "$(tr -s ' \n' ' ' <<<"$text")" 'systempaths=unconfined'
}

# run_refuses WHAT PART...: with WHAT denied, run says so in one line with each PART, and does not run the command
run_refuses() {
        local what=$1
        shift
        status 125 "$deny" "$what" "$C" run -- sh -c ': >marker' >out 2>err
        [ ! -e marker ] || fail 'the command ran'
        eq '' "$(cat out)" stdout
        eq 1 "$(wc -l <err)" 'lines on stderr'
        has "$(cat err)" 'remedy: '
        for part; do has "$(cat err)" "$part"; done
        "$deny" "$what" "$C" doctor >out || true
        has "$(tr -s ' \n' ' ' <out)" "$(sed 's/.*; remedy: //' err)" 'remedy in doctor'
}

json_has_the_promised_keys() {
        local key
        "$C" doctor --json >out
        for key in host os arch container_runtime sandbox_default selected_driver available_drivers \
                scheduling_policy iterion_binary iterion_binary_link capabilities image build mounts \
                network_policy post_create remote_user rows failures version; do
                grep -q "\"$key\":" out || fail "no key '$key'"
        done
        if command -v python3 >/dev/null 2>&1; then
                python3 -c '
import json, sys
r = json.load(open("out"))
assert r["iterion_binary_link"] in ("static", "dynamic"), r
assert r["failures"] == 0 and len(r["rows"]) > 20, r
assert all(set(x) == {"key", "name", "state", "required", "evidence", "effect", "remedy"} for x in r["rows"])
assert r["capabilities"] == {x: x != "build" or r["container_runtime"] != "" for x in r["capabilities"]}, r["capabilities"]
assert not any(x["required"] and x["state"] == "missing" for x in r["rows"])'
        fi
}

json_tells_failures() {
        status 1 "$deny" userns "$C" doctor --json >out
        grep -q '"driver_error":' out || fail "$(cat out)"
        grep -q '"failures": [1-9]' out || fail "$(cat out)"
}

man_page_names_every_row() {
        local name
        "$C" doctor >out || true
        sed -n '/^$/q; s/^\([^ ][^ ]*\( [^ ][^ ]*\)*\)  .*/\1/p' out >names
        [ "$(wc -l <names)" -gt 20 ] || fail "rows: $(cat names)"
        while read -r name; do
                grep -qE "^\.It (.* , )?$name( ,|\$)" "$TOP/docs/man/cofferdam-doctor.1" || fail "no '$name' in the man page"
        done <names
}

all_there() { { cat /proc/self/mountinfo; find /sys/fs/cgroup -maxdepth 2 -type d; ls -A "$T/state" "$HOME" .; } 2>/dev/null | sort; }
leaves_nothing() {
        local new
        for _ in {1..20}; do # what others make meanwhile is not there each time
                all_there >"$T/before"
                "$C" doctor >/dev/null
                new=$(all_there | comm -13 "$T/before" -)
                [ -n "$new" ] || return 0
        done
        fail "$new"
}

takes_less_than_300_ms() {
        local ms best=999999
        for _ in {1..20}; do # a machine that is busy has a good moment
                ms=$("$C" doctor -v 2>&1 >/dev/null | sed -n 's/.* took \([0-9]*\) ms/\1/p')
                [ "$ms" -ge "$best" ] || best=$ms
                [ "$best" -ge 300 ] || return 0
        done
        fail "best of 20: $best ms"
}

usage_errors() {
        for args in --jsn extra '--network none' '--strict /nonexistent extra'; do
                # shellcheck disable=SC2086
                status 2 "$C" doctor $args >out 2>err
                eq '' "$(cat out)" stdout
                eq 1 "$(wc -l <err)" "lines on stderr of '$args'"
        done
}

# the driver of the run, not of a run by itself
strict_names_the_driver() {
        need_command python3
        for words in '--driver noop' '--mode none'; do
                # shellcheck disable=SC2086
                "$C" doctor --strict $words --json >out || true
                python3 -c 'import json; r=json.load(open("out")); assert r["selected_driver"] == "noop" and not r["capabilities"]["mounts"], r["selected_driver"]'
        done
        "$C" doctor --strict --driver native --json >out || true
        python3 -c 'import json; r=json.load(open("out")); assert r["selected_driver"] in ("native", ""), r["selected_driver"]'
}

# what the plan says of a missing row is the same failure
strict_counts_a_row_once() {
        [ "$(id -u)" != 0 ] || skip 'only a user cannot do without user namespaces'
        status 1 "$deny" userns "$C" doctor --strict --isolation degrade >out
        eq '1 required check failed: such a run is refused here.' "$(tail -n 1 out)"
}

strict_names_what_is_wrong() {
        status 1 "$C" doctor --strict "$W/none.yaml" >out
        has "$(cat out)" 'specification     fail'
        eq '1 required check failed: such a run is refused here.' "$(tail -n 1 out)"
        printf 'network: {mode: nonsense}\n' >bad.yaml
        status 1 "$C" doctor --strict bad.yaml >out
        has "$(cat out)" 'network.mode'
}

# doctor and run say the same of a limit, whatever this host has
strict_knows_limits() {
        local limit rc
        for limit in --memory=1Gi --cpus=1 --pids=500 --timeout=9s '--memory=1Gi --isolation=degrade'; do
                rc=0
                # shellcheck disable=SC2086
                "$C" run $limit -- true >/dev/null 2>&1 || rc=1
                # shellcheck disable=SC2086
                status $rc "$C" doctor --strict $limit >out
        done
}
strict_needs_no_net_namespace_for_open() {
        refused newnet 1 'net namespace' missing 'clone(CLONE_NEWUSER|CLONE_NEWNET): EPERM' seccomp
        status 0 "$deny" newnet "$C" doctor --strict --network open >out
        row 'net namespace' degraded
}

closed_output_is_a_failure() {
        [ -e /dev/full ] || skip 'no /dev/full'
        status 1 "$C" doctor >/dev/full 2>err
        has "$(cat err)" 'standard output'
}

# engine WHAT: a socket at ./docker.sock that answers with WHAT, or "" for never; its pid goes to $engine
engine() {
        python3 - "$1" <<'EOF' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind('docker.sock')
s.listen()
open('listens', 'w').close()
if not sys.argv[1]:
    time.sleep(600)
while True:
    c, _ = s.accept()
    c.recv(4096)
    try:
        c.sendall(sys.argv[1].encode() * (1 if sys.argv[1][0] == 'H' else 1000000))
    except OSError:
        pass
    c.close()
EOF
        engine=$!
        wait_for 60 test -e listens
}
# asked SECONDS: doctor ends in time, with the row in $text
asked() {
        local start=$SECONDS rc=0
        DOCKER_HOST=unix://$PWD/docker.sock timeout 60 "$C" doctor >out 2>err || rc=$?
        kill "$engine" && wait "$engine" 2>/dev/null || true
        rm -f docker.sock listens
        eq 0 "$rc" 'exit status'
        [ $((SECONDS - start)) -le "$1" ] || fail "it took $((SECONDS - start)) s"
        eq '' "$(cat err)" stderr
        narrow
}
docker_that_never_answers() {
        engine ''
        asked 20
        row 'docker daemon' degraded
        has "$text" 'no answer at'
}
docker_that_answers() {
        local info='{"ServerVersion":"27.1","Driver":"overlay2","SecurityOptions":["name=seccomp","name=rootless"]}'
        engine $'HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n'"$info"
        asked 20
        row 'docker daemon' ok
        has "$(tr -s ' \n' ' ' <<<"$text")" 'version 27.1, rootless, storage overlay2'
}
docker_keeps_its_images() {
        local state part info
        while read -r state part info; do
                engine $'HTTP/1.0 200 OK\r\n\r\n'"$info"
                asked 60
                row 'docker storage' "$state"
                has "$(tr -s ' \n' ' ' <<<"$text")" "${part//_/ }"
        done <<'X'
ok overlay2_at_/nowhere/docker,_which_is_not_here {"Driver":"overlay2","DockerRootDir":"/nowhere/docker"}
ok _MiB_free {"Driver":"overlay2","DockerRootDir":"/usr"}
degraded "storage-driver":_"overlay2" {"Driver":"vfs","DockerRootDir":"/"}
degraded does_not_say_where {"Driver":"overlay2"}
X
}
# podman_storage [VARIABLE=VALUE...]: the row, of a podman that is one in name only
podman_storage() {
        mkdir -p shim
        printf '#!/bin/sh\necho podman version 9\n' >shim/podman
        chmod +x shim/podman
        env "$@" PATH="$W/shim:$PATH" "$C" doctor >out 2>err
        eq '' "$(cat err)" stderr
        narrow
}
podman_keeps_its_images() { # what is configured, and what made the store that is there
        local conf=$W/storage.conf store=$W/store
        printf '# driver = "btrfs"\n[storage]\n driver = "overlay" # or\ngraphroot = "%s"\nrootless_storage_path="%s"\n' "$store" "$store" >"$conf"
        podman_storage CONTAINERS_STORAGE_CONF="$conf"
        row 'podman storage' ok
        has "$(tr -d ' \n' <<<"$text")" "overlayat$(dirname "$store"),"
        mkdir -p "$store/vfs-images"
        podman_storage CONTAINERS_STORAGE_CONF="$conf"
        row 'podman storage' degraded
        has "$(tr -d ' \n' <<<"$text")" "vfsat$store"
        has "$(tr -s ' \n' ' ' <<<"$text")" 'remedy: podman system reset'
        mkdir "$store/overlay-images"
        podman_storage CONTAINERS_STORAGE_CONF="$conf"
        row 'podman storage' ok
        podman_storage CONTAINERS_STORAGE_CONF="$conf" STORAGE_DRIVER=vfs
        row 'podman storage' degraded
        printf '[storage]\ndriver = "\e[2J"\ngraphroot = "/\e[2J"\nrootless_storage_path = "/\e[2J"\n' >"$conf"
        podman_storage CONTAINERS_STORAGE_CONF="$conf"
        lacks "$(cat out)" $'\e'
}
podman_of_another_session() { # su and sudo leave a user the runtime directory of somebody else
        [ "$(id -u)" != 0 ] || skip 'only a user has a runtime directory of his own'
        mkdir -p ro "$HOME/.local/share/containers/storage/overlay-images"
        podman_storage XDG_RUNTIME_DIR="$W/ro"
        row 'podman storage' ok
        has "$(tr -d ' \n' <<<"$text")" "overlayat$HOME/.local/share/con" # and as much as a line takes
        chmod 555 ro
        podman_storage XDG_RUNTIME_DIR="$W/ro"
        row 'podman storage' degraded
        has "$(tr -s ' \n' ' ' <<<"$text")" 'remedy: log in as this user'
        chmod 555 "$HOME/.local/share/containers/storage"
        podman_storage XDG_RUNTIME_DIR="$T/run"
        row 'podman storage' degraded
        has "$(tr -s ' \n' ' ' <<<"$text")" 'remedy: sudo chown'
        chmod 755 "$HOME/.local/share/containers/storage"
        rm -r "$HOME/.local"
}
stores_without_room() {
        local options part
        unshare -Urm true 2>/dev/null || skip 'no user namespaces here'
        printf '[storage]\ndriver = "overlay"\ngraphroot = "/mnt/s"\n' >conf
        while read -r options part; do
                # shellcheck disable=SC2016
                podman_storage CONTAINERS_STORAGE_CONF="$W/conf" unshare -Urm sh -c 'mount -t tmpfs -o "$1" none /mnt && shift && exec "$@"' - "$options" env
                row 'podman storage' degraded
                has "$(tr -s ' \n' ' ' <<<"$text")" "${part//_/ }"
        done <<'X'
size=8m only_8_MiB_free
size=3g,nr_inodes=100 inodes_free
size=3g,ro EROFS
X
}
# an answer without an end, one that is no HTTP, and one with what a terminal would obey
docker_that_lies() {
        local answer
        for answer in 'x' 'HTTP/1.0 500 no' $'HTTP/1.0 200 OK\r\n\r\n[1' $'HTTP/1.0 200 OK\r\n\r\n{"ServerVersion":7}' \
                $'HTTP/1.0 200 OK\r\n\r\n{"ServerVersion":"\\u001b[2J\\n"}'; do
                engine "$answer"
                asked 20
                lacks "$(cat out)" $'\e' "the report of '$answer'"
        done
}
cluster() { printf '%s' "{current-context: here, contexts: [{name: here, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '$1'}}]}" >kubeconfig; }
# a server that takes connections and never answers, a port that is closed, an address where nobody is, no name server
cluster_is_bounded() {
        local server start
        engine ''
        kill "$engine"
        for server in https://127.0.0.1:1 https://192.0.2.1:6443 https://no-such-host.invalid 'https://[::1]:1' ftp://x 'https://x:99999'; do
                cluster "$server"
                start=$SECONDS
                status 0 env -u KUBERNETES_SERVICE_HOST KUBECONFIG="$PWD/kubeconfig" timeout 60 "$C" doctor --target cloud >out
                [ $((SECONDS - start)) -le 20 ] || fail "$server: it took $((SECONDS - start)) s"
                row 'cluster server' degraded
        done
        row 'cluster context' degraded
        printf 'a: [\n' >kubeconfig
        status 0 env -u KUBERNETES_SERVICE_HOST KUBECONFIG="$PWD/kubeconfig" "$C" doctor --target cloud >out
        row 'cluster context' degraded
}
cluster_that_listens() {
        python3 - <<'EOF' &
import socket, time
s = socket.socket()
s.bind(('127.0.0.1', 0))
s.listen()
open('port.tmp', 'w').write(str(s.getsockname()[1]))
import os
os.rename('port.tmp', 'port')
time.sleep(600)
EOF
        local server=$! rc=0
        wait_for 60 test -e port
        cluster "https://127.0.0.1:$(cat port)/k8s"
        env -u KUBERNETES_SERVICE_HOST KUBECONFIG="$PWD/kubeconfig" timeout 60 "$C" doctor --target kubernetes >out || rc=$?
        kill "$server"
        eq 0 "$rc" 'exit status'
        row 'cluster context' ok
        has "$text" "context 'here'"
        row 'cluster server' ok
        has "$(tr -s ' \n' ' ' <<<"$text")" 'accepts connections'
        has "$(tail -n 1 out)" 'Nothing speaks against this Kubernetes cluster.'
        # it says nothing: the row of the API says so, where the program that asks was built
        row 'cluster API' "$([ -e "$T/libexec/cofferdam-kubernetes" ] && echo missing || echo degraded)"
}
target_checks_the_specification() {
        status 0 env -u KUBECONFIG -u KUBERNETES_SERVICE_HOST "$C" doctor --target cloud --strict >out
        grep -q '^pod *pass' out || fail "$(cat out)"
        has "$(tail -n 1 out)" 'No Kubernetes cluster can be reached from here.'
        printf 'user: root\nmounts: ["type=bind,source=/data,target=/data"]\n' >pod.yaml
        status 1 "$C" doctor --target cloud --strict pod.yaml >out
        eq 2 "$(grep -c '^pod *fail' out)" 'failed checks'
        # a host that can run nothing can look at a specification
        status 0 "$deny" userns "$C" doctor --target cloud --strict >out
        status 2 "$C" doctor --target moon 2>err
        has "$(cat err)" 'want auto, local, cloud or kubernetes'
}
json_fits_the_schema() {
        local options
        for options in '' '--strict' '--strict --network open' '--target cloud' '--target cloud --strict --user root'; do
                # shellcheck disable=SC2086
                "$C" doctor --json $options >out.json || true
                python3 "$here/schema.py" "$TOP/docs/schema/doctor.json" out.json
        done
        "$deny" userns "$C" doctor --json >out.json || true
        python3 "$here/schema.py" "$TOP/docs/schema/doctor.json" out.json
        printf '{"host": "local", "rows": [{"state": "fine"}], "surprise": 1}' >bad.json
        status 1 python3 "$here/schema.py" "$TOP/docs/schema/doctor.json" bad.json >out
}

# what is there already in the place of the state: doctor and run say the same; red with make_entry() alone
state_of_others() {
        local how
        export XDG_STATE_HOME=$W/own
        mkdir own elsewhere
        for how in 'mkdir -m 777 own/cofferdam' 'ln -s ../elsewhere own/cofferdam' 'mkdir -p -m 777 own/cofferdam/runs' \
                'mkdir own/cofferdam; echo >own/cofferdam/runs' 'echo >own/cofferdam'; do
                rm -rf own/*
                (umask 0 && sh -c "$how") || fail "$how"
                status 1 "$C" doctor >out
                row 'state directory' missing
                status 125 "$C" run -- true 2>err
                has "$(tr -s ' \n' ' ' <out)" "$(sed 's/.*state directory: \(.*\): runs cannot be recorded.*/\1/' err)" "$how"
        done
        rm -rf own
        status 0 "$C" doctor >out
}

# a file that container engines leave, on a host and in a container; red without is_first_everywhere()
mark_of_a_container() {
        [ "$(id -u)" = 0 ] || skip 'only root mounts over /run'
        [ "$(stat -Lc %i /proc/self/ns/pid)" = 4026531836 ] || skip 'case says: needs the first pid namespace'
        local mark='mount -t tmpfs none /run && : >/run/.containerenv && exec "$1" doctor'
        unshare -m --propagation private sh -c "$mark" - "$C" >out || true
        row surroundings ok
        has "$(tr -s ' \n' ' ' <<<"$text")" 'no container (/run/.containerenv is left from one)'
        unshare -mpf --mount-proc --propagation private sh -c "$mark" - "$C" >out || true
        row surroundings ok
        has "$(tr -s ' \n' ' ' <<<"$text")" 'container: podman (/run/.containerenv)'
}

# red without layer_usable() in make_entry()
state_without_attributes() {
        [ "$(id -u)" = 0 ] || skip 'only root mounts'
        # shellcheck disable=SC2016
        local here='mount -t ramfs none /mnt && export XDG_STATE_HOME=/mnt && exec "$@"'
        status 1 unshare -m --propagation private sh -c "$here" - "$C" doctor >out
        row 'state directory' missing
        status 125 unshare -m --propagation private sh -c "$here" - "$C" run -- true 2>err
        has "$(cat err)" 'no user extended attributes'
        has "$(tr -s ' \n' ' ' <out)" "$(sed 's/.*\(set XDG_STATE_HOME.*\)/\1/' err)"
}

# an outer limit that a run needs all of: what the attempts had comes back late; red without clone_in_time()
narrow_limits() {
        local limit
        for limit in user_namespaces=3 net_namespaces=1; do
                # shellcheck disable=SC2016
                for verb in doctor 'run -- true'; do
                        # shellcheck disable=SC2086
                        status 0 unshare -Um --map-current-user --keep-caps sh -c \
                                'echo "$1" >"/proc/sys/user/max_$2" && shift 2 && exec "$@"' - "${limit#*=}" "${limit%=*}" "$C" $verb >out 2>&1
                done
        done
}

json_says_the_default() {
        local said
        for said in 'none none' 'auto auto' 'nonsense INVALID: ITERION_SANDBOX_DEFAULT'; do
                ITERION_SANDBOX_DEFAULT=${said%% *} "$C" doctor --json >out
                has "$(cat out)" "\"sandbox_default\": \"${said#* }"
        done
        "$C" doctor --json >out
        has "$(cat out)" '"sandbox_default": "auto (built-in sandbox-by-default)"'
        has "$(cat out)" '"post_create": true'
        has "$("$C" doctor | tr -s ' \n' ' ')" 'libfuse 3.'
        has "$("$C" doctor | tr -s ' \n' ' ')" 'redirect '
}

# doctor and run say the same of a limit that is too low; red without compare()
limits_of_the_caller() {
        local limit
        for limit in '-n 30' '-v 20000' '-d 1000' '-f 4' '-f 0'; do
                (bash -c "ulimit $limit; exec \"\$0\" doctor" "$C" || echo $? >code) | cat >out
                eq 1 "$(cat code)" "exit status with $limit"
                row limits missing
                has "$(tr -s ' \n' ' ' <<<"$text")" "remedy: raise 'ulimit ${limit% *}'"
                # nothing else is blamed
                [ "$limit" = '-n 30' ] || eq 1 "$(grep -c '^[^ ].* missing ' out)" 'missing rows'
                (bash -c "ulimit $limit; exec \"\$0\" run -- true" "$C" 2>&1 || echo $? >code) | cat >err
                eq 125 "$(cat code)" "exit status of a run with $limit"
                eq 1 "$(wc -l <err)" 'lines on stderr'
                has "$(cat err)" "remedy: raise 'ulimit ${limit% *}'"
        done
        # shellcheck disable=SC2016
        status 0 bash -c 'ulimit -f 64; exec "$0" doctor' "$C" >out
        row tmpfs ok
        has "$text" 'keeps to its size'
        # shellcheck disable=SC2016
        status 125 bash -c 'ulimit -s 64; exec "$0" doctor' "$C" >out 2>err
        has "$(cat err)" "raise 'ulimit -s'"
}
few_processes() {
        [ "$(id -u)" != 0 ] || skip 'only a user has a limit of processes'
        # shellcheck disable=SC2016
        status 1 bash -c 'ulimit -u "$(($(ps -o pid= -L -u "$(id -u)" | wc -l) + 4))"; exec "$0" doctor' "$C" >out
        row limits missing
        has "$(tr -s ' \n' ' ' <<<"$text")" "raise 'ulimit -u'"
        # shellcheck disable=SC2016
        status 125 bash -c 'ulimit -u "$(($(ps -o pid= -L -u "$(id -u)" | wc -l) + 4))"; exec "$0" run -- true' "$C" 2>err
        has "$(cat err)" "raise 'ulimit -u'"
}

# a host without /tmp, which no run needs; red with a probe that mounts there
without_tmp() {
        need_command bwrap
        status 0 bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 \
                --dev-bind /dev /dev --bind /proc /proc --bind "$T/state" /state --setenv XDG_STATE_HOME /state \
                --ro-bind "$(readlink -f "$C")" /cofferdam /cofferdam doctor >out
        row 'mount API' ok
        row pivot_root ok
}

# doctor --strict and run agree, as the same options are refused in the same words. Red without places_check(),
# check_secrets(), the least of check_cpus() and the min of limits.pids
strict_agrees() {
        local options rc
        mkdir -p there/old
        printf x >secret
        for options in "--mount type=tmpfs,target=/usr/missing" "--mount type=bind,source=$W/there,target=/usr/share/missing" \
                "--mount type=tmpfs,target=$W/missing" '--workspace-target /usr/missing' '--cpus 0.001' '--pids 1' \
                '--model-auth proxied' '--secret K=env:NOPE,host=x.invalid,inject=bearer' \
                '--secret K=file:/nonexistent,host=x.invalid,inject=bearer' '--auth-proxy http://127.0.0.1:1 --secret K=env:HOME,host=x.invalid,inject=bearer' \
                '--driver noop --model-auth proxied'; do
                rc=0
                # shellcheck disable=SC2086
                timeout 60 "$C" run $options -- true 2>err || rc=$?
                [ "$rc" != 0 ] || fail "a run with $options starts"
                lacks "$(cat err)" 'want NAME=' "$options"
                # shellcheck disable=SC2086
                status 1 "$C" doctor --strict $options >out
                has "$(tr -s ' \n' ' ' <out)" "$(tail -n 1 err | sed 's/^cofferdam: //; s/^run: //; s/[^:]*: //' | cut -c 1-60)" "$options"
        done
        for options in "--mount type=tmpfs,target=$W/there/old" '--mount type=tmpfs,target=/mnt/new/deep' '--pids 2'; do
                # shellcheck disable=SC2086
                status 0 "$C" run $options -- true
                # shellcheck disable=SC2086
                status 0 "$C" doctor --strict $options >out
        done
        ANTHROPIC_API_KEY=sk-x status 0 "$C" doctor --strict --model-auth proxied >out
        has "$(cat out)" 'found; nobody was asked'
}

# apart SETUP: what SETUP makes of a private mount namespace, then doctor (its report in ./out) and a run: their codes
apart() {
        local become=()
        [ "$(id -u)" = 0 ] || become=(--map-current-user --keep-caps)
        # shellcheck disable=SC2016
        C=$C T=$T timeout -k 5 150 unshare -m "${become[@]}" sh -c "$1"'; d=0; r=0
                "$C" doctor --strict >out || d=$?; "$C" run -- true 2>err || r=$?; echo $d.$r'
}
# red without fill_entry(), and without full_applies(): room for the name alone is not enough
state_is_full() {
        local options
        for options in size=64k nr_inodes=8; do
                eq 1.125 "$(apart "mount -t tmpfs -o $options,mode=777 t \"\$T/state\" && { head -c 64k /dev/zero >\"\$T/state/fill\" 2>/dev/null || :; }")" "$options"
                row 'state directory' missing
                has "$text" ENOSPC
                has "$(tr -s ' \n' ' ' <<<"$text")" 'remedy: free some space'
                lacks "$(cat out)" 'namespaces outside' 'what is blamed'
                has "$(cat err)" 'remedy: free some space'
        done
}
# what a doctor that was killed left behind, and its pid again; red with a name of the pid alone
state_has_a_probe() {
        unshare -Urpf --mount-proc true 2>/dev/null || skip 'no user namespaces here'
        export XDG_STATE_HOME=$W/probed
        mkdir -p probed/cofferdam/.cofferdam-probe-1
        unshare -Urpf --mount-proc "$C" doctor >out || true
        row 'state directory' ok
        rm -rf probed
}
# red with an error for a device that is not there
few_devices() {
        local bind='for d in null zero random urandom; do : >/mnt/$d; mount --bind /dev/$d /mnt/$d; done; : >/mnt/fuse; mount --bind /dev/fuse /mnt/fuse'
        eq 0.0 "$(apart "mount -t tmpfs t /mnt; $bind; mount --rbind /mnt /dev")"
        row devices ok
        has "$(tr -s ' \n' ' ' <<<"$text")" 'not inside: full tty'
        eq 1.125 "$(apart "mount -t tmpfs t /mnt; $bind; mount --rbind /mnt /dev; mount --bind /dev/null /dev/zero")"
        row devices missing
        has "$text" '/dev/zero is not the device 1:5'
        has "$(cat err)" '/dev/zero'
}

# an outer Landlock that refuses TCP does not keep a run from starting; red when EACCES of connect(2) is a failure
outer_landlock() {
        cat >inside.py <<'PY'
import ctypes, os, struct, sys
c = ctypes.CDLL(None, use_errno=True)
if c.syscall(444, None, 0, 1) < 4:
    sys.exit(77)
rules = c.syscall(444, struct.pack('=QQ', 0, 3), 16, 0)
if rules < 0 or c.prctl(38, 1, 0, 0, 0) or c.syscall(446, rules, 0):
    sys.exit('landlock: %d' % ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
PY
        python3 inside.py /bin/true || { [ $? = 77 ] && skip 'case says: landlock before ABI 4'; fail 'no landlock'; }
        status 0 python3 inside.py "$C" run -- true
        status 0 python3 inside.py "$C" doctor >out
        row loopback ok
        has "$(tr -s ' \n' ' ' <<<"$text")" 'a security module outside'
}

t 'all is well here' healthy
t 'below a landlock without TCP' outer_landlock
t 'a state directory that is full' state_is_full
t 'a probe that was left behind' state_has_a_probe
t 'a host with few devices' few_devices
t 'strict agrees with the run' strict_agrees
t 'limits of the caller' limits_of_the_caller
t 'limits of the caller: processes' few_processes
t 'a host without /tmp' without_tmp
t 'a state directory that is not the caller'"'"'s alone' state_of_others
t 'a state directory without extended attributes' state_without_attributes
t 'limits that a run just fits in' narrow_limits
t 'what a container engine left behind is no container' mark_of_a_container
t 'JSON says the default mode, and what works' json_says_the_default
t 'a docker socket that never answers' docker_that_never_answers
t 'a docker daemon that answers' docker_that_answers
t 'a docker daemon that lies' docker_that_lies
t 'where docker keeps its images' docker_keeps_its_images
t 'where podman keeps its images' podman_keeps_its_images
t 'podman with the runtime directory of another session' podman_of_another_session
t 'a store of images without room' stores_without_room
t 'a cluster that does not answer' cluster_is_bounded
t 'a cluster that listens' cluster_that_listens
t '--target checks the specification' target_checks_the_specification
t 'the JSON fits its schema' json_fits_the_schema
t 'user namespaces refused' userns_refused_says_it_once
t 'max_user_namespaces is 0' limit_of_zero
t 'max_net_namespaces is 0' limit_of_net_namespaces
t 'no more processes' no_more_processes
t 'no more open files' no_more_files
t 'mounts refused' refused mount 1 'mount API' missing 'fsopen("tmpfs"): EACCES' seccomp
t 'no new mount API' refused fsopen 1 'mount API' missing ENOSYS
t 'no open_tree' refused open_tree 1 'mount API' missing 'open_tree("/usr", CLONE): ENOSYS'
t 'no pivot_root' refused pivot_root 1 pivot_root missing 'pivot_root: EPERM'
t 'no pid namespace' refused newpid 1 'pid namespace' missing EPERM seccomp
t 'no net namespace' refused newnet 1 'net namespace' missing EPERM
t 'no openat2' refused openat2 1 openat2 missing ENOSYS
t 'no seccomp filters' refused seccomp 1 'seccomp filter' missing EINVAL
t 'no landlock is a warning' refused landlock 0 landlock degraded ENOSYS 'abstract sockets'
t 'in a chroot' in_a_chroot
t 'without /proc' without_proc
t '/dev/fuse is another device' fuse_device 'mount --bind /dev/null /dev/fuse' 'is not the device'
t '/dev is empty' fuse_device 'mount -t tmpfs none /dev' 'stat /dev/fuse: ENOENT' 'modprobe fuse'
t '/dev/fuse is for root' fuse_device_closed
t 'parts of /proc are masked' masked_proc
t 'run: user namespaces refused' run_refuses userns 'user namespaces' 'clone(CLONE_NEWUSER): EPERM' seccomp
t 'run: mounts refused' run_refuses mount 'mount API' EACCES seccomp
t 'run: no new mount API' run_refuses fsopen ENOSYS
t 'run: no net namespace' run_refuses newnet 'net namespace' EPERM
t 'run: no pid namespace' run_refuses newpid 'pid namespace' EPERM
t 'run: no openat2' run_refuses openat2 openat2 ENOSYS
t 'run: no pivot_root' run_refuses pivot_root pivot_root EPERM
t 'JSON has the promised keys' json_has_the_promised_keys
t 'JSON tells failures' json_tells_failures
t 'the man page names every row' man_page_names_every_row
t 'nothing is left' leaves_nothing
t 'it takes less than 300 ms' takes_less_than_300_ms
t 'usage errors' usage_errors
t 'strict names what is wrong' strict_names_what_is_wrong
t 'strict: limits' strict_knows_limits
t 'strict: network open needs no net namespace' strict_needs_no_net_namespace_for_open
t 'a closed output is a failure' closed_output_is_a_failure
t 'strict names the driver of the run' strict_names_the_driver
t 'strict counts a missing row once' strict_counts_a_row_once
finish
