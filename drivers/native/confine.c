#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "drivers/native/setup.h"
#include "runtime/base/caps.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

enum { ARGS_MAX = 8 << 20, TITLE_MAX = 512 };

int confine_caps(void) {
        return caps_keep(0);
}

void confine_memory(const char *title) {
        char *args = program_invocation_name;
        /* the kernel lays out: arguments, environment, name of the executable */
        char *end = (char *) (uintptr_t) getauxval(AT_EXECFN);

        if (args && args < end && end - args < ARGS_MAX) {
                char shown[TITLE_MAX];

                (void) snprintf(shown, sizeof(shown), "%s: %s", args, title);
                explicit_bzero(args, (size_t) (end - args));
                (void) snprintf(args, (size_t) (end - args), "%s", shown);
        }
        environ = NULL;
        (void) prctl(PR_SET_NAME, title, 0, 0, 0);
}

static int by_number(const void *a, const void *b) {
        const int x = *(const int *) a, y = *(const int *) b;

        return (x > y) - (x < y);
}

void confine_fds(const int *keep, size_t n) {
        int sorted[PLAN_SEEDS_MAX + OS_DIRS_MAX + 3 * PLAN_REGIONS_MAX + PLAN_BYPASS_MAX +
                   8]; /* init_close() */
        int first = 3;

        assert(n <= ARRAY_SIZE(sorted)); /* a caller's list outgrew the plan's limits */
        memcpy(sorted, keep, n * sizeof(*keep));
        qsort(sorted, n, sizeof(*sorted), by_number);
        for (size_t i = 0; i < n; i++) {
                if (sorted[i] < first)
                        continue;
                if (sorted[i] > first)
                        (void) sys_close_range((unsigned int) first, (unsigned int) sorted[i] - 1, 0);
                first = sorted[i] + 1;
        }
        (void) sys_close_range((unsigned int) first, ~0U, 0);
}

static int null_stdio(void) {
        AUTO_FD int null = -1;

        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                return -errno;
        for (int i = 0; i < 3; i++)
                if (dup2(null, i) < 0)
                        return -errno;
        return 0;
}

int confine_helper(const struct confine_helper *helper) {
        const struct native_id *id = helper->id;
        int r;

        if (id->switch_user && (setresgid(id->host_gid, id->host_gid, id->host_gid) < 0 ||
                                setresuid(id->host_uid, id->host_uid, id->host_uid) < 0))
                return -errno;
        r = confine_caps();
        if (r < 0)
                return r;
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_PDEATHSIG, helper->death_signal, 0, 0, 0) < 0 ||
            prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || setpgid(0, 0) < 0)
                return -errno;
        if (getppid() != helper->parent)
                return -ESRCH; /* it died before the lines above */
        confine_fds(helper->keep, helper->n_keep);
        confine_memory(helper->title);
        return null_stdio();
}
