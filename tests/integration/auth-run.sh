#!/usr/bin/env bash
# Tokens in place of credentials: issued before the start, revoked whatever happens, and the credential nowhere.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
for program in python3 openssl curl git; do
        command -v "$program" >/dev/null || {
                echo "1..0 # SKIP no $program on this machine"
                exit 0
        }
done

[ -x "$T/libexec/cofferdam-auth-proxy" ] || {
        echo '1..0 # SKIP the auth proxy is not built'
        exit 0
}

# --- servers, ended by the pids that are kept here ---
servers=()
end_servers() {
        local pid
        for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null; done
}
trap 'end_servers; clean' EXIT
trap 'echo "Bail out! killed"; end_servers; clean; exit 143' INT TERM HUP

mkdir -p "$T/up/www/auth"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=api.example.org \
        -addext 'subjectAltName=DNS:api.example.org,DNS:git.example.org,DNS:model.example.org' \
        -keyout "$T/up/key.pem" -out "$T/up/cert.pem" 2>/dev/null
echo 'hello from upstream' >"$T/up/www/hello"
python3 "$TOP/tests/integration/auth-run.py" "$T/up" 0 >"$T/up/log" 2>&1 &
servers+=($!)
wait_for 60 test -s "$T/up/port" || { cat "$T/up/log"; echo 'Bail out! no upstream'; exit 1; }
up=127.0.0.1:$(cat "$T/up/port")
options="--ca-file $T/up/cert.pem --upstream https://model.example.org --allow-address 127.0.0.0/8"
for host in api git model; do options+=" --route $host.example.org=$up"; done

