/*
 * follow.h - read a file of a run that may still grow
 */
#pragma once

#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/run/state.h"

/** follow_fn - takes the next bytes. Return: 0 to go on, negative errno to stop */
typedef int (*follow_fn)(const char *data, size_t len, void *arg);

/** follow_pidfd() - the supervisor of a run that lives. Return: owned descriptor, -ESRCH (it does not),
 * -errno. */
int follow_pidfd(const struct run_dir *dir) __attribute__((warn_unused_result));

/**
 * follow_file() - hand the content of @name in @dir_fd to @fn, and with @pidfd what is added to it until that
 * process is gone
 * A file that is renamed (a log that rotates) is read to its end, then its successor.
 * @pidfd: borrowed, -1: only what is there
 * Blocks. Return: 0, -ENOENT (no such file), what @fn gave, -errno.
 */
int follow_file(int dir_fd, const char *name, int pidfd, follow_fn fn, void *arg)
        __attribute__((warn_unused_result));
