/*
 * DOC: theory of operation
 *
 * The ladder: with isolation: degrade, what the host lacks is done without, one rung at a time, and only
 * where the rung keeps what it says (docs/ladder.md, docs/adr/029). The host is asked before anything is
 * made, by the rows that doctor shows, so that doctor, the refusal and the rung cannot differ.
 *
 * Whatever has no rung here refuses the run as strict isolation does.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "drivers/driver.h"
#include "drivers/native/parts.h"
#include "drivers/native/probe.h"
#include "drivers/native/seccomp.h"
#include "fs/rules.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

void plan_degrade(struct driver_plan *plan, const char *wanted, const char *got, const char *why) {
        struct native_degraded *d;

        assert(plan->n_degraded < PLAN_DEGRADED_MAX);
        d = &plan->degraded[plan->n_degraded++];
        *d = (struct native_degraded){ .wanted = wanted, .got = got };
        (void) snprintf(d->reason, sizeof(d->reason), "%s", why);
}

/** struct ladder - what the rows of this host say */
struct ladder {
        struct driver_plan *plan;
        const struct spec *spec;
        struct probe_row rows[PROBE_ROWS_MAX];
        size_t n;
};

static const struct probe_row *row_of(const struct ladder *l, const char *key) {
        for (size_t i = 0; i < l->n; i++)
                if (strcmp(l->rows[i].key, key) == 0)
                        return &l->rows[i];
        return NULL;
}

static bool works(const struct ladder *l, const char *key) {
        const struct probe_row *row = row_of(l, key);

        return row && row->state == PROBE_OK;
}

static int without_guard(struct ladder *l, const struct probe_row *row, struct error *err) {
        struct native_rungs *rungs = &l->plan->rungs;

        (void) err;
        if (rungs->no_guard)
                return 0;
        rungs->no_guard = true;
        rungs->no_overlay = !works(l, "overlayfs");
        plan_degrade(l->plan, "guard",
                     rungs->no_overlay
                             ? "read-only mounts: only the home and temporary directories can be written"
                             : "overlayfs: no rule holds inside, files of other owners or groups "
                               "cannot be changed, and every change waits for review",
                     row->evidence);
        return 0;
}

static int without_proc(struct ladder *l, const struct probe_row *row, struct error *err) {
        (void) err;
        l->plan->rungs.no_proc = true;
        plan_degrade(l->plan, "/proc", "an empty directory", row->evidence);
        return 0;
}

/*
 * What is left of "none" without a namespace: no socket but of the unix family can be made, and those of the
 * host's abstract names are kept away by landlock. A profile could open io_uring, which makes sockets that no
 * filter sees. The proxy of the lists is not kept without a namespace: who ignores it is in the host's
 * network.
 */
static int without_netns(struct ladder *l, const struct probe_row *row, struct error *err) {
        struct driver_plan *plan = l->plan;

        if (plan->uplink)
                (void) snprintf(plan->uplink_why, sizeof(plan->uplink_why), "%s", row->evidence);
        plan->uplink = false;
        if (plan->network == NETWORK_OPEN || plan->rungs.no_netns)
                return 0;
        if (plan->network != NETWORK_NONE || !works(l, "landlock") || l->spec->security.nested_userns ||
            strcmp(l->spec->security.seccomp, SECCOMP_DEFAULT) != 0)
                return probe_refusal(row, err);
        plan->rungs.no_netns = true;
        plan_degrade(plan, "net namespace", "no sockets but unix ones: 127.0.0.1 cannot be used either",
                     row->evidence);
        return 0;
}

static const struct {
        const char *key;
        int (*take)(struct ladder *l, const struct probe_row *row, struct error *err);
} takes[] = {
        { "fuse_device", without_guard },   { "fuse_mount", without_guard }, { "proc", without_proc },
        { "net_namespace", without_netns }, { "loopback", without_netns },
};

/* Root itself can do the rest without one; what works for another user or makes its own cannot. */
static bool can_do_without_userns(const struct ladder *l) {
        return l->plan->ctx->uid == 0 && l->plan->id.host_uid == 0 && l->plan->id.inside_uid == 0 &&
               !l->spec->security.nested_userns;
}

