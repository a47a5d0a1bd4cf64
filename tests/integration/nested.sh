#!/usr/bin/env bash
# Inside of containers, sandboxes, services and other places that are not a login on a host: a run starts and guards,
# or is refused with what is missing and a remedy, and doctor says the same
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

deny=$HELPERS/deny
pod=$T/pod # podman's storage and what it runs on, nothing of which is the user's
spec=$T/nested.yaml
echo 'security: {nested_userns: true}' >"$spec"

# What is done in each place, by its own shell: $1 is the program, $2 a workspace, $3 a file the sandbox has no business
# with. Goes red without the rules for hooks of fs/rules-builtin.c, and with "root" among the directories of
# drivers/native/os.c.
cat >"$T/inside" <<'IN'
mkdir -p "$2/.git/hooks" && cd "$2" || exit 9
rc=0
"$1" run -- sh -c 'echo x >.git/hooks/pre-commit || echo cannot write
        ! cat "$1" || echo the file is seen
        [ -e .git/hooks/pre-commit ] && echo >marker && echo ran' - "$3" >out 2>err || rc=$?
[ ! -e .git/hooks/pre-commit ] || echo the hook is there
while read -r line; do echo "out: $line"; done <out
while read -r line; do echo "err: $line"; done <err
echo "run: $rc"
rc=0
"$1" doctor --strict >doctor || rc=$?
set -f
while read -r line; do echo "doctor: $line"; done <doctor
echo "doctor says: $rc"
IN

# told CMD...: its output, within a minute; functions have a limit of their own
told() { case $(type -t "$1") in function) "$@" 2>&1 ;; *) timeout -k 5 200 "$@" 2>&1 ;; esac }

# works CMD...: CMD, which ends as "sh $T/inside ..." does, tells of a run that started and held
works() {
        local told
        told=$(told "$@") || fail "$told"
        for line in 'out: ran' 'run: 0' 'doctor says: 0'; do grep -qx "$line" <<<"$told" || fail "no '$line' in: $told"; done
        for part in 'cannot write' 'is seen' 'hook is there'; do lacks "$told" "$part"; done
}

