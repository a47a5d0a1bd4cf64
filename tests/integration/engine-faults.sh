#!/usr/bin/env bash
# Faults that users of another docker driver reported (facts/iterion.md 3.4 and 10), on podman and docker. Where each is
# tested; without a script: here.
#
# a name conflict ends the run (18)                       engines.sh 'a name that a dead container of the run has', '.. another ..'
# containers that a dead daemon leaves (19)               engines.sh 'gc removes ..', engine-hostile.sh 'killed at any point, and gc'
# no stdin, an early end of file (6, 7, 78)               engines.sh 'commands in a started run'
# a script that is longer than an argument (52)           engines.sh 'commands in a started run', 'a script in an argument'
# the proxy is not reachable from inside (9, 48, 49)      engines.sh 'the network by name'
# a worktree's repository is not there (11, 66)           'a worktree of git'
# an image without our program, or a shell (12, 80)       'an image without a shell'
# mounts, user, environment dropped by auto (20)          engines.sh 'podman is chosen for an image where native has none'
# a build leaves its context; docker.sock (22, 23)        build.sh 'nothing from outside of the context', devcontainer.sh
# options in an image, a user, a value (24, 25)           parity 'a newline in a value is refused', engines.sh 'refusals ..'
# a failed post_create leaves a container (35)            'a post_create that fails'
# a pull without a bound (36)                             engine-hostile.sh 'a command line that hangs'
# a home of root's, noexec, parents of root's (44)        engines.sh 'home and /tmp of their size, seeds', 'places below a home'
# a tag that nobody published (47), images that go        engines.sh 'refusals ..', 'an image that goes before the container'
# devcontainers that ask for privileges (50)              devcontainer.sh 'a privileged devcontainer is unusable'
# a secret that is empty for a moment (63)                'a secret is whole at any time'
# NO_PROXY with ::1 (67)                                  'names that go past the proxy'
# tags of builds that pile up                             build.sh 'images that nobody uses any more'
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/engine-lib.sh
. "$(dirname "$0")/engine-lib.sh"

nothing_left() { # ENGINE
        eq '' "$(containers "$1")" 'containers'
        eq '' "$(ls "$XDG_STATE_HOME/cofferdam/runs" 2>/dev/null)" 'runs'
}

