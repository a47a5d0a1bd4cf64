# shellcheck shell=bash
# lib.sh - what every integration script sources: TAP, a work directory of its own, nothing left behind
#
# A script defines functions and ends with lines `t 'what holds' FUNCTION [ARG...]` and `finish`. Each function runs
# in a subshell with `set -eu`, in a fresh directory that is to be the workspace, with stdin from /dev/null; what it
# prints is shown when it fails. Arguments of the script are patterns: only tests whose name matches one of them run.
#
# $T           work directory of the script, removed at the end, also after a failure or a signal
# $C           the program under test, a copy in $T: its processes can be told from everyone else's
# $W           the fresh workspace of the test, also its current directory
# $TOP         the checkout
# $SHARED      case scripts and measuring kit, when they are beside the checkout
# $HELPERS     programs of this directory
set -u
umask 022 # the tests say what mode a new file has
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # for the scripts
TOP=$(cd "$here/../.." && pwd)
# shellcheck disable=SC2034
SHARED=${COFFERDAM_SHARED-$TOP/../shared}
# shellcheck disable=SC2034
HELPERS=${COFFERDAM_HELPERS-$TOP/build/tests/integration}
patterns=("$@")
count=0 failures=0

T=$(mktemp -d "${COFFERDAM_TEST_BASE:-/tmp}/cofferdam-it.XXXXXX") || exit 99
chmod 755 "$T"
mkdir "$T/bin" "$T/state" "$T/run" "$T/home"
cp -L "${COFFERDAM:-$TOP/build/cofferdam}" "$T/bin/cofferdam" || exit 99
C=$T/bin/cofferdam
# the programs that it executes (auth-proxy, pod, ...), where they are built
for service in "$(dirname "$(readlink -f "${COFFERDAM:-$TOP/build/cofferdam}")")"/../libexec/cofferdam-*; do
        [ ! -e "$service" ] || { mkdir -p "$T/libexec" && cp -L "$service" "$T/libexec/"; } || exit 99
done
# tools of the tester's own home are not what is tested
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
# a run's state and sockets stay below $T; the caller's home is one that tests may fill
export XDG_STATE_HOME=$T/state XDG_RUNTIME_DIR=$T/run HOME=$T/home
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@example.org
export GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@example.org

# look PID: sets comm, state, session and line (the command line) without a fork; false when it is gone, a zombie (pid 1
# may reap late) or this shell
look() {
        local stat words
        case $1 in "$BASHPID" | "$$") return 1 ;; esac
        { read -r stat <"/proc/$1/stat" && mapfile -d '' -t words <"/proc/$1/cmdline"; } 2>/dev/null || return 1
        comm=${stat#*(} comm=${comm%)*} stat=${stat##*) } line=${words[*]-}
        # shellcheck disable=SC2086 # fields
        set -- $stat
        state=$1 session=$4
        case $state in Z | X) return 1 ;; esac
}

# live_pids PATTERN: processes whose command line holds PATTERN
live_pids() {
        local dir comm state session line
        for dir in /proc/[0-9]*; do
                look "${dir#/proc/}" && [[ $line == *"$1"* ]] && echo "${dir#/proc/}"
        done
        return 0
}

# helper_pids [led]: the processes that a run of $C forked and that have names of their own. They hide their exe link from
# an ordinary user; their session tells whose they are: its leader is the supervisor, and without a leader they should
# not be there, whoever left them. 'led': only those that have one, for those of other scripts are about to end, too.
helper_pids() {
        local dir comm state session line exe
        for dir in /proc/[0-9]*; do
                if ! look "${dir#/proc/}" || [[ $comm != cofferdam-* ]]; then continue; fi
                [[ " ${servers[*]-} " != *" ${dir#/proc/} "* ]] || continue # the script's own, which outlives its tests
                exe=$(readlink "$dir/exe") || exe=
                if [ -n "$exe" ]; then
                        [[ $exe == "$C"* || $exe == "$T/libexec/"* ]] || continue
                elif look "$session"; then
                        [[ $line == *"$C"* ]] || continue
                elif [ -n "${1-}" ]; then
                        continue
                fi
                echo "${dir#/proc/}"
        done
}

