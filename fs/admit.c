#include "fs/admit.h"

#include <errno.h>

const char *region_kind_name(enum region_kind kind) {
        static const char *const names[REGION_KIND_COUNT] = { [REGION_DIRECT] = "direct",
                                                              [REGION_STAGED] = "staged",
                                                              [REGION_COW] = "cow",
                                                              [REGION_RO] = "ro" };

        return names[kind];
}

int admit_change(enum region_kind kind, bool has_upper, enum guard_do action) {
        if (kind == REGION_RO || action == GUARD_PROTECT)
                return -EROFS;
        if (action == GUARD_HIDE)
                return -EACCES;
        if (action == GUARD_ALLOW && !region_kind_copies(kind))
                return ADMIT_LOWER;
        if (!has_upper)
                return -EROFS;
        return action == GUARD_ALLOW ? ADMIT_UPPER : ADMIT_HELD;
}
