/*
 * journal.h - what a transaction of apply is about to do, so that a crash in the middle can be finished
 *
 * One file "journal" in the run directory, replaced in one step and synced. It holds one batch: a fixed head,
 * then per entry a fixed record and the bytes of its path (of a renamed directory: a NUL and the old path,
 * too), then a checksum of all before. Host byte order: a run never leaves its machine.
 * Batches that have landed are kept one after the other in "journal.done", each behind its length, until all
 * have: they say how to go back. Then it is called "journal.final".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/diff.h"
#include "fs/layer.h"
#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum {
        JOURNAL_ENTRIES_MAX = 64, /* each pins a directory while it runs */
        JOURNAL_PATH_MAX = (DIFF_DEPTH_MAX + 1) * 256,
        JOURNAL_BYTES_MAX = JOURNAL_ENTRIES_MAX * (2 * JOURNAL_PATH_MAX + 256) + 256,
        JOURNAL_TEMP_MAX = 64,
};

/* names of temporary objects in the host's directories; the guard hides them from every sandbox */
#define JOURNAL_TEMP_PREFIX ".cofferdam-apply-"

enum journal_op {
        JOURNAL_MKDIR,
        JOURNAL_PUT,
        JOURNAL_DELETE,
        JOURNAL_RENAME,
        JOURNAL_REFUSED, /* of a batch that has landed: this one did not; nothing to undo or to finish */
        JOURNAL_OP_COUNT
};

/* JOURNAL_STAGE: temporary files are being made, nothing is visible. JOURNAL_COMMIT: they are being renamed.
 */
enum journal_phase { JOURNAL_STAGE, JOURNAL_COMMIT, JOURNAL_PHASE_COUNT };

/** struct journal_entry - one path */
struct journal_entry {
        enum journal_op op;
        char *path;                /* sane (pathfd.h), owned */
        char *from;                /* RENAME: where the directory is, sane, owned; else NULL */
        struct layer_origin lower; /* what must be there; ino 0: nothing */
        struct layer_origin upper; /* what lands; a deletion: its whiteout */
        int64_t since_ns;          /* deleted directories: nothing below may have changed later */
        uint64_t staged_ino;       /* PUT, from COMMIT on: inode of the temporary object; 0: there is none */
};

/** struct journal - one batch */
struct journal {
        uint32_t region;
        enum journal_phase phase;
        bool force;
        uint64_t tx; /* random, names the temporary objects */
        struct journal_entry entries[JOURNAL_ENTRIES_MAX];
        size_t n;
};

/** journal_temp_name() - name of the temporary object of entry @i. @out: JOURNAL_TEMP_MAX bytes */
void journal_temp_name(const struct journal *j, size_t i, char *out);

/** journal_format() - append the bytes of @j. Return: 0, -ENOMEM, -E2BIG. */
int journal_format(const struct journal *j, struct buf *out) __attribute__((warn_unused_result));

/**
 * journal_parse() - the journal in @data; the whole of it or nothing
 * @ret: caller frees with journal_free()
 * Return: 0, -EBADMSG (not one of ours, cut, or damaged), -EPROTONOSUPPORT (another version), -ENOMEM.
 */
int journal_parse(const void *data, size_t len, struct journal **ret) __attribute__((warn_unused_result));

/** journal_store() - replace the journal of the run; durable when it returns. Return: 0 or -errno. */
int journal_store(int run_fd, const struct journal *j, struct error *err) __attribute__((warn_unused_result));

/** journal_load() - read it. Return: 0, -ENOENT (none is open), as journal_parse(), -errno. */
int journal_load(int run_fd, struct journal **ret, struct error *err) __attribute__((warn_unused_result));

/**
 * journal_append() - keep @j in the list of what has landed but can still be undone, then close it
 * Without entries it is only closed. Durable when it returns. Return: 0 or -errno.
 */
int journal_append(int run_fd, const struct journal *j, struct error *err)
        __attribute__((warn_unused_result));

/** enum journal_list - what is in the list: it can be undone, or is being made final */
enum journal_list { JOURNAL_NONE, JOURNAL_DONE, JOURNAL_FINAL };

/** journal_list() - which list there is. Return: enum journal_list, -errno. */
int journal_list(int run_fd) __attribute__((warn_unused_result));

/** journal_seal() - from now on the list can only be made final; durable when it returns. Return: 0 or
 * -errno.
 */
int journal_seal(int run_fd, struct error *err) __attribute__((warn_unused_result));

/** journal_fn - @j: borrowed, may be changed. Return: 0 to go on, negative errno to stop */
typedef int (*journal_fn)(struct journal *j, void *arg);

/**
 * journal_each() - call @fn for each batch of the list
 * @backwards: the last one first
 * A batch that was cut at the end of the list was never closed: it is passed over, the journal has it still.
 * Return: 0, -ENOENT (no list), what @fn gave, -errno with a message.
 */
int journal_each(int run_fd, bool backwards, journal_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));

/** journal_forget() - remove the list; durable when it returns. Return: 0 or -errno. */
int journal_forget(int run_fd, struct error *err) __attribute__((warn_unused_result));

/** journal_remove() - close the transaction; durable when it returns. Return: 0 or -errno. */
int journal_remove(int run_fd, struct error *err) __attribute__((warn_unused_result));

/** journal_clear() - forget the entries, keep the rest */
void journal_clear(struct journal *j);
struct journal *journal_free(struct journal *j);

static inline void auto_journal(struct journal **p) {
        *p = journal_free(*p);
}
#define AUTO_JOURNAL __attribute__((cleanup(auto_journal)))
