#include "runtime/run/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fs/diff.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

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
        const char *source = json_string_value(json_object_get(region, "source"));
        char name[24];
        AUTO_FD int upper = -1, lower = -1;
        int r;

        (void) snprintf(name, sizeof(name), "%" JSON_INTEGER_FORMAT,
                        json_integer_value(json_object_get(region, "index")));
        upper = open_beneath(dir->upper_fd, name, O_RDONLY | O_DIRECTORY, 0);
        if (upper < 0 || is_empty(upper))
                return;
        lower = source ? open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        r = lower < 0 ? -errno : diff_walk(upper, lower, tally, t, NULL);
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
