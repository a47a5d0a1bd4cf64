#!/usr/bin/env bash
# Tasks in containers of podman and docker, whose image is nothing but busybox: the runner comes in from outside
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"
# shellcheck source=tests/integration/launch-lib.sh
. "$(dirname "$0")/launch-lib.sh"
trap 'end_servers; engines_clean; clean' EXIT

does_a_task() { # ENGINE
        engine_ready "$1"
        model '[{blocks: [{type: "tool_use", id: "tu_1", name: "bash", input: {command: "echo made >made; cat made; ls /usr"}},
                          {type: "tool_use", id: "tu_2", name: "todo_write", input: {todos: [{a: 1}]}}]}, {text: "all done"}]'
        task
        ends 0 -d "$1" --image busy:1
        out '.output | tostring | contains("all done")'
        metered
        eq made "$(cat made)" 'what bash wrote into the workspace'
        asked '.[1] | tostring | contains("the list is replaced") and contains("made")'
        event delegate_finished '.status == "done"'
        eq '' "$(containers "$1")" containers
}
joins_a_run() { # ENGINE
        local id
        engine_ready "$1"
        model '[{text: "here"}]'
        task
        id=$(ANTHROPIC_API_KEY=$key "$C" start -d "$1" --image busy:1 --spec "$T/proxy.yaml" --model-auth proxied)
        status 0 timeout 200 "$C" launch --task "$T/task.json" --run "$id" >out 2>err || fail "$(cat out err)"
        out '.output | tostring | contains("here")'
        "$C" stop "$id" >/dev/null
        eq '' "$(containers "$1")" containers
}

for engine in podman docker; do
        t "$engine: a task from end to end in busybox" does_a_task $engine
        t "$engine: a run is joined" joins_a_run $engine
done
finish
