#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/native/gitnames.h"
#include "drivers/native/parts.h"
#include "fs/casefold.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

const struct native_region *region_find(const struct driver_plan *plan, const char *inside) {
        const struct native_region *best = NULL;

        for (size_t i = 0; i < plan->n_regions; i++)
                if (path_below(inside, plan->regions[i].target) &&
                    (!best || path_below(plan->regions[i].target, best->target)))
                        best = &plan->regions[i];
        return best;
}

/** struct strings - patterns made for a region; owned */
struct strings {
        char **v;
        size_t n;
};

static void strings_deinit(struct strings *s) {
        for (size_t i = 0; s->v && i < s->n; i++)
                free(s->v[i]);
        free(s->v);
}

/* Appends "/" and the first @len bytes of @path, wildcards made literal. */
static int add_literal(struct strings *list, const char *path, size_t len) {
        char **v = reallocarray(list->v, list->n + 1, sizeof(*v));
        AUTO_BUF struct buf out = { 0 };
        int r;

        if (!v)
                return -ENOMEM;
        list->v = v;
        r = buf_str(&out, "/");
        for (size_t i = 0; r == 0 && i < len; i++) {
                if (strchr("*?[]{},\\!", path[i]))
                        r = buf_str(&out, "\\");
                if (r == 0)
                        r = buf_add(&out, path + i, 1);
        }
        if (r == 0)
                v[list->n++] = buf_take(&out);
        return r;
}

/* for gitnames_read() */
static int add_named(const char *path, void *arg) {
        return add_literal(arg, path, strlen(path));
}

/* The directories that lead from the region to the source @path, if it is inside, and itself. */
static int add_way(const struct native_region *region, const char *path, struct strings *list) {
        AUTO_FREE char *real = path ? realpath(path, NULL) : NULL;
        const char *rel = real ? path_below(real, region->pin.real) : NULL;
        int r = 0;

        for (size_t len = 0; rel && rel[len] && r == 0;) {
                len += strcspn(rel + len, "/");
                r = add_literal(list, rel, len);
                len += rel[len] == '/';
        }
        return r;
}

/*
 * A directory that another region serves for writing under rules of its own stays where it is: moved to a
 * held name here, it could be written as such there.
 */
static int list_fixed(const struct native_region *region, const struct spec *spec, const struct ctx *ctx,
                      struct strings *list) {
        int r;

        r = add_way(region, spec->workspace.source ? spec->workspace.source : ctx->cwd, list);
        for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
                if (spec->mounts[i].type == MOUNT_BIND && !spec->mounts[i].readonly)
                        r = add_way(region, spec->mounts[i].source, list);
        }
        return r;
}

/* struct found - what a look at the host adds to the rules of a region */
struct found {
        struct strings fixed;  /* lead to mounts that another region serves */
        struct strings hidden; /* refused sources below it */
        struct strings named;  /* by the configuration of the host's git */
};

static void found_deinit(struct found *f) {
        strings_deinit(&f->fixed);
        strings_deinit(&f->hidden);
        strings_deinit(&f->named);
}

/* The specification's rules: the repository's, or those of everyone else. A repository may only tighten, so
 * its hold and protect rules come before all others, and its hide rules, which nothing is tighter than, after
 * them: see add_spec_rules()'s callers. */
static size_t add_spec_rules(const struct spec *spec, bool repository, bool hide, struct rule_def *defs) {
        size_t n = 0;

        for (size_t i = 0; i < spec->guard.n_rules; i++) {
                const struct spec_rule *rule = &spec->guard.rules[i];

                if (repository != (rule->tier == TIER_REPOSITORY) ||
                    (repository && hide != (rule->action == GUARD_HIDE)))
                        continue;
                defs[n++] =
                        (struct rule_def){ .path = rule->path, .action = rule->action, .from = rule->from };
        }
        return n;
}

