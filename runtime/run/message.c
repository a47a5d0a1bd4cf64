#include "runtime/run/message.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/fdpass.h"

int run_msg_send(int sock, const struct run_msg *msg, int fd) {
        return fdpass_send(sock, msg, sizeof(*msg), &fd, fd >= 0);
}

static bool terminated(const char *s, size_t size) {
        return memchr(s, '\0', size) != NULL;
}

int run_msg_recv_fds(int sock, struct run_msg *ret, int fds[RUN_MSG_FDS_MAX], size_t *ret_n) {
        struct run_msg msg;
        size_t len = 0, n = 0;
        int r;

        r = fdpass_recv(sock, &msg, sizeof(msg), &len, fds, RUN_MSG_FDS_MAX, &n);
        if (r < 0)
                return r;
        if (len != sizeof(msg) || msg.type >= RUN_MSG_TYPE_COUNT ||
            !terminated(msg.run_id, sizeof(msg.run_id)) ||
            !terminated(msg.failure_code, sizeof(msg.failure_code)) ||
            !terminated(msg.text, sizeof(msg.text))) {
                while (n > 0)
                        (void) fd_close(fds[--n]);
                return -EPROTO;
        }
        *ret = msg;
        *ret_n = n;
        return 0;
}

int run_msg_recv(int sock, struct run_msg *ret, int *ret_fd) {
        int fds[RUN_MSG_FDS_MAX];
        struct run_msg msg;
        size_t n = 0;
        int r;

        r = run_msg_recv_fds(sock, &msg, fds, &n);
        if (r < 0)
                return r;
        if (n > (ret_fd ? 1 : 0)) {
                while (n > 0)
                        (void) fd_close(fds[--n]);
                return -EMSGSIZE;
        }
        *ret = msg;
        if (ret_fd)
                *ret_fd = n == 1 ? fds[0] : -1;
        return 0;
}
