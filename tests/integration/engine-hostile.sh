#!/usr/bin/env bash
# Images that are made to break out of the hands of who runs them, and engines that do not answer as they should
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"

# image ENGINE NAME CHANGE...: busy:1 with what a Dockerfile can say
image() {
        local engine=$1 name=$2 change=()
        shift 2
        engine_ready "$engine"
        for line; do change+=(--change "$line"); done
        "$engine" import "${change[@]}" "$E/image.tar" "$name" >out 2>&1 || fail "import: $(cat out)"
}
# Volumes, also on our own places: the root is read-only in all of them. Red without freeze() (drivers/oci/inject.c)
has_no_volumes() {
        image "$1" volumes:1 'VOLUME ["/data", "/run", "/run/cofferdam/fuse", "/run/cofferdam/aside", "/run/secrets", "/etc", "/home", "/dev/shm/x", "/w\nx"]'
        echo secret >"$T/source"
        boxed "$1" --image volumes:1 --secret "A=file:$T/source,as=file" -- sh -c '
                cat /run/secrets/A
                for dir in / /data /run /run/cofferdam /run/cofferdam/fuse /run/cofferdam/aside /etc /home /run/secrets "/w
x"; do ! touch "$dir/x" 2>/dev/null || echo "writable: $dir"; done
                for file in /etc/hosts /etc/hostname /etc/resolv.conf /run/.containerenv; do ! echo x 2>/dev/null >>$file || echo "writable: $file"; done
                touch /tmp/x ~/x ./x && ls /run/cofferdam/fuse /run/cofferdam/aside; echo >/dev/shm/y; echo end' >out 2>err || fail "$(cat err)"
        eq 'secret /run/cofferdam/aside: /run/cofferdam/fuse: end' "$(xargs <out)"
        if [ "$1" = docker ]; then eq '' "$(docker volume ls -q)" 'volumes that are left'; else eq '' "$(podman volume ls -q)" 'volumes that are left'; fi
}
# A program that the engine starts in the container by itself. Red without --no-healthcheck (docker)
checks_no_health() {
        printf 'FROM busy:1\nHEALTHCHECK --interval=1s --timeout=5s CMD touch /tmp/health; sleep 60\n' >Dockerfile
        engine_ready "$1"
        if [ "$1" = podman ]; then set -- podman --format docker; fi
        "$1" build "${@:2}" -t health:1 . >out 2>&1 || fail "$(cat out)"
        id=$("$C" start -d "$1" --image health:1)
        check=$("$1" inspect --format '{{json .Config.Healthcheck}}' "cofferdam-$id")
        [[ $check =~ ^(null|.*NONE.*)$ ]] || fail "$check"
        "$C" stop -t 0 "$id" >/dev/null
        "$C" rm "$id" >/dev/null
}

