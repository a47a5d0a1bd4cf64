#include "drivers/native/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

enum {
        FSCONFIG_FLAG = 0,
        FSCONFIG_STRING = 1,
        FSCONFIG_FD = 5,
        FSCONFIG_CREATE = 6,
        FSCONFIG_RECONFIGURE = 7,
        MOVE_F_EMPTY_PATH = 0x4,
        MOVE_T_EMPTY_PATH = 0x40,
        TMPFS_TYPE = 0x01021994,
        OVERLAY_TYPE = 0x794c7630,
        MOUNTINFO_MAX = 16 << 20,
};

int mnt_new(const char *type, const struct mnt_option *options, size_t n, uint64_t attr) {
        AUTO_FD int fs = -1;
        int r;

        fs = sys_fsopen(type);
        if (fs < 0)
                return fs;
        for (size_t i = 0; i < n; i++) {
                r = sys_fsconfig(fs, options[i].value ? FSCONFIG_STRING : FSCONFIG_FLAG, options[i].key,
                                 options[i].value, 0);
                if (r < 0)
                        return r;
        }
        r = sys_fsconfig(fs, FSCONFIG_CREATE, NULL, NULL, 0);
        return r < 0 ? r : sys_fsmount(fs, (unsigned int) attr);
}

int mnt_clone(int dir_fd, const char *name, bool recursive, uint64_t attr, int idmap_fd) {
        const struct sys_mount_attr set = { .attr_set = attr,
                                            .userns_fd = idmap_fd < 0 ? 0 : (uint64_t) idmap_fd };
        const unsigned int deep = recursive ? AT_RECURSIVE : 0;
        AUTO_FD int mnt = -1;
        int r;

        mnt = sys_open_tree(dir_fd, name,
                            OPEN_TREE_CLONE | AT_SYMLINK_NOFOLLOW | deep | (*name ? 0 : AT_EMPTY_PATH));
        if (mnt < 0)
                return mnt;
        if (attr) {
                r = sys_mount_setattr(mnt, "", AT_EMPTY_PATH | deep, &set);
                if (r < 0)
                        return r;
        }
        return TAKE_FD(mnt);
}

static int overlay_layer(int fs, const char *key, const char *old_key, int fd, const char *proc_fds) {
        char path[64];
        const int r = sys_fsconfig(fs, FSCONFIG_FD, key, NULL, fd);

        if (r != -EINVAL)
                return r;
        (void) snprintf(path, sizeof(path), "%s/%d", proc_fds, fd); /* until Linux 6.13 */
        return sys_fsconfig(fs, FSCONFIG_STRING, old_key, path, 0);
}

static int overlay_new(int *ret_fs) {
        AUTO_FD int fs = -1;
        int r;

        fs = sys_fsopen("overlay");
        if (fs < 0)
                return fs;
        r = sys_fsconfig(fs, FSCONFIG_STRING, "source", "cofferdam", 0);
        if (r == 0)
                r = sys_fsconfig(fs, FSCONFIG_FLAG, "userxattr", NULL, 0);
        if (r == 0)
                *ret_fs = TAKE_FD(fs);
        return r;
}

/* Return: mount descriptor, -errno. */
static int overlay_make(int fs, int upper, int work, const char *proc_fds) {
        int r;

        r = overlay_layer(fs, "upperdir", "upperdir", upper, proc_fds);
        if (r == 0)
                r = overlay_layer(fs, "workdir", "workdir", work, proc_fds);
        if (r == 0)
                r = sys_fsconfig(fs, FSCONFIG_CREATE, NULL, NULL, 0);
        return r == 0 ? sys_fsmount(fs, MNT_NOSUID | MNT_NODEV) : r;
}

int mnt_overlay(int lower, int upper, int work, const char *proc_fds, int *ret_context) {
        AUTO_FD int fs = -1;
        int r;

        r = overlay_new(&fs);
        if (r == 0)
                r = overlay_layer(fs, "lowerdir+", "lowerdir", lower, proc_fds);
        if (r == 0)
                r = overlay_make(fs, upper, work, proc_fds);
        if (r >= 0 && ret_context)
                *ret_context = TAKE_FD(fs);
        return r;
}

/* All lower ones in one text, which the kernel takes 255 bytes of. */
static int overlay_lowers_old(int fs, const int *lowers, size_t n, const char *proc_fds) {
        char text[256];
        size_t len = 0;

        for (size_t i = 0; i < n; i++) {
                const int k = snprintf(text + len, sizeof(text) - len, "%s%s/%d", i > 0 ? ":" : "", proc_fds,
                                       lowers[i]);

                if (k < 0 || (size_t) k >= sizeof(text) - len)
                        return -E2BIG;
                len += (size_t) k;
        }
        return sys_fsconfig(fs, FSCONFIG_STRING, "lowerdir", text, 0);
}

