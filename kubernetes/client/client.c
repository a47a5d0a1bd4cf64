/*
 * DOC: theory of operation
 *
 * One curl_multi carries everything of a client: the call that waits, and the watches beside it. kube_turn()
 * lets them go on; it is the only place that waits, for sockets and the stop descriptor together.
 *
 * What the server sends is bounded before it is kept (bytes) and before it is parsed (depth), and what it
 * says about a failure is cut and escaped (status.c). An attempt ends by its timeout; the number of attempts
 * and the pauses between them are bounded.
 */
#include "kubernetes/client/client.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "kubernetes/client/config.h"
#include "kubernetes/client/transfer.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { PAUSE_MS_FIRST = 200, PAGE = 500, LIST_ATTEMPTS = 3, TURN_MS = 1000, WAIT_MAX = 8 };

struct kube {
        struct kube_config *config;
        CURLM *multi;
        int stop_fd, exec_version;
        size_t answer_bytes; /* of the last call */
        struct kube_failure failure;
};

int kube_open_consume(struct kube_config *config, struct kube **ret, struct error *err) {
        struct kube *kube = calloc(1, sizeof(*kube));

        if (!kube || !(kube->multi = curl_multi_init())) {
                free(kube);
                return error_set(err, -ENOMEM, "out of memory");
        }
        kube->stop_fd = -1;
        kube->config = config;
        *ret = kube;
        return 0;
}

struct kube *kube_free(struct kube *kube) {
        if (!kube)
                return NULL;
        (void) curl_multi_cleanup(kube->multi);
        (void) kube_config_free(kube->config);
        free(kube);
        return NULL;
}

void kube_set_stop(struct kube *kube, int fd) {
        kube->stop_fd = fd;
}

int kube_stop_fd(const struct kube *kube) {
        return kube->stop_fd;
}

const struct kube_config *kube_config_of(const struct kube *kube) {
        return kube->config;
}

struct kube_config *kube_config_mutable(struct kube *kube) {
        return kube->config;
}

const struct kube_failure *kube_failure(const struct kube *kube) {
        return &kube->failure;
}

/* --- transfers on the multi handle -------------------------------------------------------------------------
 */

struct transfer *transfer_free(struct transfer *t) {
        if (!t)
                return NULL;
        if (t->added)
                (void) curl_multi_remove_handle(t->kube->multi, t->easy);
        curl_easy_cleanup(t->easy);
        curl_slist_free_all(t->headers);
        curl_slist_free_all(t->connect_to);
        free(t->body);
        free(t->url);
        free(t);
        return NULL;
}

int transfer_add(struct transfer *t) {
        t->added = curl_multi_add_handle(t->kube->multi, t->easy) == CURLM_OK;
        return t->added ? 0 : -ENOMEM;
}

int transfer_start(struct kube *kube, const struct transfer_how *how, struct transfer **ret,
                   struct error *err) {
        AUTO_TRANSFER struct transfer *t = NULL;
        int r;

        r = transfer_new(kube, &t, err);
        if (r < 0)
                return r;
        t->sink = how->sink;
        t->arg = how->arg;
        r = transfer_equip(t, how->path, how->query, how->again, err);
        if (r < 0)
                return r;
        r = transfer_set_request(t, how);
        if (r == 0)
                r = transfer_add(t);
        if (r < 0)
                return error_set(err, r, "out of memory");
        *ret = TAKE_PTR(t);
        return 0;
}

static void collect_ends(struct kube *kube) {
        CURLMsg *msg;
        int left;

        while ((msg = curl_multi_info_read(kube->multi, &left))) {
                char *private = NULL;
                struct transfer *t;

                if (msg->msg != CURLMSG_DONE)
                        continue;
                (void) curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private);
                t = (struct transfer *) (void *) private;
                t->result = msg->data.result;
                t->done = true;
        }
}

