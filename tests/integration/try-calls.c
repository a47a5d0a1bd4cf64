/*
 * try-calls - make the system calls that the sandbox's filter has to refuse, and say what the kernel answered
 *
 * Prints "name answer" lines. Every call is harmless where it is allowed: the arguments are wrong on purpose.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

enum { FAMILIES = 46, NETFILTER = 12, SCTP = 132 };
#define HIGH (1L << 32)

static const struct {
        const char *name;
        long nr, args[4];
} calls[] = {
        { "unshare-user", SYS_unshare, { CLONE_NEWUSER } },
        { "unshare-mount", SYS_unshare, { CLONE_NEWNS } },
        { "unshare-files", SYS_unshare, { CLONE_FILES } },
        { "clone-user", SYS_clone, { CLONE_NEWUSER | SIGCHLD } },
        { "clone-net-high", SYS_clone, { HIGH | CLONE_NEWNET | SIGCHLD } },
        { "clone3", SYS_clone3, { 0 } },
        { "setns", SYS_setns, { -1, 0 } },
        { "mount", SYS_mount, { 0 } },
        { "umount2", SYS_umount2, { 0 } },
        { "pivot_root", SYS_pivot_root, { 0 } },
        { "chroot", SYS_chroot, { 0 } },
        { "fsopen", SYS_fsopen, { 0 } },
        { "open_tree", SYS_open_tree, { -1, 0 } },
        { "move_mount", SYS_move_mount, { -1, 0, -1 } },
        { "bpf", SYS_bpf, { -1 } },
        { "perf_event_open", SYS_perf_event_open, { 0 } },
        { "userfaultfd", SYS_userfaultfd, { -1 } },
        { "io_uring_setup", SYS_io_uring_setup, { 0 } },
        { "io_uring_enter", SYS_io_uring_enter, { -1 } },
        { "keyctl", SYS_keyctl, { 0, -3 } },
        { "add_key", SYS_add_key, { 0 } },
        { "request_key", SYS_request_key, { 0 } },
        { "kexec_load", SYS_kexec_load, { 0, 0, 0, -1 } },
        { "init_module", SYS_init_module, { 0 } },
        { "reboot", SYS_reboot, { 0 } },
        { "swapon", SYS_swapon, { 0 } },
        { "syslog", SYS_syslog, { 10 } },
        { "open_by_handle_at", SYS_open_by_handle_at, { -1 } },
        { "personality-exec", SYS_personality, { READ_IMPLIES_EXEC } },
        { "personality-asks", SYS_personality, { -1 } },
        { "tiocsti", SYS_ioctl, { -1, TIOCSTI } },
        { "tiocsti-high", SYS_ioctl, { -1, HIGH | TIOCSTI } },
        { "tioclinux", SYS_ioctl, { -1, 0x541C } },
        { "tcgets", SYS_ioctl, { -1, TCGETS } },
        { "netlink-netfilter", SYS_socket, { AF_NETLINK, SOCK_RAW, NETFILTER } },
        { "sctp", SYS_socket, { AF_INET, SOCK_STREAM, SCTP } },
        { "unknown-number", 511, { 0 } },
#ifdef __x86_64__
        { "x32-getpid", 0x40000000 | SYS_getpid, { 0 } },
        { "x32-socket", 0x40000000 | SYS_socket, { AF_INET, SOCK_STREAM } },
#endif
        { "ptrace", SYS_ptrace, { PTRACE_TRACEME } },
};

static const char *answer(long r) {
        return r >= 0 ? "ok" : strerrorname_np(errno);
}

/* Each in a child: some of them change the process. */
static void try_call(size_t i) {
        const pid_t pid = fork();

        if (pid == 0) {
                const long *a = calls[i].args;
                const long r = syscall(calls[i].nr, a[0], a[1], a[2], a[3], 0, 0);

                if (calls[i].nr == SYS_clone && r == 0)
                        _exit(0); /* the clone of the child */
                printf("%s %s\n", calls[i].name, answer(r));
                (void) fflush(stdout);
                _exit(0);
        }
        (void) waitpid(pid, NULL, 0);
}

static void try_families(void) {
        printf("families");
        for (int family = 0; family < FAMILIES; family++) {
                const int fd = socket(family, SOCK_STREAM, 0), dgram = socket(family, SOCK_DGRAM, 0);

                if (fd >= 0 || dgram >= 0)
                        printf(" %d", family);
                (void) fd_close(fd);
                (void) fd_close(dgram);
        }
        printf("\n");
}

int main(void) {
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                try_call(i);
        try_families();
        return EXIT_SUCCESS;
}
