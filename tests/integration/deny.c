/*
 * deny WHAT[,WHAT...] COMMAND [ARG...] - run COMMAND on a kernel that refuses WHAT
 *
 * A seccomp filter stands in for hosts and containers that lack a primitive. A file system that is refused by
 * its name takes a look at the caller's memory: then this process stays and answers for the kernel.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

enum { REFUSALS_MAX = 48, INSNS_EACH = 5 };

/* @flags: refuse only when argument 0 has one of these bits, 0: always */
static const struct {
        const char *what;
        uint32_t nr, flags;
        uint32_t code;
        uint32_t equal;    /* refuse only when argument 0 is this, 0: always */
        uint32_t protocol; /* the same of argument 2 */
} refusals[] = {
        { "userns", SYS_clone3, 0, ENOSYS },
        { "userns", SYS_clone, CLONE_NEWUSER, EPERM },
        { "userns", SYS_unshare, CLONE_NEWUSER, EPERM },
        { "unshare", SYS_unshare, 0, EPERM },
        { "clone3", SYS_clone3, 0, ENOSYS },
        { "oldmount", SYS_mount, 0, EPERM },
        { "caps", SYS_prctl, 0, EPERM, PR_CAPBSET_DROP },
        { "caps", SYS_mount, 0, EACCES },
        { "caps", SYS_move_mount, 0, EACCES },
        { "caps", SYS_pivot_root, 0, EACCES },
        { "caps", SYS_fsopen, 0, EPERM },
        { "caps", SYS_setns, 0, EPERM },
        { "newmount", SYS_fsopen, 0, ENOSYS },
        { "newmount", SYS_fsconfig, 0, ENOSYS },
        { "newmount", SYS_fsmount, 0, ENOSYS },
        { "newmount", SYS_move_mount, 0, ENOSYS },
        { "newmount", SYS_open_tree, 0, ENOSYS },
        { "newmount", SYS_mount_setattr, 0, ENOSYS },
        { "newnet", SYS_clone3, 0, ENOSYS },
        { "newnet", SYS_clone, CLONE_NEWNET, EPERM },
        { "newpid", SYS_clone3, 0, ENOSYS },
        { "newpid", SYS_clone, CLONE_NEWPID, EPERM },
        { "mount", SYS_mount, 0, EACCES },
        { "mount", SYS_move_mount, 0, EACCES },
        { "mount", SYS_pivot_root, 0, EACCES },
        { "mount", SYS_fsopen, 0, EACCES },
        { "fsopen", SYS_fsopen, 0, ENOSYS },
        { "open_tree", SYS_open_tree, 0, ENOSYS },
        { "pivot_root", SYS_pivot_root, 0, EPERM },
        { "openat2", SYS_openat2, 0, ENOSYS },
        { "landlock", SYS_landlock_create_ruleset, 0, ENOSYS },
        { "seccomp", SYS_seccomp, 0, EINVAL },
        { "nftables", SYS_socket, 0, EPROTONOSUPPORT, 0, NETLINK_NETFILTER },
};
/* file systems that fsopen(2) refuses, by name; the error is the kernel's of today */
static const struct {
        const char *what, *type;
        int code;
} systems[] = {
        { "fuse", "fuse", EPERM },
        { "overlay", "overlay", EPERM },
        { "proc", "proc", EPERM },
};

static_assert(ARRAY_SIZE(refusals) <= REFUSALS_MAX, "REFUSALS_MAX is too small");

/* Whether @what is an item of the comma-separated @list. */
static int listed(const char *list, const char *what) {
        const size_t len = strlen(what);

        for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
                if (strncmp(p, what, len) == 0 && (p[len] == ',' || p[len] == 0))
                        return 1;
        return 0;
}

static unsigned short refuse(struct sock_filter *out, size_t i) {
        const struct sock_filter insns[INSNS_EACH] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refusals[i].nr, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                         (uint32_t) offsetof(struct seccomp_data, args) + (refusals[i].protocol ? 16 : 0)),
                refusals[i].equal || refusals[i].protocol
                        ? (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                        refusals[i].equal | refusals[i].protocol, 0, 1)
                : refusals[i].flags
                        ? (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, refusals[i].flags, 0, 1)
                        : (struct sock_filter) BPF_STMT(BPF_JMP | BPF_JA, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refusals[i].code),
        };

        memcpy(out, insns, sizeof(insns));
        return INSNS_EACH;
}

