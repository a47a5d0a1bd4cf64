#!/usr/bin/env bash
# A task from end to end with the real runner: the model's server speaks TLS and is reached through the relay of the run,
# which puts the credential in; tools run where they belong; what was counted is what the server counted
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# shellcheck source=tests/integration/launch-lib.sh
. "$(dirname "$0")/launch-lib.sh"

words() {
        model '[{text: "all done"}]'
        task
        ends 0
        out '.status == "done" and (.output | tostring | contains("all done")) and .protocol == 2 and .backend_name == "cofferdam"'
        metered
        event llm_request '.said_by == "runner"'
        event llm_step_finished '.output_tokens == 5'
}

# Two tools at once and thinking between: one inside, one of the launcher, one that the runner must not have.
tools() {
        model '[{blocks: [{type: "thinking", thinking: "hm", signature: "sig"}, {type: "tool_use", id: "tu_1", name: "bash", input: {command: "echo made >made; pwd; echo $ANTHROPIC_API_KEY"}},
                        {type: "tool_use", id: "tu_2", name: "todo_write", input: {todos: [{a: 1}]}}], usage: {input_tokens: 11, output_tokens: 7, cache_read_input_tokens: 3, cache_creation_input_tokens: 2}},
                {blocks: [{type: "tool_use", id: "tu_3", name: "read_file", input: {path: "made"}}, {type: "tool_use", id: "tu_4", name: "mcp__nobody__x", input: {}}]}, {text: "seen"}]'
        task
        ends 0
        metered
        eq made "$(cat made)" 'what bash wrote into the workspace'
        asked '.[1] | tostring | contains("the list is replaced") and contains("sig")'
        asked '.[2] | tostring | contains("made")'
        event tool_called '.tool == "bash"'
        event tool_called '.tool == "todo_write"'
        out '.usage.steps == 3'
}

# 429 with retry-after, 529, a stream that is cut: tried again, and each counted once.
weather() {
        model '[{status: 429, retry_after: 1, error: {type: "rate_limit_error", message: "slow"}}, {status: 529, error: {type: "overloaded_error", message: "later"}},
                {text: "cut off", cut: 3}, {text: "through"}]'
        task
        ends 0
        out '.output | tostring | contains("through")'
        event llm_retry '.status == 429'
        event llm_retry '.status == 529'
}

overflow() {
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "bash", input: {command: "head -c 60000 /dev/zero | tr \"\\\\0\" x"}}]}, {text: "short again"}, {text: "through"}]' --context 40000
        task
        ends 0
        event llm_compacted '.said_by == "runner"'
}

asks() {
        model '[{blocks: [{type: "tool_use", id: "tu_7", name: "ask_user", input: {question: "Merge?"}}]}, {text: "merged"}]'
        task '.allowed_tools = ["ask_user"]'
        ends 3
        out '.question.question == "Merge?" and .pending_tool_use_id == "tu_7"'
        cp out asked
        ends 0 --resume asked --answer 'yes, merge'
        out '.output | tostring | contains("merged")'
        asked 'last | tostring | contains("yes, merge")'
}

sessions() {
        model '[{text: "one"}, {text: "two"}]'
        task
        ends 0 --session kept
        [ -s kept/session.json ] || fail "no session: $(ls kept)"
        ends 0 --replay kept/session.json
        asked 'last | tostring | contains("one")'
}

# A server of the workflow runs inside, where it sees the sandbox; the launcher starts nothing.
server_inside() {
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "mcp__mine__echo", input: {a: 1}}]}, {text: "done"}]'
        cp "$T/mcp-server" server
        task '.allowed_tools = ["mcp__mine__*"] | .mcp_servers = {mine: {command: "/usr/bin/python3", args: ["'"$W"'/server", "good"], env: {MCP_NOTE: "'"$W"'/noted"}}}'
        ends 0
        [ -s noted ] || fail "it was not started: $(cat err)"
        asked 'last | tostring | contains("\\\"got\\\"") or contains("got")'
}

operator_server() {
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "mcp__board__echo", input: {a: 1}}]}, {text: "done"}]'
        task '.allowed_tools = ["mcp__board__echo"]'
        jq -n '{version: 1, mcp_servers: {board: {command: ["'"$T/mcp-server"'", "good"]}}}' >"$T/agent.json"
        ends 0 --operator "$T/agent.json"
        asked 'last | tostring | contains("got")'
}

# Rules of the node hold inside too, where the runner looks at them.
rules_inside() {
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "bash", input: {command: "rm made"}}]}, {text: "done"}]'
        : >made
        task '.permission = {rules: ["deny: bash(rm *)"]}'
        ends 0
        [ -e made ] || fail 'it was done'
}

# Case 21: the bytes of a command, whatever they are, cross the protocol in lines that are JSON.
protocol_lines() {
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "bash", input: {command: "sh ./gen.sh"}}]}, {text: "done"}]'
        cat >gen.sh <<'E'
printf 'caf\303'; sleep 0.3; printf '\251 \360\237'; sleep 0.3; printf '\230\200\n'
printf 'nul\000 bad\377\376 cr\r esc\033[0m \342\200\250 end\n'
E
        task
        ends 0
        asked 'last | tostring | contains("café 😀") and contains("end")'
}

t 'a task in words: TLS, the relay, the meter' words
t 'tools inside and of the launcher, in parallel, with thinking and cache' tools
t '429, 529, a stream that is cut' weather
t 'a context that overflows is made shorter' overflow
t 'a question, and on with the answer' asks
t 'a session is kept and replayed' sessions
t 'a server of the workflow runs inside' server_inside
t 'a server of the operator runs outside' operator_server
t 'rules hold inside' rules_inside
t 'bytes of a command cross the protocol' protocol_lines
finish
