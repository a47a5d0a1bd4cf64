#include "image/challenge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"

/** struct reader - what is left of the header */
struct reader {
        const char *p, *end;
};

static bool is_token(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip_blanks(struct reader *r, bool commas) {
        while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || (commas && *r->p == ',')))
                r->p++;
}

static size_t token(const struct reader *r) {
        size_t n = 0;

        while (r->p + n < r->end && is_token(r->p[n]))
                n++;
        return n;
}

/* A token or a quoted string, at @r. */
static int value(struct reader *r, struct buf *out) {
        int k = 0;

        out->max = CHALLENGE_VALUE_MAX;
        if (r->p == r->end || *r->p != '"') {
                const size_t n = token(r);

                k = n > 0 ? buf_add(out, r->p, n) : -EINVAL;
                r->p += n;
                return k;
        }
        for (r->p++; k == 0 && r->p < r->end && *r->p != '"'; r->p++) {
                if (*r->p == '\\' && ++r->p == r->end)
                        return -EINVAL;
                k = (unsigned char) *r->p < ' ' || *r->p == 0x7f ? -EINVAL : buf_add(out, r->p, 1);
        }
        if (k < 0 || r->p == r->end)
                return k < 0 ? k : -EINVAL;
        r->p++;
        return 0;
}

static int keep(struct challenge *c, const char *name, size_t n, struct buf *text) {
        const struct {
                const char *name;
                char **slot;
        } known[] = { { "realm", &c->realm }, { "service", &c->service }, { "scope", &c->scope } };

        for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
                if (n != strlen(known[i].name) || strncasecmp(name, known[i].name, n) != 0 || *known[i].slot)
                        continue;
                *known[i].slot = text->len > 0 ? buf_take(text) : strdup("");
                return *known[i].slot ? 0 : -ENOMEM;
        }
        return 0;
}

/* Parameters up to the next scheme, which is a token that no '=' follows. */
static int parameters(struct reader *r, struct challenge *c, bool bearer) {
        for (;;) {
                AUTO_BUF struct buf text = { 0 };
                const char *name;
                struct reader ahead;
                size_t n;
                int k;

                skip_blanks(r, true);
                n = token(r);
                name = r->p;
                ahead = (struct reader){ r->p + n, r->end };
                skip_blanks(&ahead, false);
                if (n == 0 || ahead.p == ahead.end || *ahead.p != '=')
                        return 0;
                ahead.p++;
                skip_blanks(&ahead, false);
                k = value(&ahead, &text);
                if (k == 0 && bearer)
                        k = keep(c, name, n, &text);
                if (k < 0)
                        return k;
                *r = ahead;
        }
}

/* The one word that some schemes have in place of parameters, "Negotiate oYG...==". */
static void skip_token68(struct reader *r) {
        struct reader ahead = *r;

        while (ahead.p < ahead.end && (is_token(*ahead.p) || *ahead.p == '/'))
                ahead.p++;
        while (ahead.p < ahead.end && *ahead.p == '=')
                ahead.p++;
        if (ahead.p > r->p && (ahead.p == ahead.end || *ahead.p == ','))
                *r = ahead;
}

int challenge_parse(const char *text, size_t len, struct challenge *ret) {
        AUTO_CHALLENGE struct challenge c = { 0 };
        struct reader r = { text, text + len };

        if (len > CHALLENGE_TEXT_MAX || memchr(text, '\0', len))
                return -EINVAL;
        for (skip_blanks(&r, true); r.p < r.end; skip_blanks(&r, true)) {
                const size_t n = token(&r);
                const bool bearer = n == 6 && strncasecmp(r.p, "bearer", n) == 0 && !c.bearer;
                const bool basic = n == 5 && strncasecmp(r.p, "basic", n) == 0;
                int k;

                if (n == 0)
                        return -EINVAL;
                r.p += n;
                if (r.p < r.end && *r.p != ' ' && *r.p != ',')
                        return -EINVAL;
                c.basic = c.basic || basic;
                c.bearer = c.bearer || bearer;
                skip_blanks(&r, false);
                if (!bearer && !basic)
                        skip_token68(&r);
                k = parameters(&r, &c, bearer);
                if (k < 0)
                        return k == -E2BIG ? -EINVAL : k;
        }
        *ret = c;
        c = (struct challenge){ 0 };
        return 0;
}

void challenge_deinit(struct challenge *c) {
        free(c->realm);
        free(c->service);
        free(c->scope);
        *c = (struct challenge){ 0 };
}
