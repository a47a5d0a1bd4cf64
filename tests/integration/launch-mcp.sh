#!/usr/bin/env bash
# A server is a process, and who brought it decides where it runs: the launcher starts the operator's and no other
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p "$T/libexec" "$T/programs"
install -m 755 "$here/launch-runner.py" "$T/libexec/cofferdam-runner"
install -m 755 "$here/mcp-server.py" "$T/programs/server"

task() { jq -n '{version: 1, node_id: "n1", user_prompt: "p", allowed_tools: ["mcp__board__*"]} | '"${1:-.}" >"$T/task.json"; }
# servers MODE [JQ]: the operator has the server "board" that behaves so
servers() {
        local limit=60000 # for what is not about it
        [[ $1 != mute* ]] || limit=3000
        jq -n '{version: 1, mcp_servers: {board: {command: ["'"$T/programs/server"'", "'"$1"'"], env: {MCP_NOTE: "'"$T/noted"'"}, timeout_ms: '"$limit"'}}} | '"${2:-.}" \
                >"$T/agent.json"
        chmod 600 "$T/agent.json"
        rm -f "$T/noted"
}
script() { cat >script.py; }
ends() {
        local want=$1
        shift
        : >events
        status "$want" timeout 200 "$C" launch --task "$T/task.json" --operator "$T/agent.json" --events "$W/events" "$@" >out 2>err || {
                cat out err
                return 1
        }
        wait_for 60 none_live "$T/programs/server"
}
out() { jq -e "$1" out >/dev/null || fail "not so: $1: $(cat out)"; }
event() { jq -se "any(.[]; .type == \"$1\" and (.data | $2))" events >/dev/null || fail "no event $1 with $2: $(grep "$1" events)"; }
not_started() { [ ! -e "$T/noted" ] || fail "a server was started: $(cat "$T/noted")"; }

serves_tools() {
        local mode=$1
        servers "$mode"
        task
        script <<'E'
t = begin()
assert [d['name'] for d in t['tool_defs']] == ['mcp__board__echo', 'mcp__board__fail', 'mcp__board__secret'], t
assert 'mcp_servers' not in t
answer = ask('1', 'mcp__board__echo', {'a': 1})['output']
first, second = answer.split('\n')
first = json.loads(first)
assert first['got'] == {'a': 1} and json.loads(second)['type'] == 'image'
assert ask('2', 'mcp__board__fail') == {'error': 'it failed'}
first = json.loads(ask('3', 'mcp__board__echo')['output'].split('\n')[0])  # what it had asked was answered
assert first['ping']['result'] == {} and first['other']['error']['code'] == -32601
for name in ('mcp.board.echo', 'mcp_board_echo', 'mcp__board__other', 'echo', 'mcp__boar__d__echo'):
    assert 'not advertised' in ask('n' + name, name)['error']
result(output=1)
E
        ends 0
        eq 1 "$(wc -l <"$T/noted")" 'how often it was started'
        eq / "$(cut -d' ' -f1 "$T/noted")" 'where it was started'
}

# The names of a task in each spelling; what is denied is not offered.
offers_what_is_named() {
        local name
        servers good
        script <<<'t = begin(); result(output=[d["name"] for d in t["tool_defs"]])'
        for name in mcp__board__echo mcp.board.echo mcp_board_echo 'mcp.board.ech*'; do
                task '.allowed_tools = ["'"$name"'"]'
                ends 0
                out '.output == ["mcp__board__echo"]'
        done
        task '.tool_policy = {rules: ["deny: mcp.board.secret", "deny: mcp__board__f*"]}'
        ends 0
        out '.output == ["mcp__board__echo"]'
        task '.allowed_tools = ["mcp__board__nothing"]'
        ends 125
        has "$(cat err)" 'not among the tools of its server'
        task '.allowed_tools = ["mcp__other__*"]'
        ends 125 --json
        has "$(cat err)" CAPABILITY_UNSUPPORTED
}

starts_none_that_is_not_named() {
        servers good
        task '.allowed_tools = ["bash"]'
        script <<<'begin(); result(output=1)'
        ends 0
        not_started
}

