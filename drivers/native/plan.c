/*
 * DOC: theory of operation
 *
 * plan() turns a specification into decisions, with the caller's rights and without touching anything:
 * who works, which host directories are pinned, which rules they get, what the home and /etc hold, which
 * environment the commands see. The order matters: PATH is filtered by the regions, so they come first; the
 * workspace is always region 0.
 */
#include "drivers/native/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "drivers/native/native.h"
#include "drivers/native/net.h"
#include "drivers/native/parts.h"
#include "drivers/native/probe.h"
#include "drivers/native/setup.h"
#include "drivers/oci/oci.h"
#include "fs/admit.h"
#include "fs/rules-json.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/path.h"

enum { PATH_JSON_MAX = 4096 };

static int tmpfs_plan(struct driver_plan *plan, const struct spec *spec) {
        const struct {
                const char *target;
                uint64_t size;
                mode_t mode;
        } rows[] = {
                { plan->id.home, spec->home.size, 0700 },
                { "/tmp", spec->tmp.size, 01777 },
                { "/var/tmp", spec->tmp.size, 01777 },
        };
        int r = 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(rows); i++) {
                bool taken = false;

                for (size_t k = 0; k < plan->n_regions; k++)
                        taken = taken || strcmp(plan->regions[k].target, rows[i].target) == 0;
                for (size_t k = 0; k < plan->n_tmpfs; k++)
                        taken = taken || strcmp(plan->tmpfs[k].target, rows[i].target) == 0;
                if (!taken)
                        r = tmpfs_add(plan, rows[i].target, rows[i].size, rows[i].mode);
        }
        return r;
}

/* Compiled here: a profile that cannot be had ends the run before it has done anything. */
static int security_plan(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        AUTO_PROFILE struct profile profile = { 0 };
        int r;

        plan->nested_userns = spec->security.nested_userns;
        if (plan->nested_userns && plan->id.inside_uid == 0)
                return error_set(
                        err, -EINVAL,
                        "security.nested_userns: is not for uid 0, which the kernel does not map without "
                        "a capability: name another account with --user");
        if (strcmp(spec->security.seccomp, SECCOMP_DEFAULT) == 0)
                return 0;
        r = profile_read(spec->security.seccomp, &profile, err);
        if (r < 0)
                return r;
        r = profile_compile(&profile, &plan->profile, err);
        return r < 0 ? error_wrap(err, r, "security.seccomp") : 0;
}

/* Whether a file of ours can be made at @path: in memory, on nobody's disk. */
static bool is_ours(const struct driver_plan *plan, const char *path) {
        bool ours = path_below(path, "/run") != NULL;

        for (size_t i = 0; i < plan->n_tmpfs; i++)
                ours = ours || path_below(path, plan->tmpfs[i].target);
        return ours && !region_find(plan, path);
}

/* Whether another mount would be over the secrets, or they over it. */
static bool is_taken(const struct driver_plan *plan) {
        bool taken = region_find(plan, SECRET_DIR);

        for (size_t i = 0; i < plan->n_regions; i++)
                taken = taken || path_below(plan->regions[i].target, SECRET_DIR);
        for (size_t i = 0; i < plan->n_tmpfs; i++)
                taken = taken || path_below(plan->tmpfs[i].target, SECRET_DIR);
        return taken;
}

static int secrets_check(const struct driver_plan *plan, const struct spec *spec, struct error *err) {
        for (size_t i = 0; i < spec->n_secrets; i++) {
                const struct spec_secret *secret = &spec->secrets[i];

                if (!secret_is(secret, "file"))
                        continue;
                if (is_taken(plan))
                        return error_set(err, -EINVAL,
                                         "mounts: " SECRET_DIR " is for secrets: choose another");
                if (secret->path && !is_ours(plan, secret->path))
                        return error_set(err, -EINVAL,
                                         "secrets[%zu].path: '%s' is not in memory: choose one in the home, "
                                         "/tmp or /run, or leave it out: it is " SECRET_DIR "/%s",
                                         i, ESC(secret->path), secret->name);
        }
        return 0;
}

