#!/usr/bin/env bash
# The launcher holds the boundary: whatever a runner says, nothing happens on the host that was not advertised, placed
# there and allowed; each thing that it may say has one outcome
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# The runner of these tests is a script that says what the test wants, where launch looks for the real one.
mkdir -p "$T/libexec"
install -m 755 "$here/launch-runner.py" "$T/libexec/cofferdam-runner"

# task [JQ]: task.json with a tool of each kind, changed by a jq program
task() {
        jq -n '{version: 1, node_id: "n1", user_prompt: "p", allowed_tools: ["bash", "todo_write", "ask_user"]} | '"${1:-.}" >"$T/task.json"
}
# operator JQ: the operator's file
operator() { jq -n "{version: 1} | $1" >"$T/agent.json" && chmod 600 "$T/agent.json"; }
script() { cat >script.py; }
launch() { "$C" launch --task "$T/task.json" --events "$W/events" "$@"; }
# ends STATUS [ARG...]: launch, its output in out, its messages in err
ends() {
        local want=$1
        shift
        : >events
        status "$want" timeout 200 "$C" launch --task "$T/task.json" --events "$W/events" "$@" >out 2>err || {
                cat out err
                return 1
        }
}
# event TYPE JQ: one of the events fits
event() { jq -se "any(.[]; .type == \"$1\" and (.data | $2))" events >/dev/null || fail "no event $1 with $2: $(grep "$1" events)"; }
no_event() { ! grep -q "\"type\":\"$1\"" events || fail "event $1: $(grep "$1" events)"; }
out() { jq -e "$1" out >/dev/null || fail "not so: $1: $(cat out)"; }

# A program that notes that it was called.
program() { # NAME [BODY]
        mkdir -p "$T/programs"
        printf '#!/bin/sh\necho "$0" >>%s\n%s\n' "$T/called" "${2:-cat >/dev/null; echo '{\"output\":\"ok\"}'}" >"$T/programs/$1"
        chmod 755 "$T/programs/$1"
        rm -f "$T/called"
}
deploy() {
        program deploy "${1:-}"
        operator '.tools = {deploy: {description: "d", input_schema: {type: "object"}, command: ["'"$T/programs/deploy"'", "word"], timeout_ms: '"${2:-60000}"'}}'
}
not_called() { [ ! -e "$T/called" ] || fail "a program was called: $(cat "$T/called")"; }

# ---- a task from end to end ----

does_a_task() {
        task '.permission = {rules: ["deny: bash(rm *)"]}'
        script <<'E'
hello()
assert recv() == {'type': 'hello', 'data': {'protocol': 2, 'version': '0.1.0', 'tools': [], 'features': []}}
assert recv() == {'type': 'permission_policy', 'data': {'rules': ['deny: bash(rm *)']}}
t = recv()['data']
assert t['node_id'] == 'n1' and t['has_tools'] and 'permission' not in t and 'version' not in t
assert [d['name'] for d in t['tool_defs']] == ['bash', 'todo_write', 'ask_user']
assert ask('call-1', 'todo_write', {'todos': [{'a': 1}]}) == {'output': 'the list is replaced'}
send('event', {'type': 'llm_step_finished', 'payload': {'input_tokens': 5, 'output_tokens': 7, 'model': 'm', 'text': 'private words'}})
send('event', {'type': 'llm_step_finished', 'payload': {'usage': {'input_tokens': 1, 'cache_read_input_tokens': 2, 'cache_creation_input_tokens': 3}}})
result(output={'verdict': 'pass'}, tokens=18, exit_code=0, backend_name='claw', session_id='s-9')
E
        ends 0
        eq '' "$(cat err)" stderr
        out '.output.verdict == "pass" and .status == "done" and .tokens == 18 and .session_id == "s-9" and .protocol == 2'
        out '.usage == {steps: 2, input_tokens: 6, output_tokens: 7, cache_read_input_tokens: 2, cache_creation_input_tokens: 3}'
        event delegate_started '.node_id == "n1" and .protocol == 2 and .runner == "test" and .tools == 3'
        event llm_step_finished '.input_tokens == 5 and .model == "m" and .said_by == "runner" and .text_bytes == 15'
        ! grep -q 'private words' events || fail 'what the model said is in the events'
        event delegate_finished '.status == "done" and .exit_code == 0 and .tokens == 18'
        eq "$(wc -l <events)" "$(jq -s 'map(.seq) | max' events)" 'numbers without a gap'
        wait_for 60 none_of_ours || fail 'something is left'
}

