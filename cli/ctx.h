/*
 * ctx.h - the owner of struct ctx's strings
 */
#pragma once

#include <limits.h>

#include "runtime/base/ctx.h"
#include "runtime/base/user.h"

/** struct cli_ctx - made once in main() */
struct cli_ctx {
        struct ctx ctx; /* what everyone else gets to see */
        struct user user;
        char uid_text[16];
        char cwd[PATH_MAX];
        char *state_dir, *config_dir;
};

/**
 * cli_ctx_init() - read user, home, directories and environment of the caller; what is missing is NULL
 * Occupies closed standard descriptors with /dev/null and notes them. Return: 0, -EBADF when that failed.
 */
int cli_ctx_init(struct cli_ctx *c);
void cli_ctx_deinit(struct cli_ctx *c);
