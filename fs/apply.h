/*
 * apply.h - land what a run's upper holds on the host, as a transaction
 *
 * A journal is written and synced first; each file goes to a temporary name in its target directory through
 * pinned parents (never following a link), is synced and renamed; deletions last. What is replaced keeps a
 * temporary name until all has landed. Then it is removed, what landed leaves the upper and the journal is
 * closed. Killed at any point, apply_resume() finishes it, or apply_abort() puts everything back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/diff.h"
#include "runtime/base/error.h"

/* APPLY_LEAVE: nobody asked for this path; it stays in the upper and is not reported */
enum apply_choice { APPLY_TAKE, APPLY_FORCE, APPLY_LEAVE };

/** struct apply_options - one region of one run; descriptors borrowed */
struct apply_options {
        bool force;      /* land over conflicts */
        bool kernel;     /* see struct diff_layers */
        uint32_t region; /* index, kept in the journal */
        int run_fd;      /* run directory: holds the journal */
        int upper_fd;    /* of the region */
        int lower_fd;    /* of the region, freshly pinned and checked; opened for reading, not O_PATH only */
        /* whether a change lands: APPLY_FORCE over a conflict, too; NULL: all, as @force says */
        enum apply_choice (*choose)(const struct change *change, void *arg);
        /* called for each path: landed (conflict false, error 0), kept because of a conflict, or kept because
         * the host refused it (error); a negative return stops between two batches. NULL allowed */
        change_fn report;
        void *arg;
        /* called before each step that changes something, for tests that stop there; NULL otherwise */
        void (*step)(const char *what, void *arg);
        void *step_arg;
};

/**
 * apply_run() - land everything that is chosen and has no conflict; the rest stays in the upper
 * FIFOs, sockets and devices never land (error -EOPNOTSUPP); set-id bits never land.
 * Return: number of chosen paths that did not land (0: all landed), -EBUSY (a journal is open: apply_resume()
 * or apply_abort() first), -errno with a message.
 */
int apply_run(const struct apply_options *opt, struct error *err) __attribute__((warn_unused_result));

/**
 * apply_pending() - whether a journal was left open by a crash
 * @ret_region: the region it belongs to, when there is one
 * Return: 1, 0, -errno with a message.
 */
int apply_pending(int run_fd, uint32_t *ret_region, struct error *err) __attribute__((warn_unused_result));

/**
 * apply_resume() - finish a transaction that was cut off, then land the rest as apply_run() does
 * Return: as apply_run(), -ENOENT (nothing is open), -EINVAL (the journal is of another region).
 */
int apply_resume(const struct apply_options *opt, struct error *err) __attribute__((warn_unused_result));

/**
 * apply_abort() - undo a transaction that was cut off: the host has what it had, the upper everything
 * Return: number of paths that the host has changed since, which stay as they are (and are reported);
 * -ENOENT, -EINVAL as apply_resume(), -EALREADY (all had landed), -errno with a message.
 */
int apply_abort(const struct apply_options *opt, struct error *err) __attribute__((warn_unused_result));
