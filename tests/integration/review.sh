#!/usr/bin/env bash
# diff, apply and discard on runs as the guard leaves them, made by hand: what is shown, what lands, what is kept
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

runs=$XDG_STATE_HOME/cofferdam/runs

# run_dir ID [JSON]: a finished run on the workspace $W; JSON is added to its state
run_dir() {
        U=$runs/$1/upper/0
        mkdir -p "$U"
        chmod 700 "$XDG_STATE_HOME/cofferdam" "$runs"
        cat >"$runs/$1/state.json" <<JSON
{"version": 1, "id": "$1", "phase": "finished", ${2-}
 "regions": [{"index": 0, "source": "$W", "target": "$W", "kind": "direct", "role": "workspace",
              "dev": $(stat -c %d "$W"), "ino": $(stat -c %i "$W")}]}
JSON
        : >"$runs/$1/events.jsonl"
}

# claim LOWER UPPER: the record of the lower file that the guard leaves on what takes its place
claim() {
        python3 - "$1" "$2" <<'PY'
import os, struct, sys
st = os.lstat(sys.argv[1])
os.setxattr(sys.argv[2], "user.overlay.cofferdam.origin", b"cfo1" + struct.pack(
    "=IQQQqq", st.st_mode, st.st_dev, st.st_ino, st.st_size, st.st_mtime_ns, st.st_ctime_ns))
PY
}

# modify PATH TEXT, delete PATH: as the work did
modify() {
        mkdir -p "$U/$(dirname "$1")"
        printf '%s' "$2" >"$U/$1"
        claim "$W/$1" "$U/$1"
}
delete() {
        mkdir -p "$U/$(dirname "$1")"
        : >"$U/$1"
        chmod 600 "$U/$1"
        claim "$W/$1" "$U/$1"
        python3 -c 'import os, sys
os.setxattr(sys.argv[1], "user.overlay.whiteout", b"y")
os.setxattr(os.path.dirname(sys.argv[1]), "user.overlay.opaque", b"x")' "$U/$1"
}

# one of each: mod, del, new, link
sample() {
        printf old >mod
        printf old >del
        run_dir "$1" "${2-}"
        modify mod new
        delete del
        printf new >"$U/new"
        ln -s /etc/passwd "$U/link"
}

shows_and_lands() {
        sample 0123456789ab
        status 0 "$C" diff >out
        eq $'D del\nA link\nM mod\nA new' "$(cat out)"
        eq "$(cat out)" "$("$C" diff 0123)" 'by prefix'
        status 0 "$C" apply >out
        eq $'A link\nM mod\nA new\nD del' "$(cat out)"
        eq new "$(cat mod)"
        eq new "$(cat new)"
        eq /etc/passwd "$(readlink link)"
        [ ! -e del ] || fail 'not deleted'
        [ ! -e "$runs/0123456789ab" ] || fail 'the run is still there'
        eq '' "$("$C" diff 2>/dev/null)" 'afterwards'
}

conflicts_stay() {
        sample 0123456789ab
        printf host >mod
        status 1 "$C" diff >out
        has "$(cat out)" 'M! mod'
        status 1 "$C" apply >out 2>err
        eq $'A link\nA new\nD del' "$(cat out)"
        eq 1 "$(wc -l <err)" 'lines on stderr'
        has "$(cat err)" mod
        has "$(cat err)" --force
        eq host "$(cat mod)"
        eq 'M! mod' "$("$C" diff || true)"
        has "$(cat "$runs/0123456789ab/events.jsonl")" '"type":"apply_conflict"'
        status 0 "$C" apply --force
        eq new "$(cat mod)"
        [ ! -e "$runs/0123456789ab" ] || fail 'the run is still there'
}

keep_keeps_the_run() {
        sample 0123456789ab '"keep": true, "name": "mine",'
        status 0 "$C" apply mine
        [ -e "$runs/0123456789ab/state.json" ] || fail 'the run is gone'
        eq '' "$("$C" diff mine)"
        status 0 "$C" apply mine
}

refuses_what_is_alive() {
        local start
        start=$(sed 's/.*) //' "/proc/$$/stat" | cut -d' ' -f20)
        sample 0123456789ab "\"supervisor\": {\"pid\": $$, \"start_time\": $start},"
        status 0 "$C" diff >out
        has "$(cat out)" 'A new'
        for verb in apply discard; do
                status 1 "$C" "$verb" >out 2>err
                eq 1 "$(wc -l <err)" 'lines on stderr'
                has "$(cat err)" 'alive'
        done
        [ ! -e new ] || fail 'it landed'
        [ -e "$U/new" ] || fail 'it was thrown away'
}

