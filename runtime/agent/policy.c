#include "runtime/agent/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

struct rule {
        char *text;    /* as it was written; owned */
        char *tool;    /* owned */
        char *pattern; /* owned; NULL: whatever the input */
        bool allow;
};

struct permission {
        struct rule *rules;
        size_t n;
        bool allows; /* some rule allows: what none allows is denied */
};

static void rule_deinit(struct rule *rule) {
        free(rule->text);
        free(rule->tool);
        free(rule->pattern);
        *rule = (struct rule){ 0 };
}

struct permission *permission_free(struct permission *p) {
        for (size_t i = 0; p && i < p->n; i++)
                rule_deinit(&p->rules[i]);
        if (p)
                free(p->rules);
        free(p);
        return NULL;
}

bool permission_glob(const char *glob, const char *text) {
        const char *star = NULL, *back = NULL;

        while (*text) {
                if (*glob == '*') {
                        star = glob++;
                        back = text;
                } else if (*glob == '?' || (*glob && *glob == *text)) {
                        glob++;
                        text++;
                } else if (star) { /* the last star takes one byte more */
                        glob = star + 1;
                        text = ++back;
                } else {
                        return false;
                }
        }
        while (*glob == '*')
                glob++;
        return *glob == '\0';
}

static const char *skip_blanks(const char *s) {
        return s + strspn(s, " \t");
}

/* What stands behind the action; NULL: there is none. */
static const char *take_action(const char *text, bool *ret_allow) {
        text = skip_blanks(text);
        *ret_allow = strncmp(text, "allow", 5) == 0;
        if (!*ret_allow && strncmp(text, "deny", 4) != 0)
                return NULL;
        text = skip_blanks(text + (*ret_allow ? 5 : 4));
        return *text == ':' ? skip_blanks(text + 1) : NULL;
}

/* TOOL or TOOL(PATTERN). Return: 0, -EINVAL, -ENOMEM. */
static int take_tool(const char *text, struct rule *rule) {
        const size_t n = strcspn(text, "( \t");
        const char *rest = text + n;
        size_t len;

        if (n == 0)
                return -EINVAL;
        rule->tool = strndup(text, n);
        if (!rule->tool)
                return -ENOMEM;
        if (*rest != '(')
                return *skip_blanks(rest) ? -EINVAL : 0;
        len = strlen(++rest);
        while (len > 0 && (rest[len - 1] == ' ' || rest[len - 1] == '\t'))
                len--;
        if (len == 0 || rest[len - 1] != ')')
                return -EINVAL;
        rule->pattern = strndup(rest, len - 1);
        return rule->pattern ? 0 : -ENOMEM;
}

static int rule_parse(const json_t *json, struct rule *ret, struct error *err) {
        const char *text = json_string_value(json), *tool;
        struct rule rule = { 0 };
        int r = -EINVAL;

        if (!text || strlen(text) != json_string_length(json) || strlen(text) > POLICY_RULE_MAX)
                return error_set(err, -EINVAL, "permission rule: want a text of at most %d bytes",
                                 POLICY_RULE_MAX);
        tool = take_action(text, &rule.allow);
        if (tool)
                r = take_tool(tool, &rule);
        if (r == 0 && !(rule.text = strdup(text)))
                r = -ENOMEM;
        if (r == 0) {
                *ret = rule;
                return 0;
        }
        rule_deinit(&rule);
        return r == -ENOMEM
                       ? error_set(err, r, "out of memory")
                       : error_set(err, r,
                                   "permission rule '%s': want 'allow: TOOL', 'deny: TOOL' or either with "
                                   "TOOL(PATTERN)",
                                   ESC(text));
}

/* The list of rules in @data. Return: 0, -EINVAL. */
static int rules_of(const json_t *data, const json_t **ret, struct error *err) {
        *ret = json_object_get(data, "rules");
        if (!data || json_is_null(data))
                return 0;
        if (!json_is_object(data) || json_object_size(data) != (*ret ? 1 : 0) ||
            (*ret && !json_is_array(*ret)))
                return error_set(err, -EINVAL, "permission policy: want {\"rules\": [..]} and nothing else");
        return 0;
}

