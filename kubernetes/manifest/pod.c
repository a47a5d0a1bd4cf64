/*
 * DOC: theory of operation
 *
 * One container, one attempt. A sandboxed pod fits the level "restricted" of PodSecurity whatever else is
 * said in the plan (tests/integration/podsecurity.py has the rules of it). What belongs to a field's default
 * is written all the same where a wall depends on it, so that no admission hook fills it in differently.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kubernetes/manifest/make.h"
#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/names.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"

#define GIB_MILLI (1000ULL << 30)

const char *kube_component_name(enum kube_component component) {
        static const char *const names[] = {
                [KUBE_RUNNER] = "claude-runner",    [KUBE_PROMPT] = "prompt-data",
                [KUBE_POD_RUN] = "pod-run",         [KUBE_JOB_RUN] = "job-run",
                [KUBE_ENVIRONMENT] = "environment",
        };

        static_assert(ARRAY_SIZE(names) == KUBE_COMPONENT_COUNT, "names[] and enum kube_component differ");
        return names[component];
}

const char *kube_key(const struct kube_plan *plan, const char *name, char ret[static KUBE_KEY_LEN]) {
        (void) snprintf(ret, KUBE_KEY_LEN, "%s/%s", plan->domain, name);
        return ret;
}

static int64_t add_seconds(int64_t now, uint64_t ms) {
        int64_t sum;

        return __builtin_add_overflow(now, (int64_t) (ms / 1000), &sum) ? INT64_MAX : sum;
}

int64_t kube_expires_at(const struct kube_plan *plan) {
        return add_seconds(add_seconds(plan->now_s, plan->timeout_ms), plan->margin_ms);
}

int64_t kube_deadline_s(const struct kube_plan *plan) {
        if (plan->deadline_ms)
                return plan->deadline_ms < 1000 ? 1 : add_seconds(0, plan->deadline_ms);
        return plan->sandboxed ? add_seconds(add_seconds(0, plan->timeout_ms), plan->margin_ms) : 0;
}

/* --- the walls --- */

static int64_t user_of(const struct kube_plan *p) {
        return p->run_as_user == 0 && p->sandboxed ? KUBE_UID : p->run_as_user;
}

static int64_t group_of(const struct kube_plan *p) {
        return p->run_as_group ? p->run_as_group : user_of(p);
}

static int64_t fs_group_of(const struct kube_plan *p) {
        return p->fs_group ? p->fs_group : group_of(p);
}

static json_t *seccomp(void) {
        return json_pack("{s:s}", "type", "RuntimeDefault");
}

/* Of the pod; nothing when neither a sandbox nor a user was asked for. */
static json_t *pod_security(struct make *m) {
        const struct kube_plan *p = m->plan;
        json_t *sec = json_object();

        if (!p->sandboxed && !user_of(p))
                return sec;
        make_put(m, sec, "runAsNonRoot", json_true());
        make_put(m, sec, "runAsUser", json_integer(user_of(p)));
        make_put(m, sec, "runAsGroup", json_integer(group_of(p)));
        make_put(m, sec, "fsGroup", json_integer(fs_group_of(p)));
        make_text(m, sec, "fsGroupChangePolicy",
                  p->fs_group_change_policy ? p->fs_group_change_policy : "OnRootMismatch");
        if (p->sandboxed)
                make_put(m, sec, "seccompProfile", seccomp());
        return sec;
}

static json_t *container_security(struct make *m) {
        const struct kube_plan *p = m->plan;
        json_t *sec = json_object();

        if (p->sandboxed) {
                make_put(m, sec, "privileged", json_false());
                make_put(m, sec, "allowPrivilegeEscalation", json_false());
                make_put(m, sec, "readOnlyRootFilesystem", json_boolean(!p->writable_root));
                make_put(m, sec, "capabilities", json_pack("{s:[s]}", "drop", "ALL"));
                make_put(m, sec, "seccompProfile", seccomp());
        } else if (p->privilege_escalation != KUBE_UNSET) {
                make_put(m, sec, "allowPrivilegeEscalation",
                         json_boolean(p->privilege_escalation == KUBE_TRUE));
        }
        if (user_of(p)) {
                make_put(m, sec, "runAsNonRoot", json_true());
                make_put(m, sec, "runAsUser", json_integer(user_of(p)));
                make_put(m, sec, "runAsGroup", json_integer(group_of(p)));
        }
        return sec;
}

