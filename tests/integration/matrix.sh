#!/usr/bin/env bash
# The removal matrix (tests/assets/matrix.tsv): one thing is taken from the host, and a run in strict isolation, with
# --isolation degrade, with --mode auto and with --mode inline starts, starts without it, or is refused, as the table
# says. The message, the event, the exit status and the rows of doctor agree, and doctor --strict says yes if and only
# if the run starts. Red when probe_refusal() or rungs.c says anything but the row.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

table=$TOP/tests/assets/matrix.tsv
deny=$HELPERS/deny

# ---- what takes something away: each runs "$@" without it ----

# private SCRIPT CMD...: CMD in a mount namespace of its own, after SCRIPT
private() {
        local script=$1 become=()
        shift
        [ "$(id -u)" = 0 ] || become=(--map-current-user --keep-caps)
        T=$T unshare -m --propagation private "${become[@]}" sh -ec "$script"'
                [ "$(id -u)" = 0 ] || set -- setpriv --inh-caps=-all --ambient-caps=-all "$@"
                exec "$@"' - "$@"
}
no_userns() {
        local become=(--map-root-user)
        [ "$(id -u)" = 0 ] || become=(--map-current-user --keep-caps)
        # shellcheck disable=SC2016
        unshare -U "${become[@]}" sh -ec 'echo 0 >/proc/sys/user/max_user_namespaces
                [ "$(id -u)" = 0 ] || set -- setpriv --inh-caps=-all --ambient-caps=-all "$@"
                exec "$@"' - "$@"
}
# shellcheck disable=SC2016
no_dev_fuse() {
        private 'mkdir -p "$T/dev" && mount -t tmpfs none "$T/dev"
                for n in null zero full random urandom tty; do
                        : >"$T/dev/$n" && mount --bind "/dev/$n" "$T/dev/$n"
                done
                mount --rbind "$T/dev" /dev' "$@"
}
# root makes it, another user is refused; what doctor and run write is hers to write
# shellcheck disable=SC2016
closed_dev_fuse() {
        local uid
        uid=$(id -u cofftest 2>/dev/null) || skip "no user 'cofftest': ./dev test makes it"
        chmod 777 "$W"
        private 'mount -t tmpfs none /mnt && mknod -m 600 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse
                mkdir -p /mnt/state && chown '"$uid"' /mnt/state
                set -- setpriv --reuid '"$uid"' --regid '"$uid"' --clear-groups env HOME=/mnt XDG_STATE_HOME=/mnt/state "$@"' "$@"
}
masked_proc() { private 'mount -t tmpfs none /proc/sys' "$@"; }
no_cgroup() { private 'mount -t tmpfs none /sys/fs/cgroup' "$@"; }
no_newuidmap() { private 'mount --bind /dev/null /usr/bin/newuidmap' "$@"; }
# shellcheck disable=SC2016
readonly_tmp() { private 'mount --bind "$T" "$T" && mount --rbind /tmp /tmp && mount -o remount,bind,ro /tmp && cd "$PWD"' "$@"; }
no_xdg() {
        local hide=:
        [ "$(id -u)" != 0 ] || hide='mount -t tmpfs none /var/lib'
        private "$hide" env -u XDG_STATE_HOME -u XDG_RUNTIME_DIR -u XDG_CONFIG_HOME "$@"
}
no_state() { env XDG_STATE_HOME=/proc/nowhere "$@"; }

without() { # without WHAT CMD...
        local what=$1
        shift
        case $what in
        -) "$@" ;;
        'deny '*) "$deny" "${what#deny }" "$@" ;;
        *) "$what" "$@" ;;
        esac
}

# ---- one line of the table ----

modes=(strict degrade auto inline)
options_of() {
        case $1 in
        strict) ;;
        degrade) echo --isolation degrade ;;
        auto) echo --mode auto --isolation degrade ;;
        inline) echo --mode inline --host-root ;;
        esac
}

line() {
        local what=$1 options=$2 key=$3 state=$4 mode rc
        for mode in "${modes[@]}"; do
                local out=$T/out-$mode
                rm -rf "$out" "$XDG_STATE_HOME"
                mkdir "$out" "$XDG_STATE_HOME"
                chmod 777 "$out" # who runs is another user on one line
                rc=0
                # an open descriptor takes the events: nobody opens a file for them
                # shellcheck disable=SC2046,SC2086
                without "$what" timeout -k 5 200 "$C" run $options $(options_of $mode) --events fd:3 -- true \
                        3>"$out/events" >"$out/stdout" 2>"$out/stderr" || rc=$?
                echo "$rc" >"$out/rc"
                rc=0
                # shellcheck disable=SC2046,SC2086
                without "$what" timeout -k 5 200 "$C" doctor --json --strict $options $(options_of $mode) \
                        >"$out/doctor" 2>"$out/doctor-err" || rc=$?
                echo "$rc" >"$out/doctor-rc"
        done
        python3 "$here/matrix.py" "$T" "$key" "$state" "${outcomes[@]}"
}

has_table() { python3 "$here/matrix.py" --table "$table" "$TOP/docs/ladder.md"; }

n=0
while IFS=$'\t' read -r name who what options key state strict degrade auto inline; do
        case $name in '#'*) continue ;; esac
        [ "$who" = any ] || [ "$who" = "$(role)" ] || continue
        n=$((n + 1))
        outcomes=("$strict" "$degrade" "$auto" "$inline")
        t "without: $name" line "$what" "$options" "$key" "$state"
done < <(sed 's/\t\t/\t \t/g' "$table")
t 'docs/ladder.md has the table' has_table
finish
