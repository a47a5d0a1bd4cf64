/*
 * DOC: theory of operation
 *
 * What an administrator applies once; the worker has no right to any of it. images/kubernetes/ has the same
 * objects as files, for the names of the examples, and a test compares them.
 */
#include <stddef.h>

#include "kubernetes/manifest/make.h"
#include "kubernetes/manifest/manifest.h"
#include "runtime/base/cleanup.h"

#define WORKER           "ironflow-worker"
#define WORKER_NAMESPACE "ironflow"
#define PROXY            "ironflow-auth-proxy"
#define PROXY_NAMESPACE  "ironflow-system"
#define POD_SECURITY     "pod-security.kubernetes.io/"

static json_t *object(struct make *m, const char *version, const char *kind, const char *name,
                      const char *ns) {
        json_t *obj = json_object(), *meta = json_object();

        make_text(m, obj, "apiVersion", version);
        make_text(m, obj, "kind", kind);
        make_text(m, meta, "name", name);
        make_text(m, meta, "namespace", ns);
        make_put(m, obj, "metadata", meta);
        return obj;
}

static json_t *namespace_of(struct make *m) {
        json_t *obj = object(m, "v1", "Namespace", m->plan->ns, NULL);

        make_put(m, json_object_get(obj, "metadata"), "labels",
                 json_pack("{s:s, s:s, s:s, s:s}", POD_SECURITY "enforce", "restricted",
                           POD_SECURITY "enforce-version", "latest", POD_SECURITY "audit", "restricted",
                           POD_SECURITY "warn", "restricted"));
        return obj;
}

/* --- rights --- */

/** struct right - one rule of a Role; words are separated by blanks */
struct right {
        const char *group, *resources, *verbs;
};

static const struct right worker_rights[] = {
        { "", "pods", "create get list watch delete" },
        { "", "pods/log", "get" },
        { "", "pods/exec", "get create" }, /* get: WebSocket; create: what newer servers ask in its place */
        { "", "configmaps", "create get list delete" },
        { "", "persistentvolumeclaims", "create get patch list delete" },
        { "", "events", "list" },
        { "batch", "jobs", "create get list watch delete" },
};
/* Secrets of a run: it may make them and take them away, and reads none. */
static const struct right secret_rights[] = {
        { "", "secrets", "create patch delete" },
};

static json_t *words(struct make *m, const char *text) {
        json_t *array = json_array();

        while (*text) {
                const char *end = text;

                while (*end && *end != ' ')
                        end++;
                make_add(m, array, json_stringn(text, (size_t) (end - text)));
                text = *end ? end + 1 : end;
        }
        return array;
}

static void add_role(struct make *m, json_t *all, const char *name, const struct right *rights, size_t n) {
        json_t *role = object(m, "rbac.authorization.k8s.io/v1", "Role", name, m->plan->ns);
        json_t *binding = object(m, "rbac.authorization.k8s.io/v1", "RoleBinding", name, m->plan->ns);
        json_t *rules = json_array();

        for (size_t i = 0; i < n; i++)
                make_add(m, rules,
                         json_pack("{s:[s], s:o, s:o}", "apiGroups", rights[i].group, "resources",
                                   words(m, rights[i].resources), "verbs", words(m, rights[i].verbs)));
        make_put(m, role, "rules", rules);
        make_put(m, binding, "roleRef",
                 json_pack("{s:s, s:s, s:s}", "apiGroup", "rbac.authorization.k8s.io", "kind", "Role", "name",
                           name));
        make_put(m, binding, "subjects",
                 json_pack("[{s:s, s:s, s:s}]", "kind", "ServiceAccount", "name", WORKER, "namespace",
                           WORKER_NAMESPACE));
        make_add(m, all, role);
        make_add(m, all, binding);
}

/* --- amounts --- */

