/*
 * diff.h - what a run's upper holds that the host does not have
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "runtime/base/error.h"

enum change_kind {
        CHANGE_ADDED,
        CHANGE_MODIFIED,
        CHANGE_DELETED,
        CHANGE_RENAMED, /* a directory; what the work changed below it are further changes */
        CHANGE_TYPE,
        CHANGE_KIND_COUNT
};

/* levels of directories that are walked; deeper is an error */
enum { DIFF_DEPTH_MAX = 256 };

/** struct change - one path; pointers borrowed during the callback */
struct change {
        enum change_kind kind;
        const char *path;         /* relative to the region, any bytes */
        const char *from;         /* CHANGE_RENAMED: where the host has it; else NULL */
        const char *lower_path;   /* where the host has it, or would: @path, but below a renamed directory */
        bool conflict;            /* the lower is not what it was at copy-up, or the parent is in conflict */
        uint64_t size;            /* of the new version, bytes; of a deletion: 0 */
        uint32_t mode;            /* of the new version, with type bits; of a deletion: of the lower */
        bool again;               /* apply only: choose() is asked about it a second time */
        int error;                /* apply only: why it did not land, negative errno; 0 otherwise */
        int upper_dir, lower_dir; /* directories that hold the two objects, borrowed, -1: none; not of
                                     CHANGE_RENAMED */
        const struct stat *upper; /* of the upper object (a deletion: of its record), NULL: only implied by an
                                     opaque directory */
        const struct stat *lower; /* of the lower object, NULL: none */
};

/** struct diff_layers - an upper and what it lies over; descriptors borrowed, open for reading */
struct diff_layers {
        int upper_fd; /* the region's upper */
        int lower_fd; /* the region's pinned directory; -1: none */
        bool kernel;  /* overlayfs wrote the upper: what it replaces is told by time, not by our records */
};

/** change_fn - Return: 0 to go on, negative errno to stop */
typedef int (*change_fn)(const struct change *change, void *arg);

/** change_letter() - 'A', 'M', 'D', 'R' or 'T' */
char change_letter(enum change_kind kind);

/**
 * diff_walk() - call @fn per changed path, parents before children, names in byte order
 *
 * Reads the upper and the named lower paths only; all by descriptor, following no link. An upper file equal
 * to the lower one is no change. A deleted directory is one change; that its content is still what the work
 * deleted is checked by apply. Directories: only a changed mode is a modification.
 * Conflict: the lower object is not the one of the upper's record (layer.h); without records (@kernel): it
 * changed after the upper object was made.
 * Return: 0, what @fn gave, -ELOOP (more than DIFF_DEPTH_MAX levels), -errno with a message.
 */
int diff_walk(const struct diff_layers *layers, change_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));

/**
 * diff_dir_mode_changed() - whether the work changed the mode of a directory that exists in both
 * @dir_fd, @name: the upper directory, @upper and @lower: what fstatat(2) says
 * @kernel: see struct diff_layers
 * @ret_conflict: the host changed it too
 */
bool diff_dir_mode_changed(int dir_fd, const char *name, bool kernel, const struct stat *upper,
                           const struct stat *lower, bool *ret_conflict);

/** diff_born() - when the object @name in @dir_fd was made, ns; 0: not known */
int64_t diff_born(int dir_fd, const char *name);

/** diff_hidden_since() - what changed in the lower after that, the work may not have seen when it hid it with
 * an opaque directory, ns: the birth of the upper @upper_fd, since a directory may have been removed long
 * before it was made anew; 0: not known */
int64_t diff_hidden_since(int upper_fd);
