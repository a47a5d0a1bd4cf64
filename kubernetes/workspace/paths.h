/*
 * paths.h - a set of paths: filled in any order, sealed, then asked
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { PATHS_MAX = 4000000, PATHS_BYTES_MAX = 1 << 30 };

/** struct paths - owned strings; zero is the empty set */
struct paths {
        char **v;
        size_t n, cap;
        size_t bytes;
};

/** paths_add() - add a copy of @path. Return: 0, -E2BIG (PATHS_MAX, PATHS_BYTES_MAX), -ENOMEM. */
int paths_add(struct paths *paths, const char *path) __attribute__((warn_unused_result));

/** paths_seal() - sort what was added, so that a directory stands before what is in it, each path once */
void paths_seal(struct paths *paths);

/** paths_has() - whether the sealed set holds @path */
bool paths_has(const struct paths *paths, const char *path);

/** paths_has_below() - whether the sealed set holds something below the directory @path */
bool paths_has_below(const struct paths *paths, const char *path);

void paths_deinit(struct paths *paths);
#define AUTO_PATHS __attribute__((cleanup(paths_deinit)))
