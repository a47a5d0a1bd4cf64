#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/net.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "drivers/native/seccomp.h"
#include "runtime/base/cleanup.h"

enum { X32 = 0x40000000, STEPS_MAX = 512 };
#define HIGH       0x100000000ULL
#define REFUSED(e) (SECCOMP_RET_ERRNO | (uint32_t) (e))

static const enum seccomp_arch archs[] = { SECCOMP_X86_64, SECCOMP_AARCH64 };
static_assert(ARRAY_SIZE(archs) == SECCOMP_ARCH_COUNT, "archs[] and enum seccomp_arch differ");
static const struct {
        uint32_t audit, other; /* @other: what a process of the same machine can turn to */
        uint32_t libseccomp;
} of_arch[] = {
        [SECCOMP_X86_64] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_I386, SCMP_ARCH_X86_64 },
        [SECCOMP_AARCH64] = { AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM, SCMP_ARCH_AARCH64 },
};

/** struct filter - a program and what it was made for */
struct filter {
        enum seccomp_arch arch;
        struct seccomp_program p;
};

/* @state: the architecture; all tests but those that ask the kernel run for each, whatever the machine is */
static struct filter compile_with(void **state, const struct seccomp_options *opt) {
        struct filter f = { .arch = *(const enum seccomp_arch *) *state };
        struct error err = { 0 };

        assert_int_equal(seccomp_filter_compile(f.arch, opt, &f.p, &err), 0);
        assert_in_range(f.p.len, 10, SECCOMP_PROGRAM_MAX);
        return f;
}

static struct filter compile(void **state, bool nested) {
        return compile_with(state, &(struct seccomp_options){ .nested_userns = nested });
}

/* classic BPF as the kernel runs it for seccomp; any instruction the filter has no business with fails */
static uint32_t run(const struct seccomp_program *p, const struct seccomp_data *data) {
        uint32_t a = 0;

        for (size_t pc = 0, steps = 0; steps < STEPS_MAX; pc++, steps++) {
                const struct sock_filter *i = &p->insns[pc];
                bool yes = false;

                assert_true(pc < p->len);
                if (i->code == (BPF_RET | BPF_K))
                        return i->k;
                if (i->code == (BPF_LD | BPF_W | BPF_ABS)) {
                        assert_true(i->k % 4 == 0 && i->k + 4 <= sizeof(*data));
                        memcpy(&a, (const char *) data + i->k, sizeof(a));
                        continue;
                }
                if (i->code == (BPF_ALU | BPF_AND | BPF_K)) {
                        a &= i->k;
                        continue;
                }
                assert_int_equal(BPF_CLASS(i->code), BPF_JMP);
                if (BPF_OP(i->code) == BPF_JA) {
                        pc += i->k;
                        continue;
                }
                if (BPF_OP(i->code) == BPF_JEQ)
                        yes = a == i->k;
                else if (BPF_OP(i->code) == BPF_JGE)
                        yes = a >= i->k;
                else if (BPF_OP(i->code) == BPF_JSET)
                        yes = (a & i->k) != 0;
                else
                        fail_msg("instruction %zu has code %#x", pc, i->code);
                pc += yes ? i->jt : i->jf;
        }
        fail_msg("the program does not end");
        return 0;
}

static const struct seccomp_rule *rule_named(const char *name) {
        for (size_t i = 0; i < n_seccomp_rules; i++)
                if (strcmp(seccomp_rules[i].name, name) == 0)
                        return &seccomp_rules[i];
        fail_msg("no rule for %s", name);
        return NULL;
}

static int nr_of(const struct filter *f, const char *name) {
        return rule_named(name)->nr[f->arch];
}

static uint32_t ask_nr(const struct filter *f, int nr, uint64_t a0, uint64_t a1, uint64_t a2) {
        const struct seccomp_data data = { .nr = nr, .arch = of_arch[f->arch].audit, .args = { a0, a1, a2 } };

        return run(&f->p, &data);
}

static uint32_t ask(const struct filter *f, const char *name, uint64_t a0, uint64_t a1, uint64_t a2) {
        const int nr = nr_of(f, name);

        assert_int_not_equal(nr, SECCOMP_NO_NR);
        return ask_nr(f, nr, a0, a1, a2);
}

