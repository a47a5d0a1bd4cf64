#!/usr/bin/env bash
# A run behaves in the caller's shell as its command would: jobs, Ctrl-Z, nohup, redirections, slow and absent readers
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# play STEP... -- CMD...: on a terminal; what it showed stays in the file 'shown'
play() {
        need_command python3
        python3 "$here/terminal.py" "$@" >shown 2>&1 || fail "$(tail -n 40 shown | tr -d '\r')"
}
# in_shell STEP...: what is typed at the prompt of an interactive shell
in_shell() { play 'expect:go> ' "$@" -- env PS1='go> ' bash --norc --noprofile -i; }

background_job() {
        in_shell "send:$C run -- sh -c ': >begun; until [ -e end ]; do sleep 0.1; done; echo work is don\$((1))' &\n" 'expect:go> ' \
                'send:until [ -e begun ]; do sleep 0.1; done; echo typed $((20+1)); : >end\n' 'expect:typed 21' \
                'expect:work is don1' 'send:wait; jobs; exit 3\n' exit:3
        lacks "$(cat shown)" Stopped
}
job_comes_to_the_foreground() {
        in_shell "send:$C run -- sh -c 'read -r x; echo got-\$x' &\n" 'expect:go> ' pause:1 'send:fg\n' 'expect:run' pause:0.6 \
                'send:hello\n' 'expect:got-hello' 'expect:go> ' 'send:exit 4\n' exit:4
}
stopped_by_key() {
        in_shell "send:$C run -- sh -c 'i=0; until [ -e end ]; do echo n\$i; echo >>ticks; sleep 0.1; i=\$((i+1)); done; echo las\$((1))t' | cat\n" expect:n3 \
                'send:\x1a' expect:topped 'expect:go> ' pause:0.3 \
                'send:until a=$(wc -l <ticks); sleep 1; b=$(wc -l <ticks); [ $a = $b ]; do :; done; echo qui$((1))t; : >end\n' expect:qui1t \
                'send:fg\n' expect:las1t 'expect:go> ' 'send:exit 5\n' exit:5
}
two_at_once() {
        in_shell "send:$C run -- sh -c 'until [ -e end ]; do sleep 0.1; done; echo fir\$((1))t' & $C run -- sh -c 'read -r x; echo sec-\$x; : >end'\n" pause:0.7 'send:typed\n' \
                expect:sec-typed expect:fir1t 'send:wait; exit 6\n' exit:6
}
terminal_of_another_session() { # setsid: nobody's job control applies, but the keys do
        play expect:ready pause:0.3 'send:hello\n' expect:got-hello exit:0 -- setsid -w "$C" run -- sh -c 'echo ready; read -r x; echo got-$x'
        eq 1 "$(tr -d '\r' <shown | grep -c '^hello')" 'echoes of the input'
}
errors_go_where_they_were_sent() {
        # shellcheck disable=SC2016
        play expect:apart exit:0 -- sh -c "'$C' run -- sh -c 'echo trouble >&2; test -t 1 && test ! -t 2 && echo apart' 2>errors"
        eq trouble "$(cat errors)"
        # a file is a pipe inside, also here: who holds its descriptor could change the file
        # shellcheck disable=SC2016
        play expect:pipe exit:0 -- sh -c "'$C' run -- sh -c 'readlink /proc/self/fd/2' 2>errors"
        lacks "$(cat shown)" trouble
}

slow_reader() { eq 20000 "$(sandbox -t -- seq 20000 | (sleep 3 && cat) | wc -l)" lines; }
reader_goes_away() { eq y "$(timeout 100 "$C" run -t -- yes | head -n 1 | tr -d '\r')"; }
interrupted_with_a_reader_that_sleeps() {
        local rc=0
        mkfifo pipe
        sleep 600 <>pipe &
        env --default-signal=INT "$C" run -t -- yes >pipe 2>err &
        client=$!
        sleep 1
        kill -TERM "$client" # the command ends; what it said waits for the reader
        sleep 1
        wait_for 60 unwanted || fail 'the client waits for a reader that sleeps'
        wait "$client" || rc=$?
        kill %1
        eq 143 "$rc"
}
unwanted() { ! kill -TERM "$client" 2>/dev/null; } # nobody wants what it said any more
input_ends_on_an_open_line() {
        printf abc | status 0 timeout 100 "$C" run -t -- cat >out
        has "$(cat out)" abc
}
# what closes its descriptors has not ended; it may open its terminal again
closed_and_opened_again() {
        status 4 timeout 100 "$C" run -t -- sh -c 'exec 0<&- 1>&- 2>&-; sleep 0.3; echo late >/dev/tty; exit 4' </dev/null >out
        eq late "$(tr -d '\r\n^D\b' <out)"
}
no_input_for_a_terminal() {
        eq end "$(timeout 100 "$C" run -t -- sh -c 'cat; echo end' | tr -d '\r')"
        eq end "$(timeout 100 "$C" run -t -- sh -c 'cat; echo end' <&- | tr -d '\r')"
        status 3 timeout 100 "$C" run -t -- sh -c 'cat; echo end; exit 3' <&- >&- 2>&-
}

