#!/usr/bin/env bash
# runs by driver kubernetes against the tests' own API server, whose pods are directories here and whose commands
# really run; the real server: kube-lab.sh
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

fake=$T/fake
[ -e "$T/libexec/cofferdam-kubernetes" ] || { echo '1..0 # SKIP case says: built without the libraries of clusters' && exit 0; }
kube() { "$T/libexec/cofferdam-kubernetes" "$@"; }
mkdir "$fake" "$fake/bin"
# a tar that says once that a file changed under it, or is the script $T/tar, when asked to
cat >"$fake/bin/tar" <<END
#!/bin/sh
case "\$*" in *-cf*) [ ! -e "$T/tar" ] || exec bash "$T/tar"; [ ! -e "$T/race" ] || { rm "$T/race"; /usr/bin/tar "\$@"; echo "tar: ./x: file changed as we read it" >&2; exit 1; };; esac
exec /usr/bin/tar "\$@"
END
chmod +x "$fake/bin/tar"
/usr/bin/python3 "$TOP/tests/integration/kube-fake.py" "$fake" >"$T/fake.log" 2>&1 &
server=$!
wait_for 60 test -s "$fake/pid" || { cat "$T/fake.log" && echo 'Bail out! the API server does not start' && exit 1; }
export KUBECONFIG=$fake/kubeconfig
base=https://127.0.0.1:$(cat "$fake/port")

