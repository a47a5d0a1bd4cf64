/*
 * DOC: theory of operation
 *
 * A plan is checked once, as a whole, before the first request: what could be known to be wrong never leaves
 * a half-made run in a cluster. The texts are those that users of the seed's library know, with the key in
 * front.
 */
#include "kubernetes/manifest/plan.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kubernetes/manifest/names.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/spec/spec.h"

void kube_plan_init(struct kube_plan *plan) {
        *plan = (struct kube_plan){
                .component = KUBE_RUNNER,
                .ns = "default",
                .container = "claude-code",
                .managed_by = KUBE_DEFAULT_MANAGER,
                .domain = KUBE_DEFAULT_DOMAIN,
                .timeout_ms = KUBE_TIMEOUT_MS,
                .margin_ms = KUBE_MARGIN_MS,
                .grace_s = 10,
                .pull_policy = "IfNotPresent",
                .sandboxed = true,
                .workspace_size = "10Gi",
                .environment = { .size = "10Gi", .ttl_ms = 7 * 86400 * 1000ULL },
        };
}

const char *kube_plan_own(struct kube_plan *plan, char *text) {
        char **more;

        if (!text)
                return NULL;
        more = realloc(plan->owned, (plan->n_owned + 1) * sizeof(*more));
        if (!more) {
                free(text);
                return NULL;
        }
        plan->owned = more;
        return plan->owned[plan->n_owned++] = text;
}

void kube_plan_deinit(struct kube_plan *plan) {
        for (size_t i = 0; i < plan->n_owned; i++)
                free(plan->owned[i]);
        free(plan->owned);
        *plan = (struct kube_plan){ 0 };
}

static bool is_blank(const char *text) {
        return !text || text[strspn(text, " \t\n")] == '\0';
}

static bool is_utf8(const char *text) {
        return utf8_valid(text, strlen(text));
}

/* --- who and where --- */

static int check_identity(const struct kube_plan *p, struct error *err) {
        if (!p->ns || !kube_dns_label_valid(p->ns))
                return error_set(err, -EINVAL, "namespace '%s' must be a DNS label", ESC(p->ns ? p->ns : ""));
        if (!p->name || !kube_name_valid(p->name))
                return error_set(
                        err, -EINVAL,
                        "name '%s' must be of lower-case letters, digits, '-' and '.', at most 253 bytes",
                        ESC(p->name ? p->name : ""));
        if (!p->container || !kube_dns_label_valid(p->container))
                return error_set(
                        err, -EINVAL,
                        "name '%s' cannot be a container's: lower-case letters, digits and '-', at most "
                        "63 bytes",
                        ESC(p->container ? p->container : ""));
        if (!kube_label_value_valid(p->managed_by) || !*p->managed_by)
                return error_set(err, -EINVAL, "managed_by '%s' must be a label's value", ESC(p->managed_by));
        if (!kube_name_valid(p->domain))
                return error_set(err, -EINVAL, "label_domain '%s' must be a DNS name", ESC(p->domain));
        if (p->egress_profile && (!*p->egress_profile || !kube_label_value_valid(p->egress_profile)))
                return error_set(err, -EINVAL, "egress_profile '%s' must be a label's value",
                                 ESC(p->egress_profile));
        if ((p->owner_name || p->owner_uid) && (is_blank(p->owner_name) || is_blank(p->owner_uid)))
                return error_set(err, -EINVAL, "owner pod needs a non-empty name and uid");
        if (p->owner_uid && (!kube_name_valid(p->owner_name) || !is_utf8(p->owner_uid)))
                return error_set(err, -EINVAL, "owner pod '%s' cannot be one's name and uid",
                                 ESC(p->owner_name));
        return 0;
}

