#include "netns/auth.h"

#include <string.h>
#include <strings.h>

enum { DECODED_MAX = 512 };

static int sextet(char c) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const char *at = c ? strchr(digits, c) : NULL;

        return at ? (int) (at - digits) : -1;
}

/* Base 64 (RFC 4648), padded or not. Return: bytes, or 0 when it is none or does not fit. */
static size_t decode(struct http_text in, char out[DECODED_MAX]) {
        unsigned int bits = 0, have = 0;
        size_t n = 0;

        while (in.len > 0 && in.s[in.len - 1] == '=')
                in.len--;
        for (size_t i = 0; i < in.len; i++) {
                const int v = sextet(in.s[i]);

                if (v < 0)
                        return 0;
                bits = (bits << 6 | (unsigned int) v) & 0xffff;
                have += 6;
                if (have < 8)
                        continue;
                have -= 8;
                if (n == DECODED_MAX)
                        return 0;
                out[n++] = (char) (bits >> have);
        }
        return n;
}

/* Looks at every byte of the token, wherever the first difference is. */
static bool equal(const char *token, const char *s, size_t len) {
        const size_t n = strlen(token);
        volatile unsigned char differ = n != len;

        for (size_t i = 0; i < n; i++)
                differ = (unsigned char) (differ | (token[i] ^ s[len > 0 ? i % len : 0]));
        return !differ;
}

bool auth_check(const char *token, struct http_text header) {
        char decoded[DECODED_MAX] = { 0 };
        const char *colon;
        size_t n;

        if (header.len > 7 && strncasecmp(header.s, "Bearer ", 7) == 0)
                return equal(token, header.s + 7, header.len - 7);
        if (header.len <= 6 || strncasecmp(header.s, "Basic ", 6) != 0)
                return false;
        n = decode((struct http_text){ header.s + 6, header.len - 6 }, decoded);
        colon = memchr(decoded, ':', n);
        if (!colon)
                return false;
        return equal(token, colon + 1, n - (size_t) (colon + 1 - decoded));
}
