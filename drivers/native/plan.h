/*
 * plan.h - what the native driver decided before anything was created; filled by plan.c and its helpers
 *
 * Everything here is made unprivileged and without a side effect on the host; sandbox.c only carries it out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/guard.h"
#include "fs/pin.h"
#include "runtime/base/buf.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

enum {
        PLAN_REGIONS_MAX = 128, /* served subtrees of a run */
        PLAN_SEEDS_MAX = 256,
        PLAN_ENV_MAX = 4096,
        PLAN_SEED_BYTES_MAX = 16 << 20, /* of one seed, file or directory */
        PLAN_SEED_FILES_MAX = 4096,
};

/** struct native_id - who works: on the host and inside */
struct native_id {
        uid_t host_uid, inside_uid;
        gid_t host_gid, inside_gid;
        bool switch_user; /* root caller with --user: every process of the run becomes host_uid first */
        char *name;       /* user name inside; owned */
        char *home;       /* absolute, normalized; owned */
        char *shell;      /* exists inside; owned */
};

/** enum region_role - why a region is there; for describe() */
enum region_role { ROLE_WORKSPACE, ROLE_GIT_DIR, ROLE_BIND, ROLE_CACHE, ROLE_TOOLCHAIN, ROLE_COUNT };

/** struct native_region - one served subtree */
struct native_region {
        struct pin pin;
        char *target; /* absolute path inside; owned */
        enum region_kind kind;
        enum region_role role;
        bool is_file;
        struct rules *rules; /* NULL: everything allowed */
        bool rules_shared;   /* borrowed from the plan, else owned */
        const char *base;    /* see struct region; static, NULL: none */
};

/** struct native_tmpfs - a private file system in memory */
struct native_tmpfs {
        char *target;        /* owned */
        uint64_t size_bytes; /* 0: the kernel's default */
        mode_t mode;
};

/** struct native_place - one entry of the mount order: parents before children */
struct native_place {
        const char *target; /* borrowed from the region or tmpfs */
        int region;         /* index, or -1 */
        int tmpfs;          /* index, or -1 */
};

/** struct native_seed - a host file or directory that is copied in */
struct native_seed {
        int fd; /* open for reading, owned */
        bool is_dir;
        char *source, *target; /* owned */
        mode_t mode;           /* of files without the owner's execute bit */
        uint64_t bytes;        /* regular file: size when it was planned */
};

/** struct native_file - a file written by us */
struct native_file {
        char *target; /* owned */
        char *data;   /* owned */
        size_t len;
        mode_t mode;
};

enum { PLAN_TMPFS_MAX = 64, PLAN_FILES_MAX = 16 };

/** struct driver_plan - the whole decision */
struct driver_plan {
        const struct ctx *ctx; /* borrowed, outlives the plan */
        struct pin_memo *memo; /* while the plan is made; owned */
        struct native_id id;
        const char *workspace; /* target of region 0, borrowed from it */
        bool network_open;
        bool cache_exclusive;
        struct native_region regions[PLAN_REGIONS_MAX];
        size_t n_regions;
        struct rules *toolchain_rules; /* of all toolchains that need no others; owned */
        struct native_tmpfs tmpfs[PLAN_TMPFS_MAX];
        size_t n_tmpfs;
        struct native_place places[PLAN_REGIONS_MAX + PLAN_TMPFS_MAX];
        size_t n_places;
        struct native_seed seeds[PLAN_SEEDS_MAX];
        size_t n_seeds;
        struct native_file files[PLAN_FILES_MAX];
        size_t n_files;
        char **env; /* NULL-terminated, owned */
        size_t n_env;
};

/* ---- id.c ---- */

/**
 * id_resolve() - the user of the run from the caller and --user
 * @user: "UID[:GID]", "NAME[:GID]" or NULL
 * @ret:  strings owned by the plan
 * Return: 0, -EINVAL (malformed), -ENOENT (no such user), -ENOMEM.
 */
int id_resolve(const struct ctx *ctx, const char *user, struct native_id *ret, struct error *err);

/* ---- regions.c ---- */

