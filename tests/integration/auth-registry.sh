#!/usr/bin/env bash
# The registry of tokens in a real PostgreSQL: two replicas, restarts, outages, keys, migrations, a stolen copy.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/pg.sh
. "$(dirname "$0")/pg.sh"

drive=$HELPERS/registry-drive
key_a=1:$(printf '%064x' 1) key_b=2:$(printf '%064x' 2)
secret=registrysecret-$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export IRONFLOW_AUTH_PROXY_DATABASE_URL=$PG_URL IRONFLOW_SECRET_KEYS=$key_a

# replica NAME: one more process on the database; NAME_in and NAME_out are its descriptors
replica() {
        local in out
        mkfifo "$W/$1.in" "$W/$1.out"
        "$drive" <"$W/$1.in" >"$W/$1.out" 2>"$W/$1.err" &
        exec {in}>"$W/$1.in" {out}<"$W/$1.out"
        printf -v "$1_in" %s "$in"
        printf -v "$1_out" %s "$out"
        printf -v "$1_pid" %s "$!"
        eq ready "$(answer "$1")" "$1"
}

answer() {
        local out=$1_out line
        read -r -t 60 -u "${!out}" line || fail "$1 says nothing: $(cat "$W/$1.err")"
        echo "$line"
}

# ask NAME COMMAND...: its answer
ask() {
        local name=$1 in=$1_in
        shift
        echo "$*" >&"${!in}"
        answer "$name"
}

end() {
        local in=$1_in pid=$1_pid
        eval "exec ${!in}>&-"
        wait "${!pid}"
}

# issue NAME [RUN]: sets token and id
issue() {
        local said
        said=$(ask "$1" put "${2-run}" step 600 "$secret")
        read -r said token id <<<"$said"
        eq ok "$said" 'put'
        eq 69 "${#token}" 'length of the token'
}

fresh() {
        pg_start
        pg_sql 'DROP TABLE IF EXISTS auth_proxy_token, auth_proxy_schema' 2>/dev/null
}

honoured_by_both() {
        fresh
        replica a
        replica b
        issue a
        eq "ok run step $secret -" "$(ask b get "$token")"
        eq "ok run step $secret -" "$(ask a get "$token")"
        eq unknown "$(ask b get "ifap_$(printf '%064d' 0)")"
        eq 'ok 1' "$(ask b revoke "$id")"
        eq revoked "$(ask a get "$token")"
        eq 'ok 0' "$(ask a revoke "$id")"
        read -r _ short _ < <(ask a put run step 1 "$secret")
        read -r _ bound _ < <(ask a put run step 600 "$secret" 10.1.2.3)
        eq "ok run step $secret 10.1.2.3" "$(ask b get "$bound")" 'source address'
        sleep 1.1
        eq expired "$(ask b get "$short")"
        eq 'ok 1' "$(ask b purge)"
        eq unknown "$(ask a get "$short")"
}

# red when looker() does not look: every REGISTRY_POLL_MS, not only when this process revoked
revocation_reaches_both() {
        local before ms took=
        fresh
        replica a
        replica b
        for _ in 1 2 3 4 5; do # what is slow is slow each time, a machine that is busy is not
                issue a one
                eq watching "$(ask a watch "$id")"
                eq watching "$(ask b watch "$id")"
                sleep 0.7
                before=$(date +%s%N)
                eq 'ok 1' "$(ask b revoke "$id")"
                eq "dead $id revoked" "$(answer b)"
                eq "dead $id revoked" "$(answer a)"
                ms=$((($(date +%s%N) - before) / 1000000))
                took+="$ms "
                [ "$ms" -ge 1000 ] || break
        done
        [ "$ms" -lt 1000 ] || fail "took $took ms"
        issue a two
        eq watching "$(ask b watch "$id")"
        issue b two
        eq watching "$(ask b watch "$id")"
        eq 'ok 2' "$(ask a revoke-run two)"
        has "$(answer b)$(answer b)" 'revoked'
        eq 'ok 0' "$(ask b revoke-run two)"
}

restart_keeps_tokens() {
        fresh
        replica a
        issue a
        end a
        replica b
        eq "ok run step $secret -" "$(ask b get "$token")"
        eq watching "$(ask b watch "$id")"
        pg_stop
        pg_start
        eq "ok run step $secret -" "$(ask b get "$token")" 'first question after a restart of the database'
        eq 'ok 1' "$(ask b revoke "$id")" 'a watch has outlived it'
        eq "dead $id revoked" "$(answer b)"
}

