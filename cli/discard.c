/* cofferdam discard: throw away a run and what it holds, or some of that. */
#include "fs/discard.h"

#include <stdio.h>
#include <string.h>

#include "cli/review.h"
#include "cli/select.h"
#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/run/list.h"
#include "runtime/spec/flags.h"

static const struct flag_set discard_flags = {
        .usage = "cofferdam discard [RUN [PATH...]]",
        .summary = "Throw away a run and the changes it holds, or those of PATH, without asking.",
};

/** struct dropping - one discard of paths over all regions */
struct dropping {
        const struct review *review;
        const struct select *select;
        const struct review_region *region;
        size_t n;
};

static enum apply_choice choose(const struct change *change, void *arg) {
        const struct dropping *d = arg;

        return select_has(d->select, d->region, change) ? APPLY_TAKE : APPLY_LEAVE;
}

static int report(const struct change *change, void *arg) {
        struct dropping *d = arg;
        AUTO_BUF struct buf line = { 0 };
        int r;

        d->n++;
        r = review_line(d->region, change, false, &line);
        if (r == 0)
                printf("%s\n", buf_cstr(&line));
        return r;
}

static int drop_region(const struct review_region *region, void *arg, struct error *err) {
        struct dropping *d = arg;
        const struct apply_options opt = {
                .kernel = region->kernel,
                .region = region->index,
                .run_fd = d->review->dir.fd,
                .upper_fd = region->upper_fd,
                .lower_fd = region->lower_fd,
                .choose = choose,
                .report = report,
                .arg = d,
        };

        d->region = region;
        return discard_run(&opt, err);
}

/* Return: whether the run holds anything else; 0: it can go; -errno with a message. */
static int drop_paths(struct review *review, const struct review_words *words, struct error *err) {
        AUTO_SELECT struct select select = { 0 };
        struct dropping d = { .review = review, .select = &select };
        const char *workspace[2];
        uint32_t region;
        int r;

        review_workspace(review, workspace);
        r = select_init(&select, words->paths, words->n_paths, workspace, err);
        if (r == 0)
                r = apply_pending(review->dir.fd, &region, err);
        if (r > 0)
                return error_set(
                        err, -EBUSY,
                        "an apply of run %s was cut off: finish it with 'cofferdam apply --continue', or "
                        "undo it with --abort",
                        review->dir.id);
        if (r == 0)
                r = review_each(review, false, false, drop_region, &d, err);
        if (r < 0)
                return r;
        if (d.n == 0)
                return error_set(err, -ENOENT, "run %s holds no such path", review->dir.id);
        return !review_is_empty(review) || json_is_true(json_object_get(review->state, "keep"));
}

static int discard(const struct ctx *ctx, struct review *review, const struct review_words *words) {
        struct error err = { 0 };
        int r;

        r = review_lock(review, "discard", &err);
        if (r == 0 && words->n_paths > 0)
                r = drop_paths(review, words, &err);
        if (r == 0)
                r = run_forget(ctx, &review->dir, false, &err);
        if (r >= 0)
                return EXIT_OK;
        log_error("%s", err.code ? err.msg : strerror(-r));
        return EXIT_FAILED;
}

int verb_discard(const struct ctx *ctx, int argc, char **argv) {
        AUTO_REVIEW struct review review = REVIEW_INIT;
        struct review_words words;
        struct error err = { 0 };
        int r;

        if (!review_words(&discard_flags, argc, argv, NULL, &words, &r))
                return r;
        r = review_open(ctx, words.run, REVIEW_DROP, &review, &err);
        if (r < 0) {
                log_error("%s", err.msg);
                return EXIT_FAILED;
        }
        return discard(ctx, &review, &words);
}
