#include "kubernetes/client/doctor.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>

#include "kubernetes/client/exec.h"
#include "kubernetes/client/transfer.h"
#include "kubernetes/client/watch.h"
#include "kubernetes/command.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum {
        PROBE_PORT = 8080,
        PODS_READY_S = 60,
        POLICY_S = 15,
        CONNECT_S = 3,
        TEXT_MAX = 512,
        FIRST_MS = 5000,
        LIST_MAX = 240,
        POD_SECURITY_MINOR = 25
};

/* struct row - one answer; texts are one line */
struct row {
        const char *key, *state;
        char evidence[TEXT_MAX], effect[TEXT_MAX], remedy[TEXT_MAX];
};

static int put(json_t *rows, const struct row *row) {
        return json_array_append_new(rows, json_pack("{s:s, s:s, s:s, s:s, s:s}", "key", row->key, "state",
                                                     row->state, "evidence", row->evidence, "effect",
                                                     row->effect, "remedy", row->remedy)) < 0
                       ? -ENOMEM
                       : 0;
}

#define say(field, ...) ((void) snprintf(field, sizeof(field), __VA_ARGS__))

/* --- reachable, version
 * -------------------------------------------------------------------------------------- */

static int look_at_server(struct kube *kube, struct row *row, unsigned *minor) {
        const struct kube_config *config = kube_config_of(kube);
        const struct kube_request once = {
                .method = "GET", .path = "/version", .attempts = 1, .timeout_ms = FIRST_MS
        };
        struct error why = { 0 };
        char version[64];
        int r = kube_call(kube, &once, NULL, &why); /* whoever waits is not to wait for all attempts */

        if (r == 0)
                r = kube_version(kube, version, minor, &why);

        if (r == -ECANCELED)
                return r;
        if (r < 0) {
                row->state = "missing";
                say(row->evidence, "%.250s", why.msg);
                say(row->effect, "no pod can be made from here");
                say(row->remedy, "%s",
                    r == -EACCES || r == -EPERM ? "renew the credentials of the context: kubectl auth whoami"
                                                : "look at the network, a proxy or VPN, the certificate "
                                                  "authority of the context");
                return r;
        }
        say(row->evidence, "%.160s, %s", kube_config_origin(config), version);
        return 0;
}

/* --- rights
 * -------------------------------------------------------------------------------------------------- */

static const struct right {
        const char *verb, *group, *resource, *sub;
        const char *without; /* NULL: no run without it */
} rights[] = {
        { "create", "", "pods", "", NULL },
        { "get", "", "pods", "", NULL },
        { "list", "", "pods", "", NULL },
        { "watch", "", "pods", "", NULL },
        { "delete", "", "pods", "", NULL },
        { "get", "", "pods", "exec", NULL },
        { "create", "", "pods", "exec", NULL },
        { "get", "", "pods", "log", NULL },
        { "create", "", "configmaps", "", NULL },
        { "get", "", "configmaps", "", NULL },
        { "list", "", "configmaps", "", NULL },
        { "delete", "", "configmaps", "", NULL },
        { "create", "", "secrets", "", "secrets of a run" },
        { "patch", "", "secrets", "", "secrets of a run" },
        { "delete", "", "secrets", "", "secrets of a run" },
        { "create", "", "persistentvolumeclaims", "", "environments" },
        { "get", "", "persistentvolumeclaims", "", "environments" },
        { "patch", "", "persistentvolumeclaims", "", "environments" },
        { "list", "", "persistentvolumeclaims", "", "environments, gc of them" },
        { "delete", "", "persistentvolumeclaims", "", "environments, gc of them" },
        { "create", "batch", "jobs", "", "job run" },
        { "get", "batch", "jobs", "", "job run" },
        { "list", "batch", "jobs", "", "job run, gc of Jobs" },
        { "watch", "batch", "jobs", "", "job run" },
        { "delete", "batch", "jobs", "", "job run, gc of Jobs" },
        { "list", "", "events", "", "reasons of pods that do not start" },
};

static void add_missing(char *text, size_t size, const struct right *right) {
        const size_t n = strlen(text);

        (void) snprintf(text + n, size - n, "%s%s %s%s%s", n > 0 ? ", " : "", right->verb, right->resource,
                        *right->sub ? "/" : "", right->sub);
}

