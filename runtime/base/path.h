/*
 * path.h - lexical work on path strings; nothing here touches the file system
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * path_normalize() - make an absolute path of @path: joined to @cwd, "." and "//" removed, ".." applied
 * lexically
 * @cwd:  absolute, used when @path is relative; NULL: @path must be absolute
 * @path: any bytes
 * @ret:  owned
 *
 * For paths inside the sandbox (targets), never to decide what a host path means: symlinks are not seen.
 * Return: 0, -EINVAL (relative without @cwd, empty), -ENAMETOOLONG (PATH_MAX), -ENOMEM.
 */
int path_normalize(const char *cwd, const char *path, char **ret) __attribute__((warn_unused_result));

/** path_join() - @a, a slash when needed, @b. @ret: owned. Return: 0, -ENOMEM. */
int path_join(const char *a, const char *b, char **ret) __attribute__((warn_unused_result));

/**
 * path_below() - what is left of @path below the directory @dir (both normalized)
 * Return: "" when equal, the rest without a leading slash when below, NULL otherwise; borrowed from @path.
 */
const char *path_below(const char *path, const char *dir);

/** path_is_normal() - absolute, without empty, "." and ".." components and without a final slash ("/" itself
 * is) */
bool path_is_normal(const char *path);

/** path_basename() - the last component, borrowed; "" for "/" */
const char *path_basename(const char *path);
