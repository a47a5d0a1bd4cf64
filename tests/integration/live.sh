#!/usr/bin/env bash
# Runs that live: start, exec, stop, rm, ps, inspect, logs, events, gc
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

cd_run() { timeout -k 5 200 "$C" "$@"; }
inside() { cd_run exec "$@" </dev/null; }
up() { id=$(cd_run start "$@") || fail "start $*"; }
down() {
        cd_run stop -t 0 "$id" >/dev/null || fail 'stop'
        cd_run rm -f "$id" >/dev/null || fail 'rm'
}
field() { cd_run inspect "$id" | python3 -c "import json,sys; d = json.load(sys.stdin)[0]; print(d$1)"; }
events() { cd_run events "$@" "$id"; }
supervisor() { field "['supervisor']['pid']"; }

start_prints_an_id() {
        up
        [[ $id =~ ^[0-9a-f]{12}$ ]] || fail "id '$id'"
        has "$(cd_run ps)" "$id"
        eq running "$(field "['status']")"
        down
        eq '' "$(cd_run ps -aq)"
}

exec_is_the_command() {
        up
        eq hi "$(inside "$id" echo hi)"
        status 7 inside "$id" -- sh -c 'exit 7'
        status 143 inside "$id" sh -c 'kill -TERM $$'
        status 127 inside "$id" no-such-command 2>/dev/null
        status 126 inside "$id" /etc/passwd 2>/dev/null
        eq 'o|e' "$(inside "$id" sh -c 'echo o; echo e >&2' 2>err)|$(cat err)"
        eq data "$(echo data | cd_run exec "$id" cat)"
        eq v "$(inside -e X=v "$id" sh -c 'echo $X')"
        eq own "$(OWN=own cd_run exec -e OWN "$id" sh -c 'echo $OWN' </dev/null)"
        eq /tmp "$(inside -w /tmp "$id" pwd)"
        eq "$W" "$(inside "$id" pwd)"
        status 126 inside -w /nowhere "$id" true 2>err
        has "$(cat err)" 'working directory'
        inside -u "$(id -un)" "$id" true || fail 'as who the run is'
        status 125 inside -u nobody "$id" true 2>err
        has "$(cat err)" "--user 'nobody'"
        down
}

state_is_shared() {
        up
        inside "$id" sh -c 'echo 1 >/tmp/x; echo 2 >w'
        eq 1 "$(inside "$id" cat /tmp/x)"
        eq 2 "$(cat w)"
        down
}

names() {
        up --name n1
        eq ok "$(inside n1 echo ok)"
        status 125 cd_run start --name n1 2>err
        has "$(cat err)" "name 'n1' is taken"
        cd_run stop -t 0 n1 >/dev/null
        local first=$id
        up --name n1 # the name is free again, and means the run that lives
        eq "$id" "$(cd_run inspect n1 | sed -n 's/^  "id": "\(.*\)",/\1/p')"
        cd_run rm -f "$first" >/dev/null || fail 'rm of the first'
        down
}

many_at_once() {
        local i pids=()
        up
        for i in $(seq 40); do
                inside "$id" sh -c "sleep 0.2; seq 1 $i | tail -n 1; exit $i" >out.$i &
                pids+=($!)
        done
        for i in $(seq 40); do
                status "$i" wait "${pids[i - 1]}"
                eq "$i" "$(cat "out.$i")"
        done
        eq 80 "$(events --type exec_started --type exec_finished | wc -l)"
        down
}

# the 64 places of init and supervisor
one_too_many() {
        local i
        up
        for i in $(seq 64); do inside -d "$id" sleep 600 >/dev/null; done
        status 125 inside "$id" true 2>err
        has "$(cat err)" '64 commands run already'
        down
}

signals_reach_the_command() {
        local pid
        up
        # not by timeout(1), which sends what it gets twice, and the second one kills; a job's SIGINT is ignored
        env --default-signal=INT "$C" exec "$id" sh -c 'trap "exit 9" INT; : >ready; while :; do sleep 0.05; done' </dev/null &
        pid=$!
        wait_for 60 test -e ready || fail 'the command does not start'
        kill -INT $pid
        status 9 wait $pid
        eq ok "$(inside "$id" echo ok)" 'the run lives on'
        down
}