# The image is there when the run is planned, and not when it is made
loses_its_image() {
        engine_ready "$1"
        echo x >x
        tar -cf x.tar x
        "$1" import x.tar goes:1 >said 2>&1 || fail "$(cat said)"
        mkdir shim
        printf '#!/bin/sh\n[ "$1" != run ] || "%s" rmi -f goes:1 >/dev/null 2>&1\nexec "%s" "$@"\n' "$(command -v "$1")" "$(command -v "$1")" >"shim/$1"
        chmod +x "shim/$1"
        status 125 env PATH="$W/shim:$PATH" "$C" run -d "$1" --image goes:1 --events "$W/events" -- true >out 2>err
        has "$(cat events)" '"failure_code":"IMAGE_UNAVAILABLE"' "$(cat err)"
        eq 1 "$(wc -l <err)" "lines: $(cat err)"
        [ ! -s out ] || fail "$(cat out)"
        nothing_left "$1"
}
# One program is all there is, and it is not a shell
needs_no_shell() {
        engine_ready "$1"
        mkdir root
        cp "$E/image/bin/busybox" root/cat
        echo here >root/file
        tar -C root -cf root.tar .
        "$1" import root.tar bare:1 >said 2>&1 || fail "$(cat said)"
        eq here "$(boxed "$1" --image bare:1 -- /cat /file)"
        id=$("$C" start -d "$1" --image bare:1)
        eq abc "$(echo abc | "$C" exec "$id" -- /cat)"
        status 127 "$C" exec "$id" -- sh -c true 2>err
        has "$(cat err)" sh
        "$C" rm --force "$id" >/dev/null
        # what its user is called is asked without a program of the image
        status 125 boxed "$1" --image bare:1 -u nobody-there -- /cat 2>err
        has "$(cat err)" nobody-there
        nothing_left "$1"
}
fails_to_create() {
        engine_ready "$1"
        status 125 boxed "$1" --post-create 'echo why >&2; exit 3' --events "$W/events" -- touch ran 2>err
        has "$(cat err)" why
        has "$(cat events)" POST_CREATE_FAILED
        status 125 "$C" start -d "$1" --image busy:1 --post-create 'exit 3' >out 2>err
        [ ! -s out ] || fail "$(cat out)"
        [ ! -e ran ] || fail 'the command was run'
        nothing_left "$1"
}
# Whoever works there can write at any depth of the home, also where something is mounted in it
owns_its_home() {
        engine_ready "$1"
        mkdir "$T/shown" 2>/dev/null || true
        echo shown >"$T/shown/file"
        # shellcheck disable=SC2016 # for the shell inside
        eq 'shown ok' "$(boxed "$1" -u 4321 --mount "type=bind,source=$T/shown,target=/srv/app/.config/deep/down,readonly" -- sh -c '
                cat ~/.config/deep/down/file; mkdir -p ~/.cache/a ~/.config/b ~/.config/deep/c && touch ~/.config/deep/x && printf "#!/bin/sh\necho ok\n" >~/.cache/a/run &&
                chmod +x ~/.cache/a/run && ~/.cache/a/run' 2>err | xargs)" "$(cat err)"
        nothing_left "$1"
}
works_in_a_worktree() {
        engine_ready "$1"
        git init -q main
        git -C main commit -q --allow-empty -m first
        git -C main worktree add -q ../tree 2>/dev/null
        cd tree
        # git is the host's; what it would need is there, at the same place, whatever the caller's variables say
        # shellcheck disable=SC2016 # for the shell inside
        eq 'ref: refs/heads/tree commit none' "$(GIT_DIR=/elsewhere boxed "$1" -- sh -c '
                dir=$(sed "s/gitdir: //" .git); cat "$dir/HEAD"; [ -e "$dir/$(cat "$dir/commondir")/refs/heads/tree" ] && echo commit; echo ${GIT_DIR-none}' 2>"$W/err" | xargs)" "$(cat "$W/err")"
        cd "$W"
        nothing_left "$1"
}
# Never empty, never half, and one that is replaced takes no other back
keeps_secrets_whole() {
        engine_ready "$1"
        head -c 60000 /dev/zero | tr '\0' a >"$T/source"
        echo other >"$T/other"
        id=$("$C" start -d "$1" --image busy:1 --secret "BIG=file:$T/source,as=file" --secret "B=file:$T/other,as=file")
        # shellcheck disable=SC2016 # for the shell inside
        "$C" exec "$id" -- sh -c 'echo >here; while [ ! -e stop ]; do wc -c </run/secrets/BIG; cat /run/secrets/BIG | tr -s ab; echo; done | sort -u' >seen &
        wait_for 60 [ -e here ] || fail 'it does not start'
        echo third | "$C" secret "$id" B
        for _ in 1 2 3 4 5; do
                head -c 60000 /dev/zero | tr '\0' b | "$C" secret "$id" BIG
                head -c 60000 /dev/zero | tr '\0' a | "$C" secret "$id" BIG
        done
        touch stop
        wait $!
        eq 60000 "$(grep -v '^[ab]$' seen)" 'lengths, and mixtures'
        eq third "$("$C" exec "$id" -- cat /run/secrets/B)"
        status 1 "$C" secret "$id" BIG </dev/null 2>err
        has "$(cat err)" 'standard input is empty'
        eq 60000 "$("$C" exec "$id" -- sh -c 'wc -c </run/secrets/BIG')" 'after an empty one'
        "$C" rm --force "$id" >/dev/null
        nothing_left "$1"
}
# "::1" bare is host "1" to some and any host that ends so to others
names_what_goes_past() {
        engine_ready "$1"
        # shellcheck disable=SC2016 # for the shell inside
        eq 'a.example,localhost,127.0.0.1,0.0.0.0' "$(NO_PROXY=.svc boxed "$1" --network allowlist --allow b.example -e NO_PROXY=a.example -- sh -c 'echo $NO_PROXY')"
        nothing_left "$1"
}
# As long as the kernel lets an argument be, and what is longer says so
takes_a_long_argument() {
        local script
        engine_ready "$1"
        script=$(head -c 130000 /dev/zero | tr '\0' '#')
        eq long "$(boxed "$1" -- sh -c "echo long $script")"
        nothing_left "$1"
}

for engine in podman docker; do
        t "$engine: an image that goes before the container" loses_its_image $engine
        t "$engine: an image without a shell" needs_no_shell $engine
        t "$engine: a post_create that fails" fails_to_create $engine
        t "$engine: places below a home" owns_its_home $engine
        t "$engine: a worktree of git" works_in_a_worktree $engine
        t "$engine: a secret is whole at any time" keeps_secrets_whole $engine
        t "$engine: names that go past the proxy" names_what_goes_past $engine
        t "$engine: a script in an argument" takes_a_long_argument $engine
done
finish
