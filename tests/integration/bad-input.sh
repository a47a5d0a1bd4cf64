#!/usr/bin/env bash
# Bad input has a defined result: an exit status, one line on stderr that names the thing, and nothing created
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# refused STATUS TEXT [ARG...]: `cofferdam ARG...`
refused() {
        local want=$1 text=$2
        shift 2
        status "$want" timeout -k 5 60 "$C" "$@" >"$T/o" 2>"$T/e"
        head -c 2000 "$T/e"
        eq '' "$(head -c 200 "$T/o")" stdout
        eq 1 "$(wc -l <"$T/e")" 'lines on stderr'
        [ "$(wc -c <"$T/e")" -lt 3000 ] || fail 'a message of more than 3000 bytes'
        ! LC_ALL=C grep -q '[[:cntrl:]]' "$T/e" || fail 'control bytes in the message'
        has "$(cat "$T/e")" 'cofferdam: '
        has "$(cat "$T/e")" "$text"
        eq '' "$(ls "$T/state/cofferdam/runs" 2>/dev/null)" 'run directories'
}

unchanged() { eq "$1" "$(find . -mindepth 1 | sort | tr '\n' ' ')" 'files in the workspace'; }

option() {
        refused "$@"
        unchanged ''
}

spec() { # spec TEXT_IN_MESSAGE CONTENT
        printf '%b' "$2" >s.yaml
        refused 2 "$1" run -s s.yaml -- true
        unchanged './s.yaml '
}

brackets() {
        head -c 1048576 /dev/zero | tr '\0' '[' >s.yaml
        refused 2 s.yaml run -s s.yaml -- true
        mv s.yaml s.json
        refused 2 s.json run -s s.json -- true
}
too_big() {
        head -c 1100000 /dev/zero | tr '\0' '#' >s.yaml
        refused 2 s.yaml run -s s.yaml -- true
}
aliases() { # a small file that would expand without bound
        printf 'version: 1\nenv: &a {A: x}\nhome: &b {seed: [*a,*a,*a,*a]}\nmounts: [*b,*b,*b,*b]\n' >s.yaml
        refused 2 s.yaml run -s s.yaml -- true
}
fifo_as_spec() {
        mkfifo s.yaml
        refused 2 s.yaml run -s s.yaml -- true
}
spec_missing() { refused 2 no.yaml run -s no.yaml -- true; }
spec_name_with_newline() {
        refused 2 '\n' run -s $'a\nb.yaml' -- true
        refused 2 '\xff' run -s $'\377.yaml' -- true
}

workspace_is() { # workspace_is TEXT PATH
        refused 125 "$1" run -w "$2" -- true
}
workspace_file() {
        : >file
        workspace_is "file" "$PWD/file"
}
workspace_unreadable() {
        [ "$(id -u)" != 0 ] || return 0 # root reads everything
        mkdir closed
        chmod 0 closed
        workspace_is closed "$PWD/closed"
}
workspace_loop() {
        ln -s loop loop
        workspace_is loop "$PWD/loop"
}
workspace_of_others() {
        [ "$(id -u)" != 0 ] || return 0
        eq refused "$("$C" run -w /usr/share -- sh -c 'echo x >cofferdam-canary && echo written' 2>/dev/null || echo refused)"
        [ ! -e /usr/share/cofferdam-canary ] || fail written
}
workspace_read_only() { # a mount that takes no writes: reads work, writes say so
        mkdir dir
        echo data >dir/file
        local become=()
        [ "$(id -u)" = 0 ] || become=(--map-current-user --keep-caps)
        unshare -m "${become[@]}" sh -c "mount --bind dir dir && mount -o remount,bind,ro dir && cd dir && '$C' run -- sh -c 'cat file; echo x >new'" >o 2>e || rc=$?
        cat o e
        eq data "$(cat o)"
        has "$(cat e)" 'Read-only file system'
        [ ! -e dir/new ] || fail 'written'
}

