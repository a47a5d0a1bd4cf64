#include "fs/lines.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"

enum { CONTEXT = 3 };

struct line {
        const char *p;
        size_t len; /* with the newline, if there is one */
        uint64_t hash;
};

/** struct text - lines, and which of them have no partner in the other text */
struct text {
        struct line *v; /* owned */
        bool *changed;  /* owned */
        size_t n;
};

static void text_deinit(struct text *t) {
        free(t->v);
        free(t->changed);
}
#define AUTO_TEXT __attribute__((cleanup(text_deinit)))

static int text_init(struct text *t, const char *p, size_t len) {
        size_t n = 0;

        for (const char *q = p, *end = p + len; q < end; n++) {
                const char *nl = memchr(q, '\n', (size_t) (end - q));

                q = nl ? nl + 1 : end;
        }
        t->v = calloc(n + 1, sizeof(*t->v));
        t->changed = calloc(n + 1, sizeof(*t->changed));
        if (!t->v || !t->changed)
                return -ENOMEM;
        for (const char *q = p, *end = p + len; q < end;) {
                const char *nl = memchr(q, '\n', (size_t) (end - q));
                struct line *line = &t->v[t->n++];

                line->p = q;
                line->len = (size_t) ((nl ? nl + 1 : end) - q);
                line->hash = 0xcbf29ce484222325U; /* FNV-1a */
                for (size_t i = 0; i < line->len; i++)
                        line->hash = (line->hash ^ (unsigned char) q[i]) * 0x100000001b3U;
                q += line->len;
        }
        return 0;
}

static bool same(const struct line *a, const struct line *b) {
        return a->hash == b->hash && a->len == b->len && memcmp(a->p, b->p, a->len) == 0;
}

/** struct span - the middle of both texts, between their common ends */
struct span {
        const struct text *a, *b;
        size_t a0, b0; /* where it begins */
        ptrdiff_t n, m;
};

/* How far the diagonal goes on from @x. */
static ptrdiff_t slide(const struct span *s, ptrdiff_t x, ptrdiff_t k) {
        while (x < s->n && x - k < s->m &&
               same(&s->a->v[s->a0 + (size_t) x], &s->b->v[s->b0 + (size_t) (x - k)]))
                x++;
        return x;
}

/* Walks the paths of each number of edits back and marks the lines that were passed over. */
static void mark(const struct span *s, int32_t *const *trace, ptrdiff_t d) {
        ptrdiff_t x = s->n, y = s->m;

        for (; d > 0; d--) {
                const int32_t *v = trace[d - 1] + d - 1; /* of one edit less: its middle */
                const ptrdiff_t k = x - y;
                const bool down = k == -d || (k != d && v[k - 1] < v[k + 1]);
                const ptrdiff_t from = down ? v[k + 1] : v[k - 1];

                if (down)
                        s->b->changed[s->b0 + (size_t) (from - (k + 1))] = true;
                else
                        s->a->changed[s->a0 + (size_t) from] = true;
                x = from;
                y = from - (down ? k + 1 : k - 1);
        }
}

static void mark_all(const struct span *s) {
        for (ptrdiff_t i = 0; i < s->n; i++)
                s->a->changed[s->a0 + (size_t) i] = true;
        for (ptrdiff_t i = 0; i < s->m; i++)
                s->b->changed[s->b0 + (size_t) i] = true;
}

/* One step of the search: the furthest ends with @d edits. Return: whether the end of both is reached. */
static bool extend(const struct span *s, const int32_t *last, int32_t *now, ptrdiff_t d) {
        bool reached = false;

        for (ptrdiff_t k = -d; k <= d; k += 2) {
                ptrdiff_t x = 0;

                if (d > 0)
                        x = k == -d || (k != d && last[k - 1] < last[k + 1]) ? last[k + 1] : last[k - 1] + 1;
                /* outside of the texts: no way that leads on */
                x = x > s->n || x - k > s->m || x - k < 0 ? (x > s->n ? s->n + 1 : x) : slide(s, x, k);
                now[k] = (int32_t) x;
                reached = reached || (x >= s->n && x - k >= s->m && x == s->n && x - k == s->m);
        }
        return reached;
}

