#include "runtime/agent/runner/mcp.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/agent/protocol.h"
#include "runtime/agent/runner/sse.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum {
        READ_BYTES = 64 * 1024,
        STDERR_KEPT = 1024,
        ARGS_MAX = 256,
        ENV_MAX = 1024,
        HEADERS_MAX = 12,
        GRACE_MS = 1000,
        METHOD_MAX = 64
};

static const uint64_t MS = 1000000;

/* newest first; the first is offered */
static const char *const versions[] = { "2025-06-18", "2025-03-26", "2024-11-05" };

struct mcp_server {
        const struct mcp_place *place;
        char name[MCP_NAME_MAX + 1];
        const json_t *config;
        const char *url; /* NULL: a process */
        struct child child;
        int in, out, err; /* of the process: what it reads, what it writes, what it says besides */
        struct buf line;  /* what was read of @out */
        char said[STDERR_KEPT + 1];
        char session[256]; /* of HTTP; "": none */
        char version[16];
        json_int_t last; /* id of the last request */
        bool dead, resources;
        int noise; /* messages that are no answer, since the last request */
        char why[MCP_WHY_MAX];
        json_t *tools;
};

const char *mcp_name(const struct mcp_server *s) {
        return s->name;
}

pid_t mcp_pid(const struct mcp_server *s) {
        return s->child.pid;
}

const char *mcp_version(const struct mcp_server *s) {
        return s->version;
}

const json_t *mcp_tools(const struct mcp_server *s) {
        return s->tools;
}

/* For good. Return: -ESHUTDOWN with the reason. */
__attribute__((format(printf, 3, 4))) static int die(struct mcp_server *s, struct error *err, const char *fmt,
                                                     ...) {
        const pid_t pid = s->child.pid;
        va_list args;

        if (!s->dead) {
                va_start(args, fmt);
                (void) vsnprintf(s->why, sizeof(s->why), fmt, args);
                va_end(args);
        }
        s->dead = true;
        if (pid) /* its descendants in other groups end with the runner */
                (void) kill(-pid, SIGKILL);
        return error_set(err, -ESHUTDOWN, "MCP server '%s': %s", s->name, s->why);
}

/* --- messages ------------------------------------------------------------------------------------------- */

enum mcp_frame mcp_frame_of(const json_t *message, json_int_t *ret_id) {
        const char *version = json_string_value(json_object_get(message, "jsonrpc"));
        const json_t *id = json_object_get(message, "id"), *method = json_object_get(message, "method");

        *ret_id = -1;
        if (!version || strcmp(version, "2.0") != 0)
                return MCP_BROKEN;
        if (method)
                return !json_is_string(method) ? MCP_BROKEN : id ? MCP_REQUEST : MCP_NOTIFICATION;
        if (!json_object_get(message, "result") == !json_object_get(message, "error"))
                return MCP_BROKEN;
        if (json_is_integer(id))
                *ret_id = json_integer_value(id);
        return MCP_ANSWER;
}

/* What a server asks of us: is it there, and where may it work. */
static json_t *reply_to(const struct mcp_server *s, const json_t *request) {
        const char *method = json_string_value(json_object_get(request, "method"));
        json_t *id = json_object_get(request, "id");
        char uri[TOOL_PATH_MAX + 16];

        if (strcmp(method, "ping") == 0)
                return json_pack("{s:s,s:O,s:{}}", "jsonrpc", "2.0", "id", id, "result");
        if (strcmp(method, "roots/list") == 0) {
                (void) snprintf(uri, sizeof(uri), "file://%s", s->place->work_dir);
                return json_pack("{s:s,s:O,s:{s:[{s:s}]}}", "jsonrpc", "2.0", "id", id, "result", "roots",
                                 "uri", uri);
        }
        return json_pack("{s:s,s:O,s:{s:i,s:s}}", "jsonrpc", "2.0", "id", id, "error", "code", -32601,
                         "message", "this client does not do that");
}

static void remember_error(struct mcp_server *s, const char *text, size_t len) {
        size_t have = strlen(s->said);

        if (len > STDERR_KEPT) {
                text += len - STDERR_KEPT;
                len = STDERR_KEPT;
        }
        if (have + len > STDERR_KEPT) {
                const size_t drop = have + len - STDERR_KEPT;

                memmove(s->said, s->said + drop, have - drop);
                have -= drop;
        }
        for (size_t i = 0; i < len; i++)
                s->said[have + i] = text[i] ? text[i] : ' ';
        s->said[have + len] = '\0';
}

