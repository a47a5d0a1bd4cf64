/* cofferdam apply: land what a run holds on the host. */
#include "fs/apply.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cli/review.h"
#include "cli/select.h"
#include "cli/verbs.h"
#include "fs/discard.h"
#include "fs/verdict.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/run/events.h"
#include "runtime/run/region.h"
#include "runtime/spec/flags.h"

enum { WORDS_MAX = 256 };

/** struct words - values of an option that may be given more than once, borrowed */
struct words {
        char *v[WORDS_MAX];
        size_t n;
};

/* What the options of this verb set. */
struct options {
        bool force, resume, abort, json;
        struct words theirs, ours; /* paths */
};

static int add_word(struct words *words, const char *value, struct error *err) {
        if (words->n == WORDS_MAX)
                return error_set(err, -E2BIG, "more than %d paths", WORDS_MAX);
        words->v[words->n++] = (char *) (uintptr_t) value; /* as main() has it in argv */
        return 0;
}

static int add_theirs(void *arg, const char *value, struct error *err) {
        return add_word(&((struct options *) arg)->theirs, value, err);
}

static int add_ours(void *arg, const char *value, struct error *err) {
        return add_word(&((struct options *) arg)->ours, value, err);
}

static const struct flag_option apply_options[] = {
        { "abort", 0, NULL, NULL, "Undo an apply that was cut off; the run keeps everything",
          offsetof(struct options, abort) },
        { "continue", 0, NULL, NULL, "Finish an apply that was cut off, then land the rest",
          offsetof(struct options, resume) },
        { "force", 0, NULL, NULL, "Land also over what the host changed meanwhile",
          offsetof(struct options, force) },
        { "json", 0, NULL, NULL, "Print one JSON object", offsetof(struct options, json) },
        { "ours", 0, "PATH", add_ours, "Of conflicts at PATH, drop the run's version", 0 },
        { "theirs", 0, "PATH", add_theirs, "Of conflicts at PATH, land the run's version", 0 },
};

static const struct flag_set apply_flags = {
        .usage = "cofferdam apply [OPTIONS] [RUN [PATH...]]",
        .summary = "Land on the host what a run holds, but over nothing it changed meanwhile.",
        .options = apply_options,
        .n_options = ARRAY_SIZE(apply_options),
};

enum { CONFLICT_EVENTS_MAX = 100 };

/** struct landing - one apply over all regions */
struct landing {
        const struct options *o;
        const struct review *review;
        struct select select, theirs, ours; /* owned */
        const struct review_region *region;
        json_t *changes; /* --json: every path */
        bool pending;    /* a journal is open */
        uint32_t pending_region;
        uint64_t landed, kept, left; /* left: nobody asked for them */
        struct events events;
};

static void note_kept(struct landing *l, const struct change *change) {
        if (l->kept <= CONFLICT_EVENTS_MAX)
                events_emit(&l->events, "apply_conflict", review_change(l->region, change));
}

/* "cofferdam: 'path': why it is still in the run", one line on standard error */
static void say_kept(const struct landing *l, const struct change *change) {
        AUTO_BUF struct buf line = { 0 };

        if (review_line(l->region, change, false, &line) < 0)
                return;
        if (change->error == -EOPNOTSUPP)
                log_error("kept: %s: neither file, directory nor symlink; it never lands", buf_cstr(&line));
        else if (change->error)
                log_error("kept: %s: %s", buf_cstr(&line), strerror(-change->error));
        else
                log_error("kept: %s: the host has another version now; --force lands it", buf_cstr(&line));
}

static int report(const struct change *change, void *arg) {
        struct landing *l = arg;
        AUTO_BUF struct buf line = { 0 };
        const bool kept = change->conflict || change->error;
        int r;

        l->kept += kept;
        l->landed += !kept;
        if (kept)
                note_kept(l, change);
        if (l->changes)
                return json_array_append_new(l->changes, review_change(l->region, change)) < 0 ? -ENOMEM : 0;
        if (kept) {
                say_kept(l, change);
                return 0;
        }
        r = review_line(l->region, change, false, &line);
        if (r == 0)
                printf("%s\n", buf_cstr(&line));
        return r;
}

static enum apply_choice choose(const struct change *change, void *arg) {
        struct landing *l = arg;
        struct verdict v;

