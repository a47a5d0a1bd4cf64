#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/diff.h"
#include "fs/layer.h"
#include "fs/moves.h"
#include "tests/unit/layers.h"

static int collect(const struct change *c, void *arg) {
        struct buf *out = arg;

        assert_true(c->kind == CHANGE_DELETED || c->upper);
        return buf_fmt(out, "%c%s %s%s%s|", change_letter(c->kind), c->conflict ? "!" : "",
                       c->from ? c->from : "", c->from ? " -> " : "", c->path);
}

static void expect_walk(const struct layers *l, bool kernel, const char *want) {
        AUTO_BUF struct buf got = { 0 };
        struct error err = { 0 };

        assert_int_equal(
                diff_walk(&(struct diff_layers){ l->upper_fd, l->lower_fd, kernel }, collect, &got, &err), 0);
        assert_string_equal(buf_cstr(&got), want);
}

static void expect_diff(const struct layers *l, const char *want) {
        expect_walk(l, false, want);
}

static void walk_of_an_empty_upper_is_empty(void **state) {
        tree_file(&((struct layers *) *state)->tree, "lower/f", "x", 0644);
        expect_diff(*state, "");
}

static void walk_names_every_kind_in_byte_order(void **state) {
        struct layers *l = *state;

        tree_file(&l->tree, "lower/mod", "old", 0644);
        tree_file(&l->tree, "lower/del", "old", 0644);
        tree_file(&l->tree, "lower/type", "old", 0644);
        tree_dir(&l->tree, "lower/a");
        tree_file(&l->tree, "lower/a/keep", "old", 0644);
        layers_modify(l, "", "mod", "new");
        layers_delete(l, "", "del");
        layers_add(l, "a", "z", "new");
        layers_add(l, "a-b", "x", "new");
        layers_add(l, "", "\xff\n", "new");
        layers_mkdir_over(l, "type");
        assert_int_equal(symlinkat("/etc/passwd", l->upper_fd, "link"), 0);
        expect_diff(l, "A a/z|A a-b|A a-b/x|D del|A link|M mod|T type|A \xff\n|");
}

static void walk_passes_over_what_is_equal(void **state) {
        struct layers *l = *state;
        struct layer_origin origin;
        struct stat st;

        tree_file(&l->tree, "lower/f", "same", 0644);
        layers_modify(l, "", "f", "same");
        assert_int_equal(symlinkat("t", l->lower_fd, "s"), 0);
        assert_int_equal(symlinkat("t", l->upper_fd, "s"), 0);
        expect_diff(l, "");
        assert_int_equal(fchmodat(l->upper_fd, "f", 0755, 0), 0);
        expect_diff(l, "M f|");
        assert_int_equal(unlinkat(l->upper_fd, "s", 0), 0);
        assert_int_equal(symlinkat("u", l->upper_fd, "s"), 0);
        expect_diff(l, "M f|M! s|"); /* nothing says which link it replaces */
        assert_int_equal(fstatat(l->lower_fd, "s", &st, AT_SYMLINK_NOFOLLOW), 0);
        origin = layer_origin_of(&st);
        assert_int_equal(layer_claim(l->upper_fd, "s", &origin), 0);
        expect_diff(l, "M f|M s|");
}

static void walk_flags_what_the_host_changed(void **state) {
        struct layers *l = *state;

        tree_file(&l->tree, "lower/mod", "old", 0644);
        tree_file(&l->tree, "lower/del", "old", 0644);
        tree_file(&l->tree, "lower/gone", "old", 0644);
        tree_dir(&l->tree, "lower/dir");
        layers_modify(l, "", "mod", "new");
        layers_delete(l, "", "del");
        layers_modify(l, "", "gone", "new");
        layers_add(l, "", "both", "new");
        layers_add(l, "dir", "x", "new");
        expect_diff(l, "A both|D del|A dir/x|M gone|M mod|");
        tree_file(&l->tree, "lower/mod", "host", 0644);
        tree_file(&l->tree, "lower/del", "host", 0644);
        tree_file(&l->tree, "lower/both", "host", 0644);
        assert_int_equal(unlinkat(l->lower_fd, "gone", 0), 0);
        assert_int_equal(unlinkat(l->lower_fd, "dir", AT_REMOVEDIR), 0);
        expect_diff(l, "M! both|D! del|A! dir|A! dir/x|A! gone|M! mod|");
}

