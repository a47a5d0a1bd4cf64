#!/usr/bin/env bash
# runs by driver kubernetes on a real server: the lab that COFFERDAM_K8S=1 ./dev test starts, as the service account
# of images/kubernetes/rbac.yaml and with its rights only
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/kube-lab-lib.sh
. "$(dirname "$0")/kube-lab-lib.sh"
lab_ready
N=cofferdam-life-$$
lab_namespace "$N"
run() { timeout -k 5 400 "$C" run -d kubernetes --image lab.local/busybox:1 -w "$W/ws" "$@"; }
start() { timeout -k 5 150 "$C" start -d kubernetes --image lab.local/busybox:1 -w "$W/ws" "$@"; }

rights_of_the_role_only() {
        eq no "$(admin auth can-i create networkpolicies -n "$N" --as="system:serviceaccount:$N:worker" || true)"
        eq no "$(admin auth can-i list secrets -n "$N" --as="system:serviceaccount:$N:worker" || true)"
        mkdir ws
        status 0 run -- sh -c 'touch /usr/local/probe 2>/dev/null && exit 9; ls /var/run/secrets/kubernetes.io/serviceaccount 2>/dev/null && exit 8; id -u' >out
        eq 10001 "$(cat out)"
        clear
}

big_workspace() {
        mkdir ws
        (cd ws && git init -q && for d in $(seq 200); do mkdir "d$d" && for f in $(seq 100); do echo "$d $f" >"d$d/f$f"; done; done
                git add -A && git -c gc.auto=0 -c user.name=n -c user.email=e commit -qm first) # no gc beside the run
        status 0 run --events events -- sh -c 'find . -name "f*" -type f -path "./d*" | wc -l; rm -r d7; echo new >d8/new; echo changed >d9/f1' >out
        eq 20000 "$(cat out)"
        git -C ws fsck --strict >/dev/null 2>&1 || fail 'the repository is damaged'
        eq 102 "$(git -C ws status --short | wc -l)"
        [ ! -e ws/d7 ] && [ -e ws/d8/new ] || fail 'changes are missing'
        clear
}

