/*
 * DOC: theory of operation
 *
 * check the owner -> end an earlier attempt of the step -> date everything -> extend or make the claim,
 * policy -> pod -> its Secret -> wait until it runs -> copy the workspace. What was made is remembered, and a
 * failure ends it in reverse. Then the pod is watched: its end is the end of the run. At the order to stop
 * the workspace comes back, and everything is deleted in reverse.
 *
 * The driver may die at any point: the end of the socket is the order to stop. This process may die at any
 * point: then the pod's deadline, its owner or the reaper end what it made.
 */
#include "kubernetes/life/run.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fs/rules-json.h"
#include "kubernetes/client/watch.h"
#include "kubernetes/command.h"
#include "kubernetes/life/copy.h"
#include "kubernetes/life/order.h"
#include "kubernetes/life/secret.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/json.h"

enum {
        NS_PER_MS = 1000000,
        MADE_MAX = 64,
        SKIPPED_TOLD_MAX = 100,
        UNMAKE_MS = 300000, /* after it nothing more is tried */
        LATE_TRIES = 10,    /* to find what may have been made late */
        LATE_MS = 500,
        GONE_MS = 90000,    /* for the end of the pod at the end of the run */
        AGAIN_MS = 5000,    /* between two tries to watch */
        OVER_MS = 3000,     /* for the reason of what failed in the pod */
        ACCOUNT_MS = 30000, /* a new namespace has no service account for a while */
};

/** struct made - what has to go again */
struct made {
        enum kube_kind kind;
        char *name, *uid; /* owned */
};

struct run {
        struct order order;
        struct life life;
        struct kube *kube;
        struct made made[MADE_MAX];
        size_t n_made;
        char *uid; /* of the pod, owned */
        struct pack_report report;
        struct remote_pod pod;
        bool copied;
        bool ran; /* the pod was ready */
        bool cut; /* nobody knows whether the last of @made was made */
        uint64_t skipped;
        const char *code; /* of the failure */
};

static void tell(json_t *message) {
        AUTO_FREE char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

        if (text && strlen(text) < RUN_TEXT_MAX)
                (void) !fdpass_send(RUN_SOCK, text, strlen(text), NULL, 0);
        json_decref(message);
}

static void on_warn(void *arg, const char *text) {
        (void) arg;
        tell(json_pack("{s:s,s:o}", "t", "warn", "text", json_from_bytes(text, 2048)));
}

static void phase(const char *name) {
        tell(json_pack("{s:s,s:s,s:I}", "t", "phase", "name", name, "ns", (json_int_t) clock_ns()));
}

static const char *meta(const json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(json_object_get(object, "metadata"), key));

        return text ? text : "";
}

/* ---- making ---- */

static int remember(struct run *run, enum kube_kind kind, const json_t *object, struct error *err) {
        struct made *m = &run->made[run->n_made];

        if (run->n_made >= MADE_MAX)
                return error_set(err, -E2BIG, "more than %d objects", MADE_MAX);
        m->kind = kind;
        m->name = strdup(meta(object, "name"));
        m->uid = strdup(meta(object, "uid"));
        if (!m->name || !m->uid) {
                free(m->name);
                free(m->uid);
                return error_set(err, -ENOMEM, "out of memory");
        }
        run->n_made++;
        return 0;
}

/* A namespace that was just made refuses pods until its service account is there. */
static bool is_account_missing(const struct run *run, int r) {
        return r == -EPERM && strstr(kube_failure(run->kube)->message, "service account") != NULL;
}

static bool stop_wanted(int timeout_ms) {
        struct pollfd p = { .fd = RUN_SOCK, .events = POLLIN };

        return poll(&p, 1, timeout_ms) != 0;
}

