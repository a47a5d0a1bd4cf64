#include "runtime/base/libexec.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Return: 0: @ret can be executed; -ENOENT and others. */
static int look(const char *dir, size_t len, const char *more, const char *name, char ret[LIBEXEC_PATH_MAX]) {
        char path[LIBEXEC_PATH_MAX];
        const int n = snprintf(path, sizeof(path), "%.*s%s/%s", (int) len, dir, more, name);

        if (n < 0 || (size_t) n >= sizeof(path))
                return -ENAMETOOLONG;
        if (access(path, X_OK) < 0)
                return -errno;
        memcpy(ret, path, (size_t) n + 1);
        return 0;
}

int libexec_path(const char *name, char ret[LIBEXEC_PATH_MAX]) {
        char self[PATH_MAX];
        const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
        const char *slash = n > 0 && (size_t) n < sizeof(self) ? memrchr(self, '/', (size_t) n) : NULL;
        int r = -ENOENT;

        if (slash)
                r = look(self, (size_t) (slash - self), "/../libexec", name, ret);
        return r == -ENOENT ? look(COFFERDAM_LIBEXEC, strlen(COFFERDAM_LIBEXEC), "", name, ret) : r;
}

int libexec_exec(const char *name, char *const argv[], char *const env[]) {
        char path[LIBEXEC_PATH_MAX];
        const int r = libexec_path(name, path);

        if (r < 0)
                return r;
        (void) execve(path, argv, env);
        return -errno;
}

int libexec_check(const char *name) {
        return libexec_path(name, (char[LIBEXEC_PATH_MAX]){ 0 });
}
