/*
 * probe-limits.c - the caller's resource limits against what a run needs, in doctor and before a run
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/probe-kit.h"
#include "runtime/base/cleanup.h"

enum {
        RUN_PROCESSES = 13,     /* what a run and its command are at once, threads included */
        PROCESSES_PLENTY = 4096 /* a limit that is not tried before a run: failing would name it */
};

/* What a run without further options needs, measured and rounded up. */
static const struct {
        enum __rlimit_resource resource;
        const char *name;
        rlim_t least; /* bytes or pieces */
        int code;     /* chooses the remedy, see remedies[] in probe.c */
} needs[] = {
        { RLIMIT_NOFILE, "RLIMIT_NOFILE", 48, -EMFILE },
        { RLIMIT_AS, "RLIMIT_AS", 64 << 20, -ENOMEM },
        { RLIMIT_DATA, "RLIMIT_DATA", 64 << 20, -ENOBUFS },
        { RLIMIT_FSIZE, "RLIMIT_FSIZE", 64 << 10, -EFBIG },
};

/* Whether as many processes as a run has can be made at once. Return: 0 or -errno. */
static int try_processes(void) {
        pid_t pids[RUN_PROCESSES];
        int n, r = 0;

        for (n = 0; n < RUN_PROCESSES && r == 0; n++) {
                pids[n] = fork();
                if (pids[n] == 0)
                        for (;;)
                                pause();
                if (pids[n] < 0) {
                        r = -errno;
                        break;
                }
        }
        while (n-- > 0) {
                (void) kill(pids[n], SIGKILL);
                (void) waitpid(pids[n], NULL, 0);
        }
        return r;
}

static void compare(struct probe_result *ret, rlim_t plenty) {
        struct rlimit limit;
        int r;

        for (size_t i = 0; i < ARRAY_SIZE(needs); i++) {
                if (getrlimit(needs[i].resource, &limit) < 0 || limit.rlim_cur >= needs[i].least)
                        continue;
                result_fact(ret, needs[i].code, "%s is %" PRIu64 ", a run needs %" PRIu64, needs[i].name,
                            (uint64_t) limit.rlim_cur, (uint64_t) needs[i].least);
                return;
        }
        if (getrlimit(RLIMIT_NPROC, &limit) < 0 || limit.rlim_cur >= plenty)
                return;
        r = try_processes();
        if (r == -EAGAIN)
                result_fact(ret, r, "RLIMIT_NPROC is %" PRIu64 ", and %d more processes are too many",
                            (uint64_t) limit.rlim_cur, RUN_PROCESSES);
        else if (r < 0)
                result_failed(ret, r, "fork");
}

void try_limits(const struct probe_host *host, struct probe_result *ret) {
        (void) host;
        compare(ret, RLIM_INFINITY);
        if (ret->code == 0)
                result_note(ret, "files, memory, file size and processes suffice");
}

void probe_remedy(int code, struct error *err) {
        static const struct {
                int code;
                const char *remedy;
        } rows[] = {
                { -EMFILE, "raise 'ulimit -n'" },
                { -ENFILE, "raise /proc/sys/fs/file-max, or end some processes" },
                { -EAGAIN,
                  "raise 'ulimit -u' or the pids limit of the control group, or end some processes" },
                { -ENOSPC, "free some space or inodes, or set XDG_STATE_HOME to a directory elsewhere" },
                { -EDQUOT, "free some space of your quota, or set XDG_STATE_HOME to a directory elsewhere" },
        };
        size_t len;

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if (rows[i].code != code || !strstr(err->msg, strerror(-code)) || strstr(err->msg, "remedy"))
                        continue;
                len = strlen(err->msg);
                (void) snprintf(err->msg + len, sizeof(err->msg) - len, "; remedy: %s", rows[i].remedy);
        }
}

int probe_limits(const struct ctx *ctx, struct error *err) {
        struct probe_result result = { 0 };
        struct probe_row row;

        compare(&result, PROCESSES_PLENTY);
        if (result.code == 0 || probe_one(ctx, "limits", &row) == PROBE_OK)
                return 0;
        return probe_refusal(&row, err);
}
