# shellcheck shell=bash
# launch-lib.sh - a model's server with TLS, and launches that reach it through the relay of their run
#
# model JQ [OPTION...]      messages-api.py with this script; it ends with the test
# task [JQ]                 $T/task.json, changed by a jq program
# ends STATUS [ARG...]      launch; its result in out, its messages in err, its events in events
# out JQ, asked JQ, event TYPE JQ   what has to be so of the result, of all requests, of one of the events
for program in libexec/cofferdam-runner libexec/cofferdam-auth-proxy; do
        [ -x "$T/$program" ] || {
                echo "1..0 # SKIP $program is not built"
                exit 0
        }
done
install -m 755 "$TOP/tests/integration/mcp-server.py" "$T/mcp-server"

servers=()
end_servers() {
        local pid
        for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null; done
}
trap 'end_servers; clean' EXIT
trap 'echo "Bail out! killed"; end_servers; clean; exit 143' INT TERM HUP
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=model.example.org \
        -addext 'subjectAltName=DNS:model.example.org' -keyout "$T/key.pem" -out "$T/cert.pem" 2>/dev/null
key=sk-ant-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')

# model JQ [OPTION...]: a server that answers so; its place is in proxy.yaml
model() {
        jq -n "$1" >script.json
        mkdir -p "$T/api"
        rm -f "$T/api"/*
        mv script.json "$T/api/"
        python3 "$TOP/tests/integration/messages-api.py" "$T/api" --tls "$T/cert.pem" "$T/key.pem" "${@:2}" >"$T/api/log" 2>&1 &
        api=$!
        trap 'kill $api 2>/dev/null' EXIT
        wait_for 60 test -s "$T/api/port" || fail "no server: $(cat "$T/api/log")"
        printf 'auth_proxy: {options: "--ca-file %s --upstream https://model.example.org --allow-address 127.0.0.0/8 --route model.example.org=127.0.0.1:%s"}\n' \
                "$T/cert.pem" "$(cat "$T/api/port")" >"$T/proxy.yaml"
}
task() { jq -n '{version: 1, node_id: "n1", user_prompt: "do it", model: "m", max_tokens: 1000, allowed_tools: ["bash", "read_file", "todo_write"]} | '"${1:-.}" >"$T/task.json"; }
# ends STATUS [ARG...]
ends() {
        local want=$1
        shift
        : >events
        ANTHROPIC_API_KEY=$key status "$want" timeout -k 5 100 "$C" launch --task "$T/task.json" --spec "$T/proxy.yaml" --model-auth proxied \
                --events "$W/events" "$@" >out 2>err || {
                cat out err "$T/api/log"
                return 1
        }
        wait_for 60 none_of_ours || fail 'something is left'
        # the model is asked with the credential, and nothing else has it
        ! grep -rqF "$key" out err events "$T/state" || fail 'the credential is in what was written'
}
out() { jq -e "$1" out >/dev/null || fail "not so: $1: $(cat out)"; }
event() { jq -se "any(.[]; .type == \"$1\" and (.data | $2))" events >/dev/null || fail "no event $1 with $2: $(grep "$1" events)"; }
asked() { jq -se "$1" "$T/api/requests.jsonl" >/dev/null || fail "not asked so: $1: $(tail -c 3000 "$T/api/requests.jsonl")"; }
# What the launcher counted is what the server counted.
metered() {
        local sum='[.input_tokens, .output_tokens, .cache_read_input_tokens, .cache_creation_input_tokens]'
        eq "$(jq -c "$sum" "$T/api/counts.json")" "$(jq -c ".usage | $sum" out)" tokens
}
