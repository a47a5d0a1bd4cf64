/* Folding file systems are made by tests/integration/fold-mount.c; here: what must not be taken for one. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/casefold.h"
#include "runtime/base/cleanup.h"

static void casefold_detect_is_not_fooled(void **state) {
        char dir[] = "/tmp/cofferdam-casefold-XXXXXX";
        AUTO_FD int fd = -1;
        AUTO_FD int file = -1;

        (void) state;
        assert_non_null(mkdtemp(dir));
        fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_false(casefold_detect(fd, true)); /* empty: by its own name */
        file = openat(fd, "1", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(file >= 0);
        assert_false(casefold_detect(fd, true)); /* no letters */
        assert_int_equal(linkat(fd, "1", fd, "abC", 0), 0);
        assert_int_equal(linkat(fd, "1", fd, "ABc", 0), 0);
        assert_false(casefold_detect(fd, true)); /* one file by two names */
        assert_false(casefold_detect(file, false));
        assert_int_equal(unlinkat(fd, "1", 0) | unlinkat(fd, "abC", 0) | unlinkat(fd, "ABc", 0) | rmdir(dir),
                         0);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(casefold_detect_is_not_fooled),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
