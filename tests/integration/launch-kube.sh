#!/usr/bin/env bash
# Tasks by driver kubernetes, against the tests' own API server, whose pods are directories here: the runner is copied
# in, through the connection that commands have
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/launch-lib.sh
. "$(dirname "$0")/launch-lib.sh"
[ -e "$T/libexec/cofferdam-kubernetes" ] || { echo '1..0 # SKIP case says: built without the libraries of clusters' && exit 0; }

fake=$T/fake
mkdir "$fake"
/usr/bin/python3 "$TOP/tests/integration/kube-fake.py" "$fake" >"$T/fake.log" 2>&1 &
servers+=($!)
wait_for 60 test -s "$fake/pid" || { cat "$T/fake.log" && echo 'Bail out! the API server does not start' && exit 1; }
export KUBECONFIG=$fake/kubeconfig
pods() { curl -sS --fail --cacert "$fake/ca.crt" "https://127.0.0.1:$(cat "$fake/port")/fake/objects" | jq '[.[] | select(.kind == "Pod")] | length'; }
no_pods() { [ "$(pods)" = 0 ]; }

# model JQ: without TLS, for a command of a pod has this host's network here
model() {
        mkdir -p api
        jq -n "$1" >api/script.json
        python3 "$TOP/tests/integration/messages-api.py" "$W/api" >"$W/api/log" 2>&1 &
        api=$!
        trap 'kill $api 2>/dev/null' EXIT
        wait_for 60 test -s api/port || fail "no server: $(cat api/log)"
        printf 'version: 1\ndriver: kubernetes\nimage: i\nworkspace: {source: "%s", target: /copy/space}\nenv: {ANTHROPIC_BASE_URL: "http://127.0.0.1:%s"}\n' \
                "$W/ws" "$(cat api/port)" >pod.yaml
        mkdir -p ws
        echo there >ws/there
}
launches() { # STATUS [ARG...]
        local want=$1 rc=0
        shift
        : >events
        timeout -k 5 100 "$C" launch --task "$T/task.json" --events "$W/events" "$@" >out 2>err || rc=$?
        [ "$rc" = "$want" ] || fail "want $want, got $rc: $(cat out err api/log)"
}
asked() { jq -se "$1" api/requests.jsonl >/dev/null || fail "not asked so: $1: $(tail -c 3000 api/requests.jsonl)"; }

does_a_task() {
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "bash", input: {command: "cat there; echo made >made"}},
                          {type: "tool_use", id: "tu_2", name: "todo_write", input: {todos: [{a: 1}]}}]}, {text: "all done"}]'
        task
        launches 0 --spec pod.yaml
        out '.output | tostring | contains("all done")'
        asked '.[1] | tostring | contains("the list is replaced") and contains("there")'
        eq made "$(cat ws/made)" 'what bash wrote, back in the workspace'
        [ ! -e ws/.cofferdam-runner ] || fail 'the runner is in the workspace'
        event delegate_finished '.status == "done"'
        wait_for 60 no_pods || fail "pods are left: $(pods)"
        wait_for 60 none_of_ours || fail 'something is left'
}
joins_a_run() {
        local id
        model '[{text: "here"}]'
        task
        id=$("$C" start --spec pod.yaml)
        launches 0 --run "$id"
        out '.output | tostring | contains("here")'
        eq 1 "$(pods)" 'pods: the run lives'
        "$C" stop "$id" >/dev/null
        wait_for 60 no_pods || fail "pods are left: $(pods)"
}
# What a task does is decided here, also of a pod.
refuses() {
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "web_search", input: {}}]}, {text: "end"}]'
        task '.allowed_tools = ["web_search"]'
        launches 125 --json --spec pod.yaml
        has "$(cat err)" CAPABILITY_UNSUPPORTED
        wait_for 60 no_pods || fail "pods are left: $(pods)"
}

t 'a task from end to end in a pod' does_a_task
t 'a run in a pod is joined' joins_a_run
t 'what cannot be offered is refused before there is a pod' refuses
finish
