#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netns/http-body.h"
#include "netns/http.h"
#include "runtime/base/cleanup.h"

#define H "Host: a.example\r\n"
#define E "\r\n"

/* Each refused row has one thing wrong: goes red when the check for it is taken out of http.c. */
static void http_request_parse_has_one_reading(void **state) {
        static const struct {
                const char *head;
                int r;
                const char *host; /* or part of the message */
                uint16_t port;
                enum http_form form;
                enum http_framing framing;
        } cases[] = {
                { "CONNECT a.example:443 HTTP/1.1\r\n" E, -EINVAL, "no Host", 0, 0, 0 },
                { "CONNECT a.example:443 HTTP/1.0\r\n" E, 0, "a.example", 443, HTTP_CONNECT, 0 },
                { "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n" E, 0, "a.example", 443,
                  HTTP_CONNECT, 0 },
                { "CONNECT A.example.:443 HTTP/1.1\r\n" H E, 0, "a.example", 443, HTTP_CONNECT, 0 },
                { "CONNECT [::1]:443 HTTP/1.1\r\nhost:\t[0::1]:443 \r\n" E, 0, "::1", 443, HTTP_CONNECT, 0 },
                { "CONNECT 127.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n" E, 0, "127.0.0.1", 22, HTTP_CONNECT,
                  0 },
                { "CONNECT a.example HTTP/1.1\r\n" H E, -EINVAL, "without a port", 0, 0, 0 },
                { "CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n" E, -EINVAL, "differ", 0, 0, 0 },
                { "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n" E, -EINVAL, "differ", 0, 0, 0 },
                { "CONNECT a.example:443 HTTP/1.1\r\nHost:\r\n" E, -EINVAL, "empty host", 0, 0, 0 },
                { "CONNECT a.example:443 HTTP/1.1\r\n" H "Content-Length: 1\r\n" E, -EINVAL, "with a body", 0,
                  0, 0 },
                { "CONNECT http://a.example:443 HTTP/1.1\r\n" H E, -EINVAL, "brackets", 0, 0, 0 },
                { "connect a.example:443 HTTP/1.1\r\n" H E, -EINVAL, "no http:// URL", 0, 0, 0 },
                { "CONNECT u@a.example:443 HTTP/1.1\r\n" H E, -EINVAL, "no host has", 0, 0, 0 },
                { "CONNECT a.example:443:443 HTTP/1.1\r\n" H E, -EINVAL, "brackets", 0, 0, 0 },
                { "CONNECT a.example%00.b:443 HTTP/1.1\r\n" H E, -EINVAL, "no host has", 0, 0, 0 },
                { "GET http://a.example/x?y HTTP/1.1\r\n" H E, 0, "a.example", 80, HTTP_ABSOLUTE, 0 },
                { "GET HTTP://a.example HTTP/1.1\r\n" H E, 0, "a.example", 80, HTTP_ABSOLUTE, 0 },
                { "GET http://a.example?q HTTP/1.1\r\n" H E, 0, "a.example", 80, HTTP_ABSOLUTE, 0 },
                { "GET http://a.example:8080/ HTTP/1.1\r\nHost: a.example:8080\r\n" E, 0, "a.example", 8080,
                  HTTP_ABSOLUTE, 0 },
                { "GET http://a.example:8080/ HTTP/1.1\r\n" H E, -EINVAL, "differ", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\nHost: b.example\r\n" E, -EINVAL, "differ", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H H E, -EINVAL, "more than one Host", 0, 0, 0 },
                { "GET http://a.example@b.example/ HTTP/1.1\r\n" H E, -EINVAL, "no host has", 0, 0, 0 },
                { "GET http://a.example\\b/ HTTP/1.1\r\n" H E, -EINVAL, "no host has", 0, 0, 0 },
                { "GET http://a.example/#f HTTP/1.1\r\n" H E, -EINVAL, "target", 0, 0, 0 },
                { "GET http:///x HTTP/1.1\r\n" H E, -EINVAL, "empty host", 0, 0, 0 },
                { "GET https://a.example/ HTTP/1.1\r\n" H E, -EINVAL, "https needs CONNECT", 0, 0, 0 },
                { "GET ftp://a.example/ HTTP/1.1\r\n" H E, -EINVAL, "no http:// URL", 0, 0, 0 },
                { "GET /x HTTP/1.1\r\n" H E, 0, "a.example", 80, HTTP_ORIGIN, 0 },
                { "GET /x HTTP/1.1\r\nHost: a.example:81\r\n" E, 0, "a.example", 81, HTTP_ORIGIN, 0 },
                { "GET /x HTTP/1.0\r\n" E, -EINVAL, "no Host", 0, 0, 0 },
                { "OPTIONS * HTTP/1.1\r\n" H E, -EINVAL, "no http:// URL", 0, 0, 0 },
                { "GET //b.example/x HTTP/1.1\r\n" H E, 0, "a.example", 80, HTTP_ORIGIN, 0 },
                { "GET  http://a.example/ HTTP/1.1\r\n" H E, -EINVAL, "target", 0, 0, 0 },
                { "GET http://a.example/ b HTTP/1.1\r\n" H E, -EINVAL, "target", 0, 0, 0 },
                { "GET http://a.example/\t HTTP/1.1\r\n" H E, -EINVAL, "target", 0, 0, 0 },
                { "GET http://a.example/\x80 HTTP/1.1\r\n" H E, -EINVAL, "path", 0, 0, 0 },
                { "GET /\x80 HTTP/1.1\r\n" H E, -EINVAL, "path", 0, 0, 0 },
                { "CONNECT \xef\xbd\x81.example:443 HTTP/1.1\r\n" H E, 0, "a.example", 443, HTTP_CONNECT, 0 },
                { "GET http://a.example/ HTTP/1.1 \r\n" H E, -EINVAL, "HTTP/1.1", 0, 0, 0 },
                { "GET http://a.example/ HTTP/2.0\r\n" H E, -EINVAL, "HTTP/1.1", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.2\r\n" H E, -EINVAL, "HTTP/1.1", 0, 0, 0 },
                { "GET http://a.example/ http/1.1\r\n" H E, -EINVAL, "HTTP/1.1", 0, 0, 0 },
                { "GET http://a.example/\r\n" E, -EINVAL, "METHOD TARGET", 0, 0, 0 },
                { "GET\r\n" E, -EINVAL, "METHOD TARGET", 0, 0, 0 },
                { "\r\nGET http://a.example/ HTTP/1.1\r\n" H E, -EINVAL, "METHOD TARGET", 0, 0, 0 },
                { "G(T http://a.example/ HTTP/1.1\r\n" H E, -EINVAL, "method", 0, 0, 0 },
                { " http://a.example/ HTTP/1.1\r\n" H E, -EINVAL, "method", 0, 0, 0 },
                /* line ends */
                { "GET http://a.example/ HTTP/1.1\n" H E, -EINVAL, "CR LF", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "\n", -EINVAL, "CR LF", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X: a\rb\r\n" E, -EINVAL, "CR LF", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X: a\r\r\n" E, -EINVAL, "CR LF", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X: a\nY: b\r\n" E, -EINVAL, "CR LF", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\rX", -EINVAL, "CR LF", 0, 0, 0 },
                /* headers */
                { "GET http://a.example/ HTTP/1.1\r\n" H "X: a\r\n b\r\n" E, -EINVAL, "folded", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n Host: b\r\n" H E, -EINVAL, "folded", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X : a\r\n" E, -EINVAL, "header name", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\nHost : b\r\n" H E, -EINVAL, "header name", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H ": a\r\n" E, -EINVAL, "header name", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X\r\n" E, -EINVAL, "colon", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X\x80: a\r\n" E, -EINVAL, "header name", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X: a\x01\r\n" E, -EINVAL, "control", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X: a\x7f\r\n" E, -EINVAL, "control", 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "X: \xc3\xbc\tb\r\n" E, 0, "a.example", 80,
                  HTTP_ABSOLUTE, 0 },
                /* framing */
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 5\r\n" E, 0, "a.example", 80, HTTP_ORIGIN,
                  HTTP_LENGTH },
                { "POST /x HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n" E, 0, "a.example", 80,
                  HTTP_ORIGIN, HTTP_CHUNKED },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n" E, -EINVAL,
                  "more than one", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-length: 6\r\n" E, -EINVAL,
                  "more than one", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n" E, -EINVAL, "not a number", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: +5\r\n" E, -EINVAL, "not a number", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: -5\r\n" E, -EINVAL, "not a number", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 0x5\r\n" E, -EINVAL, "not a number", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length:\r\n" E, -EINVAL, "empty", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n" E, 0, "a.example", 80,
                  HTTP_ORIGIN, HTTP_LENGTH },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 9223372036854775808\r\n" E, -EINVAL, "too large",
                  0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n" E, -EINVAL, "too large",
                  0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" E, -EINVAL,
                  "together", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n" E, -EINVAL,
                  "other than chunked", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n" E, -EINVAL, "other than chunked",
                  0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Transfer-Encoding: \x0b"
                  "chunked\r\n" E,
                  -EINVAL, "control", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" E,
                  -EINVAL, "more than one", 0, 0, 0 },
                { "POST /x HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n" E, -EINVAL, "other than chunked",
                  0, 0, 0 },
                { "GET /x HTTP/1.1\r\n" H "Connection: close, Host\r\n" E, -EINVAL, "Connection names Host",
                  0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H "Content-Length: 5\r\nConnection: content-length\r\n" E, -EINVAL,
                  "Connection names", 0, 0, 0 },
                { "POST /x HTTP/1.1\r\n" H
                  "Transfer-Encoding: chunked\r\nConnection: transfer-encoding\r\n" E,
                  -EINVAL, "Connection names", 0, 0, 0 },
                { "GET /x HTTP/1.1\r\n" H "Proxy-Authorization: a\r\nProxy-Authorization: b\r\n" E, -EINVAL,
                  "more than one", 0, 0, 0 },
                /* not whole yet */
                { "", -EAGAIN, NULL, 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1", -EAGAIN, NULL, 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r", -EAGAIN, NULL, 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H, -EAGAIN, NULL, 0, 0, 0 },
                { "GET http://a.example/ HTTP/1.1\r\n" H "\r", -EAGAIN, NULL, 0, 0, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct http_request q;
                struct error err = { 0 };
                const size_t len = strlen(cases[i].head);
                AUTO_FREE char *exact = malloc(len + 1);
                size_t used = 0;
                int r;

                assert_non_null(exact);
                memcpy(exact, cases[i].head, len);
                r = http_request_parse(exact, len, 80, &q, &used, &err);
                if (r != cases[i].r || (r < 0 && cases[i].host && !strstr(err.msg, cases[i].host)))
                        fail_msg("row %zu '%s': %d: %s", i, cases[i].head, r, err.msg);
                if (r < 0)
                        continue;
                if (used != len || strcmp(q.host.name, cases[i].host) != 0 || q.port != cases[i].port ||
                    q.form != cases[i].form || q.head.framing != cases[i].framing)
                        fail_msg("row %zu '%s': %s:%u, form %d, framing %d", i, cases[i].head, q.host.name,
                                 q.port, (int) q.form, (int) q.head.framing);
        }
}

