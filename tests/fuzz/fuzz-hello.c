/*
 * fuzz-hello.c - ClientHello: what a shorter piece was enough for, a longer one says too; the server's
 * answer: the same in whatever pieces it comes
 */
#include <errno.h>
#include <string.h>

#include "netns/hello.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_answer(const uint8_t *data, size_t size) {
        struct hello_answer whole = { .retries = 0 }, bytes = { .retries = 0 };

        hello_answer_feed(&whole, data, size);
        for (size_t i = 0; i < size; i++) {
                const bool settled = bytes.settled;
                const size_t retries = bytes.retries;

                hello_answer_feed(&bytes, data + i, 1);
                check(bytes.n_header <= sizeof(bytes.header) && bytes.n_message <= sizeof(bytes.message));
                check(bytes.retries - retries <= (settled ? 0 : 1) && bytes.settled >= settled);
        }
        check(whole.settled == bytes.settled && whole.retries == bytes.retries);
        check(whole.retries * HELLO_RANDOM_END <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct hello hello, half;
        struct error err = { 0 };
        int r, r_half;

        if (size > 2 * HELLO_WIRE_MAX)
                return 0;
        check_answer(data, size);
        check(hello_skip_others(data, size) <= size);
        r = hello_parse(data, size, &hello, &err);
        check(r == 0 || (r == -EAGAIN && size < HELLO_WIRE_MAX) ||
              ((r == -EINVAL || r == -E2BIG) && *err.msg));
        if (r == 0 && hello.has_name)
                check(hello.host.kind == HOST_NAME && *hello.host.name &&
                      strlen(hello.host.name) <= HOST_NAME_BYTES_MAX);
        r_half = hello_parse(data, size / 2, &half, NULL);
        if (r_half != -EAGAIN)
                check(r == r_half);
        if (r == 0)
                check(hello.wire_len <= size && hello_parse(data, hello.wire_len, &half, NULL) == 0 &&
                      hello_parse(data, hello.wire_len - 1, &half, NULL) == -EAGAIN);
        if (r_half == 0)
                check(half.wire_len == hello.wire_len && half.has_name == hello.has_name &&
                      half.encrypted == hello.encrypted &&
                      (!half.has_name || strcmp(half.host.name, hello.host.name) == 0));
        return 0;
}