# shim ENGINE: a command line that does $X before it is the engine's
shim() {
        mkdir shim
        printf '#!/bin/bash\neval "$X"\nexec %s "$@"\n' "$(command -v "$1")" >"shim/$1"
        chmod +x "shim/$1"
        export PATH=$W/shim:$PATH X=
}
# One line says it, whatever an engine says or does not, and nothing is left of the run or the engine's process
answers_oddly() {
        local odd want
        engine_ready "$1"
        shim "$1"
        while IFS='|' read -r odd want; do
                X="[ \$1 != ${odd%% *} ] || { ${odd#* }; }"
                status 125 boxed "$1" --events "$W/events" -- true >out 2>err
                eq 1 "$(wc -l <err)" "lines of '$odd': $(cat err)"
                has "$(cat err)" "${want//ENGINE/$1}" "$odd"
                lacks "$(cat err)" $'\033' "$odd"
                has "$(cat events)" '"failure_code":"' "$odd"
                [ ! -s out ] || fail "output of '$odd'"
                rm events
                eq '' "$(live_pids "$W/shim/$1")$(containers "$1")$(ls "$XDG_STATE_HOME/cofferdam/runs" 2>/dev/null)" "left of '$odd'"
        done <<'O'
image exec yes|'ENGINE image' said more than 1 MiB
image head -c 300000000 /dev/zero >&2; exit 1|ENGINE image: exit status 1, and not a word
image kill -9 $$|ENGINE image: exit status 137, and not a word
run kill -9 $$|first process died
image exit 0|has no identity
image printf '\0\0'; exit 0|has no identity
image printf '\033[31mevil\nroot'; exit 0|invalid reference format
image printf -- '-v/:/x\n'; exit 0|ENGINE run: 
image printf 'busy:1\n\na:b:c:d'; exit 0|no user 'a'
run printf 'Error: a\033[31mred\nsecond \033]0;title\a' >&2; exit 1|ENGINE run: second \x1b]0;title\x07
O
}
# The bound of a call that hangs, with children that hold its streams
hangs() {
        engine_ready "$1"
        shim "$1"
        X='[ $1 != image ] || { trap "" TERM; sleep 1000 & sleep 1000; }'
        status 125 boxed "$1" --events "$W/events" -- true 2>err
        eq "cofferdam: '$1 image' did not end within 20 s" "$(cat err)"
        has "$(cat events)" SANDBOX_SETUP_TIMEOUT
        eq '' "$(live_pids "$W/shim/$1")"
        # nobody calls
        X='[ $1 != run ] || exit 0'
        status 125 boxed "$1" --events "$W/events" -- true 2>err
        eq "cofferdam: the container's first process died: exit status 0" "$(cat err)"
        eq '' "$(ls "$XDG_STATE_HOME/cofferdam/runs")"
}
# As many as there are ask for one name at once
has_one_of_a_name() {
        local n
        engine_ready "$1"
        for n in 1 2 3 4; do "$C" start -d "$1" --image busy:1 --name one >"id$n" 2>"err$n" & done
        wait
        eq 1 "$(cat id? | wc -l)" 'runs of one name'
        eq 3 "$(cat err? | wc -l)"
        eq 3 "$(cat err? | grep -c "name 'one' is taken by a run that lives")" "$(cat err?)"
        eq "cofferdam-$(cat id?)" "$(containers "$1")"
        "$C" stop -t 0 one >/dev/null
        "$C" rm one >/dev/null
        eq '' "$(containers "$1")"
}
# What a service manager or a container may lack
lacks_its_places() {
        local lacks
        engine_ready "$1"
        for lacks in '-u HOME' '-u XDG_RUNTIME_DIR' '-u HOME -u XDG_RUNTIME_DIR'; do
                # shellcheck disable=SC2086 # words
                eq hi "$(env $lacks "$C" run -d "$1" --image busy:1 -- echo hi 2>&1)" "$lacks"
        done
        mkdir -p "$T/closed"
        chmod 555 "$T/closed"
        eq hi "$(HOME=$T/closed "$C" run -d "$1" --image busy:1 -- echo hi 2>&1)" 'a home that cannot be written'
        eq '' "$(containers "$1")"
}

