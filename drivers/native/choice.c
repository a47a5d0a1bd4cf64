/*
 * DOC: theory of operation
 *
 * Which engine serves a region whose writes stay in the run. The kernel's overlayfs is the fast one, and it
 * promises less: it asks nobody before a write and counts nothing (docs/adr/). So it is taken where that does
 * not matter, and where the probe has made such a mount.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/native/parts.h"
#include "drivers/native/probe.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { MEMO_MAX_BYTES = 512 };

bool rules_is_own(const struct rule_def *def) {
        const struct rule_def *builtin;
        size_t n;

        builtin = rules_builtin(&n);
        for (size_t i = 0; i < n; i++)
                if (builtin[i].action == def->action && strcmp(builtin[i].path, def->path) == 0)
                        return true;
        return false;
}

/* Whether a rule has to be there when a name is made, changed or removed, not when that lands. */
static bool refuses(const struct rules *rules) {
        struct rule_def def;

        for (size_t i = 0; rules && rules_def(rules, i, &def); i++)
                if (def.action == GUARD_PROTECT || (def.action == GUARD_HIDE && !rules_is_own(&def)))
                        return true;
        return false;
}

/*
 * What a probe's "yes" holds for: this boot, these namespaces, this user and this directory of states. It is
 * remembered, as the probe costs more than the rest of a start; what has changed all the same shows when the
 * sandbox is built.
 */
static int memo_key(int dir, char *ret, size_t size) {
        AUTO_BUF struct buf boot = { 0 };
        const int filtered = prctl(PR_GET_SECCOMP); /* by whom, cannot be told */
        char user[32] = "", mnt[32] = "";
        struct stat st;
        int r;

        r = file_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", MEMO_MAX_BYTES, &boot);
        if (r < 0 || fstat(dir, &st) < 0 || readlink("/proc/self/ns/user", user, sizeof(user) - 1) < 0 ||
            readlink("/proc/self/ns/mnt", mnt, sizeof(mnt) - 1) < 0)
                return r < 0 ? r : -errno;
        (void) snprintf(ret, size, "%s%s %s %u %d %llu:%llu\n", buf_cstr(&boot), user, mnt,
                        (unsigned int) geteuid(), filtered, (unsigned long long) st.st_dev,
                        (unsigned long long) st.st_ino);
        return 0;
}

static const char *const memos[] = { "overlayfs-works", "nftables-works" }; /* keys of probes */

void host_forget(const struct ctx *ctx) {
        AUTO_FD int dir = ctx->state_dir ? open(ctx->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

        for (size_t i = 0; dir >= 0 && i < ARRAY_SIZE(memos); i++)
                if (unlinkat(dir, memos[i], 0) < 0)
                        errno = 0; /* then it says so again, and another run fails as clearly */
}

/* In place: what is half written says something else, and the next run asks again. A temporary file would be
 * left where a run is killed. */
static void note(int dir, const char *memo, const char *is) {
        AUTO_FD int fd = openat(dir, memo, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

        if (fd >= 0)
                (void) (write_all(fd, is, strlen(is)) < 0);
}

bool host_can(const struct ctx *ctx, const char *key, struct probe_row *row) {
        AUTO_BUF struct buf known = { 0 };
        AUTO_FD int dir = ctx->state_dir ? open(ctx->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        char is[MEMO_MAX_BYTES] = "", memo[64];

        (void) snprintf(memo, sizeof(memo), "%s-works", key);
        if (dir >= 0 && memo_key(dir, is, sizeof(is)) == 0 &&
            file_read_at(dir, memo, MEMO_MAX_BYTES, &known) == 0 && strcmp(buf_cstr(&known), is) == 0)
                return true;
        if (probe_one(ctx, key, row) != PROBE_OK)
                return false;
        if (*is)
                note(dir, memo, is);
        return true;
}

/* Asks the host once for all regions. */
static bool can_overlay(struct driver_plan *plan) {
        struct probe_row row;

        if (!plan->overlay_asked) {
                plan->overlay_works = host_can(plan->ctx, "overlayfs", &row);
                if (!plan->overlay_works)
                        (void) snprintf(plan->overlay_why, sizeof(plan->overlay_why), "%s", row.evidence);
        }
        plan->overlay_asked = true;
        return plan->overlay_works;
}

/* Why overlayfs cannot do what was asked of the region; NULL: it can. Borrowed. */
static const char *hindrance(struct driver_plan *plan, const struct spec *spec,
                             const struct native_region *region) {
        if (region->is_file)
                return "it is a file";
        if (refuses(region->rules))
                return "a rule protects or hides paths, and overlayfs asks no rule before a write";
        if (spec->limits.disk && !region->in_memory)
                return "limits.disk is counted by the file server only";
        return can_overlay(plan) ? NULL : plan->overlay_why;
}

/* What was asked for by name is done, refused or said. */
static int without_overlay(struct driver_plan *plan, const struct spec *spec, struct native_region *region,
                           const char *why, struct error *err) {
        if (spec->workspace.engine != ENGINE_OVERLAY || region->role != ROLE_WORKSPACE)
                return 0;
        if (spec->isolation == ISOLATION_STRICT)
                return error_set(err, -ENOTSUP,
                                 "workspace.engine: overlay is not possible here: %s: use --engine fuse or "
                                 "auto, or --isolation degrade",
                                 why);
        plan_degrade(plan, "engine overlay", "engine fuse", why);
        return 0;
}

static int choose(struct driver_plan *plan, const struct spec *spec, struct native_region *region,
                  struct error *err) {
        const char *why = NULL;

        if (spec->workspace.engine == ENGINE_FUSE)
                why = "engine fuse was asked for";
        else
                why = hindrance(plan, spec, region);
        region->overlay = !why;
        if (!why)
                return 0;
        (void) snprintf(region->engine_why, sizeof(region->engine_why), "%s", why);
        return without_overlay(plan, spec, region, why, err);
}

int engines_choose(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r = 0;

        if (plan->rungs.no_guard)
                return rungs_regions(plan, spec, err);
        for (size_t i = 0; r == 0 && i < plan->n_regions; i++)
                if (plan->regions[i].kind == REGION_COW || plan->regions[i].kind == REGION_STAGED)
                        r = choose(plan, spec, &plan->regions[i], err);
        return r;
}

int cache_choose(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        char why[sizeof(plan->degraded[0].reason)];
        int r;

        if (spec->workspace.cache != CACHE_EXCLUSIVE || plan->rungs.no_guard)
                return 0;
        r = guard_exclusive_can(plan->regions[0].pin.fd);
        plan->regions[0].exclusive = r == 0;
        if (r == 0)
                return 0;
        guard_exclusive_explain(r, why, sizeof(why));
        if (spec->isolation == ISOLATION_STRICT)
                return error_set(err, -ENOTSUP,
                                 "workspace.cache: exclusive is not possible here: %s: use shared, or "
                                 "--isolation degrade",
                                 why);
        plan_degrade(plan, "cache exclusive", "cache shared", why);
        return 0;
}