int kube_turn_with(struct kube *kube, struct curl_waitfd *more, unsigned n, uint64_t deadline_ns,
                   struct error *err) {
        struct pollfd p = { .fd = kube->stop_fd, .events = POLLIN };
        struct curl_waitfd all[WAIT_MAX] = { 0 };
        const uint64_t now = clock_ns();
        int running = 0, ms = TURN_MS;
        CURLMcode r;

        assert(n < WAIT_MAX);
        if (deadline_ns <= now)
                ms = 0;
        else if (deadline_ns - now < (uint64_t) TURN_MS * 1000000)
                ms = (int) ((deadline_ns - now) / 1000000 + 1);
        for (unsigned i = 0; i < n; i++)
                all[i] = more[i];
        all[n] = (struct curl_waitfd){ .fd = kube->stop_fd, .events = CURL_WAIT_POLLIN };
        r = curl_multi_poll(kube->multi, all, kube->stop_fd >= 0 ? n + 1 : n, ms, NULL);
        for (unsigned i = 0; i < n; i++)
                more[i].revents = all[i].revents;
        if (r == CURLM_OK)
                r = curl_multi_perform(kube->multi, &running);
        if (r != CURLM_OK)
                return error_set(err, -ENOMEM, "libcurl: %s", curl_multi_strerror(r));
        collect_ends(kube);
        if (kube->stop_fd >= 0 && poll(&p, 1, 0) > 0)
                return error_set(err, -ECANCELED, "stopped");
        return 0;
}

int kube_turn(struct kube *kube, uint64_t deadline_ns, struct error *err) {
        return kube_turn_with(kube, NULL, 0, deadline_ns, err);
}

int kube_exec_known(const struct kube *kube) {
        return kube->exec_version;
}

void kube_exec_learn(struct kube *kube, int version) {
        kube->exec_version = version;
}

int kube_pause(struct kube *kube, unsigned ms, struct error *err) {
        const uint64_t end = clock_ns() + (uint64_t) ms * 1000000;
        int r = 0;

        while (r == 0 && clock_ns() < end)
                r = kube_turn(kube, end, err);
        return r;
}

unsigned kube_pause_ms(unsigned attempt, unsigned retry_s) {
        const unsigned grown = (unsigned) PAUSE_MS_FIRST << (attempt < 10 ? attempt - 1 : 9);

        if (retry_s > 0)
                return retry_s < KUBE_PAUSE_MS_MAX / 1000 ? retry_s * 1000 : KUBE_PAUSE_MS_MAX;
        return grown < KUBE_PAUSE_MS_MAX ? grown : KUBE_PAUSE_MS_MAX;
}

/* --- kinds and paths ---------------------------------------------------------------------------------------
 */

static const struct {
        const char *name, *group, *base;
        bool cluster;
} kinds[] = {
        [KUBE_NAMESPACE] = { "namespaces", "", "/api/v1", true },
        [KUBE_NODE] = { "nodes", "", "/api/v1", true },
        [KUBE_POD] = { "pods", "", "/api/v1", false },
        [KUBE_CONFIGMAP] = { "configmaps", "", "/api/v1", false },
        [KUBE_SECRET] = { "secrets", "", "/api/v1", false },
        [KUBE_PVC] = { "persistentvolumeclaims", "", "/api/v1", false },
        [KUBE_SERVICEACCOUNT] = { "serviceaccounts", "", "/api/v1", false },
        [KUBE_EVENT] = { "events", "", "/api/v1", false },
        [KUBE_JOB] = { "jobs", "batch", "/apis/batch/v1", false },
        [KUBE_NETWORKPOLICY] = { "networkpolicies", "networking.k8s.io", "/apis/networking.k8s.io/v1",
                                 false },
        [KUBE_LEASE] = { "leases", "coordination.k8s.io", "/apis/coordination.k8s.io/v1", false },
};
static_assert(ARRAY_SIZE(kinds) == KUBE_KIND_COUNT, "kinds[] and enum differ");

const char *kube_kind_name(enum kube_kind kind) {
        return kinds[kind].name;
}

const char *kube_kind_group(enum kube_kind kind) {
        return kinds[kind].group;
}

