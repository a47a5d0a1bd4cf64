#include "runtime/agent/task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/placement.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum kind { TEXT, NUMBER, REAL, TRUTH, LIST, OBJECT, ANY, NAMES };

/* A key of a JSON object of ours, and what it must be. */
struct field {
        const char *name;
        enum kind kind;
        bool needed;
        bool ours; /* of the launcher: the runner does not get it */
};

/* Every key of the task envelope but tool_defs, which the launcher makes, and the launcher's own. */
static const struct field task_fields[] = {
        { "version", NUMBER, .needed = true, .ours = true },
        { "node_id", TEXT, .needed = true },
        { "iteration", NUMBER },
        { "system_prompt", TEXT },
        { "system_prompt_mode", TEXT },
        { "user_prompt", TEXT },
        { "user_content", ANY },
        { "allowed_tools", NAMES },
        { "readonly", TRUTH },
        { "capabilities", LIST },
        { "store_dir", TEXT },
        { "board_http_endpoint", TEXT },
        { "board_run_token", TEXT },
        { "ask_user_http_endpoint", TEXT },
        { "ask_user_run_token", TEXT },
        { "output_schema", OBJECT },
        { "model", TEXT },
        { "has_tools", TRUTH },
        { "tool_max_steps", NUMBER },
        { "max_tokens", NUMBER },
        { "work_dir", TEXT },
        { "base_dir", TEXT },
        { "repo_root", TEXT },
        { "reasoning_effort", TEXT },
        { "ultracode", TRUTH },
        { "secrets_hygiene", ANY },
        { "secret_files", ANY },
        { "cursor_fragments", ANY },
        { "skill_hints", ANY },
        { "preset_fragment", TEXT },
        { "compact_threshold_ratio", REAL },
        { "compact_preserve_recent", NUMBER },
        { "session_id", TEXT },
        { "fork_session", TRUTH },
        { "session_fingerprint", TEXT },
        { "provider_hint", TEXT },
        { "interaction_enabled", TRUTH },
        { "interaction", TEXT, .ours = true },
        { "resume_conversation", ANY },
        { "resume_pending_tool_use_id", TEXT },
        { "resume_answer", TEXT },
        { "memory", ANY },
        { "auto_memory_dir", TEXT },
        { "auto_memory_prompt", TEXT },
        { "compress_mode", TEXT },
        { "rewriters", ANY },
        { "max_retries", NUMBER },
        { "context_window", NUMBER },
        { "mcp_timeout_ms", NUMBER },
        { "permission", OBJECT, .ours = true },
        { "tool_policy", OBJECT, .ours = true },
        { "mcp_servers", OBJECT, .ours = true },
};
/* a server of a workflow: it runs inside */
static const struct field task_server_fields[] = {
        { "command", TEXT },   { "args", NAMES },  { "env", OBJECT },     { "url", TEXT },
        { "headers", OBJECT }, { "origin", TEXT }, { "transport", TEXT },
};
static const struct field operator_fields[] = {
        { "version", NUMBER, .needed = true },
        { "tools", OBJECT },
        { "mcp_servers", OBJECT },
        { "permission", OBJECT },
        { "config", OBJECT },
};
static const struct field operator_tool_fields[] = {
        { "description", TEXT, .needed = true },
        { "input_schema", OBJECT, .needed = true },
        { "command", NAMES, .needed = true },
        { "timeout_ms", NUMBER },
        { "env", OBJECT },
};
static const struct field operator_server_fields[] = {
        { "command", NAMES, .needed = true },
        { "env", OBJECT },
        { "timeout_ms", NUMBER },
};

static const char *const kinds[] = {
        [TEXT] = "a text",   [NUMBER] = "a number that is not negative",
        [REAL] = "a number", [TRUTH] = "true or false",
        [LIST] = "a list",   [OBJECT] = "an object",
        [ANY] = "something", [NAMES] = "a list of texts",
};
static_assert(ARRAY_SIZE(kinds) == NAMES + 1, "kinds[] and enum differ");

