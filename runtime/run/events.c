#include "runtime/run/events.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/error.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

/* RFC 3339 with nanoseconds, UTC. */
static void timestamp(char out[48]) {
        struct timespec now = { 0 };
        struct tm tm = { 0 };
        size_t n;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        (void) gmtime_r(&now.tv_sec, &tm);
        n = strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
        (void) snprintf(out + n, 48 - n, ".%09ldZ", now.tv_nsec);
}

static char *line_of(struct events *events, const char *type, json_t *data) {
        AUTO_JSON json_t *event = NULL;
        AUTO_FREE char *text = NULL;
        AUTO_BUF struct buf line = { 0 };
        char time[48];

        timestamp(time);
        event = json_pack("{s:I,s:s,s:s,s:s,s:O}", "seq", (json_int_t) events->seq, "time", time, "run_id",
                          events->run_id, "type", type, "data", data);
        text = event ? json_dumps(event, JSON_COMPACT) : NULL;
        if (!text)
                return NULL;
        if (strlen(text) >= EVENT_MAX_BYTES) {
                AUTO_JSON json_t *cut = json_pack("{s:I}", "truncated", (json_int_t) strlen(text));

                return cut ? line_of(events, type, cut) : NULL;
        }
        if (buf_str(&line, text) < 0 || buf_add(&line, "\n", 1) < 0)
                return NULL;
        return buf_take(&line);
}

/* ---- the sink ---- */

static void give_up(struct events *events, int error) {
        events->sink_fd = -1; /* owned by the caller; only not used any more */
        events->sink_errno = error;
        buf_deinit(&events->backlog);
}

