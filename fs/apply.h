/*
 * apply.h - land what a run's upper holds on the host, as a transaction
 *
 * A journal is written and synced first; each file goes to a temporary name in its target directory through
 * pinned parents (never following a link), is synced and renamed; deletions last; then the journal is closed
 * and what landed leaves the upper. Killed at any point, apply_resume() finishes it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "fs/diff.h"
#include "runtime/base/error.h"

/** struct apply_options - @force lands over conflicts */
struct apply_options {
        bool force;
        int run_fd;       /* run directory: holds the journal */
        int upper_fd;     /* of the region */
        int lower_fd;     /* of the region, freshly pinned and checked; opened for reading, not O_PATH only */
        change_fn report; /* called for each path that landed or conflicts; NULL allowed */
        void *arg;
};

/**
 * apply_run() - land everything that has no conflict; what has stays in the upper
 * Return: number of conflicts (0: all landed), -EBUSY (a journal is open: apply_resume() first), -errno with
 * a message.
 */
int apply_run(const struct apply_options *opt, struct error *err) __attribute__((warn_unused_result));

/** apply_pending() - whether a journal was left open by a crash. Return: 1, 0, -errno. */
int apply_pending(int run_fd) __attribute__((warn_unused_result));

/** apply_resume() - finish a transaction that was cut off. Return: as apply_run(). */
int apply_resume(const struct apply_options *opt, struct error *err) __attribute__((warn_unused_result));
