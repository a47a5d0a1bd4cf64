#include "fs/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "fs/sensitive.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

static struct timespec to_timespec(struct statx_timestamp t) {
        return (struct timespec){ .tv_sec = t.tv_sec, .tv_nsec = t.tv_nsec };
}

static int look(int dir_fd, const char *name, int flags, struct statx *ret) {
        flags |= AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
        return statx(dir_fd, name, flags, STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID_UNIQUE, ret) < 0
                       ? -errno
                       : 0;
}

/* Whether there is a server to ask: a disk's file system knows all there is to know. */
static bool may_be_remote(const struct statx *x) {
        return x->stx_dev_major == 0;
}

static bool is_mount_point(const struct statx *x) {
        return x->stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

/*
 * A mount below a region belongs to it, but a procfs would hand out the processes of the host, the memory of
 * this one first of all (a tree that is built to be a root may have one). Before Linux 6.8 the file system is
 * asked.
 */
static bool is_kernels(int dir_fd, const char *name, const struct statx *x) {
        AUTO_FD int fd = -1;
        struct statfs fs;
        uint64_t magic;

        if ((x->stx_mask & STATX_MNT_ID_UNIQUE) && sys_mount_magic(x->stx_mnt_id, &magic) == 0)
                return sensitive_fs(magic);
        fd = open_beneath(dir_fd, name, O_PATH, 0);
        return fd < 0 || fstatfs(fd, &fs) < 0 || sensitive_fs((uint32_t) fs.f_type);
}

int facts_at(int dir_fd, const char *name, struct facts *ret) {
        struct statx x;
        int r;

        if (!*name) {
                r = look(dir_fd, "", AT_EMPTY_PATH, &x);
        } else {
                r = look(dir_fd, name, AT_STATX_DONT_SYNC, &x);
                if (r == 0 && may_be_remote(&x) && !is_mount_point(&x))
                        r = look(dir_fd, name, 0, &x);
        }
        if (r < 0)
                return r;
        if (*name && is_mount_point(&x) && is_kernels(dir_fd, name, &x))
                return -EACCES;
        ret->loose = *name && may_be_remote(&x) && is_mount_point(&x);
        ret->st = (struct stat){
                .st_dev = makedev(x.stx_dev_major, x.stx_dev_minor),
                .st_ino = x.stx_ino,
                .st_mode = x.stx_mode,
                .st_nlink = x.stx_nlink,
                .st_uid = x.stx_uid,
                .st_gid = x.stx_gid,
                .st_rdev = makedev(x.stx_rdev_major, x.stx_rdev_minor),
                .st_size = (off_t) x.stx_size,
                .st_blksize = (blksize_t) x.stx_blksize,
                .st_blocks = (blkcnt_t) x.stx_blocks,
                .st_atim = to_timespec(x.stx_atime),
                .st_mtim = to_timespec(x.stx_mtime),
                .st_ctim = to_timespec(x.stx_ctime),
        };
        ret->btime_ns = 0;
        ret->shown_dev = ret->shown_ino = 0;
        if (x.stx_mask & STATX_BTIME)
                ret->btime_ns = x.stx_btime.tv_sec * 1000000000 + x.stx_btime.tv_nsec;
        return 0;
}

bool facts_same(const struct facts *a, const struct facts *b) {
        return a->st.st_dev == b->st.st_dev && a->st.st_ino == b->st.st_ino &&
               (a->st.st_mode & S_IFMT) == (b->st.st_mode & S_IFMT) &&
               (!a->btime_ns || !b->btime_ns || a->btime_ns == b->btime_ns);
}
