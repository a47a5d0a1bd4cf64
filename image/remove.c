#include "image/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

/* Depth costs no stack and no descriptors: a directory that is not empty is moved up to the root of the tree,
 * under a name of a number, and emptied from there. */
enum { NAME_SIZE = 48 };

/** struct mover - where directories go that are not empty */
struct mover {
        int top;                   /* the root of the tree */
        unsigned long long random; /* in their names, so that nothing in the tree has them */
        unsigned long next;
};

static void put_name(const struct mover *m, unsigned long number, char ret[static NAME_SIZE]) {
        (void) snprintf(ret, NAME_SIZE, ".rm.%016llx.%lu", m->random, number);
}

/* Whether it was moved to here by us. */
static bool is_moved(const struct mover *m, int fd, const char *name) {
        char prefix[NAME_SIZE];

        put_name(m, 0, prefix);
        return fd == m->top && strncmp(name, prefix, strlen(prefix) - 1) == 0;
}

static int open_dir(int dir, const char *name) {
        int fd;

        (void) !fchmodat(dir, name, 0700,
                         0); /* a directory, as the caller saw; nobody else changes the store */
        fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static bool is_dot(const char *s) {
        return strcmp(s, ".") == 0 || strcmp(s, "..") == 0;
}

/* Removes what is in the directory @fd, and moves what takes longer. */
static int empty(struct mover *m, int fd) {
        AUTO_DIR DIR *d = NULL;
        const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        const struct dirent *e;

        d = copy < 0 ? NULL : fdopendir(copy);
        if (!d) {
                (void) fd_close(copy);
                return -errno;
        }
        rewinddir(d);
        while (errno = 0, (e = readdir(d))) {
                char name[NAME_SIZE];

                if (is_dot(e->d_name) || is_moved(m, fd, e->d_name))
                        continue;
                if (unlinkat(fd, e->d_name, 0) == 0 || errno == ENOENT)
                        continue;
                if (errno != EISDIR)
                        return -errno;
                if (unlinkat(fd, e->d_name, AT_REMOVEDIR) == 0)
                        continue;
                if (errno != ENOTEMPTY && errno != EEXIST)
                        return -errno;
                put_name(m, m->next++, name);
                (void) !fchmodat(fd, e->d_name, 0700, 0); /* its ".." changes, which takes a right over it */
                if (renameat(fd, e->d_name, m->top, name) < 0)
                        return -errno;
        }
        return errno ? -errno : 0;
}

int remove_tree_at(int dir_fd, const char *name) {
        struct mover m = { 0 };
        AUTO_FD int top = -1;
        struct stat st;
        int r;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISDIR(st.st_mode))
                return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
        top = open_dir(dir_fd, name);
        if (top < 0)
                return top;
        m.top = top;
        if (getrandom(&m.random, sizeof(m.random), 0) < 0)
                return -errno;
        r = empty(&m, top);
        for (unsigned long done = 0; r == 0 && done < m.next; done++) {
                AUTO_FD int fd = -1;
                char moved[NAME_SIZE];

                put_name(&m, done, moved);
                fd = open_dir(top, moved);
                r = fd < 0 ? fd : empty(&m, fd);
                if (r == 0 && unlinkat(top, moved, AT_REMOVEDIR) < 0)
                        r = -errno;
        }
        return r < 0 ? r : unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
