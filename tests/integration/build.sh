#!/usr/bin/env bash
# build: an image from a Dockerfile, made by podman (root and user), by docker (root), and for the native driver
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"

# a context with a Dockerfile, and a specification that builds it
project() {
        mkdir -p ctx
        echo one >ctx/file
        cat >ctx/Dockerfile <<'D'
FROM busy:1 AS base
ARG WHO=nobody
COPY file /file
RUN echo "$WHO" >/who; cat /proc/sys/kernel/random/uuid >/stamp
FROM base AS more
RUN echo more >/more
D
        printf 'build: {context: ctx, args: {WHO: me}, target: base}\n' >spec.yaml
}
# built ENGINE [OPTION...] -- CMD...: a user's podman may have no network to give to a build, so there the repository says
# the same, whose builds have none
built() {
        local engine=$1 said=(-s spec.yaml)
        shift
        if [ "$(id -u)" != 0 ]; then
                cp spec.yaml .cofferdam.yaml
                said=()
        fi
        "$C" run -d "$engine" "${said[@]}" "$@"
}
nothing_left() {
        local copy
        for copy in "$XDG_STATE_HOME"/cofferdam/build.*; do [ ! -e "$copy" ] || fail "a copy of the context: $copy"; done
}

builds_once() {
        engine_ready "$1"
        project
        built "$1" -- sh -c 'cat /file /who /stamp; ls /more' >first 2>err || true
        eq 'one me' "$(sed -n 1,2p first | xargs)" "$(cat err)"
        has "$(cat err)" /more
        nothing_left
        # nothing has changed: the same image, and the engine is not asked to build
        touch -d '1 hour ago' ctx/file
        built "$1" -- cat /stamp >second
        eq "$(sed -n 3p first)" "$(cat second)" 'built again'
        # each of these is another image
        echo two >ctx/file
        eq two "$(built "$1" -- cat /file)"
        printf 'build: {dockerfile: ctx/Dockerfile, args: {WHO: me}}\n' >spec.yaml
        eq 'two more' "$(built "$1" -- cat /file /more | xargs)"
        chmod 755 ctx/file
        eq 755 "$(built "$1" -- stat -c %a /file)"
        nothing_left
}

fails_typed() {
        engine_ready "$1"
        project
        printf 'FROM busy:1\nRUN echo "the rea""son"; exit 3\n' >ctx/Dockerfile
        printf 'build: {context: ctx}\n' >spec.yaml
        status 125 built "$1" --events events -- true 2>err
        has "$(cat err)" 'the reason'
        has "$(tail -n 1 err)" "$1 build failed with exit code"
        has "$(cat events)" '"failure_code":"IMAGE_UNAVAILABLE"'
        nothing_left
        rm ctx/Dockerfile
        code=0
        built "$1" -- true 2>err || code=$?
        [ "$code" -ne 0 ] || fail 'built without a Dockerfile'
        has "$(cat err)" 'ctx/Dockerfile'
        # an argument is no option, whatever it looks like
        project
        printf 'build: {context: ctx, target: "--privileged"}\n' >spec.yaml
        code=0
        built "$1" -- true 2>err || code=$?
        [ "$code" -ne 0 ] || fail 'an option of the engine'
        has "$(cat err)" build.target
        eq '' "$(containers "$1")" containers
}

# what a link of the context leads to is not in the image; a FIFO stops nobody
stays_in_the_context() {
        engine_ready "$1"
        mkdir ctx
        echo "$T-secret" >"$T/outside"
        ln -s "$T/outside" ctx/link
        ln -s / ctx/root
        mkfifo ctx/fifo
        printf 'FROM busy:1\nCOPY . /ctx\n' >ctx/Dockerfile
        printf 'build: {context: ctx}\n' >spec.yaml
        built "$1" -- sh -c 'cat /ctx/link; ls /ctx' >out 2>&1 || true
        lacks "$(cat out)" "$T-secret"
        has "$(cat out)" Dockerfile
        lacks "$(cat out)" fifo
}

# a repository's build: in the workspace, and without a network unless the run has one
of_the_repository() {
        engine_ready "$1"
        mkdir .devcontainer
        printf 'FROM busy:1\nRUN ip link | grep -c : >/links\n' >.devcontainer/Dockerfile
        echo '{"build": {"dockerfile": "Dockerfile"}}' >.devcontainer/devcontainer.json
        eq 2 "$("$C" run -d "$1" -- cat /links)" 'lines of the loopback alone'
        echo '{"build": {"dockerfile": "../../../../etc/passwd"}}' >.devcontainer/devcontainer.json
        has "$("$C" spec show)" 'refused: build'
        rm .devcontainer/Dockerfile
        ln -s "$T/outside" .devcontainer/Dockerfile
        echo '{"build": {"dockerfile": "Dockerfile"}}' >.devcontainer/devcontainer.json
        has "$("$C" spec show)" 'refused: build'
}

