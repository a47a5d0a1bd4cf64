/*
 * DOC: theory of operation
 *
 * A channel is a pair of descriptors and the bytes that were read but not taken. The peer is hostile: lines,
 * nesting and ids have ceilings, a line counts only when it is whole, and one that is malformed ends the
 * channel, because what follows it cannot be trusted to begin where it seems to.
 *
 * Writing never waits for the peer alone: what it says meanwhile is read ahead, up to CHANNEL_INPUT_MAX, and
 * a peer that neither reads nor writes is given up.
 */
#include "runtime/agent/envelope.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { READ_SIZE = 64 << 10, NS_PER_MS = 1000000, TYPE_MAX = 64 };

static const struct {
        const char *name;
        bool from_runner;
} types[] = {
        [ENVELOPE_UNKNOWN] = { "unknown", false },
        [ENVELOPE_HELLO] = { "hello", true },
        [ENVELOPE_PERMISSION_POLICY] = { "permission_policy", false },
        [ENVELOPE_SESSION_REPLAY] = { "session_replay", false },
        [ENVELOPE_TASK] = { "task", false },
        [ENVELOPE_TOOL_CALL] = { "tool_call", true },
        [ENVELOPE_TOOL_RESULT] = { "tool_result", false },
        [ENVELOPE_ASK_USER] = { "ask_user", true },
        [ENVELOPE_ASK_USER_ANSWER] = { "ask_user_answer", false },
        [ENVELOPE_SESSION_CAPTURE] = { "session_capture", true },
        [ENVELOPE_EVENT] = { "event", true },
        [ENVELOPE_RESULT] = { "result", true },
};
static_assert(ARRAY_SIZE(types) == ENVELOPE_TYPE_COUNT, "types[] and enum differ");

const char *envelope_type_name(enum envelope_type type) {
        return types[type].name;
}

bool envelope_from_runner(enum envelope_type type) {
        return types[type].from_runner;
}

static enum envelope_type type_of(const char *name) {
        for (enum envelope_type t = ENVELOPE_UNKNOWN + 1; t < ENVELOPE_TYPE_COUNT; t++)
                if (strcmp(name, types[t].name) == 0)
                        return t;
        return ENVELOPE_UNKNOWN;
}

void envelope_deinit(struct envelope *e) {
        const int saved = errno;

        json_decref(e->line);
        *e = (struct envelope){ 0 };
        errno = saved;
}

static int malformed(const char *line, size_t len, const char *why, struct error *err) {
        char text[ENVELOPE_QUOTE_MAX + 1], quoted[2 * ENVELOPE_QUOTE_MAX];
        const size_t n = len < ENVELOPE_QUOTE_MAX ? len : ENVELOPE_QUOTE_MAX;

        for (size_t i = 0; i < n; i++)
                text[i] = line[i] ? line[i] : ' ';
        text[n] = '\0';
        return error_set(err, -EBADMSG, "malformed envelope: %s: '%s'", why,
                         escape_str(text, quoted, sizeof(quoted)));
}

/* What is wrong with the members that every envelope has; NULL: nothing. */
static const char *take_members(json_t *line, struct envelope *ret) {
        const json_t *type = json_object_get(line, "type"), *id = json_object_get(line, "id");

        if (!json_is_object(line))
                return "no object";
        if (!json_is_string(type) || json_string_length(type) == 0)
                return "no type";
        if (json_string_length(type) > TYPE_MAX ||
            strlen(json_string_value(type)) != json_string_length(type))
                return "its type is no name";
        if (id && !json_is_string(id))
                return "its id is no text";
        if (id && (json_string_length(id) > ENVELOPE_ID_MAX ||
                   strlen(json_string_value(id)) != json_string_length(id)))
                return "its id is too long or has a NUL";
        ret->line = line;
        ret->name = json_string_value(type);
        ret->type = type_of(ret->name);
        ret->id = id ? json_string_value(id) : "";
        ret->data = json_object_get(line, "data");
        return NULL;
}

