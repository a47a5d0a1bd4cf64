#!/usr/bin/env bash
# Bind sources that change on the host: by rename, symlink, mount, removal, on every component of the path; before
# the mount, between mount and command, during the run; what is served, what is told, how the run ends
# shellcheck disable=SC2016,SC2034 # words for sh, used by name
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

cp "$HELPERS/guard-mount" "$HELPERS/swap" "$HELPERS/at-call" "$T/bin/"
export PATH=$T/bin:$PATH
long=${COFFERDAM_LONG:+1} how=()
# shellcheck source=tests/integration/pins-lib.sh
. "$here/pins-lib.sh"
at() {
        local call=$1 way=$2
        shift 2
        timeout 200 at-call "$call" "$way" "$@"
}

# in a mount namespace of the test's own, with the right to mount
with_mounts() {
        if [ "$(id -u)" = 0 ]; then
                unshare -m --propagation private -- "$@"
        else
                unshare -c --keep-caps -m -- "$@" 2>err.unshare || {
                        local rc=$?
                        ! grep -q 'unshare failed' err.unshare || skip 'no user namespaces here'
                        cat err.unshare >&2
                        return "$rc"
                }
        fi
}

# a function of this script in a mount namespace of its own
mounted() {
        with_mounts "$BASH" "$here/pins.sh" --call "$T" "$count" "$W" "$@"
}

workspace_is_kept() {
        sources
        at-call pivot_root "$rename_parent" "$C" run --events events -w "$D/up/mid/src" -- sh -c 'cat f; echo new >made' >out 2>err
        expect pin 0 'the workspace'
        eq fine "$(cat out)"
        eq new "$(cat "$D/old/src/made")" 'what was written'
        [ ! -e "$D/up/mid/src/made" ] || fail 'written to what took its place'
}
workspace_can_stop() {
        local rc=0
        sources
        echo '{"version":1,"workspace":{"on_source_change":"stop"}}' >spec.json
        at-call pivot_root "$rename_parent" "$C" run --spec spec.json --events events -w "$D/up/mid/src" -- cat f >out 2>err || rc=$?
        expect stop "$rc" 'the workspace'
}

# an editor saves by rename: the run sees the new file at once, and writes to it
editor() {
        sources
        chmod 640 "$D/up/mid/file"
        (
                wait_for 60 test -e go
                for i in 1 2 3; do
                        echo "saved $i" >"$D/up/mid/file.new"
                        mv "$D/up/mid/file.new" "$D/up/mid/file"
                        touch "saved$i"
                        wait_for 60 test -e "seen$i"
                done
        ) &
        sandbox --events events --mount "type=bind,source=$D/up/mid/file,target=/data/file" -- sh -ec '
                exec 3</data/file; cat <&3; touch go
                for i in 1 2 3; do
                        while [ ! -e saved$i ]; do sleep 0.02; done
                        cat /data/file; [ $(stat -c %s /data/file) = 8 ] || sleep 1.2; stat -c %s /data/file
                        touch seen$i
                done
                echo mine >>/data/file' >out 2>err
        wait $!
        eq 'fine saved 1 8 saved 2 8 saved 3 8' "$(xargs <out)"
        eq 'saved 3 mine' "$(xargs <"$D/up/mid/file")" 'the file on the host'
        eq 3 "$(grep -c '"action":"follow"' events)" 'events'
        lacks "$(cat events)" '"action":"stop"'
}

# the supervisor sleeps while an editor saves: the old file is served until it answers, and the run goes on. Red when no
# answer counts as a no
editor_and_a_late_answer() {
        local id pid
        sources
        id=$("$C" start --mount "type=bind,source=$D/up/mid/file,target=/data/file")
        pid=$("$C" inspect "$id" | python3 -c "import json,sys; print(json.load(sys.stdin)[0]['supervisor']['pid'])")
        kill -STOP "$pid"
        echo saved >"$D/up/mid/file.new"
        mv "$D/up/mid/file.new" "$D/up/mid/file"
        sleep 3.5
        kill -CONT "$pid"
        read_it() { "$C" exec "$id" cat /data/file </dev/null; }
        is_saved() { [ "$(read_it)" = saved ]; }
        wait_for 60 is_saved || fail "read: $(read_it)"
        "$C" events "$id" >told
        "$C" rm -f "$id" >/dev/null
        has "$(cat told)" '"action":"follow"'
        lacks "$(cat told)" '"action":"stop"'
}

