/*
 * What a node is offered: the runner's own tools that it may use, those of the launcher, programs and servers
 * of the operator. A name that cannot be offered refuses the node when it is executed, so that whoever called
 * can take another way; it is never left out in silence.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/launch/parts.h"
#include "runtime/agent/placement.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { NAME_MAX_BYTES = 512 };

static const char *const caller_variables[] = { "PATH", "HOME", "LANG", "USER", "LOGNAME", "TMPDIR" };

enum source { FROM_NOWHERE, FROM_INSIDE, FROM_BUILTIN, FROM_PROGRAM, FROM_SERVER, FROM_WORKFLOW };

/** struct wish - a name of allowed_tools, and who has it; borrowed */
struct wish {
        enum source source;
        const char *server;  /* FROM_SERVER, FROM_WORKFLOW */
        const char *pattern; /* of the tools there, or of the operator's own */
};

/* What is left of @name behind mcp.SERVER., mcp_SERVER_ or mcp__SERVER__; NULL: it is not of @server. */
static const char *behind(const char *name, const char *server) {
        static const char *const forms[] = { "mcp__%s__", "mcp.%s.", "mcp_%s_" };
        char head[NAME_MAX_BYTES];

        for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
                const char *const separator = i == 0 ? "__" : i == 1 ? "." : "_";
                const int n = snprintf(head, sizeof(head), "mcp%s%s%s", separator, server, separator);

                if (n > 0 && (size_t) n < sizeof(head) && strncmp(name, head, (size_t) n) == 0 && name[n])
                        return name + n;
        }
        return NULL;
}

static bool find_server(const char *name, json_t *servers, enum source source, struct wish *ret) {
        const char *server;
        json_t *value;

        json_object_foreach(servers, server, value) {
                const char *rest = behind(name, server);

                if (rest) {
                        *ret = (struct wish){ source, server, rest };
                        return true;
                }
        }
        return false;
}

static int unsupported(const char *name, const char *why, struct error *err) {
        return error_set(err, -ENOTSUP, "tool '%s' %s", ESC(name), why);
}

static int judge_row(const char *name, const struct operator* op, struct wish *ret, struct error *err) {
        char text[256];
        const char *why = NULL;
        const enum placement placement = placement_of(name, &why);

        if (placement == PLACEMENT_REFUSED) {
                (void) snprintf(text, sizeof(text), "is refused in a sandbox, because it %s", why);
                return unsupported(name, text, err);
        }
        *ret = (struct wish){ .source = FROM_INSIDE };
        if (placement == PLACEMENT_SANDBOX)
                return 0;
        /* a program that answers questions stands behind the launcher's own ask_user */
        if (json_object_get(op->tools, name) && strcmp(name, "ask_user") != 0)
                *ret = (struct wish){ FROM_PROGRAM, NULL, name };
        else if (launch_tool_is_quiet(name))
                *ret = (struct wish){ .source = FROM_BUILTIN };
        else
                return unsupported(
                        name, "is the launcher's, and no program of the operator serves it: see --operator",
                        err);
        return 0;
}

static int judge(const char *name, const struct task *task, const struct operator* op, struct wish *ret,
                 struct error *err) {
        const char *own = behind(name, OPERATOR_TOOLS_SERVER);

        if (placement_has_row(name))
                return judge_row(name, op, ret, err);
        if (own && op->tools) {
                *ret = (struct wish){ FROM_PROGRAM, NULL, own };
                return 0;
        }
        /* the operator's server first: a task cannot put one of its own in its place */
        if (find_server(name, op->servers, FROM_SERVER, ret) ||
            find_server(name, task->servers, FROM_WORKFLOW, ret))
                return 0;
        return unsupported(name,
                           placement_is_mcp(name) ? "is of a server that nobody has configured"
                                                  : "is refused, because it is no tool that is known",
                           err);
}

