#!/usr/bin/env bash
# Runs in containers of podman (as root and as a user) and docker (as root, whose daemon is started here): the same
# command line, the same result as natively, and nothing left behind.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"

nothing_left() { # ENGINE
        eq '' "$(containers "$1")" 'containers'
        eq '' "$(ls "$XDG_STATE_HOME/cofferdam/runs" 2>/dev/null)" 'runs'
}

runs() {
        engine_ready "$1"
        mkdir .git .git/hooks
        eq "out $W yes" "$(boxed "$1" -- sh -c "echo out \$PWD \$OF_IMAGE; echo err >&2; echo new >new; exit 7" 2>err || echo "rc $?" >rc)"
        eq 'rc 7' "$(cat rc)"
        eq err "$(cat err)"
        eq new "$(cat new)"
        eq "$(id -u):$(id -g)" "$(stat -c %u:%g new)" 'owner on the host'
        nothing_left "$1"
}
guards() { # nothing of it but the hook, and that is held: no file server, no guard
        engine_ready "$1"
        mkdir -p .git/hooks
        echo secret >.env
        id=$("$C" start -d "$1" --image busy:1 --hide .env)
        status 1 "$C" exec "$id" -- cat .env 2>/dev/null
        "$C" exec "$id" -- sh -c 'echo evil >.git/hooks/pre-commit; cat .git/hooks/pre-commit' >seen
        eq evil "$(cat seen)"
        [ ! -e .git/hooks/pre-commit ] || fail 'the hook is on the host'
        has "$("$C" diff "$id")" .git/hooks/pre-commit
        "$C" stop "$id" >/dev/null
        has "$("$C" diff --held "$id")" .git/hooks/pre-commit
        "$C" apply "$id" .git/hooks/pre-commit >/dev/null
        eq evil "$(cat .git/hooks/pre-commit)"
        "$C" rm --force "$id" >/dev/null 2>&1 || true
        nothing_left "$1"
}
keeps_copies() {
        engine_ready "$1"
        echo old >file
        id=$("$C" start -d "$1" --image busy:1 --workspace-mode cow)
        "$C" exec "$id" -- sh -c 'echo new >file; mkdir d; echo x >d/x'
        eq old "$(cat file)"
        "$C" stop "$id" >/dev/null
        eq 'A d A d/x M file' "$("$C" diff "$id" | sort -k2 | xargs)"
        "$C" apply "$id" file >/dev/null
        eq new "$(cat file)"
        "$C" discard "$id"
        nothing_left "$1"
}
serves_commands() {
        engine_ready "$1"
        id=$("$C" start -d "$1" --image busy:1 -e A=1)
        eq 1 "$(containers "$1" | wc -l)"
        has "$("$C" events "$id")" '"root":"image","image":{"ref":"busy:1"'
        # another image of that name, or none, is nothing to this run
        eq '1 2' "$("$C" exec -e B=2 "$id" -- sh -c 'echo $A $B')"
        eq abc "$(echo abc | "$C" exec "$id" -- cat)"
        # a script of a megabyte is more than one argument can be: it comes by stdin, whose end is seen
        { head -c 1000000 /dev/zero | tr '\0' '#'; echo; echo 'echo end; exit 3'; } >script
        eq end "$(status 3 "$C" exec "$id" -- sh -s <script)"
        status 3 "$C" exec "$id" -- sh -c 'exit 3'
        status 137 "$C" exec "$id" -- sh -c 'kill -9 $$'
        status 127 "$C" exec "$id" -- no-such-program 2>/dev/null
        status 126 "$C" exec "$id" -- /etc 2>/dev/null
        eq /etc "$("$C" exec -w /etc "$id" -- pwd)"
        # 7 MB both ways, as they are
        head -c 7000000 /dev/urandom >bytes
        "$C" exec "$id" -- cat <bytes >back
        cmp bytes back
        "$C" stop "$id" >/dev/null
        "$C" rm "$id" >/dev/null
        nothing_left "$1"
}
makes_terminals() {
        engine_ready "$1"
        id=$("$C" start -d "$1" --image busy:1)
        has "$(script -qec "stty rows 33 cols 77; '$C' exec -t '$id' -- sh -c 'tty; stty size'" /dev/null </dev/null)" '33 77'
        "$C" rm --force "$id" >/dev/null
}
passes_signals() {
        engine_ready "$1"
        boxed "$1" -- sh -c 'trap "echo got; exit 5" TERM; echo ready >ready; while :; do sleep 0.1; done' >out &
        wait_for 60 test -e ready || fail 'it does not start'
        pid=$(live_pids "$C run" | sort -n | head -n 1)
        kill -TERM "$pid"
        status 5 wait $!
        eq got "$(cat out)"
        nothing_left "$1"
}
is_hardened() {
        engine_ready "$1"
        boxed "$1" -u 1000:1000 -- sh -c 'cat /proc/self/status; mount; id; touch /x 2>&1; touch /run/cofferdam/x 2>&1; ls /run/cofferdam/ctl' >out || true
        grep -qx $'CapEff:\t0000000000000000' out || fail "capabilities: $(cat out)"
        grep -qx $'CapBnd:\t0000000000000000' out || fail "bounding set: $(cat out)"
        grep -qx $'NoNewPrivs:\t1' out
        grep -qx $'Seccomp:\t2' out
        has "$(cat out)" 'uid=1000'
        grep -q "^touch: /x: Read-only" out || fail "$(cat out)"
        grep -q "^touch: /run/cofferdam/x: Read-only" out || fail "$(cat out)"
        ! grep -qx socket out || fail 'the socket of the supervisor is there'
        eq 1 "$(boxed "$1" -- sh -c 'echo $PPID')" 'parent of a command'
        # pid 1 is ours: it cannot be read, and its program not be written
        boxed "$1" -- sh -c 'cat /proc/1/environ || echo no' 2>/dev/null >out
        eq no "$(cat out)"
        # the bound of processes that nobody asked for
        eq 4096 "$(boxed "$1" -- sh -c 'cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max 2>/dev/null || ulimit -u')"
}
has_a_home() {
        engine_ready "$1"
        echo seeded >"$HOME/.seedrc"
        boxed "$1" --seed "$HOME/.seedrc" --home-size 1Mi --tmp-size 2Mi -- sh -c '
                cat ~/.seedrc; echo x >~/x; stat -c "%U %a" ~ /tmp; df -k ~ /tmp | tail -n 2
                printf "#!/bin/sh\necho runs\n" >/tmp/run; chmod +x /tmp/run; /tmp/run' >out
        has "$(cat out)" seeded
        has "$(cat out)" runs
        has "$(cat out)" ' 1024 '
        has "$(cat out)" ' 2048 '
        [ ! -e "$HOME/x" ] || fail 'the home is the host'\''s'
}
has_users() { # of the image and of the caller: names, numbers, home, and whose files are
        engine_ready "$1"
        chmod 777 .
        for user in app 4321; do # the image says who works in it, by name or number
                "$1" import --change "USER $user" "$E/image.tar" "busy:$user" >/dev/null 2>&1
        done
        eq "4321 app /srv/app /srv/app" "$(boxed "$1" --image busy:app -- sh -c 'echo $(id -u) $(id -un) $HOME ~; touch made' 2>err)" "$(cat err)"
        eq '4321 4322 app /srv/app' "$(boxed "$1" --image busy:4321 -- sh -c 'echo $(id -u) $(id -g) $USER $HOME')"
        # a name that is said is one of the image
        eq '4321 4322 app' "$(boxed "$1" -u app -- sh -c 'echo $(id -u) $(id -g) $(id -un)')"
        eq '4321 4322 app /srv/app' "$(boxed "$1" -u 4321 -- sh -c 'echo $(id -u) $(id -g) $USER $HOME')"
        "$1" import --change 'USER app:root' "$E/image.tar" busy:group >/dev/null 2>&1
        eq '4321 0' "$(boxed "$1" --image busy:group -- sh -c 'echo $(id -u) $(id -g)')"
        eq '0 4322' "$(boxed "$1" -u 0:4322 -- sh -c 'echo $(id -u) $(id -g); echo x >both')"
        # of the host, not of the image
        status 125 boxed "$1" -u sshd -- true 2>/dev/null
        status 125 boxed "$1" -u nobody-there -- true 2>err
        has "$(cat err)" nobody-there
        # nobody says: the caller, by name
        eq "$(id -un) $(id -u) $HOME" "$(boxed "$1" -- sh -c 'echo $(id -un) $(id -u) $HOME')"
        if [ "$(id -u)" = 0 ]; then eq 4321 "$(stat -c %u made)"; else eq "$(id -u)" "$(stat -c %u made)"; fi
        nothing_left "$1"
}
keeps_secrets() {
        engine_ready "$1"
        echo first >"$T/source"
        id=$("$C" start -d "$1" --image busy:1 --secret "A=file:$T/source,as=file" --post-create 'echo ready >post')
        eq ready "$(cat post)"
        eq first "$("$C" exec "$id" -- cat /run/secrets/A)"
        eq 400 "$("$C" exec "$id" -- stat -c %a /run/secrets/A)"
        status 1 "$C" exec "$id" -- sh -c 'echo x >/run/secrets/A' 2>/dev/null
        echo second | "$C" secret "$id" A
        eq second "$("$C" exec "$id" -- cat /run/secrets/A)"
        eq 'A' "$("$C" exec "$id" -- ls -A /run/secrets)"
        ! "$1" inspect "cofferdam-$id" | grep -qE 'first|second' || fail 'the engine knows it'
        "$C" stop "$id" >/dev/null
        "$C" rm "$id" >/dev/null
        nothing_left "$1"
}
gives_tokens() { # for a credential that stays outside, with a relay on the loopback inside
        engine_ready "$1"
        [ -e "$T/libexec/cofferdam-auth-proxy" ] || skip 'opt-in: the auth proxy is built where libcurl and libpq are'
        TOKEN=of-the-caller boxed "$1" --secret TOKEN=env:TOKEN,host=a.example -- sh -c 'echo "${TOKEN:+some} $TOKEN_URL"; env; cat /proc/net/tcp' >out
        has "$(cat out)" 'some http'
        lacks "$(cat out)" of-the-caller
        has "$(cat out)" 0100007F:0C39
        nothing_left "$1"
}
mounts_what_is_asked() { # also at places and from sources that engines would take apart
        engine_ready "$1"
        mkdir -p "$T/a,b" "$T/c:d"
        echo one >"$T/a,b/f"
        echo two >"$T/c:d/f"
        echo three >"$T/file"
        printf 'mounts:\n- {type: bind, source: "%s", target: "/m,1", readonly: true}\n- {type: bind, source: "%s", target: "/m:2"}\n- {type: bind, source: "%s", target: /etc/one}\n- {type: tmpfs, target: /m3, size: 1Mi}\n' \
                "$T/a,b" "$T/c:d" "$T/file" >spec.yaml
        if ! "$C" spec check -s spec.yaml >/dev/null 2>&1; then
                boxed "$1" --mount "type=bind,source=$T/c:d,target=/m:2" --mount "type=bind,source=$T/file,target=/etc/one,readonly" \
                        --mount type=tmpfs,target=/m3,size=1Mi -- sh -c 'cat /m:2/f /etc/one; touch /m3/x; echo new >/m:2/new' >out
        else
                boxed "$1" -s spec.yaml -- sh -c 'cat /m,1/f /m:2/f /etc/one; touch /m3/x; echo new >/m:2/new' >out
        fi
        has "$(cat out)" two
        has "$(cat out)" three
        eq new "$(cat "$T/c:d/new")"
}
filters_the_network() {
        engine_ready "$1"
        boxed "$1" --network allowlist --allow allowed.example --events "$W/events" -- sh -c '
                wget -O - http://denied.example/ 2>&1 | tail -n 1; ls /sys/class/net' >out
        has "$(cat out)" '403 Forbidden'
        eq lo "$(tail -n 1 out)"
        grep -q '"network_blocked".*denied.example' events || fail "$(cat events)"
        # what knows of no proxy has the loopback only
        eq lo "$(boxed "$1" --network none -- ls /sys/class/net)"
}
is_swept_by_its_labels() { # what nobody could remove: supervisor, pid 1's keeper and engine were all gone
        engine_ready "$1"
        id=$("$C" start -d "$1" --image busy:1)
        # one of ours without a run, one of another state directory, one of somebody else's
        for labels in "$XDG_STATE_HOME/cofferdam" /elsewhere; do
                "$1" create --name "cofferdam-00000000000$((n = ${n-0} + 1))" --label app.kubernetes.io/managed-by=cofferdam \
                        --label "cofferdam.io/state=$labels" --ulimit nofile=64 --ulimit nproc=64 busy:1 true >/dev/null
        done
        "$1" create --name bystander --ulimit nofile=64 --ulimit nproc=64 busy:1 true >/dev/null
        eq "000000000001 container of $1 removed" "$("$C" gc)"
        eq "$(printf '%s\n' bystander "cofferdam-$id" cofferdam-000000000002 | sort | xargs)" \
                "$("$1" ps -a --format '{{.Names}}' | sort | xargs)" 'what stays'
        "$1" rm bystander cofferdam-000000000002 >/dev/null
        "$C" exec "$id" -- true
        "$C" stop "$id" >/dev/null
        "$C" rm "$id" >/dev/null
        nothing_left "$1"
}
# label ENGINE ID NAME
label() { "$1" inspect --format "{{index .Config.Labels \"ironflow.io/$3\"}}" "cofferdam-$2"; }
# Labels that the workflow says, and when nobody can want it any more; gc goes by what lives. Red with a sweep that asks
# for expires-at
carries_labels() {
        local from id
        engine_ready "$1"
        printf '{"version":1,"kubernetes":{"run_id":"r1","root_run_id":"r0","step":"fix it\\n=,x"}}' >spec.json
        from=$(date +%s)
        id=$("$C" start -d "$1" --image busy:1 -s spec.json --timeout 90m)
        eq "$id r0 fix it\\n=,x" "$(label "$1" "$id" run-id) $(label "$1" "$id" root-run-id) $(label "$1" "$id" step)"
        from=$(($(label "$1" "$id" expires-at) - from - 5460))
        [ "$from" -ge 0 ] && [ "$from" -lt 300 ] || fail "expires $from seconds late"
        "$C" rm --force "$id" >/dev/null
        shim "$1" <<'X'
exec "$real" "${@/#ironflow.io\/expires-at=*/ironflow.io/expires-at=1}"
X
        id=$("$C" start -d "$1" --image busy:1 --timeout 90m)
        eq "1 run $id" "$(label "$1" "$id" expires-at) $(label "$1" "$id" step) $(label "$1" "$id" root-run-id)"
        eq '' "$("$C" gc)"
        eq lives "$("$C" exec "$id" -- echo lives)"
        "$C" rm --force "$id" >/dev/null
        id=$("$C" start -d "$1" --image busy:1)
        eq '' "$(label "$1" "$id" expires-at)" 'one without an end'
        "$C" rm --force "$id" >/dev/null
        nothing_left "$1"
}
leaves_nothing_when_killed() {
        engine_ready "$1"
        id=$("$C" start -d "$1" --image busy:1)
        "$C" exec "$id" -- sh -c 'sleep 1000; echo no >no' &
        wait_for 60 "$C" exec "$id" -- true
        # the supervisor: whoever leads the session of pid 1's keeper
        pid=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["supervisor"]["pid"])' "$XDG_STATE_HOME/cofferdam/runs/$id/state.json")
        kill -KILL "$pid"
        wait_for 60 eval "[ -z \"\$(containers $1)\" ]" || fail "left: $(containers "$1")"
        "$C" gc >/dev/null
        "$C" rm "$id" >/dev/null 2>&1 || true
        nothing_left "$1"
}
calls_once() { # one call makes and removes the container of a command
        engine_ready "$1"
        shim "$1" <<'X'
echo "$1 ${GOMAXPROCS--} ${GOGC--}," >>"$0.calls"
[ "$1" != pull ] || { echo 'no such image' >&2; exit 1; }
exec "$real" "$@"
X
        boxed "$1" -- env >inside
        eq 'image 1 400, run 1 400,' "$(xargs <"shim/$1.calls")" 'calls'
        eq '' "$(grep ^GO inside)" 'what is for the client is in the container'
        : >"shim/$1.calls"
        GOMAXPROCS=2 GOGC=50 boxed "$1" -- true
        eq 'image 2 50, run 2 50,' "$(xargs <"shim/$1.calls")" 'as the caller says'
        : >"shim/$1.calls"
        status 125 sandbox -d "$1" --image busy:none -- true 2>err
        eq 'image 1 400, pull - -,' "$(xargs <"shim/$1.calls")" 'a pull'
        nothing_left "$1"
}
outlives() { # ENGINE WHO: is killed while a command runs
        local clients line victim rc=0
        engine_ready "$1"
        boxed "$1" -- sh -c 'echo >here; until [ -e go ]; do sleep 0.1; done; exit 3' &
        wait_for 60 [ -e here ] || fail 'no command runs'
        line="--rm --pull never --name cofferdam-$(ls "$XDG_STATE_HOME/cofferdam/runs")" # of this run: others call the engine, too
        clients=$(live_pids "run $line")
        case $2 in
        client) victim=$clients ;;
        caller) victim=$(for pid in $clients; do ps -o ppid= -p "$pid"; done | while read -r pid; do
                [ "$(cat "/proc/$pid/comm")" != cofferdam-oci ] || echo "$pid"
        done) ;;
        supervisor) victim=$(python3 -c 'import glob,json; [print(json.load(open(p))["supervisor"]["pid"]) for p in glob.glob("'"$XDG_STATE_HOME"'/cofferdam/runs/*/state.json")]') ;;
        esac
        [ "$victim" ] || fail "no $2 among: $clients"
        # shellcheck disable=SC2086 # podman of a user is two
        kill -KILL $victim
        : >go
        wait $! || rc=$?
        case $2 in supervisor) [ "$rc" != 3 ] || fail 'it was not killed' ;; *) eq 3 "$rc" 'exit status' ;; esac
        wait_for 60 none_live "run $line" || fail "a client is left: $(live_pids "run $line")"
        wait_for 60 eval "[ -z \"\$(containers $1)\" ]" || fail "left: $(containers "$1")"
        "$C" gc >/dev/null
        eq '' "$(containers "$1")" containers
}
says_what_is_wrong() {
        engine_ready "$1"
        status 125 sandbox -d "$1" --image no-such-image.invalid/x:1 --events "$W/events" -- true 2>err
        has "$(cat events)" IMAGE_UNAVAILABLE
        has "$(cat err)" no-such-image.invalid/x:1
        eq 1 "$(wc -l <err)"
        status 2 sandbox -d "$1" -- true 2>err
        has "$(cat err)" image:
        status 125 boxed "$1" --bypass x -- true 2>err
        has "$(cat err)" workspace.bypass
        nothing_left "$1"
}