discard_throws_away() {
        sample 0123456789ab
        status 0 "$C" discard
        [ ! -e "$runs/0123456789ab" ] || fail 'the run is still there'
        eq old "$(cat mod)"
        status 1 "$C" discard 2>err
        eq 1 "$(wc -l <err)" 'lines on stderr'
}

discard_without_state() {
        sample 0123456789ab
        rm "$runs/0123456789ab/state.json"
        status 1 "$C" apply 0123456789ab
        status 0 "$C" discard 0123456789ab
        [ ! -e "$runs/0123456789ab" ] || fail 'the run is still there'
}

never_drops_what_no_region_lands() {
        sample 0123456789ab
        mkdir "$runs/0123456789ab/upper/7"
        printf x >"$runs/0123456789ab/upper/7/x"
        status 1 "$C" apply
        [ -e "$runs/0123456789ab/upper/7/x" ] || fail 'lost'
}

takes_the_latest_with_changes() {
        sample 0123456789ab
        sleep 0.1
        run_dir ffffffffffff '"keep": true,'
        has "$("$C" diff)" 'A new'
        status 0 "$C" apply
        [ -e new ] || fail 'it did not land'
        [ -e "$runs/ffffffffffff" ] || fail 'the wrong run is gone'
}

takes_none_of_another_directory() {
        local what

        sample 0123456789ab
        mkdir -p "$T/elsewhere" below
        cd "$T/elsewhere" || return
        eq '' "$("$C" diff 2>/dev/null)"
        for what in apply discard 'apply --continue'; do
                # shellcheck disable=SC2086
                status 1 "$C" $what
        done
        has "$("$C" discard 2>&1)" "0123456789ab of '$W', name it"
        cd "$W/below" || return
        has "$("$C" diff)" 'A new'
        ln -s "$W" "$T/spelled"
        cd "$T/spelled" || return
        has "$("$C" diff)" 'A new'
        cd "$T/elsewhere" || return
        status 0 "$C" apply 0123456789ab
        [ -e "$W/new" ] || fail 'it did not land'
}

source_was_replaced() {
        mkdir a
        W=$W/a
        cd a
        sample 0123456789ab
        cd ..
        mv a b
        mkdir a
        status 1 "$C" apply 0123 2>err
        has "$(cat err)" 'replaced'
        [ ! -e a/new ] || fail 'it landed'
        status 1 "$C" diff 0123 >out 2>err
        has "$(cat out)" 'A new'
        has "$(cat err)" 'replaced'
        rmdir a
        status 1 "$C" apply 0123 2>err
        mv b a
        status 0 "$C" apply 0123
        [ -e a/new ] || fail 'it did not land'
}

prefix_of_other_regions() {
        mkdir other
        run_dir 0123456789ab
        mkdir -p "$runs/0123456789ab/upper/1"
        printf x >"$runs/0123456789ab/upper/1/x"
        sed -i "s#\"regions\": \[#&{\"index\": 1, \"source\": \"$W/other\", \"target\": \"/srv/other\", \"role\": \"bind\"}, #" \
                "$runs/0123456789ab/state.json"
        eq 'A /srv/other/x' "$("$C" diff)"
        status 0 "$C" apply
        eq x "$(cat other/x)"
}

hostile_names() {
        local name=$'\e]0;x\a\nA fake\xff'
        run_dir 0123456789ab
        printf x >"$U/$name"
        status 0 "$C" diff >out
        eq 1 "$(wc -l <out)" lines
        ! LC_ALL=C grep -q $'[\x01-\x09\x0b-\x1f\x7f]' out || fail 'control bytes'
        "$C" diff -z | tr '\0' '@' >out
        eq "A $name@" "$(cat out)"
        "$C" diff --json | python3 -c 'import json, sys
d = json.load(sys.stdin)
assert d["run"] == "0123456789ab" and d["changes"][0]["kind"] == "A", d
assert d["changes"][0]["type"] == "file" and d["changes"][0]["size"] == 1, d' || fail 'JSON'
        status 0 "$C" apply >out
        eq 1 "$(wc -l <out)" lines
        [ -f "$name" ] || fail 'it did not land'
}