# refused PART CMD...: no run, one line with the part and a remedy, which doctor has too
refused() {
        local part=$1 told said remedy
        shift
        told=$(told "$@") || fail "$told"
        for line in "run: ${refusal-125}" 'doctor says: 1'; do grep -qx "$line" <<<"$told" || fail "no '$line' in: $told"; done
        lacks "$told" 'out: '
        said=$(grep '^err: ' <<<"$told")
        eq 1 "$(wc -l <<<"$said")" "lines on stderr of $said"
        has "$said" "$part"
        has "$said" '; remedy: '
        remedy=${said##*; remedy: }
        has "$(sed -n 's/^doctor: *//p' <<<"$told" | tr -s ' \n' ' ')" "$remedy" 'remedy in doctor'
}

# --- podman, with a root of the host's own programs

# image_root DIR: sh and a few more, with their libraries
image_root() {
        local program file
        mkdir -p "$1"/{dev,etc,proc,root,run,sys,tmp,usr/bin,usr/lib,var,w}
        for program in sh cat mkdir; do
                file=$(command -v "$program")
                cp -L "$file" "$1/usr/bin/"
                ldd "$file" | grep -oE '/[^ ]+' | while read -r file; do
                        mkdir -p "$1$(dirname "$file")"
                        [ -e "$1$file" ] || cp -L "$file" "$1$file"
                done
        done
        ln -s usr/bin "$1/bin"
        echo 'root:x:0:0::/root:/bin/sh' >"$1/etc/passwd" # no group file: such images are
        echo secret >"$1/root/secret"
        cp "$C" "$T/inside" "$1/"
}

podman_here() {
        local own=()
        [ "$(id -u)" != 0 ] || own=(--cgroup-manager=cgroupfs)
        XDG_RUNTIME_DIR=$pod/xdg timeout -k 5 200 podman --root "$pod/root" --runroot "$pod/runroot" --tmpdir "$pod/tmp" \
                --events-backend=file --storage-driver=vfs --runtime runc "${own[@]}" "$@"
}

in_podman() { # in_podman OPTION... -- CMD...
        local options=(--rm --network none)
        [ "$(id -u)" != 0 ] || # what root may here is less than podman's defaults
                options+=(--ulimit nofile=1024:20000 --ulimit nproc=4096:32768 --cgroup-parent "/${T##*/}")
        [ -e "$pod/image/w" ] || { mkdir -p "$pod/xdg" && image_root "$pod/image"; }
        while [ "$1" != -- ]; do options+=("$1") && shift; done
        podman_here run --log-level=error "${options[@]}" --rootfs "$pod/image" /bin/sh /inside /cofferdam /w /root/secret
}

podman_left() {
        local group pause
        [ -e "$pod/image" ] || return 0
        podman_here rm -fa -t 0
        if [ "$(id -u)" != 0 ]; then
                podman_here unshare rm -rf "$pod/root" "$pod/runroot" "$pod/image"
                pause=$(cat "$pod/tmp/pause.pid") # it keeps the user namespace, and takes no other signal
                [ "$(cat "/proc/${pause:-0}/comm")" != 'podman pause' ] || kill -KILL "$pause"
        fi
        for group in /sys/fs/cgroup/{,*/}"${T##*/}"; do # conmon leaves it a moment after podman
                [ ! -d "$group" ] || wait_for 60 find "$group" -depth -type d -exec rmdir {} +
        done
} >/dev/null 2>&1

trap 'podman_left; clean' EXIT
trap 'echo "Bail out! killed"; podman_left; clean; exit 143' INT TERM HUP

with_podman() { # with_podman works|refused [PART] OPTION...
        local what=("$1")
        shift
        [ "${what[0]}" = works ] || { what+=("$1") && shift; }
        need_command podman
        HOME=$pod/home # of podman, not of the run
        mkdir -p "$HOME"
        "${what[@]}" in_podman "$@" --
}

no_namespaces() { # what Docker's profile answers to a container without CAP_SYS_ADMIN
        mkdir -p "$pod"
        cat >"$pod/seccomp.json" <<'JSON'
{ "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
  { "names": ["unshare", "setns", "mount", "fsopen", "open_tree", "move_mount"], "action": "SCMP_ACT_ERRNO" },
  { "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38 },
  { "names": ["clone"], "action": "SCMP_ACT_ERRNO",
    "args": [{ "index": 0, "value": 268435456, "valueTwo": 268435456, "op": "SCMP_CMP_MASKED_EQ" }] } ] }
JSON
        with_podman refused seccomp=unconfined --device /dev/fuse --security-opt unmask=ALL \
                --security-opt seccomp="$pod/seccomp.json"
}

# --- other sandboxes

here=(sh "$T/inside" "$C")

a_home() { echo secret >"$HOME/secret"; }

in_bubblewrap() {
        need_command bwrap
        a_home
        works bwrap --dev-bind / / --unshare-user "${here[@]}" "$W" "$HOME/secret"
        rm -r "$W/.git" "$W/marker"
        local verdict=(works)
        [ "$(id -u)" != 0 ] || verdict=(refused 'bubblewrap: --bind /proc /proc') # root gets a /proc with masks there
        "${verdict[@]}" bwrap --ro-bind / / --bind "$T" "$T" --dev /dev --dev-bind /dev/fuse /dev/fuse --proc /proc \
                --unshare-all --die-with-parent "${here[@]}" "$W" "$HOME/secret"
        rm -rf "$W/.git" "$W/marker"
        works bwrap --ro-bind / / --bind "$T" "$T" --dev /dev --dev-bind /dev/fuse /dev/fuse --bind /proc /proc \
                --unshare-user "${here[@]}" "$W" "$HOME/secret"
}
in_bubblewrap_without_fuse() {
        need_command bwrap
        refused 'FUSE device' bwrap --ro-bind / / --bind "$T" "$T" --dev /dev --proc /proc --unshare-all "${here[@]}" "$W" x
}

# The inner run's hook is not even in the outer one's view; the outer sandbox's own secret is not in the inner one.
in_cofferdam() { # in_cofferdam works|refused [PART] OPTION...
        local as=()
        cp "$C" "$T/inside" "$W/"
        [ "$(id -u)" != 0 ] || as=(--user 12345:12345)
        [ "$(id -u)" != 0 ] || chown -R 12345:12345 "$W"
        # shellcheck disable=SC2016
        inner=("$C" run "${as[@]}" --spec "$spec" -- sh -c 'export XDG_STATE_HOME=/tmp/s; mkdir -p "$HOME/d" && cd "$HOME/d" &&
                echo secret >../secret && sh "$1/inside" "$1/cofferdam" "$PWD/w" "$HOME/secret"' - "$W")
        "$@" "${inner[@]}"
}
in_cofferdam_without() {
        cp "$C" "$T/inside" "$W/"
        refused 'user namespaces' "$C" run -- sh -c "export XDG_STATE_HOME=/tmp/s; sh '$W/inside' '$W/cofferdam' /tmp/w x"
}

in_a_chroot() {
        [ "$(id -u)" = 0 ] || skip 'only root changes its root'
        image_root "$W/root"
        mknod -m 666 "$W/root/dev/null" c 1 3
        refused 'a chroot' chroot "$W/root" /bin/sh /inside /cofferdam /w /root/secret
}

# Where "/" is the first mount of all, as in an initramfs. The kernel has one such file system; directories are made in
# it for the time of the test, in a mount namespace where it is what is left.
in_an_initramfs() {
        [ "$(id -u)" = 0 ] || skip 'only root gets below its root'
        [ -n "$COFFERDAM_LONG" ] || skip 'opt-in: COFFERDAM_LONG=1 makes directories in the first file system of the kernel'
        a_home
        works python3 "$TOP/tests/integration/initramfs.py" "${here[@]}" "$W" "$HOME/secret"
}

# --- accounts, services, jobs

# elsewhere SCRIPT ARG...: in a mount namespace of its own, with the arguments, as the same user
elsewhere() {
        local become=() script=$1
        shift
        [ "$(id -u)" = 0 ] || become=(--map-current-user --keep-caps)
        timeout -k 5 200 unshare -m --propagation private "${become[@]}" sh -ec "$script" - "$@"
}

without_subuid() {
        a_home
        # shellcheck disable=SC2016
        works elsewhere 'mount --bind /dev/null /etc/subuid; mount --bind /dev/null /etc/subgid; exec "$@"' \
                "${here[@]}" "$W" "$HOME/secret"
}
without_an_account() {
        [ "$(id -u)" = 0 ] || skip 'only root becomes another'
        chmod 755 "$T"
        mkdir "$T/nobodys"
        echo secret >"$T/nobodys/secret"
        chown -R 54321:54321 "$W" "$T/nobodys"
        works setpriv --reuid 54321 --regid 54321 --clear-groups env XDG_STATE_HOME="$T/nobodys" XDG_RUNTIME_DIR= \
                HOME="$T/nobodys" "${here[@]}" "$W" "$T/nobodys/secret"
}

# sudo from root: what it changes (environment, session, terminal) is the same for everyone it lets in
under_sudo() {
        [ "$(id -u)" = 0 ] || skip 'only root may use sudo without a password'
        need_command sudo
        a_home
        works sudo -n env XDG_STATE_HOME="$T/state" HOME="$HOME" "${here[@]}" "$W" "$HOME/secret"
        id cofftest >/dev/null 2>&1 || skip "no user 'cofftest': ./dev test makes it"
        mkdir -p "$T/theirs/w"
        echo secret >"$T/theirs/secret"
        chown -R cofftest: "$T/theirs"
        works sudo -n -u cofftest env XDG_STATE_HOME="$T/theirs" HOME="$T/theirs" "${here[@]}" "$T/theirs/w" "$T/theirs/secret"
}

# What systemd does for a service with ProtectHome=yes, PrivateTmp=no, NoNewPrivileges=yes, where no systemd is running
# to be asked: nothing can be looked into where homes are, no terminal, no session, a short environment.
service='[ -d "$HOME/no" ] || mkdir -m 0 "$HOME/no"; for d in /home /root /run/user; do [ ! -e "$d" ] || mount --bind "$HOME/no" "$d"; done'
start='exec setpriv --no-new-privs --inh-caps=-all --ambient-caps=-all setsid -w env -i PATH=/usr/bin:/bin LANG=C.UTF-8 INVOCATION_ID=1 "$@"'
in_a_service() { # in_a_service SET-UP VERDICT [PART] VARIABLE...
        local setup=$1 verdict=("$2")
        shift 2
        [ "${verdict[0]}" = works ] || { verdict+=("$1") && shift; }
        a_home
        "${verdict[@]}" elsewhere "$service; $setup $start" "$@" "${here[@]}" "$W" /root/secret
}
its_home_only() {
        [ "$(id -u)" != 0 ] || skip 'only a user keeps its state at home'
        refusal=2 in_a_service '' refused XDG_CONFIG_HOME HOME=/home/service
        in_a_service '' refused XDG_STATE_HOME HOME=/home/service XDG_CONFIG_HOME="$T"
}

# a job of cron: no terminal, no HOME, almost no environment; its home is that of the account
from_cron() {
        # shellcheck disable=SC2016
        works elsewhere 'for d in /home /root /var/lib; do mount -t tmpfs -o mode=777 none "$d"; done
                mkdir -p /home/cofftest; echo secret >/home/cofftest/secret; exec setsid -w env -i PATH=/usr/bin:/bin "$@" <&-' \
                "${here[@]}" "$W" /home/cofftest/secret
}

# The program's own words and numbers are the same everywhere.
in_locale() {
        local said
        a_home
        if [ "$1" != C ] && command -v localedef >/dev/null && [ -e /usr/share/i18n/locales/de_DE ]; then
                mkdir -p "$T/locale"
                [ -e "$T/locale/$1" ] || localedef -i de_DE -f UTF-8 "$T/locale/$1"
                export LOCPATH=$T/locale
        fi
        works env LC_ALL="$1" LANGUAGE=de "${here[@]}" "$W" "$HOME/secret"
        for said in '--cpus 1.5 --isolation degrade -- echo 1.5' '--cpus 1,5 -- true' '-w /proc/1/x/y -- true' '--memory 1G -- x'; do
                # shellcheck disable=SC2086
                eq "$(LC_ALL=C LANGUAGE='' sandbox $said 2>&1)" "$(LC_ALL=$1 LANGUAGE=de sandbox $said 2>&1)" "$said"
        done
}

t 'podman: as it comes' with_podman refused 'FUSE device'
t 'podman: with /dev/fuse' with_podman refused 'unmask=ALL' --device /dev/fuse
t 'podman: with /dev/fuse and all of /proc' with_podman works --device /dev/fuse --security-opt unmask=ALL
t 'podman: privileged' with_podman works --privileged
t 'podman: without capabilities' with_podman refused SETFCAP --device /dev/fuse --security-opt unmask=ALL --cap-drop all
t 'podman: a profile without namespaces' no_namespaces
t 'in bubblewrap' in_bubblewrap
t 'in bubblewrap without /dev/fuse' in_bubblewrap_without_fuse
t 'in cofferdam with nested_userns' in_cofferdam works
t 'in cofferdam without' in_cofferdam_without
t 'in a chroot' in_a_chroot
t 'in an initramfs' in_an_initramfs
t 'a user without subuid' without_subuid
t 'a user without account' without_an_account
t 'under sudo' under_sudo
places=(XDG_STATE_HOME="$T/state" XDG_CONFIG_HOME="$T")
t 'a service: ProtectHome' in_a_service '' works "${places[@]}"
t 'a service: ProtectHome, state at home' its_home_only
t 'a service: ProtectKernelTunables' in_a_service \
        'mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys;' refused ProtectKernelTunables=no "${places[@]}"
t 'a service: RestrictNamespaces' in_a_service "set -- '$deny' userns env \"\$@\";" refused seccomp "${places[@]}"
t 'a job of cron' from_cron
t 'locale C' in_locale C
t 'locale de_DE.UTF-8' in_locale de_DE.UTF-8
finish
