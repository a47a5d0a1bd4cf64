#include "runtime/base/parse.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/cleanup.h"

/* Reads digits of @base from *@s and moves it past them. */
static int digits(const char **s, uint64_t base, uint64_t *ret) {
        const char *p = *s;
        uint64_t v = 0;

        for (; *p >= '0' && *p < (char) ('0' + base); p++)
                if (__builtin_mul_overflow(v, base, &v) ||
                    __builtin_add_overflow(v, (uint64_t) (*p - '0'), &v))
                        return -ERANGE;
        if (p == *s)
                return -EINVAL;
        *s = p;
        *ret = v;
        return 0;
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret) {
        uint64_t v;
        int r;

        r = digits(&s, 10, &v);
        if (r < 0)
                return r;
        if (*s)
                return -EINVAL;
        if (v < min || v > max)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_octal(const char *s, uint32_t max, uint32_t *ret) {
        uint64_t v;
        int r;

        r = digits(&s, 8, &v);
        if (r < 0)
                return r;
        if (*s)
                return -EINVAL;
        if (v > max)
                return -ERANGE;
        *ret = (uint32_t) v;
        return 0;
}

int parse_bool(const char *s, bool *ret) {
        static const struct {
                const char *word;
                bool value;
        } words[] = {
                { "true", true },   { "yes", true }, { "on", true },
                { "false", false }, { "no", false }, { "off", false },
        };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                if (strcmp(s, words[i].word) == 0) {
                        *ret = words[i].value;
                        return 0;
                }
        }
        return -EINVAL;
}

struct unit {
        const char *name;
        uint64_t factor;
};

static const struct unit *unit_find(const struct unit *units, size_t n, const char *s, size_t len) {
        for (size_t i = 0; i < n; i++)
                if (strlen(units[i].name) == len && strncmp(units[i].name, s, len) == 0)
                        return &units[i];
        return NULL;
}

int parse_size(const char *s, uint64_t min, uint64_t max, uint64_t *ret) {
        static const struct unit units[] = {
                { "B", 1 },
                { "k", 1000 },
                { "K", 1000 },
                { "M", 1000ULL * 1000 },
                { "G", 1000ULL * 1000 * 1000 },
                { "T", 1000ULL * 1000 * 1000 * 1000 },
                { "Ki", 1ULL << 10 },
                { "Mi", 1ULL << 20 },
                { "Gi", 1ULL << 30 },
                { "Ti", 1ULL << 40 },
        };
        const struct unit *unit;
        uint64_t v;
        size_t len;
        int r;

        r = digits(&s, 10, &v);
        if (r < 0)
                return r;
        if (*s) {
                len = strlen(s);
                if (len > 1 && s[len - 1] == 'B')
                        len--;
                unit = unit_find(units, ARRAY_SIZE(units), s, len);
                if (!unit)
                        return -EINVAL;
                if (__builtin_mul_overflow(v, unit->factor, &v))
                        return -ERANGE;
        } else if (v != 0) {
                return -EDOM;
        }
        if (v < min || v > max)
                return -ERANGE;
        *ret = v;
        return 0;
}

int parse_duration_ms(const char *s, uint64_t min, uint64_t max, uint64_t *ret) {
        static const struct unit units[] = { { "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 } };
        uint64_t sum = 0;
        int r;

        if (strcmp(s, "0") != 0 && s[strspn(s, "0123456789")] == '\0' && *s)
                return -EDOM;
        while (*s && strcmp(s, "0") != 0) {
                const struct unit *unit;
                uint64_t v;
                size_t len;

                r = digits(&s, 10, &v);
                if (r < 0)
                        return r;
                len = strcspn(s, "0123456789");
                unit = unit_find(units, ARRAY_SIZE(units), s, len);
                if (!unit)
                        return -EINVAL;
                s += len;
                if (__builtin_mul_overflow(v, unit->factor, &v) || __builtin_add_overflow(sum, v, &sum))
                        return -ERANGE;
        }
        if (sum < min || sum > max)
                return -ERANGE;
        *ret = sum;
        return 0;
}