# What must be nowhere: made anew for each run of this script.
random() { head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
prefix=sbxcase-secret-
secret=$prefix$(random)
model=sk-ant-$(random)

# run [OPTION...] -- CMD...: with the run's own relay, which reaches the servers of this script
run() { GH=$secret ANTHROPIC_API_KEY=$model timeout -k 5 150 "$C" run --spec "$T/proxy.yaml" "$@"; }
printf 'auth_proxy: {options: "%s"}\n' "$options" >"$T/proxy.yaml"
bearer=GH=env:GH,host=api.example.org

# nowhere FILE-OR-DIR...: neither credential, also not in base64
nowhere() {
        local word
        for word in "$secret" "$model"; do
                ! grep -r -q -a -F -e "$word" -e "$(printf %s "$word" | base64 -w0 | cut -c1-40)" "$@" ||
                        fail "in $(grep -r -l -a -F -e "$word" "$@")"
        done
}

# A process that was started with the credential has it in its environment until the keeper has taken it. No command line
# may hold one, and no environment of the relay, which is executed.
watch_proc() {
        local dir comm
        while [ -e "$T/watching" ]; do
                for dir in /proc/[0-9]*; do
                        comm=
                        { read -r comm <"$dir/comm"; } 2>/dev/null || continue
                        { tr '\0' '\n' <"$dir/cmdline"; } 2>/dev/null | grep -q -F -e "$secret" -e "$model" && echo "$dir/cmdline: $comm" >>"$T/found"
                        [[ $comm == cofferdam-auth* ]] || continue
                        { tr '\0' '\n' <"$dir/environ"; } 2>/dev/null | grep -q -E -e "$secret" -e "$model" -e 'ifap_[0-9a-f]{64}' && echo "$dir/environ: $comm" >>"$T/found"
                        { tr '\0' '\n' <"$dir/cmdline"; } 2>/dev/null | tee -a "$T/watched" | grep -q -E 'ifap_[0-9a-f]{64}' && echo "$dir/cmdline: $comm: a token" >>"$T/found"
                        : >"$T/looked"
                done
                sleep 0.1
        done
}

# red when a token is said in full, for instance in the log of the service (fields_of() in auth/admin.c)
# traces: neither credential nor a whole token in what the processes of a test have written, said, or shown of themselves
traces() {
        local places=("$T/state" "$T/run" "$T/home" "$T/out" "$T/service.log" "$T/up/log" "$T/watched") held
        [ ! -s "$T/found" ] || fail "$(cat "$T/found")"
        nowhere "$W" "${places[@]}" "$T/proxy.yaml" "$T/shared.yaml"
        # the tests put tokens into files of these names
        held=$(grep -rlaE --exclude=token --exclude=token.new 'ifap_[0-9a-f]{64}' "$W" "$T/up" "${places[@]}") || true
        [ -z "$held" ] || fail "a token is in $held"
        held=$(find "$T" -name 'core*' -size +0 -type f)
        [ -z "$held" ] || fail "a core file: $held"
}

# searched TEST [ARG...]: the test, and then its traces
searched() {
        "$@"
        traces
}

case_40() {
        local said
        [ -d "$SHARED/cases/open" ] || skip 'case says: the shared case scripts are not beside the checkout'
        said=$(CASE_SECRET_PREFIX=$prefix run --secret "$bearer" -e CASE_SECRET_PREFIX --model-auth proxied \
                --mount "type=bind,source=$SHARED/cases/open,target=/cases,readonly" -- \
                sh -c '[ "${GH#ifap_}" != "$GH" ] || exit 3; sh /cases/40-secrets-not-in-proc.sh') || fail "exit $?: $said"
        eq ok "$said"
}

relays() {
        local said
        : >"$T/up/seen"
        said=$(run --secret "$bearer" --model-auth proxied --events "$W/events" -- sh -c '
                echo "$GH" >tokens; echo "$ANTHROPIC_AUTH_TOKEN" >>tokens
                curl -sS -m 60 -H "Authorization: Bearer $GH" "$GH_URL/api.example.org/hello"
                curl -sS -m 60 -H "x-api-key: $ANTHROPIC_AUTH_TOKEN" -d "{}" "$ANTHROPIC_BASE_URL/v1/messages"
                curl -s -o /dev/null -w "%{http_code}\n" -m 60 -H "Authorization: Bearer $GH" "$GH_URL/git.example.org/hello"
                curl -s -o /dev/null -w "admin %{http_code}\n" -m 60 -d "{}" -H "Authorization: Bearer $GH" "$ANTHROPIC_BASE_URL/admin/v1/tokens"
                curl -s -o /dev/null -w "metrics %{http_code}\n" -m 60 -H "Authorization: Bearer $GH" "$ANTHROPIC_BASE_URL/metrics"; env >env')
        has "$said" 'hello from upstream'
        has "$said" 'data: 1'
        has "$said" $'\n403\nadmin 403\nmetrics 403' 'a host that is not listed, and what only who issues may have'
        has "$(cat "$T/up/seen")" "authorization: Bearer $secret" 'what the server got'
        has "$(cat "$T/up/seen")" "x-api-key: $model" 'what the model got'
        eq 2 "$(wc -l <"$W/tokens")"
        eq 2 "$(grep -c '"secret_token_issued"' "$W/events")" 'events'
        eq 2 "$(grep -c '"secret_token_revoked".*"revoked":true' "$W/events")" 'events'
        ! grep -q -F -f "$W/tokens" "$T/up/seen" || fail 'a token has left'
        rm "$W/env" "$W/tokens"
}

by_every_network() {
        local mode said
        for mode in none open 'allowlist --allow other.example.org'; do
                # shellcheck disable=SC2086 # words
                said=$(run --network $mode --secret "$bearer" -- sh -c 'curl -sS -m 60 -H "Authorization: Bearer $GH" "$GH_URL/api.example.org/hello"') ||
                        fail "network $mode: exit $?"
                eq 'hello from upstream' "$said" "network $mode"
        done
}

# git finds its way by the environment alone
git_clone() {
        rm -rf "$T/src" "$T/up/www/auth/repo.git"
        git init -q -b main "$T/src" && (cd "$T/src" && echo content >file && git add file && git commit -q -m one)
        git clone -q --bare "$T/src" "$T/up/www/auth/repo.git" && git -C "$T/up/www/auth/repo.git" update-server-info
        : >"$T/up/seen"
        run --secret 'GH=env:GH,inject=basic:robot,host=git.example.org' -- \
                git clone -q https://git.example.org/auth/repo.git got || fail "exit $?"
        eq content "$(cat got/file)"
        has "$(cat "$T/up/seen")" "authorization: Basic $(printf 'robot:%s' "$secret" | base64 -w0)"
        nowhere "$W" "$T/state"
}

# exposed CODE TEXT OPTION...: refused with the variable's name and without its value
exposed() {
        local code=$1 text=$2 rc=0
        shift 2
        run "$@" --events "$W/events" -- true >out 2>&1 || rc=$?
        eq 125 "$rc" "$*: exit status"
        has "$(cat out)" "$text" "$*"
        has "$(tail -n 1 events)" "\"failure_code\":\"$code\"" "$*"
        nowhere out events
        rm events
}

refusals() {
        export ANTHROPIC_AUTH_TOKEN=other
        exposed CREDENTIAL_EXPOSED "'ANTHROPIC_API_KEY'" --model-auth proxied -e ANTHROPIC_API_KEY
        exposed CREDENTIAL_EXPOSED "'ANTHROPIC_AUTH_TOKEN'" --model-auth proxied -e ANTHROPIC_AUTH_TOKEN
        exposed CREDENTIAL_EXPOSED "'ANTHROPIC_BASE_URL'" --model-auth proxied -e ANTHROPIC_BASE_URL=http://x
        exposed CREDENTIAL_EXPOSED "'ANY'" --model-auth proxied -e ANY=sk-ant-something
        exposed CREDENTIAL_EXPOSED "'ANY'" --secret "$bearer" -e "ANY=Bearer $secret"
        exposed CREDENTIAL_EXPOSED "'GH'" --secret "$bearer" -e GH
        exposed CREDENTIAL_EXPOSED "'GH_URL'" --secret "$bearer" -e GH_URL=http://x
        exposed SPEC_INVALID "'GIT_CONFIG_COUNT'" --secret GH=env:GH,inject=basic:x,host=git.example.org -e GIT_CONFIG_COUNT=0
        echo "key: $secret" >"$HOME/seed"
        exposed CREDENTIAL_EXPOSED "$HOME/seed" --secret "$bearer" --seed "$HOME/seed"
        exposed CREDENTIAL_EXPOSED "$HOME/seed" --secret "$bearer" --mount "type=bind,source=$HOME/seed,target=/key,readonly"
        rm "$HOME/seed"
        # in a directory; red when check_seed() looks at files only
        mkdir -p "$HOME/dir/below"
        echo "key: $secret" >"$HOME/dir/below/file"
        exposed CREDENTIAL_EXPOSED "$HOME/dir/below/file" --secret "$bearer" --seed "$HOME/dir"
        mv "$HOME/dir/below/file" "$HOME/dir/.credentials.json"
        echo none >"$HOME/dir/.credentials.json"
        exposed CREDENTIAL_EXPOSED "$HOME/dir/.credentials.json" --model-auth proxied --seed "$HOME/dir"
        run --secret "$bearer" --seed "$HOME/dir" -- true || fail 'a directory without credentials is refused'
        rm -r "$HOME/dir"
        # a key that is not the one that is used; red without has_model_key()
        echo "{\"primaryApiKey\":\"sk-ant-api03-$(random)\"}" >"$HOME/.claude.json"
        exposed CREDENTIAL_EXPOSED "$HOME/.claude.json" --model-auth proxied
        echo '{"a":"sk-ant-..."}' >"$HOME/.claude.json"
        run --model-auth proxied -- true || fail 'a file that tells of keys is refused'
        rm "$HOME/.claude.json"
        exposed SPEC_INVALID "the variable 'NOT_SET' is not set" --secret T=env:NOT_SET,host=api.example.org
        printf 'auth_proxy: {options: "--no-such-option"}\n' >"$T/bad.yaml"
        exposed SANDBOX_SETUP_FAILED 'does not start' --secret "$bearer" --spec "$T/bad.yaml"
        exposed CREDENTIAL_EXPOSED "driver 'noop'" --secret "$bearer" --driver noop
}

# --- a service that several runs share ---
admin_key=$(random)$(random)
# shellcheck disable=SC2086 # words
IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key "$T/libexec/cofferdam-auth-proxy" --listen "unix:$T/relay" --admin-listen "unix:$T/admin" \
        $options >"$T/service.log" 2>&1 &
service_pid=$!
servers+=($!)
wait_for 60 grep -qs ready: "$T/service.log" || { cat "$T/service.log"; echo 'Bail out! no service'; exit 1; }
shared() { IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key run --auth-proxy "unix:$T/relay" --spec "$T/shared.yaml" "$@"; }
printf 'auth_proxy: {admin_url: "unix:%s/admin"}\n' "$T" >"$T/shared.yaml"

# says what the relay answers to the token in $W/token
asks() {
        curl -s -o /dev/null -w '%{http_code}' -m 60 --unix-socket "$T/relay" -H "Authorization: Bearer $(cat "$W/token")" \
                http://relay/r/api.example.org/hello
}
revoked() { [ "$(asks)" = 401 ]; }

# a command that says its token, shows that it is good, and stays
stays='echo "$GH" >token.new; mv token.new token; sleep 60'
begin() {
        GH=$secret IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key "$C" run --spec "$T/shared.yaml" --auth-proxy "unix:$T/relay" \
                --secret "$bearer" "$@" -- sh -c "$stays" >out 2>&1 &
        run_pid=$!
        wait_for 60 test -s token || fail "no token: $(cat out)"
        eq 200 "$(asks)" 'the token while the command runs'
}
supervisor_of() {
        python3 -c 'import glob, json, sys; print(json.load(open(glob.glob(sys.argv[1])[0]))["supervisor"]["pid"])' \
                "$T/state/cofferdam/runs/*/state.json"
}

# who has the key of the service has tokens of any kind issued, and everyone's revoked; red when holds() does not look
key_stays_outside() {
        export IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key
        exposed CREDENTIAL_EXPOSED "'IRONFLOW_AUTH_PROXY_ADMIN_KEY'" --auth-proxy "unix:$T/relay" --spec "$T/shared.yaml" --secret "$bearer" \
                -e IRONFLOW_AUTH_PROXY_ADMIN_KEY
        exposed CREDENTIAL_EXPOSED "'ANY'" --auth-proxy "unix:$T/relay" --spec "$T/shared.yaml" --secret "$bearer" -e "ANY=Bearer $admin_key"
}

revoked_at_the_end() {
        shared --secret "$bearer" -- sh -c 'echo "$GH" >token; curl -sS -m 60 -H "Authorization: Bearer $GH" "$GH_URL/api.example.org/hello"' >out || fail "exit $?"
        eq 'hello from upstream' "$(cat out)"
        eq 401 "$(asks)" 'the moment the run is over'
        ! shared --secret "$bearer" -- sh -c 'echo "$GH" >token; exit 3' || fail 'exit 0'
        eq 401 "$(asks)" 'after a command that failed'
}

# red when keeper_main() ends without revoke_all()
revoked_when_killed() {
        local who pid
        for who in caller supervisor both; do
                rm -f token
                begin
                pid=$(supervisor_of)
                [ -n "$pid" ] || fail 'no supervisor in the state'
                case $who in
                caller) kill -KILL "$run_pid" ;;
                supervisor) kill -KILL "$pid" ;;
                both) kill -KILL "$run_pid" "$pid" ;;
                esac
                wait_for 60 revoked || fail "$who killed: the token lives"
                wait "$run_pid" 2>/dev/null || true
        done
}

