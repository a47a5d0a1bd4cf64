/*
 * DOC: theory of operation
 *
 * A turn: ask the model (ask.c), run the tools it asks for (calls.c), tell the launcher what the conversation
 * is now. The work ends when the model asks for nothing more, when structured_output was called, when the
 * operator is asked something that he answers later, or when a limit is reached. Everything waits in
 * wire_poll(), so that the end of the launcher's stream ends it anywhere.
 *
 * The model's server, MCP servers, files and commands are all hostile here; what they can do is bounded where
 * they are read. The launcher trusts nothing that is said: see launch-gate.c.
 */
#include "runtime/agent/runner/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/runner/schema.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

static const uint64_t MS = 1000000;

/** enum turn - how a turn ended */
enum turn { TURN_NEXT, TURN_DONE, TURN_PAUSED, TURN_FAILED };

/** struct finish - what is known at the end */
struct finish {
        struct buf text; /* of the model's last answer */
        int cut;         /* answers in a row that ended at max_tokens */
        bool fallback, nudged;
        char why[ERROR_MSG_MAX + 128];
};

static json_t *usage_json(const struct agent *a) {
        return json_pack("{s:I,s:I,s:I,s:I,s:I}", "input_tokens", (json_int_t) a->usage.input,
                         "output_tokens", (json_int_t) a->usage.output, "cache_creation_input_tokens",
                         (json_int_t) a->usage.cache_creation, "cache_read_input_tokens",
                         (json_int_t) a->usage.cache_read, "requests", (json_int_t) a->requests);
}

/* What every result has. */
static json_t *result_base(const struct agent *a, int exit_code) {
        const json_int_t tokens = (json_int_t) a->usage.input + (json_int_t) a->usage.output +
                                  (json_int_t) a->usage.cache_creation + (json_int_t) a->usage.cache_read;
        const char *session = arg_str(a->task, "session_id", NULL);
        AUTO_JSON json_t *r = json_pack("{s:I,s:I,s:i,s:s}", "tokens", tokens, "duration_ms",
                                        (json_int_t) ((clock_ns() - a->start_ns) / MS), "exit_code",
                                        exit_code, "backend_name", "cofferdam");

        if (!r || (session && json_object_set_new(r, "session_id", json_string(session)) < 0) ||
            (a->protocol > PROTOCOL_FIRST && json_object_set_new(r, "usage", usage_json(a)) < 0))
                return NULL;
        return TAKE_PTR(r);
}

json_t *agent_failure(const struct agent *a, const char *why) {
        AUTO_JSON json_t *r = result_base(a, 1);

        if (!r || json_object_set_new(r, "error", json_from_bytes(why, 65536)) < 0)
                return NULL;
        return TAKE_PTR(r);
}

static void set(json_t *o, const char *key, json_t *value) {
        (void) json_object_set_new(o, key,
                                   value); /* NULL: it is left out, and the launcher says what is missing */
}

/* --- the result ----------------------------------------------------------------------------------------- */