static const char *last_words(const struct mcp_server *s) {
        const size_t n = strlen(s->said);

        return n > 200 ? s->said + n - 200 : s->said;
}

/* --- a process ------------------------------------------------------------------------------------------ */

/* The environment of a server: that of tools, and what its configuration adds. */
static char **server_env(const struct mcp_server *s) {
        json_t *own = json_object_get(s->config, "env"), *value;
        char **env = calloc(ENV_MAX + 1, sizeof(*env));
        const char *key;
        size_t n = 0;

        if (!env)
                return NULL;
        json_object_foreach(own, key, value) {
                if (n < ENV_MAX / 2 && json_is_string(value) &&
                    asprintf(&env[n], "%s=%s", key, json_string_value(value)) >= 0)
                        n++;
        }
        for (char *const *e = s->place->environ; *e && n < ENV_MAX; e++) {
                char name[256];

                (void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(*e, "="), *e);
                if (!json_object_get(own, name) && (env[n] = strdup(*e)))
                        n++;
        }
        return env;
}

static void free_words(char ***words) {
        for (char **w = *words; w && *w; w++)
                free(*w);
        free((void *) *words);
}

static int spawn(struct mcp_server *s, struct error *err) {
        const json_t *args = json_object_get(s->config, "args");
        CLEANUP(free_words) char **env = server_env(s);
        AUTO_FD int in = -1, out = -1, errs = -1;
        char *argv[ARGS_MAX + 2] = { 0 };
        int pair[3][2], r;

        argv[0] = (char *) (uintptr_t) json_string_value(json_object_get(s->config, "command"));
        if (!env)
                return error_set(err, -ENOMEM, "out of memory");
        if (!argv[0] || json_array_size(args) > ARGS_MAX)
                return die(s, err, "its command is none, or has more than %d arguments", ARGS_MAX);
        for (size_t i = 0; i < json_array_size(args); i++) {
                argv[i + 1] = (char *) (uintptr_t) json_string_value(json_array_get(args, i));
                if (!argv[i + 1])
                        return die(s, err, "an argument is no text");
        }
        for (int i = 0; i < 3; i++) {
                if (pipe2(pair[i], O_CLOEXEC) < 0)
                        return die(s, err, "%s", strerror(errno));
                *(i == 0 ? &in : i == 1 ? &out : &errs) = pair[i][i == 0 ? 0 : 1];
                *(i == 0 ? &s->in : i == 1 ? &s->out : &s->err) = pair[i][i == 0 ? 1 : 0];
                (void) fcntl(pair[i][i == 0 ? 1 : 0], F_SETFL, O_NONBLOCK);
        }
        r = child_start(&s->child, argv, env, s->place->work_fd, (const int[]){ in, out, errs }, 3);
        return r < 0 ? die(s, err, "start '%s': %s", ESC(argv[0]), strerror(-r)) : 0;
}

static int ended(struct mcp_server *s, struct error *err) {
        const uint64_t until = clock_ns() + GRACE_MS * MS;
        char how[64], words[STDERR_KEPT + 1];

        while (!child_ended(&s->child) && clock_ns() < until) { /* its output ended; it follows */
                struct pollfd p = { .fd = s->child.pidfd, .events = POLLIN };

                if (wire_poll(s->place->wire, &p, 1, until) < 0)
                        return -EPIPE;
        }
        (void) snprintf(words, sizeof(words), "%s", last_words(s));
        return die(s, err, "it ended: %s%s%s",
                   s->child.ended ? child_status_text(s->child.status, how) : "it closed its output",
                   *words ? "; it said: " : "", ESC(words));
}

/* Reads what the process says until something came, or @out_fd takes bytes. Return: 0, 1 (@in is writable),
 * -errno. */
