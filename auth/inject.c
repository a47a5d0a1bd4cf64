#include "auth/inject.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "auth/token.h"
#include "runtime/base/cleanup.h"

static const char beta[] = "anthropic-beta", oauth_flag[] = "oauth-2025-04-20";

static bool is_managed(struct http_text name) {
        static const char *const names[] = {
                "Authorization",     "X-Api-Key",       "Private-Token", "Host",
                "Content-Length",    "Accept-Encoding", "Cookie",        "Expect",
                "Transfer-Encoding", "Trailer",
        };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (http_text_is(name, names[i]))
                        return true;
        }
        return false;
}

static int add(struct buf *out, struct http_text name, struct http_text value) {
        int r;

        r = buf_add(out, name.s, name.len);
        if (r == 0)
                r = buf_str(out, ": ");
        if (r == 0 && value.len > 0)
                r = buf_add(out, value.s, value.len);
        return r == 0 ? buf_add(out, "", 1) : r;
}

static int add_line(struct buf *out, const char *before, const char *value) {
        int r = buf_str(out, before);

        return r == 0 ? buf_add(out, value, strlen(value) + 1) : r;
}

/* --- the flags of the model API ---------------------------------------------------------------------------
 */

static bool has_flag(struct http_text list, const char *flag) {
        while (list.len > 0) {
                const char *comma = memchr(list.s, ',', list.len);
                const size_t n = comma ? (size_t) (comma - list.s) : list.len;
                struct http_text item = { list.s, n };

                while (item.len > 0 && (*item.s == ' ' || *item.s == '\t')) {
                        item.s++;
                        item.len--;
                }
                while (item.len > 0 && (item.s[item.len - 1] == ' ' || item.s[item.len - 1] == '\t'))
                        item.len--;
                if (http_text_is(item, flag))
                        return true;
                list.s += n + (comma ? 1 : 0);
                list.len -= n + (comma ? 1 : 0);
        }
        return false;
}

/* All flags that the client sent and the one that an OAuth token needs, in one header. */
static int add_beta(struct buf *out, const struct http_head *head) {
        bool any = false, flagged = false;
        int r = buf_fmt(out, "%s: ", beta);

        for (size_t i = 0; r == 0 && i < head->n_headers; i++) {
                const struct http_header *h = &head->headers[i];

                if (!http_text_is(h->name, beta) || h->value.len == 0 || http_header_is_hop(head, h->name))
                        continue;
                if (any)
                        r = buf_str(out, ",");
                if (r == 0)
                        r = buf_add(out, h->value.s, h->value.len);
                any = true;
                flagged = flagged || has_flag(h->value, oauth_flag);
        }
        if (r == 0 && !flagged)
                r = buf_fmt(out, "%s%s", any ? "," : "", oauth_flag);
        return r == 0 ? buf_add(out, "", 1) : r;
}

/* --- the credential ---------------------------------------------------------------------------------------
 */

static int add_basic(struct buf *out, const char *user, const char *password) {
        AUTO_BUF struct buf text = { 0 };
        AUTO_FREE char *encoded = NULL;
        size_t size;
        int r;

        r = buf_fmt(&text, "%s:%s", user, password);
        if (r < 0)
                return r;
        size = (text.len + 2) / 3 * 4 + 1;
        encoded = calloc(1, size);
        if (encoded) {
                (void) EVP_EncodeBlock((unsigned char *) encoded, (const unsigned char *) text.data,
                                       (int) text.len);
                r = add_line(out, "Authorization: Basic ", encoded);
        } else {
                r = -ENOMEM;
        }
        token_clear(text.data, text.len);
        token_clear(encoded, encoded ? size : 0);
        return r;
}

static int add_secret(struct buf *out, const struct credential *c) {
        switch (c->inject) {
        case INJECT_BEARER:
                return add_line(out, "Authorization: Bearer ", c->value);
        case INJECT_BASIC:
                return add_basic(out, c->arg, c->value);
        case INJECT_PRIVATE_TOKEN:
                return add_line(out, "Private-Token: ", c->value);
        case INJECT_X_API_KEY:
                return add_line(out, "X-Api-Key: ", c->value);
        case INJECT_HEADER: {
                int r = buf_str(out, c->arg);

                return r == 0 ? add_line(out, ": ", c->value) : r;
        }
        case INJECT_COUNT:
                break;
        }
        return -EINVAL;
}

static int add_credential(struct buf *out, const struct http_head *head, const struct credential *c) {
        int r;

        switch (c->kind) {
        case CREDENTIAL_MODEL_OAUTH:
                r = add_line(out, "Authorization: Bearer ", c->value);
                return r == 0 ? add_beta(out, head) : r;
        case CREDENTIAL_MODEL_API_KEY:
                return add_line(out, "X-Api-Key: ", c->value);
        case CREDENTIAL_SECRET:
                return add_secret(out, c);
        case CREDENTIAL_KIND_COUNT:
                break;
        }
        return -EINVAL;
}

int inject_headers(const struct http_head *head, const struct credential *credential, struct buf *out) {
        const bool oauth = credential->kind == CREDENTIAL_MODEL_OAUTH;
        int r = 0;

        for (size_t i = 0; r == 0 && i < head->n_headers; i++) {
                const struct http_header *h = &head->headers[i];

                if (is_managed(h->name) || http_header_is_hop(head, h->name) ||
                    (oauth && http_text_is(h->name, beta)) ||
                    (credential->inject == INJECT_HEADER && credential->arg &&
                     http_text_is(h->name, credential->arg)))
                        continue;
                r = add(out, h->name, h->value);
        }
        return r == 0 ? add_credential(out, head, credential) : r;
}