serves_resources() {
        servers good
        task '.allowed_tools += ["list_mcp_resources", "read_mcp_resource"]'
        script <<'E'
begin()
assert json.loads(ask('1', 'list_mcp_resources', {'server': 'board'})['output'])['resources'][0]['uri'] == 'test://a'
assert 'content of a' in ask('2', 'read_mcp_resource', {'server': 'board', 'uri': 'test://a'})['output']
assert 'no such resource' in ask('3', 'read_mcp_resource', {'server': 'board', 'uri': 'file:///etc/shadow'})['error']
assert 'none of this node' in ask('4', 'list_mcp_resources', {'server': 'other'})['error']
assert 'none of this node' in ask('5', 'list_mcp_resources', {})['error']
assert 'none of this node' in ask('6', 'list_mcp_resources', {'server': 7})['error']
assert 'want a text' in ask('7', 'read_mcp_resource', {'server': 'board'})['error']
result(output=1)
E
        ends 0
}

fails_to_start() { # MODE TEXT
        servers "$1"
        task
        script <<<'begin(); result(output=1)'
        ends 125
        has "$(cat err)" "$2"
}
fails_later() { # MODE TEXT: an error each time, at once the second time
        servers "$1"
        task
        script <<'E'
begin()
import time
first = ask('1', 'mcp__board__echo')['error']
at = time.time()
second = ask('2', 'mcp__board__echo')['error']
assert time.time() - at < 2.9  # the limit is 3 s
result(output=[first, second])
E
        ends 0
        has "$(jq -r '.output[0]' out)" "$2"
        has "$(jq -r '.output[1]' out)" "$2"
}
# A task that ends while a server thinks does not wait for it.
gives_up_with_the_task() {
        servers mute-later '.mcp_servers.board.timeout_ms = 60000'
        task
        script <<<'begin(); send("tool_call", {"name": "mcp__board__echo", "input": {}}, "1"); sys.exit(3)'
        SECONDS=0
        ends 125
        [ "$SECONDS" -lt 55 ] || fail "it took $SECONDS s"
}

# Nothing that lies about makes the launcher start something. Each of the places that tools of this kind read is
# planted with a server; what it would leave behind is looked for. Red when any of them is read.
planted() {
        local config dir
        servers good
        task '.allowed_tools = ["bash"]'
        config='{"version":1,"mcpServers":{"board":{"command":"'"$T/programs/server"'","args":["good"],"env":{"MCP_NOTE":"'"$T/noted"'"}}},
                "mcp_servers":{"board":{"command":["'"$T/programs/server"'","good"],"env":{"MCP_NOTE":"'"$T/noted"'"}}}}'
        mkdir -p home/.config/cofferdam home/.iterion/plugins/p home/.claude .claude .cursor .vscode .cofferdam .iterion/plugins/p plugins/p
        for dir in . home .claude home/.claude .cursor .vscode plugins/p .iterion/plugins/p home/.iterion/plugins/p .cofferdam; do
                for file in .mcp.json mcp.json settings.json plugin.json agent.json .claude.json; do echo "$config" >"$dir/$file"; done
        done
        echo "$config" >home/.config/cofferdam/agent.json
        printf 'MCP_NOTE=%s\nHOME=%s\nXDG_CONFIG_HOME=%s\nITERION_HOME=%s\n' "$T/noted" "$W/home" "$W/home/.config" "$W/home/.iterion" >.env
        script <<'E'
begin()
for i, name in enumerate(['mcp__board__echo', 'mcp.board.echo', 'list_mcp_resources', 'mcp_auth']):
    assert 'error' in ask(str(i), name, {'server': 'board'})
result(output=1)
E
        ends 0
        not_started
        for name in 'mcp__board__*' mcp.board.echo; do
                task '.allowed_tools = ["'"$name"'"]'
                jq -n '{version: 1}' >"$T/agent.json"
                ends 125 --json
                has "$(cat err)" CAPABILITY_UNSUPPORTED
        done
        not_started
        # and a home that the caller's own environment puts into the workspace is no operator's
        : >events
        status 125 env XDG_CONFIG_HOME="$W/home/.config" "$C" launch --task "$T/task.json" >out 2>err
        has "$(cat err)" 'in the workspace'
        status 125 env -u XDG_CONFIG_HOME HOME="$W/home" "$C" launch --task "$T/task.json" --workspace-target /workspace >out 2>err
        has "$(cat err)" 'in the workspace'
        not_started
}

