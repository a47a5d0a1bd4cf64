/*
 * DOC: theory of operation
 *
 * A JSON reader of our own, because jansson does not say on which line a value stands. It takes exactly what
 * RFC 8259 allows, within the limits of node.h; the fuzz target compares it with jansson byte by byte. It
 * does not recurse: the tree knows what is open.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/escape.h"
#include "runtime/spec/tree.h"

struct json {
        struct tree *tree;
        const char *p, *end;
        unsigned line;
};

static int fail(const struct json *j, const char *msg) {
        return error_set(j->tree->err, -EINVAL, "%s:%u: JSON: %s", ESC(j->tree->name), j->line, msg);
}

static void skip_blanks(struct json *j) {
        for (; j->p < j->end && strchr(" \t\r\n", *j->p) && *j->p; j->p++)
                j->line += *j->p == '\n';
}

static bool at(const struct json *j, char c) {
        return j->p < j->end && *j->p == c;
}

/* Four hex digits behind "\u". */
static int hex4(struct json *j, uint32_t *ret) {
        uint32_t v = 0;

        if (j->end - j->p < 4)
                return fail(j, "unfinished \\u escape");
        for (int i = 0; i < 4; i++, j->p++) {
                static const char digits[] = "0123456789abcdef0123456789ABCDEF";
                const char *d = *j->p ? strchr(digits, *j->p) : NULL;

                if (!d)
                        return fail(j, "a \\u escape needs four hex digits");
                v = v << 4 | ((uint32_t) (d - digits) & 15);
        }
        *ret = v;
        return 0;
}

static int add_utf8(struct json *j, uint32_t cp, struct buf *out) {
        const char bytes[4] = {
                (char) (cp < 0x80      ? cp
                        : cp < 0x800   ? 0xc0 | cp >> 6
                        : cp < 0x10000 ? 0xe0 | cp >> 12
                                       : 0xf0 | cp >> 18),
                (char) (cp < 0x800     ? 0x80 | (cp & 0x3f)
                        : cp < 0x10000 ? 0x80 | (cp >> 6 & 0x3f)
                                       : 0x80 | (cp >> 12 & 0x3f)),
                (char) (cp < 0x10000 ? 0x80 | (cp & 0x3f) : 0x80 | (cp >> 6 & 0x3f)),
                (char) (0x80 | (cp & 0x3f)),
        };

        if (cp == 0)
                return tree_error(j->tree, j->line, -EINVAL, "contains a NUL character");
        if (buf_add(out, bytes, cp < 0x80 ? 1 : cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4) < 0)
                return error_set(j->tree->err, -ENOMEM, "out of memory");
        return 0;
}

/* Behind "\u"; a high surrogate takes its partner with it. */
static int unicode_escape(struct json *j, struct buf *out) {
        uint32_t cp = 0, low = 0;
        int r;

        r = hex4(j, &cp);
        if (r < 0)
                return r;
        if (cp >= 0xd800 && cp <= 0xdbff && j->end - j->p >= 2 && j->p[0] == '\\' && j->p[1] == 'u') {
                j->p += 2;
                r = hex4(j, &low);
                if (r < 0)
                        return r;
                if (low < 0xdc00 || low > 0xdfff)
                        return fail(j, "half a surrogate pair");
                cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
        }
        if (cp >= 0xd800 && cp <= 0xdfff)
                return fail(j, "half a surrogate pair");
        return add_utf8(j, cp, out);
}

static int escape(struct json *j, struct buf *out) {
        static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
        const char *found;

        if (j->p >= j->end)
                return fail(j, "unfinished string");
        if (*j->p == 'u') {
                j->p++;
                return unicode_escape(j, out);
        }
        found = *j->p ? strchr(from, *j->p) : NULL;
        if (!found)
                return fail(j, "unknown escape in a string");
        j->p++;
        return buf_add(out, &to[found - from], 1) < 0 ? error_set(j->tree->err, -ENOMEM, "out of memory") : 0;
}

