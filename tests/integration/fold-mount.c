/*
 * fold-mount - a file system that finds names whatever their case is (ASCII), to test what lies on top of it
 *
 *   fold-mount LOWER MOUNTPOINT     serves until it is unmounted; needs the right to mount
 *
 * Names keep the case they were made with, as on a Mac or with ext4's casefold.
 */
#define FUSE_USE_VERSION 35
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static int lower = -1;

/* The entry of @dir that @name leads to: the exact one, or one that differs in case; @name itself when none
 * does. */
static void find(const char *dir, const char *name, char out[NAME_MAX + 1]) {
        const int fd = openat(lower, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;
        struct stat st;

        (void) snprintf(out, NAME_MAX + 1, "%s", name);
        if (d && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                while ((e = readdir(d)))
                        if (strcasecmp(e->d_name, name) == 0)
                                (void) snprintf(out, NAME_MAX + 1, "%s", e->d_name);
        if (d)
                (void) closedir(d);
}

/* "/a/B" as the lower has it, relative. */
static const char *real(const char *path, char out[PATH_MAX]) {
        (void) snprintf(out, PATH_MAX, ".");
        while (*path) {
                const size_t n = strcspn(path, "/");
                char name[NAME_MAX + 1], found[NAME_MAX + 1];
                const size_t len = strlen(out);

                if (n > 0 && n <= NAME_MAX && len + n + 2 < PATH_MAX) {
                        (void) snprintf(name, sizeof(name), "%.*s", (int) n, path);
                        find(out, name, found);
                        (void) snprintf(out + len, PATH_MAX - len, "/%s", found);
                }
                path += n + (path[n] == '/');
        }
        return out;
}

#define REAL(path)   real((path), (char[PATH_MAX]){ 0 })
#define RESULT(call) ((call) < 0 ? -errno : 0)

static void *do_init(struct fuse_conn_info *conn, struct fuse_config *config) {
        (void) conn;
        config->use_ino = 1;
        config->attr_timeout = config->entry_timeout = 0;
        return NULL;
}

static int do_getattr(const char *path, struct stat *st, struct fuse_file_info *fi) {
        (void) fi;
        return RESULT(fstatat(lower, REAL(path), st, AT_SYMLINK_NOFOLLOW));
}

static int do_readlink(const char *path, char *buf, size_t size) {
        const ssize_t n = readlinkat(lower, REAL(path), buf, size - 1);

        if (n < 0)
                return -errno;
        buf[n] = '\0';
        return 0;
}

static int do_mknod(const char *path, mode_t mode, dev_t dev) {
        return RESULT(mknodat(lower, REAL(path), mode, dev));
}

static int do_mkdir(const char *path, mode_t mode) {
        return RESULT(mkdirat(lower, REAL(path), mode));
}

static int do_unlink(const char *path) {
        return RESULT(unlinkat(lower, REAL(path), 0));
}

static int do_rmdir(const char *path) {
        return RESULT(unlinkat(lower, REAL(path), AT_REMOVEDIR));
}

static int do_symlink(const char *target, const char *path) {
        return RESULT(symlinkat(target, lower, REAL(path)));
}

static int do_rename(const char *from, const char *to, unsigned int flags) {
        return RESULT(renameat2(lower, REAL(from), lower, REAL(to), flags));
}

static int do_link(const char *from, const char *to) {
        return RESULT(linkat(lower, REAL(from), lower, REAL(to), 0));
}

static int do_chmod(const char *path, mode_t mode, struct fuse_file_info *fi) {
        (void) fi;
        return RESULT(fchmodat(lower, REAL(path), mode, 0));
}

static int do_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *fi) {
        (void) fi;
        return RESULT(utimensat(lower, REAL(path), times, AT_SYMLINK_NOFOLLOW));
}

static int open_real(const char *path, int flags, mode_t mode, struct fuse_file_info *fi) {
        const int fd = openat(lower, REAL(path), flags | O_CLOEXEC | O_NOFOLLOW, mode);

        if (fd < 0)
                return -errno;
        fi->fh = (uint64_t) fd;
        return 0;
}

static int do_open(const char *path, struct fuse_file_info *fi) {
        return open_real(path, fi->flags & ~O_CREAT, 0, fi);
}

static int do_create(const char *path, mode_t mode, struct fuse_file_info *fi) {
        return open_real(path, fi->flags | O_CREAT, mode, fi);
}

static int do_truncate(const char *path, off_t size, struct fuse_file_info *fi) {
        struct fuse_file_info own = { 0 };
        int r = fi ? 0 : open_real(path, O_WRONLY, 0, &own);

        if (r < 0)
                return r;
        r = RESULT(ftruncate((int) (fi ? fi->fh : own.fh), size));
        if (!fi)
                (void) close((int) own.fh);
        return r;
}

static int do_read(const char *path, char *buf, size_t size, off_t off, struct fuse_file_info *fi) {
        const ssize_t n = pread((int) fi->fh, buf, size, off);

        (void) path;
        return n < 0 ? -errno : (int) n;
}

static int do_write(const char *path, const char *buf, size_t size, off_t off, struct fuse_file_info *fi) {
        const ssize_t n = pwrite((int) fi->fh, buf, size, off);

        (void) path;
        return n < 0 ? -errno : (int) n;
}

static int do_release(const char *path, struct fuse_file_info *fi) {
        (void) path;
        return RESULT(close((int) fi->fh));
}

static int do_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t off, struct fuse_file_info *fi,
                      enum fuse_readdir_flags flags) {
        const int fd = openat(lower, REAL(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *e;

        (void) off;
        (void) fi;
        (void) flags;
        if (!d)
                return -errno;
        while ((e = readdir(d)))
                (void) fill(buf, e->d_name, NULL, 0, (enum fuse_fill_dir_flags) 0);
        (void) closedir(d);
        return 0;
}

static const struct fuse_operations operations = {
        .init = do_init,
        .getattr = do_getattr,
        .readlink = do_readlink,
        .mknod = do_mknod,
        .mkdir = do_mkdir,
        .unlink = do_unlink,
        .rmdir = do_rmdir,
        .symlink = do_symlink,
        .rename = do_rename,
        .link = do_link,
        .chmod = do_chmod,
        .utimens = do_utimens,
        .open = do_open,
        .create = do_create,
        .truncate = do_truncate,
        .read = do_read,
        .write = do_write,
        .release = do_release,
        .readdir = do_readdir,
};

int main(int argc, char **argv) {
        char foreground[] = "-f", o[] = "-o";
        char options[] = "default_permissions,allow_other";
        char *fuse_argv[] = { argv[0], foreground, o, options, argc == 3 ? argv[2] : NULL, NULL };

        if (argc != 3)
                return 2;
        lower = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (lower < 0) {
                perror(argv[1]);
                return 1;
        }
        return fuse_main(5, fuse_argv, &operations, NULL);
}