static int look_at_rights(struct kube *kube, const char *ns, struct row *row, struct error *err) {
        char needed[LIST_MAX] = "", wanted[LIST_MAX] = "";
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(rights); i++) {
                const struct right *right = &rights[i];
                bool yes = false;
                int r = kube_allowed(kube, ns, right->verb, right->group, right->resource, right->sub, &yes,
                                     err);

                if (r < 0)
                        return r;
                n += yes;
                if (!yes)
                        add_missing(right->without ? wanted : needed, LIST_MAX, right);
        }
        row->state = *needed ? "missing" : *wanted ? "degraded" : "ok";
        if (!*needed && !*wanted) {
                say(row->evidence, "namespace %.100s: all %zu that runs need", ns, n);
                return 0;
        }
        say(row->evidence, "namespace %.60s: may not %.180s", ns, *needed ? needed : wanted);
        say(row->effect, "%s",
            *needed ? "runs do not start"
                    : "those parts do not work: secrets, environments, jobs, or the cleaning up of them");
        say(row->remedy, "kubectl apply -f images/kubernetes/rbac.yaml (by an administrator)");
        return 0;
}

/* --- PodSecurity
 * --------------------------------------------------------------------------------------------- */

static int look_at_security(struct kube *kube, const char *ns, unsigned minor, struct row *row,
                            struct error *err) {
        AUTO_JSON json_t *object = NULL;
        const json_t *labels;
        const char *level;
        int r = kube_get(kube, KUBE_NAMESPACE, NULL, ns, &object, err);

        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        row->state = "degraded";
        say(row->remedy, "kubectl label namespace %.100s pod-security.kubernetes.io/enforce=restricted", ns);
        say(row->effect, "only cofferdam itself keeps its pods restricted");
        if (r < 0) {
                say(row->evidence, "namespace %.60s cannot be read: %.160s", ns, err ? err->msg : "");
                say(row->effect, "not known whether the cluster keeps pods restricted");
                return 0;
        }
        labels = json_object_get(json_object_get(object, "metadata"), "labels");
        level = json_string_value(json_object_get(labels, "pod-security.kubernetes.io/enforce"));
        if (minor > 0 && minor < POD_SECURITY_MINOR) {
                say(row->evidence,
                    "version 1.%u does not have it enforced for certain; level of %.100s: %.30s", minor, ns,
                    level ? ESC(level) : "none");
                say(row->remedy, "use Kubernetes 1.%d or later", POD_SECURITY_MINOR);
                return 0;
        }
        say(row->evidence, "namespace %.100s: enforce=%.30s", ns, level ? ESC(level) : "none");
        if (level && strcmp(level, "restricted") == 0) {
                row->state = "ok";
                row->effect[0] = row->remedy[0] = '\0';
        }
        return 0;
}

/* --- NetworkPolicy
 * ------------------------------------------------------------------------------------------- */

struct probe {
        struct kube *kube;
        const char *ns, *image;
        char names[2][64], policy[64]; /* server, client */
        bool has_policy;
};

static json_t *probe_pod(const struct probe *p, int which) {
        static const char serve[] = "while :; do echo cofferdam | nc -l -p 8080; done";
        char expires[32];

        say(expires, "%lld", (long long) time(NULL) + 4 * PODS_READY_S);
        /* all that PodSecurity `restricted` asks for */
        return json_pack(
                "{s:s, s:s, s:{s:s, s:{s:s, s:s, s:s}, s:{s:s}}, s:{s:s, s:i, s:i, s:b, s:b, s:{s:b, s:i, "
                "s:i, s:{s:s}},"
                " s:[{s:s, s:s, s:[s, s, s], s:{s:b, s:b, s:{s:[s]}}, s:{s:{s:s, s:s}, s:{s:s, s:s}}}]}}",
                "apiVersion", "v1", "kind", "Pod", "metadata", "name", p->names[which], "labels",
                "app.kubernetes.io/managed-by", "ironflow", "app.kubernetes.io/component", "claude-runner",
                "cofferdam.io/probe", which == 0 ? "server" : p->names[1], "annotations",
                "ironflow.io/expires-at", expires, "spec", "restartPolicy", "Never",
                "terminationGracePeriodSeconds", 0, "activeDeadlineSeconds", 4 * PODS_READY_S,
                "automountServiceAccountToken", 0, "enableServiceLinks", 0, "securityContext", "runAsNonRoot",
                1, "runAsUser", 10001, "runAsGroup", 10001, "seccompProfile", "type", "RuntimeDefault",
                "containers", "name", "probe", "image", p->image, "command", "sh", "-c",
                which == 0 ? serve : "sleep 3600", "securityContext", "allowPrivilegeEscalation", 0,
                "readOnlyRootFilesystem", 1, "capabilities", "drop", "ALL", "resources", "requests", "cpu",
                "10m", "memory", "16Mi", "limits", "cpu", "100m", "memory", "32Mi");
}

