/*
 * test-seccomp-profile.c - profiles of the operator: what is read, what is refused, what the kernel then does
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "drivers/native/seccomp-profile.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"

enum { NOT_LOADED = 200 };

static int parse(const char *text, struct profile *ret, struct error *err) {
        return profile_parse(text, strlen(text), ret, err);
}

/* errno of each call in a child under the profile @text, 0: it worked, -1: killed by SIGSYS */
static int try_call(const char *text, long nr, long a0, long a1, long a2) {
        AUTO_PROFILE struct profile profile = { 0 };
        struct profile_program program = { 0 };
        struct error err = { 0 };
        int status = 0;
        pid_t pid;

        if (parse(text, &profile, &err) < 0 || profile_compile(&profile, &program, &err) < 0)
                fail_msg("%s: %s", text, err.msg);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void) signal(SIGSYS, SIG_DFL); /* cmocka has a handler */
                if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load(program.insns, program.len) < 0)
                        _exit(NOT_LOADED);
                errno = 0;
                _exit(syscall(nr, a0, a1, a2) < 0 ? errno : 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        profile_program_deinit(&program);
        if (WIFSIGNALED(status))
                return WTERMSIG(status) == SIGSYS ? -1 : -1000;
        assert_int_not_equal(WEXITSTATUS(status), NOT_LOADED);
        return WEXITSTATUS(status);
}

#define ALLOW_BUT(entry) "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [" entry "]}"
#define GETPPID(rest)    ALLOW_BUT("{\"names\": [\"getppid\"], " rest "}")
#define ERRNO(n)         "\"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": " #n
#define SOCKET(args)     ALLOW_BUT("{\"names\": [\"socket\"], " ERRNO(95) ", \"args\": [" args "]}")
#define ARG(index, op, value, two) \
        "{\"index\": " #index ", \"op\": \"SCMP_CMP_" #op "\", \"value\": " #value ", \"valueTwo\": " #two "}"
#if defined(__x86_64__)
#define OURS  "amd64"
#define OTHER "arm64"
#else
#define OURS  "arm64"
#define OTHER "amd64"
#endif

