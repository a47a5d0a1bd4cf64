/* What a task brings: tools, servers, and the conversation it goes on with */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/agent/placement.h"
#include "runtime/agent/runner/loop.h"
#include "runtime/agent/runner/session.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { API_NAME_MAX = 128 };
static_assert((int) TOOL_KEEP_MAX >= (int) MCP_SERVERS_MAX, "each server is kept");

/* A name that the API takes: letters, digits, '_' and '-', and not one that is taken. */
static int api_name(const struct agent *a, const char *name, char out[API_NAME_MAX + 1]) {
        const size_t len = strnlen(name, API_NAME_MAX - 4);
        size_t n = 0;

        for (; n < len; n++) {
                const char c = name[n];

                out[n] =
                        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-'
                                ? c
                                : '_';
        }
        out[n] = '\0';
        for (int i = 2; json_object_get(a->routes, out); i++) {
                if (i > 99)
                        return -EEXIST;
                (void) snprintf(out + n, 5, "_%d", i);
        }
        return 0;
}

/* @server: -1: a tool of the sandbox or of the launcher. */
static int add_tool(struct agent *a, const char *name, const char *description, const json_t *schema,
                    int server, const char *tool, struct error *err) {
        char api[API_NAME_MAX + 1];
        int r = api_name(a, name, api);

        if (r < 0)
                return error_set(err, r, "tool '%s': too many are named alike", ESC(name));
        if (json_object_set_new(a->routes, api,
                                json_pack("{s:s,s:i,s:s}", "name", name, "server", server, "tool", tool)) <
                    0 ||
            json_array_append_new(a->tools, json_pack("{s:s,s:s,s:O}", "name", api, "description",
                                                      description, "input_schema", schema)) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return 0;
}

static bool advertised(const struct agent *a, const char *name) {
        return json_object_get(a->routes, name) != NULL;
}

/* One of the launcher's list: its words are kept; where there are none, ours. */
static int add_def(struct agent *a, const json_t *def, struct error *err) {
        const char *name = json_string_value(json_object_get(def, "name")), *reason = "";
        AUTO_JSON json_t *own = NULL, *plain = json_pack("{s:s}", "type", "object");
        const char *description = json_string_value(json_object_get(def, "description"));
        const json_t *schema = json_object_get(def, "input_schema");
        enum placement where;

        if (!name || !*name)
                return error_set(err, -EINVAL, "a tool of the task has no name");
        where = placement_of(name, &reason);
        if (where == PLACEMENT_REFUSED)
                return error_set(err, -ENOTSUP,
                                 "CAPABILITY_UNSUPPORTED: tool '%s' is not for a sandbox: it %s", ESC(name),
                                 reason);
        if (where == PLACEMENT_SANDBOX && !tool_here(name))
                return error_set(err, -ENOTSUP, "CAPABILITY_UNSUPPORTED: this runner has no tool '%s'",
                                 ESC(name));
        if (where == PLACEMENT_SANDBOX)
                own = tool_schema(name);
        if (!schema && strcmp(name, "structured_output") == 0)
                schema = a->env.output_schema;
        if (!schema)
                schema = own ? json_object_get(own, "input_schema") : plain;
        if (!description)
                description = own ? json_string_value(json_object_get(own, "description")) : "";
        return add_tool(a, name, description, schema, -1, name, err);
}

/* Whether the node takes a tool of a server: by name, by "mcp.SERVER.*", or because it names none at all. */
static bool allowed(const struct agent *a, const struct identity *tool, const char *server) {
        const json_t *list = json_object_get(a->task, "allowed_tools");
        bool named = false;
        json_t *one;
        size_t i;

        json_array_foreach(list, i, one) {
                const char *glob = json_string_value(one);

                if (!glob || strncmp(glob, "mcp", 3) != 0)
                        continue;
                named = true;
                for (size_t k = 0; k < ARRAY_SIZE(tool->names); k++) {
                        if (tool->names[k] && permission_glob(glob, tool->names[k]))
                                return true;
                }
        }
        (void) server;
        return !named;
}

static int add_server_tool(struct agent *a, int index, const json_t *tool, struct error *err) {
        const char *name = json_string_value(json_object_get(tool, "name"));
        const char *description = json_string_value(json_object_get(tool, "description"));
        const json_t *schema = json_object_get(tool, "inputSchema");
        AUTO_JSON json_t *plain = json_pack("{s:s}", "type", "object"), *text = NULL;
        const char *server = mcp_name(a->servers[index]);
        char full[512], dotted[512];

        if (!name || !*name || strlen(name) > 256)
                return 0; /* it cannot be called */
        (void) snprintf(full, sizeof(full), "mcp__%s__%s", server, name);
        (void) snprintf(dotted, sizeof(dotted), "mcp.%s.%s", server, name);
        if (!allowed(a, &(struct identity){ { full, dotted, NULL } }, server) ||
            permission_denies_tool(a->policy, &(struct identity){ { full, full, dotted } }, NULL))
                return 0;
        text = text_json(description ? description : "", description ? strlen(description) : 0, 16384);
        return add_tool(a, full, text ? json_string_value(text) : "", json_is_object(schema) ? schema : plain,
                        index, name, err);
}

static bool is_named(const struct agent *a, const char *server) {
        const json_t *list = json_object_get(a->task, "allowed_tools");
        char dotted[128], full[128];
        json_t *one;
        size_t i;

        (void) snprintf(dotted, sizeof(dotted), "mcp.%s.", server);
        (void) snprintf(full, sizeof(full), "mcp__%s__", server);
        json_array_foreach(list, i, one) {
                const char *s = json_string_value(one);

                if (s && (strncmp(s, dotted, strlen(dotted)) == 0 || strncmp(s, full, strlen(full)) == 0))
                        return true;
        }
        return false;
}

/* A server that does not start: the node that names it cannot be done, any other goes on without. */
static int degrade(struct agent *a, const char *name, const json_t *config, const struct error *why,
                   struct error *err) {
        const char *origin = json_string_value(json_object_get(config, "origin"));

        if (is_named(a, name))
                return error_set(err, -ENOTSUP, "CAPABILITY_UNSUPPORTED: %s", why->msg);
        log_warn("%s", why->msg);
        wire_event(a->wire, "mcp_server_degraded",
                   json_pack("{s:s,s:s,s:s}", "server", name, "origin", origin ? origin : "unknown", "reason",
                             why->msg));
        return 0;
}

static int add_server(struct agent *a, const char *name, const json_t *config, struct error *err) {
        const size_t n = a->n_servers;
        struct error why = { 0 };
        json_t *tool;
        size_t i;
        int r = mcp_start(&a->place, name, config, &a->servers[n], &why);

        if (r == -EPIPE || r == -ENOMEM)
                return r;
        if (r < 0)
                return degrade(a, name, config, &why, err);
        a->n_servers++;
        if (mcp_pid(a->servers[n]))
                a->env.keep[a->env.n_keep++] = mcp_pid(a->servers[n]);
        json_array_foreach(mcp_tools(a->servers[n]), i, tool) {
                r = add_server_tool(a, (int) n, tool, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A list, each with its name, or an object by their names. */
static int start_servers(struct agent *a, struct error *err) {
        json_t *servers = json_object_get(a->task, "mcp_servers"), *config;
        const char *name;
        size_t i;
        int r = 0;

        if (json_object_size(servers) + json_array_size(servers) > MCP_SERVERS_MAX)
                return error_set(err, -E2BIG, "more than %d MCP servers", MCP_SERVERS_MAX);
        json_array_foreach(servers, i, config) {
                if (r == 0)
                        r = add_server(a, arg_str(config, "name", ""), config, err);
        }
        json_object_foreach(servers, name, config) {
                if (r == 0)
                        r = add_server(a, name, config, err);
        }
        return r;
}

/* --- the conversation ----------------------------------------------------------------------------------- */

static int take_prompt(struct agent *a, struct error *err) {
        json_t *prompt = json_object_get(a->task, "user_prompt"),
               *blocks = json_object_get(a->task, "user_content");
        json_t *content = json_is_array(blocks) && json_array_size(blocks) > 0 ? blocks : prompt;

        if (!json_is_array(content) && !(json_is_string(content) && json_string_length(content) > 0))
                return error_set(err, -EINVAL, "the task has neither user_prompt nor user_content");
        return json_array_append_new(a->messages,
                                     json_pack("{s:s,s:O}", "role", "user", "content", content)) < 0
                       ? error_set(err, -ENOMEM, "out of memory")
                       : 0;
}

static int resume(struct agent *a, struct error *err) {
        const json_t *conversation = json_object_get(a->task, "resume_conversation");
        const char *id = json_string_value(json_object_get(a->task, "resume_pending_tool_use_id"));
        const char *answer = json_string_value(json_object_get(a->task, "resume_answer"));
        int r;

        json_decref(a->messages);
        a->messages = json_deep_copy(json_is_object(conversation) ? json_object_get(conversation, "messages")
                                                                  : conversation);
        if (!json_is_array(a->messages) || !id || !answer)
                return error_set(
                        err, -EINVAL,
                        "to resume, a task needs resume_conversation, resume_pending_tool_use_id and "
                        "resume_answer");
        r = session_answer(a->messages, id, answer);
        return r < 0 ? error_set(err, r == -ENOENT ? -EINVAL : r,
                                 "resume: no question waits for an answer under '%s'", ESC(id))
                     : 0;
}

static int take_session(struct agent *a, struct error *err) {
        AUTO_JSON json_t *replayed = a->messages;
        size_t dropped = 0;

        a->messages = replayed ? session_repair(replayed, &dropped) : json_array();
        if (!a->messages)
                return error_set(err, -ENOMEM, "out of memory");
        if (dropped > 0)
                log_warn("session replay: %zu messages were no part of a conversation or had no answer",
                         dropped);
        if (json_object_get(a->task, "resume_conversation"))
                return resume(a, err);
        return take_prompt(a, err);
}

int agent_prepare(struct agent *a, struct error *err) {
        const json_t *has_tools = json_object_get(a->task, "has_tools");
        json_t *schema = json_object_get(a->task, "output_schema"), *def;
        size_t i;
        int r;

        a->tools = json_array();
        a->routes = json_object();
        if (!a->tools || !a->routes)
                return error_set(err, -ENOMEM, "out of memory");
        a->env.output_schema = json_is_object(schema) ? schema : NULL;
        a->env.readonly = json_is_true(json_object_get(a->task, "readonly"));
        r = take_session(a, err);
        if (r == 0 && !json_is_false(has_tools)) {
                json_array_foreach(json_object_get(a->task, "tool_defs"), i, def) {
                        r = add_def(a, def, err);
                        if (r < 0)
                                return r;
                }
                r = start_servers(a, err);
        }
        if (r == 0 && a->env.output_schema && !advertised(a, "structured_output")) {
                AUTO_JSON json_t *own = tool_schema("structured_output");

                r = add_tool(a, "structured_output", json_string_value(json_object_get(own, "description")),
                             a->env.output_schema, -1, "structured_output", err);
        }
        return r;
}
