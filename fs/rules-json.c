#include "fs/rules-json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

enum { FROM_MAX = 4200 };

static const char defaults[] = "defaults";

/* in the words of the specification */
static const char *const actions[GUARD_DO_COUNT] = {
        [GUARD_ALLOW] = "allow", [GUARD_HOLD] = "hold", [GUARD_PROTECT] = "protect", [GUARD_HIDE] = "hide"
};

static bool same_def(const struct rule_def *a, const struct rule_def *b) {
        return strcmp(a->path, b->path) == 0 && a->action == b->action && a->builtin == b->builtin &&
               a->types == b->types;
}

/* Whether the whole built-in list stands at @from. */
static bool has_defaults(const struct rules *rules, size_t from) {
        size_t n = 0;
        const struct rule_def *builtin = rules_builtin(&n);
        struct rule_def def;

        for (size_t i = 0; i < n; i++)
                if (!rules_def(rules, from + i, &def) || !same_def(&def, &builtin[i]))
                        return false;
        return true;
}

/* Patterns are bytes: each goes as the character of its number, so that all come back. */
static json_t *pattern_to_json(const char *pattern) {
        AUTO_BUF struct buf text = { 0 };
        int r = 0;

        for (const char *p = pattern; r == 0 && *p; p++) {
                const unsigned char c = (unsigned char) *p;
                const char wide[2] = { (char) (0xc0 | c >> 6), (char) (0x80 | (c & 0x3f)) };

                r = c < 0x80 ? buf_add(&text, p, 1) : buf_add(&text, wide, 2);
        }
        return r < 0 ? NULL : json_string(buf_cstr(&text));
}

/* Return: owned, NULL: out of memory, or a character that is no byte. */
static char *pattern_from_json(const json_t *json) {
        const char *from = json_string_value(json);
        AUTO_FREE char *text = from ? strdup(from) : NULL;
        char *to = text;

        if (!text)
                return NULL;
        for (const char *p = from; *p; p++) {
                const unsigned char c = (unsigned char) *p;

                if (c >= 0xc4) /* U+0100 and above */
                        return NULL;
                *to++ = c < 0x80 ? *p : (char) ((c & 0x03) << 6 | (*++p & 0x3f));
        }
        *to = '\0';
        return TAKE_PTR(text);
}

json_t *rules_to_json(const struct rules *rules) {
        AUTO_JSON json_t *list = rules ? json_array() : NULL;
        struct rule_def def;
        size_t n_builtin = 0;

        if (!rules)
                return json_null();
        (void) rules_builtin(&n_builtin);
        for (size_t i = 0; list && rules_def(rules, i, &def); i++) {
                json_t *row;

                if (has_defaults(rules, i)) {
                        row = json_string(defaults);
                        i += n_builtin - 1;
                } else {
                        row = json_pack("[o,s,i,b,o*]", pattern_to_json(def.path), actions[def.action],
                                        (int) def.types, def.builtin,
                                        def.from ? json_from_bytes(def.from, FROM_MAX) : NULL);
                }
                if (json_array_append_new(list, row) < 0)
                        return NULL;
        }
        return json_pack("{s:b,s:s*,s:O}", "fold", rules_fold(rules), "base", rules_base(rules), "list",
                         list);
}

/** struct defs - rules being read; paths of the built-in ones are static, the others owned */
struct defs {
        struct rule_def v[RULES_MAX];
        char *owned[RULES_MAX];
        size_t n;
};

static void defs_free(struct defs **p) {
        struct defs *d = *p;

        for (size_t i = 0; d && i < d->n; i++)
                free(d->owned[i]);
        free(d);
}
#define AUTO_DEFS __attribute__((cleanup(defs_free)))

static int add_defaults(struct defs *d) {
        size_t n = 0;
        const struct rule_def *builtin = rules_builtin(&n);

        if (d->n + n > RULES_MAX)
                return -EINVAL;
        memcpy(d->v + d->n, builtin, n * sizeof(*builtin));
        d->n += n;
        return 0;
}

static int add_def(struct defs *d, const json_t *row) {
        const char *word = json_string_value(json_array_get(row, 1));
        const json_int_t types = json_integer_value(json_array_get(row, 2));
        struct rule_def def = { .builtin = json_is_true(json_array_get(row, 3)),
                                .action = GUARD_DO_COUNT,
                                .types = (unsigned int) types };

        for (unsigned int i = 0; word && i < GUARD_DO_COUNT; i++)
                if (strcmp(word, actions[i]) == 0)
                        def.action = (enum guard_do) i;
        if (def.action == GUARD_DO_COUNT || types < 0 || types > (RULE_FILE | RULE_LINK | RULE_DIR) ||
            d->n == RULES_MAX)
                return -EINVAL;
        def.from = json_string_value(json_array_get(row, 4));
        def.path = d->owned[d->n] = pattern_from_json(json_array_get(row, 0));
        if (!def.path)
                return -EINVAL;
        d->v[d->n++] = def;
        return 0;
}

int rules_from_json(const json_t *json, struct rules **ret, struct error *err) {
        AUTO_DEFS struct defs *d = NULL;
        AUTO_RULES struct rules *rules = NULL;
        const json_t *list = json_object_get(json, "list");
        const char *base = json_string_value(json_object_get(json, "base"));
        int r = 0;

        if (!json || json_is_null(json)) {
                *ret = NULL;
                return 0;
        }
        d = calloc(1, sizeof(*d));
        if (!d)
                return error_set(err, -ENOMEM, "out of memory");
        if (!json_is_array(list))
                r = -EINVAL;
        for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
                const json_t *row = json_array_get(list, i);

                r = json_is_string(row) ? add_defaults(d) : add_def(d, row);
        }
        if (r < 0)
                return error_set(err, r, "the rules in the state of the run are damaged");
        r = rules_new(d->v, d->n, json_is_true(json_object_get(json, "fold")), &rules, err);
        if (r == 0 && base)
                r = rules_rebase(rules, base);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(rules);
        return 0;
}