# what is not an editor's doing ends the run, with the pinned file served up to then. file_swap NAME COMMAND
file_swap() {
        local rc=0
        rm -f events
        sources
        at-call pivot_root "$2" "$C" run --events events --mount "type=bind,source=$D/up/mid/file,target=/data/file" -- \
                sh -c 'cat /data/file; exit 0' >out 2>err || rc=$?
        expect stop "$rc" "$1"
}
files() {
        # shellcheck disable=SC2016
        file_swap 'a link' 'ln -sf "$D/evilfile" "$D/up/mid/file"'
        file_swap 'a hard link' 'ln -f "$D/evilfile" "$D/up/mid/file"'
        file_swap 'a directory' 'rm "$D/up/mid/file"; mkdir "$D/up/mid/file"'
        file_swap 'a FIFO' 'rm "$D/up/mid/file"; mkfifo "$D/up/mid/file"'
        file_swap 'nothing' 'rm "$D/up/mid/file"'
        file_swap 'another directory' "$rename_parent"
        file_swap 'a link for the directory' "$link_parent"
}
# a file that has become a refused place meanwhile, although an editor may have put it there; red when pin_follow()
# does not ask sensitive_check()
refused_file() {
        # shellcheck disable=SC2016
        file_swap 'a refused place' 'echo canary >"$D/n" && ln -s "$D/up/mid/file" "$HOME/.netrc" && mv "$D/n" "$D/up/mid/file"'
        rm "$HOME/.netrc"
}
# told to keep the file of the start
file_pinned() {
        sources
        at-call pivot_root 'echo canary >"$D/n" && mv "$D/n" "$D/up/mid/file"' "$C" run --events events \
                --mount "type=bind,source=$D/up/mid/file,target=/data/file,on_source_change=pin" -- cat /data/file >out 2>err
        expect pin 0 'a pinned file'
        eq fine "$(cat out)"
}

# a run without a first command: it does not start. Red when lookup_region() does not look
before_the_mount() {
        local rc=0
        sources
        timeout 200 at-call clone "$rename_source" "$C" start --mount "type=bind,source=$D/up/mid/src,target=/data" >out 2>err || rc=$?
        eq 125 "$rc"
        eq '' "$(cat out)"
        has "$(cat err)" "bind source '$D/up/mid/src' changed"
}

# before each command: what has changed since the last one. Red when native_exec() does not look
before_a_command() {
        local id rc=0
        sources
        id=$("$C" start --mount "type=bind,source=$D/up/mid/src,target=/data")
        eq fine "$("$C" exec "$id" cat /data/f </dev/null)"
        # shellcheck disable=SC2016
        sh -c "$rename_source"
        "$C" exec "$id" cat /data/f </dev/null >out 2>err || rc=$?
        lacks "$(cat out)" canary
        [ "$rc" != 0 ] || fail 'the command ran'
        "$C" events "$id" >told || true
        "$C" rm -f "$id" >/dev/null || true
        has "$(cat told)" '"type":"bind_source_changed"'
}

# what a run holds lands on the directory it was made in, and on no other, be it of the same name
apply_looks_again() {
        sources
        rm -rf "$T/state/cofferdam/runs" # a start that failed leaves a record
        "$C" run -w "$D/up/mid/src" --hold f -- sh -c 'echo held >f' >out 2>&1
        local run
        run=$(ls "$T/state/cofferdam/runs")
        # shellcheck disable=SC2016
        sh -c "$rename_parent"
        (cd "$D/up/mid/src" && ! "$C" apply "$run" >out 2>err) || fail 'applied'
        has "$(grep bind_source_changed "$T/state/cofferdam/runs/$run/events.jsonl")" '"action":"refuse"'
        has "$(cat "$D/up/mid/src/err")" 'was replaced: was directory'
        eq canary "$(cat "$D/up/mid/src/f")"
        mv "$D/up/mid" "$D/evilmid" && mv "$D/old" "$D/up/mid"
        (cd "$D/up/mid/src" && "$C" apply "$run")
        eq held "$(cat "$D/up/mid/src/f")"
}

