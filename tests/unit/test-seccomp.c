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

#include "drivers/native/seccomp-numbers.h"
#include "drivers/native/seccomp.h"
#include "runtime/base/cleanup.h"

enum { X32 = 0x40000000, STEPS_MAX = 512 };
#define HIGH       0x100000000ULL
#define REFUSED(e) (SECCOMP_RET_ERRNO | (uint32_t) (e))

static struct seccomp_program compile(bool nested) {
        struct seccomp_program p = { 0 };
        struct error err = { 0 };

        assert_int_equal(
                seccomp_filter_compile(&(struct seccomp_options){ .nested_userns = nested }, &p, &err), 0);
        assert_in_range(p.len, 10, SECCOMP_PROGRAM_MAX);
        return p;
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

static uint32_t ask(const struct seccomp_program *p, int nr, uint64_t a0, uint64_t a1, uint64_t a2) {
        const struct seccomp_data data = { .nr = nr, .arch = SECCOMP_ARCH, .args = { a0, a1, a2 } };

        return run(p, &data);
}

static const struct seccomp_rule *rule_find(int nr, size_t *ret_n) {
        const struct seccomp_rule *found = NULL;

        *ret_n = 0;
        for (size_t i = 0; i < n_seccomp_rules + n_seccomp_rules_arch; i++) {
                const struct seccomp_rule *r =
                        i < n_seccomp_rules ? &seccomp_rules[i] : &seccomp_rules_arch[i - n_seccomp_rules];

                if (r->nr == nr) {
                        found = r;
                        ++*ret_n;
                }
        }
        return found;
}

static void table_numbers_are_what_names_say(void **state) {
        (void) state;
        for (size_t i = 0; i < n_seccomp_rules + n_seccomp_rules_arch; i++) {
                const struct seccomp_rule *r =
                        i < n_seccomp_rules ? &seccomp_rules[i] : &seccomp_rules_arch[i - n_seccomp_rules];
                const int nr = seccomp_syscall_resolve_name(r->name);
                size_t n;

                assert_true(r->nr >= 0 && r->nr < SECCOMP_NR_MAX);
                assert_true(r->why && r->why[0]);
                (void) rule_find(r->nr, &n);
                assert_int_equal(n, 1);     /* one answer per call */
                if (nr >= 0 && nr != r->nr) /* a libseccomp that does not know the name answers below 0 */
                        fail_msg("%s is %d, the table says %d", r->name, nr, r->nr);
        }
}

/* the security-relevant column, said once more by hand */
static void table_never_allows_the_dangerous(void **state) {
        static const int never[] = {
                __NR_bpf,
                __NR_perf_event_open,
                __NR_userfaultfd,
                __NR_kexec_load,
                __NR_kexec_file_load,
                __NR_init_module,
                __NR_finit_module,
                __NR_delete_module,
                __NR_io_uring_setup,
                __NR_io_uring_enter,
                __NR_io_uring_register,
                __NR_add_key,
                __NR_keyctl,
                __NR_request_key,
                __NR_reboot,
                __NR_swapon,
                __NR_open_by_handle_at,
                __NR_fanotify_init,
                __NR_syslog,
                __NR_acct,
                __NR_settimeofday,
        };
        static const int nested[] = {
                __NR_mount,     __NR_umount2,       __NR_pivot_root,     __NR_chroot,   __NR_setns,
                __NR_open_tree, __NR_move_mount,    __NR_fsopen,         __NR_fsconfig, __NR_fsmount,
                __NR_fspick,    __NR_mount_setattr, __NR_open_tree_attr, __NR_clone3,
        };
        const struct seccomp_program plain = compile(false), open = compile(true);

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(never); i++) {
                assert_int_not_equal(ask(&plain, never[i], 0, 0, 0), SECCOMP_RET_ALLOW);
                assert_int_not_equal(ask(&open, never[i], 0, 0, 0), SECCOMP_RET_ALLOW);
        }
        for (size_t i = 0; i < ARRAY_SIZE(nested); i++) {
                assert_int_not_equal(ask(&plain, nested[i], 0, 0, 0), SECCOMP_RET_ALLOW);
                assert_int_equal(ask(&open, nested[i], 0, 0, 0), SECCOMP_RET_ALLOW);
        }
        assert_int_equal(ask(&plain, __NR_clone3, 0, 0, 0), REFUSED(ENOSYS)); /* else libc gives up */
        assert_int_equal(ask(&plain, __NR_io_uring_setup, 0, 0, 0), REFUSED(ENOSYS));
        assert_int_equal(ask(&plain, __NR_mount, 0, 0, 0), REFUSED(EPERM));
        assert_int_equal(ask(&plain, __NR_bpf, 0, 0, 0), REFUSED(EPERM));
}