# shim ENGINE <<SCRIPT: what is called in place of the engine's command line; $real is that
shim() {
        mkdir shim
        { printf '#!/bin/bash\nreal=%s\n' "$(command -v "$1")"; cat; } >"shim/$1"
        chmod +x "shim/$1"
        export PATH=$W/shim:$PATH
}
takes_back_its_name() { # the name is that of a dead container of the same run: what a start that was cut off leaves
        engine_ready "$1"
        shim "$1" <<'X'
name=$(sed -n 's/.*--name \(cofferdam-[0-9a-f]*\).*/\1/p' <<<"$*")
if [ "$1" = run ] && [ ! -e "$0.did" ]; then
        : >"$0.did"
        "$real" create --name "$name" --label "ironflow.io/run-id=${name#cofferdam-}" --ulimit nofile=64 --ulimit nproc=64 busy:1 true >/dev/null
fi
exec "$real" "$@"
X
        eq hi "$(boxed "$1" -- echo hi)"
        [ -e "shim/$1.did" ]
        eq '' "$("$1" ps -aq)"
        nothing_left "$1"
}
leaves_others_their_name() {
        engine_ready "$1"
        shim "$1" <<'X'
name=$(sed -n 's/.*--name \(cofferdam-[0-9a-f]*\).*/\1/p' <<<"$*")
if [ "$1" = run ]; then "$real" create --name "$name" --ulimit nofile=64 --ulimit nproc=64 busy:1 true >"$0.did"; fi
exec "$real" "$@"
X
        status 125 boxed "$1" -- echo hi >out 2>err
        has "$(cat err)" 'is already in use'
        eq 1 "$(wc -l <err)"
        [ ! -s out ]
        "$1" ps -aq --no-trunc | grep -qx "$(cat "shim/$1.did")" || fail 'the container of somebody else is gone'
        PATH=${PATH#*:} "$1" rm "$(cat "shim/$1.did")" >/dev/null
        nothing_left "$1"
}
storage_row() { # ENGINE: state and evidence
        "$C" doctor --json | python3 -c 'import json, sys
[print(r["state"], r["evidence"]) for r in json.load(sys.stdin)["rows"] if r["key"] == sys.argv[1] + "_storage"]' "$1"
}
tells_its_storage() {
        local said
        engine_ready "$1"
        case $1 in
        podman) said=$(podman info --format '{{.Store.GraphDriverName}} at {{.Store.GraphRoot}}') ;;
        docker) said=$(docker info --format '{{.Driver}} at {{.DockerRootDir}}') ;;
        esac
        has "$(storage_row "$1")" "ok $said, "
}
mends_its_storage() { # as the remedy of doctor says
        [ "$(id -u)" != 0 ] || skip 'only a user has a podman that can be reset without harm to others'
        engine_ready podman
        # a reset removes the engine's own directory too, in which containers of other tests may still end
        export CONTAINERS_STORAGE_CONF=$W/conf XDG_RUNTIME_DIR=$W/run CONTAINERS_CONF=$W/containers.conf
        sed "s|$E/|$W/|" "$E/containers.conf" >containers.conf
        mkdir run
        printf '[storage]\ndriver = "vfs"\nrunroot = "%s"\nrootless_storage_path = "%s"\n' "$W/r" "$W/s" >conf
        podman import "$E/image.tar" busy:1 >/dev/null 2>&1
        has "$(storage_row podman)" "degraded vfs at $W/s: "
        podman system reset --force >said 2>&1 || fail "$(cat said)"
        sed -i 's/vfs/overlay/' conf
        podman import "$E/image.tar" busy:1 >/dev/null 2>&1
        has "$(storage_row podman)" "ok overlay at $W/s, "
        eq overlay "$(podman info --format '{{.Store.GraphDriverName}}')"
        podman system reset --force >said 2>&1 || fail "$(cat said)"
}
is_told_of_a_full_disk() { # what the engine says of it
        engine_ready "$1"
        shim "$1" <<'X'
[ "$1" != run ] || { echo 'Error: mkdir /x: no space left on device' >&2; exit 125; }
exec "$real" "$@"
X
        status 125 boxed "$1" --events "$W/events" -- echo hi 2>err
        has "$(cat events)" SANDBOX_CAPACITY
        eq 1 "$(wc -l <err)"
        nothing_left "$1"
}
fills_its_disk() {
        [ "$(id -u)" = 0 ] || skip 'only root can mount a small disk'
        engine_ready podman
        cat >small <<'X'
set -eu
mount -t tmpfs -o size=24m none "$W/small.d"
sed "s|$E/|$W/small.d/|" "$CONTAINERS_STORAGE_CONF" >"$W/small.conf"
export CONTAINERS_STORAGE_CONF=$W/small.conf
podman import "$E/image.tar" busy:1 >/dev/null 2>&1
dd if=/dev/zero of="$W/small.d/full" bs=4096 2>/dev/null || true
"$C" run -d podman --image busy:1 --events "$W/events" -- true && exit 99 || echo "rc $?"
rm "$W/small.d/full"
podman ps -a --format '{{.Names}}'
X
        mkdir small.d
        W=$W E=$E C=$C unshare -m bash small >out 2>err || fail "$(cat err)"
        eq 'rc 125' "$(cat out)"
        has "$(cat events)" SANDBOX_CAPACITY
        nothing_left podman
}
has_no_engine() {
        mkdir none
        ln -s "$(command -v env)" none/
        status 125 env PATH="$W/none" "$C" run -d "$1" --image busy:1 --events "$W/events" -- true 2>err
        has "$(cat events)" SANDBOX_DRIVER_UNAVAILABLE
        has "$(cat err)" "no $1 in PATH"
        has "$(cat err)" 'apt-get install'
}
has_a_dead_daemon() {
        need_command docker
        status 125 env DOCKER_HOST="unix://$W/socket" "$C" run -d docker --image busy:1 --events "$W/events" -- true 2>err
        has "$(cat events)" SANDBOX_DRIVER_UNAVAILABLE
        has "$(cat err)" 'docker daemon: '
        has "$(cat err)" 'systemctl start docker'
        eq 1 "$(wc -l <err)"
        eq '' "$(ls "$XDG_STATE_HOME/cofferdam/runs")"
}
serves_a_user_without_a_guard() { # who may call root's daemon may not enter its containers: said, or refused
        engine_ready docker
        id cofftest >/dev/null 2>&1 || fail "no user 'cofftest'"
        chmod 666 "$E/docker.sock"
        mkdir state home work
        echo s >home/s
        chown -R cofftest: state home work
        cd work
        as_user() { setpriv --reuid cofftest --regid cofftest --init-groups env XDG_STATE_HOME="$W/state" HOME="$W/home" "$@"; }
        status 125 as_user "$C" run -d docker --image busy:1 --events fd:3 -- true 3>events 2>err
        has "$(cat events)" SANDBOX_DRIVER_UNAVAILABLE
        has "$(cat err)" 'takes root'
        as_user "$C" run -d docker --image busy:1 --isolation degrade --events fd:3 --network allowlist --allow a.example --tmp-size 2Mi -- sh -c '
                id -u; touch new ~/x; df -k /tmp | tail -n 1; touch /x 2>&1; wget -O - http://denied.example/ 2>&1 | tail -n 1' 3>events 2>err >out || fail "$(cat err out)"
        eq "$(id -u cofftest)" "$(head -n 1 out)"
        eq cofftest "$(stat -c %U new)"
        has "$(cat out)" ' 2048 '
        has "$(cat out)" 'Read-only file system'
        has "$(cat out)" '403 Forbidden'
        grep -q '"sandbox_degraded".*"wanted":"guard","got":"none: binds of the engine' events || fail "$(cat events)"
        has "$(cat err)" 'degraded: none: binds'
        # what freezes volumes enters the container, too
        lacks "$(cat events)" 'volumes of the image'
        docker import --change 'VOLUME ["/data"]' "$E/image.tar" volumes:1 >/dev/null
        as_user "$C" run -d docker --image volumes:1 --isolation degrade --events fd:3 -- sh -c 'stat -c %A /data; ! grep " /data " /proc/mounts | grep -w ro' \
                3>events 2>err >out || fail "$(cat err out)"
        grep -q '"sandbox_degraded".*"wanted":"a read-only root","got":"volumes of the image can be written, without a bound"' events || fail "$(cat events)"
        for words in '--workspace-mode cow' '--hide x' '-u root' "--secret A=file:$W/home/s,as=file"; do
                # shellcheck disable=SC2086 # words
                status 125 as_user "$C" run -d docker --image busy:1 --isolation degrade $words -- true 2>err
                has "$(cat err)" 'CAPABILITY_UNSUPPORTED'
        done
        eq '' "$(containers docker)"
}
# What podman of a user needs around it: one line with a remedy, which is then followed. Red without no_surroundings() and
# the row's look at HOME
says_what_podman_needs() {
        local lacks want
        [ "$(id -u)" != 0 ] || skip 'only a user has a podman that needs them'
        engine_ready podman
        mkdir -p "$T/yours"
        while read -r lacks want; do
                status 125 env "$lacks=/nonexistent" "$C" run -d podman --image busy:1 --events "$W/events" -- echo hi 2>err
                eq 1 "$(wc -l <err)" "lines: $(cat err)"
                has "$(cat err)" "$lacks /nonexistent: ENOENT" 'what is wrong'
                has "$(cat err)" "remedy: $want"
                has "$(cat events)" SANDBOX_DRIVER_UNAVAILABLE
                rm events
        done <<'O'
HOME set HOME to a directory that is there and yours
XDG_RUNTIME_DIR log in as this user, not by su or sudo; or unset XDG_RUNTIME_DIR
O
        eq hi "$(HOME=$T/yours boxed podman -- echo hi)"
        eq hi "$(env -u XDG_RUNTIME_DIR "$C" run -d podman --image busy:1 -- echo hi 2>err)" "$(cat err)"
        nothing_left podman
}
# as_lodger WORD...: as a user without privileges, with a podman of his own below $W
as_lodger() {
        setpriv --reuid cofftest --regid cofftest --init-groups --inh-caps=-all env XDG_STATE_HOME="$W/state" HOME="$W/home" \
                XDG_RUNTIME_DIR="$W/rt" CONTAINERS_STORAGE_CONF="$W/conf" CONTAINERS_CONF="$W/containers.conf" "$@"
}
# A user without ranges: doctor's remedy, whose effect usermod would have
lacks_ranges() {
        [ "$(id -u)" = 0 ] || skip 'only root can take away the ranges of a user'
        id cofftest >/dev/null 2>&1 || fail "no user 'cofftest'"
        need_command newuidmap
        engine_ready podman
        mkdir home rt work p
        sed "s,$E/,$W/p/," "$E/storage.conf" >conf
        sed "s,$E/,$W/p/," "$E/containers.conf" >containers.conf
        # of root, which is who the caller is when it has no others
        tar -C "$E/image" --owner=0 --group=0 -cf image.tar .
        chmod 755 "$E"
        mkdir state
        chown cofftest: home rt work p state
        cat >apart <<'X'
set -eu
for file in subuid subgid; do
        grep -v ^cofftest: /etc/$file >$file || true
        mount --bind $file /etc/$file
done
cd work
as_lodger podman import ../image.tar busy:1 >../said 2>&1 || cat ../said
rc=0
as_lodger "$C" run -d podman --image busy:1 --events ../state/events -- echo hi >../out 2>../err || rc=$?
echo "$rc $(wc -l <../err)"
for file in subuid subgid; do echo cofftest:100000:65536 >>../$file; done
as_lodger podman system migrate >../said 2>&1 || cat ../said
as_lodger "$C" run -d podman --image busy:1 -- echo hi 2>&1
as_lodger podman rmi -f busy:1 >/dev/null 2>&1 || true
as_lodger podman unshare rm -rf "$W/p/podman" "$W/p/podman-run" >/dev/null 2>&1 || true
kill "$(cat "$W/p/podman-tmp/pause.pid")" 2>/dev/null || true
X
        export -f as_lodger
        W=$W C=$C unshare -m --propagation private bash apart >seen 2>&1 || fail "$(cat seen)"
        eq '125 1 hi' "$(xargs <seen)" "$(cat err)"
        has "$(cat err)" 'no entry for cofftest in /etc/subuid'
        has "$(cat err)" 'remedy: sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER; podman system migrate'
        has "$(cat state/events)" SANDBOX_DRIVER_UNAVAILABLE
}
# Control groups of version 1: processes are bounded, the rest is refused or named
limits_what_it_can() {
        local version=1
        [ "$(id -u)" != 0 ] || skip 'only a user has a podman that limits less'
        engine_ready podman
        [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ] || version=2
        "$C" doctor --json | python3 -c 'import json, sys
[print(r["state"], r["evidence"], r["remedy"]) for r in json.load(sys.stdin)["rows"] if r["key"] == "podman_limits"]' >row
        if [ $version = 2 ]; then
                has "$(cat row)" 'ok control groups of version 2'
                skip 'case says: control groups of version 2 are here'
        fi
        has "$(cat row)" 'degraded podman of a user, and control groups of version 1 boot with systemd.unified_cgroup_hierarchy=1'
        # shellcheck disable=SC2016 # for the shell inside
        has "$(boxed podman --pids 20 -- sh -c 'for i in $(seq 40); do sleep 60 & done' 2>&1 || true)" "can't fork"
        for limit in '--memory 100Mi' '--cpus 1'; do
                # shellcheck disable=SC2086 # words
                status 125 boxed podman $limit -- true 2>err
                eq 1 "$(wc -l <err)"
                has "$(cat err)" 'systemd.unified_cgroup_hierarchy=1'
        done
        eq '102400 1' "$(boxed podman --memory 100Mi --cpus 1 --isolation degrade --events "$W/events" -- sh -c 'echo $(ulimit -d) $(nproc)' 2>err)"
        has "$(cat events)" '"sandbox_degraded","data":{"wanted":"limits.memory of all processes together","got":"a limit of each process'
        has "$(cat events)" '"sandbox_degraded","data":{"wanted":"limits.cpus"'
        eq 2 "$(grep -c 'degraded: ' err)"
        nothing_left podman
}
is_chosen_for_an_image() { # nobody is named: the first that can
        engine_ready podman
        mv "$T/libexec/cofferdam-image" "$W/" 2>/dev/null || true # what native has images with
        eq hi "$(sandbox --image busy:1 -- echo hi)"
        id=$("$C" start --image busy:1)
        has "$("$C" ps)" podman
        "$C" rm --force "$id" >/dev/null
        mv "$W/cofferdam-image" "$T/libexec/" 2>/dev/null || true
        eq "$HOME" "$(sandbox -- sh -c 'echo ~')"
}
survives_conmon() {
        engine_ready podman
        id=$("$C" start -d podman --image busy:1)
        kill -KILL "$(live_pids "-n cofferdam-$id" | head -n 1)"
        eq still "$("$C" exec "$id" -- echo still)"
        "$C" stop "$id" >/dev/null
        "$C" rm "$id" >/dev/null
        nothing_left podman
}
survives_dockerd() { # commands go on without it; what it keeps of the run is swept when it is back
        engine_ready docker
        id=$("$C" start -d docker --image busy:1)
        kill -KILL "$(cat "$E/docker.pid")"
        wait_for 60 over "$(cat "$E/docker.pid")"
        eq still "$("$C" exec "$id" -- echo still)"
        timeout 60 "$C" stop "$id" >/dev/null
        "$C" rm "$id" >/dev/null
        # its containerd ended with it; a pid that is taken again would be waited for as one that lives
        rm -f "$E/docker.pid" "$E/ready-docker" "$E"/docker-run/containerd/containerd.{pid,sock*}
        docker_start
        "$C" gc >/dev/null
        nothing_left docker
}

