/*
 * DOC: theory of operation
 *
 * Volumes and mounts are made in one pass, so that none is without the other. Parents come before what lies
 * in them. Each emptyDir has a size, and the sum of them is part of the container's limit of ephemeral
 * storage.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "kubernetes/manifest/make.h"
#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/names.h"
#include "runtime/base/cleanup.h"
#include "runtime/spec/spec.h"

enum { NAME_LEN = 64, SECRET_MODE = 0400 };

const char *make_home_size(const struct kube_plan *plan) {
        return plan->home_size ? plan->home_size : "1Gi";
}

const char *make_tmp_size(const struct kube_plan *plan) {
        return plan->tmp_size ? plan->tmp_size : "512Mi";
}

static bool has_home(const struct kube_plan *p) {
        return p->sandboxed && p->component == KUBE_RUNNER;
}

static void add_milli(uint64_t *sum, const char *size) {
        uint64_t milli;

        if (size && kube_quantity(size, &milli) == 0 && __builtin_add_overflow(*sum, milli, sum))
                *sum = UINT64_MAX;
}

uint64_t make_disk_milli(const struct kube_plan *plan) {
        uint64_t sum = 0;

        if (has_home(plan))
                add_milli(&sum, make_home_size(plan));
        if (plan->sessions_claim)
                add_milli(&sum, make_home_size(plan));
        if (plan->sandboxed)
                add_milli(&sum, make_tmp_size(plan));
        if (plan->workspace && !plan->environment.path)
                add_milli(&sum, plan->workspace_size);
        for (size_t i = 0; i < plan->n_volumes; i++)
                if (plan->volumes[i].kind == KUBE_VOL_SCRATCH && !plan->volumes[i].storage_class)
                        add_milli(&sum, plan->volumes[i].size);
        return sum;
}

/* @source: consumed */
static void add_volume(struct make *m, json_t *volumes, const char *name, const char *kind, json_t *source) {
        json_t *v = json_object();

        make_text(m, v, "name", name);
        make_put(m, v, kind, source);
        make_add(m, volumes, v);
}

static void add_mount(struct make *m, json_t *mounts, const char *name, const char *path,
                      const char *sub_path, bool readonly) {
        json_t *v = json_object();

        make_text(m, v, "name", name);
        make_text(m, v, "mountPath", path);
        make_text(m, v, "subPath", sub_path);
        if (readonly)
                make_put(m, v, "readOnly", json_true());
        make_add(m, mounts, v);
}

static void add_empty(struct make *m, json_t *volumes, json_t *mounts, const char *name, const char *path,
                      const char *size) {
        add_volume(m, volumes, name, "emptyDir", json_pack("{s:s}", "sizeLimit", size));
        add_mount(m, mounts, name, path, NULL, false);
}

static void add_claim(struct make *m, json_t *volumes, json_t *mounts, const char *name, const char *path,
                      const char *claim) {
        add_volume(m, volumes, name, "persistentVolumeClaim", json_pack("{s:s}", "claimName", claim));
        add_mount(m, mounts, name, path, NULL, false);
}

/* One key of a ConfigMap or Secret, as a file of that name; NULL: all. */
static void put_key(struct make *m, json_t *source, const char *key) {
        if (key)
                make_put(m, source, "items", json_pack("[{s:s, s:s}]", "key", key, "path", key));
}

static json_t *ephemeral(struct make *m, const struct kube_volume *v) {
        json_t *spec =
                json_pack("{s:[s], s:s, s:{s:{s:s}}}", "accessModes", "ReadWriteOnce", "storageClassName",
                          v->storage_class, "resources", "requests", "storage", v->size);
        json_t *meta = json_object();

        make_text(m, meta, KUBE_LABEL_MANAGED_BY, m->plan->managed_by);
        make_text(m, meta, KUBE_LABEL_COMPONENT, kube_component_name(m->plan->component));
        return json_pack("{s:{s:{s:o}, s:o}}", "volumeClaimTemplate", "metadata", "labels", meta, "spec",
                         spec);
}

/* @ret_kind: the field of a volume that @v is. */
static json_t *volume_source(struct make *m, const struct kube_volume *v, const char **ret_kind) {
        static const char *const kinds[] = {
                [KUBE_VOL_CLAIM] = "persistentVolumeClaim",
                [KUBE_VOL_CONFIGMAP] = "configMap",
                [KUBE_VOL_SECRET] = "secret",
                [KUBE_VOL_SCRATCH] = "emptyDir",
                [KUBE_VOL_HOST_DIR] = "hostPath",
        };
        json_t *source = json_object();

        static_assert(ARRAY_SIZE(kinds) == KUBE_VOL_COUNT, "kinds[] and enum kube_volume_kind differ");
        *ret_kind = kinds[v->kind];
        switch (v->kind) {
        case KUBE_VOL_CLAIM:
                make_text(m, source, "claimName", v->source);
                if (v->readonly)
                        make_put(m, source, "readOnly", json_true());
                break;
        case KUBE_VOL_CONFIGMAP:
                make_text(m, source, "name", v->source);
                put_key(m, source, v->key);
                break;
        case KUBE_VOL_SECRET:
                make_text(m, source, "secretName", v->source);
                make_put(m, source, "defaultMode", json_integer(SECRET_MODE));
                put_key(m, source, v->key);
                break;
        case KUBE_VOL_SCRATCH:
                if (v->storage_class) {
                        json_decref(source);
                        *ret_kind = "ephemeral";
                        return ephemeral(m, v);
                }
                make_text(m, source, "sizeLimit", v->size);
                break;
        case KUBE_VOL_HOST_DIR:
                make_text(m, source, "path", v->source);
                make_text(m, source, "type", "Directory");
                break;
        case KUBE_VOL_COUNT:
                m->failed = true;
        }
        return source;
}

