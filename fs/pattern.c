#include "fs/pattern.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fs/glob.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"

struct strings {
        char **v;
        size_t n;
};

static void strings_deinit(struct strings *s) {
        for (size_t i = 0; i < s->n; i++)
                free(s->v[i]);
        free(s->v);
}
#define AUTO_STRINGS CLEANUP(strings_deinit)

/* Takes over *@s on success. */
static int strings_push_consume(struct strings *list, char **s, struct error *err) {
        char **v;

        if (list->n == PATTERN_ALTERNATIVES_MAX)
                return error_set(err, -EINVAL, "more than %d alternatives", PATTERN_ALTERNATIVES_MAX);
        v = *s ? reallocarray(list->v, list->n + 1, sizeof(*v)) : NULL;
        if (!v)
                return error_set(err, -ENOMEM, "out of memory");
        list->v = v;
        v[list->n++] = TAKE_PTR(*s);
        return 0;
}

/* Length of the element at @s: an escaped byte, a class, or one byte. */
static size_t element_len(const char *s) {
        size_t n;

        if (s[0] == '\\' && s[1])
                return 2;
        if (s[0] != '[')
                return 1;
        n = glob_class_end(s, strcspn(s, "/"));
        return n ? n : 1;
}

/* The first group in @s: its braces are at *ret_open and *ret_close; -ENOENT: none, no message. */
static int find_group(const char *s, size_t *ret_open, size_t *ret_close, struct error *err) {
        size_t open = SIZE_MAX;

        for (size_t i = 0; s[i]; i += element_len(s + i)) {
                if (s[i] == '{' && open != SIZE_MAX)
                        return error_set(err, -EINVAL, "braces do not nest");
                if (s[i] == '{')
                        open = i;
                if (s[i] != '}')
                        continue;
                if (open == SIZE_MAX)
                        return error_set(err, -EINVAL, "'}' without '{' (write \\} for the character)");
                *ret_open = open;
                *ret_close = i;
                return 0;
        }
        if (open != SIZE_MAX)
                return error_set(err, -EINVAL, "'{' is not closed (write \\{ for the character)");
        return -ENOENT;
}

/* @s with the group [@open, @close] replaced by @len bytes at @alt. Return: owned, NULL when out of memory.
 */
static char *replace_group(const char *s, size_t open, size_t close, const char *alt, size_t len) {
        AUTO_BUF struct buf out = { 0 };

        if (buf_add(&out, s, open) < 0 || buf_add(&out, alt, len) < 0 || buf_str(&out, s + close + 1) < 0)
                return NULL;
        return buf_take(&out);
}

/* Appends what @s becomes with each alternative of its group. */
static int split_group(struct strings *list, const char *s, size_t open, size_t close, struct error *err) {
        size_t start = open + 1;

        for (size_t i = start; i <= close; i += element_len(s + i)) {
                AUTO_FREE char *one = NULL;
                int r;

                if (i < close && s[i] != ',')
                        continue;
                one = replace_group(s, open, close, s + start, i - start);
                r = strings_push_consume(list, &one, err);
                if (r < 0)
                        return r;
                start = i + 1;
        }
        return 0;
}

/* Multiplies the braces of @pattern out: each pass replaces one entry by its alternatives. */
static int expand(struct strings *list, const char *pattern, struct error *err) {
        AUTO_FREE char *copy = strdup(pattern);
        int r;

        r = strings_push_consume(list, &copy, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < list->n;) {
                AUTO_FREE char *whole = NULL;
                size_t open = 0, close = 0;

                r = find_group(list->v[i], &open, &close, err);
                if (r == -ENOENT) {
                        i++;
                        continue;
                }
                if (r < 0)
                        return r;
                whole = list->v[i];
                list->v[i] = list->v[--list->n];
                r = split_group(list, whole, open, close, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

struct comps {
        struct pattern_comp v[PATTERN_COMPS_MAX];
        size_t n;
};

static int push_comp(struct comps *c, struct pattern_comp comp, struct error *err) {
        if (comp.deep && c->n > 0 && c->v[c->n - 1].deep)
                return 0;
        if (c->n == PATTERN_COMPS_MAX)
                return error_set(err, -EINVAL, "more than %d components", PATTERN_COMPS_MAX);
        c->v[c->n++] = comp;
        return 0;
}

/* Adds the component of @len bytes at @s; a literal loses its backslashes in place. */
static int add_comp(struct comps *c, char *s, size_t len, struct error *err) {
        struct pattern_comp comp = { .text = s, .len = len };
        int r;

        if (len == 0)
                return error_set(err, -EINVAL,
                                 "an empty component (\"//\", or a '/' at the end: write \"a/**\" "
                                 "for everything below a)");
        comp.deep = len == 2 && memcmp(s, "**", 2) == 0;
        r = glob_check(s, len, &comp.literal, err);
        if (r < 0)
                return r;
        if (comp.literal)
                comp.len = glob_unescape(s, len, s);
        if (comp.literal && (comp.len <= 2 && memcmp(s, "..", comp.len) == 0))
                return error_set(err, -EINVAL, "\".\" and \"..\" name nothing in a pattern");
        return push_comp(c, comp, err);
}

static int split(struct comps *c, char *s, bool anchored, struct error *err) {
        static const struct pattern_comp deep = { .text = "**", .len = 2, .deep = true };
        static const struct pattern_comp any = { .text = "*", .len = 1 };
        int r = 0;

        if (!anchored)
                r = push_comp(c, deep, err);
        s += *s == '/';
        while (r == 0) {
                const size_t len = strcspn(s, "/");

                r = add_comp(c, s, len, err);
                if (s[len] == '\0')
                        break;
                s += len + 1;
        }
        if (r == 0 && c->v[c->n - 1].deep)
                r = push_comp(c, any, err);
        return r;
}

int pattern_walk(const char *pattern, pattern_fn fn, void *arg, struct error *err) {
        AUTO_STRINGS struct strings list = { 0 };
        int r;

        if (!*pattern)
                return error_set(err, -EINVAL, "an empty pattern");
        if (*pattern == '!')
                return error_set(err, -EINVAL,
                                 "'!' does not negate here: give a later rule with another action "
                                 "(write \\! for the character)");
        if (strlen(pattern) > PATTERN_BYTES_MAX)
                return error_set(err, -EINVAL, "longer than %d bytes", PATTERN_BYTES_MAX);
        r = expand(&list, pattern, err);
        for (size_t i = 0; r == 0 && i < list.n; i++) {
                struct comps c = { .n = 0 };

                r = split(&c, list.v[i], strchr(pattern, '/') != NULL, err);
                if (r == 0)
                        r = fn(c.v, c.n, arg, err);
        }
        return r;
}
