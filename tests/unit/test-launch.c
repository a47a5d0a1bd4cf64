/*
 * test-launch.c - the gate of the launcher, walked name by name; what it serves itself; who may start a
 * server
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/agent/launch/gate.h"
#include "runtime/agent/launch/mcp.h"
#include "runtime/agent/launch/tools.h"
#include "runtime/agent/mcp-origin.h"
#include "runtime/agent/placement.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

static int add(struct gate *gate, enum tool_kind kind, const char *name, const char *server,
               const char *remote) {
        struct tool *tool = NULL;

        return gate_add(gate, kind, json_pack("{s:s}", "name", name), server, remote, &tool, NULL);
}

static const struct tool *admit(const struct gate *gate, const char *name, const char *input) {
        AUTO_JSON json_t *n = json_string(name), *i = json_loads(input, JSON_DECODE_ANY, NULL);
        char reason[256] = "";
        const struct tool *tool = gate_admit(gate, n, i, reason, sizeof(reason));

        assert_true((tool == NULL) == (*reason != '\0'));
        return tool;
}

/* Nothing that is not placed in the launcher can be advertised as carried out there, nor the other way round.
 */
static void gate_add_follows_placement(void **state) {
        (void) state;
        for (int i = 0; i < PLACEMENT_ROW_COUNT; i++) {
                CLEANUP(gate_deinit) struct gate gate = { 0 };
                const char *name = placement_listed((enum placement_row) i);
                const enum placement placement = placement_of(name, NULL);

                assert_int_equal(add(&gate, TOOL_INSIDE, name, NULL, NULL),
                                 placement == PLACEMENT_SANDBOX ? 0 : -EINVAL);
                assert_null(admit(&gate, name, "{}"));
                gate_deinit(&gate);
                for (enum tool_kind kind = TOOL_BUILTIN; kind <= TOOL_SERVER; kind++) {
                        assert_int_equal(add(&gate, kind, name, NULL, NULL),
                                         placement == PLACEMENT_LAUNCHER ? 0 : -EINVAL);
                        assert_int_equal(admit(&gate, name, "{}") != NULL, placement == PLACEMENT_LAUNCHER);
                        gate_deinit(&gate);
                }
                assert_null(admit(&gate, name, "{}")); /* with nothing advertised, nothing is carried out */
        }
}

static void gate_add_refuses_twice_and_nameless(void **state) {
        CLEANUP(gate_deinit) struct gate gate = { 0 };
        char name[16];

        (void) state;
        assert_int_equal(add(&gate, TOOL_SERVER, "mcp__a__b", "a", "b"), 0);
        assert_int_equal(add(&gate, TOOL_SERVER, "mcp__a__b", "a", "b"), -EINVAL);
        assert_int_equal(add(&gate, TOOL_SERVER, "", "a", "b"), -EINVAL);
        assert_int_equal(add(&gate, TOOL_SERVER, "image_gen", "a", "b"), -EINVAL);
        for (size_t i = 1; i < GATE_TOOLS_MAX; i++) {
                (void) snprintf(name, sizeof(name), "mcp__a__%zu", i);
                assert_int_equal(add(&gate, TOOL_SERVER, name, "a", name + 8), 0);
        }
        assert_int_equal(add(&gate, TOOL_SERVER, "mcp__a__x", "a", "x"), -E2BIG);
}