static bool plain(const json_t *text) {
        return json_is_string(text) && strlen(json_string_value(text)) == json_string_length(text);
}

static bool names_fit(const json_t *list) {
        const json_t *name;
        size_t i;

        if (!json_is_array(list) || json_array_size(list) > TASK_TOOLS_MAX)
                return false;
        json_array_foreach(list, i, name) if (!plain(name)) return false;
        return true;
}

static bool is_kind(const json_t *value, enum kind kind) {
        switch (kind) {
        case TEXT:
                return plain(value);
        case NUMBER:
                return json_is_integer(value) && json_integer_value(value) >= 0;
        case REAL:
                return json_is_number(value);
        case TRUTH:
                return json_is_boolean(value);
        case LIST:
                return json_is_array(value);
        case OBJECT:
                return json_is_object(value);
        case NAMES:
                return names_fit(value);
        case ANY:
                return true;
        }
        return false;
}

static const struct field *field_find(const struct field *fields, size_t n, const char *name) {
        for (size_t i = 0; i < n; i++)
                if (strcmp(fields[i].name, name) == 0)
                        return &fields[i];
        return NULL;
}

/* Whether @object has the keys of @fields and no others. @what: names it in messages */
static int check(json_t *object, const struct field *fields, size_t n, const char *what, struct error *err) {
        const char *key;
        json_t *value;

        if (!json_is_object(object))
                return error_set(err, -EINVAL, "%s: want an object", what);
        json_object_foreach(object, key, value) {
                const struct field *field = field_find(fields, n, key);

                if (!field)
                        return error_set(err, -EINVAL, "%s: unknown key '%s'", what, ESC(key));
                if (!is_kind(value, field->kind))
                        return error_set(err, -EINVAL, "%s: %s: want %s", what, field->name,
                                         kinds[field->kind]);
        }
        for (size_t i = 0; i < n; i++)
                if (fields[i].needed && !json_object_get(object, fields[i].name))
                        return error_set(err, -EINVAL, "%s: %s is missing", what, fields[i].name);
        return 0;
}

/* A name that is part of a tool's: letters, digits, '-' and '_', no two '_' in a row. */
static bool name_fits(const char *name) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
        const size_t len = strlen(name);

        return len > 0 && len <= TASK_NAME_MAX && strspn(name, letters) == len && !strstr(name, "__") &&
               name[0] != '_' && name[len - 1] != '_';
}

/* Texts only, none that cannot stand in an environment or a header. */
static int check_texts(json_t *texts, const char *what, struct error *err) {
        const char *key;
        json_t *value;

        json_object_foreach(texts, key,
                            value) if (!plain(value) || !*key ||
                                       strchr(key, '=')) return error_set(err, -EINVAL,
                                                                          "%s: '%s': want NAME and a text",
                                                                          what, ESC(key));
        return 0;
}