static void walk_shows_what_an_opaque_directory_hides(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/o");
        tree_dir(&l->tree, "lower/o/sub");
        tree_file(&l->tree, "lower/o/sub/x", "old", 0644);
        tree_file(&l->tree, "lower/o/b", "old", 0644);
        tree_file(&l->tree, "lower/o/d", "old", 0644);
        layers_begin(l);
        layers_add(l, "o", "c", "new");
        assert_int_equal(layer_set_opaque(l->upper_fd, "o"), 0);
        expect_diff(l, "D o/b|A o/c|D o/d|D o/sub|");
        layers_add(l, "o/sub", "y", "new");
        expect_diff(l, "D o/b|A o/c|D o/d|D o/sub/x|A o/sub/y|");
        layers_tick();
        tree_file(&l->tree, "lower/o/d", "host", 0644);
        expect_diff(l, "D o/b|A o/c|D! o/d|D o/sub/x|A o/sub/y|");
}

static void walk_reports_directory_modes(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/d");
        assert_int_equal(fchmodat(l->lower_fd, "d", 0555, 0), 0);
        layers_mkdir(l, "d");
        expect_diff(l, ""); /* the upper's u+w is ours */
        assert_int_equal(fchmodat(l->upper_fd, "d", 0711, 0), 0);
        expect_diff(l, "M d|");
        assert_int_equal(fchmodat(l->lower_fd, "d", 0700, 0), 0);
        expect_diff(l, "M! d|");
}

static void walk_never_follows_a_link(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "outside");
        tree_file(&l->tree, "outside/x", "secret", 0644);
        assert_int_equal(symlinkat("../outside", l->lower_fd, "d"), 0);
        layers_add(l, "d", "x", "new");
        expect_diff(l, "T! d|A! d/x|");
}

static void walk_says_what_it_cannot_read(void **state) {
        struct layers *l = *state;

        /* root reads everything: be somebody else for a while; root without capabilities cannot and need not
         */
        const bool root = geteuid() == 0 && fchown(l->upper_fd, 65534, 65534) == 0;

        if (root)
                assert_int_equal(seteuid(65534), 0);
        layers_add(l, "a", "x", "new");
        layers_add(l, "", "b", "new");
        assert_int_equal(fchmodat(l->upper_fd, "a", 0, 0), 0);
        expect_diff(l, "A! a|A b|");
        if (root)
                assert_int_equal(seteuid(0), 0);
}

static void walk_passes_over_temporary_names(void **state) {
        struct layers *l = *state;

        layers_add(l, "", LAYER_TEMP_PREFIX "0123456789abcdef", "half");
        expect_diff(l, "");
}

static void make_levels(struct layers *l, unsigned n) {
        AUTO_BUF struct buf path = { 0 };

        for (unsigned i = 0; i < n; i++)
                assert_int_equal(buf_str(&path, i ? "/d" : "d"), 0);
        layers_mkdir(l, buf_cstr(&path));
}

static int count(const struct change *c, void *arg) {
        (void) c;
        ++*(unsigned *) arg;
        return 0;
}

static void walk_stops_below_the_limit_of_levels(void **state) {
        struct layers *l = *state;
        unsigned n = 0;
        struct error err = { 0 };

        make_levels(l, DIFF_DEPTH_MAX);
        assert_int_equal(diff_walk(&(struct diff_layers){ l->upper_fd, l->lower_fd, false }, count, &n, &err),
                         0);
        assert_int_equal(n, DIFF_DEPTH_MAX);
        make_levels(l, DIFF_DEPTH_MAX + 1);
        assert_int_equal(diff_walk(&(struct diff_layers){ l->upper_fd, l->lower_fd, false }, count, &n, &err),
                         -ELOOP);
        assert_non_null(strstr(err.msg, "levels"));
}

static int stop(const struct change *c, void *arg) {
        (void) c;
        return ++*(unsigned *) arg == 2 ? -ECANCELED : 0;
}

static void walk_stops_when_asked(void **state) {
        struct layers *l = *state;
        unsigned n = 0;

        layers_add(l, "", "a", "");
        layers_add(l, "", "b", "");
        layers_add(l, "", "c", "");
        assert_int_equal(diff_walk(&(struct diff_layers){ l->upper_fd, l->lower_fd, false }, stop, &n, NULL),
                         -ECANCELED);
        assert_int_equal(n, 2);
}