static int check_labels(const struct kube_plan *p, struct error *err) {
        for (size_t i = 0; i < p->n_labels; i++) {
                const struct kube_pair *l = &p->labels[i];

                if (kube_reserved_key(l->name, p->domain))
                        return error_set(err, -EINVAL,
                                         "pod label '%s' is reserved: %s sets it on every object it creates",
                                         ESC(l->name), p->managed_by);
                if (!kube_label_key_valid(l->name))
                        return error_set(err, -EINVAL, "pod label '%s' is not a label's name", ESC(l->name));
                if (!kube_label_value_valid(l->value))
                        return error_set(err, -EINVAL, "pod label '%s': '%s' is not a label's value",
                                         ESC(l->name), ESC(l->value));
        }
        return 0;
}

static int check_scheduling(const struct kube_plan *p, struct error *err) {
        if (p->runtime_class && is_blank(p->runtime_class))
                return error_set(err, -EINVAL, "runtime class must not be empty");
        if (p->runtime_class && !kube_name_valid(p->runtime_class))
                return error_set(err, -EINVAL, "runtime class '%s' cannot be one's name",
                                 ESC(p->runtime_class));
        if (p->service_account && !kube_name_valid(p->service_account))
                return error_set(err, -EINVAL, "service_account '%s' cannot be one's name",
                                 ESC(p->service_account));
        for (size_t i = 0; i < p->n_node_selector; i++)
                if (!kube_label_key_valid(p->node_selector[i].name) ||
                    !kube_label_value_valid(p->node_selector[i].value))
                        return error_set(err, -EINVAL, "node_selector '%s=%s' is not a label",
                                         ESC(p->node_selector[i].name), ESC(p->node_selector[i].value));
        if (p->spread_key && !(strchr(p->spread_key, '/') && kube_label_key_valid(p->spread_key)))
                return error_set(err, -EINVAL,
                                 "spread_key '%s' would match no node: want a label with a prefix, such as "
                                 "topology.kubernetes.io/zone",
                                 ESC(p->spread_key));
        return 0;
}

/* --- quantities --- */

enum quantity { QUANTITY_CPU, QUANTITY_BYTES };

static int check_quantity(const char *key, const char *text, enum quantity what, uint64_t *ret,
                          struct error *err) {
        const size_t len = text ? strlen(text) : 0;
        int r;

        *ret = 0;
        if (!text)
                return 0;
        r = kube_quantity(text, ret);
        if (r < 0)
                return error_set(err, -EINVAL, "%s: '%s' is not a quantity such as %s", key, ESC(text),
                                 what == QUANTITY_CPU ? "500m or 2" : "512Mi or 2Gi");
        if (*ret == 0)
                return error_set(err, -EINVAL, "%s: must not be zero", key);
        if (what == QUANTITY_BYTES && text[len - 1] == 'm')
                return error_set(err, -EINVAL, "%s: '%s' is thousandths of a byte: want Mi or M", key,
                                 ESC(text));
        if (what == QUANTITY_CPU && text[len - 1] != 'm' && strspn(text, "0123456789.") != len)
                return error_set(err, -EINVAL, "%s: '%s' has a suffix of bytes: want 500m or 2", key,
                                 ESC(text));
        return 0;
}

static int check_resources(const struct kube_resources *res, struct error *err) {
        const struct {
                const char *request_key, *limit_key, *request, *limit;
                enum quantity what;
        } rows[] = {
                { "cpu_request", "cpu_limit", res->cpu_request, res->cpu_limit, QUANTITY_CPU },
                { "memory_request", "memory_limit", res->memory_request, res->memory_limit, QUANTITY_BYTES },
                { "disk_request", "disk_limit", res->disk_request, res->disk_limit, QUANTITY_BYTES },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                uint64_t request, limit;
                int r;

                r = check_quantity(rows[i].request_key, rows[i].request, rows[i].what, &request, err);
                if (r == 0)
                        r = check_quantity(rows[i].limit_key, rows[i].limit, rows[i].what, &limit, err);
                if (r < 0)
                        return r;
                if (rows[i].request && rows[i].limit && request > limit)
                        return error_set(err, -EINVAL, "%s: '%s' is above %s '%s'", rows[i].request_key,
                                         ESC(rows[i].request), rows[i].limit_key, ESC(rows[i].limit));
        }
        return 0;
}