static int make(struct run *run, enum kube_kind kind, const json_t *object, json_t **ret, struct error *err) {
        const uint64_t until = clock_ns() + (uint64_t) ACCOUNT_MS * NS_PER_MS;
        AUTO_JSON json_t *made = NULL;
        int r;

        for (;;) {
                r = kube_create(run->kube, kind, run->order.ns, object, &made, err);
                if (kind != KUBE_POD || !is_account_missing(run, r) || clock_ns() > until || stop_wanted(500))
                        break;
                if (err)
                        *err = (struct error){ 0 };
        }
        if (r < 0) {
                /* refused - or an attempt broke in the middle and was carried out: its name is ours alone */
                (void) !remember(run, kind, object, NULL);
                run->cut = r == -ECANCELED || r == -ECONNRESET || r == -ETIMEDOUT || r == -EREMOTEIO;
                return error_wrap(err, r, "create %s '%s'", kube_kind_name(kind), ESC(meta(object, "name")));
        }
        r = remember(run, kind, made, err);
        if (r == 0 && ret)
                *ret = TAKE_PTR(made);
        return r;
}

/* An order that nobody read would, when this process ends, throw away what it has said last. */
static void hear_orders(void) {
        char order[8];

        while (recv(RUN_SOCK, order, sizeof(order), MSG_DONTWAIT) > 0)
                ;
}

static int unmake_one(struct run *run, const struct made *m, struct error *err) {
        const struct kube_delete how = { .uid = *m->uid ? m->uid : NULL };
        int r;

        if (m->kind == KUBE_PVC && run->ran) /* an environment outlives a pod that ran */
                return 0;
        r = kube_delete(run->kube, m->kind, run->order.ns, m->name, &how, err);
        /* made, or not: what was cut off may be carried out a moment later */
        for (int i = 0; r == -ENOENT && run->cut && i < LATE_TRIES; i++) {
                (void) poll(NULL, 0, LATE_MS);
                r = kube_delete(run->kube, m->kind, run->order.ns, m->name, &how, err);
        }
        return r == 0 && m->kind == KUBE_POD
                       ? kube_wait_gone(run->kube, KUBE_POD, run->order.ns, m->name, how.uid,
                                        clock_ns() + (uint64_t) GONE_MS * NS_PER_MS, err)
                       : r;
}

/* In reverse. Return: how many are left. */
static size_t unmake(struct run *run) {
        const uint64_t until = clock_ns() + (uint64_t) UNMAKE_MS * NS_PER_MS;
        size_t left = 0;

        kube_set_stop(run->kube, -1);
        while (run->n_made > 0) {
                struct made *m = &run->made[--run->n_made];
                struct error err = { 0 };
                int r = clock_ns() < until ? unmake_one(run, m, &err)
                                           : error_set(&err, -ETIMEDOUT, "the API server is too slow");

                run->cut = false; /* that was the last one to be made */
                if (r < 0 && r != -ENOENT && r != -EBUSY) {
                        left++;
                        life_warn(&run->life,
                                  "%s '%s' is left behind: %s: 'cofferdam gc' ends it when it expires",
                                  kube_kind_name(m->kind), m->name, err.msg);
                }
                free(m->name);
                free(m->uid);
        }
        hear_orders();
        return left;
}

static int kind_of(const char *name, enum kube_kind *ret) {
        static const struct {
                const char *name;
                enum kube_kind kind;
        } kinds[] = { { "Secret", KUBE_SECRET },
                      { "ConfigMap", KUBE_CONFIGMAP },
                      { "NetworkPolicy", KUBE_NETWORKPOLICY },
                      { "PersistentVolumeClaim", KUBE_PVC } };

        for (size_t i = 0; name && i < ARRAY_SIZE(kinds); i++)
                if (strcmp(kinds[i].name, name) == 0) {
                        *ret = kinds[i].kind;
                        return 0;
                }
        return -EINVAL;
}