static void put_token(struct make *m, json_t *spec) {
        const struct kube_plan *p = m->plan;

        make_text(m, spec, "serviceAccountName", p->service_account);
        if (p->sandboxed && !p->service_account)
                make_put(m, spec, "automountServiceAccountToken", json_false());
        else if (p->automount_token != KUBE_UNSET)
                make_put(m, spec, "automountServiceAccountToken",
                         json_boolean(p->automount_token == KUBE_TRUE));
}

/* --- resources: a request stands wherever a limit does, or the limit would be taken for it --- */

static void put_amount(struct make *m, json_t *requests, json_t *limits, const char *key, const char *request,
                       const char *limit) {
        make_text(m, limits, key, limit);
        make_text(m, requests, key, request ? request : limit);
}

/* Of a limit that was given: as much, but 1 GiB at most, is asked for beforehand. */
static const char *disk_request(const struct kube_resources *r) {
        uint64_t limit;

        if (r->disk_request || !r->disk_limit)
                return r->disk_request;
        return kube_quantity(r->disk_limit, &limit) == 0 && limit > GIB_MILLI ? "1Gi" : r->disk_limit;
}

/* Of a sandbox without one: what the emptyDirs may hold, and 1 GiB for logs and a writable root. */
static void put_disk(struct make *m, json_t *requests, json_t *limits) {
        const struct kube_resources *r = &m->plan->resources;
        const uint64_t sum = make_disk_milli(m->plan);
        char text[32];

        if (r->disk_limit || r->disk_request || !m->plan->sandboxed) {
                make_text(m, limits, "ephemeral-storage", r->disk_limit);
                make_text(m, requests, "ephemeral-storage", disk_request(r));
                return;
        }
        (void) snprintf(text, sizeof(text), "%lluMi", (unsigned long long) (sum / (1000ULL << 20) + 1024));
        make_text(m, limits, "ephemeral-storage", text);
        make_text(m, requests, "ephemeral-storage", "1Gi");
}

static json_t *resources(struct make *m) {
        const struct kube_resources *r = &m->plan->resources;
        json_t *requests = json_object(), *limits = json_object(), *res = json_object();

        put_amount(m, requests, limits, "cpu", r->cpu_request, r->cpu_limit);
        put_amount(m, requests, limits, "memory", r->memory_request, r->memory_limit);
        put_disk(m, requests, limits);
        if (json_object_size(limits) > 0)
                make_put(m, res, "limits", json_incref(limits));
        if (json_object_size(requests) > 0)
                make_put(m, res, "requests", json_incref(requests));
        json_decref(limits);
        json_decref(requests);
        return res;
}

/* --- variables --- */

static bool is_set(const struct kube_plan *p, const char *name) {
        for (size_t i = 0; i < p->n_env; i++)
                if (strcmp(p->env[i].name, name) == 0)
                        return true;
        for (size_t i = 0; i < p->n_secret_env; i++)
                if (strcmp(p->secret_env[i].name, name) == 0)
                        return true;
        return false;
}

/* The kubelet expands "$(NAME)" and makes "$$" one: a '$' that could begin either is written twice. */
static json_t *literal(const char *text) {
        AUTO_BUF struct buf out = { 0 };

        for (const char *p = text; *p; p++) {
                if (*p == '$' && (p[1] == '$' || p[1] == '(') && buf_str(&out, "$") < 0)
                        return NULL;
                if (buf_add(&out, p, 1) < 0)
                        return NULL;
        }
        return json_string(buf_cstr(&out));
}