static json_t *quota(struct make *m) {
        json_t *obj = object(m, "v1", "ResourceQuota", "ironflow-agents", m->plan->ns);

        make_put(m, obj, "spec",
                 json_pack("{s:{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}}", "hard", "pods", "50",
                           "count/jobs.batch", "50", "limits.cpu", "100", "limits.memory", "200Gi",
                           "requests.ephemeral-storage", "100Gi", "persistentvolumeclaims", "50",
                           "requests.storage", "1Ti", "services.nodeports", "0"));
        return obj;
}

static json_t *limit_range(struct make *m) {
        json_t *obj = object(m, "v1", "LimitRange", "ironflow-agents", m->plan->ns);

        make_put(m, obj, "spec",
                 json_pack("{s:[{s:s, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}, s:{s:s, s:s, s:s}}]}", "limits",
                           "type", "Container", "default", "cpu", "2", "memory", "4Gi", "ephemeral-storage",
                           "16Gi", "defaultRequest", "cpu", "250m", "memory", "512Mi", "ephemeral-storage",
                           "1Gi", "max", "cpu", "16", "memory", "32Gi", "ephemeral-storage", "200Gi"));
        return obj;
}

/* --- standard policies --- */

static json_t *component_selector(struct make *m) {
        return json_pack("{s:s, s:s}", KUBE_LABEL_MANAGED_BY, m->plan->managed_by, KUBE_LABEL_COMPONENT,
                         kube_component_name(KUBE_RUNNER));
}

/* Every object of ours, whatever its component is: nothing in, and out only to look names up. */
static json_t *deny_all(struct make *m) {
        json_t *obj = object(m, "networking.k8s.io/v1", "NetworkPolicy", "ironflow-deny-all", m->plan->ns);

        make_put(m, obj, "spec",
                 json_pack("{s:{s:{s:s}}, s:[s, s], s:[{s:[{s:{s:{s:s}}, s:{s:{s:s}}}], s:[{s:s, s:i}, {s:s, "
                           "s:i}]}]}",
                           "podSelector", "matchLabels", KUBE_LABEL_MANAGED_BY, m->plan->managed_by,
                           "policyTypes", "Ingress", "Egress", "egress", "to", "namespaceSelector",
                           "matchLabels", "kubernetes.io/metadata.name", "kube-system", "podSelector",
                           "matchLabels", "k8s-app", "kube-dns", "ports", "protocol", "UDP", "port", 53,
                           "protocol", "TCP", "port", 53));
        return obj;
}

/* The port is the pod's, not the Service's: policies see packets behind the translation. */
static json_t *to_proxy(struct make *m) {
        json_t *obj =
                object(m, "networking.k8s.io/v1", "NetworkPolicy", "claude-runner-auth-proxy", m->plan->ns);

        make_put(m, obj, "spec",
                 json_pack("{s:{s:o}, s:[s], s:[{s:[{s:{s:{s:s}}, s:{s:{s:s}}}], s:[{s:s, s:i}]}]}",
                           "podSelector", "matchLabels", component_selector(m), "policyTypes", "Egress",
                           "egress", "to", "namespaceSelector", "matchLabels", "kubernetes.io/metadata.name",
                           PROXY_NAMESPACE, "podSelector", "matchLabels", "app.kubernetes.io/name", PROXY,
                           "ports", "protocol", "TCP", "port", 8080));
        return obj;
}

/* --- Cilium: names instead of addresses --- */

/* The match of every name is what teaches Cilium the addresses behind toFQDNs. */
static json_t *cilium_dns(void) {
        return json_pack("{s:[{s:{s:s, s:s}}], s:[{s:[{s:s, s:s}], s:{s:[{s:s}]}}]}", "toEndpoints",
                         "matchLabels", "k8s:io.kubernetes.pod.namespace", "kube-system", "k8s:k8s-app",
                         "kube-dns", "toPorts", "ports", "port", "53", "protocol", "ANY", "rules", "dns",
                         "matchPattern", "*");
}

