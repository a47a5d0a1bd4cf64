#!/usr/bin/env bash
# MCP servers inside: the runner's client against servers from npm in a sandbox without network, and against servers
# that misbehave. Without the limit of messages `floods` turns red, without the match of ids `order`, without the check
# of versions `version`, without the count of blank lines or json_modest() `endless`.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
export RUNNER=$T/libexec/cofferdam-runner TMPDIR=$T
servers=${COFFERDAM_SERVERS-$TOP/build/servers}/mcp

case_of() {
        [ -x "$RUNNER" ] || fail "the runner was not built"
        python3 "$here/mcp.py" "$1" || exit 1
}

# All of it inside: the model's server, the runner and its servers; there is no network but the loopback.
real() {
        need_command node
        [ -e "$servers/node_modules/.package-lock.json" ] || skip 'offline: ./dev setup fetches the servers'
        mkdir work tests
        cp "$here"/{mcp,runner-drive,messages-api}.py tests/
        cp "$RUNNER" tests/runner
        sandbox --network none --mount "type=bind,source=$servers,target=/srv/mcp,readonly" \
                -e RUNNER="$W/tests/runner" -e TMPDIR=/tmp -- python3 tests/mcp.py "$1" || exit 1
}

t 'server-filesystem: tools, paths it refuses' real filesystem
t 'server-everything: tools, content, resources' real everything
t 'server-everything over streamable HTTP' real everything_http
t 'server-memory: state over calls' real memory
t 'a server that dies, before and while it is asked' case_of dies
t 'a server that floods' case_of floods
t 'a server of blank lines, and of bombs' case_of endless
t 'a server that answers late, twice, out of order' case_of order
t 'a server that never answers' case_of silent
t 'a server that asks' case_of asks
t 'a server of another version, or of none' case_of version
t 'a server that says what is no JSON-RPC' case_of broken
t 'names, and what the node takes of a server' case_of names
t 'a named server that does not start refuses the node, another is left out' case_of degraded
t 'streamable HTTP: JSON, events, sessions, failures' case_of http
finish
