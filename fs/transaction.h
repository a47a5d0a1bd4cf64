/*
 * transaction.h - batches that land one after the other and can all be undone until the last has; used by
 * apply.c and relocate.c only
 */
#pragma once

#include "fs/apply.h"
#include "fs/batch.h"

/** struct transaction - embedded */
struct transaction {
        const struct apply_options *opt;
        struct error *err;
        struct journal *journal;
        enum change_kind kinds[JOURNAL_ENTRIES_MAX]; /* of the journal's entries */
        size_t batch_max;                            /* entries of a batch: each pins a directory */
        size_t refused;
        bool cut_off; /* a batch stays open: it can neither go on nor back now */
};

/** transaction_init() - nothing is open. Return: 0, -ENOMEM. */
int transaction_init(struct transaction *t, const struct apply_options *opt, struct error *err)
        __attribute__((warn_unused_result));
void transaction_deinit(struct transaction *t);
#define AUTO_TRANSACTION __attribute__((cleanup(transaction_deinit)))

/** transaction_refuse() - count and report a change that does not land. @error: why, 0: conflict. Return:
 * what the report gave. */
int transaction_refuse(struct transaction *t, const struct change *change, int error)
        __attribute__((warn_unused_result));

/**
 * transaction_push() - add an entry to the batch; a full one lands
 * @entry: its paths are consumed
 * @alone: in a batch of its own
 * @force: over what the host has
 * Return: 0 (also when entries were refused), what the report gave, -errno with a message: cut off.
 */
int transaction_push(struct transaction *t, enum change_kind kind, struct journal_entry *entry, bool force,
                     bool alone) __attribute__((warn_unused_result));

/** transaction_flush() - land what is in the batch. Return: as transaction_push(). */
int transaction_flush(struct transaction *t) __attribute__((warn_unused_result));

/** transaction_seal() - make everything that has landed final. Return: as transaction_push(). */
int transaction_seal(struct transaction *t) __attribute__((warn_unused_result));

/** transaction_resume() - go on with what was cut off, and make it final. Return: 0 or -errno with a message.
 */
int transaction_resume(const struct apply_options *opt, struct error *err)
        __attribute__((warn_unused_result));

/** transaction_abort() - undo it. @ret_refused: entries that the host has changed since. Return: 0, -EALREADY
 * (all had landed), -errno with a message. */
int transaction_abort(const struct apply_options *opt, size_t *ret_refused, struct error *err)
        __attribute__((warn_unused_result));

/** transaction_pending() - as apply_pending() */
int transaction_pending(int run_fd, uint32_t *ret_region, struct error *err)
        __attribute__((warn_unused_result));

/** apply_choose() - what the caller says about @c */
enum apply_choice apply_choose(const struct apply_options *opt, const struct change *c);
