/*
 * fuzz-task.c - the files of a launch: a task, what the operator provides, rules
 *
 * What is accepted has what the header promises: a node, no key of the launcher's left in what the runner
 * gets, names in its lists, and tools of the operator that are placed in the launcher or have no row.
 */
#include <errno.h>
#include <string.h>

#include "runtime/agent/placement.h"
#include "runtime/agent/policy.h"
#include "runtime/agent/task.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_policy(const json_t *data) {
        const struct identity tool = { { "bash", "mcp__a__b", "mcp.a.b" } };
        struct permission *p = NULL;
        const int r = permission_new(data, &p, NULL);

        check(r == 0 || r == -EINVAL || r == -E2BIG);
        check((r == 0) == (p != NULL));
        if (p && permission_denies_tool(p, &tool, NULL))
                check(!permission_allows(p, &tool, data, NULL));
        (void) permission_free(p);
}

static void check_task(const struct task *task) {
        static const char *const own[] = { "version",     "permission",  "tool_policy",
                                           "mcp_servers", "interaction", "tool_defs" };
        json_t *name;
        size_t i;

        check(json_is_string(json_object_get(task->data, "node_id")));
        for (i = 0; i < ARRAY_SIZE(own); i++)
                check(!json_object_get(task->data, own[i]));
        json_array_foreach(task->allowed, i, name) {
                check(json_is_string(name));
        }
        check_policy(task->permission);
}

static void check_operator(const struct operator* op) {
        const char *name;
        json_t *tool;

        json_object_foreach(op->tools, name, tool) {
                check(!placement_has_row(name) || placement_of(name, NULL) == PLACEMENT_LAUNCHER);
                check(json_array_size(json_object_get(tool, "command")) > 0);
        }
        check_policy(op->permission);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_JSON json_t *json = json_loadb((const char *) data, size, JSON_DECODE_ANY, NULL);
        struct operator op = { 0 };
        struct task task = { 0 };
        int r;

        r = task_read((const char *) data, size, &task, NULL);
        check(r == 0 || r == -EINVAL || r == -ENOTSUP);
        if (r == 0)
                check_task(&task);
        task_deinit(&task);
        r = operator_read((const char *) data, size, &op, NULL);
        check(r == 0 || r == -EINVAL);
        if (r == 0)
                check_operator(&op);
        operator_deinit(&op);
        check_policy(json);
        return 0;
}