static void program_agrees_with_table(void **state) {
        static const uint32_t fixed[SECCOMP_CHECK_CLONE][2] = {
                [SECCOMP_ENOSYS] = { REFUSED(ENOSYS), REFUSED(ENOSYS) },
                [SECCOMP_ALLOW] = { SECCOMP_RET_ALLOW, SECCOMP_RET_ALLOW },
                [SECCOMP_EPERM] = { REFUSED(EPERM), REFUSED(EPERM) },
                [SECCOMP_NESTED_EPERM] = { REFUSED(EPERM), SECCOMP_RET_ALLOW },
                [SECCOMP_NESTED_ENOSYS] = { REFUSED(ENOSYS), SECCOMP_RET_ALLOW },
        };

        (void) state;
        for (int nested = 0; nested < 2; nested++) {
                const struct seccomp_program p = compile(nested);

                for (int nr = -1; nr < 1000; nr++) {
                        size_t n;
                        const struct seccomp_rule *r = rule_find(nr, &n);
                        const enum seccomp_action action = r ? r->action : SECCOMP_ENOSYS;

                        if (action < SECCOMP_CHECK_CLONE && ask(&p, nr, 1, 2, 3) != fixed[action][nested])
                                fail_msg("call %d (%s), nested %d: %#x", nr, r ? r->name : "-", nested,
                                         ask(&p, nr, 1, 2, 3));
                        assert_int_equal(ask(&p, nr | X32, 0, 0, 0), REFUSED(ENOSYS));
                }
        }
}

/* red when a call that can make a set-id file leaves the table's SECCOMP_SETID_ rows */
static void program_no_setid_refuses_set_id_bits(void **state) {
        static const struct {
                int nr, mode; /* argument that is the mode */
                int flags;    /* argument that says whether a file is made, -1: always */
        } calls[] = {
                { __NR_fchmod, 1, -1 },  { __NR_fchmodat, 2, -1 }, { __NR_fchmodat2, 2, -1 },
                { __NR_mknodat, 2, -1 }, { __NR_openat, 3, 2 },
#ifdef __NR_chmod
                { __NR_chmod, 1, -1 },   { __NR_creat, 1, -1 },    { __NR_mknod, 1, -1 },
                { __NR_open, 2, 1 },
#endif
        };
        static const uint64_t bits[] = { S_ISUID, S_ISGID, S_ISUID | S_ISGID | 0777, S_IFREG | S_ISUID };
        struct seccomp_program p = { 0 }, plain = compile(false);

        (void) state;
        assert_int_equal(seccomp_filter_compile(&(struct seccomp_options){ .no_setid = true }, &p, NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
                struct seccomp_data data = { .nr = calls[i].nr, .arch = SECCOMP_ARCH };

                for (size_t b = 0; b < ARRAY_SIZE(bits); b++) {
                        data.args[calls[i].mode] = bits[b] | HIGH;
                        if (calls[i].flags >= 0) {
                                data.args[calls[i].flags] = O_RDWR;
                                assert_int_equal(run(&p, &data), SECCOMP_RET_ALLOW); /* no mode */
                                data.args[calls[i].flags] = O_TMPFILE;
                                assert_int_equal(run(&p, &data), REFUSED(EPERM));
                                data.args[calls[i].flags] = O_CREAT | O_WRONLY;
                        }
                        assert_int_equal(run(&p, &data), REFUSED(EPERM));
                        assert_int_equal(run(&plain, &data), SECCOMP_RET_ALLOW);
                }
                data.args[calls[i].mode] = S_ISVTX | 0777;
                assert_int_equal(run(&p, &data), SECCOMP_RET_ALLOW);
        }
        assert_int_equal(ask(&p, __NR_openat2, 0, 0, 0), REFUSED(ENOSYS));
        assert_int_equal(ask(&plain, __NR_openat2, 0, 0, 0), SECCOMP_RET_ALLOW);
}

static void program_kills_other_architectures(void **state) {
        static const uint32_t others[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_S390X, 0, UINT32_MAX };
        const struct seccomp_program p = compile(true);

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(others); i++)
                for (int nr = 0; nr < SECCOMP_NR_MAX; nr++)
                        assert_int_equal(run(&p, &(struct seccomp_data){ .nr = nr, .arch = others[i] }),
                                         SECCOMP_RET_KILL_PROCESS);
}