# the keeper alone is killed: whoever waits for the run revokes; red when execute() does not call tokens_after()
revoked_without_keeper() {
        begin
        kill -KILL "$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$run_pid" '$2 == "(cofferdam-keepe)" && $4 == parent { print $1 }')"
        kill -TERM "$run_pid"
        wait "$run_pid" || true
        eq 401 "$(asks)" 'the moment the run is over'
}

# no core file, and no other process of the user looks in; red when withdraw() leaves the process dumpable
no_memory_gets_out() {
        local pid comm n=0
        GH=$secret "$C" run --spec "$T/proxy.yaml" --secret "$bearer" -- sh -c "$stays" >out 2>&1 &
        run_pid=$!
        wait_for 60 test -s token || fail "no token: $(cat out)"
        for pid in $(live_pids "$T/") $(helper_pids); do
                comm=
                [ "$pid" != "$service_pid" ] || continue # it is started by this script
                { read -r comm <"/proc/$pid/comm"; } 2>/dev/null || continue # it is gone
                # red without credentials_erase()
                ! { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -q -F -e "$secret" || fail "in the environment of $pid, $comm"
                case $comm in cofferdam-keepe | cofferdam-auth-) ;; *) continue ;; esac
                n=$((n + 1))
                eq '0 0' "$(awk '/^Max core file size/ { print $5, $6 }' "/proc/$pid/limits")" "core files of $comm"
                [ "$(id -u)" = 0 ] || [ ! -r "/proc/$pid/environ" ] || fail "$comm can be read"
                eq 0:0 "$(stat -c %u:%g "/proc/$pid/environ")" "whose memory of $comm is"
                eq 1 "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$pid/status")" "NoNewPrivs of $comm"
                eq 0000000000000000 "$(sed -n 's/^CapEff:\t//p' "/proc/$pid/status")" "capabilities of $comm"
        done
        [ "$n" -ge 2 ] || fail "$n processes"
        kill -TERM "$run_pid"
        wait "$run_pid" || true
}

