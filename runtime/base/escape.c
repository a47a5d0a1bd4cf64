#include "runtime/base/escape.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Length of the UTF-8 sequence at @s (1..4), 0 when it is not one. */
static size_t utf8_sequence(const unsigned char *s, size_t len) {
        static const struct {
                unsigned char mask, lead;
                size_t n;
                uint32_t min;
        } forms[] = { { 0x80, 0x00, 1, 0 },
                      { 0xe0, 0xc0, 2, 0x80 },
                      { 0xf0, 0xe0, 3, 0x800 },
                      { 0xf8, 0xf0, 4, 0x10000 } };

        for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
                uint32_t cp;

                if ((s[0] & forms[f].mask) != forms[f].lead)
                        continue;
                if (forms[f].n > len)
                        return 0;
                cp = s[0] & (unsigned char) ~forms[f].mask;
                for (size_t i = 1; i < forms[f].n; i++) {
                        if ((s[i] & 0xc0) != 0x80)
                                return 0;
                        cp = cp << 6 | (s[i] & 0x3f);
                }
                if (cp < forms[f].min || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff))
                        return 0;
                return forms[f].n;
        }
        return 0;
}

bool utf8_valid(const char *s, size_t len) {
        const unsigned char *p = (const unsigned char *) s;

        while (len > 0) {
                const size_t n = utf8_sequence(p, len);

                if (n == 0)
                        return false;
                p += n;
                len -= n;
        }
        return true;
}

/* Writes the escape of @c to @e (at most 4 bytes). Returns its length. */
static size_t escape_byte(unsigned char c, char e[4]) {
        static const char hex[] = "0123456789abcdef";
        static const char named[][2] = { { '\n', 'n' }, { '\t', 't' }, { '\r', 'r' }, { '\\', '\\' } };

        e[0] = '\\';
        for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
                if (c == (unsigned char) named[i][0]) {
                        e[1] = named[i][1];
                        return 2;
                }
        }
        e[1] = 'x';
        e[2] = hex[c >> 4];
        e[3] = hex[c & 15];
        return 4;
}

const char *escape_str(const char *s, char *out, size_t size) {
        const unsigned char *p = (const unsigned char *) s;
        size_t left = strlen(s), o = 0;

        assert(size >= 8);
        while (left > 0) {
                char e[4];
                size_t used = utf8_sequence(p, left), n = used;

                if (used == 0 || *p < 0x20 || *p == 0x7f || *p == '\\') {
                        used = 1;
                        n = escape_byte(*p, e);
                } else {
                        memcpy(e, p, n);
                }
                if (o + n + 4 > size) {
                        memcpy(out + o, "...", 3);
                        o += 3;
                        break;
                }
                memcpy(out + o, e, n);
                o += n;
                p += used;
                left -= used;
        }
        out[o] = '\0';
        return out;
}
