/*
 * review.h - a run whose held changes are looked at, landed or dropped: what diff, apply and discard share
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/diff.h"
#include "fs/explain.h"
#include "fs/verdict.h"
#include "runtime/base/buf.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/run/events.h"
#include "runtime/run/state.h"

/** struct review - an open run; @state may be NULL after a crash that left no state */
struct review {
        struct run_dir dir;
        json_t *state;
};
#define REVIEW_INIT \
        { .dir = RUN_DIR_INIT }

/** struct review_region - a region of the run that holds something; borrowed during the callback */
struct review_region {
        uint32_t index;
        const char *prefix; /* of paths: "" for the workspace, else the target with a final slash */
        int upper_fd;
        int lower_fd; /* -1: the source is not what it was (review_each() with @lenient) */
        bool kernel;  /* see struct diff_layers */
        bool direct;  /* it holds only what rules held */
        const struct explain_region *rules; /* for verdict_change() */
};

/*
 * which run to take when none is named: the latest on the current directory, or one above it, that holds
 * changes, or with an apply that was cut off; REVIEW_DROP: as REVIEW_CHANGED, and a run that is named may
 * have lost its state
 */
enum review_pick { REVIEW_CHANGED, REVIEW_PENDING, REVIEW_DROP };

struct flag_set;

/** struct review_words - words of a command line: [RUN [PATH...]] or -- PATH... */
struct review_words {
        const char *run; /* borrowed from argv, NULL: none given */
        char **paths;    /* borrowed from argv */
        size_t n_paths;
};

/**
 * review_words() - the command line of a verb that takes a run and paths: options, RUN, paths
 * Behind "--" all words are paths.
 * @options:  for the setters of @set
 * @ret_code: when the verb is done already (help, usage error): its exit code
 * Return: whether to go on.
 */
bool review_words(const struct flag_set *set, int argc, char **argv, void *options, struct review_words *ret,
                  int *ret_code) __attribute__((warn_unused_result));

/** review_workspace() - source and target of the workspace; NULL when the state does not know */
void review_workspace(const struct review *review, const char *ret[2]);

/** review_help() - the help of a verb on standard output. Return: exit code. */
int review_help(const struct flag_set *set);

/**
 * review_open() - open the run @id (see run_dir_open()), or the latest of the kind @pick here when NULL
 * @ret: caller frees with review_deinit()
 * Return: 0, -ENOENT (no such run), -EEXIST (ambiguous), -errno with a message.
 */
int review_open(const struct ctx *ctx, const char *id, enum review_pick pick, struct review *ret,
                struct error *err) __attribute__((warn_unused_result));

/**
 * review_lock() - keep other reviews away, refuse a run that is alive; until review_deinit()
 * @verb: for the message
 * Return: 0, -EBUSY with a message, -errno.
 */
int review_lock(struct review *review, const char *verb, struct error *err)
        __attribute__((warn_unused_result));

/** review_fn - Return: 0 to go on, negative errno to stop */
typedef int (*review_fn)(const struct review_region *region, void *arg, struct error *err);

/**
 * review_each() - call @fn for each region whose upper is not empty, in the order of their indexes
 * @lenient: a source that is gone or replaced is said in a warning and given as lower_fd -1; otherwise an
 *           error
 * @any_source: take what is at the source's path now (--force)
 * Return: 0, what @fn gave, -ESTALE (the source is not what it was), -errno with a message.
 */
int review_each(const struct review *review, bool lenient, bool any_source, review_fn fn, void *arg,
                struct error *err) __attribute__((warn_unused_result));

/**
 * review_events() - continue the event stream of the run behind its last line
 * @ret: its file_fd is the descriptor returned
 * Return: descriptor, owned; -1: there is none, and events go nowhere.
 */
int review_events(const struct review *review, struct events *ret);

/** review_is_empty() - whether no region of the run holds anything, listed in its state or not */
bool review_is_empty(const struct review *review);

/**
 * review_line() - "A path" as diff and apply print it, without an end of line
 * @raw: the path as it is, otherwise escaped for a terminal
 * Return: 0, -ENOMEM, -E2BIG.
 */
int review_line(const struct review_region *region, const struct change *change, bool raw, struct buf *out)
        __attribute__((warn_unused_result));

/** review_change() - one change for --json, new reference; NULL when out of memory */
json_t *review_change(const struct review_region *region, const struct change *change)
        __attribute__((warn_unused_result));

/** review_flag() - append what the rules say of a change, a long pattern cut, for people. Return: 0, -ENOMEM,
 * -E2BIG. */
int review_flag(const struct verdict *verdict, struct buf *out) __attribute__((warn_unused_result));

/** review_flag_json() - the same as members of @row, borrowed. Return: 0, -ENOMEM. */
int review_flag_json(const struct verdict *verdict, json_t *row) __attribute__((warn_unused_result));

void review_deinit(struct review *review);
#define AUTO_REVIEW __attribute__((cleanup(review_deinit)))