# What the command of a task changes lands as that of a run does, and what is held is held.
runs_with_the_options_of_run() {
        task
        script <<'E'
import os
begin()
open('made', 'w').write('x')
result(output=os.environ['SAID'])
E
        ends 0 -e SAID=so --workspace-mode cow
        out '.output == "so"'
        [ ! -e made ] || fail 'it was written to the host'
        "$C" diff "$(jq -r .run_id out)" | grep -qx 'A made'
}

joins_a_run() {
        local id
        task
        script <<<'begin(); result(output=sys.argv[0])'
        id=$("$C" start)
        ends 0 --run "$id"
        out '(.output | test("^/tmp/.cofferdam-runner-[0-9a-f]{16}$")) and .run_id == "'"$id"'"'
        ends 0 --run "$id"
        eq '' "$("$C" exec "$id" -- sh -c 'ls /tmp/.coff*' 2>/dev/null)" 'copies that are left'
        "$C" stop "$id" >/dev/null
        ends 125 --run "$id"
        ends 2 --run "$id" --network none
        has "$(cat err)" '--run'
}

# ---- protocol 1 ----

# What both sides say, byte for byte, written from the field lists of the protocol.
speaks_protocol_1() {
        task '.allowed_tools = ["ask_user"] | .iteration = 2 | .system_prompt = "You review code." | .model = "openai/gpt-5.5" |
                .tool_max_steps = 40 | .permission = {rules: ["deny: bash(rm *)", "allow: *"]}'
        echo '{"messages":[{"role":"user","content":"earlier turn"}]}' >replay.json
        cat >want <<'E'
{"type":"permission_policy","data":{"rules":["deny: bash(rm *)","allow: *"]}}
{"type":"session_replay","data":{"messages":[{"role":"user","content":"earlier turn"}]}}
E
        script <<'E'
lines = [inp.readline() for i in range(3)]
assert b''.join(lines[:2]) == open('want', 'rb').read(), lines
assert lines[2].startswith(b'{"type":"task","data":{"node_id":"n1","user_prompt":"p","allowed_tools":["ask_user"],"iteration":2,'
                           b'"system_prompt":"You review code.","model":"openai/gpt-5.5","tool_max_steps":40,"has_tools":true,'
                           b'"tool_defs":[{"name":"ask_user","description":"'), lines[2]
raw(b'{"type":"tool_call","id":"call-2","data":{"name":"lsp","input":{"title":"Fix login"}}}\n')
got = inp.readline()
assert got == (b'{"type":"tool_result","id":"call-2","data":{"error":"launcher: tool \\"lsp\\": it was not advertised to '
               b'this node under this name"}}\n'), got
raw(b'{"type":"ask_user","id":"ask-2","data":{"reason":"need a choice","questions":[{"header":"Branch","question":"Which base?",'
    b'"options":[{"label":"main","description":"default"},{"label":"dev"}],"multi_select":false}]}}\n')
got = inp.readline()
assert got == (b'{"type":"ask_user_answer","id":"ask-2","data":{"answers":{"__error__":"launcher: no ask_user handler '
               b'registered"}}}\n'), got
raw(b'{"type":"session_capture","data":{"messages":[{"role":"assistant","content":"done step 3"}]}}\n')
raw(b'{"type":"event","data":{"type":"tool_called","payload":{"tool":"bash","duration_ms":48,"input_size":120}}}\n')
raw(b'{"type":"tool_call","id":"call-3","data":{"name":"ask_user","input":{"question":"Merge now?","options":[{"label":"yes"}]}}}\n')
got = inp.readline()
assert got == (b'{"type":"tool_result","id":"call-3","data":{"ask_user":{"question":"Merge now?","options":[{"label":"yes"}],'
               b'"allow_free_text":true}}}\n'), got
raw(b'{"type":"result","data":{"pending_conversation":[{"role":"user"}],"pending_tool_use_id":"tu_7","tokens":1234,'
    b'"duration_ms":53210,"exit_code":0,"backend_name":"claw","session_id":"s-9"}}\n')
E
        ends 3 --protocol 1 --replay replay.json --session kept
        out '.protocol == 1 and .status == "asked" and .question.question == "Merge now?" and .pending_tool_use_id == "tu_7"'
        eq '{"messages":[{"role":"assistant","content":"done step 3"}]}' "$(cat kept/session.json)" session
        event tool_called '.tool == "bash" and .duration_ms == 48 and .input_size == 120'
}

# ---- the gate ----

