/*
 * fuzz-admin.c - the body of a request for a token, and a segment of a path of the admin side
 */
#include <string.h>

#include "auth/admin.h"
#include "tests/fuzz/fuzz.h"

enum { NOW = 1000 };

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_grant(const struct grant *g) {
        const struct credential *c = g->credential;

        check(g->run && *g->run && strlen(g->run) <= GRANT_TEXT_MAX);
        check(g->step && *g->step && strlen(g->step) <= GRANT_TEXT_MAX);
        check(g->expires_at > NOW && g->expires_at - NOW <= ADMIN_LIFE_SECONDS_MAX);
        check(c->value && *c->value && strlen(c->value) <= CREDENTIAL_VALUE_MAX);
        for (const char *s = c->value; *s; s++)
                check(*s > ' ' && *s < 0x7f);
        check((c->kind == CREDENTIAL_SECRET) == (c->n_hosts > 0));
        if (c->arg)
                check(!strpbrk(c->arg, "\r\n:"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_GRANT struct grant *grant = NULL;
        AUTO_FREE char *segment = NULL;
        const char *s = (const char *) data;
        struct error err = { 0 };

        if (size > 65536)
                return 0;
        if (admin_parse(s, size, NOW, &grant, &err) == 0)
                check_grant(grant);
        else
                check(*err.msg && !strchr(err.msg, '\n') && !grant);
        segment = admin_segment((struct http_text){ s, size });
        check(!segment || strlen(segment) <= size);
        return 0;
}