/* Behind the opening quote. */
static int string(struct json *j, struct buf *out) {
        while (j->p < j->end && *j->p != '"') {
                int r = 0;

                if ((unsigned char) *j->p < 0x20)
                        return fail(
                                j,
                                "a string must be closed on its line; control characters are written as \\n");
                if (*j->p == '\\') {
                        j->p++;
                        r = escape(j, out);
                } else {
                        const char *run = j->p;

                        while (j->p < j->end && *j->p != '"' && *j->p != '\\' &&
                               (unsigned char) *j->p >= 0x20)
                                j->p++;
                        if (buf_add(out, run, (size_t) (j->p - run)) < 0)
                                r = error_set(j->tree->err, -ENOMEM, "out of memory");
                }
                if (r < 0)
                        return r;
        }
        if (j->p >= j->end)
                return fail(j, "unfinished string");
        j->p++;
        return 0;
}

static size_t digit_run(const char *s) {
        return strspn(s, "0123456789");
}

/* Whether @s is a number as RFC 8259 section 6 has it. */
static bool is_number(const char *s) {
        s += *s == '-';
        if (*s == '0')
                s++;
        else if (digit_run(s) > 0)
                s += digit_run(s);
        else
                return false;
        if (*s == '.') {
                s++;
                if (digit_run(s) == 0)
                        return false;
                s += digit_run(s);
        }
        if (*s == 'e' || *s == 'E') {
                s++;
                s += *s == '+' || *s == '-';
                if (digit_run(s) == 0)
                        return false;
                s += digit_run(s);
        }
        return *s == '\0';
}

static int literal(struct json *j) {
        const char *start = j->p;
        char word[64];

        while (j->p < j->end && *j->p &&
               strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", *j->p))
                j->p++;
        if (j->p == start)
                return fail(j, j->p < j->end ? "a value was expected here" : "the file ends too early");
        if ((size_t) (j->p - start) >= sizeof(word))
                return fail(j, "a number is too long");
        memcpy(word, start, (size_t) (j->p - start));
        word[j->p - start] = '\0';
        if (strcmp(word, "true") != 0 && strcmp(word, "false") != 0 && strcmp(word, "null") != 0 &&
            !is_number(word))
                return fail(j, "neither a number nor true, false or null");
        return tree_scalar(j->tree, word, strlen(word), false, j->line);
}

static int key(struct json *j) {
        AUTO_BUF struct buf text = { 0 };
        const unsigned line = j->line;
        int r;

        if (!at(j, '"'))
                return fail(j, "a key in quotes was expected here");
        j->p++;
        r = string(j, &text);
        if (r == 0)
                r = tree_key(j->tree, buf_cstr(&text), text.len, line);
        if (r < 0)
                return r;
        skip_blanks(j);
        if (!at(j, ':'))
                return fail(j, "':' was expected here");
        j->p++;
        skip_blanks(j);
        return 0;
}

/* A value, or the begin of a list or mapping. */
static int value(struct json *j) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        if (at(j, '{') || at(j, '[')) {
                r = tree_open(j->tree, at(j, '{') ? DOC_MAP : DOC_LIST, j->line);
                j->p++;
                return r;
        }
        if (!at(j, '"'))
                return literal(j);
        j->p++;
        r = string(j, &text);
        return r < 0 ? r : tree_scalar(j->tree, buf_cstr(&text), text.len, true, j->line);
}

/* What stands between the values of the open list or mapping. @ret_value: a value comes next. */
static int separator(struct json *j, bool *ret_value) {
        const struct doc *open = j->tree->cur;
        const char end = open->kind == DOC_MAP ? '}' : ']';

        *ret_value = false;
        if (at(j, end)) {
                j->p++;
                tree_close(j->tree);
                return 0;
        }
        if (open->n > 0) {
                if (!at(j, ','))
                        return fail(j, j->p < j->end
                                               ? "',' or the end of the list or mapping was expected here"
                                               : "the file ends too early");
                j->p++;
                skip_blanks(j);
        }
        *ret_value = true;
        return open->kind == DOC_MAP ? key(j) : 0;
}

int tree_read_json(struct tree *tree, const char *data, size_t len) {
        struct json j = { .tree = tree, .p = data, .end = data + len, .line = 1 };
        bool more = true;
        int r;

        skip_blanks(&j);
        r = value(&j);
        while (r == 0 && tree->cur) {
                skip_blanks(&j);
                r = separator(&j, &more);
                if (r == 0 && more)
                        r = value(&j);
        }
        if (r < 0)
                return r;
        skip_blanks(&j);
        return j.p == j.end ? 0 : fail(&j, "text after the end of the document");
}
