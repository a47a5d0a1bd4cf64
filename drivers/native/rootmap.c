/*
 * DOC: theory of operation
 *
 * A root caller works as uid 0 of a user namespace that maps 0 to the host's 0: the kernel gives it no
 * capability, but it still *owns* root's files, so it could read /etc/shadow. The clones of the host's root
 * are therefore idmapped mounts of a throw-away user namespace in which no id of a file on disk is mapped:
 * every file belongs to nobody and only the permission bits for others count, as for any other caller.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/native/mnt.h"
#include "drivers/native/parts.h"
#include "drivers/native/setup.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

enum { HELPER_STACK = 16384 };

/* The one id that is mapped; none of a file on disk has it. */
static const char map[] = "4294967294 0 1";

/* Shares memory and descriptors with its parent, which waits; lives for five system calls. */
static int userns_child(void *arg) {
        int *ret = arg;
        int r;

        r = file_put(AT_FDCWD, "/proc/self/setgroups", "deny");
        if (r == 0)
                r = file_put(AT_FDCWD, "/proc/self/uid_map", map);
        if (r == 0)
                r = file_put(AT_FDCWD, "/proc/self/gid_map", map);
        if (r == 0) {
                r = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
                if (r < 0)
                        r = -errno;
        }
        *ret = r;
        _exit(0);
}

/* Return: descriptor of a new user namespace that maps @map, or -errno. */
static int userns_new(void) {
        AUTO_FREE char *stack = malloc(HELPER_STACK);
        int fd = -ENOTSUP;
        pid_t pid;

        if (!stack)
                return -ENOMEM;
        pid = clone(userns_child, stack + HELPER_STACK,
                    CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWUSER | SIGCHLD, &fd);
        if (pid < 0)
                return -errno;
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return fd;
}

/* Return: mount descriptor; -ENOENT: the host has no directory of that name. */
static int clone_one(int host_fd, const char *name, int userns_fd) {
        struct stat st;

        if (fstatat(host_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
                return -ENOENT;
        return mnt_clone(host_fd, name, true, MNT_RDONLY | MNT_NOSUID | MNT_NODEV | MNT_IDMAP, userns_fd);
}

int rootmap_clones(int *ret_fd) {
        AUTO_FD int userns = -1, host = -1;
        const char *const *dirs;
        size_t n;
        int r = 0;

        dirs = os_dirs(&n);
        for (size_t i = 0; i < OS_DIRS_MAX; i++)
                ret_fd[i] = -1;
        userns = userns_new();
        if (userns < 0)
                return userns;
        host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (host < 0)
                return -errno;
        for (size_t i = 0; r == 0 && i < n; i++) {
                ret_fd[i] = clone_one(host, dirs[i], userns);
                if (ret_fd[i] < 0) {
                        r = ret_fd[i] == -ENOENT ? 0 : ret_fd[i];
                        ret_fd[i] = -1;
                }
        }
        for (size_t i = 0; r < 0 && i < n; i++)
                ret_fd[i] = fd_close(ret_fd[i]);
        return r;
}