tell() { curl -sS --fail-with-body --cacert "$fake/ca.crt" -X POST -d "$2" "$base/fake/$1" >/dev/null; }
ask() { curl -sS --fail --cacert "$fake/ca.crt" "$base/fake/$1"; }
query() { ask objects | /usr/bin/python3 -c "import json, sys
o = json.load(sys.stdin)
pods = [x for x in o if x['kind'] == 'Pod']
made = [x for x in o if x.get('metadata', {}).get('labels', {}).get('app.kubernetes.io/managed-by') == 'ironflow']
print($1)"; }
normal() {
        tell set '{"pods": [], "deny": [], "delete_seconds": 0.05, "exec_protocols": ["v5.channel.k8s.io", "v4.channel.k8s.io"]}'
        tell faults '[]'
}
nothing_left() { [ "$(query 'len(made)')" = 0 ]; }
clear() { wait_for 60 nothing_left || fail "left behind: $(query '[x["metadata"]["name"] for x in made]')"; }
# the copy's path inside is /work/space, which the fake keeps below its own directory
run() { timeout -k 5 150 "$C" run -d kubernetes --image i -w "$W/ws" --workspace-target /copy/space "$@"; }
start() { timeout -k 5 150 "$C" start -d kubernetes --image i -w "$W/ws" --workspace-target /copy/space "$@"; }
workspace() {
        rm -rf ws
        mkdir -p ws/d
        echo one >ws/a
        echo two >ws/d/b
        git -C ws init -q
        git -C ws add -A
        git -C ws -c user.name=n -c user.email=e commit -qm first
}

there_and_back() {
        normal
        workspace
        status 7 run --events events -- sh -c 'cat a; echo err >&2; echo new >n; rm d/b; chmod +x a; exit 7' >out 2>err
        eq one "$(cat out)"
        eq err "$(cat err)"
        eq new "$(cat ws/n)"
        [ ! -e ws/d/b ] && [ -x ws/a ] || fail "$(ls -lR ws)"
        eq 1 "$(jq -r 'select(.type == "workspace_exported").data.deleted' events)" "$(cat events)"
        git -C ws fsck --strict >/dev/null 2>&1 || fail "the repository is damaged"
        eq "$(printf ' M a\n D d/b\n?? n')" "$(git -C ws -c core.fileMode=true status --short)"
        clear
        # v4 cannot close stdin: the same there
        tell set '{"exec_protocols": ["v4.channel.k8s.io"]}'
        workspace
        status 0 run -- sh -c 'wc -c; echo v4 >n' <ws/a >out
        eq 4 "$(cat out)"
        eq v4 "$(cat ws/n)"
        clear
}

# red without member_excluded(), member_link_stays(), the mask of modes
hostile_things_stay_outside() {
        local config
        normal
        workspace
        config=$(cat ws/.git/config)
        mkdir outside
        # shellcheck disable=SC2016 # a script for inside
        status 0 run --events events -- sh -c '
                echo "[core] fsmonitor = evil" >>.git/config
                mkdir -p .git/hooks && echo evil >.git/hooks/pre-push && chmod +x .git/hooks/pre-push
                echo x >.git/cofferdam-credentials
                ln -s ../outside leaves; ln -s /etc/passwd absolute; ln -s a stays
                ln -s hooks .git/x; mkfifo fifo; echo s >suid; chmod 6755 suid; ln a hard'
        eq "$config" "$(cat ws/.git/config)"
        [ ! -e ws/.git/hooks/pre-push ] && [ ! -e ws/.git/cofferdam-credentials ] || fail 'hooks or credentials landed'
        [ ! -L ws/leaves ] && [ ! -L ws/absolute ] && [ ! -e ws/fifo ] || fail "$(ls -l ws)"
        eq a "$(readlink ws/stays)"
        [ ! -u ws/suid ] && [ ! -g ws/suid ] && [ -x ws/suid ] || fail "$(ls -l ws/suid)"
        eq one "$(cat ws/hard)"
        eq 1 "$(stat -c %h ws/hard)"
        eq '' "$(ls outside)"
        has "$(cat events)" '"op":"export"'
        jq -es 'map(select(.type == "workspace_exported"))[0].data.skipped | index("leaves") and index("fifo")' events >out ||
                fail "$(cat events)"
        clear
}

# red without the deadline of remote.c: the run never ended
hostile_tar_ends() {
        local script
        printf '{"version":1,"kubernetes":{"copy_timeout":"20s"}}' >s.json
        while IFS='%' read -r script want; do
                normal
                workspace
                echo "$script" >"$T/tar"
                rm -f events
                status 125 run -s s.json --events events -- sh -c 'echo new >n' >out 2>err <ws/a
                rm "$T/tar"
                eq 1 "$(wc -l <err)" "$script: $(cat err)"
                has "$(cat err)" "$want" "$script"
                [ ! -e ws/n ] && [ -e ws/a ] && [ -e ws/d/b ] || fail "$script: some of it landed: $(ls ws)"
                eq WORKSPACE_EXPORT_FAILED "$(jq -r 'select(.type == "sandbox_finished").data.failure_code' events)" "$script"
                clear
        done <<'END'
python3 -c 'import sys,tarfile; t=tarfile.TarInfo("./.git/config"); t.size=1<<60; sys.stdout.buffer.write(t.tobuf(tarfile.GNU_FORMAT))'; exec cat /dev/zero%takes too long
python3 -c 'import sys,tarfile; t=tarfile.TarInfo("./big"); t.size=1<<60; sys.stdout.buffer.write(t.tobuf(tarfile.GNU_FORMAT))'; exec cat /dev/zero%more than
/usr/bin/tar -b1 -cf - . | head -c 512%cut short
END
}

copy_on_write_waits_for_review() {
        local id
        normal
        workspace
        status 0 run --workspace-mode cow --keep -- sh -c 'echo new >n; rm a' >out
        [ ! -e ws/n ] && [ -e ws/a ] || fail 'it landed'
        id=$("$C" ps -a -q | head -1)
        eq "$(printf 'D a\nA n')" "$("$C" diff "$id")"
        status 0 "$C" apply "$id" >out
        [ -e ws/n ] && [ ! -e ws/a ] || fail "$(ls ws)"
        clear
}

commands_run_side_by_side() {
        local id i
        normal
        workspace
        id=$(start)
        for i in 1 2 3 4 5; do
                (status "$i" "$C" exec "$id" -- sh -c "cat; exit $i" <<<"in $i" >"out.$i" && eq "in $i" "$(cat "out.$i")") &
        done
        wait
        for i in 1 2 3 4 5; do eq "in $i" "$(cat "out.$i")"; done
        head -c 20000000 /dev/urandom >big
        "$C" exec "$id" cat <big >big.back
        cmp big big.back
        "$C" exec -e 'A=1 '\''$b' "$id" -- sh -c 'printf %s "$A"' >out
        eq "1 '\$b" "$(cat out)"
        "$C" exec "$id" sh -c ": >'$W/begun'; exec sleep 100" &
        i=$!
        wait_for 60 test -e begun
        kill -TERM $i
        status 143 wait $i
        status 127 "$C" exec "$id" /no/such 2>err
        script -qec "$C exec -t $id tty" /dev/null </dev/null >out
        has "$(cat out)" /dev/pts/
        status 0 "$C" stop "$id" >out
        clear
}

nothing_is_left_of_a_failed_start() {
        normal
        workspace
        tell faults '[{"method": "POST", "path": "/pods", "status": 403, "times": 0}]'
        printf '{"version":1,"kubernetes":{"network_policy":true}}' >s.json
        status 125 run -s s.json -- true >out 2>err
        eq 1 "$(wc -l <err)" "$(cat err)"
        clear
}

# red without look_at_disruption(): each was SANDBOX_SETUP_FAILED, and who could have tried again did not
who_had_to_make_room_is_told() {
        local id change text pod
        workspace
        ended() { "$C" events "$id" 2>/dev/null | jq -r 'select(.type == "sandbox_finished").data | .failure_code + " " + .reason' >ended && [ -s ended ]; }
        for change in evicted preempted drained gone; do
                normal
                id=$(start)
                pod=$(query 'pods[0]["metadata"]["name"]')
                case $change in
                evicted) text='Evicted: The node was low on resource: memory'
                        tell status "{\"ns\": \"test\", \"name\": \"$pod\", \"status\": {\"phase\": \"Failed\", \"reason\": \"Evicted\", \"message\": \"The node was low on resource: memory\"}}" ;;
                preempted) text='PreemptionByScheduler: to accommodate a higher priority pod' ;;
                drained) text='EvictionByEvictionAPI: Eviction API: evicting' ;;
                gone) text='DeletionByPodGC: node is gone' ;;
                esac
                if [ "$change" != evicted ]; then
                        tell status "{\"ns\": \"test\", \"name\": \"$pod\", \"status\": {\"conditions\": [{\"type\": \"DisruptionTarget\", \"status\": \"True\", \"reason\": \"${text%%: *}\", \"message\": \"${text#*: }\"}]}}"
                        # it goes on as long as it may
                        status 0 "$C" exec "$id" true
                        curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE -d "$([ $change = gone ] && echo '{"gracePeriodSeconds": 0}' || echo '{}')" \
                                "$base/api/v1/namespaces/test/pods/$pod" >/dev/null
                fi
                wait_for 60 ended || fail "$change: it goes on: $("$C" events "$id")"
                has "$(cat ended)" "SANDBOX_CAPACITY $text"
                clear
        done
        # a condition that was taken back is none
        normal
        id=$(start)
        pod=$(query 'pods[0]["metadata"]["name"]')
        tell status "{\"ns\": \"test\", \"name\": \"$pod\", \"status\": {\"conditions\": [{\"type\": \"DisruptionTarget\", \"status\": \"False\"}], \"phase\": \"Failed\", \"reason\": \"DeadlineExceeded\"}}"
        wait_for 60 ended
        has "$(cat ended)" RUN_TIMEOUT
        clear
        # before it ran
        tell set '{"pods": [{"match": "", "end": {"exitCode": 0}, "seconds": 0, "pod_reason": "OutOfmemory"}]}'
        status 125 run --events events -- true >out 2>err
        has "$(cat events)" '"failure_code":"SANDBOX_CAPACITY"'
        has "$(cat err)" OutOfmemory
        clear
}

