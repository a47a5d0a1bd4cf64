#include "runtime/run/alone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/path.h"
#include "runtime/run/list.h"

/** struct search - for whoever works where we want to be alone */
struct search {
        const char *own_id;
        const json_t *workspace; /* row of "regions" */
        struct alone *ret;
};

static const char *text_of(const json_t *row, const char *key) {
        const char *text = json_string_value(json_object_get(row, key));

        return text ? text : "";
}

/* Whether what is done in the region reaches the host while the run lives, or when a command of it ends. */
static bool writes(const json_t *row) {
        const char *kind = text_of(row, "kind");

        return strcmp(kind, "direct") == 0 || strcmp(kind, "staged") == 0;
}

static bool is_number(const json_t *a, const json_t *b, const char *key) {
        const json_t *x = json_object_get(a, key), *y = json_object_get(b, key);

        return x && y && json_integer_value(x) == json_integer_value(y);
}

/* The same directory, or one below the other. What cannot be told is not: whoever writes is seen. */
static bool overlap(const json_t *a, const json_t *b) {
        AUTO_FREE char *x = NULL, *y = NULL;

        if (is_number(a, b, "dev") && is_number(a, b, "ino"))
                return true;
        x = realpath(text_of(a, "source"), NULL);
        y = realpath(text_of(b, "source"), NULL);
        return x && y && (path_below(x, y) || path_below(y, x));
}

static int on_run(const struct listed_run *run, void *arg) {
        const struct search *search = arg;
        const json_t *rows;

        if ((run->status != RUN_STARTING && run->status != RUN_RUNNING) ||
            strcmp(run->dir->id, search->own_id) == 0)
                return 0;
        rows = run_regions(run->state);
        for (size_t i = 0; i < json_array_size(rows); i++) {
                const json_t *row = json_array_get(rows, i);

                if (!writes(row) || !overlap(row, search->workspace))
                        continue;
                (void) snprintf(search->ret->why, sizeof(search->ret->why), "run %s writes in '%.150s'",
                                run->dir->id, ESC(text_of(row, "source")));
                return -EBUSY;
        }
        return 0;
}

int alone_look(const struct ctx *ctx, const struct run_dir *dir, const struct driver_ops *driver,
               const struct driver_plan *plan, struct alone *ret, struct error *err) {
        AUTO_JSON json_t *text = driver->describe(plan);
        struct search search = { .own_id = dir->id, .ret = ret };
        int r;

        search.workspace = json_array_get(json_object_get(text, "regions"), 0);
        if (strcmp(text_of(search.workspace, "cache"), "exclusive") != 0)
                return 0;
        /* two that start at once see each other: one has a state when the other one looks */
        ret->lock_fd = openat(dir->runs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->lock_fd < 0 || flock(ret->lock_fd, LOCK_EX) < 0)
                return error_set(err, -errno, "lock the runs in '%s': %s", ESC(ctx->state_dir),
                                 strerror(errno));
        r = runs_each(ctx, on_run, &search, err);
        return r == -EBUSY ? 0 : r;
}

void alone_done(struct alone *a) {
        if (a->lock_fd >= 0)
                (void) flock(a->lock_fd, LOCK_UN); /* a child may have the descriptor too */
        a->lock_fd = fd_close(a->lock_fd);
}