/* The members of @object, each with the keys of @fields. */
static int check_each(json_t *object, const struct field *fields, size_t n, const char *what,
                      struct error *err) {
        const char *name;
        json_t *item;
        char text[192];
        int r = 0;

        if (json_object_size(object) > TASK_TOOLS_MAX)
                return error_set(err, -EINVAL, "%s: more than %d", what, TASK_TOOLS_MAX);
        json_object_foreach(object, name, item) {
                (void) snprintf(text, sizeof(text), "%s: '%s'", what, ESC(name));
                if (!name_fits(name))
                        return error_set(err, -EINVAL, "%s: want letters, digits, '-' and single '_' inside",
                                         text);
                r = check(item, fields, n, text, err);
                if (r == 0)
                        r = check_texts(json_object_get(item, "env"), text, err);
                if (r == 0)
                        r = check_texts(json_object_get(item, "headers"), text, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int parse(const char *text, size_t len, const char *what, json_t **ret, struct error *err) {
        json_error_t problem;

        *ret = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
        if (*ret)
                return 0;
        return error_set(err, -EINVAL, "%s: line %d: %s", what, problem.line, ESC(problem.text));
}

static int check_version(const json_t *object, const char *what, struct error *err) {
        return json_integer_value(json_object_get(object, "version")) == 1
                       ? 0
                       : error_set(err, -EINVAL, "%s: version: want 1", what);
}

/* A server says where it is in one way. Its origin is what the launcher says, never what it says itself. */
static int check_servers(json_t *servers, struct error *err) {
        const char *name;
        json_t *server;

        json_object_foreach(servers, name, server) {
                const char *origin = json_string_value(json_object_get(server, "origin"));
                const bool command = json_object_get(server, "command") != NULL;

                if (command == (json_object_get(server, "url") != NULL))
                        return error_set(err, -EINVAL, "task: mcp_servers: '%s': want command or url",
                                         ESC(name));
                if (origin && strcmp(origin, "project") != 0 && strcmp(origin, "workflow") != 0)
                        return error_set(
                                err, -EINVAL,
                                "task: mcp_servers: '%s': origin '%s': a task has servers of a project or "
                                "workflow; the operator's stand in --operator",
                                ESC(name), ESC(origin));
        }
        return 0;
}

static int check_interaction(const json_t *task, struct error *err) {
        const char *how = json_string_value(json_object_get(task, "interaction"));

        if (!how || strcmp(how, "sync") == 0)
                return 0;
        if (strcmp(how, "async") == 0)
                return error_set(
                        err, -ENOTSUP,
                        "task: interaction: async is not possible for a node in a sandbox: use sync, and "
                        "the tools ask_user_async and await_answers");
        return error_set(err, -EINVAL, "task: interaction: want sync or async");
}

/* Takes what is the launcher's out of @data. */
static void split(json_t *data, struct task *ret) {
        ret->permission = json_incref(json_object_get(data, "permission"));
        ret->tool_policy = json_incref(json_object_get(data, "tool_policy"));
        ret->servers = json_incref(json_object_get(data, "mcp_servers"));
        for (size_t i = 0; i < ARRAY_SIZE(task_fields); i++)
                if (task_fields[i].ours)
                        (void) json_object_del(data, task_fields[i].name);
        ret->data = json_incref(data);
        ret->allowed = json_object_get(data, "allowed_tools");
}

int task_read(const char *text, size_t len, struct task *ret, struct error *err) {
        AUTO_JSON json_t *data = NULL;
        json_t *servers;
        int r;

        r = parse(text, len, "task", &data, err);
        if (r == 0)
                r = check(data, task_fields, ARRAY_SIZE(task_fields), "task", err);
        if (r == 0)
                r = check_version(data, "task", err);
        if (r == 0)
                r = check_interaction(data, err);
        servers = json_object_get(data, "mcp_servers");
        if (r == 0 && servers)
                r = check_each(servers, task_server_fields, ARRAY_SIZE(task_server_fields),
                               "task: mcp_servers", err);
        if (r == 0 && servers)
                r = check_servers(servers, err);
        if (r == 0)
                split(data, ret);
        return r;
}

int task_resume(struct task *task, const json_t *result, const char *answer, struct error *err) {
        json_t *conversation = json_object_get(result, "pending_conversation");
        json_t *id = json_object_get(result, "pending_tool_use_id");

        if (!conversation || !json_is_string(id))
                return error_set(
                        err, -EINVAL,
                        "it has no pending_conversation and pending_tool_use_id: want what a launch that "
                        "ended with a question wrote");
        if (!answer)
                return error_set(err, -EINVAL, "the question has no answer: add --answer TEXT");
        if (json_object_set(task->data, "resume_conversation", conversation) < 0 ||
            json_object_set(task->data, "resume_pending_tool_use_id", id) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (json_object_set_new(task->data, "resume_answer", json_string(answer)) < 0)
                return error_set(err, -EINVAL, "the answer is not UTF-8");
        return 0;
}

void task_deinit(struct task *task) {
        const int saved = errno;

        json_decref(task->data);
        json_decref(task->permission);
        json_decref(task->tool_policy);
        json_decref(task->servers);
        *task = (struct task){ 0 };
        errno = saved;
}

/* A tool of the operator's takes the place of one of the launcher, or has a name of its own, which is
 * advertised as mcp__tools__NAME: what nobody classified is never launcher-placed under a bare name. */
static int check_operator_tools(json_t *tools, struct error *err) {
        const char *name, *reason = NULL;
        json_t *tool;

        json_object_foreach(tools, name, tool) {
                const enum placement placement = placement_of(name, &reason);

                if (placement_is_mcp(name) || (placement_has_row(name) && placement != PLACEMENT_LAUNCHER))
                        return error_set(
                                err, -EINVAL,
                                "operator: tools: '%s' cannot be a tool of the launcher, because it %s",
                                ESC(name), reason);
                if (json_array_size(json_object_get(tool, "command")) == 0)
                        return error_set(err, -EINVAL, "operator: tools: '%s': command: want a program",
                                         ESC(name));
        }
        return 0;
}

/* The launcher has no client of HTTP: it is a static program without TLS (docs/adr/045). */
static int check_operator_servers(json_t *servers, struct error *err) {
        const char *name;
        json_t *server;

        json_object_foreach(servers, name, server) {
                if (json_object_get(server, "url"))
                        return error_set(
                                err, -ENOTSUP,
                                "operator: mcp_servers: '%s': url: the launcher speaks to servers over "
                                "standard input and output only: name a program that passes it on as "
                                "command, or have the task name the server, which is then asked from inside",
                                ESC(name));
        }
        return 0;
}

int operator_read(const char *text, size_t len, struct operator* ret, struct error *err) {
        AUTO_JSON json_t *data = NULL;
        json_t *tools, *servers;
        int r = 0;

        if (text)
                r = parse(text, len, "operator", &data, err);
        if (r == 0 && data)
                r = check(data, operator_fields, ARRAY_SIZE(operator_fields), "operator", err);
        if (r == 0 && data)
                r = check_version(data, "operator", err);
        tools = json_object_get(data, "tools");
        servers = json_object_get(data, "mcp_servers");
        if (r == 0 && tools)
                r = check_each(tools, operator_tool_fields, ARRAY_SIZE(operator_tool_fields),
                               "operator: tools", err);
        if (r == 0 && tools)
                r = check_operator_tools(tools, err);
        if (r == 0 && servers)
                r = check_operator_servers(servers, err);
        if (r == 0 && servers)
                r = check_each(servers, operator_server_fields, ARRAY_SIZE(operator_server_fields),
                               "operator: mcp_servers", err);
        if (r == 0 && json_object_get(servers, OPERATOR_TOOLS_SERVER))
                r = error_set(err, -EINVAL,
                              "operator: mcp_servers: '%s' is the name of the operator's own tools",
                              OPERATOR_TOOLS_SERVER);
        if (r < 0)
                return r;
        ret->tools = json_incref(tools);
        ret->servers = json_incref(servers);
        ret->permission = json_incref(json_object_get(data, "permission"));
        ret->config = json_incref(json_object_get(data, "config"));
        return 0;
}

void operator_deinit(struct operator* op) {
        const int saved = errno;

        json_decref(op->tools);
        json_decref(op->servers);
        json_decref(op->permission);
        json_decref(op->config);
        *op = (struct operator){ 0 };
        errno = saved;
}

const char **words_of(const json_t *list) {
        const size_t n = json_array_size(list);
        const char **words = calloc(n + 1, sizeof(*words));

        for (size_t i = 0; words && i < n; i++)
                words[i] = json_string_value(json_array_get(list, i));
        return words;
}
