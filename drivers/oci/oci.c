/*
 * oci.c - the docker and podman drivers: what differs from the native one before a container is made, and
 * what their command lines answer
 */
#include "drivers/oci/oci.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "drivers/native/native.h"
#include "drivers/native/net.h"
#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/spec/keys.h"

struct oci *oci_free(struct oci *oci) {
        if (oci) {
                free(oci->image);
                free(oci->image_id);
                free(oci->user);
                buf_deinit(&oci->passwd);
                buf_deinit(&oci->group);
                free(oci->state_dir);
                free(oci->step);
                free(oci->root_run);
                free(oci);
        }
        return NULL;
}

enum { MARGIN_SECONDS = 60 /* from the end of the time of a run to that of what is left of it */ };

static const char usual_step[] = "run"; /* as the auth proxy hears it: keeper.c */

static const char needs_image[] = "image: driver '%s' needs one: give --image";

/* What a container cannot have. */
static int check(const struct spec *spec, const char *program, struct error *err) {
        const struct {
                bool asked;
                const char *key, *why;
        } rows[] = {
                { spec->rootfs != NULL, "rootfs", "its root is an image: use --driver native" },
                { spec->host_root, "host_root", "its root is an image: use --driver native" },
                { spec->security.nested_userns, "security.nested_userns",
                  "the engine refuses namespaces to a container: use --driver native" },
                { spec->workspace.n_bypass > 0, "workspace.bypass",
                  "the guard serves all of the workspace there: leave it out" },
                { spec->workspace.engine == ENGINE_OVERLAY, "workspace.engine",
                  "the guard takes all writes there: use --engine fuse or auto" },
        };

        if (!spec->image)
                return error_set(err, -EINVAL, needs_image, program);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (rows[i].asked)
                        return error_set(err, -ENOTSUP, "CAPABILITY_UNSUPPORTED: %s: driver '%s': %s",
                                         rows[i].key, program, rows[i].why);
        if (spec->image[0] == '-')
                return error_set(err, -EINVAL, "image: '%s' is no reference", ESC(spec->image));
        return 0;
}

static int fill(const struct ctx *ctx, const struct spec *spec, struct oci *oci) {
        const struct spec_kubernetes *const k = &spec->kubernetes;
        const char *const root = k->root_run_id ? k->root_run_id : k->run_id;
        const uint64_t timeout_ms = spec->limits.timeout_ms;

        oci->image = strdup(spec->image);
        oci->state_dir = strdup(ctx->state_dir ? ctx->state_dir : "");
        oci->step = strdup(k->step ? ESC(k->step) : usual_step);
        oci->root_run = root ? strdup(ESC(root)) : NULL;
        oci->life_s = timeout_ms ? (timeout_ms + 999) / 1000 + MARGIN_SECONDS : 0;
        oci->rootless = strcmp(oci->program, "podman") == 0 && ctx->uid != 0;
        oci->outside = strcmp(oci->program, "docker") == 0 && ctx->uid != 0;
        return oci->image && oci->state_dir && oci->step && (oci->root_run || !root) ? 0 : -ENOMEM;
}

