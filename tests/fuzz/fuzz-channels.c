/*
 * fuzz-channels.c - what a server sends over the WebSocket of a command: frames, channels, the status of the
 * end
 *
 * The first byte says in what portions the bytes arrive.
 */
#include <string.h>

#include "kubernetes/client/exec.h"
#include "kubernetes/client/ws.h"
#include "tests/fuzz/fuzz.h"

struct server {
        const uint8_t *data;
        size_t len, at, portion;
        size_t left; /* of this portion */
};

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static ssize_t on_recv(void *arg, void *buf, size_t len) {
        struct server *s = arg;
        size_t n = s->len - s->at;

        if (n == 0)
                return 0;
        if (s->left == 0) {
                s->left = s->portion;
                return -EAGAIN;
        }
        n = n < len ? n : len;
        n = n < s->left ? n : s->left;
        memcpy(buf, s->data + s->at, n);
        s->at += n;
        s->left -= n;
        return (ssize_t) n;
}

static ssize_t on_send(void *arg, const void *buf, size_t len) {
        (void) arg;
        (void) buf;
        return (ssize_t) len;
}

static int on_message(void *arg, int channel, const void *data, size_t len) {
        struct kube_exec_end end = { 0 };

        (void) arg;
        check(channel >= 0 && channel <= 255 && len < KUBE_EXEC_FRAME_MAX);
        if (channel == 3 && kube_exec_status(data, len, &end) == 0) {
                check(end.exit_code >= 0 && end.exit_code <= 255);
                check(end.started || end.exit_code == 126 || end.exit_code == 127);
                check(strlen(end.message) < sizeof(end.message) && !strpbrk(end.message, "\n\r\x1b"));
        }
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const struct ws_io io = { on_recv, on_send, on_message };
        struct server server = { 0 };
        AUTO_WS struct ws *ws = NULL;
        bool heard;
        int r = 0;

        if (size < 2 || size > 1 << 20)
                return 0;
        server = (struct server){ .data = data + 1, .len = size - 1 };
        server.left = server.portion = data[0] == 0 ? size : data[0];
        if (ws_new(&io, &server, &ws) < 0)
                return 0;
        /* ends: by the end of the bytes, a close frame or what is wrong with them */
        for (size_t n = 0; r == 0 && !ws_closed(ws, NULL); n++) {
                check(n <= 2 * size + 8);
                r = ws_pump(ws, true, &heard);
        }
        check(r <= 0);
        return 0;
}
