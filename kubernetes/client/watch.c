/*
 * DOC: theory of operation
 *
 * A watch knows the objects that it has told its caller of: name -> last state. A list is compared with that,
 * and the differences are events; a stream adds to it line by line. The queue between the stream and the
 * caller is bounded: a transfer is paused by libcurl's own buffer only while nobody turns the client, and
 * what one turn brings is at most KUBE_WATCH_LINE_MAX beyond what is queued.
 *
 * A stream ends all the time (the server closes it after some minutes, as it was asked to); that is no
 * failure. A failure is counted, and after OUTAGE_MS without a word of the server the caller hears of it. A
 * stream that does not end by itself although its time has passed hangs on a dead connection, and is cut.
 */
#include "kubernetes/client/watch.h"

#include <string.h>

#include "kubernetes/client/transfer.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"

enum { STREAM_S = 240, STREAM_SLACK_S = 30, OUTAGE_MS = 60000, QUEUE_MAX = 10000 };

struct kube_watch {
        struct kube *kube;
        enum kube_kind kind;
        char *ns, *name, *labels, *fields, *path;
        char *version; /* to go on from; NULL: list first */
        json_t *known; /* name -> object */
        json_t *queue; /* [event, object]... */
        size_t taken;  /* of the queue */
        struct transfer *stream;
        struct buf line, refusal;
        uint64_t stream_begin_ns, stream_end_ns, last_word_ns, not_before_ns;
        unsigned failures;
        int broken; /* of the sink: -EBADMSG, -EFBIG, -ENOMEM */
};

int kube_watch_parse(const char *line, size_t len, struct kube_watch_event *ret) {
        AUTO_JSON json_t *event = NULL;
        const char *type;
        json_t *object;
        int r = kube_json_parse(line, len, &event);

        if (r < 0)
                return r;
        type = kube_json_text(event, "type", NULL);
        object = json_object_get(event, "object");
        if (!type || strlen(type) >= sizeof(ret->type) || !json_is_object(object))
                return -EBADMSG;
        *ret = (struct kube_watch_event){ .object = json_incref(object) };
        memcpy(ret->type, type, strlen(type));
        return 0;
}

/* --- events
 * ------------------------------------------------------------------------------------------------- */

static int push(struct kube_watch *w, enum kube_event event, json_t *object) {
        if (json_array_size(w->queue) - w->taken >= QUEUE_MAX + (size_t) KUBE_WATCH_OBJECTS_MAX)
                return -EFBIG;
        return json_array_append_new(w->queue, json_pack("[i, O]", (int) event, object)) < 0 ? -ENOMEM : 0;
}

static int see(struct kube_watch *w, json_t *object) {
        const char *name = kube_json_text(object, "metadata", "name", NULL);
        const char *uid = kube_json_text(object, "metadata", "uid", NULL);
        json_t *before;
        const char *was;
        int r = 0;

        if (!name)
                return -EBADMSG;
        if (w->name && strcmp(name, w->name) != 0) /* nobody asked for it */
                return 0;
        before = json_object_get(w->known, name);
        was = kube_json_text(before, "metadata", "uid", NULL);
        if (before && json_equal(before, object))
                return 0;
        /* another one of the same name: the first has gone in between */
        if (before && uid && was && strcmp(uid, was) != 0) {
                r = push(w, KUBE_DELETED, before);
                before = NULL;
        }
        if (r == 0)
                r = push(w, before ? KUBE_MODIFIED : KUBE_ADDED, object);
        if (r == 0 && json_object_size(w->known) >= KUBE_WATCH_OBJECTS_MAX)
                return -EFBIG;
        return r == 0 && json_object_set(w->known, name, object) < 0 ? -ENOMEM : r;
}

static int lose(struct kube_watch *w, json_t *object) {
        const char *name = kube_json_text(object, "metadata", "name", NULL);
        int r;

        if (!name)
                return -EBADMSG;
        r = push(w, KUBE_DELETED, object);
        (void) json_object_del(w->known, name);
        return r;
}