# everything of the run is killed, also who would revoke; red when reap() does not
revoked_when_reaped() {
        local pid
        begin
        pid=$(supervisor_of)
        kill -KILL "$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v parent="$run_pid" '$2 == "(cofferdam-keepe)" && $4 == parent { print $1 }')" "$run_pid" "$pid"
        wait "$run_pid" 2>/dev/null || true
        wait_for 60 none_of_ours || fail 'something lives'
        eq 200 "$(asks)" 'nobody has revoked it'
        # red when reap() removes a run whose tokens it cannot revoke: the child of this run's supervisor has no sockets
        run --network none -- true
        wait_for 60 none_of_ours || fail 'that child does not end' # what it looks at, gc leaves to it
        cannot_revoke() { ! "$C" gc >out 2>&1; } # a killed process may hold the run's lock a moment longer than it is seen
        wait_for 60 cannot_revoke || fail 'gc says nothing'
        has "$(cat out)" 'its tokens are not revoked: set IRONFLOW_AUTH_PROXY_ADMIN_KEY'
        eq 200 "$(asks)" 'it is for who has the key'
        IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key "$C" gc >/dev/null
        eq 401 "$(asks)" 'after gc'
}

# red when the keeper asks for a token before it has written where it is revoked
killed_in_the_beginning() {
        local i pid before
        before=$(said_of issued)
        for i in 1 2 3 4 5 6; do
                GH=$secret IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key "$C" run --spec "$T/shared.yaml" --auth-proxy "unix:$T/relay" \
                        --secret "$bearer" -- sleep 60 >out 2>&1 &
                run_pid=$!
                wait_for 60 more_than "$((before + i - 1))" || fail "no token: $(cat out)"
                kill -KILL "$run_pid" # the rest would revoke: all of them before one of them can
                for pid in $(ours); do [ "$pid" = "$service_pid" ] || kill -STOP "$pid" 2>/dev/null || true; done
                for pid in $(ours); do [ "$pid" = "$service_pid" ] || kill -KILL "$pid" 2>/dev/null || true; done
                wait "$run_pid" 2>/dev/null || true
        done
        wait_for 60 none_of_ours || fail 'something lives'
        reaped() { IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key "$C" gc >out 2>&1 && [ -z "$(ls "$XDG_STATE_HOME/cofferdam/runs")" ]; }
        wait_for 60 reaped || fail "runs: $(ls "$XDG_STATE_HOME/cofferdam/runs"): $(cat out)"
        eq '' "$(python3 - "$T/service.log" <<'PY'
import json, sys
issued, ended = {}, set()
for line in open(sys.argv[1], encoding='utf-8'):
    said = json.loads(line) if line.startswith('{') else {'event': ''}
    if said['event'] == 'token issued':
        issued[said['token']] = said['run_id']
    elif said['event'] in ('token revoked', 'run tokens revoked'):
        ended.add(said.get('token', said.get('run_id')))
print(*[run for token, run in issued.items() if not {token, run} & ended])
PY
)" 'runs with tokens that live'
}
said_of() { grep -c "token $1" "$T/service.log" || true; }
more_than() { [ "$(said_of issued)" -gt "$1" ]; }