/* No egress at all for the client. */
static json_t *probe_policy(const struct probe *p) {
        return json_pack("{s:s, s:s, s:{s:s}, s:{s:{s:{s:s}}, s:[s]}}", "apiVersion", "networking.k8s.io/v1",
                         "kind", "NetworkPolicy", "metadata", "name", p->policy, "spec", "podSelector",
                         "matchLabels", "cofferdam.io/probe", p->names[1], "policyTypes", "Egress");
}

static int make_probe_pods(struct probe *p, struct error *err) {
        for (int i = 0; i < 2; i++) {
                AUTO_JSON json_t *pod = probe_pod(p, i);
                int r = pod ? kube_create(p->kube, KUBE_POD, p->ns, pod, NULL, err) : -ENOMEM;

                if (r < 0)
                        return r;
        }
        return 0;
}

/* Until it runs; its address into @ip. */
static int wait_running(struct probe *p, int which, uint64_t deadline, char ip[64], struct error *err) {
        const struct kube_select select = { .name = p->names[which] };
        AUTO_KUBE_WATCH struct kube_watch *w = NULL;
        int r = kube_watch_open(p->kube, KUBE_POD, p->ns, &select, &w, err);

        while (r == 0) {
                AUTO_JSON json_t *pod = NULL;
                enum kube_event event;
                const char *phase, *at, *why;

                r = kube_watch_next(w, deadline, &event, &pod, err);
                if (r < 0)
                        break;
                phase = kube_json_text(pod, "status", "phase", NULL);
                at = kube_json_text(pod, "status", "podIP", NULL);
                why = kube_json_text(pod, "status", "reason", NULL);
                if (event == KUBE_DELETED || (phase && strcmp(phase, "Failed") == 0))
                        return error_set(err, -EIO, "probe pod '%s' ended: %s", p->names[which],
                                         why ? ESC(why) : "Failed");
                if (phase && strcmp(phase, "Running") == 0 && at &&
                    strspn(at, "0123456789abcdef.:") == strlen(at)) {
                        (void) snprintf(ip, 64, "%s", at);
                        return 0;
                }
        }
        return r;
}

/* Whether the client gets the server's word. */
static int connects(struct probe *p, const char *ip, bool *ret, struct error *err) {
        char command[160];
        const char *argv[] = { "sh", "-c", command, NULL };
        const struct kube_exec_request q = { .ns = p->ns, .pod = p->names[1], .argv = argv };
        AUTO_BUF struct buf out = { 0 };
        struct kube_exec_end end;
        int r;

        say(command, "nc -w %d %s %d </dev/null", CONNECT_S, ip, PROBE_PORT);
        r = kube_exec_collect(p->kube, &q, NULL, 4096, (CONNECT_S + 10) * 1000, &out, NULL, &end, err);
        *ret = r == 0 && strstr(buf_cstr(&out), "cofferdam") != NULL;
        return r;
}

