#include "runtime/base/libexec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* @argv NULL: only whether it could be executed */
static int execute(const char *dir, size_t len, const char *more, const char *name, char *const argv[],
                   char *const env[]) {
        char path[PATH_MAX];
        const int n = snprintf(path, sizeof(path), "%.*s%s/%s", (int) len, dir, more, name);

        if (n < 0 || (size_t) n >= sizeof(path))
                return -ENAMETOOLONG;
        if (!argv)
                return access(path, X_OK) < 0 ? -errno : 0;
        (void) execve(path, argv, env);
        return -errno;
}

static int find(const char *name, char *const argv[], char *const env[]) {
        char self[PATH_MAX];
        const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
        const char *slash = n > 0 && (size_t) n < sizeof(self) ? memrchr(self, '/', (size_t) n) : NULL;
        int r = -ENOENT;

        if (slash)
                r = execute(self, (size_t) (slash - self), "/../libexec", name, argv, env);
        return r == -ENOENT ? execute(COFFERDAM_LIBEXEC, strlen(COFFERDAM_LIBEXEC), "", name, argv, env) : r;
}

int libexec_exec(const char *name, char *const argv[], char *const env[]) {
        return find(name, argv, env);
}

int libexec_check(const char *name) {
        return find(name, NULL, NULL);
}
