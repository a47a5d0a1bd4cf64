/*
 * dockerfile.h - what a repository may not have an engine do for its image
 */
#pragma once

#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/spec/spec.h"

/**
 * dockerfile_check() - whether the Dockerfile @text only builds: of images of registries, of the context, and
 * of what its commands make in their container
 *
 * The engine itself reads images from files of the host (FROM oci:/a), fetches URLs from its own network
 * (ADD), and has options that lead past "--network none" or to directories of the host (RUN --network,
 * --mount). Said by someone foreign, each is refused; rather one too many, as every line counts as the start
 * of an instruction. Return: 0, -EPERM with a message that names the line, -E2BIG, -ENOMEM.
 */
int dockerfile_check(const char *text, size_t len, struct error *err) __attribute__((warn_unused_result));

/** dockerfile_base_fn - @image is a base. Return: 0, else what ends the walk, with a message. */
typedef int dockerfile_base_fn(const char *image, void *arg, struct error *err);

/**
 * dockerfile_bases() - name all images that the Dockerfile @text may build on, some perhaps twice
 * @args: of the build, as they are told to the engine; a value is never NULL
 * Return: 0, what @fn did, -EPERM (one that cannot be told) with a message, -E2BIG, -ENOMEM.
 */
int dockerfile_bases(const char *text, const struct spec_env *args, size_t n_args, dockerfile_base_fn *fn,
                     void *arg, struct error *err) __attribute__((warn_unused_result));
