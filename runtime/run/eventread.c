#include "runtime/run/eventread.h"

#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/run/events.h"
#include "runtime/run/follow.h"

/** struct reading - lines on their way to the callback */
struct reading {
        const struct event_filter *filter;
        event_fn fn;
        void *arg;
        struct buf line; /* the beginning of one whose end has not come */
        int said;        /* by the callback */
};

static bool is_wanted(const struct event_filter *filter, const json_t *event) {
        const char *type = json_string_value(json_object_get(event, "type"));
        const json_int_t seq = json_integer_value(json_object_get(event, "seq"));
        bool found = !filter->types;

        for (size_t i = 0; type && i < filter->n_types; i++)
                found |= strcmp(type, filter->types[i]) == 0;
        return found && (filter->since == 0 || (uint64_t) seq > filter->since);
}

/* One whole line. Return: 0, 1 (enough). */
static int on_line(struct reading *r) {
        AUTO_JSON json_t *event = json_loadb(r->line.data, r->line.len, 0, NULL);

        if (event && is_wanted(r->filter, event))
                r->said = r->fn(event, r->line.data, r->line.len, r->arg);
        r->line.len = 0;
        return r->said != 0;
}

static int put(const char *data, size_t len, void *arg) {
        struct reading *reading = arg;
        const char *end;
        int r;

        while ((end = memchr(data, '\n', len))) {
                const size_t n = (size_t) (end + 1 - data);

                r = buf_add(&reading->line, data, n);
                if (r < 0)
                        return r;
                if (on_line(reading))
                        return -ECANCELED;
                data += n;
                len -= n;
        }
        return len > 0 ? buf_add(&reading->line, data, len) : 0;
}

int events_read(const struct run_dir *dir, const struct event_filter *filter, event_fn fn, void *arg,
                struct error *err) {
        struct reading reading = {
                .filter = filter, .fn = fn, .arg = arg, .line = { .max = 2 * EVENT_MAX_BYTES }
        };
        AUTO_FD int pidfd = -1;
        int r;

        if (filter->follow)
                pidfd = follow_pidfd(dir); /* none: it has ended, what is there is all */
        r = follow_file(dir->fd, "events.jsonl", pidfd < 0 ? -1 : pidfd, put, &reading);
        buf_deinit(&reading.line);
        if (reading.said != 0)
                return reading.said;
        return r < 0 ? error_set(err, r, "events of run %s: %s", dir->id, strerror(-r)) : 0;
}
