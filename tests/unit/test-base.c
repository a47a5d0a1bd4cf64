#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/error.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/parse.h"
#include "runtime/base/path.h"
#include "runtime/base/suggest.h"

static void error_wrap_keeps_root_code(void **state) {
        struct error err = { 0 };

        (void) state;
        assert_int_equal(error_set(&err, -ENOENT, "open '%s'", "x"), -ENOENT);
        assert_int_equal(error_wrap(&err, -EIO, "load"), -EIO);
        assert_int_equal(err.code, -ENOENT);
        assert_string_equal(err.msg, "load: open 'x'");
}

static void path_normalize_is_lexical(void **state) {
        static const struct {
                const char *cwd, *path, *want;
                int r;
        } cases[] = {
                { NULL, "/a//b/./c/", "/a/b/c", 0 }, { "/w", "x/../y", "/w/y", 0 },
                { "/w", "../../..", "/", 0 },        { NULL, "rel", NULL, -EINVAL },
                { NULL, "", NULL, -EINVAL },         { NULL, "/..", "/", 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FREE char *got = NULL;

                assert_int_equal(path_normalize(cases[i].cwd, cases[i].path, &got), cases[i].r);
                if (cases[i].want)
                        assert_string_equal(got, cases[i].want);
                else
                        assert_null(got);
        }
}

static void path_below_respects_components(void **state) {
        (void) state;
        assert_string_equal(path_below("/a/b", "/a"), "b");
        assert_string_equal(path_below("/a", "/a"), "");
        assert_string_equal(path_below("/a", "/"), "a");
        assert_null(path_below("/ab", "/a"));
        assert_null(path_below("/", "/a"));
}

/* A link below, on the way or at the end; not one that lies elsewhere, nor the directory itself. */
static void file_goes_through_sees_links(void **state) {
        char dir[] = "/tmp/cofferdam-through.XXXXXX", path[128];

        (void) state;
        assert_non_null(mkdtemp(dir));
        (void) snprintf(path, sizeof(path), "%s/away", dir);
        assert_int_equal(symlink("/etc", path), 0);
        assert_true(file_goes_through(path, dir));
        (void) snprintf(path, sizeof(path), "%s/away/passwd", dir);
        assert_true(file_goes_through(path, dir));
        assert_false(file_goes_through(path, "/usr"));
        assert_true(file_goes_through(path, "/etc"));
        (void) snprintf(path, sizeof(path), "%s/../../etc/passwd", dir);
        assert_false(file_goes_through(path, dir));
        (void) snprintf(path, sizeof(path), "%s/not-there", dir);
        assert_true(file_goes_through(path, dir));
        (void) snprintf(path, sizeof(path), "%s/loop", dir);
        assert_int_equal(symlink(path, path), 0);
        assert_true(file_goes_through(path, "/usr"));
        (void) unlink(path);
        (void) snprintf(path, sizeof(path), "%s/away", dir);
        (void) unlink(path);
        (void) rmdir(dir);
}

static void parse_size_wants_units(void **state) {
        static const struct {
                const char *text;
                int r;
                uint64_t want;
        } cases[] = {
                { "0", 0, 0 },
                { "4Ki", 0, 4096 },
                { "1k", 0, 1000 },
                { "1GiB", 0, 1 << 30 },
                { "5", -EDOM, 0 },
                { "", -EINVAL, 0 },
                { "1 k", -EINVAL, 0 },
                { "-1k", -EINVAL, 0 },
                { "1.5G", -EINVAL, 0 },
                { "9999999999T", -ERANGE, 0 },
                { "99999999999999999999999", -ERANGE, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t got = 0;

                assert_int_equal(parse_size(cases[i].text, 0, UINT64_MAX, &got), cases[i].r);
                assert_int_equal(got, cases[i].want);
        }
}

static void parse_duration_sums_parts(void **state) {
        static const struct {
                const char *text;
                int r;
                uint64_t want;
        } cases[] = {
                { "1h30m", 0, 5400000 }, { "250ms", 0, 250 },  { "0", 0, 0 },
                { "10", -EDOM, 0 },      { "1d", -EINVAL, 0 }, { "h", -EINVAL, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t got = 0;

                assert_int_equal(parse_duration_ms(cases[i].text, 0, UINT64_MAX, &got), cases[i].r);
                assert_int_equal(got, cases[i].want);
        }
}

static void escape_str_is_one_line(void **state) {
        char out[64], small[8];

        (void) state;
        assert_string_equal(escape_str("a\nb\x1b\xff\\", out, sizeof(out)), "a\\nb\\x1b\\xff\\\\");
        assert_string_equal(escape_str("caf\xc3\xa9", out, sizeof(out)), "caf\xc3\xa9");
        assert_string_equal(escape_str("abcdefghijk", small, sizeof(small)), "abcd...");
        assert_false(utf8_valid("\xed\xa0\x80", 3)); /* surrogate */
        assert_false(utf8_valid("\xc0\x80", 2));     /* overlong NUL */
}

static void suggest_name_finds_near_words(void **state) {
        static const char *const names[] = { "network", "workspace", "mount" };

        (void) state;
        assert_string_equal(suggest_name("netwrok", names, 3), "network");
        assert_string_equal(suggest_name("mont", names, 3), "mount");
        assert_null(suggest_name("zzzzzz", names, 3));
        assert_null(suggest_name("", names, 3));
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(error_wrap_keeps_root_code),
                cmocka_unit_test(path_normalize_is_lexical),
                cmocka_unit_test(path_below_respects_components),
                cmocka_unit_test(file_goes_through_sees_links),
                cmocka_unit_test(parse_size_wants_units),
                cmocka_unit_test(parse_duration_sums_parts),
                cmocka_unit_test(escape_str_is_one_line),
                cmocka_unit_test(suggest_name_finds_near_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
