/*
 * fuzz-lines.c - texts of the work as hunks: carried out on the old text they must give the new one, byte for
 * byte, whatever is in it
 *
 * Input: the old text up to the first NUL, the new one after it.
 */
#include <stdlib.h>
#include <string.h>

#include "fs/lines.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

enum { NUMBER_BASE = 10 };

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/** struct text - what is left of bytes that are read line by line */
struct text {
        const char *p, *end;
};

/* The next line, with its newline when it has one. */
static struct text take(struct text *t) {
        const char *start = t->p;
        const char *nl;

        check(start < t->end);
        nl = memchr(start, '\n', (size_t) (t->end - start));
        t->p = nl ? nl + 1 : t->end;
        return (struct text){ start, t->p };
}

static size_t number(struct text *t, const char *before) {
        size_t n = 0;

        check((size_t) (t->end - t->p) > strlen(before) && memcmp(t->p, before, strlen(before)) == 0);
        t->p += strlen(before);
        check(t->p < t->end && *t->p >= '0' && *t->p <= '9');
        for (; t->p < t->end && *t->p >= '0' && *t->p <= '9'; t->p++)
                n = n * NUMBER_BASE + (size_t) (*t->p - '0');
        return n;
}

/** struct patching - a text that hunks are carried out on */
struct patching {
        struct text old, hunks;
        size_t old_line, new_line; /* lines passed */
        struct lines seen;
        struct buf *out;
};

static void put(struct patching *p, struct text line) {
        check(buf_add(p->out, line.p, (size_t) (line.end - line.p)) == 0);
        p->new_line++;
}

static struct text take_old(struct patching *p) {
        p->old_line++;
        return take(&p->old);
}

/* One line of a hunk. The newline that it has is the text's own, unless the next line takes it back. */
static void carry_out(struct patching *p) {
        static const char none[] = "\\ No newline at end of file\n";
        struct text line = take(&p->hunks), old;
        const char mark = *line.p++;

        check(line.end[-1] == '\n');
        if ((size_t) (p->hunks.end - p->hunks.p) >= strlen(none) &&
            memcmp(p->hunks.p, none, strlen(none)) == 0) {
                line.end--;
                p->hunks.p += strlen(none);
        }
        check(mark == '+' || mark == '-' || mark == ' ');
        if (mark != '+') {
                old = take_old(p);
                check(old.end - old.p == line.end - line.p &&
                      memcmp(old.p, line.p, (size_t) (line.end - line.p)) == 0);
        }
        if (mark != '-')
                put(p, line);
        p->seen.added += mark == '+';
        p->seen.removed += mark == '-';
}

static void carry_out_hunk(struct patching *p) {
        struct text head = take(&p->hunks);
        const size_t a = number(&head, "@@ -"), n = number(&head, ","), b = number(&head, " +"),
                     m = number(&head, ",");
        const size_t to = a - (n > 0);
        size_t old_end, new_end;

        check(head.end - head.p == 4 && memcmp(head.p, " @@\n", 4) == 0);
        check(n + m > 0 && a >= (n > 0) && to >= p->old_line);
        while (p->old_line < to)
                put(p, take_old(p));
        check(b == p->new_line + (m > 0));
        old_end = p->old_line + n;
        new_end = p->new_line + m;
        while (p->old_line < old_end || p->new_line < new_end)
                carry_out(p);
        check(p->old_line == old_end && p->new_line == new_end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
        const char *a = (const char *) data, *b = nul ? (const char *) nul + 1 : a + size;
        const size_t a_len = nul ? (size_t) (nul - data) : size,
                     b_len = (size_t) ((const char *) data + size - b);
        AUTO_BUF struct buf hunks = { 0 }, got = { 0 };
        struct patching p = { .old = { a, a + a_len }, .out = &got };
        struct lines lines = { 0 }, counted = { 0 };

        if (lines_diff(a, a_len, b, b_len, &hunks, &lines) < 0)
                return 0;
        p.hunks = (struct text){ buf_cstr(&hunks), buf_cstr(&hunks) + hunks.len };
        while (p.hunks.p < p.hunks.end)
                carry_out_hunk(&p);
        while (p.old.p < p.old.end)
                put(&p, take_old(&p));
        check(got.len == b_len && (b_len == 0 || memcmp(got.data, b, b_len) == 0));
        check(p.seen.added == lines.added && p.seen.removed == lines.removed);
        check(hunks.len > 0 || (a_len == b_len && memcmp(a, b, a_len) == 0));
        check(lines_diff(a, a_len, b, b_len, NULL, &counted) == 0 && counted.added == lines.added &&
              counted.removed == lines.removed);
        return 0;
}