static json_t *cilium_name(const char *host) {
        return json_pack("{s:[{s:s}], s:[{s:[{s:s, s:s}]}]}", "toFQDNs", "matchName", host, "toPorts",
                         "ports", "port", "443", "protocol", "TCP");
}

static json_t *cilium_pods(const char *ns, const char *label, const char *value, const char *port) {
        return json_pack("{s:[{s:{s:s, s:s}}], s:[{s:[{s:s, s:s}]}]}", "toEndpoints", "matchLabels",
                         "k8s:io.kubernetes.pod.namespace", ns, label, value, "toPorts", "ports", "port",
                         port, "protocol", "TCP");
}

/* @profile: NULL: of all agents; @rule: consumed */
static json_t *cilium(struct make *m, const char *name, const char *profile, json_t *rule) {
        json_t *obj = object(m, "cilium.io/v2", "CiliumNetworkPolicy", name, m->plan->ns);
        json_t *labels = component_selector(m);
        char key[KUBE_KEY_LEN];

        if (profile)
                make_text(m, labels, kube_key(m->plan, "egress-profile", key), profile);
        make_put(m, obj, "spec",
                 json_pack("{s:{s:o}, s:[o, o]}", "endpointSelector", "matchLabels", labels, "egress",
                           cilium_dns(), rule));
        return obj;
}

static json_t *cilium_from(const char *ns, const char *label, const char *value, const char *port) {
        return json_pack("{s:[{s:{s:s, s:s}}], s:[{s:[{s:s, s:s}]}]}", "fromEndpoints", "matchLabels",
                         "k8s:io.kubernetes.pod.namespace", ns, label, value, "toPorts", "ports", "port",
                         port, "protocol", "TCP");
}

/* The proxy's own pods: in from the agents, and to the port of tokens from the worker; out to the API. */
static json_t *cilium_proxy(struct make *m) {
        json_t *obj = object(m, "cilium.io/v2", "CiliumNetworkPolicy", PROXY, PROXY_NAMESPACE);

        make_put(m, obj, "spec",
                 json_pack("{s:{s:{s:s}}, s:[o, o], s:[o, o]}", "endpointSelector", "matchLabels",
                           "app.kubernetes.io/name", PROXY, "ingress",
                           cilium_from(m->plan->ns, KUBE_LABEL_COMPONENT, kube_component_name(KUBE_RUNNER),
                                       "8080"),
                           cilium_from(WORKER_NAMESPACE, "app.kubernetes.io/name", WORKER, "8081"), "egress",
                           cilium_dns(), cilium_name("api.anthropic.com")));
        return obj;
}

static void add_policies(struct make *m, json_t *all, bool auth_proxy) {
        make_add(m, all, deny_all(m));
        if (auth_proxy) {
                make_add(m, all, to_proxy(m));
                make_add(m, all,
                         cilium(m, "claude-runner-egress-auth-proxy", NULL,
                                cilium_pods(PROXY_NAMESPACE, "app.kubernetes.io/name", PROXY, "8080")));
                make_add(m, all, cilium_proxy(m));
        } else {
                make_add(m, all,
                         cilium(m, "claude-runner-egress-anthropic", NULL, cilium_name("api.anthropic.com")));
        }
        make_add(m, all, cilium(m, "claude-runner-egress-gitlab", "gitlab", cilium_name("gitlab.com")));
}

json_t *kube_admin(const struct kube_plan *plan, bool auth_proxy) {
        struct make m = { .plan = plan };
        json_t *all = json_array();

        make_add(&m, all, namespace_of(&m));
        add_role(&m, all, WORKER, worker_rights, ARRAY_SIZE(worker_rights));
        add_role(&m, all, WORKER "-secrets", secret_rights, ARRAY_SIZE(secret_rights));
        make_add(&m, all, quota(&m));
        make_add(&m, all, limit_range(&m));
        add_policies(&m, all, auth_proxy);
        return make_done(&m, all);
}
