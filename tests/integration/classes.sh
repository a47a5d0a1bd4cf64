#!/usr/bin/env bash
# Every known class of escape is tried in three ways: as the command of a run, by exec, and by post_create. classes.py is
# what tries, once per way; each class is one test here. docs/threat-model.md, "Escape classes and their tests", has the
# classes that other scripts test. "Red when" names the change with which the test was seen to fail.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
need_python() { need_command python3; }
O=$T/outside E=$T/elsewhere canary=canary-$$-of-the-host background=''
guarded=(.envrc .vscode/tasks.json .idea/workspace.xml .mcp.json .claude/settings.json .cursor/mcp.json .codex/config.toml
        .devcontainer.json .git/hooks/pre-commit .git/config .git/info/attributes .gitmodules .bashrc .profile .vimrc
        .gitconfig .ssh/config a/b/.envrc a/.git/hooks/post-checkout githooks/pre-push .cofferdam.yaml)

quit() {
        # shellcheck disable=SC2086 # words
        kill $background 2>/dev/null
        clean
}
trap quit EXIT

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
        python3 - "$O/touched" "$T/port" "cofferdam-$canary" "$@" <<'PY' &
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
        background+=" $listener"
        wait_for 60 test -e "$T/port" || fail 'the listeners do not start'
}