static int check_sizes(const struct kube_plan *p, struct error *err) {
        uint64_t bytes;
        int r;

        r = check_quantity("home_size", p->home_size, QUANTITY_BYTES, &bytes, err);
        if (r == 0)
                r = check_quantity("tmp_size", p->tmp_size, QUANTITY_BYTES, &bytes, err);
        if (r == 0)
                r = check_quantity("workspace_size", p->workspace_size, QUANTITY_BYTES, &bytes, err);
        return r == 0 ? check_resources(&p->resources, err) : r;
}

/* --- variables and secrets --- */

static bool is_variable(const char *s) {
        if (!s || !*s || (*s >= '0' && *s <= '9'))
                return false;
        for (; *s; s++)
                if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') ||
                      strchr("_.-", *s)))
                        return false;
        return true;
}

/* A credential in clear text sits in the pod's specification, where everybody who may list pods reads it. */
static int check_plain(const struct kube_pair *env, struct error *err) {
        static const char *const names[] = { "ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN" };

        if (strcmp(env->name, KUBE_CREDENTIALS_ENV) == 0)
                return error_set(err, -EINVAL,
                                 "a sandboxed pod refuses inline oauth credentials: use credentials_secret");
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(env->name, names[i]) == 0)
                        return error_set(
                                err, -EINVAL,
                                "a sandboxed pod refuses %s as a plain variable: use env_from_secret",
                                names[i]);
        if (strncmp(env->value, "sk-ant", 6) == 0)
                return error_set(err, -EINVAL,
                                 "a sandboxed pod refuses a credential in the plain variable %s: use "
                                 "env_from_secret",
                                 ESC(env->name));
        return 0;
}

static int check_env(const struct kube_plan *p, struct error *err) {
        for (size_t i = 0; i < p->n_env; i++) {
                int r = p->sandboxed ? check_plain(&p->env[i], err) : 0;

                if (r < 0)
                        return r;
                if (!is_variable(p->env[i].name))
                        return error_set(err, -EINVAL, "variable '%s': not a name that a pod can have",
                                         ESC(p->env[i].name));
                if (!is_utf8(p->env[i].value))
                        return error_set(err, -EINVAL, "variable '%s': its value is not UTF-8",
                                         ESC(p->env[i].name));
                for (size_t j = 0; j < i; j++)
                        if (strcmp(p->env[i].name, p->env[j].name) == 0)
                                return error_set(err, -EINVAL, "variable '%s' is given twice",
                                                 ESC(p->env[i].name));
        }
        return 0;
}

static int check_secret_env(const struct kube_plan *p, struct error *err) {
        for (size_t i = 0; i < p->n_secret_env; i++) {
                const struct kube_secret_env *s = &p->secret_env[i];

                if (is_blank(s->name) || is_blank(s->secret) || is_blank(s->key))
                        return error_set(
                                err, -EINVAL,
                                "secret env entry needs a non-empty name, secret and key, got name=%s "
                                "secret=%s key=%s",
                                ESC(s->name ? s->name : ""), ESC(s->secret ? s->secret : ""),
                                ESC(s->key ? s->key : ""));
                if (!is_variable(s->name) || !kube_name_valid(s->secret) || !kube_data_key_valid(s->key))
                        return error_set(err, -EINVAL, "secret env entry '%s': not a variable and a Secret",
                                         ESC(s->name));
                for (size_t j = 0; j < p->n_env; j++)
                        if (strcmp(s->name, p->env[j].name) == 0)
                                return error_set(
                                        err, -EINVAL,
                                        "variable '%s' is given plain and from a Secret: leave one out",
                                        ESC(s->name));
                for (size_t j = 0; j < i; j++)
                        if (strcmp(s->name, p->secret_env[j].name) == 0)
                                return error_set(err, -EINVAL, "variable '%s' is given twice", ESC(s->name));
        }
        /* the kubelet mounts the token below /var/run/secrets, which images have as /run/secrets */
        if (p->run_secret && (p->service_account || (!p->sandboxed && p->automount_token != KUBE_FALSE)))
                return error_set(err, -EINVAL,
                                 "secrets: files in " SECRET_DIR
                                 " are where the token of a service account is: use 'as: env', or %s",
                                 p->service_account ? "leave service_account out" : "a sandboxed pod");
        if (!p->credentials_secret != !p->credentials_key ||
            (p->credentials_secret &&
             (!kube_name_valid(p->credentials_secret) || !kube_data_key_valid(p->credentials_key))))
                return error_set(err, -EINVAL, "credentials_secret needs a Secret and a key: SECRET/KEY");
        return 0;
}

