/*
 * fuzz-http.c - request and response heads
 *
 * What is accepted has to survive being written and read again: same host, port, framing, and no header more.
 */
#include <errno.h>
#include <string.h>

#include "netns/http.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void request(const char *s, size_t size, uint16_t origin_port) {
        static struct http_request q, again;
        AUTO_BUF struct buf out = { 0 };
        struct error err = { 0 };
        size_t used = 0, used_again = 0;
        const int r = http_request_parse(s, size, origin_port, &q, &used, &err);

        if (r < 0) {
                check(r == -EAGAIN || ((r == -EINVAL || r == -E2BIG) && *err.msg));
                return;
        }
        check(used >= 4 && used <= size && memcmp(s + used - 4, "\r\n\r\n", 4) == 0);
        check(q.port > 0 && (q.form != HTTP_ORIGIN || origin_port > 0) && q.head.framing != HTTP_TO_EOF);
        if (q.form == HTTP_CONNECT) {
                check(q.head.framing == HTTP_NO_BODY);
                return;
        }
        if (http_request_write(&q, &out) < 0)
                return;
        /* the canonical host may be longer than it was written, so the limits may be met now */
        if (http_request_parse(out.data, out.len, 80, &again, &used_again, NULL) < 0) {
                check(size > HTTP_LINE_BYTES_MAX / 2 || q.head.n_headers == HTTP_HEADERS_MAX ||
                      q.head.n_headers + 3 > HTTP_HEADERS_MAX);
                return;
        }
        check(used_again == out.len && again.form == HTTP_ORIGIN && again.port == q.port);
        check(strcmp(again.host.name, q.host.name) == 0 && again.head.framing == q.head.framing);
        check(again.head.length == q.head.length && again.head.upgrade == q.head.upgrade &&
              !again.authorization.s);
        check(again.head.n_headers <= q.head.n_headers + 3 && again.method.len == q.method.len);
}

static void response(const char *s, size_t size) {
        static struct http_response p, again;
        AUTO_BUF struct buf out = { 0 };
        const struct http_text get = { "GET", 3 };
        size_t used = 0, used_again = 0;

        if (http_response_parse(s, size, get, &p, &used, NULL) < 0)
                return;
        check(used <= size && p.status >= 100 && p.status <= 599);
        if (http_response_write(&p, &out) < 0 ||
            http_response_parse(out.data, out.len, get, &again, &used_again, NULL) < 0) {
                check(size > HTTP_LINE_BYTES_MAX / 2 || p.head.n_headers + 3 > HTTP_HEADERS_MAX);
                return;
        }
        check(used_again == out.len && again.status == p.status && again.head.framing == p.head.framing);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *s = (const char *) data;

        if (size > 65536)
                return 0;
        request(s, size, 0);
        request(s, size, 80);
        response(s, size);
        return 0;
}
