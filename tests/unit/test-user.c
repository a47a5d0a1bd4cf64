#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/user.h"

/* a file like passwd(5), gone at the end of the test */
static int with_file(void **state) {
        static char path[] = "/tmp/test-user.XXXXXX";
        static const char text[] = "root:x:0:0:root:/root:/bin/bash\n"
                                   "short:x:5:5::/home\n"
                                   "long:x:6:6::/home:/bin/sh:more\n"
                                   "word:x:seven:7::/home:/bin/sh\n"
                                   "huge:x:4294967296:8::/home:/bin/sh\n"
                                   "\n"
                                   "empty:x:9:9:::\n"
                                   "twice:x:10:10::/first:/bin/sh\n"
                                   "twice:x:11:11::/second:/bin/sh\n"
                                   "last:x:12:13:A, B:/home/last:/bin/zsh";
        AUTO_FD int fd = -1;

        (void) snprintf(path, sizeof(path), "/tmp/test-user.XXXXXX");
        fd = mkstemp(path);
        if (fd < 0 || write(fd, text, sizeof(text) - 1) != (ssize_t) sizeof(text) - 1)
                return -1;
        *state = path;
        return 0;
}

static int without_file(void **state) {
        return unlink(*state);
}

static void user_by_name_reads_whole_lines_only(void **state) {
        static const struct {
                const char *name;
                int r;
                uid_t uid;
                const char *home;
        } cases[] = {
                { "root", 0, 0, "/root" },    { "last", 0, 12, "/home/last" }, { "empty", 0, 9, "" },
                { "twice", 0, 10, "/first" }, { "short", -ENOENT, 0, NULL },   { "long", -ENOENT, 0, NULL },
                { "word", -ENOENT, 0, NULL }, { "huge", -ENOENT, 0, NULL },    { "", -ENOENT, 0, NULL },
                { "roo", -ENOENT, 0, NULL },  { "roott", -ENOENT, 0, NULL },   { "x", -ENOENT, 0, NULL },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_USER struct user user = { 0 };

                assert_int_equal(user_by_name(*state, cases[i].name, &user), cases[i].r);
                if (cases[i].r < 0) {
                        assert_null(user.name);
                        continue;
                }
                assert_int_equal(user.uid, cases[i].uid);
                assert_string_equal(user.home, cases[i].home);
        }
}

static void user_by_uid_reads_whole_lines_only(void **state) {
        static const struct {
                uid_t uid;
                const char *name;
        } cases[] = { { 0, "root" }, { 12, "last" }, { 11, "twice" }, { 5, NULL }, { 6, NULL }, { 7, NULL } };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_USER struct user user = { 0 };

                assert_int_equal(user_by_uid(*state, cases[i].uid, &user), cases[i].name ? 0 : -ENOENT);
                if (cases[i].name)
                        assert_string_equal(user.name, cases[i].name);
        }
}

static void user_by_uid_tells_a_missing_file(void **state) {
        struct user user = { 0 };

        (void) state;
        assert_int_equal(user_by_uid("/nonexistent/passwd", 0, &user), -ENOENT);
        assert_int_equal(user_by_uid("/", 0, &user), -EINVAL);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(user_by_name_reads_whole_lines_only, with_file, without_file),
                cmocka_unit_test_setup_teardown(user_by_uid_reads_whole_lines_only, with_file, without_file),
                cmocka_unit_test(user_by_uid_tells_a_missing_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