static const struct seccomp_rule *rule_find(enum seccomp_arch arch, int nr, size_t *ret_n) {
        const struct seccomp_rule *found = NULL;

        *ret_n = 0;
        for (size_t i = 0; nr >= 0 && i < n_seccomp_rules; i++)
                if (seccomp_rules[i].nr[arch] == nr) {
                        found = &seccomp_rules[i];
                        ++*ret_n;
                }
        return found;
}

static void table_numbers_are_what_names_say(void **state) {
        const enum seccomp_arch arch = *(const enum seccomp_arch *) *state;
        size_t known = 0;

        for (size_t i = 0; i < n_seccomp_rules; i++) {
                const struct seccomp_rule *r = &seccomp_rules[i];
                const int nr = seccomp_syscall_resolve_name_arch(of_arch[arch].libseccomp, r->name);
                size_t n;

                assert_true(r->why && r->why[0]);
                known += nr >= 0;
                /* a libseccomp that does not know the name, or not for this machine, answers below 0 */
                if (nr >= 0 && nr != r->nr[arch])
                        fail_msg("%s is %d, the table says %d", r->name, nr, r->nr[arch]);
                if (r->nr[arch] == SECCOMP_NO_NR)
                        continue;
                assert_in_range(r->nr[arch], 0, SECCOMP_NR_MAX - 1);
                (void) rule_find(arch, r->nr[arch], &n);
                assert_int_equal(n, 1); /* one answer per call */
                if (r->nr[arch] >= 424) /* from here on a number means the same everywhere */
                        for (size_t k = 0; k < ARRAY_SIZE(archs); k++)
                                assert_int_equal(r->nr[k], r->nr[arch]);
        }
        assert_true(known > 280); /* libseccomp had something to say */
}

/* every call that libseccomp knows for the machine has a line in the table */
static void table_is_complete(void **state) {
        const enum seccomp_arch arch = *(const enum seccomp_arch *) *state;

        for (int nr = 0; nr < SECCOMP_NR_MAX; nr++) {
                AUTO_FREE char *name = seccomp_syscall_resolve_num_arch(of_arch[arch].libseccomp, nr);
                size_t n;

                if (name && !rule_find(arch, nr, &n))
                        fail_msg("%s (%d) is not in the table", name, nr);
        }
}

/* the security-relevant column, said once more by hand */
static void table_never_allows_the_dangerous(void **state) {
        static const char *const never[] = {
                "bpf",
                "perf_event_open",
                "userfaultfd",
                "kexec_load",
                "kexec_file_load",
                "init_module",
                "finit_module",
                "delete_module",
                "io_uring_setup",
                "io_uring_enter",
                "io_uring_register",
                "add_key",
                "keyctl",
                "request_key",
                "reboot",
                "swapon",
                "open_by_handle_at",
                "fanotify_init",
                "syslog",
                "acct",
                "settimeofday",
        };
        static const char *const nested[] = {
                "mount",  "umount2",  "pivot_root", "chroot", "setns",         "open_tree",      "move_mount",
                "fsopen", "fsconfig", "fsmount",    "fspick", "mount_setattr", "open_tree_attr", "clone3",
        };
        const struct filter plain = compile(state, false), open = compile(state, true);

        for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
                assert_int_not_equal(ask(&plain, never[i], 0, 0, 0), SECCOMP_RET_ALLOW);
                assert_int_not_equal(ask(&open, never[i], 0, 0, 0), SECCOMP_RET_ALLOW);
        }
        for (size_t i = 0; i < ARRAY_SIZE(nested); i++) {
                assert_int_not_equal(ask(&plain, nested[i], 0, 0, 0), SECCOMP_RET_ALLOW);
                assert_int_equal(ask(&open, nested[i], 0, 0, 0), SECCOMP_RET_ALLOW);
        }
        assert_int_equal(ask(&plain, "clone3", 0, 0, 0), REFUSED(ENOSYS)); /* else libc gives up */
        assert_int_equal(ask(&plain, "io_uring_setup", 0, 0, 0), REFUSED(ENOSYS));
        assert_int_equal(ask(&plain, "mount", 0, 0, 0), REFUSED(EPERM));
        assert_int_equal(ask(&plain, "bpf", 0, 0, 0), REFUSED(EPERM));
}