# a link that the work left where its file should land leads nowhere
links_of_the_work() {
        mkdir "$T/outside.$$"
        printf canary >"$T/outside.$$/x"
        ln -s "$T/outside.$$" d
        run_dir 0123456789ab
        mkdir "$U/d"
        printf evil >"$U/d/x"
        status 1 "$C" apply
        eq canary "$(cat "$T/outside.$$/x")"
        status 0 "$C" apply --force
        eq canary "$(cat "$T/outside.$$/x")"
        eq evil "$(cat d/x)"
        [ ! -L d ] || fail 'still a link'
        rm -r "$T/outside.$$"
}

json_of_apply() {
        sample 0123456789ab
        mkfifo "$U/fifo"
        status 1 "$C" apply --json >out 2>err
        eq '' "$(cat err)" stderr
        python3 -c 'import json
d = json.load(open("out"))
assert d["landed"] == 4 and d["kept"] == 1, d
assert [c["path"] for c in d["changes"] if "error" in c] == ["fifo"], d' || fail 'JSON'
        status 1 "$C" apply 2>err
        has "$(cat err)" 'never lands'
}

continue_needs_something() {
        sample 0123456789ab
        status 1 "$C" apply --abort 2>err
        has "$(cat err)" 'cut off'
        status 2 "$C" apply --abort --force 2>err
        status 1 "$C" apply --continue 2>err
        has "$(cat err)" 'cut off'
        printf garbage >"$runs/0123456789ab/journal"
        status 1 "$C" apply 2>err
        has "$(cat err)" journal
        [ -e "$U/new" ] || fail 'lost'
}

# killed at some moment: nothing is lost, --continue does the rest
killed() {
        local pause pid
        for pause in 0.005 0.01 0.02 0.04 0.08; do
                rm -rf d
                run_dir 0123456789ab
                mkdir "$U/d"
                for i in $(seq 200); do printf '%s' "$i" >"$U/d/$i"; done
                "$C" apply >/dev/null 2>&1 &
                pid=$!
                sleep "$pause"
                kill -KILL "$pid" 2>/dev/null || true
                wait "$pid" 2>/dev/null || true
                if compgen -G "$runs/0123456789ab/journal*" >/dev/null; then
                        status 1 "$C" apply 2>err
                        has "$(cat err)" --continue
                        if [ ! -e "$runs/0123456789ab/journal.final" ] && [ "$pause" != 0.01 ]; then
                                status 0 "$C" apply --abort
                                eq 0 "$(find d -type f 2>/dev/null | wc -l)" 'files after --abort'
                                status 0 "$C" apply >/dev/null
                        else
                                status 0 "$C" apply --continue >/dev/null
                        fi
                else
                        "$C" apply >/dev/null 2>&1 || true
                fi
                for i in $(seq 200); do eq "$i" "$(cat "d/$i")"; done
                eq 200 "$(find d -type f | wc -l)" files
                [ ! -e "$runs/0123456789ab" ] || fail 'the run is still there'
        done
}

# on_small COMMAND: in $W, a tmpfs of 256 KiB of a mount namespace of its own
on_small() {
        local as=()
        [ "$(id -u)" = 0 ] || as=(-r)
        # shellcheck disable=SC2016 # of the inner shell
        W=$W runs=$runs C=$C unshare "${as[@]}" -m bash -euc '
                mount -t tmpfs -o size=256k,mode=755 t "$W"; cd "$W"
                '"$(declare -f run_dir claim modify delete status eq fail has)"'
                '"$1"
}

# what does not fit stays in the run, the rest lands, nothing is half there. Red when stage_put() leaves its file.
full_disk() {
        unshare -rm true 2>/dev/null || [ "$(id -u)" = 0 ] || {
                echo '# skipped: no mount namespace here'
                return 0
        }
        # shellcheck disable=SC2016
        on_small 'echo old >mod; run_dir 0123456789ab; head -c 300000 /dev/zero | tr "\0" x >"$U/big"
                printf small >"$U/small"; modify mod "$(head -c 100000 /dev/zero | tr "\0" m)"
                head -c 180000 /dev/zero >fill; rc=0; "$C" apply >out 2>err || rc=$?
                eq 1 "$rc"; has "$(cat err)" "kept: A big"; has "$(cat err)" "No space left"
                eq small "$(cat small)"; [ ! -e big ] || fail "half a file"
                eq old "$(cat mod)"; [ -e "$U/big" ] && [ -e "$U/mod" ] || fail lost
                ! ls -A | grep cofferdam-apply || fail "a temporary file"
                rm fill; rc=0; "$C" apply >out 2>err || rc=$?; eq 1 "$rc"
                eq 100000 "$(stat -c %s mod)"; [ -e "$U/big" ] || fail lost'
}