/* Each by its descriptor (Linux 6.13), by its name (Linux 6.8), or all at once. */
static int overlay_lowers(int fs, const int *lowers, size_t n, const char *proc_fds) {
        for (size_t i = 0; i < n; i++) {
                char path[64];
                int r;

                r = sys_fsconfig(fs, FSCONFIG_FD, "lowerdir+", NULL, lowers[i]);
                (void) snprintf(path, sizeof(path), "%s/%d", proc_fds, lowers[i]);
                if (r == -EINVAL)
                        r = sys_fsconfig(fs, FSCONFIG_STRING, "lowerdir+", path, 0);
                if (r == -EINVAL && i == 0)
                        return overlay_lowers_old(fs, lowers, n, proc_fds);
                if (r < 0)
                        return r;
        }
        return 0;
}

int mnt_overlay_of(const int *lowers, size_t n, int upper, int work, const char *proc_fds) {
        AUTO_FD int fs = -1;
        int r;

        r = overlay_new(&fs);
        if (r == 0)
                r = overlay_lowers(fs, lowers, n, proc_fds);
        return r == 0 ? overlay_make(fs, upper, work, proc_fds) : r;
}

int mnt_forget(int context) {
        return sys_fsconfig(context, FSCONFIG_RECONFIGURE, NULL, NULL, 0); /* nothing else is to change */
}

int mnt_attach(int mnt_fd, int point_fd) {
        return sys_move_mount(mnt_fd, "", point_fd, "", MOVE_F_EMPTY_PATH | MOVE_T_EMPTY_PATH);
}

/* Whether names may be made in @dir: not on the host, nor in the overlay of a region. */
static bool is_ours(int root, int dir) {
        struct statfs fs;
        struct stat st, top;

        if (fstatfs(dir, &fs) < 0)
                return false;
        return fs.f_type == TMPFS_TYPE || (fs.f_type == OVERLAY_TYPE && fstat(dir, &st) == 0 &&
                                           fstat(root, &top) == 0 && st.st_dev == top.st_dev);
}

/* Makes @name in the directory @dir. */
static int make(int root, int dir, const char *name, bool is_file) {
        int fd;

        if (!is_ours(root, dir))
                return -ENOENT;
        if (!is_file)
                return mkdirat(dir, name, 0755) < 0 ? -errno : 0;
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0)
                return -errno;
        (void) fd_close(fd);
        return 0;
}

/* One step of mnt_point(). */
static int step(int root, int dir, const char *name, bool is_file) {
        struct stat st;
        int fd, r;

        fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno == ENOENT) {
                r = make(root, dir, name, is_file);
                if (r < 0)
                        return r;
                fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
        }
        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0 || S_ISLNK(st.st_mode) || S_ISDIR(st.st_mode) == is_file) {
                (void) fd_close(fd);
                return S_ISLNK(st.st_mode) ? -ELOOP : is_file ? -EISDIR : -ENOTDIR;
        }
        return fd;
}

int mnt_point(int root_fd, const char *path, bool is_file) {
        AUTO_FD int dir = -1;

        dir = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
        if (dir < 0)
                return -errno;
        while (*path) {
                const size_t n = strcspn(path, "/");
                const bool last = path[n] == '\0';
                char name[NAME_MAX + 1];
                int next;

                if (n > NAME_MAX)
                        return -ENAMETOOLONG;
                memcpy(name, path, n);
                name[n] = '\0';
                next = step(root_fd, dir, name, is_file && last);
                if (next < 0)
                        return next;
                (void) fd_close(dir);
                dir = next;
                path += n + !last;
        }
        return TAKE_FD(dir);
}

bool mnt_is_first(int fd, int dir_fd, const char *info) {
        AUTO_BUF struct buf text = { 0 };
        char its_own_parent[48];
        struct statx stx;

        if (statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &stx) < 0 || !(stx.stx_mask & STATX_MNT_ID) ||
            file_read_at(dir_fd, info, MOUNTINFO_MAX, &text) < 0)
                return false;
        (void) snprintf(its_own_parent, sizeof(its_own_parent), "%llu %llu ",
                        (unsigned long long) stx.stx_mnt_id, (unsigned long long) stx.stx_mnt_id);
        for (const char *line = buf_cstr(&text); line; line = strchr(line, '\n')) {
                line += *line == '\n';
                if (strncmp(line, its_own_parent, strlen(its_own_parent)) == 0)
                        return true;
        }
        return false;
}
