#include <errno.h>
#include <linux/fuse.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fs/request.h"
#include "runtime/base/cleanup.h"

/** struct message - a header and room for a body */
struct message {
        struct fuse_in_header in;
        char body[256];
};

static size_t fill(struct message *m, uint32_t opcode, const void *body, size_t len) {
        *m = (struct message){ .in = { .opcode = opcode, .len = (uint32_t) (sizeof(m->in) + len) } };
        memcpy(m->body, body, len);
        return m->in.len;
}

/* Every operation: of all lengths up to that of a whole message, only the whole one passes. */
static void shorter_messages_are_refused(void **state) {
        static const struct {
                uint32_t opcode;
                size_t fixed;
                unsigned int names;
        } rows[] = {
                { FUSE_LOOKUP, 0, 1 },       { FUSE_FORGET, 8, 0 },
                { FUSE_GETATTR, 16, 0 },     { FUSE_SETATTR, 88, 0 },
                { FUSE_SYMLINK, 0, 2 },      { FUSE_MKNOD, 16, 1 },
                { FUSE_MKDIR, 8, 1 },        { FUSE_UNLINK, 0, 1 },
                { FUSE_RMDIR, 0, 1 },        { FUSE_RENAME, 8, 2 },
                { FUSE_LINK, 8, 1 },         { FUSE_OPEN, 8, 0 },
                { FUSE_READ, 40, 0 },        { FUSE_WRITE, 40, 0 },
                { FUSE_RELEASE, 24, 0 },     { FUSE_FSYNC, 16, 0 },
                { FUSE_SETXATTR, 8, 1 },     { FUSE_GETXATTR, 8, 1 },
                { FUSE_LISTXATTR, 8, 0 },    { FUSE_REMOVEXATTR, 0, 1 },
                { FUSE_FLUSH, 24, 0 },       { FUSE_INIT, 16, 0 },
                { FUSE_OPENDIR, 8, 0 },      { FUSE_READDIR, 40, 0 },
                { FUSE_RELEASEDIR, 24, 0 },  { FUSE_FSYNCDIR, 16, 0 },
                { FUSE_ACCESS, 8, 0 },       { FUSE_CREATE, 16, 1 },
                { FUSE_BATCH_FORGET, 8, 0 }, { FUSE_FALLOCATE, 32, 0 },
                { FUSE_READDIRPLUS, 40, 0 }, { FUSE_RENAME2, 16, 2 },
                { FUSE_LSEEK, 24, 0 },       { FUSE_COPY_FILE_RANGE, 56, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                char body[256] = { 0 };
                const size_t whole = rows[i].fixed + 3 * rows[i].names;
                struct message m;

                for (unsigned int k = 0; k < rows[i].names; k++)
                        memcpy(body + rows[i].fixed + 3 * (size_t) k, "ab", 3);
                for (size_t len = 0; len < whole; len++)
                        if (request_check(&m, fill(&m, rows[i].opcode, body, len)) != -EINVAL)
                                fail_msg("operation %u passes with %zu bytes", rows[i].opcode, len);
                assert_int_equal(request_check(&m, fill(&m, rows[i].opcode, body, whole)), 0);
        }
}

static void data_is_as_long_as_it_says(void **state) {
        struct fuse_write_in write[2] = { { .size = sizeof(struct fuse_write_in) } };
        struct {
                struct fuse_batch_forget_in in;
                struct fuse_forget_one one[2];
        } forgets = { .in = { .count = 2 } };
        const char setxattr[] = "\5\0\0\0\0\0\0\0user.a\0value"; /* and a NUL, which nobody asked for */
        struct message m;

        (void) state;
        assert_int_equal(request_check(&m, fill(&m, FUSE_WRITE, write, sizeof(write))), 0);
        write[0].size++;
        assert_int_equal(request_check(&m, fill(&m, FUSE_WRITE, write, sizeof(write))), -EINVAL);
        assert_int_equal(request_check(&m, fill(&m, FUSE_BATCH_FORGET, &forgets, sizeof(forgets))), 0);
        forgets.in.count = 3;
        assert_int_equal(request_check(&m, fill(&m, FUSE_BATCH_FORGET, &forgets, sizeof(forgets))), -EINVAL);
        forgets.in.count = UINT32_MAX;
        assert_int_equal(request_check(&m, fill(&m, FUSE_BATCH_FORGET, &forgets, sizeof(forgets))), -EINVAL);
        assert_int_equal(request_check(&m, fill(&m, FUSE_SETXATTR, setxattr, sizeof(setxattr) - 1)), 0);
        assert_int_equal(request_check(&m, fill(&m, FUSE_SETXATTR, setxattr, sizeof(setxattr) - 2)), -EINVAL);
}

static void frames_are_checked(void **state) {
        const struct fuse_init_in init = { .major = 7, .flags = FUSE_INIT_EXT };
        struct message m;
        size_t len = fill(&m, FUSE_READLINK, "", 0);

        (void) state;
        assert_int_equal(request_check(&m, len), 0);
        assert_int_equal(request_check(&m, len - 1), -EINVAL);
        assert_int_equal(request_check(&m, 0), -EINVAL);
        m.in.len++;
        assert_int_equal(request_check(&m, len), -EINVAL);
        assert_int_equal(request_check(&m, fill(&m, FUSE_NOTIFY_REPLY, "", 0)), -EINVAL);
        assert_int_equal(request_check(&m, fill(&m, 12345, "", 0)), 0); /* libfuse's to refuse */
        assert_int_equal(request_check(&m, fill(&m, FUSE_INIT, &init, 16)), -EINVAL);
        assert_int_equal(request_check(&m, fill(&m, FUSE_INIT, &init, sizeof(init))), 0);
}

static void some_want_no_reply(void **state) {
        static const uint32_t none[] = { FUSE_FORGET, FUSE_BATCH_FORGET, FUSE_INTERRUPT, FUSE_NOTIFY_REPLY };
        struct message m;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
                (void) fill(&m, none[i], "", 0);
                assert_false(request_wants_reply(&m));
        }
        (void) fill(&m, FUSE_LOOKUP, "", 0);
        assert_true(request_wants_reply(&m));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(shorter_messages_are_refused),
                cmocka_unit_test(data_is_as_long_as_it_says),
                cmocka_unit_test(frames_are_checked),
                cmocka_unit_test(some_want_no_reply),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