# What an engine reads itself, of the host: images in files, what URLs lead to, directories of its cache, a list of names.
# Red without dockerfile_check(), and is_the_engines() in context.c
engine_reads_nothing_of_the_host() {
        local line
        engine_ready "$1"
        echo "$T-secret" >"$T/outside"
        "$1" save --output "$T/outside.tar" busy:1 >/dev/null
        for line in "FROM docker-archive:$T/outside.tar" "FROM busy:1\\nCOPY --from=docker-archive:$T/outside.tar /etc/passwd /x" \
                'FROM busy:1\nADD http://127.0.0.1:1/x /x' 'FROM busy:1\nRUN --network=host true' \
                "FROM busy:1\\nRUN --mount=type=cache,id=../../../../../../../../../../$T,target=/c cat /c/outside"; do
                printf '%b\n' "$line" >Dockerfile
                echo '{"build": {"dockerfile": "Dockerfile"}}' >.devcontainer.json
                code=0
                "$C" run -d "$1" -- true >out 2>&1 || code=$?
                [ "$code" -ne 0 ] || fail "built: $line"
                has "$(cat out)" "the repository's Dockerfile"
        done
        printf 'FROM busy:1\nCOPY . /x\n' >Dockerfile
        ln -s "$T/outside" .dockerignore
        code=0
        "$C" run -d "$1" -- true >out 2>&1 || code=$?
        [ "$code" -ne 0 ] || fail 'a link as .dockerignore'
        has "$(cat out)" 'dockerignore'
        # a directory that its owner may not write is copied, and its copy removed
        rm .dockerignore
        mkdir closed
        echo x >closed/f
        chmod 555 closed
        code=0
        "$C" run -d "$1" -- cat /x/closed/f >out 2>&1 || code=$?
        chmod 755 closed
        eq '0 x' "$code $(tail -n 1 out)"
        nothing_left
}

# trigger ENGINE NAME TEXT: an image with ONBUILD
trigger() {
        mkdir -p "$W/trigger"
        printf 'FROM busy:1\nONBUILD %b\n' "$3" >"$W/trigger/Dockerfile"
        if [ "$1" = podman ]; then set -- "$@" --format docker; fi
        "$1" build "${@:4}" -t "$2" "$W/trigger" >"$T/trigger" 2>&1 || fail "$(cat "$T/trigger")"
}
# What a base image has its builders do is as foreign as the Dockerfile, and nobody looked at it. Red without check_bases()
refuses_triggers() {
        local from code
        engine_ready "$1"
        trigger "$1" bad/trigger:1 'COPY file /made'
        echo x >file
        echo '{"build": {"dockerfile": "Dockerfile", "args": {"V": "trigger"}}}' >.devcontainer.json
        for from in 'FROM bad/trigger:1' 'from bad/trigger:1 as x\nFROM busy:1' 'ARG V=1\nFROM bad/$V:1' 'ARG W=1\nFROM bad/trigger:${W}' \
                'FROM bad/trig\\\nger:1'; do
                printf '%b\nRUN true\n' "$from" >Dockerfile
                code=0
                "$C" run -d "$1" -- cat /made >out 2>&1 || code=$?
                [ "$code" -ne 0 ] || fail "built: $from"
                has "$(cat out)" "base image 'bad/trigger:1' of the repository's Dockerfile has triggers (ONBUILD)" "$from"
        done
        # one that nobody has: it is not built on either
        printf 'FROM localhost:1/none:1\n' >Dockerfile
        code=0
        "$C" run -d "$1" -- true >out 2>&1 || code=$?
        [ "$code" -ne 0 ] || fail 'built on nothing'
        has "$(cat out)" "base image 'localhost:1/none:1'"
        # a stage is no image, and an image without triggers none that has some
        printf 'ARG V=1\nFROM busy:1 AS trigger\nFROM trigger\nRUN echo built >/made\n' >Dockerfile
        eq built "$("$C" run -d "$1" -- cat /made 2>err)" "$(cat err)"
        # the operator's own build is his own
        printf 'build: {context: own}\n' >spec.yaml
        mkdir own
        echo own >own/file
        printf 'FROM bad/trigger:1\n' >own/Dockerfile
        [ "$(id -u)" != 0 ] || eq own "$("$C" run -d "$1" -s spec.yaml -- cat /made 2>err)" "$(cat err)"
        nothing_left
}

