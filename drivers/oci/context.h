/*
 * context.h - what a build may read: hashed, or copied to a directory that nobody changes any more
 */
#pragma once

#include <sha2.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"

enum {
        CONTEXT_FILES_MAX = 200000,
        CONTEXT_DEPTH_MAX = 128,
        CONTEXT_BYTES_MAX_MIB = 4096,
};

/**
 * context_walk() - everything below the directory @from, in an order that does not depend on its file system
 * @hash: gets names, permissions, contents and targets of links
 * @to:   empty directory that gets a copy of what is hashed; -1: nothing is copied
 * @docker: the engine is docker, which reads .dockerignore only, and not .containerignore before it
 * What is ignored (see ignore.h) is neither hashed nor copied, but for the file that says so.
 * Links are taken as they are, never followed; sockets, FIFOs and devices are left out. A list of
 * what an engine is to ignore is no link.
 * Blocks. Return: 0, -E2BIG, -EFBIG (a limit above), -errno, with
 * a message that names the file.
 */
int context_walk(int from, int to, bool docker, SHA2_CTX *hash, struct error *err)
        __attribute__((warn_unused_result));
