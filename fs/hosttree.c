#include "fs/hosttree.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/names.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

static int check_level(int dir_fd, const char *name, dev_t dev, int64_t since_ns, unsigned depth);

static int check_entry(int fd, const char *name, dev_t dev, int64_t since_ns, unsigned depth) {
        struct stat st;

        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        if (st.st_dev != dev)
                return -EBUSY;
        if (st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec > since_ns)
                return -ESTALE;
        return S_ISDIR(st.st_mode) ? check_level(fd, name, dev, since_ns, depth + 1) : 0;
}

static int check_level(int dir_fd, const char *name, dev_t dev, int64_t since_ns, unsigned depth) {
        AUTO_NAMES struct names names = { 0 };
        AUTO_FD int fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        int r;

        if (fd < 0)
                return fd;
        if (depth >= HOSTTREE_DEPTH_MAX)
                return -ELOOP;
        r = names_read(fd, &names);
        if (r == 0 && names.n > 0 && faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
                r = -errno;
        for (size_t i = 0; r == 0 && i < names.n; i++)
                r = check_entry(fd, names.v[i], dev, since_ns, depth);
        return r;
}

int hosttree_check(int dir_fd, const char *name, int64_t since_ns) {
        struct stat st;

        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return -errno;
        return check_level(dir_fd, name, st.st_dev, since_ns, 0);
}

static int remove_level(int dir_fd, const char *name, unsigned depth) {
        AUTO_NAMES struct names names = { 0 };
        AUTO_FD int fd = -1;
        int r;

        if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
                return 0;
        if (errno != EISDIR && errno != EPERM)
                return -errno;
        fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
                return fd == -ENOTDIR || fd == -ELOOP ? -EPERM : fd;
        if (depth > HOSTTREE_DEPTH_MAX)
                return -ELOOP;
        r = names_read(fd, &names);
        for (size_t i = 0; r == 0 && i < names.n; i++)
                r = remove_level(fd, names.v[i], depth + 1);
        if (r < 0)
                return r;
        return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int hosttree_remove(int dir_fd, const char *name) {
        return remove_level(dir_fd, name, 0);
}