static int plan_fill(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r;

        plan->policy = (struct pin_policy){
                .home = plan->ctx->home,
                .own_home = plan->ctx->passwd_home,
                .state_dir = plan->ctx->state_dir,
                .memo = plan->memo,
                .allowed = (const char *const *) spec->allow_sensitive,
                .n_allowed = spec->n_allow_sensitive,
        };
        r = plan->oci ? 0 : root_possible(plan->ctx, spec, err);
        if (r == 0 && !plan->oci)
                r = root_plan(plan->ctx, spec, &plan->policy, &plan->root, err);
        if (r == 0)
                r = id_resolve(plan->ctx, spec->user, plan->root, plan->oci, &plan->id, err);
        if (r == 0 && plan->root && plan->root->ids == ROOT_IDS_SINGLE && *plan->root->why_single)
                plan_degrade(plan, "the users of the image", "all files as those of the user of the run",
                             plan->root->why_single);
        if (r == 0)
                r = net_plan(plan, spec, err);
        if (r == 0 && !plan->oci)
                r = rungs_choose(plan, spec, err);
        if (r == 0)
                r = workspace_add(plan, spec, err);
        if (r == 0)
                r = mounts_add(plan, spec, err);
        if (r == 0)
                home_judge(plan, spec);
        if (r == 0)
                r = persist_add(plan, spec, err);
        if (r == 0)
                r = caches_add(plan, spec, err);
        if (r == 0 && !plan->oci && !plan->root) /* what was built for the host's libraries */
                r = toolchains_add(plan, spec, err);
        if (r == 0)
                r = seeds_add(plan, spec, err);
        if (r == 0)
                r = git_identity_add(plan, spec, err);
        if (r == 0)
                r = etc_add(plan, err);
        if (r == 0)
                r = env_build(plan, spec, err);
        if (r == 0)
                r = bypasses_add(plan, spec, err);
        if (plan->id.mapped && !plan->id.switch_user && plan->id.inside_uid != 0) {
                plan->overlay_asked =
                        true; /* its directories are the caller's, who is not the one who works */
                (void) snprintf(plan->overlay_why, sizeof(plan->overlay_why),
                                "the user of the image is another");
        }
        if (r == 0 && !plan->oci) /* in a container the guard takes all writes */
                r = engines_choose(plan, spec, err);
        if (r == 0)
                r = cache_choose(plan, spec, err);
        if (r == 0)
                r = limits_plan(spec, &plan->limits, err);
        plan->limits.no_cgroup = plan->rungs.no_cgroup;
        if (r == 0)
                r = security_plan(plan, spec, err);
        if (r < 0)
                return r;
        r = tmpfs_plan(plan, spec);
        if (r < 0)
                return error_set(err, r, "temporary file systems: %s", strerror(-r));
        r = secrets_check(plan, spec, err);
        if (r < 0)
                return r;
        places_sort(plan);
        plan->disk_max = spec->limits.disk;
        return places_check(plan, err);
}

int native_plan(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret, struct error *err) {
        return native_plan_oci(ctx, spec, NULL, ret, err);
}

int native_plan_oci(const struct ctx *ctx, const struct spec *spec, struct oci *oci, struct driver_plan **ret,
                    struct error *err) {
        struct driver_plan *plan = calloc(1, sizeof(*plan));
        int r;

        if (!plan) {
                (void) oci_free(oci);
                return error_set(err, -ENOMEM, "out of memory");
        }
        plan->oci = oci;
        plan->ctx = ctx;
        plan->memo = pin_memo_new(); /* without it everything works, only slower */
        r = plan_fill(plan, spec, err);
        plan->memo = pin_memo_free(plan->memo);
        plan->policy.memo = NULL;
        if (r < 0) {
                (void) native_plan_free(plan);
                return r == -ENOSYS ? probe_explain(ctx, "mount", r, err) : r;
        }
        *ret = plan;
        return 0;
}

struct driver_plan *native_plan_free(struct driver_plan *plan) {
        if (!plan)
                return NULL;
        plan->oci = oci_free(plan->oci);
        plan->root = root_free(plan->root);
        profile_program_deinit(&plan->profile);
        free(plan->id.name);
        free(plan->id.home);
        free(plan->id.shell);
        for (size_t i = 0; i < plan->n_regions; i++) {
                pin_deinit(&plan->regions[i].pin);
                free(plan->regions[i].target);
                if (!plan->regions[i].rules_shared)
                        plan->regions[i].rules = rules_free(plan->regions[i].rules);
        }
        plan->toolchain_rules = rules_free(plan->toolchain_rules);
        for (size_t i = 0; i < plan->n_tmpfs; i++)
                free(plan->tmpfs[i].target);
        for (size_t i = 0; i < plan->n_bypass; i++) {
                (void) fd_close(plan->bypass[i].fd);
                free(plan->bypass[i].path);
                free(plan->bypass[i].source);
                free(plan->bypass[i].target);
        }
        for (size_t i = 0; i < plan->n_seeds; i++) {
                (void) fd_close(plan->seeds[i].fd);
                free(plan->seeds[i].source);
                free(plan->seeds[i].target);
        }
        for (size_t i = 0; i < plan->n_files; i++) {
                free(plan->files[i].target);
                free(plan->files[i].data);
        }
        for (size_t i = 0; i < plan->n_env; i++)
                free(plan->env[i]);
        free(plan->env);
        (void) policy_free(plan->net_policy);
        json_decref(plan->net_preset);
        free(plan->resolv_conf);
        json_decref(plan->net_rules);
        free(plan);
        return NULL;
}

