/*
 * DOC: theory of operation
 *
 * A call goes through the gate or is refused; both are answered, and nothing that is refused is looked at
 * further. Calls are carried out one after the other in the order in which they were read, as the protocol
 * has it. An answer is clamped, and what still does not fit a line becomes an error: the runner never waits
 * for one that was lost.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/launch/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

/* ---- programs of the operator ---- */

/* One object: {"output": ..} or {"error": ".."}. */
static void take_output(const struct buf *out, const char *name, struct tool_answer *answer) {
        AUTO_JSON json_t *said =
                json_loadb(buf_cstr(out), out->len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        const json_t *output = json_object_get(said, "output"), *error = json_object_get(said, "error");
        AUTO_FREE char *text = NULL;

        if (json_is_string(error) && !output) {
                tool_fail(answer, "%s", json_string_length(error) > 0 ? json_string_value(error) : "failed");
                return;
        }
        if (!output || error) {
                tool_fail(answer,
                          "tool '%s': its program did not write {\"output\": ..} or {\"error\": \"..\"}",
                          ESC(name));
                return;
        }
        if (json_is_string(output)) {
                if (buf_add(&answer->output, json_string_value(output), json_string_length(output)) < 0)
                        tool_fail(answer, "out of memory");
                return;
        }
        text = json_dumps(output, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text || buf_str(&answer->output, text) < 0)
                tool_fail(answer, "out of memory");
}

/* @name: of the operator's file. */
static void call_program(struct launch *l, const char *name, json_t *input, struct tool_answer *answer) {
        json_t *item = json_object_get(l->order->op->tools, name);
        AUTO_FREE const char **argv = words_of(json_object_get(item, "command"));
        char **env = offer_env(l->order->ctx, json_object_get(item, "env"));
        const json_int_t ms = json_integer_value(json_object_get(item, "timeout_ms"));
        const struct program program = {
                .argv = argv,
                .env = (const char *const *) env,
                .timeout_ms = ms > 0 && ms <= PROGRAM_TIMEOUT_MAX_MS ? (unsigned int) ms : PROGRAM_TIMEOUT_MS,
        };
        AUTO_JSON json_t *request =
                json_pack("{s:s,s:O,s:O,s:s}", "tool", name, "input", input, "node_id",
                          json_object_get(l->order->task->data, "node_id"), "run_id", l->order->dir->id);
        AUTO_BUF struct buf out = { 0 };
        struct error err = { 0 };
        int r = argv && env && request ? 0 : error_set(&err, -ENOMEM, "out of memory");

        if (r == 0)
                r = program_check(argv[0], l->order->writable, &err); /* it may have changed since */
        if (r == 0)
                r = program_call(&program, request, (int[2]){ l->command.sock, l->order->signal_fd }, &out,
                                 &err);
        (void) offer_env_free(env);
        if (r < 0)
                tool_fail(answer, "tool '%s': %s", ESC(name), err.msg);
        else
                take_output(&out, name, answer);
}

/* ---- servers of the operator ---- */

static void call_server(struct mcp_server *server, const char *name, json_t *input,
                        struct tool_answer *answer) {
        AUTO_JSON json_t *result = NULL;
        struct error err = { 0 };
        bool failed = false;
        int r;

        r = mcp_server_call(server, "tools/call", json_pack("{s:s,s:O}", "name", name, "arguments", input),
                            &result, &err);
        if (r == 0 && mcp_result_text(result, &answer->output, &failed) < 0)
                tool_fail(answer, "out of memory");
        else if (r < 0)
                tool_fail(answer, "%s", err.msg);
        else if (failed)
                tool_fail(answer, "%s", buf_cstr(&answer->output));
}

/* The server that the input names; NULL: @answer says that there is none. A server is one that was started
 * for this node: another is not for it. */
static struct mcp_server *server_of(struct launch *l, const json_t *input, struct tool_answer *answer) {
        const char *name = json_string_value(json_object_get(input, "server"));

        if (!name)
                name = "default";
        for (size_t i = 0; i < l->n_servers; i++)
                if (strcmp(l->servers[i].name, name) == 0)
                        return &l->servers[i];
        tool_fail(answer, "server '%s' is none of this node", ESC(name));
        return NULL;
}

static void say_result(json_t *result, struct tool_answer *answer) {
        AUTO_FREE char *text = json_dumps(result, JSON_COMPACT);

        if (!text || buf_str(&answer->output, text) < 0)
                tool_fail(answer, "out of memory");
}

static void call_resources(struct launch *l, bool read, json_t *input, struct tool_answer *answer) {
        struct mcp_server *server = server_of(l, input, answer);
        json_t *uri = json_object_get(input, "uri");
        AUTO_JSON json_t *result = NULL;
        struct error err = { 0 };
        int r;

        if (!server)
                return;
        if (read && !json_is_string(uri)) {
                tool_fail(answer, "read_mcp_resource: uri: want a text");
                return;
        }
        r = mcp_server_call(server, read ? "resources/read" : "resources/list",
                            read ? json_pack("{s:O}", "uri", uri) : json_object(), &result, &err);
        if (r < 0)
                tool_fail(answer, "%s", err.msg);
        else
                say_result(result, answer);
}

/* ---- calls ---- */

static void carry_out(struct launch *l, const struct tool *tool, json_t *input, struct tool_answer *answer) {
        const char *name = tool->id.names[0];

        if (tool->kind == TOOL_PROGRAM)
                call_program(l, tool->remote, input, answer);
        else if (tool->kind == TOOL_SERVER)
                call_server(&l->servers[tool->server], tool->remote, input, answer);
        else if (strcmp(name, "list_mcp_resources") == 0)
                call_resources(l, false, input, answer);
        else if (strcmp(name, "read_mcp_resource") == 0)
                call_resources(l, true, input, answer);
        else
                launch_tool_call(&l->state, &l->gate, name, input, answer);
        if (answer->ask_user && json_object_get(l->order->op->tools, "ask_user")) {
                AUTO_JSON json_t *question = TAKE_PTR(answer->ask_user);

                call_program(l, "ask_user", question, answer);
        }
}

/* The data of a tool_result; new reference. */
static json_t *result_of(const struct tool_answer *answer) {
        if (answer->error.len > 0)
                return json_pack("{s:o}", "error",
                                 text_json(answer->error.data, answer->error.len, CLAMP_TEXT_MAX));
        if (answer->ask_user)
                return json_pack("{s:O}", "ask_user", answer->ask_user);
        return json_pack("{s:o}", "output",
                         text_json(buf_cstr(&answer->output), answer->output.len, CLAMP_TEXT_MAX));
}

static int reply(struct launch *l, const char *id, const struct tool_answer *answer, struct error *err) {
        AUTO_JSON json_t *data = result_of(answer), *instead = NULL;
        int r = data ? channel_send(&l->channel, ENVELOPE_TOOL_RESULT, id, data, err) : -EMSGSIZE;

        if (r == -EPIPE) { /* its result may be on the way all the same */
                l->deaf = true;
                return 0;
        }
        if (r != -EMSGSIZE)
                return r;
        instead = json_pack("{s:s}", "error", "launcher: the answer does not fit a line");
        return instead ? channel_send(&l->channel, ENVELOPE_TOOL_RESULT, id, instead, err)
                       : error_set(err, -ENOMEM, "out of memory");
}

/* A question ends the node: it goes on, in another launch, with the answer. */
static void note_question(struct launch *l, const struct tool_answer *answer) {
        if (!answer->ask_user)
                return;
        json_decref(l->question);
        l->question = json_incref(answer->ask_user);
        launch_event(l, "ask_user",
                     json_pack("{s:I}", "question_bytes",
                               (json_int_t) json_string_length(json_object_get(l->question, "question"))));
}

/* Whether @id has not been used. Return: 0, -EEXIST, -E2BIG, -EINVAL, -ENOMEM. */
static int use_id(struct launch *l, const char *id) {
        if (!*id)
                return -EINVAL;
        if (!l->seen)
                l->seen = json_object();
        if (json_object_get(l->seen, id))
                return -EEXIST;
        if (json_object_size(l->seen) >= LAUNCH_CALLS_MAX)
                return -E2BIG;
        return json_object_set_new(l->seen, id, json_true()) < 0 ? -ENOMEM : 0;
}

static const char *id_problem(int r) {
        return r == -EEXIST   ? "its id was used before"
               : r == -EINVAL ? "it has no id"
                              : "there were too many calls";
}

/* Why nothing is carried out for the runner any more; NULL: it is. */
static const char *over(const struct launch *l) {
        return l->signal     ? "a signal ends the task"
               : l->deaf     ? "the runner does not read answers any more"
               : l->question ? "the node waits for the operator"
                             : NULL;
}

int serve_call(struct launch *l, const struct envelope *e, struct error *err) {
        const json_t *name = json_object_get(e->data, "name");
        json_t *input = json_object_get(e->data, "input");
        AUTO_JSON json_t *none = input ? NULL : json_object();
        CLEANUP(tool_answer_deinit) struct tool_answer answer = { 0 };
        const struct tool *tool = NULL;
        char reason[ERROR_MSG_MAX] = "";
        int r;

        r = use_id(l, e->id);
        if (r < 0)
                (void) snprintf(reason, sizeof(reason), "%s", id_problem(r));
        else if (over(l))
                (void) snprintf(reason, sizeof(reason), "%s", over(l));
        else
                tool = gate_admit(&l->gate, name, input ? input : none, reason, sizeof(reason));
        if (tool) {
                carry_out(l, tool, input ? input : none, &answer);
                note_question(l, &answer);
        } else {
                launch_refused(l, e->id, json_string_value(name), reason);
                tool_fail(&answer, "launcher: tool \"%s\": %s",
                          json_is_string(name) ? ESC(json_string_value(name)) : "", reason);
        }
        if (r == -EINVAL || r == -E2BIG) /* nobody could tell what is answered; or it does not end */
                return error_set(err, -EPROTO, "the runner sent a tool_call: %s", reason);
        return l->signal ? 0 : reply(l, e->id, &answer, err);
}

/* ---- ask_user envelopes ---- */

static json_t *answers_of(const struct tool_answer *answer) {
        AUTO_JSON json_t *said = NULL;

        if (answer->error.len > 0)
                return json_pack("{s:{s:o}}", "answers", "__error__",
                                 text_json(answer->error.data, answer->error.len, CLAMP_TEXT_MAX));
        said = json_loadb(buf_cstr(&answer->output), answer->output.len, JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(said))
                return json_pack("{s:O}", "answers", said);
        return json_pack("{s:{s:s}}", "answers", "__error__",
                         "launcher: the answer is no object of questions and answers");
}

int serve_question(struct launch *l, const struct envelope *e, struct error *err) {
        CLEANUP(tool_answer_deinit) struct tool_answer answer = { 0 };
        AUTO_JSON json_t *name = json_string("ask_user"), *data = NULL;
        char reason[ERROR_MSG_MAX] = "";
        int r;

        r = use_id(l, e->id);
        if (r < 0)
                (void) snprintf(reason, sizeof(reason), "%s", id_problem(r));
        else if (over(l))
                (void) snprintf(reason, sizeof(reason), "%s", over(l));
        else if (gate_admit(&l->gate, name, e->data, reason, sizeof(reason)) &&
                 json_object_get(l->order->op->tools, "ask_user"))
                call_program(l, "ask_user", e->data, &answer);
        else if (!*reason)
                tool_fail(&answer, "launcher: no ask_user handler registered");
        if (*reason) {
                launch_refused(l, e->id, "ask_user", reason);
                tool_fail(&answer, "launcher: %s", reason);
        }
        if (r == -EINVAL || r == -E2BIG)
                return error_set(err, -EPROTO, "the runner sent an ask_user: %s", reason);
        if (l->deaf || l->signal)
                return 0;
        data = answers_of(&answer);
        return data ? channel_send(&l->channel, ENVELOPE_ASK_USER_ANSWER, e->id, data, err)
                    : error_set(err, -ENOMEM, "out of memory");
}
