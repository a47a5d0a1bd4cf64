#!/usr/bin/env bash
# Faults that users of other sandboxes reported: each script of the shared cases that runs inside a sandbox, with the
# files made by the script itself and with the files already there when the sandbox starts (prep)
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
cases=$SHARED/cases/open

# The cases of the proxy run where it is the only way out, with their server on this machine. 09 does not: it wants ::1 in
# NO_PROXY, which Ruby, requests and httpx take for something else.
proxied() {
        case $1 in 08 | 22 | 23 | 24 | 25) return 0 ;; *) return 1 ;; esac
}

# The server of the cases; $upstream is its port
start_upstream() {
        local port
        cc -w -O1 -o "$T/upstream" "$SHARED/cases/tools/upstream.c" -lpthread || fail 'upstream.c does not compile'
        port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
        "$T/upstream" "$port" >"$T/upstream.log" 2>&1 &
        server=$!
        wait_for 60 curl -s -o /dev/null --noproxy '*' "http://127.0.0.1:$port/hello" || fail "no upstream: $(cat "$T/upstream.log")"
        upstream=$port
}

# one SCRIPT [prep]
one() {
        local script=$1 rc=0 said options=() upstream server=
        [ -z "${2-}" ] || (cd "$W" && sh "$script" prep) || fail 'prep failed'
        if proxied "$(basename "$script" | cut -c1-2)"; then
                start_upstream
                options=(--network allowlist --preset none --allow allowed.test --allow '*.wild.test' --deny deny.wild.test
                        --allow "host.docker.internal:$upstream/tcp" -e "CASE_UPSTREAM=host.docker.internal:$upstream"
                        -e CASE_DENY_ENTRY=deny.wild.test)
        fi
        said=$(CASE_SANDBOXED=1 sandbox -e CASE_SANDBOXED "${options[@]}" \
                --mount "type=bind,source=$cases,target=/cases,readonly" -- sh "/cases/$(basename "$script")" 2>&1) || rc=$?
        [ -z "$server" ] || kill "$server"
        echo "$said"
        [ "$rc" != 77 ] || skip "case says: ${said##*skip: }"
        [ "$rc" = 0 ] || fail "exit status $rc"
        eq ok "$(tail -n 1 <<<"$said")" 'last line'
}

[ -d "$cases" ] || {
        echo '1..0 # SKIP the shared case scripts are not beside the checkout'
        exit 0
}
for script in "$cases"/*.sh; do
        name=$(basename "$script" .sh)
        t "$name" one "$script"
        ! grep -q '^prep()' "$script" || t "$name, prepared" one "$script" prep
done
finish
