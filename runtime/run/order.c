#include "runtime/run/order.h"

#include <string.h>

#include "runtime/base/buf.h"

int order_message(const struct exec_order *order, const struct exec_request *command, struct run_msg *msg,
                  int fds[RUN_MSG_FDS_MAX], size_t *ret_n, struct error *err) {
        AUTO_BUF struct buf b = { .max = BLOCK_MAX_BYTES };
        const char *const cwd = order->cwd ? order->cwd : "";
        size_t n = 1;
        int r;

        *msg = (struct run_msg){ .type = RUN_MSG_EXEC,
                                 .flags = (command->tty ? RUN_EXEC_TTY : 0U) |
                                          (order->detach ? RUN_EXEC_DETACH : 0U),
                                 .rows = command->winsize.ws_row,
                                 .cols = command->winsize.ws_col };
        r = buf_add(&b, cwd, strlen(cwd) + 1);
        if (r == 0)
                r = block_put(&b, order->argv, &msg->size.argc);
        if (r == 0)
                r = block_put(&b, order->env, &msg->size.envc);
        if (r == 0)
                r = block_fd(&b);
        if (r < 0)
                return error_set(err, r, "command line and environment: %s", strerror(-r));
        msg->size.bytes = (uint32_t) b.len;
        fds[0] = r;
        for (int i = 0; i < (order->detach ? 0 : 3); i++)
                if (command->stdio[i] >= 0) {
                        msg->flags |= 1U << i;
                        fds[n++] = command->stdio[i];
                }
        *ret_n = n;
        return 0;
}
