/* cofferdam gc: clear up after runs that died. */
#include <stddef.h>
#include <stdio.h>

#include "cli/runs.h"
#include "drivers/native/probe.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"
#include "runtime/run/list.h"

struct options {
        bool json;
};

static const struct flag_option options[] = {
        { "json", 0, NULL, NULL, "One JSON object for each run", offsetof(struct options, json) },
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

int verb_gc(const struct ctx *ctx, int argc, char **argv) {
        struct options o = { 0 };
        struct error err = { 0 };
        int next, code;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        if (runs_word_left(argc, argv, next))
                return EXIT_USAGE;
        probe_sweep(ctx);
        code = runs_reap(ctx, tell, &o, &err) < 0 ? runs_complain(&err) : EXIT_OK;
        err = (struct error){ 0 };
        if (runs_sweep(ctx, tell_swept, &o, &err) < 0) /* an engine that is not there has nothing that runs */
                log_warn("containers of dead runs may be left: %s", err.msg);
        return code;
}
