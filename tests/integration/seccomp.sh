#!/usr/bin/env bash
# The operator's words about system calls: a profile of his own, namespaces inside, and what 'spec show' says of them
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

# profile JSON: makes $W/../profile.json of it, readable for everyone
profile() {
        printf '%s' "$1" >"$T/profile.json"
        printf 'version: 1\nsecurity: {seccomp: %s}\n' "$T/profile.json" >"$T/spec.yaml"
}

tried() {
        cp "$HELPERS/try-calls" .
        sandbox --spec "$T/spec.yaml" -- ./try-calls >out 2>err || fail "$(cat err)"
        rm try-calls
}
got() { grep -qx "$1 $2" out || fail "$1 is not $2: $(grep "^$1 " out)"; }

# goes red when command_start() does not load the profile
refuses_more() {
        profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
                {"names": ["mkdirat", "mkdir"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28},
                {"names": ["socket"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 0, "value": 16, "op": "SCMP_CMP_EQ"}]}]}'
        sandbox --spec "$T/spec.yaml" -- mkdir x 2>err && fail 'mkdir worked'
        grep -q 'No space left' err || fail "$(cat err)"
        tried
        grep -qxE 'families 1 2( 10)?' out || fail "$(grep families out)"
}

# every command, not only the first
also_later_commands() {
        profile '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdirat", "mkdir"], "action": "SCMP_ACT_ERRNO"}]}'
        local run
        run=$("$C" start --spec "$T/spec.yaml" -w . 2>err) || fail "$(cat err)"
        "$C" exec "$run" -- mkdir x 2>err && fail 'mkdir worked'
        grep -q 'not permitted' err || fail "$(cat err)"
        "$C" stop "$run" >/dev/null 2>&1
}

# goes red when a run with a profile leaves out the floor: the last row is the proof that the profile opens something
keeps_the_floor() {
        local call
        profile '{"defaultAction": "SCMP_ACT_ALLOW"}'
        tried
        for call in unshare-user unshare-mount clone-user clone-net-high setns mount umount2 pivot_root chroot fsopen \
                open_tree move_mount bpf keyctl add_key request_key kexec_load init_module reboot swapon syslog \
                open_by_handle_at tiocsti tiocsti-high tioclinux; do
                got "$call" EPERM
        done
        for call in clone3 io_uring_setup io_uring_enter unknown-number; do got "$call" ENOSYS; done
        grep -qxE 'families 1 2( 10)? 16' out || fail "$(grep families out)"
        got personality-exec ok
}

engines_own() {
        [ -r /usr/share/containers/seccomp.json ] || skip "no profile of podman on this machine"
        printf 'version: 1\nsecurity: {seccomp: /usr/share/containers/seccomp.json}\n' >"$T/spec.yaml"
        sandbox --spec "$T/spec.yaml" -- sh -c 'echo a >f && cat f && ls /proc/self/fd' >out 2>err || fail "$(cat err)"
        "$C" spec show --seccomp --json "$T/spec.yaml" >shown || fail
        python3 - shown <<'PY' || fail "$(head -c 500 shown)"
import json, sys
calls = {c["name"]: c["answer"] for c in json.load(open(sys.argv[1]))["calls"]}
assert calls["read"] == "allow" and calls["bpf"] == "EPERM" and calls["personality"] == "by arguments", calls
assert calls["io_uring_setup"] == "ENOSYS" and calls["mount"] == "EPERM", calls
PY
}

# refused TEXT PROFILE: the run does not start, and the message has TEXT
refused() {
        profile "$2"
        sandbox --spec "$T/spec.yaml" -- touch ran 2>err && fail "taken: $2"
        [ ! -e ran ] || fail 'it ran'
        grep -qF -- "$1" err || fail "$(cat err)"
        [ "$(wc -l <err)" = 1 ] || fail "more than a line: $(cat err)"
}
bad_profiles() {
        refused 'SCMP_ACT_NOTIFY' '{"defaultAction": "SCMP_ACT_NOTIFY"}'
        refused "listenerPath" '{"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/x"}'
        refused "line 1" '{"defaultAction": '
        refused 'no-such-call' '{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["no-such-call"], "action": "SCMP_ACT_ERRNO"}]}'
        rm "$T/profile.json"
        sandbox --spec "$T/spec.yaml" -- true 2>err && fail 'without a file'
        grep -q 'No such file' err || fail "$(cat err)"
        mkfifo "$T/profile.json"
        sandbox --spec "$T/spec.yaml" -- true 2>err && fail 'a FIFO'
        rm "$T/profile.json"
        printf 'version: 1\nsecurity: {seccomp: profile.json}\n' >"$T/spec.yaml"
        sandbox --spec "$T/spec.yaml" -- true 2>err && fail 'a relative path'
        grep -q 'absolute' err || fail "$(cat err)"
}

