#include "fs/discard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/hosttree.h"
#include "fs/layer.h"
#include "fs/pathfd.h"
#include "fs/settle.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

/** struct drop - one change */
struct drop {
        enum change_kind kind;
        char *path, *from; /* owned */
        mode_t mode, lower_mode;
};

struct discard {
        const struct apply_options *opt;
        struct drop *v;
        size_t n, cap;
};

static void discard_deinit(struct discard *d) {
        for (size_t i = 0; i < d->n; i++) {
                free(d->v[i].path);
                free(d->v[i].from);
        }
        free(d->v);
}

static int collect(const struct change *c, void *arg) {
        struct discard *d = arg;
        struct drop one = { .kind = c->kind,
                            .mode = c->mode,
                            .lower_mode = c->lower ? c->lower->st_mode : 0 };

        if (d->opt->choose(c, d->opt->arg) == APPLY_LEAVE)
                return 0;
        if (d->n == d->cap) {
                const size_t cap = d->cap ? d->cap * 2 : 64;
                struct drop *v = reallocarray(d->v, cap, sizeof(*v));

                if (!v)
                        return -ENOMEM;
                d->v = v;
                d->cap = cap;
        }
        one.path = strdup(c->path);
        one.from = c->from ? strdup(c->from) : NULL;
        d->v[d->n++] = one;
        return one.path && (one.from || !c->from) ? 0 : -ENOMEM;
}

/* Takes the upper object at @path away, whatever it is. */
static int remove_upper(const struct discard *d, const char *path) {
        const char *name;
        AUTO_FD int dir = pathfd_open_parent(d->opt->upper_fd, path, &name);
        int r;

        if (dir < 0)
                return dir == -ENOENT || dir == -ENOTDIR ? 0 : dir; /* with its parent */
        r = hosttree_remove(dir, name);
        return r == -ENOENT ? 0 : r;
}

/* The mode of a directory is as the host has it. */
static int restore_mode(const struct discard *d, const struct drop *one) {
        const char *name;
        AUTO_FD int dir = pathfd_open_parent(d->opt->upper_fd, one->path, &name);

        if (dir < 0)
                return dir;
        return fchmodat(dir, name, (one->lower_mode & 01777) | 0700, 0) < 0 ? -errno : 0;
}

static int drop(const struct discard *d, const struct drop *one) {
        int r;

        if (one->kind == CHANGE_MODIFIED && S_ISDIR(one->mode))
                return restore_mode(d, one);
        r = remove_upper(d, one->path);
        if (r < 0 || !one->from)
                return r;
        /* the whiteout at the old place, unless something new is there */
        {
                enum layer_kind kind = LAYER_ABSENT;
                const char *name;
                AUTO_FD int dir = pathfd_open_parent(d->opt->upper_fd, one->from, &name);

                if (dir < 0)
                        return dir == -ENOENT || dir == -ENOTDIR ? 0 : dir;
                r = layer_lookup(dir, name, &kind, NULL);
                if (r == 0 && kind == LAYER_WHITEOUT && unlinkat(dir, name, 0) < 0)
                        r = -errno;
        }
        return r;
}

static enum apply_choice nothing(const struct change *change, void *arg) {
        (void) change;
        (void) arg;
        return APPLY_LEAVE;
}

/* Children first, so that what is left of a directory is only what was not chosen. */
static int drop_all(const struct discard *d, struct error *err) {
        for (size_t i = d->n; i-- > 0;) {
                const struct drop *one = &d->v[i];
                const struct change c = { .kind = one->kind,
                                          .path = one->path,
                                          .from = one->from,
                                          .lower_path = one->path,
                                          .mode = one->mode,
                                          .upper_dir = -1,
                                          .lower_dir = -1 };
                int r = drop(d, one);

                if (r < 0)
                        return error_set(err, r, "drop '%s': %s", ESC(one->path), strerror(-r));
                r = d->opt->report ? d->opt->report(&c, d->opt->arg) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

int discard_run(const struct apply_options *opt, struct error *err) {
        const struct diff_layers layers = { opt->upper_fd, opt->lower_fd, opt->kernel };
        struct apply_options tidy = *opt;
        struct discard d = { .opt = opt };
        size_t refused = 0;
        int r;

        r = settle_flatten(opt->upper_fd, opt->lower_fd, err);
        if (r == 0)
                r = diff_walk(&layers, collect, &d, err);
        if (r == 0)
                r = drop_all(&d, err);
        discard_deinit(&d);
        tidy.choose = nothing;
        tidy.report = NULL;
        return r < 0 ? r : settle_finish(&tidy, &refused, err);
}
