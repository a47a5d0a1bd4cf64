/*
 * DOC: theory of operation
 *
 *   renamed directories (relocate.h) -> flatten -> plan (diff_walk) -> batches (transaction.h) -> seal ->
 * finish
 *
 * New directories and files come first in the order of the diff, deletions are batches of their own at the
 * end, directory modes follow them. Resuming goes on with what was cut off and plans anew, so that nothing is
 * done twice and nothing is forgotten.
 *
 * What an attacker controls: see batch.c. Everything that is not landed stays in the upper.
 */
#include "fs/apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/journal.h"
#include "fs/relocate.h"
#include "fs/settle.h"
#include "fs/transaction.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"

/** struct item - one change of the plan */
struct item {
        enum change_kind kind;
        struct journal_entry entry; /* paths owned until it is in a batch */
        bool force;
        bool alone; /* in a batch of its own: what comes later is below it */
};

struct apply {
        const struct apply_options *opt;
        struct transaction t;
        struct item *items;
        size_t n, cap;
};

static void apply_deinit(struct apply *a) {
        for (size_t i = 0; i < a->n; i++)
                free(a->items[i].entry.path);
        free(a->items);
        transaction_deinit(&a->t);
}
#define AUTO_APPLY __attribute__((cleanup(apply_deinit)))

static bool is_landable(mode_t mode) {
        return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode);
}

/* Until when the work saw the lower object, so that what changed below a directory later is a conflict: a
 * whiteout says it, else it was there before the object that took its place was made. */
static int64_t gone_since(const struct change *c) {
        const int64_t changed = layer_origin_of(c->lower).ctime_ns;
        int64_t made;

        if (c->kind == CHANGE_DELETED)
                return layer_origin_of(c->upper).mtime_ns;
        made = S_ISDIR(c->lower->st_mode) ? diff_born(c->upper_dir, path_basename(c->path)) : 0;
        return made > changed ? made : changed;
}

static int add_item(struct apply *a, const struct change *c, bool force) {
        const bool dir = S_ISDIR(c->mode);
        struct item item = {
                .kind = c->kind,
                .force = force,
                .alone = c->kind == CHANGE_TYPE && dir,
                .entry = { .op = c->kind == CHANGE_DELETED ? JOURNAL_DELETE
                                 : dir && !c->lower        ? JOURNAL_MKDIR
                                                           : JOURNAL_PUT,
                           .upper = layer_origin_of(c->upper) },
        };

        if (a->n == a->cap) {
                const size_t cap = a->cap ? a->cap * 2 : 64;
                struct item *items = reallocarray(a->items, cap, sizeof(*items));

                if (!items)
                        return -ENOMEM;
                a->items = items;
                a->cap = cap;
        }
        item.entry.path = strdup(c->path);
        if (!item.entry.path)
                return -ENOMEM;
        if (c->lower) {
                item.entry.lower = layer_origin_of(c->lower);
                item.entry.since_ns = gone_since(c);
        }
        a->items[a->n++] = item;
        return 0;
}

enum apply_choice apply_choose(const struct apply_options *opt, const struct change *c) {
        const enum apply_choice choice = opt->choose ? opt->choose(c, opt->arg) : APPLY_TAKE;

        return choice == APPLY_TAKE && opt->force ? APPLY_FORCE : choice;
}

/* A directory whose mode the work changed in an overlay of the kernel: what lands in it makes it look changed
 * by the host. The record says from now on which mode was replaced. */
static void note_mode(const struct change *c) {
        const struct layer_origin origin = layer_origin_of(c->lower);

        (void) !layer_claim(c->upper_dir, path_basename(c->path), &origin);
}

