/*
 * DOC: theory of operation
 *
 * As 'cofferdam apply' with the rules as a filter (fs/verdict.h), in a child of the supervisor: what it reads
 * was written by the work, and whatever becomes of it, the supervisor says its last words. The child writes
 * the events. Killed in the middle it leaves a journal, which
 * 'cofferdam apply --continue' or '--abort' takes up.
 */
#include "runtime/run/land.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fs/apply.h"
#include "fs/verdict.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/run/confine.h"
#include "runtime/run/region.h"

enum { KEPT_EVENTS_MAX = 100 };

/** struct landing - all staged regions of a run */
struct landing {
        const struct run_dir *dir;
        struct events *events;
        const struct run_region *region;
        uint64_t landed, held, conflicts;
};

static json_t *path_json(const struct change *c) {
        return json_from_bytes(c->path, EVENT_STRING_MAX);
}

/* What the kernel's overlay took under a name that rules hold, and what the judge says now, nobody has heard
 * of yet. */
static void tell_held(struct landing *l, const struct change *c, const struct verdict *v) {
        if (++l->held > KEPT_EVENTS_MAX || (!l->region->kernel && !*v->reason))
                return;
        events_emit(l->events, v->action == GUARD_HOLD ? "guard_held" : "guard_denied",
                    json_pack("{s:o,s:s,s:o,s:o,s:i}", "path", path_json(c), "op", "land", "rule",
                              json_from_bytes(v->rule, EVENT_STRING_MAX), "detail",
                              json_from_bytes(v->reason, EVENT_STRING_MAX), "region",
                              (int) l->region->index));
}

static enum apply_choice choose(const struct change *c, void *arg) {
        struct landing *l = arg;
        struct verdict v;

        if (verdict_change(&l->region->rules, c, &v) < 0)
                return APPLY_LEAVE; /* what cannot be judged does not land */
        if (v.action == GUARD_ALLOW)
                return APPLY_TAKE;
        if (!c->again)
                tell_held(l, c, &v);
        return APPLY_LEAVE;
}

static int report(const struct change *c, void *arg) {
        struct landing *l = arg;
        const char kind[2] = { change_letter(c->kind), '\0' };

        if (!c->conflict && !c->error) {
                l->landed++;
                return 0;
        }
        if (++l->conflicts <= KEPT_EVENTS_MAX)
                events_emit(l->events, "apply_conflict",
                            json_pack("{s:s,s:o,s:i,s:b,s:s*}", "kind", kind, "path", path_json(c), "region",
                                      (int) l->region->index, "conflict", c->conflict, "error",
                                      c->error ? strerror(-c->error) : NULL));
        return 0;
}

static int land_region(struct landing *l, const json_t *row, struct error *err) {
        AUTO_RUN_REGION struct run_region region = RUN_REGION_INIT;
        struct apply_options opt = { .run_fd = l->dir->fd, .choose = choose, .report = report, .arg = l };
        int r;

        r = run_region_open(l->dir, row, RUN_SOURCE_SAME, &region, err);
        if (r < 0)
                return r == -ENOENT && !err->code ? 0 : r;
        opt.kernel = region.kernel;
        opt.region = region.index;
        opt.upper_fd = region.upper_fd;
        opt.lower_fd = region.lower_fd;
        l->region = &region; // cppcheck-suppress autoVariables
        r = apply_run(&opt, err);
        l->region = NULL;
        return r < 0 ? r : 0;
}

static bool is_staged(const json_t *row) {
        const char *kind = json_string_value(json_object_get(row, "kind"));

        return kind && strcmp(kind, "staged") == 0;
}

static void land_all(const struct run_dir *dir, const json_t *state, struct events *events,
                     const char *when) {
        struct landing l = { .dir = dir, .events = events };
        const json_t *rows = run_regions(state);
        struct error err = { 0 };
        int r = 0;

        events_emit(events, "apply_started",
                    json_pack("{s:b,s:b,s:s}", "force", false, "continue", false, "land", when));
        for (size_t i = 0; r == 0 && i < json_array_size(rows); i++)
                if (is_staged(json_array_get(rows, i)))
                        r = land_region(&l, json_array_get(rows, i), &err);
        events_emit(events, "apply_finished",
                    json_pack("{s:I,s:I,s:I,s:s*}", "paths", (json_int_t) l.landed, "conflicts",
                              (json_int_t) l.conflicts, "held", (json_int_t) l.held, "error",
                              r < 0 ? err.msg : NULL));
}

/* From here on the child changes the record of the run, the staged regions and what they lie over. A region
 * that cannot be opened now will not be landed either. */
static int confine_to(const struct run_dir *dir, const json_t *rows) {
        const size_t n_rows = json_array_size(rows);
        AUTO_FREE struct landlock_place *places = calloc(2 * n_rows + 1, sizeof(*places));
        size_t n = 0;

        if (!places)
                return -ENOMEM;
        places[n++] = (struct landlock_place){ dir->fd, LANDLOCK_CHANGE };
        for (size_t i = 0; i < n_rows; i++) {
                AUTO_RUN_REGION struct run_region region = RUN_REGION_INIT;

                if (!is_staged(json_array_get(rows, i)) ||
                    run_region_open(dir, json_array_get(rows, i), RUN_SOURCE_SAME, &region, NULL) < 0)
                        continue;
                places[n++] = (struct landlock_place){ TAKE_FD(region.upper_fd), LANDLOCK_CHANGE };
                places[n++] = (struct landlock_place){ TAKE_FD(region.lower_fd), LANDLOCK_CHANGE };
        }
        return confine_lander(places, n, NULL);
}

void run_land(const struct run_dir *dir, const json_t *state, struct events *events, const char *when) {
        const json_t *rows = run_regions(state);
        bool staged = false;
        const int64_t before = events_size(events);
        pid_t pid;

        for (size_t i = 0; i < json_array_size(rows); i++)
                staged = staged || is_staged(json_array_get(rows, i));
        if (!staged)
                return;
        pid = fork();
        if (pid == 0) {
                if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || confine_to(dir, rows) < 0)
                        _exit(1);
                events->sink_fd = -1; /* the parent has what it was not given yet */
                land_all(dir, state, events, when);
                _exit(0);
        }
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        events_catch_up(events, before);
}
