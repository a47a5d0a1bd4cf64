#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "kubernetes/client/logs.h"
#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/read.h"
#include "kubernetes/verbs/oneoff.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"

/* One more element behind an array of the plan, zeroed; the old array is freed with the plan. */
static void *grow(struct kube_plan *plan, const void *array, size_t n, size_t size) {
        char *more = kube_plan_array(plan, n + 1, size);

        if (more && n)
                memcpy(more, array, n * size);
        return more;
}

static int no_memory(struct error *err) {
        return error_set(err, -ENOMEM, "out of memory");
}

/* --- setters: plain ones by table, the rest by hand --- */

#define TEXT_SETTER(name, field)                                             \
        static int name(void *arg, const char *value, struct error *err) {   \
                if (!*value)                                                 \
                        return error_set(err, -EINVAL, "must not be empty"); \
                ((struct oneoff *) arg)->field = value;                      \
                return 0;                                                    \
        }
TEXT_SETTER(set_name, plan.name)
TEXT_SETTER(set_image, plan.image)
TEXT_SETTER(set_kubeconfig, kubeconfig)
TEXT_SETTER(set_context, context)
TEXT_SETTER(set_script, script)
TEXT_SETTER(set_stdin, stdin_file)
TEXT_SETTER(set_workdir, plan.working_dir)
TEXT_SETTER(set_run_id, plan.run_id)
TEXT_SETTER(set_root_run_id, plan.root_run_id)
TEXT_SETTER(set_step, plan.step)
TEXT_SETTER(set_egress, plan.egress_profile)
TEXT_SETTER(set_managed_by, plan.managed_by)
TEXT_SETTER(set_domain, plan.domain)
TEXT_SETTER(set_account, plan.service_account)
TEXT_SETTER(set_policy, plan.fs_group_change_policy)
TEXT_SETTER(set_pull, plan.pull_policy)
TEXT_SETTER(set_cpu_request, plan.resources.cpu_request)
TEXT_SETTER(set_cpu_limit, plan.resources.cpu_limit)
TEXT_SETTER(set_memory_request, plan.resources.memory_request)
TEXT_SETTER(set_memory_limit, plan.resources.memory_limit)
TEXT_SETTER(set_disk_request, plan.resources.disk_request)
TEXT_SETTER(set_disk_limit, plan.resources.disk_limit)

static int set_runtime_class(void *arg, const char *value, struct error *err) {
        (void) err; /* blank: said by kube_plan_check() */
        ((struct oneoff *) arg)->plan.runtime_class = value;
        return 0;
}

static int set_namespace(void *arg, const char *value, struct error *err) {
        struct oneoff *o = arg;

        (void) err;
        o->plan.ns = value;
        o->ns_given = true;
        return 0;
}

static int duration(const char *value, uint64_t *ret, struct error *err) {
        return parse_duration_ms(value, 1, 31536000000, ret) < 0
                       ? error_set(err, -EINVAL, "want a time above zero such as 90s, 5m or 2h, not '%s'",
                                   ESC(value))
                       : 0;
}

static int set_timeout(void *arg, const char *value, struct error *err) {
        struct oneoff *o = arg;

        o->timeout_given = true;
        return duration(value, &o->wait_ms, err);
}

static int set_deadline(void *arg, const char *value, struct error *err) {
        return duration(value, &((struct oneoff *) arg)->plan.deadline_ms, err);
}

static int set_margin(void *arg, const char *value, struct error *err) {
        return duration(value, &((struct oneoff *) arg)->plan.margin_ms, err);
}

static int set_lifetime(void *arg, const char *value, struct error *err) {
        struct oneoff *o = arg;

        o->lifetime_given = true;
        return duration(value, &o->plan.timeout_ms, err);
}

static int set_max_log(void *arg, const char *value, struct error *err) {
        return parse_size(value, 1, 64 << 20, &((struct oneoff *) arg)->max_log) < 0
                       ? error_set(err, -EINVAL, "want a size from 1B to 64Mi, not '%s'", ESC(value))
                       : 0;
}

static int set_switch(enum kube_switch *field, const char *value, struct error *err) {
        bool on;

        if (parse_bool(value, &on) < 0)
                return error_set(err, -EINVAL, "want true or false, not '%s'", ESC(value));
        *field = on ? KUBE_TRUE : KUBE_FALSE;
        return 0;
}

static int set_automount(void *arg, const char *value, struct error *err) {
        return set_switch(&((struct oneoff *) arg)->plan.automount_token, value, err);
}

static int set_escalation(void *arg, const char *value, struct error *err) {
        return set_switch(&((struct oneoff *) arg)->plan.privilege_escalation, value, err);
}

