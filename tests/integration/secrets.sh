#!/usr/bin/env bash
# Credentials that come inside, as files and variables: where they are, who can write them, and where they are not
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

secret=hunter2-$RANDOM$RANDOM

# nowhere VALUE: not in the run's directory, its events, its reports, nor the command lines and environments of its
# processes but those of the work
nowhere() {
        local run pid what
        grep -rqF "$1" "$T/state" "$T/run" && fail 'in the state directory'
        for run in "$T"/state/cofferdam/runs/*; do
                [ -d "$run" ] || continue
                run=${run##*/}
                "$C" inspect "$run" >report 2>&1 || true
                "$C" events "$run" >>report 2>&1 || true
                lacks "$(cat report)" "$1"
        done
        for pid in $(ours); do
                for what in cmdline environ; do
                        tr '\0' '\n' <"/proc/$pid/$what" 2>/dev/null | grep -qF "$1" && fail "in $what of $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
                done
        done
        return 0
}

as_file() {
        printf '%s\nsecond line\n' "$secret" >"$T/source"
        cat >inner <<'I'
cat /run/secrets/TOKEN "$TOKEN_FILE" "$HOME/.config/app/token"
stat -c '%a %F' /run/secrets/TOKEN
for try in 'echo x >/run/secrets/TOKEN' 'rm -f /run/secrets/TOKEN' 'chmod 600 /run/secrets/TOKEN' 'touch /run/secrets/more' \
        'mv /run/secrets/TOKEN /run/secrets/b' 'mount -o remount,rw /run/secrets'; do
        sh -c "$try" 2>/dev/null && echo "possible: $try"
done
env | grep TOKEN
I
        "$C" run --events events --secret "TOKEN=file:$T/source,as=file,env=TOKEN_FILE,path=$HOME/.config/app/token" -- sh inner >out
        eq "$secret
second line
$secret
second line
$secret
second line
400 regular file
TOKEN_FILE=/run/secrets/TOKEN" "$(cat out)"
        lacks "$(cat events)" "$secret"
        nowhere "$secret"
}

# the run lives: its processes can be looked at. Red without secrets_erase()
from_the_environment() {
        id=$(TOKEN=$secret "$C" start --secret TOKEN=env:TOKEN,as=file --secret PLAIN=env:TOKEN,as=env)
        nowhere "$secret"
        # shellcheck disable=SC2016
        eq "$secret $secret" "$("$C" exec "$id" sh -c 'echo "$(cat /run/secrets/TOKEN) $PLAIN"')"
        nowhere "$secret"
        "$C" stop "$id" >/dev/null
}

as_env_for_all_commands() {
        # shellcheck disable=SC2016
        TOKEN=$secret "$C" run --secret OTHER=env:TOKEN,as=env,env=INSIDE --post-create 'echo "post $INSIDE" >&2' -- \
                sh -c 'echo "$INSIDE ${TOKEN-none} ${OTHER-none}"' >out 2>err
        eq "$secret none none" "$(cat out)"
        eq "post $secret" "$(cat err)"
        printf '%s\nmore\n' "$secret" >"$T/source"
        code=0
        "$C" run --secret "A=file:$T/source,as=env" -- true 2>err || code=$?
        eq 125 "$code"
        has "$(cat err)" "secret 'A': a variable is one line"
        lacks "$(cat err)" "$secret"
}

# a reader never sees an empty or half a file. Red with a plain write in native_refresh_file()
refresh_is_whole() {
        head -c 100000 /dev/zero | tr '\0' a >"$T/a"
        head -c 100000 /dev/zero | tr '\0' b >"$T/b"
        id=$("$C" start --secret "BIG=file:$T/a,as=file")
        # shellcheck disable=SC2016
        "$C" exec "$id" sh -c 'while [ ! -e stop ]; do cat /run/secrets/BIG | tr -s ab | tr -d "\n"; wc -c </run/secrets/BIG; done' >seen &
        wait_for 60 test -s seen || fail 'nobody reads'
        for _ in 1 2 3 4 5 6 7 8 9 10; do
                "$C" secret "$id" BIG <"$T/b"
                "$C" secret "$id" BIG <"$T/a"
        done
        "$C" secret "$id" BIG <"$T/b"
        : >stop
        wait
        eq '' "$(grep -vxE '[ab]100000' seen | sort | uniq -c)" 'what a reader saw'
        eq b "$("$C" exec "$id" head -c1 /run/secrets/BIG)"
        eq 400 "$("$C" exec "$id" stat -c %a /run/secrets/BIG)"
        eq BIG "$("$C" exec "$id" ls -A /run/secrets)" 'nothing is left beside it'
        has "$("$C" events "$id")" secret_refreshed
        "$C" stop "$id" >/dev/null
}

