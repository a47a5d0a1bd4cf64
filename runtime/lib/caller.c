/* Everything the program, or a user of the library, learns from the environment is read here, once. */
#include "runtime/lib/caller.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/path.h"

/* An environment variable that holds an absolute path, else NULL (XDG base directory specification: ignore
 * others). */
static const char *absolute_env(const char *name) {
        const char *v = getenv(name);

        return v && *v == '/' ? v : NULL;
}

/* Normalized: the state directory becomes a rule of the guard and is compared with other paths. */
static char *join(const char *dir, const char *rest) {
        char *path = NULL, *normal = NULL;

        if (dir && path_join(dir, rest, &path) == 0 && path_normalize(NULL, path, &normal) < 0)
                normal = NULL;
        free(path);
        return normal;
}

static const char *user_name_of(struct caller *c) {
        const char *user = getenv("USER");

        if (c->user.name)
                return c->user.name;
        if (user && *user)
                return user;
        (void) snprintf(c->uid_text, sizeof(c->uid_text), "%u", (unsigned int) c->ctx.uid);
        return c->uid_text;
}

static void set_dirs(struct caller *c) {
        const char *state = absolute_env("XDG_STATE_HOME"), *config = absolute_env("XDG_CONFIG_HOME");

        if (state)
                c->state_dir = join(state, "cofferdam");
        else if (c->ctx.uid == 0)
                c->state_dir = strdup("/var/lib/cofferdam");
        else
                c->state_dir = join(c->ctx.home, ".local/state/cofferdam");
        c->config_dir = config ? join(config, "cofferdam") : join(c->ctx.home, ".config/cofferdam");
        c->ctx.state_dir = c->state_dir;
        c->ctx.config_dir = c->config_dir;
}

void caller_init(struct caller *c) {
        const char *home = absolute_env("HOME");

        *c = (struct caller){ .ctx = { .uid = geteuid(), .gid = getegid() } };
        if (user_by_uid("/etc/passwd", c->ctx.uid, &c->user) < 0)
                c->user = (struct user){ 0 };
        c->ctx.user_name = user_name_of(c);
        c->ctx.home = home ? home : c->user.home;
        c->ctx.passwd_home = c->user.home;
        c->ctx.shell = c->user.shell && *c->user.shell ? c->user.shell : "/bin/sh";
        c->ctx.cwd = getcwd(c->cwd, sizeof(c->cwd)) && c->cwd[0] == '/' ? c->cwd : NULL;
        c->ctx.environ = (const char *const *) environ;
        set_dirs(c);
}

void caller_deinit(struct caller *c) {
        user_deinit(&c->user);
        free(c->state_dir);
        free(c->config_dir);
}
