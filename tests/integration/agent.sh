#!/usr/bin/env bash
# The agent pair from end to end: launcher, sandbox, runner, the run's own relay, and a model's server under TLS.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
for program in python3 openssl jq; do
        command -v "$program" >/dev/null || {
                echo "1..0 # SKIP no $program on this machine"
                exit 0
        }
done
[ -x "$T/libexec/cofferdam-auth-proxy" ] || {
        echo '1..0 # SKIP the auth proxy is not built'
        exit 0
}
mcp=${COFFERDAM_SERVERS-$TOP/build/servers}/mcp

# --- the model's server, ended by its pid ---
model=
end_model() { [ -z "$model" ] || kill "$model" 2>/dev/null || true; }
trap 'end_model; clean' EXIT
trap 'echo "Bail out! killed"; end_model; clean; exit 143' INT TERM HUP
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=model.example.org \
        -addext 'subjectAltName=DNS:model.example.org' -keyout "$T/key.pem" -out "$T/cert.pem" 2>/dev/null
secret=sk-ant-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')

# model SCRIPT [OPTION...]: what it answers, as messages-api.py takes it
model() {
        mkdir -p "$W/api" "$W/work"
        printf '%s' "$1" >"$W/api/script.json"
        shift
        python3 "$here/messages-api.py" "$W/api" --tls "$T/cert.pem" "$T/key.pem" "$@" &
        model=$!
        trap end_model EXIT
        wait_for 60 test -s "$W/api/port" || fail 'no server'
        printf 'auth_proxy: {options: "--ca-file %s --upstream https://model.example.org --allow-address 127.0.0.0/8 --route model.example.org=127.0.0.1:%s"}\n' \
                "$T/cert.pem" "$(cat "$W/api/port")" >"$W/proxy.yaml"
}

# launch TASK [OPTION...]: the result is in $W/result, the events in $W/events
launch() {
        local task=$1
        shift
        printf '%s' "$task" >"$W/task.json"
        ANTHROPIC_API_KEY=$secret timeout -k 5 100 "$C" launch --task "$W/task.json" --spec "$W/proxy.yaml" --model-auth proxied \
                --network none -w "$W/work" --events "$W/events" "$@" >"$W/result" 2>"$W/err"
}
ok() { launch "$@" || fail "launch: $? $(cat "$W/err" "$W/result")"; }
answers() { jq -c '.body.messages[-1].content[] | select(.type == "tool_result") | .content' "$W/api/requests.jsonl"; }

# what was counted by the server is in the events, and in the result
metered() {
        local name
        for name in input_tokens output_tokens cache_creation_input_tokens cache_read_input_tokens; do
                eq "$(jq ".$name" "$W/api/counts.json")" \
                        "$(jq -s "[.. | objects | select(.stop_reason? != null) | .$name // 0] | add" "$W/events")" "$name"
        done
        eq "$(jq '[.input_tokens, .output_tokens, .cache_creation_input_tokens, .cache_read_input_tokens] | add' "$W/api/counts.json")" \
                "$(jq .tokens "$W/result")" tokens
}

whole_task() {
        model '[{"blocks": [{"type": "thinking", "thinking": "hm", "signature": "s=="},
                  {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "echo made >made; pwd; env | grep -c ANTHROPIC_AUTH_TOKEN"}},
                  {"type": "tool_use", "id": "b", "name": "todo_write", "input": {"todos": [{"content": "x", "status": "pending"}]}},
                  {"type": "tool_use", "id": "c", "name": "read_file", "input": {"path": "there"}}],
                 "usage": {"input_tokens": 100, "output_tokens": 50, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 20}},
                {"status": 429, "retry_after": 1, "error": {"type": "rate_limit_error", "message": "slow"}},
                {"status": 529, "error": {"type": "overloaded_error", "message": "busy"}},
                {"text": "cut", "cut": 4},
                {"text": "all done", "usage": {"input_tokens": 7, "output_tokens": 3}}]'
        echo 'what is there' >work/there
        ok '{"version": 1, "node_id": "n", "model": "m", "user_prompt": "go", "allowed_tools": ["bash", "todo_write", "read_file"]}'
        eq 'all done' "$(jq -r .output.text result)"
        eq made "$(cat work/made)" 'what bash made'
        has "$(answers | head -n 1)" "$W/work\\n0" 'directory, and no credential in tools'
        has "$(answers)" 'what is there'
        eq '"s=="' "$(jq -c '.body.messages[1].content[0].signature' api/requests.jsonl | tail -n 1)" 'signature'
        eq "$secret" "$(jq -r '.headers["x-api-key"]' api/requests.jsonl | sort -u)" 'the credential that the relay put in'
        ! grep -q "$secret" events result err || fail 'the credential is in what was written'
        metered
}