static int set_version(struct kube_watch *w, const char *version) {
        AUTO_FREE char *copy = NULL;

        if (version) {
                copy = strdup(version);
                if (!copy)
                        return -ENOMEM;
        }
        free(w->version);
        w->version = TAKE_PTR(copy);
        return 0;
}

/* What is known and not in @all has gone. */
static int lose_others(struct kube_watch *w, const json_t *all) {
        AUTO_JSON json_t *left = json_copy(w->known);
        const char *name;
        json_t *object;
        size_t i;

        if (!left)
                return -ENOMEM;
        json_array_foreach(all, i, object) {
                name = kube_json_text(object, "metadata", "name", NULL);
                if (name)
                        (void) json_object_del(left, name);
        }
        json_object_foreach(left, name, object) {
                int r = lose(w, object);

                if (r < 0)
                        return r;
        }
        return 0;
}

static int list(struct kube_watch *w, struct error *err) {
        const struct kube_select select = { w->name, w->labels, w->fields };
        AUTO_FREE char *version = NULL;
        AUTO_JSON json_t *all = NULL;
        json_t *object;
        size_t i;
        int r = kube_list(w->kube, w->kind, w->ns, &select, &all, &version, err);

        if (r < 0)
                return r;
        r = lose_others(w, all);
        json_array_foreach(all, i, object) {
                if (r == 0)
                        r = see(w, object);
        }
        if (r == 0)
                r = set_version(w, version);
        return r < 0 ? error_set(err, r, "list %s: %s", kube_kind_name(w->kind), strerror(-r)) : 0;
}

/* --- the stream
 * ---------------------------------------------------------------------------------------------- */

/* Says itself that the version is too old: list again. */
static int take_error(struct kube_watch *w, const json_t *object) {
        struct kube_failure failure;

        kube_failure_read_json(0, object, &failure);
        if (kube_failure_errno(&failure) == -ESTALE)
                return set_version(w, NULL);
        w->failures++; /* anything else: again, and not at once */
        return 0;
}

static int take_line(struct kube_watch *w) {
        struct kube_watch_event event;
        AUTO_JSON json_t *object = NULL;
        const char *version;
        int r = kube_watch_parse(w->line.data, w->line.len, &event);

        if (r < 0)
                return r;
        object = event.object;
        w->last_word_ns = clock_ns();
        if (strcmp(event.type, "ERROR") == 0)
                return take_error(w, object);
        w->failures = 0;
        if (strcmp(event.type, "DELETED") == 0)
                r = lose(w, object);
        else if (strcmp(event.type, "BOOKMARK") != 0)
                r = see(w, object);
        version = kube_json_text(object, "metadata", "resourceVersion", NULL);
        return r == 0 && version ? set_version(w, version) : r;
}

static bool on_bytes(void *arg, const char *data, size_t len) {
        struct kube_watch *w = arg;

        if (transfer_http(w->stream) != 200)
                return buf_add(&w->refusal, data, len) == 0;
        while (len > 0 && w->broken == 0) {
                const char *end = memchr(data, '\n', len);
                const size_t n = end ? (size_t) (end - data) : len;

                w->broken = buf_add(&w->line, data, n);
                if (w->broken == 0 && end && w->line.len > 0)
                        w->broken = take_line(w);
                if (end)
                        w->line.len = 0;
                data += n + (end != NULL);
                len -= n + (end != NULL);
        }
        return w->broken == 0;
}

static int begin(struct kube_watch *w, struct error *err) {
        AUTO_BUF struct buf query = { 0 }, fields = { 0 };
        struct transfer_how how = { .method = "GET", .path = w->path, .sink = on_bytes, .arg = w };
        int r = buf_fmt(&query, "watch=1&allowWatchBookmarks=true&timeoutSeconds=%d", STREAM_S);

        if (r == 0)
                r = kube_query_add(&query, "resourceVersion", w->version);
        if (r == 0 && w->name)
                r = buf_fmt(&fields, "metadata.name=%s", w->name);
        if (r == 0 && w->fields)
                r = buf_fmt(&fields, "%s%s", fields.len > 0 ? "," : "", w->fields);
        if (r == 0 && fields.len > 0)
                r = kube_query_add(&query, "fieldSelector", fields.data);
        if (r == 0 && w->labels)
                r = kube_query_add(&query, "labelSelector", w->labels);
        if (r < 0)
                return error_set(err, -ENOMEM, "out of memory");
        how.query = query.data;
        w->line.len = w->refusal.len = 0;
        w->broken = 0;
        w->stream_begin_ns = clock_ns();
        w->stream_end_ns = w->stream_begin_ns + (STREAM_S + STREAM_SLACK_S) * UINT64_C(1000000000);
        return transfer_start(w->kube, &how, &w->stream, err);
}