int envelope_parse(const char *line, size_t len, struct envelope *ret, struct error *err) {
        AUTO_JSON json_t *json = NULL;
        struct envelope e = { 0 };
        json_error_t problem;
        const char *why;

        if (!json_modest(line, len, ENVELOPE_DEPTH_MAX, ENVELOPE_NESTS_MAX, NULL))
                return malformed(line, len, "nested too deep, or too many objects", err);
        json = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
        if (!json && json_error_code(&problem) == json_error_out_of_memory)
                return error_set(err, -ENOMEM, "out of memory");
        if (!json)
                return malformed(line, len, ESC(problem.text), err);
        why = take_members(json, &e);
        if (why)
                return malformed(line, len, why, err);
        TAKE_PTR(json);
        *ret = e;
        return 0;
}

/** struct sink - a line that is being written, and why it cannot be */
struct sink {
        struct buf line;
        int r;
};

static int add_bytes(const char *bytes, size_t len, void *arg) {
        struct sink *sink = arg;

        if (sink->r == 0)
                sink->r = buf_add(&sink->line, bytes, len);
        return sink->r < 0 ? -1 : 0;
}

static void add_text(struct sink *sink, const char *text) {
        (void) add_bytes(text, strlen(text), sink);
}

static void add_json(struct sink *sink, const char *before, const json_t *json) {
        add_text(sink, before);
        if (sink->r == 0 && json_dump_callback(json, add_bytes, sink, JSON_COMPACT | JSON_ENCODE_ANY) < 0 &&
            sink->r == 0)
                sink->r = -ENOMEM;
}

int envelope_encode(enum envelope_type type, const char *id, const json_t *data, struct buf *out,
                    struct error *err) {
        struct sink sink = { .line = { .max = ENVELOPE_LINE_MAX } };
        AUTO_JSON json_t *text = id && *id ? json_string(id) : NULL;
        int r;

        if (id && *id && !text)
                return error_set(err, -EINVAL, "envelope '%s': its id is not UTF-8", types[type].name);
        add_text(&sink, "{\"type\":\"");
        add_text(&sink, types[type].name);
        add_text(&sink, "\"");
        if (text)
                add_json(&sink, ",\"id\":", text);
        if (data)
                add_json(&sink, ",\"data\":", data);
        add_text(&sink, "}\n");
        r = sink.r < 0 ? sink.r : buf_add(out, sink.line.data, sink.line.len);
        buf_deinit(&sink.line);
        if (r == -E2BIG)
                return error_set(err, -EMSGSIZE, "envelope '%s': longer than %d bytes, not sent",
                                 types[type].name, ENVELOPE_LINE_MAX);
        return r < 0 ? error_set(err, r, "envelope '%s': out of memory", types[type].name) : 0;
}

