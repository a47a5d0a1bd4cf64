/*
 * triggers.h - instructions that an image has for whoever builds on it (ONBUILD)
 */
#pragma once

#include <stdbool.h>

#include "runtime/base/ctx.h"
#include "runtime/base/error.h"

/**
 * triggers_check() - whether @image, which is pulled when it is not there, has none
 * @engine: "podman", "buildah", "docker"
 * Blocks, forks. Return: 0, -EPERM (it has some), DRIVER_NO_IMAGE (it is not to be had), -ETIMEDOUT, -errno.
 */
int triggers_check(const struct ctx *ctx, const char *engine, const char *image, struct error *err)
        __attribute__((warn_unused_result));

/** triggers_in() - whether the configuration @json of an image has some, however its key is written */
bool triggers_in(const char *json);
