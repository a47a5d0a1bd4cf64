#include <string.h>

#include "drivers/driver.h"
#include "drivers/native/native.h"
#include "drivers/noop/noop.h"
#include "runtime/base/cleanup.h"

/* in order of preference; noop is never picked, only named */
static const struct driver_ops *const drivers[] = { &driver_native, &driver_noop, &driver_landlock };
static const char *const names[] = { "auto", "native", "noop" };

const struct driver_ops *driver_find(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(drivers); i++)
                if (strcmp(name, "auto") == 0 || strcmp(name, drivers[i]->name) == 0)
                        return drivers[i];
        return NULL;
}

const char *const *driver_names(size_t *ret_n) {
        *ret_n = ARRAY_SIZE(names);
        return names;
}
