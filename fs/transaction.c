/*
 * DOC: theory of operation
 *
 * A batch: journal(STAGE) -> stage -> journal(COMMIT) -> commit -> sync -> journal.done, journal removed.
 * When the last has landed: journal.done becomes journal.final, what was replaced is removed, the upper is
 * cleaned, the list is removed.
 *
 * Cut off in STAGE, nothing of the batch is visible but new directories. Cut off in COMMIT, it can go either
 * way. With journal.final there is no way back: everything has landed.
 */
#include "fs/transaction.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "runtime/base/cleanup.h"

/* Room for the directories of a batch, for the walks and for the caller's own. */
static size_t batch_max(void) {
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 4 >= JOURNAL_ENTRIES_MAX)
                return JOURNAL_ENTRIES_MAX;
        return limit.rlim_cur < 8 ? 1 : (size_t) limit.rlim_cur / 4;
}

int transaction_init(struct transaction *t, const struct apply_options *opt, struct error *err) {
        *t = (struct transaction){ .opt = opt, .err = err, .batch_max = batch_max() };
        t->journal = calloc(1, sizeof(*t->journal));
        if (!t->journal)
                return error_set(err, -ENOMEM, "out of memory");
        t->journal->region = opt->region;
        return 0;
}

void transaction_deinit(struct transaction *t) {
        t->journal = journal_free(t->journal);
}

static void step(const struct apply_options *opt, const char *what) {
        if (opt->step)
                opt->step(what, opt->step_arg);
}

static int report(const struct transaction *t, const struct change *c) {
        return t->opt->report ? t->opt->report(c, t->opt->arg) : 0;
}

int transaction_refuse(struct transaction *t, const struct change *change, int error) {
        struct change c = *change;

        c.error = error;
        c.conflict = error == 0;
        c.upper = c.lower = NULL;
        c.upper_dir = c.lower_dir = -1;
        t->refused++;
        return report(t, &c);
}

/* An entry as a change. */
static struct change change_of(const struct journal_entry *e, enum change_kind kind) {
        return (struct change){ .kind = kind,
                                .path = e->path,
                                .from = e->from,
                                .lower_path = e->from ? e->from : e->path,
                                .mode = e->op == JOURNAL_DELETE ? e->lower.mode : e->upper.mode,
                                .size = e->op == JOURNAL_PUT ? e->upper.size : 0,
                                .upper_dir = -1,
                                .lower_dir = -1 };
}

static int conflict_or(int why) {
        return why == -ESTALE || why == -EEXIST ? 0 : why;
}

/* Says how each entry of the batch ended. */
static int report_batch(struct transaction *t, const struct batch *b) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < b->journal->n; i++) {
                const struct slot *slot = &b->slots[i];
                const struct change c = change_of(&b->journal->entries[i], t->kinds[i]);

                r = slot->state == SLOT_LANDED ? report(t, &c)
                                               : transaction_refuse(t, &c, conflict_or(slot->why));
        }
        return r;
}

static int commit_error(struct transaction *t, int r) {
        t->cut_off = true;
        return error_set(t->err, r,
                         "apply was cut off: %s; finish it with --continue, or undo it with --abort",
                         strerror(-r));
}

/* Marks what did not land; each keeps its place, which names the temporary object. */
static void mark_refused(const struct batch *b) {
        for (size_t i = 0; i < b->journal->n; i++) {
                struct journal_entry *e = &b->journal->entries[i];

                if (b->slots[i].state == SLOT_LANDED)
                        continue;
                e->op = JOURNAL_REFUSED;
                free(e->from);
                e->from = NULL;
        }
}

/* Stages and commits the journal. */
static int run_batch(struct transaction *t) {
        AUTO_BATCH struct batch b;
        const int run_fd = t->opt->run_fd;
        int r, said;

        batch_init(&b, t->opt, t->journal);
        t->journal->phase = JOURNAL_STAGE;
        if (getrandom(&t->journal->tx, sizeof(t->journal->tx), 0) < 0)
                return error_set(t->err, -errno, "getrandom: %s", strerror(errno));
        r = journal_store(run_fd, t->journal, t->err);
        if (r < 0)
                return r;
        r = batch_stage(&b);
        if (r < 0)
                error_set(t->err, r, "prepare files on the host: %s", strerror(-r));
        if (r == 0) {
                step(t->opt, "journal");
                t->journal->phase = JOURNAL_COMMIT;
                r = journal_store(run_fd, t->journal, t->err);
        }
        if (r < 0) {
                batch_rollback(&b);
                (void) !journal_remove(run_fd, NULL);
                return r;
        }
        r = batch_commit(&b);
        if (r < 0)
                return commit_error(t, r);
        said = report_batch(t, &b);
        step(t->opt, "close journal");
        mark_refused(&b);
        r = journal_append(run_fd, t->journal, t->err);
        t->cut_off = r < 0;
        return r < 0 ? r : said;
}

int transaction_flush(struct transaction *t) {
        int r;

        if (t->journal->n == 0)
                return 0;
        r = run_batch(t);
        journal_clear(t->journal);
        return r;
}

int transaction_push(struct transaction *t, enum change_kind kind, struct journal_entry *entry, bool force,
                     bool alone) {
        struct journal *j = t->journal;
        int r;

        if (j->n == t->batch_max || alone || (j->n > 0 && j->force != force)) {
                r = transaction_flush(t);
                if (r < 0)
                        return r;
        }
        j->force = force;
        t->kinds[j->n] = kind;
        j->entries[j->n++] = TAKE(*entry, (struct journal_entry){ 0 });
        return alone ? transaction_flush(t) : 0;
}

