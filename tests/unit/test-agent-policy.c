/*
 * test-agent-policy.c - rules about tools: deny wins, under every name that a tool has; half a rule is an
 * error
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/agent/policy.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

static struct permission *policy_of(const char *rules) {
        AUTO_JSON json_t *data = json_pack("{s:o}", "rules", json_loads(rules, 0, NULL));
        struct permission *p = NULL;

        assert_int_equal(permission_new(data, &p, NULL), 0);
        return p;
}

static void permission_allows_by_every_name(void **state) {
        static const struct {
                const char *rules, *tool, *input;
                bool allowed, denied_always;
        } rows[] = {
                { "[]", "bash", "{}", true, false },
                { "[\"deny: bash(rm *)\",\"allow: read_file\"]", "bash", "{\"command\":\"rm -rf x\"}", false,
                  true },
                { "[\"deny: bash(rm *)\"]", "bash", "{\"command\":\"rm -rf x\"}", false, false },
                { "[\"deny: bash(rm *)\"]", "bash", "{\"command\":\"ls\"}", true, false },
                { "[\"deny: bash(rm *)\"]", "bash", "{}", true, false },
                { "[\"allow: read_file\"]", "read_file", "{}", true, false },
                { "[\"allow: read_file\"]", "read_files", "{}", false, true },
                { "[\"allow: bash(ls*)\"]", "bash", "{\"command\":\"id\"}", false, false },
                { "[\"deny: *\"]", "ask_user", "{}", false, true },
                { "[\"allow: bash\",\"deny:bash\"]", "bash", "{}", false, true }, /* whatever the order */
                { "[\"deny: bash\",\"allow: bash\"]", "bash", "{}", false, true },
                { "[\"deny: mcp__board__*\"]", "board_tool", "{}", false, true },
                { "[\"deny: mcp.board.*\"]", "board_tool", "{}", false, true },
                { "[\"deny: board_tool\"]", "board_tool", "{}", false, true },
                { "[\"deny: mcp__bord__*\"]", "board_tool", "{}", true, false },
                { "[\"allow: mcp__board__create\"]", "board_tool", "{}", true, false },
                { "[\"deny: read_file(*/.env)\"]", "read_file", "{\"path\":\"a/b/.env\"}", false, false },
                { "[\"deny: x({\\\"a\\\":1*)\"]", "x", "{\"b\":2,\"a\":1}", false, false },
                { "[\"deny: bash(a(b))\"]", "bash", "{\"command\":\"a(b)\"}", false, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct permission *p = policy_of(rows[i].rules);
                AUTO_JSON json_t *input = json_loads(rows[i].input, 0, NULL);
                const struct identity tool = { { rows[i].tool, "mcp__board__create", "mcp.board.create" } };
                const char *rule = NULL;

                if (permission_allows(p, &tool, input, &rule) != rows[i].allowed)
                        fail_msg("row %zu: %s", i, rule);
                if (permission_denies_tool(p, &tool, &rule) != rows[i].denied_always &&
                    !strstr(rows[i].rules, "rm *"))
                        fail_msg("row %zu, without input: %s", i, rule);
                assert_non_null(rule);
                (void) permission_free(p);
        }
        assert_true(permission_allows(NULL, &(struct identity){ { "x" } }, NULL, NULL));
}

static void permission_new_refuses_half_a_rule(void **state) {
        static const char *const rows[] = {
                "[]",
                "\"x\"",
                "7",
                "{\"rules\":{}}",
                "{\"rules\":\"deny: x\"}",
                "{\"rules\":[1]}",
                "{\"rules\":[\"\"]}",
                "{\"rules\":[\"deny\"]}",
                "{\"rules\":[\"deny:\"]}",
                "{\"rules\":[\"deny bash\"]}",
                "{\"rules\":[\"ask: bash\"]}",
                "{\"rules\":[\"Deny: bash\"]}",
                "{\"rules\":[\"denybash: x\"]}",
                "{\"rules\":[\"deny: bash x\"]}",
                "{\"rules\":[\"deny: bash(\"]}",
                "{\"rules\":[\"deny: bash(x\"]}",
                "{\"rules\":[\"deny: (x)\"]}",
                "{\"rules\":[\"deny: bash(x) y\"]}",
                "{\"rules\":[\"deny: ba\\u0000sh\"]}",
                "{\"rules\":[],\"default\":\"allow\"}",
                "{\"rule\":[]}",
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                AUTO_JSON json_t *data = json_loads(rows[i], JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                struct permission *p = NULL;
                struct error err = { 0 };

                assert_non_null(data);
                if (permission_new(data, &p, &err) != -EINVAL)
                        fail_msg("%s is taken", rows[i]);
                assert_null(p);
                assert_true(*err.msg);
        }
}

static void permission_add_takes_all_or_nothing(void **state) {
        struct permission *p = policy_of("[\"deny: a\"]");
        AUTO_JSON json_t *good = json_loads("{\"rules\":[\"deny: b\",\"deny: c\"]}", 0, NULL),
                         *bad = json_loads("{\"rules\":[\"allow: d\",\"deny\"]}", 0, NULL), *all = NULL;

        (void) state;
        assert_int_equal(permission_add(p, bad, NULL), -EINVAL);
        assert_true(permission_allows(p, &(struct identity){ { "b" } }, NULL, NULL));
        assert_int_equal(permission_add(p, good, NULL), 0);
        assert_false(permission_allows(p, &(struct identity){ { "b" } }, NULL, NULL));
        all = permission_json(p);
        assert_int_equal(json_array_size(json_object_get(all, "rules")), 3);
        (void) permission_free(p);
}

static void permission_new_has_a_ceiling(void **state) {
        (void) state;
        for (int over = 0; over < 2; over++) {
                AUTO_JSON json_t *list = json_array(), *data = json_pack("{s:O}", "rules", list);
                struct permission *p = NULL;

                for (int i = 0; i < POLICY_RULES_MAX + over; i++)
                        assert_int_equal(json_array_append_new(list, json_string("deny: x")), 0);
                assert_int_equal(permission_new(data, &p, NULL), over ? -E2BIG : 0);
                (void) permission_free(p);
        }
}

static void permission_glob_is_the_whole_text(void **state) {
        static const struct {
                const char *glob, *text;
                bool fits;
        } rows[] = {
                { "", "", true },         { "", "a", false },        { "*", "", true },
                { "**", "abc", true },    { "a*c", "abc", true },    { "a*c", "ac", true },
                { "a*c", "acd", false },  { "?", "", false },        { "?", "a", true },
                { "a?c*", "abcd", true }, { "*.env", ".env", true }, { "*a*b", "aab", true },
                { "*aab", "aaab", true }, { "a", "A", false },       { "a*", "b", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (permission_glob(rows[i].glob, rows[i].text) != rows[i].fits)
                        fail_msg("'%s' and '%s'", rows[i].glob, rows[i].text);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(permission_allows_by_every_name),
                cmocka_unit_test(permission_new_refuses_half_a_rule),
                cmocka_unit_test(permission_add_takes_all_or_nothing),
                cmocka_unit_test(permission_new_has_a_ceiling),
                cmocka_unit_test(permission_glob_is_the_whole_text),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