# root may write anywhere
read_only_directory() {
        [ "$(id -u)" != 0 ] || return 0
        mkdir ro
        printf old >ro/mod
        printf old >ro/del
        run_dir 0123456789ab
        modify ro/mod new
        delete ro/del
        printf new >"$U/ro/add"
        chmod 555 ro
        status 1 "$C" apply 2>err >out
        has "$(cat err)" 'Permission denied'
        eq 'del mod' "$(cd ro && echo *)"
        eq old "$(cat ro/mod)"
        chmod 755 ro
        status 0 "$C" apply >/dev/null
        eq 'add mod' "$(cd ro && echo *)"
        eq new "$(cat ro/mod)"
}

# a directory of the host became a link to outside. Red when a parent is opened by following links.
led_outside() {
        mkdir d "$T/outside"
        printf old >d/mod
        printf out >"$T/outside/mod"
        run_dir 0123456789ab
        modify d/mod new
        printf new >"$U/d/add"
        mv d gone
        ln -s "$T/outside" d
        for how in '' --force; do
                # shellcheck disable=SC2086 # none or one
                "$C" apply $how >out 2>err || true
                eq out "$(cat "$T/outside/mod")" "$how"
                eq mod "$(ls "$T/outside")" "$how"
        done
        rm -rf "$T/outside"
}

few_descriptors() {
        run_dir 0123456789ab
        mkdir "$U/d"
        for i in $(seq 100); do printf x >"$U/d/$i"; done
        (ulimit -n 64; status 0 "$C" apply >out)
        eq 101 "$(wc -l <out)" lines
        eq 100 "$(find d -type f | wc -l)" files
}

two_at_once() {
        sample 0123456789ab
        exec 9<"$runs/0123456789ab"
        flock 9
        status 1 "$C" apply 2>err
        has "$(cat err)" 'another'
        exec 9<&-
        status 0 "$C" apply
}

usage() {
        for verb in diff apply discard; do
                status 2 "$C" "$verb" a --json 2>err
                eq 1 "$(wc -l <err)" 'lines on stderr'
                status 1 "$C" "$verb" no-such-run 2>err
                eq 1 "$(wc -l <err)" 'lines on stderr'
        done
        status 0 "$C" diff 2>/dev/null >out
        eq '' "$(cat out)"
        status 1 "$C" apply 2>err
        has "$(cat err)" 'no run'
        status 0 env XDG_STATE_HOME="$W/none" "$C" diff
}

# fresh FUNCTION: without the runs of the test before
fresh() {
        rm -rf "$XDG_STATE_HOME/cofferdam"
        mkdir -p "$runs"
        chmod 700 "$XDG_STATE_HOME/cofferdam" "$runs"
        "$1"
}

t 'diff shows each kind, apply lands it' fresh shows_and_lands
t 'conflicts stay in the run until forced' fresh conflicts_stay
t 'a run that is to be kept is kept' fresh keep_keeps_the_run
t 'a run that is alive is only shown' fresh refuses_what_is_alive
t 'discard throws away' fresh discard_throws_away
t 'discard of a run without state' fresh discard_without_state
t 'what no region lands is never dropped' fresh never_drops_what_no_region_lands
t 'without a name: the latest with changes' fresh takes_the_latest_with_changes
t 'without a name: none of another directory' fresh takes_none_of_another_directory
t 'a replaced source is not written to' fresh source_was_replaced
t 'paths of other regions carry their target' fresh prefix_of_other_regions
t 'hostile names' fresh hostile_names
t 'links of the work lead nowhere' fresh links_of_the_work
t 'apply --json' fresh json_of_apply
t 'apply --continue' fresh continue_needs_something
t 'killed and continued' fresh killed
t 'onto a full disk' fresh full_disk
t 'onto a read-only directory' fresh read_only_directory
t 'a directory became a link to outside' fresh led_outside
t 'with 64 descriptors' fresh few_descriptors
t 'two at once' fresh two_at_once
t 'usage' fresh usage
finish
