/* cofferdam gc: clear up after runs that died. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli/runs.h"
#include "drivers/native/probe.h"
#include "drivers/oci/build.h"
#include "drivers/oci/built.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/libexec.h"
#include "runtime/base/log.h"
#include "runtime/run/list.h"

struct options {
        bool json;
        const char *ns, *every; /* --kubernetes, --every */
};

static int set_ns(void *arg, const char *value, struct error *err) {
        struct options *o = arg;

        (void) err;
        o->ns = value;
        return 0;
}

static int set_every(void *arg, const char *value, struct error *err) {
        struct options *o = arg;

        (void) err;
        o->every = value;
        return 0;
}

static const struct flag_option options[] = {
        { "json", 0, NULL, NULL, "One JSON object for each run", offsetof(struct options, json) },
        { "kubernetes", 0, "NAMESPACE", set_ns, "Also delete what runs have made there and has expired" },
        { "every", 0, "TIME", set_every, "Do that again and again: with --kubernetes" },
};

static const struct flag_set flags = {
        .usage = "cofferdam gc [OPTIONS]",
        .summary = "Clear up after runs whose supervisor was killed; changes they hold are kept.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

static void tell(const char *id, bool kept, void *arg) {
        const struct options *o = arg;

        if (o->json)
                printf("{\"id\":\"%s\",\"kept\":%s}\n", id, kept ? "true" : "false");
        else
                printf("%s %s\n", id, kept ? "kept for review" : "removed");
}

static void tell_swept(const char *driver, const char *id, void *arg) {
        const struct options *o = arg;

        if (o->json)
                printf("{\"id\":\"%s\",\"driver\":\"%s\",\"kept\":false}\n", id, driver);
        else
                printf("%s container of %s removed\n", id, driver);
}

static void tell_built(const char *engine, const char *image, void *arg) {
        const struct options *o = arg;

        if (o->json)
                printf("{\"image\":\"%s\",\"driver\":\"%s\",\"kept\":false}\n", image, engine);
        else
                printf("%s image of %s removed\n", image, engine);
}

/* The reaper of a namespace, in place of this process. Return: exit code, when it could not be executed. */
static int reap_cluster(const struct ctx *ctx, const struct options *o) {
        static const char name[] = "cofferdam-kubernetes";
        const char *const argv[] = { name,     "reap", "--namespace", o->ns, o->every ? "--every" : NULL,
                                     o->every, NULL };
        const int r = libexec_exec(name, (char *const *) (const void *) argv,
                                   (char *const *) (const void *) ctx->environ);

        if (r == -ENOENT)
                log_error("gc: '%s' is not installed: install it, or build where libcurl, OpenSSL, "
                          "libarchive and wslay have their development files",
                          name);
        else
                log_error("gc: execute '%s': %s", name, strerror(-r));
        return EXIT_SETUP;
}

int verb_gc(const struct ctx *ctx, int argc, char **argv) {
        struct options o = { 0 };
        struct error err = { 0 };
        int next, code;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        if (runs_word_left(argc, argv, next))
                return EXIT_USAGE;
        if (o.every && !o.ns) {
                log_error("gc: option '--every' is for --kubernetes NAMESPACE: give both");
                return EXIT_USAGE;
        }
        probe_sweep(ctx);
        build_sweep(ctx);
        code = runs_reap(ctx, tell, &o, &err) < 0 ? runs_complain(&err) : EXIT_OK;
        err = (struct error){ 0 };
        if (runs_sweep(ctx, tell_swept, &o, &err) < 0) /* an engine that is not there has nothing that runs */
                log_warn("containers of dead runs may be left: %s", err.msg);
        built_sweep(ctx, tell_built, &o); /* when no dead run's container has one any more */
        if (fflush(stdout) == 0 && o.ns)
                return reap_cluster(ctx, &o);
        return code;
}
