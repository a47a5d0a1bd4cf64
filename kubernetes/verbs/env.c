/*
 * cofferdam env ls, cofferdam env rm: the claims that kubernetes.environment_volume made
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kubernetes/command.h"
#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/names.h"
#include "kubernetes/verbs/oneoff.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"

/** struct env_args - @o has what both verbs share with the others: where, and whose labels */
struct env_args {
        struct oneoff o;
        const char *run_id;
};

static const char *text(const json_t *obj, const char *section, const char *key) {
        const char *s = kube_json_text(obj, "metadata", section, key, NULL);

        return s ? s : "";
}

/* Whether a claim is an environment of ours: rm deletes nothing else. */
static bool is_environment(const struct kube_plan *p, const json_t *claim) {
        return strcmp(text(claim, "labels", KUBE_LABEL_MANAGED_BY), p->managed_by) == 0 &&
               strcmp(text(claim, "labels", KUBE_LABEL_COMPONENT), kube_component_name(KUBE_ENVIRONMENT)) ==
                       0;
}

static int select_all(const struct env_args *a, struct buf *out) {
        char key[KUBE_KEY_LEN], value[KUBE_LABEL_MAX + 1];
        int r;

        r = buf_fmt(out, KUBE_LABEL_MANAGED_BY "=%s," KUBE_LABEL_COMPONENT "=%s", a->o.plan.managed_by,
                    kube_component_name(KUBE_ENVIRONMENT));
        return r == 0 && a->run_id ? buf_fmt(out, ",%s=%s", kube_key(&a->o.plan, "run-id", key),
                                             kube_label_value(a->run_id, value))
                                   : r;
}

/* The expiry as seconds, 0: none that can be read */
static uint64_t expiry(const struct kube_plan *p, const json_t *claim) {
        char key[KUBE_KEY_LEN];
        uint64_t at;

        return parse_u64(text(claim, "annotations", kube_key(p, "expires-at", key)), 1, INT64_MAX, &at) == 0
                       ? at
                       : 0;
}

static json_t *row(const struct kube_plan *p, const json_t *claim) {
        char run[KUBE_KEY_LEN], step[KUBE_KEY_LEN];
        const json_t *requests =
                json_object_get(json_object_get(json_object_get(claim, "spec"), "resources"), "requests");
        const char *size = kube_json_text(requests, "storage", NULL),
                   *phase = kube_json_text(claim, "status", "phase", NULL);
        const bool gone = json_object_get(json_object_get(claim, "metadata"), "deletionTimestamp");
        const uint64_t at = expiry(p, claim);

        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "name",
                         kube_json_text(claim, "metadata", "name", NULL), "run_id",
                         text(claim, "labels", kube_key(p, "run-id", run)), "step",
                         text(claim, "labels", kube_key(p, "step", step)), "size", size ? size : "", "status",
                         gone    ? "Terminating"
                         : phase ? phase
                                 : "Pending",
                         "expires_at", at ? json_integer((json_int_t) at) : json_null());
}

static void print_row(const json_t *r, int64_t now) {
        const int64_t at = json_integer_value(json_object_get(r, "expires_at"));
        char when[32] = "never";

        if (at && at <= now)
                (void) snprintf(when, sizeof(when), "expired");
        else if (at)
                (void) snprintf(when, sizeof(when), "in %lldh%02lldm", (long long) (at - now) / 3600,
                                (long long) (at - now) / 60 % 60);
        printf("%-36s %-12s %-8s %-12s %-20s %s\n", json_string_value(json_object_get(r, "name")),
               json_string_value(json_object_get(r, "status")), json_string_value(json_object_get(r, "size")),
               when, json_string_value(json_object_get(r, "run_id")),
               json_string_value(json_object_get(r, "step")));
}