static void add_env(struct make *m, json_t *env, const char *name, const char *value) {
        json_t *v = json_object();

        make_text(m, v, "name", name);
        make_put(m, v, "value", literal(value));
        make_add(m, env, v);
}

static void add_secret_env(struct make *m, json_t *env, const char *name, const char *secret,
                           const char *key) {
        make_add(m, env,
                 json_pack("{s:s, s:{s:{s:s, s:s}}}", "name", name, "valueFrom", "secretKeyRef", "name",
                           secret, "key", key));
}

static json_t *variables(struct make *m) {
        const struct kube_plan *p = m->plan;
        json_t *env = json_array();

        for (size_t i = 0; i < p->n_env; i++)
                add_env(m, env, p->env[i].name, p->env[i].value);
        for (size_t i = 0; i < p->n_secret_env; i++)
                add_secret_env(m, env, p->secret_env[i].name, p->secret_env[i].secret, p->secret_env[i].key);
        if (p->credentials_secret)
                add_secret_env(m, env, KUBE_CREDENTIALS_ENV, p->credentials_secret, p->credentials_key);
        if (p->sandboxed && p->component == KUBE_RUNNER && !is_set(p, "HOME"))
                add_env(m, env, "HOME", KUBE_HOME);
        if (p->sandboxed && !is_set(p, "TMPDIR"))
                add_env(m, env, "TMPDIR", KUBE_TMP);
        return env;
}

/* --- what the container executes --- */

/* Regular files of one ConfigMap, hidden ones too but not the kubelet's "..data". */
static int profile_script(struct buf *out, const struct kube_profile *profile, size_t i) {
        return buf_fmt(out,
                       "d=\"$HOME/.claude%s%s\"\nmkdir -p -- \"$d\"\n"
                       "for f in " KUBE_PROFILES "/%zu/* " KUBE_PROFILES "/%zu/.[!.]*; do\n"
                       "  if [ -f \"$f\" ]; then cp -L -- \"$f\" \"$d/\"; fi\ndone\n",
                       *profile->subdir ? "/" : "", profile->subdir, i, i);
}

static int start_script(const struct kube_plan *p, struct buf *out) {
        int r;

        r = buf_str(out, "set -e\nu=`umask`\numask 077\n");
        for (size_t i = 0; r == 0 && i < p->n_profiles; i++)
                r = profile_script(out, &p->profiles[i], i);
        if (r == 0 && p->credentials_secret)
                r = buf_str(out,
                            "mkdir -p -- \"$HOME/.claude\"\n"
                            "printf '%s' \"$" KUBE_CREDENTIALS_ENV "\" >\"$HOME/.claude/.credentials.json\"\n"
                            "unset " KUBE_CREDENTIALS_ENV "\n");
        if (r == 0)
                r = buf_str(out, "umask \"$u\"\nunset d f u\n");
        return r < 0 ? r : buf_fmt(out, "exec \"$@\"%s\n", p->stdin_data ? " <" KUBE_STDIN_DIR "/stdin" : "");
}

json_t *make_command(struct make *m) {
        const struct kube_plan *p = m->plan;
        json_t *argv = json_array();

        if (p->n_profiles > 0 || p->credentials_secret || p->stdin_data) {
                AUTO_BUF struct buf script = { 0 };

                if (start_script(p, &script) < 0)
                        m->failed = true;
                make_add(m, argv, json_string("/bin/sh"));
                make_add(m, argv, json_string("-c"));
                make_add(m, argv, literal(buf_cstr(&script)));
                make_add(m, argv, json_string("sh"));
        }
        for (size_t i = 0; i < p->n_command; i++)
                make_add(m, argv, literal(p->command[i]));
        return argv;
}

/* --- the pod --- */

