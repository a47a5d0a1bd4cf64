#include "runtime/run/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/base/sys.h"

enum { CHUNK_BYTES = 65536, EVENTS_BYTES = 4096 };

int follow_pidfd(const struct run_dir *dir) {
        AUTO_JSON json_t *state = NULL;
        AUTO_FD int pidfd = -1;
        int r;

        r = run_state_load(dir, &state, NULL);
        if (r < 0)
                return r;
        pidfd = sys_pidfd_open(
                (pid_t) json_integer_value(json_object_get(json_object_get(state, "supervisor"), "pid")));
        if (pidfd < 0 ||
            !run_is_alive(state)) /* looked at after the open: the number may be another's by now */
                return -ESRCH;
        return TAKE_FD(pidfd);
}

static int watch(int inotify, int fd) {
        char path[32];

        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return inotify_add_watch(inotify, path, IN_MODIFY | IN_MOVE_SELF) < 0 ? -errno : 0;
}

/* Everything up to the present end. */
static int copy(int fd, follow_fn fn, void *arg) {
        for (;;) {
                char chunk[CHUNK_BYTES];
                const ssize_t n = read(fd, chunk, sizeof(chunk));
                int r;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n < 0 ? -errno : 0;
                r = fn(chunk, (size_t) n, arg);
                if (r < 0)
                        return r;
        }
}

/* Waits for more. Return: 1: the process is gone, 0: look again, -errno. */
static int wait_more(int inotify, int pidfd) {
        struct pollfd fds[] = { { .fd = inotify, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };
        char events[EVENTS_BYTES];

        if (poll(fds, 2, -1) < 0)
                return errno == EINTR ? 0 : -errno;
        if (fds[0].revents && read(inotify, events, sizeof(events)) < 0 && errno != EAGAIN)
                return -errno;
        return fds[1].revents != 0;
}

/* Whether the name leads to another file now; then @fd is that one. */
static bool replaced(int dir_fd, const char *name, int *fd) {
        struct stat old, new;
        int next;

        if (fstat(*fd, &old) < 0 || fstatat(dir_fd, name, &new, AT_SYMLINK_NOFOLLOW) < 0 ||
            (old.st_ino == new.st_ino &&old.st_dev == new.st_dev))
                return false;
        next = open_beneath(dir_fd, name, O_RDONLY, 0);
        if (next < 0)
                return false;
        (void) fd_close(*fd);
        *fd = next;
        return true;
}

int follow_file(int dir_fd, const char *name, int pidfd, follow_fn fn, void *arg) {
        AUTO_FD int fd = -1, inotify = -1;
        bool over = pidfd < 0;
        int r;

        fd = open_beneath(dir_fd, name, O_RDONLY, 0);
        if (fd < 0)
                return fd;
        inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        if (inotify < 0)
                return -errno;
        r = over ? 0 : watch(inotify, fd);
        while (r >= 0) {
                r = copy(fd, fn, arg);
                if (r == 0 && replaced(dir_fd, name, &fd)) {
                        r = over ? 0 : watch(inotify, fd);
                        continue;
                }
                if (r < 0 || over)
                        return r;
                r = wait_more(inotify, pidfd);
                over = r > 0;
        }
        return r;
}
