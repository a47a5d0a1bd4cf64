/*
 * ctx.h - what the program knows of its caller; made once in main(), passed first, never a global
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/** struct ctx - the caller and his surroundings; strings borrowed from main() and alive until exit */
struct ctx {
        uid_t uid;
        gid_t gid;
        const char *user_name; /* passwd entry, else $USER, else the number */
        const char *home;      /* absolute: $HOME when it is absolute, else passwd; NULL when there is none */
        const char
                *passwd_home;   /* that of the passwd entry alone, which no environment can choose; or NULL */
        const char *shell;      /* passwd entry, else /bin/sh */
        const char *cwd;        /* absolute physical path; NULL: it was deleted or cannot be read */
        const char *state_dir;  /* $XDG_STATE_HOME/cofferdam, ~/.local/state/cofferdam, root:
                                   /var/lib/cofferdam; NULL: no home */
        const char *config_dir; /* $XDG_CONFIG_HOME/cofferdam, ~/.config/cofferdam; NULL: no home */
        const char *const *environ;
        bool stdio_closed[3]; /* the caller had this standard descriptor closed; it is on /dev/null now */
};

/** ctx_getenv() - the value of @name in the caller's environment, borrowed; NULL when it is not set */
const char *ctx_getenv(const struct ctx *ctx, const char *name);