# A killed client leaves nothing: without on_gone() this stays
client_killed_command_dies() {
        local pid
        up
        "$C" exec "$id" sh -c ': >ready; exec sleep 1000' </dev/null &
        pid=$!
        wait_for 60 test -e ready || fail 'the command does not start'
        kill -KILL $pid
        wait $pid || true
        wait_for 60 no_commands || fail "$(field "['commands']")"
        eq ok "$(inside "$id" echo ok)"
        down
}

detached_has_logs() {
        local n
        up
        n=$(inside -d "$id" sh -c 'echo out; echo err >&2; cat; until [ -e go ]; do sleep 0.05; done; echo more; : >said; sleep 600')
        eq "$n" "$(field "['commands'][0]['exec_id']")"
        timeout 200 "$C" logs -f "$id" "$n" >followed &
        wait_for 60 grep -q out followed || fail 'nothing to follow'
        : >go
        wait_for 60 test -e said
        cd_run stop -t 5 "$id" >/dev/null
        wait # the follower ends with the run
        eq $'out\nmore' "$(cat followed)"
        eq err "$(cd_run logs --stderr "$id" "$n")"
        eq $'out\nmore' "$(cd_run logs "$id")" 'after the end'
        cd_run rm "$id" >/dev/null
}

logs_rotate() {
        local n size
        up
        n=$(inside -d "$id" sh -c 'seq 1 4000000') # 30 MB
        wait_for 120 no_commands || fail 'does not end'
        size=$(du -sb "$XDG_STATE_HOME/cofferdam/runs/$id/log" | cut -f1)
        [ "$size" -le $((17 << 20)) ] || fail "logs of $size bytes"
        eq 4000000 "$(cd_run logs "$id" "$n" | tail -n 1)"
        down
}
no_commands() { [ "$(field "['commands']")" = '[]' ]; }

stop_is_polite_then_not() {
        up
        inside -d "$id" sh -c 'trap "echo bye; exit 0" TERM; : >a; while :; do sleep 0.05; done' >/dev/null
        inside -d "$id" sh -c 'trap "" TERM; : >b; while :; do sleep 0.05; done' >/dev/null
        wait_for 60 test -e a -a -e b
        SECONDS=0
        cd_run stop -t 1 "$id" >/dev/null
        [ "$SECONDS" -lt 10 ] || fail "took $SECONDS s"
        eq bye "$(cd_run logs "$id" 1)"
        eq finished "$(field "['status']")"
        status 125 inside "$id" true 2>err
        has "$(cat err)" 'takes no commands'
        cd_run rm "$id" >/dev/null
}

stop_ends_run() {
        "$C" run --name r -- sh -c ': >ready; exec sleep 600' &
        wait_for 60 test -e ready
        eq hello "$(inside r echo hello)" 'exec in a run'
        cd_run stop r >/dev/null
        status 143 wait $!
        rm ready
        "$C" run --name r -- sh -c ': >ready; exec sleep 600' &
        wait_for 60 test -e ready
        cd_run stop -t 0 r >/dev/null
        status 137 wait $! # red when what was not waited for looks as if it had ended well
}

rm_refuses() {
        up
        status 1 cd_run rm "$id" 2>err
        has "$(cat err)" 'lives'
        inside "$id" sh -c 'mkdir .vscode; echo x >.vscode/tasks.json'
        cd_run stop "$id" >/dev/null
        status 1 cd_run rm "$id" 2>err
        has "$(cat err)" 'holds 1 change:'
        has "$(cd_run diff "$id")" .vscode/tasks.json
        cd_run rm -f "$id" >/dev/null
}