/* what stays refused whatever a profile says; red when a row that has to be SECCOMP_NEVER is SECCOMP_EPERM */
static void floor_is_what_no_profile_opens(void **state) {
        static const char *const never[] = {
                "bpf",
                "kexec_load",
                "init_module",
                "finit_module",
                "keyctl",
                "add_key",
                "request_key",
                "io_uring_setup",
                "io_uring_enter",
                "io_uring_register",
                "open_by_handle_at",
                "syslog",
                "mount",
                "umount2",
                "setns",
                "pivot_root",
                "chroot",
                "open_tree",
                "move_mount",
                "fsopen",
                "mount_setattr",
                "clone3",
                "reboot",
                "swapon",
                "settimeofday",
        };
        static const char *const open[] = { "perf_event_open", "userfaultfd", "fanotify_init", "move_pages",
                                            "personality" };
        const struct filter f = compile_with(state, &(struct seccomp_options){ .floor = true });
        const struct filter nested =
                compile_with(state, &(struct seccomp_options){ .floor = true, .nested_userns = true });

        for (size_t i = 0; i < ARRAY_SIZE(never); i++)
                assert_int_not_equal(ask(&f, never[i], 0, 0, 0), SECCOMP_RET_ALLOW);
        for (size_t i = 0; i < ARRAY_SIZE(open); i++)
                assert_int_equal(ask(&f, open[i], READ_IMPLIES_EXEC, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_not_equal(ask(&f, "clone", CLONE_NEWUSER, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_not_equal(ask(&f, "unshare", CLONE_NEWNET, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_not_equal(ask(&f, "ioctl", 0, HIGH | TIOCSTI, 0), SECCOMP_RET_ALLOW);
        assert_int_not_equal(ask(&f, "socket", AF_VSOCK, SOCK_STREAM, 0), SECCOMP_RET_ALLOW);
        assert_int_not_equal(ask_nr(&f, 511, 0, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(&nested, "mount", 0, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_not_equal(ask(&nested, "bpf", 0, 0, 0), SECCOMP_RET_ALLOW);
}

static void program_agrees_with_table(void **state) {
        static const uint32_t fixed[SECCOMP_CHECK_CLONE][2] = {
                [SECCOMP_ENOSYS] = { REFUSED(ENOSYS), REFUSED(ENOSYS) },
                [SECCOMP_ALLOW] = { SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW },
                [SECCOMP_EPERM] = { REFUSED(EPERM), REFUSED(EPERM) },
                [SECCOMP_NEVER] = { REFUSED(EPERM), REFUSED(EPERM) },
                [SECCOMP_NEVER_ENOSYS] = { REFUSED(ENOSYS), REFUSED(ENOSYS) },
                [SECCOMP_NESTED_EPERM] = { REFUSED(EPERM), SECCOMP_RET_ALLOW },
                [SECCOMP_NESTED_ENOSYS] = { REFUSED(ENOSYS), SECCOMP_RET_ALLOW },
        };

        for (int nested = 0; nested < 2; nested++) {
                const struct filter p = compile(state, nested);

                for (int nr = -1; nr < 1000; nr++) {
                        size_t n;
                        const struct seccomp_rule *r = rule_find(p.arch, nr, &n);
                        const enum seccomp_action action = r ? r->action : SECCOMP_ENOSYS;

                        if (action < SECCOMP_CHECK_CLONE && ask_nr(&p, nr, 1, 2, 3) != fixed[action][nested])
                                fail_msg("call %d (%s), nested %d: %#x", nr, r ? r->name : "-", nested,
                                         ask_nr(&p, nr, 1, 2, 3));
                        assert_int_equal(ask_nr(&p, nr | X32, 0, 0, 0), REFUSED(ENOSYS));
                }
        }
}

/* red when a call that can make a set-id file leaves the table's SECCOMP_SETID_ rows */
static void program_no_setid_refuses_set_id_bits(void **state) {
        static const struct {
                const char *name;
                int mode;  /* argument that is the mode */
                int flags; /* argument that says whether a file is made, -1: always */
        } calls[] = {
                { "fchmod", 1, -1 },  { "fchmodat", 2, -1 }, { "fchmodat2", 2, -1 },
                { "mknodat", 2, -1 }, { "openat", 3, 2 },    { "chmod", 1, -1 },
                { "creat", 1, -1 },   { "mknod", 1, -1 },    { "open", 2, 1 },
        };
        static const uint64_t bits[] = { S_ISUID, S_ISGID, S_ISUID | S_ISGID | 0777, S_IFREG | S_ISUID };
        const struct filter p = compile_with(state, &(struct seccomp_options){ .no_setid = true }),
                            plain = compile(state, false);

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                struct seccomp_data data = { .nr = nr_of(&p, calls[i].name), .arch = of_arch[p.arch].audit };

                if (data.nr == SECCOMP_NO_NR)
                        continue;
                for (size_t b = 0; b < ARRAY_SIZE(bits); b++) {
                        data.args[calls[i].mode] = bits[b] | HIGH;
                        if (calls[i].flags >= 0) {
                                data.args[calls[i].flags] = O_RDWR;
                                assert_int_equal(run(&p.p, &data), SECCOMP_RET_ALLOW); /* no mode */
                                data.args[calls[i].flags] = O_TMPFILE;
                                assert_int_equal(run(&p.p, &data), REFUSED(EPERM));
                                data.args[calls[i].flags] = O_CREAT | O_WRONLY;
                        }
                        assert_int_equal(run(&p.p, &data), REFUSED(EPERM));
                        assert_int_equal(run(&plain.p, &data), SECCOMP_RET_ALLOW);
                }
                data.args[calls[i].mode] = S_ISVTX | 0777;
                assert_int_equal(run(&p.p, &data), SECCOMP_RET_ALLOW);
        }
        assert_int_equal(ask(&p, "openat2", 0, 0, 0), REFUSED(ENOSYS));
        assert_int_equal(ask(&plain, "openat2", 0, 0, 0), SECCOMP_RET_ALLOW);
}

static void program_kills_other_architectures(void **state) {
        const enum seccomp_arch arch = *(const enum seccomp_arch *) *state;
        const uint32_t others[] = { of_arch[arch].other, of_arch[!arch].audit, AUDIT_ARCH_S390X, 0,
                                    UINT32_MAX };
        const struct filter p = compile(state, true);

        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                for (int nr = 0; nr < SECCOMP_NR_MAX; nr++)
                        assert_int_equal(run(&p.p, &(struct seccomp_data){ .nr = nr, .arch = others[i] }),
                                         SECCOMP_RET_KILL_PROCESS);
}

static void program_checks_arguments(void **state) {
        static const struct {
                const char *name;
                uint64_t a[3];
                uint32_t want;
        } cases[] = {
                { "clone", { SIGCHLD }, SECCOMP_RET_ALLOW },
                { "clone", { 0x3d0f00 }, SECCOMP_RET_ALLOW }, /* pthread_create */
                { "clone", { CLONE_VM | CLONE_VFORK | SIGCHLD }, SECCOMP_RET_ALLOW },
                { "clone", { 0x80000000 | SIGCHLD }, SECCOMP_RET_ALLOW }, /* CLONE_IO */
                { "clone", { CLONE_NEWUSER }, REFUSED(EPERM) },
                { "clone", { HIGH | CLONE_NEWUSER | SIGCHLD }, REFUSED(EPERM) },
                { "clone", { CLONE_NEWNS }, REFUSED(EPERM) },
                { "clone", { CLONE_NEWNET }, REFUSED(EPERM) },
                { "clone", { CLONE_NEWPID }, REFUSED(EPERM) },
                { "clone", { CLONE_NEWUTS }, REFUSED(EPERM) },
                { "clone", { CLONE_NEWIPC }, REFUSED(EPERM) },
                { "clone", { CLONE_NEWCGROUP }, REFUSED(EPERM) },
                { "unshare", { 0 }, SECCOMP_RET_ALLOW },
                { "unshare", { CLONE_FILES | CLONE_FS }, SECCOMP_RET_ALLOW },
                { "unshare", { CLONE_NEWUSER | CLONE_FILES }, REFUSED(EPERM) },
                { "unshare", { 0x80 }, REFUSED(EPERM) },     /* CLONE_NEWTIME */
                { "unshare", { 0x100000 }, REFUSED(EPERM) }, /* UNSHARE_EMPTY_MNTNS of newer kernels */
                { "unshare", { HIGH << 5 }, REFUSED(EPERM) },
                { "ioctl", { 0, TCGETS }, SECCOMP_RET_ALLOW },
                { "ioctl", { 0, FIONREAD }, SECCOMP_RET_ALLOW },
                { "ioctl", { 0, TIOCSTI }, REFUSED(EPERM) },
                { "ioctl", { 0, HIGH | TIOCSTI }, REFUSED(EPERM) },
                { "ioctl", { 0, 0xffffffff00000000ULL | TIOCSTI }, REFUSED(EPERM) },
                { "ioctl", { 0, TIOCLINUX }, REFUSED(EPERM) },
                { "ioctl", { 0, HIGH | TIOCLINUX }, REFUSED(EPERM) },
                { "ioctl", { 0, TIOCSETD }, REFUSED(EPERM) },
                { "ioctl", { TIOCSTI, TCGETS }, SECCOMP_RET_ALLOW }, /* it is the second argument */
                { "personality", { 0 }, SECCOMP_RET_ALLOW },
                { "personality", { 0xffffffff }, SECCOMP_RET_ALLOW },
                { "personality", { PER_LINUX32 }, SECCOMP_RET_ALLOW },
                { "personality", { ADDR_NO_RANDOMIZE }, SECCOMP_RET_ALLOW },
                { "personality", { READ_IMPLIES_EXEC }, REFUSED(EPERM) },
                { "personality", { HIGH | MMAP_PAGE_ZERO }, REFUSED(EPERM) },
                { "personality", { PER_SVR4 }, REFUSED(EPERM) },
                { "socket", { AF_UNIX, SOCK_STREAM }, SECCOMP_RET_ALLOW },
                { "socket", { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0 }, SECCOMP_RET_ALLOW },
                { "socket", { AF_INET, SOCK_STREAM, 262 }, SECCOMP_RET_ALLOW },
                { "socket", { AF_INET6, SOCK_DGRAM, 17 }, SECCOMP_RET_ALLOW },
                { "socket", { AF_INET6, SOCK_DGRAM, 58 }, SECCOMP_RET_ALLOW },
                { "socket", { AF_INET, SOCK_STREAM, 132 }, REFUSED(EPROTONOSUPPORT) }, /* SCTP */
                { "socket", { AF_INET, SOCK_RAW, 255 }, REFUSED(EPROTONOSUPPORT) },
                { "socket", { AF_INET, 10, 0x300 }, REFUSED(EAFNOSUPPORT) }, /* SOCK_PACKET */
                { "socket", { AF_INET, 10 | SOCK_NONBLOCK, 0 }, REFUSED(EAFNOSUPPORT) },
                { "socket", { AF_NETLINK, SOCK_RAW, 0 }, SECCOMP_RET_ALLOW },
                { "socket", { AF_NETLINK, SOCK_RAW, 12 }, REFUSED(EPROTONOSUPPORT) }, /* NETFILTER */
                { "socket", { HIGH | AF_NETLINK, SOCK_RAW, 12 }, REFUSED(EPROTONOSUPPORT) },
                { "socket", { HIGH | AF_VSOCK, SOCK_STREAM }, REFUSED(EAFNOSUPPORT) },
                { "socketpair", { AF_UNIX, SOCK_STREAM }, SECCOMP_RET_ALLOW },
                { "socketpair", { AF_TIPC, SOCK_STREAM }, REFUSED(EAFNOSUPPORT) },
                { "socketpair", { AF_INET, SOCK_STREAM }, REFUSED(EAFNOSUPPORT) },
        };
        const struct filter p = compile(state, false);

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (ask(&p, cases[i].name, cases[i].a[0], cases[i].a[1], cases[i].a[2]) != cases[i].want)
                        fail_msg("case %zu: %#x", i,
                                 ask(&p, cases[i].name, cases[i].a[0], cases[i].a[1], cases[i].a[2]));
}

static void program_allows_four_socket_families(void **state) {
        const struct filter p = compile(state, false);

        for (uint64_t family = 0; family < 300; family++) {
                const bool want =
                        family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;

                assert_int_equal(ask(&p, "socket", family, SOCK_STREAM, 0),
                                 want ? SECCOMP_RET_ALLOW : REFUSED(EAFNOSUPPORT));
        }
}

static void program_nested_frees_namespaces_only(void **state) {
        const struct filter p = compile(state, true);

        assert_int_equal(ask(&p, "clone", CLONE_NEWUSER, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(&p, "unshare", CLONE_NEWUSER, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(&p, "ioctl", 0, TIOCSTI, 0), REFUSED(EPERM));
        assert_int_equal(ask(&p, "socket", AF_VSOCK, 0, 0), REFUSED(EAFNOSUPPORT));
}

/* returns errno of the call in a child under the filter, 0: it worked, -1: killed by SIGSYS, -2: not loaded
 */
static int try_call(const struct seccomp_program *p, long nr, long a0, long a1, long a2) {
        const pid_t pid = fork();
        int status = 0;

        assert_true(pid >= 0);
        if (pid == 0) {
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_filter_load(p) < 0)
                        _exit(200);
                errno = 0;
                _exit(syscall(nr, a0, a1, a2) < 0 ? errno : 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFSIGNALED(status))
                return WTERMSIG(status) == SIGSYS ? -1 : -WTERMSIG(status);
        return WEXITSTATUS(status) == 200 ? -2 : WEXITSTATUS(status);
}

static void kernel_takes_and_applies_program(void **state) {
        const struct {
                long nr, a[3];
                int want;
        } cases[] = {
                { SYS_getpid, { 0 }, 0 },
                { SYS_unshare, { CLONE_NEWUSER }, EPERM },
                { SYS_unshare, { CLONE_FILES }, 0 },
                { SYS_clone, { CLONE_NEWUSER | SIGCHLD }, EPERM },
                { SYS_clone3, { 0 }, ENOSYS },
                { SYS_socket, { AF_VSOCK, SOCK_STREAM }, EAFNOSUPPORT },
                { SYS_socket, { AF_UNIX, SOCK_STREAM }, 0 },
                { SYS_io_uring_setup, { 1 }, ENOSYS },
                { SYS_keyctl, { 0, -3 }, EPERM },
                { SYS_setns, { -1 }, EPERM },
                { SYS_mount, { 0 }, EPERM },
                { SYS_ioctl, { -1, TIOCSTI }, EPERM },
                { SYS_ioctl, { -1, (long) (HIGH | TIOCSTI) }, EPERM },
                { SYS_ioctl, { -1, TCGETS }, EBADF },
                { X32 | SYS_getpid, { 0 }, ENOSYS },
                { 511, { 0 }, ENOSYS },
                { 512, { 0 }, ENOSYS },
                { 100000, { 0 }, ENOSYS },
        };
        const struct filter p = compile(state, false);

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const int got = try_call(&p.p, cases[i].nr, cases[i].a[0], cases[i].a[1], cases[i].a[2]);

                if (got != cases[i].want)
                        fail_msg("case %zu, call %ld: %d instead of %d", i, cases[i].nr, got, cases[i].want);
        }
}

static void load_needs_no_new_privs(void **state) {
        const struct filter f = compile(state, false);
        const struct seccomp_program empty = { 0 };
        int status = 0;
        pid_t pid;

        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
                skip(); /* inside a sandbox, for example: it cannot be taken back */
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (setresuid(65534, 65534, 65534) < 0 && geteuid() == 0)
                        _exit(1);
                if (seccomp_filter_load(&f.p) != -EACCES)
                        _exit(2);
                _exit(seccomp_filter_load(&empty) == -EINVAL ? 0 : 3);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

#ifdef __x86_64__
static void kernel_kills_32_bit_calls(void **state) {
        const struct filter p = compile(state, false);
        int status = 0;
        pid_t pid;

        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                int r = 20; /* getpid of i386 */

                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_filter_load(&p.p) < 0)
                        _exit(1);
                __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
                _exit(2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); /* SIGSYS; SIGSEGV on a kernel without 32-bit calls */
        assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#endif

#define ON(test, arch) \
        { #test " " #arch, test, NULL, NULL, (void *) (uintptr_t) &archs[arch] }
#define ON_EACH(test) ON(test, SECCOMP_X86_64), ON(test, SECCOMP_AARCH64)

int main(void) {
        const struct CMUnitTest tests[] = {
                ON_EACH(table_numbers_are_what_names_say),
                ON_EACH(table_is_complete),
                ON_EACH(floor_is_what_no_profile_opens),
                ON_EACH(table_never_allows_the_dangerous),
                ON_EACH(program_agrees_with_table),
                ON_EACH(program_no_setid_refuses_set_id_bits),
                ON_EACH(program_kills_other_architectures),
                ON_EACH(program_checks_arguments),
                ON_EACH(program_allows_four_socket_families),
                ON_EACH(program_nested_frees_namespaces_only),
                ON(kernel_takes_and_applies_program, SECCOMP_HOST),
                ON(load_needs_no_new_privs, SECCOMP_HOST),
#ifdef __x86_64__
                ON(kernel_kills_32_bit_calls, SECCOMP_HOST),
#endif
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
