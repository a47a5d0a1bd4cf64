#include "runtime/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/path.h"

int file_read(int fd, size_t max, struct buf *out) {
        size_t got = 0;

        for (;;) {
                char chunk[16384];
                const ssize_t n = read(fd, chunk, sizeof(chunk));
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        return got == 0 ? buf_add(out, "", 0) : 0;
                got += (size_t) n;
                if (got > max)
                        return -EFBIG;
                r = buf_add(out, chunk, (size_t) n);
                if (r < 0)
                        return r;
        }
}

int file_read_at(int dir_fd, const char *path, size_t max, struct buf *out) {
        struct stat st;
        AUTO_FD int fd = -1;

        fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        return file_read(fd, max, out);
}

int write_all(int fd, const void *data, size_t len) {
        const char *p = data;

        while (len > 0) {
                const ssize_t n = write(fd, p, len);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                p += n;
                len -= (size_t) n;
        }
        return 0;
}

static int fill_and_rename(int dir_fd, const char *tmp, const char *name, int fd, const void *data,
                           size_t len, bool durable) {
        int r;

        r = write_all(fd, data, len);
        if (r < 0)
                return r;
        if (durable && fsync(fd) < 0)
                return -errno;
        /* ext4 writes a file out at once that replaces another by rename; swapping the two leaves that to
         * later */
        if (!durable && renameat2(dir_fd, tmp, dir_fd, name, RENAME_EXCHANGE) == 0)
                return unlinkat(dir_fd, tmp, 0) < 0 ? -errno : 0;
        if (renameat(dir_fd, tmp, dir_fd, name) < 0)
                return -errno;
        if (durable && fsync(dir_fd) < 0)
                return -errno;
        return 0;
}

int file_replace_at(int dir_fd, const char *name, const void *data, size_t len, mode_t mode, bool durable) {
        char tmp[64];
        uint64_t salt = 0;
        AUTO_FD int fd = -1;
        int r;

        if (getrandom(&salt, sizeof(salt), 0) < 0)
                return -errno;
        (void) snprintf(tmp, sizeof(tmp), ".tmp-%016llx", (unsigned long long) salt);
        fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return -errno;
        r = fchmod(fd, mode) < 0 ? -errno : fill_and_rename(dir_fd, tmp, name, fd, data, len, durable);
        if (r < 0)
                (void) unlinkat(dir_fd, tmp, 0); /* gone already when only the last fsync failed */
        return r;
}

int file_put(int dir_fd, const char *path, const char *text) {
        const size_t len = strlen(text);
        AUTO_FD int fd = -1;
        ssize_t n;

        fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0)
                return -errno;
        n = write(fd, text, len);
        if (n < 0)
                return -errno;
        return (size_t) n == len ? 0 : -EIO;
}

int file_own_dir(int dir_fd, const char *name, uid_t uid) {
        AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        return st.st_uid == uid && (st.st_mode & (S_IWGRP | S_IWOTH)) == 0 ? TAKE_FD(fd) : -EPERM;
}

/** struct walk - a path that is followed component by component */
struct walk {
        char done[PATH_MAX], rest[PATH_MAX]; /* @done without a final slash; "": the root */
};

static void walk_up(struct walk *w) {
        char *slash = strrchr(w->done, '/');

        if (slash)
                *slash = '\0';
}

/* Takes the next component. Return: whether there was room. */
static bool walk_on(struct walk *w) {
        const size_t n = strcspn(w->rest, "/"), len = strlen(w->done);

        if (n == 2 && memcmp(w->rest, "..", 2) == 0)
                walk_up(w);
        else if (n > 0 && (n != 1 || w->rest[0] != '.')) {
                if (len + n + 2 > sizeof(w->done))
                        return false;
                w->done[len] = '/';
                memcpy(w->done + len + 1, w->rest, n);
                w->done[len + 1 + n] = '\0';
        }
        memmove(w->rest, w->rest + n + (w->rest[n] == '/'), strlen(w->rest + n + (w->rest[n] == '/')) + 1);
        return true;
}

/* Puts the target of the link that @w has come to, @len bytes, before the rest. Return: whether there was
 * room. */
static bool walk_link(struct walk *w, const char *target, size_t len) {
        const size_t rest = strlen(w->rest);

        if (len + 1 + rest + 1 > sizeof(w->rest))
                return false;
        memmove(w->rest + len + 1, w->rest, rest + 1);
        memcpy(w->rest, target, len);
        w->rest[len] = '/';
        if (target[0] == '/')
                w->done[0] = '\0';
        else
                walk_up(w);
        return true;
}

bool file_goes_through(const char *path, const char *dir) {
        enum { LINKS_MAX = 40 };
        struct walk w = { .done = "" };
        int links = 0;

        if (strlen(path) >= sizeof(w.rest) || (path[0] != '/' && !getcwd(w.done, sizeof(w.done))))
                return true;
        memcpy(w.rest, path, strlen(path) + 1);
        while (*w.rest) {
                char target[PATH_MAX];
                const char *below;
                ssize_t n;

                if (!walk_on(&w))
                        return true;
                below = path_below(w.done, dir);
                if (below && *below)
                        return true;
                n = *w.done ? readlink(w.done, target, sizeof(target)) : -1;
                if (n > 0 && (++links > LINKS_MAX || !walk_link(&w, target, (size_t) n)))
                        return true;
        }
        return false;
}
