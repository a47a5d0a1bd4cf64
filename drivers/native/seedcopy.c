/*
 * DOC: theory of operation
 *
 * Seeds are read through descriptors that the plan opened and written to the home's tmpfs, before any command
 * runs. What lies on the host side may change meanwhile, so sizes are counted while copying, symbolic links
 * are never followed, and what is not a file or directory at the moment it is opened is passed over without
 * being opened. A file that is written to meanwhile is copied as it is read; one that is replaced is copied
 * as it was.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "drivers/native/mnt.h"
#include "drivers/native/setup.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

enum { DEPTH_MAX = 32, CHUNK = 65536 };

struct copy {
        const struct native_seed *seed;
        int proc_fd; /* for /proc/self */
        seed_file_fn on_file;
        void *arg;
        struct seed_result done;
        struct buf path; /* below a directory: where it is */
};

static int copy_data(struct copy *c, int from, int to, SHA2_CTX *hash, uint64_t *ret_bytes) {
        char chunk[CHUNK];

        for (;;) {
                const ssize_t n = read(from, chunk, sizeof(chunk));
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                c->done.bytes += (uint64_t) n;
                *ret_bytes += (uint64_t) n;
                if (c->done.bytes > c->seed->bytes_max)
                        return -EFBIG;
                SHA256Update(hash, (const uint8_t *) chunk, (size_t) n);
                r = write_all(to, chunk, (size_t) n);
                if (r < 0)
                        return r;
        }
}

static int copy_file(struct copy *c, int from, int dir, const char *name) {
        struct seed_file file = { .path = buf_cstr(&c->path) };
        AUTO_FD int to = -1;
        struct stat st;
        SHA2_CTX hash;
        mode_t mode = c->seed->mode;
        int r;

        if (++c->done.files > c->seed->files_max)
                return -E2BIG;
        if (fstat(from, &st) < 0)
                return -errno;
        if (c->seed->is_dir && (st.st_mode & S_IXUSR))
                mode |= S_IXUSR;
        (void) unlinkat(dir, name, 0); /* an earlier seed or a file of ours of that name */
        to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (to < 0)
                return -errno;
        SHA256Init(&hash);
        r = copy_data(c, from, to, &hash, &file.bytes);
        if (r < 0)
                return r;
        (void) SHA256End(&hash, file.sha256);
        return c->on_file(&file, c->arg);
}

static int copy_dir(struct copy *c, int from, int to, unsigned int depth);

/* Opens for reading what is a regular file or directory, through a descriptor that has looked and opened
 * nothing: a FIFO's writer or a device does not see it. Return: descriptor, -ENOENT: anything else, -errno.
 */
static int open_entry(const struct copy *c, int from, const char *name, mode_t *ret_type) {
        AUTO_FD int fd = open_beneath(from, name, O_PATH, 0);
        char link[sizeof("self/fd/") + 12];
        struct stat st;
        int r;

        if (fd < 0)
                return fd == -ELOOP ? -ENOENT : TAKE(fd, -1);
        if (fstat(fd, &st) < 0)
                return -errno;
        *ret_type = st.st_mode & S_IFMT;
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return -ENOENT;
        (void) snprintf(link, sizeof(link), "self/fd/%d", fd);
        r = openat(c->proc_fd, link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        return r < 0 ? -errno : r;
}

/* @name below where @c->path is. */
static int copy_entry(struct copy *c, int from, int to, const char *name, unsigned int depth) {
        AUTO_FD int fd = -1, sub = -1;
        mode_t type = 0;

        fd = open_entry(c, from, name, &type);
        if (fd < 0)
                return fd == -ENOENT ? 0 : TAKE(fd, -1);
        if (S_ISREG(type))
                return copy_file(c, fd, to, name);
        if (mkdirat(to, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        sub = open_beneath(to, name, O_RDONLY | O_DIRECTORY, 0);
        return sub < 0 ? sub : copy_dir(c, fd, sub, depth + 1);
}

/* The same with its name put on @c->path meanwhile. */
static int copy_named(struct copy *c, int from, int to, const char *name, unsigned int depth) {
        const size_t len = c->path.len;
        int r;

        r = len ? buf_str(&c->path, "/") : 0;
        if (r == 0)
                r = buf_str(&c->path, name);
        if (r == 0)
                r = copy_entry(c, from, to, name, depth);
        c->path.len = len;
        if (c->path.data)
                c->path.data[len] = '\0';
        return r;
}

static int copy_dir(struct copy *c, int from, int to, unsigned int depth) { // NOLINT(misc-no-recursion)
        AUTO_DIR DIR *dir = NULL;
        AUTO_FD int fd = fcntl(from, F_DUPFD_CLOEXEC, 3);
        const struct dirent *e;
        int r = 0;

        if (depth > DEPTH_MAX)
                return -ELOOP;
        dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir)
                return -errno;
        (void) TAKE_FD(fd);
        while (r == 0 && (e = readdir(dir)))
                if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                        r = copy_named(c, from, to, e->d_name, depth);
        return r;
}

static int copy_seed(int root_fd, struct copy *c) {
        const char *target = c->seed->target + 1;
        const char *name = strrchr(c->seed->target, '/') + 1;
        AUTO_FD int dir = -1, sub = -1;
        char parent[PATH_MAX];
        const size_t n = (size_t) (name - target);

        if (n >= sizeof(parent))
                return -ENAMETOOLONG;
        if (c->seed->is_dir) {
                dir = mnt_point(root_fd, target, false);
                if (dir < 0)
                        return dir;
                sub = open_beneath(dir, ".", O_RDONLY | O_DIRECTORY, 0);
                return sub < 0 ? sub : copy_dir(c, c->seed->fd, sub, 0);
        }
        memcpy(parent, target, n);
        parent[n > 0 ? n - 1 : 0] = '\0';
        dir = mnt_point(root_fd, parent, false);
        return dir < 0 ? dir : copy_file(c, c->seed->fd, dir, name);
}

int seed_copy(int root_fd, int proc_fd, const struct native_seed *seed, seed_file_fn on_file, void *arg,
              struct seed_result *ret, struct error *err) {
        struct copy c = { .seed = seed, .proc_fd = proc_fd, .on_file = on_file, .arg = arg };
        int r;

        r = copy_seed(root_fd, &c);
        buf_deinit(&c.path);
        *ret = c.done;
        if (r == -EFBIG || r == -E2BIG)
                return error_set(err, r,
                                 "seed '%s' is larger than %llu bytes or %llu files: use --mount, or raise "
                                 "home.seed_max and home.seed_files",
                                 ESC(seed->source), (unsigned long long) seed->bytes_max,
                                 (unsigned long long) seed->files_max);
        return r < 0 ? error_set(err, r, "copy seed '%s' to '%s': %s", ESC(seed->source), ESC(seed->target),
                                 strerror(-r))
                     : 0;
}
