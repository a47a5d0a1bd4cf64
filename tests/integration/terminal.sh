#!/usr/bin/env bash
# In a terminal the command has one of its own: size, resize, keys, job control; nothing can be typed into the caller's
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# play STEP... -- CMD...: on the terminal; what it showed stays in the file 'shown'
play() {
        need_command python3
        python3 "$here/terminal.py" "$@" >shown 2>&1 || fail "$(tail -n 30 shown | tr -d '\r')"
}

run=("$C" run --)

is_a_terminal() {
        play expect:yes exit:0 -- "${run[@]}" sh -c 'test -t 0 && test -t 1 && test -t 2 && tty | grep -q ^/dev/pts/ && echo yes'
}
size() {
        # shellcheck disable=SC2016
        play 'expect:50 132' size:30,90 'expect:30 90' exit:0 -- "${run[@]}" sh -c '
                trap "stty size; exit 0" WINCH; stty size; i=0; while [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; exit 1'
}
interrupt() {
        play expect:ready 'send:\x03' expect:got exit:7 -- "${run[@]}" sh -c "trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.1; done"
}
interrupt_default() { play expect:ready 'send:\x03' exit:130 -- "${run[@]}" sh -c 'echo ready; exec sleep 600'; }
quit() { play expect:ready 'send:\x1c' exit:131 -- "${run[@]}" sh -c 'ulimit -c 0; echo ready; exec sleep 600'; }
end_of_file() { play expect:ready 'send:\x04' expect:end exit:0 -- "${run[@]}" sh -c 'echo ready; cat; echo end'; }
job_control() {
        play 'expect:go> ' 'send:sh -c "echo go; echo ing; exec sleep 30"\n' 'expect:go\r\ning' 'send:\x1a' expect:topped 'send:kill %%; while [ -n "$(jobs -rs)" ]; do sleep 0.1; done; echo still $((20+1))\n' 'expect:still 21' \
                'send:exit 5\n' exit:5 -- "${run[@]}" env PS1='go> ' bash --norc --noprofile -i
        ! grep -q 'no job control' shown || fail 'the shell has no job control'
}
hangup() {
        play expect:ready hangup exit:129 -- "${run[@]}" sh -c 'echo ready; exec sleep 600'
}
status_and_output() {
        play exit:3 -- "${run[@]}" sh -c 'printf "last words"; exit 3'
        has "$(cat shown)" 'last words'
        lacks "$(cat shown)" cofferdam
}
much_output() {
        play exit:0 -- "${run[@]}" seq 20000
        eq 20000 "$(tr -d '\r' <shown | grep -cE '^[0-9]+$')" lines
}
typed_before_ready() { play 'send:hello\n' expect:hello exit:0 -- "${run[@]}" sh -c 'sleep 0.5; read -r x; echo "got $x"'; }

# the modes of the caller's terminal are as before, also when the run is killed
modes_come_back() {
        # shellcheck disable=SC2016
        play expect:same exit:0 -- sh -c 'a=$(stty -g); '"$C"' run -- stty raw -echo; b=$(stty -g); [ "$a" = "$b" ] && echo same'
        # shellcheck disable=SC2016
        play expect:same exit:0 -- sh -c 'a=$(stty -g); '"$C"' run -- sleep 600 & sleep 1; kill -TERM $!; wait $!; b=$(stty -g); [ "$a" = "$b" ] && echo same || { echo "$a"; echo "$b"; }'
}

# TIOCSTI puts bytes into the input of a terminal: into the caller's shell, were it the caller's terminal
no_typing_for_the_caller() {
        cat >sti.py <<'PY'
import fcntl, glob, termios
for name in ["/dev/tty", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"] + glob.glob("/dev/pts/*"):
    for request in (termios.TIOCSTI, 0x541C):
        try:
            with open(name, "r+b", buffering=0) as f:
                fcntl.ioctl(f, request, b"e")
            print("typed", name)
        except OSError as error:
            print("refused", error.errno)
PY
        play expect:refused exit:0 -- "${run[@]}" /usr/bin/python3 sti.py
        lacks "$(cat shown)" typed
}

# pipes on one side: what is not a terminal stays what it is
no_terminal_in_a_pipe() {
        eq no "$(sandbox -- sh -c 'if test -t 0; then echo yes; else echo no; fi')"
        # shellcheck disable=SC2016
        play expect:piped exit:0 -- sh -c "$C run -- sh -c 'test -t 1 || echo piped' | cat"
}
asked_for() {
        eq yes "$(sandbox -t -- sh -c 'if test -t 1; then echo yes; else echo no; fi' | tr -d '\r')"
}

t 'it is a terminal' is_a_terminal
t 'size and resize' size
t 'Ctrl-C reaches a handler' interrupt
t 'Ctrl-C ends' interrupt_default
t 'Ctrl-\ quits' quit
t 'Ctrl-D is the end of the input' end_of_file
t 'job control' job_control
t 'the terminal goes away' hangup
t 'exit status and the last output' status_and_output
t 'much output' much_output
t 'typed before the command reads' typed_before_ready
t 'the modes of the terminal come back' modes_come_back
t 'nothing can be typed for the caller' no_typing_for_the_caller
t 'a pipe stays a pipe' no_terminal_in_a_pipe
t '-t gives a terminal where there is none' asked_for
finish
