/* Tools that the model asks for: here, in servers beside us, and in the launcher */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/agent/placement.h"
#include "runtime/agent/runner/loop.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

static const uint64_t MS = 1000000;

/** struct tool_use - one call of a turn */
struct tool_use {
        const json_t *block, *input;  /* borrowed */
        const char *id, *name, *tool; /* borrowed; the name of the route, and of its tool in the server */
        int server;                   /* -1: none */
        char asked[WIRE_ID_SIZE];     /* id of the envelope; "": not asked of the launcher */
        bool questions;               /* it is an ask_user envelope */
        bool done;
        uint64_t start_ns;
        struct tool_result result;
};

static void told_start(struct agent *a, struct tool_use *u) {
        u->start_ns = clock_ns();
        wire_event(a->wire, "tool_started",
                   json_pack("{s:s,s:s,s:I}", "tool", u->name, "tool_use_id", u->id, "input_size",
                             (json_int_t) clamp_bytes(u->input)));
}

static void told_end(struct agent *a, const struct tool_use *u) {
        wire_event(a->wire, "tool_called",
                   json_pack("{s:s,s:s,s:I,s:I,s:I,s:b}", "tool", u->name, "tool_use_id", u->id,
                             "duration_ms", (json_int_t) ((clock_ns() - u->start_ns) / MS), "input_size",
                             (json_int_t) clamp_bytes(u->input), "output_size",
                             (json_int_t) clamp_bytes(u->result.content), "is_error", u->result.error));
}

/* --- before it runs ------------------------------------------------------------------------------------- */

/* Whether it may run, as far as this side knows. Return: 1; 0 with an answer; -ENOMEM. */
static int admit(struct agent *a, struct tool_use *u, const json_t *invalid) {
        const json_t *route = json_object_get(a->routes, u->name), *text = json_object_get(invalid, u->id);
        const char *rule = "";
        char dotted[512] = "";
        struct identity identity;
        int r;

        if (!route) {
                r = tool_fail(&u->result, "there is no tool '%s'", ESC(u->name));
                return r < 0 ? r : 0;
        }
        u->name = json_string_value(json_object_get(route, "name"));
        u->tool = json_string_value(json_object_get(route, "tool"));
        u->server = (int) arg_int(route, "server", -1);
        if (u->server >= 0)
                (void) snprintf(dotted, sizeof(dotted), "mcp.%s.%s", mcp_name(a->servers[u->server]),
                                u->tool);
        identity = (struct identity){ { u->name, u->server >= 0 ? u->name : NULL,
                                        u->server >= 0 ? dotted : NULL } };
        if (text)
                r = tool_fail(&u->result, "the input was no JSON object: '%s'", json_string_value(text));
        else if (!permission_allows(a->policy, &identity, u->input, &rule))
                r = tool_fail(&u->result, "not permitted: %s", rule);
        else
                return 1;
        return r < 0 ? r : 0;
}

/* The server of ours that a call about resources names; -1: it is the launcher's. */
static int resource_server(const struct agent *a, const struct tool_use *u) {
        const char *server = arg_str(u->input, "server", "default");

        if (strcmp(u->name, "list_mcp_resources") != 0 && strcmp(u->name, "read_mcp_resource") != 0)
                return -1;
        for (size_t i = 0; i < a->n_servers; i++) {
                if (strcmp(mcp_name(a->servers[i]), server) == 0)
                        return (int) i;
        }
        return -1;
}

/* --- the launcher --------------------------------------------------------------------------------------- */

static int ask_launcher(struct agent *a, struct tool_use *u, struct error *err) {
        json_t *questions = json_object_get(u->input, "questions");
        struct error why = { 0 };
        int r;

        u->questions = strcmp(u->name, "ask_user") == 0 && json_is_array(questions) &&
                       json_is_true(json_object_get(a->task, "interaction_enabled"));
        r = wire_ask(a->wire, u->questions ? ENVELOPE_ASK_USER : ENVELOPE_TOOL_CALL,
                     u->questions ? json_pack("{s:s,s:O}", "reason", arg_str(u->input, "reason", ""),
                                              "questions", questions)
                                  : json_pack("{s:s,s:O}", "name", u->name, "input", u->input),
                     u->asked, &why);
        if (r == 0)
                return 0;
        u->asked[0] = '\0';
        u->done = true;
        if (r == -EMSGSIZE || r == -EAGAIN || r == -ENOMEM)
                return tool_fail(&u->result, "%s", why.msg);
        return error_set(err, -EPIPE, "%s", why.msg);
}

/* A question that the operator answers later: the task ends here and goes on with his answer. */
static int pause_at(struct agent *a, const struct tool_use *u, json_t *question) {
        if (!a->pending[0]) {
                (void) snprintf(a->pending, sizeof(a->pending), "%s", u->id);
                a->question = json_incref(question);
        }
        return 0;
}

static int take_answers(struct tool_use *u, json_t *answers) {
        const char *error = json_string_value(json_object_get(answers, "__error__"));
        AUTO_FREE char *text = NULL;

        if (error)
                return tool_fail(&u->result, "%s", ESC(error));
        text = json_dumps(answers, JSON_COMPACT | JSON_ENCODE_ANY);
        return text ? tool_text(&u->result, text, strlen(text))
                    : tool_fail(&u->result, "the answer has no answers");
}

