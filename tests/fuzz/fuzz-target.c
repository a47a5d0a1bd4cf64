/*
 * fuzz-target.c - a request to the auth proxy: its target, its token, and the headers that are sent on
 */
#include <string.h>
#include <strings.h>

#include "auth/inject.h"
#include "auth/presented.h"
#include "auth/target.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/* What a clean path promises, said in another way. */
static void check_clean(struct http_text path) {
        char text[HTTP_LINE_BYTES_MAX + 3];

        check(path.len + 1 < sizeof(text));
        memcpy(text, path.s, path.len);
        memcpy(text + path.len, "/", 2);
        check(strspn(text, "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
              path.len + 1);
        check(!strstr(text, "/../") && !strstr(text, "/./"));
        text[path.len] = '\0';
        check(!strstr(text, "//"));
}

/* The credential is there once, and no header of the client's has its name. */
static void check_headers(const struct http_head *head, const struct credential *c, const char *name) {
        AUTO_BUF struct buf out = { 0 };
        size_t n = 0;

        check(inject_headers(head, c, &out) == 0);
        for (size_t at = 0; at < out.len; at += strlen(out.data + at) + 1) {
                const char *line = out.data + at;

                check(strpbrk(line, "\r\n") == NULL && strchr(line, ':') != NULL);
                check(strncasecmp(line, "Host:", 5) != 0 && strncasecmp(line, "Cookie:", 7) != 0 &&
                      strncasecmp(line, "Content-Length:", 15) != 0 &&
                      strncasecmp(line, "Transfer-Encoding:", 18) != 0 &&
                      strncasecmp(line, "Connection:", 11) != 0);
                n += strncasecmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':';
        }
        check(n == 1);
}

static void check_request(const struct http_request *q) {
        static char value[] = "v", host[] = "a.example", wild[] = "*.b.example", header[] = "x-vault";
        static char *hosts[] = { host, wild };
        const struct credential secret = { .kind = CREDENTIAL_SECRET,
                                           .value = value,
                                           .inject = INJECT_HEADER,
                                           .arg = header,
                                           .hosts = hosts,
                                           .n_hosts = 2 };
        const struct credential model = { .kind = CREDENTIAL_MODEL_OAUTH,
                                          .value = value,
                                          .inject = INJECT_COUNT };
        char id[TOKEN_ID_LEN + 1];
        struct target t;

        (void) presented_id(&q->head, id);
        target_split(q->path, &t);
        check(t.query.len == 0 || *t.query.s == '?');
        check(t.path.len > 0 && *t.path.s == '/');
        if (target_path_clean(t.path))
                check_clean(t.path);
        if (target_judge(&t, q->method, &secret) == RELAY_OK) {
                check(t.secret && (t.host.len == 9 || t.host.len > 10));
                check_clean(t.path);
        }
        if (target_judge(&t, q->method, &model) == RELAY_OK) {
                check(!t.secret && memcmp(t.path.s, "/v1/", 4) == 0);
                check_clean(t.path);
        }
        check_headers(&q->head, &secret, header);
        check_headers(&q->head, &model, "Authorization");
        check_headers(&q->head, &model, "anthropic-beta");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct http_request q;
        size_t used;

        if (size > 65536)
                return 0;
        if (http_request_parse((const char *) data, size, 443, &q, &used, NULL) == 0 && q.form == HTTP_ORIGIN)
                check_request(&q);
        return 0;
}
