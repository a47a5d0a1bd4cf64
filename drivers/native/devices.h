/*
 * devices.h - the devices of the host that are shown inside
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** struct device - a node of the host's /dev */
struct device {
        const char *name;
        unsigned int major, minor;
        bool nested; /* only with nested_userns */
};

/** devices() - all of them, null first, without which there is no run; static. @ret_n: how many */
const struct device *devices(size_t *ret_n);

/** device_check() - the node in the host's /dev. Return: 0, -ENXIO: it is something else, -errno of stat(2).
 */
int device_check(const struct device *device);
