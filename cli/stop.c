/* cofferdam stop: end runs. */
#include <stdio.h>

#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/parse.h"
#include "runtime/run/control.h"

enum { GRACE_DEFAULT_S = 10, GRACE_MAX_S = 3600 };

struct options {
        int grace_s;
};

static int set_time(void *arg, const char *value, struct error *err) {
        uint64_t n;

        if (parse_u64(value, 0, GRACE_MAX_S, &n) < 0)
                return error_set(err, -EINVAL, "want seconds, 0 to %d", GRACE_MAX_S);
        ((struct options *) arg)->grace_s = (int) n;
        return 0;
}

static const struct flag_option options[] = {
        { "time", 't', "SECONDS", set_time, "How long the commands may take to end (default: 10)" },
};

static const struct flag_set flags = {
        .usage = "cofferdam stop [OPTIONS] RUN...",
        .summary = "End runs: SIGTERM to their commands, then SIGKILL to everything in them.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

static int stop(const struct ctx *ctx, const char *id, void *arg, struct error *err) {
        const struct options *o = arg;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        int r;

        r = run_dir_open(ctx, id, &dir, err);
        if (r == 0)
                r = control_stop(&dir, o->grace_s, err);
        if (r == 0)
                printf("%s\n", dir.id);
        return r;
}

int verb_stop(const struct ctx *ctx, int argc, char **argv) {
        struct options o = { .grace_s = GRACE_DEFAULT_S };
        int next, code;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        return runs_for_each_word(ctx, argc, argv, next, stop, &o);
}
