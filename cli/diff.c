/* cofferdam diff: what a run changed and the host does not have. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/review.h"
#include "cli/select.h"
#include "cli/verbs.h"
#include "fs/patch.h"
#include "fs/verdict.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/spec/flags.h"

/* What the options of this verb set. */
struct options {
        bool json, zero, held, patch, stat;
};

static const struct flag_option diff_options[] = {
        { "held", 0, NULL, NULL, "Only what a rule holds back, or would when it lands",
          offsetof(struct options, held) },
        { "json", 0, NULL, NULL, "Print one JSON object", offsetof(struct options, json) },
        { "null", 'z', NULL, NULL, "Print paths as they are, each line ended by a NUL",
          offsetof(struct options, zero) },
        { "patch", 'p', NULL, NULL, "Print a patch that git apply takes", offsetof(struct options, patch) },
        { "stat", 0, NULL, NULL, "Count the lines that were added and removed",
          offsetof(struct options, stat) },
};

static const struct flag_set diff_flags = {
        .usage = "cofferdam diff [OPTIONS] [RUN [PATH...]]",
        .summary = "Show what a run changed and the host does not have.",
        .options = diff_options,
        .n_options = ARRAY_SIZE(diff_options),
};

/** struct listing - one walk over all regions */
struct listing {
        const struct options *o;
        const struct select *select;
        const struct review_region *region;
        struct patch_source source;
        json_t *changes; /* --json */
        uint64_t files, added, removed;
        bool conflict;
};

static int print_line(const struct listing *l, const struct change *change, const struct verdict *v) {
        AUTO_BUF struct buf line = { 0 };
        int r;

        r = review_line(l->region, change, l->o->zero, &line);
        if (r == 0 && v->action != GUARD_ALLOW && !l->o->zero)
                r = review_flag(v, &line);
        if (r == 0)
                r = buf_add(&line, l->o->zero ? "" : "\n", 1);
        if (r == 0)
                (void) fwrite(line.data, 1, line.len, stdout);
        return r;
}

/* Length of the character at @s, 0: a terminal could act on it, or order what is around it differently. */
static size_t harmless(const char *s, size_t len) {
        static const char *const orders[] = { "\u202a", "\u202b", "\u202c", "\u202d", "\u202e",
                                              "\u2066", "\u2067", "\u2068", "\u2069" };
        const unsigned char c = (unsigned char) *s;
        const size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

        if (c < 0x80)
                return (c < ' ' && c != '\n' && c != '\t') || c == 0x7f ? 0 : 1;
        if (n > len || !utf8_valid(s, n) || (c == 0xc2 && (unsigned char) s[1] < 0xa0))
                return 0;
        for (size_t i = 0; n == 3 && i < ARRAY_SIZE(orders); i++)
                if (memcmp(s, orders[i], 3) == 0)
                        return 0;
        return n;
}

/* What the work wrote must not hide lines from who reviews them. */
static void print_to_terminal(const char *s, size_t len) {
        while (len > 0) {
                const size_t n = harmless(s, len), step = n ? n : 1;

                if (n)
                        (void) fwrite(s, 1, n, stdout);
                else
                        printf("\\x%02x", (unsigned char) *s);
                s += step;
                len -= step;
        }
}

static int print_patch(const struct listing *l, const struct change *change) {
        AUTO_BUF struct buf text = { .max = 4UL * PATCH_BYTES_MAX };
        struct patch patch;
        int r;

        if (*l->region->prefix) { /* git knows the workspace only */
                r = buf_str(&text, "# elsewhere, not in this patch: ");
                if (r == 0)
                        r = review_line(l->region, change, false, &text);
                if (r == 0)
                        r = buf_str(&text, "\n");
        } else {
                r = patch_change(&l->source, change, &text, &patch);
        }
        if (r == 0 && text.len > 0 && isatty(STDOUT_FILENO))
                print_to_terminal(text.data, text.len);
        else if (r == 0 && text.len > 0)
                (void) fwrite(text.data, 1, text.len, stdout);
        return r;
}

