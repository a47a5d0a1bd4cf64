/*
 * built.h - the images that builds leave in an engine: which are ours, when each was used, and their end
 */
#pragma once

#include "drivers/oci/cli.h"
#include "runtime/base/ctx.h"

#define BUILT_PREFIX "localhost/cofferdam-build:" /* the hash of all that went in follows */

enum { BUILT_UNUSED_DAYS = 7 }; /* then gc removes it */

/** built_label() - say on the command line of a build whose the image is */
void built_label(const struct ctx *ctx, struct cli_args *args);

/**
 * built_use() - note that @image of @engine is used now
 * Until the descriptor is closed, built_sweep() removes nothing. Blocks while that is at work. Return:
 * descriptor; -errno: nothing can be noted.
 */
int built_use(const struct ctx *ctx, const char *engine, const char *image);

/** built_fn - @image was removed from @engine */
typedef void built_fn(const char *engine, const char *image, void *arg);

/**
 * built_sweep() - remove the images of this state directory's builds that nobody has used for a week
 * By their labels and names, in the engines that builds have used, and none that a container has. Blocks,
 * forks.
 */
void built_sweep(const struct ctx *ctx, built_fn *fn, void *arg);