/* The server's refusal of a stream, or what cut it. Return: 0: go on (later), or what the caller must hear.
 */
static int after_failure(struct kube_watch *w, int r, unsigned retry_s, struct error *err) {
        const uint64_t now = clock_ns();

        if (r == -ESTALE) { /* once at once */
                (void) set_version(w, NULL);
                if (w->failures++ > 0)
                        w->not_before_ns = now + (uint64_t) kube_pause_ms(w->failures - 1, retry_s) * 1000000;
                return 0;
        }
        if (r == -EPERM || r == -EINVAL || r == -ENOENT || r == -ENOMEM || r == -EKEYREJECTED ||
            r == -ECANCELED)
                return r;
        if (r == -EACCES && w->failures > 0)
                return r;
        if (now - w->last_word_ns > (uint64_t) OUTAGE_MS * 1000000)
                return error_wrap(err, r, "watch %s", kube_kind_name(w->kind));
        w->failures++;
        w->not_before_ns = now + (uint64_t) kube_pause_ms(w->failures, retry_s) * 1000000;
        return 0;
}

static int end_of_stream(struct kube_watch *w, struct error *err) {
        AUTO_TRANSFER struct transfer *t = TAKE_PTR(w->stream);
        const int http = transfer_http(t), broken = w->broken;
        struct kube_failure failure;
        int r;

        w->broken = 0;
        if (broken < 0) {
                r = broken == -E2BIG ? -EFBIG : broken;
                (void) error_set(err, r, "watch %s: %s", w->path,
                                 r == -EFBIG ? "an event that is too long, or too many"
                                             : "not the stream of an API server");
                return r == -EBADMSG ? after_failure(w, r, 0, err) : r;
        }
        if (http != 0 && http != 200) {
                kube_failure_read(http, w->refusal.data, w->refusal.len, &failure);
                r = kube_refused(w->kube, &failure, "GET", w->path, err);
                return after_failure(w, r, transfer_retry_s(t), err);
        }
        r = transfer_error(t, err);
        if (http == 0)
                return after_failure(w, r < 0 ? r : -EBADMSG, 0, err);
        w->last_word_ns = clock_ns(); /* it was there until now; a cut or an end is the same */
        if (w->last_word_ns - w->stream_begin_ns < UINT64_C(1000000000))
                w->failures++; /* one that ends as soon as it begins, again and again, is asked for more
                                  slowly */
        if (w->failures > 0)
                w->not_before_ns = clock_ns() + (uint64_t) kube_pause_ms(w->failures, 0) * 1000000;
        return 0;
}

/* One step towards the next event. */
static int advance(struct kube_watch *w, uint64_t deadline_ns, struct error *err) {
        const uint64_t now = clock_ns();
        int r;

        if (w->stream && w->stream->done)
                return end_of_stream(w, err);
        if (w->stream && now > w->stream_end_ns)
                w->stream = transfer_free(w->stream); /* a dead connection */
        if (!w->stream && now < w->not_before_ns)
                return kube_turn(w->kube, deadline_ns < w->not_before_ns ? deadline_ns : w->not_before_ns,
                                 err);
        if (!w->stream && !w->version) {
                r = list(w, err);
                if (r == 0)
                        w->last_word_ns = clock_ns();
                return r < 0 ? after_failure(w, r, 0, err) : 0;
        }
        if (!w->stream) {
                r = begin(w, err);
                if (r < 0)
                        return r;
        }
        return kube_turn(w->kube, deadline_ns < w->stream_end_ns ? deadline_ns : w->stream_end_ns, err);
}

