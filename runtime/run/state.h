/*
 * state.h - a run on disk: $STATE/runs/<id>/{spec.json,state.json,events.jsonl,upper/,journal}
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"

enum { RUN_ID_LEN = 12 };

/** struct run_dir - an open run directory */
struct run_dir {
        char id[RUN_ID_LEN + 1]; /* lower-case hex */
        int runs_fd;             /* $STATE/runs */
        int fd;                  /* $STATE/runs/<id> */
        int upper_fd;            /* .../upper */
};
#define RUN_DIR_INIT \
        { .runs_fd = -1, .fd = -1, .upper_fd = -1 }

/** run_dir_create() - a new run with a random id; directories 0700; locked as long as it is open. Return: 0
 * or -errno with a message. */
int run_dir_create(const struct ctx *ctx, struct run_dir *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * run_dir_open() - the run called @id: a whole id, a unique prefix of at least 4 digits, a --name, or NULL:
 * the latest Return: 0, -ENOENT, -EEXIST (ambiguous), -errno.
 */
int run_dir_open(const struct ctx *ctx, const char *id, struct run_dir *ret, struct error *err)
        __attribute__((warn_unused_result));

/** run_dir_name() - call the run @name, which no other run that lives may be called. Return: 0, -EEXIST with
 * a message, -errno. */
int run_dir_name(const struct ctx *ctx, const struct run_dir *dir, const char *name, struct error *err)
        __attribute__((warn_unused_result));

/** run_dir_fn - @dir may be changed and closed by it. Return: 0 to go on, negative errno to stop */
typedef int (*run_dir_fn)(struct run_dir *dir, void *arg);

/** run_dir_each() - call @fn for every run; one that vanishes meanwhile is left out. Return: 0, what @fn
 * gave, -errno with a message. */
int run_dir_each(const struct ctx *ctx, run_dir_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));

/** run_dir_is_id() - whether @s is a whole id */
bool run_dir_is_id(const char *s);

/** run_dir_sweep() - remove what processes that were killed while they made or removed a run have left */
void run_dir_sweep(const struct ctx *ctx);

/**
 * run_dir_upper() - what the region @name of the run holds, for reading
 * The work may have taken every right from its top directory: the caller gets those back.
 * Return: descriptor, owned; -ENOENT; -errno.
 */
int run_dir_upper(const struct run_dir *dir, const char *name) __attribute__((warn_unused_result));

/** run_dir_remove() - delete the run and all it holds, by descriptor, never following a link. Return: 0 or
 * -errno. */
int run_dir_remove(struct run_dir *dir);

/** run_dir_unmake() - remove a run in which nothing was written yet; needs no descriptor: there may be none.
 * Return: whether it is gone. */
bool run_dir_unmake(const struct run_dir *dir);

/** run_dir_deinit() - close */
void run_dir_deinit(struct run_dir *dir);
#define AUTO_RUN_DIR __attribute__((cleanup(run_dir_deinit)))

/** run_state_load() - state.json. @ret: new reference. Return: 0, -ENOENT, -EINVAL, -errno. */
int run_state_load(const struct run_dir *dir, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/** run_state_store() - replace state.json in one step. @durable: with fsync. Return: 0 or -errno. */
int run_state_store(const struct run_dir *dir, const json_t *state, bool durable, struct error *err);

/** run_is_alive() - whether the supervisor named in @state runs (pid, start time and boot match) */
bool run_is_alive(const json_t *state);

/**
 * run_regions() - regions of a run for diff and apply: @state's "regions":
 * [{"index":0,"source":"/w","target":"/w","kind":"direct"}] Return: borrowed array, NULL when missing or
 * malformed.
 */
const json_t *run_regions(const json_t *state);