/* UID[:GID[:FSGROUP]] */
static int set_security(void *arg, const char *value, struct error *err) {
        struct oneoff *o = arg;
        int64_t *const fields[] = { &o->plan.run_as_user, &o->plan.run_as_group, &o->plan.fs_group };
        char *rest = kube_plan_dup(&o->plan, value);

        if (!rest)
                return no_memory(err);
        for (size_t i = 0; rest; i++) {
                const char *word = strsep(&rest, ":");
                uint64_t id;

                if (i == ARRAY_SIZE(fields) || parse_u64(word, 1, INT32_MAX, &id) < 0)
                        return error_set(
                                err, -EINVAL,
                                "want UID[:GID[:FSGROUP]], numbers above 0: run_as_user must be greater "
                                "than 0");
                *fields[i] = (int64_t) id;
        }
        return 0;
}

/* NAME=VALUE behind a list of pairs */
static int add_pair(struct kube_plan *plan, const struct kube_pair **list, size_t *n, const char *value,
                    struct error *err) {
        struct kube_pair *more = grow(plan, *list, *n, sizeof(*more));
        char *name = kube_plan_dup(plan, value), *text = name ? strchr(name, '=') : NULL;

        if (!more || !name)
                return no_memory(err);
        if (!text || text == name)
                return error_set(err, -EINVAL, "'%s': want NAME=VALUE", ESC(value));
        *text++ = '\0';
        more[(*n)++] = (struct kube_pair){ name, text };
        *list = more;
        return 0;
}

static int add_label(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;

        return add_pair(p, &p->labels, &p->n_labels, value, err);
}

static int add_env(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;

        return add_pair(p, &p->env, &p->n_env, value, err);
}

static int add_selector(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;

        return add_pair(p, &p->node_selector, &p->n_node_selector, value, err);
}

static int add_secret(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;
        struct kube_secret_env *more = grow(p, p->secret_env, p->n_secret_env, sizeof(*more));
        char *text = kube_plan_dup(p, value);
        int r;

        if (!more || !text)
                return no_memory(err);
        r = kube_secret_parse(text, &more[p->n_secret_env], err);
        if (r < 0)
                return r;
        p->secret_env = more;
        p->n_secret_env++;
        return 0;
}

static int add_pull_secret(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;
        const char **more = grow(p, p->pull_secrets, p->n_pull_secrets, sizeof(*more));

        if (!more)
                return no_memory(err);
        more[p->n_pull_secrets++] = value;
        p->pull_secrets = more;
        return 0;
}

static int add_toleration(void *arg, const char *value, struct error *err) {
        return kube_tolerations_add(&((struct oneoff *) arg)->plan, value, err);
}

static int push_volume(struct kube_plan *p, const struct kube_volume *v, struct error *err) {
        struct kube_volume *more = grow(p, p->volumes, p->n_volumes, sizeof(*more));

        if (!more)
                return no_memory(err);
        more[p->n_volumes++] = *v;
        p->volumes = more;
        return 0;
}

static int add_volume(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;
        char *text = kube_plan_dup(p, value);
        struct kube_volume v;
        int r;

        if (!text)
                return no_memory(err);
        r = kube_volume_parse(text, &v, err);
        return r < 0 ? r : push_volume(p, &v, err);
}

/* CLAIM:PATH; the volumes are called workspace, workspace-1, ... */
static int add_claim(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;
        struct kube_volume v = { .kind = KUBE_VOL_CLAIM };
        char name[32] = "workspace";
        size_t n = 0;

        if (kube_plan_split(p, value, ':', &v.source, &v.target) < 0)
                return error_set(err, -EINVAL, "'%s': want CLAIM:PATH", ESC(value));
        for (size_t i = 0; i < p->n_volumes; i++)
                n += p->volumes[i].kind == KUBE_VOL_CLAIM && p->volumes[i].name;
        if (n > 0)
                (void) snprintf(name, sizeof(name), "workspace-%zu", n);
        v.name = kube_plan_dup(p, name);
        return v.name ? push_volume(p, &v, err) : no_memory(err);
}

/* NAME:PATH:SIZE[:CLASS] */
static int add_scratch(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;
        struct kube_volume v = { .kind = KUBE_VOL_SCRATCH };
        const char **const fields[] = { &v.name, &v.target, &v.size, &v.storage_class };
        char *rest = kube_plan_dup(p, value);
        size_t n = 0;

        if (!rest)
                return no_memory(err);
        for (; rest && n < ARRAY_SIZE(fields); n++)
                *fields[n] = strsep(&rest, ":");
        if (n < 3 || rest || !*v.name || !*v.target || !*v.size || (v.storage_class && !*v.storage_class))
                return error_set(err, -EINVAL, "'%s': want NAME:PATH:SIZE[:CLASS]", ESC(value));
        return push_volume(p, &v, err);
}