static int prove(struct probe *p, struct row *row, struct error *err) {
        const uint64_t deadline = clock_ns() + PODS_READY_S * UINT64_C(1000000000);
        AUTO_JSON json_t *policy = probe_policy(p);
        char ip[64], unused[64];
        bool yes = false;
        int r = policy ? make_probe_pods(p, err) : -ENOMEM;

        if (r == 0)
                r = wait_running(p, 0, deadline, ip, err);
        if (r == 0)
                r = wait_running(p, 1, deadline, unused, err);
        for (int n = 0; r == 0 && !yes && n < 3; n++) /* the server may need a moment */
                r = connects(p, ip, &yes, err);
        if (r < 0)
                return r;
        if (!yes) {
                row->state = "ok";
                say(row->evidence, "two pods labelled as a run's do not reach each other: what is there "
                                   "already is enforced");
                return 0;
        }
        r = kube_create(p->kube, KUBE_NETWORKPOLICY, p->ns, policy, NULL, err);
        p->has_policy = r == 0;
        if (r == -EPERM) {
                say(row->evidence,
                    "two pods labelled as a run's reach each other, and we may not make a policy to try one");
                say(row->remedy, "kubectl apply -f images/kubernetes/networkpolicy-deny-all.yaml");
                return 0;
        }
        for (int n = 0; r == 0 && yes && n < POLICY_S / CONNECT_S; n++) {
                r = kube_pause(p->kube, 1000, err);
                if (r == 0)
                        r = connects(p, ip, &yes, err);
        }
        if (r < 0)
                return r;
        row->state = yes ? "degraded" : "ok";
        say(row->evidence,
            yes ? "a pod that a policy allows nothing reached another one: accepted and not enforced"
                : "a pod reached another one until a policy forbade it");
        if (!yes)
                row->effect[0] = row->remedy[0] = '\0';
        return 0;
}

static void clear_probe(struct probe *p) {
        const struct kube_delete now = { .has_grace = true, .grace_s = 0 };
        struct error ignored;

        kube_set_stop(p->kube, -1); /* also when we were stopped */
        for (int i = 0; i < 2; i++)
                if (kube_delete(p->kube, KUBE_POD, p->ns, p->names[i], &now, &ignored) < 0)
                        continue;
        if (p->has_policy && kube_delete(p->kube, KUBE_NETWORKPOLICY, p->ns, p->policy, NULL, &ignored) < 0)
                log_warn("doctor: network policy '%s' stays: %s", p->policy, ignored.msg);
}

static int look_at_network(struct kube *kube, const char *ns, const char *image, struct row *row,
                           struct error *err) {
        struct probe p = { .kube = kube, .ns = ns, .image = image };
        const unsigned long long id = (unsigned long long) clock_ns();
        int r;

        row->state = "degraded";
        say(row->effect, "what a run may connect to is not closed by the cluster");
        say(row->remedy, "use a network plugin that enforces NetworkPolicy, such as Cilium or Calico");
        if (!image) {
                say(row->evidence, "not tried: a server accepts policies whether they are enforced or not");
                say(row->effect, "not known whether the cluster closes what a run may connect to");
                say(row->remedy,
                    "cofferdam doctor --target kubernetes --prove-network IMAGE (with sh and nc)");
                return 0;
        }
        say(p.names[0], "cofferdam-probe-server-%llx", id);
        say(p.names[1], "cofferdam-probe-client-%llx", id);
        say(p.policy, "cofferdam-probe-%llx", id);
        r = prove(&p, row, err);
        clear_probe(&p);
        if (r == -ECANCELED || r == -ENOMEM || r == 0)
                return r;
        say(row->evidence, "not proved: %.240s", err ? err->msg : strerror(-r));
        return 0;
}

/* --- spread
 * -------------------------------------------------------------------------------------------------- */

static int look_at_spread(struct kube *kube, const char *key, struct row *row, struct error *err) {
        const struct kube_select with = { .labels = key };
        AUTO_JSON json_t *nodes = NULL;
        int r = kube_list(kube, KUBE_NODE, NULL, &with, &nodes, NULL, err);

        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        if (r < 0) {
                row->state = "degraded";
                say(row->evidence, "nodes cannot be listed: %.200s", err ? err->msg : "");
                say(row->effect, "not known whether any node has the label %.100s", ESC(key));
                return 0;
        }
        if (json_array_size(nodes) > 0) {
                say(row->evidence, "%zu nodes have the label %.100s", json_array_size(nodes), ESC(key));
                return 0;
        }
        row->state = "degraded";
        say(row->evidence, "no node has the label %.100s", ESC(key));
        say(row->effect, "runs are not spread; with a hard spread they would stay Pending");
        say(row->remedy, "kubectl get nodes --show-labels, and set kubernetes.spread_key to one of those");
        return 0;
}

/* --- all
 * ----------------------------------------------------------------------------------------------------- */

