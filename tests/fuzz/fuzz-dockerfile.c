/*
 * fuzz-dockerfile.c - a repository's Dockerfile
 *
 * No line of what is accepted leads out by itself.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/oci/dockerfile.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static int base(const char *image, void *arg, struct error *err) {
        (void) arg;
        (void) err;
        check(*image && *image != '-' && strncmp(image, "oci:", 4) != 0);
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FREE char *text = malloc(size + 1);
        int r;

        check(text != NULL);
        memcpy(text, data, size);
        text[size] = '\0';
        r = dockerfile_check(text, size, NULL);
        check(r == 0 || r == -EPERM || r == -E2BIG);
        if (r < 0)
                return 0;
        for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
                check(strncmp(p, "ADD http://", 11) != 0 && strncmp(p, "FROM oci:", 9) != 0);
                check(strncmp(p, "RUN --network", 13) != 0 && strncmp(p, "COPY --from=dir:", 16) != 0);
        }
        r = dockerfile_bases(text, NULL, 0, base, NULL, NULL);
        check(r == 0 || r == -EPERM || r == -E2BIG);
        return 0;
}