/* Has fsopen(2) ask this program. */
static unsigned short ask(struct sock_filter *out) {
        const struct sock_filter insns[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fsopen, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        };

        memcpy(out, insns, sizeof(insns));
        return ARRAY_SIZE(insns);
}

static int refused_system(const char *list, const char *type) {
        for (size_t i = 0; i < ARRAY_SIZE(systems); i++)
                if (strcmp(type, systems[i].type) == 0 && listed(list, systems[i].what))
                        return systems[i].code;
        return 0;
}

/* Answers until nobody is left who could ask. */
static void answer(int listener, const char *list) {
        struct pollfd fd = { .fd = listener, .events = POLLIN };

        while (poll(&fd, 1, -1) >= 0 && !(fd.revents & POLLHUP)) {
                struct seccomp_notif call = { 0 };
                struct seccomp_notif_resp reply = { 0 };
                char type[16] = "";
                const struct iovec to = { type, sizeof(type) - 1 };
                struct iovec from = { .iov_len = sizeof(type) - 1 };

                if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
                        continue; /* it was killed meanwhile */
                from.iov_base = (void *) (uintptr_t) call.data.args[0];
                if (process_vm_readv((pid_t) call.pid, &to, 1, &from, 1, 0) < 0)
                        perror("deny: read the name of a file system"); /* it is let through */
                reply.id = call.id;
                reply.error = -refused_system(list, type);
                reply.flags = reply.error ? 0 : (uint32_t) SECCOMP_USER_NOTIF_FLAG_CONTINUE;
                (void) ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &reply);
        }
}

static _Noreturn void run(const struct sock_fprog *prog, unsigned int flags, int tell, int go,
                          char **command) {
        int listener;
        char byte;

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            (listener = (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, prog)) < 0) {
                perror("deny: seccomp");
                _exit(99);
        }
        if (flags) { /* who answers takes it from here; nobody else may hold it */
                if (write(tell, &listener, sizeof(listener)) < 0 || read(go, &byte, 1) != 1)
                        _exit(99);
                (void) close(listener);
        }
        (void) execvp(command[0], command);
        perror(command[0]);
        _exit(98);
}

/* COMMAND becomes a child under the filter, and this process answers. Return: its exit status. */
static int serve(const struct sock_fprog *prog, const char *list, char **command) {
        int tell[2], go[2], listener = -1, status = 0, number;
        pid_t pid;

        if (pipe2(tell, O_CLOEXEC) < 0 || pipe2(go, O_CLOEXEC) < 0)
                return 99;
        pid = fork();
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                run(prog, SECCOMP_FILTER_FLAG_NEW_LISTENER, tell[1], go[0], command);
        }
        if (pid > 0 && read(tell[0], &number, sizeof(number)) == sizeof(number))
                listener = (int) syscall(SYS_pidfd_getfd, (int) syscall(SYS_pidfd_open, pid, 0), number, 0);
        if (listener < 0 || write(go[1], "", 1) != 1) {
                perror("deny: listen");
                return 99;
        }
        answer(listener, list);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv) {
        struct sock_filter insns[REFUSALS_MAX * INSNS_EACH + 4];
        struct sock_fprog prog = { .filter = insns };
        int asks = 0;

        for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(refusals); i++)
                if (listed(argv[1], refusals[i].what))
                        prog.len = (unsigned short) (prog.len + refuse(insns + prog.len, i));
        for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(systems); i++)
                asks |= listed(argv[1], systems[i].what);
        if (asks)
                prog.len = (unsigned short) (prog.len + ask(insns + prog.len));
        if (prog.len == 0) {
                fprintf(stderr, "usage: deny WHAT[,WHAT...] COMMAND [ARG...]\n");
                return 99;
        }
        insns[prog.len++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        if (asks)
                return serve(&prog, argv[1], argv + 2);
        run(&prog, 0, -1, -1, argv + 2);
}
