#include "kubernetes/client/ws.h"

#include <openssl/rand.h>
#include <string.h>
#include <wslay/wslay.h>

#include "kubernetes/client/exec.h"

struct ws {
        wslay_event_context_ptr ctx;
        const struct ws_io *io;
        void *arg;
        bool heard, hold;
        int r; /* of a callback */
};

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, int flags, void *arg) {
        struct ws *ws = arg;
        ssize_t n;

        (void) flags;
        n = ws->r < 0 || ws->hold || ws_full(ws) ? -EAGAIN : ws->io->recv(ws->arg, buf, len);
        if (n > 0) {
                ws->heard = true;
                return n;
        }
        if (n != -EAGAIN)
                ws->r = n < 0 ? (int) n : -ECONNRESET;
        wslay_event_set_error(ctx, n == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *data, size_t len, int flags, void *arg) {
        struct ws *ws = arg;
        const ssize_t n = ws->io->send(ws->arg, data, len);

        (void) flags;
        if (n >= 0)
                return n;
        if (n != -EAGAIN)
                ws->r = (int) n;
        wslay_event_set_error(ctx, n == -EAGAIN ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
}

static int on_mask(wslay_event_context_ptr ctx, uint8_t *buf, size_t len, void *arg) {
        (void) arg;
        if (RAND_bytes(buf, (int) len) == 1)
                return 0;
        wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
        return -1;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *msg,
                       void *arg) {
        struct ws *ws = arg;

        (void) ctx;
        if (wslay_is_ctrl_frame(msg->opcode) || msg->msg_length == 0 || ws->r < 0)
                return;
        ws->r = ws->io->message(ws->arg, msg->msg[0], msg->msg + 1, msg->msg_length - 1);
        if (ws->r > 0) {
                ws->hold = true;
                ws->r = 0;
        }
}

int ws_new(const struct ws_io *io, void *arg, struct ws **ret) {
        static const struct wslay_event_callbacks callbacks = {
                .recv_callback = on_recv,
                .send_callback = on_send,
                .genmask_callback = on_mask,
                .on_msg_recv_callback = on_message,
        };
        AUTO_WS struct ws *ws = calloc(1, sizeof(*ws));

        if (!ws || wslay_event_context_client_init(&ws->ctx, &callbacks, ws) != 0)
                return -ENOMEM;
        wslay_event_config_set_max_recv_msg_length(ws->ctx, KUBE_EXEC_FRAME_MAX);
        ws->io = io;
        ws->arg = arg;
        *ret = TAKE_PTR(ws);
        return 0;
}

struct ws *ws_free(struct ws *ws) {
        if (ws && ws->ctx)
                wslay_event_context_free(ws->ctx);
        free(ws);
        return NULL;
}

static int outcome(const struct ws *ws, int r) {
        if (ws->r < 0)
                return ws->r;
        if (r != 0)
                return r == WSLAY_ERR_NOMEM ? -ENOMEM : -EBADMSG;
        return 0;
}

int ws_pump(struct ws *ws, bool read, bool *ret_heard) {
        int r = 0;

        ws->heard = false;
        ws->hold = !read;
        if (wslay_event_want_write(ws->ctx))
                r = outcome(ws, wslay_event_send(ws->ctx));
        /* what was sent into a connection that the peer has closed says less than what it sent before */
        if (r == -ECONNRESET || r == -EPIPE)
                ws->r = 0;
        else if (r < 0)
                return r;
        if (read && wslay_event_want_read(ws->ctx))
                r = outcome(ws, wslay_event_recv(ws->ctx));
        *ret_heard = ws->heard;
        if (r == 0 && !wslay_event_get_read_enabled(ws->ctx) && !wslay_event_get_close_received(ws->ctx)) {
                /* wslay has queued a close frame that says why */
                (void) wslay_event_send(ws->ctx);
                return wslay_event_get_status_code_sent(ws->ctx) == WSLAY_CODE_MESSAGE_TOO_BIG ? -EFBIG
                                                                                               : -EBADMSG;
        }
        return r;
}

int ws_queue(struct ws *ws, int channel, const void *a, size_t a_len, const void *b, size_t b_len) {
        const struct wslay_event_msg none = { .opcode = WSLAY_BINARY_FRAME };
        struct wslay_event_msg msg = none;
        AUTO_FREE uint8_t *whole = malloc(1 + a_len + b_len);
        int r;

        if (!whole)
                return -ENOMEM;
        whole[0] = (uint8_t) channel;
        if (a_len > 0)
                memcpy(whole + 1, a, a_len);
        if (b_len > 0)
                memcpy(whole + 1 + a_len, b, b_len);
        msg.msg = whole;
        msg.msg_length = 1 + a_len + b_len;
        r = wslay_event_queue_msg(ws->ctx, &msg);
        return r == 0 ? 0 : r == WSLAY_ERR_NOMEM ? -ENOMEM : -EPIPE;
}

int ws_ping(struct ws *ws) {
        const struct wslay_event_msg msg = { .opcode = WSLAY_PING };
        const int r = wslay_event_queue_msg(ws->ctx, &msg);

        return r == 0 ? 0 : r == WSLAY_ERR_NOMEM ? -ENOMEM : -EPIPE;
}

size_t ws_queued(const struct ws *ws) {
        return wslay_event_get_queued_msg_length(ws->ctx);
}

bool ws_full(const struct ws *ws) {
        return ws_queued(ws) > (size_t) KUBE_EXEC_QUEUE_MAX * 2;
}

bool ws_wants_write(const struct ws *ws) {
        return wslay_event_want_write(ws->ctx);
}

bool ws_closed(const struct ws *ws, unsigned *ret_code) {
        if (!wslay_event_get_close_received(ws->ctx))
                return false;
        if (ret_code)
                *ret_code = wslay_event_get_status_code_received(ws->ctx);
        return true;
}