/* All rules of a region, in the order of their strength: the last match wins. */
static int compile_rules(const struct spec *spec, const struct region_request *req, const struct found *found,
                         bool fold, struct rules **ret, struct error *err) {
        const struct strings *const fixed = &found->fixed, *const hidden = &found->hidden,
                                    *const named = &found->named;
        AUTO_FREE struct rule_def *defs = NULL;
        const struct rule_def *builtin = NULL;
        size_t n = 0, n_builtin = 0;
        int r;

        if (req->builtin_rules && spec->guard.defaults)
                builtin = rules_builtin(&n_builtin);
        defs = calloc(req->n_first + n_builtin + req->n_rules + spec->guard.n_rules + fixed->n + hidden->n +
                              named->n + 1,
                      sizeof(*defs));
        if (!defs)
                return error_set(err, -ENOMEM, "out of memory");
        for (size_t i = 0; i < req->n_first; i++)
                defs[n++] = req->first[i];
        if (req->builtin_rules)
                n += add_spec_rules(spec, true, false, defs + n);
        for (size_t i = 0; i < n_builtin; i++)
                defs[n++] = builtin[i];
        for (size_t i = 0; i < named->n; i++)
                defs[n++] = (struct rule_def){ named->v[i], GUARD_HOLD, false, RULE_ANY,
                                               "the host's git configuration names it" };
        for (size_t i = 0; i < req->n_rules; i++)
                defs[n++] = req->rules[i];
        if (req->builtin_rules) {
                n += add_spec_rules(spec, false, false, defs + n);
                n += add_spec_rules(spec, true, true, defs + n);
        }
        for (size_t i = 0; i < fixed->n; i++)
                defs[n++] = (struct rule_def){ fixed->v[i], GUARD_PROTECT, false, RULE_DIR,
                                               "a mount that another region serves" };
        for (size_t i = 0; i < hidden->n; i++)
                defs[n++] =
                        (struct rule_def){ hidden->v[i], GUARD_HIDE, true, RULE_ANY, "the refused sources" };
        if (n == 0) {
                *ret = NULL;
                return 0;
        }
        r = rules_new(defs, n, fold, ret, err);
        return r == 0 && req->base ? rules_rebase(*ret, req->base) : r;
}

static int add_rules(struct driver_plan *plan, struct native_region *region, const struct spec *spec,
                     const struct region_request *req, struct error *err) {
        CLEANUP(found_deinit) struct found found = { .fixed = { .n = 0 } };
        bool fold;
        int r;

        if (!region->is_file) {
                r = pin_hidden(&region->pin, &plan->policy, &found.hidden.v, &found.hidden.n);
                if (r < 0)
                        return error_set(err, r, "hidden paths of '%s': %s", ESC(req->source), strerror(-r));
        }
        if (!region->is_file && req->builtin_rules && req->kind == REGION_DIRECT) {
                r = list_fixed(region, spec, plan->ctx, &found.fixed);
                if (r < 0)
                        return error_set(err, r, "mounts inside of '%s': %s", ESC(req->source), strerror(-r));
        }
        if (req->role == ROLE_WORKSPACE && !region->is_file && spec->guard.defaults) {
                r = gitnames_read(plan->ctx, &region->pin, add_named, &found.named);
                if (r < 0)
                        return error_set(err, r, "git configuration of '%s': %s", ESC(req->source),
                                         strerror(-r));
        }
        region->rules_shared = req->role == ROLE_TOOLCHAIN && found.hidden.n == 0;
        if (region->rules_shared && plan->toolchain_rules) {
                region->rules = plan->toolchain_rules;
                return 0;
        }
        fold = (req->builtin_rules || found.hidden.n > 0) &&
               casefold_detect(region->pin.fd, !region->is_file);
        r = compile_rules(spec, req, &found, fold, &region->rules, err);
        if (r == 0 && region->rules_shared)
                plan->toolchain_rules = region->rules;
        return r;
}

static void region_deinit(struct native_region *region) {
        pin_deinit(&region->pin);
        free(region->target);
        region->rules = region->rules_shared ? NULL : rules_free(region->rules);
}

void region_drop(struct driver_plan *plan, size_t index) {
        assert(index > 0 && index < plan->n_regions);
        region_deinit(&plan->regions[index]);
        plan->n_regions--;
        memmove(&plan->regions[index], &plan->regions[index + 1],
                (plan->n_regions - index) * sizeof(plan->regions[0]));
}

/* Builds a region; on failure the caller deinits what there is. */
static int region_init(struct native_region *region, struct driver_plan *plan, const struct spec *spec,
                       const struct region_request *req, struct error *err) {
        int r;

        r = pin_open(req->source, &plan->policy, &region->pin, err);
        if (r < 0)
                return r;
        region->is_file = !S_ISDIR(region->pin.type);
        region->target = strdup(req->target ? req->target : region->pin.path);
        if (!region->target)
                return error_set(err, -ENOMEM, "out of memory");
        return add_rules(plan, region, spec, req, err);
}

