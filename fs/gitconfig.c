#include "fs/gitconfig.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"

/** struct reader - a file being read; the end reads as one more newline, as git has it */
struct reader {
        const char *p, *end;
        unsigned line;
        bool at_end;
        struct buf base; /* "section." or "section.subsection." */
        struct buf key;
        struct buf value;
        gitconfig_fn fn;
        void *arg;
        struct error *err;
};

static int bad(const struct reader *r, const char *what) {
        return error_set(r->err, -EINVAL, "line %u: %s", r->line, what);
}

/* The next byte; CR LF is LF. */
static int next(struct reader *r) {
        if (r->p == r->end) {
                r->at_end = true;
                return '\n';
        }
        if (r->end - r->p >= 2 && r->p[0] == '\r' && r->p[1] == '\n')
                r->p++;
        return (unsigned char) *r->p++;
}

static int push(const struct reader *r, struct buf *b, int c) {
        const char byte = (char) c;
        const int n = buf_add(b, &byte, 1);

        return n == -E2BIG ? bad(r, "a name or value is too long") : n;
}

/* git's character classes do not depend on the locale */
static bool is_alpha(int c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_key(int c) {
        return is_alpha(c) || (c >= '0' && c <= '9') || c == '-';
}

static int to_lower(int c) {
        return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static bool is_control(int c) {
        return (c < ' ' && c != '\n') || c == 0x7f;
}

static void clear(struct buf *b) {
        b->len = 0;
        if (b->data)
                b->data[0] = '\0';
}

/* The quoted subsection, from behind its first quote to behind the closing bracket. */
static int read_subsection(struct reader *r) {
        const size_t start = r->base.len + 1;
        int c, n;

        n = push(r, &r->base, '.');
        if (n < 0)
                return n;
        for (c = next(r); c != '"'; c = next(r)) {
                if (c == '\\')
                        c = next(r);
                if (c == '\n' || is_control(c))
                        return bad(r, "a control byte or the end of the line in a subsection");
                n = push(r, &r->base, c);
                if (n < 0)
                        return n;
        }
        if (r->base.len == start)
                return bad(r, "an empty subsection");
        return next(r) == ']' ? 0 : bad(r, "no ']' after the subsection");
}

/* A section header, from behind its '['. */
static int read_header(struct reader *r) {
        int c, last = '.', n;

        clear(&r->base);
        for (c = next(r); is_key(c) || c == '.'; c = next(r)) {
                if (c == '.' && last == '.')
                        return bad(r, "an empty part in a section name");
                last = c;
                n = push(r, &r->base, to_lower(c));
                if (n < 0)
                        return n;
        }
        if (last == '.')
                return bad(r, "an empty part in a section name");
        if (c == ' ' || c == '\t') {
                if (memchr(r->base.data, '.', r->base.len))
                        return bad(r, "a dotted section with a subsection");
                while (c == ' ' || c == '\t')
                        c = next(r);
                n = c == '"' ? read_subsection(r) : bad(r, "no '\"' before the subsection");
        } else {
                n = c == ']' ? 0 : bad(r, "a byte that does not belong in a section name");
        }
        return n < 0 ? n : push(r, &r->base, '.');
}

/* What stands for @c after a backslash; -1: nothing does. */
static int unescape(int c) {
        static const char from[] = "tbn\\\"", to[] = "\t\b\n\\\"";
        const char *at = c ? strchr(from, c) : NULL;

        return at ? to[at - from] : -1;
}

static int skip_line(struct reader *r) {
        int c;

        do
                c = next(r);
        while (c != '\n');
        r->line++;
        return 0;
}

/* One byte of a value after a backslash. */
static int read_escape(struct reader *r) {
        const int c = next(r);

        if (c == '\n' && !r->at_end) {
                r->line++;
                return 0;
        }
        if (unescape(c) < 0)
                return bad(r, "an unknown escape");
        return push(r, &r->value, unescape(c));
}

/* Blanks count when something follows them. */
static int push_blanks(struct reader *r, size_t *blanks) {
        int n = 0;

        for (; n == 0 && *blanks > 0; (*blanks)--)
                n = push(r, &r->value, ' ');
        return n;
}

/* The value of a key, from behind the '=' to behind the end of its line. */
static int read_value(struct reader *r) {
        bool quoted = false, tab = false;
        size_t blanks = 0;
        int c, n = 0;

        clear(&r->value);
        for (c = next(r); c != '\n' && n == 0; c = next(r)) {
                if (!quoted && (c == '#' || c == ';'))
                        return skip_line(r);
                if (!quoted && (c == ' ' || c == '\t')) {
                        blanks += r->value.len > 0;
                        tab = tab || (c == '\t' && r->value.len > 0);
                        continue;
                }
                if (is_control(c) && !(quoted && c == '\t'))
                        return bad(r, "a control byte in a value");
                if (tab)
                        return bad(r, "a tab inside an unquoted value"); /* git 2.45 changed what it means */
                n = push_blanks(r, &blanks);
                if (n == 0 && c == '\\')
                        n = read_escape(r);
                else if (n == 0 && c == '"')
                        quoted = !quoted;
                else if (n == 0)
                        n = push(r, &r->value, c);
                if (n < 0)
                        return n;
        }
        if (quoted)
                return bad(r, "a quote is not closed");
        r->line++;
        return 0;
}

/* A key that begins with @c, to behind the end of its line. */
static int read_key(struct reader *r, int c) {
        int n;

        if (r->base.len == 0)
                return bad(r, "a key before the first section");
        clear(&r->key);
        n = buf_str(&r->key, r->base.data);
        for (; n == 0 && is_key(c); c = next(r))
                n = push(r, &r->key, to_lower(c));
        if (n < 0)
                return n;
        while (c == ' ' || c == '\t')
                c = next(r);
        if (c == '\n') {
                n = r->fn(r->key.data, NULL, r->arg);
                r->line++;
                return n;
        }
        if (c != '=')
                return bad(r, "no '=' after the key");
        n = read_value(r);
        return n < 0 ? n : r->fn(r->key.data, buf_cstr(&r->value), r->arg);
}

static void reader_deinit(struct reader *r) {
        buf_deinit(&r->base);
        buf_deinit(&r->key);
        buf_deinit(&r->value);
}

int gitconfig_parse(const char *data, size_t len, gitconfig_fn fn, void *arg, struct error *err) {
        CLEANUP(reader_deinit)
        struct reader r = {
                .p = data,
                .end = data + len,
                .line = 1,
                .base.max = GITCONFIG_NAME_MAX,
                .key.max = (size_t) 2 * GITCONFIG_NAME_MAX,
                .value.max = GITCONFIG_VALUE_MAX,
                .fn = fn,
                .arg = arg,
                .err = err,
        };
        int n = 0;

        if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
                r.p += 3;
        while (n == 0 && r.p < r.end) {
                const int c = next(&r);

                if (c == '\n')
                        r.line++;
                else if (c == '#' || c == ';')
                        n = skip_line(&r);
                else if (c == '[')
                        n = read_header(&r);
                else if (is_alpha(c))
                        n = read_key(&r, c);
                else if (c != ' ' && c != '\t')
                        n = bad(&r, "a byte that begins neither a section nor a key");
        }
        return n;
}
