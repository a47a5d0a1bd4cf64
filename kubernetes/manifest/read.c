#include "kubernetes/manifest/read.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kubernetes/manifest/names.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/parse.h"
#include "runtime/spec/keys.h"

const char *kube_unique(const char *prefix, int64_t now_ms, uint32_t random,
                        char ret[static KUBE_UNIQUE_LEN]) {
        (void) snprintf(ret, KUBE_UNIQUE_LEN, "%.32s-%llx-%08x", prefix, (unsigned long long) now_ms, random);
        return ret;
}

/* --- memory --- */

void *kube_plan_array(struct kube_plan *plan, size_t n, size_t size) {
        void *array = calloc(n ? n : 1, size);

        return kube_plan_own(plan, array) ? array : NULL;
}

char *kube_plan_dup(struct kube_plan *plan, const char *text) {
        char *copy = strdup(text);

        return kube_plan_own(plan, copy) ? copy : NULL;
}

static int no_memory(struct error *err) {
        return error_set(err, -ENOMEM, "out of memory");
}

int kube_plan_split(struct kube_plan *plan, const char *text, char sep, const char **ret_a,
                    const char **ret_b) {
        char *a = kube_plan_dup(plan, text), *b = a ? strchr(a, sep) : NULL;

        if (!a)
                return -ENOMEM;
        if (!b || b == a || !b[1])
                return -EINVAL;
        *b++ = '\0';
        *ret_a = a;
        *ret_b = b;
        return 0;
}

/* "%llu" of a size in bytes, as a quantity */
static int put_bytes(struct kube_plan *plan, uint64_t bytes, const char **ret, struct error *err) {
        char text[32];

        (void) snprintf(text, sizeof(text), "%llu", (unsigned long long) bytes);
        *ret = kube_plan_dup(plan, text);
        return *ret ? 0 : no_memory(err);
}

/* --- one line of text each --- */

int kube_secret_parse(char *text, struct kube_secret_env *ret, struct error *err) {
        char *secret = strchr(text, '='), *key = secret ? strchr(secret, '/') : NULL;

        if (!key)
                return error_set(err, -EINVAL, "'%s': want NAME=SECRET/KEY", ESC(text));
        *secret++ = '\0';
        *key++ = '\0';
        *ret = (struct kube_secret_env){ .name = text, .secret = secret, .key = key };
        return 0;
}

static const char *const volume_kinds[] = {
        [KUBE_VOL_CLAIM] = "pvc",       [KUBE_VOL_CONFIGMAP] = "configmap", [KUBE_VOL_SECRET] = "secret",
        [KUBE_VOL_SCRATCH] = "scratch", [KUBE_VOL_HOST_DIR] = "host",
};
static_assert(ARRAY_SIZE(volume_kinds) == KUBE_VOL_COUNT, "volume_kinds[] and enum kube_volume_kind differ");

static int volume_kind(const char *text, enum kube_volume_kind *ret, struct error *err) {
        for (size_t i = 0; i < KUBE_VOL_COUNT; i++)
                if (strcmp(text, volume_kinds[i]) == 0) {
                        *ret = (enum kube_volume_kind) i;
                        return 0;
                }
        return error_set(err, -EINVAL, "type '%s': want pvc, configmap, secret, scratch or host", ESC(text));
}

/* @value: NULL: the field stood alone */
static int volume_field(struct kube_volume *v, const char *name, const char *value, bool *typed,
                        struct error *err) {
        const struct {
                const char *name;
                const char **field;
        } fields[] = {
                { "source", &v->source }, { "src", &v->source },          { "target", &v->target },
                { "dst", &v->target },    { "sub_path", &v->sub_path },   { "key", &v->key },
                { "size", &v->size },     { "class", &v->storage_class }, { "name", &v->name },
        };

        if (strcmp(name, "readonly") == 0 || strcmp(name, "ro") == 0) {
                if (value && parse_bool(value, &v->readonly) < 0)
                        return error_set(err, -EINVAL, "readonly: want true or false, not '%s'", ESC(value));
                v->readonly = value ? v->readonly : true;
                return 0;
        }
        if (!value || !*value)
                return error_set(err, -EINVAL, "field '%s' needs a value", ESC(name));
        if (strcmp(name, "type") == 0) {
                *typed = true;
                return volume_kind(value, &v->kind, err);
        }
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (strcmp(name, fields[i].name) == 0) {
                        if (*fields[i].field)
                                return error_set(err, -EINVAL, "field '%s' is given twice", ESC(name));
                        *fields[i].field = value;
                        return 0;
                }
        return error_set(
                err, -EINVAL,
                "unknown field '%s': known are type, source, target, sub_path, key, size, class, name, "
                "readonly",
                ESC(name));
}