int launch_check(const struct task *task, const struct operator* op, struct error *err) {
        struct wish wish;
        json_t *name;
        size_t i;

        json_array_foreach(task->allowed, i, name) {
                const int r = judge(json_string_value(name), task, op, &wish, err);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- the environment of programs ---- */

char **offer_env_free(char **env) {
        for (size_t i = 0; env && env[i]; i++)
                free(env[i]);
        free((void *) env);
        return NULL;
}

char **offer_env(const struct ctx *ctx, json_t *more) {
        char **env = calloc(ARRAY_SIZE(caller_variables) + json_object_size(more) + 1, sizeof(*env));
        size_t n = 0;
        bool ok = env != NULL;
        const char *name;
        json_t *value;

        for (size_t i = 0; ok && i < ARRAY_SIZE(caller_variables); i++) {
                const char *own = ctx_getenv(ctx, caller_variables[i]);

                if (!own || json_object_get(more, caller_variables[i]))
                        continue;
                ok = asprintf(&env[n], "%s=%s", caller_variables[i], own) >= 0;
                n += ok;
        }
        json_object_foreach(more, name, value) {
                if (!ok)
                        break;
                ok = asprintf(&env[n], "%s=%s", name, json_string_value(value)) >= 0;
                n += ok;
        }
        if (env)
                env[n] = NULL;
        return ok ? env : offer_env_free(env);
}

/* ---- advertising ---- */

static int offer_inside(struct launch *l, const char *name, struct error *err) {
        const json_t *own;
        bool known = l->protocol == PROTOCOL_FIRST; /* which does not say what it has */
        struct tool *tool;
        size_t i;

        json_array_foreach(l->hello.tools, i, own) known = known || strcmp(json_string_value(own), name) == 0;
        if (!known)
                return unsupported(name, "is not in the runner of this run", err);
        return gate_add(&l->gate, TOOL_INSIDE, json_pack("{s:s}", "name", name), NULL, NULL, &tool, err);
}

static int offer_program(struct launch *l, const char *name, json_t *item, struct error *err) {
        const bool row = placement_has_row(name);
        const char *path = json_string_value(json_array_get(json_object_get(item, "command"), 0));
        char full[NAME_MAX_BYTES];
        struct tool *tool;
        int r;

        r = program_check(path, l->order->writable, err);
        if (r < 0)
                return error_wrap(err, r, "tool '%s'", ESC(name));
        (void) snprintf(full, sizeof(full), "%s%s", row ? "" : "mcp__" OPERATOR_TOOLS_SERVER "__", name);
        return gate_add(&l->gate, TOOL_PROGRAM,
                        json_pack("{s:s,s:O,s:O}", "name", full, "description",
                                  json_object_get(item, "description"), "input_schema",
                                  json_object_get(item, "input_schema")),
                        row ? NULL : OPERATOR_TOOLS_SERVER, name, &tool, err);
}

/* The operator's tools that @pattern names: an exact name or a glob. */
static int offer_programs(struct launch *l, const char *pattern, struct error *err) {
        const char *name;
        json_t *item;
        size_t n = 0;

        json_object_foreach(l->order->op->tools, name, item) {
                char full[NAME_MAX_BYTES];
                int r;

                if (!permission_glob(pattern, name))
                        continue;
                n++;
                (void) snprintf(full, sizeof(full), "mcp__" OPERATOR_TOOLS_SERVER "__%s", name);
                if (gate_find(&l->gate, name) || gate_find(&l->gate, full))
                        continue;
                r = offer_program(l, name, item, err);
                if (r < 0)
                        return r;
        }
        return n > 0 ? 0 : unsupported(pattern, "is no tool of the operator", err);
}

static int start_server(struct launch *l, const char *name, struct mcp_server **ret, struct error *err) {
        json_t *item = json_object_get(l->order->op->servers, name);
        AUTO_FREE const char **argv = words_of(json_object_get(item, "command"));
        char **env = offer_env(l->order->ctx, json_object_get(item, "env"));
        const json_int_t ms = json_integer_value(json_object_get(item, "timeout_ms"));
        struct mcp_server *server = &l->servers[l->n_servers];
        struct program program = { .argv = argv, .env = (const char *const *) env };
        int r = argv && env ? 0 : error_set(err, -ENOMEM, "out of memory");

        *server = (struct mcp_server) MCP_SERVER_INIT;
        server->name = name;
        server->timeout_ms = ms > 0 && ms < PROGRAM_TIMEOUT_MAX_MS ? (unsigned int) ms : MCP_TIMEOUT_MS;
        server->cancel_fds[0] = l->command.sock;
        server->cancel_fds[1] = l->order->signal_fd;
        l->n_servers++;
        if (r == 0)
                r = argv[0] ? program_check(argv[0], l->order->writable, err)
                            : error_set(err, -EINVAL, "no program");
        if (r == 0)
                r = mcp_server_start(server, MCP_ORIGIN_PLUGIN, &program, err);
        env = offer_env_free(env);
        if (r < 0)
                return error_wrap(err, r, "server '%s'", ESC(name));
        *ret = server;
        return 0;
}

static int offer_remote(struct launch *l, struct mcp_server *server, json_t *item, struct error *err) {
        const char *name = json_string_value(json_object_get(item, "name"));
        json_t *schema = json_object_get(item, "inputSchema");
        json_t *description = json_object_get(item, "description");
        char full[NAME_MAX_BYTES];
        struct tool *tool;
        int r;

        (void) snprintf(full, sizeof(full), "mcp__%s__%s", server->name, name);
        if (gate_find(&l->gate, full))
                return 0;
        r = gate_add(&l->gate, TOOL_SERVER,
                     json_pack("{s:s,s:O*,s:O*}", "name", full, "description", description, "input_schema",
                               schema),
                     server->name, name, &tool, err);
        if (r == 0 && tool)
                tool->server = (size_t) (server - l->servers);
        return r;
}

static int offer_server(struct launch *l, const struct wish *wish, struct error *err) {
        struct mcp_server *server = NULL;
        json_t *item;
        size_t i, n = 0;
        int r = 0;

        for (size_t k = 0; k < l->n_servers; k++)
                if (strcmp(l->servers[k].name, wish->server) == 0)
                        server = &l->servers[k];
        if (!server)
                r = start_server(l, wish->server, &server, err);
        if (r < 0)
                return r;
        json_array_foreach(server->tools, i, item) {
                const char *name = json_string_value(json_object_get(item, "name"));

                if (!name || !permission_glob(wish->pattern, name))
                        continue;
                n++;
                r = offer_remote(l, server, item, err);
                if (r < 0)
                        return r;
        }
        return n > 0 || strcmp(wish->pattern, "*") == 0
                       ? 0
                       : unsupported(wish->pattern, "is not among the tools of its server", err);
}

static int offer(struct launch *l, const char *name, struct error *err) {
        struct tool *tool;
        struct wish wish;
        int r;

        r = judge(name, l->order->task, l->order->op, &wish, err);
        if (r < 0)
                return r;
        if ((wish.source == FROM_INSIDE || wish.source == FROM_BUILTIN) && gate_find(&l->gate, name))
                return 0; /* named twice */
        switch (wish.source) {
        case FROM_INSIDE:
                return offer_inside(l, name, err);
        case FROM_BUILTIN:
                return gate_add(&l->gate, TOOL_BUILTIN, launch_tool_def(name), NULL, NULL, &tool, err);
        case FROM_PROGRAM:
                return offer_programs(l, wish.pattern, err);
        case FROM_SERVER:
                return offer_server(l, &wish, err);
        case FROM_WORKFLOW:
                return hello_has(&l->hello, "mcp") ? 0
                                                   : unsupported(name,
                                                                 "is of a server of the workflow, which may "
                                                                 "run inside the sandbox only, and "
                                                                 "the runner of this run cannot start one",
                                                                 err);
        case FROM_NOWHERE:
                break;
        }
        return unsupported(name, "is nobody's", err);
}

/* ---- servers of the workflow ---- */

static int add_inside(json_t *list, const char *name, json_t *item) {
        AUTO_JSON json_t *server = json_copy(item);
        const char *origin = json_string_value(json_object_get(item, "origin"));
        const char *transport = json_object_get(item, "url") ? "http" : "stdio";

        if (!server || json_object_set_new(server, "name", json_string(name)) < 0 ||
            json_object_set_new(server, "origin", json_string(origin ? origin : "workflow")) < 0 ||
            json_object_set_new(server, "transport", json_string(transport)) < 0)
                return -ENOMEM;
        return json_array_append(list, server) < 0 ? -ENOMEM : 0;
}

static void say_degraded(struct launch *l, const char *name, json_t *item, const char *reason) {
        static const char source[] = "declared", workflow[] = "workflow";
        const char *origin = json_string_value(json_object_get(item, "origin"));

        launch_event(l, "mcp_server_degraded",
                     json_pack("{s:s,s:s,s:s,s:s}", "server", name, "origin", origin ? origin : workflow,
                               "source", source, "reason", reason));
}

/* They run inside, or, where the runner cannot, not at all: offer() refuses a node that names one. */
static int offer_workflow(struct launch *l, json_t **ret, struct error *err) {
        AUTO_JSON json_t *list = json_array();
        const char *name;
        json_t *item;

        json_object_foreach(l->order->task->servers, name, item) {
                if (json_object_get(l->order->op->servers, name))
                        say_degraded(l, name, item, "the operator has a server of this name");
                else if (!hello_has(&l->hello, "mcp"))
                        say_degraded(l, name, item, "the runner cannot start servers inside the sandbox");
                else if (!list || add_inside(list, name, item) < 0)
                        return error_set(err, -ENOMEM, "out of memory");
        }
        if (json_array_size(list) > 0)
                *ret = TAKE_PTR(list);
        return 0;
}

static int make_policies(struct launch *l, struct error *err) {
        int r;

        r = permission_new(l->order->op->permission, &l->gate.policies[0], err);
        if (r < 0)
                return error_wrap(err, r, "operator");
        r = permission_new(l->order->task->permission, &l->gate.policies[1], err);
        if (r == 0 && permission_is_closed(l->gate.policies[0]) && permission_is_closed(l->gate.policies[1]))
                r = error_set(err, -EINVAL,
                              "permission: it allows, and so does the operator's: only one of them may, "
                              "the other denies");
        if (r == 0)
                r = permission_new(l->order->task->tool_policy, &l->gate.offer, err);
        return r < 0 ? error_wrap(err, r, "task") : 0;
}

int offer_make(struct launch *l, json_t **ret_servers, struct error *err) {
        const json_t *names = l->order->task->allowed ? l->order->task->allowed : l->hello.tools;
        json_t *name;
        size_t i;
        int r;

        l->state.config = l->order->op->config;
        l->servers = calloc(json_object_size(l->order->op->servers) + 1, sizeof(*l->servers));
        r = l->servers ? make_policies(l, err) : error_set(err, -ENOMEM, "out of memory");
        json_array_foreach(names, i, name) {
                const char *text = json_string_value(name);

                /* of a runner's own list only what belongs inside counts */
                if (r == 0 && (l->order->task->allowed || placement_of(text, NULL) == PLACEMENT_SANDBOX))
                        r = offer(l, text, err);
        }
        return r < 0 ? r : offer_workflow(l, ret_servers, err);
}
