#include <stdio.h>
#include <string.h>

#include "kubernetes/manifest/make.h"
#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/names.h"
#include "runtime/base/buf.h"

/* A tree with apiVersion, kind and metadata. */
static json_t *object(struct make *m, const char *version, const char *kind, enum kube_component component,
                      const char *name, int64_t expires_at) {
        json_t *obj = json_object();

        make_text(m, obj, "apiVersion", version);
        make_text(m, obj, "kind", kind);
        make_put(m, obj, "metadata", make_metadata(m, component, name, expires_at));
        return obj;
}

/* The pod carries the labels too: release and reaping find it should the Job be gone. */
json_t *kube_job(const struct kube_plan *plan) {
        struct make m = { .plan = plan };
        json_t *job = object(&m, "batch/v1", "Job", plan->component, plan->name, kube_expires_at(plan));
        json_t *spec = json_object(), *template = json_object();

        make_put(&m, template, "metadata", make_metadata(&m, plan->component, NULL, kube_expires_at(plan)));
        make_put(&m, template, "spec", make_pod_spec(&m));
        make_put(&m, spec, "backoffLimit", json_integer(0));
        if (kube_deadline_s(plan) > 0)
                make_put(&m, spec, "activeDeadlineSeconds", json_integer(kube_deadline_s(plan)));
        make_put(&m, spec, "template", template);
        make_put(&m, job, "spec", spec);
        return make_done(&m, job);
}

/* A claim lives for its ttl behind each use, and at least as long as the pod that uses it. */
static int64_t claim_expires_at(const struct kube_plan *p) {
        int64_t ttl = p->environment.ttl_ms / 1000 > INT64_MAX / 2 ? INT64_MAX / 2
                                                                   : (int64_t) (p->environment.ttl_ms / 1000);

        ttl += p->now_s;
        return ttl > kube_expires_at(p) ? ttl : kube_expires_at(p);
}

json_t *kube_claim(const struct kube_plan *plan) {
        struct make m = { .plan = plan };
        json_t *claim = object(&m, "v1", "PersistentVolumeClaim", KUBE_ENVIRONMENT, plan->environment.claim,
                               claim_expires_at(plan));
        json_t *spec = json_object(), *meta = json_object_get(claim, "metadata");

        (void) json_object_del(meta, "ownerReferences"); /* it outlives whoever made it */
        make_put(&m, spec, "accessModes", json_pack("[s]", "ReadWriteOnce"));
        make_text(&m, spec, "storageClassName", plan->environment.storage_class);
        make_put(&m, spec, "resources",
                 json_pack("{s:{s:s}}", "requests", "storage", plan->environment.size));
        make_put(&m, claim, "spec", spec);
        return make_done(&m, claim);
}

json_t *kube_claim_extend(const struct kube_plan *plan) {
        char key[KUBE_KEY_LEN], number[32];

        (void) snprintf(number, sizeof(number), "%lld", (long long) claim_expires_at(plan));
        return json_pack("{s:{s:{s:s}}}", "metadata", "annotations", kube_key(plan, "expires-at", key),
                         number);
}

/* --- the network --- */

static json_t *dns_rule(void) {
        return json_pack("{s:[{s:{s:{s:s}}, s:{s:{s:s}}}], s:[{s:s, s:i}, {s:s, s:i}]}", "to",
                         "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name", "kube-system",
                         "podSelector", "matchLabels", "k8s-app", "kube-dns", "ports", "protocol", "UDP",
                         "port", 53, "protocol", "TCP", "port", 53);
}

static json_t *proxy_rule(struct make *m) {
        const struct kube_plan *p = m->plan;
        char cidr[64];
        json_t *rule;

        (void) snprintf(cidr, sizeof(cidr), "%s/%d", p->egress_ip, strchr(p->egress_ip, ':') ? 128 : 32);
        rule = json_pack("{s:[{s:{s:s}}]}", "to", "ipBlock", "cidr", cidr);
        if (p->egress_port)
                make_put(m, rule, "ports",
                         json_pack("[{s:s, s:i}]", "protocol", "TCP", "port", p->egress_port));
        return rule;
}

json_t *kube_network_policy(const struct kube_plan *plan) {
        struct make m = { .plan = plan };
        json_t *policy = object(&m, "networking.k8s.io/v1", "NetworkPolicy", plan->component, plan->name,
                                kube_expires_at(plan));
        json_t *spec = json_object(), *egress = json_array(), *labels = json_object();
        char key[KUBE_KEY_LEN], value[KUBE_LABEL_MAX + 1];

        make_text(&m, labels, KUBE_LABEL_MANAGED_BY, plan->managed_by);
        make_text(&m, labels, kube_key(plan, "run-id", key), kube_label_value(plan->run_id, value));
        make_add(&m, egress, dns_rule());
        if (plan->egress_ip)
                make_add(&m, egress, proxy_rule(&m));
        make_put(&m, spec, "podSelector", json_pack("{s:o}", "matchLabels", labels));
        make_put(&m, spec, "policyTypes", json_pack("[s, s]", "Ingress", "Egress"));
        make_put(&m, spec, "egress", egress);
        make_put(&m, policy, "spec", spec);
        return make_done(&m, policy);
}

json_t *kube_data(const struct kube_plan *plan, const char *kind, const char *name,
                  const struct kube_pair *data, size_t n_data) {
        struct make m = { .plan = plan };
        json_t *obj = object(&m, "v1", kind, KUBE_PROMPT, name, kube_expires_at(plan));

        make_put(&m, obj, strcmp(kind, "Secret") == 0 ? "stringData" : "data", make_pairs(&m, data, n_data));
        return make_done(&m, obj);
}

char *kube_selector(const struct kube_plan *plan, bool with_step, bool root) {
        AUTO_BUF struct buf out = { 0 };
        char key[KUBE_KEY_LEN], value[KUBE_LABEL_MAX + 1];
        int r;

        r = buf_fmt(&out, KUBE_LABEL_MANAGED_BY "=%s", plan->managed_by);
        if (r == 0)
                r = buf_fmt(&out, ",%s=%s", kube_key(plan, root ? "root-run-id" : "run-id", key),
                            kube_label_value(plan->run_id, value));
        if (r == 0 && with_step)
                r = buf_fmt(&out, ",%s=%s", kube_key(plan, "step", key), kube_label_value(plan->step, value));
        return r == 0 ? buf_take(&out) : NULL;
}