int kube_volume_parse(char *text, struct kube_volume *ret, struct error *err) {
        struct kube_volume v = { 0 };
        bool typed = false;

        for (char *rest = text; rest;) {
                char *field = strsep(&rest, ","), *value = strchr(field, '=');
                int r;

                if (value)
                        *value++ = '\0';
                r = volume_field(&v, field, value, &typed, err);
                if (r < 0)
                        return r;
        }
        if (!typed)
                return error_set(err, -EINVAL,
                                 "a volume needs 'type': pvc, configmap, secret, scratch or host");
        if (!v.target)
                return error_set(err, -EINVAL, "a volume of type %s needs 'target'", volume_kinds[v.kind]);
        if (v.kind == KUBE_VOL_SCRATCH ? v.source != NULL : v.size || v.storage_class)
                return error_set(err, -EINVAL, "a volume of type %s has no '%s'", volume_kinds[v.kind],
                                 v.kind == KUBE_VOL_SCRATCH ? "source"
                                 : v.size                   ? "size"
                                                            : "class");
        if (v.key && v.kind != KUBE_VOL_CONFIGMAP && v.kind != KUBE_VOL_SECRET)
                return error_set(err, -EINVAL, "a volume of type %s has no 'key'", volume_kinds[v.kind]);
        v.readonly = v.readonly || v.kind == KUBE_VOL_CONFIGMAP || v.kind == KUBE_VOL_SECRET;
        *ret = v;
        return 0;
}

int kube_tolerations_add(struct kube_plan *plan, const char *text, struct error *err) {
        char *rest = kube_plan_dup(plan, text);
        size_t n = plan->n_tolerations + 1;
        struct kube_toleration *more;

        if (!rest)
                return no_memory(err);
        for (const char *p = text; *p; p++)
                n += *p == ',';
        more = kube_plan_array(plan, n, sizeof(*more));
        if (!more)
                return no_memory(err);
        if (plan->n_tolerations)
                memcpy(more, plan->tolerations, plan->n_tolerations * sizeof(*more));
        n = plan->n_tolerations;
        while (rest) {
                char *one = strsep(&rest, ",");
                int r;

                one += strspn(one, " ");
                r = kube_toleration_parse(one, &more[n++], err);
                if (r < 0)
                        return error_wrap(err, r, "tolerations");
        }
        plan->tolerations = more;
        plan->n_tolerations = n;
        return 0;
}

/* --- the specification --- */

static const char *lookup(const char *const *envp, const char *name) {
        const size_t n = strlen(name);

        for (; envp && *envp; envp++)
                if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
                        return *envp + n + 1;
        return NULL;
}

static bool is_given(const struct spec *spec, enum section section, const char *name) {
        return spec->tier_of[key_index(key_find(section, name))] != TIER_BUILTIN;
}

/* Names and values; one without a value is the caller's variable, or an error where @envp is NULL. */
static int read_pairs(struct kube_plan *plan, const struct spec_env *env, size_t n, const char *const *envp,
                      const struct kube_pair **ret, size_t *ret_n, struct error *err) {
        struct kube_pair *pairs = kube_plan_array(plan, n, sizeof(*pairs));
        size_t used = 0;

        if (!pairs)
                return no_memory(err);
        for (size_t i = 0; i < n; i++) {
                const char *value = env[i].value ? env[i].value : lookup(envp, env[i].name);

                if (!value && !envp)
                        return error_set(err, -EINVAL, "'%s' has no value: want NAME: VALUE",
                                         ESC(env[i].name));
                if (value) /* as elsewhere: a variable that the caller has not is none inside */
                        pairs[used++] = (struct kube_pair){ env[i].name, value };
        }
        *ret = pairs;
        *ret_n = used;
        return 0;
}

static int read_secrets(struct kube_plan *p, const struct spec *spec, struct error *err) {
        const size_t n = spec->kubernetes.n_env_from_secret;
        struct kube_secret_env *secrets = kube_plan_array(p, n, sizeof(*secrets));
        int r;

        if (!secrets)
                return no_memory(err);
        for (size_t i = 0; i < n; i++) {
                char *text = kube_plan_dup(p, spec->kubernetes.env_from_secret[i]);

                if (!text)
                        return no_memory(err);
                r = kube_secret_parse(text, &secrets[i], err);
                if (r < 0)
                        return error_wrap(err, r, "kubernetes.env_from_secret[%zu]", i);
        }
        p->secret_env = secrets;
        p->n_secret_env = n;
        if (!spec->kubernetes.credentials_secret)
                return 0;
        r = kube_plan_split(p, spec->kubernetes.credentials_secret, '/', &p->credentials_secret,
                            &p->credentials_key);
        return r < 0 ? error_set(err, r, "kubernetes.credentials_secret: want SECRET/KEY") : 0;
}

