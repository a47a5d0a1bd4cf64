/*
 * DOC: theory of operation
 *
 * The rules are those that docker documents: a line is a pattern of Go's filepath.Match(), with "**" for any
 * number of directories; blanks around it go, "." and ".." and a leading '/' are cleaned away, '#' in the
 * first column is a comment, '!' makes an exception, and the last line that matches a path or a directory
 * above it decides. The engine reads the file too and has the last word on what is copied; so where engines
 * differ, less is ignored here.
 *
 * Whoever wrote the patterns may be hostile. They become automata that are run with all states at once: the
 * work is the length of the pattern times that of the path, and counted. Nothing goes back.
 */
#include "drivers/oci/ignore.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

static const uint64_t steps_max = UINT64_C(10000000000);
static const char blanks[] = " \t\v\f\r";

enum kind {
        LITERAL, /* @c */
        ONE,     /* "?": no '/' */
        MANY,    /* "*": no '/' */
        ALL,     /* "**" at the end */
        MAYBE,   /* "**" elsewhere: what follows, or what follows behind some directories */
        DIRS,    /* the directories of that */
        CLASS,   /* "[...]" */
        KIND_COUNT
};

/** struct token - one step of an automaton */
struct token {
        enum kind kind;
        uint32_t c;
        bool negated;
        size_t first, n; /* ranges */
};

/** struct range - of a class */
struct range {
        uint32_t from, to;
};

/** struct pattern - one line */
struct pattern {
        bool exception;
        size_t first, n; /* tokens */
};

/** struct states - those that an automaton is in */
struct states {
        uint64_t round, seen[2 * IGNORE_PATTERN_MAX + 2]; /* in the list when it says the round */
        size_t n, list[2 * IGNORE_PATTERN_MAX + 2];
};

struct ignore {
        struct pattern patterns[IGNORE_PATTERNS_MAX];
        size_t n_patterns, n_tokens, n_ranges, cap_tokens, cap_ranges;
        struct token *tokens;
        struct range *ranges;
        uint64_t steps;
        struct states now, next;
        uint32_t path[PATH_MAX];
};

struct ignore *ignore_free(struct ignore *ignore) {
        if (ignore) {
                free(ignore->tokens);
                free(ignore->ranges);
        }
        free(ignore);
        return NULL;
}

size_t ignore_count(const struct ignore *ignore) {
        return ignore->n_patterns;
}

/* --- characters --------------------------------------------------------------------------------------- */