/* File systems on which something differs from a local disk; said by describe(). */
static const struct {
        uint32_t magic;
        const char *text;
} file_systems[] = {
        { 0x6969, "nfs: changes of other machines show after its own delay" },
        { 0xff534d42, "cifs: changes of other machines show after its own delay" },
        { 0xfe534d42, "smb2: changes of other machines show after its own delay" },
        { 0x00c36400, "ceph: changes of other machines show after its own delay" },
        { 0x65735546, "fuse: as fast and as correct as its server" },
        { 0x01021997, "9p: no inotify, weak cache coherence" },
        { 0x01021994, "tmpfs: gone when the machine stops" },
};

static const char *file_system_text(int fd) {
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return NULL;
        if (fs.f_flags & 1 /* ST_RDONLY */)
                return "mounted read-only: writes fail with EROFS";
        for (size_t i = 0; i < ARRAY_SIZE(file_systems); i++)
                if ((uint32_t) fs.f_type == file_systems[i].magic)
                        return file_systems[i].text;
        return NULL;
}

/* Who takes the region's writes, and where they are kept. */
static int add_engine(json_t *row, const struct native_region *r, bool no_guard) {
        int failed = json_object_set_new(row, "engine",
                                         json_string(r->overlay ? "overlay"
                                                     : no_guard ? "bind"
                                                                : "fuse"));

        if (r->engine_why[0])
                failed |= json_object_set_new(row, "engine_reason",
                                              json_from_bytes(r->engine_why, sizeof(r->engine_why)));
        if (r->exclusive)
                failed |= json_object_set_new(row, "cache", json_string("exclusive"));
        if (region_keeps(r))
                failed |= json_object_set_new(row, "upper", json_string(r->in_memory ? "memory" : "disk"));
        return failed;
}

static json_t *regions_json(const struct driver_plan *plan) {
        static const char *const roles[ROLE_COUNT] = { "workspace", "git_dir", "bind",     "overlay",
                                                       "cache",     "home",    "toolchain" };
        static const char *const changes[SOURCE_CHANGE_COUNT] = {
                [SOURCE_CHANGE_STOP] = "stop", [SOURCE_CHANGE_PIN] = "pin"
        };
        json_t *list = json_array();

        for (size_t i = 0; list && i < plan->n_regions; i++) {
                const struct native_region *r = &plan->regions[i];
                json_t *row = json_pack(
                        "{s:i,s:o,s:o,s:s,s:s,s:s,s:b,s:I,s:I,s:I,s:I,s:s*,s:o*}", "index", (int) i, "source",
                        json_from_bytes(r->pin.path, PATH_JSON_MAX), "target",
                        json_from_bytes(r->target, PATH_JSON_MAX), "kind", region_kind_name(r->kind), "role",
                        roles[r->role], "on_source_change", changes[r->on_change], "file", r->is_file, "dev",
                        (json_int_t) r->pin.dev, "ino", (json_int_t) r->pin.ino, "btime_ns",
                        (json_int_t) r->pin.btime_ns, "owner", (json_int_t) r->pin.owner, "note",
                        file_system_text(r->pin.fd), "rules", rules_to_json(r->rules));

                if (add_engine(row, r, plan->rungs.no_guard) < 0 || json_array_append_new(list, row) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}

static json_t *tmpfs_json(const struct driver_plan *plan) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < plan->n_tmpfs; i++)
                (void) json_array_append_new(list, json_from_bytes(plan->tmpfs[i].target, PATH_JSON_MAX));
        return list;
}

static json_t *bypass_json(const struct driver_plan *plan) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < plan->n_bypass; i++)
                (void) json_array_append_new(
                        list, json_pack("{s:o,s:o,s:o}", "path",
                                        json_from_bytes(plan->bypass[i].path, PATH_JSON_MAX), "source",
                                        json_from_bytes(plan->bypass[i].source, PATH_JSON_MAX), "target",
                                        json_from_bytes(plan->bypass[i].target, PATH_JSON_MAX)));
        return list;
}

/* What was asked for and is not done; NULL: nothing. */
static json_t *degraded_json(const struct driver_plan *plan) {
        json_t *list = plan->n_degraded ? json_array() : NULL;

        for (size_t i = 0; list && i < plan->n_degraded; i++) {
                const struct native_degraded *d = &plan->degraded[i];

                (void) json_array_append_new(list, json_pack("{s:s,s:s,s:o}", "wanted", d->wanted, "got",
                                                             d->got, "reason",
                                                             json_from_bytes(d->reason, sizeof(d->reason))));
        }
        return list;
}

