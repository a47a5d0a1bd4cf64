#include "fs/glob.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

size_t glob_class_end(const char *pat, size_t len) {
        size_t i = 1;

        if (i < len && (pat[i] == '!' || pat[i] == '^'))
                i++;
        for (const size_t first = i; i < len; i++) {
                if (pat[i] == ']' && i > first)
                        return i + 1;
                if (pat[i] == '\\')
                        i++;
        }
        return 0;
}

/* One member of a class at @pat[*i], past a backslash; moves *i behind it. */
static unsigned char class_byte(const char *pat, size_t *i) {
        if (pat[*i] == '\\')
                (*i)++;
        return (unsigned char) pat[(*i)++];
}

/* One member or range of a class that ends (with its ']') at @end; moves *i behind it. */
static void class_range(const char *pat, size_t end, size_t *i, unsigned char *lo, unsigned char *hi) {
        *lo = *hi = class_byte(pat, i);
        if (pat[*i] == '-' && *i + 1 < end - 1) {
                (*i)++;
                *hi = class_byte(pat, i);
        }
}

static int class_check(const char *pat, size_t len, size_t *ret_end, struct error *err) {
        const size_t end = glob_class_end(pat, len);
        size_t i = len > 1 && (pat[1] == '!' || pat[1] == '^') ? 2 : 1;

        if (end == 0)
                return error_set(err, -EINVAL, "'[' is not closed (write \\[ for the character)");
        while (i < end - 1) {
                unsigned char lo, hi;

                if (pat[i] == '[' && i + 1 < end && strchr(":.=", pat[i + 1]))
                        return error_set(err, -EINVAL, "named classes such as [[:alpha:]] are not known");
                class_range(pat, end, &i, &lo, &hi);
                if (lo > hi)
                        return error_set(err, -EINVAL, "a range in [..] runs backwards");
        }
        *ret_end = end;
        return 0;
}

int glob_check(const char *pat, size_t len, bool *ret_literal, struct error *err) {
        bool literal = true;
        size_t i = 0;
        int r;

        while (i < len) {
                size_t n = 1;

                if (pat[i] == '\\') {
                        if (i + 1 == len)
                                return error_set(err, -EINVAL, "nothing follows the last '\\'");
                        n = 2;
                } else if (pat[i] == '[') {
                        r = class_check(pat + i, len - i, &n, err);
                        if (r < 0)
                                return r;
                        literal = false;
                } else if (pat[i] == '*' || pat[i] == '?') {
                        literal = false;
                }
                i += n;
        }
        *ret_literal = literal;
        return 0;
}

size_t glob_unescape(const char *pat, size_t len, char *out) {
        size_t n = 0;

        for (size_t i = 0; i < len; i++) {
                if (pat[i] == '\\' && i + 1 < len)
                        i++;
                out[n++] = pat[i];
        }
        return n;
}

static bool class_match(const char *pat, size_t end, unsigned char c) {
        const bool negated = pat[1] == '!' || pat[1] == '^';
        size_t i = negated ? 2 : 1;
        bool hit = false;

        while (i < end - 1) {
                unsigned char lo, hi;

                class_range(pat, end, &i, &lo, &hi);
                hit |= lo <= c && c <= hi;
        }
        return hit != negated;
}

/* Whether the pattern element at @pat (not '*') takes the byte @c; *ret_n: its length. */
static bool element_match(const char *pat, size_t len, unsigned char c, size_t *ret_n) {
        *ret_n = 1;
        if (*pat == '?')
                return true;
        if (*pat == '[') {
                *ret_n = glob_class_end(pat, len);
                if (*ret_n == 0)
                        return false;
                return class_match(pat, *ret_n, c);
        }
        if (*pat == '\\' && len > 1) {
                *ret_n = 2;
                pat++;
        }
        return (unsigned char) *pat == c;
}

/*
 * Only the last '*' is ever reconsidered: whatever an earlier one could take, the last one can take as well.
 */
bool glob_match(const char *pat, size_t pat_len, const char *name, size_t name_len) {
        size_t p = 0, s = 0, star_p = SIZE_MAX, star_s = 0;

        while (s < name_len || p < pat_len) {
                size_t n;

                if (p < pat_len && pat[p] == '*') {
                        star_p = ++p;
                        star_s = s;
                        continue;
                }
                if (p < pat_len && s < name_len &&
                    element_match(pat + p, pat_len - p, (unsigned char) name[s], &n)) {
                        p += n;
                        s++;
                        continue;
                }
                if (star_p == SIZE_MAX || star_s >= name_len)
                        return false;
                p = star_p;
                s = ++star_s;
        }
        return true;
}
