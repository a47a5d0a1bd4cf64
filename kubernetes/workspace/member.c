#include "kubernetes/workspace/member.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fs/layer.h"
#include "runtime/base/path.h"

const char member_credentials[] = "cofferdam-credentials";

static int refuse(int r, const char *why, const char **ret_why) {
        if (ret_why)
                *ret_why = why;
        return r;
}

static bool is_dots(const char *s, size_t n, size_t dots) {
        return n == dots && memcmp(s, "..", n) == 0;
}

/* Return: 0 (nothing to append), 1, or why the component may not be. */
static int check_component(const char *s, size_t n, const char **ret_why) {
        static const size_t temp = sizeof(LAYER_TEMP_PREFIX) - 1;

        if (n == 0 || is_dots(s, n, 1))
                return 0;
        if (is_dots(s, n, 2))
                return refuse(-EPERM, "it goes up", ret_why);
        if (n > NAME_MAX)
                return refuse(-ENAMETOOLONG, "a name in it is too long", ret_why);
        if (n >= temp && memcmp(s, LAYER_TEMP_PREFIX, temp) == 0)
                return refuse(-EPERM, "it is a name of cofferdam's own", ret_why);
        return 1;
}

int member_path(const char *raw, char **ret, const char **ret_why) {
        size_t len = 0, depth = 0;
        char *path;

        if (raw[0] == '/')
                return refuse(-EPERM, "it is absolute", ret_why);
        if (strlen(raw) > 2 * (size_t) MEMBER_PATH_MAX)
                return refuse(-ENAMETOOLONG, "it is too long", ret_why);
        path = malloc(strlen(raw) + 1);
        if (!path)
                return refuse(-ENOMEM, "out of memory", ret_why);
        while (*raw) {
                const size_t n = strcspn(raw, "/");
                int r = check_component(raw, n, ret_why);

                if (r == 1 && (++depth > MEMBER_DEPTH_MAX || len + n + 1 > MEMBER_PATH_MAX))
                        r = refuse(-ENAMETOOLONG, "it is too long or too deep", ret_why);
                if (r < 0) {
                        free(path);
                        return r;
                }
                if (r == 1) {
                        if (len > 0)
                                path[len++] = '/';
                        memcpy(path + len, raw, n);
                        len += n;
                }
                raw += n + (raw[n] == '/');
        }
        path[len] = '\0';
        *ret = path;
        return 0;
}

/** struct part - one component of a path */
struct part {
        const char *s;
        size_t n;
};

/* The component at *@path, which moves on; n 0: none is left */
static struct part next_part(const char **path) {
        const struct part p = { *path, strcspn(*path, "/") };

        *path += p.n + ((*path)[p.n] == '/');
        return p;
}

static bool part_is(struct part p, const char *name) {
        return p.n == strlen(name) && strncasecmp(p.s, name, p.n) == 0;
}

static bool is_secret_part(struct part p) {
        static const char *const names[] = { "config", "config.worktree", "hooks", "credentials",
                                             member_credentials };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (part_is(p, names[i]))
                        return true;
        return false;
}

/* @rest: below a git directory. Git directories of submodules and worktrees have names of any depth: all that
 * could be one is looked at, until refs, logs or objects begin, where branches may be called anything. */
static bool excluded_in_git(const char *rest) {
        struct part p = next_part(&rest);
        const bool nested = part_is(p, "modules") || part_is(p, "worktrees");

        if (!nested)
                return is_secret_part(p);
        while ((p = next_part(&rest)).n > 0) {
                if (is_secret_part(p))
                        return true;
                if (part_is(p, "refs") || part_is(p, "logs") || part_is(p, "objects"))
                        return false;
        }
        return false;
}

bool member_excluded(const char *path) {
        while (*path) {
                const struct part p = next_part(&path);

                if (part_is(p, ".git") && excluded_in_git(path))
                        return true;
        }
        return false;
}

static size_t depth_of(const char *path) {
        size_t n = 0;

        for (; *path; path++)
                n += *path == '/';
        return n;
}

bool member_link_stays(const char *path, const char *target, const char *root) {
        size_t up = depth_of(path);
        bool named = false;

        if (target[0] == '/') {
                target = root ? path_below(target, root) : NULL;
                if (!target)
                        return false;
                up = 0;
        }
        while (*target) {
                const struct part p = next_part(&target);

                if (p.n == 0 || is_dots(p.s, p.n, 1))
                        continue;
                if (!is_dots(p.s, p.n, 2))
                        named = true;
                else if (named || up-- == 0)
                        return false;
        }
        return true;
}