events_follow_filter_resume() {
        local last
        up
        timeout 200 "$C" events -f "$id" >all &
        inside "$id" true
        inside "$id" false || true
        last=$(events | tail -n 1 | sed 's/.*"seq":\([0-9]*\).*/\1/')
        inside "$id" true
        eq exec_started,exec_finished "$(events --since "$last" | sed 's/.*"type":"\([a-z_]*\)".*/\1/' | paste -sd,)"
        eq 3 "$(events --type exec_finished | wc -l)"
        cd_run stop "$id" >/dev/null
        wait # the follower ends with the run
        eq "$(events)" "$(cat all)"
        python3 -c 'import json; s=[json.loads(l)["seq"] for l in open("all")]; assert s == list(range(1, len(s)+1)), s'
        has "$(tail -n 1 all)" sandbox_finished
        cd_run rm "$id" >/dev/null
}

post_create_comes_first() {
        up --post-create 'echo made >made; echo told' 2>err
        eq told "$(cat err)"
        eq made "$(cat made)"
        down
        eq made/cmd "$(sandbox --post-create 'echo made/ >m' -- sh -c 'tr -d "\n" <m; echo cmd')"
        status 125 cd_run start --post-create 'exit 3' 2>err
        has "$(cat err)" 'exit code 3'
        status 125 sandbox --post-create 'exit 3' -- touch ran 2>err
        [ ! -e ran ] || fail 'the command ran'
        eq '' "$(cd_run ps -aq)" 'a run that never was leaves no record'
}

timeout_is_124() {
        status 124 sandbox --timeout 1s -- sleep 60 2>err
        has "$(cat err)" 'longer than limits.timeout'
        up --timeout 1s
        gone() { [ -z "$(cd_run ps -q)" ]; }
        wait_for 60 gone || fail 'it still runs'
        eq RUN_TIMEOUT "$(field "['failure_code']")"
        eq 124 "$(field "['exit_code']")"
        cd_run rm "$id" >/dev/null
}

terminal_in_exec() {
        up
        eq 'tty 24 80' "$(inside -t "$id" sh -c '[ -t 0 ] && [ -t 1 ] && stty rows 24 cols 80 && echo tty $(stty size)' | tr -d '\r')"
        down
}

# 1 GiB, nothing lost, nobody in between: the pipe is the command's own
streams_are_whole() {
        up
        eq "$(head -c 300000000 /dev/zero | sha256sum)" "$(head -c 300000000 /dev/zero | cd_run exec "$id" cat | sha256sum)"
        down
}

dead_supervisor_is_reaped() {
        local pid
        up
        inside "$id" sh -c 'mkdir .vscode; echo x >.vscode/tasks.json'
        pid=$(supervisor)
        kill -KILL "$pid"
        wait_for 60 none_of_ours || fail 'something lives on'
        eq dead "$(field "['status']")"
        status 125 inside "$id" true 2>err
        has "$(cat err)" 'cofferdam gc'
        has "$(cd_run gc)" "$id kept for review"
        eq finished "$(field "['status']")"
        has "$(events | tail -n 1)" orphan_reaped
        eq '' "$(cd_run gc)" 'a second time'
        cd_run apply "$id" >/dev/null
        eq x "$(cat .vscode/tasks.json)"
        up
        kill -KILL "$(supervisor)"
        wait_for 60 none_of_ours
        has "$(cd_run gc)" "$id removed"
}

gc_spares_the_living() {
        up
        eq '' "$(cd_run gc)"
        eq ok "$(inside "$id" echo ok)"
        down
}