static int attend(struct mcp_server *s, bool writing, uint64_t deadline, struct error *err) {
        struct pollfd p[] = { { .fd = s->out, .events = POLLIN },
                              { .fd = s->err, .events = POLLIN },
                              { .fd = writing ? s->in : -1, .events = POLLOUT } };
        const int r = wire_poll(s->place->wire, p, ARRAY_SIZE(p), deadline);
        char room[READ_BYTES];
        ssize_t n;

        if (r < 0)
                return r;
        if (r == 0 || clock_ns() >= deadline) /* also when it floods */
                return -ETIMEDOUT;
        if (p[1].revents) {
                n = read(s->err, room, sizeof(room));
                if (n > 0)
                        remember_error(s, room, (size_t) n);
                else if (n == 0)
                        s->err = fd_close(s->err);
        }
        if (p[0].revents) {
                n = read(s->out, room, sizeof(room));
                if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                        return ended(s, err);
                if (n > 0 && buf_add(&s->line, room, (size_t) n) < 0)
                        return -ENOMEM;
        }
        return p[2].revents != 0;
}

static int send_line(struct mcp_server *s, const json_t *message, uint64_t deadline, struct error *err) {
        AUTO_FREE char *text = json_dumps(message, JSON_COMPACT);
        const size_t len = text ? strlen(text) + 1 : 0;
        size_t at = 0;

        if (!text)
                return error_set(err, -ENOMEM, "out of memory");
        text[len - 1] = '\n';
        while (at < len) {
                const ssize_t n = write(s->in, text + at, len - at);
                int r;

                if (n > 0) {
                        at += (size_t) n;
                        continue;
                }
                if (errno == EPIPE)
                        return ended(s, err);
                if (s->line.len > MCP_MESSAGE_MAX * 2)
                        return die(s, err, "it writes without an end and does not read");
                r = attend(s, true, deadline, err);
                if (r == -ETIMEDOUT) /* half a message was sent: nothing can follow it */
                        return die(s, err, "it does not read");
                if (r < 0)
                        return r;
        }
        return 0;
}

static json_t *load(const char *text, size_t len) {
        return json_modest(text, len, MCP_DEPTH_MAX, MCP_NESTS_MAX, NULL)
                       ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL)
                       : NULL;
}

/* The next message. Return: 0, -ETIMEDOUT, -ESHUTDOWN, -EPIPE, -ENOMEM. */
static int next_line(struct mcp_server *s, uint64_t deadline, json_t **ret, struct error *err) {
        size_t scanned = 0;

        for (;;) {
                const char *lf = s->line.len > scanned
                                         ? memchr(s->line.data + scanned, '\n', s->line.len - scanned)
                                         : NULL;
                size_t len = lf ? (size_t) (lf - s->line.data) : 0;
                int r;

                if (len > MCP_MESSAGE_MAX || (!lf && s->line.len > MCP_MESSAGE_MAX))
                        return die(s, err, "a message is longer than %d bytes", MCP_MESSAGE_MAX);
                if (lf) {
                        const bool blank = len == 0 || (len == 1 && s->line.data[0] == '\r');

                        *ret = blank ? NULL : load(s->line.data, len);
                        s->line.len -= len + 1;
                        memmove(s->line.data, s->line.data + len + 1, s->line.len);
                        scanned = 0;
                        if (blank && ++s->noise > MCP_NOISE_MAX)
                                return die(s, err, "it floods: %d blank lines", MCP_NOISE_MAX);
                        if (blank)
                                continue;
                        return *ret ? 0 : die(s, err, "it said a line that is no JSON");
                }
                scanned = s->line.len;
                r = attend(s, false, deadline, err);
                if (r < 0)
                        return r;
        }
}

/* --- requests ------------------------------------------------------------------------------------------- */

/* An answer or something else: see the DOC of mcp.h. Return: 1: @message is the answer to @id; 0; -errno. */
static int take(struct mcp_server *s, const json_t *message, json_int_t id, json_t **ret_reply,
                struct error *err) {
        json_int_t of;

        switch (mcp_frame_of(message, &of)) {
        case MCP_ANSWER:
                if (of == id)
                        return 1;
                break; /* late: nobody waits for it any more */
        case MCP_REQUEST:
                *ret_reply = reply_to(s, message);
                if (!*ret_reply)
                        return -ENOMEM;
                break;
        case MCP_NOTIFICATION:
                break;
        case MCP_BROKEN:
                return die(s, err, "it said something that is not JSON-RPC 2.0");
        }
        return ++s->noise > MCP_NOISE_MAX
                       ? die(s, err, "it floods: %d messages that nobody asked for", MCP_NOISE_MAX)
                       : 0;
}