# images ENGINE: all names
images() { "$1" images --format '{{.Repository}}:{{.Tag}}' | grep -v '<none>' | sort | xargs; }
# aged [BACK]: all notes of when an image was used, or that of one image
aged() { touch -d "${1-8 days ago}" "$XDG_STATE_HOME"/cofferdam/builds/*; }
# What builds leave goes when nobody has used it for a week: of this state directory, and nothing else. Red without each of
# is_due(), note_name() and the filter by the state in built.c
sweeps_images() {
        local others mine name
        engine_ready "$1"
        project
        export XDG_STATE_HOME=$W/state
        echo "$W" >ctx/file # what the tests before have built is another's
        built "$1" -- true 2>err || fail "$(cat err)"
        mine=$("$1" images --filter "label=cofferdam.io/state=$W/state/cofferdam" --format '{{.Repository}}:{{.Tag}}' | grep -v '<none>')
        has "$mine" localhost/cofferdam-build:
        # somebody's own that is built on ours, has a name like ours, or is of another state directory
        printf 'FROM %s\nLABEL x=y\n' "$mine" >Dockerfile
        "$1" build -t mine:1 . >said 2>&1 || fail "$(cat said)"
        "$1" build -t localhost/cofferdam-build:mine . >said 2>&1 || fail "$(cat said)"
        "$1" tag busy:1 localhost/cofferdam-build:0123456789abcdef
        echo "$W other" >ctx/file
        XDG_STATE_HOME=$W/other built "$1" -- true 2>err || fail "$(cat err)"
        others=$(images "$1" | tr ' ' '\n' | grep -vxF "$mine" | xargs)
        eq '' "$("$C" gc)" 'a new one'
        aged '6 days ago'
        eq '' "$("$C" gc)" 'one of this week'
        # used again, from what is there
        aged
        echo "$W" >ctx/file
        built "$1" -- true
        eq '' "$("$C" gc)" 'one that was used'
        # what a container has stays until that is gone
        id=$("$C" start -d "$1" --image "$mine")
        aged
        eq '' "$("$C" gc)" 'one in use'
        "$C" rm --force "$id" >/dev/null
        eq "$mine image of $1 removed" "$("$C" gc)"
        eq "$others" "$(images "$1")"
        eq '' "$(ls "$XDG_STATE_HOME/cofferdam/builds")"
        # nobody knows when it was used: from now on it is known
        built "$1" -- true 2>err || fail "$(cat err)"
        rm -r "$XDG_STATE_HOME/cofferdam/builds"
        eq '' "$("$C" gc)"
        mkdir "$XDG_STATE_HOME/cofferdam/builds"
        touch "$XDG_STATE_HOME/cofferdam/builds/$(if [ "$1" = docker ]; then echo docker; else echo containers; fi):$(printf %032d 0)"
        eq '' "$("$C" gc)"
        eq 2 "$(find "$XDG_STATE_HOME/cofferdam/builds" -type f | wc -l)"
        aged
        eq "{\"image\":\"$mine\",\"driver\":\"$1\",\"kept\":false}" "$("$C" gc --json)"
        eq '' "$(ls "$XDG_STATE_HOME/cofferdam/builds")"
        "$1" rmi mine:1 localhost/cofferdam-build:mine localhost/cofferdam-build:0123456789abcdef >/dev/null
        # an engine that no build has used is not asked
        rm -rf "$XDG_STATE_HOME/cofferdam"
        mkdir bin
        printf '#!/bin/sh\necho "$0 $*" >>"%s/asked"\n' "$PWD" | tee bin/podman bin/docker >bin/buildah
        chmod +x bin/*
        PATH=$PWD/bin:$PATH "$C" gc
        [ ! -e asked ] || fail "$(cat asked)"
}

# podman builds, the archive goes over, and the native driver shows it; with the image's variables
for_native() {
        engine_ready podman
        project
        sed -i '2i ENV MADE=yes' ctx/Dockerfile
        built native -- sh -c 'cat /file /who /stamp; echo "$MADE"' >first 2>err || fail "$(cat err)"
        eq 'one me yes' "$(sed -n '1,2p;4p' first | xargs)"
        eq "$(sed -n 3p first)" "$(built native -- cat /stamp)" 'built again'
        has "$("$C" image ls)" localhost/cofferdam-build
        "$C" image ls | sed -n 's,^\(localhost/[^ ]*\).*,\1,p' | xargs -r "$C" image rm >/dev/null
        "$C" image gc >/dev/null # a user could not remove its files, which belong to other ids
        nothing_left
}

# Red without build_sweep(); and without its lock a copy in use goes
copies_of_killed_builds() {
        local pid
        project
        mkdir bin ctx/closed
        chmod 555 ctx/closed
        # shellcheck disable=SC2016 # for the engine
        printf '#!/bin/sh\ncase $1 in --version) ;; build) echo $$ >"%s"; exec sleep 60 ;; *) exit 1 ;; esac\n' "$PWD/engine" >bin/podman
        chmod +x bin/podman
        PATH=$PWD/bin:$PATH "$C" run -d podman -s spec.yaml -- true >out 2>&1 &
        pid=$!
        wait_for 60 [ -s engine ]
        "$C" gc
        ls -d "$XDG_STATE_HOME"/cofferdam/build.* >/dev/null || fail 'a copy in use was removed'
        kill -9 "$pid"
        wait "$pid" 2>/dev/null || true
        kill "$(cat engine)"
        "$C" gc
        nothing_left
}

# What .dockerignore names is not in the copy that the engine gets, and another content of it makes no other image.
# An engine that shows what it was given stands in for docker and podman. Red without judge() in context.c
ignored_is_not_sent() {
        local engine
        project
        mkdir -p bin ctx/sub/kept ctx/sub/gone ctx/a/b ctx/never ctx/only/for
        for engine in podman docker; do
                cat >bin/$engine <<X
#!/bin/sh
case \$1 in
--version) ;;
build)
        for last; do :; done
        (cd "\$last" && find . | sort) >"$PWD/sent"
        echo "\$@" | sed 's/.*--tag \([^ ]*\) .*/\1/' >"$PWD/tag"
        exit 3 ;;
*) exit 1 ;;
esac
X
                chmod +x bin/$engine
        done
        touch ctx/sub/x ctx/sub/kept/y ctx/sub/kept/z.secret ctx/sub/gone/y ctx/a/b/c.secret ctx/a/b/c ctx/top.secret ctx/in ctx/blank ctx/never/f \
                ctx/only/for/this ctx/only/for/that
        mkfifo ctx/never/fifo
        chmod 000 ctx/never # nobody looks there
        printf '%s\r\n' '# a comment' 'sub/*' '!sub/kept' '**/*.secret' '/in' '../ctx/a' 'a/../blank   ' '	never' 'only' '! only/for/this ' '#a' >ctx/.dockerignore
        tag() {
                status 125 env PATH="$PWD/bin:$PATH" "$C" run -d "$1" -s spec.yaml -- true 2>err
                has "$(tail -n 1 err)" 'failed with exit code 3'
                cat tag
        }
        for engine in podman docker; do
                one=$(tag "$engine")
                eq '. ./.dockerignore ./Dockerfile ./a ./a/b ./a/b/c ./file ./only ./only/for ./only/for/this ./sub ./sub/kept ./sub/kept/y' "$(xargs <sent)" "$engine"
                echo changed >ctx/sub/x
                echo changed >ctx/only/for/that
                touch ctx/a/new.secret
                eq "$one" "$(tag "$engine")" 'what is ignored was hashed'
                echo "changed for $engine" >ctx/only/for/this
                [ "$one" != "$(tag "$engine")" ] || fail 'what is not ignored was not hashed'
        done
        chmod 755 ctx/never
        # podman's own name comes first, and docker does not know it
        printf 'file\nDockerfile\n' >ctx/.containerignore
        tag podman >/dev/null
        has "$(xargs <sent)" './blank ./in ./never'
        lacks "$(cat sent)" ./file
        tag docker >/dev/null
        lacks "$(cat sent)" ./blank
        has "$(cat sent)" ./file
        rm ctx/.containerignore
        # it ignores all, also itself: the engine reads it all the same
        printf '*\n' >ctx/.dockerignore
        tag docker >/dev/null
        eq '. ./.dockerignore' "$(xargs <sent)"
        printf 'a\n[b\n' >ctx/.dockerignore
        rm sent
        code=0
        PATH=$PWD/bin:$PATH "$C" run -d podman -s spec.yaml -- true 2>err || code=$?
        [ "$code" -ne 0 ] && [ ! -e sent ] || fail 'a broken pattern'
        has "$(cat err)" '.dockerignore: line 2: that is no pattern'
        nothing_left
}

