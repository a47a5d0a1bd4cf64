/*
 * places.c - whether each mount point of a plan is there already, or can be made in a file system of ours
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/path.h"
#include "runtime/base/sys.h"

const struct native_place *place_cover(const struct driver_plan *plan, size_t index) {
        for (size_t i = index; i-- > 0;)
                if (path_below(plan->places[index].target, plan->places[i].target))
                        return &plan->places[i];
        return NULL;
}

/* Whether what is mounted over has to be in @dir already, and is not. Links are the start's to judge. */
static bool is_missing(int dir, const char *name) {
        AUTO_FD int fd = *name ? open_beneath(dir, name, O_PATH, 0) : -1;

        return *name && fd == -ENOENT;
}

static bool lacks_point(const struct driver_plan *plan, size_t index) {
        const char *const target = plan->places[index].target;
        const struct native_place *const cover = place_cover(plan, index);
        AUTO_FD int root = -1;

        if (cover && cover->tmpfs >= 0)
                return false;
        if (cover)
                return is_missing(cover->region >= 0 ? plan->regions[cover->region].pin.fd
                                                     : plan->bypass[cover->bypass].fd,
                                  path_below(target, cover->target));
        if (plan->oci || plan->root || !os_shows(target)) /* the engine makes it, or the root is ours */
                return false;
        root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        return is_missing(root, target + 1);
}

int places_check(const struct driver_plan *plan, struct error *err) {
        for (size_t i = 0; i < plan->n_places; i++)
                if (lacks_point(plan, i))
                        return error_set(
                                err, -ENOENT,
                                "mount at '%s': the directory has to exist there; nothing is made on "
                                "the host",
                                ESC(plan->places[i].target));
        return 0;
}