static int more_rows(struct kube *kube, const struct kube_doctor *what, unsigned minor, json_t *rows,
                     struct error *err) {
        const char *ns = what->ns ? what->ns : kube_config_namespace(kube_config_of(kube));
        struct row r1 = { .key = "kubernetes_rights", .state = "ok" };
        struct row r2 = { .key = "kubernetes_pod_security", .state = "ok" };
        struct row r3 = { .key = "kubernetes_network_policy", .state = "ok" };
        struct row r4 = { .key = "kubernetes_spread", .state = "ok" };
        int r = look_at_rights(kube, ns, &r1, err);

        if (r == -ECANCELED || r == -ENOMEM)
                return r;
        if (r < 0) {
                r1.state = "missing";
                say(r1.evidence, "%.250s", err ? err->msg : "");
                say(r1.effect, "not known whether runs start");
        }
        r = put(rows, &r1);
        if (r == 0)
                r = look_at_security(kube, ns, minor, &r2, err);
        if (r == 0)
                r = put(rows, &r2);
        if (r == 0)
                r = look_at_network(kube, ns, strcmp(r1.state, "missing") == 0 ? NULL : what->probe_image,
                                    &r3, err);
        if (r == 0)
                r = put(rows, &r3);
        if (r < 0 || !what->spread_key)
                return r;
        r = look_at_spread(kube, what->spread_key, &r4, err);
        return r == 0 ? put(rows, &r4) : r;
}

int kube_doctor_rows(struct kube *kube, const struct kube_doctor *what, json_t **ret, struct error *err) {
        struct row server = { .key = "kubernetes_api", .state = "ok" };
        AUTO_JSON json_t *rows = json_array();
        struct error own = { 0 };
        unsigned minor = 0;
        int r;

        if (!rows)
                return error_set(err, -ENOMEM, "out of memory");
        r = look_at_server(kube, &server, &minor);
        if (r != -ECANCELED && put(rows, &server) < 0)
                r = -ENOMEM;
        if (r == 0)
                r = more_rows(kube, what, minor, rows, &own);
        if (r == -ECANCELED || r == -ENOMEM)
                return error_set(err, r, "%s", r == -ENOMEM ? "out of memory" : "stopped");
        *ret = TAKE_PTR(rows);
        return 0;
}

/* SIGINT and SIGTERM as a descriptor, so that probe pods are removed. Return: -1 when that fails. */
static int signals(void) {
        sigset_t set;

        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGINT);
        (void) sigaddset(&set, SIGTERM);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
        return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool take_options(int argc, char **argv, struct kube_doctor *what) {
        for (int i = 1; i < argc; i += 2) {
                if (i + 1 == argc)
                        return false;
                if (strcmp(argv[i], "--namespace") == 0)
                        what->ns = argv[i + 1];
                else if (strcmp(argv[i], "--spread-key") == 0)
                        what->spread_key = argv[i + 1];
                else if (strcmp(argv[i], "--prove-network") == 0)
                        what->probe_image = argv[i + 1];
                else
                        return false;
        }
        return true;
}

int command_doctor(int argc, char **argv, const char *const *environ_) {
        const struct kube_config_from from = { .environ = environ_ };
        AUTO_KUBE_CONFIG struct kube_config *config = NULL;
        AUTO_KUBE struct kube *kube = NULL;
        AUTO_JSON json_t *rows = NULL;
        AUTO_FD int stop = signals();
        struct kube_doctor what = { 0 };
        struct error err = { 0 };
        int r;

        if (!take_options(argc, argv, &what)) {
                log_error("doctor: want [--namespace NS] [--spread-key KEY] [--prove-network IMAGE]");
                return CODE_USAGE;
        }
        r = kube_config_load(&from, &config, &err);
        if (r == 0)
                r = kube_open_consume(config, &kube, &err);
        if (r == 0) {
                config = NULL;
                kube_set_stop(kube, stop);
                r = kube_doctor_rows(kube, &what, &rows, &err);
        }
        if (r == 0 && (json_dumpf(rows, stdout, JSON_COMPACT) < 0 || fflush(stdout) != 0))
                r = error_set(&err, -EIO, "write the rows");
        if (r < 0)
                log_error("doctor: %s", err.msg);
        return r < 0 ? CODE_FAILED : CODE_OK;
}
