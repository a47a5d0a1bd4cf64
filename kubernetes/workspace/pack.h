/*
 * pack.h - the host's workspace as a tar stream for a copy of it
 */
#pragma once

#include "fs/rules.h"
#include "kubernetes/workspace/paths.h"
#include "runtime/base/error.h"

/** struct pack_report - what went and what stayed; both sets sealed, freed by the caller */
struct pack_report {
        struct paths sent; /* every name in the archive */
        struct paths kept; /* every name that is there and was not sent */
        uint64_t bytes;
};

/** pack_sink - takes all of @len bytes. Return: 0, or -errno, which ends it. */
typedef int (*pack_sink)(void *arg, const void *data, size_t len);

/**
 * pack_stream() - write the directory @root_fd to @sink
 * @rules: what they hide, or cannot judge, is not sent; NULL: nothing is hidden
 * @ret:   empty at the call; to be freed also after a failure
 * Members are named one by one, never the workspace itself: who unpacks them need not own it. Files that
 * cannot be read, sockets, FIFOs, devices and git's records of linked worktrees stay. GNU's format, which
 * busybox reads, too. Blocks. Return: 0, what @sink returned, -E2BIG, -errno with a message.
 */
int pack_stream(int root_fd, struct rules *rules, pack_sink sink, void *arg, struct pack_report *ret,
                struct error *err) __attribute__((warn_unused_result));
