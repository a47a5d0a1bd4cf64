#include "runtime/spec/value.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"
#include "runtime/base/suggest.h"

enum { WORDS_MAX = 16, WORD_LIST_LEN = 256 };

int source_error(const struct source *src, const struct doc *node, struct error *err, int code,
                 const char *fmt, ...) {
        char msg[ERROR_MSG_MAX], path[DOC_PATH_LEN];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(msg, sizeof(msg), fmt, ap);
        va_end(ap);
        if (!src->file)
                return error_set(err, code, "%s: %s", src->origin, msg);
        if (!node)
                return error_set(err, code, "%s: %s", ESC(src->file), msg);
        (void) doc_path(node, path);
        return error_set(err, code, "%s:%u: %s%s%s", ESC(src->file), node->line, path, *path ? ": " : "",
                         msg);
}

/* The text of a value as messages may show it. */
static const char *shown(const struct key *key, const char *text, char out[static 96]) {
        char esc[80];

        if (key->secret)
                return "the value";
        (void) snprintf(out, 96, "'%s'", escape_str(text, esc, sizeof(esc)));
        return out;
}

/* "none, open" of the words a source may say. */
static const char *word_list(const struct word *words, char out[static WORD_LIST_LEN]) {
        size_t o = 0;

        out[0] = '\0';
        for (const struct word *w = words; w->name && o < WORD_LIST_LEN; w++)
                o += (size_t) snprintf(out + o, WORD_LIST_LEN - o, "%s%s", o ? ", " : "", w->name);
        return out;
}

struct slot {
        const struct key *key;
        const struct doc *node;
        const struct source *src;
        const char *text;
        struct error *err;
};

static int parse_word(const struct slot *s, int *ret) {
        const int found = word_find(s->key->words, s->text);
        const char *names[WORDS_MAX], *near;
        char list[WORD_LIST_LEN], text[96];
        size_t n = 0;

        if (found >= 0) {
                if (s->key->words[found].trust > trust_of(s->src->tier))
                        return source_error(s->src, s->node, s->err, -EPERM,
                                            "'%s' is for the operator to say, not for a %s", s->text,
                                            spec_tier_name(s->src->tier));
                *ret = found;
                return 0;
        }
        for (const struct word *w = s->key->words; w->name && n < WORDS_MAX; w++)
                names[n++] = w->name;
        near = suggest_name(s->text, names, n);
        return source_error(s->src, s->node, s->err, -EINVAL, "unknown value %s%s%s%s (%s)",
                            shown(s->key, s->text, text), near ? ", did you mean '" : "", near ? near : "",
                            near ? "'?" : "", word_list(s->key->words, list));
}

static int set_bool(const struct slot *s, void *place) {
        const bool as_string = s->src->file && s->node->quoted;
        char text[96];
        bool v;

        if (as_string || parse_bool(s->text, &v) < 0)
                return source_error(s->src, s->node, s->err, -EINVAL, "%s must be true or false%s",
                                    shown(s->key, s->text, text), as_string ? ", without quotes" : "");
        memcpy(place, &v, sizeof(v));
        return 0;
}

static int set_enum(const struct slot *s, void *place) {
        unsigned int v;
        int found, r;

        r = parse_word(s, &found);
        if (r < 0)
                return r;
        v = (unsigned int) found;
        memcpy(place, &v, sizeof(v));
        return 0;
}

/* Replaces the string of a place. */
static int put_string(const struct slot *s, void *place, const char *text) {
        char *copy = strdup(text), *old;

        if (!copy)
                return error_set(s->err, -ENOMEM, "out of memory");
        memcpy(&old, place, sizeof(old));
        free(old);
        memcpy(place, &copy, sizeof(copy));
        return 0;
}

static int set_word(const struct slot *s, void *place) {
        int found, r;

        r = parse_word(s, &found);
        return r < 0 ? r : put_string(s, place, s->text);
}

static int set_string(const struct slot *s, void *place) {
        const uint64_t max = s->key->max ? s->key->max : KEY_STRING_MAX;
        const char *wrong = s->key->check ? s->key->check(s->text) : NULL;
        char text[96];

        if (strlen(s->text) < s->key->min)
                return source_error(s->src, s->node, s->err, -EINVAL, "must not be empty");
        if (strlen(s->text) > max)
                return source_error(s->src, s->node, s->err, -EINVAL, "too long: at most %llu bytes",
                                    (unsigned long long) max);
        if (wrong)
                return source_error(s->src, s->node, s->err, -EINVAL, "%s %s", shown(s->key, s->text, text),
                                    wrong);
        return put_string(s, place, s->text);
}

