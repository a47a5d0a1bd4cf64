/*
 * diff.h - what a run's upper holds that the host does not have
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "runtime/base/error.h"

enum change_kind { CHANGE_ADDED, CHANGE_MODIFIED, CHANGE_DELETED, CHANGE_TYPE, CHANGE_KIND_COUNT };

/* levels of directories that are walked; deeper is an error */
enum { DIFF_DEPTH_MAX = 256 };

/** struct change - one path; pointers borrowed during the callback */
struct change {
        enum change_kind kind;
        const char *path;         /* relative to the region, any bytes */
        bool conflict;            /* the lower is not what it was at copy-up, or the parent is in conflict */
        uint64_t size;            /* of the new version, bytes; of a deletion: 0 */
        uint32_t mode;            /* of the new version, with type bits; of a deletion: of the lower */
        int error;                /* apply only: why it did not land, negative errno; 0 otherwise */
        const struct stat *upper; /* of the upper object (a deletion: of its record), NULL: only implied by an
                                     opaque directory */
        const struct stat *lower; /* of the lower object, NULL: none */
};

/** change_fn - Return: 0 to go on, negative errno to stop */
typedef int (*change_fn)(const struct change *change, void *arg);

/** change_letter() - 'A', 'M', 'D' or 'T' */
char change_letter(enum change_kind kind);

/**
 * diff_walk() - call @fn per changed path, parents before children, names in byte order
 * @upper_fd: the region's upper; @lower_fd: the region's pinned directory
 *
 * Reads the upper and the named lower paths only; all by descriptor, following no link. An upper file equal
 * to the lower one is no change. A deleted directory is one change; that its content is still what the work
 * deleted is checked by apply. Directories: only a changed mode is a modification.
 * Return: 0, what @fn gave, -ELOOP (more than DIFF_DEPTH_MAX levels), -errno with a message.
 */
int diff_walk(int upper_fd, int lower_fd, change_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));

/**
 * diff_dir_mode_changed() - whether the work changed the mode of a directory that exists in both
 * @dir_fd, @name: the upper directory, @upper and @lower: what fstatat(2) says
 * @ret_conflict: the host changed it too
 */
bool diff_dir_mode_changed(int dir_fd, const char *name, const struct stat *upper, const struct stat *lower,
                           bool *ret_conflict);

/** diff_hidden_since() - when the opaque directory open as @dir_fd began to hide the lower one, ns; 0: not
 * known */
int64_t diff_hidden_since(int dir_fd);
