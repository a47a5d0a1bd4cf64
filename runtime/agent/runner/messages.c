#include "runtime/agent/runner/messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/agent/runner/sse.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"

enum {
        HEAD_MS = 300000,
        IDLE_MS = 120000,
        ANSWER_MS = 3600000,
        ERROR_BYTES_MAX = 64 * 1024,
        READ_BYTES = 16 * 1024,
        EVENT_NESTS = 4, /* what every event has */
};

static const uint64_t MS = 1000000;

/** struct block - a block of content that is being received */
struct block {
        json_t *base;          /* as it was announced */
        struct buf text, sign; /* text, thinking or JSON of the input; the signature */
        json_t *citations;
        bool open;
};

struct model_stream {
        struct model_answer *answer;
        struct block blocks[MODEL_BLOCKS_MAX];
        size_t n, bytes, nests;
        bool started;
        struct model_usage base; /* of what the answer had before: usage in deltas is cumulative */
};

void model_answer_deinit(struct model_answer *a) {
        json_decref(a->content);
        json_decref(a->invalid);
        *a = (struct model_answer){ 0 };
}

struct model_stream *model_stream_new(struct model_answer *a) {
        struct model_stream *s = calloc(1, sizeof(*s));

        if (s)
                s->answer = a;
        return s;
}

struct model_stream *model_stream_free(struct model_stream *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n; i++) {
                json_decref(s->blocks[i].base);
                json_decref(s->blocks[i].citations);
                buf_deinit(&s->blocks[i].text);
                buf_deinit(&s->blocks[i].sign);
        }
        free(s);
        return NULL;
}
DEFINE_AUTO(struct model_stream, model_stream, model_stream_free)

__attribute__((format(printf, 2, 3))) static void say(struct model_answer *a, const char *fmt, ...) {
        va_list args;

        va_start(args, fmt);
        (void) vsnprintf(a->reason, sizeof(a->reason), fmt, args);
        va_end(args);
}

static int strange(struct model_stream *s, const char *what) {
        say(s->answer, "the answer of the model's server is not what the API says: %s", what);
        return -EPROTO;
}

/* --- events of the stream ------------------------------------------------------------------------------- */

/* More is no number of tokens, and sums of them stay numbers. */
static const json_int_t USAGE_MAX = 1000000000000;

static void count(const json_t *usage, const char *name, uint64_t *ret) {
        const json_t *v = json_object_get(usage, name);

        if (json_is_integer(v) && json_integer_value(v) >= 0 && json_integer_value(v) <= USAGE_MAX)
                *ret = (uint64_t) json_integer_value(v);
}

/* Numbers of one message: each that is named replaces what it was. */
static void take_usage(struct model_answer *a, const json_t *usage) {
        count(usage, "input_tokens", &a->usage.input);
        count(usage, "output_tokens", &a->usage.output);
        count(usage, "cache_creation_input_tokens", &a->usage.cache_creation);
        count(usage, "cache_read_input_tokens", &a->usage.cache_read);
}

static int on_start(struct model_stream *s, const json_t *e) {
        if (s->started)
                return strange(s, "a second message_start");
        s->started = true;
        take_usage(s->answer, json_object_get(json_object_get(e, "message"), "usage"));
        return 0;
}

static int on_block_start(struct model_stream *s, const json_t *e) {
        json_t *base = json_object_get(e, "content_block");
        const json_t *index = json_object_get(e, "index");

        if (!json_is_integer(index) || json_integer_value(index) != (json_int_t) s->n ||
            !json_is_object(base))
                return strange(s, "a block that does not follow the last");
        if (s->n == MODEL_BLOCKS_MAX)
                return strange(s, "more blocks than are taken");
        s->blocks[s->n].base = json_deep_copy(base);
        s->blocks[s->n].open = true;
        return s->blocks[s->n++].base ? 0 : -ENOMEM;
}

static struct block *open_block(struct model_stream *s, const json_t *e) {
        const json_t *index = json_object_get(e, "index");
        const json_int_t i = json_is_integer(index) ? json_integer_value(index) : -1;

        return i >= 0 && i < (json_int_t) s->n && s->blocks[i].open ? &s->blocks[i] : NULL;
}

