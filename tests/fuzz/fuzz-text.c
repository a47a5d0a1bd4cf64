/*
 * fuzz-text.c - what people type: numbers, sizes, durations, paths, and the escaping of what they typed
 */
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX = 8192, LOW = 3, HIGH = 1000000 };

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void numbers(const char *s) {
        static int (*const parsers[])(const char *, uint64_t, uint64_t, uint64_t *) = {
                parse_u64,
                parse_size,
                parse_duration_ms,
        };
        uint32_t mode = 0;

        for (size_t i = 0; i < ARRAY_SIZE(parsers); i++) {
                uint64_t v = UINT64_MAX;

                if (parsers[i](s, LOW, HIGH, &v) == 0)
                        check(v >= LOW && v <= HIGH);
                else
                        check(v == UINT64_MAX); /* outputs are untouched on failure */
        }
        if (parse_octal(s, 07777, &mode) == 0)
                check(mode <= 07777);
}

static void paths(const char *s) {
        AUTO_FREE char *abs = NULL, *again = NULL;

        if (path_normalize("/w/d", s, &abs) < 0) {
                check(!abs);
                return;
        }
        check(path_is_normal(abs));
        check(path_below(abs, "/") != NULL);
        check(path_normalize(NULL, abs, &again) == 0 && strcmp(abs, again) == 0);
}

static void escapes(const char *s, size_t len) {
        AUTO_JSON json_t *j = json_from_bytes(s, 100);
        char out[64];

        check(escape_str(s, out, sizeof(out)) == out && strlen(out) < sizeof(out));
        check(utf8_valid(out, strlen(out)));
        for (const char *p = out; *p; p++)
                check((unsigned char) *p >= ' ' && *p != 0x7f);
        check(!j || utf8_valid(json_string_value(j), json_string_length(j)));
        check(j || len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_FREE char *s = NULL;

        if (size > INPUT_MAX)
                return 0;
        s = malloc(size + 1);
        if (!s)
                return 0;
        if (size > 0)
                memcpy(s, data, size);
        s[size] = '\0';
        numbers(s);
        paths(s);
        escapes(s, strlen(s));
        return 0;
}