# at each step of a run what a server may say, once and for ever: what can be waited for is, the rest is one line, and nothing
# is left. Red without worth_another(), choose_again(), the list after 410, the loop of kube_delete()
what_servers_say() {
        local times step code want rule came
        workspace
        while read -r times step code want; do
                normal
                rule="\"status\": $code, \"times\": $times"
                [ "$code" != 410 ] || rule+=', "reason": "Expired"'
                [ "$code" != 429 ] || rule+=', "retry_after": 1'
                case $step in
                create) rule+=', "method": "POST", "path": "/pods$"' ;;
                list) rule+=', "method": "GET", "path": "/pods.*limit="' ;;
                watch) rule+=', "method": "GET", "path": "watch=1"' ;;
                exec) rule+=', "path": "/exec"' ;;
                delete) rule+=', "method": "DELETE", "path": "/pods/"' ;;
                esac
                tell faults "[{$rule}]"
                rm -f events
                came=0
                run --events events -- true >out 2>err </dev/null || came=$?
                eq "$want" "$came" "$times $step $code: $(cat err)"
                [ "$came" = 0 ] || eq "SANDBOX_SETUP_FAILED 1" "$(jq -r 'select(.type == "sandbox_finished").data.failure_code' events) $(wc -l <err)" "$(cat err)"
                [ "$came" = 0 ] || has "$(cat err)" "$code"
                tell faults '[]'
                clear
        done <<'END'
1 create 403 125
1 create 409 125
1 create 429 0
1 create 500 0
0 create 404 125
0 create 429 125
1 list 500 0
0 list 403 125
0 list 410 125
1 watch 410 0
1 watch 500 0
0 watch 403 125
1 exec 429 0
1 exec 503 0
0 exec 404 125
1 delete 409 0
1 delete 500 0
END
}

