#include "fs/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

/** struct walking - a path on its way: @real is where @fd is, found in @dir_fd, @todo what is left to go */
struct walking {
        int fd, dir_fd;
        unsigned links;
        struct buf real;
        struct buf todo;
};

static void walking_deinit(struct walking *w) {
        w->fd = fd_close(w->fd);
        w->dir_fd = fd_close(w->dir_fd);
        buf_deinit(&w->real);
        buf_deinit(&w->todo);
}

/* Moves to @fd, found in @dir_fd; consumes both. */
static void go_to(struct walking *w, int fd, int dir_fd) {
        const int old = w->fd;

        if (w->dir_fd != dir_fd)
                (void) fd_close(w->dir_fd);
        w->dir_fd = dir_fd;
        w->fd = fd;
        if (old != dir_fd)
                (void) fd_close(old);
}

static int go_to_root(struct walking *w) {
        const int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return -errno;
        go_to(w, fd, -1);
        buf_deinit(&w->real);
        w->real = (struct buf){ .max = PATH_MAX - 1 };
        return 0;
}

static int open_up(int fd) {
        return sys_openat2(fd, "..", O_PATH | O_DIRECTORY, 0, RESOLVE_NO_MAGICLINKS);
}

static int go_up(struct walking *w) {
        const int fd = open_up(w->fd), dir_fd = fd < 0 ? fd : open_up(fd);
        char *slash;

        if (dir_fd < 0) {
                (void) fd_close(fd);
                return dir_fd;
        }
        go_to(w, fd, dir_fd);
        slash = w->real.len ? strrchr(w->real.data, '/') : NULL;
        if (slash) {
                *slash = '\0';
                w->real.len = (size_t) (slash - w->real.data);
        }
        return 0;
}

/* Puts the target of the link open as @fd in front of what is left to go. */
static int follow(struct walking *w, int fd) {
        AUTO_BUF struct buf todo = { .max = (size_t) 2 * PATH_MAX };
        char target[PATH_MAX];
        struct statfs fs;
        ssize_t n;
        int r;

        if (++w->links > WALK_LINKS_MAX)
                return -ELOOP;
        if (fstatfs(fd, &fs) < 0)
                return -errno;
        if (fs.f_type == PROC_SUPER_MAGIC)
                return -ELOOP;
        n = readlinkat(fd, "", target, sizeof(target));
        if (n < 0)
                return -errno;
        if (n == 0)
                return -ENOENT;
        if ((size_t) n == sizeof(target))
                return -ENAMETOOLONG;
        r = target[0] == '/' ? go_to_root(w) : 0;
        if (r == 0)
                r = buf_add(&todo, target, (size_t) n);
        if (r == 0)
                r = buf_add(&todo, "/", 1);
        if (r == 0)
                r = buf_str(&todo, buf_cstr(&w->todo));
        if (r < 0)
                return r == -E2BIG ? -ENAMETOOLONG : r;
        buf_deinit(&w->todo);
        w->todo = TAKE(todo, (struct buf){ 0 });
        return 0;
}

/* Asked for as a directory, what an automounter answers for is mounted. */
static int open_name(int dir_fd, const char *name) {
        const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
        const int fd = sys_openat2(dir_fd, name, O_PATH | O_NOFOLLOW | O_DIRECTORY, 0, resolve);

        return fd == -ENOTDIR || fd == -ELOOP ? sys_openat2(dir_fd, name, O_PATH | O_NOFOLLOW, 0, resolve)
                                              : fd;
}

static int go_down(struct walking *w, const char *name) {
        AUTO_FD int fd = -1;
        struct stat st;
        int r;

        fd = open_name(w->fd, name);
        if (fd < 0)
                return TAKE(fd, -1);
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISLNK(st.st_mode))
                return follow(w, fd);
        r = buf_add(&w->real, "/", 1);
        if (r == 0)
                r = buf_str(&w->real, name);
        if (r < 0)
                return r == -E2BIG ? -ENAMETOOLONG : r;
        go_to(w, TAKE_FD(fd), w->fd);
        return 0;
}

/* Takes the first component off what is left to go. Return: 1, 0 (there is none), -ENAMETOOLONG. */
static int next_name(struct walking *w, char name[NAME_MAX + 1]) {
        const char *todo = buf_cstr(&w->todo);
        const size_t skip = strspn(todo, "/"), len = strcspn(todo + skip, "/");

        if (len > NAME_MAX)
                return -ENAMETOOLONG;
        memcpy(name, todo + skip, len);
        name[len] = '\0';
        if (w->todo.len > 0) {
                w->todo.len -= skip + len;
                memmove(w->todo.data, w->todo.data + skip + len, w->todo.len + 1);
        }
        return len > 0;
}

int walk_path(const char *path, struct walk *ret) {
        CLEANUP(walking_deinit) struct walking w = { .fd = -1, .dir_fd = -1, .todo = { .max = PATH_MAX } };
        char name[NAME_MAX + 1];
        int r;

        if (*path != '/')
                return -EINVAL;
        r = buf_str(&w.todo, path);
        if (r < 0)
                return r == -E2BIG ? -ENAMETOOLONG : r;
        r = go_to_root(&w);
        while (r >= 0) {
                r = next_name(&w, name);
                if (r <= 0)
                        break;
                if (strcmp(name, "..") == 0)
                        r = go_up(&w);
                else if (strcmp(name, ".") != 0)
                        r = go_down(&w, name);
        }
        if (r == 0 && w.real.len == 0)
                r = buf_str(&w.real, "/");
        if (r == 0 && w.dir_fd < 0)
                w.dir_fd = r = open_up(w.fd);
        if (r < 0)
                return r;
        *ret = (struct walk){
                .fd = TAKE_FD(w.fd), .dir_fd = TAKE_FD(w.dir_fd), .real = buf_take(&w.real), .links = w.links
        };
        return 0;
}

int walk_identify(int fd, struct walk_id *ret) {
        struct statx sx;

        if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID | STATX_MNT_ID_UNIQUE,
                  &sx) < 0)
                return -errno;
        *ret = (struct walk_id){
                .mnt_id = sx.stx_mnt_id,
                .dev = makedev(sx.stx_dev_major, sx.stx_dev_minor),
                .ino = sx.stx_ino,
                .mode = sx.stx_mode,
                .owner = sx.stx_uid,
                .links = sx.stx_nlink,
        };
        if (sx.stx_mask & STATX_BTIME)
                ret->btime_ns = sx.stx_btime.tv_sec * 1000000000 + sx.stx_btime.tv_nsec;
        return 0;
}

void walk_deinit(struct walk *walk) {
        walk->fd = fd_close(walk->fd);
        walk->dir_fd = fd_close(walk->dir_fd);
        free(walk->real);
        walk->real = NULL;
}
