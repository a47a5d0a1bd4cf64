#!/usr/bin/env bash
# staged workspaces: what lands when the command has ended, what stays in the run, and what is said about it
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# staged ENGINE [OPTION...] -- COMMAND...: a run on $W; its events in $T/events; the kernel may lack its part
staged() {
        local engine=$1
        shift
        : >"$T/events"
        "$C" run --workspace-mode staged --engine "$engine" --events "$T/events" "$@"
}

# engine_works ENGINE: the overlay needs a kernel that takes one over the guard
engine_works() {
        [ "$1" = fuse ] || "$C" run --workspace-mode cow --engine overlay -- true 2>"$T/why" || {
                echo "# skipped: $(tail -1 "$T/why")"
                exit 0
        }
        "$C" discard >/dev/null 2>&1 || true
}

event() { grep -a "\"type\":\"$1\"" "$T/events" || fail "no event $1"; }

# red when land.c takes what verdict_change() does not allow, or leaves what it does
allowed_lands() {
        engine_works "$1"
        mkdir -p old/in gone
        echo 1 >old/f
        echo 2 >old/in/g
        echo 3 >gone/h
        echo 4 >mod
        local inode
        inode=$(stat -c %i old/f)
        staged "$1" -- sh -ec 'mv old new || { cp -a old new; rm -r old; }; rm -r gone; echo more >>mod; echo a >add
                ln -s add link; mkdir -p deep/er; echo b >deep/er/f; chmod 750 deep'
        eq 'add deep link mod new ' "$(printf '%s ' *)"
        eq $'4\nmore' "$(cat mod)"
        eq a "$(cat link)"
        eq b "$(cat deep/er/f)"
        eq 750 "$(stat -c %a deep)"
        eq 2 "$(cat new/in/g)"
        [ "$1" = overlay ] || eq "$inode" "$(stat -c %i new/f)" 'renamed, not copied'
        event apply_finished | grep -q '"held":0' || fail "$(cat "$T/events")"
        eq '' "$("$C" diff 2>/dev/null)" 'nothing is left'
}

held_stays() {
        engine_works "$1"
        git init -q .
        mkdir -p d/.vscode away
        echo '{}' >d/.vscode/tasks.json
        staged "$1" -- sh -ec 'git config user.name joe; echo ok >ok
                mkdir .vscode; echo bad >.vscode/tasks.json; echo bad >.git/hooks/post-checkout
                ln -s .git/hooks/x link; rm -r d; git config --global x.y z 2>/dev/null || true'
        eq joe "$(git config user.name)" 'judged by content'
        eq ok "$(cat ok)"
        [ ! -e .git/hooks/post-checkout ] || fail 'a hook landed'
        [ ! -e .vscode/tasks.json ] || fail 'tasks landed'
        [ ! -L link ] || fail 'a link into .git landed'
        eq '{}' "$(cat d/.vscode/tasks.json)" 'a directory that holds ruled names was deleted'
        event apply_finished | grep -q '"held":[1-9]' || fail "$(cat "$T/events")"
        eq "$(grep -ac '"path":".vscode/tasks.json"' "$T/events")" 1 'said once'
        has "$("$C" diff)" 'A .vscode/tasks.json'
        has "$("$C" diff)" 'A .git/hooks/post-checkout'
        "$C" apply >/dev/null
        eq bad "$(cat .git/hooks/post-checkout)" 'apply lands it'
        # and a key that runs something holds the whole file
        staged "$1" -- git config core.fsmonitor /bin/evil
        eq '' "$(git config core.fsmonitor || true)"
        event guard_held | grep -q core.fsmonitor || fail "$(cat "$T/events")"
}

# red when RENAME in verdict_change() does not look below
renamed_with_ruled_names() {
        engine_works "$1"
        mkdir -p d/.vscode e
        echo '{}' >d/.vscode/tasks.json
        echo x >e/tasks.json
        staged "$1" -- sh -c 'mv d f || { cp -a d f; rm -r d; }; mv e .vscode || { cp -a e .vscode; rm -r e; }; :'
        eq '{}' "$(cat d/.vscode/tasks.json)"
        [ ! -e f/.vscode/tasks.json ] && [ ! -e .vscode/tasks.json ] || fail 'landed under a ruled name'
}

