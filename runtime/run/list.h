/*
 * list.h - the runs of this user: which there are, how they are, and reaping those that died
 */
#pragma once

#include <jansson.h>

#include "runtime/run/events.h"
#include "runtime/run/state.h"

enum run_status {
        RUN_STARTING, /* its supervisor builds it */
        RUN_RUNNING,
        RUN_FINISHED,
        RUN_DEAD, /* its supervisor is gone without a last word */
        RUN_STATUS_COUNT
};

/** struct listed_run - borrowed during the callback */
struct listed_run {
        struct run_dir *dir;
        json_t *state; /* NULL: none yet, or it cannot be read */
        enum run_status status;
        int64_t changed_ns; /* of the directory, wall clock: about when the run was started */
};

/** run_status_name() - "running", ... Static. */
const char *run_status_name(enum run_status status);

/** run_status_of() - from @state (NULL: none) and the lock on the directory */
enum run_status run_status_of(const struct run_dir *dir, const json_t *state);

/** listed_run_fn - Return: 0 to go on, negative errno to stop */
typedef int (*listed_run_fn)(const struct listed_run *run, void *arg);

/** runs_each() - call @fn for every run, in no order. No state directory: no runs. Return: 0, what @fn gave,
 * -errno with a message. */
int runs_each(const struct ctx *ctx, listed_run_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));

/** reaped_fn - @kept: it holds changes, or was to be kept: marked finished instead of removed */
typedef void (*reaped_fn)(const char *id, bool kept, void *arg);

/**
 * runs_reap() - clear up after runs whose supervisor is gone
 * The evidence is the lock that supervisor and owner hold on the run directory as long as they live, not a
 * number. A run that holds nothing is removed, one that holds changes is marked as finished, with an event.
 * A run whose tokens cannot be revoked, or whose pod cannot be ended, is left, and an error.
 * @fn: told of each; NULL allowed
 * Return: 0, -errno with a message.
 */
int runs_reap(const struct ctx *ctx, reaped_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));

/** swept_fn - what the driver called @driver kept for a run that does not live, and is gone now */
typedef void (*swept_fn)(const char *driver, const char *run_id, void *arg);

/** runs_sweep() - have each driver remove what it marked as of a run of this state directory that does not
 * live. Blocks, forks. Return: 0, or what went wrong with the first driver that could not, with a message. */
int runs_sweep(const struct ctx *ctx, swept_fn fn, void *arg, struct error *err);

/** run_forget() - remove a run that has ended or died and is locked by the caller, with all it holds and what
 * its driver left outside; @force: also when that cannot be removed. Return: 0, -errno with a message: it is
 * left. */
int run_forget(const struct ctx *ctx, struct run_dir *dir, bool force, struct error *err);

/** struct glance - what a run sees of the others beside it */
struct glance {
        bool dead;                   /* one wants reaping */
        char shares[RUN_ID_LEN + 1]; /* one that lives on the same workspace; "": none */
};

/**
 * runs_glance() - look at the runs beside @dir, cheaply: two system calls for each that has ended
 * @workspace: path on the host of @dir's
 */
void runs_glance(const struct run_dir *dir, const char *workspace, struct glance *ret);

/**
 * run_revoke() - revoke the tokens of a run that died, whose keeper may have died before it could
 * Return: 0 (there are none, or they are revoked or expired), -ENOKEY (the key of their service is not in the
 * environment), -errno, with a message that names the run.
 */
int run_revoke(const struct ctx *ctx, const struct run_dir *dir, struct error *err)
        __attribute__((warn_unused_result));

/**
 * runs_reap_aside() - runs_reap() in a process of its own, which nobody waits for and which holds nothing of
 * the caller's
 * It cannot revoke tokens: runs that may have some are left. Nobody asked for it: events and logs of a run
 * that 'start' made stay, as when it had ended.
 */
void runs_reap_aside(const struct ctx *ctx);
