#!/usr/bin/env bash
# What each process of a run may still do, seen from outside while the run works. The lists call by call: unit/test-confine.c
# (fsd), unit/test-run-confine.c (supervisor, the child that lands), unit/test-egress.c (the proxy), unit/test-seccomp.c (pid 1).
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# a run that has all of them; sets id and, by their short names, pid
declare -A pid
start_run() {
        local p comm state session line
        id=$("$C" start --network allowlist --allow example.org "$@") || fail 'start'
        for p in $(helper_pids); do
                look "$p" && [[ $comm == cofferdam-@(init|fsd|proxy) ]] || continue
                pid[${comm#cofferdam-}]=$p
                pid[supervisor]=$session
        done
        eq 'fsd init proxy supervisor' "$(printf '%s\n' "${!pid[@]}" | sort | tr '\n' ' ' | sed 's/ $//')" 'processes'
        wait_for 60 grep -q 'Seccomp:.*2' "/proc/${pid[supervisor]}/status" || fail 'the supervisor is not confined'
}
end_run() { timeout 60 "$C" rm -f "$id" >/dev/null; }
status_of() { sed -n "s/^$2:[[:space:]]*//p" "/proc/${pid[$1]}/status"; }

# Red when one of confine_helper(), stage_confine(), confine_supervisor(), guard_confine(), egress_confine() is left out
given_up() {
        local who cap mask
        start_run
        for who in "${!pid[@]}"; do
                for cap in CapInh CapPrm CapEff CapBnd CapAmb; do
                        mask=0000000000000000
                        # of root's: over files and processes of the run's user (ADR 023)
                        [[ $who:$(id -u):$cap != supervisor:0:Cap@(Prm|Eff) ]] || mask=00000000000000ff
                        # a user's process has no right to take from it, and no_new_privs lets nothing of it come
                        [ "$cap" != CapBnd ] || [ "$(id -u)" = 0 ] || continue
                        eq "$mask" "$(status_of "$who" $cap)" "$cap of $who"
                done
                eq 1 "$(status_of "$who" NoNewPrivs)" "NoNewPrivs of $who"
                eq 2 "$(status_of "$who" Seccomp)" "Seccomp of $who"
                eq 1 "$(status_of "$who" Seccomp_filters)" "filters of $who"
        done
        for who in fsd proxy supervisor; do
                grep -qE '^Max core file size +0 +0 ' "/proc/${pid[$who]}/limits" || fail "$who can leave a core"
        done
        end_run
}

# WHO NUMBER ARG...: what the process is told when it makes that call
made_by() {
        local who=$1
        shift
        timeout 60 /usr/bin/python3 "$here/helpers.py" "${pid[$who]}" "$@"
}

# Each makes a call that is not in its list. Red when callfilter_load() returns before it loads.
call_beyond() {
        local who=$1 want=$2 event
        shift 2
        is_root || skip 'only root can make others call'
        [ "$(uname -m)" = x86_64 ] || skip 'case says: x86-64 only'
        need_command python3
        start_run
        eq "$want" "$(made_by "$who" "$@")" "call $1 of $who"
        case $want in
        killed*)
                event=GUARD_LOST
                [ "$who" = fsd ] || event=EGRESS_LOST
                wait_for 60 ended || fail 'the run goes on without it'
                has "$("$C" events "$id")" "$event"
                ;;
        *) eq works "$(timeout 60 "$C" exec "$id" echo works </dev/null)" 'the run afterwards' ;;
        esac
        end_run
}
ended() { "$C" events "$id" | grep -q sandbox_finished; }
is_root() { [ "$(id -u)" = 0 ]; }

# ... and works under it: files, names, the network's refusal, a landing
works() {
        is_root || need_command python3
        start_run --workspace-mode staged
        timeout 60 "$C" exec "$id" sh -c 'mkdir -p d; echo x >d/f; mv d/f d/g; ls d; cat /etc/passwd >/dev/null; ! python3 -c "import socket; socket.create_connection((\"example.com\", 80), 5)" 2>/dev/null' \
                </dev/null >out || fail "$(cat out)"
        eq g "$(cat out)"
        end_run
}

t 'every process gave up what it does not need' given_up
t 'the file server dies of a call beyond its list' call_beyond fsd 'killed by 31' 41 1 1 0
t 'the proxy dies of a call beyond its list' call_beyond proxy 'killed by 31' 57
t 'the supervisor is refused a call beyond its list' call_beyond supervisor 'errno 1' 41 1 1 0
t 'pid 1 is refused what its commands are' call_beyond init 'errno 1' 165 0 0 0 0 0
t 'a run works under the lists' works
finish
