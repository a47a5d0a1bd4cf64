/*
 * deny WHAT[,WHAT...] COMMAND [ARG...] - run COMMAND on a kernel that refuses WHAT
 *
 * A seccomp filter stands in for hosts and containers that lack a primitive.
 */
#include <assert.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

enum { REFUSALS_MAX = 32, INSNS_EACH = 5 };

/* @flags: refuse only when argument 0 has one of these bits, 0: always */
static const struct {
        const char *what;
        uint32_t nr, flags;
        uint32_t code;
} refusals[] = {
        { "userns", SYS_clone3, 0, ENOSYS },
        { "userns", SYS_clone, CLONE_NEWUSER, EPERM },
        { "userns", SYS_unshare, CLONE_NEWUSER, EPERM },
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
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
                refusals[i].flags
                        ? (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, refusals[i].flags, 0, 1)
                        : (struct sock_filter) BPF_STMT(BPF_JMP | BPF_JA, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | refusals[i].code),
        };

        memcpy(out, insns, sizeof(insns));
        return INSNS_EACH;
}

int main(int argc, char **argv) {
        struct sock_filter insns[REFUSALS_MAX * INSNS_EACH + 1];
        struct sock_fprog prog = { .filter = insns };

        for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(refusals); i++)
                if (listed(argv[1], refusals[i].what))
                        prog.len = (unsigned short) (prog.len + refuse(insns + prog.len, i));
        if (prog.len == 0) {
                fprintf(stderr, "usage: deny WHAT[,WHAT...] COMMAND [ARG...]\n");
                return 99;
        }
        insns[prog.len++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0) {
                perror("deny: seccomp");
                return 99;
        }
        (void) execvp(argv[2], argv + 2);
        perror(argv[2]);
        return 98;
}