# Each of these is refused, logged, written down and answered, and nothing is called.
refuses_what_is_near() {
        deploy
        task '.allowed_tools = ["bash", "todo_write", "mcp__tools__deploy"]'
        script <<'E'
begin()
names = ['todo_write ', ' todo_write', 'Todo_write', 'TODO_WRITE', 'todo-write', 'todo.write', 'todo__write', 'todowrite', 't\u043edo_write',
         'todo_write\u200b', 'todo_write\x00', '', 'deploy', 'tools__deploy', 'mcp_deploy', 'mcp__deploy', 'mcp.tools.deploy', 'mcp_tools_deploy',
         'mcp__tools__Deploy', 'mcp__tools__deploy ', 'mcp__tools__deploy\n', 'MCP__tools__deploy', 'mcp__tool__deploy', 'mcp_bash', 'mcp__x__bash',
         'bash', 'BASH', 'read_file', 'write_file', 'agent', 'lsp', 'screenshot', 'worker_create', 'computer_use', 'image_gen', 'ask_user', 'task_create',
         'config', 'web_search', '*', 'mcp__tools__*', '../programs/deploy', '/bin/sh', 'x' * 100000]
for i, name in enumerate(names):
    answer = ask(f'call-{i}', name)
    assert list(answer) == ['error'], (name, answer)
for i, data in enumerate([{'name': 7, 'input': {}}, {'input': {}}, {'name': None}, {'name': ['todo_write']}, {}, [], 'todo_write', 7,
                          {'name': 'todo_write', 'input': []}, {'name': 'todo_write', 'input': 'x'}, {'name': 'mcp__tools__deploy', 'input': None}]):
    send('tool_call', data, f'odd-{i}')
    assert list(until('tool_result')) == ['error'], data
send('tool_call', None, 'none')
assert list(until('tool_result')) == ['error']
result(output=len(names))
E
        ends 0 --operator "$T/agent.json"
        not_called
        out ".refused_calls == $(($(jq .output out) + 12))"
        eq "$(jq .refused_calls out)" "$(grep -c '"type":"tool_refused"' events)" events
        event tool_refused '.tool == "mcp_bash" and .id == "call-23" and (.reason | contains("not advertised"))'
        event tool_refused '.tool == "bash" and (.reason | contains("not launcher-placed but sandbox"))'
        grep -q "refused tool call 'todo_write '" err || fail 'it is not logged'
        eq 20 "$(grep -c 'refused tool call' err)" 'lines of a flood that are logged'
}

# The rules of either side, under each name of the tool. Red when identity has one name only.
policy_denies() {
        local rule
        deploy
        task '.allowed_tools = ["mcp__tools__deploy", "todo_write"]'
        script <<'E'
begin()
answer = ask('call-1', 'mcp__tools__deploy', {'stage': 'live'})
result(output=answer)
E
        for rule in 'mcp__tools__deploy(*live*)' 'mcp.tools.deploy(*"live"*)' 'mcp.tools.*(*)' '*(*live*)' '*deploy(*live*)'; do
                task '.allowed_tools = ["mcp__tools__deploy"] | .permission = {rules: ["deny: '"${rule//\"/\\\"}"'"]}'
                ends 0 --operator "$T/agent.json"
                out '.output.error | contains("the permission policy denies it: deny: ")'
                task '.allowed_tools = ["mcp__tools__deploy"]'
                jq '.permission = {rules: ["allow: *", $r]}' --arg r "deny: $rule" "$T/agent.json" >agent2.json
                mv agent2.json "$T/agent2.json"
                ends 0 --operator "$T/agent2.json"
                out '.output.error | contains("the permission policy denies it: deny: ")'
                not_called
        done
        # denied whatever the input: not even advertised
        task '.allowed_tools = ["mcp__tools__deploy"] | .tool_policy = {rules: ["deny: mcp.tools.*"]}'
        script <<'E'
t = begin()
assert 'tool_defs' not in t, t
result(output=ask('call-1', 'mcp__tools__deploy', {'stage': 'live'}))
E
        ends 0 --operator "$T/agent.json"
        out '.output.error | contains("not advertised")'
        not_called
}

plan_mode_stops_what_changes() {
        deploy
        task '.allowed_tools = ["mcp__tools__deploy", "enter_plan_mode", "exit_plan_mode", "task_create", "task_update", "task_list"]'
        script <<'E'
begin()
ask('1', 'enter_plan_mode')
assert 'exit_plan_mode' in ask('2', 'mcp__tools__deploy')['error']
task = json.loads(ask('3', 'task_create', {'subject': 's'})['output'])
assert json.loads(ask('4', 'task_update', {'task_id': task['task_id'], 'status': 'completed'})['output'])['status'] == 'completed'
assert 'no task' in ask('5', 'task_update', {'task_id': 'task-9'})['error']
ask('6', 'exit_plan_mode')
result(output=ask('7', 'mcp__tools__deploy'))
E
        ends 0 --operator "$T/agent.json"
        out '.output.output == "ok"'
}

