/* cofferdam diff: what a run changed and the host does not have. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/review.h"
#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/spec/flags.h"

/* What the options of this verb set. */
struct options {
        bool json, zero, held; /* held: all changes of a direct region are, other kinds will have more */
};

static const struct flag_option diff_options[] = {
        { "held", 0, NULL, NULL, "Only what a rule holds back; all there is in a direct workspace",
          offsetof(struct options, held) },
        { "json", 0, NULL, NULL, "Print one JSON object", offsetof(struct options, json) },
        { "null", 'z', NULL, NULL, "Print paths as they are, each line ended by a NUL",
          offsetof(struct options, zero) },
};

static const struct flag_set diff_flags = {
        .usage = "cofferdam diff [OPTIONS] [RUN]",
        .summary = "Show what a run changed and the host does not have.",
        .options = diff_options,
        .n_options = ARRAY_SIZE(diff_options),
};

/** struct listing - one walk over all regions */
struct listing {
        const struct options *o;
        const struct review_region *region;
        json_t *changes; /* --json */
        bool conflict;
};

static int list_change(const struct change *change, void *arg) {
        struct listing *l = arg;
        AUTO_BUF struct buf line = { 0 };
        int r;

        l->conflict = l->conflict || change->conflict;
        if (l->changes)
                return json_array_append_new(l->changes, review_change(l->region, change)) < 0 ? -ENOMEM : 0;
        r = review_line(l->region, change, l->o->zero, &line);
        if (r == 0)
                r = buf_add(&line, l->o->zero ? "" : "\n", 1);
        if (r == 0)
                (void) fwrite(line.data, 1, line.len, stdout);
        return r;
}

static int list_region(const struct review_region *region, void *arg, struct error *err) {
        struct listing *l = arg;

        const struct diff_layers layers = { region->upper_fd, region->lower_fd, region->kernel };

        l->region = region;
        return diff_walk(&layers, list_change, l, err);
}

static int print_json(const struct review *review, json_t *changes) {
        AUTO_JSON json_t *report = json_pack("{s:s,s:O}", "run", review->dir.id, "changes", changes);

        if (!report || json_dumpf(report, stdout, JSON_INDENT(2)) < 0)
                return -ENOMEM;
        (void) putchar('\n');
        return 0;
}

static int diff(const struct review *review, const struct options *o) {
        AUTO_JSON json_t *changes = o->json ? json_array() : NULL;
        struct listing l = { .o = o, .changes = changes };
        struct error err = { 0 };
        int r;

        r = review_each(review, true, false, list_region, &l, &err);
        if (r == 0 && o->json)
                r = print_json(review, changes);
        if (r < 0) {
                log_error("%s", err.code ? err.msg : strerror(-r));
                return EXIT_FAILED;
        }
        return l.conflict ? EXIT_FAILED : EXIT_OK;
}

/* Nothing held anywhere is an empty answer, not a failure. */
static int diff_nothing(const struct options *o, const char *text) {
        if (o->json)
                printf("{\n  \"run\": null,\n  \"changes\": []\n}\n");
        else
                log_warn("%s", text);
        return EXIT_OK;
}

int verb_diff(const struct ctx *ctx, int argc, char **argv) {
        AUTO_REVIEW struct review review = REVIEW_INIT;
        struct options o = { 0 };
        struct error err = { 0 };
        const char *run = NULL;
        int r;

        if (!review_words(&diff_flags, argc, argv, &o, &run, &r))
                return r;
        r = review_open(ctx, run, REVIEW_CHANGED, &review, &err);
        if (r == -ENOENT && !run)
                return diff_nothing(&o, err.msg);
        if (r < 0) {
                log_error("%s", err.msg);
                return EXIT_FAILED;
        }
        return diff(&review, &o);
}
