# shellcheck shell=bash
# pins-lib.sh - bind sources that change on the host: the ways, and what has to be seen, for sandboxes of every driver
#
# how             options of run
# at CALL COMMAND CMD...   CMD, with COMMAND for sh at the moment that CALL names
# shellcheck disable=SC2016,SC2034,SC2154 # words for sh, used by name
# sources: $D/up/mid/src with a fine file, and what is put in the place of each part
cell=0
sources() {
        D=$T/d$count.$((++cell))
        mkdir -p "$D/up/mid/src" "$D/evil" "$D/evilmid/src" "$D/evilup/mid/src" "$D/evilmid/file.d"
        echo fine | tee "$D/up/mid/src/f" >"$D/up/mid/file"
        echo canary | tee "$D/evil/f" "$D/evilmid/src/f" "$D/evilup/mid/src/f" "$D/evilmid/file" "$D/evilup/mid/file" >"$D/evilfile"
        export D
}

# the ways to make the path lead elsewhere; each a command for sh, with $D
rename_source='mv "$D/up/mid/src" "$D/old" && mv "$D/evil" "$D/up/mid/src"'
link_source='mv "$D/up/mid/src" "$D/old" && ln -s "$D/evil" "$D/up/mid/src"'
remove_source='rm -r "$D/up/mid/src"'
recreate_source='rm -r "$D/up/mid/src" && mkdir "$D/up/mid/src" && echo canary >"$D/up/mid/src/f"'
file_for_source='mv "$D/up/mid/src" "$D/old" && echo canary >"$D/up/mid/src"'
rename_parent='mv "$D/up/mid" "$D/old" && mv "$D/evilmid" "$D/up/mid"'
link_parent='mv "$D/up/mid" "$D/old" && ln -s "$D/evilmid" "$D/up/mid"'
rename_grandparent='mv "$D/up" "$D/old" && mv "$D/evilup" "$D/up"'
link_grandparent='mv "$D/up" "$D/old" && ln -s evilup "$D/up"'
move_away='mv "$D/up" "$D/old"'
mount_source='swap bind "$D/up/mid/src" "$D/evil" 1 >/dev/null'
mount_parent='swap bind "$D/up/mid" "$D/evilmid" 1 >/dev/null'
mount_itself='swap bind "$D/up/mid/src" "$D/up/mid/src" 1 >/dev/null'
ways='rename_source link_source remove_source recreate_source file_for_source rename_parent link_parent rename_grandparent link_grandparent move_away'
mount_ways='mount_source mount_parent mount_itself'

# what a changed source has to look like. expect stop|pin CODE WAY
expect() {
        local seen=$3
        lacks "$(cat out)" canary "$seen: what the run saw"
        has "$(cat events)" '"type":"bind_source_changed"' "$seen"
        has "$(grep bind_source_changed events)" "\"source\":\"$D/up/mid/" "$seen"
        has "$(grep bind_source_changed events)" "\"action\":\"$1\"" "$seen"
        if [ "$1" = stop ]; then
                eq 1 "$(grep -c bind_source_changed events)" "$seen: events"
                eq 125 "$2" "$seen: exit code"
                has "$(grep sandbox_finished events)" '"failure_code":"BIND_SOURCE_CHANGED"' "$seen"
                has "$(cat err)" "cofferdam: bind source '$D/up/mid/" "$seen"
                eq 1 "$(grep -c "cofferdam: bind source" err)" "$seen: lines of standard error"
        else
                eq 0 "$2" "$seen: exit code"
        fi
}

# at_a_call CALL WAY POLICY
at_a_call() {
        local rc=0
        rm -f events
        sources
        at "$1" "${!2}" "$C" run "${how[@]}" --events events \
                --mount "type=bind,source=$D/up/mid/src,target=/data,on_source_change=$3" -- \
                sh -c 'cat /data/f || true; ls /data' >out 2>err || rc=$?
        [ "$rc" != 77 ] || skip 'cannot trace here'
        expect "$3" "$rc" "$2 at $1, $3"
        if [ "$3" = pin ] && [[ $2 != re[mc]* ]]; then eq 'fine f' "$(xargs <out)" "$2 at $1"; fi
}

# when CALL: every way, both policies
when() {
        local way policy
        for way in $ways; do for policy in stop pin; do at_a_call "$1" "$way" "$policy"; done; done
}
when_mounted() {
        local way policy
        for way in $mount_ways; do for policy in stop pin; do at_a_call "$1" "$way" "$policy"; done; done
}

# the run reads over and over; told once, at once or with the next look. during WAY POLICY
during() {
        local rc=0
        rm -f events go end
        sources
        (
                wait_for 60 test -e go
                sh -c "${!1}"
                wait_for 60 grep -qs bind_source_changed events
                touch end
        ) &
        sandbox "${how[@]}" --events events --mount "type=bind,source=$D/up/mid/src,target=/data,on_source_change=$2" -- \
                sh -c 'cat /data/f; touch go; n=0; while [ ! -e end ] && [ $n -lt 3000 ]; do cat /data/f /data/other 2>/dev/null; n=$((n+1)); sleep 0.02; done; [ -e end ]' \
                >out 2>err || rc=$?
        wait $!
        expect "$2" "$rc" "$1 during the run, $2"
        has "$(cat out)" fine
        if [ "$2" = pin ] && [[ $1 != re[mc]* ]]; then eq fine "$(tail -n 1 out)" "$1 to the end"; fi
}
during_the_run() { local way policy; for way in $ways; do for policy in stop pin; do during "$way" "$policy"; done; done; }
during_the_run_mounted() { local way policy; for way in $mount_ways; do for policy in stop pin; do during "$way" "$policy"; done; done; }

# lookups in a pinned source, while its path or its parent is exchanged. race_of_lookups PATH OTHER
race_of_lookups() {
        sources
        mkdir -p "$D/up/mid/src/sub" "$D/evil/sub" "$D/evilmid/src/sub"
        echo fine >"$D/up/mid/src/sub/g"
        echo canary | tee "$D/evil/sub/g" "$D/evilmid/src/sub/g" >"$D/evilmid/src/only"
        (wait_for 60 test -e go && exec swap exchange "$D/$1" "$D/$2") >swapping 2>&1 &
        local swapper=$!
        N=${long:+10000} sandbox "${how[@]}" -e N --mount "type=bind,source=$D/up/mid/src,target=/data,on_source_change=pin" -- python3 - >out <<'PY'
import os, time
seen = set()
open('go', 'w').close()
while 'ready' not in open('swapping').read(): time.sleep(0.01)
for i in range(int(os.environ['N'] or 500)):
    fd = os.open('/data', os.O_RDONLY)
    for name in ('f', 'sub/g'):
        f = os.open(name, os.O_RDONLY, dir_fd=fd)
        seen.add(os.read(f, 100)); os.close(f)
    assert 'only' not in os.listdir(fd); os.close(fd)
    open('/data/new%d' % i, 'w').close(); os.unlink('/data/new%d' % i)
print(seen)
assert seen == {b'fine\n'}, seen
PY
        kill "$swapper"
        cat out
}