# what an operator allows although it is refused is said
allowed_by_name() {
        echo key >"$HOME/.vault-token"
        status 125 sandbox --events refused --mount "type=bind,source=$HOME/.vault-token,target=/data" -- true 2>err
        has "$(cat refused)" '"failure_code":"BIND_SOURCE_REFUSED"'
        eq key "$(sandbox --events allowed --allow-sensitive "$HOME/.vault-token" \
                --mount "type=bind,source=$HOME/.vault-token,target=/data" -- cat /data)"
        has "$(cat allowed)" "\"type\":\"bind_source_refused\",\"data\":{\"source\":\"$HOME/.vault-token\",\"action\":\"allow\"}"
        rm "$HOME/.vault-token"
}

# a right that is taken away is no swap
cannot_tell() {
        [ "$(id -u)" != 0 ] || skip 'only a user can lose a right'
        sources
        at-call pivot_root 'chmod 0 "$D/up"' "$C" run --events events --mount "type=bind,source=$D/up/mid/src,target=/data" -- \
                sh -c 'sleep 1.3; cat /data/f' >out 2>err
        chmod 755 "$D/up"
        eq fine "$(cat out)"
        lacks "$(cat events)" bind_source_changed
}

# what is mounted below a source, before the start and later: it is part of it, but nothing of the kernel's. Red when
# facts_at() lets a mount root pass
nested_mounts() {
        sources
        mkdir "$D/up/mid/src/data" "$D/up/mid/src/later"
        touch "$D/up/mid/src/version" "$D/up/mid/src/late"
        swap bind "$D/up/mid/src/data" "$D/evil" 1
        swap bind "$D/up/mid/src/version" /proc/version 1
        (
                wait_for 60 test -e go
                swap bind "$D/up/mid/src/late" /proc/version 1
                swap bind "$D/up/mid/src/later" "$D/evil" 1
                touch 'done'
        ) >/dev/null &
        "$C" run --mount "type=bind,source=$D/up/mid/src,target=/data" -- sh -c '
                cat /data/data/f; cat /data/version; ls /data
                touch go; while [ ! -e done ]; do sleep 0.05; done; sleep 1.1
                cat /data/later/f; cat /data/late' >out 2>err || true
        wait $!
        eq 'canary data f late later version canary' "$(xargs <out)"
        eq 2 "$(grep -c 'Permission denied' err)" 'refusals'
}
nested_proc() {
        sources
        mkdir "$D/up/mid/src/proc"
        mount -t proc none "$D/up/mid/src/proc"
        status 1 "$C" run --mount "type=bind,source=$D/up/mid/src,target=/data" -- cat /data/proc/self/status >out 2>err
        eq '' "$(cat out)"
        has "$(cat err)" 'Permission denied'
}

# ---- races ----

# a source that is now fine, now a link to what is refused: a start fails or shows what is fine
race_of_starts() {
        local n=${long:+10000} i fine=0 refused=0 rc
        mkdir -p "$HOME/.ssh" "$T/race/good"
        echo canary >"$HOME/.ssh/f"
        echo fine >"$T/race/good/f"
        ln -s good "$T/race/s"
        swap link "$T/race/s" "$T/race/good" "$HOME/.ssh" >swapping &
        local swapper=$!
        wait_for 60 grep -q ready swapping
        for ((i = 0; i < ${n:-60}; i++)); do
                rc=0
                timeout 200 "$C" run --mount "type=bind,source=$T/race/s,target=/data,readonly,on_source_change=pin" -- cat /data/f >out 2>err || rc=$?
                lacks "$(cat out)" canary "start $i"
                case $rc:$(cat out) in
                0:fine) fine=$((fine + 1)) ;;
                125:*) refused=$((refused + 1)) ;;
                *) fail "start $i: $rc: $(cat out err)" ;;
                esac
        done
        kill "$swapper"
        echo "$fine fine, $refused refused"
        [ "$fine" -gt 0 ] || fail 'none was fine'
        [ "$refused" -gt 0 ] || fail 'none was refused'
        rm -r "$HOME/.ssh"
}

