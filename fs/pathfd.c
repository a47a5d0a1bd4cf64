#include "fs/pathfd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

bool pathfd_is_sane(const char *path) {
        for (;;) {
                const size_t n = strcspn(path, "/");

                if (n == 0 || n > NAME_MAX || (n == 1 && path[0] == '.') ||
                    (n == 2 && path[0] == '.' && path[1] == '.'))
                        return false;
                if (path[n] == '\0')
                        return true;
                path += n + 1;
        }
}

/* Length of the longest run of whole components of @path[0..len) that one system call takes. */
static size_t chunk_len(const char *path, size_t len) {
        size_t n = PATH_MAX - 1;

        if (len <= n)
                return len;
        while (path[n] != '/') /* components are at most NAME_MAX long: found at once */
                n--;
        return n;
}

int pathfd_open_parent(int root_fd, const char *path, const char **ret_name) {
        const char *slash, *name;
        AUTO_FD int fd = -1;

        if (!pathfd_is_sane(path))
                return -EINVAL;
        slash = strrchr(path, '/');
        name = slash ? slash + 1 : path;
        fd = open_beneath(root_fd, ".", O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
                return TAKE_FD(fd);
        while (path < name) {
                char chunk[PATH_MAX];
                const size_t n = chunk_len(path, (size_t) (name - 1 - path));
                int next;

                memcpy(chunk, path, n);
                chunk[n] = '\0';
                next = open_beneath(fd, chunk, O_RDONLY | O_DIRECTORY, 0);
                if (next < 0)
                        return next;
                (void) fd_close(fd);
                fd = next;
                path += n + 1;
        }
        *ret_name = name;
        return TAKE_FD(fd);
}