/* Only what was asked for by name ends a run: nobody expects it of a cache that is emptied. */
static enum on_source_change change_of(const struct spec *spec, const struct region_request *req) {
        if (req->role == ROLE_WORKSPACE || req->role == ROLE_GIT_DIR)
                return spec->workspace.on_source_change;
        return req->role == ROLE_BIND ? req->on_change : SOURCE_CHANGE_PIN;
}

int region_add(struct driver_plan *plan, const struct spec *spec, const struct region_request *req,
               bool optional, struct error *err) {
        struct native_region region = {
                .pin = PIN_INIT,
                .kind = req->kind,
                .role = req->role,
                .in_memory = req->in_memory,
                .memory_bytes = req->memory_bytes,
                .memory_common = req->memory_common,
                .base = req->base,
                .on_change = change_of(spec, req),
                .host_state = req->host_state,
        };
        int r;

        if (plan->n_regions >= PLAN_REGIONS_MAX && optional)
                return 0; /* a PATH of hundreds of entries: the first ones count most */
        if (plan->n_regions >= PLAN_REGIONS_MAX)
                return error_set(err, -E2BIG, "more than %d mounts and toolchains", PLAN_REGIONS_MAX);
        r = region_init(&region, plan, spec, req, err);
        for (size_t i = 0; r == 0 && i < plan->n_regions; i++)
                if (strcmp(plan->regions[i].target, region.target) == 0)
                        r = error_set(err, -EEXIST, "two mounts at '%s'", ESC(region.target));
        if (r < 0) {
                region_deinit(&region);
                if (!optional || r == -ENOMEM)
                        return r;
                if (err)
                        *err = (struct error){ 0 };
                return 0;
        }
        plan->regions[plan->n_regions++] = region;
        return 0;
}

/* Whether who works may list and enter the directory @fd: the caller, or whom root becomes. */
static int may_enter(const struct native_id *id, int fd, const struct stat *st) {
        const mode_t bits = st->st_uid == 0   ? st->st_mode >> 6
                            : st->st_gid == 0 ? st->st_mode >> 3
                                              : st->st_mode;
        int r;

        if (id->host_uid == 0) /* root works without its privileges */
                return (bits & 05) == 05 ? 0 : -EACCES;
        if (id->switch_user) {
                (void) setfsgid(id->host_gid);
                (void) setfsuid(id->host_uid);
        }
        r = faccessat(fd, "", R_OK | X_OK, AT_EMPTY_PATH | AT_EACCESS) < 0 ? -errno : 0;
        if (id->switch_user) {
                (void) setfsuid(geteuid());
                (void) setfsgid(getegid());
        }
        return r;
}

/* What a run needs of its workspace, with the remedy in the message. */
static int workspace_check(const struct driver_plan *plan, const struct native_region *region,
                           struct error *err) {
        const char *path = region->pin.path;
        struct stat st;
        int r;

        if (region->is_file)
                return error_set(err, -ENOTDIR,
                                 "workspace '%s' is a file: give its directory with --workspace", ESC(path));
        if (strcmp(path, "/") == 0)
                return error_set(err, -EINVAL,
                                 "workspace is '/': go to the project's directory or give --workspace DIR");
        if (fstat(region->pin.fd, &st) < 0)
                return error_set(err, -errno, "workspace '%s': %s", ESC(path), strerror(errno));
        r = may_enter(&plan->id, region->pin.fd, &st);
        if (r == -EACCES && plan->ctx->uid == 0 && st.st_uid != plan->id.host_uid)
                return error_set(err, r,
                                 "workspace '%s' belongs to uid %u and uid %u, who works without root's "
                                 "privileges, cannot read it: use --user %u:%u or chmod",
                                 ESC(path), st.st_uid, plan->id.host_uid, st.st_uid, st.st_gid);
        if (r < 0)
                return error_set(err, r, "workspace '%s' cannot be read: %s: chmod u+rx or choose another",
                                 ESC(path), strerror(-r));
        return 0;
}

