/*
 * gitnames.h - files of the workspace that the host's git already runs or reads because its configuration
 * says so
 */
#pragma once

#include <stddef.h>

#include "fs/pin.h"
#include "runtime/base/ctx.h"

enum { GITNAMES_MAX = 64 };

/**
 * gitnames_read() - paths below the workspace that the repository's or the caller's git configuration names
 * in a key that makes git run or read something (core.hooksPath, include.path, filter.*.smudge, alias.*, ...)
 * @ws:  the pinned workspace
 * @fn:  called with each, relative to the workspace, once or more; a path that is a directory means all
 * below. Return: 0 to go on, -errno. The configuration is the host's, but the work may have made a file that
 * it names: nothing is followed or run. A configuration that cannot be read for certain, and includes of it,
 * name nothing more. At most GITNAMES_MAX. Return: 0, what @fn gave.
 */
int gitnames_read(const struct ctx *ctx, const struct pin *ws, int (*fn)(const char *path, void *arg),
                  void *arg) __attribute__((warn_unused_result));