/** struct sealing - batches being made final */
struct sealing {
        const struct apply_options *opt;
        struct transaction *t; /* who hears of what does not stay, NULL: nobody */
};

static int finish_batch(struct journal *j, void *arg) {
        const struct sealing *s = arg;
        AUTO_BATCH struct batch b;
        int r;

        batch_init(&b, s->opt, j);
        r = batch_finish(&b);
        for (size_t i = 0; r == 0 && s->t && i < j->n; i++) {
                struct change c = change_of(&j->entries[i], CHANGE_MODIFIED);

                c.kind = j->entries[i].op == JOURNAL_DELETE ? CHANGE_DELETED : CHANGE_MODIFIED;
                if (b.slots[i].state == SLOT_REFUSED)
                        r = transaction_refuse(s->t, &c, conflict_or(b.slots[i].why));
        }
        return r;
}

static int seal(struct sealing *s, struct error *err) {
        const int run_fd = s->opt->run_fd;
        const int list = journal_list(run_fd);
        int r = 0;

        if (list <= JOURNAL_NONE)
                return list < 0 ? error_set(err, list, "read the journal of the run: %s", strerror(-list))
                                : 0;
        step(s->opt, "seal");
        if (list == JOURNAL_DONE)
                r = journal_seal(run_fd, err);
        if (r == 0)
                r = journal_each(run_fd, false, finish_batch, s, err);
        step(s->opt, "forget");
        return r < 0 ? r : journal_forget(run_fd, err);
}

int transaction_seal(struct transaction *t) {
        struct sealing s = { .opt = t->opt, .t = t };
        const int r = seal(&s, t->err);

        return r < 0 ? error_set(t->err, r, "tidy up after what has landed: %s; do it with --continue",
                                 strerror(-r))
                     : 0;
}

static int first_region(struct journal *j, void *arg) {
        *(uint32_t *) arg = j->region;
        return -ECANCELED; /* one is enough */
}

int transaction_pending(int run_fd, uint32_t *ret_region, struct error *err) {
        AUTO_JOURNAL struct journal *j = NULL;
        int r;

        r = journal_load(run_fd, &j, err);
        if (r == 0)
                *ret_region = j->region;
        if (r != -ENOENT)
                return r < 0 ? r : 1;
        r = journal_each(run_fd, false, first_region, ret_region, err);
        return r == -ENOENT ? 0 : r == -ECANCELED ? 1 : r < 0 ? r : 0;
}

/* Carries the open batch to its end. */
static int resume_batch(const struct apply_options *opt, struct journal *j, struct error *err) {
        AUTO_BATCH struct batch b;
        int r = 0;

        batch_init(&b, opt, j);
        if (j->phase == JOURNAL_STAGE)
                batch_rollback(&b);
        else
                r = batch_commit(&b);
        if (r == 0 && j->phase == JOURNAL_COMMIT)
                r = batch_finish(&b);
        return r < 0 ? error_set(err, r, "finish what apply began: %s", strerror(-r)) : 0;
}

int transaction_resume(const struct apply_options *opt, struct error *err) {
        struct sealing s = { .opt = opt };
        AUTO_JOURNAL struct journal *j = NULL;
        int r;

        r = journal_load(opt->run_fd, &j, err);
        if (r < 0 && r != -ENOENT)
                return r;
        /* the batches before it are final first: from here on there is no way back */
        r = seal(&s, err);
        if (r == 0 && j)
                r = resume_batch(opt, j, err);
        return r < 0 || !j ? r : journal_remove(opt->run_fd, err);
}

/** struct undoing - batches being undone */
struct undoing {
        const struct apply_options *opt;
        size_t refused;
};

static int undo_batch(struct journal *j, void *arg) {
        struct undoing *u = arg;
        AUTO_BATCH struct batch b;
        int r;

        batch_init(&b, u->opt, j);
        r = batch_undo(&b);
        for (size_t i = 0; r == 0 && i < j->n; i++) {
                struct change c = change_of(&j->entries[i], CHANGE_MODIFIED);

                if (b.slots[i].state != SLOT_REFUSED)
                        continue;
                u->refused++;
                c.error = conflict_or(b.slots[i].why);
                c.conflict = c.error == 0;
                r = u->opt->report ? u->opt->report(&c, u->opt->arg) : 0;
        }
        return r;
}

int transaction_abort(const struct apply_options *opt, size_t *ret_refused, struct error *err) {
        struct undoing u = { .opt = opt };
        AUTO_JOURNAL struct journal *j = NULL;
        int r;

        if (journal_list(opt->run_fd) == JOURNAL_FINAL)
                return error_set(err, -EALREADY,
                                 "what landed is final already: go on with --continue, there is no way back");
        r = journal_load(opt->run_fd, &j, err);
        if (r < 0 && r != -ENOENT)
                return r;
        r = j ? undo_batch(j, &u) : 0;
        if (r == 0)
                r = journal_each(opt->run_fd, true, undo_batch, &u, err);
        if (r < 0 && r != -ENOENT)
                return error_set(err, r, "undo what apply did: %s", strerror(-r));
        step(opt, "forget");
        r = journal_forget(opt->run_fd, err);
        if (r == 0)
                r = journal_remove(opt->run_fd, err);
        *ret_refused = u.refused;
        return r;
}
