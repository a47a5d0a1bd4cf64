/*
 * test-placement.c - where each tool may run, name by name; everything else is refused
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/agent/placement.h"
#include "runtime/base/cleanup.h"

/* Written from the contract, not from the table. */
static const char *const sandbox[] = {
        "bash",
        "diagnostic_shell",
        "repl",
        "read_file",
        "write_file",
        "file_edit",
        "glob",
        "notebook_edit",
        "grep",
        "workspace_grep",
        "skill",
        "read_image",
        "web_fetch",
        "remote_trigger",
        "send_user_message",
        "sleep",
        "structured_output",
        "agent",
};
static const char *const launcher[] = {
        "ask_user",         "ask_user_async", "await_answers",   "list_mcp_resources", "read_mcp_resource",
        "mcp_auth",         "task_create",    "task_get",        "task_list",          "task_output",
        "task_stop",        "task_update",    "run_task_packet", "team_create",        "team_get",
        "team_list",        "team_delete",    "cron_create",     "cron_get",           "cron_list",
        "cron_delete",      "todo_write",     "enter_plan_mode", "exit_plan_mode",     "privacy_filter",
        "privacy_unfilter", "config",         "tool_search",     "web_search",
};
static const char *const refused[] = {
        "lsp",
        "screenshot",
        "computer_use",
        "worker_create",
        "worker_get",
        "worker_observe",
        "worker_observe_completion",
        "worker_resolve_trust",
        "worker_await_ready",
        "worker_send_prompt",
        "worker_restart",
        "worker_terminate",
};

static void placement_of_follows_the_contract(void **state) {
        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(sandbox); i++)
                assert_int_equal(placement_of(sandbox[i], NULL), PLACEMENT_SANDBOX);
        for (size_t i = 0; i < ARRAY_SIZE(launcher); i++)
                assert_int_equal(placement_of(launcher[i], NULL), PLACEMENT_LAUNCHER);
        for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
                assert_int_equal(placement_of(refused[i], NULL), PLACEMENT_REFUSED);
        assert_int_equal(ARRAY_SIZE(sandbox) + ARRAY_SIZE(launcher) + ARRAY_SIZE(refused),
                         PLACEMENT_ROW_COUNT);
}

static void placement_of_refuses_what_is_near(void **state) {
        static const char *const rows[] = {
                "",
                " ",
                "image_gen",
                "Bash",
                "BASH",
                "bash ",
                " bash",
                "bash\n",
                "bash.",
                "b\xd0\xb0sh",
                "ask-user",
                "ask.user",
                "Ask_user",
                "ask_user ",
                "ask_userx",
                "todowrite",
                "todo__write",
                "t\xc3\xb3\x64o_write",
                "ask_user\xe2\x80\x8b",
                "mcp",
                "mcp_",
                "mcp__",
                "mcp___",
                "mcp.x",
                "mcp_x",
                "mcp_bash",
                "mcp.bash",
                "mcp__bash",
                "mcp_bash_",
                "mcp-a-b",
                "MCP__a__b",
                "xmcp__a__b",
                " mcp__a__b",
                "\xef\xbd\x8d\x63p__a__b",
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (placement_of(rows[i], NULL) != PLACEMENT_REFUSED)
                        fail_msg("'%s' is not refused", rows[i]);
}

static void placement_of_knows_the_spellings_of_mcp(void **state) {
        static const char *const rows[] = {
                "mcp.a.b", "mcp_a_b", "mcp__a__b", "mcp.board.create_card", "mcp__board__create_card",
                "mcp_a.b"
        };
        const char *reason = NULL;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                assert_true(placement_is_mcp(rows[i]));
                assert_int_equal(placement_of(rows[i], &reason), PLACEMENT_LAUNCHER);
                assert_non_null(reason);
        }
        /* a name of the table is never of the family: an exact row counts first */
        for (int i = 0; i < PLACEMENT_ROW_COUNT; i++)
                assert_true(!placement_is_mcp(placement_listed((enum placement_row) i)));
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(placement_of_follows_the_contract),
                cmocka_unit_test(placement_of_refuses_what_is_near),
                cmocka_unit_test(placement_of_knows_the_spellings_of_mcp),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
