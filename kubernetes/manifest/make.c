#include "kubernetes/manifest/make.h"

#include <stdio.h>

#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/names.h"

void make_put(struct make *m, json_t *obj, const char *key, json_t *value) {
        if (json_object_set_new(obj, key, value) < 0)
                m->failed = true;
}

void make_text(struct make *m, json_t *obj, const char *key, const char *text) {
        if (text)
                make_put(m, obj, key, json_string(text));
}

void make_add(struct make *m, json_t *array, json_t *value) {
        if (json_array_append_new(array, value) < 0)
                m->failed = true;
}

void make_list(struct make *m, json_t *obj, const char *key, json_t *array) {
        if (!array || json_array_size(array) > 0)
                make_put(m, obj, key, array);
        else
                json_decref(array);
}

json_t *make_pairs(struct make *m, const struct kube_pair *pairs, size_t n) {
        json_t *obj = json_object();

        for (size_t i = 0; i < n; i++)
                make_put(m, obj, pairs[i].name, json_string(pairs[i].value));
        return obj;
}

json_t *make_done(struct make *m, json_t *obj) {
        if (!m->failed)
                return obj;
        json_decref(obj);
        return NULL;
}

/* A label of the plan's domain; the value is made fit. */
static void put_label(struct make *m, json_t *labels, const char *name, const char *raw) {
        char key[KUBE_KEY_LEN], value[KUBE_LABEL_MAX + 1];

        if (raw)
                make_text(m, labels, kube_key(m->plan, name, key), kube_label_value(raw, value));
}

/* What a caller says comes first and cannot replace what is ours. */
static json_t *make_labels(struct make *m, enum kube_component component) {
        const struct kube_plan *p = m->plan;
        json_t *labels = make_pairs(m, p->labels, p->n_labels);

        if (component != KUBE_ENVIRONMENT)
                put_label(m, labels, "egress-profile", p->egress_profile);
        put_label(m, labels, "run-id", p->run_id);
        put_label(m, labels, "root-run-id", p->root_run_id ? p->root_run_id : p->run_id);
        put_label(m, labels, "step", p->step);
        make_text(m, labels, KUBE_LABEL_MANAGED_BY, p->managed_by);
        make_text(m, labels, KUBE_LABEL_COMPONENT, kube_component_name(component));
        return labels;
}

static json_t *make_owner(struct make *m) {
        const struct kube_plan *p = m->plan;

        return json_pack("[{s:s, s:s, s:s, s:s, s:b, s:b}]", "apiVersion", "v1", "kind", "Pod", "name",
                         p->owner_name, "uid", p->owner_uid, "controller", 0, "blockOwnerDeletion", 0);
}

json_t *make_metadata(struct make *m, enum kube_component component, const char *name, int64_t expires_at) {
        const struct kube_plan *p = m->plan;
        json_t *meta = json_object(), *annotations = json_object();
        char key[KUBE_KEY_LEN], number[32];

        (void) snprintf(number, sizeof(number), "%lld", (long long) expires_at);
        make_text(m, annotations, kube_key(p, "expires-at", key), number);
        if (p->stdin_data && (component == KUBE_POD_RUN || (component == KUBE_JOB_RUN && !name)))
                make_text(m, annotations, kube_key(p, "stdin", key), p->stdin_data);
        make_text(m, meta, "name", name);
        if (name)
                make_text(m, meta, "namespace", p->ns);
        make_put(m, meta, "labels", make_labels(m, component));
        make_put(m, meta, "annotations", annotations);
        if (p->owner_uid && name)
                make_put(m, meta, "ownerReferences", make_owner(m));
        return meta;
}