/** region_request - what region_add() shall pin */
struct region_request {
        const char *source, *target; /* @target NULL: the path that was reached */
        enum region_kind kind;
        enum region_role role;
        const struct rule_def *first; /* before the built-in ones; borrowed */
        size_t n_first;
        const struct rule_def *rules; /* after the built-in ones; borrowed */
        size_t n_rules;
        const char *base;   /* what the region is for the rules: see rules_rebase(); static, NULL: a root */
        bool builtin_rules; /* the workspace's list comes first */
};

/**
 * region_add() - pin a source, compile its rules, append it to the plan
 * @optional: a source that is missing or refused is passed over
 * Return: 0, -EPERM (refused), -ENOENT, -E2BIG, -EEXIST (target taken), -errno.
 */
int region_add(struct driver_plan *plan, const struct spec *spec, const struct region_request *req,
               bool optional, struct error *err);

/** region_find() - the region that serves the path @inside, innermost first; NULL when none does */
const struct native_region *region_find(const struct driver_plan *plan, const char *inside);

/** workspace_add() - region 0, and its linked git directory when it has one. Return: 0 or -errno. */
int workspace_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/** mounts_add() - what --mount and --cache ask for. Return: 0 or -errno. */
int mounts_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/** tmpfs_add() - append a tmpfs. Return: 0, -E2BIG, -ENOMEM. */
int tmpfs_add(struct driver_plan *plan, const char *target, uint64_t size_bytes, mode_t mode);

/** places_sort() - fill places[] from regions and tmpfs, parents first */
void places_sort(struct driver_plan *plan);

/* ---- worktree.c ---- */

/**
 * worktree_add() - a linked git worktree's common directory as a region of its own
 * Only when git's back link agrees: <common>/worktrees/<id>/gitdir names the workspace's own ".git".
 * Return: 0 (also when there is none), -errno.
 */
int worktree_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/* ---- toolchain.c ---- */

/**
 * toolchain_roots() - which directories bring back the PATH entry @entry of a home
 * @entry: absolute, normalized
 * @home:  absolute, normalized
 * @ret:   receives at most @max paths relative to @home (static or inside @entry's own text); "" never
 * Return: how many; 0 when the entry is not below the home.
 */
size_t toolchain_roots(const char *entry, const char *home, const char **ret, size_t max);

/** toolchains_add() - regions for the caller's PATH entries that the root does not show. Return: 0, -errno.
 */
int toolchains_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/* ---- env.c ---- */

/** env_build() - the environment of the run's commands, into plan->env. Return: 0, -E2BIG, -ENOMEM. */
int env_build(struct driver_plan *plan, const struct spec *spec, struct error *err);

/** env_put() - set @name in plan->env, replacing an earlier value. Return: 0, -E2BIG, -ENOMEM. */
int env_put(struct driver_plan *plan, const char *name, const char *value);

/** path_filter() - the entries of @path that exist inside, joined by ':'. Return: 0, -ENOMEM. */
int path_filter(const struct driver_plan *plan, const char *path, struct buf *out);

/* ---- etc.c ---- */

/** etc_add() - the /etc files that have to differ from the host's. Return: 0, -ENOMEM. */
int etc_add(struct driver_plan *plan, struct error *err);

/** etc_passwd() - @host's text with an entry for @id: its own line replaced, or one more. Return: 0, -ENOMEM.
 */
int etc_passwd(const char *host, const struct native_id *id, struct buf *out);

/** etc_group() - @host's text with an entry for @id's group. Return: 0, -ENOMEM. */
int etc_group(const char *host, const struct native_id *id, struct buf *out);

/** file_add() - a file of ours; @data is copied. Return: 0, -E2BIG, -ENOMEM. */
int file_add(struct driver_plan *plan, const char *target, const void *data, size_t len, mode_t mode);

/* ---- seed.c ---- */

/** seeds_add() - pin and open what --seed names. Return: 0 or -errno. */
int seeds_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/** git_identity_add() - user.name, user.email and harmless keys of the operator's git config, generated
 * anew. Return: 0, -ENOMEM. */
int git_identity_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/* ---- os.c ---- */

/** enum os_kind - how a path of the host's root is shown */
enum os_kind { OS_TREE, OS_END };

/** os_dirs() - the allow-list of the host's root, relative to it; parents are made. @ret_n: how many. */
const char *const *os_dirs(size_t *ret_n);

/** os_shows() - whether the absolute path lies in what the host's root shows */
bool os_shows(const char *path);
