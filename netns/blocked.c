#include "netns/blocked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "netns/preset.h"

struct entry {
        char host[HOST_NAME_BYTES_MAX + 1];
        char reason[BLOCKED_TEXT_MAX], rule[BLOCKED_TEXT_MAX];
        bool has_rule;
        uint16_t port;
        uint64_t count; /* not told yet */
};

struct blocked_log {
        struct loop *loop;
        blocked_fn fn;
        void *arg;
        struct entry entries[BLOCKED_HOSTS_MAX];
        size_t n;
        uint64_t others, total;
        struct loop_queue queue;
        struct loop_timer timer;
};

int blocked_new(struct loop *loop, uint64_t period_ns, blocked_fn fn, void *arg, struct blocked_log **ret) {
        struct blocked_log *log = calloc(1, sizeof(*log));

        if (!log)
                return -ENOMEM;
        log->loop = loop;
        log->fn = fn;
        log->arg = arg;
        log->queue.ns = period_ns;
        *ret = log;
        return 0;
}

static void tell(struct blocked_log *log, const struct entry *e, uint64_t count) {
        const struct blocked b = { .host = e->host,
                                   .port = e->port,
                                   .reason = e->reason,
                                   .rule = e->has_rule ? e->rule : NULL,
                                   .count = count };

        log->fn(log->arg, &b);
}

/* Tells what was counted, and forgets whom nobody asked for in the last period. Return: whether any is left.
 */
static bool flush(struct blocked_log *log) {
        size_t kept = 0;

        for (size_t i = 0; i < log->n; i++) {
                struct entry *e = &log->entries[i];

                if (e->count == 0)
                        continue;
                tell(log, e, e->count);
                e->count = 0;
                log->entries[kept++] = *e;
        }
        log->n = kept;
        if (log->others > 0)
                tell(log, &(struct entry){ .reason = "refusals of many other hosts" }, log->others);
        log->others = 0;
        return kept > 0;
}

static void on_period(struct loop_timer *timer) {
        struct blocked_log *log =
                (struct blocked_log *) (void *) ((char *) timer - offsetof(struct blocked_log, timer));

        if (flush(log))
                loop_start(log->loop, &log->timer, &log->queue, on_period);
}

struct blocked_log *blocked_free(struct blocked_log *log) {
        if (!log)
                return NULL;
        loop_cancel(&log->timer);
        (void) flush(log);
        free(log);
        return NULL;
}

void blocked_note(struct blocked_log *log, const char *host, uint16_t port, const char *reason,
                  const char *rule) {
        struct entry *e;

        log->total++;
        if (preset_is_telemetry(host))
                return;
        for (size_t i = 0; i < log->n; i++) {
                e = &log->entries[i];
                if (e->port == port && strcmp(e->host, host) == 0 &&
                    strncmp(e->reason, reason, sizeof(e->reason) - 1) == 0) {
                        e->count++;
                        return;
                }
        }
        if (!log->timer.queue)
                loop_start(log->loop, &log->timer, &log->queue, on_period);
        if (log->n == BLOCKED_HOSTS_MAX) {
                log->others++;
                return;
        }
        e = &log->entries[log->n++];
        *e = (struct entry){ .port = port, .has_rule = rule != NULL };
        (void) snprintf(e->host, sizeof(e->host), "%s", host);
        (void) snprintf(e->reason, sizeof(e->reason), "%s", reason);
        (void) snprintf(e->rule, sizeof(e->rule), "%s", rule ? rule : "");
        tell(log, e, 1);
}

uint64_t blocked_total(const struct blocked_log *log) {
        return log->total;
}
