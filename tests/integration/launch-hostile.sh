#!/usr/bin/env bash
# Further attacks on the launcher: a runner that ignores signals and floods, kills at any moment, files that the work
# planted
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p "$T/libexec" "$T/programs"
install -m 755 "$here/launch-runner.py" "$T/libexec/cofferdam-runner"

task() { jq -n '{version: 1, node_id: "n1", user_prompt: "p", allowed_tools: ["bash", "todo_write"]} | '"${1:-.}" >"$T/task.json"; }
operator() { jq -n "{version: 1} | $1" >"$T/agent.json" && chmod 600 "$T/agent.json"; }
program() { # NAME BODY
        printf '#!/bin/sh\necho "$0" >>%s\n%s\n' "$T/called" "$2" >"$T/programs/$1"
        chmod 755 "$T/programs/$1"
        rm -f "$T/called"
}
deploy() {
        program deploy "$1"
        operator '.tools = {deploy: {description: "d", input_schema: {type: "object"}, command: ["'"$T/programs/deploy"'"], timeout_ms: '"${2:-60000}"'}}'
}
script() { cat >script.py; }
ends() {
        local want=$1
        shift
        : >events
        status "$want" timeout -k 5 200 "$C" launch --task "$T/task.json" --events "$W/events" "$@" >out 2>err || {
                cat out err
                return 1
        }
}
out() { jq -e "$1" out >/dev/null || fail "not so: $1: $(cat out)"; }

# start [ARG...]: a launch in the background, until the runner has made 'here'
start() {
        rm -f here
        : >events
        "$C" launch --task "$T/task.json" --events "$W/events" "$@" >out 2>err &
        launcher=$!
        trap 'kill -9 $launcher 2>/dev/null || :' EXIT
        wait_for 60 test -e here || fail "it does not start: $(cat err)"
}
# over STATUS: it ends by the one SIGTERM, and leaves nothing
over() {
        kill -TERM "$launcher"
        wait_for 60 eval '! kill -0 $launcher 2>/dev/null' || fail 'it does not end'
        status "$1" wait "$launcher"
        wait_for 60 none_of_ours || fail 'something is left'
}

