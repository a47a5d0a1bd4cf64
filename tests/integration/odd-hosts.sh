#!/usr/bin/env bash
# Hosts and callers that are not as usual: a run works, or is refused with one line that names cause and remedy
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# refused TEXT CMD...: 125, one line, nothing left
refused() {
        local text=$1
        shift
        status 125 timeout -k 5 200 "$@" >"$T/o" 2>"$T/e"
        cat "$T/e"
        eq '' "$(cat "$T/o")" stdout
        eq 1 "$(wc -l <"$T/e")" 'lines on stderr'
        has "$(cat "$T/e")" "$text"
        no_run_left
}
no_run_left() { eq '' "$(find "$T/state" -path '*/runs/*' | head -n 3)" 'left of the run'; }
limited() { # limited ULIMIT TEXT
        # shellcheck disable=SC2016
        refused "$2" bash -c "ulimit $1; exec \"\$0\" run -- echo ok" "$C"
}

# elsewhere SCRIPT: in a mount namespace of its own, with $C, $W and $T
elsewhere() {
        local become=()
        [ "$(id -u)" = 0 ] || become=(--map-current-user --keep-caps)
        C=$C W=$W T=$T timeout -k 5 200 unshare -m "${become[@]}" sh -ec "$1"
}
works_elsewhere() { eq "$1" "$(elsewhere "$2" | xargs)"; }
refused_elsewhere() { refused "$1" bash -c "$(declare -f elsewhere); C='$C' W='$W' T='$T'; elsewhere \"\$0\"" "$2"; }

# whatever step runs out of descriptors: it says so, and what it has made is gone
few_descriptors() {
        local n rc failed=0 worked=0
        for n in 3 4 5 6 7 8 9; do exec {n}</dev/null; done # or the limit alone would be refused
        for n in $(seq 4 3 40) $(seq 48 78); do
                rc=0
                (ulimit -n "$n" && exec timeout 200 "$C" run -- echo ok) >o 2>e || rc=$?
                [ "$rc" != 0 ] || { worked=$((worked + 1)) && continue; }
                failed=$((failed + 1))
                eq 125 "$rc" "$n descriptors: exit status"
                eq 1 "$(wc -l <e)" "$n descriptors: lines on stderr"
                no_run_left
        done
        [ "$worked" -gt 5 ] && [ "$failed" -gt 5 ] || fail "$worked worked, $failed failed"
}
many_toolchains() {
        local i path=/usr/bin:/bin
        for i in $(seq 200); do
                mkdir -p "$HOME/tools/$i/bin"
                path+=:$HOME/tools/$i/bin
        done
        printf '#!/bin/sh\necho found\n' >"$HOME/tools/1/bin/my-tool"
        chmod +x "$HOME/tools/1/bin/my-tool"
        eq found "$(PATH=$path sandbox -- my-tool)"
        rm -rf "$HOME/tools"
}
state_is_a_link() {
        mkdir "$T/elsewhere"
        ln -s "$T/state" "$T/elsewhere/cofferdam"
        refused XDG_STATE_HOME env XDG_STATE_HOME="$T/elsewhere" "$C" run -- true
        rm -rf "$T/elsewhere"
}
state_is_everybodys() {
        mkdir -p "$T/elsewhere/cofferdam"
        chmod 777 "$T/elsewhere/cofferdam"
        refused XDG_STATE_HOME env XDG_STATE_HOME="$T/elsewhere" "$C" run -- true
        rm -rf "$T/elsewhere"
}
state_is_nowhere() { refused XDG_STATE_HOME env XDG_STATE_HOME=/proc "$C" run -- true; }
state_is_a_file() { refused XDG_STATE_HOME env XDG_STATE_HOME=/etc/passwd "$C" run -- true; }
state_is_a_workspace() { # the run's own files are not the work's
        eq hidden "$(XDG_STATE_HOME=$W/state sandbox -- sh -c 'cat state/cofferdam/runs/*/state.json 2>/dev/null || echo hidden')"
        rm -rf state
}

not_for_this_user() {
        [ "$(id -u)" = 0 ] || return 0 # only root can be asked to become somebody
        chmod 700 "$W"
        refused '--user 0:0' "$C" run -u 1001:1001 -- true
        chown 1001:1001 "$W"
        chmod 755 "$W"
        eq 1001 "$(sandbox -u 1001:1001 -- id -u)"
}
not_even_for_root() {
        mkdir closed
        chmod 0444 closed
        refused 'chmod u+rx' "$C" run -w closed -- true
}
no_place_for_a_mount() {
        refused 'has to exist' "$C" run --mount type=tmpfs,target="$W/missing" -- true
        lacks "$(cat "$T/e")" doctor # nothing is wrong with the host
        refused 'has to exist' "$C" run --mount type=tmpfs,target=/usr/missing -- true
        [ ! -e missing ] || fail 'made on the host'
}
workspace_goes_away() {
        mkdir gone
        cd gone
        # shellcheck disable=SC2016
        sandbox -- sh -c ': >ready; while [ -e ready ]; do sleep 0.05; done; echo x >file || exit 6' 2>"$T/e" &
        wait_for 60 test -e ready
        rm -r "$W/gone"
        rc=0
        wait $! || rc=$?
        eq 6 "$rc"
        no_run_left
}
workspace_is_replaced() { # the directory that was there at the start is served to the end
        mkdir work
        cd work
        sandbox -- sh -c ': >ready; while [ -e ready ]; do sleep 0.05; done; echo x >file' &
        wait_for 60 test -e ready
        mv "$W/work" "$W/moved"
        mkdir "$W/work"
        rm "$W/moved/ready"
        wait $!
        eq x "$(cat "$W/moved/file")"
        eq '' "$(ls "$W/work")"
}

