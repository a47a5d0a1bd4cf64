/*
 * fuzz-ignore.c - a .dockerignore and a path, split at the first NUL
 *
 * What no pattern is there for is kept, and a verdict is the same twice.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/oci/ignore.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const uint8_t *const end = size > 0 ? memchr(data, '\0', size) : NULL;
        const size_t len = end ? (size_t) (end - data) : size;
        AUTO_FREE char *path = end ? strndup((const char *) end + 1, size - len - 1) : strdup("a/b");
        AUTO_FREE bool *here = NULL, *again = NULL;
        AUTO_IGNORE struct ignore *g = NULL;
        struct ignore_verdict one = { 0 }, two = { 0 };
        struct error err = { 0 };
        int r;

        if (size > 16384 || !path)
                return 0;
        if (ignore_parse((const char *) data, len, &g, &err) < 0) {
                check(*err.msg && !strchr(err.msg, '\n') && !g);
                return 0;
        }
        here = calloc(ignore_count(g) + 1, sizeof(*here));
        again = calloc(ignore_count(g) + 1, sizeof(*again));
        check(here && again);
        r = ignore_match(g, path, NULL, here, &one);
        check(r < 0 ? strlen(path) >= PATH_MAX : ignore_match(g, path, NULL, again, &two) == 0);
        check(one.ignored == two.ignored && one.search == two.search && (one.ignored || !one.search));
        check(memcmp(here, again, ignore_count(g)) == 0 && (ignore_count(g) > 0 || !one.ignored));
        return 0;
}