# everything of a run, or of what a pod owns, and nothing of another; red without the selectors of life_release_run(), the
# comparison of owners
release_takes_its_own() {
        local kind
        normal
        one() { # RESOURCE KIND API NAME LABELS OWNER
                tell object "{\"resource\": \"$1\", \"object\": {\"apiVersion\": \"$3\", \"kind\": \"$2\", \"metadata\": {\"name\": \"$4\", \"namespace\": \"test\", \"uid\": \"u-$4\",
                        \"labels\": {\"app.kubernetes.io/managed-by\": \"ironflow\"$5}$6}, \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"i\"}]}, \"status\": {\"phase\": \"Running\"}}}"
        }
        while read -r resource kind api; do
                one "$resource" "$kind" "$api" "mine-$resource" ', "ironflow.io/run-id": "r1"' ''
                one "$resource" "$kind" "$api" "below-$resource" ', "ironflow.io/run-id": "r2", "ironflow.io/root-run-id": "r1"' ''
                one "$resource" "$kind" "$api" "other-$resource" ', "ironflow.io/run-id": "r3", "ironflow.io/root-run-id": "r3"' ''
                one "$resource" "$kind" "$api" "owned-$resource" '' ', "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "fresh", "uid": "u-fresh"}]'
                one "$resource" "$kind" "$api" "foreign-$resource" '' ', "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "fresh", "uid": "u-older"}]'
        done <<'END'
pods Pod v1
configmaps ConfigMap v1
secrets Secret v1
jobs Job batch/v1
networkpolicies NetworkPolicy networking.k8s.io/v1
END
        one pods Pod v1 fresh '' ''
        left() { query '" ".join(sorted({x["metadata"]["name"].split("-")[0] for x in made}))'; }
        tell set '{"delete_seconds": 1}'
        status 0 kube release --run r1 >out 2>err
        eq 'foreign fresh other owned' "$(left)" "$(cat err)"
        status 1 kube release --owner fresh --uid u-older >out 2>err
        status 0 kube release --owner fresh --uid u-fresh >out 2>err
        eq 'foreign fresh other' "$(left)" "$(cat err)"
        status 0 kube release --pod other-pods >out 2>err
        eq 10 "$(query 'len(made)')" "$(query '[x["metadata"]["name"] for x in made]')"
        tell forget '{}'
}

# a file of the copy, in one step and for its user alone. Red without member_path(), the comparisons of directories
a_file_of_the_copy_is_replaced() {
        local id pod path
        normal
        workspace
        id=$(start)
        pod=$(query 'pods[0]["metadata"]["name"]')
        refresh() { kube refresh --namespace test --pod "$pod" --workspace /copy/space --path "$1"; }
        "$C" exec "$id" sh -c 'ln -s d away; ln -s /etc out; ln -s ../a d/link'
        printf 'new\nvalue' | status 0 refresh d/b
        printf new | status 0 refresh d/link # it itself, and not what it leads to
        eq "$(printf 'new\nvalue 600 one new')" "$("$C" exec "$id" sh -c 'echo "$(cat d/b) $(stat -c %a d/b) $(cat a) $(cat d/link)"')"
        eq "$(printf 'b\nlink')" "$("$C" exec "$id" ls -A d)"
        for path in ../x /etc/x d/../a ./a '' away/b out/x nowhere/x d away; do
                echo evil | status 1 refresh "$path" 2>err
                eq 1 "$(wc -l <err)" "$path: $(cat err)"
        done
        eq "$(printf 'new\nvalue')" "$("$C" exec "$id" cat d/b)"
        eq "$(printf 'b\nlink')" "$("$C" exec "$id" ls -A d)"
        status 0 "$C" stop "$id" >out
        clear
}

# by interval, until it is told to end; what one pass cannot do the next one does
the_reaper_comes_again() {
        local pid now
        normal
        now=$(date +%s)
        expired() { tell object "{\"resource\": \"configmaps\", \"object\": {\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"$1\", \"namespace\": \"test\", \"uid\": \"u-$1\",
                \"labels\": {\"app.kubernetes.io/managed-by\": \"ironflow\", \"app.kubernetes.io/component\": \"prompt-data\"}, \"annotations\": {\"ironflow.io/expires-at\": \"$((now - 5))\"}}}}"; }
        expired first
        "$C" gc --kubernetes test --every 1s >out 2>err &
        pid=$!
        reaped() { grep -q "\"name\":\"$1\"" out; }
        wait_for 60 reaped first || fail "$(cat out err)"
        tell faults '[{"path": "/configmaps", "status": 403, "times": 0}]'
        expired second
        said() { grep -q 403 err; }
        wait_for 60 said || fail "$(cat out err)"
        look "$pid" || fail 'it gave up'
        tell faults '[]'
        wait_for 60 reaped second || fail "$(cat out err)"
        kill -TERM "$pid"
        status 0 wait "$pid"
        clear
}

