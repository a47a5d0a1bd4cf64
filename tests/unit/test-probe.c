#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "drivers/driver.h"
#include "drivers/native/probe-kit.h"
#include "drivers/native/probe.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"

static struct ctx this_user(void) {
        static const char *const vars[] = { "PATH=/usr/bin:/bin", NULL };

        return (struct ctx){ .uid = geteuid(),
                             .gid = getegid(),
                             .user_name = "nobody-of-this-name",
                             .home = "/",
                             .state_dir = "/tmp/nonexistent/state",
                             .environ = vars };
}

static size_t open_fds(void) {
        AUTO_DIR DIR *dir = opendir("/proc/self/fd");
        size_t n = 0;

        assert_non_null(dir);
        while (readdir(dir))
                n++;
        return n;
}

static void probe_all_rows_are_whole(void **state) {
        const struct ctx ctx = this_user();
        struct probe_row rows[PROBE_ROWS_MAX];
        const size_t n = probe_all(&ctx, false, rows);

        (void) state;
        assert_in_range(n, 20, PROBE_ROWS_MAX);
        for (size_t i = 0; i < n; i++) {
                const struct probe_row *r = &rows[i];

                assert_in_range(strlen(r->name), 3, 17); /* fits its column */
                assert_true(r->evidence[0] != 0);
                assert_null(strpbrk(r->evidence, "\n\t"));
                if (r->state != PROBE_OK && strncmp(r->evidence, "not tried", 9) != 0 &&
                    (!r->effect[0] || !r->remedy[0]))
                        fail_msg("%s has no effect or remedy", r->key);
                if (r->state == PROBE_OK && (r->effect[0] || r->remedy[0]))
                        fail_msg("%s is ok and still has a remedy", r->key);
                if (r->state == PROBE_MISSING && !r->required)
                        fail_msg("%s is missing but not required", r->key);
                for (size_t j = 0; j < i; j++)
                        assert_string_not_equal(r->key, rows[j].key);
        }
}

/* Whether the mounts are the same after as before; others on this machine may mount at the same time. */
static bool mounts_unchanged(const struct ctx *ctx) {
        struct probe_row rows[PROBE_ROWS_MAX];
        AUTO_BUF struct buf before = { 0 }, after = { 0 };

        assert_int_equal(file_read_at(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, &before), 0);
        (void) probe_all(ctx, false, rows);
        assert_int_equal(file_read_at(AT_FDCWD, "/proc/self/mountinfo", 1 << 20, &after), 0);
        return strcmp(buf_cstr(&before), buf_cstr(&after)) == 0;
}

static void probe_all_leaves_nothing(void **state) {
        const struct ctx ctx = this_user();
        const size_t fds = open_fds();
        int tries = 20;

        (void) state;
        while (!mounts_unchanged(&ctx))
                assert_int_not_equal(--tries, 0);
        assert_int_equal(open_fds(), fds);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

static void try_hangs(const struct probe_host *host, struct probe_result *ret) {
        (void) host;
        (void) ret;
        (void) signal(SIGTERM, SIG_IGN);
        for (;;)
                pause();
}

static void try_dies(const struct probe_host *host, struct probe_result *ret) {
        (void) host;
        (void) ret;
        (void) raise(SIGKILL);
}

static void try_stops(const struct probe_host *host, struct probe_result *ret) {
        (void) host;
        (void) ret;
        (void) raise(SIGSTOP);
}

static void try_works(const struct probe_host *host, struct probe_result *ret) {
        (void) host;
        result_note(ret, "%0200d", 1); /* longer than there is room for */
}

static void probe_child_is_bounded(void **state) {
        static const struct {
                probe_try *try;
                int want;
        } cases[] = {
                { try_hangs, -ETIMEDOUT }, { try_dies, -ECHILD }, { try_stops, -ETIMEDOUT }, { try_works, 0 }
        };
        const struct ctx ctx = this_user();
        const struct probe_host host = { .ctx = &ctx };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct probe_result r;
                const uint64_t start = clock_ns();

                probe_child(&host, 0, cases[i].try, &r);
                assert_int_equal(r.code, cases[i].want);
                assert_in_range((clock_ns() - start) / 1000000, 0, 10 * PROBE_CHILD_MS);
                assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        }
}

