/*
 * fuzz-journal.c - the journal of apply: written by us, but a crash or a bad disk may hand back anything
 */
#include <stdlib.h>
#include <string.h>

#include "fs/journal.h"
#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

enum { SUM_BYTES = 8 };

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_journal(const struct journal *j, const uint8_t *data, size_t size) {
        AUTO_BUF struct buf again = { 0 };
        char name[JOURNAL_TEMP_MAX];

        check(j->n > 0 && j->n <= JOURNAL_ENTRIES_MAX && j->phase < JOURNAL_PHASE_COUNT);
        for (size_t i = 0; i < j->n; i++) {
                check(j->entries[i].op < JOURNAL_OP_COUNT && pathfd_is_sane(j->entries[i].path));
                check(strlen(j->entries[i].path) <= JOURNAL_PATH_MAX);
                check((j->entries[i].op == JOURNAL_RENAME) == (j->entries[i].from != NULL));
                check(!j->entries[i].from || pathfd_is_sane(j->entries[i].from));
                journal_temp_name(j, i, name);
                check(strlen(name) < sizeof(name) && !strchr(name, '/'));
        }
        /* what is accepted says exactly what was written */
        if (journal_format(j, &again) == 0)
                check(again.len == size && memcmp(again.data, data, size) == 0);
}

static void parse(const uint8_t *data, size_t size) {
        AUTO_JOURNAL struct journal *j = NULL;

        if (journal_parse(data, size, &j) == 0)
                check_journal(j, data, size);
        else
                check(!j);
}

/* The checksum as the format documents it, so that mutations get past it. */
static uint64_t fnv1a(const uint8_t *p, size_t len) {
        uint64_t h = 0xcbf29ce484222325U;

        for (size_t i = 0; i < len; i++)
                h = (h ^ p[i]) * 0x100000001b3U;
        return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FREE uint8_t *fixed = NULL;
        uint64_t sum;

        parse(data, size);
        if (size < SUM_BYTES)
                return 0;
        fixed = malloc(size);
        if (!fixed)
                return 0;
        sum = fnv1a(data, size - SUM_BYTES);
        memcpy(fixed, data, size - SUM_BYTES);
        memcpy(fixed + size - SUM_BYTES, &sum, sizeof(sum));
        parse(fixed, size);
        return 0;
}