static int set_number(const struct slot *s, void *place) {
        const struct key *k = s->key;
        char text[96];
        uint64_t v;

        if (parse_u64(s->text, k->min, k->max, &v) < 0 && k->min == k->max)
                return source_error(s->src, s->node, s->err, -EINVAL, "%s must be %llu",
                                    shown(k, s->text, text), (unsigned long long) k->min);
        if (parse_u64(s->text, k->min, k->max, &v) < 0)
                return source_error(s->src, s->node, s->err, -EINVAL, "%s must be a number from %llu to %llu",
                                    shown(k, s->text, text), (unsigned long long) k->min,
                                    (unsigned long long) k->max);
        memcpy(place, &v, sizeof(v));
        return 0;
}

static int set_size(const struct slot *s, void *place) {
        const struct key *k = s->key;
        char text[96];
        uint64_t v = 0;
        const int r = parse_size(s->text, k->min, k->max, &v);

        if (r == -EDOM)
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "%s has no unit: write '%sMi' for mebibytes or '%sB' for bytes",
                                    shown(k, s->text, text), ESC(s->text), ESC(s->text));
        if (r == -ERANGE)
                return source_error(s->src, s->node, s->err, -EINVAL, "%s must be from %llu to %llu bytes",
                                    shown(k, s->text, text), (unsigned long long) k->min,
                                    (unsigned long long) k->max);
        if (r < 0)
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "%s must be a size such as 512Mi (k M G T, Ki Mi Gi Ti or B)",
                                    shown(k, s->text, text));
        memcpy(place, &v, sizeof(v));
        return 0;
}

static int set_duration(const struct slot *s, void *place) {
        const struct key *k = s->key;
        char text[96];
        uint64_t v = 0;
        const int r = parse_duration_ms(s->text, k->min, k->max, &v);

        if (r == -EDOM)
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "%s has no unit: write '%ss' for seconds or '%sm' for minutes",
                                    shown(k, s->text, text), ESC(s->text), ESC(s->text));
        if (r == -ERANGE)
                return source_error(s->src, s->node, s->err, -EINVAL, "%s must be from %llu to %llu ms",
                                    shown(k, s->text, text), (unsigned long long) k->min,
                                    (unsigned long long) k->max);
        if (r < 0)
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "%s must be a time such as 90s or 1h30m", shown(k, s->text, text));
        memcpy(place, &v, sizeof(v));
        return 0;
}

/* A plain 600 would be 0600 to one reader and 01130 to another: the leading 0, or quotes, say that it is
 * octal. */
static int set_octal(const struct slot *s, void *place) {
        char text[96];
        uint32_t v = 0;

        if (parse_octal(s->text, (uint32_t) s->key->max, &v) < 0 || (!s->node->quoted && *s->text != '0'))
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "%s must be permissions in octal such as \"0600\", at most 0%llo",
                                    shown(s->key, s->text, text), (unsigned long long) s->key->max);
        memcpy(place, &v, sizeof(v));
        return 0;
}

/* "~" and "~/..." at the operator's home. */
static int expand_home(const struct slot *s, char **ret) {
        const char *home = s->src->view->home;

        if (s->text[1] != '\0' && s->text[1] != '/')
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "'%s': only the caller's own home can be written as '~/'", ESC(s->text));
        if (!home)
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "'%s': there is no home directory: write the whole path", ESC(s->text));
        if (path_join(home, s->text + (s->text[1] ? 2 : 1), ret) < 0)
                return error_set(s->err, -ENOMEM, "out of memory");
        return 0;
}

/* Drops empty and "." components; ".." stays, what it means is for the host's file system to say. */
static void squeeze(char *path) {
        char *out = path;

        for (const char *p = path; *p;) {
                const size_t n = strcspn(p + 1, "/");

                if (n > 0 && !(n == 1 && p[1] == '.')) {
                        memmove(out, p, n + 1);
                        out += n + 1;
                }
                p += n + 1;
        }
        if (out == path)
                *out++ = '/';
        *out = '\0';
}

static int host_path(const struct slot *s, char **ret) {
        AUTO_FREE char *path = NULL;
        int r;

        if (!*s->text)
                return source_error(s->src, s->node, s->err, -EINVAL, "must not be empty");
        if (*s->text == '~') {
                r = expand_home(s, &path);
                if (r < 0)
                        return r;
        } else if (*s->text != '/' && !s->src->view->cwd) {
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "'%s': the current directory is gone: write an absolute path",
                                    ESC(s->text));
        } else if (path_join(*s->text == '/' ? "" : s->src->view->cwd, s->text, &path) < 0) {
                return error_set(s->err, -ENOMEM, "out of memory");
        }
        squeeze(path);
        if (strlen(path) >= PATH_MAX)
                return source_error(s->src, s->node, s->err, -EINVAL, "'%s' must be a path below %d bytes",
                                    ESC(s->text), PATH_MAX);
        *ret = TAKE_PTR(path);
        return 0;
}

