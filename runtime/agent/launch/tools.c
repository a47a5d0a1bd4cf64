/*
 * DOC: theory of operation
 *
 * These tools work on what the launcher remembers of one node. Their input comes from inside the sandbox: it
 * is kept and given back, never executed, never a path. Their number and size have ceilings.
 */
#include "runtime/agent/launch/tools.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/placement.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { TASK_BYTES_MAX = 64 << 10, SEARCH_MAX = 20 };

/** struct call - one that is being carried out; borrowed */
struct call {
        struct launch_state *state;
        struct gate *gate;
        json_t *input;
        struct tool_answer *answer;
};

void launch_state_deinit(struct launch_state *state) {
        const int saved = errno;

        json_decref(state->todos);
        json_decref(state->tasks);
        json_decref(state->questions);
        *state = (struct launch_state){ 0 };
        errno = saved;
}

void tool_answer_deinit(struct tool_answer *answer) {
        const int saved = errno;

        buf_deinit(&answer->output);
        buf_deinit(&answer->error);
        json_decref(answer->ask_user);
        answer->ask_user = NULL;
        errno = saved;
}

void tool_fail(struct tool_answer *answer, const char *fmt, ...) {
        char text[ERROR_MSG_MAX];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        answer->error.len = 0;
        if (buf_str(&answer->error, *text ? text : "failed") < 0)
                answer->error = (struct buf){ 0 };
}

static void say(struct tool_answer *answer, const char *text) {
        if (buf_str(&answer->output, text) < 0)
                tool_fail(answer, "out of memory");
}

static void say_json(struct tool_answer *answer, const json_t *json) {
        AUTO_FREE char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

        if (text)
                say(answer, text);
        else
                tool_fail(answer, "out of memory");
}

/* A list of the state, which is made when it is first needed. */
static json_t *list_of(json_t **list) {
        if (!*list)
                *list = json_array();
        return *list;
}

static const char *text_of(const json_t *object, const char *key) {
        return json_string_value(json_object_get(object, key));
}

/* Whether @value is small enough to be kept. */
static bool keeps(struct call *c, const json_t *value) {
        AUTO_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

        if (text && strlen(text) <= TASK_BYTES_MAX)
                return true;
        tool_fail(c->answer, "longer than %d bytes", TASK_BYTES_MAX);
        return false;
}

/* ---- questions ---- */

static void call_ask_user(struct call *c) {
        json_t *options = json_object_get(c->input, "options");
        const json_t *free_text = json_object_get(c->input, "allow_free_text");
        json_t *question = json_object_get(c->input, "question");

        if (!json_is_string(question) || json_string_length(question) == 0) {
                tool_fail(c->answer, "ask_user: question: want a text");
                return;
        }
        if (!keeps(c, c->input))
                return;
        c->answer->ask_user = json_pack("{s:O,s:O*,s:b}", "question", question, "options", options,
                                        "allow_free_text", !free_text || json_is_true(free_text));
        if (!c->answer->ask_user)
                tool_fail(c->answer, "out of memory");
}

static void call_ask_user_async(struct call *c) {
        json_t *list = list_of(&c->state->questions), *question = json_object_get(c->input, "question");
        char id[32];

        if (!json_is_string(question) || json_string_length(question) == 0) {
                tool_fail(c->answer, "ask_user_async: question: want a text");
                return;
        }
        if (json_array_size(list) >= LAUNCH_ITEMS_MAX) {
                tool_fail(c->answer, "more than %d questions wait", LAUNCH_ITEMS_MAX);
                return;
        }
        if (!keeps(c, c->input))
                return;
        (void) snprintf(id, sizeof(id), "question-%zu", json_array_size(list) + 1);
        if (json_array_append_new(list, json_pack("{s:s,s:O}", "id", id, "question", question)) < 0)
                tool_fail(c->answer, "out of memory");
        else
                say(c->answer, id);
}

/* All that were put aside, as one question that the node pauses with. */
static void call_await_answers(struct call *c) {
        AUTO_BUF struct buf text = { 0 };
        const json_t *entry;
        size_t i;
        int r = 0;

        if (json_array_size(c->state->questions) == 0) {
                say(c->answer, "no question waits");
                return;
        }
        json_array_foreach(c->state->questions, i, entry) if (r == 0) r = buf_fmt(
                &text, "%s%s: %s", i > 0 ? "\n" : "", text_of(entry, "id"), text_of(entry, "question"));
        if (r == 0)
                c->answer->ask_user = json_pack("{s:s,s:O,s:b}", "question", buf_cstr(&text), "questions",
                                                c->state->questions, "allow_free_text", 1);
        if (!c->answer->ask_user) {
                tool_fail(c->answer, "out of memory");
                return;
        }
        json_decref(c->state->questions);
        c->state->questions = NULL;
}

/* ---- tasks and the list ---- */

static json_t *task_find(struct call *c) {
        const char *id = text_of(c->input, "task_id");
        json_t *task;
        size_t i;

        json_array_foreach(c->state->tasks, i,
                           task) if (id && strcmp(id, text_of(task, "task_id")) == 0) return task;
        tool_fail(c->answer, "task_id: there is no task '%s'", id ? ESC(id) : "");
        return NULL;
}

