/*
 * probe.h - what this host can do for the native driver; each probe does the real thing in a child and undoes
 * it
 *
 * The rows feed `cofferdam doctor` and the refusals of `cofferdam run`: one text for both.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"

enum probe_state { PROBE_OK, PROBE_DEGRADED, PROBE_MISSING, PROBE_STATE_COUNT };

/** struct probe_row - one thing looked at; all text is one line */
struct probe_row {
        const char *name; /* "user namespaces"; static */
        const char *key;  /* "user_namespaces", for JSON; static */
        enum probe_state state;
        char evidence[256]; /* the system call and errno, or the file and its value */
        char effect[192];   /* what it means for a run; "" when ok */
        char remedy[256];   /* one command or one edit; "" when ok or when another row's remedy is it */
        bool required;      /* a run in strict isolation cannot start without it */
};

enum { PROBE_ROWS_MAX = 48 };

/** probe_sweep() - remove what probes that were killed left beside the runs */
void probe_sweep(const struct ctx *ctx);

/**
 * probe_all() - every row, in the order of the table
 * @cloud: and those of a Kubernetes cluster, which take up to a second of the network
 * @rows: room for PROBE_ROWS_MAX
 * Forks children that do and undo the real thing. Takes less than 300 ms, and never longer than two seconds
 * for a probe that hangs. Return: number of rows.
 */
size_t probe_all(const struct ctx *ctx, bool cloud, struct probe_row *rows);

/**
 * probe_for_run() - the rows that decide whether a run can start and by which rungs (rungs.c)
 * @no_userns: as real root without a user namespace; that row is left out
 * @rows: room for PROBE_ROWS_MAX
 * Forks, as probe_all(), which it is cheaper than. Return: number of rows.
 */
size_t probe_for_run(const struct ctx *ctx, bool no_userns, struct probe_row *rows);

/** probe_refusal() - "row: evidence: effect; remedy". Return: DRIVER_HOST_LACKS. */
int probe_refusal(const struct probe_row *row, struct error *err);

/**
 * probe_one() - the row with the key @key, which there is
 * Forks, as probe_all(). Return: its state.
 */
enum probe_state probe_one(const struct ctx *ctx, const char *key, struct probe_row *ret);

/**
 * probe_explain() - after a set-up step failed: find the row that explains it
 * @step: name of the failed step, one of explanations[] in probe.c ("userns", "fuse", "mount", ...); any
 * other: all that a run requires is looked at
 * @code: its negative errno
 * @err:  what is already there ("open /dev/fuse") stays in front, unless the row names the
 *        same error; then "row: evidence: effect; remedy"
 * Forks, as probe_all(), which it is cheaper than. Return: DRIVER_HOST_LACKS, or @code when no row explains
 * it.
 */
int probe_explain(const struct ctx *ctx, const char *step, int code, struct error *err);

/**
 * probe_limits() - whether the caller's resource limits leave a run what it needs
 * Forks only where there may be few processes. Return: 0, or DRIVER_HOST_LACKS with doctor's words.
 */
int probe_limits(const struct ctx *ctx, struct error *err);

/**
 * probe_remedy() - what to do about a limit or a full disk, put behind the message of a step that failed
 * @code: its negative errno; what the message does not say, or has a remedy for already, stays as it is
 */
void probe_remedy(int code, struct error *err);

/** probe_state_name() - "ok", "degraded", "missing" */
const char *probe_state_name(enum probe_state state);
