#include "runtime/run/list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "drivers/driver.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/sys.h"
#include "runtime/run/changes.h"
#include "runtime/run/control.h"
#include "runtime/run/keeper.h"
#include "runtime/run/service.h"

enum { REAPER_NICE = 10, REVOKE_MS = 2000, TOKEN_SECONDS_MAX = 24 * 3600, PLACE_BYTES_MAX = 4096 };

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
        const struct ctx *ctx;
        bool spare; /* runs that lived on are kept as their own end would have kept them */
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
static int reap_outside(const struct ctx *ctx, const struct run_dir *dir, const json_t *state,
                        struct error *err) {
        const char *name = json_string_value(json_object_get(state, "driver"));
        const struct driver_ops *driver = driver_find(name ? name : "auto");
        struct error why = { 0 };
        int r = 0;

        if (driver && driver->reap)
                r = driver->reap(ctx, json_object_get(state, "plan"), dir->id, &why);
        return r < 0 ? error_set(err, r,
                                 "run %s is left: %s: try again, or forget it with 'cofferdam rm --force %s'",
                                 dir->id, why.msg, dir->id)
                     : 0;
}

int run_forget(const struct ctx *ctx, struct run_dir *dir, bool force, struct error *err) {
        AUTO_JSON json_t *state = NULL;
        const char *phase;
        int r = 0;

        (void) !run_state_load(dir, &state, NULL);
        phase = json_string_value(json_object_get(state, "phase"));
        if (!phase || strcmp(phase, "finished") != 0)
                r = reap_outside(ctx, dir, state, force ? NULL : err);
        if (r < 0 && !force)
                return r;
        r = run_dir_remove(dir);
        return r < 0 ? error_set(err, r, "remove run %s: %s", dir->id, strerror(-r)) : 0;
}

/* ---- tokens whose keeper was killed as well ---- */