static int set_nonblocking(int fd) {
        const int flags = fcntl(fd, F_GETFL);

        return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

int channel_init(struct channel *c, int in_fd, int out_fd) {
        int r;

        *c = (struct channel){ .in_fd = in_fd, .out_fd = out_fd, .stop_fd = -1 };
        r = set_nonblocking(in_fd);
        return r < 0 ? r : set_nonblocking(out_fd);
}

void channel_deinit(struct channel *c) {
        const int saved = errno;

        buf_deinit(&c->in);
        errno = saved;
}

/* What has been taken makes room. */
static void compact(struct channel *c) {
        if (c->start == 0)
                return;
        c->in.len -= c->start;
        memmove(c->in.data, c->in.data + c->start, c->in.len);
        c->start = 0;
}

int channel_fill(struct channel *c) {
        char bytes[READ_SIZE];
        ssize_t n;

        n = read(c->in_fd, bytes, sizeof(bytes));
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (n == 0) {
                c->eof = true;
                return 0;
        }
        compact(c);
        return buf_add(&c->in, bytes, (size_t) n) < 0 ? -ENOMEM : 1;
}

/* The next line, empty or not, without its newline. Return: 1, 0, -EMSGSIZE. */
static int next_line(struct channel *c, const char **ret, size_t *ret_len, struct error *err) {
        const size_t rest = c->in.len - c->start;
        const char *line = rest > 0 ? c->in.data + c->start : NULL;
        const char *nl = line ? memchr(line + c->scanned, '\n', rest - c->scanned) : NULL;
        const size_t len = nl ? (size_t) (nl - line) : rest;

        c->scanned = nl ? 0 : rest;
        if (len >= ENVELOPE_LINE_MAX)
                return error_set(err, -EMSGSIZE, "envelope line longer than %d bytes", ENVELOPE_LINE_MAX);
        if (!nl && (!c->eof || rest == 0))
                return 0;
        c->start += len + (nl != NULL);
        c->scanned = 0;
        *ret = line;
        *ret_len = len;
        return 1;
}

int channel_line(struct channel *c, const char **ret, size_t *ret_len, struct error *err) {
        size_t len = 0;
        int r;

        do {
                r = next_line(c, ret, &len, err);
        } while (r > 0 && len == 0);
        if (r > 0)
                *ret_len = len;
        return r;
}

int channel_next(struct channel *c, struct envelope *ret, struct error *err) {
        const char *line = NULL;
        size_t len = 0;
        int r;

        r = channel_line(c, &line, &len, err);
        if (r <= 0)
                return r;
        r = envelope_parse(line, len, ret, err);
        return r < 0 ? r : 1;
}

/* Return: what is left of @timeout_ms since @start_ns; -1 stays. */
static int time_left(uint64_t start_ns, int timeout_ms) {
        const uint64_t gone = (clock_ns() - start_ns) / NS_PER_MS;

        if (timeout_ms < 0)
                return -1;
        return gone >= (uint64_t) timeout_ms ? 0 : timeout_ms - (int) gone;
}

int channel_wait(struct channel *c, int timeout_ms, struct envelope *ret, struct error *err) {
        const uint64_t start = clock_ns();

        for (;;) {
                struct pollfd fd = { .fd = c->in_fd, .events = POLLIN };
                int r;

                r = channel_next(c, ret, err);
                if (r != 0 || c->eof)
                        return r;
                r = poll(&fd, 1, time_left(start, timeout_ms));
                if (r < 0 && errno != EINTR)
                        return error_set(err, -errno, "poll: %s", strerror(errno));
                if (r == 0)
                        return error_set(err, -ETIMEDOUT, "the peer said nothing for %d ms", timeout_ms);
                r = r > 0 ? channel_fill(c) : 0;
                if (r < 0)
                        return error_set(err, r, "read from the peer: %s", strerror(-r));
        }
}

/* Waits until the peer takes more, or says something that is kept meanwhile. */
static int wait_writable(struct channel *c, struct error *err) {
        const bool listen = !c->eof && c->in.len - c->start < CHANNEL_INPUT_MAX;
        struct pollfd fds[3] = { { .fd = c->out_fd, .events = POLLOUT },
                                 { .fd = listen ? c->in_fd : -1, .events = POLLIN },
                                 { .fd = c->stop_fd, .events = POLLIN } };
        int r;

        r = poll(fds, ARRAY_SIZE(fds), CHANNEL_STALL_MS);
        if (r < 0)
                return errno == EINTR ? 0 : error_set(err, -errno, "poll: %s", strerror(errno));
        if (r == 0)
                return error_set(err, -ETIMEDOUT, "the peer took nothing for %d s", CHANNEL_STALL_MS / 1000);
        if (fds[2].revents)
                return error_set(err, -ECANCELED, "stopped while the peer took nothing");
        r = fds[1].revents ? channel_fill(c) : 0;
        return r < 0 ? error_set(err, r, "read from the peer: %s", strerror(-r)) : 0;
}

int channel_put(struct channel *c, const char *line, size_t len, struct error *err) {
        size_t done = 0;
        int r = 0;

        while (r == 0 && done < len) {
                const ssize_t n = write(c->out_fd, line + done, len - done);

                if (n >= 0)
                        done += (size_t) n;
                else if (errno == EAGAIN)
                        r = wait_writable(c, err);
                else if (errno != EINTR)
                        r = error_set(err, -errno, "write to the peer: %s", strerror(errno));
        }
        return r;
}

int channel_send(struct channel *c, enum envelope_type type, const char *id, const json_t *data,
                 struct error *err) {
        AUTO_BUF struct buf line = { 0 };
        const int r = envelope_encode(type, id, data, &line, err);

        return r < 0 ? r : channel_put(c, line.data, line.len, err);
}
