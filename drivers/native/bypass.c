/*
 * DOC: theory of operation
 *
 * A bypass is a directory of the workspace that the operator takes out of the guard: the sandbox gets it by a
 * plain bind mount, at native speed, and no rule holds in it. So it has to be a directory that no rule of its
 * own is about: what would be held, protected or hidden there, or is for a run of another name, is refused.
 * Rules that match at any depth (".envrc") are given up inside; that is what a bypass means.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/parts.h"
#include "fs/pathfd.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

/* What a name stands for about which no rule says anything in particular. */
static const char any_name[] = "some directory";

/* State of @path in the region; with @plain, of a directory as deep as that below plain names. */
static rules_state state_of(struct rules *rules, const char *path, bool plain) {
        rules_state state = RULES_ROOT;

        while (*path) {
                const size_t n = strcspn(path, "/");

                state = plain ? rules_step(rules, state, any_name, sizeof(any_name) - 1)
                              : rules_step(rules, state, path, n);
                path += n + (path[n] == '/');
        }
        return state;
}

/* ".git/objects" is the one directory with rules of its own that may be given up: objects are data, and what
 * objects/info/alternates can name is more data. */
static bool is_objects(const char *path) {
        const size_t n = strlen(path), m = strlen(".git/objects");

        return n >= m && strcmp(path + n - m, ".git/objects") == 0 && (n == m || path[n - m - 1] == '/');
}

static int check_rules(const struct native_region *region, const char *path, struct error *err) {
        const struct rules_verdict v = region->rules
                                               ? rules_path(region->rules, path, S_IFDIR)
                                               : (struct rules_verdict){ .action = GUARD_ALLOW, .rule = -1 };

        if (v.action != GUARD_ALLOW)
                return error_set(err, -EPERM, "bypass '%s': the rule '%s' is about it", ESC(path),
                                 rules_text(region->rules, v.rule));
        if (region->rules && !is_objects(path) &&
            state_of(region->rules, path, false) != state_of(region->rules, path, true))
                return error_set(err, -EPERM,
                                 "bypass '%s': rules of the guard are about names in it, which would be "
                                 "given up: choose a directory of build products or packages",
                                 ESC(path));
        return 0;
}

static int open_dir(const struct native_region *region, const char *path, struct error *err) {
        const int fd = open_beneath(region->pin.fd, path, O_PATH | O_DIRECTORY, 0);

        if (fd == -ENOENT)
                return error_set(err, fd, "bypass '%s': there is no such directory in the workspace: make it",
                                 ESC(path));
        if (fd == -ELOOP)
                return error_set(err, fd, "bypass '%s': a part of it is a symbolic link", ESC(path));
        if (fd == -ENOTDIR)
                return error_set(err, fd, "bypass '%s': not a directory; a symbolic link is none", ESC(path));
        return fd < 0 ? error_set(err, fd, "bypass '%s': %s", ESC(path), strerror(-fd)) : fd;
}

static int add(struct driver_plan *plan, const char *path, struct error *err) {
        const struct native_region *region = &plan->regions[0];
        struct native_bypass *b = &plan->bypass[plan->n_bypass];
        int r;

        if (plan->n_bypass >= PLAN_BYPASS_MAX)
                return error_set(err, -E2BIG, "more than %d bypasses", PLAN_BYPASS_MAX);
        r = check_rules(region, path, err);
        if (r < 0)
                return r;
        *b = (struct native_bypass){ .fd = -1 };
        plan->n_bypass++; /* from here on the plan frees it */
        b->fd = open_dir(region, path, err);
        if (b->fd < 0)
                return b->fd;
        b->path = strdup(path);
        if (!b->path || path_join(region->pin.real, path, &b->source) < 0 ||
            path_join(region->target, path, &b->target) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return 0;
}

int bypasses_add(struct driver_plan *plan, const struct spec *spec, struct error *err) {
        int r = 0;

        if (spec->workspace.n_bypass > 0 && plan->regions[0].kind == REGION_RO)
                return error_set(err, -EINVAL,
                                 "workspace.bypass: a read-only workspace has no bypass: use another mode");
        for (size_t i = 0; r == 0 && i < spec->workspace.n_bypass; i++)
                r = add(plan, spec->workspace.bypass[i], err);
        return r;
}
