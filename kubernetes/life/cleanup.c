/*
 * DOC: theory of operation
 *
 * Everything is found by labels and ended by uid: an object of the same name that somebody made meanwhile is
 * not touched. Pods are deleted with the grace that they have, never with none: the API would forget a pod at
 * once whose containers still run, and two attempts would work side by side.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kubernetes/client/watch.h"
#include "kubernetes/life/life.h"
#include "kubernetes/manifest/names.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"

enum { NS_PER_MS = 1000000 };

void life_warn(const struct life *life, const char *fmt, ...) {
        char text[LIFE_TEXT_MAX];
        va_list args;

        if (!life->warn)
                return;
        va_start(args, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        life->warn(life->arg, text);
}

static const char *meta(const json_t *object, const char *key) {
        const char *text = json_string_value(json_object_get(json_object_get(object, "metadata"), key));

        return text ? text : "";
}

static bool is_owned(const json_t *object, const char *uid) {
        const json_t *owners = json_object_get(json_object_get(object, "metadata"), "ownerReferences");
        size_t i;
        const json_t *row;

        json_array_foreach(owners, i, row) {
                const char *have = json_string_value(json_object_get(row, "uid"));

                if (have && strcmp(have, uid) == 0)
                        return true;
        }
        return false;
}

/* By the second in which it was made; within one, any order that everybody sees alike. */
static int compare_age(const json_t *a, const json_t *b) {
        const int r = strcmp(meta(a, "creationTimestamp"), meta(b, "creationTimestamp"));

        return r ? r : strcmp(meta(a, "uid"), meta(b, "uid"));
}

static bool is_meant(const struct life_select *select, const json_t *object) {
        const size_t n = select->name ? strlen(select->name) : 0;
        const char *name = meta(object, "name");

        if (select->mine && compare_age(object, select->mine) >= 0)
                return false;
        if (n > 0 && (strncmp(name, select->name, n) != 0 || (name[n] && name[n] != '-')))
                return false;
        return !select->owner_uid || is_owned(object, select->owner_uid);
}

/* struct ending - one call of life_end() */
struct ending {
        const struct life *life;
        const struct life_select *select;
        const char *labels; /* narrowed */
        uint64_t deadline_ns, timeout_ms;
};

/* Return: 0, 1 (the right is missing, and that is no failure), -errno */
static int list(const struct ending *e, enum kube_kind kind, bool optional, json_t **ret, struct error *err) {
        const struct kube_select select = { .labels = e->labels };
        const int r = kube_list(e->life->kube, kind, e->life->ns, &select, ret, NULL, err);

        if (optional && (r == -EPERM || r == -ENOENT)) {
                life_warn(e->life, "%s of %s are left alone: no right to list them", kube_kind_name(kind),
                          e->select->what);
                if (err)
                        *err = (struct error){ 0 };
                return 1;
        }
        return r < 0 ? error_wrap(err, r, "list %s of %s", kube_kind_name(kind), e->select->what) : 0;
}

static int delete_one(const struct ending *e, enum kube_kind kind, const json_t *object, struct error *err) {
        const struct kube_delete how = { .uid = *meta(object, "uid") ? meta(object, "uid") : NULL,
                                         .propagation = kind == KUBE_JOB ? "Background" : NULL };
        const int r = kube_delete(e->life->kube, kind, e->life->ns, meta(object, "name"), &how, err);

        if (r != -ENOENT && r != -EBUSY) /* gone, or another object that has its name by now */
                return r < 0 ? error_wrap(err, r, "delete %s '%s' of %s", kube_kind_name(kind),
                                          ESC(meta(object, "name")), e->select->what)
                             : 0;
        if (err)
                *err = (struct error){ 0 };
        return 0;
}

/* @ret: what was deleted; new reference. Return: as list(). */
static int delete_kind(const struct ending *e, enum kube_kind kind, bool optional, json_t **ret,
                       struct error *err) {
        AUTO_JSON json_t *objects = NULL;
        AUTO_JSON json_t *gone = json_array();
        size_t i;
        const json_t *row;
        int r = list(e, kind, optional, &objects, err);

        if (r != 0 || !gone)
                return gone ? r : error_set(err, -ENOMEM, "out of memory");
        json_array_foreach(objects, i, row) {
                if (!is_meant(e->select, row))
                        continue;
                r = delete_one(e, kind, row, err);
                if (r == -EPERM && optional) {
                        life_warn(e->life, "%s '%s' is left alone: no right to delete it",
                                  kube_kind_name(kind), ESC(meta(row, "name")));
                        if (err)
                                *err = (struct error){ 0 };
                        continue;
                }
                if (r < 0)
                        return r;
                if (json_array_append(gone, (json_t *) (uintptr_t) row) < 0)
                        return error_set(err, -ENOMEM, "out of memory");
        }
        if (ret)
                *ret = TAKE_PTR(gone);
        return 0;
}

static int wait_gone(const struct ending *e, const json_t *pods, struct error *err) {
        size_t i;
        const json_t *row;

        json_array_foreach(pods, i, row) {
                const int r =
                        kube_wait_gone(e->life->kube, KUBE_POD, e->life->ns, meta(row, "name"),
                                       *meta(row, "uid") ? meta(row, "uid") : NULL, e->deadline_ns, err);

                if (r == -ETIMEDOUT)
                        return error_set(err, r, "pods of %s still terminating after %u s: is their node up?",
                                         e->select->what, (unsigned int) (e->timeout_ms / 1000));
                if (r < 0)
                        return error_wrap(err, r, "wait for the end of pod '%s'", ESC(meta(row, "name")));
        }
        return 0;
}

