/*
 * resolve.h - from everything that was said to one specification
 */
#pragma once

#include <jansson.h>

#include "runtime/base/ctx.h"
#include "runtime/spec/flags.h"

/**
 * spec_resolve() - the specification of this run, validated
 *
 * Lowest first: built-in values, $CONFIG/config.yaml, the environment (COFFERDAM_<OPTION>, and the
 * ITERION_SANDBOX_ names), the --spec files, the options - whatever their order on the command line.
 * workspace.source is always set on success.
 * @flags: of a flag_set with @spec
 * @ret:   caller frees with spec_free()
 * Blocks (reads files). Return: 0; -ENOTSUP (CAPABILITY_UNSUPPORTED) and -ESTALE (the current directory is
 * gone and no workspace was named) speak of this build and host; -EINVAL, -E2BIG, -EFBIG, -EPERM and -errno
 * of an open of what was said; -ENOMEM.
 */
int spec_resolve(const struct ctx *ctx, const struct flags *flags, struct spec **ret, struct error *err)
        __attribute__((warn_unused_result));

/** struct spec_said - what a caller of the library says; called in this order, each 0 or -errno as
 * spec_resolve() */
struct spec_said {
        int (*files)(const void *arg, struct spec *spec, const struct spec_env_view *view, struct error *err);
        int (*options)(const void *arg, struct spec *spec, const struct spec_env_view *view,
                       struct error *err);
        const void *arg;
};

/** spec_resolve_said() - spec_resolve() with @said in the places of files and options */
int spec_resolve_said(const struct ctx *ctx, const struct spec_said *said, struct spec **ret,
                      struct error *err) __attribute__((warn_unused_result));

/**
 * spec_dump() - every value with the tier that said it; values of variables are left out
 * {"network": {"mode": {"value": "none", "tier": "built-in"}}, "env": {"value": [{"name": "A", "tier": ..}],
 * ..} Return: new reference, NULL: out of memory.
 */
json_t *spec_dump(const struct spec *spec);
