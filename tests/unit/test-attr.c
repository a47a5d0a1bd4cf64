#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fs/attr.h"
#include "runtime/base/cleanup.h"

/* the caller is 1000:1000 and in group 50 on the host, 0:0 inside */
static void attr_fill_says_what_the_caller_may(void **state) {
        static gid_t groups[] = { 50 };
        static const struct idmap ids = {
                .host_uid = 1000,
                .inside_uid = 0,
                .foreign_uid = 65534,
                .host_gid = 1000,
                .inside_gid = 0,
                .foreign_gid = 65534,
                .groups = groups,
                .n_groups = 1,
        };
        static const struct {
                mode_t mode;
                uid_t uid;
                gid_t gid;
                mode_t want_mode;
                uid_t want_uid;
                gid_t want_gid;
        } cases[] = {
                { S_IFREG | 0640, 1000, 1000, 0640, 0, 0 },
                { S_IFREG | 0640, 1000, 7, 0640, 0, 0 }, /* a group that is not mapped would refuse writes */
                { S_IFREG | 0644, 7, 7, 0444, 0, 0 },    /* its owner may write, the caller not */
                { S_IFREG | 0640, 7, 50, 0440, 0, 0 },   /* read by a supplementary group */
                { S_IFREG | 0664, 7, 50, 0664, 0, 0 }, /* and written: as the owner, with the group's bits */
                { S_IFREG | 0460, 7, 1000, 0660, 0, 0 },
                { S_IFREG | 0606, 7, 7, 0606, 0, 0 },
                { S_IFREG | 0602, 7, 7, 0202, 0, 0 }, /* the owner's read bit is not the caller's */
                { S_IFREG | 0760, 7, 7, 0060, 0, 0 },
                { S_IFDIR | 01777, 7, 7, 01777, 0, 0 },
                { S_IFLNK | 0777, 7, 7, 0777, 0, 0 },
                { S_IFREG | 04755, 7, 7, 04555, 0, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct facts facts = { .st = { .st_mode = cases[i].mode,
                                                     .st_uid = cases[i].uid,
                                                     .st_gid = cases[i].gid,
                                                     .st_ino = 9,
                                                     .st_dev = 3 } };
                struct stat st;

                attr_fill(&ids, &facts, 77, &st);
                assert_int_equal(st.st_mode, (cases[i].mode & S_IFMT) | cases[i].want_mode);
                assert_int_equal(st.st_uid, cases[i].want_uid);
                assert_int_equal(st.st_gid, cases[i].want_gid);
                assert_int_equal(st.st_ino, 77);
        }
}

static void attr_fill_shows_no_host_device(void **state) {
        static const struct idmap ids = { .host_uid = 0, .inside_uid = 0 };
        const struct facts facts = { .st = { .st_mode = S_IFBLK | 0600, .st_rdev = 0x801 } };
        struct stat st;

        (void) state;
        attr_fill(&ids, &facts, 1, &st);
        assert_int_equal(st.st_rdev, 0);
        assert_true(S_ISBLK(st.st_mode));
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(attr_fill_says_what_the_caller_may),
                cmocka_unit_test(attr_fill_shows_no_host_device),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
