/*
 * fuzz-hello.c - ClientHello: what a shorter piece was enough for, a longer one says too
 */
#include <errno.h>
#include <string.h>

#include "netns/hello.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct hello hello, half;
        struct error err = { 0 };
        int r, r_half;

        if (size > 2 * HELLO_WIRE_MAX)
                return 0;
        r = hello_parse(data, size, &hello, &err);
        check(r == 0 || (r == -EAGAIN && size < HELLO_WIRE_MAX) ||
              ((r == -EINVAL || r == -E2BIG) && *err.msg));
        if (r == 0 && hello.has_name)
                check(hello.host.kind == HOST_NAME && *hello.host.name &&
                      strlen(hello.host.name) <= HOST_NAME_BYTES_MAX);
        r_half = hello_parse(data, size / 2, &half, NULL);
        if (r_half != -EAGAIN)
                check(r == r_half);
        if (r_half == 0)
                check(half.has_name == hello.has_name && half.encrypted == hello.encrypted &&
                      (!half.has_name || strcmp(half.host.name, hello.host.name) == 0));
        return 0;
}