static int on_block_delta(struct model_stream *s, const json_t *e) {
        static const struct {
                const char *type, *key;
        } kinds[] = { { "text_delta", "text" },
                      { "input_json_delta", "partial_json" },
                      { "thinking_delta", "thinking" },
                      { "signature_delta", "signature" } };
        struct block *b = open_block(s, e);
        json_t *delta = json_object_get(e, "delta"), *v;
        const char *type = json_string_value(json_object_get(delta, "type"));

        if (!b || !type)
                return strange(s, "a delta of no block");
        if (strcmp(type, "citations_delta") == 0) {
                v = json_object_get(delta, "citation");
                if (!v)
                        return strange(s, "a delta without its citation");
                if (!b->citations)
                        b->citations = json_array();
                if (json_array_size(b->citations) == MODEL_CITATIONS_MAX)
                        return strange(s, "more citations than are taken");
                return json_array_append(b->citations, v) < 0 ? -ENOMEM : 0;
        }
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
                if (strcmp(type, kinds[i].type) != 0)
                        continue;
                v = json_object_get(delta, kinds[i].key);
                if (!json_is_string(v))
                        return strange(s, "a delta without its text");
                return buf_add(i == 3 ? &b->sign : &b->text, json_string_value(v), json_string_length(v));
        }
        return 0; /* a kind that came later than this program */
}

static int append(json_t *block, const char *key, const struct buf *more) {
        const json_t *before = json_object_get(block, key);
        AUTO_BUF struct buf all = { 0 };
        int r = 0;

        if (json_is_string(before))
                r = buf_add(&all, json_string_value(before), json_string_length(before));
        if (r == 0 && more->len > 0)
                r = buf_add(&all, more->data, more->len);
        if (r < 0)
                return r;
        return json_object_set_new(block, key, json_stringn(all.len ? all.data : "", all.len)) < 0 ? -ENOMEM
                                                                                                   : 0;
}

/* The input of a tool: the pieces together are one object, or the call is answered with what was wrong. */
static int close_input(struct model_stream *s, struct block *b) {
        const char *id = json_string_value(json_object_get(b->base, "id"));
        json_t *input;

        if (!id || !json_is_string(json_object_get(b->base, "name")))
                return strange(s, "a tool_use without id or name");
        if (b->text.len == 0)
                return json_is_object(json_object_get(b->base, "input")) ||
                                       json_object_set_new(b->base, "input", json_object()) == 0
                               ? 0
                               : -ENOMEM;
        input = json_modest(b->text.data, b->text.len, MODEL_DEPTH_MAX, MODEL_NESTS_MAX, NULL)
                        ? json_loadb(b->text.data, b->text.len, 0, NULL)
                        : NULL;
        if (!json_is_object(input)) {
                json_decref(input);
                input = json_object();
                if (!s->answer->invalid)
                        s->answer->invalid = json_object();
                if (json_object_set_new(s->answer->invalid, id, json_from_bytes(buf_cstr(&b->text), 512)) < 0)
                        return json_decref(input), -ENOMEM;
        }
        return json_object_set_new(b->base, "input", input) < 0 ? -ENOMEM : 0;
}

static int on_block_stop(struct model_stream *s, const json_t *e) {
        struct block *b = open_block(s, e);
        const char *type = b ? json_string_value(json_object_get(b->base, "type")) : NULL;
        int r = 0;

        if (!type)
                return strange(s, "the end of no block");
        b->open = false;
        if (strcmp(type, "tool_use") == 0)
                r = close_input(s, b);
        else if (strcmp(type, "text") == 0)
                r = append(b->base, "text", &b->text);
        else if (strcmp(type, "thinking") == 0) {
                r = append(b->base, "thinking", &b->text);
                if (r == 0)
                        r = append(b->base, "signature", &b->sign);
        }
        if (r == 0 && b->citations && json_object_set(b->base, "citations", b->citations) < 0)
                r = -ENOMEM;
        buf_deinit(&b->text);
        buf_deinit(&b->sign);
        return r;
}

static int on_delta(struct model_stream *s, const json_t *e) {
        const char *reason = json_string_value(json_object_get(json_object_get(e, "delta"), "stop_reason"));

        if (reason && strlen(reason) < sizeof(s->answer->stop_reason)) /* cut, it might be no text */
                (void) snprintf(s->answer->stop_reason, sizeof(s->answer->stop_reason), "%s", reason);
        take_usage(s->answer, json_object_get(e, "usage"));
        return 0;
}

static int on_stop(struct model_stream *s, const json_t *e) {
        AUTO_JSON json_t *content = json_array();

        (void) e;
        if (!s->started)
                return strange(s, "message_stop before message_start");
        for (size_t i = 0; i < s->n; i++) {
                if (s->blocks[i].open)
                        return strange(s, "message_stop within a block");
                if (json_array_append(content, s->blocks[i].base) < 0)
                        return -ENOMEM;
        }
        if (!content)
                return -ENOMEM;
        s->answer->content = TAKE_PTR(content);
        return 1;
}

