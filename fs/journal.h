/*
 * journal.h - what a transaction of apply is about to do, so that a crash in the middle can be finished
 *
 * One file "journal" in the run directory, replaced in one step and synced. It holds one batch: a fixed head,
 * then per entry a fixed record and the bytes of its path, then a checksum of all before. Host byte order: a
 * run never leaves its machine.
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
        JOURNAL_BYTES_MAX = JOURNAL_ENTRIES_MAX * (JOURNAL_PATH_MAX + 256) + 256,
        JOURNAL_TEMP_MAX = 64,
};

/* names of temporary objects in the host's directories; the guard hides them from every sandbox */
#define JOURNAL_TEMP_PREFIX ".cofferdam-apply-"

enum journal_op { JOURNAL_MKDIR, JOURNAL_PUT, JOURNAL_DELETE, JOURNAL_OP_COUNT };

/* JOURNAL_STAGE: temporary files are being made, nothing is visible. JOURNAL_COMMIT: they are being renamed.
 */
enum journal_phase { JOURNAL_STAGE, JOURNAL_COMMIT, JOURNAL_PHASE_COUNT };

/** struct journal_entry - one path */
struct journal_entry {
        enum journal_op op;
        char *path;                /* sane (pathfd.h), owned */
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

/** journal_remove() - close the transaction; durable when it returns. Return: 0 or -errno. */
int journal_remove(int run_fd, struct error *err) __attribute__((warn_unused_result));

/** journal_clear() - forget the entries, keep the rest */
void journal_clear(struct journal *j);
struct journal *journal_free(struct journal *j);

static inline void auto_journal(struct journal **p) {
        *p = journal_free(*p);
}
#define AUTO_JOURNAL __attribute__((cleanup(auto_journal)))