# what stands in a pod's way is told at once, by its code, and undone: red without the rows of failure.c
what_never_runs_is_told_and_undone() {
        local settings code text
        workspace
        while IFS='|' read -r settings code text; do
                normal
                tell set "{\"pods\": [{\"match\": \"\", $settings}]}"
                printf '{"version":1}' >s.json
                status 125 run -s s.json --events events -- sleep 9 >out 2>err
                eq 1 "$(wc -l <err)" "$(cat err)"
                has "$(cat err)" "$text"
                has "$(cat events)" "\"failure_code\":\"$code\""
                clear
        done <<'END'
"stay": "Pending", "waiting": "ImagePullBackOff", "message": "no such image"|IMAGE_UNAVAILABLE|no such image
"stay": "Pending", "waiting": "CreateContainerConfigError", "message": "secret not found"|SANDBOX_SETUP_FAILED|secret not found
"end": {"exitCode": 137, "reason": "OOMKilled"}, "seconds": 0|OUT_OF_MEMORY|OOMKilled
"end": {"exitCode": 137, "reason": "OOMKilled"}, "seconds": 0.4|OUT_OF_MEMORY|OOMKilled
END
}

# red with life_look() in place of life_capacity(): a pod that no node takes had no code of its own
no_node_takes_it() {
        normal
        workspace
        tell set '{"pods": [{"match": "", "stay": "Pending", "unschedulable": "0/3 nodes are available: 3 Insufficient memory."}]}'
        printf '{"version":1,"kubernetes":{"start_timeout":"2s"}}' >s.json
        status 125 run -s s.json --events events -- true >out 2>err
        eq 1 "$(wc -l <err)" "$(cat err)"
        has "$(cat err)" 'does not run after 2 s: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.: see kubernetes.start_timeout'
        has "$(cat events)" '"failure_code":"SANDBOX_CAPACITY"'
        clear
        # it has a node, and does not come up
        tell set '{"pods": [{"match": "", "stay": "Pending"}]}'
        status 125 run -s s.json --events events -- true >out 2>err
        has "$(cat events)" '"failure_code":"SANDBOX_SETUP_TIMEOUT"'
        clear
}

attempts_are_never_side_by_side() {
        local first second
        normal
        workspace
        printf '{"version":1,"kubernetes":{"run_id":"r 1","step":"fix it"}}' >s.json
        first=$(start -s s.json)
        tell set '{"delete_seconds": 2}'
        second=$(start -s s.json)
        ask log >requests
        /usr/bin/python3 - <<'PY' || fail 'a second pod was made before the first was gone'
import json
alive = set()
for line in open("requests"):
    r = json.loads(line)
    if r["method"] == "POST" and r["path"].endswith("/pods") and r["code"] < 300:
        body = r["body"] if isinstance(r["body"], dict) else json.loads(r["body"])
        if body["metadata"]["labels"].get("ironflow.io/step", "").startswith("fix-it"):
            alive.add(body["metadata"]["name"])
            assert sum(1 for _ in alive) <= 2
PY
        eq 1 "$(query 'len(pods)')"
        "$C" stop "$second" >out
        "$C" stop "$first" >out 2>err || true
        clear
}

# neither found an earlier attempt: red without be_alone()
attempts_at_once() {
        local a b won=0
        normal
        workspace
        printf '{"version":1,"kubernetes":{"run_id":"r 2","step":"fix it"}}' >s.json
        tell faults '[{"method": "POST", "path": "/pods", "gather": 2, "times": 0}]'
        start -s s.json >a 2>err.a </dev/null &
        a=$!
        start -s s.json >b 2>err.b </dev/null &
        b=$!
        ! wait $a || won=$((won + 1))
        ! wait $b || won=$((won + 1))
        eq 1 "$won" "attempts that began: $(cat err.a err.b)"
        eq 1 "$(query 'len(pods)')"
        [ -s a ] || mv b a
        status 0 "$C" stop "$(cat a)" >out
        clear
}

