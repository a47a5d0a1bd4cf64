#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/journal.h"
#include "fs/pathfd.h"
#include "tests/unit/tree.h"

static struct journal *sample(size_t n) {
        struct journal *j = calloc(1, sizeof(*j));

        assert_non_null(j);
        j->region = 3;
        j->phase = JOURNAL_COMMIT;
        j->force = true;
        j->tx = 0x0123456789abcdef;
        for (size_t i = 0; i < n; i++) {
                struct journal_entry *e = &j->entries[j->n++];

                e->op = (enum journal_op)(i % JOURNAL_OP_COUNT);
                e->path = strdup("dir\n\xff/file");
                e->from = e->op == JOURNAL_RENAME ? strdup("old/\xfe") : NULL;
                e->lower = (struct layer_origin){ 1, i, 3, -4, 5, 0100644 };
                e->upper = (struct layer_origin){ 6, 7, 8, 9, -10, 0120777 };
                e->since_ns = -1;
                e->staged_ino = i * 2;
        }
        return j;
}

static void store_and_load_keep_everything(void **state) {
        AUTO_JOURNAL struct journal *want = sample(JOURNAL_ENTRIES_MAX);
        AUTO_JOURNAL struct journal *got = NULL;
        struct tree t;

        (void) state;
        tree_init(&t);
        assert_int_equal(journal_load(t.fd, &got, NULL), -ENOENT);
        assert_int_equal(journal_store(t.fd, want, NULL), 0);
        assert_int_equal(journal_load(t.fd, &got, NULL), 0);
        assert_int_equal(got->region, 3);
        assert_int_equal(got->phase, JOURNAL_COMMIT);
        assert_true(got->force);
        assert_true(got->tx == want->tx);
        assert_int_equal(got->n, JOURNAL_ENTRIES_MAX);
        for (size_t i = 0; i < got->n; i++) {
                assert_int_equal(got->entries[i].op, want->entries[i].op);
                assert_string_equal(got->entries[i].path, want->entries[i].path);
                assert_int_equal(got->entries[i].from != NULL, got->entries[i].op == JOURNAL_RENAME);
                if (got->entries[i].from)
                        assert_string_equal(got->entries[i].from, "old/\xfe");
                assert_int_equal(got->entries[i].lower.ino, i);
                assert_int_equal(got->entries[i].lower.mtime_ns, -4);
                assert_int_equal(got->entries[i].upper.ctime_ns, -10);
                assert_int_equal(got->entries[i].upper.mode, 0120777);
                assert_int_equal(got->entries[i].staged_ino, i * 2);
        }
        assert_int_equal(journal_remove(t.fd, NULL), 0);
        assert_int_equal(journal_remove(t.fd, NULL), 0); /* idempotent */
        assert_int_equal(tree_count(&t, "."), 0);
        tree_deinit(&t);
}

static int note_number(struct journal *j, void *arg) {
        return buf_fmt(arg, "%llu ", (unsigned long long) j->tx);
}

static void expect_batches(int fd, bool backwards, const char *want) {
        AUTO_BUF struct buf got = { 0 };
        struct error err = { 0 };

        assert_int_equal(journal_each(fd, backwards, note_number, &got, &err), 0);
        assert_string_equal(buf_cstr(&got), want);
}

static void list_keeps_batches_in_order(void **state) {
        AUTO_JOURNAL struct journal *j = sample(3);
        AUTO_FD int fd = -1;
        struct tree t;
        struct stat st;

        (void) state;
        tree_init(&t);
        assert_int_equal(journal_list(t.fd), JOURNAL_NONE);
        assert_int_equal(journal_each(t.fd, false, note_number, NULL, NULL), -ENOENT);
        for (j->tx = 1; j->tx <= 3; j->tx++) {
                assert_int_equal(journal_store(t.fd, j, NULL), 0);
                assert_int_equal(journal_append(t.fd, j, NULL), 0);
        }
        assert_int_equal(journal_list(t.fd), JOURNAL_DONE);
        expect_batches(t.fd, false, "1 2 3 ");
        expect_batches(t.fd, true, "3 2 1 ");
        /* cut anywhere in the last one: it was never closed */
        fd = openat(t.fd, "journal.done", O_RDWR | O_CLOEXEC);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(pwrite(fd, "\0\0\0\0\0\0\0\0", 8, st.st_size - 8), 8);
        expect_batches(t.fd, true, "2 1 ");
        for (off_t size = st.st_size - 1; size > st.st_size / 3 * 2; size -= 7) {
                assert_int_equal(ftruncate(fd, size), 0);
                expect_batches(t.fd, false, "1 2 ");
        }
        /* damage before it is not passed over */
        assert_int_equal(pwrite(fd, "\xff", 1, 60), 1);
        assert_int_equal(journal_each(t.fd, false, note_number, NULL, NULL), -EBADMSG);
        assert_int_equal(journal_seal(t.fd, NULL), 0);
        assert_int_equal(journal_list(t.fd), JOURNAL_FINAL);
        assert_int_equal(journal_forget(t.fd, NULL), 0);
        assert_int_equal(journal_forget(t.fd, NULL), 0); /* idempotent */
        assert_int_equal(tree_count(&t, "."), 0);
        tree_deinit(&t);
}

