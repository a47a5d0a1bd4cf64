#include "fs/casefold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fs/names.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

#ifndef FS_CASEFOLD_FL
#define FS_CASEFOLD_FL 0x40000000
#endif

/* File systems that fold, by f_type of statfs(2). */
static const uint32_t folding_fs[] = {
        0x4d44,                 /* vfat */
        0x2011bab0,             /* exfat */
        0x5346544e, 0x7366746e, /* ntfs */
        0x482b,     0x4244,     /* hfsplus, hfs */
        0xff534d42, 0xfe534d42, /* cifs, smb2 */
        0x01021997,             /* 9p: often a Windows directory seen from WSL */
};

enum { ENTRIES_TRIED = 64 };

enum answer { FOLDS, KEEPS, UNKNOWN };

/* The name with the case of its ASCII letters swapped. Return: whether there was one. */
static bool swap_case(const char *name, char out[NAME_MAX + 1]) {
        const size_t len = strlen(name);
        bool swapped = false;

        if (len > NAME_MAX)
                return false;
        for (size_t i = 0; i <= len; i++) {
                const char low = (char) (name[i] | 0x20);
                const bool letter = low >= 'a' && low <= 'z';

                out[i] = letter ? (char) (name[i] ^ 0x20) : name[i];
                swapped = swapped || letter;
        }
        return swapped;
}

/* Whether the directory @fd lists @name itself: then two spellings are two names of a hard link. */
static bool listed(int fd, const char *name) {
        AUTO_NAMES struct names names = { 0 };

        return names_read(fd, &names) == 0 && names_has(&names, names.n, name);
}

/* Whether @name of the directory @fd is also found by its other spelling. */
static enum answer try_name(int fd, const char *name) {
        char other[NAME_MAX + 1];
        struct stat a, b;

        if (!swap_case(name, other) || fstatat(fd, name, &a, AT_SYMLINK_NOFOLLOW) < 0)
                return UNKNOWN;
        if (fstatat(fd, other, &b, AT_SYMLINK_NOFOLLOW) == 0)
                return a.st_dev != b.st_dev || a.st_ino != b.st_ino || listed(fd, other) ? KEEPS : FOLDS;
        if (errno != ENOENT || fstatat(fd, name, &a, AT_SYMLINK_NOFOLLOW) < 0)
                return UNKNOWN; /* it was removed meanwhile */
        return KEEPS;
}

/* The directory's own name, in the directory above when that is the same file system. */
static enum answer try_own_name(int fd) {
        char link[sizeof("/proc/self/fd/") + 12], path[PATH_MAX];
        AUTO_FD int above = -1;
        struct stat a, b;
        ssize_t n;
        char *slash;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        if (n <= 0)
                return UNKNOWN;
        path[n] = '\0';
        slash = strrchr(path, '/');
        if (!slash || !slash[1])
                return UNKNOWN;
        above = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (above < 0 || fstat(above, &a) < 0 || fstat(fd, &b) < 0 || a.st_dev != b.st_dev)
                return UNKNOWN;
        return try_name(above, slash + 1);
}

static enum answer try_entries(int fd) {
        AUTO_DIR DIR *d = NULL;
        enum answer a = UNKNOWN;
        const struct dirent *e;
        const int dir = open_beneath(fd, ".", O_RDONLY | O_DIRECTORY, 0);

        d = dir < 0 ? NULL : fdopendir(dir);
        if (!d) {
                (void) fd_close(dir);
                return UNKNOWN;
        }
        for (int i = 0; a == UNKNOWN && i < ENTRIES_TRIED && (e = readdir(d)); i++)
                a = try_name(dir, e->d_name);
        return a;
}

static bool has_flag(int fd) {
        AUTO_FD int dir = open_beneath(fd, ".", O_RDONLY | O_DIRECTORY, 0);
        int flags = 0;

        return dir >= 0 && ioctl(dir, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_CASEFOLD_FL);
}

bool casefold_detect(int fd, bool is_dir) {
        enum answer a;
        struct statfs fs;

        if (fstatfs(fd, &fs) < 0)
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(folding_fs); i++)
                if ((uint32_t) fs.f_type == folding_fs[i])
                        return true;
        if (!is_dir)
                return false; /* its name is not asked for */
        if (has_flag(fd))
                return true;
        a = try_entries(fd);
        if (a == UNKNOWN)
                a = try_own_name(fd);
        /* nothing to try: who serves a FUSE file system, or virtiofs, may do as he likes */
        return a == FOLDS || (a == UNKNOWN && (uint32_t) fs.f_type == FUSE_SUPER_MAGIC);
}