static bool is_in(const char *path, const char *top) {
        return kube_path_below(path, top) && !kube_path_same(path, top);
}

/* Where a link can be made: what is writable in the pod, and not the workspace, which comes back. */
static bool is_for_links(const struct kube_plan *p, const char *path) {
        bool is = is_in(path, KUBE_HOME) || is_in(path, KUBE_TMP);

        for (size_t i = 0; i < p->n_volumes; i++)
                is = is || (p->volumes[i].kind == KUBE_VOL_SCRATCH && is_in(path, p->volumes[i].target));
        return is && !kube_path_has_dots(path) && !(p->workspace && kube_path_below(path, p->workspace));
}

/* Secrets that are files: all of them in one Secret of the run's own. */
static int read_run_secret(struct kube_plan *p, const struct spec *spec, struct error *err) {
        AUTO_BUF struct buf name = { 0 };

        for (size_t i = 0; i < spec->n_secrets; i++) {
                const struct spec_secret *secret = &spec->secrets[i];

                if (!secret_is(secret, "file"))
                        continue;
                if (!kube_data_key_valid(secret->name))
                        return error_set(err, -EINVAL, "secrets[%zu]: '%s' cannot be a key of a Secret", i,
                                         ESC(secret->name));
                if (secret->path && !is_for_links(p, secret->path))
                        return error_set(
                                err, -EINVAL,
                                "secrets[%zu].path: '%s' is in no volume of the pod: choose one in " KUBE_HOME
                                " or " KUBE_TMP ", or leave it out: it is " SECRET_DIR "/%s",
                                i, ESC(secret->path), secret->name);
                if (p->run_secret)
                        continue;
                if (buf_fmt(&name, KUBE_RUN_SECRET, p->name) < 0 ||
                    !(p->run_secret = kube_plan_dup(p, buf_cstr(&name))))
                        return no_memory(err);
        }
        return 0;
}

/* A file system in memory becomes a volume; what would be of this host cannot be in a pod. */
static int read_mount(struct kube_plan *p, const struct spec_mount *mount, size_t i, struct kube_volume *ret,
                      struct error *err) {
        if (mount->type != MOUNT_TMPFS)
                return error_set(err, -ENOTSUP,
                                 "mounts[%zu]: a pod has no files of this host: use kubernetes.volumes", i);
        *ret = (struct kube_volume){ .kind = KUBE_VOL_SCRATCH, .target = mount->target, .size = "512Mi" };
        return mount->size ? put_bytes(p, mount->size, &ret->size, err) : 0;
}

static int read_volumes(struct kube_plan *p, const struct spec *spec, struct error *err) {
        const size_t n = spec->kubernetes.n_volumes;
        struct kube_volume *volumes = kube_plan_array(p, n + spec->n_mounts, sizeof(*volumes));

        if (!volumes)
                return no_memory(err);
        for (size_t i = 0; i < n; i++) {
                char *text = kube_plan_dup(p, spec->kubernetes.volumes[i]);
                int r = text ? kube_volume_parse(text, &volumes[i], err) : no_memory(err);

                if (r < 0)
                        return error_wrap(err, r, "kubernetes.volumes[%zu]", i);
        }
        for (size_t i = 0; i < spec->n_mounts; i++) {
                int r = read_mount(p, &spec->mounts[i], i, &volumes[n + i], err);

                if (r < 0)
                        return r;
        }
        p->volumes = volumes;
        p->n_volumes = n + spec->n_mounts;
        return 0;
}

static int read_profiles(struct kube_plan *p, const struct spec *spec, struct error *err) {
        const size_t n = spec->kubernetes.n_profiles;
        struct kube_profile *profiles = kube_plan_array(p, n, sizeof(*profiles));

        if (!profiles)
                return no_memory(err);
        for (size_t i = 0; i < n; i++) {
                char *text = kube_plan_dup(p, spec->kubernetes.profiles[i]), *colon;

                if (!text)
                        return no_memory(err);
                colon = strchr(text, ':');
                if (colon)
                        *colon++ = '\0';
                profiles[i] = (struct kube_profile){ .configmap = text, .subdir = colon ? colon : "" };
        }
        p->profiles = profiles;
        p->n_profiles = n;
        return 0;
}

