/*
 * test-run-confine.c - what the supervisor and the child that lands can do once they are confined: every
 * system call of the machine that is not in the list is tried
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/run/confine.h"

enum { CALLS_MAX = 480, EXIT_DONE = 40, EXIT_UNCONFINED = 41, FCHMODAT2 = 452, STATMOUNT = 457 };

/* Both lists, once more and by name: a call that is added to runtime/run/confine.c has to be argued here too.
 */
static const char *const common[] = {
        "read",
        "write",
        "readv",
        "writev",
        "pread64",
        "pwrite64",
        "lseek",
        "ftruncate",
        "fallocate",
        "fsync",
        "fdatasync",
        "syncfs",
        "copy_file_range",
        "sendfile",
        "close",
        "dup3",
        "fcntl",
        "flock",
        "ppoll",
        "ioctl",
        "openat",
        "openat2",
        "newfstatat",
        "fstat",
        "statx",
        "fstatfs",
        "statfs",
        "getdents64",
        "mkdirat",
        "mknodat",
        "unlinkat",
        "renameat",
        "renameat2",
        "linkat",
        "symlinkat",
        "readlinkat",
        "faccessat",
        "faccessat2",
        "name_to_handle_at",
        "getcwd",
        "fchmod",
        "fchmodat",
        "fchown",
        "fchownat",
        "utimensat",
        "setxattr",
        "lsetxattr",
        "getxattr",
        "lgetxattr",
        "listxattr",
        "llistxattr",
        "removexattr",
        "lremovexattr",
        "fsetxattr",
        "fgetxattr",
        "flistxattr",
        "fremovexattr",
        "umask",
        "mmap",
        "mprotect",
        "munmap",
        "mremap",
        "madvise",
        "brk",
        "futex",
        "set_robust_list",
        "rseq",
        "sched_getaffinity",
        "sched_yield",
        "getpid",
        "getppid",
        "gettid",
        "getuid",
        "geteuid",
        "getgid",
        "getegid",
        "getgroups",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "restart_syscall",
        "prlimit64",
        "exit",
        "exit_group",
        "clock_gettime",
        "gettimeofday",
        "clock_nanosleep",
        "getrandom",
        "sysinfo",
        "uname",
        /* x86-64 */
        "poll",
        "open",
        "stat",
        "lstat",
        "access",
        "mkdir",
        "rmdir",
        "unlink",
        "rename",
        "readlink",
        "chmod",
        "dup2",
        "time",
};
static const char *const supervisor_only[] = {
        "sendmsg",
        "recvmsg",
        "sendto",
        "recvfrom",
        "accept4",
        "getsockopt",
        "shutdown",
        "memfd_create",
        "pipe2",
        "clone",
        "clone3",
        "wait4",
        "waitid",
        "kill",
        "pidfd_open",
        "pidfd_send_signal",
        "prctl",
        "capget",
        "capset",
        "seccomp",
        "landlock_create_ruleset",
        "landlock_add_rule",
        "landlock_restrict_self",
        "setfsuid",
        "close_range",
        "setpriority",
        "setfsgid",
        "setns",
        "umount2",
        "fsconfig",
        "fork",
};

static bool in_list(const char *name, const char *const *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(name, list[i]) == 0)
                        return true;
        return false;
}

/* Linux 6.14 lets uprobe and uretprobe pass every filter. */
static bool is_allowed(int nr, bool lander) {
        AUTO_FREE char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

        if (nr == FCHMODAT2 || nr == STATMOUNT)
                return true; /* an older libseccomp does not know them */
#ifdef __x86_64__
        if (nr == 335 || nr == 336)
                return true;
#endif
        return name && (in_list(name, common, ARRAY_SIZE(common)) ||
                        (!lander && in_list(name, supervisor_only, ARRAY_SIZE(supervisor_only))));
}