# ignored SIG: what the caller ignored does not reach the command
ignored() {
        (
                trap '' "$1"
                exec "$C" run -- sh -c ': >ready; until [ -e end ]; do sleep 0.05; done; sleep 1; exit 3'
        ) &
        client=$!
        wait_for 60 test -e ready
        kill -"$1" "$client"
        : >end
        rc=0
        wait "$client" || rc=$?
        eq 3 "$rc" 'exit status'
}

# a reader of events that sleeps, or is gone, does not hold up the run
sleeping_events() {
        local mounts=() i long
        long=$(head -c 200 /dev/zero | tr '\0' l)
        for i in $(seq 20); do mounts+=(--mount "type=bind,source=/usr/share,target=/mnt/$long$i,readonly"); done
        mkfifo pipe
        sleep 600 <>pipe &
        exec 5>pipe
        head -c 61440 /dev/zero >&5 # room for one page more: less than the first event needs
        status 0 timeout 100 "$C" run --events fd:5 "${mounts[@]}" -- echo fine >out
        kill %1
        wait %1 || true
        status 0 timeout 100 "$C" run --events fd:5 -- echo fine >>out # without a reader
        eq 'fine fine' "$(xargs <out)"
}
events_without_a_gap() {
        timeout 100 "$C" run --hold 'h*' --events "$T/events" -- sh -c 'for i in 1 2 3 4 5; do echo x >h$i; done; exit 7' || true
        eq "$(seq "$(wc -l <"$T/events")" | xargs)" "$(sed -n 's/.*"seq":\([0-9]*\).*/\1/p' "$T/events" | xargs)"
        has "$(tail -n 1 "$T/events")" '"exit_code":7'
        rm -rf "$T/state/cofferdam"
}
events_of_a_refusal() { # without a run there is no events.jsonl, but who listens is told
        local code
        for args in '-w /no/such' '--driver podman' '--image x' '--network maybe' '--mount type=tmpfs,target=/usr/missing'; do
                # shellcheck disable=SC2086 # words
                code=$("$C" run --events fd:3 $args -- true 3>&1 2>/dev/null | sed -n 's/.*"sandbox_refused".*"failure_code":"\([A-Z_]*\)".*/\1/p')
                [ -n "$code" ] || fail "no event for $args"
        done
}
opened_by_name() {
        sandbox -- sh -c 'echo a >/dev/stdout; echo b >/dev/stderr; cat /dev/stdin' <<<c 2>err | cat >out
        eq 'a c' "$(xargs <out)"
        eq b "$(cat err)"
        [ "$(id -u)" = 0 ] || return 0
        chmod 755 "$W"
        chown 1001:1001 "$W"
        eq 'a b' "$(sandbox -u 1001:1001 -- sh -c 'echo a >/dev/stdout; echo b >/dev/stderr' 2>&1 | xargs)"
}
many_at_once() {
        local i
        for i in $(seq 20); do sandbox --name "same$i" -- sh -c "echo $i >f$i; cat f$i" >"$T/many$i" & done
        wait
        for i in $(seq 20); do
                eq "$i" "$(cat "$T/many$i")"
                eq "$i" "$(cat "f$i")"
        done
        eq '' "$(ls "$T/state/cofferdam/runs")" 'run directories'
}

t 'a background job leaves the terminal to the shell' background_job
t 'a job that comes to the foreground gets the terminal' job_comes_to_the_foreground
t 'Ctrl-Z stops the command, fg continues it' stopped_by_key
t 'two runs on one terminal' two_at_once
t 'a terminal that is not the session'"'"'s own' terminal_of_another_session
t 'a redirected stderr stays apart from the terminal' errors_go_where_they_were_sent
t 'a slow reader of a terminal gets everything' slow_reader
t 'the reader of a terminal goes away' reader_goes_away
t 'a reader that sleeps does not make a run immortal' interrupted_with_a_reader_that_sleeps
t 'input that ends on an open line' input_ends_on_an_open_line
t 'a command closes its terminal before it ends' closed_and_opened_again
t 'no input for a terminal' no_input_for_a_terminal
for sig in HUP INT QUIT TERM USR1; do t "an ignored $sig stays ignored" ignored $sig; done
t 'events for a reader that sleeps or is gone' sleeping_events
t 'events are numbered without a gap' events_without_a_gap
t 'a refusal is an event' events_of_a_refusal
t 'standard descriptors can be opened by name' opened_by_name
t 'many runs at once, each with a name, with a new state directory' many_at_once
finish