static void call_task_create(struct call *c) {
        json_t *list = list_of(&c->state->tasks);
        AUTO_JSON json_t *task = NULL;
        char id[32];

        if (!text_of(c->input, "subject")) {
                tool_fail(c->answer, "task_create: subject: want a text");
                return;
        }
        if (json_array_size(list) >= LAUNCH_ITEMS_MAX) {
                tool_fail(c->answer, "more than %d tasks", LAUNCH_ITEMS_MAX);
                return;
        }
        if (!keeps(c, c->input))
                return;
        (void) snprintf(id, sizeof(id), "task-%" JSON_INTEGER_FORMAT, ++c->state->last_task);
        task = json_pack("{s:s,s:s,s:O,s:O*}", "task_id", id, "status", "pending", "subject",
                         json_object_get(c->input, "subject"), "description",
                         json_object_get(c->input, "description"));
        if (!task || json_array_append(list, task) < 0)
                tool_fail(c->answer, "out of memory");
        else
                say_json(c->answer, task);
}

static void call_task_get(struct call *c) {
        const json_t *task = task_find(c);

        if (task)
                say_json(c->answer, task);
}

static void call_task_list(struct call *c) {
        say_json(c->answer, list_of(&c->state->tasks));
}

static void call_task_output(struct call *c) {
        const json_t *task = task_find(c), *output = json_object_get(task, "output");

        if (task)
                say(c->answer, json_is_string(output) ? json_string_value(output) : "");
}

static bool is_status(const char *text) {
        static const char *const all[] = { "pending", "in_progress", "completed", "stopped" };

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                if (strcmp(text, all[i]) == 0)
                        return true;
        return false;
}

static void call_task_update(struct call *c) {
        static const char *const keys[] = { "status", "subject", "description", "output" };
        const char *status = text_of(c->input, "status");
        json_t *task = task_find(c);

        if (!task || !keeps(c, c->input))
                return;
        if (status && !is_status(status)) {
                tool_fail(c->answer, "status: want pending, in_progress, completed or stopped");
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
                json_t *value = json_object_get(c->input, keys[i]);

                if (json_is_string(value) && json_object_set(task, keys[i], value) < 0) {
                        tool_fail(c->answer, "out of memory");
                        return;
                }
        }
        say_json(c->answer, task);
}

static void call_task_stop(struct call *c) {
        json_t *task = task_find(c);

        if (task && json_object_set_new(task, "status", json_string("stopped")) < 0)
                tool_fail(c->answer, "out of memory");
        else if (task)
                say_json(c->answer, task);
}

static void call_todo_write(struct call *c) {
        json_t *todos = json_object_get(c->input, "todos");

        if (!json_is_array(todos) || json_array_size(todos) > LAUNCH_ITEMS_MAX) {
                tool_fail(c->answer, "todo_write: todos: want a list of at most %d", LAUNCH_ITEMS_MAX);
                return;
        }
        if (!keeps(c, todos))
                return;
        json_decref(c->state->todos);
        c->state->todos = json_incref(todos);
        say(c->answer, "the list is replaced");
}

/* ---- plan mode, search, settings ---- */

static void call_enter_plan_mode(struct call *c) {
        c->gate->planning = true;
        say(c->answer,
            "planning: tools of the launcher that change something are refused until exit_plan_mode");
}

static void call_exit_plan_mode(struct call *c) {
        c->gate->planning = false;
        say(c->answer, "the plan is done");
}

static void call_config(struct call *c) {
        const char *key = text_of(c->input, "key");
        const json_t *value = key ? json_object_get(c->state->config, key) : c->state->config;

        if (key && !value)
                tool_fail(c->answer, "config: there is no setting '%s'", ESC(key));
        else if (value)
                say_json(c->answer, value);
        else
                say(c->answer, "{}");
}

static bool contains(const json_t *def, const char *words) {
        const char *name = text_of(def, "name"), *description = text_of(def, "description");

        return strcasestr(name, words) || (description && strcasestr(description, words));
}

static void call_tool_search(struct call *c) {
        AUTO_JSON json_t *found = json_array();
        const char *query = text_of(c->input, "query");

        if (!query) {
                tool_fail(c->answer, "tool_search: query: want a text");
                return;
        }
        for (size_t i = 0; i < c->gate->n && json_array_size(found) < SEARCH_MAX; i++)
                if (contains(c->gate->tools[i].def, query) &&
                    json_array_append(found, c->gate->tools[i].def) < 0)
                        tool_fail(c->answer, "out of memory");
        say_json(c->answer, found);
}

static void call_mcp_auth(struct call *c) {
        say(c->answer, "no server of the launcher asks for a login");
}

/* ---- the table ---- */

#define ID                                                                                                   \
        "{\"type\":\"object\",\"properties\":{\"task_id\":{\"type\":\"string\"}},\"required\":[\"task_id\"]" \
        "}"
