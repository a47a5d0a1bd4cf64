#!/usr/bin/env bash
# What the kernel answers to system calls from inside the sandbox, and what its processes may do at all
# shellcheck source=tests/integration/lib.sh
. "$(dirname "$0")/lib.sh"

answers() {
        cp "$HELPERS/try-calls" .
        sandbox "$@" -- ./try-calls >out 2>err || fail "$(cat err)"
        rm try-calls
}

# PATTERN ANSWER: every call of that name got that answer
got() {
        local line
        line=$(grep "^$1 " out) || fail "no '$1' in: $(cat out)"
        eq "$1 $2" "$line"
}

refused_calls() {
        local call
        answers
        for call in unshare-user unshare-mount clone-user clone-net-high setns mount umount2 pivot_root chroot fsopen \
                open_tree move_mount bpf perf_event_open userfaultfd keyctl add_key request_key kexec_load \
                init_module reboot swapon syslog open_by_handle_at personality-exec tiocsti tiocsti-high tioclinux; do
                got "$call" EPERM
        done
        for call in clone3 io_uring_setup io_uring_enter unknown-number; do got "$call" ENOSYS; done
        if [ "$(uname -m)" = x86_64 ]; then
                got x32-getpid ENOSYS
                got x32-socket ENOSYS
        fi
        got netlink-netfilter EPROTONOSUPPORT
        got sctp EPROTONOSUPPORT
}

allowed_calls() {
        answers
        got unshare-files ok
        got personality-asks ok
        got tcgets EBADF
        got ptrace ok
}

# unix, INET, INET6 where the kernel has it, route netlink - whatever the network is
families() {
        answers --network "$1"
        grep -qxE 'families 1 2( 10)? 16' out || fail "$(grep families out)"
}

without_privileges() {
        sandbox -- cat /proc/self/status >out
        grep -qx 'NoNewPrivs:	1' out || fail "$(cat out)"
        grep -qx 'Seccomp:	2' out || fail "$(cat out)"
        eq 5 "$(grep -cE '^Cap[A-Za-z]+:	0{16}$' out)" 'empty capability sets'
}

t 'refused system calls' refused_calls
t 'allowed system calls' allowed_calls
for network in none open; do t "socket families with --network $network" families "$network"; done
t 'no capabilities, no new privileges, a filter' without_privileges
finish