static int set_owner(void *arg, const char *value, struct error *err) {
        struct kube_plan *p = &((struct oneoff *) arg)->plan;

        return kube_plan_split(p, value, '/', &p->owner_name, &p->owner_uid) < 0
                       ? error_set(err, -EINVAL, "owner pod needs a non-empty name and uid: NAME/UID")
                       : 0;
}

const struct flag_option oneoff_options[] = {
        { "image", 0, "REF", set_image, "image of the container", 0 },
        { "name", 0, "NAME", set_name, "name of the pod, Job and container; not given: one of its own", 0 },
        { "namespace", 'n', "NAME", set_namespace, "where; not given: that of the context", 0 },
        { "context", 0, "NAME", set_context, "context of the kubeconfig", 0 },
        { "kubeconfig", 0, "FILE", set_kubeconfig, "in place of KUBECONFIG and ~/.kube/config", 0 },
        { "script", 'c', "TEXT", set_script, "what /bin/sh -c executes, in place of COMMAND", 0 },
        { "stdin", 0, "FILE|-", set_stdin, "what the command reads, at most 255 KiB of UTF-8", 0 },
        { "workdir", 'w', "DIR", set_workdir, "where the command starts; not given: the image's", 0 },
        { "env", 'e', "NAME=VALUE", add_env, "a variable, in clear text in the pod", 0 },
        { "env-from-secret", 0, "NAME=SECRET/KEY", add_secret, "a variable from a Secret", 0 },
        { "sandboxed", 0, NULL,
          .help = "read-only root, no capabilities, user 10001, /tmp of 512Mi, no token",
          .on = offsetof(struct oneoff, plan.sandboxed) },
        { "security", 0, "UID[:GID[:FSGROUP]]", set_security, "who the command is", 0 },
        { "fs-group-change-policy", 0, "WHEN", set_policy,
          "Always, or OnRootMismatch: a large volume is given to the group once", 0 },
        { "automount-token", 0, "BOOL", set_automount, "token of the service account", 0 },
        { "privilege-escalation", 0, "BOOL", set_escalation, "whether set-user-ID programs work", 0 },
        { "service-account", 0, "NAME", set_account, "its token is mounted", 0 },
        { "pvc", 0, "CLAIM:PATH", add_claim, "a claim that exists", 0 },
        { "scratch", 0, "NAME:PATH:SIZE[:CLASS]", add_scratch,
          "a volume that lives with the pod; with a storage class a claim of its own", 0 },
        { "volume", 0, "STRING", add_volume, "any volume, written as in kubernetes.volumes", 0 },
        { "cpu-request", 0, "N", set_cpu_request, "processors that a node must have free", 0 },
        { "cpu-limit", 0, "N", set_cpu_limit, "processors at most", 0 },
        { "memory-request", 0, "SIZE", set_memory_request, "memory that a node must have free", 0 },
        { "memory-limit", 0, "SIZE", set_memory_limit, "memory at most", 0 },
        { "disk-request", 0, "SIZE", set_disk_request, "ephemeral storage that a node must have free", 0 },
        { "disk-limit", 0, "SIZE", set_disk_limit, "ephemeral storage at most", 0 },
        { "node-selector", 0, "NAME=VALUE", add_selector, "a label that the node must have", 0 },
        { "toleration", 0, "KEY[=VALUE]:EFFECT", add_toleration, "a taint that it may have", 0 },
        { "runtime-class", 0, "NAME", set_runtime_class, "RuntimeClass such as gvisor", 0 },
        { "pull-secret", 0, "NAME", add_pull_secret, "Secret with credentials of a registry", 0 },
        { "pull-policy", 0, "WHEN", set_pull, "Always, IfNotPresent or Never", 0 },
        { "label", 'l', "NAME=VALUE", add_label, "a label of what is made", 0 },
        { "run-id", 0, "ID", set_run_id, "label run-id: it goes when that run executes again", 0 },
        { "root-run-id", 0, "ID", set_root_run_id, "label root-run-id; not given: --run-id", 0 },
        { "step", 0, "NAME", set_step, "label step", 0 },
        { "egress-profile", 0, "NAME", set_egress, "label that network policies select by", 0 },
        { "managed-by", 0, "VALUE", set_managed_by, "in place of ironflow", 0 },
        { "label-domain", 0, "DOMAIN", set_domain, "in place of ironflow.io", 0 },
        { "owner-pod", 0, "NAME/UID", set_owner, "pod of the namespace with which it goes", 0 },
        { "timeout", 0, "DURATION", set_timeout, "how long to wait; 5m, for a Job 10m", 0 },
        { "active-deadline", 0, "DURATION", set_deadline, "when the cluster ends it", 0 },
        { "expiry-margin", 0, "DURATION", set_margin, "how long after that it may be reaped; 60s", 0 },
        { "max-log-bytes", 0, "SIZE", set_max_log, "how much of the end of its output is kept; 1Mi", 0 },
        { "keep", 0, NULL, .help = "do not delete it at its end", .on = offsetof(struct oneoff, keep) },
        { "dry-run", 0, NULL, .help = "print what would be made, and ask no cluster",
          .on = offsetof(struct oneoff, dry_run) },
        { "json", 0, NULL, .help = "print JSON", .on = offsetof(struct oneoff, json) },
        { "lifetime", 0, "DURATION", set_lifetime, "how long the service is there before it may be reaped",
          0 },
};
const size_t n_oneoff_options = ARRAY_SIZE(oneoff_options);

