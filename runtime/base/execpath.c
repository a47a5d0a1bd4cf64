#include "runtime/base/execpath.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static int exec_file(const char *file, char *const argv[], char *const env[]) {
        (void) execve(file, argv, env);
        return errno;
}

int exec_in_path(char *const argv[], char *const env[], const char *path) {
        const char *name = argv[0], *dir = path;
        int found = ENOENT;

        if (strchr(name, '/'))
                return exec_file(name, argv, env);
        if (!*name)
                return ENOENT;
        while (dir && *dir) {
                const size_t n = strcspn(dir, ":"), len = strlen(name);
                char file[PATH_MAX];
                int e;

                if (n > 0 && n + len + 2 <= sizeof(file)) {
                        memcpy(file, dir, n);
                        file[n] = '/';
                        memcpy(file + n + 1, name, len + 1);
                        e = exec_file(file, argv, env);
                        if (e == EACCES)
                                found = EACCES;
                        else if (e != ENOENT && e != ENOTDIR && e != ESTALE && e != ELOOP)
                                return e;
                }
                dir += n + (dir[n] == ':');
        }
        return found;
}
