/*
 * DOC: theory of operation
 *
 * check (options.c) -> owner pod -> create -> watch -> log -> delete. Whatever ends the wait, what was made
 * is deleted, by its uid, unless it is a service that is ready. A command that failed is an outcome and no
 * failure; failures are that something could not be made, that it will never start, and that the time was
 * over. When this process dies, the expiry on the object is what gc goes by.
 */
#include "kubernetes/verbs/oneoff.h"

#include <errno.h>
#include <string.h>

#include "kubernetes/client/logs.h"
#include "kubernetes/client/watch.h"
#include "kubernetes/manifest/manifest.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { NS_PER_MS = 1000000, JOB_LOOK_MS = 2000, DELETE_MS = 30000 };

/* --- what a pod says --- */

static const json_t *first_status(const json_t *pod) {
        return json_array_get(json_object_get(json_object_get(pod, "status"), "containerStatuses"), 0);
}

const char *oneoff_broken(const json_t *pod, const char **ret_message) {
        static const char *const reasons[] = {
                "ErrImagePull",         "ImagePullBackOff",  "InvalidImageName",
                "ErrImageNeverPull",    "ImageInspectError", "CreateContainerConfigError",
                "CreateContainerError", "RunContainerError", "CrashLoopBackOff",
        };
        const json_t *waiting = json_object_get(json_object_get(first_status(pod), "state"), "waiting");
        const char *reason = kube_json_text(waiting, "reason", NULL);

        for (size_t i = 0; reason && i < ARRAY_SIZE(reasons); i++)
                if (strcmp(reason, reasons[i]) == 0) {
                        *ret_message = kube_json_text(waiting, "message", NULL);
                        return reason;
                }
        return NULL;
}

static bool is_phase(const json_t *pod, const char *phase) {
        const char *is = kube_json_text(pod, "status", "phase", NULL);

        return is && strcmp(is, phase) == 0;
}

static bool has_condition(const json_t *object, const char *type) {
        const json_t *conditions = json_object_get(json_object_get(object, "status"), "conditions"), *c;
        size_t i;

        json_array_foreach(conditions, i, c) {
                const char *is = kube_json_text(c, "type", NULL), *status = kube_json_text(c, "status", NULL);

                if (is && status && strcmp(is, type) == 0 && strcmp(status, "True") == 0)
                        return true;
        }
        return false;
}

void outcome_read(json_t *pod, struct outcome *ret) {
        const json_t *ended = json_object_get(json_object_get(first_status(pod), "state"), "terminated");
        const json_t *code = json_object_get(ended, "exitCode");
        const char *reason = kube_json_text(ended, "reason", NULL);

        ret->pod = json_incref(pod);
        ret->success = is_phase(pod, "Succeeded");
        ret->phase = ret->success ? "Succeeded" : is_phase(pod, "Running") ? "Running" : "Failed";
        ret->ip = kube_json_text(pod, "status", "podIP", NULL);
        ret->reason = kube_json_text(pod, "status", "reason", NULL);
        /* one that the cluster ended has no exit code of its own, whatever the kill gave it */
        ret->has_exit_code =
                json_is_integer(code) && !(ret->reason && strcmp(ret->reason, "DeadlineExceeded") == 0);
        ret->exit_code = ret->has_exit_code ? (int) json_integer_value(code) : 0;
        if (!ret->reason && reason && strcmp(reason, "Completed") != 0)
                ret->reason = reason;
}

void outcome_deinit(struct outcome *outcome) {
        json_decref(outcome->pod);
        buf_deinit(&outcome->logs);
        *outcome = (struct outcome){ 0 };
}

/* --- before --- */

int oneoff_connect(struct oneoff *o, const char *const *environ_, struct kube **ret, struct error *err) {
        const struct kube_config_from from = { .environ = environ_,
                                               .file = o->kubeconfig,
                                               .context = o->context };
        AUTO_KUBE_CONFIG struct kube_config *config = NULL;
        int r;

        r = kube_config_load(&from, &config, err);
        if (r == 0)
                r = kube_open_consume(config, ret, err);
        if (r < 0)
                return r;
        (void) TAKE_PTR(config);
        if (!o->ns_given)
                o->plan.ns = kube_config_namespace(kube_config_of(*ret));
        return 0;
}

