/*
 * DOC: theory of operation
 *
 *   flatten -> plan (diff_walk) -> batches of JOURNAL_ENTRIES_MAX -> finish
 *
 * A batch: journal(STAGE) -> stage -> journal(COMMIT) -> commit -> sync -> clean the upper -> journal
 * removed. Cut off in STAGE, nothing is visible yet: apply_resume() takes the temporary objects away. Cut off
 * in COMMIT, it goes forward. Then it plans anew, so that nothing is done twice and nothing is forgotten. New
 * directories and files come first in the order of the diff, deletions are batches of their own at the end,
 * directory modes follow them.
 *
 * What an attacker controls: see batch.c. Everything that is not landed stays in the upper.
 */
#include "fs/apply.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fs/batch.h"
#include "fs/journal.h"
#include "fs/settle.h"
#include "runtime/base/cleanup.h"

/** struct item - one change of the plan */
struct item {
        enum change_kind kind;
        enum journal_op op;
        char *path; /* owned until it is in a batch */
        struct layer_origin lower, upper;
        int64_t since_ns;
        bool alone; /* in a batch of its own: what comes later is below it */
};

struct apply {
        const struct apply_options *opt;
        struct error *err;
        struct item *items;
        size_t n, cap;
        size_t refused;
        size_t batch_max; /* entries of a batch: each pins a directory */
        struct journal *journal;
        const struct item *batch[JOURNAL_ENTRIES_MAX]; /* items of the journal's entries */
};

static void apply_deinit(struct apply *a) {
        for (size_t i = 0; i < a->n; i++)
                free(a->items[i].path);
        free(a->items);
        a->journal = journal_free(a->journal);
}
#define AUTO_APPLY __attribute__((cleanup(apply_deinit)))

/* Room for the directories of a batch, for the walks and for the caller's own. */
static size_t batch_max(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 >= JOURNAL_ENTRIES_MAX)
                return JOURNAL_ENTRIES_MAX;
        return limit.rlim_cur < 8 ? 1 : (size_t) limit.rlim_cur / 4;
}

static int apply_init(struct apply *a) {
        a->journal = calloc(1, sizeof(*a->journal));
        if (!a->journal)
                return error_set(a->err, -ENOMEM, "out of memory");
        a->journal->region = a->opt->region;
        a->journal->force = a->opt->force;
        a->batch_max = batch_max();
        return 0;
}

static void step(const struct apply *a, const char *what) {
        if (a->opt->step)
                a->opt->step(what, a->opt->step_arg);
}

static int report(const struct apply *a, const struct change *c) {
        return a->opt->report ? a->opt->report(c, a->opt->arg) : 0;
}

static bool is_landable(mode_t mode) {
        return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode);
}

/* The change does not land. @error: why, 0: conflict */
static int refuse(struct apply *a, const struct change *change, int error) {
        struct change c = *change;

        c.error = error;
        c.conflict = error == 0;
        c.upper = c.lower = NULL;
        a->refused++;
        return report(a, &c);
}

static int add_item(struct apply *a, const struct change *c) {
        const bool dir = S_ISDIR(c->mode);
        struct item item = {
                .kind = c->kind,
                .op = c->kind == CHANGE_DELETED ? JOURNAL_DELETE
                      : dir && !c->lower        ? JOURNAL_MKDIR
                                                : JOURNAL_PUT,
                .upper = layer_origin_of(c->upper),
                .alone = c->kind == CHANGE_TYPE && dir,
        };

        if (a->n == a->cap) {
                const size_t cap = a->cap ? a->cap * 2 : 64;
                struct item *items = reallocarray(a->items, cap, sizeof(*items));

                if (!items)
                        return -ENOMEM;
                a->items = items;
                a->cap = cap;
        }
        item.path = strdup(c->path);
        if (!item.path)
                return -ENOMEM;
        if (c->lower) {
                item.lower = layer_origin_of(c->lower);
                item.since_ns = item.op == JOURNAL_DELETE ? item.upper.mtime_ns : item.lower.ctime_ns;
        }
        a->items[a->n++] = item;
        return 0;
}

/* One change of the diff. */
static int plan(const struct change *c, void *arg) {
        struct apply *a = arg;

        if (c->error != 0)
                return refuse(a, c, c->error);
        if (c->kind != CHANGE_DELETED && !is_landable(c->mode))
                return refuse(a, c, -EOPNOTSUPP);
        if (c->conflict && !a->opt->force)
                return refuse(a, c, 0);
        if (c->kind == CHANGE_RENAMED)
                return refuse(a, c, -EXDEV);
        if (c->kind == CHANGE_MODIFIED && S_ISDIR(c->mode))
                return 0; /* settle_finish() lands modes */
        if (!c->upper)
                return refuse(a, c, 0); /* hidden by a directory that could not be flattened */
        return add_item(a, c);
}

/* Says how each entry of the batch ended. */
static int report_batch(struct apply *a, const struct batch *b) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < b->journal->n; i++) {
                const struct slot *slot = &b->slots[i];
                const struct item *item = a->batch[i];
                struct change c = { .kind = item->kind, .path = b->journal->entries[i].path };

                c.mode = item->op == JOURNAL_DELETE ? item->lower.mode : item->upper.mode;
                c.size = item->op == JOURNAL_PUT ? item->upper.size : 0;
                if (slot->state == SLOT_LANDED)
                        r = report(a, &c);
                else
                        r = refuse(a, &c, slot->why == -ESTALE || slot->why == -EEXIST ? 0 : slot->why);
        }
        return r;
}