static json_t *container(struct make *m, json_t *mounts) {
        const struct kube_plan *p = m->plan;
        json_t *c = json_object(), *sec = container_security(m), *res = resources(m);

        make_text(m, c, "name", p->container);
        make_text(m, c, "image", p->image);
        make_text(m, c, "imagePullPolicy", p->pull_policy);
        make_put(m, c, "command", make_command(m));
        make_text(m, c, "workingDir", p->working_dir);
        make_list(m, c, "env", variables(m));
        make_list(m, c, "volumeMounts", mounts);
        if (!sec || json_object_size(sec) > 0)
                make_put(m, c, "securityContext", sec);
        else
                json_decref(sec);
        if (!res || json_object_size(res) > 0)
                make_put(m, c, "resources", res);
        else
                json_decref(res);
        return c;
}

static json_t *toleration(struct make *m, const struct kube_toleration *t) {
        json_t *obj = json_object();

        if (*t->key)
                make_text(m, obj, "key", t->key);
        make_text(m, obj, "operator", t->value ? "Equal" : "Exists");
        make_text(m, obj, "value", t->value);
        make_text(m, obj, "effect", t->effect);
        if (t->seconds >= 0)
                make_put(m, obj, "tolerationSeconds", json_integer(t->seconds));
        return obj;
}

static void put_scheduling(struct make *m, json_t *spec) {
        const struct kube_plan *p = m->plan;
        json_t *tolerations = json_array(), *secrets = json_array();

        for (size_t i = 0; i < p->n_tolerations; i++)
                make_add(m, tolerations, toleration(m, &p->tolerations[i]));
        for (size_t i = 0; i < p->n_pull_secrets; i++)
                make_add(m, secrets, json_pack("{s:s}", "name", p->pull_secrets[i]));
        make_list(m, spec, "imagePullSecrets", secrets);
        make_list(m, spec, "tolerations", tolerations);
        make_text(m, spec, "runtimeClassName", p->runtime_class);
        if (p->n_node_selector > 0)
                make_put(m, spec, "nodeSelector", make_pairs(m, p->node_selector, p->n_node_selector));
        if (p->spread_key)
                make_put(m, spec, "topologySpreadConstraints",
                         json_pack("[{s:i, s:s, s:s, s:{s:{s:s, s:s}}}]", "maxSkew", 1, "topologyKey",
                                   p->spread_key, "whenUnsatisfiable", "ScheduleAnyway", "labelSelector",
                                   "matchLabels", KUBE_LABEL_MANAGED_BY, p->managed_by, KUBE_LABEL_COMPONENT,
                                   kube_component_name(p->component)));
}

json_t *make_pod_spec(struct make *m) {
        const struct kube_plan *p = m->plan;
        json_t *spec = json_object(), *sec = pod_security(m), *mounts = json_array(),
               *containers = json_array();
        json_t *volumes = make_volumes(m, mounts);

        make_text(m, spec, "restartPolicy", "Never");
        make_put(m, spec, "enableServiceLinks", json_false());
        make_put(m, spec, "hostNetwork", json_false());
        make_put(m, spec, "hostPID", json_false());
        make_put(m, spec, "hostIPC", json_false());
        put_token(m, spec);
        make_put(m, spec, "terminationGracePeriodSeconds", json_integer(p->grace_s));
        if (kube_deadline_s(p) > 0)
                make_put(m, spec, "activeDeadlineSeconds", json_integer(kube_deadline_s(p)));
        if (!sec || json_object_size(sec) > 0)
                make_put(m, spec, "securityContext", sec);
        else
                json_decref(sec);
        put_scheduling(m, spec);
        make_add(m, containers, container(m, mounts));
        make_put(m, spec, "containers", containers);
        make_list(m, spec, "volumes", volumes);
        return spec;
}

json_t *kube_pod(const struct kube_plan *plan) {
        struct make m = { .plan = plan };
        json_t *pod = json_object();

        make_text(&m, pod, "apiVersion", "v1");
        make_text(&m, pod, "kind", "Pod");
        make_put(&m, pod, "metadata", make_metadata(&m, plan->component, plan->name, kube_expires_at(plan)));
        make_put(&m, pod, "spec", make_pod_spec(&m));
        return make_done(&m, pod);
}