static void probe_child_names_failed_clone(void **state) {
        const struct ctx ctx = this_user();
        const struct probe_host host = { .ctx = &ctx };
        struct probe_result r;

        (void) state;
        probe_child(&host, (uint64_t) CLONE_NEWNS | CLONE_FS, NULL, &r); /* the kernel refuses the pair */
        if (r.code != -EPERM) /* what the filter of an outer sandbox answers */
                assert_int_equal(r.code, -EINVAL);
        assert_string_equal(r.step, "clone(CLONE_NEWNS)");
}

#define MAP   "write /proc/self/uid_map"
#define CLONE "clone(CLONE_NEWUSER)"

static void blame_names_who_said_no(void **state) {
        const struct ctx user = { .uid = 1000 }, root = { .uid = 0 };
        const struct {
                struct probe_host host;
                int code;
                const char *cause, *remedy, *step;
        } cases[] = {
                { { .ctx = &user, .max_user_namespaces = 0 },
                  -ENOSPC,
                  "max_user_namespaces is 0",
                  "sysctl -w user." },
                { { .ctx = &user, .max_user_namespaces = 9 }, -ENOSPC, "outer user namespace", "" },
                { { .ctx = &user, .unprivileged_clone = 0 },
                  -EPERM,
                  "unprivileged_userns_clone",
                  "sysctl -w kernel." },
                { { .ctx = &user, .unprivileged_clone = -1, .apparmor_restrict = 1 },
                  -EACCES,
                  "AppArmor",
                  "profile" },
                { { .ctx = &root, .unprivileged_clone = 0, .apparmor_restrict = 1 }, -EPERM, "", "" },
                { { .ctx = &root, .seccomp_mode = 2 }, -EPERM, "seccomp", "" },
                { { .ctx = &root, .seccomp_mode = 2, .max_user_namespaces = 9 },
                  -ENOSPC,
                  "outer user namespace",
                  "" },
                { { .ctx = &root, .seccomp_mode = 2, .container = "docker" },
                  -EPERM,
                  "seccomp",
                  "--security-opt" },
                { { .ctx = &root, .seccomp_mode = 2, .container = "kubernetes" },
                  -ENOSYS,
                  "pod",
                  "seccompProfile" },
                { { .ctx = &root, .selinux = true }, -EACCES, "SELinux", "ausearch" },
                { { .ctx = &root, .selinux = true }, -EPERM, "", "" },
                { { .ctx = &root, .unmapped = true }, -EPERM, "not mapped", "--map-current-user" },
                { { .ctx = &root, .unmapped = true }, -EINVAL, "", "" },
                { { .ctx = &root, .no_setfcap = true }, -EPERM, "CAP_SETFCAP", "ordinary user", MAP },
                { { .ctx = &root, .no_setfcap = true }, -EACCES, "", "", MAP },
                { { .ctx = &root, .no_setfcap = true }, -EPERM, "a chroot whose", "pivot_root", CLONE },
                { { .ctx = &root, .seccomp_mode = 2 }, -EPERM, "seccomp", "", CLONE },
                { { .ctx = &root }, -EACCES, "", "", CLONE },
                { { .ctx = &user, .unprivileged_clone = -1, .no_setfcap = true }, -EPERM, "", "", MAP },
                { { .ctx = &root, .seccomp_mode = 2, .no_setfcap = true }, -EPERM, "SETFCAP", "", MAP },
                { { .ctx = &root, .seccomp_mode = 2, .no_setfcap = true }, -EPERM, "seccomp", "" },
                { { .ctx = &root, .seccomp_mode = 2, .proc_masked = true },
                  -EPERM,
                  "/proc are masked",
                  "unmask=ALL",
                  "fsmount(proc)" },
                { { .ctx = &root, .seccomp_mode = 2, .proc_masked = true },
                  -EPERM,
                  "seccomp",
                  "",
                  "fsmount(tmpfs)" },
                { { .ctx = &root, .chrooted = true }, -EPERM, "chroot", "outside" },
                { { .ctx = &root, .seccomp_mode = 2 }, -ECHILD, "seccomp", "outside" },
                { { .ctx = &root }, -ECHILD, "", "" },
                { { .ctx = &root }, -EAGAIN, "processes", "ulimit -u" },
                { { .ctx = &root }, -EMFILE, "open files", "ulimit -n" },
                { { .ctx = &root }, -ENOMEM, "memory", "memory" },
                { { .ctx = &root }, -ETIMEDOUT, "busy", "again" },
                { { .ctx = &root }, -EINVAL, "", "" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *cause, *remedy;

                probe_blame(&cases[i].host, cases[i].step ? cases[i].step : "", cases[i].code, &cause,
                            &remedy);
                if (!strstr(cause, cases[i].cause) || !strstr(remedy, cases[i].remedy) ||
                    (cases[i].cause[0] == 0 && cause[0] != 0))
                        fail_msg("case %zu: '%s', '%s'", i, cause, remedy);
        }
}

/* clone(CLONE_NEWUSER) is EPERM from here on, as in a container */
static void deny_user_namespaces(void) {
        struct sock_filter insns[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
                BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const struct sock_fprog prog = { ARRAY_SIZE(insns), insns };

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
                _exit(99);
}

/* 0: cause and remedy are in the message; what was there before is not, as the row names the same error */
static int explain_denied(const char *step, const char *before) {
        const struct ctx ctx = this_user();
        struct error err = { 0 };

        deny_user_namespaces();
        (void) snprintf(err.msg, sizeof(err.msg), "%s", before);
        if (probe_explain(&ctx, step, -EPERM, &err) != DRIVER_HOST_LACKS || err.code != DRIVER_HOST_LACKS)
                return 1;
        if (!strstr(err.msg, "user namespaces") || !strstr(err.msg, "seccomp") ||
            !strstr(err.msg, "remedy: "))
                return 2;
        return strstr(err.msg, before) == NULL &&
                               strncmp(err.msg, "user namespaces: ", strlen("user namespaces: ")) == 0
                       ? 0
                       : 3;
}

static void explain_names_cause_of_refused_step(void **state) {
        static const char *const steps[] = {
                "userns", "clone", "mount", "fuse", "proc", "net", "no such step"
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                const pid_t pid = fork();
                int status;

                assert_true(pid >= 0);
                if (pid == 0)
                        _exit(explain_denied(steps[i], "clone the sandbox"));
                assert_int_equal(waitpid(pid, &status, 0), pid);
                if (status != 0)
                        fail_msg("step %s: status %#x", steps[i], (unsigned) status);
        }
}

static void explain_keeps_code_without_err(void **state) {
        const struct ctx ctx = this_user();
        struct error err = { 0 };
        struct probe_row row;
        const bool nested =
                probe_one(&ctx, "user_namespaces", &row) != PROBE_OK; /* and no row can be tried */
        const int want = nested ? DRIVER_HOST_LACKS : -EIO;

        (void) state;
        assert_int_equal(probe_explain(&ctx, "mount", -EROFS, NULL), -EROFS);
        /* nothing is wrong with the kernel's filters here: the step is named, no row is made up */
        if (probe_explain(&ctx, "seccomp", -EIO, &err) != want || err.code != want)
                fail_msg("%d: %s", err.code, err.msg);
        assert_non_null(strstr(err.msg, "set-up step 'seccomp'"));
}

static void read_number_rejects_what_is_none(void **state) {
        (void) state;
        assert_int_equal(probe_read_number("/nonexistent"), -1);
        assert_int_equal(probe_read_number("/proc/self/comm"), -1);
        assert_int_equal(probe_read_number("/proc"), -1);
        assert_true(probe_read_number("/proc/sys/kernel/pid_max") > 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(probe_all_rows_are_whole),
                cmocka_unit_test(probe_all_leaves_nothing),
                cmocka_unit_test(probe_child_is_bounded),
                cmocka_unit_test(probe_child_names_failed_clone),
                cmocka_unit_test(blame_names_who_said_no),
                cmocka_unit_test(explain_names_cause_of_refused_step),
                cmocka_unit_test(explain_keeps_code_without_err),
                cmocka_unit_test(read_number_rejects_what_is_none),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