int permission_add(struct permission *p, const json_t *data, struct error *err) {
        const json_t *list = NULL;
        struct rule *rules;
        size_t n = p->n;
        int r;

        r = rules_of(data, &list, err);
        if (r < 0 || json_array_size(list) == 0)
                return r;
        if (n + json_array_size(list) > POLICY_RULES_MAX)
                return error_set(err, -E2BIG, "permission policy: more than %d rules", POLICY_RULES_MAX);
        rules = reallocarray(p->rules, n + json_array_size(list), sizeof(*rules));
        if (!rules)
                return error_set(err, -ENOMEM, "out of memory");
        p->rules = rules;
        for (size_t i = 0; i < json_array_size(list) && r == 0; i++) {
                r = rule_parse(json_array_get(list, i), &rules[n], err);
                n += r == 0;
        }
        while (r < 0 && n > p->n)
                rule_deinit(&rules[--n]);
        for (; p->n < n; p->n++)
                p->allows |= rules[p->n].allow;
        return r;
}

int permission_new(const json_t *data, struct permission **ret, struct error *err) {
        struct permission *p = calloc(1, sizeof(*p));
        int r;

        if (!p)
                return error_set(err, -ENOMEM, "out of memory");
        r = permission_add(p, data, err);
        if (r < 0) {
                (void) permission_free(p);
                return r;
        }
        *ret = p;
        return 0;
}

bool permission_is_closed(const struct permission *p) {
        return p && p->allows;
}

bool permission_is_empty(const struct permission *p) {
        return !p || p->n == 0;
}

json_t *permission_json(const struct permission *p) {
        AUTO_JSON json_t *list = json_array();

        for (size_t i = 0; list && p && i < p->n; i++)
                if (json_array_append_new(list, json_string(p->rules[i].text)) < 0)
                        return NULL;
        return list ? json_pack("{s:O}", "rules", list) : NULL;
}

char *permission_subject(const json_t *input) {
        static const char *const keys[] = { "command", "file_path", "path", "url", "pattern" };

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                const char *text = json_string_value(json_object_get(input, keys[i]));

                if (text)
                        return strdup(text);
        }
        return input ? json_dumps(input, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS) : strdup("");
}

static bool names_tool(const struct rule *rule, const struct identity *tool) {
        for (size_t i = 0; i < ARRAY_SIZE(tool->names); i++)
                if (tool->names[i] && permission_glob(rule->tool, tool->names[i]))
                        return true;
        return false;
}

/* The first rule of the kind that fits; @subject NULL: only those that do not look at it. */
static const struct rule *find(const struct permission *p, bool allow, const struct identity *tool,
                               const char *subject) {
        for (size_t i = 0; i < p->n; i++) {
                const struct rule *rule = &p->rules[i];

                if (rule->allow == allow && names_tool(rule, tool) &&
                    (!rule->pattern || (subject && permission_glob(rule->pattern, subject))))
                        return rule;
        }
        return NULL;
}

static bool decide(const struct rule *rule, bool allowed, const char *otherwise, const char **ret_rule) {
        if (ret_rule)
                *ret_rule = rule ? rule->text : otherwise;
        return allowed;
}

bool permission_allows(const struct permission *p, const struct identity *tool, const json_t *input,
                       const char **ret_rule) {
        AUTO_FREE char *subject = NULL;
        const struct rule *rule;

        if (permission_is_empty(p))
                return decide(NULL, true, "no rules", ret_rule);
        subject = permission_subject(input);
        if (!subject)
                return decide(NULL, false, "out of memory", ret_rule);
        rule = find(p, false, tool, subject);
        if (rule)
                return decide(rule, false, NULL, ret_rule);
        rule = find(p, true, tool, subject);
        return decide(rule, rule || !p->allows, p->allows ? "no rule allows it" : "no rule denies it",
                      ret_rule);
}

bool permission_denies_tool(const struct permission *p, const struct identity *tool, const char **ret_rule) {
        const struct rule *rule = permission_is_empty(p) ? NULL : find(p, false, tool, NULL);

        if (rule || permission_is_empty(p) || !p->allows)
                return decide(rule, rule != NULL, "no rule denies it", ret_rule);
        for (size_t i = 0; i < p->n; i++)
                if (p->rules[i].allow && names_tool(&p->rules[i], tool))
                        return decide(&p->rules[i], false, NULL, ret_rule);
        return decide(NULL, true, "no rule allows it", ret_rule);
}