int workspace_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        static const enum region_kind kinds[] = {
                [WORKSPACE_DIRECT] = REGION_DIRECT,
                [WORKSPACE_STAGED] = REGION_STAGED,
                [WORKSPACE_COW] = REGION_COW,
                [WORKSPACE_RO] = REGION_RO,
        };
        const struct region_request req = {
                .source = spec->workspace.source ? spec->workspace.source : plan->ctx->cwd,
                .target = spec->workspace.target,
                .kind = kinds[spec->workspace.mode],
                .role = ROLE_WORKSPACE,
                .builtin_rules = true,
        };
        int r;

        if (!req.source)
                return error_set(err, -ENOENT,
                                 "the current directory is gone or cannot be read: cd somewhere else or give "
                                 "--workspace DIR");
        if (strcmp(req.source, "/") == 0)
                return error_set(err, -EINVAL,
                                 "workspace is '/': go to the project's directory or give --workspace DIR");
        r = region_add(plan, spec, &req, false, err);
        if (r == -ENOENT)
                return error_set(err, r,
                                 "workspace '%s' does not exist: make it, or give another with --workspace",
                                 ESC(req.source));
        if (r < 0)
                return error_wrap(err, r, "workspace");
        r = workspace_check(plan, &plan->regions[0], err);
        if (r < 0)
                return r;
        plan->workspace = plan->regions[0].target;
        return worktree_add(plan, spec, err);
}

static enum region_kind kind_of(const struct spec_mount *mount) {
        if (mount->readonly)
                return REGION_RO;
        return mount->type == MOUNT_BIND || mount->shared ? REGION_DIRECT : REGION_COW;
}

static int mount_add(struct driver_plan *plan, const struct spec *spec, const struct spec_mount *mount,
                     struct error *err) {
        const struct region_request req = {
                .source = mount->source,
                .target = mount->target,
                .kind = kind_of(mount),
                .role = mount->type == MOUNT_CACHE     ? ROLE_CACHE
                        : mount->type == MOUNT_OVERLAY ? ROLE_OVERLAY
                                                       : ROLE_BIND,
                .builtin_rules = !mount->readonly,
                .in_memory = mount->upper == MOUNT_UPPER_TMPFS,
                .memory_bytes = mount->size,
                .on_change = mount->on_source_change,
        };

        int r;

        if (mount->type == MOUNT_TMPFS)
                return tmpfs_add(plan, mount->target, mount->size, 0755);
        r = region_add(plan, spec, &req, false, err);
        /* what the repository named may have become something else since it was looked at */
        if (r == 0 && mount->tier == TIER_REPOSITORY &&
            !path_below(plan->regions[plan->n_regions - 1].pin.path, plan->regions[0].pin.path))
                return error_set(err, -EPERM,
                                 "'%s' of the repository is not in the workspace: --no-repository leaves it "
                                 "out",
                                 ESC(mount->source));
        return r;
}

int mounts_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        for (size_t i = 0; i < spec->n_mounts; i++) {
                const int r = mount_add(plan, spec, &spec->mounts[i], err);

                if (r < 0)
                        return error_wrap(err, r, "mount at '%s'",
                                          spec->mounts[i].target ? ESC(spec->mounts[i].target) : "?");
        }
        return 0;
}

int tmpfs_add(struct driver_plan *plan, const char *target, uint64_t size_bytes, mode_t mode) {
        char *copy;

        if (plan->n_tmpfs >= PLAN_TMPFS_MAX)
                return -E2BIG;
        copy = strdup(target);
        if (!copy)
                return -ENOMEM;
        plan->tmpfs[plan->n_tmpfs++] = (struct native_tmpfs){ copy, size_bytes, mode };
        return 0;
}

static int by_target(const void *a, const void *b) {
        const struct native_place *x = a, *y = b;

        return strcmp(x->target, y->target); /* a parent is a prefix of its children, so it comes first */
}

void places_sort(struct driver_plan *plan) {
        size_t n = 0;

        for (size_t i = 0; i < plan->n_regions; i++)
                plan->places[n++] = (struct native_place){ plan->regions[i].target, (int) i, -1, -1 };
        for (size_t i = 0; i < plan->n_tmpfs; i++)
                plan->places[n++] = (struct native_place){ plan->tmpfs[i].target, -1, (int) i, -1 };
        for (size_t i = 0; i < plan->n_bypass; i++)
                plan->places[n++] = (struct native_place){ plan->bypass[i].target, -1, -1, (int) i };
        qsort(plan->places, n, sizeof(plan->places[0]), by_target);
        plan->n_places = n;
}
