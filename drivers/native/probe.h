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
#include "runtime/spec/spec.h"

enum probe_state { PROBE_OK, PROBE_DEGRADED, PROBE_MISSING, PROBE_STATE_COUNT };

/** struct probe_row - one thing looked at; all text one line, static lifetime not needed: owned by the row */
struct probe_row {
        const char *name; /* "user namespaces" */
        const char *key;  /* "user_namespaces", for JSON */
        enum probe_state state;
        char evidence[192]; /* the system call and errno, or the file and its value */
        char effect[192];   /* what it means for a run; "" when ok */
        char remedy[256];   /* one command or one edit; "" when ok */
        bool required;      /* a run in strict isolation cannot start without it */
};

enum { PROBE_ROWS_MAX = 48 };

/**
 * probe_all() - every row, in the order of the table
 * Forks children that do and undo the real thing. Takes less than 300 ms. Return: number of rows (at most
 * PROBE_ROWS_MAX).
 */
size_t probe_all(const struct ctx *ctx, struct probe_row *rows);

/**
 * probe_explain() - after a set-up step failed: find the row that explains it
 * @step: name of the failed step ("userns", "fuse", "mount", "proc", ...)
 * @code: its negative errno
 * Sets @err to "cause: evidence; remedy". Return: @code.
 */
int probe_explain(const struct ctx *ctx, const char *step, int code, struct error *err);
