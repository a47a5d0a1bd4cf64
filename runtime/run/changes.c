#include "runtime/run/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "fs/diff.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"
#include "runtime/run/region.h"

enum { BURY_STEP_MS = 10, BURY_STEPS = 200 };

/* Whether the directory open as @fd (borrowed) holds anything. */
static bool is_empty(int fd) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        AUTO_FD int copy = -1;

        copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (copy < 0)
                return false;
        d = fdopendir(copy);
        if (!d)
                return false;
        copy = -1; /* owned by d */
        while ((e = readdir(d)))
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                        return false;
        return true;
}

struct tally {
        uint32_t count, limit;
};

static int tally(const struct change *change, void *arg) {
        struct tally *t = arg;

        (void) change;
        return ++t->count >= t->limit ? -E2BIG : 0;
}

/* Counts the changes of one region into @t. */
static void count_region(const struct run_dir *dir, const json_t *region, struct tally *t) {
        char name[24];
        AUTO_FD int upper = -1, lower = -1;
        int r;

        (void) snprintf(name, sizeof(name), "%" JSON_INTEGER_FORMAT,
                        json_integer_value(json_object_get(region, "index")));
        upper = run_dir_upper(dir, name);
        if (upper == -ENOENT || (upper >= 0 && is_empty(upper)))
                return;
        if (upper < 0) { /* nobody knows: it is kept, and said when somebody looks */
                t->count++;
                return;
        }
        lower = run_region_source(region, false, NULL);
        r = lower < 0 ? lower
                      : diff_walk(&(struct diff_layers){ .upper_fd = upper, .lower_fd = lower }, tally, t,
                                  NULL);
        if (r < 0 && r != -E2BIG)
                t->count++;
}

uint32_t run_changes_count(const struct run_dir *dir, const json_t *state, uint32_t limit) {
        const json_t *regions = run_regions(state);
        struct tally t = { .limit = limit };

        for (size_t i = 0; i < json_array_size(regions) && t.count < limit; i++)
                count_region(dir, json_array_get(regions, i), &t);
        return t.count;
}

/* Waits until no file server writes to the upper @fd (borrowed): each keeps a lock on its own. */
static bool is_left(int fd) {
        const struct timespec step = { .tv_nsec = BURY_STEP_MS * 1000000L };

        for (int i = 0; i < BURY_STEPS; i++) {
                if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                        return true;
                (void) nanosleep(&step, NULL);
        }
        return false;
}

/* Whether the run directory is gone now, by us or by the supervisor before it died. */
static bool removed(struct run_dir *dir) {
        const int r = run_dir_remove(dir);

        return r == 0 || r == -ENOENT;
}

/* Whether @name, in the directory of the uppers, is that of a region of @state, which tells what changed. */
static bool is_region(const json_t *state, const char *name) {
        const json_t *regions = run_regions(state);

        for (size_t i = 0; i < json_array_size(regions); i++) {
                char index[24];

                (void) snprintf(index, sizeof(index), "%" JSON_INTEGER_FORMAT,
                                json_integer_value(json_object_get(json_array_get(regions, i), "index")));
                if (strcmp(index, name) == 0)
                        return true;
        }
        return false;
}

bool run_bury(struct run_dir *dir, const json_t *state) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        int fd;

        if (run_dir_unmake(dir))
                return true;
        fd = openat(dir->upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT)
                return removed(dir); /* somebody was about to */
        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d) {
                (void) fd_close(fd);
                return false;
        }
        while ((e = readdir(d))) {
                AUTO_FD int upper = -1;

                if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                        continue;
                upper = run_dir_upper(dir, e->d_name);
                if (upper < 0 || !is_left(upper) || !(is_empty(upper) || is_region(state, e->d_name)))
                        return false;
        }
        /* a directory on the way to a file that did not come is no change */
        return run_changes_count(dir, state, 1) == 0 && removed(dir);
}