# shellcheck disable=SC2016 # expanded in the namespace
{
        full_state='mount -t tmpfs -o size=12k,mode=777 t "$T/state"; "$C" run -- echo ok'
        no_room_to_hold='mount -t tmpfs -o size=64k,mode=777 t "$T/state"
                "$C" run --hold held -- sh -c "head -c 1000000 /dev/zero >held || echo full; echo free >free; cat free" 2>/dev/null; cat free'
        no_room_for_output='mount -t tmpfs -o size=8k,mode=777 t "$T/run"; rc=0
                "$C" run -- sh -c "head -c 100000 /dev/zero; exit 0" >"$T/run/out" 2>"$W/err" || rc=$?
                "$C" run -- sh -c "head -c 3 /dev/zero; exit 0" >>"$T/run/out" 2>>"$W/err" || rc=$rc.$?; echo $rc; grep -c "No space left" "$W/err"'
        read_only_state='mount -t tmpfs -o mode=777 t "$T/state"; mount -o remount,ro t "$T/state"; "$C" run -- true'
        without_proc='mount -t tmpfs t /proc; "$C" run -- true'
        without_null='mount -t tmpfs none /mnt; : >/mnt/fuse; mount --bind /dev/fuse /mnt/fuse; mount -t tmpfs none /dev
                : >/dev/fuse; mount --bind /mnt/fuse /dev/fuse; "$C" run -- true'
        without_fuse='mount --bind /dev/null /dev/fuse; "$C" run -- true'
        on_tmpfs='mount -t tmpfs -o mode=777 t "$W"; cd "$W"; "$C" run -- sh -c "echo x >a; mv a b; ln b c; cat c"; ls'
        on_overlay='mount -t tmpfs -o mode=777 t "$W"; cd "$W"; mkdir l u k m; echo low >l/low; chmod 755 u
                mount -t overlay -o lowerdir=l,upperdir=u,workdir=k,userxattr o m; cd m
                "$C" run -- sh -c "cat low; echo x >a; mv a b; rm low"; ls'
        mounts_below='mount -t tmpfs -o mode=777 t "$W"; mkdir "$W/sub"; mount -t tmpfs -o mode=777 t "$W/sub"; cd "$W"; echo deep >sub/file
                "$C" run -- sh -c "cat sub/file; mv sub/file top"; ls sub; cat top'
}
nested() { eq '0 ok' "$(unshare -Ur "$C" run -- sh -c 'id -u; echo ok' | xargs)"; }
in_bubblewrap() {
        need_command bwrap
        eq ok "$(bwrap --dev-bind / / --unshare-user "$C" run -- echo ok)"
}
without_capabilities() {
        [ "$(id -u)" = 0 ] || return 0
        refused SETFCAP setpriv --bounding-set=-all --inh-caps=-all "$C" run -- true
}

t '12 descriptors' limited '-n 12' "raise 'ulimit -n'"
t '4 to 78 descriptors' few_descriptors
t 'files of 1 KiB at most' limited '-f 1' "raise 'ulimit -f'"
t 'almost no memory' limited '-v 20000' "raise 'ulimit -v'"
t '200 toolchains in PATH' many_toolchains
t 'state directory: a symbolic link' state_is_a_link
t 'state directory: writable by everybody' state_is_everybodys
t 'state directory: cannot be made' state_is_nowhere
t 'state directory: below a file' state_is_a_file
t 'state directory: in the workspace' state_is_a_workspace
t 'state directory: full' works_elsewhere ok "$full_state"
t 'state directory: no room for what is held' works_elsewhere 'full free free' "$no_room_to_hold"
t 'no room for the output' works_elsewhere '125.125 2' "$no_room_for_output"
t 'state directory: read-only' refused_elsewhere XDG_STATE_HOME "$read_only_state"
t 'no /proc' refused_elsewhere '/proc is not mounted' "$without_proc"
t '/etc/passwd is a device' refused_elsewhere "'/etc/passwd' is no regular file" 'mount --bind /dev/null /etc/passwd; "$C" run -- true'
t 'no /dev/null' refused_elsewhere "open '/dev/null': No such file" "$without_null"
t 'no /dev/fuse' refused_elsewhere 'modprobe fuse' "$without_fuse"
t 'workspace: another user has to work there' not_for_this_user
t 'workspace: closed to its owner' not_even_for_root
t 'workspace: on tmpfs' works_elsewhere 'x b c' "$on_tmpfs"
t 'workspace: on overlayfs' works_elsewhere 'low b' "$on_overlay"
t 'workspace: with a mount below' works_elsewhere 'deep deep' "$mounts_below"
t 'workspace: goes away' workspace_goes_away
t 'workspace: is replaced' workspace_is_replaced
t 'a mount where there is no place' no_place_for_a_mount
t 'in a user namespace' nested
t 'in bubblewrap' in_bubblewrap
t 'root without capabilities' without_capabilities
finish