static const char *volume_name(const struct kube_volume *v, size_t i, char ret[static NAME_LEN]) {
        static const char *const prefixes[] = {
                [KUBE_VOL_CLAIM] = "pvc",       [KUBE_VOL_CONFIGMAP] = "ro", [KUBE_VOL_SECRET] = "secret",
                [KUBE_VOL_SCRATCH] = "scratch", [KUBE_VOL_HOST_DIR] = "vol",
        };

        if (v->name)
                return v->name;
        (void) snprintf(ret, NAME_LEN, "%s-%zu",
                        v->readonly && v->kind != KUBE_VOL_SECRET ? "ro" : prefixes[v->kind], i);
        return ret;
}

static void add_listed(struct make *m, json_t *volumes, json_t *mounts) {
        for (size_t i = 0; i < m->plan->n_volumes; i++) {
                const struct kube_volume *v = &m->plan->volumes[i];
                const bool readonly =
                        v->readonly || v->kind == KUBE_VOL_CONFIGMAP || v->kind == KUBE_VOL_SECRET;
                char buf[NAME_LEN];
                const char *name = volume_name(v, i, buf), *kind;
                json_t *source = volume_source(m, v, &kind);

                add_volume(m, volumes, name, kind, source);
                add_mount(m, mounts, name, v->target, v->sub_path, readonly);
        }
}

static void add_settings(struct make *m, json_t *volumes, json_t *mounts) {
        const struct kube_plan *p = m->plan;

        if (p->managed_settings) {
                json_t *source = json_object();

                make_text(m, source, "name", p->managed_settings);
                put_key(m, source, "managed-settings.json");
                add_volume(m, volumes, "ironflow-managed-settings", "configMap", source);
                add_mount(m, mounts, "ironflow-managed-settings", KUBE_MANAGED_SETTINGS, NULL, true);
        }
        for (size_t i = 0; i < p->n_profiles; i++) {
                char name[NAME_LEN], path[128];

                (void) snprintf(name, sizeof(name), "ironflow-claude-profile-%zu", i);
                (void) snprintf(path, sizeof(path), KUBE_PROFILES "/%zu", i);
                add_volume(m, volumes, name, "configMap",
                           json_pack("{s:s}", "name", p->profiles[i].configmap));
                add_mount(m, mounts, name, path, NULL, true);
        }
}

/* The kubelet waits for the Secret: it is made behind the pod, whose it is. */
static void add_run_secret(struct make *m, json_t *volumes, json_t *mounts) {
        add_volume(m, volumes, "ironflow-run-secrets", "secret",
                   json_pack("{s:s, s:i}", "secretName", m->plan->run_secret, "defaultMode", SECRET_MODE));
        add_mount(m, mounts, "ironflow-run-secrets", SECRET_DIR, NULL, true);
}

static void add_stdin(struct make *m, json_t *volumes, json_t *mounts) {
        char key[KUBE_KEY_LEN], field[KUBE_KEY_LEN + 32];

        (void) snprintf(field, sizeof(field), "metadata.annotations['%s']", kube_key(m->plan, "stdin", key));
        add_volume(
                m, volumes, "ironflow-stdin", "downwardAPI",
                json_pack("{s:[{s:s, s:{s:s}}]}", "items", "path", "stdin", "fieldRef", "fieldPath", field));
        add_mount(m, mounts, "ironflow-stdin", KUBE_STDIN_DIR, NULL, true);
}

/*
 * The kubelet makes the directories that a mount inside another lacks, and makes them root's: without a
 * volume of its own, ~/.claude over the sessions would be one that the user cannot write to.
 */
static void add_home(struct make *m, json_t *volumes, json_t *mounts) {
        const struct kube_plan *p = m->plan;

        if (has_home(p))
                add_empty(m, volumes, mounts, "ironflow-home", KUBE_HOME, make_home_size(p));
        if (p->sandboxed)
                add_empty(m, volumes, mounts, "ironflow-tmp", KUBE_TMP, make_tmp_size(p));
        if (p->sessions_claim) {
                add_empty(m, volumes, mounts, "ironflow-claude", KUBE_HOME "/.claude", make_home_size(p));
                add_claim(m, volumes, mounts, "ironflow-sessions", KUBE_HOME "/.claude/projects",
                          p->sessions_claim);
        }
}

json_t *make_volumes(struct make *m, json_t *mounts) {
        const struct kube_plan *p = m->plan;
        json_t *volumes = json_array();

        add_home(m, volumes, mounts);
        if (p->environment.path)
                add_claim(m, volumes, mounts, "ironflow-environment", p->environment.path,
                          p->environment.claim);
        else if (p->workspace)
                add_empty(m, volumes, mounts, "ironflow-workspace", p->workspace, p->workspace_size);
        add_listed(m, volumes, mounts);
        add_settings(m, volumes, mounts);
        if (p->run_secret)
                add_run_secret(m, volumes, mounts);
        if (p->stdin_data)
                add_stdin(m, volumes, mounts);
        return volumes;
}