# What another run puts into the directory once the rules have been asked: it does not land under the new name.
# red when rename_on_host() does not ask again
renamed_while_filled() {
        for _ in {1..30}; do # until the other one comes in time
                rm -rf aa zz y
                mkdir y
                for i in $(seq 40); do mkdir "r$i"; done
                (
                        end=$((SECONDS + 60))
                        until [ -d aa ] || [ "$SECONDS" -gt "$end" ]; do :; done
                        echo evil >y/tasks.json
                ) 2>/dev/null &
                staged fuse -- sh -ec 'mkdir aa zz; for i in $(seq 40); do mv r$i aa; done; mv y zz/.vscode'
                wait $! || continue # y was gone
                [ -d aa/r40 ] || fail 'nothing landed'
                eq evil "$(cat y/tasks.json)" 'stays where it was'
                [ ! -e zz/.vscode/tasks.json ] || fail 'landed'
                return 0
        done
        fail 'the other one never came in time'
}

conflicts_stay() {
        engine_works "$1"
        echo old >a
        echo old >b
        mkfifo "$T/go$1"
        staged "$1" --mount "type=bind,source=$T,target=/t" -- \
                sh -ec 'echo new >a; echo new >b; echo new >c; touch /t/ready; while [ ! -e /t/go ]; do sleep 0.05; done' &
        local pid=$!
        wait_for 60 [ -e "$T/ready" ]
        sleep 0.05
        echo host >a
        touch "$T/go"
        wait "$pid"
        rm -f "$T/ready" "$T/go" "$T/go$1"
        eq host "$(cat a)"
        eq new "$(cat b)"
        eq new "$(cat c)"
        event apply_conflict | grep -q '"path":"a"' || fail "$(cat "$T/events")"
        eq 'M! a' "$("$C" diff || true)"
        status 0 "$C" apply --force >/dev/null
        eq new "$(cat a)"
}

# What the host writes into a directory between its removal and its coming anew. red when diff_hidden_since() is
# asked about the new directory, which is younger than that
made_anew() {
        engine_works "$1"
        mkdir d e
        echo 1 | tee d/a >e/a
        staged "$1" --mount "type=bind,source=$T,target=/t" -- sh -ec 'rm -r d e; touch /t/anew.ready
                while [ ! -e /t/anew.go ]; do sleep 0.05; done; mkdir d e; echo new >d/n; echo new >e/n' &
        local pid=$!
        wait_for 60 [ -e "$T/anew.ready" ]
        sleep 0.05
        echo host >d/a
        echo host >d/new
        touch "$T/anew.go"
        wait "$pid"
        rm -f "$T"/anew.*
        eq 'host host new' "$(cat d/a d/new d/n | tr '\n' ' ' | sed 's/ $//')"
        eq n "$(ls e)" 'what nobody touched'
        has "$("$C" diff || true)" 'D! d/new'
}

# A work that knows what the host's new version is writes the record that says it saw it: overlayfs lets through all
# of user.* but its own. red when COPY_XATTR_OURS is not below COPY_XATTR_OVERLAY
forged_record() {
        engine_works overlay
        echo old >a
        staged overlay --mount "type=bind,source=$T,target=/t" -- python3 -c '
import os, struct, time
open("a", "w").write("evil")
open("/t/forge.ready", "w").close()
while not os.path.exists("/t/forge.go"): time.sleep(0.05)
ino, size, mtime, ctime, mode, dev = map(int, open("/t/forge.go").read().split())
for ns in "user.cofferdam.", "user.overlay.cofferdam.", "user.overlay.overlay.cofferdam.":
    try: os.setxattr("a", ns + "origin", b"cfo1" + struct.pack("=IQQQqq", mode, dev, ino, size, mtime, ctime))
    except OSError: pass' &
        local pid=$!
        wait_for 60 [ -e "$T/forge.ready" ]
        sleep 0.05
        echo host >a
        stat -c '%i %s %.9Y %.9Z %f %d' a | python3 -c '
i, s, m, c, f, d = input().split()
print(i, s, m.replace(".", ""), c.replace(".", ""), int(f, 16), d)' >"$T/forge.tmp"
        mv "$T/forge.tmp" "$T/forge.go"
        wait "$pid"
        rm -f "$T"/forge.*
        eq host "$(cat a)"
        eq 'M! a' "$("$C" diff || true)"
}

only_success_lands() {
        status 3 staged fuse --land success -- sh -c 'echo x >f; exit 3'
        [ ! -e f ] || fail 'landed'
        ! grep -aq apply_started "$T/events" || fail 'an apply'
        eq 'A f' "$("$C" diff)"
        "$C" discard
        status 0 staged fuse --land success -- sh -c 'echo x >f'
        eq x "$(cat f)"
        status 3 staged fuse -- sh -c 'echo y >f; exit 3'
        eq y "$(cat f)" 'command: whatever it returned'
}

