/*
 * DOC: theory of operation
 *
 * Where the work's changes go. On disk: <run>/upper/N of region N, and <run>/work/N beside it when the
 * kernel's overlayfs serves the region, which wants an empty directory of the same file system. In memory: a
 * tmpfs that the sandbox's pid 1 makes and that nobody else ever sees; it is gone with the run.
 *
 * overlayfs takes directories of the caller's own mount namespace only. So the supervisor makes them and the
 * child opens their paths once more after clone(2), before it becomes another user; what it finds there has
 * to be the very same directory, whatever happened to the path in between.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/native/mnt.h"
#include "drivers/native/setup.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/sys.h"

enum { NAME_SIZE = 24 };

void uppers_init(struct uppers *u) {
        for (size_t i = 0; i < PLAN_REGIONS_MAX; i++)
                u->upper[i] = u->work[i] = u->memory[i] = -1;
}

void uppers_deinit(struct uppers *u) {
        for (size_t i = 0; i < PLAN_REGIONS_MAX; i++) {
                u->upper[i] = fd_close(u->upper[i]);
                u->work[i] = fd_close(u->work[i]);
                u->memory[i] = fd_close(u->memory[i]);
        }
}

bool region_keeps(const struct native_region *region) {
        return region->kind == REGION_COW || region->kind == REGION_STAGED ||
               (region->kind == REGION_DIRECT && region->rules && !region->is_file);
}

/* The directory @name in @dir, for the one who works. */
static int make_dir(const struct native_id *id, int dir, const char *name) {
        AUTO_FD int fd = -1;

        if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0)
                return fd;
        if (id->switch_user && fchown(fd, id->host_uid, id->host_gid) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* What the kernel shows as the top of an overlay is its upper, so that @name gets mode and times of @source.
 * Nobody else gets to the upper by that: the run directory is 0700. */
static int resemble(int dir, const char *name, int source) {
        struct timespec times[2];
        struct stat st;

        if (fstat(source, &st) < 0)
                return -errno;
        times[0] = st.st_atim;
        times[1] = st.st_mtim;
        return utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
                               fchmodat(dir, name, st.st_mode & 01777, 0) < 0
                       ? -errno
                       : 0;
}

int upper_take(const struct native_id *id, int dir, size_t index) {
        char name[NAME_SIZE];
        AUTO_FD int fd = -1;

        (void) snprintf(name, sizeof(name), "%zu", index);
        fd = make_dir(id, dir, name);
        if (fd < 0)
                return fd;
        /* the file server keeps it as long as it lives: see run_bury(); a file system without locks has to do
         * without */
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
                return -EBUSY;
        return TAKE_FD(fd);
}

int uppers_make(const struct driver_plan *plan, int upper_fd, int run_fd, struct uppers *ret) {
        AUTO_FD int work = -1;

        for (size_t i = 0; upper_fd >= 0 && i < plan->n_regions; i++) {
                const struct native_region *region = &plan->regions[i];
                char name[NAME_SIZE];
                int r;

                if (!region_keeps(region) || region->in_memory)
                        continue;
                ret->upper[i] = upper_take(&plan->id, upper_fd, i);
                if (ret->upper[i] < 0)
                        return ret->upper[i];
                if (!region->overlay)
                        continue;
                if (work < 0)
                        work = make_dir(&plan->id, run_fd, "work");
                if (work < 0)
                        return work;
                (void) snprintf(name, sizeof(name), "%zu", i);
                ret->work[i] = make_dir(&plan->id, work, name);
                if (ret->work[i] < 0)
                        return ret->work[i];
                r = resemble(upper_fd, name, region->pin.fd);
                if (r < 0)
                        return r;
        }
        return 0;
}

int host_reopen(int fd, const char *path) {
        struct stat want, got;
        AUTO_FD int again = -1;

        if (fstat(fd, &want) < 0)
                return -errno;
        again = sys_openat2(AT_FDCWD, path, O_PATH, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
        if (again < 0)
                return again;
        if (fstat(again, &got) < 0)
                return -errno;
        return got.st_dev == want.st_dev && got.st_ino == want.st_ino &&
                               (got.st_mode & S_IFMT) == (want.st_mode & S_IFMT)
                       ? TAKE_FD(again)
                       : -ESTALE;
}

/* @fd becomes the same directory in this mount namespace. */
static int enter(int *fd) {
        char link[32], path[PATH_MAX];
        ssize_t n;
        int again;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", *fd);
        n = readlink(link, path, sizeof(path) - 1);
        if (n < 0)
                return -errno;
        path[n] = '\0';
        again = host_reopen(*fd, path);
        if (again < 0)
                return again;
        (void) fd_close(*fd);
        *fd = again;
        return 0;
}

int uppers_enter(const struct driver_plan *plan, struct uppers *u) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < plan->n_regions; i++) {
                if (u->work[i] < 0)
                        continue;
                r = enter(&u->upper[i]);
                if (r == 0)
                        r = enter(&u->work[i]);
        }
        return r;
}

