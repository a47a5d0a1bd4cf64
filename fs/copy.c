#include "fs/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { CHUNK = 1 << 16, XATTR_VALUE_MAX = 1 << 16, XATTR_LIST_TRIES = 4 };

/* Copies @len bytes at the same offset in both files by read and write. */
static int copy_plain(int src_fd, int dst_fd, off_t from, uint64_t len) {
        AUTO_FREE char *chunk = malloc(CHUNK);

        if (!chunk)
                return -ENOMEM;
        if (lseek(dst_fd, from, SEEK_SET) < 0)
                return -errno;
        while (len > 0) {
                const ssize_t n = pread(src_fd, chunk, len < CHUNK ? (size_t) len : CHUNK, from);
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                r = write_all(dst_fd, chunk, (size_t) n);
                if (r < 0)
                        return r;
                from += n;
                len -= (uint64_t) n;
        }
        return 0;
}

static bool is_unsupported(int e) {
        return e == EXDEV || e == EINVAL || e == ENOSYS || e == EOPNOTSUPP || e == EPERM;
}

/* Copies one extent; the kernel's way first, which not every pair of file systems has. */
static int copy_extent(int src_fd, int dst_fd, off_t from, uint64_t len) {
        off_t in = from, out = from;

        while (len > 0) {
                const ssize_t n = copy_file_range(src_fd, &in, dst_fd, &out, (size_t) len, 0);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && !is_unsupported(errno))
                        return -errno;
                if (n <= 0) /* also 0: some file systems say so where read(2) has data */
                        return copy_plain(src_fd, dst_fd, in, len);
                len -= (uint64_t) n;
        }
        return 0;
}

int copy_data(int src_fd, int dst_fd, uint64_t size) {
        off_t pos = 0;
        const off_t end = (off_t) size;
        int r;

        if (end < 0)
                return -EFBIG;
        if (ioctl(dst_fd, FICLONE, src_fd) == 0 || size == 0)
                return ftruncate(dst_fd, end) < 0 ? -errno : 0;
        if (ftruncate(dst_fd, end) < 0)
                return -errno;
        while (pos < end) {
                off_t hole;

                pos = lseek(src_fd, pos, SEEK_DATA);
                if (pos < 0)
                        return errno == ENXIO ? 0 : -errno;
                if (pos >= end)
                        return 0;
                hole = lseek(src_fd, pos, SEEK_HOLE);
                if (hole < 0)
                        return errno == ENXIO ? 0 : -errno;
                if (hole > end)
                        hole = end;
                r = copy_extent(src_fd, dst_fd, pos, (uint64_t) (hole - pos));
                if (r < 0)
                        return r;
                pos = hole;
        }
        return 0;
}

static bool is_copied(const char *name) {
        return strncmp(name, "user.", 5) == 0 &&
               strncmp(name, COPY_XATTR_OVERLAY, strlen(COPY_XATTR_OVERLAY)) != 0;
}

static int copy_xattr(int src_fd, int dst_fd, const char *name, char *value) {
        const ssize_t n = fgetxattr(src_fd, name, value, XATTR_VALUE_MAX);

        if (n < 0)
                return errno == ENODATA ? 0 : -errno;
        if (fsetxattr(dst_fd, name, value, (size_t) n, 0) < 0)
                return errno == EOPNOTSUPP ? 0 : -errno;
        return 0;
}

/* Reads the list of names, which may grow between asking for its size and reading it. */
static int list_xattrs(int fd, char **ret, size_t *ret_len) {
        for (int i = 0; i < XATTR_LIST_TRIES; i++) {
                const ssize_t want = flistxattr(fd, NULL, 0);
                AUTO_FREE char *list = NULL;
                ssize_t n;

                if (want < 0)
                        return errno == EOPNOTSUPP ? 0 : -errno;
                if (want == 0)
                        return 0;
                list = malloc((size_t) want);
                if (!list)
                        return -ENOMEM;
                n = flistxattr(fd, list, (size_t) want);
                if (n < 0 && errno == ERANGE)
                        continue;
                if (n < 0)
                        return -errno;
                *ret = TAKE_PTR(list);
                *ret_len = (size_t) n;
                return 0;
        }
        return -EAGAIN;
}

int copy_xattrs(int src_fd, int dst_fd) {
        AUTO_FREE char *list = NULL;
        AUTO_FREE char *value = NULL;
        size_t len = 0;
        int r;

        r = list_xattrs(src_fd, &list, &len);
        if (r < 0 || len == 0)
                return r;
        value = malloc(XATTR_VALUE_MAX);
        if (!value)
                return -ENOMEM;
        for (size_t i = 0; i < len; i += strlen(list + i) + 1) {
                if (!is_copied(list + i))
                        continue;
                r = copy_xattr(src_fd, dst_fd, list + i, value);
                if (r < 0)
                        return r;
        }
        return 0;
}

int copy_times(const struct stat *st, int dst_fd) {
        const struct timespec times[2] = { st->st_atim, st->st_mtim };

        return futimens(dst_fd, times) < 0 ? -errno : 0;
}