static int make_objects(struct run *run, struct error *err) {
        size_t i;
        json_t *row;

        json_array_foreach(run->order.objects, i, row) {
                enum kube_kind kind;
                int r = kind_of(json_string_value(json_object_get(row, "kind")), &kind);

                if (r < 0)
                        return error_set(err, r, "order: an object of an unknown kind");
                r = make(run, kind, json_object_get(row, "object"), NULL, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Behind the pod, whose it is. */
static int make_secret(struct run *run, struct error *err) {
        AUTO_JSON json_t *made = NULL;
        int r;

        if (!run->order.secret)
                return 0;
        r = secret_make(run->kube,
                        &(struct secret_request){ .ns = run->order.ns,
                                                  .object = run->order.secret,
                                                  .files = run->order.secret_files,
                                                  .values_fd = RUN_SECRETS,
                                                  .pod_name = run->order.pod_name,
                                                  .pod_uid = run->uid },
                        &made, err);
        return r < 0 ? r : remember(run, KUBE_SECRET, made, err);
}

/* The environment that is used again: it is there, ours and alive; its time begins anew. */
static int extend_claim(struct run *run, struct error *err) {
        const struct order *o = &run->order;
        AUTO_JSON json_t *claim = NULL;
        const json_t *labels;
        const char *managed, *component;
        int r;

        if (!o->extend_claim)
                return 0;
        r = kube_get(run->kube, KUBE_PVC, o->ns, o->extend_claim, &claim, err);
        if (r < 0 && r != -ENOENT)
                return error_wrap(err, r, "failed to read environment '%s'", ESC(o->extend_claim));
        labels = json_object_get(json_object_get(claim, "metadata"), "labels");
        managed = json_string_value(json_object_get(labels, KUBE_LABEL_MANAGED_BY));
        component = json_string_value(json_object_get(labels, KUBE_LABEL_COMPONENT));
        if (r == -ENOENT || !managed || !component ||
            strcmp(managed, o->managed_by ? o->managed_by : KUBE_DEFAULT_MANAGER) != 0 ||
            strcmp(component, "environment") != 0 ||
            json_object_get(json_object_get(claim, "metadata"), "deletionTimestamp"))
                return error_set(err, -ENOENT, "environment '%s' not found or expired", ESC(o->extend_claim));
        r = kube_patch(run->kube, KUBE_PVC, o->ns, o->extend_claim, o->extend_patch, NULL, err);
        return r < 0 ? error_wrap(err, r, "failed to extend environment '%s'", ESC(o->extend_claim)) : 0;
}

/* ---- waiting ---- */

static int broken(struct run *run, const struct life_verdict *v, struct error *err) {
        run->code = v->code ? v->code : "SANDBOX_SETUP_FAILED";
        return error_set(err, -EIO, "pod '%s': %s", run->order.pod_name, v->text);
}

/* What stood in its way so long, from the last look at it. */
static int overdue(struct run *run, const json_t *pod, struct life_verdict *v, struct error *err) {
        life_capacity(pod, v);
        run->code = v->code;
        return error_set(err, -EIO, "pod '%s' does not run after %u s: %s: see kubernetes.start_timeout",
                         run->order.pod_name, (unsigned int) (run->order.ready_ms / 1000), v->text);
}

static int wait_ready(struct run *run, json_t **ret, struct error *err) {
        const uint64_t deadline = clock_ns() + run->order.ready_ms * NS_PER_MS;
        const struct kube_select select = { .name = run->order.pod_name };
        AUTO_KUBE_WATCH struct kube_watch *watch = NULL;
        AUTO_JSON json_t *last = NULL;
        struct life_verdict v = { .state = LIFE_WAITING };
        int r;

        r = kube_watch_open(run->kube, KUBE_POD, run->order.ns, &select, &watch, err);
        while (r == 0) {
                AUTO_JSON json_t *pod = NULL;
                enum kube_event event;

                r = kube_watch_next(watch, deadline, &event, &pod, err);
                if (r == -ETIMEDOUT)
                        return overdue(run, last, &v, err);
                if (r < 0)
                        break;
                if (strcmp(meta(pod, "uid"), run->uid) != 0)
                        continue;
                if (event == KUBE_DELETED)
                        life_look_gone(pod, &v);
                else
                        life_look(pod, &v);
                if (v.state == LIFE_ENDED || v.state == LIFE_BROKEN)
                        return broken(run, &v, err);
                json_decref(last);
                last = TAKE_PTR(pod);
                if (v.state == LIFE_RUNNING) {
                        *ret = TAKE_PTR(last);
                        return 0;
                }
        }
        return r == -ECANCELED ? error_set(err, r, "stopped before the pod ran")
                               : error_wrap(err, r, "wait for pod '%s'", run->order.pod_name);
}

/* ---- start ---- */

static int end_previous(struct run *run, struct error *err) {
        struct life_select select = { .labels = run->order.previous, .what = run->order.what };

        if (!run->order.previous)
                return 0;
        return life_end(&run->life, &select, run->order.previous_ms, err);
}

/* Two that began at once have found no earlier attempt, either of them. */
static int be_alone(struct run *run, const json_t *pod, struct error *err) {
        const struct life_select select = { .labels = run->order.previous,
                                            .mine = pod,
                                            .what = run->order.what };

        return run->order.previous ? life_be_alone(&run->life, &select, run->order.previous_ms, err) : 0;
}

static int copy_workspace(struct run *run, struct error *err) {
        AUTO_RULES struct rules *rules = NULL;
        int r;

        if (!run->order.workspace || fcntl(RUN_LOWER, F_GETFD) < 0)
                return 0;
        r = run->order.rules ? rules_from_json(run->order.rules, &rules, err) : 0;
        if (r == 0)
                r = copy_in(&run->pod, run->order.workspace, RUN_LOWER, rules, &run->report, err);
        run->copied = r == 0;
        return r;
}

/* What failed in the pod failed because the pod is over: then that is the reason. The API hears of its end a
 * little later than who was connected to it. */
static bool is_over(struct run *run, struct life_verdict *v) {
        const uint64_t until = clock_ns() + (uint64_t) OVER_MS * NS_PER_MS;
        const struct kube_select select = { .name = run->order.pod_name };
        AUTO_KUBE_WATCH struct kube_watch *watch = NULL;
        int r = kube_watch_open(run->kube, KUBE_POD, run->order.ns, &select, &watch, NULL);

        while (r == 0) {
                AUTO_JSON json_t *pod = NULL;
                enum kube_event event;

                r = kube_watch_next(watch, until, &event, &pod, NULL);
                if (r < 0 || strcmp(meta(pod, "uid"), run->uid) != 0)
                        continue;
                life_look(pod, v);
                if (v->state == LIFE_ENDED || v->state == LIFE_BROKEN)
                        return true;
        }
        return false;
}

static int start(struct run *run, struct error *err) {
        struct life_verdict v = { .state = LIFE_WAITING };
        AUTO_JSON json_t *made = NULL;
        AUTO_JSON json_t *ready = NULL;
        int r = 0;

        if (run->order.owner_name || run->order.owner_uid)
                r = life_check_owner(&run->life, run->order.owner_name, run->order.owner_uid, err);
        if (r == 0)
                r = end_previous(run, err);
        if (r == 0 && order_date(&run->order, (int64_t) time(NULL)) < 0)
                r = error_set(err, -ENOMEM, "out of memory");
        if (r == 0)
                r = extend_claim(run, err);
        if (r == 0)
                r = make_objects(run, err);
        if (r == 0)
                r = make(run, KUBE_POD, run->order.pod, &made, err);
        if (r < 0)
                return r;
        phase("created");
        run->uid = strdup(meta(made, "uid"));
        if (!run->uid)
                return error_set(err, -ENOMEM, "out of memory");
        r = be_alone(run, made, err);
        if (r == 0)
                r = make_secret(run, err);
        if (r == 0)
                r = wait_ready(run, &ready, err);
        if (r < 0)
                return r;
        phase("running");
        r = secret_link(&run->pod, run->order.secret_files, err);
        if (r == 0)
                r = copy_workspace(run, err);
        if (r < 0)
                return r != -ECANCELED && is_over(run, &v) ? broken(run, &v, err) : r;
        phase("copied");
        tell(json_pack("{s:s,s:s,s:s,s:s,s:s*,s:I,s:I}", "t", "ready", "pod", run->order.pod_name, "uid",
                       run->uid, "namespace", meta(made, "namespace"), "node",
                       json_string_value(json_object_get(json_object_get(ready, "spec"), "nodeName")),
                       "files", (json_int_t) run->report.sent.n, "bytes", (json_int_t) run->report.bytes));
        return 0;
}

/* ---- while it runs ---- */

static void lost(const struct life_verdict *v) {
        tell(json_pack("{s:s,s:s,s:o}", "t", "lost", "code", v->code ? v->code : "SANDBOX_SETUP_FAILED",
                       "text", json_from_bytes(v->text, 2048)));
}

/* Watches until the order to stop, or the end of the pod, which is told. Return: 0: the pod may live */
static int watch_pod(struct run *run) {
        const struct kube_select select = { .name = run->order.pod_name };
        AUTO_KUBE_WATCH struct kube_watch *watch = NULL;
        struct life_verdict v = { .code = "SANDBOX_SETUP_FAILED" };
        struct error err = { 0 };
        bool seen = false;
        int r;

        r = kube_watch_open(run->kube, KUBE_POD, run->order.ns, &select, &watch, &err);
        while (r == 0) {
                AUTO_JSON json_t *pod = NULL;
                enum kube_event event;

                r = kube_watch_next(watch, clock_ns() + (seen ? 3600ULL : 10ULL) * 1000 * NS_PER_MS, &event,
                                    &pod, &err);
                if (r == -ETIMEDOUT && seen) {
                        r = 0;
                        continue;
                }
                if (r == -ETIMEDOUT ||
                    (r == 0 && (event == KUBE_DELETED || strcmp(meta(pod, "uid"), run->uid) != 0))) {
                        life_look_gone(r == 0 && event == KUBE_DELETED ? pod : NULL, &v);
                        lost(&v);
                        return -ENOENT;
                }
                if (r < 0)
                        break;
                seen = true;
                life_look(pod, &v);
                if (v.state == LIFE_ENDED || v.state == LIFE_BROKEN) {
                        lost(&v);
                        return -ENOENT;
                }
        }
        if (r != -ECANCELED)
                life_warn(&run->life, "pod '%s' cannot be watched: %s", run->order.pod_name, err.msg);
        return r == -ECANCELED ? 0 : r;
}

static int stay(struct run *run) {
        while (!stop_wanted(0)) {
                const int r = watch_pod(run);

                if (r == -ENOENT) {
                        (void) stop_wanted(-1);
                        return r;
                }
                if (r < 0) /* the API is away: the pod may be well */
                        (void) stop_wanted(AGAIN_MS);
        }
        return 0;
}

/* ---- the end ---- */

static void on_skipped(void *arg, const char *path, const char *why) {
        struct run *run = arg;

        if (strncmp(path, "./", 2) == 0)
                path += 2;
        if (++run->skipped <= SKIPPED_TOLD_MAX)
                tell(json_pack("{s:s,s:o,s:s}", "t", "skipped", "path", json_from_bytes(path, 1024), "why",
                               why));
}

static void bring_back(struct run *run) {
        const struct copy_back back = {
                .path = run->order.workspace,
                .uppers_fd = RUN_UPPERS,
                .name = "0",
                .report = &run->report,
                .landing = { .lower_fd = RUN_LOWER,
                             .root = run->order.same_path ? run->order.workspace : NULL,
                             .limits = LANDING_LIMITS_DEFAULT,
                             .skipped = on_skipped,
                             .arg = run },
        };
        struct copy_back with = back;
        struct copy_result result = { .attempts = 0 };
        struct error err = { 0 };
        struct life_verdict v = { .state = LIFE_WAITING };
        int r;

        if (run->order.bytes_max)
                with.landing.limits.bytes_max = run->order.bytes_max;
        r = copy_out(&run->pod, &with, &result, &err);
        if (r < 0) {
                if (is_over(run, &v)) /* the reason of the reason */
                        lost(&v);
                tell(json_pack("{s:s,s:s,s:o,s:I,s:I}", "t", "lost", "code", "WORKSPACE_EXPORT_FAILED",
                               "text", json_from_bytes(err.msg, 2048), "files",
                               (json_int_t) result.counts.members, "bytes",
                               (json_int_t) result.counts.bytes));
                return;
        }
        if (strcmp(result.head, result.landed) != 0)
                life_warn(&run->life, "the sandbox had commit %s checked out, and what came back has %s: %s",
                          *result.head ? result.head : "none", *result.landed ? result.landed : "none",
                          *result.landed ? "commits may have been made while it was exported"
                                         : "commits were lost");
        tell(json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:i,s:s}", "t", "exported", "files",
                       (json_int_t) result.counts.members, "bytes", (json_int_t) result.counts.bytes,
                       "changed", (json_int_t) result.counts.changed, "deleted",
                       (json_int_t) result.counts.deleted, "skipped", (json_int_t) result.counts.skipped,
                       "attempts", (int) result.attempts, "head", result.head));
}

/* What the driver could not know: the namespace of the context. */
static int name_namespace(struct run *run) {
        const char *ns = kube_config_namespace(kube_config_of(run->kube));
        size_t i;
        json_t *row;
        int bad = 0;

        if (run->order.ns)
                return 0;
        run->order.ns = ns;
        bad |= json_object_set_new(json_object_get(run->order.pod, "metadata"), "namespace", json_string(ns));
        json_array_foreach(run->order.objects, i, row) bad |= json_object_set_new(
                json_object_get(json_object_get(row, "object"), "metadata"), "namespace", json_string(ns));
        if (run->order.secret)
                bad |= json_object_set_new(json_object_get(run->order.secret, "metadata"), "namespace",
                                           json_string(ns));
        return bad ? -ENOMEM : 0;
}

static int open_kube(struct run *run, const char *const *env, struct error *err) {
        const struct kube_config_from from = { .environ = env,
                                               .file = run->order.file,
                                               .context = run->order.context };
        struct kube_config *config = NULL;
        int r = kube_config_load(&from, &config, err);

        if (r == 0)
                r = kube_open_consume(config, &run->kube, err);
        if (r < 0) {
                (void) kube_config_free(config);
                return r;
        }
        if (name_namespace(run) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        kube_set_stop(run->kube, RUN_SOCK);
        run->life = (struct life){ .kube = run->kube,
                                   .ns = run->order.ns,
                                   .managed_by = run->order.managed_by,
                                   .domain = run->order.domain,
                                   .warn = on_warn };
        run->pod = (struct remote_pod){ run->kube, run->order.ns, run->order.pod_name, run->order.container,
                                        run->order.copy_ms };
        return 0;
}

static void run_deinit(struct run *run) {
        run->kube = kube_free(run->kube);
        paths_deinit(&run->report.sent);
        paths_deinit(&run->report.kept);
        free(run->uid);
        order_deinit(&run->order);
}

static void failed(const struct run *run, int r, const struct error *err) {
        const char *code = run->code ? run->code
                           : r == -ENETUNREACH || r == -EACCES || r == -EKEYREJECTED
                                   ? "SANDBOX_DRIVER_UNAVAILABLE"
                                   : "SANDBOX_SETUP_FAILED";

        tell(json_pack("{s:s,s:s,s:i,s:o}", "t", "failed", "code", code, "errno", -r, "text",
                       json_from_bytes(err->msg, 2048)));
}

int command_life(int argc, char **argv, const char *const *environ_) {
        CLEANUP(run_deinit) struct run run = { .kube = NULL };
        struct error err = { 0 };
        int r;

        (void) argc;
        (void) argv;
        (void) setlocale(LC_CTYPE, "C.UTF-8"); /* names in archives */
        for (int sig = 1; sig < 32; sig++)     /* its life is the socket's */
                if (sig == SIGINT || sig == SIGTERM || sig == SIGHUP || sig == SIGQUIT)
                        (void) signal(sig, SIG_IGN);
        r = order_read(RUN_ORDER, &run.order, &err);
        if (r == 0)
                r = open_kube(&run, environ_, &err);
        if (r == 0)
                r = start(&run, &err);
        if (r < 0) {
                const bool clean = !run.kube || unmake(&run) == 0;

                failed(&run, r, &err);
                return clean ? CODE_OK : CODE_FAILED;
        }
        run.ran = true;
        r = stay(&run);
        kube_set_stop(run.kube, -1);
        if (r == 0 && run.copied && run.order.comes_back)
                bring_back(&run);
        else if (run.copied && run.order.comes_back)
                tell(json_pack("{s:s,s:s,s:s,s:i,s:i}", "t", "lost", "code", "WORKSPACE_EXPORT_FAILED",
                               "text", "the pod was gone before the workspace came back", "files", 0, "bytes",
                               0));
        return unmake(&run) == 0 ? CODE_OK : CODE_FAILED;
}