/* A tmpfs of at most @bytes, 0: as the kernel has it. Return: mount, -errno. */
static int make_memory(uint64_t bytes) {
        char size[NAME_SIZE];
        const struct mnt_option options[] = { { "mode", "0700" }, { "size", size } };

        (void) snprintf(size, sizeof(size), "%llu", (unsigned long long) bytes);
        return mnt_new("tmpfs", options, bytes ? 2 : 1, MNT_NOSUID | MNT_NODEV);
}

/* What overlayfs wants, in the directory @dir, for an overlay of @source. */
static int make_layers(int dir, int source, int *ret_upper, int *ret_work) {
        int r;

        if (mkdirat(dir, "upper", 0700) < 0 || mkdirat(dir, "work", 0700) < 0)
                return -errno;
        r = resemble(dir, "upper", source);
        if (r < 0)
                return r;
        *ret_upper = open_beneath(dir, "upper", O_PATH | O_DIRECTORY, 0);
        *ret_work = open_beneath(dir, "work", O_PATH | O_DIRECTORY, 0);
        return *ret_upper < 0 ? *ret_upper : *ret_work < 0 ? *ret_work : 0;
}

/* The region's part of the tmpfs @mnt. */
static int memory_upper(const struct native_id *id, const struct native_region *region, int mnt,
                        struct uppers *u, uint32_t index, int fuse_sock) {
        char name[NAME_SIZE];
        AUTO_FD int dir = -1;

        (void) snprintf(name, sizeof(name), "%u", index);
        if (mkdirat(mnt, name, 0700) < 0)
                return -errno;
        dir = open_beneath(mnt, name, O_RDONLY | O_DIRECTORY, 0);
        if (dir < 0)
                return dir;
        if (id->mapped && !id->switch_user &&
            fchown(dir, 0, 0) < 0) /* the caller, as whom the file server works */
                return -errno;
        return region->overlay ? make_layers(dir, region->pin.fd, &u->upper[index], &u->work[index])
                               : fdpass_send(fuse_sock, &index, sizeof(index), &dir, 1);
}

int uppers_in_memory(const struct driver_plan *plan, struct uppers *u, int fuse_sock) {
        int common = -1, r = 0;

        for (uint32_t i = 0; r == 0 && i < plan->n_regions; i++) {
                const struct native_region *region = &plan->regions[i];
                const bool shares = region->memory_common && common >= 0;

                if (!region->in_memory)
                        continue;
                if (!shares)
                        u->memory[i] = make_memory(region->memory_bytes);
                if (region->memory_common)
                        common = shares ? common : u->memory[i];
                r = shares || u->memory[i] >= 0
                            ? memory_upper(&plan->id, region, shares ? common : u->memory[i], u, i, fuse_sock)
                            : u->memory[i];
        }
        return r;
}