# What a build says is of the repository's making, and may be as long as that likes. Red when it is kept in a file
says_no_end() {
        project
        mkdir bin
        cat >bin/podman <<X
#!/bin/sh
[ "\$1" = build ] || exit 1
head -c 300000000 /dev/zero | tr '\\0' x
du -sk "$XDG_STATE_HOME" | cut -f1 >"$PWD/kib"
printf '\\nthe reason\\n' >&2
exit 3
X
        sed -i 's/^\[/[ "$1" != --version ] || exit 0\n&/' bin/podman
        chmod +x bin/podman
        status 125 env PATH="$PWD/bin:$PATH" "$C" run -d podman -s spec.yaml -- true 2>err
        has "$(cat err)" 'the reason'
        [ "$(cat kib)" -lt 1000 ] || fail "$(cat kib) KiB of what it said"
        nothing_left
}

# the same by buildah, from podman's store; the chroot is what it has where it may make no containers
by_buildah() {
        need_command buildah
        engine_ready podman
        project
        mkdir bin
        printf '#!/bin/sh\nexit 1\n' >bin/podman # not here
        chmod +x bin/podman
        export BUILDAH_ISOLATION=chroot PATH=$PWD/bin:$PATH
        eq 'one me' "$(built native -- sh -c 'cat /file /who' 2>err | xargs)" "$(cat err)"
        printf 'FROM busy:1\nRUN exit 3\n' >ctx/Dockerfile
        printf 'build: {context: ctx}\n' >spec.yaml
        # what the operator asked for fails; a repository that asked goes without
        if [ "$(id -u)" = 0 ]; then want=125; else want=0; fi
        status $want built native -- true 2>err
        has "$(cat err)" 'buildah build failed with exit code 3'
        # where podman is not, buildah is asked for what it built
        mv bin/podman bin/off
        mine=$(buildah images --filter "label=cofferdam.io/state=$XDG_STATE_HOME/cofferdam" --format '{{.Name}}:{{.Tag}}' | grep cofferdam-build:)
        mkdir only
        for name in buildah newuidmap newgidmap; do ! command -v "$name" >/dev/null || ln -s "$(command -v "$name")" only/; done
        touch -d '8 days ago' "$XDG_STATE_HOME"/cofferdam/builds/*
        eq "$(for name in $mine; do echo "$name image of buildah removed"; done | sort)" "$(PATH=$PWD/only "$C" gc | sort)"
        "$C" image ls | sed -n 's,^\(localhost/[^ ]*\).*,\1,p' | xargs -r "$C" image rm >/dev/null
        "$C" image gc >/dev/null
        nothing_left
}

no_engine() {
        project
        mkdir bin
        status 125 env PATH="$PWD/bin" "$C" run -s spec.yaml --events events -- true 2>err
        has "$(cat err)" 'neither podman, buildah nor docker'
        has "$(cat events)" SANDBOX_DRIVER_UNAVAILABLE
        status 125 env PATH="$PWD/bin" "$C" run -d podman -s spec.yaml -- true 2>err
        has "$(cat err)" 'podman: not found'
        code=0
        "$C" run -d noop -s spec.yaml -- true 2>err || code=$?
        [ "$code" -ne 0 ] || fail noop
        has "$(cat err)" 'build: driver'
        code=0
        "$C" run -s spec.yaml --image x -- true 2>err || code=$?
        [ "$code" -ne 0 ] || fail 'image and build'
        has "$(cat err)" 'cannot be together'
}

for engine in podman docker; do
        t "$engine: built once, and again for a change" builds_once "$engine"
        t "$engine: a build that fails" fails_typed "$engine"
        t "$engine: nothing from outside of the context" stays_in_the_context "$engine"
        t "$engine: a repository's build" of_the_repository "$engine"
        t "$engine: nothing of the host for a foreign build" engine_reads_nothing_of_the_host "$engine"
        t "$engine: images that nobody uses any more" sweeps_images "$engine"
        t "$engine: triggers of a base image, for a foreign build" refuses_triggers "$engine"
done
t 'for the native driver' for_native
t 'what killed builds leave' copies_of_killed_builds
t 'what .dockerignore names is not sent' ignored_is_not_sent
t 'for the native driver, by buildah' by_buildah
t 'a build that says no end' says_no_end
t 'nobody is here who builds' no_engine
finish
