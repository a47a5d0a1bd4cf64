#include "runtime/run/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "drivers/driver.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/base/sys.h"
#include "runtime/run/changes.h"
#include "runtime/run/control.h"

const char *run_status_name(enum run_status status) {
        static const char *const names[RUN_STATUS_COUNT] = {
                [RUN_STARTING] = "starting",
                [RUN_RUNNING] = "running",
                [RUN_FINISHED] = "finished",
                [RUN_DEAD] = "dead",
        };

        return names[status];
}

/* Whether nobody holds the run's lock; takes it. A lock that cannot be tried is a held one. */
static bool lock(const struct run_dir *dir) {
        return flock(dir->fd, LOCK_EX | LOCK_NB) == 0;
}

enum run_status run_status_of(const struct run_dir *dir, const json_t *state) {
        const char *phase = json_string_value(json_object_get(state, "phase"));

        if (phase && strcmp(phase, "finished") == 0)
                return RUN_FINISHED;
        if (run_is_alive(state))
                return phase && strcmp(phase, "starting") == 0 ? RUN_STARTING : RUN_RUNNING;
        if (!lock(dir))
                return RUN_STARTING;
        (void) flock(dir->fd, LOCK_UN);
        return RUN_DEAD;
}

struct each {
        listed_run_fn fn;
        void *arg;
};

static int on_dir(struct run_dir *dir, void *arg) {
        const struct each *each = arg;
        AUTO_JSON json_t *state = NULL;
        struct listed_run run = { .dir = dir };
        struct stat st;

        if (run_state_load(dir, &state, NULL) == 0)
                run.state = state;
        run.status = run_status_of(dir, state);
        if (fstat(dir->upper_fd, &st) ==
            0) /* nothing is made in it but the regions' directories, at the start */
                run.changed_ns = st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec;
        return each->fn(&run, each->arg);
}

int runs_each(const struct ctx *ctx, listed_run_fn fn, void *arg, struct error *err) {
        struct each each = { fn, arg };

        return run_dir_each(ctx, on_dir, &each, err);
}

/* ---- reaping ---- */

struct reap {
        reaped_fn fn;
        void *arg;
        int r; /* the first failure */
        struct error err;
};

/* The last words that the supervisor could not say. */
static int mark_finished(struct run_dir *dir, json_t *state, struct error *err) {
        struct events events = { .run_id = dir->id, .file_fd = -1, .sink_fd = -1 };
        AUTO_FD int fd = events_reopen(dir->fd, &events);
        const char *driver = json_string_value(json_object_get(state, "driver"));
        const uint32_t held = run_changes_count(dir, state, UINT32_MAX);
        static const char kind[] = "run", reason[] = "the supervisor was killed";

        if (fd >= 0)
                events_emit(&events, "orphan_reaped",
                            json_pack("{s:s,s:s,s:s,s:s}", "driver", driver ? driver : "", "kind", kind,
                                      "name", dir->id, "reason", reason));
        (void) json_object_set_new(state, "exit_code", json_integer(137));
        (void) json_object_set_new(state, "failure_code", json_string("SANDBOX_SETUP_FAILED"));
        (void) json_object_set_new(state, "reason", json_string(reason));
        (void) json_object_set_new(state, "held", json_integer(held));
        (void) json_object_set_new(state, "phase", json_string("finished"));
        (void) json_object_del(state, "supervisor");
        events_deinit(&events);
        return run_state_store(dir, state, true, err);
}

/* What the run's driver left outside the run directory. Without a state it is not known which it was. */
static void reap_outside(const struct run_dir *dir, const json_t *state) {
        const char *name = json_string_value(json_object_get(state, "driver"));
        const struct driver_ops *driver = driver_find(name ? name : "auto");

        if (driver && driver->reap)
                driver->reap(json_object_get(state, "plan"), dir->id);
}

int run_forget(struct run_dir *dir) {
        AUTO_JSON json_t *state = NULL;
        const char *phase;

        (void) !run_state_load(dir, &state, NULL);
        phase = json_string_value(json_object_get(state, "phase"));
        if (!phase || strcmp(phase, "finished") != 0)
                reap_outside(dir, state);
        return run_dir_remove(dir);
}

static int reap(const struct listed_run *run, void *arg) {
        struct reap *reap = arg;
        struct error err = { 0 };
        bool kept;
        int r = 0;

        if (run->status != RUN_DEAD || !lock(run->dir))
                return 0;
        reap_outside(run->dir, run->state);
        kept = json_is_true(json_object_get(run->state, "keep")) || !run_bury(run->dir);
        if (kept && run->state)
                r = mark_finished(run->dir, run->state, &err);
        if (r < 0) { /* a full disk: the next time */
                reap->err = reap->r == 0 ? err : reap->err;
                reap->r = reap->r == 0 ? r : reap->r;
                return 0;
        }
        control_close(run->dir, -1);
        if (reap->fn)
                reap->fn(run->dir->id, kept, reap->arg);
        return 0;
}

int runs_reap(const struct ctx *ctx, reaped_fn fn, void *arg, struct error *err) {
        struct reap context = { .fn = fn, .arg = arg };
        int r;

        run_dir_sweep(ctx);
        r = runs_each(ctx, reap, &context, err);
        return r == 0 && context.r < 0 ? error_set(err, context.r, "%s", context.err.msg) : r;
}