static int take(struct ladder *l, const struct probe_row *row, struct error *err) {
        for (size_t i = 0; i < ARRAY_SIZE(takes); i++)
                if (strcmp(takes[i].key, row->key) == 0)
                        return takes[i].take(l, row, err);
        return probe_refusal(row, err);
}

/* Limits that only a group can keep; pids is as good by a resource limit, except for root. */
static void without_group(struct ladder *l) {
        const struct probe_row *row = row_of(l, "cgroup");
        const struct spec *spec = l->spec;

        if (!row || row->state == PROBE_OK ||
            (!spec->limits.memory && !spec->limits.cpus && !spec->limits.pids))
                return;
        l->plan->rungs.no_cgroup = true;
        if (spec->limits.memory)
                plan_degrade(l->plan, "limits.memory of all processes together",
                             "a limit of each process's data", row->evidence);
        if (spec->limits.cpus)
                plan_degrade(l->plan, "limits.cpus", "as many processors, rounded up", row->evidence);
        if (spec->limits.pids && l->plan->ctx->uid == 0)
                plan_degrade(l->plan, "limits.pids", "none: root's are not counted", row->evidence);
}

int rungs_choose(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        struct ladder l = { .plan = plan, .spec = spec };
        const struct probe_row *userns;
        struct probe_row without = { 0 };
        int r = 0;

        if (spec->isolation != ISOLATION_DEGRADE)
                return 0;
        l.n = probe_for_run(plan->ctx, false, l.rows);
        userns = row_of(&l, "user_namespaces");
        if (userns && userns->state == PROBE_MISSING && can_do_without_userns(&l)) {
                plan->rungs.no_userns = true;
                plan_degrade(plan, "user namespace",
                             "none: the work is the host's root, without its capabilities", userns->evidence);
                without = *userns;
                l.n = probe_for_run(plan->ctx, true, l.rows);
        }
        for (size_t i = 0; r == 0 && i < l.n; i++)
                if (l.rows[i].required && l.rows[i].state == PROBE_MISSING)
                        r = take(&l, &l.rows[i], err);
        if (r == 0)
                without_group(&l);
        if (r < 0 && plan->rungs.no_userns) /* the first cause, in the words of doctor */
                return probe_refusal(&without, err);
        return r;
}

/* What a rule of the region's asks that a mount cannot keep; NULL: nothing. Static. */
static const char *unkept(const struct native_region *region) {
        struct rule_def def;

        for (size_t i = 0; region->rules && rules_def(region->rules, i, &def); i++) {
                if (def.action == GUARD_HIDE && !rules_is_own(&def))
                        return "a rule hides paths in it";
                if (def.action == GUARD_PROTECT && region->kind != REGION_RO)
                        return "a rule protects paths in it";
        }
        return NULL;
}

/* Nobody asked for it by name, so it can be left out. */
static bool is_extra(const struct native_region *region) {
        return region->host_state || region->role == ROLE_TOOLCHAIN;
}

/* What can be written becomes copy-on-write, or read-only. */
static void lower_region(const struct driver_plan *plan, struct native_region *region) {
        region->exclusive = false;
        region->overlay = region->kind != REGION_RO && !region->is_file && !plan->rungs.no_overlay;
        region->kind = region->overlay ? REGION_COW : REGION_RO;
        region->in_memory = region->in_memory && region->overlay;
}

int rungs_regions(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        char left_out[sizeof(plan->degraded[0].reason)] = "";

        if (spec->limits.disk)
                return error_set(
                        err, -ENOTSUP,
                        "limits.disk: only the guard counts it, and there is no FUSE here: leave it out, or "
                        "see 'cofferdam doctor'");
        for (size_t i = 0; i < plan->n_regions;) {
                struct native_region *region = &plan->regions[i];
                const char *why = unkept(region);

                if (why && !is_extra(region))
                        return error_set(
                                err, -ENOTSUP,
                                "'%s': %s, which only the guard keeps, and there is no FUSE here: leave "
                                "the rule out, or see 'cofferdam doctor'",
                                ESC(region->target), why);
                if (why && !*left_out)
                        (void) snprintf(left_out, sizeof(left_out), "%.160s: %s", ESC(region->target), why);
                if (why) {
                        region_drop(plan, i);
                } else {
                        lower_region(plan, region);
                        i++;
                }
        }
        if (*left_out)
                plan_degrade(plan, "caches and toolchains of the home", "some are not shown", left_out);
        return 0;
}