# the answer to the creation never came, and there was something nonetheless. Red without the remember() of make()
# that failed, or without its tries
what_was_made_unseen_goes() {
        local pid asked_before
        normal
        workspace
        # carried out, the answer lost, and refused from then on
        tell faults '[{"method": "POST", "path": "/pods", "done": true, "cut": true},
                {"method": "POST", "path": "/pods", "times": 0, "status": 403, "reason": "Forbidden"}]'
        status 125 run -- true >out 2>err </dev/null
        eq 1 "$(grep -c . err)" "$(cat err)"
        clear
        # carried out after who asked for it has gone
        tell faults '[{"method": "POST", "path": "/pods", "slow": 3, "times": 0}]'
        asked_before=$(pods_asked)
        timeout -k 5 90 "$C" run -d kubernetes --image i -w "$W/ws" --workspace-target /copy/space -- true >out 2>err </dev/null &
        pid=$!
        asked_for_pod() { [ "$(pods_asked)" -gt "$asked_before" ]; }
        wait_for 60 asked_for_pod
        kill -TERM "$pid"
        wait "$pid" || true
        was_made() { [ -n "$(ask log | jq -s '[.[] | select(.method == "POST" and (.path | endswith("/pods")))][-1].code // empty')" ]; }
        wait_for 60 was_made
        clear
}
pods_asked() { ask log | jq -s '[.[] | select(.method == "POST" and (.path | endswith("/pods")))] | length'; }

# red without helper_continue(): nobody heard the order to stop
stopped_helpers_end() {
        local id p
        normal
        workspace
        id=$(start </dev/null)
        "$C" exec "$id" -- sh -c 'echo new >n' </dev/null
        pgrep -f 'cofferdam-kubernetes (life|serve)' -u "$(id -u)" >pids
        while read -r p; do ! grep -qz "$fake" "/proc/$p/environ" || kill -STOP "$p"; done <pids
        status 0 timeout 60 "$C" stop "$id" >out
        eq new "$(cat ws/n)"
        clear
}

killed_supervisors_leave_nothing() {
        local id pid
        normal
        workspace
        id=$(start)
        pid=$("$C" inspect "$id" | jq -r '[.. | .supervisor? // empty][0].pid')
        kill -9 "$pid"
        clear
        "$C" gc >out
        # and when its process of the cluster is killed with it, gc ends the pod
        id=$(start)
        pid=$("$C" inspect "$id" | jq -r '[.. | .supervisor? // empty][0].pid')
        pgrep -f 'cofferdam-kubernetes (life|serve)' -u "$(id -u)" >pids || true
        kill -STOP "$pid"
        while read -r p; do ! grep -qz "$fake" "/proc/$p/environ" || kill -9 "$p" 2>/dev/null || true; done <pids
        kill -9 "$pid"
        eq 1 "$(query 'len(pods)')"
        status 0 "$C" gc >out
        clear
}

execs() { ask log | grep -c '"path": "[^"]*/exec"' || true; }
# red without left(): nobody knew of the pod any more; and what came back by half landed as if it were all
a_killed_helper_leaves_nothing() {
        local id before
        normal
        workspace
        lives() { # MARK: processes of that run which look after the pod
                pgrep -f 'cofferdam-kubernetes life' -u "$(id -u)" | while read -r p; do
                        ! grep -qz "^MARK=$1$" "/proc/$p/environ" 2>/dev/null || echo "$p"
                done
        }
        id=$(MARK=a$$ start)
        kill -9 "$(lives "a$$")"
        dead() { "$C" ps -a | grep "$id" | grep -q dead; }
        wait_for 60 dead || fail "$("$C" ps -a)"
        eq 1 "$(query 'len(pods)')"
        status 0 "$C" gc >out
        clear
        # while the workspace comes back
        id=$(MARK=b$$ start)
        "$C" exec "$id" -- sh -c 'rm a; echo new >n'
        tell faults '[{"path": "/exec", "slow": 20, "times": 0}]'
        before=$(execs)
        "$C" stop "$id" >out 2>err &
        comes_back() { [ "$(execs)" -gt "$before" ]; }
        wait_for 60 comes_back
        kill -9 "$(lives "b$$")"
        wait $! || true
        tell faults '[]'
        [ -e ws/a ] && [ ! -e ws/n ] || fail 'half of it landed'
        has "$(cat err; "$C" events "$id" 2>/dev/null)" WORKSPACE_EXPORT_FAILED
        status 0 "$C" gc >out
        clear
}