        if (!select_has(&l->select, l->region, change)) {
                l->left++;
                return APPLY_LEAVE;
        }
        if (verdict_change(l->region->rules, change, &v) == 0 && v.action >= GUARD_PROTECT) {
                if (!change->again) {
                        l->kept++;
                        log_error("kept: '%s': a rule protects or hides it: %s", ESC(change->path),
                                  ESC(v.rule));
                }
                return APPLY_LEAVE;
        }
        if (change->conflict && l->theirs.rules && select_has(&l->theirs, l->region, change))
                return APPLY_FORCE;
        return APPLY_TAKE;
}

/* --ours: the host's version is right. */
static enum apply_choice drop_choice(const struct change *change, void *arg) {
        const struct landing *l = arg;

        return change->conflict && select_has(&l->ours, l->region, change) ? APPLY_TAKE : APPLY_LEAVE;
}

static int drop_ours(struct landing *l, const struct review_region *region, struct error *err) {
        const struct apply_options opt = {
                .kernel = region->kernel,
                .region = region->index,
                .run_fd = l->review->dir.fd,
                .upper_fd = region->upper_fd,
                .lower_fd = region->lower_fd,
                .choose = drop_choice,
                .arg = l,
        };

        return l->ours.rules ? discard_run(&opt, err) : 0;
}

static int land_region(const struct review_region *region, void *arg, struct error *err) {
        struct landing *l = arg;
        const struct apply_options opt = {
                .force = l->o->force,
                .kernel = region->kernel,
                .region = region->index,
                .run_fd = l->review->dir.fd,
                .upper_fd = region->upper_fd,
                .lower_fd = region->lower_fd,
                .choose = choose,
                .report = report,
                .arg = l,
        };
        int r;

        l->region = region;
        r = l->o->abort || l->pending ? 0 : drop_ours(l, region, err);
        if (r < 0)
                return r;
        if (l->o->abort) {
                r = apply_abort(&opt, err);
                l->pending = r < 0;
        } else if (l->pending && l->pending_region == region->index) {
                r = apply_resume(&opt, err);
                l->pending = r < 0;
        } else {
                r = apply_run(&opt, err);
        }
        return r < 0 ? r : 0;
}

/* The region of the open journal first: nothing else may start before it is finished. */
static int resume_region(const struct review_region *region, void *arg, struct error *err) {
        const struct landing *l = arg;

        return l->pending && region->index == l->pending_region ? land_region(region, arg, err) : 0;
}

static int land(struct landing *l, struct error *err) {
        int r;

        r = apply_pending(l->review->dir.fd, &l->pending_region, err);
        if (r < 0)
                return r;
        l->pending = r > 0;
        if (!l->pending && l->o->abort)
                return error_set(err, -ENOENT, "no apply of run %s was cut off", l->review->dir.id);
        if (l->pending && !l->o->resume && !l->o->abort)
                return error_set(err, -EBUSY,
                                 "an apply of run %s was cut off: finish it with --continue, or undo it with "
                                 "--abort",
                                 l->review->dir.id);
        if (l->pending) {
                r = review_each(l->review, false, l->o->force, resume_region, l, err);
                if (r < 0)
                        return r;
                if (l->pending)
                        return error_set(err, -EINVAL,
                                         "the apply that was cut off is of region %" PRIu32
                                         ", which run %s does not have",
                                         l->pending_region, l->review->dir.id);
        }
        return l->o->abort ? 0 : review_each(l->review, false, l->o->force, land_region, l, err);
}

/* What the run holds would land in another place than it was made for: told before it is refused or forced.
 */
static void tell_changed(struct landing *l) {
        const char *action = l->o->force ? "force" : "refuse";
        const json_t *rows = run_regions(l->review->state);

        for (size_t i = 0; i < json_array_size(rows); i++) {
                AUTO_RUN_REGION struct run_region region = RUN_REGION_INIT;
                json_t *row = json_array_get(rows, i);
                struct pin_change change = { 0 };

                if (run_region_open(&l->review->dir, row, RUN_SOURCE_SAME, &region, NULL) != -ESTALE ||
                    !run_region_changed(row, &change))
                        continue;
                events_emit(&l->events, "bind_source_changed",
                            json_pack("{s:O,s:s,s:s,s:s,s:O}", "source", json_object_get(row, "source"),
                                      "was", change.was, "now", change.now, "action", action, "region",
                                      json_object_get(row, "index")));
        }
}

