#include "runtime/agent/launch/mcp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { NS_PER_MS = 1000000, END_MS = 500, METHOD_NOT_FOUND = -32601 };

static const char version[] = "2025-06-18";

static int give_up(struct mcp_server *s, int r, const char *why, struct error *err) {
        if (!*s->why)
                (void) snprintf(s->why, sizeof(s->why), "%s", why);
        program_end(s->pid, s->fds, 0);
        s->pid = 0;
        return error_set(err, r, "server '%s': %s", s->name, s->why);
}

static int say(struct mcp_server *s, json_t *message, struct error *err) {
        AUTO_JSON json_t *own = message;
        AUTO_FREE char *text = own ? json_dumps(own, JSON_COMPACT) : NULL;
        AUTO_BUF struct buf line = { 0 };
        struct error why = { 0 };

        if (!text || buf_str(&line, text) < 0 || buf_str(&line, "\n") < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (channel_put(&s->channel, line.data, line.len, &why) < 0)
                return give_up(s, -EPIPE, why.msg, err);
        return 0;
}

/* A server may ask things too: it is told that nobody here can answer, so that it does not wait. */
static int answer_request(struct mcp_server *s, json_t *id, const char *method, struct error *err) {
        if (strcmp(method, "ping") == 0)
                return say(s, json_pack("{s:s,s:O,s:{}}", "jsonrpc", "2.0", "id", id, "result"), err);
        return say(s,
                   json_pack("{s:s,s:O,s:{s:i,s:s}}", "jsonrpc", "2.0", "id", id, "error", "code",
                             METHOD_NOT_FOUND, "message", "not served here"),
                   err);
}

/* The next message. Return: 0, -ETIMEDOUT, -ECANCELED, -EPIPE, -EPROTO. */
static int hear(struct mcp_server *s, uint64_t end, json_t **ret, struct error *err) {
        const char *line = NULL;
        size_t len = 0;

        for (;;) {
                struct pollfd fds[3] = { { .fd = s->fds[1], .events = POLLIN },
                                         { .fd = s->cancel_fds[0], .events = POLLIN },
                                         { .fd = s->cancel_fds[1], .events = POLLIN } };
                const uint64_t now = clock_ns();
                int r = channel_line(&s->channel, &line, &len, NULL);

                if (r < 0)
                        return give_up(s, -EPROTO, "it said more than a line may have", err);
                if (r > 0)
                        break;
                if (s->channel.eof)
                        return give_up(s, -EPIPE, "it ended", err);
                if (now >= end)
                        return give_up(s, -ETIMEDOUT, "it did not answer in time", err);
                r = poll(fds, ARRAY_SIZE(fds), (int) ((end - now) / NS_PER_MS) + 1);
                if (r > 0 && (fds[1].revents || fds[2].revents))
                        return error_set(err, -ECANCELED, "server '%s': the task is over", s->name);
                if (r > 0 && channel_fill(&s->channel) < 0)
                        return give_up(s, -EPIPE, "it cannot be read", err);
        }
        *ret = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        return json_is_object(*ret) ? 0 : give_up(s, -EPROTO, "it said what is no message", err);
}

/* Return: 1: it is the answer; 0: something else; -EREMOTEIO, -EPROTO. */
static int judge(struct mcp_server *s, json_t *message, json_t **ret, struct error *err) {
        json_t *id = json_object_get(message, "id"), *result = json_object_get(message, "result");
        const json_t *error = json_object_get(message, "error");
        const char *method = json_string_value(json_object_get(message, "method"));
        const char *text;

        if (method)
                return id ? answer_request(s, id, method, err) : 0;
        if (!json_is_integer(id) || json_integer_value(id) != s->last_id)
                return 0;
        if (json_is_object(result)) {
                *ret = json_incref(result);
                return 1;
        }
        text = json_string_value(json_object_get(error, "message"));
        if (!json_is_object(error))
                return give_up(s, -EPROTO, "it answered neither a result nor an error", err);
        return error_set(err, -EREMOTEIO, "server '%s': %s", s->name, text ? ESC(text) : "error");
}

int mcp_server_call(struct mcp_server *s, const char *method, json_t *params, json_t **ret,
                    struct error *err) {
        const uint64_t end = clock_ns() + (uint64_t) s->timeout_ms * NS_PER_MS;
        AUTO_JSON json_t *own = params;
        int r;

        if (s->pid <= 0)
                return error_set(err, -EPIPE, "server '%s': %s", s->name,
                                 *s->why ? s->why : "it does not run");
        r = say(s,
                json_pack("{s:s,s:I,s:s,s:O}", "jsonrpc", "2.0", "id", ++s->last_id, "method", method,
                          "params", own),
                err);
        for (int noise = 0; r == 0; noise++) {
                AUTO_JSON json_t *message = NULL;

                if (noise > MCP_NOISE_MAX)
                        return give_up(s, -EPROTO, "it says much and answers nothing", err);
                r = hear(s, end, &message, err);
                if (r == 0)
                        r = judge(s, message, ret, err);
        }
        return r < 0 ? r : 0;
}

/* Pages of tools; each is an object with a name. */
static int list_tools(struct mcp_server *s, struct error *err) {
        AUTO_JSON json_t *cursor = NULL;

        s->tools = json_array();
        for (int page = 0; page < MCP_PAGES_MAX; page++) {
                AUTO_JSON json_t *result = NULL;
                const int r = mcp_server_call(s, "tools/list",
                                              cursor ? json_pack("{s:O}", "cursor", cursor) : json_object(),
                                              &result, err);

                if (r < 0)
                        return r;
                if (json_array_extend(s->tools, json_object_get(result, "tools")) < 0)
                        return give_up(s, -EPROTO, "its list of tools is none", err);
                json_decref(cursor);
                cursor = json_incref(json_object_get(result, "nextCursor"));
                if (!json_is_string(cursor))
                        return 0;
        }
        return give_up(s, -EPROTO, "its list of tools does not end", err);
}

static int agree(struct mcp_server *s, struct error *err) {
        AUTO_JSON json_t *result = NULL;
        int r;

        r = mcp_server_call(s, "initialize",
                            json_pack("{s:s,s:{},s:{s:s,s:s}}", "protocolVersion", version, "capabilities",
                                      "clientInfo", "name", "cofferdam", "version", COFFERDAM_VERSION),
                            &result, err);
        if (r < 0)
                return r;
        if (!json_is_string(json_object_get(result, "protocolVersion")))
                return give_up(s, -EPROTO, "it does not say its version", err);
        r = say(s, json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", "notifications/initialized"), err);
        if (r == 0 && json_object_get(json_object_get(result, "capabilities"), "tools"))
                r = list_tools(s, err);
        return r;
}

int mcp_server_start(struct mcp_server *s, enum mcp_origin origin, const struct program *program,
                     struct error *err) {
        pid_t pid;
        int r;

        if (!mcp_origin_on_host(origin))
                return error_set(err, -EPERM,
                                 "server '%s': its origin is '%s': it is not started on the host", s->name,
                                 mcp_origin_name(origin));
        pid = program_spawn(program, s->fds, err);
        if (pid < 0)
                return (int) pid;
        s->pid = pid;
        r = channel_init(&s->channel, s->fds[1], s->fds[0]);
        s->channel.stop_fd = s->cancel_fds[1];
        return r < 0 ? give_up(s, r, strerror(-r), err) : agree(s, err);
}

void mcp_server_stop(struct mcp_server *s) {
        if (!s)
                return;
        if (s->pid > 0)
                program_end(s->pid, s->fds, END_MS);
        s->pid = 0;
        channel_deinit(&s->channel);
        json_decref(s->tools);
        s->tools = NULL;
}

int mcp_result_text(const json_t *result, struct buf *out, bool *ret_failed) {
        const json_t *content = json_object_get(result, "content"), *block;
        size_t i;
        int r = 0;

        *ret_failed = json_is_true(json_object_get(result, "isError"));
        json_array_foreach(content, i, block) {
                const json_t *text = json_object_get(block, "text");
                AUTO_FREE char *json =
                        json_is_string(text) ? NULL : json_dumps(block, JSON_COMPACT | JSON_ENCODE_ANY);

                if (i > 0)
                        r = buf_str(out, "\n");
                if (r == 0 && json_is_string(text))
                        r = buf_add(out, json_string_value(text), json_string_length(text));
                else if (r == 0)
                        r = json ? buf_str(out, json) : -ENOMEM;
                if (r < 0)
                        return r;
        }
        return 0;
}
