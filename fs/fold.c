#include "fs/fold.h"

#include <stdint.h>
#include <string.h>

#include "runtime/base/cleanup.h"

/* upper case ranges: [lo, hi] in steps of @step become code point + @delta (simple case folding) */
static const struct {
        uint16_t lo, hi, step;
        int16_t delta;
} upper[] = {
        { 0x41, 0x5a, 1, 32 },   { 0xc0, 0xd6, 1, 32 },     { 0xd8, 0xde, 1, 32 },
        { 0x100, 0x12e, 2, 1 },  { 0x132, 0x136, 2, 1 },    { 0x139, 0x147, 2, 1 },
        { 0x14a, 0x176, 2, 1 },  { 0x178, 0x178, 1, -121 }, { 0x179, 0x17d, 2, 1 },
        { 0x391, 0x3a1, 1, 32 }, { 0x3a3, 0x3ab, 1, 32 },   { 0x400, 0x40f, 1, 80 },
        { 0x410, 0x42f, 1, 32 }, { 0x460, 0x480, 2, 1 },    { 0x48a, 0x4be, 2, 1 },
        { 0x531, 0x556, 1, 48 }, { 0x1e00, 0x1e94, 2, 1 },  { 0x1ea0, 0x1efe, 2, 1 },
};

/* letters whose folding is ASCII: LATIN SMALL LETTER LONG S, KELVIN SIGN */
static const struct { uint16_t from, to; } compat[] = { { 0x17f, 's' }, { 0x212a, 'k' } };

/* Default_Ignorable_Code_Point of the Basic Multilingual Plane, and the tags and variation selectors */
static const struct {
        uint32_t lo, hi;
} ignorable[] = {
        { 0xad, 0xad },       { 0x34f, 0x34f },   { 0x61c, 0x61c },     { 0x115f, 0x1160 },
        { 0x17b4, 0x17b5 },   { 0x180b, 0x180f }, { 0x200b, 0x200f },   { 0x202a, 0x202e },
        { 0x2060, 0x206f },   { 0x3164, 0x3164 }, { 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },
        { 0xffa0, 0xffa0 },   { 0xfff0, 0xfff8 }, { 0x1bca0, 0x1bca3 }, { 0x1d173, 0x1d17a },
        { 0xe0000, 0xe0fff },
};

/* Decodes one character; Return: its length, 0 when the bytes are not UTF-8 (surrogates pass: harmless). */
static size_t decode(const unsigned char *s, size_t len, uint32_t *ret) {
        static const struct {
                unsigned char mask, lead;
                uint32_t min;
        } forms[] = { { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 } };

        for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
                uint32_t c;

                if ((s[0] & forms[f].mask) != forms[f].lead || len < f + 2)
                        continue;
                c = s[0] & (unsigned char) ~forms[f].mask;
                for (size_t i = 1; i < f + 2; i++) {
                        if ((s[i] & 0xc0) != 0x80)
                                return 0;
                        c = c << 6 | (s[i] & 0x3fU);
                }
                *ret = c;
                return c >= forms[f].min ? f + 2 : 0;
        }
        return 0;
}

static uint32_t lower(uint32_t c) {
        for (size_t i = 0; i < ARRAY_SIZE(compat); i++) {
                if (c == compat[i].from)
                        return compat[i].to;
        }
        for (size_t i = 0; i < ARRAY_SIZE(upper); i++) {
                if (c >= upper[i].lo && c <= upper[i].hi && (c - upper[i].lo) % upper[i].step == 0)
                        return (uint32_t) ((int32_t) c + upper[i].delta);
        }
        return c;
}

static bool ignored(uint32_t c) {
        for (size_t i = 0; i < ARRAY_SIZE(ignorable); i++) {
                if (c >= ignorable[i].lo && c <= ignorable[i].hi)
                        return true;
        }
        return false;
}

/* Writes a lower-case character; all of them are below U+2000 and never longer than what they came from. */
static size_t encode(uint32_t c, char *out) {
        if (c < 0x80) {
                out[0] = (char) c;
                return 1;
        }
        if (c < 0x800) {
                out[0] = (char) (0xc0 | c >> 6);
                out[1] = (char) (0x80 | (c & 0x3f));
                return 2;
        }
        out[0] = (char) (0xe0 | c >> 12);
        out[1] = (char) (0x80 | (c >> 6 & 0x3f));
        out[2] = (char) (0x80 | (c & 0x3f));
        return 3;
}

size_t fold_name(const char *name, size_t len, char *out) {
        size_t n = 0, i = 0;

        while (i < len) {
                const unsigned char b = (unsigned char) name[i];
                uint32_t c = b, low;
                const size_t used = b < 0x80 ? 1 : decode((const unsigned char *) name + i, len - i, &c);

                if (used == 0) {
                        out[n++] = name[i++];
                        continue;
                }
                low = lower(c);
                if (b < 0x80) {
                        out[n++] = (char) low;
                } else if (low != c) {
                        n += encode(low, out + n);
                } else if (!ignored(c)) {
                        memcpy(out + n, name + i, used);
                        n += used;
                }
                i += used;
        }
        return n;
}

size_t fold_tail(const char *name, size_t len) {
        while (len > 0 && (name[len - 1] == '.' || name[len - 1] == ' '))
                len--;
        return len;
}

static bool is_hex(char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* The part of a long name that an 8.3 name is made of: no dots (but the extension's) and no spaces. */
static size_t alias_base(const char *literal, size_t len, char out[6]) {
        size_t n = 0;

        for (size_t i = 0; i < len && n < 6; i++) {
                if (literal[i] == '.' && n > 0)
                        break; /* the extension begins */
                if (literal[i] != '.' && literal[i] != ' ')
                        out[n++] = literal[i];
        }
        return n;
}

bool fold_alias(const char *name, size_t len, const char *literal, size_t literal_len) {
        const char *tilde = memchr(name, '~', len);
        const size_t stem = tilde ? (size_t) (tilde - name) : 0;
        char base[6];
        const size_t n = alias_base(literal, literal_len, base);

        if (stem == 0 || stem > 6 || stem + 1 >= len || len > 12 || tilde[1] < '0' || tilde[1] > '9' ||
            n == 0)
                return false;
        if (stem <= n && memcmp(name, base, stem) == 0)
                return true;
        /* after four or nine collisions: the first letters and four digits of a hash */
        return stem >= 5 && is_hex(name[stem - 1]) && is_hex(name[stem - 2]) && is_hex(name[stem - 3]) &&
               is_hex(name[stem - 4]) && memcmp(name, base, n < stem - 4 ? n : stem - 4) == 0;
}