# ---- what a runner may say wrong ----

breaks_the_channel() { # TEXT: the script says it after its task, and the launcher ends it
        local text=$1
        deploy
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script
        ends 125 --operator "$T/agent.json"
        has "$(cat err)" "$text"
        out '.status == "failed"'
        event delegate_finished '.status == "failed"'
        not_called
        wait_for 60 none_of_ours || fail 'something is left'
}
no_json() { breaks_the_channel "malformed envelope" <<<'begin(); raw(b"so what\n"); recv()'; }
cut_line() { breaks_the_channel 'malformed envelope' <<<'begin(); raw(b"{\"type\":\"tool_call\""); sys.exit(0)'; }
no_utf8() { breaks_the_channel 'malformed envelope' <<<'begin(); raw(b"{\"type\":\"event\",\"data\":\"\xff\"}\n"); recv()'; }
two_keys() {
        breaks_the_channel 'duplicate' <<'E'
begin()
raw(b'{"type":"event","type":"tool_call","id":"1","data":{"name":"mcp__tools__deploy","input":{}}}\n')
recv()
E
}
too_deep() { breaks_the_channel 'nested too deep' <<<'begin(); raw(b"{\"type\":\"event\",\"data\":" + b"[" * 100000); raw(b"\n"); recv()'; }
one_byte_more() {
        breaks_the_channel 'longer than 4194304 bytes' <<'E'
begin()
head, tail = b'{"type":"event","data":{"type":"llm_request","payload":{"x":"', b'"}}}'
raw(head + b'x' * (4194304 - 1 - len(head) - len(tail)) + tail + b'\n')  # at the limit
raw(head + b'x' * (4194304 - len(head) - len(tail)) + tail + b'\n')
recv()
E
        event llm_request '.x_bytes > 4194000'
}
endless_line() { breaks_the_channel 'longer than 4194304 bytes' <<<'begin(); [raw(b"x" * 65536) for i in range(100000)]'; }
call_before_task() {
        breaks_the_channel "sent 'tool_call' before it had a task" <<<'send("tool_call", {"name":"mcp__tools__deploy","input":{}}, "1"); recv()'
}
bad_hello() { breaks_the_channel 'malformed hello' <<<'send("hello", {"protocol": "x"}); recv()'; }
late_hello() { breaks_the_channel 'late hello' <<<'begin(); hello(); recv()'; }
no_id() { breaks_the_channel 'it has no id' <<<'begin(); send("tool_call", {"name":"mcp__tools__deploy","input":{}}); recv()'; }
odd_result() { breaks_the_channel 'no object' <<<'begin(); send("result", [1])'; }
no_result() { breaks_the_channel 'runner exited without sending result envelope' <<<'begin(); sys.stderr.write("why\n"); sys.exit(7)'; }
says_why_it_ended() {
        no_result
        has "$(cat err)" "exit code 7: 'why"
}
never_started() {
        mv "$T/libexec/cofferdam-runner" "$T/libexec/away"
        printf '#!/no/such/interpreter\n' >"$T/libexec/cofferdam-runner"
        chmod 755 "$T/libexec/cofferdam-runner"
        trap 'mv -f "$T/libexec/away" "$T/libexec/cofferdam-runner"' EXIT
        task
        ends 125
        has "$(cat err)" "execute '/run/cofferdam/runner'"
        rm "$T/libexec/cofferdam-runner"
        ends 125
        has "$(cat err)" 'not installed'
}

# An id is used once; what is the launcher's to say, or of a later version, is left out.
odd_lines_come_to_nothing() {
        deploy
        task '.allowed_tools = ["mcp__tools__deploy", "todo_write"]'
        script <<'E'
begin()
for kind in ('tool_result', 'task', 'permission_policy', 'session_replay', 'ask_user_answer', 'of_a_later_version', 'RESULT', 'tool_call '):
    send(kind, {'name': 'mcp__tools__deploy', 'input': {}, 'output': 'x'}, 'odd')
raw(b'\n\n{"type":"x","more":[{}],"id":"y"}\n')
assert 'output' in ask('one', 'todo_write', {'todos': []})
assert 'used before' in ask('one', 'mcp__tools__deploy')['error']
send('event', {'type': 'sandbox_finished', 'payload': {'exit_code': 0}})
send('event', {'type': 'llm_retry', 'payload': 'no object'})
send('event', 'no object')
send('event')
result(output=1)
send('tool_call', {'name': 'mcp__tools__deploy', 'input': {}}, 'late')
E
        ends 0 --operator "$T/agent.json"
        out '.ignored_envelopes == 9 and .refused_calls == 1 and .dropped_events == 4'
        not_called
        eq 1 "$(grep -c '"type":"sandbox_finished"' events)" 'the end is said once, by the supervisor'
}