# red without the failure of reap(): the record went, and with it the only one who knew of the pod
a_record_stays_as_long_as_its_pod() {
        local id pid
        normal
        workspace
        id=$(start)
        pid=$("$C" inspect "$id" | jq -r '[.. | .supervisor? // empty][0].pid')
        pgrep -f 'cofferdam-kubernetes (life|serve)' -u "$(id -u)" >pids
        kill -STOP "$pid"
        while read -r p; do ! grep -qz "$fake" "/proc/$p/environ" || kill -9 "$p"; done <pids
        kill -9 "$pid"
        tell set '{"deny": ["delete pods"]}'
        status 1 "$C" gc >out 2>err
        eq 1 "$(wc -l <err)" "$(cat err)"
        has "$(cat err)" "run $id is left: its pod"
        has "$(cat err)" 'forbidden'
        has "$("$C" ps -a)" "$id"
        status 1 "$C" rm "$id" 2>err
        eq 1 "$(wc -l <err)" "$(cat err)"
        # the API server is away
        status 1 env KUBECONFIG=/nonexistent "$C" gc >out 2>err
        has "$("$C" ps -a)" "$id"
        eq 1 "$(query 'len(pods)')"
        normal
        status 0 "$C" gc >out
        eq "$id removed" "$(cat out)"
        lacks "$("$C" ps -a)" "$id"
        clear
}

# red when the order to stop is never read: the end of who got it threw away what it had said last
what_is_left_is_said() {
        local id pid life forget
        normal
        workspace
        id=$(MARK=l$$ start)
        pid=$("$C" inspect "$id" | jq -r '[.. | .supervisor? // empty][0].pid')
        life=$(pgrep -f 'cofferdam-kubernetes life' -u "$(id -u)" | while read -r p; do ! grep -qz "^MARK=l$$\$" "/proc/$p/environ" 2>/dev/null || echo "$p"; done)
        # the order is given while the workspace comes back; who gave it hears nothing until the other has ended
        tell faults '[{"path": "/exec", "slow": 3}]'
        tell set '{"deny": ["delete pods"]}'
        forget=$(ask log | wc -l)
        "$C" stop "$id" >out 2>err &
        exports() { ask log | tail -n "+$((forget + 1))" | grep -q /exec; }
        wait_for 30 exports
        kill -STOP "$pid"
        ends() { ! look "$life"; }
        wait_for 60 ends
        kill -CONT "$pid"
        wait $! || true
        "$C" events "$id" >said
        has "$(jq -r 'select(.type == "sandbox_degraded").data.reason' said)" 'is left behind'
        has "$("$C" ps -a | grep "$id")" dead
        normal
        status 0 "$C" gc >out
        clear
}

the_reaper_takes_what_expired() {
        local now
        normal
        now=$(date +%s)
        object() { # NAME ANNOTATION [REST]
                tell object "{\"resource\": \"pods\", \"object\": {\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"$1\", \"namespace\": \"test\",
                        \"uid\": \"uid-$1\", \"labels\": {\"app.kubernetes.io/managed-by\": \"ironflow\"}, \"annotations\": {$2}},
                        \"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"i\"}]}, \"status\": ${3-{\"phase\": \"Succeeded\"\}}}}"
        }
        object old "\"ironflow.io/expires-at\": \"$((now - 5))\""
        object fresh "\"ironflow.io/expires-at\": \"$((now + 500))\""
        object none ''
        object garbage '"ironflow.io/expires-at": "soon"'
        object dead '' '{"phase": "Failed", "reason": "DeadlineExceeded"}'
        object unknown "\"ironflow.io/expires-at\": \"$((now - 5))\"" '{"phase": "Unknown"}'
        tell set '{"deny": ["list jobs", "list persistentvolumeclaims"]}'
        status 0 kube reap >out 2>err
        eq "$(printf 'dead\nold')" "$(jq -r .name out | sort)"
        has "$(cat err)" 'jobs are not reaped'
        rest() { [ "['fresh', 'garbage', 'none', 'unknown']" = "$(query 'sorted(x["metadata"]["name"] for x in pods)')" ]; }
        wait_for 60 rest || fail "there are: $(query 'sorted(x["metadata"]["name"] for x in pods)')" # the server takes a moment to delete
        tell set '{"deny": ["list pods"]}'
        status 1 kube reap >out 2>err
        normal
        # an owner that is another is no owner
        status 1 kube release --owner fresh --uid wrong 2>err
        has "$(cat err)" uid-fresh
        for p in fresh none garbage unknown; do
                curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$base/api/v1/namespaces/test/pods/$p" >/dev/null
        done
        none_is_left() { [ '[]' = "$(query 'pods')" ]; }
        wait_for 60 none_is_left || fail 'they stay'
        clear
}

