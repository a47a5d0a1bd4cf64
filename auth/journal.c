#include "auth/journal.h"

#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/buf.h"
#include "runtime/base/json.h"

/* how many lines were dropped since the last that was written; the sink is the process's (style rule 19) */
static uint64_t lost;

static void put_line(const char *line, size_t len) {
        struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

        /* a pipe that is ready takes PIPE_BUF bytes without waiting */
        if (len > PIPE_BUF || poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT) ||
            write(STDERR_FILENO, line, len) != (ssize_t) len)
                lost++;
        else
                lost = 0;
}

static void now_text(char out[40]) {
        struct timespec ts = { 0 };
        struct tm tm = { 0 };

        (void) clock_gettime(CLOCK_REALTIME, &ts);
        (void) gmtime_r(&ts.tv_sec, &tm);
        (void) strftime(out, 21, "%Y-%m-%dT%H:%M:%S", &tm);
        (void) snprintf(out + strlen(out), 40 - strlen(out), ".%03ldZ", ts.tv_nsec / 1000000);
}

void journal_say(enum journal_level level, const char *event, json_t *fields) {
        static const char *const levels[] = { "info", "warn", "error" };
        AUTO_JSON json_t *owned = fields, *line = NULL;
        AUTO_BUF struct buf out = { 0 };
        AUTO_FREE char *text = NULL;
        char now[40];

        now_text(now);
        line = json_pack("{s:s, s:s, s:s}", "time", now, "level", levels[level], "event", event);
        if (line && lost > 0)
                (void) json_object_set_new(line, "lines_lost", json_integer((json_int_t) lost));
        if (line && owned)
                (void) json_object_update(line, owned);
        text = line ? json_dumps(line, JSON_COMPACT) : NULL;
        if (!text || buf_fmt(&out, "%s\n", text) < 0)
                lost++;
        else
                put_line(out.data, out.len);
}