static void program_checks_arguments(void **state) {
        static const struct {
                int nr;
                uint64_t a[3];
                uint32_t want;
        } cases[] = {
                { __NR_clone, { SIGCHLD }, SECCOMP_RET_ALLOW },
                { __NR_clone, { 0x3d0f00 }, SECCOMP_RET_ALLOW }, /* pthread_create */
                { __NR_clone, { CLONE_VM | CLONE_VFORK | SIGCHLD }, SECCOMP_RET_ALLOW },
                { __NR_clone, { 0x80000000 | SIGCHLD }, SECCOMP_RET_ALLOW }, /* CLONE_IO */
                { __NR_clone, { CLONE_NEWUSER }, REFUSED(EPERM) },
                { __NR_clone, { HIGH | CLONE_NEWUSER | SIGCHLD }, REFUSED(EPERM) },
                { __NR_clone, { CLONE_NEWNS }, REFUSED(EPERM) },
                { __NR_clone, { CLONE_NEWNET }, REFUSED(EPERM) },
                { __NR_clone, { CLONE_NEWPID }, REFUSED(EPERM) },
                { __NR_clone, { CLONE_NEWUTS }, REFUSED(EPERM) },
                { __NR_clone, { CLONE_NEWIPC }, REFUSED(EPERM) },
                { __NR_clone, { CLONE_NEWCGROUP }, REFUSED(EPERM) },
                { __NR_unshare, { 0 }, SECCOMP_RET_ALLOW },
                { __NR_unshare, { CLONE_FILES | CLONE_FS }, SECCOMP_RET_ALLOW },
                { __NR_unshare, { CLONE_NEWUSER | CLONE_FILES }, REFUSED(EPERM) },
                { __NR_unshare, { 0x80 }, REFUSED(EPERM) },     /* CLONE_NEWTIME */
                { __NR_unshare, { 0x100000 }, REFUSED(EPERM) }, /* UNSHARE_EMPTY_MNTNS of newer kernels */
                { __NR_unshare, { HIGH << 5 }, REFUSED(EPERM) },
                { __NR_ioctl, { 0, TCGETS }, SECCOMP_RET_ALLOW },
                { __NR_ioctl, { 0, FIONREAD }, SECCOMP_RET_ALLOW },
                { __NR_ioctl, { 0, TIOCSTI }, REFUSED(EPERM) },
                { __NR_ioctl, { 0, HIGH | TIOCSTI }, REFUSED(EPERM) },
                { __NR_ioctl, { 0, 0xffffffff00000000ULL | TIOCSTI }, REFUSED(EPERM) },
                { __NR_ioctl, { 0, TIOCLINUX }, REFUSED(EPERM) },
                { __NR_ioctl, { 0, HIGH | TIOCLINUX }, REFUSED(EPERM) },
                { __NR_ioctl, { 0, TIOCSETD }, REFUSED(EPERM) },
                { __NR_ioctl, { TIOCSTI, TCGETS }, SECCOMP_RET_ALLOW }, /* it is the second argument */
                { __NR_personality, { 0 }, SECCOMP_RET_ALLOW },
                { __NR_personality, { 0xffffffff }, SECCOMP_RET_ALLOW },
                { __NR_personality, { PER_LINUX32 }, SECCOMP_RET_ALLOW },
                { __NR_personality, { ADDR_NO_RANDOMIZE }, SECCOMP_RET_ALLOW },
                { __NR_personality, { READ_IMPLIES_EXEC }, REFUSED(EPERM) },
                { __NR_personality, { HIGH | MMAP_PAGE_ZERO }, REFUSED(EPERM) },
                { __NR_personality, { PER_SVR4 }, REFUSED(EPERM) },
                { __NR_socket, { AF_UNIX, SOCK_STREAM }, SECCOMP_RET_ALLOW },
                { __NR_socket, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0 }, SECCOMP_RET_ALLOW },
                { __NR_socket, { AF_INET, SOCK_STREAM, 262 }, SECCOMP_RET_ALLOW },
                { __NR_socket, { AF_INET6, SOCK_DGRAM, 17 }, SECCOMP_RET_ALLOW },
                { __NR_socket, { AF_INET6, SOCK_DGRAM, 58 }, SECCOMP_RET_ALLOW },
                { __NR_socket, { AF_INET, SOCK_STREAM, 132 }, REFUSED(EPROTONOSUPPORT) }, /* SCTP */
                { __NR_socket, { AF_INET, SOCK_RAW, 255 }, REFUSED(EPROTONOSUPPORT) },
                { __NR_socket, { AF_INET, 10, 0x300 }, REFUSED(EAFNOSUPPORT) }, /* SOCK_PACKET */
                { __NR_socket, { AF_INET, 10 | SOCK_NONBLOCK, 0 }, REFUSED(EAFNOSUPPORT) },
                { __NR_socket, { AF_NETLINK, SOCK_RAW, 0 }, SECCOMP_RET_ALLOW },
                { __NR_socket, { AF_NETLINK, SOCK_RAW, 12 }, REFUSED(EPROTONOSUPPORT) }, /* NETFILTER */
                { __NR_socket, { HIGH | AF_NETLINK, SOCK_RAW, 12 }, REFUSED(EPROTONOSUPPORT) },
                { __NR_socket, { HIGH | AF_VSOCK, SOCK_STREAM }, REFUSED(EAFNOSUPPORT) },
                { __NR_socketpair, { AF_UNIX, SOCK_STREAM }, SECCOMP_RET_ALLOW },
                { __NR_socketpair, { AF_TIPC, SOCK_STREAM }, REFUSED(EAFNOSUPPORT) },
                { __NR_socketpair, { AF_INET, SOCK_STREAM }, REFUSED(EAFNOSUPPORT) },
        };
        const struct seccomp_program p = compile(false);

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (ask(&p, cases[i].nr, cases[i].a[0], cases[i].a[1], cases[i].a[2]) != cases[i].want)
                        fail_msg("case %zu: %#x", i,
                                 ask(&p, cases[i].nr, cases[i].a[0], cases[i].a[1], cases[i].a[2]));
}

