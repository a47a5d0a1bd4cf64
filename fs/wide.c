#include "fs/wide.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

/* Return: 1 (looked, nothing to do), 0, -errno */
static int look(struct wide *w, int dir_fd, const char *name, mode_t rights) {
        w->fd = fd_close(w->fd);
        w->fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (w->fd < 0 || fstat(w->fd, &w->st) < 0)
                return -errno;
        if (S_ISLNK(w->st.st_mode))
                return -ELOOP;
        (void) snprintf(w->proc, sizeof(w->proc), "/proc/self/fd/%d", w->fd);
        return (w->st.st_mode & rights) == rights;
}

int wide_init(struct wide *ret, int dir_fd, const char *name, mode_t rights) {
        int r = look(ret, dir_fd, name, rights);

        if (r != 0)
                return r < 0 ? r : 0;
        ret->lock_fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (ret->lock_fd >= 0 && flock(ret->lock_fd, LOCK_EX) < 0)
                return -errno;
        r = look(ret, dir_fd, name, rights); /* somebody else may have had it open */
        if (r != 0)
                return r < 0 ? r : 0;
        if (chmod(ret->proc, (ret->st.st_mode & 07777) | rights) < 0)
                return -errno;
        ret->added = rights;
        return 0;
}

void wide_deinit(struct wide *w) {
        const int saved = errno;

        if (w->added)
                (void) !chmod(w->proc, w->st.st_mode & 07777);
        w->added = 0;
        w->fd = fd_close(w->fd);
        w->lock_fd = fd_close(w->lock_fd);
        errno = saved;
}