static int land_noted(struct landing *l, struct error *err) {
        AUTO_FD int fd = review_events(l->review, &l->events);
        int r;

        events_emit(&l->events, "apply_started",
                    json_pack("{s:b,s:b,s:b}", "force", l->o->force, "continue", l->o->resume, "abort",
                              l->o->abort));
        tell_changed(l);
        r = land(l, err);
        events_emit(&l->events, "apply_finished",
                    json_pack("{s:I,s:I,s:s*}", "paths", (json_int_t) l->landed, "conflicts",
                              (json_int_t) l->kept, "error", r < 0 ? err->msg : NULL));
        (void) fd; /* closed here; the stream may have given it up */
        l->events.file_fd = -1;
        return r;
}

/* A run that holds nothing any more goes, unless it is to be kept. */
static int finish(struct review *review, const struct landing *l) {
        struct error err = { 0 };
        int r = 0;

        if (l->kept > 0)
                return EXIT_FAILED;
        if (l->o->abort || l->left > 0)
                return EXIT_OK;
        if (!review_is_empty(review)) { /* never thrown away, whatever it is */
                log_error("run %s is kept: it holds more than its regions can land", review->dir.id);
                return EXIT_FAILED;
        }
        if (!json_is_true(json_object_get(review->state, "keep"))) {
                r = run_dir_remove(&review->dir);
                if (r < 0)
                        (void) error_set(&err, r, "remove run %s: %s", review->dir.id, strerror(-r));
        } else if (json_object_set_new(review->state, "held", json_integer(0)) == 0) {
                r = run_state_store(&review->dir, review->state, true, &err);
        }
        if (r == 0)
                return EXIT_OK;
        log_error("%s", err.msg);
        return EXIT_FAILED;
}

static int print_json(const struct landing *l) {
        AUTO_JSON json_t *out =
                json_pack("{s:s,s:I,s:I,s:O}", "run", l->review->dir.id, "landed", (json_int_t) l->landed,
                          "kept", (json_int_t) l->kept, "changes", l->changes);

        if (!out || json_dumpf(out, stdout, JSON_INDENT(2)) < 0)
                return -ENOMEM;
        (void) putchar('\n');
        return 0;
}

static int select_all(struct landing *l, const struct review_words *words, struct error *err) {
        const char *workspace[2];
        int r;

        review_workspace(l->review, workspace);
        r = select_init(&l->select, words->paths, words->n_paths, workspace, err);
        if (r == 0)
                r = select_init(&l->theirs, l->o->theirs.v, l->o->theirs.n, workspace, err);
        return r < 0 ? r : select_init(&l->ours, l->o->ours.v, l->o->ours.n, workspace, err);
}

static void landing_deinit(struct landing *l) {
        select_deinit(&l->select);
        select_deinit(&l->theirs);
        select_deinit(&l->ours);
}

static int apply(struct review *review, const struct options *o, const struct review_words *words) {
        AUTO_JSON json_t *changes = o->json ? json_array() : NULL;
        CLEANUP(landing_deinit) struct landing l = { .o = o, .review = review, .changes = changes };
        struct error err = { 0 };
        int r;

        r = select_all(&l, words, &err);
        if (r == 0)
                r = review_lock(review, "apply", &err);
        if (r == 0)
                r = land_noted(&l, &err);
        if (r == 0 && o->json)
                r = print_json(&l);
        if (r < 0) {
                log_error("%s", err.code ? err.msg : strerror(-r));
                return EXIT_FAILED;
        }
        return finish(review, &l);
}

int verb_apply(const struct ctx *ctx, int argc, char **argv) {
        AUTO_REVIEW struct review review = REVIEW_INIT;
        struct options o = { 0 };
        struct error err = { 0 };
        struct review_words words;
        int r;

        if (!review_words(&apply_flags, argc, argv, &o, &words, &r))
                return r;
        if (o.abort && (o.resume || o.force)) {
                log_error("--abort goes with neither --continue nor --force");
                return EXIT_USAGE;
        }
        r = review_open(ctx, words.run, o.resume || o.abort ? REVIEW_PENDING : REVIEW_CHANGED, &review, &err);
        if (r < 0) {
                log_error("%s", err.msg);
                return EXIT_FAILED;
        }
        return apply(&review, &o, &words);
}
