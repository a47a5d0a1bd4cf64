#include "runtime/run/events.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

enum { SINK_WAIT_MS = 1000 };

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

/* Whether @fd takes data within SINK_WAIT_MS: a reader that sleeps must not hold up the run. */
static bool writable(int fd) {
        struct pollfd p = { .fd = fd, .events = POLLOUT };

        return poll(&p, 1, SINK_WAIT_MS) == 1 && (p.revents & POLLOUT) != 0;
}

/* @at_once: bytes that the descriptor takes without blocking when poll(2) says so */
static void put(int *fd, const char *line, size_t at_once) {
        for (size_t left = strlen(line), n; *fd >= 0 && left > 0; line += n, left -= n) {
                n = left < at_once ? left : at_once;
                if (!writable(*fd) || write_all(*fd, line, n) < 0)
                        *fd = -1; /* owned by the caller; only not used any more */
        }
}

void events_emit(struct events *events, const char *type, json_t *data) {
        AUTO_JSON json_t *owned = data ? data : json_object();
        AUTO_FREE char *line = NULL;

        if (!owned)
                return;
        events->seq++;
        line = line_of(events, type, owned);
        if (!line) {
                events->seq--;
                return;
        }
        put(&events->file_fd, line, EVENT_MAX_BYTES); /* our own file: a whole line in one write */
        put(&events->sink_fd, line, PIPE_BUF);
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
