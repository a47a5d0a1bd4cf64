/*
 * export.h - a region as the sandbox sees it: lower and upper merged, hidden names absent
 */
#pragma once

#include <sys/stat.h>

#include "fs/diff.h"
#include "runtime/base/error.h"

struct rules;

/** struct export_entry - one object; pointers borrowed during the callback */
struct export_entry {
        const char *path; /* relative to the region, any bytes */
        struct stat st;   /* without set-id bits */
        int fd;           /* regular file, open for reading; else -1 */
        const char *link; /* of a symlink: where it leads; else NULL */
};

/** struct export_options - one region; everything borrowed */
struct export_options {
        struct diff_layers layers; /* upper_fd -1: it holds nothing */
        struct rules *rules;       /* NULL: nothing is hidden */
        /* Return: 0 to go on, negative errno to stop */
        int (*put)(const struct export_entry *entry, void *arg);
        /* after everything below a directory. NULL allowed */
        int (*leave)(const struct export_entry *entry, void *arg);
        /* neither file, directory nor symlink (@error 0), or what cannot be read */
        int (*skip)(const char *path, int error, void *arg);
        void *arg;
};

/**
 * export_walk() - all objects, directories before what is below them, names in byte order; not the root
 * itself By descriptor, following no link. Return: 0, -ELOOP (more than DIFF_DEPTH_MAX levels), what a
 * callback gave, -errno with a message.
 */
int export_walk(const struct export_options *opt, struct error *err) __attribute__((warn_unused_result));