/* An unknown preset fails, it never falls back to the image's own settings. */
static int read_settings(struct kube_plan *p, const struct spec *spec, struct error *err) {
        AUTO_BUF struct buf known = { 0 };
        int r = 0;

        if (!spec->kubernetes.managed_settings)
                return 0;
        for (size_t i = 0; i < spec->kubernetes.n_presets; i++) {
                const struct spec_env *preset = &spec->kubernetes.presets[i];

                if (strcmp(preset->name, spec->kubernetes.managed_settings) == 0 && preset->value) {
                        p->managed_settings = preset->value;
                        return 0;
                }
                r = r == 0 ? buf_fmt(&known, "%s%s", i ? ", " : "", preset->name) : r;
        }
        return r < 0 ? no_memory(err)
                     : error_set(err, -EINVAL, "unknown managed settings preset '%s', known presets: [%s]",
                                 ESC(spec->kubernetes.managed_settings), ESC(buf_cstr(&known)));
}

/* "UID[:GID]" of the specification, or the key of its own. */
static int read_user(struct kube_plan *p, const struct spec *spec, struct error *err) {
        AUTO_FREE char *uid = spec->user ? strdup(spec->user) : NULL;
        char *gid = uid ? strchr(uid, ':') : NULL;
        uint64_t u = 0, g = 0;

        if (spec->user && !uid)
                return no_memory(err);
        if (gid)
                *gid++ = '\0';
        if (uid && (parse_u64(uid, 0, INT32_MAX, &u) < 0 || (gid && parse_u64(gid, 0, INT32_MAX, &g) < 0)))
                return error_set(err, -ENOTSUP, "user: '%s' must be numeric in a pod: UID[:GID]",
                                 ESC(spec->user));
        if (uid && (u == 0 || (gid && g == 0)))
                return error_set(err, -EINVAL, "user: run_as_user must be greater than 0 in a pod");
        p->run_as_user = spec->kubernetes.run_as_user ? (int64_t) spec->kubernetes.run_as_user : (int64_t) u;
        p->run_as_group = (int64_t) g;
        return 0;
}

static int read_sizes(struct kube_plan *p, const struct spec *spec, struct error *err) {
        int r = 0;

        p->home_size = spec->kubernetes.home_size;
        p->tmp_size = spec->kubernetes.tmp_size;
        p->workspace_size = spec->kubernetes.workspace_size;
        if (!p->home_size && is_given(spec, SECTION_HOME, "size"))
                r = put_bytes(p, spec->home.size, &p->home_size, err);
        if (r == 0 && !p->tmp_size && is_given(spec, SECTION_TMP, "size"))
                r = put_bytes(p, spec->tmp.size, &p->tmp_size, err);
        p->resources.cpu_limit = spec->limits.cpus;
        p->resources.cpu_request = spec->kubernetes.cpu_request;
        p->resources.memory_request = spec->kubernetes.memory_request;
        p->resources.disk_request = spec->kubernetes.disk_request;
        if (r == 0 && spec->limits.memory)
                r = put_bytes(p, spec->limits.memory, &p->resources.memory_limit, err);
        if (r == 0 && spec->limits.disk)
                r = put_bytes(p, spec->limits.disk, &p->resources.disk_limit, err);
        return r;
}

static int read_environment(struct kube_plan *p, const struct spec *spec, const struct kube_read *from,
                            struct error *err) {
        const char *id = spec->kubernetes.resume_environment;

        p->environment = (struct kube_environment){
                .path = spec->kubernetes.environment_volume,
                .size = spec->kubernetes.environment_size,
                .storage_class = spec->kubernetes.environment_storage_class,
                .ttl_ms = spec->kubernetes.environment_ttl_ms,
                .claim = id ? id : from->new_claim,
                .resumed = id != NULL,
        };
        return id ? kube_environment_id_check(id, err) : 0;
}

static int read_owner(struct kube_plan *p, const struct spec *spec, struct error *err) {
        int r;

        if (!spec->kubernetes.owner_pod)
                return 0;
        r = kube_plan_split(p, spec->kubernetes.owner_pod, '/', &p->owner_name, &p->owner_uid);
        return r < 0 ? error_set(err, r, "kubernetes.owner_pod: want NAME/UID, neither of them empty") : 0;
}