static int search(const struct span *s) {
        AUTO_FREE int32_t **trace = calloc(LINES_EDITS_MAX + 1, sizeof(*trace));
        ptrdiff_t d = 0;
        bool reached = false;
        int r = trace ? 0 : -ENOMEM;

        if (s->n > INT32_MAX - 2 || s->m > INT32_MAX - 2)
                r = r < 0 ? r : -E2BIG;
        for (; r == 0 && !reached && d <= LINES_EDITS_MAX; d++) {
                trace[d] = calloc(2 * (size_t) d + 1, sizeof(**trace));
                if (!trace[d])
                        r = -ENOMEM;
                else
                        reached = extend(s, d > 0 ? trace[d - 1] + d - 1 : NULL, trace[d] + d, d);
        }
        if (r == 0 && reached)
                mark(s, trace, d - 1);
        else if (r == 0)
                mark_all(s);
        for (ptrdiff_t i = 0; trace && i <= LINES_EDITS_MAX; i++)
                free(trace[i]);
        return r;
}

static int compare(const struct text *a, const struct text *b) {
        struct span s = { .a = a, .b = b };
        size_t end = 0;

        while (s.a0 < a->n && s.a0 < b->n && same(&a->v[s.a0], &b->v[s.a0]))
                s.a0++;
        s.b0 = s.a0;
        while (end < a->n - s.a0 && end < b->n - s.b0 && same(&a->v[a->n - 1 - end], &b->v[b->n - 1 - end]))
                end++;
        s.n = (ptrdiff_t) (a->n - s.a0 - end);
        s.m = (ptrdiff_t) (b->n - s.b0 - end);
        return s.n == 0 && s.m == 0 ? 0 : search(&s);
}

static int put_line(struct buf *out, char mark, const struct line *line) {
        int r;

        r = buf_add(out, &mark, 1);
        if (r == 0)
                r = buf_add(out, line->p, line->len);
        if (r == 0 && line->p[line->len - 1] != '\n')
                r = buf_str(out, "\n\\ No newline at end of file\n");
        return r;
}

/* The next lines of both texts from @i and @j on that differ; the end when there are none. */
static void next_change(const struct text *a, const struct text *b, size_t *i, size_t *j) {
        while (*i < a->n && *j < b->n && !a->changed[*i] && !b->changed[*j]) {
                ++*i;
                ++*j;
        }
}

static void skip_change(const struct text *a, const struct text *b, size_t *i, size_t *j) {
        while (*i < a->n && a->changed[*i])
                ++*i;
        while (*j < b->n && b->changed[*j])
                ++*j;
}

/** struct hunk - lines [a0, a1) become [b0, b1) */
struct hunk {
        size_t a0, a1, b0, b1;
};

static int put_hunk(struct buf *out, const struct text *a, const struct text *b, const struct hunk *h) {
        const size_t n = h->a1 - h->a0, m = h->b1 - h->b0;
        size_t i = h->a0, j = h->b0;
        int r;

        r = buf_fmt(out, "@@ -%zu,%zu +%zu,%zu @@\n", h->a0 + (n > 0), n, h->b0 + (m > 0), m);
        while (r == 0 && (i < h->a1 || j < h->b1)) {
                if (i < h->a1 && a->changed[i])
                        r = put_line(out, '-', &a->v[i++]);
                else if (j < h->b1 && b->changed[j])
                        r = put_line(out, '+', &b->v[j++]);
                else {
                        r = put_line(out, ' ', &a->v[i++]);
                        j++;
                }
        }
        return r;
}

static int put_hunks(struct buf *out, const struct text *a, const struct text *b) {
        size_t i = 0, j = 0;
        int r = 0;

        for (next_change(a, b, &i, &j); r == 0 && (i < a->n || j < b->n); next_change(a, b, &i, &j)) {
                const size_t before = i < CONTEXT ? i : CONTEXT;
                struct hunk h = { .a0 = i - before, .b0 = j - before };

                for (;;) {
                        size_t x, y;

                        skip_change(a, b, &i, &j);
                        x = i;
                        y = j;
                        next_change(a, b, &x, &y);
                        if ((x == a->n && y == b->n) || x - i > 2 * CONTEXT)
                                break;
                        i = x;
                        j = y;
                }
                h.a1 = a->n - i < CONTEXT ? a->n : i + CONTEXT;
                h.b1 = j + (h.a1 - i);
                r = put_hunk(out, a, b, &h);
        }
        return r;
}

int lines_diff(const char *a, size_t a_len, const char *b, size_t b_len, struct buf *out, struct lines *ret) {
        AUTO_TEXT struct text x = { 0 }, y = { 0 };
        int r;

        r = text_init(&x, a, a_len);
        if (r == 0)
                r = text_init(&y, b, b_len);
        if (r == 0)
                r = compare(&x, &y);
        if (r < 0)
                return r;
        *ret = (struct lines){ 0 };
        for (size_t i = 0; i < x.n; i++)
                ret->removed += x.changed[i];
        for (size_t i = 0; i < y.n; i++)
                ret->added += y.changed[i];
        return out ? put_hunks(out, &x, &y) : 0;
}