/* --- volumes --- */

/** struct mounted - a path that is taken, and by what */
struct mounted {
        const char *path;
        const char *what;
};

enum { FIXED_MAX = 8 };

/* What is mounted without being in the list of volumes. */
static size_t fixed_mounts(const struct kube_plan *p, struct mounted ret[static FIXED_MAX]) {
        size_t n = 0;

        if (p->sandboxed && p->component == KUBE_RUNNER)
                ret[n++] = (struct mounted){ KUBE_HOME, "the home" };
        if (p->sandboxed)
                ret[n++] = (struct mounted){ KUBE_TMP, "/tmp" };
        if (p->managed_settings)
                ret[n++] = (struct mounted){ KUBE_MANAGED_SETTINGS, "managed settings" };
        if (p->sessions_claim)
                ret[n++] = (struct mounted){ KUBE_HOME "/.claude/projects", "the sessions" };
        if (p->workspace && !p->environment.path)
                ret[n++] = (struct mounted){ p->workspace, "the workspace" };
        if (p->environment.path)
                ret[n++] = (struct mounted){ p->environment.path, "the environment" };
        if (p->stdin_data)
                ret[n++] = (struct mounted){ KUBE_STDIN_DIR, "stdin" };
        return n;
}

/* The seed's list, for whatever a caller mounts. */
static bool is_reserved(const struct kube_plan *p, const char *path) {
        if (kube_path_same(path, "/") || (p->run_secret && kube_path_below(path, SECRET_DIR)))
                return true;
        if (p->component != KUBE_RUNNER)
                return p->sandboxed && kube_path_same(path, KUBE_TMP);
        return kube_path_same(path, KUBE_HOME) || kube_path_same(path, KUBE_TMP) ||
               kube_path_same(path, KUBE_MANAGED_SETTINGS) || kube_path_below(path, KUBE_PROFILES);
}

static int check_path(const struct kube_plan *p, const char *what, const char *path, struct error *err) {
        if (!path || path[0] != '/' || !is_utf8(path))
                return error_set(err, -EINVAL, "%s mount_path must be absolute, got '%s'", what,
                                 ESC(path ? path : ""));
        if (kube_path_has_dots(path) || strchr(path, ':'))
                return error_set(err, -EINVAL, "%s mount_path must have no '.', '..' or ':', got '%s'", what,
                                 ESC(path));
        if (is_reserved(p, path))
                return error_set(err, -EINVAL, "%s cannot be mounted at reserved path '%s'", what, ESC(path));
        return 0;
}