static bool queued(struct kube_watch *w, enum kube_event *ret, json_t **ret_object) {
        const json_t *first = json_array_get(w->queue, w->taken);

        if (!first)
                return false;
        *ret = (enum kube_event) json_integer_value(json_array_get(first, 0));
        *ret_object = json_incref(json_array_get(first, 1));
        w->taken++;
        if (w->taken == json_array_size(w->queue)) {
                (void) json_array_clear(w->queue);
                w->taken = 0;
        }
        return true;
}

int kube_watch_next(struct kube_watch *w, uint64_t deadline_ns, enum kube_event *ret, json_t **ret_object,
                    struct error *err) {
        for (;;) {
                int r;

                if (queued(w, ret, ret_object))
                        return 0;
                if (clock_ns() >= deadline_ns)
                        return error_set(err, -ETIMEDOUT, "watch %s: time is over", kube_kind_name(w->kind));
                r = advance(w, deadline_ns, err);
                if (r < 0)
                        return r;
        }
}

/* --- open, close
 * --------------------------------------------------------------------------------------------- */

static int copy(const char *s, char **ret) {
        *ret = s ? strdup(s) : NULL;
        return s && !*ret ? -ENOMEM : 0;
}

struct kube_watch *kube_watch_free(struct kube_watch *w) {
        if (!w)
                return NULL;
        (void) transfer_free(w->stream);
        free(w->ns);
        free(w->name);
        free(w->labels);
        free(w->fields);
        free(w->path);
        free(w->version);
        json_decref(w->known);
        json_decref(w->queue);
        buf_deinit(&w->line);
        buf_deinit(&w->refusal);
        free(w);
        return NULL;
}

int kube_watch_open(struct kube *kube, enum kube_kind kind, const char *ns, const struct kube_select *select,
                    struct kube_watch **ret, struct error *err) {
        AUTO_KUBE_WATCH struct kube_watch *w = calloc(1, sizeof(*w));
        AUTO_BUF struct buf path = { 0 };
        int r;

        if (!w)
                return error_set(err, -ENOMEM, "out of memory");
        w->kube = kube;
        w->kind = kind;
        w->line.max = KUBE_WATCH_LINE_MAX;
        w->refusal.max = KUBE_MESSAGE_MAX * 16;
        w->known = json_object();
        w->queue = json_array();
        r = w->known && w->queue ? copy(ns, &w->ns) : -ENOMEM;
        if (r == 0 && select)
                r = copy(select->name, &w->name);
        if (r == 0 && select)
                r = copy(select->labels, &w->labels);
        if (r == 0 && select)
                r = copy(select->fields, &w->fields);
        if (r < 0)
                return error_set(err, r, "out of memory");
        r = kube_path(kube, kind, ns, NULL, NULL, &path, err);
        if (r < 0)
                return r;
        w->path = buf_take(&path);
        r = list(w, err);
        if (r < 0)
                return r;
        w->last_word_ns = clock_ns();
        *ret = TAKE_PTR(w);
        return 0;
}

int kube_wait_gone(struct kube *kube, enum kube_kind kind, const char *ns, const char *name, const char *uid,
                   uint64_t deadline_ns, struct error *err) {
        const struct kube_select select = { .name = name };
        AUTO_KUBE_WATCH struct kube_watch *w = NULL;
        bool there = false;
        int r = kube_watch_open(kube, kind, ns, &select, &w, err);

        while (r == 0) {
                AUTO_JSON json_t *object = NULL;
                enum kube_event event = KUBE_ADDED;
                const char *its;

                /* what the list said is queued; it said nothing: gone before */
                if (!there && json_array_size(w->queue) == 0)
                        return 0;
                r = kube_watch_next(w, deadline_ns, &event, &object, err);
                if (r < 0)
                        break;
                its = kube_json_text(object, "metadata", "uid", NULL);
                there = event != KUBE_DELETED && (!uid || (its && strcmp(its, uid) == 0));
                if (!there)
                        return 0;
        }
        return r == -ETIMEDOUT ? error_set(err, r, "%s '%s' is still there", kube_kind_name(kind), name) : r;
}