static void gate_admit_looks_at_every_name(void **state) {
        static const struct {
                const char *rule;
                bool admitted;
        } rows[] = {
                { "deny: mcp__board__create", false }, { "deny: mcp.board.create", false },
                { "deny: mcp.board.*", false },        { "deny: mcp__board__*(*)", false },
                { "deny: *(*secret*)", true },         { "deny: *(*1*)", false },
                { "deny: mcp_board_create", true },    { "allow: mcp__board__create", true },
                { "allow: mcp.board.create", true },   { "allow: todo_write", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                for (int side = 0; side < GATE_POLICIES; side++) {
                        CLEANUP(gate_deinit) struct gate gate = { 0 };
                        AUTO_JSON json_t *data = json_pack("{s:[s]}", "rules", rows[i].rule);

                        /* advertised before there was a rule: the call alone is looked at */
                        assert_int_equal(add(&gate, TOOL_SERVER, "mcp__board__create", "board", "create"), 0);
                        assert_int_equal(permission_new(data, &gate.policies[side], NULL), 0);
                        if ((admit(&gate, "mcp__board__create", "{\"n\":1}") != NULL) != rows[i].admitted)
                                fail_msg("%s", rows[i].rule);
                }
}

static void gate_admit_wants_a_name_and_an_object(void **state) {
        CLEANUP(gate_deinit) struct gate gate = { 0 };
        AUTO_JSON json_t *name = json_string("todo_write"), *nul = json_stringn("todo_write\0x", 12),
                         *number = json_integer(1), *object = json_object(), *list = json_array();
        char reason[8]; /* which is cut */

        (void) state;
        assert_int_equal(add(&gate, TOOL_BUILTIN, "todo_write", NULL, NULL), 0);
        assert_non_null(gate_admit(&gate, name, object, reason, sizeof(reason)));
        assert_null(gate_admit(&gate, nul, object, reason, sizeof(reason)));
        assert_null(gate_admit(&gate, number, object, reason, sizeof(reason)));
        assert_null(gate_admit(&gate, NULL, object, reason, sizeof(reason)));
        assert_null(gate_admit(&gate, name, list, reason, sizeof(reason)));
        assert_null(gate_admit(&gate, name, NULL, reason, sizeof(reason)));
}

static void launch_tools_are_placed_in_the_launcher(void **state) {
        const char *name;

        (void) state;
        for (size_t i = 0; (name = launch_tool_listed(i)); i++) {
                AUTO_JSON json_t *def = launch_tool_def(name);

                assert_int_equal(placement_of(name, NULL), PLACEMENT_LAUNCHER);
                assert_true(json_is_object(json_object_get(def, "input_schema")));
                assert_true(json_string_length(json_object_get(def, "description")) > 0);
                assert_true(launch_tool_is_quiet(name));
        }
        assert_null(launch_tool_def("bash"));
        assert_false(launch_tool_is_quiet("bash"));
}

/* Calls one and gives its output, or "!" and its error. */
static const char *call(struct launch_state *s, struct gate *gate, const char *name, const char *input,
                        struct tool_answer *answer) {
        AUTO_JSON json_t *data = json_loads(input, 0, NULL);

        tool_answer_deinit(answer);
        *answer = (struct tool_answer){ 0 };
        launch_tool_call(s, gate, name, data, answer);
        return answer->error.len > 0 ? "!" : buf_cstr(&answer->output);
}

static void launch_tool_call_keeps_tasks(void **state) {
        CLEANUP(launch_state_deinit) struct launch_state s = { 0 };
        CLEANUP(tool_answer_deinit) struct tool_answer a = { 0 };
        CLEANUP(gate_deinit) struct gate gate = { 0 };

        (void) state;
        assert_string_equal(call(&s, &gate, "task_list", "{}", &a), "[]");
        assert_string_equal(call(&s, &gate, "task_create", "{}", &a), "!");
        assert_string_equal(call(&s, &gate, "task_create", "{\"subject\":\"s\"}", &a),
                            "{\"task_id\":\"task-1\",\"status\":\"pending\",\"subject\":\"s\"}");
        assert_string_equal(call(&s, &gate, "task_update", "{\"task_id\":\"task-1\",\"status\":\"odd\"}", &a),
                            "!");
        assert_string_equal(
                call(&s, &gate, "task_update", "{\"task_id\":\"task-1\",\"task_id2\":1,\"output\":\"o\"}",
                     &a),
                "{\"task_id\":\"task-1\",\"status\":\"pending\",\"subject\":\"s\",\"output\":\"o\"}");
        assert_string_equal(call(&s, &gate, "task_output", "{\"task_id\":\"task-1\"}", &a), "o");
        assert_string_equal(call(&s, &gate, "task_stop", "{\"task_id\":\"task-2\"}", &a), "!");
        assert_string_equal(call(&s, &gate, "task_get", "{\"task_id\":7}", &a), "!");
        assert_string_equal(call(&s, &gate, "await_answers", "{}", &a), "no question waits");
        assert_string_equal(call(&s, &gate, "nothing", "{}", &a), "!");
        for (int i = 1; i < LAUNCH_ITEMS_MAX; i++)
                assert_true(*call(&s, &gate, "task_create", "{\"subject\":\"s\"}", &a) == '{');
        assert_string_equal(call(&s, &gate, "task_create", "{\"subject\":\"s\"}", &a), "!");
}

static void mcp_origin_on_host_is_the_operators_alone(void **state) {
        static const char *const names[] = { NULL,       "",       "unknown", "project",
                                             "workflow", "Plugin", "plugin ", "builtin" };
        const struct program program = { .argv = (const char *const[]){ "/bin/true", NULL } };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                struct mcp_server server = MCP_SERVER_INIT;

                server.name = "x";
                assert_false(mcp_origin_on_host(mcp_origin_of(names[i])));
                assert_int_equal(mcp_server_start(&server, mcp_origin_of(names[i]), &program, NULL), -EPERM);
                assert_int_equal(server.pid, 0);
        }
        assert_true(mcp_origin_on_host(mcp_origin_of("plugin")));
        assert_string_equal(mcp_origin_name(MCP_ORIGIN_PROJECT), "project");
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(gate_add_follows_placement),
                cmocka_unit_test(gate_add_refuses_twice_and_nameless),
                cmocka_unit_test(gate_admit_looks_at_every_name),
                cmocka_unit_test(gate_admit_wants_a_name_and_an_object),
                cmocka_unit_test(launch_tools_are_placed_in_the_launcher),
                cmocka_unit_test(launch_tool_call_keeps_tasks),
                cmocka_unit_test(mcp_origin_on_host_is_the_operators_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
