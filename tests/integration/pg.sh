# shellcheck shell=bash
# pg.sh - a PostgreSQL of the script's own, on a socket in its directory; sourced after lib.sh. Ended with the script.
#
# pg_start   makes it on the first call; $PG_URL is how to reach it
# pg_stop    ends it at once; pg_start starts it again with what it holds
# pg_sql     one statement, its rows unaligned
#
# PostgreSQL refuses to run as root: root runs it as nobody.
pg_home=$T/pg
# shellcheck disable=SC2012 # version numbers
pg_bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
# shellcheck disable=SC2034 # for the scripts
PG_URL="postgresql:///postgres?host=$pg_home&user=tester"

pg_as() {
        if [ "$(id -u)" = 0 ]; then
                (cd / && setpriv --reuid nobody --regid nogroup --clear-groups "$@")
        else
                "$@"
        fi
}

pg_start() {
        [ -x "$pg_bin/initdb" ] || skip 'no PostgreSQL on this machine'
        if [ ! -e "$pg_home/data" ]; then
                mkdir -p "$pg_home"
                [ "$(id -u)" != 0 ] || chown nobody:nogroup "$pg_home"
                pg_as "$pg_bin/initdb" -D "$pg_home/data" -U tester -A trust -E UTF8 --no-locale --no-sync >"$T/initdb" 2>&1 ||
                        fail "initdb: $(cat "$T/initdb")"
        fi
        ! "$pg_bin/pg_isready" -q -t 60 -h "$pg_home" || return 0
        pg_as "$pg_bin/pg_ctl" -D "$pg_home/data" -w -t 120 -s -l "$pg_home/log" start \
                -o "-c listen_addresses='' -c unix_socket_directories='$pg_home' -c fsync=off -c shared_buffers=16MB -c max_connections=40 -c log_statement=all -c wal_level=minimal -c max_wal_senders=0" ||
                fail "postgres: $(tail -n 5 "$pg_home/log")"
}

pg_stop() {
        [ ! -e "$pg_home/data/postmaster.pid" ] || pg_as "$pg_bin/pg_ctl" -D "$pg_home/data" -m immediate -s -w -t 120 stop || true
}

pg_sql() { "$pg_bin/psql" -X -q -A -t -v ON_ERROR_STOP=1 "$PG_URL" -c "$1"; }

trap 'pg_stop; clean' EXIT
trap 'echo "Bail out! killed"; pg_stop; clean; exit 143' INT TERM HUP