ignores_sigterm() {
        task
        script <<<'import signal, time; signal.signal(15, signal.SIG_IGN); begin(); open("here", "w").close(); time.sleep(300)'
        start
        over 143
}
floods_after_sigterm() {
        deploy 'cat >/dev/null; echo "{\"output\":\"ok\"}"'
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<'E'
import os, signal, time
begin()
def term(*_):
    for i in range(50):
        send('tool_call', {'name': 'mcp__tools__deploy', 'input': {}}, f't{i}')
signal.signal(15, term)
open('here', 'w').close()
while True:
    time.sleep(1)
E
        start --operator "$T/agent.json"
        over 143
        [ ! -e "$T/called" ] || fail "a program was called after the signal: $(wc -l <"$T/called")"
}
floods_from_the_grave() {
        task
        script <<'E'
import os
begin()
if os.fork() == 0:
    os.setsid()
    while True:
        send('event', {'type': 'llm_request', 'payload': {}})
os._exit(3)
E
        ends 125
        has "$(cat err)" 'exit code 3'
        wait_for 60 none_of_ours || fail 'something is left'
}
program_is_given_up() {
        deploy 'exec sleep 300' 300000
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<<'begin(); open("here", "w").close(); ask("1", "mcp__tools__deploy")'
        start --operator "$T/agent.json"
        wait_for 60 test -e "$T/called"
        over 143
}
program_that_says_nothing_more() {
        deploy 'exec sleep 300 >&-' 300000
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<<'begin(); open("here", "w").close(); ask("1", "mcp__tools__deploy")'
        start --operator "$T/agent.json"
        wait_for 60 test -e "$T/called"
        over 143
}
deaf_runner() {
        task '.user_prompt = "x" * 1000000'
        script <<<'hello(); open("here", "w").close(); import time; time.sleep(300)'
        start
        over 143
}
launcher_is_killed() {
        deploy 'echo $$ >'"$T/pid"'; exec sleep 300' 300000
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<<'begin(); open("here", "w").close(); ask("1", "mcp__tools__deploy")'
        start --operator "$T/agent.json"
        wait_for 60 test -e "$T/called"
        wait_for 60 test -s "$T/pid"
        kill -9 "$launcher"
        wait_for 60 none_of_ours || fail 'something is left'
        wait_for 60 eval '! kill -0 "$(cat "$T/pid")" 2>/dev/null' || fail 'the program lives on'
}
turns_have_a_limit() {
        task
        script <<'E'
begin()
s = 'x' * 2000000
for i in range(70):
    send('event', {'type': 'llm_turn_capture', 'payload': {'snapshot': s}})
result(output=1)
E
        ends 0 --session "$W/s"
        [ "$(du -sm s | cut -f1)" -le 129 ] || fail "a runner wrote $(du -sm s)"
}
refusals_are_written_down() {
        task
        script <<'E'
begin()
p = {chr(97 + i) * 40: 1.2345678901234567 for i in range(26)}
for i in range(41500):
    send('event', {'type': 'llm_request', 'payload': p})
for i in range(100000):
    send('event', {'type': 'llm_request'})
ask('1', 'bash')
result(output=1)
E
        ends 0
        out '.dropped_events > 0'
        grep -q '"type":"tool_refused"' events || fail 'the refusal is in no event'
        grep -q '"type":"delegate_finished"' events || fail 'the end is in no event'
}
large_numbers() {
        task
        script <<'E'
begin()
for i in range(3):
    send('event', {'type': 'llm_step_finished', 'payload': {k: 2**63 - 1 for k in ('input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens')}})
result(output=1)
E
        ends 0
        out '.usage.input_tokens == 9223372036854775807'
        jq -se 'any(.[]; .type == "delegate_finished" and .data.tokens == 9223372036854775807)' events >/dev/null || fail "$(tail -1 events)"
}
report_has_no_forged_words() {
        task
        script <<<'begin(); result(output=1, question={"question": "?"}, failure_code="SANDBOX_LOST")'
        ends 0
        out '(has("question") or has("failure_code")) | not'
}
plan_mode_and_programs() {
        program todo 'cat >/dev/null; echo "{\"output\":\"ok\"}"'
        operator '.tools = {todo_write: {description: "d", input_schema: {type: "object"}, command: ["'"$T/programs/todo"'"]}}'
        task '.allowed_tools = ["todo_write", "enter_plan_mode"]'
        script <<<'begin(); ask("1", "enter_plan_mode"); a = ask("2", "todo_write"); result(output=a)'
        ends 0 --operator "$T/agent.json"
        out '.output.error | contains("plans")'
        [ ! -e "$T/called" ] || fail 'a program was called'
}
many_objects() {
        task
        script <<'E'
begin()
raw(b'{"type":"event","data":{"type":"llm_request","payload":{"x":[' + b','.join([b'{}'] * 1390000) + b']}}}\n')
result(output=1)
E
        status 125 "$C" launch --task "$T/task.json" >out 2>err
        has "$(cat err)" 'too many objects'
}
link_to_an_operators_file() {
        program evil 'cat >/dev/null; echo "{\"output\":\"ok\"}"'
        operator '.tools = {todo_write: {description: "d", input_schema: {type: "object"}, command: ["'"$T/programs/evil"'"]}}'
        task
        script <<<'begin(); ask("1", "todo_write"); result(output=1)'
        ln -s "$T/agent.json" agent.json
        ends 125 --operator "$W/agent.json"
        has "$(cat err)" 'workspace'
        mkdir d
        ln -s "$T" d/up
        ends 125 --operator "$W/d/up/agent.json"
        has "$(cat err)" 'workspace'
        ln -s "$T/programs/evil" tool
        operator '.tools = {todo_write: {description: "d", input_schema: {type: "object"}, command: ["'"$W/tool"'"]}}'
        ends 125 --operator "$T/agent.json"
        has "$(cat err)" 'workspace'
        [ ! -e "$T/called" ] || fail 'a program was called'
}
session_in_the_workspace() {
        task
        mkdir "$T/elsewhere"
        ln -s "$T/elsewhere" s
        script <<<'begin(); send("session_capture", {"a": 1}); result(output=1)'
        ends 125 --session "$W/s"
        [ -z "$(ls "$T/elsewhere")" ] || fail 'written through the link of the work'
        jq -n '{secret: 1}' >"$T/credentials.json"
        ln -s "$T/credentials.json" r.json
        ends 125 --replay "$W/r.json"
        has "$(cat err)" 'workspace'
}

# a shell inside that never reads what is fed to it; hangs for ever without the bound of feed()
deaf_shell() {
        [ "${COFFERDAM_LONG-}" ] || skip 'opt-in: COFFERDAM_LONG=1 waits half a minute for a shell that does not read'
        mkdir -p root/bin root/etc root/proc root/dev root/tmp
        cp /bin/busybox root/bin/busybox
        printf '#!/bin/busybox sh\nexec /bin/busybox sleep 600\n' >root/bin/sh
        chmod 755 root/bin/sh
        mkdir work
        id=$("$C" start --rootfs "$W/root" -w "$W/work")
        task
        script <<<'pass'
        # more than a pipe holds
        head -c 1000000 /dev/zero | tr '\0' '#' >>"$T/libexec/cofferdam-runner"
        ends 125 --run "$id"
        install -m 755 "$here/launch-runner.py" "$T/libexec/cofferdam-runner"
        has "$(cat err)" 'does not read'
        "$C" stop -t 0 "$id" >/dev/null
        "$C" rm -f "$id" >/dev/null
}

t 'a shell inside that does not read' deaf_shell
t 'one SIGTERM ends a runner that ignores it' ignores_sigterm
t 'nothing is carried out after the signal' floods_after_sigterm
t 'a child of a dead runner floods' floods_from_the_grave
t 'SIGTERM gives up a program' program_is_given_up
t 'SIGTERM gives up a program that has closed its output' program_that_says_nothing_more
t 'SIGTERM while the runner does not read' deaf_runner
t 'the launcher is killed: run and program go' launcher_is_killed
t 'turns have a limit together' turns_have_a_limit
t 'a flood of events hides no refusal' refusals_are_written_down
t 'numbers of tokens that overflow' large_numbers
t 'no failure or question of the runner in the report' report_has_no_forged_words
t 'plan mode holds for a program under the name of a tool of the launcher' plan_mode_and_programs
t 'a line of a million objects' many_objects
t 'a link in the workspace leads to no program and no file of the operator' link_to_an_operators_file
t 'sessions and the workspace' session_in_the_workspace
finish