/* With an owner that is not there, the cluster would delete at once what is made. */
static int check_owner(const struct oneoff *o, struct kube *kube, struct error *err) {
        AUTO_JSON json_t *owner = NULL;
        const char *uid;
        int r;

        if (!o->plan.owner_uid)
                return 0;
        r = kube_get(kube, KUBE_POD, o->plan.ns, o->plan.owner_name, &owner, err);
        if (r < 0)
                return error_wrap(err, r, "owner pod '%s' in namespace '%s'", ESC(o->plan.owner_name),
                                  ESC(o->plan.ns));
        uid = kube_json_text(owner, "metadata", "uid", NULL);
        if (!uid || strcmp(uid, o->plan.owner_uid) != 0)
                return error_set(err, -ESTALE, "owner pod '%s' has uid '%s', not '%s': it is another one",
                                 ESC(o->plan.owner_name), ESC(uid ? uid : ""), ESC(o->plan.owner_uid));
        return 0;
}

static void end_object(const struct oneoff *o, struct kube *kube, enum kube_kind kind, const char *uid) {
        const struct kube_delete how = { .uid = *uid ? uid : NULL, .propagation = "Background" };
        struct error err = { 0 };
        int r;

        kube_set_stop(kube, -1); /* also when we are told to stop: nothing is left behind */
        r = kube_delete(kube, kind, o->plan.ns, o->plan.name, &how, &err);
        if (r < 0 && r != -ENOENT && r != -EBUSY)
                log_warn("%s: '%s' could not be deleted, gc will once it has expired: %s", o->verb,
                         ESC(o->plan.name), err.msg);
}

/* Of a request that broke in the middle nobody said whether it was carried out: what is ours goes. */
static void end_unsure(const struct oneoff *o, struct kube *kube, enum kube_kind kind, const json_t *wanted) {
        AUTO_JSON json_t *there = NULL;
        char key[KUBE_KEY_LEN];
        const char *ours, *is, *uid;

        kube_set_stop(kube, -1);
        if (kube_get(kube, kind, o->plan.ns, o->plan.name, &there, NULL) < 0)
                return;
        (void) kube_key(&o->plan, "expires-at", key);
        ours = kube_json_text(wanted, "metadata", "annotations", key, NULL);
        is = kube_json_text(there, "metadata", "annotations", key, NULL);
        uid = kube_json_text(there, "metadata", "uid", NULL);
        if (ours && is && uid && strcmp(ours, is) == 0)
                end_object(o, kube, kind, uid);
}