static void http_request_parse_refuses_nul_anywhere(void **state) {
        static const char head[] = "GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\nX-Y: z\r\n\r\n";

        (void) state;
        for (size_t i = 0; i < sizeof(head) - 1; i++) {
                char copy[sizeof(head)];
                struct http_request q;
                size_t used;

                memcpy(copy, head, sizeof(head));
                copy[i] = '\0';
                if (http_request_parse(copy, sizeof(head) - 1, 0, &q, &used, NULL) == 0)
                        fail_msg("NUL at %zu", i);
        }
}

static void http_request_parse_has_limits(void **state) {
        AUTO_FREE char *buf = malloc(2 * HTTP_HEAD_BYTES_MAX);
        struct http_request q;
        size_t used, n;

        (void) state;
        assert_non_null(buf);
        for (int over = 0; over < 2; over++) {
                n = (size_t) snprintf(buf, 4096, "GET http://a.example/ HTTP/1.1\r\n" H);
                for (int i = 1; i < HTTP_HEADERS_MAX + over; i++)
                        n += (size_t) snprintf(buf + n, 64, "X-%d: y\r\n", i);
                memcpy(buf + n, "\r\n", 2);
                assert_int_equal(http_request_parse(buf, n + 2, 0, &q, &used, NULL), over ? -E2BIG : 0);
        }
        memset(buf, 'a', 2 * HTTP_HEAD_BYTES_MAX);
        assert_int_equal(http_request_parse(buf, HTTP_LINE_BYTES_MAX, 0, &q, &used, NULL), -EAGAIN);
        assert_int_equal(http_request_parse(buf, HTTP_LINE_BYTES_MAX + 1, 0, &q, &used, NULL), -E2BIG);
        n = (size_t) snprintf(buf, 4096, "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\nX: ");
        buf[n] = 'a';
        for (size_t at = n; at < 2 * HTTP_HEAD_BYTES_MAX - 9000; at += 8000)
                memcpy(buf + at, "\r\nX: ", 5);
        assert_int_equal(http_request_parse(buf, HTTP_HEAD_BYTES_MAX - 1, 0, &q, &used, NULL), -EAGAIN);
        assert_int_equal(http_request_parse(buf, HTTP_HEAD_BYTES_MAX + 1, 0, &q, &used, NULL), -E2BIG);
}

