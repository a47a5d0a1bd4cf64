/* cofferdam rm: remove runs that have ended. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/run/changes.h"
#include "runtime/run/control.h"
#include "runtime/run/list.h"

struct options {
        bool force;
};

static const struct flag_option options[] = {
        { "force", 'f', NULL, NULL, "Stop the run when it lives, and throw away changes it holds",
          offsetof(struct options, force) },
};

static const struct flag_set flags = {
        .usage = "cofferdam rm [OPTIONS] RUN...",
        .summary = "Remove runs that have ended, with their events and logs.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

/* Why the run may not go; 0: it may. The lock is held then. */
static int check(const struct run_dir *dir, const struct options *o, struct error *err) {
        AUTO_JSON json_t *state = NULL;
        uint32_t held;

        if (flock(dir->fd, LOCK_EX | LOCK_NB) < 0)
                return error_set(err, -EBUSY,
                                 "run %s lives, or a review works on it: stop it first, or use --force",
                                 dir->id);
        if (o->force || run_state_load(dir, &state, NULL) < 0)
                return 0;
        held = run_changes_count(dir, state, UINT32_MAX);
        if (held == 0)
                return 0;
        return error_set(
                err, -EBUSY,
                "run %s holds %u %s: 'cofferdam diff %s' shows, 'cofferdam apply %s' lands, --force drops",
                dir->id, held, held == 1 ? "change" : "changes", dir->id, dir->id);
}

static int remove_run(const struct ctx *ctx, const char *id, void *arg, struct error *err) {
        const struct options *o = arg;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        int r;

        r = run_dir_open(ctx, id, &dir, err);
        if (r == 0 && o->force)
                r = control_stop(&dir, 0, err);
        if (r == 0)
                r = check(&dir, o, err);
        if (r < 0)
                return r;
        r = run_revoke(ctx, &dir, err);
        if (r < 0 && !o->force)
                return r;
        r = run_forget(ctx, &dir, o->force, err);
        if (r < 0 && r != -ENOENT) /* a run that does not outlive its command is gone with it */
                return r;
        printf("%s\n", dir.id);
        return 0;
}

int verb_rm(const struct ctx *ctx, int argc, char **argv) {
        struct options o = { 0 };
        int next, code;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        return runs_for_each_word(ctx, argc, argv, next, remove_run, &o);
}
