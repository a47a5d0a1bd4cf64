#!/usr/bin/env bash
# The node under a run of driver kubernetes: its agent restarted, itself restarted, and lost. On the lab that
# COFFERDAM_K8S=1 ./dev test starts, alone: there is one node, and it is everybody's.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube-lab-lib.sh
. "$(dirname "$0")/kube-lab-lib.sh"
lab_ready
N=cofferdam-node-$$
lab_namespace "$N"
trap 'agent_up; lab_namespace_end' EXIT
trap 'echo "Bail out! killed"; agent_up; lab_namespace_end; exit 143' INT TERM HUP
run() { timeout -k 5 300 "$C" run -d kubernetes --image lab.local/busybox:1 -w "$W/ws" "$@"; }
start() { timeout -k 5 150 "$C" start -d kubernetes --image lab.local/busybox:1 -w "$W/ws" "$@"; }

# by the number and the start time that the lab noted; the lab starts it again
agent_lives() {
        local pid begun
        read -r pid begun <"$LAB/run/kubelet.pid" && [ "$(awk '{ sub(/.*\) /, ""); if ($1 != "Z") print $20 }' "/proc/$pid/stat" 2>/dev/null)" = "$begun" ] && echo "$pid"
}
agent_gone() { [ -z "$(agent_lives)" ]; }
agent_down() {
        kill -9 "$(agent_lives)"
        wait_for 20 agent_gone || fail 'the agent lives'
}
agent_up() { K8S_LAB=$LAB timeout 300 bash "$SHARED/k8s-lab/lab" up node >"$T/up" 2>&1 || { cat "$T/up" && return 1; }; }
# a run that executes something, in the background: its number is in $runs
runs_something() { # MARK [OPTION...]
        mkdir -p ws
        run --events "$W/events" "${@:2}" -- sh -c "echo half >half; touch /tmp/$1; sleep 1000" >out 2>err &
        runs=$!
        begun() { grep -q exec_started events 2>/dev/null && admin exec -n "$N" "$(admin get pods -n "$N" -o name)" -- test -e "/tmp/$1"; }
        wait_for 90 begun "$1" || fail "$(cat events err)"
}
event() { jq -se "any($1)" events >/dev/null || fail "no $1: $(cat events)"; }

# commands are lost, and say so; the pod and the run go on
the_agent_is_restarted() {
        local id pid
        mkdir ws
        id=$(start)
        "$C" exec "$id" sh -c 'echo kept >/tmp/f; exec sleep 1000' 2>lost &
        pid=$!
        there() { "$C" exec "$id" test -e /tmp/f; }
        wait_for 60 there
        agent_down
        status 125 wait "$pid"
        has "$(cat lost)" 'the command was lost'
        status 125 "$C" exec "$id" true 2>err
        [ "$(wc -l <err)" = 1 ] || fail "$(cat err)"
        agent_up
        eq kept "$("$C" exec "$id" cat /tmp/f)"
        "$C" exec "$id" sh -c 'echo made >made'
        status 0 "$C" stop "$id" >out
        eq made "$(cat ws/made)"
        clear
}

# what ran on it is over: the run hears why, and leaves nothing
the_node_is_restarted() {
        local c
        runs_something restarted
        agent_down
        for c in $(ctr -a "$LAB/run/containerd.sock" -n k8s.io containers ls -q "labels.\"io.kubernetes.pod.namespace\"==$N"); do
                ctr -a "$LAB/run/containerd.sock" -n k8s.io tasks kill -a -s 9 "$c" || true
        done
        agent_up
        status 125 wait "$runs"
        event '.type == "sandbox_finished" and (.data.failure_code == "SANDBOX_SETUP_FAILED" or .data.failure_code == "WORKSPACE_EXPORT_FAILED")'
        [ ! -e ws/half ] || fail 'half of the work landed'
        [ "$(grep -c "^cofferdam: " err)" -gt 0 ] || fail "$(cat err)"
        lacks "$("$C" ps -a)" dead 'runs that want gc'
        "$C" ps -aq | xargs -r "$C" rm >out
        clear
}

# What a cluster does with the pods of a node that it does not hear of: it deletes them, and they stay until the node is
# there again. The run ends nevertheless, says what is left, and gc ends that.
the_node_is_lost() {
        runs_something lost
        agent_down
        admin delete "$(pods)" -n "$N" --wait=false >/dev/null
        status 125 wait "$runs"
        has "$(cat err)" 'somebody deletes the pod'
        event '.type == "sandbox_degraded" and (.data.reason | contains("is left behind"))'
        [ ! -e ws/half ] || fail 'half of the work landed'
        eq dead "$("$C" ps -a --json | jq -r '.[].status')"
        agent_up
        status 0 "$C" gc >out 2>err || fail "$(cat err)"
        eq '' "$("$C" ps -aq)"
        clear
}

t 'the agent of the node is restarted under a run' the_agent_is_restarted
t 'the node is restarted under a run' the_node_is_restarted
t 'the node is lost under a run' the_node_is_lost
finish
