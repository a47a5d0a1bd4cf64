/*
 * repository.h - what the workspace itself says of its sandbox: .cofferdam.yaml and devcontainer.json
 */
#pragma once

#include <stdbool.h>

#include "runtime/base/ctx.h"
#include "runtime/spec/spec.h"

/** repository_speaks() - whether the directory @workspace has such a file */
bool repository_speaks(const char *workspace);

/**
 * repository_read() - its files over the built-in values: devcontainer.json, then .cofferdam.yaml
 * Opened below the directory, without following a link. A devcontainer.json that cannot be used is noted
 * (refuse.h) and says nothing; a .cofferdam.yaml is read like any specification.
 * Blocks. Return: 0, -EINVAL, -E2BIG, -EFBIG, -ENOMEM, -errno of the open.
 */
int repository_read(struct spec *spec, const struct ctx *ctx, const char *workspace, struct error *err)
        __attribute__((warn_unused_result));

/**
 * repository_settle() - when everyone has spoken: what the repository said that others have made void, or
 * that does not stay in @workspace, is dropped; a network that it leaves without a mode gets one
 * Blocks. Return: 0, -ENOMEM.
 */
int repository_settle(struct spec *spec, const char *workspace, const struct spec_env_view *view,
                      struct error *err) __attribute__((warn_unused_result));

/**
 * repository_without_root() - a specification that cannot be served because of the image that the repository
 * names, as if it had named none; mode: auto, and nobody asked for strict isolation
 * @why: it cannot
 * @ret: freed with spec_free(); NULL: it is not the repository's doing, or not to be done without
 * Return: 0, -ENOMEM.
 */
int repository_without_root(const struct spec *spec, const char *why, struct spec **ret, struct error *err)
        __attribute__((warn_unused_result));
