#include "runtime/base/libexec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int execute(const char *dir, size_t len, const char *more, const char *name, char *const argv[],
                   char *const env[]) {
        char path[PATH_MAX];
        const int n = snprintf(path, sizeof(path), "%.*s%s/%s", (int) len, dir, more, name);

        if (n < 0 || (size_t) n >= sizeof(path))
                return -ENAMETOOLONG;
        (void) execve(path, argv, env);
        return -errno;
}

int libexec_exec(const char *name, char *const argv[], char *const env[]) {
        char self[PATH_MAX];
        const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
        const char *slash = n > 0 && (size_t) n < sizeof(self) ? memrchr(self, '/', (size_t) n) : NULL;
        int r = -ENOENT;

        if (slash)
                r = execute(self, (size_t) (slash - self), "/../libexec", name, argv, env);
        return r == -ENOENT ? execute(COFFERDAM_LIBEXEC, strlen(COFFERDAM_LIBEXEC), "", name, argv, env) : r;
}
