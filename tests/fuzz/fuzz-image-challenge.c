/*
 * fuzz-image-challenge.c - a WWW-Authenticate header
 */
#include <string.h>

#include "image/challenge.h"
#include "tests/fuzz/fuzz.h"

static void check(const char *s) {
        if (s && strlen(s) > CHALLENGE_VALUE_MAX)
                __builtin_trap();
        for (; s && *s; s++)
                if ((unsigned char) *s < ' ' || *s == 0x7f)
                        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_CHALLENGE struct challenge c = { 0 };

        if (challenge_parse((const char *) data, size, &c) < 0)
                return 0;
        check(c.realm);
        check(c.service);
        check(c.scope);
        if (!c.bearer && (c.realm || c.service || c.scope))
                __builtin_trap();
        return 0;
}