overflows() {
        model "[$(for i in 1 2 3 4; do printf '{"blocks": [{"type": "tool_use", "id": "t%s", "name": "bash", "input": {"command": "head -c 12000 /dev/zero | tr \\"\\\\0\\" x"}}]},' $i; done)
                {\"text\": \"a summary\"}, {\"text\": \"end\"}]" --context 42000
        ok '{"version": 1, "node_id": "n", "model": "m", "user_prompt": "go", "allowed_tools": ["bash"], "compact_preserve_recent": 2}'
        eq end "$(jq -r .output.text result)"
        grep -q llm_compacted events || fail 'no compaction'
        metered
}

pauses() {
        model '[{"blocks": [{"type": "tool_use", "id": "q", "name": "ask_user", "input": {"question": "Merge?"}}]}, {"text": "merged"}]'
        local task='{"version": 1, "node_id": "n", "model": "m", "user_prompt": "go", "allowed_tools": ["ask_user"]}'
        status 3 launch "$task"
        cp result asked
        eq q "$(jq -r .pending_tool_use_id asked)"
        ok "$task" --resume asked --answer yes
        eq merged "$(jq -r .output.text result)"
        eq '"yes"' "$(answers)" 'the answer'
}

lies_within() {
        # bash inside can say what it likes on the runner's descriptors: it has none of them
        model '[{"blocks": [{"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "for f in /proc/self/fd/*; do readlink $f; done; ls -l /proc/$PPID/fd >/dev/null && echo sees"}}]}]'
        ok '{"version": 1, "node_id": "n", "model": "m", "user_prompt": "go", "allowed_tools": ["bash"]}'
        lacks "$(answers)" 'socket' 'descriptors of a command'
}

server_inside() {
        need_command node
        [ -e "$mcp/node_modules/.package-lock.json" ] || skip 'offline: ./dev setup fetches the servers'
        model '[{"blocks": [{"type": "tool_use", "id": "a", "name": "mcp__fs__write_file", "input": {"path": "'"$W"'/work/w", "content": "by the server"}}]},
                {"blocks": [{"type": "tool_use", "id": "b", "name": "mcp__fs__read_text_file", "input": {"path": "/etc/passwd"}}]}, {"text": "end"}]'
        ok '{"version": 1, "node_id": "n", "model": "m", "user_prompt": "go", "allowed_tools": ["mcp.fs.*"],
             "mcp_servers": {"fs": {"command": "node", "args": ["/srv/mcp/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", "'"$W/work"'"]},
                             "dead": {"command": "/no/such/program"}}}' \
                --mount "type=bind,source=$mcp,target=/srv/mcp,readonly"
        eq 'by the server' "$(cat work/w)"
        lacks "$(answers)" root:
        grep -q mcp_server_degraded events || fail 'the dead one is not told of'
}

# A tool of the launcher: what it takes over its own time. Measured, not judged here: figures are for docs/benchmarks.md.
round_trip() {
        local uses
        uses=$(for i in $(seq 1 100); do printf '{"type": "tool_use", "id": "t%s", "name": "todo_write", "input": {"todos": []}},' "$i"; done)
        model "[{\"blocks\": [${uses%,}]}]"
        ok '{"version": 1, "node_id": "n", "model": "m", "user_prompt": "go", "allowed_tools": ["todo_write"]}'
        eq 100 "$(answers | wc -l)"
}

# red when the runner asks api.anthropic.com all the same, which it can reach for nothing here
without_a_credential() {
        mkdir -p work
        printf '{"version":1,"node_id":"n","user_prompt":"go","model":"m","allowed_tools":["bash"]}' >task.json
        status 1 timeout -k 5 60 env -u ANTHROPIC_API_KEY "$C" launch --task task.json -w "$W/work" >result
        has "$(jq -r .error result)" 'launch with --model-auth proxied'
}
t 'no credential and no server is said at once' without_a_credential
t 'a task: tools here and there, retries, a cut stream, metering' whole_task
t 'a conversation that gets too long' overflows
t 'a question, and on with its answer' pauses
t 'what a command inside sees of the runner' lies_within
t 'a server of the workflow runs inside, without network' server_inside
t 'a hundred tools of the launcher in one turn' round_trip
finish
