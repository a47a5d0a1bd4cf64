/*
 * diff.h - what a run's upper holds that the host does not have
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum change_kind { CHANGE_ADDED, CHANGE_MODIFIED, CHANGE_DELETED, CHANGE_TYPE, CHANGE_KIND_COUNT };

/** struct change - one path; strings borrowed during the callback */
struct change {
        enum change_kind kind;
        const char *path; /* relative to the region */
        bool conflict;    /* the lower is not what it was at copy-up */
        uint64_t size;    /* of the new version, bytes */
        uint32_t mode;    /* of the new version, with type bits */
};

/** change_fn - Return: 0 to go on, negative errno to stop */
typedef int (*change_fn)(const struct change *change, void *arg);

/**
 * diff_walk() - call @fn per changed path, parents before children, names in byte order
 * @upper_fd: the region's upper; @lower_fd: the region's pinned directory
 * Reads upper and the named lower paths only; all by descriptor, following no link.
 * Return: 0, what @fn gave, -ELOOP (more than 256 levels), -errno with a message.
 */
int diff_walk(int upper_fd, int lower_fd, change_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));