/* One change of the diff. */
static int plan(const struct change *c, void *arg) {
        struct apply *a = arg;
        const enum apply_choice choice = apply_choose(a->opt, c);

        if (a->opt->kernel && c->kind == CHANGE_MODIFIED && S_ISDIR(c->mode) && !c->conflict)
                note_mode(c);
        if (choice == APPLY_LEAVE)
                return 0;
        if (c->error != 0)
                return transaction_refuse(&a->t, c, c->error);
        if (c->kind != CHANGE_DELETED && !is_landable(c->mode))
                return transaction_refuse(&a->t, c, -EOPNOTSUPP);
        if (c->conflict && choice != APPLY_FORCE)
                return transaction_refuse(&a->t, c, 0);
        if (c->kind == CHANGE_MODIFIED && S_ISDIR(c->mode))
                return 0; /* settle_finish() lands modes */
        if (c->kind == CHANGE_RENAMED)
                return transaction_refuse(&a->t, c, c->conflict ? 0 : -ENOENT); /* relocate_all() left it */
        if (!c->upper)
                return transaction_refuse(&a->t, c,
                                          0); /* hidden by a directory that could not be flattened */
        return add_item(a, c, choice == APPLY_FORCE);
}

/* Carries out the items that are deletions, or those that are not. */
static int run_items(struct apply *a, bool deletions) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < a->n; i++) {
                struct item *item = &a->items[i];

                if (item->entry.path && (item->entry.op == JOURNAL_DELETE) == deletions)
                        r = transaction_push(&a->t, item->kind, &item->entry, item->force, item->alone);
        }
        return r < 0 ? r : transaction_flush(&a->t);
}

static int land_all(struct apply *a) {
        const struct diff_layers layers = { a->opt->upper_fd, a->opt->lower_fd, a->opt->kernel };
        int r;

        r = relocate_all(&a->t);
        if (r == 0)
                r = settle_flatten(a->opt->upper_fd, a->opt->lower_fd, a->t.err);
        if (r == 0)
                r = diff_walk(&layers, plan, a, a->t.err);
        if (r == 0)
                r = run_items(a, false);
        if (r == 0)
                r = run_items(a, true);
        return r;
}

/* Lands everything, or what comes before a failure. */
static int land(struct apply *a) {
        int r, sealed = 0;

        r = land_all(a);
        /* a batch that was cut off is for --continue or --abort, and with it all before it */
        if (!a->t.cut_off)
                sealed = transaction_seal(&a->t);
        if (r == 0)
                r = sealed;
        return r < 0 ? r : settle_finish(a->opt, &a->t.refused, a->t.err);
}

int apply_run(const struct apply_options *opt, struct error *err) {
        AUTO_APPLY struct apply a = { .opt = opt };
        uint32_t region;
        int r;

        r = apply_pending(opt->run_fd, &region, err);
        if (r < 0)
                return r;
        if (r > 0)
                return error_set(
                        err, -EBUSY,
                        "an apply of this run was cut off: finish it with --continue, or undo it with "
                        "--abort");
        r = transaction_init(&a.t, opt, err);
        if (r == 0)
                r = land(&a);
        if (r < 0)
                return r;
        return a.t.refused > INT32_MAX ? INT32_MAX : (int) a.t.refused;
}

int apply_pending(int run_fd, uint32_t *ret_region, struct error *err) {
        return transaction_pending(run_fd, ret_region, err);
}

/* Whether there is a transaction of this region to go on with. */
static int check_pending(const struct apply_options *opt, struct error *err) {
        uint32_t region = 0;
        int r;

        r = apply_pending(opt->run_fd, &region, err);
        if (r < 0)
                return r;
        if (r == 0)
                return error_set(err, -ENOENT, "no apply of this run was cut off");
        return region == opt->region
                       ? 0
                       : error_set(err, -EINVAL, "the apply that was cut off is of region %u, not %u", region,
                                   opt->region);
}

int apply_resume(const struct apply_options *opt, struct error *err) {
        int r;

        r = check_pending(opt, err);
        if (r == 0)
                r = transaction_resume(opt, err);
        return r < 0 ? r : apply_run(opt, err);
}

int apply_abort(const struct apply_options *opt, struct error *err) {
        size_t refused = 0;
        int r;

        r = check_pending(opt, err);
        if (r == 0)
                r = transaction_abort(opt, &refused, err);
        if (r < 0)
                return r;
        return refused > INT32_MAX ? INT32_MAX : (int) refused;
}
