/*
 * Directories of the caller's home that come back for writing: what home.persist names, whose changes wait
 * for apply, and the caches of package managers, whose changes nobody wants to review: what a hostile run put
 * in them must not reach the next one, so they are kept in memory and go with the run.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "fs/walk.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"

static const char *const caches[] = {
        ".npm",       ".cache/go-build", ".cache/pip",        ".cache/yarn",
        "go/pkg/mod", ".cargo/registry", ".local/share/pnpm",
};

/* Whether a mount of the specification is there, above or below. */
static bool is_taken(const struct driver_plan *plan, const char *target) {
        for (size_t i = 0; i < plan->n_regions; i++)
                if (path_below(target, plan->regions[i].target) ||
                    path_below(plan->regions[i].target, target))
                        return true;
        for (size_t i = 0; i < plan->n_tmpfs; i++)
                if (path_below(target, plan->tmpfs[i].target))
                        return true;
        return false;
}

bool home_owns(const struct driver_plan *plan, const char *path) {
        AUTO_WALK struct walk at = WALK_INIT;

        if (walk_path(path, &at) < 0)
                return false;
        for (size_t i = 0; i < plan->n_regions; i++)
                if (plan->regions[i].kind != REGION_RO && path_below(at.real, plan->regions[i].pin.real))
                        return false;
        return true;
}

static bool is_passwd_home(const struct ctx *ctx) {
        AUTO_FREE char *a = NULL, *b = NULL;

        return ctx->passwd_home && path_normalize(NULL, ctx->home, &a) == 0 &&
               path_normalize(NULL, ctx->passwd_home, &b) == 0 && strcmp(a, b) == 0;
}

/* Why the home is not the operator's, or not the one of who works; NULL: it is. */
static const char *why_not(const struct driver_plan *plan) {
        const struct ctx *ctx = plan->ctx;
        struct stat st;

        if (!ctx->home)
                return "there is no home directory";
        if (plan->id.switch_user)
                return "the run is another user's";
        if (stat(ctx->home, &st) < 0 || !S_ISDIR(st.st_mode))
                return "it is no directory";
        if (st.st_uid != ctx->uid)
                return "it does not belong to the caller";
        if (st.st_mode & S_IWOTH)
                return "everybody can write to it";
        if (plan->home_planted)
                return "HOME leads into what the run can write, and is not the caller's in /etc/passwd";
        return NULL;
}

void home_judge(struct driver_plan *plan, const struct spec *spec) {
        const struct ctx *ctx = plan->ctx;
        const char *why;

        plan->home_planted = ctx->home && !is_passwd_home(ctx) && !home_owns(plan, ctx->home);
        why = spec->host_state == HOST_STATE_NONE ? "host_state is none" : why_not(plan);
        plan->host_state = !why;
        (void) snprintf(plan->home_why, sizeof(plan->home_why), "%s", why ? why : "");
}

static int cache_add(struct driver_plan *plan, const struct spec *spec, const char *name, struct error *err) {
        AUTO_FREE char *source = NULL, *target = NULL;
        struct region_request req = {
                .kind = REGION_COW,
                .role = ROLE_CACHE,
                .in_memory = true,
                .host_state = true,
                .memory_bytes = spec->home.size,
                .memory_common = true,
        };
        struct stat st;

        if (path_join(plan->ctx->home, name, &source) < 0 || path_join(plan->id.home, name, &target) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (lstat(source, &st) < 0 || !S_ISDIR(st.st_mode) || access(source, R_OK | X_OK) < 0 ||
            is_taken(plan, target))
                return 0;
        req.source = source;
        req.target = target;
        return region_add(plan, spec, &req, true, err);
}

int caches_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r = 0;

        if (!plan->host_state)
                return 0;
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(caches); i++)
                r = cache_add(plan, spec, caches[i], err);
        return r;
}

static int persist_one(struct driver_plan *plan, const struct spec *spec, const char *path,
                       struct error *err) {
        AUTO_FREE char *target = NULL;
        const char *below = plan->ctx->home ? path_below(path, plan->ctx->home) : NULL;
        struct region_request req = {
                .source = path, .kind = REGION_COW, .role = ROLE_HOME, .builtin_rules = true
        };
        int r;

        if (!below)
                return error_set(err, -EINVAL, "home.persist: '%s' is not below the home '%s'", ESC(path),
                                 plan->ctx->home ? ESC(plan->ctx->home) : "");
        if (path_join(plan->id.home, below, &target) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        if (!*below)
                target[strlen(plan->id.home)] = '\0'; /* the home itself */
        req.target = target;
        r = region_add(plan, spec, &req, false, err);
        if (r < 0)
                return error_wrap(err, r, "home.persist");
        if (plan->regions[plan->n_regions - 1].is_file)
                return error_set(err, -ENOTDIR,
                                 "home.persist: '%s' is not a directory: name the one it is in", ESC(path));
        return 0;
}

int persist_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < spec->home.n_persist; i++)
                r = persist_one(plan, spec, spec->home.persist[i], err);
        return r;
}