ours() {
        live_pids "$C"
        helper_pids
}
none_of_ours() { [ -z "$(ours)" ]; }

# wait_for SECONDS CMD...: until CMD succeeds
wait_for() {
        local end=$((SECONDS + $1))
        shift
        until "$@"; do
                [ "$SECONDS" -lt "$end" ] || return 1
                sleep 0.05
        done
}

none_live() { [ -z "$(live_pids "$1")" ]; }

clean() {
        local pid
        trap - EXIT
        for pid in $(live_pids "$T/") $(helper_pids led); do kill -KILL "$pid" 2>/dev/null; done
        cd /
        chmod -R u+rwX "$T" 2>/dev/null
        rm -rf "$T"
}
trap clean EXIT
trap 'echo "Bail out! killed"; clean; exit 143' INT TERM HUP

# straight to the log: fail may be called where stdout is redirected
fail() {
        echo "FAIL: $*" >>"$T/out"
        exit 1
}

skip() {
        echo "$*" >"$T/skip"
        exit 77
}

# eq WANT GOT [WHAT]
eq() { [ "$1" = "$2" ] || fail "${3-value}: want '$1', got '$2'"; }

# has TEXT PART [WHAT], lacks TEXT PART [WHAT]
has() { [[ $1 == *"$2"* ]] || fail "${3-text}: '$2' is not in: $1"; }
lacks() { [[ $1 != *"$2"* ]] || fail "${3-text}: '$2' must not be in: $1"; }

# status WANT CMD...: the exit status of CMD; its output passes
status() {
        local want=$1 rc=0
        shift
        "$@" || rc=$?
        [ "$rc" = "$want" ] || fail "exit status of '$*': want $want, got $rc"
}

# sandbox [OPTION...] -- CMD...: `cofferdam run`, ended after five minutes
sandbox() { timeout -k 5 300 "$C" run "$@"; }

# need_command NAME: skip the test where the machine lacks it
need_command() { command -v "$1" >/dev/null 2>&1 || skip "no $1 on this machine"; }

wanted() {
        local p
        [ ${#patterns[@]} -gt 0 ] || return 0
        for p in "${patterns[@]}"; do [[ $1 != *$p* ]] || return 0; done
        return 1
}

# t NAME FUNCTION [ARG...]
t() {
        local name=$1 rc=0 left
        shift
        wanted "$name" || return 0
        count=$((count + 1))
        W=$T/w$count
        mkdir -p "$W"
        rm -f "$T/skip" "$T/out"
        (
                set -eu
                trap - EXIT INT TERM HUP
                cd "$W"
                "$@"
        ) >>"$T/out" 2>&1 </dev/null
        rc=$?
        [ -s "$T/out" ] || [ "$rc" = 0 ] || echo "it said nothing, exit status $rc" >>"$T/out"
        if ! wait_for 60 none_of_ours; then
                left=$(ours | tr '\n' ' ')
                [ "$rc" != 0 ] || rc=1
                echo "FAIL: still running afterwards: $left" >>"$T/out"
                for pid in $left; do look "$pid" && echo "$pid: $comm: $line" >>"$T/out"; done
                for pid in $left; do kill -KILL "$pid" 2>/dev/null; done
        fi
        report "$name" "$rc"
        chmod -R u+rwX "$W" 2>/dev/null
        rm -rf "$W"
}

report() {
        case $2 in
        0) echo "ok $count - $1" ;;
        77)
                echo "ok $count - $1 # SKIP $(cat "$T/skip" 2>/dev/null || tail -n 1 "$T/out")"
                ;;
        *)
                failures=$((failures + 1))
                echo "not ok $count - $1"
                tail -n 60 "$T/out" | tr -d '\000' | cut -c1-500 | sed 's/^/#   /'
                echo "#   repro: tests/integration/as.sh $(role) $(basename "$0" .sh) '$1'"
                ;;
        esac
}

role() { if [ "$(id -u)" = 0 ]; then echo root; else echo user; fi; }

finish() {
        if [ "$count" = 0 ]; then echo '1..0 # SKIP no test of that name'; else echo "1..$count"; fi
        [ "$failures" = 0 ]
        exit
}
