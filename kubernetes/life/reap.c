#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kubernetes/life/life.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"

static const json_t *metadata(const json_t *object) {
        return json_object_get(object, "metadata");
}

static const char *text_of(const json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

enum life_reaped life_reap_other(const json_t *object, const char *domain, int64_t now_s) {
        char key[320];
        uint64_t at;
        int n = snprintf(key, sizeof(key), "%s/expires-at", domain ? domain : KUBE_DEFAULT_DOMAIN);

        if (n < 0 || (size_t) n >= sizeof(key) || json_object_get(metadata(object), "deletionTimestamp"))
                return LIFE_KEEP;
        if (parse_u64(text_of(json_object_get(metadata(object), "annotations"), key), 0, INT64_MAX, &at) < 0)
                return LIFE_KEEP;
        return (int64_t) at < now_s ? LIFE_EXPIRED : LIFE_KEEP;
}

static bool is_of_job(const json_t *pod) {
        const json_t *owners = json_object_get(metadata(pod), "ownerReferences");
        size_t i;
        const json_t *row;

        json_array_foreach(owners, i, row) if (json_is_true(json_object_get(row, "controller")) &&
                                               strcmp(text_of(row, "kind"), "Job") == 0) return true;
        return false;
}

enum life_reaped life_reap_pod(const json_t *pod, const char *domain, int64_t now_s) {
        static const char *const phases[] = { "Running", "Failed", "Succeeded", "Pending" };
        const json_t *status = json_object_get(pod, "status");
        const char *phase = text_of(status, "phase");

        if (is_of_job(pod) || json_object_get(metadata(pod), "deletionTimestamp"))
                return LIFE_KEEP;
        if (strcmp(phase, "Failed") == 0 && strcmp(text_of(status, "reason"), "DeadlineExceeded") == 0)
                return LIFE_DEADLINE;
        for (size_t i = 0; i < ARRAY_SIZE(phases); i++)
                if (strcmp(phase, phases[i]) == 0)
                        return life_reap_other(pod, domain, now_s);
        return LIFE_KEEP; /* Unknown: its node may come back, with the work going on */
}

/* A Job that its deadline ended, or that expired */
static enum life_reaped reap_job(const json_t *job, const char *domain, int64_t now_s) {
        const json_t *list = json_object_get(json_object_get(job, "status"), "conditions");
        size_t i;
        const json_t *row;

        if (json_object_get(metadata(job), "deletionTimestamp"))
                return LIFE_KEEP;
        json_array_foreach(list, i, row) if (strcmp(text_of(row, "type"), "Failed") == 0 &&
                                             strcmp(text_of(row, "status"), "True") == 0 &&
                                             strcmp(text_of(row, "reason"), "DeadlineExceeded") ==
                                                     0) return LIFE_DEADLINE;
        return life_reap_other(job, domain, now_s);
}

/** struct pass - one kind; the order is that of the table: a Job would make its pods again */
struct pass {
        enum kube_kind kind;
        const char *component; /* only these; NULL: all */
        enum life_reaped (*judge)(const json_t *object, const char *domain, int64_t now_s);
        bool optional; /* a missing right skips it */
        size_t count;  /* offset in struct life_report */
};

static const struct pass passes[] = {
        { KUBE_JOB, NULL, reap_job, true, offsetof(struct life_report, jobs) },
        { KUBE_POD, NULL, life_reap_pod, false, offsetof(struct life_report, pods) },
        { KUBE_CONFIGMAP, "prompt-data", life_reap_other, false, offsetof(struct life_report, configmaps) },
        { KUBE_SECRET, NULL, life_reap_other, true, offsetof(struct life_report, secrets) },
        { KUBE_NETWORKPOLICY, NULL, life_reap_other, true, offsetof(struct life_report, policies) },
        { KUBE_PVC, "environment", life_reap_other, true, offsetof(struct life_report, claims) },
};

static int list_pass(const struct life *life, const struct pass *pass, json_t **ret, struct error *err) {
        AUTO_BUF struct buf labels = { 0 };
        struct kube_select select = { 0 };
        int r;

        r = buf_fmt(&labels, "%s=%s", KUBE_LABEL_MANAGED_BY,
                    life->managed_by ? life->managed_by : KUBE_DEFAULT_MANAGER);
        if (r == 0 && pass->component)
                r = buf_fmt(&labels, ",%s=%s", KUBE_LABEL_COMPONENT, pass->component);
        if (r < 0)
                return error_set(err, r, "out of memory");
        select.labels = buf_cstr(&labels);
        return kube_list(life->kube, pass->kind, life->ns, &select, ret, NULL, err);
}

static int reap_one(const struct life *life, const struct pass *pass, const json_t *object,
                    struct error *err) {
        const struct kube_delete how = { .uid = json_string_value(json_object_get(metadata(object), "uid")),
                                         .propagation = pass->kind == KUBE_JOB ? "Background" : NULL };

        return kube_delete(life->kube, pass->kind, life->ns, text_of(metadata(object), "name"), &how, err);
}

/** struct reaping - one call of life_reap() */
struct reaping {
        const struct life *life;
        int64_t now_s;
        void (*reaped)(void *arg, const char *kind, const char *name, const char *reason);
        void *arg;
        struct life_report report;
};

static void reap_object(struct reaping *p, const struct pass *pass, const json_t *object) {
        const enum life_reaped verdict = pass->judge(object, p->life->domain, p->now_s);
        const char *kind = kube_kind_name(pass->kind), *name = text_of(metadata(object), "name");
        struct error why = { 0 };
        int r;

        if (verdict == LIFE_KEEP)
                return;
        r = reap_one(p->life, pass, object, &why);
        if (r == 0) {
                ++*(uint64_t *) (void *) ((char *) &p->report + pass->count);
                if (p->reaped)
                        p->reaped(p->arg, kind, name,
                                  verdict == LIFE_DEADLINE ? "DeadlineExceeded" : "expired");
        } else if (r != -ENOENT && r != -EBUSY) { /* neither gone meanwhile nor another */
                p->report.failed++;
                life_warn(p->life, "%s '%s' is not reaped: %s", kind, ESC(name), why.msg);
        }
}

static int reap_pass(struct reaping *p, const struct pass *pass, struct error *err) {
        AUTO_JSON json_t *objects = NULL;
        size_t i;
        const json_t *row;
        const int r = list_pass(p->life, pass, &objects, err);

        if (r == -EPERM && pass->optional) {
                life_warn(p->life, "%s are not reaped: no right to list them", kube_kind_name(pass->kind));
                if (err)
                        *err = (struct error){ 0 };
                return 0;
        }
        if (r < 0)
                return error_wrap(err, r, "list %s", kube_kind_name(pass->kind));
        json_array_foreach(objects, i, row) {
                reap_object(p, pass, row);
        }
        return 0;
}

int life_reap(const struct life *life, int64_t now_s,
              void (*reaped)(void *arg, const char *kind, const char *name, const char *reason), void *arg,
              struct life_report *ret, struct error *err) {
        struct reaping p = { life, now_s, reaped, arg, { 0 } };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(passes); i++)
                r = reap_pass(&p, &passes[i], err);
        if (r == 0)
                *ret = p.report;
        return r;
}