static int set_path(const struct slot *s, void *place) {
        AUTO_FREE char *path = NULL;
        int r;

        r = host_path(s, &path);
        return r < 0 ? r : put_string(s, place, path);
}

bool value_has_dotdot(const char *path) {
        for (const char *p = path; p; p = strchr(p, '/')) {
                p += *p == '/';
                if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0'))
                        return true;
        }
        return false;
}

static int set_target(const struct slot *s, void *place) {
        AUTO_FREE char *expanded = NULL, *path = NULL;
        const char *text = s->text;
        int r;

        if (*text == '~') {
                r = expand_home(s, &expanded);
                if (r < 0)
                        return r;
                text = expanded;
        }
        if (*text != '/' || value_has_dotdot(text) || strpbrk(text, "\r\n"))
                return source_error(s->src, s->node, s->err, -EINVAL,
                                    "'%s' must be an absolute path without '..', on one line", ESC(s->text));
        r = path_normalize(NULL, text, &path);
        if (r == -ENOMEM)
                return error_set(s->err, r, "out of memory");
        if (r < 0)
                return source_error(s->src, s->node, s->err, -EINVAL, "'%s' must be a path below %d bytes",
                                    ESC(s->text), PATH_MAX);
        return put_string(s, place, path);
}

/* Scalars only; lists are list.c's. @size 0: the place is a string. */
static const struct {
        int (*set)(const struct slot *s, void *place);
        size_t size;
} types[] = {
        [KEY_BOOL] = { set_bool, sizeof(bool) },
        [KEY_ENUM] = { set_enum, sizeof(unsigned int) },
        [KEY_WORD] = { set_word, 0 },
        [KEY_STRING] = { set_string, 0 },
        [KEY_NUMBER] = { set_number, sizeof(uint64_t) },
        [KEY_SIZE] = { set_size, sizeof(uint64_t) },
        [KEY_DURATION] = { set_duration, sizeof(uint64_t) },
        [KEY_OCTAL] = { set_octal, sizeof(uint32_t) },
        [KEY_PATH] = { set_path, 0 },
        [KEY_TARGET] = { set_target, 0 },
        [KEY_JOINED] = { set_string, 0 },
        [KEY_TAGGED] = { set_string, 0 },
};
static_assert(ARRAY_SIZE(types) == KEY_RULES, "types[] and enum key_type differ");

static bool is_string(const struct key *key) {
        return types[key->type].size == 0;
}

static char *string_at(const void *base, const struct key *key) {
        char *s;

        memcpy(&s, (const char *) base + key->offset, sizeof(s));
        return s;
}

/* A list or mapping of a file as the one line that a flag would say. Return: 0, -EINVAL (no such form),
 * -ENOMEM. */
static int flatten(const struct key *key, const struct doc *node, struct buf *out) {
        int r = 0;

        if (key->type == KEY_JOINED && node->kind == DOC_LIST) {
                for (const struct doc *c = node->first; r == 0 && c; c = c->next)
                        r = c->kind != DOC_SCALAR || doc_is_null(c) || strchr(c->text, ',')
                                    ? -EINVAL
                                    : buf_fmt(out, "%s%s", c == node->first ? "" : ",", c->text);
                return r;
        }
        if (key->type != KEY_TAGGED || node->kind != DOC_MAP || node->n != 1)
                return -EINVAL;
        r = buf_fmt(out, "%s:", node->first->name);
        node = node->first;
        if (strcmp(node->name, "basic") == 0 && node->kind == DOC_MAP && node->n == 1 &&
            strcmp(node->first->name, "username") == 0)
                node = node->first;
        if (node->kind != DOC_SCALAR || doc_is_null(node))
                return -EINVAL;
        return r < 0 ? r : buf_str(out, node->text);
}

static int set_flat(void *base, const struct key *key, const struct doc *node, const struct source *src,
                    struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        struct doc flat = *node;
        int r;

        r = flatten(key, node, &text);
        if (r == -EINVAL)
                return source_error(src, node, err, r, "must be %s",
                                    key->type == KEY_JOINED ? "a list of texts"
                                                            : "one word, or a mapping of one key");
        if (r < 0)
                return error_set(err, r, "out of memory");
        flat.kind = DOC_SCALAR;
        flat.quoted = true;
        flat.text = text.data ? text.data : (char[]){ "" };
        return value_set(base, key, &flat, src, err);
}