# It wants many answers and reads none; and it floods. Both end.
# It closes its input and goes on: what it says from then on is not carried out, but its result counts.
does_not_read() {
        deploy
        task '.allowed_tools = ["mcp__tools__deploy", "todo_write"]'
        script <<'E'
begin()
for i in range(20000):
    send('tool_call', {'name': 'todo_write', 'input': {'todos': []}}, f'c{i}')
import os
os.close(0)
send('tool_call', {'name': 'todo_write', 'input': {'todos': []}}, 'unheard')
for i in range(20):
    send('tool_call', {'name': 'mcp__tools__deploy', 'input': {}}, f'd{i}')
result(output=1)
E
        ends 0 --operator "$T/agent.json"
        out '.output == 1 and .refused_calls >= 20'
        not_called
}
# It asks on and on and reads nothing, and does not end either.
never_reads() {
        [ -n "${COFFERDAM_LONG:-}" ] || skip 'opt-in: COFFERDAM_LONG=1 waits for the minute that a runner may be silent'
        task
        script <<'E'
begin()
for i in range(20000):
    send('tool_call', {'name': 'todo_write', 'input': {'todos': []}}, f'c{i}')
import time
time.sleep(300)
E
        status 125 timeout 120 "$C" launch --task "$T/task.json" >out 2>err
        has "$(cat err)" 'the peer took nothing for 60 s'
}
floods_with_refusals() {
        task
        script <<'E'
begin()
for i in range(3000):
    send('tool_call', {'name': 'bash', 'input': {'command': 'x' * 1000}}, f'c{i}')
for i in range(3000):
    until('tool_result')
result(output=1)
E
        ends 0
        out '.refused_calls == 3000'
        eq 3000 "$(grep -c '"type":"tool_refused"' events)" events
}

# The runner ends, but somebody inside holds its output open.
left_holder() {
        task
        script <<'E'
import os
begin()
if os.fork() == 0:
    os.setsid()
    import time
    time.sleep(300)
os._exit(3)
E
        ends 125
        has "$(cat err)" 'exit code 3'
        wait_for 60 none_of_ours || fail 'something is left'
}
stays_after_its_result() {
        task
        script <<<'begin(); result(output=1); import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(300)'
        ends 0
        out '.output == 1'
        has "$(cat err)" 'did not end after its result'
}
signal_ends_it() {
        task
        script <<<'begin(); open("here", "w").close(); import time; time.sleep(300)'
        "$C" launch --task "$T/task.json" >out 2>err &
        wait_for 60 test -e here
        kill -TERM $!
        status 143 wait $!
        wait_for 60 none_of_ours
}
run_ends_under_it() {
        task
        script <<<'begin(); open("here", "w").close(); import time; time.sleep(300)'
        ends 124 --timeout 2s
        has "$(cat err)" 'timeout'
}
error_is_status_1() {
        task
        script <<<'begin(); result(error="the model said no", exit_code=1); sys.exit(1)'
        ends 1
        out '.status == "failed" and .error == "the model said no"'
}

# What the launcher saw stands over what the runner says of itself.
report_is_the_launchers() {
        task
        script <<<'begin(); ask("1", "bash"); result(output=1, status="done!", run_id="x", refused_calls=0, usage={}, question="?", failure_code="X")'
        ends 0
        out '.status == "done" and .refused_calls == 1 and .usage.steps == 0 and (.run_id | length) == 12'
}

# ---- programs ----