static unsigned int status_of(const char *type) {
        static const struct {
                const char *type;
                unsigned int status;
        } known[] = { { "invalid_request_error", 400 },
                      { "authentication_error", 401 },
                      { "permission_error", 403 },
                      { "not_found_error", 404 },
                      { "request_too_large", 413 },
                      { "rate_limit_error", 429 },
                      { "api_error", 500 },
                      { "timeout_error", 504 },
                      { "overloaded_error", 529 } };

        for (size_t i = 0; type && i < ARRAY_SIZE(known); i++) {
                if (strcmp(type, known[i].type) == 0)
                        return known[i].status;
        }
        return 500;
}

static int on_error(struct model_stream *s, const json_t *e) {
        const json_t *error = json_object_get(e, "error");
        const char *type = json_string_value(json_object_get(error, "type"));
        const char *message = json_string_value(json_object_get(error, "message"));

        s->answer->status = status_of(type);
        say(s->answer, "%s: %s", type ? ESC(type) : "error", message ? ESC(message) : "");
        return -ECANCELED;
}

int model_stream_event(struct model_stream *s, const char *data, size_t len) {
        static const struct {
                const char *type;
                int (*on)(struct model_stream *s, const json_t *e);
        } events[] = { { "message_start", on_start },
                       { "content_block_start", on_block_start },
                       { "content_block_delta", on_block_delta },
                       { "content_block_stop", on_block_stop },
                       { "message_delta", on_delta },
                       { "message_stop", on_stop },
                       { "error", on_error } };
        AUTO_JSON json_t *e = NULL;
        const char *type;
        size_t nests;

        s->bytes += len;
        if (s->bytes > MODEL_ANSWER_BYTES_MAX)
                return strange(s, "it does not end");
        if (!json_modest(data, len, MODEL_DEPTH_MAX, MODEL_NESTS_MAX - s->nests, &nests))
                return strange(s, "it is nested too deep, or has too many objects");
        s->nests += nests > EVENT_NESTS ? nests - EVENT_NESTS : 0;
        e = json_loadb(data, len, 0, NULL);
        type = json_string_value(json_object_get(e, "type"));
        if (!type)
                return strange(s, "an event that is no JSON object with a type");
        for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
                if (strcmp(type, events[i].type) == 0)
                        return events[i].on(s, e);
        }
        return 0; /* ping, and what came later than this program */
}

/* --- outcomes ------------------------------------------------------------------------------------------- */

static bool is_overflow(unsigned int status, const char *message) {
        static const char *const words[] = { "prompt is too long", "exceed context limit", "context window",
                                             "maximum context length", "input is too long" };

        if (status == 413)
                return true;
        for (size_t i = 0; status == 400 && i < ARRAY_SIZE(words); i++) {
                if (strcasestr(message, words[i]))
                        return true;
        }
        return false;
}

static int judge(const struct model_answer *a) {
        static const unsigned int again[] = { 408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529 };

        if (is_overflow(a->status, a->reason))
                return MODEL_OVERFLOW;
        for (size_t i = 0; i < ARRAY_SIZE(again); i++) {
                if (a->status == again[i])
                        return MODEL_AGAIN;
        }
        return MODEL_REFUSED;
}

/* A status of failure: the reason is in the body, where there is one. */
static int failed(struct http_exchange *x, uint64_t deadline_ns, struct model_answer *a) {
        AUTO_BUF struct buf body = { 0 };
        AUTO_JSON json_t *e = NULL;
        const char *type, *message;
        uint64_t seconds;
        int r = http_slurp(x, ERROR_BYTES_MAX, deadline_ns, &body);

        (void) r; /* what is there says enough */
        a->status = x->status;
        if (parse_u64(x->retry_after, 0, 86400, &seconds) == 0)
                a->retry_after_ms = seconds * 1000;
        e = json_loadb(buf_cstr(&body), body.len, 0, NULL);
        type = json_string_value(json_object_get(json_object_get(e, "error"), "type"));
        message = json_string_value(json_object_get(json_object_get(e, "error"), "message"));
        if (type && message)
                say(a, "status %u: %s: %s", x->status, ESC(type), ESC(message));
        else
                say(a, "status %u: %s", x->status, ESC(buf_cstr(&body)));
        return judge(a);
}