static void http_request_write_drops_what_is_for_the_next_hop(void **state) {
        static const struct {
                const char *in, *out;
        } cases[] = {
                { "GET http://A.example/x?y HTTP/1.1\r\nhost: a.EXAMPLE\r\nAccept: */*\r\nConnection: X-Y, "
                  "keep-alive\r\n"
                  "x-y: 1\r\nKeep-Alive: 5\r\nProxy-Connection: Z\r\nZ: 2\r\nProxy-Authorization: Basic "
                  "eDp5\r\nTE: "
                  "trailers\r\nUpgrade: h2c\r\nB:  two \r\n\r\n",
                  "GET /x?y HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nB: two\r\nConnection: "
                  "close\r\n\r\n" },
                { "POST http://[::1]:81 HTTP/1.1\r\nHost: [::1]:81\r\nContent-Length: 3\r\n\r\n",
                  "POST / HTTP/1.1\r\nHost: [::1]:81\r\nContent-Length: 3\r\nConnection: close\r\n\r\n" },
                { "GET http://a.example?q HTTP/1.0\r\n\r\n",
                  "GET /?q HTTP/1.0\r\nHost: a.example\r\nConnection: close\r\n\r\n" },
                { "GET http://a.example/ws HTTP/1.1\r\n" H
                  "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"
                  "Sec-WebSocket-Key: k\r\n\r\n",
                  "GET /ws HTTP/1.1\r\nHost: a.example\r\nSec-WebSocket-Key: k\r\nConnection: "
                  "Upgrade\r\nUpgrade: "
                  "websocket\r\n\r\n" },
                { "GET http://a.example/ws HTTP/1.1\r\n" H "Upgrade: websocket\r\n\r\n",
                  "GET /ws HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_BUF struct buf out = { 0 };
                struct http_request q;
                size_t used;

                assert_int_equal(http_request_parse(cases[i].in, strlen(cases[i].in), 0, &q, &used, NULL), 0);
                assert_int_equal(http_request_write(&q, &out), 0);
                assert_string_equal(buf_cstr(&out), cases[i].out);
        }
}

static void http_response_parse_knows_where_it_ends(void **state) {
        static const struct {
                const char *method, *head;
                int r;
                unsigned int status;
                enum http_framing framing;
        } cases[] = {
                { "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 0, 200, HTTP_LENGTH },
                { "GET", "HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 200, HTTP_CHUNKED },
                { "GET", "HTTP/1.0 404 Not Found\r\n\r\n", 0, 404, HTTP_TO_EOF },
                { "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 0, 200, HTTP_NO_BODY },
                { "GET", "HTTP/1.1 304 \r\nContent-Length: 3\r\n\r\n", 0, 304, HTTP_NO_BODY },
                { "GET", "HTTP/1.1 204 No\r\n\r\n", 0, 204, HTTP_NO_BODY },
                { "GET", "HTTP/1.1 100 Continue\r\n\r\n", 0, 100, HTTP_NO_BODY },
                { "GET", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", 0, 101,
                  HTTP_NO_BODY },
                { "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                  -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 099 OK\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 600 OK\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 20 OK\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 2000 OK\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1200 OK\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/2.0 200 OK\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "ICY 200 OK\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 200 O\x01K\r\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 200 OK\n\r\n", -EINVAL, 0, 0 },
                { "GET", "HTTP/1.1 200 OK\r\n", -EAGAIN, 0, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct http_text method = { cases[i].method, strlen(cases[i].method) };
                struct http_response p = { .status = 0 };
                size_t used = 0;
                const int r =
                        http_response_parse(cases[i].head, strlen(cases[i].head), method, &p, &used, NULL);

                if (r != cases[i].r ||
                    (r == 0 && (p.status != cases[i].status || p.head.framing != cases[i].framing)))
                        fail_msg("row %zu '%s': %d, status %u, framing %d", i, cases[i].head, r, p.status,
                                 (int) p.head.framing);
        }
}

/* Feeds @s in pieces of @step bytes. Return: bytes of the body, or -EINVAL; *ret_done. */
static int feed(const char *s, size_t len, size_t step, bool *ret_done) {
        const struct http_head head = { .framing = HTTP_CHUNKED };
        struct http_body body;
        size_t at = 0;

        http_body_init(&body, &head);
        while (at < len && !http_body_done(&body)) {
                const size_t n = len - at < step ? len - at : step;
                size_t used = 0;

                if (http_body_feed(&body, s + at, n, &used) < 0)
                        return -EINVAL;
                at += used;
                if (used < n)
                        break;
        }
        *ret_done = http_body_done(&body);
        return (int) at;
}

static void http_body_finds_the_end_of_chunks(void **state) {
        static const struct {
                const char *s;
                int used; /* -EINVAL: refused */
                bool done;
        } cases[] = {
                { "0\r\n\r\n", 5, true },
                { "0\r\n\r\nGET /", 5, true },
                { "3\r\nabc\r\n0\r\n\r\n", 13, true },
                { "00a\r\n0123456789\r\n000\r\n\r\n", 24, true },
                { "A;x=\"y\"\r\n0123456789\r\n0;z\r\nT: v\r\nU: w\r\n\r\nrest", 40, true },
                { "3\r\nabc\r\n", 8, false },
                { "3\r\n\r\n\r\n\r\n0\r\n\r\n", -EINVAL, false },
                { "3\r\nabcd\r\n0\r\n\r\n", -EINVAL, false },
                { "3\r\nab\r\n0\r\n\r\n", -EINVAL, false },
                { "3\nabc\n0\n\n", -EINVAL, false },
                { "3\rabc", -EINVAL, false },
                { "3 \r\nabc\r\n", -EINVAL, false },
                { " 3\r\nabc\r\n", -EINVAL, false },
                { "+3\r\nabc\r\n", -EINVAL, false },
                { "-1\r\nabc\r\n", -EINVAL, false },
                { "0x3\r\nabc\r\n", -EINVAL, false },
                { "\r\nabc", -EINVAL, false },
                { ";x\r\nabc", -EINVAL, false },
                { "fffffffffffffff\r\n", 17, false },
                { "1fffffffffffffff\r\n", -EINVAL, false },
                { "3;a\x01\r\nabc\r\n", -EINVAL, false },
                { "3;a\n\r\nabc\r\n", -EINVAL, false },
                { "0\r\nT: v\n\r\n", -EINVAL, false },
                { "0\r\n folded\r\n\r\n", -EINVAL, false },
                { "0\r\nT: \x7f\r\n\r\n", -EINVAL, false },
                { "0\r\n\r3", -EINVAL, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                for (size_t step = 1; step < 64; step = step * 2 + 1) {
                        bool done = false;
                        const int used = feed(cases[i].s, strlen(cases[i].s), step, &done);

                        if (used != cases[i].used || done != cases[i].done)
                                fail_msg("row %zu by %zu: used %d, %s", i, step, used,
                                         done ? "done" : "not done");
                }
        }
}

static void http_body_limits_extensions_and_trailers(void **state) {
        char s[HTTP_TRAILER_BYTES_MAX + 64];
        bool done;

        (void) state;
        memset(s, 'x', sizeof(s));
        memcpy(s, "3;", 2);
        assert_int_equal(feed(s, HTTP_CHUNK_LINE_BYTES_MAX + 2, 4096, &done), HTTP_CHUNK_LINE_BYTES_MAX + 2);
        assert_int_equal(feed(s, HTTP_CHUNK_LINE_BYTES_MAX + 3, 4096, &done), -EINVAL);
        memcpy(s, "0\r\n", 3);
        assert_int_equal(feed(s, HTTP_TRAILER_BYTES_MAX + 3, 65536, &done), HTTP_TRAILER_BYTES_MAX + 3);
        assert_int_equal(feed(s, HTTP_TRAILER_BYTES_MAX + 4, 65536, &done), -EINVAL);
}

static void http_body_counts_lengths(void **state) {
        const struct http_head head = { .framing = HTTP_LENGTH, .length = 5 };
        struct http_body body;
        size_t used;

        (void) state;
        http_body_init(&body, &head);
        assert_int_equal(http_body_feed(&body, "abc", 3, &used), 0);
        assert_int_equal(used, 3);
        assert_false(http_body_done(&body));
        assert_int_equal(http_body_feed(&body, "defg", 4, &used), 0);
        assert_int_equal(used, 2);
        assert_true(http_body_done(&body));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(http_request_parse_has_one_reading),
                cmocka_unit_test(http_request_parse_refuses_nul_anywhere),
                cmocka_unit_test(http_request_parse_has_limits),
                cmocka_unit_test(http_request_write_drops_what_is_for_the_next_hop),
                cmocka_unit_test(http_response_parse_knows_where_it_ends),
                cmocka_unit_test(http_body_finds_the_end_of_chunks),
                cmocka_unit_test(http_body_limits_extensions_and_trailers),
                cmocka_unit_test(http_body_counts_lengths),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