# one run: what is meant for one command reaches no other; 100 MB both ways; a size that changes; a signal
commands_and_streams() {
        local id i
        local -a pids
        mkdir ws
        id=$(start)
        for i in {1..8}; do
                echo "in $i" | "$C" exec "$id" -- sh -c "touch /tmp/\$0; while [ \$(ls /tmp/c? | wc -l) -lt 8 ]; do sleep 0.1; done; cat; exit \$1" "c$i" "$i" >"o$i" 2>&1 &
                pids[i]=$!
        done
        for i in {1..8}; do
                status "$i" wait "${pids[i]}"
                eq "in $i" "$(cat "o$i")"
        done
        head -c 100000000 /dev/urandom >big
        "$C" exec "$id" cat <big >back
        cmp back big
        rm back big
        python3 - "$C" exec -t "$id" sh -c 'stty size; echo ready; n=0; while [ "$(stty size)" != "50 120" ]; do sleep 0.1; n=$((n + 1)); [ $n -lt 600 ] || exit 5; done; tty; exit 4' <<'PY' >out || fail "$(cat out)"
import fcntl, os, pty, struct, subprocess, sys, termios
def size(rows, columns):
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
master, slave = pty.openpty()
size(33, 99)
child = subprocess.Popen(sys.argv[1:], stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                         preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
os.close(slave)
seen = b""
while True:
    try:
        some = os.read(master, 4096)
    except OSError:
        break
    if b"ready" not in seen and b"ready" in seen + some:
        size(50, 120)
    seen += some
sys.stdout.buffer.write(seen)
sys.exit(child.wait() != 4 or b"33 99" not in seen or b"/dev/pts/" not in seen)
PY
        "$C" exec "$id" sh -c 'touch /tmp/sleeps; exec sleep 100' &
        i=$!
        sleeps() { "$C" exec "$id" test -e /tmp/sleeps; }
        wait_for 60 sleeps
        kill -TERM $i
        status 143 wait $i
        status 0 "$C" stop "$id" >out
        clear
}

# red without the exclusion of hooks and config
hostile_workspace() {
        local config
        mkdir ws outside && git -C ws init -q && ln -s ../outside ws/escape && echo host >ws/plain && config=$(cat ws/.git/config)
        rm -rf ws/.git/hooks
        status 0 run --events events -- sh -c 'set -e
                mkdir -p .git/hooks a && echo evil >.git/hooks/pre-commit && chmod 755 .git/hooks/pre-commit
                printf "[core]\n\tfsmonitor = evil\n" >>.git/config
                ln -s hooks .git/x && echo evil >.git/x/pre-push
                ln -s config .git/y && echo evil >>.git/y
                ln -s ../.git a/x && echo evil >a/x/hooks/post-checkout
                ln -s /etc/passwd absolute; ln -s ../../outside up; ln -s ../outside out && mkdir -p d/e
                rm escape && mkdir escape && echo evil >escape/f
                rm plain && ln -s ../outside/made plain
                echo s >setuid && chmod 6755 setuid
                mkfifo fifo; ln setuid hard
                echo in >d/e/f && ln -s e/f d/kept && touch -d "2001-02-03 04:05:06" d/e/f && chmod 755 d/e/f' >out 2>err || fail "$(cat err)"
        eq "$config" "$(cat ws/.git/config)"
        [ ! -e ws/.git/hooks/pre-commit ] && [ ! -e ws/.git/hooks/pre-push ] && [ ! -e ws/.git/hooks/post-checkout ] || fail "$(ls -lR ws/.git/hooks)"
        eq '' "$(ls outside)" 'outside'
        eq '' "$(find ws -perm /6000 -o -type p)" 'modes and kinds'
        eq '' "$(find ws -path ws/.git -prune -o -type l -print | while read -r l; do [[ $(realpath -m "$l") == "$W/ws/"* ]] || echo "$l"; done)" 'links that leave'
        eq in "$(cat ws/d/kept)"
        eq '2001-02-03 755' "$(date -r ws/d/e/f +%F) $(stat -c %a ws/d/e/f)"
        jq -se 'any(.type == "guard_denied" and .data.path == ".git/hooks/pre-commit")' events >/dev/null || fail "$(cat events)"
        clear
}

a_racer_inside() {
        local config
        mkdir ws && git -C ws init -q && config=$(cat ws/.git/config) && mkdir outside
        # tar may never get a whole copy of it: then the run says so, and nothing lands
        run --keep -- sh -c 'mkdir -p .git/hooks d; echo x >d/f
                (while :; do mv d e; ln -s ../outside d; ln -s .git/hooks g; rm -f d g; mv e d; echo evil >.git/hooks/pre-push; echo evil >>.git/config; touch /tmp/races; done) >/dev/null 2>&1 &
                while [ ! -e /tmp/races ]; do sleep 0.05; done' >out 2>err || true
        eq "$config" "$(cat ws/.git/config)"
        [ ! -e ws/.git/hooks/pre-push ] && [ ! -L ws/d ] || fail "$(ls -lR ws)"
        eq '' "$(ls outside)"
        eq '' "$(find ws -perm /6000)"
        clear
}

# a run's processes have a variable of their own; in turn all of them die, one, those of the cluster, or the others.
# Red without left(), when a pod whose `life` was killed alone was nobody's; and when who ends the pod of a dead run is
# killed, too, if gc forgets the run nevertheless
point() { # NUMBER
        local k=$1 p victims=()
        MARK=$N.$k run -- sleep 3 >/dev/null 2>&1 &
        sleep "$(awk -v k="$k" 'BEGIN { srand(k); print rand() * 3 }')"
        for p in $(ours; pgrep cofferdam-kube || true); do
                ! grep -qz "^MARK=$N.$k$" "/proc/$p/environ" 2>/dev/null || victims+=("$p:$(cat "/proc/$p/comm")")
        done
        case $((k % 4)) in
        0) mapfile -t victims < <(printf '%s\n' "${victims[@]}" | shuf -n 1) ;;
        1) mapfile -t victims < <(printf '%s\n' "${victims[@]}" | grep kube || true) ;;
        2) mapfile -t victims < <(printf '%s\n' "${victims[@]}" | grep -v kube || true) ;;
        esac
        for p in "${victims[@]}"; do kill -9 "${p%%:*}" 2>/dev/null || true; done
        echo "point $k: ${victims[*]}"
        wait || true
        "$C" gc >/dev/null || true
}
killed_at_any_point() {
        local other lane k lanes=()
        mkdir ws
        other=$(start)
        for lane in 1 2 3; do
                for ((k = lane; k <= ${COFFERDAM_POINTS:-30}; k += 3)); do point "$k"; done &
                lanes+=($!)
        done
        wait "${lanes[@]}"
        # a record stays as long as its pod does, which takes its time
        one() { "$C" gc >gc.log 2>&1 || true; [ "$(pods | wc -l)" = 1 ] && [ "$("$C" ps -a --json | jq -r '.[] | select(.status != "finished").id')" = "$other" ]; }
        wait_for 120 one || fail "$(pods; "$C" ps -a; cat gc.log)"
        status 0 "$C" exec "$other" true
        "$C" stop "$other" >out
        clear
}