static json_t *toolchains_json(const struct driver_plan *plan) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < plan->n_regions; i++)
                if (plan->regions[i].role == ROLE_TOOLCHAIN)
                        (void) json_array_append_new(list,
                                                     json_from_bytes(plan->regions[i].target, PATH_JSON_MAX));
        return list;
}

static json_t *seeds_json(const struct driver_plan *plan) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < plan->n_seeds; i++)
                (void) json_array_append_new(
                        list, json_pack("{s:o,s:o,s:s,s:I}", "source",
                                        json_from_bytes(plan->seeds[i].source, PATH_JSON_MAX), "target",
                                        json_from_bytes(plan->seeds[i].target, PATH_JSON_MAX), "kind",
                                        plan->seeds[i].is_dir ? "directory" : "file", "bytes",
                                        (json_int_t) plan->seeds[i].bytes));
        return list;
}

static const char *kind_of(const struct native_region *r) {
        return r->is_file ? "file" : "directory";
}

/* What of the home is shown inside although nobody named it. */
static json_t *host_state_json(const struct driver_plan *plan) {
        json_t *entries = json_array();

        for (size_t i = 0; entries && i < plan->n_regions; i++) {
                const struct native_region *r = &plan->regions[i];

                if (!r->host_state)
                        continue;
                (void) json_array_append_new(
                        entries,
                        json_pack("{s:o,s:o,s:s}", "source", json_from_bytes(r->pin.path, PATH_JSON_MAX),
                                  "target", json_from_bytes(r->target, PATH_JSON_MAX), "kind", kind_of(r)));
        }
        return json_pack("{s:b,s:o,s:s*}", "enabled", plan->host_state, "entries", entries,
                         "home_not_mounted", *plan->home_why ? plan->home_why : NULL);
}

/* What keeps the work from abstract sockets and processes of the host. */
static const char *scope_text(const struct driver_plan *plan) {
        if (plan->rungs.no_netns)
                return "landlock";
        if (net_own(plan))
                return "namespaces";
        return landlock_can_scope() ? "landlock"
                                    : "none: abstract sockets of the host can be reached (before Linux 6.12)";
}

static const char *network_text(const struct driver_plan *plan) {
        if (plan->network == NETWORK_OPEN)
                return plan->oci ? "the engine's" : plan->uplink ? "veth, masquerade" : "host";
        return net_wanted(plan) ? "proxy" : "none";
}

static const char *userns_text(const struct driver_plan *plan) {
        if (plan->oci)
                return plan->oci->rootless ? "of the container" : "none";
        if (plan->id.mapped)
                return "range";
        return plan->rungs.no_userns                      ? "none"
               : plan->id.host_uid == plan->id.inside_uid ? "identity"
                                                          : "mapped";
}

static const char *guard_text(const struct driver_plan *plan) {
        if (plan->oci && plan->oci->outside)
                return "none: binds of the engine";
        return !plan->rungs.no_guard ? "fuse" : plan->rungs.no_overlay ? "none: read-only" : "overlayfs";
}

static const char *root_text(const struct driver_plan *plan) {
        if (plan->oci)
                return "image, read-only";
        if (plan->root)
                return *plan->root->digest ? "image, read-only" : "directory, read-only";
        return plan->id.host_uid == 0 && !plan->rungs.no_userns ? "host, read-only, idmapped"
                                                                : "host, read-only";
}

static json_t *image_json(const struct driver_plan *plan) {
        if (!plan->oci)
                return root_json(plan->root);
        return json_pack("{s:o,s:o}", "ref", json_from_bytes(plan->oci->image, PATH_JSON_MAX), "id",
                         json_from_bytes(plan->oci->image_id, PATH_JSON_MAX));
}

json_t *native_describe(const struct driver_plan *plan) {
        json_t *mechanisms = json_pack(
                "{s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "user_namespace", userns_text(plan), "root", root_text(plan),
                "guard", guard_text(plan), "network", network_text(plan), "proc",
                plan->rungs.no_proc ? "absent" : "new", "system_calls",
                plan->profile.len ? "seccomp, with a profile" : "seccomp", "scope", scope_text(plan));

        return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o*,s:o*,s:o,s:o,s:o,s:{s:s,s:I,s:I,s:o},s:o}", "regions",
                         regions_json(plan), "network", net_json(plan), "tmpfs", tmpfs_json(plan),
                         "host_state", host_state_json(plan), "bypass", bypass_json(plan), "degraded",
                         degraded_json(plan), "image", image_json(plan), "toolchains", toolchains_json(plan),
                         "seeds", seeds_json(plan), "mechanisms", mechanisms, "user", "name", plan->id.name,
                         "uid", (json_int_t) plan->id.inside_uid, "gid", (json_int_t) plan->id.inside_gid,
                         "home", json_from_bytes(plan->id.home, PATH_JSON_MAX), "workspace",
                         json_from_bytes(plan->workspace, PATH_JSON_MAX));
}