static int take_result(struct agent *a, struct tool_use *u, json_t *data) {
        json_t *output = json_object_get(data, "output"), *error = json_object_get(data, "error");
        json_t *question = json_object_get(data, "ask_user");
        AUTO_FREE char *text = NULL;

        if (json_is_object(question))
                return pause_at(a, u, question);
        u->result.error = error != NULL;
        if (error)
                output = error;
        if (json_is_string(output))
                u->result.content =
                        text_json(json_string_value(output), json_string_length(output), CLAMP_TEXT_MAX);
        else if (output) {
                text = json_dumps(output, JSON_COMPACT | JSON_ENCODE_ANY);
                u->result.content = text ? text_json(text, strlen(text), CLAMP_TEXT_MAX) : NULL;
        } else
                return tool_fail(&u->result, "the launcher's answer has neither output nor error");
        return u->result.content ? 0 : -ENOMEM;
}

static int await_launcher(struct agent *a, struct tool_use *u, struct error *err) {
        AUTO_JSON json_t *data = NULL;
        int r = wire_answer(a->wire, u->asked, &data, err);

        if (r < 0)
                return r;
        return u->questions ? take_answers(u, json_object_get(data, "answers")) : take_result(a, u, data);
}

/* --- here ----------------------------------------------------------------------------------------------- */

static int run_resources(struct agent *a, struct tool_use *u, int server, struct error *err) {
        AUTO_JSON json_t *list = NULL;
        AUTO_FREE char *text = NULL;
        int r;

        if (strcmp(u->name, "list_mcp_resources") == 0)
                r = mcp_resources(a->servers[server], &list, err);
        else
                r = mcp_read(a->servers[server], arg_str(u->input, "uri", ""), &list, err);
        if (r == -EPIPE || r == -ENOMEM)
                return r;
        if (r < 0)
                return tool_fail(&u->result, "%s", err->msg);
        text = json_dumps(list, JSON_COMPACT);
        return text ? tool_text(&u->result, text, strlen(text)) : -ENOMEM;
}

static int run_here(struct agent *a, struct tool_use *u, struct error *err) {
        const int resources = resource_server(a, u);
        int r;

        if (resources >= 0)
                return run_resources(a, u, resources, err);
        if (u->server >= 0) {
                r = mcp_call(a->servers[u->server], u->tool, u->input, &u->result.content, &u->result.error,
                             err);
                return r < 0 && r != -EPIPE && r != -ENOMEM ? tool_fail(&u->result, "%s", err->msg) : r;
        }
        r = tool_run(&a->env, u->name, u->input, &u->result);
        return r == -ENOENT ? tool_fail(&u->result, "there is no tool '%s' here", ESC(u->name)) : r;
}

static bool is_launchers(const struct agent *a, const struct tool_use *u) {
        return u->server < 0 && resource_server(a, u) < 0 &&
               placement_of(u->name, NULL) == PLACEMENT_LAUNCHER;
}

/* --- a turn --------------------------------------------------------------------------------------------- */

/* What the launcher does is asked for first, so that it works while we do. */
static int begin(struct agent *a, struct tool_use *u, const json_t *invalid, struct error *err) {
        int r = admit(a, u, invalid);

        told_start(a, u);
        if (r <= 0) {
                u->done = true;
                return r;
        }
        return is_launchers(a, u) ? ask_launcher(a, u, err) : 0;
}

static int collect(struct agent *a, const struct tool_use *uses, size_t n) {
        AUTO_JSON json_t *results = json_array();

        for (size_t i = 0; i < n; i++) {
                AUTO_JSON json_t *one = NULL;

                if (!uses[i].result.content) /* the one that waits */
                        continue;
                one = json_pack("{s:s,s:s,s:O}", "type", "tool_result", "tool_use_id", uses[i].id, "content",
                                uses[i].result.content);
                if (!one || (uses[i].result.error && json_object_set_new(one, "is_error", json_true()) < 0) ||
                    json_array_append(results, one) < 0)
                        return -ENOMEM;
        }
        if (json_array_size(results) == 0)
                return 0;
        return json_array_append_new(a->messages,
                                     json_pack("{s:s,s:O}", "role", "user", "content", results)) < 0
                       ? -ENOMEM
                       : 0;
}

static size_t find_uses(const json_t *content, struct tool_use uses[LOOP_CALLS_MAX]) {
        size_t i, n = 0;
        json_t *block;

        json_array_foreach(content, i, block) {
                if (strcmp(arg_str(block, "type", ""), "tool_use") != 0)
                        continue;
                if (n < LOOP_CALLS_MAX)
                        uses[n] = (struct tool_use){ .block = block,
                                                     .id = arg_str(block, "id", ""),
                                                     .name = arg_str(block, "name", ""),
                                                     .input = json_object_get(block, "input"),
                                                     .server = -1 };
                n++;
        }
        return n;
}

int agent_call_tools(struct agent *a, const json_t *content, const json_t *invalid, struct error *err) {
        struct tool_use uses[LOOP_CALLS_MAX];
        const size_t n = find_uses(content, uses);
        int r = 0;

        if (n > LOOP_CALLS_MAX)
                return error_set(err, -E2BIG, "the model asked for %zu tools at once, %d are the most", n,
                                 LOOP_CALLS_MAX);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = begin(a, &uses[i], invalid, err);
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (!uses[i].done && !uses[i].asked[0])
                        r = run_here(a, &uses[i], err);
                if (r >= 0 && !uses[i].asked[0])
                        told_end(a, &uses[i]);
        }
        for (size_t i = 0; r >= 0 && i < n; i++) {
                if (uses[i].asked[0]) {
                        r = await_launcher(a, &uses[i], err);
                        told_end(a, &uses[i]);
                }
        }
        if (r >= 0)
                r = collect(a, uses, n);
        for (size_t i = 0; i < n; i++)
                json_decref(uses[i].result.content);
        return r < 0 ? r : 0;
}
