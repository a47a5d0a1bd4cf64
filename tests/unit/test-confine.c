/*
 * test-confine.c - what the file server can do after guard_confine(): every system call of the machine is
 * tried
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/guard.h"
#include "runtime/base/callfilter.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/landlock.h"
#include "runtime/base/sys.h"

enum { CALLS_MAX = 480, EXIT_DONE = 40, EXIT_UNCONFINED = 41, EXIT_NO_LANDLOCK = 42 };

/* The whole list, once more and by name: a call that is added to fs/confine.c has to be argued here too. */
static const char *const allowed[] = {
        "read",
        "write",
        "readv",
        "writev",
        "pread64",
        "pwrite64",
        "preadv2",
        "pwritev2",
        "lseek",
        "ftruncate",
        "fallocate",
        "fsync",
        "fdatasync",
        "close",
        "copy_file_range",
        "dup3",
        "fcntl",
        "flock", /* wide.c: on directories of the upper only */
        "openat",
        "openat2",
        "newfstatat",
        "fstat",
        "statx",
        "fstatfs",
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
        "fchmod",
        "fchmodat",
        "fchmodat2",
        "utimensat",
        "setxattr",
        "getxattr",
        "listxattr",
        "removexattr",
        "fsetxattr",
        "fgetxattr",
        "flistxattr",
        "fremovexattr",
        "munmap",
        "mremap",
        "madvise",
        "brk",
        "clone",
        "clone3",
        "set_robust_list",
        "rseq",
        "futex",
        "sched_yield",
        "sched_getaffinity",
        "gettid",
        "getpid",
        "exit",
        "exit_group",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "rt_sigtimedwait",
        "restart_syscall",
        "umask",
        "getgroups",
        "getuid",
        "sendto",
        "recvmsg",
        "clock_gettime",
        "getrandom",
        "sysinfo",
        "chmod",
        "readlink",
};

static bool is_allowed(int nr) {
        AUTO_FREE char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);

        if (nr == 452 || nr == 457)
                return true; /* fchmodat2, statmount: an older libseccomp does not know them */
        for (size_t i = 0; name && i < ARRAY_SIZE(allowed); i++)
                if (strcmp(name, allowed[i]) == 0)
                        return true;
        return false;
}

/** struct place - a directory with a region and a file beside it */
struct place {
        char path[64];
        int dir_fd, upper_fd, ro_fd, other_fd;
};

