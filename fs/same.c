#include "fs/same.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

static bool same_link(int a_dir, int b_dir, const char *name) {
        char a[PATH_MAX], b[PATH_MAX];
        const ssize_t n = readlinkat(a_dir, name, a, sizeof(a)), m = readlinkat(b_dir, name, b, sizeof(b));

        return n >= 0 && n == m && memcmp(a, b, (size_t) n) == 0;
}

/* Reads until @size bytes, the end or an error. */
static ssize_t read_full(int fd, char *out, size_t size) {
        size_t got = 0;

        while (got < size) {
                const ssize_t n = read(fd, out + got, size - got);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -1;
                if (n == 0)
                        break;
                got += (size_t) n;
        }
        return (ssize_t) got;
}

static int open_regular(int dir_fd, const char *name) {
        struct stat st;
        AUTO_FD int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return -1;
        return TAKE_FD(fd);
}

static bool same_bytes(int a_dir, int b_dir, const char *name) {
        AUTO_FD int a = open_regular(a_dir, name);
        AUTO_FD int b = open_regular(b_dir, name);

        if (a < 0 || b < 0)
                return false;
        for (;;) {
                char x[8192], y[8192];
                const ssize_t n = read_full(a, x, sizeof(x)), m = read_full(b, y, sizeof(y));

                if (n < 0 || n != m || memcmp(x, y, (size_t) n) != 0)
                        return false;
                if (n == 0)
                        return true;
        }
}

bool same_object(int a_dir, const struct stat *a, int b_dir, const struct stat *b, const char *name) {
        if ((a->st_mode & S_IFMT) != (b->st_mode & S_IFMT) || a->st_size != b->st_size)
                return false;
        if (S_ISLNK(a->st_mode))
                return same_link(a_dir, b_dir, name);
        return S_ISREG(a->st_mode) && (a->st_mode & 01777) == (b->st_mode & 01777) &&
               a->st_size <= SAME_BYTES_MAX && same_bytes(a_dir, b_dir, name);
}
