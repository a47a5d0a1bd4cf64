/*
 * tar.h - a tar stream (POSIX.1-2001 pax), written entry by entry
 */
#pragma once

#include "fs/export.h"

/** struct tar - embedded */
struct tar {
        int fd; /* borrowed */
        uint64_t bytes;
};

/**
 * tar_put() - append a file, directory or symlink
 * Long and odd names, large sizes and nanoseconds go into a pax header; files with holes are written in GNU's
 * sparse format 1.0, which GNU tar, bsdtar and Python read. A file that shrinks meanwhile is filled with
 * zeros. Blocks. Return: 0, -EPIPE, -errno.
 */
int tar_put(struct tar *tar, const struct export_entry *entry) __attribute__((warn_unused_result));

/** tar_end() - the end of the archive. Return: 0, -errno. */
int tar_end(struct tar *tar) __attribute__((warn_unused_result));