calls_a_program() {
        deploy 'printf "%s\n" "$@" "$(pwd)" "${SECRET_OF_CALLER-none}" "$MORE" "$(ls /proc/self/fd | tr "\n" " ")" >'"$T/seen"'
read -r line; printf "{\"output\":%s}" "$line"'
        jq '.tools.deploy.env = {MORE: "so"}' "$T/agent.json" >a && cat a >"$T/agent.json"
        task '.allowed_tools = ["mcp__tools__*"]'
        script <<<'begin(); result(output=json.loads(ask("1", "mcp__tools__deploy", {"a": ["\u00e9", "$(id)", "\u0027; id"]})["output"]))'
        SECRET_OF_CALLER=x ends 0 --operator "$T/agent.json"
        out '.output.tool == "deploy" and .output.input.a == ["é", "$(id)", "'"'"'; id"] and .output.node_id == "n1" and .output.run_id == .run_id'
        eq "word / none so 0 1 2 3" "$(tr '\n' ' ' <"$T/seen" | sed 's/ *$//')" 'what it had'
}
program_fails() { # TEXT BODY
        deploy "$2" "${3:-}"
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<<'begin(); result(output=ask("1", "mcp__tools__deploy")["error"])'
        ends 0 --operator "$T/agent.json"
        has "$(jq -r .output out)" "$1"
        wait_for 60 none_live "$T/programs/deploy"
}
program_that_fails() { program_fails 'exit code 3: no luck' 'echo no luck >&2; exit 3'; }
program_that_says_so() { program_fails 'no such stage' 'echo "{\"error\":\"no such stage\"}"'; }
program_that_babbles() { program_fails 'did not write' 'echo done'; }
program_of_two_minds() { program_fails 'did not write' 'echo "{\"error\":\"x\",\"output\":\"y\"}"'; }
program_that_sleeps() { program_fails 'within 3000 ms and was killed' 'sh -c "sleep 300; :" "$0"-child & sleep 300' 3000; }
program_that_floods() { program_fails 'more than 4194304 bytes' 'cat /dev/zero'; }
program_that_dies() { program_fails 'killed by signal 6' 'kill -ABRT $$'; }

program_of_others() {
        deploy
        chmod o+w "$T/programs/deploy"
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<<'begin(); result(output=1)'
        ends 125 --operator "$T/agent.json"
        has "$(cat err)" 'others can change it'
        chmod o-w "$T/programs/deploy"
        cp "$T/programs/deploy" "$W/deploy"
        jq '.tools.deploy.command[0] = "'"$W/deploy"'"' "$T/agent.json" >a && cat a >"$T/agent.json"
        ends 125 --operator "$T/agent.json"
        has "$(cat err)" 'lies in the workspace'
        ln -s "$W/deploy" "$T/link"
        jq '.tools.deploy.command[0] = "'"$T/link"'"' "$T/agent.json" >a && cat a >"$T/agent.json"
        ends 125 --operator "$T/agent.json"
        has "$(cat err)" 'lies in the workspace'
        deploy # red without the mounts in note_mounts()
        ends 125 --operator "$T/agent.json" --mount "type=bind,source=$T/programs,target=/programs"
        has "$(cat err)" "writes to ('$T/programs')"
        not_called
        chmod o+w "$T/agent.json"
        ends 125 --operator "$T/agent.json"
        has "$(cat err)" 'others can write to it'
        deploy
        mv "$T/agent.json" "$W/agent.json"
        ends 125 --operator "$W/agent.json"
        has "$(cat err)" 'lies in the workspace'
}

# ---- questions ----

asks_and_goes_on() {
        task
        script <<'E'
t = begin()
if 'resume_answer' in t:
    result(output=[t['resume_conversation'], t['resume_pending_tool_use_id'], t['resume_answer']])
else:
    answer = ask('1', 'ask_user', {'question': 'Merge?', 'options': [{'label': 'yes'}], 'allow_free_text': False})
    assert answer == {'ask_user': {'question': 'Merge?', 'options': [{'label': 'yes'}], 'allow_free_text': False}}, answer
    assert 'waits' in ask('2', 'todo_write', {'todos': []})['error']
    result(pending_conversation=[{'role': 'user', 'content': 'c' * 2000000}], pending_tool_use_id='tu_7')
E
        ends 3
        cp out asked
        out '.question == {question: "Merge?", options: [{label: "yes"}], allow_free_text: false}'
        event ask_user '.question_bytes == 6'
        ends 0 --resume asked --answer yes
        out '.output[1] == "tu_7" and .output[2] == "yes" and (.output[0][0].content | length) == 2000000'
        ends 2 --resume asked
        has "$(cat err)" '--answer'
        ends 2 --answer yes
        ends 2 --resume "$T/task.json" --answer yes
}
asks_later() {
        task '.allowed_tools = ["ask_user_async", "await_answers"]'
        script <<'E'
begin()
assert ask('1', 'ask_user_async', {'question': 'A?'}) == {'output': 'question-1'}
assert ask('2', 'ask_user_async', {'question': 'B?'}) == {'output': 'question-2'}
q = ask('3', 'await_answers')['ask_user']
assert q['question'] == 'question-1: A?\nquestion-2: B?', q
result(pending_conversation=[], pending_tool_use_id='tu_1')
E
        ends 3
        out '.question.questions | length == 2'
}
program_answers() {
        program asker 'read -r line; echo "{\"output\":{\"Which base?\":\"main\"}}"'
        operator '.tools = {ask_user: {description: "d", input_schema: {}, command: ["'"$T/programs/asker"'"]}}'
        task
        script <<'E'
begin()
assert json.loads(ask('1', 'ask_user', {'question': 'x'})['output']) == {'Which base?': 'main'}
send('ask_user', {'questions': [{'question': 'Which base?'}]}, 'ask-1')
result(output=until('ask_user_answer'))
E
        ends 0 --operator "$T/agent.json"
        out '.output.answers["Which base?"] == "main"'
        task '.allowed_tools = ["bash"]' # it was not offered
        script <<<'begin(); send("ask_user", {"questions": []}, "a"); result(output=until("ask_user_answer"))'
        rm "$T/called"
        ends 0 --operator "$T/agent.json"
        out '.output.answers.__error__ | contains("not advertised")'
        not_called
}

