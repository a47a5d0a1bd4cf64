#include "runtime/agent/launch/gate.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/launch/tools.h"
#include "runtime/agent/placement.h"
#include "runtime/agent/protocol.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

static void tool_deinit(struct tool *tool) {
        json_decref(tool->def);
        free(tool->fqn);
        free(tool->dotted);
        *tool = (struct tool){ 0 };
}

void gate_deinit(struct gate *gate) {
        const int saved = errno;

        for (size_t i = 0; i < gate->n; i++)
                tool_deinit(&gate->tools[i]);
        free(gate->tools);
        for (size_t i = 0; i < GATE_POLICIES; i++)
                (void) permission_free(gate->policies[i]);
        (void) permission_free(gate->offer);
        *gate = (struct gate){ 0 };
        errno = saved;
}

const struct tool *gate_find(const struct gate *gate, const char *name) {
        for (size_t i = 0; i < gate->n; i++)
                if (strcmp(gate->tools[i].id.names[0], name) == 0)
                        return &gate->tools[i];
        return NULL;
}

/* The other names of a tool of @server. */
static int name_tool(struct tool *tool, const char *name, const char *server, const char *remote) {
        tool->id.names[0] = name;
        if (!server)
                return 0;
        if (asprintf(&tool->fqn, "mcp__%s__%s", server, remote) < 0) {
                tool->fqn = NULL;
                return -ENOMEM;
        }
        if (asprintf(&tool->dotted, "mcp.%s.%s", server, remote) < 0) {
                tool->dotted = NULL;
                return -ENOMEM;
        }
        tool->id.names[1] = tool->fqn;
        tool->id.names[2] = tool->dotted;
        return 0;
}

static bool denied(const struct gate *gate, const struct identity *id) {
        bool no = permission_denies_tool(gate->offer, id, NULL);

        for (size_t i = 0; i < GATE_POLICIES; i++)
                no = no || permission_denies_tool(gate->policies[i], id, NULL);
        return no;
}

static int check(const struct gate *gate, enum tool_kind kind, const char *name, struct error *err) {
        const enum placement want = kind == TOOL_INSIDE ? PLACEMENT_SANDBOX : PLACEMENT_LAUNCHER;

        if (!name || !*name || strlen(name) > PROTOCOL_NAME_MAX)
                return error_set(err, -EINVAL, "a tool has no name, or a very long one");
        if (gate_find(gate, name))
                return error_set(err, -EINVAL, "tool '%s': there are two of this name", ESC(name));
        if (placement_of(name, NULL) != want)
                return error_set(err, -EINVAL, "tool '%s' is %s, not %s", ESC(name),
                                 placement_name(placement_of(name, NULL)), placement_name(want));
        return gate->n < GATE_TOOLS_MAX ? 0 : error_set(err, -E2BIG, "more than %d tools", GATE_TOOLS_MAX);
}

int gate_add(struct gate *gate, enum tool_kind kind, json_t *def, const char *server, const char *remote,
             struct tool **ret, struct error *err) {
        struct tool tool = { .kind = kind, .def = def, .remote = remote }, *tools;
        const char *name = json_string_value(json_object_get(def, "name"));
        int r;

        *ret = NULL;
        r = check(gate, kind, name, err);
        if (r == 0 && name_tool(&tool, name, server, remote) < 0)
                r = error_set(err, -ENOMEM, "out of memory");
        if (r < 0 || denied(gate, &tool.id)) {
                tool_deinit(&tool);
                return r;
        }
        tools = reallocarray(gate->tools, gate->n + 1, sizeof(*tools));
        if (!tools) {
                tool_deinit(&tool);
                return error_set(err, -ENOMEM, "out of memory");
        }
        gate->tools = tools;
        tools[gate->n] = tool;
        *ret = &tools[gate->n++];
        return 0;
}

static const struct tool *refuse(char *ret, size_t size, const char *reason) {
        (void) snprintf(ret, size, "%s", reason);
        return NULL;
}

const struct tool *gate_admit(const struct gate *gate, const json_t *name, const json_t *input,
                              char *ret_reason, size_t size) {
        const char *text = json_string_value(name), *why = NULL;
        const struct tool *tool;
        enum placement placement;

        if (!text || strlen(text) != json_string_length(name))
                return refuse(ret_reason, size, "its name is no name");
        if (!json_is_object(input))
                return refuse(ret_reason, size, "its input is no object");
        tool = gate_find(gate, text);
        if (!tool)
                return refuse(ret_reason, size, "it was not advertised to this node under this name");
        placement = placement_of(text, &why);
        if (placement != PLACEMENT_LAUNCHER || tool->kind == TOOL_INSIDE) {
                (void) snprintf(ret_reason, size, "it is not launcher-placed but %s, because it %s",
                                placement_name(placement), why);
                return NULL;
        }
        for (size_t i = 0; i < GATE_POLICIES; i++)
                if (!permission_allows(gate->policies[i], &tool->id, input, &why)) {
                        (void) snprintf(ret_reason, size, "the permission policy denies it: %s", why);
                        return NULL;
                }
        if (gate->planning && tool->kind != TOOL_BUILTIN) /* those change nothing on the host */
                return refuse(ret_reason, size, "the node plans: exit_plan_mode comes first");
        return tool;
}

json_t *gate_defs(const struct gate *gate) {
        AUTO_JSON json_t *list = json_array();

        for (size_t i = 0; list && i < gate->n; i++)
                if (json_array_append(list, gate->tools[i].def) < 0)
                        return NULL;
        return TAKE_PTR(list);
}