/* RFC 3986: everything but unreserved characters */
static int encode(struct buf *out, const char *s) {
        int r = 0;

        for (; *s && r == 0; s++)
                r = strchr("-._~", *s) || (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
                                    (*s >= 'A' && *s <= 'Z')
                            ? buf_add(out, s, 1)
                            : buf_fmt(out, "%%%02X", (unsigned) (unsigned char) *s);
        return r;
}

int kube_query_add(struct buf *query, const char *key, const char *value) {
        int r = query->len > 0 ? buf_str(query, "&") : 0;

        if (r == 0)
                r = encode(query, key);
        if (r == 0)
                r = buf_str(query, "=");
        return r == 0 ? encode(query, value) : r;
}

static int segment(struct buf *out, const char *s, const char *what, struct error *err) {
        if (!*s || strcmp(s, ".") == 0 || strcmp(s, "..") == 0 || strlen(s) > 253)
                return error_set(err, -EINVAL, "%s '%s': no name of an object", what, ESC(s));
        if (buf_str(out, "/") < 0 || encode(out, s) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return 0;
}

int kube_path(const struct kube *kube, enum kube_kind kind, const char *ns, const char *name, const char *sub,
              struct buf *out, struct error *err) {
        int r = buf_str(out, kinds[kind].base);

        if (r == 0 && !kinds[kind].cluster)
                r = buf_str(out, "/namespaces");
        if (r < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (!kinds[kind].cluster)
                r = segment(out, ns ? ns : kube_config_namespace(kube->config), "namespace", err);
        if (r == 0)
                r = segment(out, kinds[kind].name, "kind", err);
        if (r == 0 && name)
                r = segment(out, name, "name", err);
        return r == 0 && sub ? segment(out, sub, "subresource", err) : r;
}

/* --- calls -------------------------------------------------------------------------------------------------
 */

int kube_refused(struct kube *kube, const struct kube_failure *failure, const char *method, const char *path,
                 struct error *err) {
        const int r = kube_failure_errno(failure);

        kube->failure = *failure;
        return error_set(err, r < 0 ? r : -EBADMSG, "%s %s: %d %s", method, path, failure->http,
                         failure->message[0] ? failure->message
                                             : (failure->reason[0] ? failure->reason : "without a reason"));
}

static bool keep(void *arg, const char *data, size_t len) {
        return buf_add(arg, data, len) == 0;
}

/* struct attempt - what came of one */
struct attempt {
        int r; /* 0 or negative errno, with the message in the caller's err */
        unsigned retry_s;
        json_t *body;
};

static int wait_for(struct kube *kube, struct transfer *t, struct error *err) {
        int r = 0;

        while (r == 0 && !t->done)
                r = kube_turn(kube, UINT64_MAX, err);
        return r;
}

static int judge(struct kube *kube, const struct kube_request *q, const struct transfer *t,
                 const struct buf *body, struct attempt *a, struct error *err) {
        const int http = transfer_http(t);
        struct kube_failure failure;
        int r;

        if (http < 200 || http >= 300) {
                kube_failure_read(http, body->data, body->len, &failure);
                a->retry_s = transfer_retry_s(t);
                if (a->retry_s == 0)
                        a->retry_s = failure.retry_s;
                return kube_refused(kube, &failure, q->method, q->path, err);
        }
        if (body->len == 0)
                return 0;
        r = kube_json_parse(body->data, body->len, &a->body);
        if (r < 0)
                return error_set(err, r,
                                 "%s %s: the answer is not JSON of an API server, or nested too deeply",
                                 q->method, q->path);
        return 0;
}

static void try_once(struct kube *kube, const struct kube_request *q, bool again, struct attempt *a,
                     struct error *err) {
        AUTO_BUF struct buf body = { .max = KUBE_ANSWER_BYTES_MAX };
        AUTO_TRANSFER struct transfer *t = NULL;
        const struct transfer_how how = {
                .method = q->method,
                .path = q->path,
                .query = q->query,
                .content_type = q->content_type,
                .body = q->body,
                .timeout_ms = q->timeout_ms > 0 ? q->timeout_ms : KUBE_CALL_MS,
                .again = again,
                .sink = keep,
                .arg = &body,
        };

        *a = (struct attempt){ 0 };
        kube->failure = (struct kube_failure){ 0 };
        a->r = transfer_start(kube, &how, &t, err);
        if (a->r == 0)
                a->r = wait_for(kube, t, err);
        if (a->r == 0)
                a->r = transfer_error(t, err);
        kube->answer_bytes = body.len;
        if (a->r == 0)
                a->r = judge(kube, q, t, &body, a, err);
}

/* Whether it makes sense to say the same again. */
static bool worth_another(const struct kube *kube, const struct kube_request *q, int r) {
        if (r == -EAGAIN || r == -EREMOTEIO || r == -ENETUNREACH)
                return true;
        if (r == -ETIMEDOUT && kube->failure.http == 408)
                return true;
        return (r == -ECONNRESET || r == -ETIMEDOUT) && strcmp(q->method, "POST") != 0;
}

/* @ret_broke: an attempt broke in the middle; NULL: such a POST is not tried again */
static int call(struct kube *kube, const struct kube_request *q, json_t **ret, bool *ret_broke,
                struct error *err) {
        const unsigned attempts = q->attempts > 0 ? q->attempts : KUBE_ATTEMPTS;
        bool renewed = false, again = false;
        struct attempt a;

        for (unsigned n = 1;; n++) {
                int r;

                try_once(kube, q, again, &a, err);
                again = a.r == -EACCES && kube->failure.http == 401 && !renewed &&
                        kube_credential_renewable(kube->config);
                if (again) {
                        renewed = true;
                        continue;
                }
                if (ret_broke &&
                    (a.r == -ECONNRESET || a.r == -ETIMEDOUT || a.r == -EBADMSG || a.r == -EREMOTEIO))
                        *ret_broke = true;
                if (n >= attempts || !(worth_another(kube, q, a.r) ||
                                       (ret_broke && (a.r == -ECONNRESET || a.r == -ETIMEDOUT))))
                        break;
                r = kube_pause(kube, kube_pause_ms(n, a.retry_s), err);
                if (r < 0)
                        return r;
        }
        if (a.r == 0 && ret)
                *ret = TAKE_PTR(a.body);
        json_decref(a.body);
        return a.r;
}

int kube_call(struct kube *kube, const struct kube_request *request, json_t **ret, struct error *err) {
        AUTO_JSON json_t *body = NULL;
        int r = call(kube, request, &body, NULL, err);

        if (r < 0)
                return r;
        if (ret && !body)
                return error_set(err, -EBADMSG, "%s %s: an empty answer", request->method, request->path);
        if (ret)
                *ret = TAKE_PTR(body);
        return 0;
}

/* A call on an object or collection. */
static int on_object(struct kube *kube, enum kube_kind kind, const char *ns, const char *name,
                     struct kube_request *q, json_t **ret, struct error *err) {
        AUTO_BUF struct buf path = { 0 };
        int r = kube_path(kube, kind, ns, name, NULL, &path, err);

        if (r < 0)
                return r;
        q->path = path.data;
        return kube_call(kube, q, ret, err);
}

int kube_get(struct kube *kube, enum kube_kind kind, const char *ns, const char *name, json_t **ret,
             struct error *err) {
        struct kube_request q = { .method = "GET" };

        return on_object(kube, kind, ns, name, &q, ret, err);
}

int kube_replace(struct kube *kube, enum kube_kind kind, const char *ns, const char *name,
                 const json_t *object, json_t **ret, struct error *err) {
        struct kube_request q = { .method = "PUT", .body = object };

        return on_object(kube, kind, ns, name, &q, ret, err);
}

int kube_patch(struct kube *kube, enum kube_kind kind, const char *ns, const char *name, const json_t *patch,
               json_t **ret, struct error *err) {
        struct kube_request q = { .method = "PATCH",
                                  .content_type = "application/merge-patch+json",
                                  .body = patch };

        return on_object(kube, kind, ns, name, &q, ret, err);
}

/* Whether the object is still the one that was meant. */
static bool has_uid(struct kube *kube, enum kube_kind kind, const char *ns, const char *name,
                    const struct kube_delete *how) {
        AUTO_JSON json_t *there = NULL;
        const char *uid;

        if (kube_get(kube, kind, ns, name, &there, NULL) < 0)
                return false;
        uid = kube_json_text(there, "metadata", "uid", NULL);
        return !how || !how->uid || (uid && strcmp(uid, how->uid) == 0);
}

int kube_delete(struct kube *kube, enum kube_kind kind, const char *ns, const char *name,
                const struct kube_delete *how, struct error *err) {
        AUTO_JSON json_t *options = json_pack("{s:s, s:s}", "apiVersion", "v1", "kind", "DeleteOptions");
        struct kube_request q = { .method = "DELETE", .body = options };
        int r = options ? 0 : -1;

        if (r == 0 && how && how->uid)
                r = json_object_set_new(options, "preconditions", json_pack("{s:s}", "uid", how->uid));
        if (r == 0 && how && how->propagation)
                r = json_object_set_new(options, "propagationPolicy", json_string(how->propagation));
        if (r == 0 && how && how->has_grace)
                r = json_object_set_new(options, "gracePeriodSeconds", json_integer(how->grace_s));
        if (r < 0)
                return error_set(err, -ENOMEM, "out of memory");
        for (unsigned n = 1;; n++) { /* a conflict is another uid, or somebody who wrote at the same time */
                r = on_object(kube, kind, ns, name, &q, NULL, err);
                if (r != -EBUSY || n >= KUBE_ATTEMPTS || !has_uid(kube, kind, ns, name, how))
                        return r;
                r = kube_pause(kube, kube_pause_ms(n, 0), err);
                if (r < 0)
                        return r;
        }
}

/* --- create ------------------------------------------------------------------------------------------------
 */

/* Whether all that @want has of @key in its metadata, @have has too. */
static bool has_all(const json_t *have, const json_t *want, const char *key) {
        const json_t *all = json_object_get(json_object_get(have, "metadata"), key);
        json_t *wanted = json_object_get(json_object_get(want, "metadata"), key);
        const char *name;
        json_t *value;

        json_object_foreach(wanted, name, value) {
                if (!json_equal(json_object_get(all, name), value))
                        return false;
        }
        return true;
}

static int was_ours(struct kube *kube, enum kube_kind kind, const char *ns, const json_t *object,
                    json_t **ret, struct error *err) {
        const char *name = kube_json_text(object, "metadata", "name", NULL);
        struct error first = *err;
        json_t *there = NULL;
        int r = name ? kube_get(kube, kind, ns, name, &there, err) : -ENOENT;

        if (r == 0 && has_all(there, object, "labels") && has_all(there, object, "annotations")) {
                *ret = there;
                return 0;
        }
        json_decref(there);
        *err = first;
        return -EEXIST;
}

int kube_create(struct kube *kube, enum kube_kind kind, const char *ns, const json_t *object, json_t **ret,
                struct error *err) {
        struct kube_request q = { .method = "POST", .body = object };
        AUTO_BUF struct buf path = { 0 };
        AUTO_JSON json_t *made = NULL;
        struct error mine = { 0 };
        bool broke = false;
        int r = kube_path(kube, kind, ns, NULL, NULL, &path, err);

        if (r < 0)
                return r;
        q.path = path.data;
        r = call(kube, &q, &made, &broke, &mine);
        if (r == -EEXIST && broke)
                r = was_ours(kube, kind, ns, object, &made, &mine);
        if (r == 0 && !made)
                r = error_set(&mine, -EBADMSG, "POST %s: an empty answer", path.data);
        if (r < 0)
                return error_set(err, r, "%s", mine.msg);
        if (ret)
                *ret = TAKE_PTR(made);
        return 0;
}

/* --- list --------------------------------------------------------------------------------------------------
 */

static int list_query(const struct kube_select *select, const char *next, struct buf *query) {
        AUTO_BUF struct buf fields = { 0 };
        int r = buf_fmt(query, "limit=%d", PAGE);

        if (r == 0 && select && select->name)
                r = buf_fmt(&fields, "metadata.name=%s", select->name);
        if (r == 0 && select && select->fields)
                r = buf_fmt(&fields, "%s%s", fields.len > 0 ? "," : "", select->fields);
        if (r == 0 && fields.len > 0)
                r = kube_query_add(query, "fieldSelector", fields.data);
        if (r == 0 && select && select->labels)
                r = kube_query_add(query, "labelSelector", select->labels);
        return r == 0 && next ? kube_query_add(query, "continue", next) : r;
}

/* One page more. @next: owned, NULL when it was the last */
static int list_page(struct kube *kube, const char *path, const struct kube_select *select, json_t *all,
                     char **next, char **version, struct error *err) {
        AUTO_BUF struct buf query = { 0 };
        AUTO_JSON json_t *page = NULL;
        const json_t *items;
        struct kube_request q = { .method = "GET", .path = path };
        const char *more, *at;
        int r = list_query(select, *next, &query);

        if (r < 0)
                return error_set(err, -ENOMEM, "out of memory");
        q.query = query.data;
        r = kube_call(kube, &q, &page, err);
        if (r < 0)
                return r;
        items = json_object_get(page, "items");
        at = kube_json_text(page, "metadata", "resourceVersion", NULL);
        if ((!json_is_array(items) && !json_is_null(items)) || !at)
                return error_set(err, -EBADMSG, "GET %s: the answer is no list", path);
        more = kube_json_text(page, "metadata", "continue", NULL);
        free(*next);
        free(*version);
        *next = more && *more ? strdup(more) : NULL;
        *version = strdup(at);
        if (!*version || (more && *more && !*next) ||
            (json_is_array(items) && json_array_extend(all, json_object_get(page, "items")) < 0))
                return error_set(err, -ENOMEM, "out of memory");
        return 0;
}

static int list_all(struct kube *kube, const char *path, const struct kube_select *select, json_t *all,
                    char **version, struct error *err) {
        AUTO_FREE char *next = NULL;
        size_t bytes = 0, pages = 0;
        int r;

        do {
                r = list_page(kube, path, select, all, &next, version, err);
                bytes += kube->answer_bytes;
                if (r == 0 && json_array_size(all) > KUBE_LIST_MAX)
                        return error_set(err, -EFBIG, "GET %s: more than %d objects", path, KUBE_LIST_MAX);
                if (r == 0 && (bytes > KUBE_LIST_BYTES_MAX || ++pages > KUBE_LIST_PAGES_MAX))
                        return error_set(err, -EFBIG, "GET %s: a list without an end", path);
        } while (r == 0 && next);
        return r;
}

int kube_list(struct kube *kube, enum kube_kind kind, const char *ns, const struct kube_select *select,
              json_t **ret, char **ret_version, struct error *err) {
        AUTO_BUF struct buf path = { 0 };
        int r = kube_path(kube, kind, ns, NULL, NULL, &path, err);

        for (int n = 0; r == 0 && n < LIST_ATTEMPTS; n++) {
                AUTO_JSON json_t *all = json_array();
                AUTO_FREE char *version = NULL;

                if (!all)
                        return error_set(err, -ENOMEM, "out of memory");
                r = list_all(kube, path.data, select, all, &version, err);
                if (r == 0) {
                        *ret = TAKE_PTR(all);
                        if (ret_version)
                                *ret_version = TAKE_PTR(version);
                        return 0;
                }
                if (r == -ESTALE && n + 1 < LIST_ATTEMPTS)
                        r = 0;
        }
        return r;
}

/* --- what we may, and who it is ----------------------------------------------------------------------------
 */

/* NOLINTNEXTLINE(readability-function-size): the words of a review */
int kube_allowed(struct kube *kube, const char *ns, const char *verb, const char *group, const char *resource,
                 const char *subresource, bool *ret, struct error *err) {
        AUTO_JSON json_t *review =
                json_pack("{s:s, s:s, s:{s:{s:s, s:s, s:s, s:s, s:s}}}", "apiVersion",
                          "authorization.k8s.io/v1", "kind", "SelfSubjectAccessReview", "spec",
                          "resourceAttributes", "namespace", ns ? ns : kube_config_namespace(kube->config),
                          "verb", verb, "group", group, "resource", resource, "subresource", subresource);
        const struct kube_request q = { .method = "POST",
                                        .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                                        .body = review };
        AUTO_JSON json_t *answer = NULL;
        const json_t *allowed;
        bool broke = false;
        int r;

        if (!review)
                return error_set(err, -ENOMEM, "out of memory");
        r = call(kube, &q, &answer, &broke, err); /* it changes nothing, so it may be repeated */
        if (r < 0)
                return r;
        allowed = json_object_get(json_object_get(answer, "status"), "allowed");
        if (!json_is_boolean(allowed))
                return error_set(err, -EBADMSG, "POST %s: no status.allowed in the answer", q.path);
        *ret = json_is_true(allowed);
        return 0;
}

int kube_version(struct kube *kube, char ret[64], unsigned *ret_minor, struct error *err) {
        const struct kube_request q = { .method = "GET", .path = "/version" };
        AUTO_JSON json_t *answer = NULL;
        const char *version, *minor;
        int r = kube_call(kube, &q, &answer, err);

        if (r < 0)
                return r;
        version = kube_json_text(answer, "gitVersion", NULL);
        minor = kube_json_text(answer, "minor", NULL);
        if (!version)
                return error_set(err, -EBADMSG, "GET /version: no gitVersion: not an API server");
        (void) escape_str(version, ret, 64);
        *ret_minor = minor ? (unsigned) strtoul(minor, NULL, 10) : 0;
        return 0;
}