static int list(struct env_args *a, struct kube *kube, char **words, struct error *err) {
        AUTO_JSON json_t *claims = NULL, *rows = json_array();
        AUTO_BUF struct buf labels = { 0 };
        struct kube_select select = { 0 };
        const json_t *claim;
        size_t i;
        int r;

        (void) words;
        if (!rows || select_all(a, &labels) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        select.labels = buf_cstr(&labels);
        r = kube_list(kube, KUBE_PVC, a->o.plan.ns, &select, &claims, NULL, err);
        if (r < 0)
                return r;
        json_array_foreach(claims, i, claim) {
                if (json_array_append_new(rows, row(&a->o.plan, claim)) < 0)
                        return error_set(err, -ENOMEM, "out of memory");
        }
        if (a->o.json) {
                (void) json_dumpf(rows, stdout, JSON_INDENT(2));
                (void) putchar('\n');
                return 0;
        }
        printf("%-36s %-12s %-8s %-12s %-20s %s\n", "NAME", "STATUS", "SIZE", "EXPIRES", "RUN", "STEP");
        json_array_foreach(rows, i, claim) {
                print_row(claim, (int64_t) time(NULL));
        }
        return 0;
}

static int remove_one(struct env_args *a, struct kube *kube, const char *name, struct error *err) {
        AUTO_JSON json_t *claim = NULL;
        struct kube_delete how = { 0 };
        int r;

        r = kube_environment_id_check(name, err);
        if (r == 0)
                r = kube_get(kube, KUBE_PVC, a->o.plan.ns, name, &claim, err);
        if (r == -ENOENT || (r == 0 && !is_environment(&a->o.plan, claim)))
                return error_set(err, -ENOENT, "environment '%s' not found or expired", ESC(name));
        if (r < 0)
                return error_wrap(err, r, "failed to read environment '%s'", ESC(name));
        how.uid = kube_json_text(claim, "metadata", "uid", NULL);
        r = kube_delete(kube, KUBE_PVC, a->o.plan.ns, name, &how, err);
        return r < 0 && r != -ENOENT ? error_wrap(err, r, "failed to delete environment '%s'", ESC(name)) : 0;
}

/* All that are named, also behind one that fails. */
static int remove_all(struct env_args *a, struct kube *kube, char **words, struct error *err) {
        int first = 0;

        for (; *words; words++) {
                struct error one = { 0 };
                const int r = remove_one(a, kube, *words, &one);

                if (r < 0 && first == 0) {
                        first = r;
                        *err = one;
                } else if (r < 0) {
                        log_error("env rm: %s", one.msg);
                }
        }
        return first;
}

/* --- options --- */

static int set_run_id(void *arg, const char *value, struct error *err) {
        (void) err;
        ((struct env_args *) arg)->run_id = value;
        return 0;
}

#define PLACE(name, field)                                                 \
        static int name(void *arg, const char *value, struct error *err) { \
                (void) err;                                                \
                ((struct env_args *) arg)->field = value;                  \
                return 0;                                                  \
        }
PLACE(set_context, o.context)
PLACE(set_kubeconfig, o.kubeconfig)
PLACE(set_managed_by, o.plan.managed_by)
PLACE(set_domain, o.plan.domain)

static int set_namespace(void *arg, const char *value, struct error *err) {
        struct env_args *a = arg;

        if (!kube_dns_label_valid(value))
                return error_set(err, -EINVAL, "'%s' must be a DNS label", ESC(value));
        a->o.plan.ns = value;
        a->o.ns_given = true;
        return 0;
}

static const struct flag_option options[] = {
        { "namespace", 'n', "NAME", set_namespace, "where; not given: that of the context", 0 },
        { "context", 0, "NAME", set_context, "context of the kubeconfig", 0 },
        { "kubeconfig", 0, "FILE", set_kubeconfig, "in place of KUBECONFIG and ~/.kube/config", 0 },
        { "managed-by", 0, "VALUE", set_managed_by, "in place of ironflow", 0 },
        { "label-domain", 0, "DOMAIN", set_domain, "in place of ironflow.io", 0 },
        { "run-id", 0, "ID", set_run_id, "only those that this run made", 0 },
        { "json", 0, NULL, .help = "print JSON", .on = offsetof(struct env_args, o.json) },
};

/** struct env_verb - ls or rm; --run-id and --json are of ls alone */
static const struct env_verb {
        const char *name, *usage, *summary;
        bool names; /* of environments, behind the options */
        size_t n_options;
        int (*run)(struct env_args *a, struct kube *kube, char **words, struct error *err);
} env_verbs[] = {
        { "ls", "cofferdam env ls [OPTIONS]", "List the environments: claims that outlive their pods.", false,
          ARRAY_SIZE(options), list },
        { "rm", "cofferdam env rm [OPTIONS] NAME...", "Remove environments, with what is in them.", true,
          ARRAY_SIZE(options) - 2, remove_all },
};

static int run_verb(const struct env_verb *verb, int argc, char **argv, const char *const *environ_) {
        const struct flag_set set = { verb->usage, verb->summary, options, verb->n_options, false };
        struct env_args a = { 0 };
        AUTO_FLAGS struct flags *flags = NULL;
        AUTO_KUBE struct kube *kube = NULL;
        AUTO_BUF struct buf help = { 0 };
        struct error err = { 0 };
        int r;

        oneoff_init(&a.o, "env", KUBE_ENVIRONMENT);
        if (flags_parse(&set, argc, argv, &a, &flags, &err) < 0) {
                log_error("env %s: %s", verb->name, err.msg);
                return CODE_USAGE;
        }
        if (flags->help) {
                if (flags_help(&set, &help) < 0)
                        return CODE_FAILED;
                (void) fputs(buf_cstr(&help), stdout);
                return fflush(stdout) == 0 ? CODE_OK : CODE_FAILED;
        }
        if ((flags->next < argc) != verb->names)
                r = verb->names ? error_set(&err, -EINVAL, "say which: 'cofferdam env ls' lists them")
                                : error_set(&err, -EINVAL, "unexpected '%s': see 'cofferdam env ls --help'",
                                            ESC(argv[flags->next]));
        else
                r = oneoff_connect(&a.o, environ_, &kube, &err);
        if (r == 0)
                r = verb->run(&a, kube, argv + flags->next, &err);
        if (r < 0) {
                log_error("env %s: %s", verb->name, err.msg);
                return r == -EINVAL ? CODE_USAGE : CODE_FAILED;
        }
        return fflush(stdout) == 0 ? CODE_OK : CODE_FAILED;
}

int command_env(int argc, char **argv, const char *const *environ_) {
        if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
                puts("Usage: cofferdam env ls|rm [OPTIONS] [NAME...]\n\nList or remove the environments of a "
                     "namespace; each word has its own --help.");
                return fflush(stdout) == 0 ? CODE_OK : CODE_FAILED;
        }
        for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(env_verbs); i++)
                if (strcmp(argv[1], env_verbs[i].name) == 0)
                        return run_verb(&env_verbs[i], argc - 1, argv + 1, environ_);
        if (argc > 1 && argv[1][0] == '-')
                log_error("env: unknown option '%s': options stand behind the word", ESC(argv[1]));
        else
                log_error("env: say what to do: ls or rm");
        return CODE_USAGE;
}