# facts DIR: what classes.py has to know
facts() {
        python3 - "$1" "$O" "$canary" "cofferdam-$canary" "$(cat "$T/port")" "$XDG_STATE_HOME/cofferdam" "$T/run/classes.sock" \
                "$$ $PPID $listener" "${guarded[*]}" >"$1/facts.json" <<'PY'
import json, os, sys
work, outside, canary, abstract, port, state, sock, pids, guarded = sys.argv[1:]
print(json.dumps({
    "workspace": work, "outside": outside, "canary": canary, "abstract": abstract, "port": int(port), "state": state,
    "sockets": [work + "/canary.sock", "/data/canary.sock", sock, "/tmp/classes.sock"], "guarded": guarded.split(), "own": [],
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
        background+=" $!"
        racer=$!
}

# in_arena DIR CMD...: from a caller with everything that must not get inside
in_arena() (
        for fd in $(seq 10 59); do eval "exec $fd<$O/secret"; done
        cd "$1"
        export SECRET_OF_CALLER=$canary DBUS_SESSION_BUS_ADDRESS=unix:path=/$canary SSH_AUTH_SOCK=/$canary DOCKER_HOST=$canary
        export PATH="$1/evil-bin:.:$PATH"
        shift
        exec timeout -k 5 120 "$@" </dev/null
)

# options DIR: of run and start
options() {
        printf '%s\n' --workspace "$1" --hide /secret/key --protect '/keep/**' \
                --mount "type=bind,source=$1.source/parent/source,target=/data,on_source_change=pin" \
                --mount "type=bind,source=$1.source/in,target=$1/in/file,readonly"
}

# once for all tests of this script, however many are wanted
gather() {
        local one=$T/one two=$T/two id options
        [ ! -e "$T/gathered" ] || return 0
        need_python
        need_command git
        mkdir "$O" || fail 'the three ways were begun before, and failed'
        echo "$canary" >"$O/secret"
        arena "$one"
        arena "$two"
        listeners "$one/canary.sock" "$two/canary.sock" "$one.source/parent/source/canary.sock" "$T/run/classes.sock"
        facts "$one"
        facts "$two"

        mapfile -t options < <(options "$one")
        racer "$one"
        in_arena "$one" "$C" run "${options[@]}" -- sh -c ': >go; python3 classes.py facts.json run' >"$T/by-run" 2>"$T/said" || true
        : >"$one/end"
        wait "$racer"

        mapfile -t options < <(options "$two")
        racer "$two"
        id=$(in_arena "$two" "$C" start --post-create ': >go; python3 classes.py facts.json post_create 2>&1 | cat >by-post_create' "${options[@]}" \
                2>>"$T/said") || fail "start: $(cat "$T/said")"
        cp "$two/by-post_create" "$T/"
        in_arena "$two" "$C" exec "$id" python3 classes.py facts.json exec >"$T/by-exec" 2>>"$T/said" || true
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
                : >"$T/gathered"
}

# class NAME [CHECK]: the same answer in all three ways, and CHECK of what the host has afterwards
class() {
        local way
        gather
        for way in run exec post_create; do
                eq "$1 ok" "$(grep "^$1 " "$T/by-$way" || echo "nothing: $(head -c 500 "$T/said")")" "by $way"
        done
        [ $# -lt 2 ] || for way in "$T/one" "$T/two"; do "$2" "$way"; done
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

# The executable of the runtime is /proc/self/exe until a command is executed.
# Red when landlock_work() is told false for its programs and sealed_copy() is left out (drivers/native/sandbox.c)
own_executable_as_command() {
        local before id way rc line
        need_python
        [ ! -e /lib64/ld-linux-x86-64.so.2 ] || line=/proc/self/exe
        printf '#!/proc/self/exe\n' >script
        chmod 755 script
        # an ELF file whose interpreter it is
        python3 - <<'PY'
data = open("/bin/true", "rb").read()
old = data[data.index(b"/lib"):].split(b"\0")[0]
open("elf", "wb").write(data.replace(old, b"/proc/self/exe".ljust(len(old), b"\0"), 1))
PY
        chmod 755 elf
        before=$(stat -c '%a %u %g %s %Y' "$C"; sha256sum "$C")
        for way in /proc/self/exe /proc/thread-self/exe ./script ./elf; do
                rc=0
                sandbox --workspace "$W" -- "$way" --version >out 2>&1 || rc=$?
                [ "$rc" = 126 ] || fail "run $way: $rc: $(cat out)"
                sandbox --workspace "$W" --post-create "$way --version >post 2>&1; echo \$? >code" -- true
        done
        id=$("$C" start --workspace "$W")
        for way in /proc/self/exe ./script ./elf; do
                rc=0
                timeout 60 "$C" exec "$id" "$way" --version >out 2>&1 </dev/null || rc=$?
                [ "$rc" = 126 ] || fail "exec $way: $rc: $(cat out)"
        done
        "$C" stop -t 0 "$id" >/dev/null
        eq "$before" "$(stat -c '%a %u %g %s %Y' "$C"; sha256sum "$C")" 'the executable of the host'
}

# Where landlock is not there for it, what a command can begin as is a copy in memory that nobody can change.
# Red when sealed_copy() is left out of stage_confine()
own_executable_is_a_copy() {
        local wrap=() before id found
        need_python
        before=$(stat -c '%a %s' "$C"; sha256sum "$C")
        if [ "$(id -u)" = 0 ]; then
                wrap=("$HELPERS/deny" landlock)
        else
                printf 'version: 1\nsecurity: {nested_userns: true}\n' >"$T/nested.yaml"
                wrap=(env COFFERDAM_SPEC="$T/nested.yaml")
        fi
        cat >look.py <<'PY'
import os, time
end, found = time.monotonic() + 60, None
open("ready", "w").close()
while not found and time.monotonic() < end:
    for pid in [p for p in os.listdir("/proc") if p.isdigit() and p not in ("1", str(os.getpid()))]:
        try:
            fd = os.open(f"/proc/{pid}/exe", os.O_PATH)
            name = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if "cofferdam" in name:
            found = name
            for f, a in (os.chmod, (0o4777,)), (os.utime, ((1, 1),)), (os.open, (os.O_WRONLY,)):
                try:
                    f(f"/proc/self/fd/{fd}", *a)
                except OSError:
                    pass
            break
        os.close(fd)
print(found)
PY
        if [ "$(id -u)" = 0 ]; then id=$("${wrap[@]}" "$C" start --workspace "$W"); else id=$("$C" start --workspace "$W" --spec "$T/nested.yaml"); fi
        timeout 90 "$C" exec "$id" python3 look.py </dev/null >out &
        wait_for 60 test -e ready || fail 'the command does not start'
        while kill -0 $! 2>/dev/null; do # it lives long enough to be found, if not at once
                timeout 60 "$C" exec "$id" /proc/self/exe doctor </dev/null >/dev/null 2>&1 || true
        done
        wait $! || true
        found=$(cat out)
        "$C" stop -t 0 "$id" >/dev/null
        has "$found" memfd: 'what /proc/self/exe was'
        eq "$before" "$(stat -c '%a %s' "$C"; sha256sum "$C")" 'the executable of the host'
}

# Red when mnt_point() opens without O_NOFOLLOW (drivers/native/mnt.c)
mount_target_by_a_link() {
        local target way
        mkdir -p "$E" "$T/source"
        echo "$canary" >"$E/secret"
        ln -s "$E" sub
        ln -s ../../../../../../tmp up
        ln -s /usr/share there # which is inside as well
        for target in sub sub/new up/new there/doc; do
                for way in run start; do
                        rc=0 command=(true)
                        [ "$way" = run ] || command=()
                        timeout 60 "$C" "$way" --workspace "$W" --mount "type=bind,source=$T/source,target=$W/$target" -- "${command[@]}" \
                                >out 2>&1 </dev/null || rc=$?
                        [ "$rc" = 125 ] || fail "$way with the target $target: $rc: $(cat out)"
                done
        done
        eq secret "$(ls -A "$E")" 'where the link leads'
}

# Red without PR_SET_DUMPABLE in stage_confine()
directory_by_a_descriptor() {
        local id n
        mkdir -p "$E"
        exec 7<"$E"
        id=$("$C" start --workspace "$W")
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
        mkdir -p "$E/.vscode"
        for way in run exec post_create; do
                mkdir "$way"
                cd "$way"
                case $way in
                run) sandbox -- sh -c "$plant" ;;
                exec)
                        id=$("$C" start)
                        "$C" exec "$id" sh -c "$plant" </dev/null
                        "$C" stop -t 0 "$id" >/dev/null
                        ;;
                post_create) sandbox --post-create "$plant" -- true ;;
                esac
                has "$("$C" diff)" tasks.json "what is held of $way"
                rm -rf d
                ln -s "$E" d
                "$C" apply >/dev/null 2>&1 || true
                "$C" apply --force >/dev/null 2>&1 || true
                "$C" discard >/dev/null 2>&1 || true
                cd ..
                eq '' "$(ls -A "$E/.vscode")" "where the link leads, $way"
        done
}

# Red when file_own_dir() opens without O_NOFOLLOW (runtime/base/file.c)
state_planted() {
        local way rc
        mkdir -p "$E" "$W/state"
        ln -s "$E" "$W/state/cofferdam"
        for way in run start; do
                rc=0 command=(true)
                [ "$way" = run ] || command=()
                XDG_STATE_HOME=$W/state timeout 60 "$C" "$way" --workspace "$W" -- "${command[@]}" >out 2>&1 </dev/null || rc=$?
                [ "$rc" = 125 ] || fail "$way: $rc: $(cat out)"
        done
        eq '' "$(find "$E" -mindepth 1 ! -name secret ! -name .vscode)" 'where the link leads'
}

t 'bind_source: exchanged while it is used' class bind_source
t 'mount_target: inside a tree of the work' class mount_target
t 'mount_target: by a link' mount_target_by_a_link
t 'proc_writes: the switches of the machine' class proc_writes
t 'own_executable: what /proc shows of it' class own_executable
t 'own_executable: as a command' own_executable_as_command
t 'own_executable: as a command, without landlock' own_executable_is_a_copy
t 'descriptors: what the caller had open' class descriptors
t 'descriptors: a directory by one' directory_by_a_descriptor
t 'links: followed on the host' class links outside
t 'links: landed through one' links_landed
t 'state_path: planted' state_planted
t 'hard_links: names and links of what is under rules' class hard_links unchanged
t 'reopened: a descriptor of what is under rules' class reopened unchanged
t 'masked: a hidden file by every way' class masked
t 'git_of_the_host: hooks and configuration' class git_of_the_host planted_in_git
t 'missing_names: made because they were missing' class missing_names nothing_made
t 'helpers_by_name: programs on a PATH of the work' class helpers_by_name outside
t 'own_policy: policy and protocol' class own_policy no_policy
t 'typing: for the caller' class typing
t 'others: processes of the host and pid 1' class others
t 'proc_pid: root, cwd, environ' class proc_pid
t 'walls: the same for every command' class walls
t 'namespaces: and calls with a history' class namespaces
t 'other_numbers: io_uring, x32, i386' class other_numbers
t 'families: of sockets' class families
t 'abstract_sockets: of the host' class abstract_sockets outside
t 'path_sockets: of the host' class path_sockets outside
t 'cgroups: of the host' class cgroups
t 'privileged_files: set-id, devices, capabilities' class privileged_files
finish