static int commit_error(struct apply *a, int r) {
        return error_set(a->err, r, "apply was cut off: %s; finish it with --continue", strerror(-r));
}

/* Stages and commits a->journal. */
static int run_batch(struct apply *a) {
        AUTO_BATCH struct batch b;
        int r;

        batch_init(&b, a->opt, a->journal);
        a->journal->phase = JOURNAL_STAGE;
        if (getrandom(&a->journal->tx, sizeof(a->journal->tx), 0) < 0)
                return error_set(a->err, -errno, "getrandom: %s", strerror(errno));
        r = journal_store(a->opt->run_fd, a->journal, a->err);
        if (r < 0)
                return r;
        r = batch_stage(&b);
        if (r < 0)
                error_set(a->err, r, "prepare files on the host: %s", strerror(-r));
        if (r == 0) {
                step(a, "journal");
                a->journal->phase = JOURNAL_COMMIT;
                r = journal_store(a->opt->run_fd, a->journal, a->err);
        }
        if (r < 0) {
                batch_rollback(&b);
                (void) !journal_remove(a->opt->run_fd, NULL);
                return r;
        }
        r = batch_commit(&b);
        if (r < 0)
                return commit_error(a, r);
        step(a, "close journal");
        r = journal_remove(a->opt->run_fd, a->err);
        return r < 0 ? r : report_batch(a, &b);
}

static int flush(struct apply *a) {
        int r;

        if (a->journal->n == 0)
                return 0;
        r = run_batch(a);
        journal_clear(a->journal);
        return r;
}

/* Puts the item, whose path moves, into the batch. */
static int push(struct apply *a, struct item *item) {
        struct journal *j = a->journal;
        int r;

        if (j->n == a->batch_max || item->alone) {
                r = flush(a);
                if (r < 0)
                        return r;
        }
        a->batch[j->n] = item;
        j->entries[j->n++] = (struct journal_entry){ .op = item->op,
                                                     .path = TAKE_PTR(item->path),
                                                     .lower = item->lower,
                                                     .upper = item->upper,
                                                     .since_ns = item->since_ns };
        return item->alone ? flush(a) : 0;
}

/* Carries out the items that are deletions, or those that are not. */
static int run_items(struct apply *a, bool deletions) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < a->n; i++)
                if ((a->items[i].op == JOURNAL_DELETE) == deletions)
                        r = push(a, &a->items[i]);
        return r < 0 ? r : flush(a);
}

static int land_all(struct apply *a) {
        const struct diff_layers layers = { a->opt->upper_fd, a->opt->lower_fd, a->opt->kernel };
        int r;

        r = settle_flatten(a->opt->upper_fd, a->opt->lower_fd, a->err);
        if (r == 0)
                r = diff_walk(&layers, plan, a, a->err);
        if (r == 0)
                r = run_items(a, false);
        if (r == 0)
                r = run_items(a, true);
        if (r == 0)
                r = settle_finish(a->opt, &a->refused, a->err);
        return r;
}

int apply_run(const struct apply_options *opt, struct error *err) {
        AUTO_APPLY struct apply a = { .opt = opt, .err = err };
        uint32_t region;
        int r;

        r = apply_pending(opt->run_fd, &region, err);
        if (r < 0)
                return r;
        if (r > 0)
                return error_set(err, -EBUSY, "an apply of this run was cut off: finish it with --continue");
        r = apply_init(&a);
        if (r == 0)
                r = land_all(&a);
        if (r < 0)
                return r;
        return a.refused > INT32_MAX ? INT32_MAX : (int) a.refused;
}

int apply_pending(int run_fd, uint32_t *ret_region, struct error *err) {
        AUTO_JOURNAL struct journal *j = NULL;
        int r;

        r = journal_load(run_fd, &j, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        *ret_region = j->region;
        return 1;
}

/* Finishes the batch in @j. */
static int resume_batch(const struct apply_options *opt, struct journal *j, struct error *err) {
        AUTO_BATCH struct batch b;
        int r = 0;

        batch_init(&b, opt, j);
        if (j->phase == JOURNAL_STAGE)
                batch_rollback(&b);
        else
                r = batch_commit(&b);
        if (r < 0)
                return error_set(err, r, "finish what apply began: %s", strerror(-r));
        return journal_remove(opt->run_fd, err);
}

int apply_resume(const struct apply_options *opt, struct error *err) {
        AUTO_JOURNAL struct journal *j = NULL;
        int r;

        r = journal_load(opt->run_fd, &j, err);
        if (r == -ENOENT)
                return error_set(err, -ENOENT, "no apply of this run was cut off");
        if (r < 0)
                return r;
        if (j->region != opt->region)
                return error_set(err, -EINVAL, "the apply that was cut off is of region %u, not %u",
                                 j->region, opt->region);
        r = resume_batch(opt, j, err);
        return r < 0 ? r : apply_run(opt, err);
}
