#include "runtime/base/sys.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

/* unified numbers since Linux 5.1; the 6.1 headers have them, an older one may not */
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

enum { OPENAT2_RETRIES = 16 };

static int result(long r) {
        return r < 0 ? -errno : (int) r;
}

int sys_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve) {
        const struct open_how how = {
                .flags = (uint64_t) (unsigned int) (flags | O_CLOEXEC),
                .mode = flags & (O_CREAT | __O_TMPFILE) ? mode & 07777 : 0,
                .resolve = resolve,
        };
        int r = -EAGAIN;

        for (int i = 0; r == -EAGAIN && i < OPENAT2_RETRIES; i++)
                r = result(syscall(SYS_openat2, dir_fd, path, &how, sizeof(how)));
        return r;
}

int open_beneath(int dir_fd, const char *path, int flags, mode_t mode) {
        return sys_openat2(dir_fd, path, flags | O_NOFOLLOW, mode,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

int open_beneath_long(int dir_fd, const char *path, int flags) {
        AUTO_FD int at = -1;
        char part[PATH_MAX];

        while (strlen(path) >= sizeof(part)) {
                size_t n = sizeof(part) - 1;
                int next;

                while (n > 0 && path[n] != '/')
                        n--;
                if (n == 0)
                        return -ENAMETOOLONG;
                memcpy(part, path, n);
                part[n] = '\0';
                next = open_beneath(at < 0 ? dir_fd : at, part, O_PATH | O_DIRECTORY, 0);
                if (next < 0)
                        return next;
                (void) fd_close(TAKE_FD(at));
                at = next;
                path += n + 1;
        }
        return open_beneath(at < 0 ? dir_fd : at, path, flags, 0);
}

int sys_mount_magic(uint64_t mnt_id, uint64_t *ret) {
        const struct {
                uint32_t size, spare;
                uint64_t mnt_id, mask;
        } request = { .size = sizeof(request), .mnt_id = mnt_id, .mask = 1 /* STATMOUNT_SB_BASIC */ };
        struct {
                uint32_t size, mnt_opts;
                uint64_t mask;
                uint32_t dev_major, dev_minor;
                uint64_t magic;
                char rest[480];
        } answer = { 0 };

        static_assert(sizeof(request) == 24 && sizeof(answer) == 512, "as in linux/mount.h of 6.8");
        if (syscall(457 /* statmount */, &request, &answer, sizeof(answer), 0) < 0)
                return -errno;
        *ret = answer.magic;
        return 0;
}

int sys_open_tree(int dir_fd, const char *path, unsigned int flags) {
        return result(syscall(SYS_open_tree, dir_fd, path, flags | O_CLOEXEC));
}

int sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags) {
        return result(syscall(SYS_move_mount, from_fd, from, to_fd, to, flags));
}

int sys_fsopen(const char *fs) {
        return result(syscall(SYS_fsopen, fs, 1 /* FSOPEN_CLOEXEC */));
}

int sys_fsconfig(int fs_fd, unsigned int cmd, const char *key, const void *value, int aux) {
        return result(syscall(SYS_fsconfig, fs_fd, cmd, key, value, aux));
}

int sys_fsmount(int fs_fd, unsigned int attr) {
        return result(syscall(SYS_fsmount, fs_fd, 1 /* FSMOUNT_CLOEXEC */, attr));
}

int sys_mount_setattr(int dir_fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr) {
        return result(syscall(SYS_mount_setattr, dir_fd, path, flags, attr, sizeof(*attr)));
}

int sys_pivot_root(const char *new_root, const char *put_old) {
        return result(syscall(SYS_pivot_root, new_root, put_old));
}

int sys_pidfd_open(pid_t pid) {
        return result(syscall(SYS_pidfd_open, pid, 0));
}

int sys_pidfd_send_signal(int pidfd, int sig) {
        return result(syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0));
}

int sys_close_range(unsigned int first, unsigned int last, unsigned int flags) {
        return result(syscall(SYS_close_range, first, last, flags));
}

pid_t sys_clone(uint64_t flags, int *ret_pidfd) {
        int pidfd = -1;
        long r;

        if (ret_pidfd)
                flags |= CLONE_PIDFD;
        /* x86-64 and aarch64 agree on flags, stack and parent_tid, which is all that is used */
        r = syscall(SYS_clone, flags | SIGCHLD, NULL, &pidfd, NULL, 0);
        if (r < 0)
                return -errno;
        if (r > 0 && ret_pidfd)
                *ret_pidfd = pidfd;
        return (pid_t) r;
}