int value_set(void *base, const struct key *key, const struct doc *node, const struct source *src,
              struct error *err) {
        const struct slot slot = { key, node, src, node->text, err };
        union {
                uint64_t number;
                char *text;
        } scratch = { 0 };
        int r;

        assert(key->type < KEY_RULES);
        if (node->kind != DOC_SCALAR && (key->type == KEY_JOINED || key->type == KEY_TAGGED))
                return set_flat(base, key, node, src, err);
        if (node->kind != DOC_SCALAR)
                return source_error(src, node, err, -EINVAL, "must be a single value, not a %s",
                                    node->kind == DOC_LIST ? "list" : "mapping");
        if (doc_is_null(node))
                return source_error(src, node, err, -EINVAL,
                                    "has no value: give it one or leave the key out");
        if (!utf8_valid(node->text, strlen(node->text)))
                return source_error(src, node, err, -EINVAL, "is not valid UTF-8");
        if (key->offset != KEY_NO_STORE)
                return types[key->type].set(&slot, (char *) base + key->offset);
        r = types[key->type].set(&slot, &scratch);
        if (r == 0 && is_string(key))
                free(scratch.text);
        return r;
}

int value_default(void *base, const struct key *key) {
        static const struct spec_env_view view = { 0 };
        const struct source src = { .tier = TIER_BUILTIN, .origin = "built-in", .view = &view };
        struct doc node = { .kind = DOC_SCALAR, .quoted = true };
        AUTO_FREE char *text = NULL;
        int r;

        if (!key->fallback || key->offset == KEY_NO_STORE)
                return 0;
        text = strdup(key->fallback);
        if (!text)
                return -ENOMEM;
        node.text = text;
        r = value_set(base, key, &node, &src, NULL);
        assert(r == 0 || r == -ENOMEM); /* a fallback is of its own key's form */
        return r;
}

int value_copy(void *to, const void *from, const struct key *key) {
        const char *text;
        char *copy;

        if (key->offset == KEY_NO_STORE)
                return 0;
        if (!is_string(key)) {
                memcpy((char *) to + key->offset, (const char *) from + key->offset, types[key->type].size);
                return 0;
        }
        text = string_at(from, key);
        copy = text ? strdup(text) : NULL;
        if (text && !copy)
                return -ENOMEM;
        memcpy((char *) to + key->offset, &copy, sizeof(copy));
        return 0;
}

void value_free(void *base, const struct key *key) {
        char *none = NULL;

        if (key->offset == KEY_NO_STORE || !is_string(key))
                return;
        free(string_at(base, key));
        memcpy((char *) base + key->offset, &none, sizeof(none));
}

static uint64_t number_at(const void *base, const struct key *key) {
        uint64_t wide = 0;
        uint32_t narrow = 0;

        if (types[key->type].size == sizeof(wide)) {
                memcpy(&wide, (const char *) base + key->offset, sizeof(wide));
                return wide;
        }
        memcpy(&narrow, (const char *) base + key->offset, sizeof(narrow));
        return narrow;
}

static bool bool_at(const void *base, const struct key *key) {
        bool v;

        memcpy(&v, (const char *) base + key->offset, sizeof(v));
        return v;
}

json_t *value_json(const void *base, const struct key *key) {
        char octal[16];

        if (key->offset == KEY_NO_STORE)
                return json_null();
        if (is_string(key))
                return string_at(base, key) ? json_from_bytes(string_at(base, key), SIZE_MAX) : json_null();
        if (key->type == KEY_BOOL)
                return json_boolean(bool_at(base, key));
        if (key->type == KEY_ENUM)
                return json_string(key->words[number_at(base, key)].name);
        if (key->type == KEY_OCTAL) {
                (void) snprintf(octal, sizeof(octal), "0%llo", (unsigned long long) number_at(base, key));
                return json_string(octal);
        }
        return json_integer((json_int_t) number_at(base, key));
}

bool value_is_default(const void *base, const struct key *key) {
        bool v = false;

        if (!key->fallback || key->offset == KEY_NO_STORE)
                return false;
        if (is_string(key))
                return string_at(base, key) && strcmp(string_at(base, key), key->fallback) == 0;
        if (key->type == KEY_BOOL)
                return parse_bool(key->fallback, &v) == 0 && bool_at(base, key) == v;
        return key->type == KEY_ENUM && strcmp(key->words[number_at(base, key)].name, key->fallback) == 0;
}
