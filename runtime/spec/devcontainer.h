/*
 * devcontainer.h - what a devcontainer.json says of a sandbox, as far as a repository may say it
 *
 * See cofferdam.yaml(5) "The repository's files" for what is read, what is reported and what is never done.
 */
#pragma once

#include <stddef.h>

#include "runtime/base/ctx.h"
#include "runtime/spec/spec.h"

/** struct devcontainer - one such file; everything borrowed */
struct devcontainer {
        const char *file;      /* for messages: ".devcontainer/devcontainer.json" */
        const char *dir;       /* absolute host path of the directory it is in */
        const char *workspace; /* absolute host path */
        const struct ctx *ctx; /* whose environment ${localEnv:NAME} means */
};

/**
 * devcontainer_merge() - what @data says over @spec, in the repository's tier
 * @spec: half changed on failure
 * @data: JSON with comments; overwritten with JSON without
 * Values that a repository may not give, and properties that have no counterpart, are noted (refuse.h).
 * Return: 0; -EINVAL: unusable, the message says why; -E2BIG, -EFBIG, -ENOMEM.
 */
int devcontainer_merge(struct spec *spec, const struct devcontainer *from, char *data, size_t len,
                       struct error *err) __attribute__((warn_unused_result));

/**
 * devcontainer_expand() - @text with the variables of the host in place; others are left as they are
 * ${localWorkspaceFolder}, ${localWorkspaceFolderBasename}, ${localEnv:NAME}, ${localEnv:NAME:default}; a
 * NAME that is not on the list counts as not set.
 * @ret: owned
 * Return: 0, -E2BIG, -ENOMEM.
 */
int devcontainer_expand(const struct devcontainer *from, const char *text, char **ret)
        __attribute__((warn_unused_result));
