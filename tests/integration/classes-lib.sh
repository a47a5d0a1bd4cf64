# shellcheck shell=bash
# classes-lib.sh - what classes.py needs on the host, and what the host has afterwards: for sandboxes of every driver
#
# sandboxes_of DIR NAME [OPTION...]   those of the tests that follow: what belongs to them below DIR, options of run and start;
#                                     NAME is what classes.py knows them by
# class NAME [CHECK]                  the same answer in all three ways, and CHECK of what the host has afterwards
need_python() { need_command python3; }
canary=canary-$$-of-the-host
guarded=(.envrc .vscode/tasks.json .idea/workspace.xml .mcp.json .claude/settings.json .cursor/mcp.json .codex/config.toml
        .devcontainer.json .git/hooks/pre-commit .git/config .git/info/attributes .gitmodules .bashrc .profile .vimrc
        .gitconfig .ssh/config a/b/.envrc a/.git/hooks/post-checkout githooks/pre-push .cofferdam.yaml)

sandboxes_of() {
        G=$1 O=$1/outside elsewhere=$1/elsewhere driver=$2
        shift 2
        how=("$@")
}

# arena DIR: a workspace with everything that the classes are about
arena() {
        mkdir -p "$1"/{.vscode,keep,secret,empty,evil-bin,in} "$1.source/parent/source" "$1.source/other/source"
        git init -q "$1"
        git init -q "$1/nested"
        ln -s "$O" "$1/dev"
        ln -s "$O" "$1/proc"
        echo real >"$1.source/in"
        for way in run exec post_create; do for n in {0..99}; do
                echo real >"$1.source/parent/source/file$way$n"
                echo "$canary" >"$1.source/other/source/file$way$n"
        done; done
        echo "$canary" | tee "$1/secret/key" "$1/keep/file" "$1/.envrc" >"$1/.vscode/tasks.json"
        : >"$1.source/other/source/$canary"
        printf '#!/bin/sh\n# %s\n' "$canary" >"$1/.git/hooks/pre-commit"
        chmod 755 "$1/.git/hooks/pre-commit"
        for name in fusermount3 newuidmap newgidmap git ip nft mount; do
                printf '#!/bin/sh\ntouch %s/touched\n' "$O" >"$1/evil-bin/$name"
        done
        chmod 755 "$1"/evil-bin/*
        : >"$1/in/file"
        cp "$here/classes.py" "$1/"
        (cd "$1" && find .git nested/.git .envrc .vscode keep secret ! -type d -exec sha256sum {} + | sort) >"$1.before"
}

# listeners: a service of the host in every place where one is known to have been reached
listeners() {
        python3 - "$O/touched" "$G/port" "cofferdam-$canary" "$@" <<'PY' &
import ctypes, os, platform, select, socket, sys
touched, port, abstract, *paths = sys.argv[1:]
ears = [socket.socket(socket.AF_UNIX) for _ in [abstract] + paths]
for ear, name in zip(ears, ["\0" + abstract] + paths):
    if name[0] != "\0":  # longer than an address may be
        os.chdir(os.path.dirname(name))
        name = os.path.basename(name)
    ear.bind(name)
ears.append(socket.create_server(("127.0.0.1", 0)))
for ear in ears:
    ear.listen(8)
with open(port + ".new", "w") as f:
    f.write(str(ears[-1].getsockname()[1]))
os.rename(port + ".new", port)
# and a key, for two minutes, in the keyring of the user
nr = (248, 250) if platform.machine() == "x86_64" else (217, 219)
libc = ctypes.CDLL(None)
key = libc.syscall(nr[0], b"user", abstract.encode(), b"x", ctypes.c_long(1), ctypes.c_long(-4))
libc.syscall(nr[1], 15, key, 120)
while True:
    for ear in select.select(ears, [], [])[0]:
        ear.accept()[0].close()
        with open(touched, "a") as f:
            f.write(f"a socket: {ear.getsockname()}\n")
PY
        listener=$!
        wait_for 60 test -e "$G/port" || fail 'the listeners do not start'
}

# facts DIR: what classes.py has to know
facts() {
        python3 - "$1" "$O" "$canary" "cofferdam-$canary" "$(cat "$G/port")" "$XDG_STATE_HOME/cofferdam" "$T/run/$driver.sock" \
                "$$ $PPID $listener" "${guarded[*]}" "$driver" >"$1/facts.json" <<'PY'
import json, os, sys
work, outside, canary, abstract, port, state, sock, pids, guarded, driver = sys.argv[1:]
print(json.dumps({
    "workspace": work, "outside": outside, "canary": canary, "abstract": abstract, "port": int(port), "state": state,
    "sockets": [work + "/canary.sock", "/data/canary.sock", sock, "/tmp/classes.sock"], "guarded": guarded.split(), "own": [],
    "driver": driver, "root": os.getuid() == 0,
    # a number that the sandbox may have too says nothing
    "pids": [int(p) for p in pids.split() if int(p) > 300],
    "namespaces": {n: os.readlink("/proc/self/ns/" + n) for n in ("user", "mnt", "pid", "ipc", "uts", "cgroup", "net")}}))
PY
}

# racer DIR: exchanges the bind's source with another directory, from when the sandbox is there to the end
racer() {
        python3 - "$1" <<'PY' &
import ctypes, os, sys, time
work, libc, n, end = sys.argv[1], ctypes.CDLL(None), 0, time.monotonic() + 60
os.chdir(work + ".source")
while not os.path.exists(work + "/go") and time.monotonic() < end: time.sleep(0.005)
while (not os.path.exists(work + "/end") or n % 2) and time.monotonic() < end:
    libc.renameat2(-100, b"parent", -100, b"other", 2)
    n += 1
    time.sleep(0.002)
PY
        racer=$!
}

# in_arena DIR CMD...: from a caller with everything that must not get inside
in_arena() (
        for fd in $(seq 10 59); do eval "exec $fd<$O/secret"; done
        cd "$1"
        export SECRET_OF_CALLER=$canary DBUS_SESSION_BUS_ADDRESS=unix:path=/$canary SSH_AUTH_SOCK=/$canary
        [ "$driver" = docker ] || export DOCKER_HOST=$canary # where its daemon is
        export PATH="$1/evil-bin:.:$PATH"
        shift
        exec timeout -k 5 120 "$@" </dev/null
)

# options DIR: of run and start
options() {
        printf '%s\n' "${how[@]}" --workspace "$1" --hide /secret/key --protect '/keep/**' \
                --mount "type=bind,source=$1.source/parent/source,target=/data,on_source_change=pin" \
                --mount "type=bind,source=$1.source/in,target=$1/in/file,readonly"
}

# once for all tests of this script, however many are wanted
gather() {
        local one=$G/one two=$G/two id options
        [ ! -e "$G/gathered" ] || return 0
        need_python
        need_command git
        mkdir -p "$G"
        mkdir "$O" || fail 'the three ways were begun before, and failed'
        echo "$canary" >"$O/secret"
        arena "$one"
        arena "$two"
        listeners "$one/canary.sock" "$two/canary.sock" "$one.source/parent/source/canary.sock" "$T/run/$driver.sock"
        facts "$one"
        facts "$two"

        mapfile -t options < <(options "$one")
        racer "$one"
        in_arena "$one" "$C" run "${options[@]}" -- sh -c ': >go; python3 classes.py facts.json run' >"$G/by-run" 2>"$G/said" || true
        : >"$one/end"
        wait "$racer"

        mapfile -t options < <(options "$two")
        racer "$two"
        id=$(in_arena "$two" "$C" start --post-create ': >go; python3 classes.py facts.json post_create 2>&1 | cat >by-post_create' "${options[@]}" \
                2>>"$G/said") || fail "start: $(cat "$G/said")"
        cp "$two/by-post_create" "$G/"
        in_arena "$two" "$C" exec "$id" python3 classes.py facts.json exec >"$G/by-exec" 2>>"$G/said" || true
        : >"$two/end"
        wait "$racer"
        "$C" stop -t 0 "$id" >/dev/null
        # what the host does afterwards, with what it finds
        for dir in "$one" "$two"; do
                (cd "$dir" && "$C" diff && "$C" apply --dry-run) >/dev/null 2>&1 </dev/null || true
                (cd "$dir" && for repo in . nested made; do
                        git -C $repo status && git -C $repo diff && git -C $repo commit -q --allow-empty -m x && git -C $repo checkout -q -b x
                done) >/dev/null 2>&1 </dev/null || true
        done
        kill "$listener"
        : >"$G/gathered"
}

# class NAME [CHECK]: the same answer in all three ways, and CHECK of what the host has afterwards
class() {
        local way
        gather
        for way in run exec post_create; do
                eq "$1 ok" "$(grep "^$1 " "$G/by-$way" || echo "nothing: $(head -c 500 "$G/said")")" "by $way"
        done
        [ $# -lt 2 ] || for way in "$G/one" "$G/two"; do "$2" "$way"; done
}

# what was under rules has its bytes
unchanged() { (cd "$1" && awk '{print $2}' "$1.before" | grep -v -e /index -e /logs/ -e /refs/ -e HEAD -e COMMIT | xargs sha256sum 2>&1) | sort | diff "$1.before" - | grep '^[<>]' |
        grep -v -e /index -e /logs/ -e /refs/ -e HEAD -e COMMIT && fail 'files under rules were changed'; return 0; }
# no name of the list was made, and nothing of git's runs what the work wrote
nothing_made() {
        local name
        unchanged "$1"
        for name in "${guarded[@]}"; do
                [ ! -e "$1/empty/$name" ] || grep -qL evil "$1/empty/$name" || fail "empty/$name is on the host"
        done
        eq '' "$(cd "$1" && grep -rlE 'evil|touched' .git/config .git/hooks nested/.git/config nested/.git/hooks made/.git/config made/.git/hooks \
                empty .vscode .envrc 2>/dev/null)" 'what the work planted'
}
no_policy() { [ ! -e "$1/.cofferdam.yaml" ] || fail 'a policy of the work is on the host'; }
# no program, service or link of the host's was made to write there
outside() {
        eq secret "$(ls -A "$O")" "what lies outside ($(cat "$O/touched" 2>/dev/null))"
        eq "$canary" "$(cat "$O/secret")" 'the canary'
}
planted_in_git() { outside "$1" && nothing_made "$1"; }

# Red when mnt_point() opens without O_NOFOLLOW (drivers/native/mnt.c)
mount_target_by_a_link() {
        local target way
        mkdir -p "$elsewhere" "$G/source"
        echo "$canary" >"$elsewhere/secret"
        ln -s "$elsewhere" sub
        ln -s ../../../../../../tmp up
        ln -s /usr/share there # which is inside as well
        for target in sub sub/new up/new there/doc; do
                for way in run start; do
                        rc=0 command=(true)
                        [ "$way" = run ] || command=()
                        timeout 60 "$C" "$way" "${how[@]}" --workspace "$W" --mount "type=bind,source=$G/source,target=$W/$target" -- "${command[@]}" \
                                >out 2>&1 </dev/null || rc=$?
                        [ "$rc" = 125 ] || fail "$way with the target $target: $rc: $(cat out)"
                done
        done
        eq secret "$(ls -A "$elsewhere")" 'where the link leads'
}

# Red without PR_SET_DUMPABLE in stage_confine()
directory_by_a_descriptor() {
        local id n
        mkdir -p "$elsewhere"
        exec 7<"$elsewhere"
        id=$("$C" start "${how[@]}" --workspace "$W")
        for n in 3 5 7 9 12; do
                status 126 timeout 60 "$C" exec -w "/proc/self/fd/$n" "$id" ls </dev/null >out 2>&1
                status 126 timeout 60 "$C" exec -w "/proc/1/fd/$n" "$id" ls </dev/null >out 2>&1
        done
        status 126 timeout 60 "$C" exec -w /proc/1/cwd "$id" ls </dev/null >out 2>&1
        "$C" stop -t 0 "$id" >/dev/null
}

# What was planted in each way is landed on a host where a directory on the way has become a link.
# Red when open_beneath() follows links, fs/diff.c and fs/layer.c look without AT_SYMLINK_NOFOLLOW, and diff_walk() sees no
# conflict: each alone is enough
links_landed() {
        local way id plant='mkdir -p d/.vscode && echo evil >d/.vscode/tasks.json'
        mkdir -p "$elsewhere/.vscode"
        for way in run exec post_create; do
                mkdir "$way"
                cd "$way"
                case $way in
                run) sandbox "${how[@]}" -- sh -c "$plant" ;;
                exec)
                        id=$("$C" start "${how[@]}")
                        "$C" exec "$id" sh -c "$plant" </dev/null
                        "$C" stop -t 0 "$id" >/dev/null
                        ;;
                post_create) sandbox "${how[@]}" --post-create "$plant" -- true ;;
                esac
                has "$("$C" diff)" tasks.json "what is held of $way"
                rm -rf d
                ln -s "$elsewhere" d
                "$C" apply >/dev/null 2>&1 || true
                "$C" apply --force >/dev/null 2>&1 || true
                "$C" discard >/dev/null 2>&1 || true
                cd ..
                eq '' "$(ls -A "$elsewhere/.vscode")" "where the link leads, $way"
        done
}
