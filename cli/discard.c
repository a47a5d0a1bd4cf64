/* cofferdam discard: throw away a run and what it holds. */
#include <string.h>

#include "cli/review.h"
#include "cli/verbs.h"
#include "runtime/base/log.h"
#include "runtime/spec/flags.h"

static const struct flag_set discard_flags = {
        .usage = "cofferdam discard [RUN]",
        .summary = "Throw away a run and the changes it holds, without asking.",
};

static int discard(struct review *review) {
        struct error err = { 0 };
        int r;

        r = review_lock(review, "discard", &err);
        if (r == 0) {
                r = run_dir_remove(&review->dir);
                if (r < 0)
                        (void) error_set(&err, r, "remove run %s: %s", review->dir.id, strerror(-r));
        }
        if (r == 0)
                return EXIT_OK;
        log_error("%s", err.msg);
        return EXIT_FAILED;
}

int verb_discard(const struct ctx *ctx, int argc, char **argv) {
        AUTO_REVIEW struct review review = REVIEW_INIT;
        struct error err = { 0 };
        const char *run = NULL;
        int r;

        if (!review_words(&discard_flags, argc, argv, NULL, &run, &r))
                return r;
        r = review_open(ctx, run, REVIEW_DROP, &review, &err);
        if (r < 0) {
                log_error("%s", err.msg);
                return EXIT_FAILED;
        }
        return discard(&review);
}