a_signal_before_the_command_is_for_it() {
        normal
        workspace
        tell set '{"start_seconds": 2}'
        "$C" run -d kubernetes --image i -w "$W/ws" --workspace-target /copy/space -- sleep 1000 >out 2>err &
        one() { [ "$(query 'len(pods)')" = 1 ]; }
        wait_for 30 one
        kill -TERM $!
        # red when it was sent once, and there was no process to send it to
        ended() { ! look $!; }
        wait_for 60 ended || { kill -KILL $! && fail 'it goes on'; }
        status 143 wait $!
        tell set '{"start_seconds": 0.05}'
        clear
}

# red when the commit was asked for once only, before the first try
a_node_that_is_away_is_waited_for() {
        local id
        normal
        workspace
        id=$(start)
        status 0 "$C" exec "$id" -- sh -c 'echo new >n'
        tell faults '[{"path": "/exec", "status": 500, "message": "error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused", "times": 2}]'
        status 0 "$C" stop "$id" >out
        eq new "$(cat ws/n)"
        clear
}

races_are_tried_again() {
        normal
        workspace
        touch "$T/race"
        status 0 run -- sh -c 'echo new >n' >out 2>err
        [ ! -e "$T/race" ] && [ -e ws/n ] || fail "$(cat err)"
        clear
}

a_lost_connection_is_no_exit_code() {
        local id
        normal
        workspace
        id=$(start)
        "$C" exec "$id" sh -c ": >'$W/begun'; exec sleep 100" >out 2>err &
        wait_for 60 test -e begun
        tell cut '{}'
        status 125 wait $!
        eq 1 "$(wc -l <err)" "$(cat err)"
        has "$(cat err)" 'the command was lost: '
        "$C" events "$id" >said
        jq -es 'any(.[]; .type == "exec_finished" and .data.exit_code == 125 and (.data.lost | strings))' said >out || fail "$(cat said)"
        status 0 "$C" exec "$id" true
        # the pod goes: the run is lost, and says so
        curl -sS --cacert "$fake/ca.crt" -H 'Authorization: Bearer admin-token' -X DELETE "$base/api/v1/namespaces/test/pods/$(query 'pods[0]["metadata"]["name"]')" >/dev/null
        ended() { "$C" events "$id" 2>/dev/null | grep sandbox_finished >ended; }
        wait_for 60 ended || fail 'it goes on without a pod'
        "$C" events "$id" >said
        has "$(jq -r 'select(.type == "sandbox_workspace_export_failed").data.reason' said)" 'pod was gone'
        eq SANDBOX_SETUP_FAILED "$(jq -r .data.failure_code ended)" # that somebody deleted it is the first reason
        eq one "$(cat ws/a)"
        # a run's own command: the same line
        rm begun
        run -- sh -c ": >'$W/begun'; exec sleep 100" >out 2>err &
        wait_for 60 test -e begun
        tell cut '{}'
        status 125 wait $!
        has "$(cat err)" 'the command was lost: '
        clear
}

t 'the workspace goes there and comes back' there_and_back
t 'what is hostile in it stays outside' hostile_things_stay_outside
t 'a tar that does not end, or lies, ends the export alone' hostile_tar_ends
t 'copy-on-write waits for review' copy_on_write_waits_for_review
t 'commands run side by side' commands_run_side_by_side
t 'nothing is left of a start that failed' nothing_is_left_of_a_failed_start
t 'what a server may say at each step' what_servers_say
t 'what never runs is told, and undone' what_never_runs_is_told_and_undone
t 'a pod that had to make room is told by its code' who_had_to_make_room_is_told
t 'a pod that no node takes is given up, by its code' no_node_takes_it
t 'two attempts of a step are never side by side' attempts_are_never_side_by_side
t 'two attempts of a step that begin at once' attempts_at_once
t 'what was made unseen goes, too' what_was_made_unseen_goes
t 'helpers that were stopped end' stopped_helpers_end
t 'killed supervisors leave nothing' killed_supervisors_leave_nothing
t 'a helper that was killed leaves nothing' a_killed_helper_leaves_nothing
t 'a record stays as long as its pod does' a_record_stays_as_long_as_its_pod
t 'what is left is said' what_is_left_is_said
t 'the reaper takes what expired' the_reaper_takes_what_expired
t 'what is released is all of a run, or of an owner, and no more' release_takes_its_own
t 'a file of the copy is replaced' a_file_of_the_copy_is_replaced
t 'the reaper comes again' the_reaper_comes_again
t 'a signal before the command is for it' a_signal_before_the_command_is_for_it
t 'a node that is away is waited for' a_node_that_is_away_is_waited_for
t 'races of tar are tried again' races_are_tried_again
t 'a lost connection is no exit code' a_lost_connection_is_no_exit_code
kill "$server" && wait "$server"
finish