/* Return: wait status of a child that was confined and then ran @act */
static int in_child(int (*confine)(struct error *err), int (*act)(long arg), long arg) {
        const pid_t pid = fork();
        int status = 0;

        if (pid == 0) {
                (void) signal(SIGSYS, SIG_DFL); /* cmocka has a handler */
                if (confine(NULL) < 0)
                        _exit(EXIT_UNCONFINED);
                _exit(act(arg));
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static int all_refused(long arg) {
        (void) arg;
        for (int nr = 0; nr < CALLS_MAX; nr++)
                if (!is_allowed(nr, false) && (syscall(nr, -1, -1, -1, -1, -1, -1) >= 0 || errno != EPERM)) {
                        (void) !printf("call %d: %s\n", nr, strerror(errno));
                        (void) fflush(stdout);
                        return 1;
                }
        return EXIT_DONE;
}

/* goes red when a call is added to one of the lists, or when confine_supervisor() loads none */
static void supervisor_gets_eperm_beyond_its_list(void **state) {
        (void) state;
        assert_int_equal(in_child(confine_supervisor, all_refused, 0), EXIT_DONE << 8);
}

static int confine_as_lander(struct error *err) {
        return confine_lander(NULL, 0, err);
}

static int one_call(long nr) {
        return syscall(nr, -1, -1, -1, -1, -1, -1) < 0 ? errno : 0;
}

static void lander_dies_beyond_its_list(void **state) {
        (void) state;
        for (int nr = 0; nr < CALLS_MAX; nr++) {
                int status;

                if (is_allowed(nr, true))
                        continue;
                status = in_child(confine_as_lander, one_call, nr);
                if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
                        fail_msg("call %d: %#x", nr, (unsigned int) status);
        }
}

enum { MAY = O_RDWR | O_CREAT | O_CLOEXEC };

/* @base: has the directories "own" and "other". Return: EXIT_DONE, or which call was not as it should be. */
static int files_of_lander(int base) {
        const struct landlock_place own = { openat(base, "own", O_PATH | O_DIRECTORY | O_CLOEXEC),
                                            LANDLOCK_CHANGE };
        const struct landlock_place none = { .fd = -1 };
        const pid_t pid = fork();
        int status = 0;

        if (pid == 0)
                _exit(landlock_confine(&none, 1, false) == -ENOTSUP);
        if (waitpid(pid, &status, 0) != pid || status != 0)
                return EXIT_DONE; /* a kernel without landlock: the list is what there is */
        if (own.fd < 0 || confine_lander(&own, 1, NULL) < 0)
                return EXIT_UNCONFINED;
        if (openat(base, "own/file", MAY, 0600) < 0 || mkdirat(base, "own/dir", 0700) < 0 ||
            renameat(base, "own/file", base, "own/dir/file") < 0 || unlinkat(base, "own/dir/file", 0) < 0)
                return 1;
        if (openat(base, "other/file", MAY, 0600) >= 0 ||
            openat(base, "other/there", O_RDONLY | O_CLOEXEC) >= 0 || mkdirat(base, "other/dir", 0700) >= 0 ||
            renameat(base, "own/dir", base, "other/dir") >= 0 || unlinkat(base, "other/there", 0) >= 0 ||
            open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0)
                return 2;
        return EXIT_DONE;
}

/* goes red when confine_lander() takes no places, or confine_process() leaves landlock out */
static void lander_has_its_places_only(void **state) {
        char path[] = "/tmp/test-run-confine.XXXXXX";
        int base, status = 0;
        pid_t pid;

        (void) state;
        assert_non_null(mkdtemp(path));
        base = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(mkdirat(base, "own", 0700) | mkdirat(base, "other", 0700), 0);
        assert_int_equal(mknodat(base, "other/there", S_IFREG | 0600, 0), 0);
        pid = fork();
        if (pid == 0)
                _exit(files_of_lander(base));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        (void) unlinkat(base, "own/file", 0);
        (void) unlinkat(base, "own/dir", AT_REMOVEDIR);
        assert_int_equal(unlinkat(base, "other/there", 0), 0);
        assert_int_equal(unlinkat(base, "own", AT_REMOVEDIR) | unlinkat(base, "other", AT_REMOVEDIR), 0);
        (void) close(base);
        assert_int_equal(rmdir(path), 0);
        assert_int_equal(status, EXIT_DONE << 8);
}

static bool eperm(long r) {
        return r < 0 && errno == EPERM;
}

/* Goes red when an ALLOW_IF row becomes an ALLOW row.
 * @without: what setns(2) of no descriptor says without the filter: in a sandbox there is another one already
 */
static int arguments(long without) {
        char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (page == MAP_FAILED || !eperm(mprotect(page, 4096, PROT_READ | PROT_EXEC)) ||
            mmap(NULL, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
                return 1;
        for (int bit = 8; bit < 32; bit++) {
                const unsigned long flag = 1UL << bit;

                if ((flag & (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                             CLONE_NEWUTS | CLONE_NEWCGROUP)) &&
                    !eperm(syscall(SYS_clone, flag | SIGCHLD, NULL, NULL, NULL, 0)))
                        return 2;
        }
        if (!eperm(syscall(SYS_setns, -1, CLONE_NEWNET)) || !eperm(syscall(SYS_setns, -1, 0)) ||
            setns(-1, CLONE_NEWUSER) == 0 || errno != without)
                return 3;
        if (!eperm(syscall(SYS_umount2, "/", MNT_DETACH)) || !eperm(syscall(SYS_ioctl, 0, TIOCSTI, "x")) ||
            !eperm(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)) ||
            !eperm(syscall(SYS_prlimit64, getppid(), 7, NULL, NULL)))
                return 4;
        return EXIT_DONE;
}

static void arguments_decide(void **state) {
        (void) state;
        assert_int_equal(setns(-1, CLONE_NEWUSER), -1);
        assert_int_equal(in_child(confine_supervisor, arguments, errno), EXIT_DONE << 8);
}

/* @keep: which capabilities may be left; goes red when caps_keep() is left out, as root */
static int capabilities(long keep) {
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct have[2];

        if (syscall(SYS_capget, &head, have) < 0)
                return 1;
        for (int i = 0; i < 2; i++)
                if ((have[i].effective | have[i].permitted | have[i].inheritable) &
                    ~(uint32_t) ((uint64_t) keep >> (32 * i)))
                        return 2;
        /* dropped from the bounding set too: nothing comes back by exec */
        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? 3 : EXIT_DONE;
}

static void few_capabilities_are_left(void **state) {
        const uint64_t keep = 1U << CAP_CHOWN | 1U << CAP_DAC_OVERRIDE | 1U << CAP_DAC_READ_SEARCH |
                              1U << CAP_FOWNER | 1U << CAP_FSETID | 1U << CAP_KILL | 1U << CAP_SETUID |
                              1U << CAP_SETGID;

        (void) state;
        assert_int_equal(in_child(confine_supervisor, capabilities, (long) keep), EXIT_DONE << 8);
}

/* The child of a confined supervisor can take its own list. */
static int lands(long arg) {
        const pid_t pid = fork();
        int status = 0;

        (void) arg;
        if (pid == 0)
                _exit(confine_as_lander(NULL) < 0 ? 1 : EXIT_DONE);
        return pid > 0 && waitpid(pid, &status, 0) == pid && status == EXIT_DONE << 8 ? EXIT_DONE : 1;
}

static void a_child_is_not_locked_out(void **state) {
        (void) state;
        assert_int_equal(in_child(confine_supervisor, lands, 0), EXIT_DONE << 8);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(supervisor_gets_eperm_beyond_its_list),
                cmocka_unit_test(lander_dies_beyond_its_list),
                cmocka_unit_test(lander_has_its_places_only),
                cmocka_unit_test(arguments_decide),
                cmocka_unit_test(few_capabilities_are_left),
                cmocka_unit_test(a_child_is_not_locked_out),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