# whoever can connect is the same user; what he says is still checked
control_socket_takes_no_nonsense() {
        local dir=$XDG_STATE_HOME/cofferdam/runs
        up
        eq 700 "$(stat -c %a "$dir/$id")"
        python3 - "$dir/$id" <<'P' || fail 'python'
import os, random, socket, sys, array
os.chdir(sys.argv[1])
random.seed(7)
for i in range(400):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect("control")
    n = random.choice([0, 1, 4, 100, 600, 608, 612, 616, 620, 624, 628, 640, 5000])
    data = bytearray(os.urandom(n))
    if n >= 4 and random.random() < 0.8:
        data[0:4] = random.randrange(12).to_bytes(4, "little")
        if random.random() < 0.5:
            for k in range(4, len(data)): data[k] = 0
    fds = [os.open("/dev/null", os.O_RDWR) for _ in range(random.randrange(6))]
    try:
        if data: s.sendmsg([bytes(data)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        if random.random() < 0.3: s.shutdown(socket.SHUT_WR)
    except OSError: pass
    for f in fds: os.close(f)
    s.close()
P
        if [ "$(field "['status']")" = running ]; then # a well-formed STOP among the noise is obeyed
                eq ok "$(inside "$id" echo ok)"
                wait_for 60 few_sockets || fail "open sockets: $(ls -l "/proc/$(supervisor)/fd")"
        fi
        down
}

few_sockets() { [ "$(find "/proc/$(supervisor)/fd" -lname 'socket:*' | wc -l)" -le 8 ]; }

supervisor_is_small() {
        local rss
        up
        inside "$id" true
        # its own: how many pages of its file are mapped is the kernel's affair
        rss=$(awk '/^Anonymous/ { print $2 }' "/proc/$(supervisor)/smaps_rollup")
        [ "$rss" -le 2048 ] || fail "$rss KiB of its own"
        down
}

# `start` waits to print the id while somebody who found it elsewhere stops the run; red when only the word that start
# says after it makes a run one that lives on
stopped_before_it_is_heard() {
        cat >full.py <<'PY'
import fcntl, os, subprocess, sys
out, full = os.pipe()
os.set_blocking(full, False)
try:
    while True:
        os.write(full, b"x" * 4096)
except BlockingIOError:
    os.set_blocking(full, True)
start = subprocess.Popen([sys.argv[1], "start", "--name", "unheard"], stdout=full, stdin=subprocess.DEVNULL)
os.close(full)
sys.stdin.readline()
os.set_blocking(out, True)
said = b"".join(iter(lambda: os.read(out, 65536), b"")).strip(b"x").decode().strip()
print(said, start.wait())
PY
        mkfifo go
        timeout 200 python3 full.py "$C" <go >said 2>err &
        exec 9>go
        wait_for 60 is_running unheard || fail "not running: $(cat err)"
        "$C" stop -t 0 unheard >stopped
        status 0 "$C" inspect "$(cat stopped)" >/dev/null
        "$C" rm "$(cat stopped)" >/dev/null
        echo go >&9
        exec 9>&-
        wait
        eq "$(cat stopped) 0" "$(cat said)" 'what start says'
}
is_running() { "$C" ps 2>/dev/null | grep -q "running.* $1\|$1 .*running"; }

t 'start prints an id; the run is listed' start_prints_an_id
t 'a run that is stopped before its id is out is kept' stopped_before_it_is_heard
t 'exec: streams, codes, environment, directory, user' exec_is_the_command
t 'commands of a run see the same files' state_is_shared
t 'a name is one living run' names
t '40 commands at once' many_at_once
t 'the 65th command is refused' one_too_many
t 'a signal reaches the command, not the run' signals_reach_the_command
t 'a killed client leaves no command' client_killed_command_dies
t 'a detached command has logs' detached_has_logs
t 'logs rotate' logs_rotate
t 'stop: SIGTERM, then SIGKILL' stop_is_polite_then_not
t 'a run can be stopped and entered too' stop_ends_run
t 'rm refuses what lives or holds changes' rm_refuses
t 'events: follow, filter, resume' events_follow_filter_resume
t 'post_create runs first' post_create_comes_first
t 'the timeout ends a run with 124' timeout_is_124
t 'a terminal for exec' terminal_in_exec
t 'streams lose nothing' streams_are_whole
t 'a dead supervisor is reaped, its changes are kept' dead_supervisor_is_reaped
t 'gc leaves the living alone' gc_spares_the_living
t 'garbage on the control socket' control_socket_takes_no_nonsense
t 'a supervisor is small' supervisor_is_small
finish
