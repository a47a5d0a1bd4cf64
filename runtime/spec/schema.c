#include "runtime/spec/schema.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/list.h"

/* What a value looks like: for the schema (NULL: built by code), and for people. */
static const struct {
        const char *pattern;
        const char *people;
} forms[] = {
        [KEY_BOOL] = { NULL, "true or false" },
        [KEY_ENUM] = { NULL, "word" },
        [KEY_WORD] = { NULL, "word" },
        [KEY_STRING] = { NULL, "text" },
        [KEY_NUMBER] = { NULL, "number" },
        [KEY_SIZE] = { "^(0|[0-9]+(B|[kKMGT]B?|[KMGT]iB?))$", "size" },
        [KEY_DURATION] = { "^(0|([0-9]+(ms|s|m|h))+)$", "time" },
        [KEY_OCTAL] = { "^[0-7]{1,4}$", "permissions" },
        [KEY_PATH] = { NULL, "host path" },
        [KEY_TARGET] = { "^[/~]", "path inside" },
        [KEY_JOINED] = { NULL, "list of texts" },
        [KEY_TAGGED] = { NULL, "word, or mapping of one key" },
        [KEY_RULES] = { NULL, "list of rules" },
        [KEY_SEEDS] = { NULL, "list of seeds" },
        [KEY_MOUNTS] = { NULL, "list of mounts" },
        [KEY_SECRETS] = { NULL, "list of secrets" },
        [KEY_ENV] = { NULL, "mapping of names to values" },
        [KEY_PATHS] = { NULL, "list of host paths" },
        [KEY_DIRS] = { NULL, "list of relative paths" },
        [KEY_HOSTS] = { NULL, "list of network rules" },
        [KEY_TEXTS] = { NULL, "list of texts" },
        [KEY_TREE] = { NULL, "any form" },
};
static_assert(ARRAY_SIZE(forms) == KEY_TYPE_COUNT, "forms[] and enum key_type differ");

static json_t *section_schema(enum section section);

static json_t *words_schema(const struct key *key) {
        AUTO_JSON json_t *names = json_array();

        for (const struct word *w = key->words; names && w->name; w++)
                if (json_array_append_new(names, json_string(w->name)) < 0)
                        return NULL;
        return names ? json_pack("{s:O}", "enum", names) : NULL;
}

static json_t *scalar_schema(const struct key *key) {
        if (key->words)
                return words_schema(key);
        if (key->type == KEY_BOOL)
                return json_pack("{s:s}", "type", "boolean");
        if (key->type == KEY_NUMBER)
                return json_pack("{s:s, s:I, s:I}", "type", "integer", "minimum", (json_int_t) key->min,
                                 "maximum", (json_int_t) key->max);
        if (key->type == KEY_JOINED)
                return json_pack("{s:[{s:s}, {s:s, s:{s:s}}]}", "anyOf", "type", "string", "type", "array",
                                 "items", "type", "string");
        if (key->type == KEY_TAGGED)
                return json_pack("{s:[{s:s}, {s:s, s:i, s:i}]}", "anyOf", "type", "string", "type", "object",
                                 "minProperties", 1, "maxProperties", 1);
        if (forms[key->type].pattern)
                return json_pack("{s:s, s:s}", "type", "string", "pattern", forms[key->type].pattern);
        return json_pack("{s:[s,s], s:I}", "type", "string", "number", "maxLength",
                         (json_int_t) (key->max ? key->max : KEY_STRING_MAX));
}

/* A list; its items are mappings or one line of text, except that rules have no such line. */
static json_t *list_schema(const struct key *key) {
        const json_int_t max = (json_int_t) key->max;

        if (key->type == KEY_PATHS || key->type == KEY_DIRS || key->type == KEY_HOSTS ||
            key->type == KEY_TEXTS)
                return json_pack("{s:s, s:I, s:{s:s}}", "type", "array", "maxItems", max, "items", "type",
                                 "string");
        if (key->type == KEY_RULES)
                return json_pack("{s:s, s:I, s:o}", "type", "array", "maxItems", max, "items",
                                 section_schema(ITEM_RULE));
        if (key->type == KEY_ENV)
                return json_pack("{s:[{s:s, s:I, s:{s:[s,s,s,s]}}, {s:s, s:I, s:{s:s}}]}", "anyOf", "type",
                                 "object", "maxProperties", max, "additionalProperties", "type", "string",
                                 "number", "boolean", "null", "type", "array", "maxItems", max, "items",
                                 "type", "string");
        return json_pack("{s:s, s:I, s:{s:[{s:s}, o]}}", "type", "array", "maxItems", max, "items", "anyOf",
                         "type", "string", section_schema(list_section(key->type)));
}

/* The built-in value as JSON has it. */
static json_t *fallback_json(const struct key *key) {
        if (key->type == KEY_BOOL)
                return json_boolean(strcmp(key->fallback, "true") == 0);
        if (key->type == KEY_NUMBER)
                return json_loads(key->fallback, JSON_DECODE_ANY, NULL);
        return json_string(key->fallback);
}