refresh_refused() {
        echo s >"$T/source"
        id=$("$C" start --secret "A=file:$T/source,as=file" --secret "B=file:$T/source,as=env")
        for name in B C ../A ''; do
                status 1 "$C" secret "$id" "$name" <"$T/source" 2>err
                has "$(cat err)" "has no secret"
        done
        status 1 "$C" secret "$id" A </dev/null 2>err
        has "$(cat err)" 'standard input is empty'
        head -c 1048577 /dev/zero >"$T/large"
        status 1 "$C" secret "$id" A <"$T/large" 2>err
        has "$(cat err)" 'larger than 1 MiB'
        status 2 "$C" secret "$id" 2>err
        eq s "$("$C" exec "$id" cat /run/secrets/A)"
        "$C" stop "$id" >/dev/null
        status 1 "$C" secret "$id" A <"$T/source" 2>err
}

wrong_words() {
        while IFS='|' read -r words want; do
                code=0
                # shellcheck disable=SC2086
                TOKEN=$secret "$C" run $words -- true >out 2>err || code=$?
                [ "$code" -ne 0 ] || fail "accepted: $words"
                has "$(cat err)" "$want" "$words"
                lacks "$(cat err)" "$secret"
        done <<'W'
--secret A=env:NOSUCH,as=file|the variable 'NOSUCH' is not set
--secret A=file:/nosuch,as=file|read '/nosuch'
--secret A=file:/dev/null,as=file|read '/dev/null'
--secret A=env:TOKEN,as=file,host=a.example|'hosts' and 'inject' are for 'as: proxied'
--secret A=env:TOKEN,as=env,path=/tmp/x|'path' is for 'as: file'
--secret A=env:TOKEN,as=socket|unknown value 'socket'
--secret ..=env:TOKEN,as=file|cannot be a file
--secret A=env:TOKEN,as=file --secret A=env:TOKEN,as=file|is the same file as
--secret A=env:TOKEN,as=env --secret B=env:TOKEN,as=file,env=A|variable 'A' is already that of
--secret A=env:TOKEN,as=env,env=PATH|variable 'PATH' is already set
--secret A=env:TOKEN,as=file,path=/etc/token|is not in memory
--secret A=env:TOKEN,as=file --mount type=tmpfs,target=/run/secrets/x|is for secrets
--secret A=env:TOKEN,as=file --driver noop|no secrets
--secret A=env:TOKEN,as=env --driver noop|no secrets
W
        TOKEN=$secret status 2 "$C" run --secret "A=env:TOKEN,as=file,path=$PWD/token" -- true 2>err
        has "$(cat err)" 'is not in memory'
        [ ! -e token ] || fail 'a link on the host'
        mkdir in
        code=0
        TOKEN=$secret "$C" run --secret A=env:TOKEN,as=file --mount "type=bind,source=$PWD/in,target=/run/secrets" -- true 2>err || code=$?
        [ "$code" -ne 0 ] || fail 'a mount over the secrets'
        has "$(cat err)" 'is for secrets'
}

another_user() {
        [ "$(id -u)" = 0 ] || skip 'only root works as others'
        chmod 777 .
        echo s >"$T/source"
        id=$("$C" start --user 12345:12345 --secret "A=file:$T/source,as=file")
        eq "12345 400
s" "$("$C" exec "$id" sh -c 'stat -c "%u %a" /run/secrets/A; cat /run/secrets/A')"
        echo t | "$C" secret "$id" A
        eq "12345 400
t" "$("$C" exec "$id" sh -c 'stat -c "%u %a" /run/secrets/A; cat /run/secrets/A')"
        "$C" stop "$id" >/dev/null
}

t 'a secret that is a file' as_file
t 'values from the environment are erased there' from_the_environment
t 'a secret that is a variable, for every command' as_env_for_all_commands
t 'a secret is replaced whole' refresh_is_whole
t 'what is not replaced' refresh_refused
t 'what is refused' wrong_words
t 'for another user' another_user
finish