static int exchange_stdio(struct mcp_server *s, const json_t *message, json_int_t id, uint64_t deadline,
                          json_t **ret, struct error *err) {
        int r = send_line(s, message, deadline, err);

        while (r == 0 && id >= 0) {
                AUTO_JSON json_t *got = NULL, *reply = NULL;

                r = next_line(s, deadline, &got, err);
                if (r == 0)
                        r = take(s, got, id, &reply, err);
                if (r == 1) {
                        *ret = TAKE_PTR(got);
                        return 0;
                }
                if (r == 0 && reply)
                        r = send_line(s, reply, deadline, err);
        }
        return r;
}

/* --- streamable HTTP ------------------------------------------------------------------------------------ */

static void http_headers(const struct mcp_server *s, struct http_extra extra[HEADERS_MAX + 6]) {
        json_t *own = json_object_get(s->config, "headers"), *value;
        const char *key;
        size_t n = 0;

        extra[n++] = (struct http_extra){ "Content-Type", "application/json" };
        extra[n++] = (struct http_extra){ "Accept", "application/json, text/event-stream" };
        if (s->version[0])
                extra[n++] = (struct http_extra){ "MCP-Protocol-Version", s->version };
        if (s->session[0])
                extra[n++] = (struct http_extra){ "Mcp-Session-Id", s->session };
        json_object_foreach(own, key, value) {
                if (n < HEADERS_MAX + 5 && json_is_string(value))
                        extra[n++] = (struct http_extra){ key, json_string_value(value) };
        }
        extra[n] = (struct http_extra){ NULL, NULL };
}

static int post(struct mcp_server *s, const json_t *message, json_int_t id, uint64_t deadline, json_t **ret,
                struct error *err);

/* One message out of a body or of an event. Return: 1: the answer; 0; -errno. */
static int take_text(struct mcp_server *s, const char *text, size_t len, json_int_t id, uint64_t deadline,
                     json_t **ret, struct error *err) {
        AUTO_JSON json_t *got = load(text, len), *reply = NULL;
        int r;

        if (!got)
                return die(s, err, "it said something that is no JSON");
        r = take(s, got, id, &reply, err);
        if (r == 1)
                *ret = TAKE_PTR(got);
        if (r == 0 && reply)
                r = post(s, reply, -1, deadline, NULL, err);
        return r;
}

static int read_events(struct mcp_server *s, struct http_exchange *x, json_int_t id, uint64_t deadline,
                       json_t **ret, struct error *err) {
        AUTO_SSE struct sse sse = { 0 };
        struct sse_event e;
        char room[READ_BYTES];
        ssize_t n;
        bool any;

        while ((n = http_read(x, room, sizeof(room), deadline)) > 0) {
                for (size_t at = 0, used; at < (size_t) n; at += used) {
                        int r = sse_feed(&sse, room + at, (size_t) n - at, &used, &any, &e);

                        if (r == -E2BIG || (r == 0 && any && e.len > MCP_MESSAGE_MAX))
                                return die(s, err, "a message is longer than %d bytes", MCP_MESSAGE_MAX);
                        if (r == 0 && any && e.len > 0)
                                r = take_text(s, e.data, e.len, id, deadline, ret, err);
                        if (r != 0)
                                return r == 1 ? 0 : r;
                }
        }
        if (n == -ETIMEDOUT || n == -EPIPE)
                return (int) n;
        return error_set(err, -EREMOTEIO, "MCP server '%s': its answer was cut", s->name);
}

