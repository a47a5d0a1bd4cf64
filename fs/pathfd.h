/*
 * pathfd.h - descriptors for relative paths of any length, beneath a directory and through no symlink
 */
#pragma once

#include <stdbool.h>

/**
 * pathfd_is_sane() - whether @path is one or more plain components: not empty, no leading, double or final
 * slash, no "." or "..", none longer than NAME_MAX
 */
bool pathfd_is_sane(const char *path);

/**
 * pathfd_open_parent() - the directory that holds the last component of @path
 * @path:     sane (pathfd_is_sane())
 * @ret_name: last component, borrowed from @path
 * Return: O_RDONLY|O_DIRECTORY descriptor (owned), -ELOOP or -ENOTDIR (a parent is a symlink or a file),
 * -ENOENT, -EINVAL (not sane), -errno.
 */
int pathfd_open_parent(int root_fd, const char *path, const char **ret_name)
        __attribute__((warn_unused_result));