killed_lands_nothing() {
        : >"$T/events"
        "$C" run --workspace-mode staged --events "$T/events" -- sh -c 'echo x >slain; sleep 600' &
        local pid=$!
        written() { find "$XDG_STATE_HOME" -path '*/upper/0/slain' -size +0 2>/dev/null | grep -q .; }
        wait_for 60 written
        kill -KILL "$pid"
        wait "$pid" 2>/dev/null || true
        wait_for 60 grep -aq sandbox_finished "$T/events"
        wait_for 60 none_of_ours
        [ ! -e slain ] || fail 'landed'
        eq 'A slain' "$("$C" diff)"
}

# started ENGINE [OPTION...]: a run that lives on; its ID in $id
started() {
        local engine=$1
        shift
        : >"$T/events"
        id=$("$C" start --workspace-mode staged --engine "$engine" --events "$T/events" "$@") || fail start
}

# Red when may_land() asks for the end of a command, which such a run has not: nothing lands then.
stop_lands() {
        engine_works "$1"
        echo old >mod
        echo old >gone
        started "$1"
        "$C" exec "$id" sh -ec 'echo new >mod; rm gone; mkdir d'
        "$C" exec "$id" sh -ec 'echo x >d/f; mkdir .vscode; echo bad >.vscode/tasks.json' </dev/null
        status 3 "$C" exec "$id" sh -c 'echo y >d/g; exit 3'
        eq old "$(cat mod)" 'the sandbox is there'
        "$C" stop "$id" >/dev/null
        eq new "$(cat mod)"
        eq 'x y' "$(cat d/f d/g | xargs)"
        [ ! -e gone ] || fail 'a deletion'
        [ ! -e .vscode/tasks.json ] || fail 'what is held landed'
        eq 1 "$(grep -ac apply_finished "$T/events")" 'landed once'
        event apply_started | grep -q '"land":"command"' || fail "$(cat "$T/events")"
        has "$("$C" diff "$id")" 'A .vscode/tasks.json'
        status 1 "$C" rm "$id" 2>"$T/err"
        has "$(cat "$T/err")" 'holds 1 change' 'rm'
        "$C" discard "$id" # and with it the run, which holds nothing more
        lacks "$("$C" ps -aq)" "$id" 'the run'
}

# Red when a later command that succeeds, or the stop itself, makes up for one that failed.
stop_after_a_failure() {
        started fuse --land success
        "$C" exec "$id" sh -c 'echo x >f'
        status 3 "$C" exec "$id" sh -c 'exit 3'
        "$C" exec "$id" true
        "$C" stop "$id" >/dev/null
        [ ! -e f ] || fail 'landed'
        ! grep -aq apply_started "$T/events" || fail 'an apply'
        eq 'A f' "$("$C" diff "$id")"
        "$C" rm -f "$id"
        started fuse --land success
        "$C" exec "$id" sh -c 'echo x >f'
        "$C" stop "$id" >/dev/null
        eq x "$(cat f)"
        "$C" rm "$id"
}

# A command that stop had to kill has not succeeded, but it has ended; a supervisor that dies lands nothing.
stop_kills() {
        started fuse
        "$C" exec "$id" sh -c 'echo x >f; trap "" TERM; while :; do sleep 0.1; done' 2>/dev/null &
        local client=$!
        wait_for 60 eval '"$C" diff "$id" | grep -q f'
        "$C" stop -t 0 "$id" >/dev/null
        wait "$client" || true
        eq x "$(cat f)"
        "$C" rm "$id"
        started fuse
        "$C" exec "$id" sh -c 'echo x >slain'
        kill -KILL "$("$C" inspect "$id" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["supervisor"]["pid"])')"
        wait_for 60 none_of_ours
        "$C" gc >/dev/null
        [ ! -e slain ] || fail 'landed'
        eq 'A slain' "$("$C" diff "$id")"
        "$C" rm -f "$id"
}

for engine in fuse overlay; do
        t "$engine: what is allowed lands" allowed_lands "$engine"
        t "$engine: what rules hold stays" held_stays "$engine"
        t "$engine: directories with ruled names are not renamed" renamed_with_ruled_names "$engine"
        t "$engine: conflicts stay" conflicts_stay "$engine"
        t "$engine: a directory that was made anew" made_anew "$engine"
        t "$engine: a run that was started lands when it is stopped" stop_lands "$engine"
done
t 'a directory that is filled while it is renamed' renamed_while_filled
t 'overlay: a forged record hides no conflict' forged_record
t 'only success lands' only_success_lands
t 'a command that failed keeps a started run from landing' stop_after_a_failure
t 'a started run that is killed, or has its commands killed' stop_kills
t 'a run that is killed lands nothing' killed_lands_nothing
finish
