#include "runtime/base/fdpass.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/cleanup.h"

int fdpass_pair(int ret_fds[2]) {
        return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fds) < 0 ? -errno : 0;
}

union control {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FDPASS_MAX)];
};

int fdpass_send(int sock, const void *data, size_t len, const int *fds, size_t n) {
        union control control = { 0 };
        struct iovec iov = { .iov_base = (void *) (unsigned long) data, .iov_len = len };
        struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
        ssize_t r;

        assert(n <= FDPASS_MAX && len > 0);
        if (n > 0) {
                struct cmsghdr *c;

                msg.msg_control = &control;
                msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
                c = CMSG_FIRSTHDR(&msg);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof(int) * n);
                memcpy(CMSG_DATA(c), fds, sizeof(int) * n);
        }
        do
                r = sendmsg(sock, &msg, MSG_NOSIGNAL);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : 0;
}

static void close_all(const int *fds, size_t n) {
        for (size_t i = 0; i < n; i++)
                (void) fd_close(fds[i]);
}

/* Collects the descriptors of @msg in @got (room for FDPASS_MAX). */
static size_t collect(struct msghdr *msg, int *got) {
        size_t n = 0;

        for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
                size_t k;

                if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
                        continue;
                k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                memcpy(got + n, CMSG_DATA(c), k * sizeof(int));
                n += k;
        }
        return n;
}

int fdpass_recv(int sock, void *data, size_t size, size_t *ret_len, int *fds, size_t max, size_t *ret_n) {
        union control control;
        struct iovec iov = { .iov_base = data, .iov_len = size };
        struct msghdr msg = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        int got[FDPASS_MAX];
        size_t n;
        ssize_t r;

        do
                r = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
        while (r < 0 && errno == EINTR);
        if (r < 0)
                return -errno;
        n = collect(&msg, got);
        if (r == 0 || n > max || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
                close_all(got, n);
                return r == 0 ? -ECONNRESET : -EMSGSIZE;
        }
        if (max > 0) {
                memcpy(fds, got, n * sizeof(int));
                *ret_n = n;
        }
        *ret_len = (size_t) r;
        return 0;
}