/* At most one line, and no more than a pipe takes whole when poll(2) says that it takes something. */
static ssize_t write_some(int fd, const struct buf *b) {
        const char *end = memchr(b->data, '\n', b->len);
        const size_t line = end ? (size_t) (end - b->data) + 1 : b->len,
                     n = line < PIPE_BUF ? line : PIPE_BUF;
        ssize_t r;

        r = send(fd, b->data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        return r < 0 && errno == ENOTSOCK ? write(fd, b->data, n) : r;
}

bool events_flush(struct events *events) {
        struct buf *b = &events->backlog;

        while (events->sink_fd >= 0 && b->len > 0) {
                struct pollfd p = { .fd = events->sink_fd, .events = POLLOUT };
                ssize_t n;

                if (poll(&p, 1, 0) != 1)
                        break;
                n = p.revents & POLLNVAL ? -1 : write_some(events->sink_fd, b);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        break;
                if (n <= 0) {
                        give_up(events, errno);
                        break;
                }
                b->len -= (size_t) n;
                memmove(b->data, b->data + n, b->len);
        }
        return b->len > 0;
}

void events_poll(const struct events *events, struct pollfd *fd) {
        *fd = (struct pollfd){ .fd = events->backlog.len > 0 ? events->sink_fd : -1, .events = POLLOUT };
}

void events_drain(struct events *events, unsigned int ms) {
        const uint64_t end = clock_ns() + ms * 1000000ULL;

        while (events_flush(events) && clock_ns() < end) {
                struct pollfd p;

                events_poll(events, &p);
                (void) poll(&p, 1, (int) ((end - clock_ns()) / 1000000) + 1);
        }
}

static void put_sink(struct events *events, const char *lines, size_t len) {
        if (events->sink_fd < 0)
                return;
        if (events->backlog.len + len > EVENTS_BACKLOG_MAX || buf_add(&events->backlog, lines, len) < 0)
                give_up(events, ETIMEDOUT);
        (void) events_flush(events);
}

/* ---- the file ---- */

/* A whole line or nothing. */
static bool put_file(struct events *events, const char *line, size_t len) {
        struct stat st;
        ssize_t n;

        do
                n = write(events->file_fd, line, len);
        while (n < 0 && errno == EINTR);
        if (n == (ssize_t) len)
                return true;
        if (n > 0 && (fstat(events->file_fd, &st) < 0 || ftruncate(events->file_fd, st.st_size - n) < 0))
                events->file_fd = -1; /* owned by the caller; whoever writes next ends the line */
        errno = n < 0 ? errno : ENOSPC;
        return false;
}

/* Return: false: the file did not take it, and errno says why. */
static bool put(struct events *events, const char *line) {
        const size_t len = strlen(line);

        put_sink(events, line, len);
        return events->file_fd < 0 || put_file(events, line, len);
}

/* Return: as put(). */
static bool emit(struct events *events, const char *type, json_t *data) {
        AUTO_JSON json_t *owned = data ? data : json_object();
        AUTO_FREE char *line = NULL;

        events->seq++;
        line = owned ? line_of(events, type, owned) : NULL;
        if (!line) {
                events->seq--;
                return true;
        }
        return put(events, line);
}

static bool emit_degraded(struct events *events, const char *wanted, const char *got, const char *reason) {
        return emit(events, "sandbox_degraded",
                    json_pack("{s:s,s:s,s:s}", "wanted", wanted, "got", got, "reason", reason));
}

/* What has to be said after an event that the file took or did not take. */
static void settle(struct events *events, bool taken) {
        char got[64];
        int error;

        if (!taken) {
                events->lost++;
                return;
        }
        if (events->lost > 0) {
                (void) snprintf(got, sizeof(got), "all but the %" PRIu64 " before this", events->lost);
                events->lost = emit_degraded(events, "all events in events.jsonl", got,
                                             "they could not be written: is the disk full?")
                                       ? 0
                                       : events->lost + 1;
        }
        error = events->sink_errno;
        events->sink_errno = 0;
        if (error)
                events->lost +=
                        !emit_degraded(events, "all events in the file of --events", "the first ones",
                                       error == ETIMEDOUT ? "its reader does not keep up" : strerror(error));
}

void events_emit(struct events *events, const char *type, json_t *data) {
        settle(events, emit(events, type, data));
}

/* What the launcher of an agent says (runtime/agent/launch/events.c): no name that the supervisor uses. */
static const char *const client_types[] = {
        "delegate_started",    "delegate_finished", "llm_request",      "llm_step_finished",
        "llm_retry",           "llm_compacted",     "llm_turn_capture", "tool_started",
        "tool_called",         "tool_refused",      "ask_user",         "session_captured",
        "mcp_server_degraded", "user_message",      "agent_requested",
};

static bool is_client_type(const char *type) {
        for (size_t i = 0; i < ARRAY_SIZE(client_types); i++)
                if (strcmp(type, client_types[i]) == 0)
                        return true;
        return false;
}

bool events_pass(struct events *events, const char *type, const char *json) {
        const size_t len = strlen(json);
        AUTO_BUF struct buf line = { .max = EVENT_MAX_BYTES - 1 };
        char time[48];

        if (!is_client_type(type) || len < 2 || json[0] != '{' || json[len - 1] != '}' ||
            !utf8_valid(json, len))
                return false;
        for (size_t i = 0; i < len; i++)
                if ((unsigned char) json[i] < ' ')
                        return false;
        timestamp(time);
        if (buf_fmt(&line,
                    "{\"seq\":%" PRIu64 ",\"time\":\"%s\",\"run_id\":\"%s\",\"type\":\"%s\",\"data\":%s}\n",
                    events->seq + 1, time, events->run_id, type, json) < 0)
                return false;
        events->seq++;
        settle(events, put(events, line.data));
        return true;
}

int64_t events_size(const struct events *events) {
        struct stat st;

        return events->file_fd >= 0 && fstat(events->file_fd, &st) == 0 ? st.st_size : -1;
}

void events_deinit(struct events *events) {
        buf_deinit(&events->backlog);
}

void events_refused(struct events *events, const char *failure_code, const char *reason) {
        events_emit(events, "sandbox_refused",
                    json_pack("{s:s,s:o}", "failure_code", failure_code, "reason",
                              json_from_bytes(reason, ERROR_MSG_MAX)));
}

/* The number of the last whole line in @text. */
static uint64_t last_number(char *text, size_t len) {
        while (len > 0) {
                char *end = memrchr(text, '\n', len), *start;
                AUTO_JSON json_t *event = NULL;
                const json_t *seq;

                if (!end)
                        return 0;
                start = memrchr(text, '\n', (size_t) (end - text));
                start = start ? start + 1 : text;
                event = json_loadb(start, (size_t) (end - start), 0, NULL);
                seq = json_object_get(event, "seq");
                if (json_is_integer(seq) && json_integer_value(seq) > 0)
                        return (uint64_t) json_integer_value(seq);
                len = (size_t) (start - text);
        }
        return 0;
}

void events_catch_up(struct events *events, int64_t from) {
        const int64_t size = events_size(events);
        AUTO_FREE char *text = NULL;
        ssize_t n;

        if (from < 0 || size <= from || size - from > BUF_MAX_DEFAULT)
                return;
        text = malloc((size_t) (size - from));
        n = text ? pread(events->file_fd, text, (size_t) (size - from), from) : -1;
        if (n <= 0)
                return;
        if (text[n - 1] != '\n' && write_all(events->file_fd, "\n", 1) < 0)
                events->file_fd = -1; /* it was killed, and the disk is full */
        while (n > 0 && text[n - 1] != '\n')
                n--;
        if (last_number(text, (size_t) n) > events->seq)
                events->seq = last_number(text, (size_t) n);
        put_sink(events, text, (size_t) n);
}

int events_reopen(int run_fd, struct events *events) {
        AUTO_FD int fd = openat(run_fd, "events.jsonl", O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
        AUTO_FREE char *tail = malloc(2 * EVENT_MAX_BYTES);
        struct stat st;
        ssize_t n;
        off_t from;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!tail)
                return -ENOMEM;
        from = st.st_size > 2 * EVENT_MAX_BYTES ? st.st_size - 2 * EVENT_MAX_BYTES : 0;
        n = pread(fd, tail, 2 * EVENT_MAX_BYTES, from);
        if (n < 0)
                return -errno;
        if (n > 0 && tail[n - 1] != '\n' && write_all(fd, "\n", 1) < 0)
                return -EIO;
        events->seq = last_number(tail, (size_t) n);
        events->file_fd = fd;
        return TAKE_FD(fd);
}