static int check_source(const struct kube_plan *p, const struct kube_volume *v, struct error *err) {
        static const char *const needs[] = {
                [KUBE_VOL_CLAIM] = "pvc volume needs a non-empty claim_name",
                [KUBE_VOL_CONFIGMAP] = "configmap volume needs a non-empty name",
                [KUBE_VOL_SECRET] = "secret volume needs a non-empty name",
                [KUBE_VOL_SCRATCH] = NULL,
                [KUBE_VOL_HOST_DIR] = "host directory needs an absolute path",
        };
        uint64_t bytes;

        static_assert(ARRAY_SIZE(needs) == KUBE_VOL_COUNT, "needs[] and enum kube_volume_kind differ");
        if (v->key && !kube_data_key_valid(v->key))
                return error_set(err, -EINVAL, "volume '%s': '%s' cannot be a key of a ConfigMap or Secret",
                                 ESC(v->target), ESC(v->key));
        if (v->storage_class && !kube_name_valid(v->storage_class))
                return error_set(err, -EINVAL, "volume '%s': '%s' cannot be a storage class", ESC(v->target),
                                 ESC(v->storage_class));
        if (v->kind == KUBE_VOL_SCRATCH) {
                if (!v->size)
                        return error_set(err, -EINVAL, "scratch volume '%s' needs a size", ESC(v->target));
                return check_quantity("scratch volume", v->size, QUANTITY_BYTES, &bytes, err);
        }
        if (is_blank(v->source))
                return error_set(err, -EINVAL, "%s", needs[v->kind]);
        if (v->kind == KUBE_VOL_HOST_DIR && p->sandboxed)
                return error_set(err, -EINVAL,
                                 "a sandboxed pod has no directory of the node: '%s' cannot be mounted",
                                 ESC(v->source));
        if (v->kind == KUBE_VOL_HOST_DIR ? v->source[0] != '/' || !is_utf8(v->source)
                                         : !kube_name_valid(v->source))
                return error_set(err, -EINVAL, "volume '%s': '%s' cannot be the name of its source",
                                 ESC(v->target), ESC(v->source));
        return 0;
}

static int check_volume(const struct kube_plan *p, size_t i, struct error *err) {
        const struct kube_volume *v = &p->volumes[i];
        struct mounted fixed[FIXED_MAX];
        const size_t n = fixed_mounts(p, fixed);
        int r;

        r = check_path(p, v->readonly ? "read-only volume" : "volume", v->target, err);
        if (r == 0)
                r = check_source(p, v, err);
        if (r < 0)
                return r;
        if (v->sub_path && (!kube_sub_path_valid(v->sub_path) || !is_utf8(v->sub_path)))
                return error_set(err, -EINVAL,
                                 "sub_path '%s' must be relative, without empty, '.' or '..' segments",
                                 ESC(v->sub_path));
        if (v->name && !kube_dns_label_valid(v->name))
                return error_set(err, -EINVAL, "volume name '%s' must be a DNS label", ESC(v->name));
        if (v->name && (strncmp(v->name, "ironflow-", 9) == 0))
                return error_set(err, -EINVAL, "volume name '%s' is reserved: choose one without 'ironflow-'",
                                 ESC(v->name));
        for (size_t j = 0; j < n; j++)
                if (kube_path_same(v->target, fixed[j].path))
                        return error_set(err, -EINVAL, "duplicate volume mount path '%s': it is that of %s",
                                         ESC(v->target), fixed[j].what);
        for (size_t j = 0; j < i; j++)
                if (kube_path_same(v->target, p->volumes[j].target))
                        return error_set(err, -EINVAL, "duplicate volume mount path '%s'", ESC(v->target));
        for (size_t j = 0; j < i; j++)
                if (v->name && p->volumes[j].name && strcmp(v->name, p->volumes[j].name) == 0)
                        return error_set(err, -EINVAL, "volume name '%s' is given twice", ESC(v->name));
        return 0;
}

static int check_profiles(const struct kube_plan *p, struct error *err) {
        for (size_t i = 0; i < p->n_profiles; i++) {
                const struct kube_profile *f = &p->profiles[i];
                const char *wrong = kube_subdir_check(f->subdir);

                if (wrong)
                        return error_set(err, -EINVAL, "invalid claude profile subdir '%s': %s",
                                         ESC(f->subdir), wrong);
                if (is_blank(f->configmap) || !kube_name_valid(f->configmap))
                        return error_set(err, -EINVAL, "claude profile '%s' needs a ConfigMap",
                                         ESC(f->subdir));
                for (size_t j = 0; j < i; j++)
                        if (strcmp(f->subdir, p->profiles[j].subdir) == 0)
                                return error_set(
                                        err, -EINVAL,
                                        "claude profile subdir '%s' is already mapped to ConfigMap '%s'",
                                        ESC(f->subdir), ESC(p->profiles[j].configmap));
                if (p->sessions_claim && kube_path_below(f->subdir, "projects"))
                        return error_set(
                                err, -EINVAL,
                                "claude profile subdir '%s' would hide the sessions of sessions_volume",
                                ESC(f->subdir));
        }
        return 0;
}