static int read_answer(struct mcp_server *s, struct http_exchange *x, json_int_t id, uint64_t deadline,
                       json_t **ret, struct error *err) {
        AUTO_BUF struct buf body = { 0 };
        int r;

        if (x->session[0] && !s->session[0])
                (void) snprintf(s->session, sizeof(s->session), "%s", x->session);
        if (x->status == 404 && s->session[0])
                return die(s, err, "it has forgotten the session");
        if (x->status < 200 || x->status > 299)
                return error_set(err, -EREMOTEIO, "MCP server '%s': status %u", s->name, x->status);
        if (id < 0)
                return 0;
        if (strncasecmp(x->content_type, "text/event-stream", 17) == 0)
                return read_events(s, x, id, deadline, ret, err);
        r = http_slurp(x, MCP_MESSAGE_MAX, deadline, &body);
        if (r == -EFBIG)
                return die(s, err, "a message is longer than %d bytes", MCP_MESSAGE_MAX);
        if (r < 0)
                return r == -ETIMEDOUT || r == -EPIPE || r == -ENOMEM
                               ? r
                               : error_set(err, -EREMOTEIO, "MCP server '%s': its answer was cut", s->name);
        r = take_text(s, buf_cstr(&body), body.len, id, deadline, ret, err);
        return r == 1 ? 0 : r == 0 ? die(s, err, "it answered another request than was asked") : r;
}

static int post(struct mcp_server *s, const json_t *message, json_int_t id, uint64_t deadline, json_t **ret,
                struct error *err) {
        AUTO_HTTP struct http_exchange x = { .stream.fd = -1 };
        struct http_extra extra[HEADERS_MAX + 6];
        AUTO_FREE char *text = json_dumps(message, JSON_COMPACT);
        AUTO_BUF struct buf body = { 0 };
        int r;

        if (!text || buf_str(&body, text) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        http_headers(s, extra);
        r = http_open(&s->place->net, &(struct http_question){ "POST", s->url, extra, &body }, deadline, &x,
                      err);
        if (r == -EPIPE || r == -ENOMEM || r == -ETIMEDOUT)
                return r;
        if (r < 0)
                return error_wrap(err, -EREMOTEIO, "MCP server '%s'", s->name);
        return read_answer(s, &x, id, deadline, ret, err);
}

/* --- what both have in common --------------------------------------------------------------------------- */

static int exchange(struct mcp_server *s, const json_t *message, json_int_t id, uint64_t deadline,
                    json_t **ret, struct error *err) {
        if (s->dead)
                return error_set(err, -ESHUTDOWN, "MCP server '%s': %s", s->name, s->why);
        if (id >= 0)
                s->noise = 0;
        return s->url ? post(s, message, id, deadline, ret, err)
                      : exchange_stdio(s, message, id, deadline, ret, err);
}

static int notify(struct mcp_server *s, const char *method, json_t *params, struct error *err) {
        AUTO_JSON json_t *message =
                json_pack("{s:s,s:s,s:o*}", "jsonrpc", "2.0", "method", method, "params", params);

        if (!message)
                return error_set(err, -ENOMEM, "out of memory");
        return exchange(s, message, -1, clock_ns() + MCP_START_MS * MS, NULL, err);
}

/* @params: consumed. @ret: owned, the result. */
static int request(struct mcp_server *s, const char *method, json_t *params, uint64_t ms, json_t **ret,
                   struct error *err) {
        AUTO_JSON json_t *message = NULL, *got = NULL;
        const json_int_t id = ++s->last;
        json_t *result;
        int r;

        message = json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", id, "method", method, "params",
                            params);
        if (!message)
                return error_set(err, -ENOMEM, "out of memory");
        r = exchange(s, message, id, clock_ns() + ms * MS, &got, err);
        if (r == -ETIMEDOUT) {
                struct error quiet = { 0 };

                /* initialize may not be cancelled */
                if (strcmp(method, "initialize") == 0)
                        return die(s, err, "it did not answer within %llu ms", (unsigned long long) ms);
                if (notify(s, "notifications/cancelled",
                           json_pack("{s:I,s:s}", "requestId", id, "reason", "timeout"), &quiet) == -EPIPE)
                        return -EPIPE;
                return error_set(err, -ETIMEDOUT, "MCP server '%s': no answer to %s within %llu ms", s->name,
                                 method, (unsigned long long) ms);
        }
        if (r < 0)
                return r;
        result = json_object_get(got, "result");
        if (!json_is_object(result)) {
                const char *why =
                        json_string_value(json_object_get(json_object_get(got, "error"), "message"));

                return error_set(err, -EREMOTEIO, "MCP server '%s': %s: %s", s->name, method,
                                 why ? ESC(why) : "refused");
        }
        *ret = json_incref(result);
        return 0;
}

static uint64_t call_ms(const struct mcp_server *s) {
        return s->place->call_ms ? s->place->call_ms : MCP_CALL_MS;
}