# ---- captures ----

keeps_what_is_captured() {
        task
        script <<'E'
begin()
send('session_capture', {'messages': [1]})
send('session_capture', {'messages': [2]})
for size in (2097152 - 2, 2097152 - 1):  # with its quotes: at the limit and one over
    send('event', {'type': 'llm_turn_capture', 'payload': {'turn': 1, 'snapshot': 'x' * size}})
result(output=1)
E
        ends 0 --session kept
        eq '{"messages":[2]}' "$(cat kept/session.json)" session
        eq 2097152 "$(stat -c %s kept/turn-1.json)" turn
        eq $'kept/session.json\nkept/turn-1.json' "$(find kept -type f | sort)" files
        out '.dropped_events == 1'
        event llm_turn_capture '.snapshot_bytes == 2097153'
        event session_captured '.kept and .bytes == 16'
        # without --session nobody wants them, and nothing is missing
        ends 0
        out '.dropped_events == 0'
        event session_captured '.kept == false'
}

# A text of 1 MiB goes through whole; one byte more is cut and says so.
clamps_answers() {
        deploy 'python3 -c "import json, sys; n = json.loads(sys.stdin.readline())[\"input\"][\"n\"]; print(json.dumps({\"output\": \"x\" * n}))"'
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<'E'
begin()
whole, cut = [ask(str(n), 'mcp__tools__deploy', {'n': n})['output'] for n in (1048576, 1048577)]
assert whole == 'x' * 1048576
assert cut == 'x' * 1048576 + '\n[1 bytes cut]'
result(output=1)
E
        ends 0 --operator "$T/agent.json"
}
answer_that_fits_no_line() { # each of its bytes takes six
        deploy 'python3 -c "import json; print(json.dumps({\"output\": chr(1) * 699040}))"'
        task '.allowed_tools = ["mcp__tools__deploy"]'
        script <<<'begin(); result(output=ask("i" * 120, "mcp__tools__deploy"))'
        ends 0 --operator "$T/agent.json"
        out '.output.error | contains("does not fit a line")'
}

# ---- what cannot be offered ----

refuses_to_offer() { # NAME TEXT
        task '.allowed_tools = ["'"$1"'"]'
        script <<<'begin(); result(output=1)'
        ends 125 --json
        has "$(cat err)" '"failure_code":"CAPABILITY_UNSUPPORTED"'
        has "$(cat err)" "$2"
}
not_in_the_runner() { # what the launcher has no say in is not executed by it instead
        task '.allowed_tools = ["write_file"]'
        script <<<'begin(); result(output=1)'
        ends 125
        has "$(cat err)" "tool 'write_file' is not in the runner"
}
async_node() {
        task '.interaction = "async"'
        ends 125
        has "$(cat err)" 'async'
}
bad_files() {
        local bad
        script <<<'begin(); result(output=1)'
        for bad in '.version = 2' 'del(.node_id)' '.tool_defs = []' '.node_id = 7' '.unknown = 1' '.allowed_tools = "bash"' '.allowed_tools = [1]' \
                '.permission = {rules: ["bash"]}' '.mcp_servers = {a: {}}' '.mcp_servers = {a: {command: "x", url: "y"}}' '.mcp_servers = {"a__b": {command: "x"}}' \
                '.mcp_servers = {a: {command: "x", origin: "plugin"}}' '.max_tokens = -1'; do
                task "$bad"
                status_in '2 125' ends_any
                [ -s err ] || fail "$bad is taken"
        done
        task
        printf '{"version":1,"version":1,"node_id":"x"}' >"$T/task.json"
        ends 2
        has "$(cat err)" 'duplicate'
        ends 2 --task "$T/none"
        task
        for bad in '.tools = {bash: {description: "", input_schema: {}, command: ["/bin/true"]}}' '.tools = {lsp: {description: "", input_schema: {}, command: ["/bin/true"]}}' \
                '.tools = {x: {description: "", input_schema: {}, command: []}}' '.tools = {x: {command: ["/bin/true"]}}' '.mcp_servers = {tools: {command: ["/bin/true"]}}' '.x = 1'; do
                operator "$bad"
                ends 2 --operator "$T/agent.json"
        done
        # a server over HTTP would be asked by the launcher itself, which cannot
        operator '.mcp_servers = {web: {url: "https://mcp.example.org/"}}'
        ends 125 --operator "$T/agent.json" --json
        has "$(cat err)" CAPABILITY_UNSUPPORTED
        has "$(cat err)" "'web': url"
}
ends_any() { launch >out 2>err; }
status_in() { # 'A B' CMD: one of the two
        local rc=0 want
        "${@:2}" || rc=$?
        for want in $1; do [ "$rc" != "$want" ] || return 0; done
        fail "status $rc, not one of $1"
}

