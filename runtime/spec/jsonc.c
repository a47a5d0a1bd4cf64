#include "runtime/spec/jsonc.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base/escape.h"

struct jsonc {
        char *p, *end;
        char *comma; /* the last thing that was no blank, when it was a ',' outside strings; else NULL */
        unsigned line;
};

static void blank(struct jsonc *j) {
        if (*j->p == '\n')
                j->line++;
        else if (*j->p != '\r')
                *j->p = ' ';
        j->p++;
}

static bool at(const struct jsonc *j, char a, char b) {
        return j->end - j->p >= 2 && j->p[0] == a && j->p[1] == b;
}

static void line_comment(struct jsonc *j) {
        while (j->p < j->end && *j->p != '\n')
                blank(j);
}

static bool block_comment(struct jsonc *j) {
        blank(j);
        blank(j);
        while (j->p < j->end && !at(j, '*', '/'))
                blank(j);
        if (j->p == j->end)
                return false;
        blank(j);
        blank(j);
        return true;
}

/* From quote to quote; what is wrong inside is for the reader of JSON to say. */
static void string(struct jsonc *j) {
        for (j->p++; j->p < j->end && *j->p != '"'; j->p++) {
                if (*j->p == '\\' && j->end - j->p >= 2)
                        j->p++;
                j->line += *j->p == '\n';
        }
        if (j->p < j->end)
                j->p++;
}

/* One token, or one byte of it. */
static void token(struct jsonc *j) {
        if ((*j->p == '}' || *j->p == ']') && j->comma)
                *j->comma = ' ';
        j->comma = *j->p == ',' ? j->p : NULL;
        if (*j->p == '"')
                string(j);
        else
                j->p++;
}

int jsonc_plain(const char *name, char *data, size_t len, struct error *err) {
        struct jsonc j = { .p = data, .end = data + len, .line = 1 };

        if (len >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) /* editors put it there */
                memset(data, ' ', 3);
        while (j.p < j.end) {
                const unsigned line = j.line;

                if (at(&j, '/', '/')) {
                        line_comment(&j);
                } else if (at(&j, '/', '*')) {
                        if (!block_comment(&j))
                                return error_set(err, -EINVAL, "%s:%u: JSON: a comment without an end",
                                                 ESC(name), line);
                } else if (*j.p && strchr(" \t\r\n", *j.p)) {
                        j.line += *j.p == '\n';
                        j.p++;
                } else {
                        token(&j);
                }
        }
        return 0;
}
