/*
 * DOC: theory of operation
 *
 * Seeds are read through descriptors that the plan opened and written to the home's tmpfs, before any command
 * runs. What lies on the host side may change meanwhile, so sizes are counted while copying and symbolic
 * links are never followed; anything but files and directories is passed over.
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
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

enum { DEPTH_MAX = 32, CHUNK = 65536 };

struct copy {
        const struct native_seed *seed;
        uint64_t bytes;
        unsigned int files;
        SHA2_CTX hash; /* of all bytes copied */
};

static int copy_data(struct copy *c, int from, int to) {
        char chunk[CHUNK];

        for (;;) {
                const ssize_t n = read(from, chunk, sizeof(chunk));
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                c->bytes += (uint64_t) n;
                if (c->bytes > PLAN_SEED_BYTES_MAX)
                        return -EFBIG;
                SHA256Update(&c->hash, (const uint8_t *) chunk, (size_t) n);
                r = write_all(to, chunk, (size_t) n);
                if (r < 0)
                        return r;
        }
}

static int copy_file(struct copy *c, int from, int dir, const char *name) {
        AUTO_FD int to = -1;
        struct stat st;
        mode_t mode = c->seed->mode;

        if (++c->files > PLAN_SEED_FILES_MAX)
                return -E2BIG;
        if (fstat(from, &st) < 0)
                return -errno;
        if (c->seed->is_dir && (st.st_mode & S_IXUSR))
                mode |= S_IXUSR;
        (void) unlinkat(dir, name, 0); /* an earlier seed or a file of ours of that name */
        to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        return to < 0 ? -errno : copy_data(c, from, to);
}

static int copy_dir(struct copy *c, int from, int to, unsigned int depth);

static int copy_entry(struct copy *c, int from, int to, const char *name, unsigned int depth) {
        AUTO_FD int fd = -1, sub = -1;
        struct stat st;

        fd = open_beneath(from, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        if (fd < 0)
                return fd == -ELOOP || fd == -ENXIO || fd == -ENOENT ? 0 : fd;
        if (fstat(fd, &st) < 0)
                return -errno;
        if (S_ISREG(st.st_mode))
                return copy_file(c, fd, to, name);
        if (!S_ISDIR(st.st_mode))
                return 0;
        if (mkdirat(to, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        sub = open_beneath(to, name, O_RDONLY | O_DIRECTORY, 0);
        return sub < 0 ? sub : copy_dir(c, fd, sub, depth + 1);
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
                        r = copy_entry(c, from, to, e->d_name, depth);
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

int seed_copy(int root_fd, const struct native_seed *seed, struct seed_result *ret, struct error *err) {
        struct copy c = { .seed = seed };
        int r;

        SHA256Init(&c.hash);
        r = copy_seed(root_fd, &c);
        *ret = (struct seed_result){ .bytes = c.bytes, .files = c.files };
        if (r == 0 && !seed->is_dir)
                (void) SHA256End(&c.hash, ret->sha256);
        if (r == -EFBIG || r == -E2BIG)
                return error_set(err, r, "seed '%s' is larger than %d MiB or %d files", ESC(seed->source),
                                 PLAN_SEED_BYTES_MAX >> 20, PLAN_SEED_FILES_MAX);
        return r < 0 ? error_set(err, r, "copy seed '%s' to '%s': %s", ESC(seed->source), ESC(seed->target),
                                 strerror(-r))
                     : 0;
}