static void parse_rejects_every_cut_and_every_flipped_bit(void **state) {
        AUTO_JOURNAL struct journal *want = sample(2);
        AUTO_BUF struct buf bytes = { 0 };

        (void) state;
        assert_int_equal(journal_format(want, &bytes), 0);
        for (size_t i = 0; i < bytes.len; i++) {
                AUTO_JOURNAL struct journal *got = NULL;

                assert_int_equal(journal_parse(bytes.data, i, &got), -EBADMSG);
                bytes.data[i] = (char) (bytes.data[i] ^ 1);
                assert_true(journal_parse(bytes.data, bytes.len, &got) < 0);
                bytes.data[i] = (char) (bytes.data[i] ^ 1);
                assert_null(got);
        }
}

static void path_is_sane_or_not(void **state) {
        static const struct {
                const char *path;
                bool want;
        } cases[] = {
                { "a", true },       { "a/b", true },   { "...", true },  { ".a/..b", true },
                { "\xff\n", true },  { "", false },     { "/", false },   { "/a", false },
                { "a/", false },     { "a//b", false }, { ".", false },   { "..", false },
                { "a/.", false },    { "a/..", false }, { "./a", false }, { "../a", false },
                { "a/../b", false },
        };
        char name[512] = { 0 };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(pathfd_is_sane(cases[i].path), cases[i].want);
        memset(name, 'n', 255);
        assert_true(pathfd_is_sane(name));
        name[255] = 'n';
        assert_false(pathfd_is_sane(name));
}

static void open_parent_takes_paths_of_any_length(void **state) {
        AUTO_BUF struct buf path = { 0 };
        struct tree t;
        const char *name = NULL;
        int dir;

        (void) state;
        tree_init(&t);
        dir = fcntl(t.fd, F_DUPFD_CLOEXEC, 3);
        for (int i = 0; i < 100; i++) {
                char part[101] = { 0 };
                int next;

                memset(part, 'a' + i % 26, 100);
                assert_int_equal(mkdirat(dir, part, 0700), 0);
                next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                (void) close(dir);
                dir = next;
                assert_int_equal(buf_fmt(&path, "%s/", part), 0);
        }
        assert_int_equal(buf_str(&path, "leaf"), 0);
        {
                AUTO_FD int fd = pathfd_open_parent(t.fd, buf_cstr(&path), &name);
                struct stat a, b;

                assert_true(fd >= 0);
                assert_string_equal(name, "leaf");
                assert_int_equal(fstat(fd, &a), 0);
                assert_int_equal(fstat(dir, &b), 0);
                assert_int_equal(a.st_ino, b.st_ino);
        }
        (void) close(dir);
        tree_deinit(&t);
}

static void open_parent_follows_nothing(void **state) {
        const char *name = NULL;
        struct tree t;

        (void) state;
        tree_init(&t);
        tree_dir(&t, "d");
        tree_file(&t, "f", "", 0600);
        assert_int_equal(symlinkat("d", t.fd, "l"), 0);
        assert_int_equal(pathfd_open_parent(t.fd, "l/x", &name), -ENOTDIR);
        assert_int_equal(pathfd_open_parent(t.fd, "l/y/x", &name), -ELOOP);
        assert_int_equal(pathfd_open_parent(t.fd, "f/x", &name), -ENOTDIR);
        assert_int_equal(pathfd_open_parent(t.fd, "no/x", &name), -ENOENT);
        assert_int_equal(pathfd_open_parent(t.fd, "d/../x", &name), -EINVAL);
        assert_int_equal(pathfd_open_parent(t.fd, "/x", &name), -EINVAL);
        assert_null(name);
        tree_deinit(&t);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(store_and_load_keep_everything),
                cmocka_unit_test(list_keeps_batches_in_order),
                cmocka_unit_test(parse_rejects_every_cut_and_every_flipped_bit),
                cmocka_unit_test(path_is_sane_or_not),
                cmocka_unit_test(open_parent_takes_paths_of_any_length),
                cmocka_unit_test(open_parent_follows_nothing),
        };

        return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