static uint64_t idle_end(const struct model *m, uint64_t end) {
        const uint64_t idle = clock_ns() + (m->idle_ms ? m->idle_ms : IDLE_MS) * MS;

        return idle < end ? idle : end;
}

/* Reads events until the answer is complete. Return: enum model_outcome, -EPIPE, -ENOMEM. */
static int receive(const struct model *m, struct http_exchange *x, struct model_answer *a) {
        CLEANUP(auto_model_stream) struct model_stream *s = model_stream_new(a);
        AUTO_SSE struct sse sse = { 0 };
        struct sse_event e;
        const uint64_t end = clock_ns() + ANSWER_MS * MS;
        char room[READ_BYTES];
        size_t bytes = 0;
        ssize_t n;
        bool any;

        if (!s)
                return -ENOMEM;
        while ((n = http_read(x, room, sizeof(room), idle_end(m, end))) > 0) {
                size_t at = 0, used;

                /* comments and names of events too */
                bytes += (size_t) n;
                if (bytes > 2 * (size_t) MODEL_ANSWER_BYTES_MAX) {
                        (void) strange(s, "it does not end");
                        return MODEL_AGAIN;
                }

                while (at < (size_t) n) {
                        int r = sse_feed(&sse, room + at, (size_t) n - at, &used, &any, &e);

                        at += used;
                        if (r == 0 && any)
                                r = model_stream_event(s, e.data, e.len);
                        if (r == 1)
                                return MODEL_DONE;
                        if (r == -E2BIG)
                                say(a, "an event of the answer is too long");
                        if (r == -ECANCELED)
                                return judge(a);
                        if (r < 0)
                                return r == -ENOMEM ? r : MODEL_AGAIN;
                }
        }
        if (n == -EPIPE)
                return -EPIPE;
        say(a, "the answer was cut: %s", n == 0 ? "it ended before message_stop" : strerror((int) -n));
        return MODEL_AGAIN;
}

static int dump(json_t *request, struct buf *out, struct model_answer *a) {
        AUTO_FREE char *text = NULL;

        if (json_object_set_new(request, "stream", json_true()) < 0)
                return -ENOMEM;
        text = json_dumps(request, JSON_COMPACT);
        if (!text)
                return -ENOMEM;
        if (strlen(text) > MODEL_REQUEST_BYTES_MAX) {
                say(a, "the request has %zu bytes, %d are the most", strlen(text), MODEL_REQUEST_BYTES_MAX);
                return MODEL_OVERFLOW;
        }
        return buf_str(out, text);
}

int model_call(const struct model *m, json_t *request, struct model_answer *a, struct error *err) {
        char bearer[HTTP_VALUE_MAX] = "", url[HTTP_URL_BYTES_MAX];
        const char *base = m->base_url && *m->base_url ? m->base_url : "https://api.anthropic.com";
        AUTO_HTTP struct http_exchange x = { .stream.fd = -1 };
        struct http_extra extra[] = { { "Content-Type", "application/json" },
                                      { "Accept", "text/event-stream" },
                                      { "anthropic-version", "2023-06-01" },
                                      { "User-Agent", "cofferdam-runner/" COFFERDAM_VERSION },
                                      { m->token     ? "Authorization"
                                        : m->api_key ? "x-api-key"
                                                     : NULL,
                                        m->token ? bearer : m->api_key },
                                      { NULL, NULL } };
        AUTO_BUF struct buf body = { 0 };
        size_t n = strlen(base);
        uint64_t deadline;
        int r;

        while (n > 0 && base[n - 1] == '/')
                n--;
        (void) snprintf(bearer, sizeof(bearer), "Bearer %s", m->token ? m->token : "");
        (void) snprintf(url, sizeof(url), "%.*s/v1/messages", (int) n, base);
        r = dump(request, &body, a);
        if (r != 0)
                return r;
        deadline = clock_ns() + (m->head_ms ? m->head_ms : HEAD_MS) * MS;
        r = http_open(&m->net, &(struct http_question){ "POST", url, extra, &body }, deadline, &x, err);
        if (r == -EPIPE || r == -ENOMEM)
                return r;
        if (r < 0) {
                say(a, "%s", err->msg);
                /* an address that is wrong, or a certificate that is not accepted, stays so */
                return r == -EINVAL || r == -ENOTSUP || (r == -EPROTO && strstr(err->msg, "certificate"))
                               ? MODEL_REFUSED
                               : MODEL_AGAIN;
        }
        if (x.status != 200)
                return failed(&x, deadline, a);
        a->status = x.status;
        buf_deinit(&body);
        return receive(m, &x, a);
}