/* The work renames the lower directory @from, whole, to @dir/@name. */
static void move_dir(const struct layers *l, const char *dir, const char *name, const char *from) {
        AUTO_FD int d = layers_dir(l, dir);
        AUTO_FD int fd = -1;

        assert_int_equal(mkdirat(d, name, 0755), 0);
        fd = openat(d, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(moves_set(fd, from), 0);
}

static void set_redirect(const struct layers *l, const char *path, const char *value) {
        AUTO_FD int fd = openat(l->upper_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_int_equal(fsetxattr(fd, "user.overlay.redirect", value, strlen(value), 0), 0);
}

static void walk_follows_renamed_directories(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/old");
        tree_dir(&l->tree, "lower/old/sub");
        tree_file(&l->tree, "lower/old/keep", "old", 0644);
        tree_file(&l->tree, "lower/old/gone", "old", 0644);
        tree_file(&l->tree, "lower/old/sub/x", "old", 0644);
        move_dir(l, "", "new", "old");
        layers_delete(l, "", "old");
        expect_diff(l, "R old -> new|");
        layers_add(l, "new", "fresh", "new");
        assert_int_equal(unlinkat(l->upper_fd, "old", 0), 0);
        layers_add(l, "", "old", "a file now");
        expect_diff(l, "R old -> new|A new/fresh|A old|");
        /* a name next to it, below what was renamed: looked for where the lower has the parent */
        move_dir(l, "new", "sub2", "old/sub");
        set_redirect(l, "new/sub2", "sub");
        layers_add(l, "new/sub2", "y", "new");
        expect_diff(l, "R old -> new|A new/fresh|R old/sub -> new/sub2|A new/sub2/y|A old|");
}

static void walk_flags_renames_in_conflict(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/old");
        tree_dir(&l->tree, "lower/b");
        move_dir(l, "", "new", "old");
        move_dir(l, "", "c", "b");
        layers_add(l, "c", "x", "new");
        expect_diff(l, "R b -> c|A c/x|R old -> new|");
        tree_dir(&l->tree, "lower/new");
        assert_int_equal(unlinkat(l->lower_fd, "b", AT_REMOVEDIR), 0);
        expect_diff(l, "R! b -> c|A! c/x|R! old -> new|");
}

static void walk_rejects_redirects_that_lead_elsewhere(void **state) {
        static const char *const bad[] = { "/..", "/a/../b", "/", "a/b", ".", "..", "/a//b", "/a/" };
        struct layers *l = *state;
        struct error err = { 0 };
        unsigned n = 0;

        layers_mkdir(l, "d");
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                set_redirect(l, "d", bad[i]);
                assert_int_equal(
                        diff_walk(&(struct diff_layers){ l->upper_fd, l->lower_fd, false }, count, &n, &err),
                        -EBADMSG);
        }
}

/* Without records a lower object that changed after the upper one was made is a conflict, and no other. */
static void walk_of_the_kernels_upper_goes_by_time(void **state) {
        struct layers *l = *state;

        tree_file(&l->tree, "lower/mod", "old", 0644);
        tree_file(&l->tree, "lower/del", "old", 0644);
        tree_dir(&l->tree, "lower/o");
        tree_file(&l->tree, "lower/o/x", "old", 0644);
        layers_tick();
        tree_file(&l->tree, "upper/mod", "new", 0644);
        tree_dir(&l->tree, "upper/o");
        assert_int_equal(layer_set_opaque(l->upper_fd, "o"), 0);
        tree_file(&l->tree, "upper/o/x", "new", 0644);
        tree_file(&l->tree, "upper/add", "new", 0644);
        if (mknodat(l->upper_fd, "del", S_IFCHR, 0) < 0)
                layers_delete(l, "", "del");
        expect_walk(l, true, "A add|D del|M mod|M o/x|");
        expect_walk(l, false, "A add|D del|M! mod|M! o/x|");
        layers_tick();
        tree_file(&l->tree, "lower/mod", "host", 0644);
        tree_file(&l->tree, "lower/add", "host", 0644);
        tree_file(&l->tree, "lower/del", "host", 0644);
        tree_file(&l->tree, "lower/o/y", "host", 0644);
        expect_walk(l, true, "M! add|D! del|M! mod|M! o/x|D! o/y|");
}

int main(void) {
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, layers_setup, layers_teardown)
        const struct CMUnitTest tests[] = {
                CASE(walk_of_an_empty_upper_is_empty),
                CASE(walk_names_every_kind_in_byte_order),
                CASE(walk_passes_over_what_is_equal),
                CASE(walk_flags_what_the_host_changed),
                CASE(walk_shows_what_an_opaque_directory_hides),
                CASE(walk_reports_directory_modes),
                CASE(walk_never_follows_a_link),
                CASE(walk_says_what_it_cannot_read),
                CASE(walk_passes_over_temporary_names),
                CASE(walk_stops_below_the_limit_of_levels),
                CASE(walk_stops_when_asked),
                CASE(walk_follows_renamed_directories),
                CASE(walk_flags_renames_in_conflict),
                CASE(walk_rejects_redirects_that_lead_elsewhere),
                CASE(walk_of_the_kernels_upper_goes_by_time),
        };

        return cmocka_run_group_tests_name("diff", tests, NULL, NULL);
}
