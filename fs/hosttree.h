/*
 * hosttree.h - a directory tree of the host that is about to be removed
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum { HOSTTREE_DEPTH_MAX = 256 };

/**
 * hosttree_check() - whether the directory @name in @dir_fd may be removed with all it holds
 * @since_ns: nothing below may have changed later (status change time); INT64_MAX: whenever
 * The directory's own times are not looked at: renaming it changes them.
 * Return: 0, -ESTALE (something is newer), -EBUSY (another file system is mounted inside), -EACCES (a
 * directory could not be emptied), -ELOOP (too deep), -errno.
 */
int hosttree_check(int dir_fd, const char *name, int64_t since_ns) __attribute__((warn_unused_result));

/** hosttree_remove() - remove @name, a file or a whole directory, following nothing. Return: 0 or -errno. */
int hosttree_remove(int dir_fd, const char *name) __attribute__((warn_unused_result));