static int check_environment(const struct kube_plan *p, struct error *err) {
        const struct kube_environment *e = &p->environment;
        uint64_t bytes;

        if (!e->path)
                return e->resumed ? error_set(err, -EINVAL, "resume_environment needs environment_volume")
                                  : 0;
        if (e->path[0] != '/' || kube_path_same(e->path, "/"))
                return error_set(err, -EINVAL,
                                 "invalid environment volume: path must be absolute and not '/', got '%s'",
                                 ESC(e->path));
        if (is_blank(e->size))
                return error_set(err, -EINVAL, "invalid environment volume: size must not be empty");
        if (e->storage_class && is_blank(e->storage_class))
                return error_set(err, -EINVAL, "invalid environment volume: storage class must not be empty");
        if (e->storage_class && !kube_name_valid(e->storage_class))
                return error_set(err, -EINVAL, "invalid environment volume: '%s' cannot be a storage class",
                                 ESC(e->storage_class));
        if (e->ttl_ms == 0)
                return error_set(err, -EINVAL, "invalid environment volume: ttl must be greater than zero");
        if (!e->claim || !kube_name_valid(e->claim))
                return error_set(err, -EINVAL, "invalid environment volume: '%s' cannot be a claim's name",
                                 ESC(e->claim ? e->claim : ""));
        if (check_path(p, "environment volume", e->path, err) < 0)
                return -EINVAL;
        return check_quantity("environment size", e->size, QUANTITY_BYTES, &bytes, err);
}

static int check_files(const struct kube_plan *p, struct error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < p->n_volumes; i++)
                r = check_volume(p, i, err);
        if (r == 0)
                r = check_profiles(p, err);
        if (r == 0)
                r = check_environment(p, err);
        if (r == 0 && p->workspace)
                r = check_path(p, "workspace", p->workspace, err);
        if (r == 0 && p->managed_settings && !kube_name_valid(p->managed_settings))
                r = error_set(err, -EINVAL, "managed settings: '%s' cannot be a ConfigMap's name",
                              ESC(p->managed_settings));
        if (r == 0 && p->sessions_claim && is_blank(p->sessions_claim))
                r = error_set(err, -EINVAL, "sessions_volume claim name must not be empty");
        if (r == 0 && p->sessions_claim && !kube_name_valid(p->sessions_claim))
                r = error_set(err, -EINVAL, "sessions_volume: '%s' cannot be a claim's name",
                              ESC(p->sessions_claim));
        return r;
}

/* --- the walls --- */

/* A relaxation of walls that are not there would be believed to do something. */
static int check_relaxations(const struct kube_plan *p, struct error *err) {
        const struct {
                const char *key;
                bool given;
        } rows[] = {
                { "allow_writable_root", p->writable_root },
                { "home_size", p->home_size },
                { "tmp_size", p->tmp_size },
                { "deadline_margin", p->margin_given },
                { "run_as_user", p->component == KUBE_RUNNER && p->run_as_user != 0 },
                { "sessions_volume", p->sessions_claim },
        };
        const struct {
                const char *key;
                bool given;
        } bare[] = {
                { "automount_service_account_token", p->automount_token != KUBE_UNSET },
                { "allow_privilege_escalation", p->privilege_escalation != KUBE_UNSET },
        };

        for (size_t i = 0; !p->sandboxed && i < ARRAY_SIZE(rows); i++)
                if (rows[i].given)
                        return error_set(err, -EINVAL,
                                         "%s requires a sandboxed pod: leave it out, or sandboxed",
                                         rows[i].key);
        for (size_t i = 0; p->sandboxed && i < ARRAY_SIZE(bare); i++)
                if (bare[i].given)
                        return error_set(err, -EINVAL, "%s is for a pod that is not sandboxed: leave it out",
                                         bare[i].key);
        if (p->run_as_user < 0 || p->run_as_group < 0 || p->fs_group < 0)
                return error_set(err, -EINVAL, "run_as_user must be greater than 0");
        if (p->fs_group_change_policy && strcmp(p->fs_group_change_policy, "Always") != 0 &&
            strcmp(p->fs_group_change_policy, "OnRootMismatch") != 0)
                return error_set(err, -EINVAL, "fs_group_change_policy '%s': want Always or OnRootMismatch",
                                 ESC(p->fs_group_change_policy));
        return 0;
}