/* goes red when get_action(), get_args() or speaks_of_us() decide otherwise */
static void kernel_does_what_the_profile_says(void **state) {
        static const struct {
                const char *text;
                int want; /* of getppid() */
        } rows[] = {
                { ALLOW_BUT(""), 0 },
                { "{\"defaultAction\": \"SCMP_ACT_ALLOW\"}", 0 },
                { GETPPID(ERRNO(7)), 7 },
                { GETPPID("\"action\": \"SCMP_ACT_ERRNO\""), EPERM },
                { GETPPID("\"action\": \"SCMP_ACT_ERRNO\", \"errno\": \"EXDEV\""), EXDEV },
                { GETPPID("\"action\": \"SCMP_ACT_KILL_PROCESS\""), -1 },
                { GETPPID("\"action\": \"SCMP_ACT_KILL\""), -1 },
                { GETPPID("\"action\": \"SCMP_ACT_TRAP\""), -1 },
                { GETPPID("\"action\": \"SCMP_ACT_LOG\""), 0 },
                { ALLOW_BUT("{\"name\": \"getppid\", " ERRNO(7) "}"), 7 },
                { GETPPID(ERRNO(7) ", \"args\": null, \"includes\": {}, \"excludes\": null"), 7 },
                { GETPPID(ERRNO(7) ", \"includes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}"), 0 },
                { GETPPID(ERRNO(7) ", \"excludes\": {\"caps\": [\"CAP_SYS_ADMIN\"]}"), 7 },
                { GETPPID(ERRNO(7) ", \"includes\": {\"arches\": [\"" OURS "\"]}"), 7 },
                { GETPPID(ERRNO(7) ", \"includes\": {\"arches\": [\"" OTHER "\"]}"), 0 },
                { GETPPID(ERRNO(7) ", \"excludes\": {\"arches\": [\"" OURS "\"]}"), 0 },
                { GETPPID(ERRNO(7) ", \"excludes\": {\"arches\": [\"" OTHER "\"]}"), 7 },
                { GETPPID(ERRNO(7) ", \"includes\": {\"minKernel\": \"4.8\"}"), 7 },
                { GETPPID(ERRNO(7) ", \"includes\": {\"minKernel\": \"99.0\"}"), 0 },
                { "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 38, \"syscalls\": "
                  "[{\"names\": "
                  "[\"exit\", \"exit_group\"], \"action\": \"SCMP_ACT_ALLOW\"}]}",
                  ENOSYS },
                { "{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": [\"exit_group\", "
                  "\"getppid\"], \"action\": \"SCMP_ACT_ALLOW\"}]}",
                  0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const int got = try_call(rows[i].text, SYS_getppid, 0, 0, 0);

                if (got != rows[i].want)
                        fail_msg("%s: %d instead of %d", rows[i].text, got, rows[i].want);
        }
}

/* all 64 bits of an argument count; goes red when get_arg() takes the wrong comparison */
static void conditions_compare_64_bits(void **state) {
        static const struct {
                const char *text;
                long a[3];
                bool refused;
        } rows[] = {
                { SOCKET(ARG(0, EQ, 16, 0)), { AF_NETLINK }, true },
                { SOCKET(ARG(0, EQ, 16, 0)), { AF_NETLINK | 1L << 32 }, false },
                { SOCKET(ARG(0, EQ, 4294967312, 0)), { AF_NETLINK | 1L << 32 }, true },
                { SOCKET(ARG(0, NE, 1, 0)), { AF_UNIX, SOCK_STREAM }, false },
                { SOCKET(ARG(0, NE, 1, 0)), { AF_INET, SOCK_STREAM }, true },
                { SOCKET(ARG(0, LT, 2, 0)), { AF_UNIX, SOCK_STREAM }, true },
                { SOCKET(ARG(0, LE, 1, 0)), { AF_INET, SOCK_STREAM }, false },
                { SOCKET(ARG(0, GT, 1, 0)), { AF_INET, SOCK_STREAM }, true },
                { SOCKET(ARG(0, GE, 2, 0)), { AF_UNIX, SOCK_STREAM }, false },
                { SOCKET(ARG(1, MASKED_EQ, 15, 2)), { AF_INET, SOCK_DGRAM | SOCK_CLOEXEC }, true },
                { SOCKET(ARG(1, MASKED_EQ, 15, 2)), { AF_INET, SOCK_STREAM | SOCK_CLOEXEC }, false },
                { SOCKET(ARG(0, EQ, 2, 0) ", " ARG(1, EQ, 1, 0)), { AF_INET, SOCK_STREAM }, true },
                { SOCKET(ARG(0, EQ, 2, 0) ", " ARG(1, EQ, 1, 0)), { AF_INET, SOCK_DGRAM }, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const int got = try_call(rows[i].text, SYS_socket, rows[i].a[0], rows[i].a[1], rows[i].a[2]);

                if ((got == 95) != rows[i].refused)
                        fail_msg("row %zu: %s: %d", i, rows[i].text, got);
        }
}

static void what_cannot_be_expressed_is_refused(void **state) {
        static const struct {
                const char *text, *want;
        } rows[] = {
                { "", "line" },
                { "[]", "not a profile" },
                { "{}", "defaultAction: must be an action" },
                { "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"defaultAction\": \"SCMP_ACT_KILL\"}",
                  "line 1: duplicate" },
                { "{\"defaultAction\": \"SCMP_ACT_ALLOW\"} x", "line 1" },
                { "{\"defaultAction\": \"SCMP_ACT_NOTIFY\"}",
                  "no listener or tracer for the action 'SCMP_ACT_NOTIFY'" },
                { "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"flags\": []}", "does not know the key 'flags'" },
                { "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"architectures\": [\"SCMP_ARCH_S390X\"]}",
                  "architectures: this machine" },
                { "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": {}}", "syscalls: must be a list" },
                { ALLOW_BUT("7"), "syscalls[0]: must be an object" },
                { GETPPID("\"action\": \"SCMP_ACT_TRACE\""), "syscalls[0].action: there is no listener" },
                { GETPPID("\"action\": \"SCMP_ACT_ALLOW\", \"colour\": 1"),
                  "does not know the key 'colour'" },
                { GETPPID("\"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": -1"), "errnoRet" },
                { GETPPID("\"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 4096"), "errnoRet" },
                { GETPPID("\"action\": \"SCMP_ACT_ERRNO\", \"errno\": \"EWHAT\""),
                  "errno: must be the name" },
                { GETPPID(ERRNO(1) ", \"includes\": {\"moon\": 1}"), "does not know the key 'moon'" },
                { GETPPID(ERRNO(1) ", \"includes\": {\"minKernel\": \"new\"}"), "minKernel" },
                { GETPPID(ERRNO(1) ", \"includes\": {\"caps\": \"all\"}"), "includes: must be a list" },
                { SOCKET(ARG(6, EQ, 1, 0)), "args.index" },
                { SOCKET(ARG(0, EQ, -1, 0)), "args.value" },
                { SOCKET(ARG(0, EQ, 1.5, 0)), "args.value" },
                { SOCKET(ARG(0, EQ, 18446744073709551615, 0)), "line 1: too big integer" },
                { SOCKET(ARG(0, LIKE, 1, 0)), "args.op" },
                { SOCKET(ARG(0, EQ, 1, 0) "," ARG(0, EQ, 2, 0)), "an argument can have one condition" },
                { ALLOW_BUT("{\"names\": [\"no_such_call\"], " ERRNO(1) "}"),
                  "nobody knows the system call to refuse 'no_such_call'" },
                { ALLOW_BUT("{\"names\": \"read\", " ERRNO(1) "}"), "names: must be a list" },
                { ALLOW_BUT("{\"names\": [1], " ERRNO(1) "}"), "names: must be a list" },
                { ALLOW_BUT("{" ERRNO(1) "}"), "names: must be a list" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct profile profile = { 0 };
                struct error err = { 0 };
                const int r = parse(rows[i].text, &profile, &err);

                if (r == 0 || r != err.code || !strstr(err.msg, rows[i].want) || strchr(err.msg, '\n'))
                        fail_msg("%s: %d %s", rows[i].text, r, err.msg);
                assert_null(profile.calls);
        }
}

/* Calls of other machines and of kernels to come: an allow-list may name them, a deny-list the known ones. */
static void names_of_elsewhere_are_counted(void **state) {
        AUTO_PROFILE struct profile allow = { 0 }, deny = { 0 };

        (void) state;
        assert_int_equal(
                parse("{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": [\"read\", "
                      "\"chown32\", \"no_such_call\"], \"action\": \"SCMP_ACT_ALLOW\"}]}",
                      &allow, NULL),
                0);
        assert_int_equal(allow.n_calls, 1);
        assert_int_equal(allow.n_skipped, 2);
        assert_int_equal(parse(ALLOW_BUT("{\"names\": [\"chown32\"], " ERRNO(1) "}"), &deny, NULL), 0);
        assert_int_equal(deny.n_skipped, 1);
}

static void too_many_names_are_refused(void **state) {
        AUTO_BUF struct buf text = { 0 };
        struct profile profile = { 0 };

        (void) state;
        assert_int_equal(buf_str(&text, "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [{\"action\": "
                                        "\"SCMP_ACT_ERRNO\", \"names\": [\"read\""),
                         0);
        for (int i = 0; i < PROFILE_CALLS_MAX; i++)
                assert_int_equal(buf_str(&text, ",\"read\""), 0);
        assert_int_equal(buf_str(&text, "]}]}"), 0);
        assert_int_equal(parse(buf_cstr(&text), &profile, NULL), -E2BIG);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(kernel_does_what_the_profile_says),
                cmocka_unit_test(conditions_compare_64_bits),
                cmocka_unit_test(what_cannot_be_expressed_is_refused),
                cmocka_unit_test(names_of_elsewhere_are_counted),
                cmocka_unit_test(too_many_names_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
