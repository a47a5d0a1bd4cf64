/*
 * Directories of the caller's home that come back for writing: what home.persist names, whose changes wait
 * for apply, and the caches of package managers, whose changes nobody wants to review: what a hostile run put
 * in them must not reach the next one, so they are kept in memory and go with the run.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
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

/* The operator's own home, which is also the one of who works. */
static bool has_own_home(const struct driver_plan *plan) {
        struct stat st;

        return plan->ctx->home && !plan->id.switch_user && stat(plan->ctx->home, &st) == 0 &&
               st.st_uid == plan->ctx->uid;
}

static int cache_add(struct driver_plan *plan, const struct spec *spec, const char *name, struct error *err) {
        AUTO_FREE char *source = NULL, *target = NULL;
        struct region_request req = {
                .kind = REGION_COW,
                .role = ROLE_CACHE,
                .in_memory = true,
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

        if (spec->host_state != HOST_STATE_AUTO || !has_own_home(plan))
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