/* Where the run's tokens are revoked. Return: whether there is a service, and one may be alive. */
static bool tokens_at(const struct run_dir *dir, struct buf *ret_place) {
        struct stat st;

        return fstatat(dir->fd, KEEPER_SERVICE_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
               time(NULL) - st.st_mtime <= TOKEN_SECONDS_MAX &&
               file_read_at(dir->fd, KEEPER_SERVICE_FILE, PLACE_BYTES_MAX, ret_place) == 0;
}

int run_revoke(const struct ctx *ctx, const struct run_dir *dir, struct error *err) {
        AUTO_BUF struct buf place = { 0 };
        struct service service = { .key = ctx_getenv(ctx, "IRONFLOW_AUTH_PROXY_ADMIN_KEY"),
                                   .wait_ms = REVOKE_MS };
        struct error why = { 0 };
        int r;

        if (!tokens_at(dir, &place))
                return 0;
        service.place = buf_cstr(&place);
        if (!service.key || !*service.key)
                return error_set(err, -ENOKEY,
                                 "run %s is left, its tokens are not revoked: set "
                                 "IRONFLOW_AUTH_PROXY_ADMIN_KEY, or wait until they expire in a day",
                                 dir->id);
        r = service_revoke_run(&service, dir->id, &why);
        return r < 0 ? error_set(err, r,
                                 "run %s is left, its tokens are not revoked until they expire in a day: %s",
                                 dir->id, why.msg)
                     : 0;
}

/* What went wrong with one run is said when all have had their turn. */
static void remember(struct reap *reap, int r, const struct error *err) {
        if (reap->r == 0)
                reap->err = *err;
        reap->r = reap->r == 0 ? r : reap->r;
}

static int reap(const struct listed_run *run, void *arg) {
        struct reap *reap = arg;
        struct error err = { 0 };
        bool kept;
        int r = 0;

        if (run->status != RUN_DEAD || !lock(run->dir))
                return 0;
        r = run_revoke(reap->ctx, run->dir, &err);
        if (r < 0) { /* gone, nobody would know of them; it is there for the next time */
                remember(reap, r, &err);
                return 0;
        }
        r = reap_outside(reap->ctx, run->dir, run->state, &err);
        if (r < 0) { /* nobody else knows the name of its pod */
                remember(reap, r, &err);
                return 0;
        }
        kept = json_is_true(json_object_get(run->state, "keep")) ||
               (reap->spare && json_is_true(json_object_get(run->state, "lives_on"))) ||
               !run_bury(run->dir, run->state);
        if (kept && run->state)
                r = mark_finished(run->dir, run->state, &err);
        if (r < 0) { /* a full disk: the next time */
                remember(reap, r, &err);
                return 0;
        }
        control_close(run->dir, -1);
        if (reap->fn)
                reap->fn(run->dir->id, kept, reap->arg);
        return 0;
}

static int reap_all(const struct ctx *ctx, bool spare, reaped_fn fn, void *arg, struct error *err) {
        struct reap context = { .ctx = ctx, .spare = spare, .fn = fn, .arg = arg };
        int r;

        run_dir_sweep(ctx);
        r = runs_each(ctx, reap, &context, err);
        return r == 0 && context.r < 0 ? error_set(err, context.r, "%s", context.err.msg) : r;
}

int runs_reap(const struct ctx *ctx, reaped_fn fn, void *arg, struct error *err) {
        return reap_all(ctx, false, fn, arg, err);
}

/** struct sweep - who hears of what is removed */
struct sweep {
        const struct ctx *ctx;
        const struct driver_ops *driver;
        swept_fn fn;
        void *arg;
};

/* Only a run that is certainly not there, or whose lock can be had, is dead: nothing is removed on an error.
 */
static bool sweep_lives(void *arg, const char *run_id) {
        const struct sweep *sweep = arg;
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        int r;

        if (!run_dir_is_id(run_id))
                return true;
        r = run_dir_open(sweep->ctx, run_id, &dir, NULL);
        return r < 0 ? r != -ENOENT : !lock(&dir);
}

static void sweep_removed(void *arg, const char *run_id) {
        const struct sweep *sweep = arg;

        sweep->fn(sweep->driver->name, run_id, sweep->arg);
}

int runs_sweep(const struct ctx *ctx, swept_fn fn, void *arg, struct error *err) {
        struct sweep sweep = { .ctx = ctx, .fn = fn, .arg = arg };
        const struct driver_sweep how = { sweep_lives, sweep_removed, &sweep };
        int first = 0;

        for (size_t i = 0; (sweep.driver = driver_at(i)); i++) {
                const int r = sweep.driver->sweep ? sweep.driver->sweep(ctx, &how, first ? NULL : err) : 0;

                first = first ? first : r;
        }
        return first;
}

/* ---- beside a run ---- */

/* Whether the living run @fd works on @workspace. */
static bool works_on(int fd, const char *workspace) {
        const struct run_dir dir = { .fd = fd, .runs_fd = -1, .upper_fd = -1 };
        AUTO_JSON json_t *state = NULL;
        const char *theirs;

        if (run_state_load(&dir, &state, NULL) < 0)
                return false;
        theirs = json_string_value(json_object_get(json_object_get(state, "plan"), "workspace"));
        return theirs && strcmp(theirs, workspace) == 0;
}

/* A run that ended has a state and no socket. */
static void glance_at(int runs_fd, const char *id, const char *workspace, struct glance *ret) {
        char path[RUN_ID_LEN + sizeof("/state.json")];
        bool has_socket;
        AUTO_FD int fd = -1;

        (void) snprintf(path, sizeof(path), "%.*s/control", RUN_ID_LEN, id);
        has_socket = faccessat(runs_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
        (void) snprintf(path, sizeof(path), "%.*s/state.json", RUN_ID_LEN, id);
        if (!has_socket && faccessat(runs_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return;
        fd = open_beneath(runs_fd, id, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
                return;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                ret->dead = true;
        else if (!*ret->shares && works_on(fd, workspace))
                memcpy(ret->shares, id, sizeof(ret->shares));
}

void runs_glance(const struct run_dir *dir, const char *workspace, struct glance *ret) {
        AUTO_DIR DIR *d = NULL;
        const struct dirent *e;
        const int fd = openat(dir->runs_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        *ret = (struct glance){ 0 };
        d = fd < 0 ? NULL : fdopendir(fd);
        if (!d)
                (void) fd_close(fd);
        while (d && (e = readdir(d)))
                if (run_dir_is_id(e->d_name) && strcmp(e->d_name, dir->id) != 0)
                        glance_at(dirfd(d), e->d_name, workspace, ret);
}

void runs_reap_aside(const struct ctx *ctx) {
        const pid_t pid = fork();

        if (pid == 0) {
                if (fork() != 0) /* a child of the caller's would be waited for, or stay a zombie */
                        _exit(0);
                (void) sys_close_range(STDERR_FILENO + 1, ~0U, 0); /* also the lock of the caller's run */
                (void) prctl(PR_SET_NAME, "cofferdam-gc");
                (void) setpriority(PRIO_PROCESS, 0, REAPER_NICE);
                _exit(reap_all(ctx, true, NULL, NULL, NULL) < 0);
        }
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
}