static int setup(void **state) {
        struct place *p = calloc(1, sizeof(*p));

        assert_non_null(p);
        (void) snprintf(p->path, sizeof(p->path), "/tmp/test-confine.XXXXXX");
        assert_non_null(mkdtemp(p->path));
        p->other_fd = open(p->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 3; i++) {
                static const char *const names[] = { "region", "upper", "ro" };

                assert_int_equal(mkdirat(p->other_fd, names[i], 0700), 0);
        }
        assert_int_equal(mkdirat(p->other_fd, "region/sub", 0700), 0);
        assert_int_equal(mknodat(p->other_fd, "secret", S_IFREG | 0600, 0), 0);
        assert_int_equal(mknodat(p->other_fd, "ro/file", S_IFREG | 0600, 0), 0);
        p->dir_fd = openat(p->other_fd, "region", O_PATH | O_DIRECTORY | O_CLOEXEC);
        p->upper_fd = openat(p->other_fd, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        p->ro_fd = openat(p->other_fd, "ro", O_PATH | O_DIRECTORY | O_CLOEXEC);
        *state = p;
        return 0;
}

static int teardown(void **state) {
        struct place *p = *state;
        char command[128];

        (void) snprintf(command, sizeof(command), "rm -rf '%s'", p->path);
        (void) fd_close(p->dir_fd);
        (void) fd_close(p->upper_fd);
        (void) fd_close(p->ro_fd);
        (void) fd_close(p->other_fd);
        free(p);
        return system(command);
}

static int confine(const struct place *p) {
        const struct region regions[] = {
                { .name = "a", .root_fd = p->dir_fd, .upper_fd = p->upper_fd, .kind = REGION_DIRECT },
                { .name = "b", .root_fd = p->ro_fd, .upper_fd = -1, .kind = REGION_RO },
        };
        const struct guard_config config = {
                .regions = regions, .n_regions = 2, .exclusive_fd = -1, .notice_fd = -1
        };

        return guard_confine(&config, NULL);
}

/* Return: wait status of a child that was confined and then ran @act */
static int in_child(const struct place *p, int (*act)(const struct place *p, long arg), long arg) {
        const pid_t pid = fork();
        int status = 0;

        if (pid == 0) {
                if (confine(p) < 0)
                        _exit(EXIT_UNCONFINED);
                _exit(act(p, arg));
        }
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return status;
}

static bool is_killed(int status) {
        return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

/* Linux 6.14 lets these pass every filter; they do nothing without a probe that the kernel has set */
static bool is_of_uprobes(int nr) {
#ifdef __x86_64__
        return nr == 335 || nr == 336;
#else
        return nr < 0;
#endif
}

static int call_number(const struct place *p, long nr) {
        (void) p;
        (void) syscall(nr, -1L, -1L, -1L, -1L, -1L, -1L);
        return EXIT_DONE;
}

/* goes red when a call is added to the list of fs/confine.c, or when its default is not to kill */
static void calls_beyond_the_list_kill(void **state) {
        for (int nr = 0; nr < CALLS_MAX; nr++) {
                const int status = in_child(*state, call_number, nr);

                assert_false(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_UNCONFINED);
                if (is_of_uprobes(nr))
                        continue;
                if (is_killed(status) == is_allowed(nr))
                        fail_msg("system call %d: status %#x", nr, (unsigned int) status);
        }
        assert_true(is_killed(in_child(*state, call_number, 0x40000000L))); /* x32 read(2) */
}

/* ---- calls that depend on an argument ---- */

enum conditional {
        MAP_DATA,
        MAP_CODE,
        PROTECT_CODE,
        IOCTL_CLONE_FILE,
        IOCTL_TERMINAL,
        LIMIT_OWN,
        LIMIT_OTHER,
        SIGNAL_OWN,
        SIGNAL_OTHER,
        PROCESS,
        CLONE3,
};

static int call_conditional(const struct place *p, long which) {
        switch ((enum conditional) which) {
        case MAP_DATA:
                return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
                               ? 1
                               : EXIT_DONE;
        case MAP_CODE:
                (void) mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                return EXIT_DONE;
        case PROTECT_CODE:
                (void) syscall(SYS_mprotect, 0L, 0L, (long) PROT_EXEC);
                return EXIT_DONE;
        case IOCTL_CLONE_FILE:
                (void) ioctl(p->upper_fd, FICLONE, -1);
                return EXIT_DONE;
        case IOCTL_TERMINAL:
                (void) ioctl(0, TIOCSTI, "x");
                return EXIT_DONE;
        case LIMIT_OWN:
        case LIMIT_OTHER:
                (void) syscall(SYS_prlimit64, which == LIMIT_OWN ? 0L : (long) getpid() - 1,
                               (long) RLIMIT_CORE, 0L, 0L);
                return EXIT_DONE;
        case SIGNAL_OWN:
                return syscall(SYS_tgkill, (long) getpid(), syscall(SYS_gettid), 0L) < 0 ? 1 : EXIT_DONE;
        case SIGNAL_OTHER:
                (void) syscall(SYS_tgkill, 1L, 1L, 0L);
                return EXIT_DONE;
        case PROCESS:
                return syscall(SYS_clone, (long) SIGCHLD, 0L, 0L, 0L, 0L) == 0 ? 0 : EXIT_DONE;
        case CLONE3:
                return syscall(SYS_clone3, 0L, 0L) < 0 && errno == ENOSYS ? EXIT_DONE : 1;
        }
        return 1;
}

static void arguments_decide(void **state) {
        static const struct {
                enum conditional call;
                bool killed;
        } rows[] = {
                { MAP_DATA, false },         { MAP_CODE, true },       { PROTECT_CODE, true },
                { IOCTL_CLONE_FILE, false }, { IOCTL_TERMINAL, true }, { LIMIT_OWN, false },
                { LIMIT_OTHER, true },       { SIGNAL_OWN, false },    { SIGNAL_OTHER, true },
                { PROCESS, true },           { CLONE3, false },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const int status = in_child(*state, call_conditional, rows[i].call);

                if (rows[i].killed ? !is_killed(status) : status != EXIT_DONE << 8)
                        fail_msg("row %zu: status %#x", i, (unsigned int) status);
        }
}

/* ---- files ---- */

static bool refused(int fd) {
        return fd < 0 && errno == EACCES;
}

static int use_files(const struct place *p, long arg) {
        char link[64];

        (void) arg;
        if (!refused(openat(p->other_fd, "secret", O_RDONLY | O_CLOEXEC)) ||
            !refused(open("/etc/passwd", O_RDONLY | O_CLOEXEC)) ||
            !refused(openat(p->other_fd, "new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) ||
            !refused(mkdirat(p->other_fd, "new", 0700)) || !refused(unlinkat(p->other_fd, "secret", 0)) ||
            !refused(open("/proc/self/mem", O_RDWR | O_CLOEXEC)) ||
            !refused(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC)))
                return 1;
        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", p->other_fd);
        if (!refused(open(link, O_RDONLY | O_DIRECTORY | O_CLOEXEC)))
                return 2; /* a descriptor of outside is no way there */
        if (open_beneath(p->ro_fd, "file", O_RDONLY, 0) < 0 ||
            open_beneath(p->ro_fd, "file", O_WRONLY, 0) != -EACCES || !refused(unlinkat(p->ro_fd, "file", 0)))
                return 3;
        if (open_beneath(p->dir_fd, "sub/made", O_WRONLY | O_CREAT | O_EXCL, 0600) < 0 ||
            renameat(p->dir_fd, "sub/made", p->upper_fd, "moved") < 0 ||
            linkat(p->upper_fd, "moved", p->dir_fd, "back", 0) < 0)
                return 4;
        if (renameat(p->dir_fd, "back", p->other_fd, "out") == 0 || errno == ENOENT)
                return 5;
        if (!refused(mknodat(p->dir_fd, "null", S_IFCHR | 0600, 0x103)) && errno != EPERM)
                return 6;
        return EXIT_DONE;
}

/* goes red when confine_files() is left out */
static void nothing_outside_opens(void **state) {
        const struct landlock_place none = { .fd = -1 };
        const pid_t pid = fork();
        int status;

        if (pid == 0)
                _exit(landlock_confine(&none, 1, false) == -ENOTSUP ? EXIT_NO_LANDLOCK : 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status == EXIT_NO_LANDLOCK << 8)
                skip();
        assert_int_equal(status, 0);
        assert_int_equal(in_child(*state, use_files, 0), EXIT_DONE << 8);
}

/* ---- the machinery ---- */

static void too_long_a_list_is_refused(void **state) {
        static const struct callfilter_call calls[CALLFILTER_CALLS_MAX + 1];

        (void) state;
        assert_int_equal(callfilter_load(calls, CALLFILTER_CALLS_MAX + 1, CALL_ELSE_KILL), -E2BIG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(calls_beyond_the_list_kill, setup, teardown),
                cmocka_unit_test_setup_teardown(arguments_decide, setup, teardown),
                cmocka_unit_test_setup_teardown(nothing_outside_opens, setup, teardown),
                cmocka_unit_test(too_long_a_list_is_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
