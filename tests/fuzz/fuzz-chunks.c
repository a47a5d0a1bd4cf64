/*
 * fuzz-chunks.c - chunked bodies: the same end, whether they come whole or byte by byte
 */
#include <string.h>

#include "netns/http-body.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/* Return: bytes of the body before its end or the error; *ret_r: what the last call gave. */
static size_t feed(const char *s, size_t size, size_t step, bool *ret_done, int *ret_r) {
        const struct http_head head = { .framing = HTTP_CHUNKED };
        struct http_body body;
        size_t at = 0;

        http_body_init(&body, &head);
        *ret_r = 0;
        while (at < size && !http_body_done(&body) && *ret_r == 0) {
                const size_t n = size - at < step ? size - at : step;
                size_t used = 0;

                *ret_r = http_body_feed(&body, s + at, n, &used);
                check(used <= n && (used == n || *ret_r < 0 || http_body_done(&body)));
                at += used;
        }
        *ret_done = http_body_done(&body);
        return at;
}

/* The same through http_body_split(). */
static size_t split(const char *s, size_t size, bool *ret_done, int *ret_r) {
        const struct http_head head = { .framing = HTTP_CHUNKED };
        struct http_body body;
        size_t at = 0;

        http_body_init(&body, &head);
        *ret_r = 0;
        while (at < size && !http_body_done(&body) && *ret_r == 0) {
                size_t used = 0;
                bool is_data = false;

                *ret_r = http_body_split(&body, s + at, size - at, &used, &is_data);
                check(*ret_r < 0 || (used > 0 && used <= size - at));
                at += used;
        }
        *ret_done = http_body_done(&body);
        return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *s = (const char *) data;
        bool done_whole, done_bytes, done_split;
        int r_whole, r_bytes, r_split;
        size_t whole, bytes, parts;

        if (size > 65536)
                return 0;
        whole = feed(s, size, size, &done_whole, &r_whole);
        bytes = feed(s, size, 1, &done_bytes, &r_bytes);
        check(r_whole == r_bytes && done_whole == done_bytes && (r_whole < 0 || whole == bytes));
        parts = split(s, size, &done_split, &r_split);
        check(r_whole == r_split && done_whole == done_split && (r_whole < 0 || whole == parts));
        check(!done_whole || (whole >= 5 && memcmp(s + whole - 4, "\r\n\r\n", 4) == 0));
        return 0;
}