/* The character at *@p, which then is behind it. What is no UTF-8 is a character of its own, by the byte. */
static uint32_t next_char(const unsigned char **p) {
        static const struct {
                unsigned char mask, is;
                uint32_t least;
        } forms[] = { { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };
        const unsigned char *const s = *p;

        (*p)++;
        for (size_t i = 0; *s >= 0x80 && i < ARRAY_SIZE(forms); i++) {
                uint32_t c = *s & (unsigned char) ~forms[i].mask;
                size_t k;

                if ((*s & forms[i].mask) != forms[i].is)
                        continue;
                for (k = 1; k <= i + 1 && (s[k] & 0xc0) == 0x80; k++)
                        c = c << 6 | (s[k] & 0x3f);
                if (k <= i + 1 || c < forms[i].least || c > 0x10ffff)
                        break;
                *p = s + k;
                return c;
        }
        return *s < 0x80 ? *s : 0x110000U + *s;
}

/* --- reading ------------------------------------------------------------------------------------------ */

static int add_token(struct ignore *g, struct token token) {
        if (g->n_tokens == g->cap_tokens) {
                const size_t cap = g->cap_tokens ? g->cap_tokens * 2 : 256;
                struct token *grown = reallocarray(g->tokens, cap, sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                g->tokens = grown;
                g->cap_tokens = cap;
        }
        g->tokens[g->n_tokens++] = token;
        return 0;
}

static int add_range(struct ignore *g, uint32_t from, uint32_t to) {
        if (to < from)
                return -EINVAL;
        if (g->n_ranges == g->cap_ranges) {
                const size_t cap = g->cap_ranges ? g->cap_ranges * 2 : 64;
                struct range *grown = reallocarray(g->ranges, cap, sizeof(*grown));

                if (!grown)
                        return -ENOMEM;
                g->ranges = grown;
                g->cap_ranges = cap;
        }
        g->ranges[g->n_ranges++] = (struct range){ from, to };
        return 0;
}

/* One end of a range. */
static int class_char(const unsigned char **p, uint32_t *ret) {
        if (**p == '\0' || **p == ']' || **p == '-')
                return -EINVAL;
        if (**p == '\\' && *++*p == '\0')
                return -EINVAL;
        *ret = next_char(p);
        return 0;
}

static int add_class(struct ignore *g, const unsigned char **p) {
        struct token token = { .kind = CLASS, .first = g->n_ranges };
        int r = 0;

        token.negated = **p == '^';
        *p += token.negated;
        do {
                uint32_t from = 0, to = 0;

                r = class_char(p, &from);
                to = from;
                if (r == 0 && **p == '-') {
                        (*p)++;
                        r = class_char(p, &to);
                }
                if (r == 0)
                        r = add_range(g, from, to);
        } while (r == 0 && **p != ']');
        if (r < 0)
                return r;
        (*p)++;
        token.n = g->n_ranges - token.first;
        return add_token(g, token);
}

/* "**", and a '/' behind it that belongs to it. */
static int add_stars(struct ignore *g, const unsigned char **p, bool first) {
        const bool alone = first && **p != '/' && !strpbrk((const char *) *p, "*?[\\]");
        int r;

        *p += **p == '/';
        if (**p == '\0' || alone) /* "**NAME": whatever ends so */
                return add_token(g, (struct token){ .kind = ALL });
        r = add_token(g, (struct token){ .kind = MAYBE });
        return r < 0 ? r : add_token(g, (struct token){ .kind = DIRS });
}

static int compile(struct ignore *g, const char *text) {
        const unsigned char *p = (const unsigned char *) text;
        int r = 0;

        while (r == 0 && *p) {
                const bool first = (const char *) p == text;
                const uint32_t c = next_char(&p);

                if (c == '*' && *p == '*') {
                        p++;
                        r = add_stars(g, &p, first);
                } else if (c == '*') {
                        r = add_token(g, (struct token){ .kind = MANY });
                } else if (c == '?') {
                        r = add_token(g, (struct token){ .kind = ONE });
                } else if (c == '[') {
                        r = add_class(g, &p);
                } else if (c == '\\' && *p == '\0') {
                        r = -EINVAL;
                } else {
                        r = add_token(g, (struct token){ .c = c == '\\' ? next_char(&p) : c });
                }
        }
        return r;
}

/* Without empty parts, "." and "..", as far as there is something that ".." can take back. */
static void clean(char *path) {
        const bool rooted = *path == '/';
        char *out = path;
        size_t kept = 0; /* parts that ".." can take */

        for (const char *in = path; *in;) {
                const size_t n = strcspn(in, "/");
                const char *const next = in + n + (in[n] == '/');

                if (n == 0 || (n == 1 && *in == '.')) {
                        in = next;
                        continue;
                }
                if (n == 2 && in[0] == '.' && in[1] == '.' && (kept > 0 || rooted)) {
                        while (kept > 0 && out > path && *--out != '/')
                                ;
                        kept -= kept > 0;
                        in = next;
                        continue;
                }
                kept += !(n == 2 && in[0] == '.' && in[1] == '.');
                if (out > path)
                        *out++ = '/';
                memmove(out, in, n);
                out += n;
                in = next;
        }
        *out = '\0';
}

static char *trim(char *s) {
        size_t n;

        s += strspn(s, blanks);
        for (n = strlen(s); n > 0 && strchr(blanks, s[n - 1]); n--)
                ;
        s[n] = '\0';
        return s;
}

static int add_line(struct ignore *g, char *line) {
        struct pattern pattern = { .first = g->n_tokens };
        char *text;
        int r;

        if (*line == '#')
                return 0;
        text = trim(line);
        if (!*text)
                return 0;
        if (strlen(text) > IGNORE_PATTERN_MAX || g->n_patterns == IGNORE_PATTERNS_MAX)
                return -E2BIG;
        pattern.exception = *text == '!';
        if (pattern.exception)
                text = trim(text + 1);
        if (!*text)
                return -EINVAL;
        clean(text);
        if (!*text) /* the context itself: that cannot be left out */
                return 0;
        r = compile(g, text);
        pattern.n = g->n_tokens - pattern.first;
        if (r == 0)
                g->patterns[g->n_patterns++] = pattern;
        return r;
}

int ignore_parse(const char *text, size_t len, struct ignore **ret, struct error *err) {
        AUTO_IGNORE struct ignore *g = calloc(1, sizeof(*g));
        AUTO_FREE char *copy = NULL;
        unsigned int number = 1;
        int r = 0;

        if (len > IGNORE_BYTES_MAX)
                return error_set(err, -E2BIG, ".dockerignore: larger than 1 MiB");
        if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* as some editors begin a file */
                text += 3;
                len -= 3;
        }
        if (memchr(text, '\0', len))
                return error_set(err, -EINVAL, ".dockerignore: holds a NUL");
        copy = strndup(text, len);
        if (!g || !copy)
                return error_set(err, -ENOMEM, "out of memory");
        for (char *line = copy; r == 0 && line; number++) {
                char *const end = strchr(line, '\n');

                if (end)
                        *end = '\0';
                r = add_line(g, line);
                if (r < 0)
                        return error_set(err, r, ".dockerignore: line %u: %s", number,
                                         r == -EINVAL  ? "that is no pattern"
                                         : r == -E2BIG ? "too long, or too many patterns"
                                                       : strerror(-r));
                line = end ? end + 1 : NULL;
        }
        *ret = TAKE_PTR(g);
        return 0;
}

/* --- matching ------------------------------------------------------------------------------------------ */

static void enter(struct states *s, size_t i) {
        if (s->seen[i] != s->round) {
                s->seen[i] = s->round;
                s->list[s->n++] = i;
        }
}

static void begin(struct states *s) {
        s->n = 0;
        s->round++;
}

/* And what is reached from there without a character. */
static void settle(const struct ignore *g, const struct pattern *p, struct states *s) {
        for (size_t k = 0; k < s->n; k++) {
                const size_t i = s->list[k];
                const enum kind kind = i < p->n ? g->tokens[p->first + i].kind : LITERAL;

                if (kind == MANY || kind == ALL || kind == MAYBE)
                        enter(s, i + 1);
                if (kind == MAYBE)
                        enter(s, i + 2);
        }
}

static bool in_class(const struct ignore *g, const struct token *t, uint32_t c) {
        for (size_t i = 0; i < t->n; i++)
                if (c >= g->ranges[t->first + i].from && c <= g->ranges[t->first + i].to)
                        return !t->negated;
        return t->negated;
}

static void step(struct ignore *g, const struct pattern *p, uint32_t c) {
        begin(&g->next);
        for (size_t k = 0; k < g->now.n; k++) {
                const size_t i = g->now.list[k];
                const struct token *t;

                if (i == p->n)
                        continue; /* it ended before */
                t = &g->tokens[p->first + i];
                if ((t->kind == MANY && c != '/') || t->kind == ALL || t->kind == DIRS)
                        enter(&g->next, i);
                if ((t->kind == LITERAL && c == t->c) || (t->kind == ONE && c != '/') ||
                    (t->kind == DIRS && c == '/') || (t->kind == CLASS && in_class(g, t, c)))
                        enter(&g->next, i + 1);
        }
        settle(g, p, &g->next);
        g->steps += g->now.n + 1;
        memcpy(g->now.list, g->next.list, g->next.n * sizeof(*g->next.list));
        g->now.n = g->next.n;
}

/* @ret_live: a longer path may match. */
static bool run(struct ignore *g, const struct pattern *p, size_t len, bool *ret_live) {
        bool matches = false;

        begin(&g->now);
        enter(&g->now, 0);
        settle(g, p, &g->now);
        for (size_t i = 0; i < len && g->now.n > 0; i++)
                step(g, p, g->path[i]);
        for (size_t k = 0; k < g->now.n; k++)
                matches = matches || g->now.list[k] == p->n;
        if (p->exception && g->now.n > 0)
                step(g, p, '/');
        *ret_live = g->now.n > 0;
        return matches;
}

int ignore_match(struct ignore *g, const char *path, const bool *above, bool *here,
                 struct ignore_verdict *ret) {
        const unsigned char *p = (const unsigned char *) path;
        struct ignore_verdict v = { 0 };
        size_t len = 0;

        for (; *p && len < PATH_MAX; len++)
                g->path[len] = next_char(&p);
        if (*p)
                return -ENAMETOOLONG;
        for (size_t i = 0; i < g->n_patterns; i++) {
                const struct pattern *pattern = &g->patterns[i];
                bool live = false;

                here[i] = run(g, pattern, len, &live) || (above && above[i]);
                if (here[i])
                        v.ignored = !pattern->exception;
                v.search = v.search || (pattern->exception && live);
                if (g->steps > steps_max)
                        return -E2BIG;
        }
        v.search = v.search && v.ignored;
        *ret = v;
        return 0;
}