outage_is_unavailable() {
        fresh
        replica a
        issue a
        eq watching "$(ask a watch "$id")"
        pg_stop
        eq unavailable "$(ask a get "$token")"
        eq unavailable "$(ask a revoke "$id" | cut -d' ' -f1)"
        eq unavailable "$(ask a put run step 60 x | cut -d' ' -f1)"
        eq 'the database does not accept connections' "$(ask a trouble)"
        pg_start
        wait_for 60 back_again || fail "after the outage: $(ask a get "$token")"
        eq '' "$(ask a trouble)"
        # one that accepts and says nothing: the answer comes all the same. Stopped is the postmaster, and who answers.
        pkill -STOP -P "$(head -n 1 "$pg_home/data/postmaster.pid")"
        kill -STOP "$(head -n 1 "$pg_home/data/postmaster.pid")"
        before=$SECONDS
        said=$(ask a get "$token")
        pkill -CONT -P "$(head -n 1 "$pg_home/data/postmaster.pid")"
        kill -CONT "$(head -n 1 "$pg_home/data/postmaster.pid")"
        eq unavailable "$said" 'a database that hangs'
        [ $((SECONDS - before)) -le 20 ] || fail "took $((SECONDS - before)) s"
        wait_for 60 back_again || fail 'no recovery'
}
back_again() { [ "$(ask a get "$token")" = "ok run step $secret -" ]; }

keys_rotate() {
        fresh
        replica a
        issue a
        old=$token
        IRONFLOW_SECRET_KEYS=$key_b,$key_a
        replica both
        issue both
        new=$token
        eq "ok run step $secret -" "$(ask both get "$old")"
        eq "ok run step $secret -" "$(ask both get "$new")"
        export IRONFLOW_SECRET_ACTIVE_KEY_VERSION=1
        replica early # knows the new key, and seals with the old one until all know the new one
        issue early
        eq "ok run step $secret -" "$(ask a get "$token")" 'sealed with the active key'
        IRONFLOW_SECRET_ACTIVE_KEY_VERSION=3
        has "$(status 1 "$drive" </dev/null)" 'IRONFLOW_SECRET_ACTIVE_KEY_VERSION: no key of that version'
        unset IRONFLOW_SECRET_ACTIVE_KEY_VERSION
        IRONFLOW_SECRET_KEYS=$key_b
        replica b
        eq "ok run step $secret -" "$(ask b get "$new")"
        eq unavailable "$(ask b get "$old")" 'the key is gone'
        eq 'a token was sealed with a key that is not in IRONFLOW_SECRET_KEYS' "$(ask b trouble)"
        eq unavailable "$(ask a get "$new")" 'the key is not known yet'
        IRONFLOW_SECRET_KEYS=
        has "$(status 1 "$drive" </dev/null)" 'IRONFLOW_SECRET_KEYS: entry 1'
        unset IRONFLOW_SECRET_KEYS
        has "$(status 1 "$drive" </dev/null)" 'set IRONFLOW_SECRET_KEYS'
}

version() { pg_sql 'SELECT string_agg(version::text, $$,$$ ORDER BY version) FROM auth_proxy_schema'; }