t 'an engine that is not there' has_no_engine podman
t 'an engine that is not there: docker' has_no_engine docker
t 'a daemon that is not there' has_a_dead_daemon
for engine in podman docker; do
        t "$engine: output, exit status, image's variables, files and their owner" runs $engine
        t "$engine: the guard holds, hides and lands" guards $engine
        t "$engine: copies are kept until they are applied" keeps_copies $engine
        t "$engine: commands in a started run" serves_commands $engine
        t "$engine: a terminal of the caller's size" makes_terminals $engine
        t "$engine: signals reach the command" passes_signals $engine
        t "$engine: hardened as the manual says" is_hardened $engine
        t "$engine: home and /tmp of their size, seeds" has_a_home $engine
        t "$engine: users of the image and of the caller" has_users $engine
        t "$engine: secrets that are files, replaced while the run lives; post_create" keeps_secrets $engine
        t "$engine: tokens in place of credentials" gives_tokens $engine
        t "$engine: mounts, with names that engines take apart" mounts_what_is_asked $engine
        t "$engine: the network by name" filters_the_network $engine
        t "$engine: gc removes what no live run of ours owns, and nothing else" is_swept_by_its_labels $engine
        t "$engine: labels: run, root, step, when it expires; gc does not go by that" carries_labels $engine
        t "$engine: a killed supervisor leaves no container" leaves_nothing_when_killed $engine
        t "$engine: a command takes one call besides the look at the image" calls_once $engine
        for who in client caller supervisor; do t "$engine: its $who is killed under a command" outlives $engine $who; done
        t "$engine: a name that a dead container of the run has" takes_back_its_name $engine
        t "$engine: a name that another container has" leaves_others_their_name $engine
        t "$engine: doctor says where its images are" tells_its_storage $engine
        t "$engine: a full disk" is_told_of_a_full_disk $engine
        t "$engine: refusals with a code and a reason" says_what_is_wrong $engine
done
t 'podman: a disk that is full' fills_its_disk
t "podman: doctor's remedy for a store that copies" mends_its_storage
t 'podman: what a user must have for it' says_what_podman_needs
t 'podman: a user without ranges of users' lacks_ranges
t 'podman: limits of a user' limits_what_it_can
t "docker: a user of root's daemon" serves_a_user_without_a_guard
t 'podman is chosen for an image where native has none, native without' is_chosen_for_an_image
t 'podman: its monitor is killed' survives_conmon
t 'docker: its daemon is killed' survives_dockerd
finish
