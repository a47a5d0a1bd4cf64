/*
 * build.h - the image of a specification that says how to build it
 */
#pragma once

#include <stdbool.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

/** build_wanted() - whether the specification has an image to build, and somebody to show it */
bool build_wanted(const struct spec *spec);

/** build_sweep() - remove the copies that builds left that were killed. Blocks, forks. */
void build_sweep(const struct ctx *ctx);

/**
 * build_image() - build it, unless it is there: its name follows from all that goes into it
 * Who builds: the engine that is the driver; for the native driver podman, buildah or docker, whichever is
 * there first, and the image is imported. What the build reads is a copy that this function makes by
 * descriptor: nothing outside of the context, and nothing that changes meanwhile. A repository's build has no
 * network unless the run has the host's.
 * @ret: @spec with that image in the place of the build; freed with spec_free()
 * Blocks, forks. Return: 0, DRIVER_HOST_LACKS (nobody builds here), DRIVER_NO_IMAGE (it failed), -ETIMEDOUT,
 * -E2BIG, -EFBIG, -errno, each with a message; what a failed build said is logged.
 */
int build_image(const struct ctx *ctx, const struct spec *spec, struct spec **ret, struct error *err)
        __attribute__((warn_unused_result));