int life_end(const struct life *life, const struct life_select *select, uint64_t timeout_ms,
             struct error *err) {
        static const enum kube_kind data[] = { KUBE_CONFIGMAP, KUBE_SECRET, KUBE_NETWORKPOLICY };
        AUTO_BUF struct buf labels = { 0 };
        AUTO_JSON json_t *pods = NULL;
        struct ending e = { life, select, NULL, clock_ns() + timeout_ms * NS_PER_MS, timeout_ms };
        int r;

        r = buf_fmt(&labels, "%s=%s%s%s", KUBE_LABEL_MANAGED_BY,
                    life->managed_by ? life->managed_by : KUBE_DEFAULT_MANAGER, select->labels ? "," : "",
                    select->labels ? select->labels : "");
        if (r < 0)
                return error_set(err, r, "out of memory");
        e.labels = buf_cstr(&labels);
        if (select->jobs)
                r = delete_kind(&e, KUBE_JOB, true, NULL, err);
        if (r >= 0)
                r = delete_kind(&e, KUBE_POD, false, &pods, err);
        if (r >= 0)
                r = wait_gone(&e, pods, err);
        for (size_t i = 0; r >= 0 && !select->mine && i < ARRAY_SIZE(data); i++)
                r = delete_kind(&e, data[i], true, NULL, err);
        return r < 0 ? r : 0;
}

int life_be_alone(const struct life *life, const struct life_select *select, uint64_t timeout_ms,
                  struct error *err) {
        const struct kube_select others = { .labels = select->labels };
        AUTO_JSON json_t *pods = NULL;
        size_t i;
        const json_t *row;
        int r = life_end(life, select, timeout_ms, err);

        if (r == 0)
                r = kube_list(life->kube, KUBE_POD, life->ns, &others, &pods, NULL, err);
        if (r < 0)
                return r;
        json_array_foreach(pods, i, row) {
                if (compare_age(row, select->mine) > 0)
                        return error_set(err, -EBUSY, "pod '%s' is another attempt that began after this one",
                                         ESC(meta(row, "name")));
        }
        return 0;
}

int life_release_run(const struct life *life, const char *run_id, uint64_t timeout_ms, struct error *err) {
        static const char *const keys[] = { "run-id", "root-run-id" };
        char value[KUBE_LABEL_MAX + 1];
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(keys); i++) {
                AUTO_BUF struct buf labels = { 0 }, what = { 0 };
                struct life_select select = { .jobs = true };

                r = buf_fmt(&labels, "%s/%s=%s", life->domain ? life->domain : KUBE_DEFAULT_DOMAIN, keys[i],
                            kube_label_value(run_id, value));
                if (r == 0)
                        r = buf_fmt(&what, "run %s", ESC(run_id));
                if (r < 0)
                        return error_set(err, r, "out of memory");
                select.labels = buf_cstr(&labels);
                select.what = buf_cstr(&what);
                r = life_end(life, &select, timeout_ms, err);
        }
        return r;
}

int life_check_owner(const struct life *life, const char *name, const char *uid, struct error *err) {
        AUTO_JSON json_t *pod = NULL;
        int r;

        if (!name || !*name || !uid || !*uid)
                return error_set(err, -EINVAL, "the owner pod needs a name and a uid");
        r = kube_get(life->kube, KUBE_POD, life->ns, name, &pod, err);
        if (r == -ENOENT)
                return error_set(
                        err, r,
                        "there is no owner pod '%s' in namespace '%s': the owner has to run where its "
                        "pods run",
                        ESC(name), life->ns ? life->ns : kube_config_namespace(kube_config_of(life->kube)));
        if (r < 0)
                return error_wrap(err, r, "owner pod '%s'", ESC(name));
        if (strcmp(meta(pod, "uid"), uid) != 0)
                return error_set(err, -ESTALE, "owner pod '%s' has uid %s, not %s", ESC(name),
                                 ESC(meta(pod, "uid")), ESC(uid));
        return 0;
}

int life_release_owned(const struct life *life, const char *name, const char *uid, uint64_t timeout_ms,
                       struct error *err) {
        AUTO_BUF struct buf what = { 0 };
        struct life_select select = { .owner_uid = uid, .jobs = true };
        int r;

        r = life_check_owner(life, name, uid, err);
        if (r == 0)
                r = buf_fmt(&what, "owner pod '%s'", ESC(name));
        if (r < 0)
                return r;
        select.what = buf_cstr(&what);
        return life_end(life, &select, timeout_ms, err);
}

int life_release_pod(const struct life *life, const char *name, uint64_t timeout_ms, struct error *err) {
        AUTO_BUF struct buf what = { 0 };
        struct life_select select = { .name = name };
        int r = buf_fmt(&what, "pod '%s'", ESC(name));

        if (r < 0)
                return error_set(err, r, "out of memory");
        select.what = buf_cstr(&what);
        return life_end(life, &select, timeout_ms, err);
}