static json_t *key_schema(const struct key *key) {
        AUTO_JSON json_t *obj = key->type == KEY_TREE ? json_object()
                                : key_is_list(key)    ? list_schema(key)
                                                      : scalar_schema(key);
        json_t *text;

        if (!obj)
                return NULL;
        text = json_sprintf("%s%s", key->help,
                            key->instead && !key->fallback ? " (not in this version)" : "");
        if (json_object_set_new(obj, "description", text) < 0)
                return NULL;
        if (key->fallback && json_object_set_new(obj, "default", fallback_json(key)) < 0)
                return NULL;
        return TAKE_PTR(obj);
}

static int add_keys(json_t *properties, const struct key *keys, size_t n, enum section section) {
        for (size_t i = 0; i < n; i++)
                if (keys[i].section == section &&
                    json_object_set_new(properties, keys[i].name, key_schema(&keys[i])) < 0)
                        return -1;
        return 0;
}

static json_t *section_schema(enum section section) {
        AUTO_JSON json_t *properties = json_object();
        const bool item = section >= ITEM_RULE;

        if (!properties || add_keys(properties, item ? item_keys : spec_keys,
                                    item ? item_key_count() : spec_key_count(), section) < 0)
                return NULL;
        return json_pack("{s:s, s:s, s:b, s:O}", "type", "object", "description", section_help(section),
                         "additionalProperties", 0, "properties", properties);
}

json_t *spec_schema(void) {
        AUTO_JSON json_t *root = section_schema(SECTION_ROOT);
        json_t *properties = root ? json_object_get(root, "properties") : NULL;

        for (size_t i = SECTION_ROOT + 1; i < SECTION_COUNT; i++)
                if (!properties || json_object_set_new(properties, section_name((enum section) i),
                                                       section_schema((enum section) i)) < 0)
                        return NULL;
        if (!properties ||
            json_object_set_new(root, "$schema",
                                json_string("https://json-schema.org/draft/2020-12/schema")) < 0 ||
            json_object_set_new(root, "title", json_string("cofferdam.yaml")) < 0)
                return NULL;
        return TAKE_PTR(root);
}

/* @text as mdoc text: no request at the begin of the line, no escapes, a capital, a full stop. */
static int manual_sentence(struct buf *out, const char *text) {
        int r;

        r = *text == '.' || *text == '\'' || *text == '/' ? buf_str(out, "\\&") : 0;
        if (r == 0)
                r = buf_fmt(out, "%c",
                            text[strcspn(text, " :")] == ':' ? *text : toupper((unsigned char) *text));
        for (text++; r == 0 && *text; text++)
                r = *text == '\\'  ? buf_str(out, "\\e")
                    : *text == '-' ? buf_str(out, "\\-")
                                   : buf_add(out, text, 1);
        return r == 0 ? buf_str(out, ".\n") : r;
}

/* "One of auto, native, docker*." or "A size." */
static int manual_form(struct buf *out, const struct key *key) {
        int r;

        if (!key->words)
                return buf_fmt(out, "Form: %s.\n", forms[key->type].people);
        r = buf_str(out, "One of");
        for (const struct word *w = key->words; r == 0 && w->name; w++)
                r = buf_fmt(out, "%s %s%s", w == key->words ? "" : ",", w->name, w->instead ? "*" : "");
        return r == 0 ? buf_str(out, ".\n") : r;
}

static int manual_key(struct buf *out, const struct key *key) {
        char path[KEY_PATH_LEN];
        int r;

        r = buf_fmt(out, ".It Cm %s\n", key->section >= ITEM_RULE ? key->name : key_path(key, path));
        if (r == 0)
                r = manual_sentence(out, key->help);
        if (r == 0)
                r = manual_form(out, key);
        if (r == 0 && key->fallback)
                r = buf_fmt(out, "Default: %s.\n", key->fallback);
        if (r == 0 && key->flag)
                r = buf_fmt(out, "Option:\n.Fl -%s .\n", key->flag);
        if (r == 0 && key->trust == TRUST_OPERATOR)
                r = buf_str(out, "Only the operator may set it.\n");
        if (r == 0 && key->instead)
                r = buf_fmt(out, "%s: %s.\n",
                            key->fallback ? "Nothing else in this version" : "Not in this version",
                            key->instead);
        return r;
}

static int manual_section(struct buf *out, enum section section) {
        const bool item = section >= ITEM_RULE;
        const struct key *keys = item ? item_keys : spec_keys;
        const size_t n = item ? item_key_count() : spec_key_count();
        const char *name = section_name(section);
        int r;

        r = buf_fmt(out, ".Ss %s%s\n", item ? "Each " : "", *name ? name : "Top level");
        if (r == 0)
                r = manual_sentence(out, section_help(section));
        if (r == 0)
                r = buf_str(out, ".Bl -tag -width Ds\n");
        for (size_t i = 0; r == 0 && i < n; i++)
                if (keys[i].section == section)
                        r = manual_key(out, &keys[i]);
        return r == 0 ? buf_str(out, ".El\n") : r;
}

int spec_manual(struct buf *out) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < SECTION_COUNT; i++)
                r = manual_section(out, (enum section) i);
        for (size_t i = ITEM_RULE; r == 0 && i <= ITEM_SECRET; i++)
                r = manual_section(out, (enum section) i);
        return r;
}