static int read_lists(struct kube_plan *p, const struct spec *spec, const struct kube_read *from,
                      struct error *err) {
        static const char *const none[] = { NULL };
        int r;

        r = read_pairs(p, spec->env, spec->n_env, from->environ ? from->environ : none, &p->env, &p->n_env,
                       err);
        if (r == 0) {
                r = read_pairs(p, spec->kubernetes.labels, spec->kubernetes.n_labels, NULL, &p->labels,
                               &p->n_labels, err);
                r = r < 0 ? error_wrap(err, r, "kubernetes.labels") : 0;
        }
        if (r == 0) {
                r = read_pairs(p, spec->kubernetes.node_selector, spec->kubernetes.n_node_selector, NULL,
                               &p->node_selector, &p->n_node_selector, err);
                r = r < 0 ? error_wrap(err, r, "kubernetes.node_selector") : 0;
        }
        for (size_t i = 0; r == 0 && i < spec->kubernetes.n_tolerations; i++)
                r = kube_tolerations_add(p, spec->kubernetes.tolerations[i], err);
        if (r == 0)
                r = read_secrets(p, spec, err);
        if (r == 0)
                r = read_volumes(p, spec, err);
        if (r == 0)
                r = read_run_secret(p, spec, err);
        return r == 0 ? read_profiles(p, spec, err) : r;
}

/* What is a pointer or a number in both. */
static void read_plain(struct kube_plan *p, const struct spec *spec, const struct kube_read *from) {
        static const char *const idle[] = { "/bin/sh", "-c", KUBE_IDLE_SCRIPT };

        p->ns = spec->kubernetes.ns ? spec->kubernetes.ns : from->ns ? from->ns : "default";
        p->name = from->name;
        p->run_id = spec->kubernetes.run_id ? spec->kubernetes.run_id : from->run_id;
        p->root_run_id = spec->kubernetes.root_run_id;
        p->step = spec->kubernetes.step;
        p->egress_profile = spec->kubernetes.egress_profile;
        p->managed_by = spec->kubernetes.managed_by;
        p->domain = spec->kubernetes.label_domain;
        p->now_s = from->now_s;
        p->timeout_ms = spec->limits.timeout_ms ? spec->limits.timeout_ms : KUBE_RUN_MS;
        p->margin_ms = spec->kubernetes.deadline_margin_ms;
        p->margin_given = is_given(spec, SECTION_KUBERNETES, "deadline_margin");
        p->deadline_ms = spec->kubernetes.active_deadline_ms;
        p->image = spec->image;
        p->pull_policy = spec->kubernetes.image_pull_policy;
        p->pull_secrets = (const char *const *) spec->kubernetes.image_pull_secrets;
        p->n_pull_secrets = spec->kubernetes.n_image_pull_secrets;
        p->command = idle;
        p->n_command = ARRAY_SIZE(idle);
        p->sandboxed = spec->kubernetes.sandboxed;
        p->writable_root = spec->kubernetes.allow_writable_root;
        p->service_account = spec->kubernetes.service_account;
        p->runtime_class = spec->kubernetes.runtime_class;
        p->workspace = spec->workspace.target   ? spec->workspace.target
                       : spec->workspace.source ? spec->workspace.source
                                                : from->cwd;
        p->working_dir = p->workspace;
        p->sessions_claim = spec->kubernetes.sessions_volume;
        p->spread_key = spec->kubernetes.spread_key;
        p->network_policy = spec->kubernetes.network_policy;
}

/* What no pod can be, before what this one is. */
static int refuse(const struct spec *spec, struct error *err) {
        if (spec->rootfs || spec->host_root)
                return error_set(err, -ENOTSUP,
                                 "%s: the root of a pod is an image: use image, or --driver native",
                                 spec->rootfs ? "rootfs" : "host_root");
        if (!spec->image)
                return error_set(err, -EINVAL,
                                 "image: driver kubernetes needs one: it builds none, and has no root "
                                 "of this host");
        if (spec->host_state == HOST_STATE_AUTO && is_given(spec, SECTION_ROOT, "host_state"))
                return error_set(err, -ENOTSUP,
                                 "host_state: 'auto' cannot be: pods have no host file system: use 'none'");
        return 0;
}

int kube_plan_read(const struct spec *spec, const struct kube_read *from, struct kube_plan *ret,
                   struct error *err) {
        int r;

        kube_plan_init(ret);
        r = refuse(spec, err);
        if (r < 0)
                return r;
        read_plain(ret, spec, from);
        r = read_lists(ret, spec, from, err);
        if (r == 0)
                r = read_settings(ret, spec, err);
        if (r == 0)
                r = read_user(ret, spec, err);
        if (r == 0)
                r = read_sizes(ret, spec, err);
        if (r == 0)
                r = read_environment(ret, spec, from, err);
        return r == 0 ? read_owner(ret, spec, err) : r;
}