# A server of a task goes inside with the task, or is left out, or refuses the node; it never runs on the host.
of_a_task() {
        local origin
        servers good 'del(.mcp_servers)'
        for origin in workflow project; do
                task '.allowed_tools = ["mcp__mine__*"] | .mcp_servers = {mine: {command: "'"$T/programs/server"'", args: ["good"],
                        env: {MCP_NOTE: "'"$T/noted"'", TOKEN: "t"}, origin: "'$origin'"}, web: {url: "http://x.test/", headers: {A: "b"}}}'
                script <<'E'
t = begin(features=['mcp'])
assert 'error' in ask('1', 'mcp__mine__echo')  # of the runner, not of the launcher
result(output=t['mcp_servers'])
E
                ends 0
                out '.output[0].command == "'"$T/programs/server"'" and .output[0].origin == "'$origin'" and .output[0].transport == "stdio" and
                        .output[0].env.TOKEN == "t"'
                out '.output[1] == {url: "http://x.test/", headers: {A: "b"}, name: "web", origin: "workflow", transport: "http"}'
                script <<<'begin(); result(output=1)'
                ends 125 --json
                has "$(cat err)" CAPABILITY_UNSUPPORTED
                has "$(cat err)" 'inside the sandbox only'
                ends 125 --json --protocol 1
                has "$(cat err)" CAPABILITY_UNSUPPORTED
                task '.allowed_tools = ["bash"] | .mcp_servers = {mine: {command: "'"$T/programs/server"'", env: {MCP_NOTE: "'"$T/noted"'"}, origin: "'$origin'"}}'
                script <<<'t = begin(); result(output="mcp_servers" in t)'
                ends 0
                out '.output == false'
                event mcp_server_degraded '.server == "mine" and .origin == "'$origin'" and .source == "declared"'
        done
        not_started
}
# A task cannot put a server of its own in the place of the operator's.
operator_comes_first() {
        servers good
        task '.mcp_servers = {board: {command: "/bin/sh", args: ["-c", "touch '"$T/noted2"'"]}}'
        script <<<'t = begin(features=["mcp"]); result(output=["mcp_servers" in t, len(t["tool_defs"])])'
        ends 0
        out '.output == [false, 3]'
        event mcp_server_degraded '.server == "board" and .reason == "the operator has a server of this name"'
        [ ! -e "$T/noted2" ] || fail 'the server of the task was started'
}
server_of_others() {
        servers good
        task
        script <<<'begin(); result(output=1)'
        chmod o+w "$T/programs/server"
        ends 125
        chmod o-w "$T/programs/server"
        has "$(cat err)" 'others can change it'
        not_started
}

t 'tools of the operator'"'"'s server, with noise between' serves_tools good
t 'a list of tools in pages' serves_tools pages
t 'spellings, patterns, what is denied or not there' offers_what_is_named
t 'a server that nobody names is not started' starts_none_that_is_not_named
t 'resources' serves_resources
t 'a server that says nothing' fails_to_start mute 'did not answer in time'
t 'a server that ends at once' fails_to_start dies 'it ended'
t 'a server that writes no JSON' fails_to_start babbles 'what is no message'
t 'a server whose list does not end' fails_to_start endless 'does not end'
t 'a server that stops to answer' fails_later mute-later 'did not answer in time'
t 'a server that dies' fails_later dies-later 'it ended'
t 'a server that floods' fails_later floods 'answers nothing'
t 'a server with a line of 5 MB' fails_later long 'more than a line may have'
t 'a task that ends while a server thinks' gives_up_with_the_task
t 'planted .env, .mcp.json, HOME, plugins: nothing is started' planted
t 'servers of a task: inside, left out, or refused' of_a_task
t 'the operator'"'"'s server is not replaced' operator_comes_first
t 'a server that others can change' server_of_others
finish
