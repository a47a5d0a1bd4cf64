#include "runtime/run/tell.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include "runtime/base/block.h"
#include "runtime/base/cleanup.h"
#include "runtime/run/control.h"
#include "runtime/run/events.h"
#include "runtime/run/message.h"

int teller_init(struct teller *teller, const struct run_dir *dir, struct error *err) {
        const int sock = control_connect(dir, err);

        if (sock < 0)
                return sock;
        *teller = (struct teller){ .sock = sock };
        return 0;
}

void teller_deinit(struct teller *teller) {
        teller->sock = fd_close(teller->sock);
}

/* Return: descriptor of the block, -E2BIG, -ENOMEM, -errno. */
static int make_block(const char *type, const json_t *data, struct block_size *ret) {
        AUTO_BUF struct buf b = { .max = EVENT_MAX_BYTES - 1 };
        AUTO_FREE char *text = json_dumps(data, JSON_COMPACT);
        const char *const words[] = { type, text, NULL };
        struct block_size size = { 0 };
        int r;

        if (!text)
                return -ENOMEM;
        r = buf_add(&b, "", 1); /* no working directory */
        if (r == 0)
                r = block_put(&b, words, &size.argc);
        size.bytes = (uint32_t) b.len;
        *ret = size;
        return r < 0 ? r : block_fd(&b);
}

static int answer(int sock) {
        struct pollfd fd = { .fd = sock, .events = POLLIN };
        struct run_msg msg;
        int r;

        do
                r = poll(&fd, 1, TELL_TIMEOUT_MS);
        while (r < 0 && errno == EINTR);
        if (r <= 0)
                return r < 0 ? -errno : -ETIMEDOUT;
        r = run_msg_recv(sock, &msg, NULL);
        if (r < 0 || *msg.run_id) /* the run's last word is no answer */
                return r == -ECONNRESET || r >= 0 ? -ESRCH : r;
        return msg.type == RUN_MSG_EXIT ? 0 : -EINVAL;
}

bool teller_farewell(struct teller *teller, int ms, struct run_msg *ret) {
        struct pollfd fd = { .fd = teller->sock, .events = POLLIN };
        struct run_msg msg;

        if (teller->sock < 0 || poll(&fd, 1, ms) != 1 || run_msg_recv(teller->sock, &msg, NULL) < 0 ||
            !*msg.run_id)
                return false;
        teller_deinit(teller);
        *ret = msg;
        return true;
}

int teller_event(struct teller *teller, const char *type, const json_t *data) {
        struct run_msg msg = { .type = RUN_MSG_EVENT };
        AUTO_FD int block = -1;
        int r;

        if (teller->sock < 0)
                return -ESRCH;
        block = make_block(type, data, &msg.size);
        if (block < 0)
                return block;
        r = run_msg_send(teller->sock, &msg, block);
        if (r == 0)
                r = answer(teller->sock);
        if (r < 0)
                teller_deinit(teller); /* an answer that comes late would be taken for that of the next */
        return r == -EPIPE ? -ESRCH : r;
}