# the first is gone before the second is made, by the words of the server
one_attempt_at_a_time() {
        local first watcher
        mkdir ws
        printf '{"version":1,"kubernetes":{"run_id":"r1","step":"fix it"}}' >s.json
        timeout 300 kubectl --kubeconfig "$LAB/conf/admin.kubeconfig" get pods -n "$N" -w --output-watch-events --no-headers >seen &
        watcher=$!
        first=$(start -s s.json)
        wait_for 60 grep -q ^ADDED seen
        status 0 run -s s.json -- true
        gone() { [ "$(grep -c ^DELETED seen)" = 2 ]; }
        wait_for 60 gone || fail "$(cat seen)"
        kill "$watcher"
        eq 'ADDED DELETED ADDED DELETED' "$(awk '$1 != "MODIFIED" { print $1 }' seen | xargs)"
        eq 2 "$(awk '$1 == "ADDED" { print $2 }' seen | sort -u | wc -l)"
        "$C" stop "$first" >out 2>err || true
        clear
}

# The token of an account that is made anew is none any more, as one whose time is over: the server says 401, and what
# the file says by then is taken.
a_token_ends_under_a_run() {
        local id old
        mkdir ws
        id=$(start)
        old=$(cat "$account/token")
        admin delete sa worker -n "$N" >/dev/null
        admin create sa worker -n "$N" >/dev/null
        refused() { ! timeout 20 kubectl --server https://127.0.0.1:16443 --certificate-authority "$LAB/pki/ca.crt" --token "$old" get pods -n "$N" 2>err && grep -q Unauthorized err; }
        wait_for 60 refused || fail "$(cat err)"
        status 125 "$C" exec "$id" true 2>err
        has "$(cat err)" 401
        lab_token "$N" worker >"$account/token.new" && mv "$account/token.new" "$account/token"
        status 0 "$C" exec "$id" sh -c 'echo made >made'
        status 0 "$C" stop "$id" >out
        eq made "$(cat ws/made)"
        clear
}

# a Secret of the run alone, brought in and replaced by the kubelet; red without secret_make(), its owner, or `secret`'s PATCH
files_of_a_run() {
        local id old=old-$RANDOM$RANDOM new=new-$RANDOM$RANDOM p
        mkdir ws
        echo "$old" >"$T/source"
        ours_of() { admin get secrets -n "$N" -l app.kubernetes.io/managed-by=ironflow -o name; }
        none_of_them() { [ -z "$(ours_of)" ]; }
        values_are_nowhere() {
                admin get pods,configmaps,events -n "$N" -o json >seen
                for p in "$old" "$new" "$(echo "$old" | base64)" "$(echo "$new" | base64)"; do lacks "$(cat seen)" "$p"; done
        }
        # 440: the kubelet lets the pod's fsGroup read
        begin() { MARK=$N.$1 start --secret "A=file:$T/source,as=file,env=A_FILE,path=/home/claude/.config/a" --secret "B=file:$T/source,as=file"; }
        id=$(begin first)
        # shellcheck disable=SC2016
        eq "$old $old 440" "$("$C" exec "$id" sh -c 'echo $(cat $A_FILE) $(cat /home/claude/.config/a) $(stat -Lc %a /run/secrets/A)')"
        eq 1 "$(ours_of | wc -l)"
        eq "$(admin get pods -n "$N" -o jsonpath='{.items[0].metadata.uid}')" \
                "$(admin get "$(ours_of)" -n "$N" -o jsonpath='{.metadata.ownerReferences[*].uid}')" 'its owner'
        values_are_nowhere
        SECONDS=0
        echo "$new" | status 0 "$C" secret "$id" A
        # shellcheck disable=SC2016
        has_new() { [ "$("$C" exec "$id" sh -c 'cat $A_FILE /home/claude/.config/a')" = "$(printf '%s\n' "$new" "$new")" ]; }
        wait_for 180 has_new || fail 'it does not come in'
        echo "# replaced inside after $SECONDS s"
        eq "$old" "$("$C" exec "$id" cat /run/secrets/B)" 'the other one'
        values_are_nowhere
        status 0 "$C" stop "$id" >out
        clear
        wait_for 60 none_of_them || fail "$(ours_of)"
        # and where all of it is killed
        id=$(begin second)
        for p in $(ours; pgrep cofferdam-kube || true); do
                ! grep -qz "^MARK=$N.second$" "/proc/$p/environ" 2>/dev/null || kill -9 "$p" 2>/dev/null || true
        done
        wait_for 60 none_of_ours
        eq 1 "$(ours_of | wc -l)"
        status 0 "$C" gc >out
        clear
        wait_for 60 none_of_them || fail "$(ours_of)"
}

t 'the rights of the Role, and the walls of the pod' rights_of_the_role_only
t '20000 files and their history' big_workspace
t 'commands, 100 MB, a terminal, signals' commands_and_streams
t 'a hostile workspace' hostile_workspace
t 'a racer inside during the export' a_racer_inside
t 'killed at any point, then gc' killed_at_any_point
t 'one attempt of a step at a time' one_attempt_at_a_time
t 'files of a run are a Secret of its own, and are replaced' files_of_a_run
t 'a token ends under a run, and is read again' a_token_ends_under_a_run
finish