/* All pages of a list. @ret: owned array. */
static int list(struct mcp_server *s, const char *method, const char *key, size_t max, json_t **ret,
                struct error *err) {
        AUTO_JSON json_t *all = json_array(), *cursor = NULL;
        const uint64_t end = clock_ns() + call_ms(s) * MS; /* of all pages */

        for (int page = 0; page < MCP_PAGES_MAX; page++) {
                AUTO_JSON json_t *result = NULL;
                const uint64_t now = clock_ns();
                json_t *next;
                int r = request(s, method, cursor ? json_pack("{s:O}", "cursor", cursor) : json_object(),
                                end > now ? (end - now) / MS : 0, &result, err);

                if (r < 0)
                        return r;
                if (json_array_extend(all, json_object_get(result, key)) < 0)
                        return error_set(err, -EREMOTEIO, "MCP server '%s': %s without '%s'", s->name, method,
                                         key);
                if (json_array_size(all) > max)
                        return error_set(err, -EREMOTEIO, "MCP server '%s': %s: more than %zu", s->name,
                                         method, max);
                next = json_object_get(result, "nextCursor");
                if (!json_is_string(next)) {
                        *ret = TAKE_PTR(all);
                        return 0;
                }
                json_decref(cursor);
                cursor = json_incref(next);
        }
        return error_set(err, -EREMOTEIO, "MCP server '%s': %s: more than %d pages", s->name, method,
                         MCP_PAGES_MAX);
}

static int initialize(struct mcp_server *s, struct error *err) {
        AUTO_JSON json_t *result = NULL;
        const char *version;
        const json_t *can;
        int r;

        r = request(s, "initialize",
                    json_pack("{s:s,s:{s:{}},s:{s:s,s:s}}", "protocolVersion", versions[0], "capabilities",
                              "roots", "clientInfo", "name", "cofferdam", "version", COFFERDAM_VERSION),
                    s->place->start_ms ? s->place->start_ms : MCP_START_MS, &result, err);
        if (r < 0)
                return r;
        version = json_string_value(json_object_get(result, "protocolVersion"));
        for (size_t i = 0; version && i < ARRAY_SIZE(versions); i++) {
                if (strcmp(version, versions[i]) == 0)
                        (void) snprintf(s->version, sizeof(s->version), "%s", version);
        }
        if (!s->version[0])
                return die(s, err, "it speaks version '%s', this client %s to %s",
                           version ? ESC(version) : "", versions[ARRAY_SIZE(versions) - 1], versions[0]);
        r = notify(s, "notifications/initialized", NULL, err);
        can = json_object_get(result, "capabilities");
        s->resources = json_object_get(can, "resources") != NULL;
        if (r == 0 && json_object_get(can, "tools"))
                r = list(s, "tools/list", "tools", MCP_TOOLS_MAX, &s->tools, err);
        return r;
}

int mcp_start(const struct mcp_place *place, const char *name, const json_t *config, struct mcp_server **ret,
              struct error *err) {
        struct mcp_server *s;
        int r;

        if (!*name || strlen(name) > MCP_NAME_MAX ||
            strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != strlen(name))
                return error_set(err, -EINVAL, "MCP server '%s': its name has letters, digits, '-' and '_'",
                                 ESC(name));
        s = calloc(1, sizeof(*s));
        if (!s)
                return error_set(err, -ENOMEM, "out of memory");
        s->place = place;
        s->config = config;
        s->in = s->out = s->err = s->child.pidfd = -1;
        s->line.max = MCP_MESSAGE_MAX * 3;
        (void) snprintf(s->name, sizeof(s->name), "%s", name);
        s->url = json_string_value(json_object_get(config, "url"));
        r = s->url ? 0 : spawn(s, err);
        if (r == 0)
                r = initialize(s, err);
        if (r < 0) {
                (void) mcp_stop(s);
                return r;
        }
        *ret = s;
        return 0;
}