static int create(const struct oneoff *o, struct kube *kube, enum kube_kind kind, json_t *object,
                  char **ret_uid, struct error *err) {
        AUTO_JSON json_t *wanted = object, *made = NULL;
        const char *uid;
        int r;

        if (!wanted)
                return error_set(err, -ENOMEM, "out of memory");
        r = kube_create(kube, kind, o->plan.ns, wanted, &made, err);
        if (r == -ECONNRESET || r == -ETIMEDOUT || r == -ECANCELED || r == -EREMOTEIO)
                end_unsure(o, kube, kind, wanted);
        if (r < 0)
                return error_wrap(err, r == -ETIMEDOUT ? -ECONNRESET : r, "failed to create %s '%s'",
                                  kind == KUBE_JOB ? "job" : "pod", ESC(o->plan.name));
        uid = kube_json_text(made, "metadata", "uid", NULL);
        *ret_uid = strdup(uid ? uid : "");
        return *ret_uid ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* --- after: the log, as far as it can be had --- */

static void read_log(const struct oneoff *o, struct kube *kube, const char *pod, struct outcome *ret) {
        struct error err = { 0 };

        if (kube_logs(kube, o->plan.ns, pod, NULL, o->max_log, &ret->logs, &ret->truncated, &err) < 0)
                log_warn("%s: log of pod '%s': %s", o->verb, ESC(pod), err.msg);
}

/* --- the wait --- */

/* "5m", "90s", "1500ms": as it would be said */
static const char *say_ms(uint64_t ms, char ret[static 32]) {
        if (ms % 60000 == 0)
                (void) snprintf(ret, 32, "%llum", (unsigned long long) ms / 60000);
        else if (ms % 1000 == 0)
                (void) snprintf(ret, 32, "%llus", (unsigned long long) ms / 1000);
        else
                (void) snprintf(ret, 32, "%llums", (unsigned long long) ms);
        return ret;
}

/* Why a pod that nobody took yet waits: what the scheduler said. */
static const char *pending_text(const json_t *pod) {
        const json_t *conditions = json_object_get(json_object_get(pod, "status"), "conditions"), *c;
        size_t i;

        json_array_foreach(conditions, i, c) {
                const char *type = kube_json_text(c, "type", NULL);
                const char *message = kube_json_text(c, "message", NULL);

                if (type && message && strcmp(type, "PodScheduled") == 0)
                        return message;
        }
        return NULL;
}

static int timed_out(const struct oneoff *o, const char *what, const json_t *pod, struct error *err) {
        const char *why = pod && is_phase(pod, "Pending") ? pending_text(pod) : NULL;
        char limit[32];

        return error_set(err, -ETIMEDOUT, "%s '%s' did not %s within %s%s%s", what, ESC(o->plan.name),
                         o->up ? "become ready" : "finish", say_ms(o->wait_ms, limit),
                         why ? ": SANDBOX_CAPACITY: " : "", why ? ESC(why) : "");
}

/* Whether @pod is as it was waited for; -ENOEXEC when it will never be. */
static int judge(const struct oneoff *o, const json_t *pod, bool *ret_over, struct error *err) {
        const char *message = NULL, *broken = oneoff_broken(pod, &message);
        const bool ended = is_phase(pod, "Succeeded") || is_phase(pod, "Failed");

        if (broken)
                return error_set(err, -ENOEXEC, "pod '%s' cannot start: %s%s%s", ESC(o->plan.name),
                                 ESC(broken), message ? ": " : "", message ? ESC(message) : "");
        if (o->up && ended)
                return error_set(err, -ENOEXEC, "pod '%s' ended before it was ready", ESC(o->plan.name));
        *ret_over = ended || (o->up && has_condition(pod, "Ready"));
        return 0;
}

/* @uid: of the pod that was made; NULL: whichever comes. @ret: its last state, new reference. */
static int watch_pod(const struct oneoff *o, struct kube_watch *watch, const char *uid, uint64_t deadline_ns,
                     json_t **ret, struct error *err) {
        for (;;) {
                AUTO_JSON json_t *pod = NULL;
                enum kube_event event;
                const char *is;
                bool over = false;
                int r;

                r = kube_watch_next(watch, deadline_ns, &event, &pod, err);
                if (r < 0)
                        return r;
                is = kube_json_text(pod, "metadata", "uid", NULL);
                if (uid && (!is || strcmp(is, uid) != 0))
                        continue;
                json_decref(*ret);
                *ret = json_incref(pod);
                r = judge(o, pod, &over, err);
                if (r < 0 || over)
                        return r;
                if (event == KUBE_DELETED)
                        return error_set(err, -ENOENT, "pod '%s' was deleted by somebody", ESC(o->plan.name));
        }
}

static int wait_pod(const struct oneoff *o, struct kube *kube, const char *uid, json_t **ret,
                    struct error *err) {
        const struct kube_select select = { .name = o->plan.name };
        const uint64_t deadline_ns = clock_ns() + o->wait_ms * NS_PER_MS;
        AUTO_KUBE_WATCH struct kube_watch *watch = NULL;
        int r;

        r = kube_watch_open(kube, KUBE_POD, o->plan.ns, &select, &watch, err);
        if (r < 0)
                return r;
        r = watch_pod(o, watch, uid, deadline_ns, ret, err);
        return r == -ETIMEDOUT ? timed_out(o, "pod", *ret, err) : r;
}

int oneoff_pod(struct oneoff *o, struct kube *kube, int stop_fd, struct outcome *ret, struct error *err) {
        AUTO_JSON json_t *pod = NULL;
        AUTO_FREE char *uid = NULL;
        int r;

        kube_set_stop(kube, stop_fd);
        r = check_owner(o, kube, err);
        if (r == 0)
                r = create(o, kube, KUBE_POD, kube_pod(&o->plan), &uid, err);
        if (r < 0)
                return r;
        r = wait_pod(o, kube, uid, &pod, err);
        if (r == 0) {
                outcome_read(pod, ret);
                if (!o->up)
                        read_log(o, kube, o->plan.name, ret);
        } else if (r == -ETIMEDOUT) {
                read_log(o, kube, o->plan.name, ret);
        }
        if (!o->keep && !(o->up && r == 0))
                end_object(o, kube, KUBE_POD, uid);
        return r;
}

/* --- a Job --- */

static int job_ended(const struct oneoff *o, struct kube *kube, bool *ret, bool *ret_success,
                     struct error *err) {
        AUTO_JSON json_t *job = NULL;
        int r;

        r = kube_get(kube, KUBE_JOB, o->plan.ns, o->plan.name, &job, err);
        if (r < 0)
                return r;
        *ret_success = has_condition(job, "Complete");
        *ret = *ret_success || has_condition(job, "Failed");
        return 0;
}

/* Its pod tells sooner than the Job that it cannot start; the Job tells when there is no pod. */
static int wait_job(const struct oneoff *o, struct kube *kube, json_t **ret_pod, bool *ret_success,
                    struct error *err) {
        const uint64_t deadline_ns = clock_ns() + o->wait_ms * NS_PER_MS;
        AUTO_KUBE_WATCH struct kube_watch *watch = NULL;
        AUTO_BUF struct buf labels = { 0 };
        struct kube_select select = { 0 };
        bool ended = false;
        int r;

        if (buf_fmt(&labels, "job-name=%s", o->plan.name) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        select.labels = buf_cstr(&labels);
        r = kube_watch_open(kube, KUBE_POD, o->plan.ns, &select, &watch, err);
        while (r == 0) {
                uint64_t look_ns = clock_ns() + JOB_LOOK_MS * (uint64_t) NS_PER_MS;

                if (look_ns > deadline_ns)
                        look_ns = deadline_ns;
                r = watch_pod(o, watch, NULL, look_ns, ret_pod, err);
                if (r == -ENOENT || r == -ETIMEDOUT)
                        r = 0; /* the Job has the last word */
                if (r == 0)
                        r = job_ended(o, kube, &ended, ret_success, err);
                if (r < 0 || ended)
                        return r;
                if (clock_ns() >= deadline_ns)
                        return timed_out(o, "job", *ret_pod, err);
        }
        return r;
}

int oneoff_job(struct oneoff *o, struct kube *kube, int stop_fd, struct outcome *ret, struct error *err) {
        AUTO_JSON json_t *pod = NULL;
        AUTO_FREE char *uid = NULL;
        const char *name;
        bool success = false;
        int r;

        kube_set_stop(kube, stop_fd);
        r = check_owner(o, kube, err);
        if (r == 0)
                r = create(o, kube, KUBE_JOB, kube_job(&o->plan), &uid, err);
        if (r < 0)
                return r;
        r = wait_job(o, kube, &pod, &success, err);
        if (r == 0) {
                outcome_read(pod, ret);
                ret->success = success;
                ret->phase = success ? "Succeeded" : "Failed";
        }
        name = kube_json_text(pod, "metadata", "name", NULL);
        if (name && (r == 0 || r == -ETIMEDOUT))
                read_log(o, kube, name, ret);
        if (!o->keep)
                end_object(o, kube, KUBE_JOB, uid);
        return r;
}