/* --- together --- */

void oneoff_init(struct oneoff *o, const char *verb, enum kube_component component) {
        *o = (struct oneoff){ .verb = verb, .max_log = KUBE_LOG_BYTES };
        kube_plan_init(&o->plan);
        o->plan.component = component;
        o->plan.sandboxed = false;
        o->plan.workspace_size = NULL;
        o->plan.container = NULL;
        o->plan.now_s = (int64_t) time(NULL);
        o->wait_ms = component == KUBE_JOB_RUN ? KUBE_JOB_TIMEOUT_MS : KUBE_TIMEOUT_MS;
}

static int read_stdin(struct oneoff *o, struct error *err) {
        AUTO_FD int fd = -1;
        AUTO_BUF struct buf text = { 0 };
        int r;

        fd = strcmp(o->stdin_file, "-") == 0 ? fcntl(0, F_DUPFD_CLOEXEC, 3)
                                             : open(o->stdin_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return error_set(err, -errno, "--stdin: '%s': %s", ESC(o->stdin_file), strerror(errno));
        r = file_read(fd, KUBE_STDIN_MAX, &text);
        if (r < 0)
                return error_set(err, r, "--stdin: '%s': %s", ESC(o->stdin_file),
                                 r == -EFBIG ? "larger than 255 KiB, which is all that reaches a pod"
                                             : strerror(-r));
        if (text.len && (memchr(text.data, '\0', text.len) || !utf8_valid(text.data, text.len)))
                return error_set(err, -EINVAL,
                                 "--stdin: '%s': not UTF-8 text, which is all that reaches a pod",
                                 ESC(o->stdin_file));
        o->plan.stdin_data = kube_plan_dup(&o->plan, buf_cstr(&text));
        return o->plan.stdin_data ? 0 : no_memory(err);
}

static int put_command(struct oneoff *o, char **words, struct error *err) {
        const char **argv;
        size_t n = 0;

        if (o->script && *words)
                return error_set(err, -EINVAL, "--script is in place of a command: leave one of them out");
        if (o->script) {
                argv = kube_plan_array(&o->plan, 3, sizeof(*argv));
                if (!argv)
                        return no_memory(err);
                argv[n++] = "/bin/sh";
                argv[n++] = "-c";
                argv[n++] = o->script;
                o->plan.command = argv;
        } else {
                while (words[n])
                        n++;
                o->plan.command = (const char *const *) words;
        }
        o->plan.n_command = n;
        return n > 0 ? 0 : error_set(err, -EINVAL, "no command: say one behind '--', or with --script");
}

static int put_name(struct oneoff *o, struct error *err) {
        char name[KUBE_UNIQUE_LEN];
        struct timespec now = { 0 };
        uint32_t random = 0;

        if (!o->plan.name) {
                (void) clock_gettime(CLOCK_REALTIME, &now);
                if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
                        return error_set(err, -EIO, "no random number");
                o->plan.name = kube_plan_dup(
                        &o->plan, kube_unique(kube_component_name(o->plan.component),
                                              now.tv_sec * 1000LL + now.tv_nsec / 1000000, random, name));
        }
        o->plan.container = o->plan.name;
        return o->plan.name ? 0 : no_memory(err);
}

int oneoff_finish(struct oneoff *o, char **words, struct error *err) {
        int r;

        if (o->up && !o->lifetime_given)
                return error_set(err, -EINVAL, "--lifetime: say how long the service is to be there");
        if (!o->up)
                o->plan.timeout_ms = o->wait_ms;
        r = put_command(o, words, err);
        if (r == 0)
                r = put_name(o, err);
        if (r == 0 && o->stdin_file)
                r = read_stdin(o, err);
        return r == 0 ? kube_plan_check(&o->plan, err) : r;
}