migrations() {
        fresh
        # from nothing, by six at once
        for i in 1 2 3 4 5 6; do "$drive" </dev/null >"$W/$i" 2>&1 & done
        wait
        eq "$(printf 'ready\n%.0s' 1 2 3 4 5 6)" "$(cat "$W"/[1-6])"
        eq 1,2,3 "$(version)"
        # from the first version, with a token in it
        replica a
        issue a
        end a
        pg_sql 'DELETE FROM auth_proxy_schema WHERE version > 1; ALTER TABLE auth_proxy_token DROP COLUMN source, DROP COLUMN token_group;
                DROP INDEX auth_proxy_token_run; DROP INDEX auth_proxy_token_expires_at'
        eq "$(pg_columns)" "$(first_version_columns)" 'the first version as it was'
        eq 1 "$(version)"
        replica b
        eq 1,2,3 "$(version)"
        eq "ok run step $secret -" "$(ask b get "$token")" 'a token of the first version'
        # from the future
        pg_sql 'INSERT INTO auth_proxy_schema (version) VALUES (4)'
        has "$(status 1 "$drive" </dev/null)" 'of version 4, this program knows up to 3; use the newer program'
        eq "ok run step $secret -" "$(ask b get "$token")" 'who runs goes on'
        # one that fails leaves nothing behind
        fresh
        pg_sql 'CREATE VIEW auth_proxy_token AS SELECT 1'
        has "$(status 1 "$drive" </dev/null)" 'SQLSTATE 42P07'
        eq '' "$(pg_sql "SELECT to_regclass('auth_proxy_schema')")"
        pg_sql 'DROP VIEW auth_proxy_token'
}
pg_columns() { pg_sql "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'auth_proxy_token' ORDER BY 1"; }
first_version_columns() {
        pg_sql 'CREATE SCHEMA first'
        { echo 'SET search_path = first;' && cat "$TOP/auth/migrations/001-tokens.sql"; } >"$W/first.sql"
        "$pg_bin/psql" -X -q "$PG_URL" -f "$W/first.sql"
        pg_sql "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'first' ORDER BY 1"
        pg_sql 'DROP SCHEMA first CASCADE' 2>/dev/null
}

# holds FILE WORD: also in hexadecimal and in base64, as a dump may write it
holds() {
        local hex
        hex=$(printf %s "$2" | od -An -tx1 | tr -d ' \n')
        grep -q -a -i -F -e "$2" -e "$hex" -e "$(printf %s "$2" | base64 -w0 | sed 's/=*$//')" "$1"
}

# red when put() stores the credential unsealed, or the token in place of its hash
a_stolen_copy_opens_nothing() {
        local word
        fresh
        replica a
        issue a
        kept=$token
        issue a
        eq 'ok 1' "$(ask a revoke "$id")"
        "$pg_bin/pg_dump" "$PG_URL" >"$W/dump"
        "$pg_bin/pg_dump" --inserts "$PG_URL" >>"$W/dump"
        holds "$W/dump" "$id" || fail 'the dump is of something else'
        pg_sql CHECKPOINT
        pg_as tar -C "$pg_home" -cf - data log >"$W/files" # tables, the log of writes, and what the server wrote of each statement
        holds "$W/files" "$id" || fail 'the files are of something else'
        for word in "$secret" "$kept" "${kept#ifap_}" "$token" "${token#ifap_}" "${key_a#1:}"; do
                ! holds "$W/dump" "$word" || fail 'in the dump'
                ! holds "$W/files" "$word" || fail 'in the files'
        done
        eq t "$(pg_sql "SELECT credential IS NULL FROM auth_proxy_token WHERE id = '$id'")" 'a revoked row keeps no credential'
        # all of the database, and another key
        IRONFLOW_SECRET_KEYS=1:$(printf '%064x' 3)
        replica thief
        eq unavailable "$(ask thief get "$kept")"
        # and no key, but the right to write: nothing opens where it does not belong
        IRONFLOW_SECRET_KEYS=$key_a
        issue a
        first=$id
        issue a
        for change in "run = 'other'" "step = 'other'" 'expires_at = expires_at + 1' "source = '10.0.0.1'" "token_group = 'other'" \
                "credential = (SELECT credential FROM auth_proxy_token WHERE id = '$first')"; do
                issue a
                pg_sql "UPDATE auth_proxy_token SET $change WHERE id = '$id'"
                eq unavailable "$(ask a get "$token")" "$change"
        done
        eq 'a row does not open: it was changed, or sealed with another key of that version' "$(ask a trouble)"
}

memory_is_its_own() {
        unset IRONFLOW_AUTH_PROXY_DATABASE_URL
        replica a
        replica b
        issue a
        eq "ok run step $secret -" "$(ask a get "$token")"
        eq unknown "$(ask b get "$token")"
}

t 'in memory: a replica knows its own tokens only' memory_is_its_own
t 'a token issued by one replica is honoured by the other, and revoked for both' honoured_by_both
t 'a revocation reaches the streams of both replicas within a second' revocation_reaches_both
t 'tokens outlive a restart of the proxy and of the database' restart_keeps_tokens
t 'a database that is down or hangs is unavailable, and it recovers' outage_is_unavailable
t 'keys rotate' keys_rotate
t 'tables are made and brought up to date, once' migrations
t 'a stolen copy of the database opens nothing, and rows open nowhere else' a_stolen_copy_opens_nothing
finish
