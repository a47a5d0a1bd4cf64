#include "drivers/kubernetes/order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <time.h>
#include <unistd.h>

#include "fs/rules-json.h"
#include "kubernetes/manifest/manifest.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

enum { PREVIOUS_MS = 60000, JSON_STRING_MAX = 1 << 20, SECRET_SUM_MAX = 1 << 20 };

void kube_names_make(struct kube_names *ret) {
        struct timespec now = { 0 };
        uint32_t salt[2] = { 0 };
        int64_t ms;

        (void) clock_gettime(CLOCK_REALTIME, &now);
        (void) !getrandom(salt, sizeof(salt), 0);
        ms = (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
        (void) kube_unique("claude-code", ms, salt[0], ret->pod);
        (void) kube_unique("ironflow-env", ms, salt[1], ret->claim);
}

/* [{"kind":..,"object":..}]; NULL: no memory */
static json_t *objects_of(const struct kube_plan *plan) {
        AUTO_JSON json_t *list = json_array();
        int bad = !list;

        if (plan->environment.path && !plan->environment.resumed)
                bad |= json_array_append_new(list, json_pack("{s:s,s:o}", "kind", "PersistentVolumeClaim",
                                                             "object", kube_claim(plan)));
        if (plan->network_policy)
                bad |= json_array_append_new(list, json_pack("{s:s,s:o}", "kind", "NetworkPolicy", "object",
                                                             kube_network_policy(plan)));
        return bad ? NULL : TAKE_PTR(list);
}

/* The tokens of the run are the pod's variables, for whoever executes something in it. */
static int add_env(json_t *pod, const char *const *env, size_t n_env) {
        json_t *container = json_array_get(json_object_get(json_object_get(pod, "spec"), "containers"), 0);
        json_t *list = json_object_get(container, "env");

        if (!list && json_object_set_new(container, "env", json_array()) == 0)
                list = json_object_get(container, "env");
        for (size_t i = 0; i < n_env; i++) {
                const size_t n = strcspn(env[i], "=");
                json_t *row =
                        json_pack("{s:s%,s:s}", "name", env[i], n, "value", env[i][n] ? env[i] + n + 1 : "");

                if (json_array_append_new(list, row) < 0)
                        return -ENOMEM;
        }
        return 0;
}

/* The Secret of the run's files, without them: they go another way, and into no JSON here. */
static int add_secret(json_t *order, const struct kube_run_order *of, const struct kube_plan *plan) {
        AUTO_JSON json_t *secret = kube_data(plan, "Secret", plan->run_secret, NULL, 0);
        AUTO_JSON json_t *files = json_array();
        int bad = !secret || !files || json_object_del(secret, "stringData") < 0;

        for (size_t i = 0; i < of->n_secrets; i++)
                bad |= json_array_append_new(files, json_pack("{s:s,s:I,s:s*}", "name", of->secrets[i].name,
                                                              "len", (json_int_t) of->secrets[i].len, "path",
                                                              of->secrets[i].path)) < 0;
        return bad || json_object_set(order, "secret", secret) < 0 ||
                               json_object_set(order, "secret_files", files) < 0
                       ? -ENOMEM
                       : 0;
}

/* Labels of an earlier attempt of the same step, and how messages call it. */
static int add_previous(json_t *order, const struct kube_plan *plan) {
        AUTO_FREE char *labels = plan->run_id && plan->step ? kube_selector(plan, true, false) : NULL;
        AUTO_FREE char *what = NULL;

        if (!labels)
                return plan->run_id && plan->step ? -ENOMEM : 0;
        if (asprintf(&what, "the previous attempt of step %s of run %s", ESC(plan->step), ESC(plan->run_id)) <
            0)
                return -ENOMEM;
        return json_object_set_new(order, "previous", json_string(labels)) < 0 ||
                               json_object_set_new(order, "what", json_string(what)) < 0
                       ? -ENOMEM
                       : 0;
}

static json_t *order_json(const struct kube_run_order *of, const struct kube_plan *plan) {
        const struct spec_kubernetes *k = &of->spec->kubernetes;
        const bool again = plan->environment.path && plan->environment.resumed;
        AUTO_JSON json_t *pod = kube_pod(plan);
        AUTO_JSON json_t *order = NULL;
        char id[64];

        (void) snprintf(id, sizeof(id), "COFFERDAM_RUN_ID=%s", of->run_id ? of->run_id : "");
        if (!pod || add_env(pod, of->env, of->n_env) < 0 || add_env(pod, (const char *const[]){ id }, 1) < 0)
                return NULL;
        order = json_pack(
                "{s:o,s:O,s:s,s:s,s:I,s:I,s:s*,s:s*,s:s*,s:s*,s:s*,s:s*,s:s*,s:s,s:b,s:o*,s:I,s:b,s:I,s:I}",
                "objects", objects_of(plan), "pod", pod, "pod_name", plan->name, "container", plan->container,
                "now_s", (json_int_t) plan->now_s, "previous_ms",
                (json_int_t) (k->previous_attempt_timeout_ms ? k->previous_attempt_timeout_ms : PREVIOUS_MS),
                "context", k->context, "file", k->kubeconfig, "ns", k->ns, "managed_by", plan->managed_by,
                "domain", plan->domain, "owner_name", plan->owner_name, "owner_uid", plan->owner_uid,
                "workspace", of->copied->target, "same_path",
                strcmp(of->copied->target, of->copied->pin.path) == 0, "rules",
                of->copied->rules ? rules_to_json(of->copied->rules) : NULL, "bytes_max",
                (json_int_t) of->spec->limits.disk, "comes_back", of->copied->comes_back, "copy_ms",
                (json_int_t) k->copy_timeout_ms, "ready_ms", (json_int_t) k->start_timeout_ms);
        if (!order || (of->run_id && add_previous(order, plan) < 0) ||
            (of->n_secrets > 0 && add_secret(order, of, plan) < 0))
                return NULL;
        if (again && (json_object_set_new(order, "extend_claim", json_string(plan->environment.claim)) < 0 ||
                      json_object_set_new(order, "extend_patch", kube_claim_extend(plan)) < 0))
                return NULL;
        return TAKE_PTR(order);
}

int order_of_run(const struct kube_run_order *of, json_t **ret, struct error *err) {
        const struct kube_read from = { .environ = of->ctx->environ,
                                        .name = of->names->pod,
                                        .run_id = of->run_id ? of->run_id : "planned",
                                        .cwd = of->ctx->cwd,
                                        .new_claim = of->names->claim,
                                        .now_s = (int64_t) time(NULL) };
        AUTO_KUBE_PLAN struct kube_plan plan = { 0 };
        int r;

        r = kube_plan_read(of->spec, &from, &plan, err);
        if (r == 0)
                r = kube_plan_check(&plan, err);
        if (r < 0)
                return r;
        *ret = order_json(of, &plan);
        return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

static json_t *strings(const char *const *v) {
        AUTO_JSON json_t *list = json_array();

        for (; list && v && *v; v++)
                if (json_array_append_new(list, json_string(*v)) < 0)
                        return NULL; /* no memory, or not UTF-8, which JSON cannot hold */
        return TAKE_PTR(list);
}

json_t *order_of_command(const struct kube_run_order *of, const struct exec_request *req) {
        const struct spec_kubernetes *k = &of->spec->kubernetes;
        char key[32];

        (void) snprintf(key, sizeof(key), "/tmp/.cofferdam-%" PRIu32, req->id);
        return json_pack("{s:s*,s:s*,s:s*,s:s,s:s,s:s,s:b,s:o,s:o,s:s}", "context", k->context, "file",
                         k->kubeconfig, "ns", k->ns, "pod", of->names->pod, "container", "claude-code", "key",
                         key, "tty", req->tty, "argv", strings(req->argv), "env", strings(req->env), "cwd",
                         req->cwd ? req->cwd : of->copied->target);
}

json_t *order_of_secret(const struct kube_run_order *of, const char *name) {
        const struct spec_kubernetes *k = &of->spec->kubernetes;
        char secret[KUBE_UNIQUE_LEN + 16];

        (void) snprintf(secret, sizeof(secret), KUBE_RUN_SECRET, of->names->pod);
        return json_pack("{s:s*,s:s*,s:s*,s:s,s:s}", "context", k->context, "file", k->kubeconfig, "ns",
                         k->ns, "secret", secret, "key", name);
}

int order_values_fd(const struct kube_run_order *of, struct error *err) {
        AUTO_FD int fd = memfd_create("secrets", MFD_CLOEXEC);
        size_t sum = 0;

        if (fd < 0)
                return error_set(err, -errno, "secrets: %s", strerror(errno));
        for (size_t i = 0; i < of->n_secrets; i++) {
                off_t from = 0;

                sum += of->secrets[i].len;
                if (sum > SECRET_SUM_MAX)
                        return error_set(
                                err, -E2BIG,
                                "secrets: more than 1 MiB together, which is what a Secret of a cluster "
                                "holds: leave some out");
                while ((size_t) from < of->secrets[i].len)
                        if (sendfile(fd, of->secrets[i].fd, &from, of->secrets[i].len - (size_t) from) <= 0)
                                return error_set(err, -EIO, "secrets: copy '%s': %s", of->secrets[i].name,
                                                 strerror(errno));
        }
        return TAKE_FD(fd);
}

int order_fd(const json_t *order) {
        AUTO_FREE char *text = order ? json_dumps(order, JSON_COMPACT) : NULL;
        AUTO_FD int fd = -1;
        int r;

        if (!text)
                return -ENOMEM;
        fd = memfd_create("order", MFD_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = write_all(fd, text, strlen(text));
        return r < 0 ? r : TAKE_FD(fd);
}
