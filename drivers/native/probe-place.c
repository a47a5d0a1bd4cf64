/*
 * The directory that a probe makes where runs are recorded: locked while it is in use, so that one whose
 * prober was killed is known.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/native/probe-kit.h"
#include "drivers/native/probe.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

enum { TRIES = 8, LEVELS = 3 /* what overlayfs and the probes leave */ };

static const char prefix[] = ".cofferdam-probe-";

/* Not by openat2(2), which has a row of its own. */
static int open_dir(int dir, const char *name) {
        const int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int probe_place_open(const char *path) {
        char at[PATH_MAX];
        char *slash;
        int fd;

        (void) snprintf(at, sizeof(at), "%s", path);
        do {
                fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                slash = strrchr(at, '/');
                if (slash)
                        slash[slash == at] = 0;
        } while (fd < 0 && errno == ENOENT && slash && at[1]);
        return fd < 0 ? -errno : fd;
}

/* One that is swept between its making and the lock is made again. */
int probe_place_make(int dir, char name[PROBE_NAME_MAX]) {
        int r = -EEXIST;

        for (int i = 0; i < TRIES && (r == -EEXIST || r == -ENOENT); i++) {
                AUTO_FD int fd = -1;

                (void) snprintf(name, PROBE_NAME_MAX, "%s%d-%llx", prefix, getpid(),
                                (unsigned long long) clock_ns());
                if (mkdirat(dir, name, 0700) < 0) {
                        r = -errno;
                        continue;
                }
                fd = open_dir(dir, name);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        return TAKE_FD(fd);
                r = fd < 0 ? fd : -errno;
        }
        return r;
}

static void remove_below(int dir, const char *name, int levels) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        int fd;

        if (fchmodat(dir, name, 0700, 0) < 0) /* overlayfs closes its own directory */
                return;
        fd = open_dir(dir, name);
        d = fd < 0 ? NULL : fdopendir(fd);
        while (d && (e = readdir(d))) {
                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
                    unlinkat(fd, e->d_name, 0) == 0)
                        continue;
                if (levels > 0)
                        remove_below(fd, e->d_name, levels - 1);
        }
        (void) unlinkat(dir, name, AT_REMOVEDIR);
}

void probe_place_remove(int dir, const char *name) {
        remove_below(dir, name, LEVELS);
}

void probe_sweep(const struct ctx *ctx) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        int dir;

        if (!ctx->state_dir)
                return;
        dir = probe_place_open(ctx->state_dir);
        d = dir < 0 ? NULL : fdopendir(dir);
        while (d && (e = readdir(d))) {
                AUTO_FD int fd = -1;

                if (strncmp(e->d_name, prefix, sizeof(prefix) - 1) != 0)
                        continue;
                fd = open_dir(dir, e->d_name);
                if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
                        probe_place_remove(dir, e->d_name);
        }
}