struct mcp_server *mcp_stop(struct mcp_server *s) {
        if (!s)
                return NULL;
        s->in = fd_close(s->in); /* the way to ask a server to end */
        if (s->child.pid && !child_ended(&s->child)) {
                struct pollfd p = { .fd = s->child.pidfd, .events = POLLIN };

                (void) !poll(&p, 1, s->dead ? 0 : GRACE_MS);
                (void) kill(-s->child.pid, SIGTERM);
                (void) !poll(&p, 1, GRACE_MS / 4);
        }
        if (s->child.pid)
                (void) kill(-s->child.pid, SIGKILL);
        for (int i = 0; i < 100 && !child_ended(&s->child); i++) {
                struct pollfd p = { .fd = s->child.pidfd, .events = POLLIN };

                (void) !poll(&p, 1, 10);
        }
        s->child.pidfd = fd_close(s->child.pidfd);
        s->out = fd_close(s->out);
        s->err = fd_close(s->err);
        buf_deinit(&s->line);
        json_decref(s->tools);
        free(s);
        return NULL;
}

/* --- tools and resources -------------------------------------------------------------------------------- */

static json_t *as_text(const json_t *value) {
        AUTO_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        AUTO_JSON json_t *s = text ? text_json(text, strlen(text), TOOL_TEXT_MAX) : NULL;

        return s ? json_pack("{s:s,s:O}", "type", "text", "text", s) : NULL;
}

/* Images the model can see stay what they are; everything else becomes text. */
static json_t *block_of(const json_t *block) {
        const char *type = json_string_value(json_object_get(block, "type"));
        const json_t *text = json_object_get(block, "text");
        const json_t *data = json_object_get(block, "data"), *mime = json_object_get(block, "mimeType");

        if (type && strcmp(type, "text") == 0 && json_is_string(text)) {
                AUTO_JSON json_t *s =
                        text_json(json_string_value(text), json_string_length(text), TOOL_TEXT_MAX);

                return json_pack("{s:s,s:O}", "type", "text", "text", s);
        }
        if (type && strcmp(type, "image") == 0 && json_is_string(data) && json_is_string(mime) &&
            json_string_length(data) <= TOOL_IMAGE_MAX / 3 * 4 &&
            (strcmp(json_string_value(mime), "image/png") == 0 ||
             strcmp(json_string_value(mime), "image/jpeg") == 0 ||
             strcmp(json_string_value(mime), "image/gif") == 0 ||
             strcmp(json_string_value(mime), "image/webp") == 0))
                return json_pack("{s:s,s:{s:s,s:O,s:O}}", "type", "image", "source", "type", "base64",
                                 "media_type", mime, "data", data);
        return as_text(block);
}

json_t *mcp_content(const json_t *result) {
        const json_t *blocks = json_object_get(result, "content");
        AUTO_JSON json_t *out = json_array();
        size_t i;
        json_t *block;

        json_array_foreach(blocks, i, block) {
                if (json_array_append_new(out, block_of(block)) < 0)
                        return NULL;
        }
        if (json_array_size(out) == 0 &&
            json_array_append_new(out, as_text(json_object_get(result, "structuredContent")
                                                       ? json_object_get(result, "structuredContent")
                                                       : result)) < 0)
                return NULL;
        return TAKE_PTR(out);
}

int mcp_call(struct mcp_server *s, const char *tool, const json_t *input, json_t **ret_content,
             bool *ret_error, struct error *err) {
        AUTO_JSON json_t *result = NULL;
        int r = request(s, "tools/call", json_pack("{s:s,s:O}", "name", tool, "arguments", input), call_ms(s),
                        &result, err);

        if (r < 0)
                return r;
        *ret_error = json_is_true(json_object_get(result, "isError"));
        *ret_content = mcp_content(result);
        return *ret_content ? 0 : -ENOMEM;
}

int mcp_resources(struct mcp_server *s, json_t **ret, struct error *err) {
        if (!s->resources) {
                *ret = json_array();
                return *ret ? 0 : -ENOMEM;
        }
        return list(s, "resources/list", "resources", MCP_TOOLS_MAX * 8, ret, err);
}

int mcp_read(struct mcp_server *s, const char *uri, json_t **ret, struct error *err) {
        AUTO_JSON json_t *result = NULL;
        int r = request(s, "resources/read", json_pack("{s:s}", "uri", uri), call_ms(s), &result, err);

        if (r < 0)
                return r;
        *ret = json_incref(json_object_get(result, "contents"));
        return *ret ? 0
                    : error_set(err, -EREMOTEIO, "MCP server '%s': resources/read without contents", s->name);
}
