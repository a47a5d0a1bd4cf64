#include "kubernetes/manifest/names.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"

enum { LABEL_CUT = 54, SUBDOMAIN_MAX = 253 };

static bool is_alnum(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_label_char(char c) {
        return is_alnum(c) || c == '-' || c == '_' || c == '.';
}

/* Up to @max bytes of the characters of a label's value, with alphanumeric ends. */
static bool is_name(const char *s, size_t len, size_t max) {
        if (len == 0 || len > max || !is_alnum(s[0]) || !is_alnum(s[len - 1]))
                return false;
        for (size_t i = 0; i < len; i++)
                if (!is_label_char(s[i]))
                        return false;
        return true;
}

static uint32_t fnv1a(const char *s) {
        uint32_t h = 0x811c9dc5;

        for (; *s; s++)
                h = (h ^ (unsigned char) *s) * 0x01000193;
        return h;
}

const char *kube_label_value(const char *text, char ret[static KUBE_LABEL_MAX + 1]) {
        char cut[LABEL_CUT + 1];
        char *from = cut;
        size_t n = 0;

        if (is_name(text, strlen(text), KUBE_LABEL_MAX)) {
                (void) snprintf(ret, KUBE_LABEL_MAX + 1, "%s", text);
                return ret;
        }
        for (const char *p = text; *p && n < LABEL_CUT; p++)
                if (((unsigned char) *p & 0xc0) != 0x80) /* the rest of a character's bytes is no character */
                        cut[n++] = is_label_char(*p) ? *p : '-';
        while (n > 0 && !is_alnum(cut[n - 1]))
                n--;
        cut[n] = '\0';
        while (*from && !is_alnum(*from))
                from++;
        (void) snprintf(ret, KUBE_LABEL_MAX + 1, "%s-%08x", *from ? from : "unnamed", fnv1a(text));
        return ret;
}

bool kube_label_value_valid(const char *text) {
        return !*text || is_name(text, strlen(text), KUBE_LABEL_MAX);
}

static bool is_dns_label(const char *s, size_t len) {
        if (len == 0 || len > KUBE_LABEL_MAX || s[0] == '-' || s[len - 1] == '-')
                return false;
        for (size_t i = 0; i < len; i++)
                if (!(is_alnum(s[i]) || s[i] == '-') || (s[i] >= 'A' && s[i] <= 'Z'))
                        return false;
        return true;
}

bool kube_dns_label_valid(const char *text) {
        return is_dns_label(text, strlen(text));
}

static bool is_subdomain(const char *s, size_t len) {
        if (len == 0 || len > SUBDOMAIN_MAX)
                return false;
        for (size_t begin = 0; begin <= len;) {
                const char *dot = memchr(s + begin, '.', len - begin);
                const size_t end = dot ? (size_t) (dot - s) : len;

                if (!is_dns_label(s + begin, end - begin))
                        return false;
                begin = end + 1;
        }
        return true;
}

bool kube_name_valid(const char *text) {
        return is_subdomain(text, strlen(text));
}

bool kube_label_key_valid(const char *text) {
        const char *slash = strchr(text, '/');
        const char *name = slash ? slash + 1 : text;

        return (!slash || is_subdomain(text, (size_t) (slash - text))) &&
               is_name(name, strlen(name), KUBE_LABEL_MAX);
}

bool kube_data_key_valid(const char *text) {
        const size_t len = strlen(text);

        for (const char *p = text; *p; p++)
                if (!is_label_char(*p))
                        return false;
        return len > 0 && len <= SUBDOMAIN_MAX && strcmp(text, ".") != 0 && strncmp(text, "..", 2) != 0;
}

bool kube_reserved_key(const char *key, const char *domain) {
        static const char *const names[] = { "run-id",         "root-run-id", "step",
                                             "egress-profile", "expires-at",  "stdin" };
        const size_t n = strlen(domain);

        if (strcmp(key, KUBE_LABEL_MANAGED_BY) == 0 || strcmp(key, KUBE_LABEL_COMPONENT) == 0)
                return true;
        if (strncmp(key, domain, n) != 0 || key[n] != '/')
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(key + n + 1, names[i]) == 0)
                        return true;
        return false;
}