static int take_text(const json_t *content, struct buf *out) {
        json_t *block;
        size_t i;

        out->len = 0;
        json_array_foreach(content, i, block) {
                if (strcmp(arg_str(block, "type", ""), "text") == 0 &&
                    buf_str(out, arg_str(block, "text", "")) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* The object that a model wrote as text where it should have called structured_output; NULL: there is none.
 */
static json_t *object_in(const struct agent *a, const struct finish *f) {
        const char *open = f->text.len ? memchr(f->text.data, '{', f->text.len) : NULL;
        const char *close = f->text.len ? memrchr(f->text.data, '}', f->text.len) : NULL;
        const size_t len = open && close && close > open ? (size_t) (close - open) + 1 : 0;
        json_t *o = len > 0 && json_modest(open, len, MODEL_DEPTH_MAX, MODEL_NESTS_MAX, NULL)
                            ? json_loadb(open, len, 0, NULL)
                            : NULL;

        if (o && schema_check(a->env.output_schema, o, NULL) < 0) {
                json_decref(o);
                o = NULL;
        }
        return o;
}

static json_t *success(struct agent *a, const struct finish *f) {
        AUTO_JSON json_t *r = result_base(a, 0);

        if (!r)
                return NULL;
        set(r, "output",
            a->env.output
                    ? json_incref(a->env.output)
                    : json_pack("{s:o}", "text", text_json(buf_cstr(&f->text), f->text.len, CLAMP_TEXT_MAX)));
        set(r, "raw_output_len", json_integer((json_int_t) f->text.len));
        if (f->fallback)
                set(r, "parse_fallback", json_true());
        if (f->nudged)
                set(r, "formatting_pass_used", json_true());
        return TAKE_PTR(r);
}

static json_t *paused(struct agent *a) {
        AUTO_JSON json_t *r = result_base(a, 0);

        if (!r)
                return NULL;
        set(r, "pending_conversation", json_incref(a->messages));
        set(r, "pending_tool_use_id", json_string(a->pending));
        return TAKE_PTR(r);
}

/* --- turns ---------------------------------------------------------------------------------------------- */

static void capture(struct agent *a) {
        struct error err = { 0 };

        wire_event(a->wire, "llm_turn_capture",
                   json_pack("{s:I,s:I,s:{s:O}}", "turn", a->turn, "snapshot_bytes",
                             (json_int_t) clamp_bytes(a->messages), "snapshot", "messages", a->messages));
        /* best effort: one that is too long is the end of replay, not of the work */
        if (wire_send(a->wire, ENVELOPE_SESSION_CAPTURE, json_pack("{s:O}", "messages", a->messages), &err) <
            0)
                log_warn("session capture: %s", err.msg);
}

static int say(struct agent *a, const char *text) {
        return json_array_append_new(a->messages, json_pack("{s:s,s:s}", "role", "user", "content", text)) < 0
                       ? -ENOMEM
                       : TURN_NEXT;
}

/* The model asks for nothing more. Return: enum turn, -ENOMEM. */
static int conclude(struct agent *a, struct finish *f) {
        if (!a->env.output_schema || a->env.output)
                return TURN_DONE;
        a->env.output = object_in(a, f);
        f->fallback = a->env.output != NULL;
        if (f->fallback)
                return TURN_DONE;
        if (f->nudged) {
                (void) snprintf(f->why, sizeof(f->why), "the model gave no output that fits output_schema");
                return TURN_FAILED;
        }
        f->nudged = true;
        return say(a, "Now call structured_output with the result.");
}

static bool has_tool_use(const json_t *content) {
        json_t *block;
        size_t i;

        json_array_foreach(content, i, block) {
                if (strcmp(arg_str(block, "type", ""), "tool_use") == 0)
                        return true;
        }
        return false;
}

static int failed(struct finish *f, const char *what, const char *why) {
        (void) snprintf(f->why, sizeof(f->why), "%s%s%s", what, *why ? ": " : "", why);
        return TURN_FAILED;
}

/* What follows from an answer. Return: enum turn, -errno. */
static int follow(struct agent *a, struct finish *f, const struct model_answer *m, struct error *err) {
        int r;

        if (json_array_size(m->content) == 0)
                return conclude(a, f);
        if (json_array_append_new(a->messages,
                                  json_pack("{s:s,s:O}", "role", "assistant", "content", m->content)) < 0 ||
            take_text(m->content, &f->text) < 0)
                return -ENOMEM;
        if (strcmp(m->stop_reason, "refusal") == 0)
                return failed(f, "the model refused", "");
        if (has_tool_use(m->content)) {
                r = agent_call_tools(a, m->content, m->invalid, err);
                if (r == -E2BIG)
                        return failed(f, err->msg, "");
                return r < 0 ? r : a->pending[0] ? TURN_PAUSED : a->env.output ? TURN_DONE : TURN_NEXT;
        }
        if (strcmp(m->stop_reason, "pause_turn") == 0)
                return TURN_NEXT;
        if (strcmp(m->stop_reason, "max_tokens") != 0)
                return conclude(a, f);
        if (++f->cut > LOOP_GO_ON_MAX)
                return failed(f, "the model's answer was cut at max_tokens again and again", "");
        return say(a, "[Your answer was cut at its limit. Go on where it ended.]");
}

static int turn(struct agent *a, struct finish *f, struct model_answer *m, struct error *err) {
        int r = agent_ask_model(a, m, err);

        if (r < 0)
                return r;
        if (r == MODEL_OVERFLOW)
                return failed(f, "the conversation is too long for the model, and cannot be made shorter",
                              m->reason);
        if (r != MODEL_DONE)
                return failed(f, "the model cannot be asked", m->reason);
        if (strcmp(m->stop_reason, "max_tokens") != 0)
                f->cut = 0;
        r = follow(a, f, m, err);
        if (r >= 0)
                capture(a);
        return r;
}

int agent_run(struct agent *a, json_t **ret, struct error *err) {
        json_int_t steps = arg_int(a->task, "tool_max_steps", LOOP_STEPS);
        AUTO_ANSWER struct model_answer m = { 0 };
        struct finish f = { 0 };
        char why[96];
        int r = TURN_NEXT;

        if (steps < 1 || steps > LOOP_STEPS_MAX)
                steps = steps < 1 ? LOOP_STEPS : LOOP_STEPS_MAX;
        while (r == TURN_NEXT && a->turn < steps) {
                a->turn++;
                r = turn(a, &f, &m, err);
        }
        (void) snprintf(why, sizeof(why), "tool_max_steps: not done after %lld turns", (long long) steps);
        if (r >= 0)
                *ret = r == TURN_DONE     ? success(a, &f)
                       : r == TURN_PAUSED ? paused(a)
                                          : agent_failure(a, r == TURN_FAILED ? f.why : why);
        buf_deinit(&f.text);
        return r < 0 ? r : *ret ? 0 : -ENOMEM;
}

void agent_deinit(struct agent *a) {
        json_t **const all[] = { &a->task, &a->messages, &a->tools, &a->routes, &a->question };

        for (size_t i = 0; i < a->n_servers; i++)
                a->servers[i] = mcp_stop(a->servers[i]);
        a->n_servers = a->env.n_keep = 0;
        tool_env_deinit(&a->env);
        a->policy = permission_free(a->policy);
        for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
                json_decref(*all[i]);
                *all[i] = NULL;
        }
}