revoked_when_setup_fails() {
        local before
        before=$(grep -c 'token revoked' "$T/service.log" || true)
        ! GH=$secret IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key "$HELPERS/deny" mount "$C" run --spec "$T/shared.yaml" \
                --auth-proxy "unix:$T/relay" --secret "$bearer" -- true >out 2>&1 || fail 'it started'
        has "$(cat out)" mount
        eq $((before + 1)) "$(grep -c 'token revoked' "$T/service.log")" 'tokens revoked'
        ! shared --secret "$bearer" --post-create 'echo "$GH" >token; exit 1' -- true >out 2>&1 || fail 'it started'
        eq 401 "$(asks)" 'after post_create that failed'
}

# the run does not wait longer than five seconds
a_dead_service() {
        local before
        begin --events "$W/events"
        kill -STOP "$service_pid"
        before=$SECONDS
        kill -TERM "$run_pid"
        wait "$run_pid" || true
        kill -CONT "$service_pid"
        [ $((SECONDS - before)) -le 20 ] || fail "took $((SECONDS - before)) s"
        has "$(cat events)" '"revoked":false'
        printf 'auth_proxy: {admin_url: "http://127.0.0.1:1"}\n' >"$T/nobody.yaml"
        eq 125 "$(rc=0; shared --spec "$T/nobody.yaml" --secret "$bearer" -- true >out 2>&1 || rc=$?; echo $rc)"
        has "$(cat out)" 'unreachable'
        IRONFLOW_AUTH_PROXY_ADMIN_KEY='' run --auth-proxy "unix:$T/relay" --secret "$bearer" -- true >out 2>&1 || true
        has "$(cat out)" 'set IRONFLOW_AUTH_PROXY_ADMIN_KEY'
}

