#include "kubernetes/client/logs.h"

#include <string.h>

#include "kubernetes/client/transfer.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"

enum { FOLLOW_ATTEMPTS = 8, REFUSAL_MAX = 16 << 10, READ_S = 120 };

/* --- the tail
 * ------------------------------------------------------------------------------------------------ */

/* The ring is a plain buffer of up to twice @max, whose first half is dropped when it is full: each byte is
 * moved at most once. */
int kube_tail_add(struct kube_tail *tail, const void *data, size_t len) {
        const char *bytes = data;
        size_t keep;

        tail->total += len;
        if (len >= tail->max) {
                bytes += len - tail->max;
                len = tail->max;
                tail->ring.len = 0;
        } else if (tail->ring.len + len > 2 * tail->max) {
                keep = tail->max - len;
                memmove(tail->ring.data, tail->ring.data + tail->ring.len - keep, keep);
                tail->ring.len = keep;
        }
        tail->ring.max = 2 * tail->max;
        return len > 0 ? buf_add(&tail->ring, bytes, len) : 0;
}

int kube_tail_text(const struct kube_tail *tail, struct buf *out, bool *ret_truncated) {
        size_t keep = tail->ring.len < tail->max ? tail->ring.len : tail->max;
        const char *from = keep > 0 ? tail->ring.data + tail->ring.len - keep : "";
        const bool cut = tail->total > keep;
        int r = 0;

        for (int n = 0; cut && n < 3 && keep > 0 && ((unsigned char) *from & 0xc0) == 0x80; n++) {
                from++; /* the rest of a character */
                keep--;
        }
        if (cut)
                r = buf_fmt(out, "[... %llu bytes truncated ...]\n",
                            (unsigned long long) (tail->total - keep));
        if (r == 0 && keep > 0)
                r = buf_add(out, from, keep);
        if (r == 0 && ret_truncated)
                *ret_truncated = cut;
        return r;
}

void kube_tail_deinit(struct kube_tail *tail) {
        buf_deinit(&tail->ring);
}

/* --- a stream
 * ------------------------------------------------------------------------------------------------ */

struct stream {
        struct transfer *transfer;
        int (*sink)(void *arg, const void *data, size_t len);
        void *arg;
        int r;
        uint64_t seen, skip; /* bytes handed on in all; bytes of this connection that were handed on before */
        uint64_t deadline_ns;
        struct buf refusal;
};

static bool on_bytes(void *arg, const char *data, size_t len) {
        struct stream *s = arg;

        if (transfer_http(s->transfer) != 200)
                return buf_add(&s->refusal, data, len) == 0;
        if (s->skip >= len) {
                s->skip -= len;
                return true;
        }
        data += s->skip;
        len -= (size_t) s->skip;
        s->skip = 0;
        s->seen += len;
        s->r = s->sink(s->arg, data, len);
        return s->r == 0;
}

static int log_query(const char *container, bool follow, struct buf *query) {
        int r = follow ? kube_query_add(query, "follow", "true") : 0;

        return r == 0 && container ? kube_query_add(query, "container", container) : r;
}

/* One connection, from the beginning of the log. */
static int read_once(struct kube *kube, const char *path, const char *query, struct stream *s,
                     struct error *err) {
        const struct transfer_how how = {
                .method = "GET", .path = path, .query = query, .sink = on_bytes, .arg = s
        };
        struct kube_failure failure;
        int http, r;

        s->skip = s->seen;
        s->refusal.len = 0;
        s->refusal.max = REFUSAL_MAX;
        r = transfer_start(kube, &how, &s->transfer, err);
        if (r < 0)
                return r;
        while (r == 0 && !s->transfer->done) {
                if (clock_ns() >= s->deadline_ns)
                        r = error_set(err, -ETIMEDOUT, "the log goes on, and time is over");
                else
                        r = kube_turn(kube, s->deadline_ns, err);
        }
        if (r == 0 && s->r < 0)
                r = error_set(err, s->r, "hand on a log: %s", strerror(-s->r));
        if (r == 0)
                r = transfer_error(s->transfer, err);
        http = transfer_http(s->transfer);
        if (r == 0 && http != 200) {
                kube_failure_read(http, s->refusal.data, s->refusal.len, &failure);
                r = kube_refused(kube, &failure, "GET", path, err);
        }
        s->transfer = transfer_free(s->transfer);
        return r;
}

static int read_all(struct kube *kube, const char *ns, const char *pod, const char *container, bool follow,
                    struct stream *s, struct error *err) {
        AUTO_BUF struct buf path = { 0 }, query = { 0 };
        int r = kube_path(kube, KUBE_POD, ns, pod, "log", &path, err);

        if (r < 0)
                return r;
        if (log_query(container, follow, &query) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        for (unsigned n = 1;; n++) {
                const uint64_t before = s->seen;

                r = read_once(kube, path.data, query.data, s, err);
                if (s->seen > before)
                        n = 1;
                /* cut, or refused for now */
                if (s->r < 0 || n >= FOLLOW_ATTEMPTS || clock_ns() >= s->deadline_ns ||
                    (r != -ECONNRESET && r != -ETIMEDOUT && r != -ENETUNREACH && r != -EREMOTEIO &&
                     r != -EAGAIN))
                        break;
                r = kube_pause(kube, kube_pause_ms(n, 0), err);
                if (r < 0)
                        break;
        }
        buf_deinit(&s->refusal);
        return r;
}

static int into_tail(void *arg, const void *data, size_t len) {
        return kube_tail_add(arg, data, len);
}

/* NOLINTNEXTLINE(readability-function-size): one parameter more than a struct of two would leave */
int kube_logs(struct kube *kube, const char *ns, const char *pod, const char *container, size_t max,
              struct buf *out, bool *ret_truncated, struct error *err) {
        struct kube_tail tail = { .max = max > 0 ? max : KUBE_LOG_BYTES };
        struct stream s = { .sink = into_tail,
                            .arg = &tail,
                            .deadline_ns = clock_ns() + READ_S * UINT64_C(1000000000) };
        int r = read_all(kube, ns, pod, container, false, &s, err);

        if (r == 0 && (r = kube_tail_text(&tail, out, ret_truncated)) < 0)
                (void) error_set(err, r, "keep a log: %s", strerror(-r));
        kube_tail_deinit(&tail);
        return r;
}

/* NOLINTNEXTLINE(readability-function-size): one parameter more than a struct of two would leave */
int kube_logs_follow(struct kube *kube, const char *ns, const char *pod, const char *container,
                     int (*sink)(void *arg, const void *data, size_t len), void *arg, uint64_t deadline_ns,
                     struct error *err) {
        struct stream s = { .sink = sink,
                            .arg = arg,
                            .deadline_ns = deadline_ns > 0 ? deadline_ns : UINT64_MAX };
        int r = read_all(kube, ns, pod, container, true, &s, err);

        return r == -ENOENT && s.seen > 0 ? 0 : r;
}
