/*
 * batch.h - the entries of one journal, carried out; used by apply.c only
 *
 * An entry that the host refuses (parent gone, a symlink in the way, no room, no permission) or that is in
 * conflict is *refused*: it does not land, its record in the upper stays, the others go on. Only what makes
 * going on senseless (memory, descriptors) is an error.
 */
#pragma once

#include <stdbool.h>

#include "fs/apply.h"
#include "fs/journal.h"

enum slot_state { SLOT_PENDING, SLOT_STAGED, SLOT_LANDED, SLOT_REFUSED };

/** struct slot - what is known of one entry while the batch runs */
struct slot {
        int dir_fd;       /* directory of the host that holds the path, owned; -1: not open */
        int file_fd;      /* staged regular file that is not synced yet, owned; -1: none */
        const char *name; /* last component, borrowed from the entry */
        enum slot_state state;
        int why; /* of SLOT_REFUSED, negative errno; -ESTALE: conflict */
};

/** struct batch - a journal and its slots; @journal and @opt borrowed */
struct batch {
        const struct apply_options *opt;
        struct journal *journal;
        struct slot slots[JOURNAL_ENTRIES_MAX];
};

/** batch_init() - an empty batch over @journal */
void batch_init(struct batch *b, const struct apply_options *opt, struct journal *journal);
void batch_deinit(struct batch *b);
#define AUTO_BATCH __attribute__((cleanup(batch_deinit)))

/** batch_stage() - make directories and temporary objects. Return: 0, -ENOMEM, -EMFILE, -ENFILE. */
int batch_stage(struct batch *b) __attribute__((warn_unused_result));

/** batch_rollback() - remove the temporary objects again; new directories stay and are adopted */
void batch_rollback(struct batch *b);

/**
 * batch_commit() - give everything its name, sync the directories; what was replaced or deleted keeps the
 * temporary names
 * Also goes on with a batch that was cut off anywhere in here. Return: 0, -ENOMEM, -EMFILE, -ENFILE.
 */
int batch_commit(struct batch *b) __attribute__((warn_unused_result));

/**
 * batch_finish() - remove what was replaced or deleted, take what landed out of the upper
 * An old version that the host has changed since goes back to its name: that entry is refused with -ESTALE.
 * May be called again. Return: 0, -ENOMEM, -EMFILE, -ENFILE.
 */
int batch_finish(struct batch *b) __attribute__((warn_unused_result));

/**
 * batch_undo() - put everything back as it was before the batch, whatever became of it
 * What the host has changed since stays: that entry is refused with -ESTALE, its old version keeps the
 * temporary name. May be called again. Return: 0, -ENOMEM, -EMFILE, -ENFILE.
 */
int batch_undo(struct batch *b) __attribute__((warn_unused_result));