shown() {
        local n
        "$C" spec show --seccomp >out || fail
        grep -qE '^ +[0-9]+ openat +allow +[a-z]' out || fail "$(head -3 out)"
        grep -qE ' bpf +EPERM ' out || fail 'bpf'
        grep -qE ' socket +by arguments ' out || fail 'socket'
        grep -qE ' every other call +ENOSYS ' out || fail "$(tail -1 out)"
        "$C" spec show --seccomp --json >json || fail
        n=$(python3 -c 'import json; d = json.load(open("json")); assert d["profile"] is None and all(c["why"] for c in d["calls"]); print(len(d["calls"]))') || fail
        eq "$n" "$(($(wc -l <out) - 1))"
        printf 'version: 1\nsecurity: {nested_userns: true}\n' >"$T/spec.yaml"
        "$C" spec show --seccomp "$T/spec.yaml" | grep -qE ' mount +allow ' || fail 'nested: mount'
}

nested='version: 1
security: {nested_userns: true}'

# A sandbox in a sandbox, with everything that the outer one has. Goes red when max_user_namespaces is written
# nonetheless, when /dev/fuse is not there, or when the filter refuses clone(2) with namespaces.
inside_itself() {
        printf '%s\n' "$nested" >"$T/spec.yaml"
        mkdir bin && cp "$C" bin/cofferdam
        if [ "$(id -u)" = 0 ]; then
                sandbox --spec "$T/spec.yaml" -- true 2>err && fail 'taken for uid 0'
                grep -q 'security.nested_userns: is not for uid 0' err || fail "$(cat err)"
                return
        fi
        # shellcheck disable=SC2016 # for the shell inside
        sandbox --spec "$T/spec.yaml" -- env -u XDG_STATE_HOME -u XDG_RUNTIME_DIR sh -ec 'mkdir inner; cd inner
                ../bin/cofferdam run -- sh -c "echo inner >file; mkdir -p .git/hooks; cat /proc/self/status; unshare -Ur true || echo no more"
                cat file' >out 2>err || fail "$(cat err)"
        grep -qx inner out || fail "$(cat out err)"
        eq inner "$(cat inner/file)"
        grep -qx 'no more' out || fail 'the inner one let a namespace be made'
        eq 5 "$(grep -cE '^Cap[A-Za-z]+:	0{16}$' out)" 'empty capability sets'
        if command -v bwrap >/dev/null; then
                sandbox --spec "$T/spec.yaml" -- bwrap --unshare-all --ro-bind / / --proc /proc id -u >out 2>err || fail "$(cat err)"
                eq "$(id -u)" "$(cat out)"
        fi
}

# What nested_userns does not open. Goes red when SECCOMP_NEVER rows become SECCOMP_NESTED_EPERM ones.
inside_stays_refused() {
        local call
        [ "$(id -u)" != 0 ] || return 0
        printf '%s\n' "$nested" >"$T/spec.yaml"
        tried
        for call in bpf keyctl kexec_load init_module open_by_handle_at tiocsti; do got "$call" EPERM; done
        got io_uring_setup ENOSYS
        # no capability over the sandbox itself: its mounts stay as they are
        sandbox --spec "$T/spec.yaml" -- sh -c 'unshare -Urm mount -o remount,rw,bind /usr 2>/dev/null && echo writable; umount /proc 2>/dev/null && echo open; true' >out
        eq '' "$(cat out)"
}
not_by_default() {
        sandbox -- sh -c 'ls /dev/fuse; unshare -Ur true' >out 2>&1 && fail "$(cat out)"
        eq '' "$(grep -x /dev/fuse out)"
}

t 'a profile refuses more' refuses_more
t 'a profile holds for later commands' also_later_commands
t 'a profile does not open what the sandbox promises' keeps_the_floor
t 'the profile of the container engines' engines_own
t 'profiles that are refused' bad_profiles
t 'spec show --seccomp' shown
t 'a sandbox inside' inside_itself
t 'what a sandbox inside cannot do' inside_stays_refused
t 'no namespaces inside by default' not_by_default
finish