# Commands of noop are on the host: so is the runner, and what it asks for is decided all the same.
on_the_host() {
        task '.allowed_tools = ["todo_write"]'
        script <<'E'
begin()
result(output=[ask('1', 'todo_write', {'todos': []}), ask('2', 'bash')])
E
        ends 0 -d noop
        out '.output[0].output == "the list is replaced" and .refused_calls == 1'
        event tool_refused '.tool == "bash"'
}

t 'driver noop' on_the_host
t 'a task from end to end: policy, task, calls, events, meter, result' does_a_task
t 'options of run: variables, a copy-on-write workspace, diff' runs_with_the_options_of_run
t 'joins a run that lives, and leaves it' joins_a_run
t 'protocol 1, byte for byte' speaks_protocol_1
t 'names that are near, placed elsewhere or not offered: refused, logged, written down, answered' refuses_what_is_near
t 'rules of operator and task, under each name of a tool' policy_denies
t 'plan mode' plan_mode_stops_what_changes
t 'hostile: a line that is no JSON' no_json
t 'hostile: a line that is cut off' cut_line
t 'hostile: no UTF-8' no_utf8
t 'hostile: a key twice' two_keys
t 'hostile: nested too deep' too_deep
t 'hostile: 4 MiB are a line, one byte more is none' one_byte_more
t 'hostile: a line without an end' endless_line
t 'hostile: a call before the task' call_before_task
t 'hostile: a hello that is none' bad_hello
t 'hostile: a second hello' late_hello
t 'hostile: a call without an id' no_id
t 'hostile: a result that is no object' odd_result
t 'no result: exit code and the end of its stderr' says_why_it_ended
t 'no runner' never_started
t 'unknown types, those of the launcher, an id twice, odd events, a late call: nothing happens' odd_lines_come_to_nothing
t 'a runner that does not read its answers' does_not_read
t 'a runner that never reads its answers' never_reads
t 'a flood of calls that are refused' floods_with_refusals
t 'the runner ends, its child holds the stream' left_holder
t 'the runner stays after its result' stays_after_its_result
t 'SIGTERM ends the task' signal_ends_it
t 'the time of the run is over' run_ends_under_it
t 'an error of the runner is status 1' error_is_status_1
t 'the report is the launcher'"'"'s' report_is_the_launchers
t 'a program: one request, one answer, no shell, nothing inherited' calls_a_program
t 'a program that fails' program_that_fails
t 'a program that says why not' program_that_says_so
t 'a program that writes no JSON' program_that_babbles
t 'a program that says two things' program_of_two_minds
t 'a program that does not end, and its children' program_that_sleeps
t 'a program that floods' program_that_floods
t 'a program that is killed' program_that_dies
t 'a program or file that others can change, or in the workspace' program_of_others
t 'a question, and on with the answer' asks_and_goes_on
t 'questions that are put aside' asks_later
t 'a program that answers questions' program_answers
t 'captures are kept, turns up to 2 MiB' keeps_what_is_captured
t 'answers of 1 MiB and one more' clamps_answers
t 'an answer that fits no line' answer_that_fits_no_line
for name in lsp screenshot computer_use worker_create image_gen Bash 'bash ' mcp_bash mcp__nobody__x; do
        t "not offered: '$name'" refuses_to_offer "$name" "tool '$name'"
done
t 'not offered: the launcher'"'"'s, without a program' refuses_to_offer web_search 'no program of the operator'
t 'not offered: what the runner does not have' not_in_the_runner
t 'not offered: an asynchronous node' async_node
t 'mistakes in the files' bad_files
finish