/* Thousandths that one of @suffix is; 0: no such suffix. "e3" and "E3" are done by the caller. */
static uint64_t suffix_milli(const char *suffix) {
        static const struct {
                const char *name;
                uint64_t milli;
        } suffixes[] = {
                { "", 1000 },
                { "m", 1 },
                { "k", 1000000 },
                { "M", 1000000000 },
                { "G", 1000000000000 },
                { "T", 1000000000000000 },
                { "P", 1000000000000000000 },
                { "Ki", 1000ULL << 10 },
                { "Mi", 1000ULL << 20 },
                { "Gi", 1000ULL << 30 },
                { "Ti", 1000ULL << 40 },
                { "Pi", 1000ULL << 50 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
                if (strcmp(suffix, suffixes[i].name) == 0)
                        return suffixes[i].milli;
        if ((*suffix == 'e' || *suffix == 'E') && suffix[1] >= '0' && suffix[1] <= '9' && !suffix[2]) {
                uint64_t milli = 1000;

                for (int i = suffix[1] - '0'; i > 0; i--)
                        milli *= 10;
                return milli;
        }
        return 0;
}

int kube_quantity(const char *text, uint64_t *ret_milli) {
        const size_t whole = strspn(text, "0123456789");
        const bool dot = text[whole] == '.';
        const size_t fraction = dot ? strspn(text + whole + 1, "0123456789") : 0;
        const char *digits = text;
        const uint64_t unit = suffix_milli(text + whole + dot + fraction);
        uint64_t value = 0, scale = 1, milli;

        if (whole + fraction == 0 || unit == 0)
                return -EINVAL;
        if (whole + fraction > 18)
                return -ERANGE;
        for (size_t i = 0; i < whole + dot + fraction; i++) {
                if (digits[i] == '.')
                        continue;
                value = value * 10 + (uint64_t) (digits[i] - '0');
                scale *= i > whole ? 10 : 1;
        }
        if (__builtin_mul_overflow(value, unit, &milli) || milli > UINT64_MAX - scale)
                return -ERANGE;
        if (ret_milli)
                *ret_milli = (milli + scale - 1) / scale;
        return 0;
}

/* The next part of a path, without slashes. @p: moves behind it. Return: its length, 0 at the end. */
static size_t part_next(const char **p, const char **ret_part) {
        size_t n;

        *p += strspn(*p, "/");
        *ret_part = *p;
        n = strcspn(*p, "/");
        *p += n;
        return n;
}

bool kube_path_below(const char *path, const char *top) {
        for (;;) {
                const char *a, *b;
                const size_t na = part_next(&path, &a), nb = part_next(&top, &b);

                if (nb == 0)
                        return true;
                if (na != nb || memcmp(a, b, na) != 0)
                        return false;
        }
}

bool kube_path_same(const char *a, const char *b) {
        return kube_path_below(a, b) && kube_path_below(b, a);
}

static bool is_dots(const char *part, size_t n) {
        return (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.');
}

bool kube_path_has_dots(const char *path) {
        for (const char *p = path, *part; *p;) {
                const size_t n = part_next(&p, &part);

                if (is_dots(part, n))
                        return true;
        }
        return false;
}

bool kube_sub_path_valid(const char *text) {
        const size_t len = strlen(text);

        return len > 0 && text[0] != '/' && text[len - 1] != '/' && !strstr(text, "//") &&
               !kube_path_has_dots(text);
}

const char *kube_subdir_check(const char *subdir) {
        const size_t len = strlen(subdir);

        if (len == 0)
                return NULL;
        if (subdir[0] == '/')
                return "must be relative to ~/.claude";
        if (subdir[len - 1] == '/' || strstr(subdir, "//"))
                return "contains an empty segment";
        if (kube_path_has_dots(subdir))
                return "contains a '.' or '..' segment";
        for (const char *p = subdir; *p; p++)
                if (*p != '/' && !is_label_char(*p))
                        return "has a character outside [A-Za-z0-9._-] in a segment";
        return NULL;
}

int kube_environment_id_check(const char *id, struct error *err) {
        if (!*id)
                return error_set(err, -EINVAL, "environment_id must not be empty");
        if (strlen(id) > SUBDOMAIN_MAX)
                return error_set(err, -EINVAL, "environment_id must not exceed %d characters", SUBDOMAIN_MAX);
        if (strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(id))
                return error_set(
                        err, -EINVAL,
                        "environment_id must only contain lowercase ASCII letters, digits and '-', got: %s",
                        ESC(id));
        return 0;
}

static bool is_effect(const char *text) {
        return strcmp(text, "NoSchedule") == 0 || strcmp(text, "PreferNoSchedule") == 0 ||
               strcmp(text, "NoExecute") == 0;
}

int kube_toleration_parse(char *text, struct kube_toleration *ret, struct error *err) {
        char *effect = strrchr(text, ':'), *value;
        struct kube_toleration t = { .key = text, .seconds = -1 };

        if (!effect)
                return error_set(err, -EINVAL, "'%s' has no effect: want KEY[=VALUE]:EFFECT", ESC(text));
        *effect++ = '\0';
        if (!is_effect(effect))
                return error_set(err, -EINVAL,
                                 "effect '%s' is unknown: want NoSchedule, PreferNoSchedule or NoExecute",
                                 ESC(effect));
        t.effect = effect;
        value = strchr(text, '=');
        if (value) {
                *value++ = '\0';
                t.value = value;
                if (!kube_label_value_valid(value))
                        return error_set(err, -EINVAL, "value '%s' cannot be a taint's", ESC(value));
        }
        if (!*text)
                return error_set(err, -EINVAL, "a toleration needs a key: want KEY[=VALUE]:EFFECT");
        if (!kube_label_key_valid(text))
                return error_set(err, -EINVAL, "key '%s' cannot be a taint's", ESC(text));
        *ret = t;
        return 0;
}
