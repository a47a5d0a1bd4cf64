/*
 * cofferdam manifest: what driver kubernetes would make of a specification, and what an administrator applies
 * once. Asks no cluster.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/verbs.h"
#include "kubernetes/manifest/manifest.h"
#include "kubernetes/manifest/read.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/spec/resolve.h"

struct manifest_args {
        bool json;
        bool admin, run;
        uint64_t time_s;
};

static int set_time(void *arg, const char *value, struct error *err) {
        struct manifest_args *args = arg;

        return parse_u64(value, 1, INT32_MAX * 1000LL, &args->time_s) < 0
                       ? error_set(err, -EINVAL, "want seconds since 1970")
                       : 0;
}

static const struct flag_option options[] = {
        { "json", 0, NULL, NULL, "print a JSON array in place of YAML documents",
          offsetof(struct manifest_args, json) },
        { "admin", 0, NULL, NULL, "only what an administrator applies once for the namespace",
          offsetof(struct manifest_args, admin) },
        { "run", 0, NULL, NULL, "only what is made for a run", offsetof(struct manifest_args, run) },
        { "time", 0, "SECONDS", set_time, "when the objects are made, since 1970; not given: now", 0 },
};

static const struct flag_set set = {
        "cofferdam manifest [OPTIONS] [FILE...]",
        "Print the objects that driver kubernetes makes of a specification.",
        options,
        ARRAY_SIZE(options),
        true,
};

/* @object: consumed; NULL: out of memory */
static int add(json_t *all, json_t *object) {
        return json_array_append_new(all, object);
}

static int collect(const struct kube_plan *plan, const struct manifest_args *args, bool auth_proxy,
                   json_t *all) {
        AUTO_JSON json_t *admin = kube_admin(plan, auth_proxy);
        int r = 0;

        if (!args->run)
                r = json_array_extend(all, admin);
        if (args->admin)
                return r;
        if (r == 0 && plan->environment.path && !plan->environment.resumed)
                r = add(all, kube_claim(plan));
        if (r == 0 && plan->network_policy)
                r = add(all, kube_network_policy(plan));
        return r == 0 ? add(all, kube_pod(plan)) : r;
}

static int print(const json_t *all, bool json) {
        AUTO_BUF struct buf text = { 0 };

        if (json) {
                if (json_dumpf(all, stdout, JSON_INDENT(2)) < 0)
                        return -1;
                return putchar('\n') == EOF ? -1 : 0;
        }
        if (kube_yaml(all, &text) < 0)
                return -1;
        return fputs(buf_cstr(&text), stdout) < 0 ? -1 : 0;
}

static int manifest(const struct ctx *ctx, const struct spec *spec, const struct manifest_args *args,
                    struct error *err) {
        AUTO_KUBE_PLAN struct kube_plan plan = { 0 };
        AUTO_JSON json_t *all = json_array();
        const struct kube_read from = {
                .environ = ctx->environ,
                .name = spec->name ? spec->name : "claude-code-manifest",
                .run_id = "manifest",
                .cwd = ctx->cwd,
                .new_claim = "ironflow-env-manifest",
                .now_s = args->time_s ? (int64_t) args->time_s : (int64_t) time(NULL),
        };
        int r;

        r = kube_plan_read(spec, &from, &plan, err);
        if (r == 0)
                r = kube_plan_check(&plan, err);
        if (r < 0)
                return r;
        if (!all ||
            collect(&plan, args, spec->auth_proxy.url || spec->model_auth == MODEL_AUTH_PROXIED, all) < 0 ||
            print(all, args->json) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return 0;
}

static int show_help(void) {
        AUTO_BUF struct buf text = { 0 };

        if (flags_help(&set, &text) < 0) {
                log_error("out of memory");
                return EXIT_FAILED;
        }
        (void) fputs(buf_cstr(&text), stdout);
        return EXIT_OK;
}

int verb_manifest(const struct ctx *ctx, int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        AUTO_SPEC struct spec *spec = NULL;
        struct manifest_args args = { 0 };
        struct error err = { 0 };

        if (flags_parse(&set, argc, argv, &args, &flags, &err) < 0) {
                log_error("%s", err.msg);
                return EXIT_USAGE;
        }
        if (flags->help)
                return show_help();
        for (int word = flags->next; word < argc; word++)
                flags->specs[flags->n_specs++] = argv[word];
        if (spec_resolve(ctx, flags, &spec, &err) < 0 || manifest(ctx, spec, &args, &err) < 0) {
                log_error("%s", err.msg);
                return EXIT_FAILED;
        }
        return EXIT_OK;
}