long_argv() {
        # 1 MiB in 1024 arguments, under the kernel's limit of 128 KiB each
        local arg args=() i
        arg=$(head -c 1023 /dev/zero | tr '\0' a)
        for i in $(seq 1024); do args+=("$arg"); done
        # shellcheck disable=SC2016
        eq "1024 $arg" "$(sandbox -- sh -c 'echo "$# $1"' sh "${args[@]}")"
}
no_home() {
        eq ok "$(unset HOME; sandbox -- echo ok)"
        eq ok "$(HOME='' sandbox -- echo ok)"
        eq ok "$(HOME=relative sandbox -- echo ok)"
        # shellcheck disable=SC2016
        has "$(unset HOME; sandbox -- sh -c 'echo $HOME; test -d "$HOME" && echo dir')" dir
}
no_environment() { eq ok "$(env -i "$C" run -- /bin/echo ok)"; rm -rf "$T/state/cofferdam"; }
no_passwd_entry() {
        [ "$(id -u)" = 0 ] || return 0 # only root can become somebody unknown
        chmod 777 "$W" "$T/state" "$T/run" "$T/home"
        eq 54321 "$(setpriv --reuid 54321 --regid 54321 --clear-groups "$C" run -- id -u)"
        rm -rf "$T/state/cofferdam"
}
cwd_deleted() {
        mkdir gone
        cd gone
        rmdir ../gone
        status 125 "$C" run -- true >"$T/o" 2>"$T/e"
        eq 1 "$(wc -l <"$T/e")" lines
        has "$(cat "$T/e")" 'current directory'
}
narrow_umask() {
        umask 0777
        sandbox -- sh -c 'echo x >new'
        umask 022
        eq 644 "$(stat -c %a new)" mode
        eq '' "$(ls "$T/state/cofferdam/runs" 2>/dev/null)" 'run directories'
}
# red with a poll(2) of more entries than that
few_descriptors() {
        eq ok "$(ulimit -n 64; sandbox -- echo ok)"
        # many directories open at once is what a server could run out of
        mkdir -p d
        for i in $(seq 300); do echo "$i" >"d/$i"; done
        eq 300 "$(ulimit -n 64; sandbox -- sh -c 'cat d/* | wc -l')"
}
no_descriptors() {
        local rc=0
        (ulimit -n 8; timeout 60 "$C" run -- echo ok) >o 2>e || rc=$?
        cat o e
        [ "$rc" = 0 ] || { eq 125 "$rc"; eq 1 "$(wc -l <e)" 'lines on stderr'; }
}
odd_names() {
        mkdir $'odd\n\377 name'
        cd $'odd\n\377 name'
        eq ok "$(sandbox -- sh -c 'echo ok >f; cat f')"
        eq ok "$(cat f)"
}
many_rules() {
        local args=() i
        for i in $(seq 5000); do args+=(--hold "x$i"); done
        timeout 60 "$C" run "${args[@]}" -- true >o 2>e || { eq 2 $?; eq 1 "$(wc -l <e)"; }
}

bad_words_of_options() {
        local type words
        status 2 "$C" run --cache "$W:typo" -- true 2>err
        has "$(cat err)" "--cache: 'typo' is none of shared, tmpfs and ro"
        eq 1 "$(wc -l <err)" 'lines on stderr'
        mkdir 'odd:name' 'odd:name/in'
        status 0 "$C" run --cache "$PWD/odd:name/in" -- true
        status 2 "$C" events --type exec_startd nosuch 2>err
        has "$(cat err)" "did you mean 'exec_started'?"
        status 2 "$C" events --type xyz nosuch 2>err
        has "$(cat err)" 'cofferdam-events(7) lists them'
        for words in 'stop nosuch --time 1' 'rm nosuch -f' 'inspect nosuch --json' 'events nosuch -f' 'logs nosuch --follow'; do
                # shellcheck disable=SC2086 # words
                status 2 "$C" $words 2>err
                has "$(cat err)" 'comes too late: options stand first' "$words"
        done
        sed -n '/^\.Ss Types/,/^\.S[sh] [^T]/s/^\.It Cm \([a-z]*_[a-z_]*\)$/\1/p' "$TOP/docs/man/cofferdam-events.7" >types
        [ "$(wc -l <types)" -gt 20 ] || fail "$(cat types)"
        while read -r type; do
                "$C" events --type "$type" nosuch 2>err || true
                has "$(cat err)" "no run 'nosuch'" "$type"
        done <types
}