# a file that an editor and an attacker replace, with a link to one that is refused: what is served is the editor's
race_of_files() {
        local i n=${long:+400}
        sources
        echo canary >"$HOME/.netrc"
        ln "$HOME/.netrc" "$D/evil.link"
        swap replace "$D/up/mid/file" "$D/evil.link" >swapping &
        local swapper=$!
        wait_for 60 grep -q ready swapping
        for ((i = 0; i < ${n:-20}; i++)); do
                timeout 200 "$C" run --mount "type=bind,source=$D/up/mid/file,target=/data/file" -- \
                        sh -c 'n=0; while [ $n -lt 25 ]; do cat /data/file; n=$((n+1)); done' >>out 2>>err || true
        done
        kill "$swapper"
        sort out | uniq -c
        lacks "$(cat out)" canary
        has "$(cat out)" fine
        rm "$HOME/.netrc"
}

# without a supervisor to end the run: what a region that is not served any more answers. Red when watch_refuses() lets
# a request through
stale_region() {
        sources
        # shellcheck disable=SC2016
        (wait_for 60 test -e "$D/up/mid/src/go" && sh -c "$rename_parent") &
        local rc=0
        guard-mount -k stop "$D/up/mid/src" -- python3 - >out <<'PY' || rc=$?
import os, time, errno
f = open('f'); d = os.open('.', os.O_RDONLY); w = open('go', 'w')
end = time.time() + 60
def stale(what, *args):
    try: what(*args)
    except OSError as e: return e.errno == errno.ESTALE
    return False
while time.time() < end and not stale(os.listdir, d): time.sleep(0.05)
for what in ((os.listdir, d), (os.open, 'go', os.O_RDWR), (os.open, 'new', os.O_CREAT | os.O_RDWR), (os.mkdir, 'x'),
             (os.unlink, 'go'), (os.rename, 'go', 'gone'), (os.pwrite, w.fileno(), b'x', 0), (os.ftruncate, w.fileno(), 0),
             (os.chmod, 'go', 0o600), (os.statvfs, '.'), (os.setxattr, 'go', 'user.x', b'1')):
    assert stale(*what), what
f.close(); os.close(d)
PY
        wait $!
        [ "$rc" != 77 ] || skip 'no user namespaces or no /dev/fuse here'
        eq 0 "$rc"
        eq 'f go' "$(cd "$D/old/src" && echo *)" 'the pinned directory'
        eq f "$(ls "$D/up/mid/src")" 'the other one'
}

# nothing is looked up: the timer alone finds it. Red without the thread of fs/watch.c
timer_alone() {
        local rc=0
        sources
        # shellcheck disable=SC2016
        at-call pivot_root "(sleep 0.3; $rename_source) >/dev/null 2>&1 &" timeout 200 "$C" run --events events \
                --mount "type=bind,source=$D/up/mid/src,target=/data" -- sleep 600 >out 2>err || rc=$?
        expect stop "$rc" 'the timer'
}

if [ "${1-}" = --call ]; then
        trap - EXIT
        set -eu
        rm -rf "$T"
        T=$2 count=$3 W=$4 C=$2/bin/cofferdam PATH=$2/bin:$PATH HOME=$2/home
        export XDG_STATE_HOME=$T/state XDG_RUNTIME_DIR=$T/run
        cd "$W"
        shift 4
        "$@"
        exit
fi

t 'a source that changes before the mount' when clone
t 'a source that changes between mount and command' when pivot_root
t 'a source that changes during the run' during_the_run
t 'a mount over a source before the mount' mounted when_mounted clone
t 'a mount over a source between mount and command' mounted when_mounted pivot_root
t 'a mount over a source during the run' mounted during_the_run_mounted
t 'mounts below a source' mounted nested_mounts
if [ "$(id -u)" = 0 ]; then t 'a procfs below a source' mounted nested_proc; fi
t 'the workspace is kept' workspace_is_kept
t 'the workspace can end the run' workspace_can_stop
t 'an editor replaces a file' editor
t 'an editor and a late answer' editor_and_a_late_answer
t 'a file that something else replaces' files
t 'a file that is kept' file_pinned
t 'a refused file next to the source' refused_file
t 'a source that changes before a start' before_the_mount
t 'a source that changes before a further command' before_a_command
t 'a refused source that is allowed by name' allowed_by_name
t 'apply looks at the source again' apply_looks_again
t 'a right that is taken away is no change' cannot_tell
t 'a region that is not served any more' stale_region
t 'a run that looks nothing up' timer_alone
t 'starts under a swapper' race_of_starts
t 'lookups under a swapper of the source' race_of_lookups up/mid/src evil
t 'lookups under a swapper of its parent' race_of_lookups up/mid evilmid
t 'a file under a swapper' race_of_files
finish