/* Version 1 of control groups is for root only, so podman of a user limits nothing there. */
static bool engine_limits(const struct oci *oci) {
        struct statfs fs;

        return !oci->rootless || (statfs("/sys/fs/cgroup", &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC);
}

static int limits(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        static const char why[] = "control groups of version 1 are for root, not for podman of a user";
        struct cgroup_limits *g = &plan->limits.group;

        if (engine_limits(plan->oci)) {
                plan->limits.engine = plan->oci->program;
                return 0;
        }
        if (spec->isolation != ISOLATION_DEGRADE && (g->memory_bytes || g->cpu_milli))
                return error_set(err, -ENOTSUP,
                                 "limits.%s: %s: boot with systemd.unified_cgroup_hierarchy=1, call as root, "
                                 "or use --isolation degrade for a limit of each process",
                                 g->memory_bytes ? "memory" : "cpus", why);
        plan->limits.no_cgroup = true; /* by means of each process: limits_open() refuses or does them */
        if (spec->isolation == ISOLATION_DEGRADE && g->memory_bytes)
                plan_degrade(plan, "limits.memory of all processes together",
                             "a limit of each process's data", why);
        if (spec->isolation == ISOLATION_DEGRADE && g->cpu_milli)
                plan_degrade(plan, "limits.cpus", "as many processors, rounded up", why);
        if (!g->pids)
                g->pids = OCI_PIDS;
        return 0;
}

/* By the rows of doctor. */
static int serves(const struct ctx *ctx, const struct spec *spec, const char *program,
                  const char *const *rows, struct error *err) {
        struct probe_row row;

        for (; *rows; rows++)
                if (probe_one(ctx, *rows, &row) != PROBE_OK)
                        return probe_refusal(&row, err);
        return spec->image ? 0 : error_set(err, -EINVAL, needs_image, program);
}

static int probe_docker(const struct ctx *ctx, const struct spec *spec, struct error *err) {
        return serves(ctx, spec, "docker", (const char *const[]){ "docker_client", "docker_daemon", NULL },
                      err);
}

static const char no_entry[] = "what mounts the guard enters the container, which takes root";

/* Without a guard: what only it could keep is refused, the rest is said. */
static int without_guard(const struct spec *spec, struct error *err) {
        bool rules = false;

        for (size_t i = 0; i < spec->guard.n_rules; i++)
                rules = rules || spec->guard.rules[i].action != GUARD_ALLOW;
        if (spec->isolation == ISOLATION_STRICT)
                return error_set(err, DRIVER_HOST_LACKS,
                                 "driver 'docker': %s: use --driver podman, or --isolation degrade to do "
                                 "without a guard",
                                 no_entry);
        if (rules || spec->limits.disk || spec->home.n_seeds > 0 || spec->home.n_persist > 0 ||
            spec->workspace.mode == WORKSPACE_COW || spec->workspace.mode == WORKSPACE_STAGED)
                return error_set(err, -ENOTSUP,
                                 "CAPABILITY_UNSUPPORTED: guard.rules, limits.disk, home.seed, home.persist "
                                 "and a staged or cow workspace: driver 'docker' of a user: %s: use --driver "
                                 "podman",
                                 no_entry);
        return 0;
}

static void drop_files(struct driver_plan *plan) {
        for (; plan->n_seeds > 0; plan->n_seeds--) {
                struct native_seed *seed = &plan->seeds[plan->n_seeds - 1];

                (void) fd_close(seed->fd);
                free(seed->source);
                free(seed->target);
        }
        for (; plan->n_files > 0; plan->n_files--) {
                free(plan->files[plan->n_files - 1].target);
                free(plan->files[plan->n_files - 1].data);
        }
}

/* The plan of a native sandbox becomes what the engine can mount itself. */
static int lower(struct driver_plan *plan, struct error *err) {
        if (plan->id.inside_uid != plan->ctx->uid || plan->id.inside_gid != plan->ctx->gid)
                return error_set(
                        err, -ENOTSUP,
                        "CAPABILITY_UNSUPPORTED: user: driver 'docker' has no user namespace to make a "
                        "user another one: use --user %u:%u, or --driver podman",
                        plan->ctx->uid, plan->ctx->gid);
        for (size_t i = plan->n_regions; i-- > 1;) {
                const struct native_region *r = &plan->regions[i];

                if (r->host_state)
                        region_drop(plan, i);
                else if (r->kind == REGION_COW || r->kind == REGION_STAGED)
                        return error_set(err, -ENOTSUP, "CAPABILITY_UNSUPPORTED: mounts: '%s': %s",
                                         ESC(r->target), no_entry);
        }
        drop_files(plan);
        plan->rungs.no_guard = true;
        places_sort(plan);
        plan_degrade(plan, "guard", "none: binds of the engine, no rule holds inside", no_entry);
        plan_degrade(plan, "host_state", "nothing of the home is shown or seeded", no_entry);
        if (plan->oci->has_volumes)
                plan_degrade(plan, "a read-only root", "volumes of the image can be written, without a bound",
                             no_entry);
        return 0;
}

static int plan(const char *program, const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret,
                struct error *err) {
        struct oci *oci;
        int r;

        r = check(spec, program, err);
        if (r < 0)
                return r;
        oci = calloc(1, sizeof(*oci));
        if (!oci)
                return error_set(err, -ENOMEM, "out of memory");
        oci->program = program;
        r = fill(ctx, spec, oci);
        if (r < 0)
                (void) error_set(err, r, "out of memory");
        if (r == 0 && oci->outside) /* an engine that is not there is the first thing to say */
                r = probe_docker(ctx, spec, err);
        if (r == 0 && oci->outside)
                r = without_guard(spec, err);
        if (r == 0)
                r = image_resolve(ctx, spec->user, oci, err);
        if (r < 0) {
                (void) oci_free(oci);
                return r;
        }
        r = native_plan_oci(ctx, spec, oci, ret, err);
        if (r < 0)
                return r;
        r = limits(*ret, spec, err);
        if (r == 0 && (*ret)->oci->outside)
                r = lower(*ret, err);
        if (r < 0)
                *ret = native_plan_free(*ret);
        return r;
}

static int plan_podman(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret,
                       struct error *err) {
        return plan("podman", ctx, spec, ret, err);
}

static int plan_docker(const struct ctx *ctx, const struct spec *spec, struct driver_plan **ret,
                       struct error *err) {
        return plan("docker", ctx, spec, ret, err);
}

static bool own_loopback(const struct driver_plan *plan) {
        (void) plan;
        return true;
}

static int probe_podman(const struct ctx *ctx, const struct spec *spec, struct error *err) {
        return serves(ctx, spec, "podman", (const char *const[]){ "podman_client", "podman_runtime", NULL },
                      err);
}

/* What is left of a container is found by its labels: oci_sweep(). */
static int reap_podman(const struct ctx *ctx, const json_t *plan, const char *run_id, struct error *err) {
        (void) plan;
        (void) err;
        oci_reap(ctx, "podman", run_id);
        return 0;
}

static int reap_docker(const struct ctx *ctx, const json_t *plan, const char *run_id, struct error *err) {
        (void) plan;
        (void) err;
        oci_reap(ctx, "docker", run_id);
        return 0;
}

static int sweep_podman(const struct ctx *ctx, const struct driver_sweep *sweep, struct error *err) {
        return oci_sweep(ctx, "podman", sweep, err);
}

static int sweep_docker(const struct ctx *ctx, const struct driver_sweep *sweep, struct error *err) {
        return oci_sweep(ctx, "docker", sweep, err);
}

#define OPS(PROGRAM)                                                                                         \
        {                                                                                                    \
                .name = #PROGRAM, .own_loopback = own_loopback, .probe = probe_##PROGRAM,                    \
                .plan = plan_##PROGRAM, .plan_free = native_plan_free, .describe = native_describe,          \
                .start = native_start, .report = native_report, .reap = reap_##PROGRAM,                      \
                .sweep = sweep_##PROGRAM, .exec = native_exec, .signal = native_signal,                      \
                .set_network = native_set_network, .refresh_file = native_refresh_file, .poll = native_poll, \
                .dispatch = native_dispatch, .stop = native_stop,                                            \
        }

const struct driver_ops driver_podman = OPS(podman);
const struct driver_ops driver_docker = OPS(docker);
