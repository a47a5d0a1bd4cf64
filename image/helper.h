/*
 * helper.h - run docker-credential-<name>, bounded
 */
#pragma once

#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum { HELPER_TIMEOUT_MS = 30000 };

/**
 * helper_run() - ask a program for the login of @key
 * @name: letters, digits, '.', '_' and '-'
 * @path: PATH
 * @out:  what it said on standard output; empty: it knows none. @out->max bounds it.
 * Forks; whatever it leaves running is ended with it. Return: 0, -ENOENT (no such program), -ETIMEDOUT, -EIO
 * (it failed), -E2BIG (it said too much), -errno.
 */
int helper_run(const char *name, const char *path, const char *key, struct buf *out, struct error *err)
        __attribute__((warn_unused_result));
