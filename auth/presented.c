#include "auth/presented.h"

#include <string.h>
#include <strings.h>

#include "runtime/base/escape.h"

enum { BASIC_BYTES_MAX = 1024 };

/* Finds the only header @name. Return: false: it is there twice; *ret.len 0: it is not there, or empty. */
static bool find_one(const struct http_head *head, const char *name, struct http_text *ret) {
        bool found = false;

        *ret = (struct http_text){ "", 0 };
        for (size_t i = 0; i < head->n_headers; i++) {
                if (!http_text_is(head->headers[i].name, name))
                        continue;
                if (found)
                        return false;
                found = true;
                *ret = head->headers[i].value;
        }
        return true;
}

/* What follows "@scheme " in @value, without blanks around it; empty: another scheme. */
static struct http_text after_scheme(struct http_text value, const char *scheme) {
        const size_t n = strlen(scheme);

        if (value.len <= n || strncasecmp(value.s, scheme, n) != 0 || value.s[n] != ' ')
                return (struct http_text){ "", 0 };
        value.s += n;
        value.len -= n;
        while (value.len > 0 && *value.s == ' ') {
                value.s++;
                value.len--;
        }
        return value;
}

static int digit(char c) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = c ? strchr(digits, c) : NULL;

        return at ? (int) (at - digits) : -1;
}

/* Base64 with its padding and nothing else. Return: bytes in @out, or -1. */
static int decode(struct http_text in, char out[BASIC_BYTES_MAX]) {
        size_t n = 0, pad = 0;

        if (in.len == 0 || in.len % 4 != 0 || in.len / 4 * 3 > BASIC_BYTES_MAX)
                return -1;
        while (pad < 2 && in.s[in.len - 1 - pad] == '=')
                pad++;
        for (size_t i = 0; i < in.len; i += 4) {
                unsigned int bits = 0;

                for (size_t k = 0; k < 4; k++) {
                        const int d = i + k >= in.len - pad ? 0 : digit(in.s[i + k]);

                        if (d < 0)
                                return -1;
                        bits = bits << 6 | (unsigned int) d;
                }
                out[n++] = (char) (bits >> 16);
                out[n++] = (char) (bits >> 8);
                out[n++] = (char) bits;
        }
        return (int) (n - pad);
}

static bool basic_id(struct http_text value, char id[TOKEN_ID_LEN + 1]) {
        char text[BASIC_BYTES_MAX];
        const int n = decode(value, text);
        const char *colon = n > 0 ? memchr(text, ':', (size_t) n) : NULL;
        bool ok;

        ok = colon && utf8_valid(text, (size_t) n) &&
             token_id(colon + 1, (size_t) (text + n - colon - 1), id);
        token_clear(text, sizeof(text));
        return ok;
}

enum relay_result presented_id(const struct http_head *head, char id[TOKEN_ID_LEN + 1]) {
        struct http_text authorization, x_api_key, private_token, given;

        if (!find_one(head, "Authorization", &authorization) || !find_one(head, "X-Api-Key", &x_api_key) ||
            !find_one(head, "Private-Token", &private_token))
                return RELAY_TWO_TOKENS;
        given = after_scheme(authorization, "Bearer");
        if (given.len == 0)
                given = x_api_key;
        if (given.len == 0)
                given = private_token;
        if (given.len > 0)
                return token_id(given.s, given.len, id) ? RELAY_OK : RELAY_NO_TOKEN;
        return basic_id(after_scheme(authorization, "Basic"), id) ? RELAY_OK : RELAY_NO_TOKEN;
}