static int check_container(const struct kube_plan *p, struct error *err) {
        static const char *const policies[] = { "Always", "IfNotPresent", "Never" };
        bool policy = false;

        if (is_blank(p->image) || strpbrk(p->image, " \t\n") || !is_utf8(p->image))
                return error_set(err, -EINVAL,
                                 "image: a pod needs one, such as registry.example.com/name:1.2");
        for (size_t i = 0; i < ARRAY_SIZE(policies); i++)
                policy = policy || strcmp(p->pull_policy, policies[i]) == 0;
        if (!policy)
                return error_set(err, -EINVAL, "image_pull_policy '%s': want Always, IfNotPresent or Never",
                                 ESC(p->pull_policy));
        for (size_t i = 0; i < p->n_pull_secrets; i++)
                if (!kube_name_valid(p->pull_secrets[i]))
                        return error_set(err, -EINVAL, "image_pull_secret '%s' cannot be a Secret's name",
                                         ESC(p->pull_secrets[i]));
        if (p->n_command == 0)
                return error_set(err, -EINVAL, "a pod needs a command");
        for (size_t i = 0; i < p->n_command; i++)
                if (!is_utf8(p->command[i]) || strlen(p->command[i]) > KUBE_ARG_MAX)
                        return error_set(
                                err, -EINVAL,
                                "command: word %zu is not UTF-8, or longer than %d KiB: hand it in as "
                                "stdin or a ConfigMap",
                                i + 1, KUBE_ARG_MAX / 1024);
        if (p->working_dir && (p->working_dir[0] != '/' || !is_utf8(p->working_dir)))
                return error_set(err, -EINVAL, "working directory '%s' must be absolute",
                                 ESC(p->working_dir));
        if (p->stdin_data && (strlen(p->stdin_data) > KUBE_STDIN_MAX || !is_utf8(p->stdin_data)))
                return error_set(err, -EINVAL, "stdin: at most %d KiB of UTF-8 text reach a pod",
                                 KUBE_STDIN_MAX / 1024);
        return 0;
}

static int check_network(const struct kube_plan *p, struct error *err) {
        unsigned char raw[16];

        if (p->egress_ip && inet_pton(AF_INET, p->egress_ip, raw) != 1 &&
            inet_pton(AF_INET6, p->egress_ip, raw) != 1)
                return error_set(err, -EINVAL, "network policy: '%s' is not an address", ESC(p->egress_ip));
        if (p->network_policy && !p->run_id)
                return error_set(err, -EINVAL, "network policy: it needs a run id to select its pod by");
        if (p->timeout_ms == 0)
                return error_set(err, -EINVAL, "timeout: must be greater than zero");
        return 0;
}

int kube_plan_check(const struct kube_plan *plan, struct error *err) {
        static int (*const checks[])(const struct kube_plan *p, struct error *err) = {
                check_identity,   check_container, check_relaxations, check_labels,     check_env,
                check_secret_env, check_sizes,     check_files,       check_scheduling, check_network,
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(checks); i++)
                r = checks[i](plan, err);
        return r;
}