static void program_allows_four_socket_families(void **state) {
        const struct seccomp_program p = compile(false);

        (void) state;
        for (uint64_t family = 0; family < 300; family++) {
                const bool want =
                        family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;

                assert_int_equal(ask(&p, __NR_socket, family, SOCK_STREAM, 0),
                                 want ? SECCOMP_RET_ALLOW : REFUSED(EAFNOSUPPORT));
        }
}

static void program_nested_frees_namespaces_only(void **state) {
        const struct seccomp_program p = compile(true);

        (void) state;
        assert_int_equal(ask(&p, __NR_clone, CLONE_NEWUSER, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(&p, __NR_unshare, CLONE_NEWUSER, 0, 0), SECCOMP_RET_ALLOW);
        assert_int_equal(ask(&p, __NR_ioctl, 0, TIOCSTI, 0), REFUSED(EPERM));
        assert_int_equal(ask(&p, __NR_socket, AF_VSOCK, 0, 0), REFUSED(EAFNOSUPPORT));
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
        const struct seccomp_program p = compile(false);

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const int got = try_call(&p, cases[i].nr, cases[i].a[0], cases[i].a[1], cases[i].a[2]);

                if (got != cases[i].want)
                        fail_msg("case %zu, call %ld: %d instead of %d", i, cases[i].nr, got, cases[i].want);
        }
}

static void load_needs_no_new_privs(void **state) {
        const struct seccomp_program p = compile(false), empty = { 0 };
        int status = 0;
        pid_t pid;

        (void) state;
        if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
                skip(); /* inside a sandbox, for example: it cannot be taken back */
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if (setresuid(65534, 65534, 65534) < 0 && geteuid() == 0)
                        _exit(1);
                if (seccomp_filter_load(&p) != -EACCES)
                        _exit(2);
                _exit(seccomp_filter_load(&empty) == -EINVAL ? 0 : 3);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

#ifdef __x86_64__
static void kernel_kills_32_bit_calls(void **state) {
        const struct seccomp_program p = compile(false);
        int status = 0;
        pid_t pid;

        (void) state;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                int r = 20; /* getpid of i386 */

                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_filter_load(&p) < 0)
                        _exit(1);
                __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
                _exit(2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status)); /* SIGSYS; SIGSEGV on a kernel without 32-bit calls */
        assert_true(WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV);
}
#endif

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(table_numbers_are_what_names_say),
                cmocka_unit_test(table_never_allows_the_dangerous),
                cmocka_unit_test(program_agrees_with_table),
                cmocka_unit_test(program_no_setid_refuses_set_id_bits),
                cmocka_unit_test(program_kills_other_architectures),
                cmocka_unit_test(program_checks_arguments),
                cmocka_unit_test(program_allows_four_socket_families),
                cmocka_unit_test(program_nested_frees_namespaces_only),
                cmocka_unit_test(kernel_takes_and_applies_program),
                cmocka_unit_test(load_needs_no_new_privs),
#ifdef __x86_64__
                cmocka_unit_test(kernel_kills_32_bit_calls),
#endif
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
