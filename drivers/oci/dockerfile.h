/*
 * dockerfile.h - what a repository may not have an engine do for its image
 */
#pragma once

#include <stddef.h>

#include "runtime/base/error.h"

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