#define NOTHING "{\"type\":\"object\",\"properties\":{}}"
#define QUESTION                                                                                           \
        "{\"type\":\"object\",\"properties\":{\"question\":{\"type\":\"string\"},\"options\":{\"type\":"   \
        "\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"label\":{\"type\":\"string\"},"        \
        "\"description\":{\"type\":\"string\"}},\"required\":[\"label\"]}},\"allow_free_text\":{\"type\":" \
        "\"boolean\"}},\"required\":[\"question\"]}"

static const struct builtin {
        const char *name;
        void (*call)(struct call *c); /* NULL: needs servers (serve.c) */
        const char *description, *schema;
} builtins[] = {
        { LAUNCHER_TOOL(ask_user), call_ask_user,
          "Ask the operator a question; the work pauses until it is answered.", QUESTION },
        { LAUNCHER_TOOL(ask_user_async), call_ask_user_async,
          "Put a question to the operator aside; await_answers asks all of them.", QUESTION },
        { LAUNCHER_TOOL(await_answers), call_await_answers,
          "Pause until the operator has answered the questions of ask_user_async.", NOTHING },
        { LAUNCHER_TOOL(list_mcp_resources), NULL, "List the resources of the operator's MCP servers.",
          "{\"type\":\"object\",\"properties\":{\"server\":{\"type\":\"string\"}}}" },
        { LAUNCHER_TOOL(read_mcp_resource), NULL, "Read a resource of one of the operator's MCP servers.",
          "{\"type\":\"object\",\"properties\":{\"server\":{\"type\":\"string\"},\"uri\":{\"type\":"
          "\"string\"}},"
          "\"required\":[\"server\",\"uri\"]}" },
        { LAUNCHER_TOOL(mcp_auth), call_mcp_auth, "Log in at one of the operator's MCP servers.", NOTHING },
        { LAUNCHER_TOOL(task_create), call_task_create, "Note a task.",
          "{\"type\":\"object\",\"properties\":{\"subject\":{\"type\":\"string\"},\"description\":{\"type\":"
          "\"string\"}},\"required\":[\"subject\"]}" },
        { LAUNCHER_TOOL(task_get), call_task_get, "Show a task.", ID },
        { LAUNCHER_TOOL(task_list), call_task_list, "Show all tasks.", NOTHING },
        { LAUNCHER_TOOL(task_output), call_task_output, "Show what a task came to.", ID },
        { LAUNCHER_TOOL(task_stop), call_task_stop, "Mark a task as stopped.", ID },
        { LAUNCHER_TOOL(task_update), call_task_update, "Change a task.",
          "{\"type\":\"object\",\"properties\":{\"task_id\":{\"type\":\"string\"},\"status\":{\"type\":"
          "\"string\","
          "\"enum\":[\"pending\",\"in_progress\",\"completed\",\"stopped\"]},\"subject\":{\"type\":"
          "\"string\"},"
          "\"description\":{\"type\":\"string\"},\"output\":{\"type\":\"string\"}},\"required\":[\"task_id\"]"
          "}" },
        { LAUNCHER_TOOL(todo_write), call_todo_write, "Replace the list of things to do.",
          "{\"type\":\"object\",\"properties\":{\"todos\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}"
          "}},"
          "\"required\":[\"todos\"]}" },
        { LAUNCHER_TOOL(enter_plan_mode), call_enter_plan_mode,
          "Plan first: until exit_plan_mode the launcher carries out nothing that changes something.",
          NOTHING },
        { LAUNCHER_TOOL(exit_plan_mode), call_exit_plan_mode, "The plan is done.", NOTHING },
        { LAUNCHER_TOOL(config), call_config, "Show the operator's settings, or one of them.",
          "{\"type\":\"object\",\"properties\":{\"key\":{\"type\":\"string\"}}}" },
        { LAUNCHER_TOOL(tool_search), call_tool_search, "Find tools by a word of their name or description.",
          "{\"type\":\"object\",\"properties\":{\"query\":{\"type\":\"string\"}},\"required\":[\"query\"]}" },
};

static const struct builtin *find(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(builtins); i++)
                if (strcmp(name, builtins[i].name) == 0)
                        return &builtins[i];
        return NULL;
}

const char *launch_tool_listed(size_t i) {
        return i < ARRAY_SIZE(builtins) ? builtins[i].name : NULL;
}

bool launch_tool_is_quiet(const char *name) {
        return find(name) != NULL;
}

json_t *launch_tool_def(const char *name) {
        const struct builtin *tool = find(name);

        return tool ? json_pack("{s:s,s:s,s:o}", "name", tool->name, "description", tool->description,
                                "input_schema", json_loads(tool->schema, 0, NULL))
                    : NULL;
}

void launch_tool_call(struct launch_state *state, struct gate *gate, const char *name, json_t *input,
                      struct tool_answer *answer) {
        const struct builtin *tool = find(name);
        struct call c = { .state = state, .gate = gate, .input = input, .answer = answer };

        if (tool && tool->call)
                tool->call(&c);
        else
                tool_fail(answer, "launcher: tool '%s' is not served", ESC(name));
}