in_a_run_that_lives() {
        local id
        id=$(IRONFLOW_AUTH_PROXY_ADMIN_KEY=$admin_key GH=$secret "$C" start --auth-proxy "unix:$T/relay" --spec "$T/shared.yaml" \
                --secret "$bearer")
        "$C" exec "$id" -- sh -c 'echo "$GH" >token'
        eq 200 "$(asks)"
        has "$("$C" exec -e GH=mine "$id" -- true 2>&1 || true)" "'GH'" 'a variable that a token has'
        "$C" stop "$id" >/dev/null
        eq 401 "$(asks)" 'after stop'
        "$C" rm "$id" >/dev/null # without the key: nothing is left to revoke
}

# A coding agent's CLI, as its npm package is, streams one answer of the model; its relay is all the network it has.
# red when add_model() puts the credential in place of the token
agent_cli() {
        local package=${COFFERDAM_SERVERS-$TOP/build/servers}/npm/claude-code said
        need_command node
        if [ ! -e "$package/cli.js" ]; then
                timeout 60 npm view is-odd version >/dev/null 2>&1 || skip 'offline: no answer from the npm registry'
                skip "no package of an agent: './dev setup' gets it"
        fi
        : >"$T/up/seen"
        said=$(run --network none --model-auth proxied --mount "type=bind,source=$package,target=/agent,readonly" -- sh -c '
                env >environment
                exec node /agent/cli.js -p "say something"' 2>err) || fail "exit $?: $said $(cat err)"
        eq 'said by the model of the tests' "$said"
        has "$(cat environment)" ANTHROPIC_AUTH_TOKEN=ifap_
        lacks "$(cat environment)" "$model"
        lacks "$(cat environment)" sk-ant
        has "$(cat "$T/up/seen")" 'POST /v1/messages'
        has "$(cat "$T/up/seen")" 'user-agent: claude-cli/' 'who asked'
        has "$(cat "$T/up/seen")" "x-api-key: $model" 'what the model got'
        sed -i '/ifap_/d' environment
}

nobody_looked_away() { [ -e "$T/looked" ] || fail 'nobody looked'; }

: >"$T/watching"
: >"$T/watched"
watch_proc &
servers+=($!)
t 'case 40: the secret is not in any process or file inside' searched case_40
t 'requests carry the credential, the sandbox a token' searched relays
t 'the relay is there in every mode of the network' searched by_every_network
t 'git clone by a rewritten URL' searched git_clone
t 'the CLI of a coding agent streams an answer with nothing but a token' searched agent_cli
t 'a credential beside the token is refused by name' searched refusals
t 'the key of the service stays outside' searched key_stays_outside
t 'a token dies with its run' searched revoked_at_the_end
t 'a token dies when the processes of its run are killed' searched revoked_when_killed
t 'a token dies with its run when its keeper was killed' searched revoked_without_keeper
t 'no memory of the keeper and its relay is written or read' searched no_memory_gets_out
t 'a token dies when its run is reaped' searched revoked_when_reaped
t 'a token dies when its run is killed as it begins' searched killed_in_the_beginning
t 'a token dies when the sandbox does not come up' searched revoked_when_setup_fails
t 'a service that does not answer holds nobody up' searched a_dead_service
t 'a run that lives on: exec has the token, stop ends it' searched in_a_run_that_lives
rm "$T/watching"
t 'the credential is nowhere' searched nobody_looked_away
finish
