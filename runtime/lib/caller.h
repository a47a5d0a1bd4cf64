/*
 * caller.h - struct ctx from the environment of the process, and the owner of its strings
 */
#pragma once

#include <limits.h>

#include "runtime/base/ctx.h"
#include "runtime/base/user.h"

/** struct caller - made once in main(), or for a context of the library */
struct caller {
        struct ctx ctx; /* what everyone else gets to see */
        struct user user;
        char uid_text[16];
        char cwd[PATH_MAX];
        char *state_dir, *config_dir;
};

/**
 * caller_init() - read user, home, directories and environment of the caller; what is missing is NULL
 * Not thread-safe against a change of the environment.
 */
void caller_init(struct caller *c);
void caller_deinit(struct caller *c);
