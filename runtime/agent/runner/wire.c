#include "runtime/agent/runner/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { POLL_MAX = 64, POLL_MS_MAX = 3600000 };

int wire_init(struct wire *w, int in_fd, int out_fd) {
        *w = (struct wire){ .channel = { .in_fd = -1, .out_fd = -1 }, .pending = PENDING_INIT };
        w->replies = json_object();
        if (!w->replies)
                return -ENOMEM;
        return in_fd < 0 ? 0 : channel_init(&w->channel, in_fd, out_fd);
}

void wire_deinit(struct wire *w) {
        pending_deinit(&w->pending);
        json_decref(w->replies);
        channel_deinit(&w->channel);
}

int wire_send(struct wire *w, enum envelope_type type, json_t *data, struct error *err) {
        AUTO_JSON json_t *own = data;

        if (!own)
                return error_set(err, -ENOMEM, "out of memory");
        return channel_send(&w->channel, type, NULL, own, err);
}

int wire_ask(struct wire *w, enum envelope_type type, json_t *data, char id[static WIRE_ID_SIZE],
             struct error *err) {
        const bool call = type == ENVELOPE_TOOL_CALL;
        AUTO_JSON json_t *own = data;
        int r;

        if (!own)
                return error_set(err, -ENOMEM, "out of memory");
        r = pending_add(&w->pending, call ? "call-" : "ask-",
                        json_integer(call ? ENVELOPE_TOOL_RESULT : ENVELOPE_ASK_USER_ANSWER), id);
        if (r < 0)
                return error_set(err, r, "ask the launcher: %s", strerror(-r));
        r = channel_send(&w->channel, type, id, own, err);
        if (r < 0)
                json_decref(pending_take(&w->pending, id));
        return r;
}

/* One envelope of the launcher once the task runs. What nobody waits for is dropped, whatever it is. */
static void take(struct wire *w, const struct envelope *e) {
        const json_t *type = json_object_get(w->pending.ids, e->id);

        if (!type || json_integer_value(type) != (json_int_t) e->type)
                return;
        json_decref(pending_take(&w->pending, e->id));
        (void) json_object_set_new(w->replies, e->id, e->data ? json_incref(e->data) : json_object());
}

void wire_event(struct wire *w, const char *type, json_t *payload) {
        AUTO_JSON json_t *own = payload;
        struct error err = { 0 };

        if (wire_send(w, ENVELOPE_EVENT, json_pack("{s:s,s:o}", "type", type, "payload", clamp_event(own)),
                      &err) < 0)
                log_warn("event '%s': %s", type, err.msg);
}

/* Takes in what has been read. Return: how many envelopes, -EPIPE. */
static int take_all(struct wire *w) {
        int n = 0;

        for (;;) {
                AUTO_ENVELOPE struct envelope e = { 0 };
                const int r = channel_next(&w->channel, &e, NULL);

                if (r < 0 || (r == 0 && w->channel.eof))
                        w->ended = true;
                if (r <= 0)
                        return w->ended ? -EPIPE : n;
                take(w, &e);
                n++;
        }
}

static int timeout_of(uint64_t deadline_ns) {
        const uint64_t now = clock_ns(), left = deadline_ns > now ? (deadline_ns - now) / 1000000 + 1 : 0;

        if (!deadline_ns)
                return -1;
        return left > POLL_MS_MAX ? POLL_MS_MAX : (int) left;
}

int wire_poll(struct wire *w, struct pollfd *fds, size_t n, uint64_t deadline_ns) {
        struct pollfd all[POLL_MAX];
        int r, ready = 0;

        if (n >= POLL_MAX)
                return -EINVAL;
        for (;;) {
                if (w->ended)
                        return -EPIPE;
                if (n > 0)
                        memcpy(all, fds, n * sizeof(*fds));
                all[n] = (struct pollfd){ .fd = w->channel.in_fd, .events = POLLIN };
                r = poll(all, n + 1, timeout_of(deadline_ns));
                if (r < 0 && errno != EINTR)
                        return -errno;
                if (r > 0 && all[n].revents && (channel_fill(&w->channel) < 0 || take_all(w) < 0)) {
                        w->ended = true;
                        return -EPIPE;
                }
                for (size_t i = 0; r > 0 && i < n; i++) {
                        fds[i].revents = all[i].revents;
                        ready += fds[i].revents != 0;
                }
                if (ready > 0)
                        return ready;
                if ((deadline_ns && clock_ns() >= deadline_ns) || (n == 0 && r > 0))
                        return 0;
        }
}

int wire_answer(struct wire *w, const char *id, json_t **ret, struct error *err) {
        json_t *reply;
        int r = take_all(w); /* a write may have read ahead */

        while (!(reply = json_object_get(w->replies, id)) && r >= 0)
                r = wire_poll(w, NULL, 0, 0);
        if (!reply) {
                json_decref(pending_take(&w->pending, id));
                return error_set(err, -EPIPE, "the launcher's stream ended before the answer");
        }
        *ret = json_incref(reply);
        (void) json_object_del(w->replies, id);
        return 0;
}