t 'words of options that are none' bad_words_of_options
t 'unknown option names the nearest' option 2 "--network" run --netwrok none -- true
t 'unknown option without a neighbour' option 2 "--zzzzzzzz" run --zzzzzzzz -- true
t 'unknown short option' option 2 "-Z" run -Z -- true
t 'option without its value' option 2 '--spec' run --spec
t 'unknown value names the known ones' option 2 none run --network maybe -- true
t 'a size without a unit' option 2 1 run --mount type=tmpfs,target=/x,size=1 -- true
t 'mount without type' option 2 type run --mount source=/usr -- true
t 'mount of what is missing' option 125 /no/such run --mount type=bind,source=/no/such,target=/x -- true
t 'mount over the root' option 2 / run --mount type=bind,source=/usr,target=/ -- true
t 'mount of a container socket' option 125 docker.sock run --mount type=bind,source=/var/run/docker.sock,target=/x -- true
t 'a driver that needs an image' option 2 "driver 'podman'" run --driver podman -- true
t 'mount of /proc' option 125 /proc run --mount type=bind,source=/proc,target=/x -- true
t 'environment name with a blank' option 2 'A B' run -e 'A B=1' -- true
t 'environment without a name' option 2 '=' run -e '=1' -- true
t 'unknown user' option 125 no-such-user run -u no-such-user -- true
t 'bad glob' option 2 '[' run --hold '[' -- true
t 'an option with control bytes' option 2 '\n' run $'--a\nb' -- true
t 'spec: unknown key names the nearest' spec network 'version: 1\nnetwrok: {mode: none}\n'
t 'spec: unknown key names the line' spec ':2' 'version: 1\nnetwrok: {mode: none}\n'
t 'spec: duplicate key' spec duplicate 'version: 1\nhome: {size: 1Gi}\nhome: {size: 2Gi}\n'
t 'spec: duplicate key in a map' spec duplicate 'version: 1\nhome: {size: 1Gi, size: 2Gi}\n'
t 'spec: wrong type' spec home 'version: 1\nhome: [1, 2]\n'
t 'spec: not UTF-8' spec s.yaml 'version: 1\nname: "\xff"\n'
t 'spec: NUL byte' spec s.yaml 'version: 1\nname: a\\0b\0\n'
t 'spec: wrong version' spec version 'version: 99\n'
t 'spec: empty' spec s.yaml ''
t 'spec: 1 MiB of [' brackets
t 'spec: more than 1 MiB' too_big
t 'spec: aliases' aliases
t 'spec: a FIFO' fifo_as_spec
t 'spec: missing' spec_missing
t 'spec: a name that is no text' spec_name_with_newline
t 'workspace is missing' workspace_is /no/such /no/such
t 'workspace is /' option 2 / run -w / -- true
t 'workspace is a file' workspace_file
t 'workspace is unreadable' workspace_unreadable
t 'workspace is a loop of links' workspace_loop
t 'workspace is somebody else'"'"'s' workspace_of_others
t 'workspace is read-only' workspace_read_only
t 'workspace is /proc' option 2 /proc run -w /proc -- true
t 'workspace with an odd name' odd_names
t 'ps takes no word' option 2 "unexpected word 'x'" ps x
t 'gc takes no word' option 2 "unexpected word 'x'" gc x
t 'logs: the command is a number' option 2 "'x': want the number" logs run x
t 'no such run' option 1 "'cofferdam ps -a' lists them" diff none
t 'a cache that is not there' option 125 'make it, or name another' run --cache "$T/none" -- true
t '1 MiB of arguments' long_argv
t 'no HOME' no_home
t 'no environment' no_environment
t 'no passwd entry' no_passwd_entry
t 'current directory deleted' cwd_deleted
t 'umask 0777' narrow_umask
t '64 descriptors' few_descriptors
t '8 descriptors' no_descriptors
t '5000 rules' many_rules
finish