# descendants PID: and itself
descendants() {
        local pid
        # shellcheck disable=SC2013 # words
        for pid in $(cat "/proc/$1/task/"*/children 2>/dev/null); do descendants "$pid"; done
        echo "$1"
}
# only ENGINE ID: gc leaves nothing but the run ID, with its container
only() {
        "$C" gc >>said 2>&1
        [ "$(ls "$XDG_STATE_HOME/cofferdam/runs")" = "$2" ] && [ "$("$1" ps -a --format '{{.Names}}')" = "cofferdam-$2" ] && [ -z "$("$1" volume ls -q)" ]
}
is_left() { fail "$2: $("$1" ps -a --format '{{.Names}} {{.Status}}'; "$1" volume ls -q; ls "$XDG_STATE_HOME/cofferdam/runs"; tail -n 5 said)"; }
# SIGKILL to who calls the engine and to its command line, before and after each call; then at any time, of all that the
# run consists of. Red without labels on the container that reads accounts, or with volumes of the image (podman)
is_killed_anywhere() {
        local odd id pid
        image "$1" app:1 'USER app' 'VOLUME ["/data"]'
        id=$("$C" start -d "$1" --image busy:1)
        echo secret >"$T/source"
        chmod 777 .
        shim "$1"
        # a container that is made and not started, as by a command line that is killed
        cut='create() { for word; do shift; case $word in run | --detach) ;; *) set -- "$@" "$word" ;; esac; done; '"${PATH%%:*}/../real"' create "$@"; }'
        ln -s "$(PATH=${PATH#*:} command -v "$1")" real
        while IFS='|' read -r odd; do
                X="$cut; $odd"
                boxed "$1" --image app:1 --secret "A=file:$T/source,as=file" --network allowlist --allow a.example -- true >out 2>&1 &
                wait $! || true
                X=
                wait_for 60 only "$1" "$id" || is_left "$1" "$odd"
        done <<'O'
[ "$1" != image ] || kill -9 $PPID $$
case $* in *' cofferdam-accounts-'*) create "$@"; kill -9 $PPID $$ ;; esac
case $* in *' cofferdam-accounts-'*) ;; 'run '*) create "$@"; kill -9 $PPID $$ ;; esac
case $* in *' cofferdam-accounts-'*) ;; 'run '*) ${0%/*}/../real "$@"; kill -9 $PPID $$ ;; esac
[ "$1" != rm ] || [ -e "$0.rm" ] || { : >"$0.rm"; kill -9 $PPID $$; }
O
        for odd in ${COFFERDAM_POINTS:-1 2 3 4 5 6}; do
                "$C" run -d "$1" --image app:1 --secret "A=file:$T/source,as=file" -- sh -c 'while :; do sleep 1; done' >out 2>&1 &
                pid=$!
                sleep "$((odd % 3)).$RANDOM"
                # shellcheck disable=SC2046 # words
                kill -KILL $(descendants "$pid") 2>/dev/null || true
                wait "$pid" 2>/dev/null || true
        done
        wait_for 60 only "$1" "$id" || is_left "$1" 'at any time'
        eq lives "$("$C" exec "$id" -- echo lives)"
        "$C" stop -t 0 "$id" >/dev/null
        "$C" rm "$id" >/dev/null
        eq '' "$("$1" ps -aq)$(ls "$XDG_STATE_HOME/cofferdam/runs")"
}
# A daemon that comes back ends what it finds. Everybody hears of it, in time and by name
is_restarted() {
        local id rc=0
        engine_ready docker
        id=$("$C" start -d docker --image busy:1)
        "$C" exec "$id" -- sh -c 'echo up >up; sleep 1000' >said 2>&1 &
        wait_for 60 test -e up
        boxed docker --events "$W/events" -- sh -c 'echo up >up2; sleep 1000' >out 2>&1 &
        wait_for 60 test -e up2
        kill -KILL "$(cat "$E/docker.pid")"
        wait_for 60 [ ! -e "/proc/$(cat "$E/docker.pid")" ]
        rm -f "$E/docker.pid" "$E"/docker-run/containerd/containerd.{pid,sock*}
        docker_start
        wait %1 || rc=$?
        eq "125 cofferdam: the sandbox's first process died" "$rc $(cat said)"
        status 125 wait %2
        has "$(cat out)" "first process died"
        has "$(cat events)" '"failure_code":"'
        status 125 "$C" exec "$id" -- true 2>/dev/null
        "$C" rm "$id" >/dev/null 2>&1 || true
        "$C" gc >/dev/null
        eq '' "$(docker ps -aq)$(ls "$XDG_STATE_HOME/cofferdam/runs")"
}

for engine in podman docker; do
        t "$engine: killed at any point, and gc" is_killed_anywhere $engine
        t "$engine: answers that are none" answers_oddly $engine
        t "$engine: a command line that hangs, a container that does not call" hangs $engine
        t "$engine: two runs of one name at once" has_one_of_a_name $engine
        t "$engine: without a home, without a runtime directory" lacks_its_places $engine
        t "$engine: volumes of the image" has_no_volumes $engine
        t "$engine: a health check of the image" checks_no_health $engine
done
t 'docker: its daemon is killed and comes back' is_restarted
finish
