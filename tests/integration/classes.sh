#!/usr/bin/env bash
# Every known class of escape is tried in three ways: as the command of a run, by exec, and by post_create. classes.py is
# what tries, once per way; each class is one test here. docs/threat-model.md, "Escape classes and their tests", has the
# classes that other scripts test. "Red when" names the change with which the test was seen to fail.
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/integration/classes-lib.sh
. "$here/classes-lib.sh"
sandboxes_of "$T" native

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

# Red when file_own_dir() opens without O_NOFOLLOW (runtime/base/file.c)
state_planted() {
        local way rc
        mkdir -p "$elsewhere" "$W/state"
        ln -s "$elsewhere" "$W/state/cofferdam"
        for way in run start; do
                rc=0 command=(true)
                [ "$way" = run ] || command=()
                XDG_STATE_HOME=$W/state timeout 60 "$C" "$way" --workspace "$W" -- "${command[@]}" >out 2>&1 </dev/null || rc=$?
                [ "$rc" = 125 ] || fail "$way: $rc: $(cat out)"
        done
        eq '' "$(find "$elsewhere" -mindepth 1 ! -name secret ! -name .vscode)" 'where the link leads'
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