static int print_stat(struct listing *l, const struct change *change) {
        AUTO_BUF struct buf line = { 0 };
        struct patch patch;
        int r;

        r = patch_change(&l->source, change, NULL, &patch);
        if (r == 0)
                r = review_line(l->region, change, false, &line);
        if (r < 0)
                return r;
        l->files++;
        l->added += patch.lines.added;
        l->removed += patch.lines.removed;
        if (patch.binary)
                printf("     Bin        %s\n", buf_cstr(&line));
        else
                printf("%5s%-5zu -%-5zu %s\n", "+", patch.lines.added, patch.lines.removed, buf_cstr(&line));
        return 0;
}

static int list_change(const struct change *change, void *arg) {
        struct listing *l = arg;
        struct verdict v;
        int r;

        if (!select_has(l->select, l->region, change))
                return 0;
        r = verdict_change(l->region->rules, change, &v);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                v = (struct verdict){ .action = GUARD_HOLD, .rule = "(unreadable)" };
        if (l->o->held && v.action == GUARD_ALLOW && !l->region->direct)
                return 0;
        l->conflict = l->conflict || change->conflict;
        if (l->changes) {
                json_t *row = review_change(l->region, change);

                r = row ? review_flag_json(&v, row) : -ENOMEM;
                return json_array_append_new(l->changes, row) < 0 ? -ENOMEM : r;
        }
        if (l->o->patch)
                return print_patch(l, change);
        return l->o->stat ? print_stat(l, change) : print_line(l, change, &v);
}

static int list_region(const struct review_region *region, void *arg, struct error *err) {
        struct listing *l = arg;

        const struct diff_layers layers = { region->upper_fd, region->lower_fd, region->kernel };
        int r;

        l->region = region;
        r = patch_source_init(&l->source, &layers);
        if (r < 0)
                (void) error_set(err, r, "read the directories that the run renamed: %s", strerror(-r));
        else
                r = diff_walk(&layers, list_change, l, err);
        patch_source_deinit(&l->source);
        return r;
}

static int print_json(const struct review *review, json_t *changes) {
        AUTO_JSON json_t *report = json_pack("{s:s,s:O}", "run", review->dir.id, "changes", changes);

        if (!report || json_dumpf(report, stdout, JSON_INDENT(2)) < 0)
                return -ENOMEM;
        (void) putchar('\n');
        return 0;
}

static int diff(const struct review *review, const struct options *o, const struct review_words *words) {
        AUTO_JSON json_t *changes = o->json ? json_array() : NULL;
        AUTO_SELECT struct select select = { 0 };
        struct listing l = { .o = o, .select = &select, .changes = changes };
        const char *workspace[2];
        struct error err = { 0 };
        int r;

        review_workspace(review, workspace);
        r = select_init(&select, words->paths, words->n_paths, workspace, &err);
        if (r == 0)
                r = review_each(review, true, false, list_region, &l, &err);
        if (r == 0 && o->json)
                r = print_json(review, changes);
        if (r < 0) {
                log_error("%s", err.code ? err.msg : strerror(-r));
                return EXIT_FAILED;
        }
        if (o->stat && l.files > 0)
                printf("%" PRIu64 " changed, %" PRIu64 " lines added, %" PRIu64 " removed\n", l.files,
                       l.added, l.removed);
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
        struct review_words words;
        struct error err = { 0 };
        int r;

        if (!review_words(&diff_flags, argc, argv, &o, &words, &r))
                return r;
        if (o.json + o.zero + o.patch + o.stat > 1) {
                log_error("diff: only one of --json, --null, --patch and --stat");
                return EXIT_USAGE;
        }
        r = review_open(ctx, words.run, REVIEW_CHANGED, &review, &err);
        if (r == -ENOENT && !words.run)
                return diff_nothing(&o, err.msg);
        if (r < 0) {
                log_error("%s", err.msg);
                return EXIT_FAILED;
        }
        return diff(&review, &o, &words);
}
