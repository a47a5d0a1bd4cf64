#!/usr/bin/env bash
# A file system of the host, mounted below what a run sees, that does not answer any more: a network's server is gone.
# It is played by servers of our own, one in the other: the inner one has been asked and waits for the outer one, which
# is stopped, so that whoever waits for the inner one cannot be killed.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
G=$HELPERS/guard-mount

kids() { cat /proc/"$1"/task/*/children 2>/dev/null; }
# what of $W still runs; the servers that play are none of ours
of_this() { live_pids "$W/ws"; }
stuck() { # processes that wait for the file server and cannot be killed, by the name they asked for
        local dir comm state session line
        for dir in /proc/[0-9]*; do
                if look "${dir#/proc/}" && [ "$state" = D ] && [[ $line == *"asked-$$"* ]]; then echo "${dir#/proc/} $line"; fi
        done
}
none_stuck() { [ -z "$(stuck)" ]; }
gone() { ! kill -0 "$1" 2>/dev/null || grep -q '^State:.Z' "/proc/$1/status"; }

ready_or_over() { [ -e ws/ready ] || ! kill -0 "$top" 2>/dev/null; }

# hung SCRIPT CMD...: runs CMD SCRIPT with $W/ws/net hung from when `ready` is made on; sets $top (of all), $outer (the
# stopped server) and $run (CMD)
hung() {
        local script=$1 parts
        shift
        mkdir -p ws/net/deep ws/dir other
        echo near >ws/near
        echo far >ws/net/deep/known # so that the way there is known, and everyone's question goes out
        # as root in a namespace, since somebody without capabilities cannot map an id once more
        "$G" -K "$W/ws/net/deep" -- "$G" -K "$W/ws/net" -- "$@" sh -c "cat net/deep/known; touch ready
                until [ -e stopped ]; do sleep 0.05; done
                for i in 1 2 3 4 5 6 7 8 9 10; do (cat net/deep/asked-$$-\$i 2>/dev/null) & done
                sleep 1.5
                $script" >out 2>err &
        top=$!
        wait_for 60 ready_or_over || true
        if [ ! -e ws/ready ]; then
                ! grep -q 'guard-mount:.*not permitted' err || skip 'no namespaces in a namespace'
                fail "not ready: $(cat out err)"
        fi
        read -r outer parts <<<"$(kids "$top")"
        read -r _ run <<<"$(kids "$parts")"
        [ -n "$outer" ] && [ -n "$run" ] || fail "no parts of $top"
        kill -STOP "$outer"
        touch ws/stopped
}
# the host answers again
answers() {
        kill -CONT "$outer" || true
        wait "$top" || true
        wait_for 60 none_stuck || fail "still stuck: $(stuck)"
}
trouble() {
        kill -CONT "$outer" || true
        fail "$*: $(cat out err) $(stuck)"
}

# red with one lock for the whole tree, when a worker keeps its turn, or without more workers
others_go_on() {
        hung 'echo x >dir/a && mv dir/a dir/b && mkdir dir/c && ls . dir >/dev/null && rm near && echo went-on >went-on; mv dir/c dir/d
                echo $? >moved; wait' "$G" "$W/ws" --
        wait_for 60 test -s ws/went-on || trouble 'something else waits too'
        wait_for 60 test -s ws/moved || trouble 'a directory is moved forever'
        # a directory cannot get other rules while something below the region may act by the old ones
        eq 1 "$(cat ws/moved)"
        has "$(cat err)" busy
        answers
}

other_regions_go_on() {
        hung "cd '$W/other' && mkdir c && mv c d && echo x >d/e && mv d/e f" "$C" run -w "$W/ws" --mount "type=bind,source=$W/other,target=$W/other" --
        wait_for 60 test -s other/f || trouble 'another region waits too'
        wait_for 60 gone "$run" || trouble 'the run does not end'
        none_stuck || trouble 'processes of the work are left'
        answers
}

# ended HOW: and the work is gone while the host still does not answer
ended() {
        local sup fsd pid comm state session line
        hung 'echo x >began; sleep 60' "$C" run -w "$W/ws" --
        wait_for 60 test -s ws/began || trouble 'something else waits too'
        for pid in $(kids "$run"); do look "$pid" && [ "$session" = "$pid" ] && sup=$pid; done
        for pid in $(kids "$sup"); do look "$pid" && [ "$comm" = cofferdam-fsd ] && fsd=$pid; done
        case $1 in
        terminated) kill -TERM "$run" ;;
        supervisor) kill -KILL "$sup" ;;
        all) kill -KILL "$run" "$sup" "$fsd" ;;
        fsd)
                kill -KILL "$fsd"
                sleep 0.2
                kill -TERM "$run"
                ;;
        esac
        for _ in 1 2 3; do
                sleep 0.3
                [ "$1" = supervisor ] || kill -TERM "$run" 2>/dev/null || true
        done
        wait_for 60 gone "$run" || trouble 'the run does not end'
        [ "$1" = all ] || wait_for 60 none_stuck || trouble 'processes of the work are left'
        answers
}

t 'a host file system that hangs stalls nothing else' others_go_on
t 'nor another region, and the run ends' other_regions_go_on
t 'a run is terminated while the host hangs' ended terminated
t 'its supervisor is killed' ended supervisor
t 'its file server is killed, then it is terminated' ended fsd
t 'all of it is killed: gone when the host answers' ended all
finish
