#include "runtime/run/control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/run/message.h"

enum { BACKLOG = 128 };

static const char name[] = "control";

/* By descriptor: the state directory's path may be longer than a socket address. */
static struct sockaddr_un address(const struct run_dir *dir) {
        struct sockaddr_un sa = { .sun_family = AF_UNIX };

        (void) snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/%s", dir->fd, name);
        return sa;
}

int control_listen(const struct run_dir *dir, struct error *err) {
        const struct sockaddr_un sa = address(dir);
        AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd >= 0 && access("/proc/self/fd", F_OK) < 0)
                return error_set(err, -ESRCH, "/proc is not mounted: mount -t proc proc /proc");
        if (fd < 0 || bind(fd, (const struct sockaddr *) &sa, sizeof(sa)) < 0 || listen(fd, BACKLOG) < 0)
                return error_set(err, -errno, "control socket of run %s: %s", dir->id, strerror(errno));
        return TAKE_FD(fd);
}

int control_accept(int listen_fd) {
        AUTO_FD int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct ucred peer;
        socklen_t len = sizeof(peer);

        if (fd < 0)
                return -errno;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
                return -errno;
        return peer.uid == geteuid() || peer.uid == 0 ? TAKE_FD(fd) : -EPERM;
}

int control_connect(const struct run_dir *dir, struct error *err) {
        const struct sockaddr_un sa = address(dir);
        AUTO_FD int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        if (fd < 0)
                return error_set(err, -errno, "socket: %s", strerror(errno));
        if (connect(fd, (const struct sockaddr *) &sa, sizeof(sa)) == 0)
                return TAKE_FD(fd);
        if (errno == ENOENT)
                return error_set(err, -ESRCH, "run %s takes no commands: it has ended, or is not ready yet",
                                 dir->id);
        if (errno == ECONNREFUSED)
                return error_set(err, -ESRCH, "run %s is dead: 'cofferdam gc' clears it up", dir->id);
        return error_set(err, -errno, "control socket of run %s: %s", dir->id, strerror(errno));
}

void control_close(const struct run_dir *dir, int listen_fd) {
        (void) fd_close(listen_fd);
        (void) unlinkat(dir->fd, name, 0);
}

int control_stop(const struct run_dir *dir, int grace_s, struct error *err) {
        struct run_msg msg = { .type = RUN_MSG_STOP, .code = grace_s };
        AUTO_FD int sock = -1;
        int r;

        sock = control_connect(dir, NULL);
        if (sock == -ESRCH)
                return 0; /* it has ended, or died */
        if (sock < 0)
                return error_set(err, sock, "stop run %s: %s", dir->id, strerror(-sock));
        r = run_msg_send(sock, &msg, -1);
        if (r == 0)
                r = run_msg_recv(sock, &msg, NULL);
        if (r == -ECONNRESET || r == -EPIPE)
                return 0; /* it was just ending */
        if (r < 0)
                return error_set(err, r, "stop run %s: %s", dir->id, strerror(-r));
        if (strcmp(msg.failure_code, "SANDBOX_CAPACITY") == 0)
                return error_set(err, -EBUSY, "stop run %s: %s", dir->id, msg.text);
        return 0;
}
