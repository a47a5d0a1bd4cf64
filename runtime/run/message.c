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

int run_msg_recv(int sock, struct run_msg *ret, int *ret_fd) {
        struct run_msg msg;
        AUTO_FD int fd = -1;
        size_t len = 0, n = 0;
        int r;

        r = fdpass_recv(sock, &msg, sizeof(msg), &len, &fd, ret_fd ? 1 : 0, &n);
        if (r < 0)
                return r;
        if (len != sizeof(msg) || msg.type >= RUN_MSG_TYPE_COUNT ||
            !terminated(msg.run_id, sizeof(msg.run_id)) ||
            !terminated(msg.failure_code, sizeof(msg.failure_code)) ||
            !terminated(msg.text, sizeof(msg.text)))
                return -EPROTO;
        *ret = msg;
        if (ret_fd)
                *ret_fd = TAKE_FD(fd);
        return 0;
}
