/*
 * parts.h - the helpers that fill a plan, by the file they are in
 */
#pragma once

#include "drivers/native/plan.h"
#include "drivers/native/probe.h"

/* ---- id.c ---- */

/**
 * id_resolve() - the user of the run from the caller and --user
 * @user: "UID[:GID]", "NAME[:GID]"; NULL: the image's user, where it has one, else the caller
 * @root, @oci: the image whose accounts count, and which has the user that was found already; NULL both: the
 * host's
 * @ret:  strings owned by the plan
 * Return: 0, -EINVAL (malformed), -ENOENT (no such user), -ENOMEM.
 */
int id_resolve(const struct ctx *ctx, const char *user, const struct image_root *root, const struct oci *oci,
               struct native_id *ret, struct error *err);

/* ---- rungs.c ---- */

/**
 * rungs_choose() - with isolation: degrade, ask the host and take the next rung for what it lacks
 * Needs the user and the network of the plan. Forks, see probe_for_run(). Return: 0, DRIVER_HOST_LACKS (there
 * is no rung that keeps what was asked for).
 */
int rungs_choose(struct driver_plan *plan, const struct spec *spec, struct error *err);

/**
 * rungs_regions() - what the guard does not serve becomes a mount of the kernel's, or is left out
 * Needs the regions. Return: 0, -ENOTSUP (a rule or limit that only the guard can keep).
 */
int rungs_regions(struct driver_plan *plan, const struct spec *spec, struct error *err);

/** env_passes() - whether the caller's variable @entry, "NAME=value", is everyone's */
bool env_passes(const char *entry);

/** host_forget() - a start failed: the next one asks the host again what host_can() remembers */
void host_forget(const struct ctx *ctx);

/** rules_is_own() - a rule of every workspace: names that only we make. What has them is not shown and does
 * not land. */
bool rules_is_own(const struct rule_def *def);

/** region_drop() - take region @index, which is not the workspace, out of the plan */
void region_drop(struct driver_plan *plan, size_t index);

/** plan_degrade() - note what was asked for and is not done. @wanted, @got: static */
void plan_degrade(struct driver_plan *plan, const char *wanted, const char *got, const char *why);

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
        bool in_memory; /* see struct native_region */
        uint64_t memory_bytes;
        bool memory_common;
        const char *base;   /* what the region is for the rules: see rules_rebase(); static, NULL: a root */
        bool builtin_rules; /* the workspace's list comes first */
        enum on_source_change on_change; /* of a bind */
        bool host_state;                 /* nobody named it */
};

/**
 * region_add() - pin a source, compile its rules, append it to the plan
 * @optional: a source that is missing or refused is passed over
 * Return: 0, -EPERM (refused), -ENOENT, -E2BIG, -EEXIST (target taken), -errno.
 */
int region_add(struct driver_plan *plan, const struct spec *spec, const struct region_request *req,
               bool optional, struct error *err);

/**
 * home_judge() - whether the caller's home was chosen by the operator, into plan->home_why
 * HOME may come from a file of the workspace that some launcher has read. Needs the workspace and the mounts.
 */
void home_judge(struct driver_plan *plan, const struct spec *spec);

/** home_owns() - whether the absolute @path may speak for the operator: it lies in nothing that the work can
 * write */
bool home_owns(const struct driver_plan *plan, const char *path);

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

/** place_cover() - the place that the one at @index lies in, which stands before it; NULL: none, it is in
 * the root */
const struct native_place *place_cover(const struct driver_plan *plan, size_t index);

/**
 * places_check() - whether every mount point of places[], sorted, is there or can be made
 * Nothing is made on the host. Return: 0, -ENOENT with a message that names the first that is not.
 */
int places_check(const struct driver_plan *plan, struct error *err);

/* ---- homedirs.c ---- */

/** persist_add() - directories of the home whose changes can be applied. Return: 0, -EINVAL, -ENOTDIR,
 * -errno.
 */
int persist_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/** caches_add() - the caller's package caches that there are, for this run's writing only. Return: 0, -errno.
 */
int caches_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

/* ---- choice.c ---- */

/**
 * engines_choose() - which engine serves each cow and staged region; after all regions are there
 * Forks when the kernel has to be asked. Return: 0, -ENOTSUP (engine overlay in strict isolation).
 */
int engines_choose(struct driver_plan *plan, const struct spec *spec, struct error *err);

/** cache_choose() - whether the workspace can be exclusive, when that was asked for. Return: 0, -ENOTSUP (it
 * cannot, in strict isolation). */
int cache_choose(struct driver_plan *plan, const struct spec *spec, struct error *err);

/* ---- bypass.c ---- */

/**
 * bypasses_add() - pin the directories of the workspace that the guard shall not serve
 * Return: 0, -ENOENT, -ELOOP (a part is a symlink), -ENOTDIR, -EPERM (rules are about it), -E2BIG, -ENOMEM.
 */
int bypasses_add(struct driver_plan *plan, const struct spec *spec, struct error *err);

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

/** os_dirs() - the allow-list of the host's root, relative to it; parents are made. @ret_n: how many. */
const char *const *os_dirs(size_t *ret_n);

/** os_shows() - whether the absolute path lies in what the host's root shows */
bool os_shows(const char *path);

/** host_can() - whether the probe @key works here; a "yes" is remembered in the state directory
 * @row: filled when it does not. */
bool host_can(const struct ctx *ctx, const char *key, struct probe_row *row);
