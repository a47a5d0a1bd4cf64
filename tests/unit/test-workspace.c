/*
 * The copy of a workspace, there and back. What comes back was made by an attacker: the rows of hostile
 * members are those that users of such tools reported, and each turns red when its defence is removed:
 * member_excluded(), member_link_stays(), the refusal of "..", the skip of hard links and devices, the mask
 * of modes, the limits.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/layer.h"
#include "kubernetes/workspace/member.h"
#include "kubernetes/workspace/pack.h"
#include "kubernetes/workspace/unpack.h"
#include "tests/unit/tree.h"

/** struct fixture - host/ is the workspace, upper/ receives, outside/ must stay empty */
struct fixture {
        struct tree tree;
        int lower_fd, upper_fd;
        struct buf tar;
        size_t at;
        struct archive *out;
        char said[4096]; /* "path: why\n" of skipped members */
        struct landing_counts counts;
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        tree_init(&f->tree);
        tree_dir(&f->tree, "host");
        tree_dir(&f->tree, "upper");
        tree_dir(&f->tree, "outside");
        f->lower_fd = tree_open(&f->tree, "host", O_RDONLY | O_DIRECTORY);
        f->upper_fd = tree_open(&f->tree, "upper", O_RDONLY | O_DIRECTORY);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;

        buf_deinit(&f->tar);
        (void) close(f->lower_fd);
        (void) close(f->upper_fd);
        tree_deinit(&f->tree);
        free(f);
        return 0;
}

static la_ssize_t to_buf(struct archive *a, void *arg, const void *data, size_t len) {
        (void) a;
        assert_int_equal(buf_add(arg, data, len), 0);
        return (la_ssize_t) len;
}

static void tar_begin(struct fixture *f) {
        f->tar.len = f->at = 0;
        f->out = archive_write_new();
        assert_int_equal(archive_write_set_format_gnutar(f->out), ARCHIVE_OK);
        assert_int_equal(archive_write_open(f->out, &f->tar, NULL, to_buf, NULL), ARCHIVE_OK);
}

static void tar_add(struct fixture *f, const char *path, mode_t mode, const char *text) {
        struct archive_entry *e = archive_entry_new();
        const bool is_file = S_ISREG(mode);

        archive_entry_set_pathname(e, path);
        archive_entry_set_mode(e, mode);
        archive_entry_set_mtime(e, 1000000000, 0);
        if (S_ISLNK(mode))
                archive_entry_set_symlink(e, text);
        else if (mode == 0) { /* a hard link */
                archive_entry_set_mode(e, S_IFREG | 0644);
                archive_entry_set_hardlink(e, text);
        }
        archive_entry_set_size(e, is_file ? (la_int64_t) strlen(text) : 0);
        assert_int_equal(archive_write_header(f->out, e), ARCHIVE_OK);
        if (is_file && *text)
                assert_int_equal(archive_write_data(f->out, text, strlen(text)), (la_ssize_t) strlen(text));
        archive_entry_free(e);
}

static void tar_end(struct fixture *f) {
        assert_int_equal(archive_write_free(f->out), ARCHIVE_OK);
}

static ssize_t from_buf(void *arg, const void **ret) {
        struct fixture *f = arg;
        const size_t n = f->tar.len - f->at < 1000 ? f->tar.len - f->at : 1000;

        *ret = f->tar.data + f->at;
        f->at += n;
        return (ssize_t) n;
}

static void on_skipped(void *arg, const char *path, const char *why) {
        struct fixture *f = arg;
        const size_t n = strlen(f->said);

        (void) snprintf(f->said + n, sizeof(f->said) - n, "%s: %s\n", path, why);
}

static int land(struct fixture *f, const struct landing_limits *limits, const struct paths *sent,
                const struct paths *kept) {
        const struct landing_options opt = { .upper_fd = f->upper_fd,
                                             .lower_fd = f->lower_fd,
                                             .root = "/ws",
                                             .limits = limits ? *limits : LANDING_LIMITS_DEFAULT,
                                             .sent = sent,
                                             .kept = kept,
                                             .skipped = on_skipped,
                                             .arg = f };
        AUTO_LANDING struct landing *l = NULL;
        struct error err = { 0 };
        int r;

        f->said[0] = '\0';
        f->at = 0;
        assert_int_equal(landing_new(&opt, &l), 0);
        r = unpack_stream(from_buf, f, l, &err);
        if (r == 0)
                r = landing_finish(l, &f->counts, &err);
        assert_int_equal(r, err.code);
        return r;
}

/* The upper, with nothing beside it. */
static void expect_upper(struct fixture *f, const char *want) {
        char list[4096];

        tree_list(&f->tree, "upper", list, sizeof(list));
        assert_string_equal(list, want);
        tree_list(&f->tree, "outside", list, sizeof(list));
        assert_string_equal(list, "");
}

static void member_path_takes_names_below_only(void **state) {
        static const struct {
                const char *raw;
                int want;
                const char *path;
        } rows[] = {
                { "a/b", 0, "a/b" },
                { "./a//./b/", 0, "a/b" },
                { ".", 0, "" },
                { "./", 0, "" },
                { "..a/b..", 0, "..a/b.." },
                { "/etc/passwd", -EPERM, NULL },
                { "../x", -EPERM, NULL },
                { "./../x", -EPERM, NULL },
                { "a/../../x", -EPERM, NULL },
                { "a/..", -EPERM, NULL },
                { "a/" LAYER_TEMP_PREFIX "x", -EPERM, NULL },
        };
        char deep[2 * (MEMBER_DEPTH_MAX + 1) + 1], name[300];
        char *path = NULL;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                assert_int_equal(member_path(rows[i].raw, &path, NULL), rows[i].want);
                if (rows[i].want == 0) {
                        assert_string_equal(path, rows[i].path);
                        free(TAKE_PTR(path));
                }
                assert_null(path);
        }
        for (size_t i = 0; i < MEMBER_DEPTH_MAX + 1; i++)
                memcpy(deep + 2 * i, "a/", 3);
        assert_int_equal(member_path(deep, &path, NULL), -ENAMETOOLONG);
        deep[2 * MEMBER_DEPTH_MAX] = '\0';
        assert_int_equal(member_path(deep, &path, NULL), 0);
        free(TAKE_PTR(path));
        memset(name, 'n', sizeof(name));
        name[256] = '\0';
        assert_int_equal(member_path(name, &path, NULL), -ENAMETOOLONG);
        name[255] = '\0';
        assert_int_equal(member_path(name, &path, NULL), 0);
        free(path);
}

static void member_excluded_knows_every_git_directory(void **state) {
        static const struct {
                const char *path;
                bool want;
        } rows[] = {
                { ".git/config", true },
                { ".GIT/Config", true },
                { ".git/hooks", true },
                { ".git/hooks/pre-push", true },
                { ".git/cofferdam-credentials", true },
                { ".git/config.worktree", true },
                { "sub/.git/hooks/x", true },
                { ".git/modules/a/b/config", true },
                { ".git/modules/a/hooks/post-merge", true },
                { ".git/worktrees/w/config.worktree", true },
                { ".git/HEAD", false },
                { ".git", false },
                { ".git/refs/heads/config", false },
                { ".git/refs/heads/hooks/x", false },
                { ".git/logs/refs/heads/hooks", false },
                { ".git/modules/a/refs/heads/config", false },
                { "config", false },
                { "hooks/pre-push", false },
                { ".github/config", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (member_excluded(rows[i].path) != rows[i].want)
                        fail_msg("%s", rows[i].path);
}

static void member_link_stays_refuses_what_may_leave(void **state) {
        static const struct {
                const char *path, *target;
                bool want;
        } rows[] = {
                { "l", "a", true },
                { "l", "./a/b", true },
                { "d/l", "../a", true },
                { "d/e/l", "../../a", true },
                { "l", "/ws/a", true },
                { "d/l", "/ws", true },
                { "l", "..", false },
                { "d/l", "../..", false },
                { "d/l", "../../ws/a", false },
                { "l", "/etc/passwd", false },
                { "l", "/wsx/a", false },
                { "l", "/ws/../etc", false },
                { "d/l", "a/../b", false }, /* a may be a link to a directory elsewhere below */
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (member_link_stays(rows[i].path, rows[i].target, "/ws") != rows[i].want)
                        fail_msg("%s -> %s", rows[i].path, rows[i].target);
        assert_false(member_link_stays("l", "/ws/a", NULL));
}

static void paths_has_below_finds_directories(void **state) {
        AUTO_PATHS struct paths p = { 0 };
        static const char *const all[] = { "b/c", "a-b", "a/b", "ab", "a.b", "b", "a/b" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                assert_int_equal(paths_add(&p, all[i]), 0);
        paths_seal(&p);
        assert_int_equal(p.n, 6);
        assert_true(paths_has(&p, "a/b") && paths_has(&p, "b") && !paths_has(&p, "a") && !paths_has(&p, "c"));
        assert_true(paths_has_below(&p, "a") && paths_has_below(&p, "b"));
        assert_false(paths_has_below(&p, "ab") || paths_has_below(&p, "a/b") || paths_has_below(&p, ""));
}

static void landing_keeps_differences_only(void **state) {
        struct fixture *f = *state;

        tree_file(&f->tree, "host/same", "same", 0644);
        tree_file(&f->tree, "host/changed", "one two three", 0644);
        tree_file(&f->tree, "host/script", "run", 0644);
        tree_dir(&f->tree, "host/d");
        assert_int_equal(symlinkat("same", f->lower_fd, "link"), 0);
        tar_begin(f);
        tar_add(f, "./", S_IFDIR | 0755, "");
        tar_add(f, "./same", S_IFREG | 0664, "same");
        tar_add(f, "./changed", S_IFREG | 0644, "one two THREE");
        tar_add(f, "./script", S_IFREG | 0755, "run");
        tar_add(f, "./d/", S_IFDIR | 0755, "");
        tar_add(f, "./link", S_IFLNK | 0777, "same");
        tar_add(f, "./d/new", S_IFREG | 0600, "new");
        tar_add(f, "./e/", S_IFDIR | 0555, "");
        tar_add(f, "./e/empty", S_IFREG | 0400, "");
        tar_end(f);
        assert_int_equal(land(f, NULL, NULL, NULL), 0);
        expect_upper(f, "changed=one two THREE d/ d/new=new e/ e/empty= script=run ");
        assert_string_equal(f->said, "");
}

static void landing_refuses_hostile_members(void **state) {
        struct fixture *f = *state;
        static const struct {
                const char *path;
                mode_t mode;
                const char *text;
        } rows[] = {
                { ".git/config", S_IFREG | 0644, "x" },
                { "./.git/config", S_IFREG | 0644, "x" },
                { "./.git/./config", S_IFREG | 0644, "x" },
                { "./.git/hooks/../config", S_IFREG | 0644, "x" },
                { ".//.git//cofferdam-credentials", S_IFREG | 0644, "x" },
                { ".git/hooks/pre-push", S_IFREG | 0755, "x" },
                { "./../escaped", S_IFREG | 0644, "x" },
                { "/etc/absolute", S_IFREG | 0644, "x" },
                { "leaves", S_IFLNK | 0777, "../outside" },
                { "leaves-too", S_IFLNK | 0777, "/etc" },
                { "hard", 0, "held" },
                { "fifo", S_IFIFO | 0644, "" },
                { "device", S_IFCHR | 0666, "" },
        };

        tree_dir(&f->tree, "host/.git");
        tree_file(&f->tree, "host/held", "held", 0644);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                tar_begin(f);
                tar_add(f, rows[i].path, rows[i].mode, rows[i].text);
                tar_end(f);
                assert_int_equal(land(f, NULL, NULL, NULL), 0);
                if (f->counts.skipped != 1 || f->counts.changed != 0)
                        fail_msg("%s: %s", rows[i].path, f->said);
                expect_upper(f, "");
        }
}

/* Nothing is written through a link, whoever made it: the archive, before or after, or the host. */
static void landing_goes_through_no_link(void **state) {
        struct fixture *f = *state;
        char list[4096];

        tree_dir(&f->tree, "host/.git");
        tree_dir(&f->tree, "host/a");
        assert_int_equal(symlinkat("../outside", f->lower_fd, "escape"), 0);
        tar_begin(f);
        tar_add(f, ".git/x", S_IFLNK | 0777, "hooks");
        tar_add(f, ".git/x/pre-push", S_IFREG | 0755, "bad");
        tar_add(f, ".git/y", S_IFLNK | 0777, "config");
        tar_add(f, ".git/y", S_IFREG | 0644, "a file of that name");
        tar_add(f, "a/x", S_IFLNK | 0777, "../.git");
        tar_add(f, "a/x/hooks/pre-commit", S_IFREG | 0755, "bad");
        tar_add(f, "escape/file", S_IFREG | 0644, "in a directory that takes the link's place");
        tar_end(f);
        assert_int_equal(land(f, NULL, NULL, NULL), 0);
        expect_upper(f, ".git/ .git/x@hooks .git/y=a file of that name a/ a/x@../.git escape/ "
                        "escape/file=in a directory that takes the link's place ");
        tree_list(&f->tree, "host", list, sizeof(list));
        assert_string_equal(list, ".git/ a/ escape@../outside ");
        assert_int_equal(f->counts.skipped, 2);
}

static void landing_cuts_modes_to_permissions(void **state) {
        struct fixture *f = *state;
        struct stat st;

        tar_begin(f);
        tar_add(f, "suid", S_IFREG | 06755, "x");
        tar_add(f, "d", S_IFDIR | 07755, "");
        tar_add(f, "d/sticky", S_IFREG | 01600, "x");
        tar_end(f);
        assert_int_equal(land(f, NULL, NULL, NULL), 0);
        assert_int_equal(fstatat(f->upper_fd, "suid", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0755);
        assert_int_equal(st.st_mtim.tv_sec, 1000000000);
        assert_int_equal(fstatat(f->upper_fd, "d", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0755);
        assert_int_equal(st.st_mtim.tv_sec, 1000000000);
        assert_int_equal(fstatat(f->upper_fd, "d/sticky", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
}

static void landing_takes_the_last_of_a_name(void **state) {
        struct fixture *f = *state;

        tree_file(&f->tree, "host/kind", "a file", 0644);
        tar_begin(f);
        tar_add(f, "twice", S_IFREG | 0644, "one");
        tar_add(f, "twice", S_IFREG | 0644, "two");
        tar_add(f, "kind", S_IFDIR | 0755, "");
        tar_add(f, "kind/inside", S_IFREG | 0644, "x");
        tar_add(f, "kind", S_IFREG | 0644, "a directory is not replaced");
        tar_end(f);
        assert_int_equal(land(f, NULL, NULL, NULL), 0);
        expect_upper(f, "kind/ kind/inside=x twice=two ");
}

static void landing_stops_at_its_limits(void **state) {
        struct fixture *f = *state;
        struct landing_limits limits = { 10, 3 };

        tar_begin(f);
        tar_add(f, "a", S_IFREG | 0644, "12345");
        tar_add(f, "b", S_IFREG | 0644, "12345");
        tar_add(f, ".git/config", S_IFREG | 0644, "refused ones count as members");
        tar_end(f);
        assert_int_equal(land(f, &limits, NULL, NULL), 0);
        limits.members_max = 2;
        assert_int_equal(land(f, &limits, NULL, NULL), -E2BIG);
        limits = (struct landing_limits){ 9, 3 };
        assert_int_equal(land(f, &limits, NULL, NULL), -E2BIG);
}

static void unpack_refuses_what_is_cut_short(void **state) {
        struct fixture *f = *state;

        tar_begin(f);
        tar_add(f, "a", S_IFREG | 0644, "whole");
        tar_end(f);
        f->tar.len = 512 + 3;
        assert_int_equal(land(f, NULL, NULL, NULL), -EBADMSG);
        expect_upper(f, ""); /* nor does a temporary file stay */
        memset(f->tar.data, 'x', f->tar.len);
        assert_int_equal(land(f, NULL, NULL, NULL), -EBADMSG);
}

/* Between two members, too: what is not in it would be deleted. */
static void unpack_refuses_every_cut(void **state) {
        const size_t end = (size_t) 3 * 512 + 512 + 1024; /* heads, data, and two blocks of zeros */
        struct fixture *f = *state;
        char whole[513] = { 0 };

        memset(whole, 'x', sizeof(whole) - 1);
        tar_begin(f);
        tar_add(f, "d", S_IFDIR | 0755, "");
        tar_add(f, "d/l", S_IFLNK | 0777, "a");
        tar_add(f, "d/a", S_IFREG | 0644, whole);
        tar_end(f);
        assert_true(f->tar.len >= end);
        for (f->tar.len = 0; f->tar.len < end; f->tar.len++)
                assert_int_equal(land(f, NULL, NULL, NULL), -EBADMSG);
        assert_int_equal(land(f, NULL, NULL, NULL), 0);
}

static enum layer_kind kind_at(struct fixture *f, const char *dir, const char *name) {
        AUTO_FD int fd = openat(f->upper_fd, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        enum layer_kind kind = LAYER_ABSENT;

        if (fd >= 0)
                assert_int_equal(layer_lookup(fd, name, &kind, NULL), 0);
        return kind;
}

static void landing_deletes_what_did_not_come_back(void **state) {
        struct fixture *f = *state;
        AUTO_PATHS struct paths sent = { 0 }, kept = { 0 };
        static const char *const names[] = { "gone",    "there", "d",           "d/gone",
                                             "d/there", "g",     "g/x",         "g/y/z",
                                             "g/y",     ".git",  ".git/config", ".git/HEAD",
                                             "h",       "h/x",   "not-on-host", "hard" };
        static const char *const files[] = { "host/gone",    "host/there",       "host/d/gone",
                                             "host/d/there", "host/g/x",         "host/g/y/z",
                                             "host/h/x",     "host/.git/config", "host/.git/HEAD",
                                             "host/hard" };

        tree_dir(&f->tree, "host/d");
        tree_dir(&f->tree, "host/g");
        tree_dir(&f->tree, "host/g/y");
        tree_dir(&f->tree, "host/.git");
        tree_dir(&f->tree, "host/h");
        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                assert_int_equal(paths_add(&sent, names[i]), 0);
        for (size_t i = 0; i < ARRAY_SIZE(files); i++)
                tree_file(&f->tree, files[i], "x", 0644);
        assert_int_equal(paths_add(&kept, "h/hidden"), 0);
        paths_seal(&sent);
        paths_seal(&kept);
        tar_begin(f);
        tar_add(f, "there", S_IFREG | 0644, "x");
        tar_add(f, "hard", 0, "there");             /* it is there, though its content cannot be had */
        tar_add(f, "d/there", S_IFREG | 0644, "x"); /* its directory has no entry of its own */
        tar_end(f);
        assert_int_equal(land(f, NULL, &sent, &kept), 0);
        assert_int_equal(kind_at(f, ".", "gone"), LAYER_WHITEOUT);
        assert_int_equal(kind_at(f, ".", "there"), LAYER_ABSENT);
        assert_int_equal(kind_at(f, ".", "hard"), LAYER_ABSENT);
        assert_int_equal(kind_at(f, "d", "gone"), LAYER_WHITEOUT);
        assert_int_equal(kind_at(f, ".", "g"), LAYER_WHITEOUT); /* as a whole */
        /* git's configuration did not come back, as ever: the directory stays, the rest of it goes */
        assert_int_equal(kind_at(f, ".", ".git"), LAYER_DIR);
        assert_int_equal(kind_at(f, ".git", "HEAD"), LAYER_WHITEOUT);
        assert_int_equal(kind_at(f, ".git", "config"), LAYER_ABSENT);
        /* something in it was never sent */
        assert_int_equal(kind_at(f, ".", "h"), LAYER_DIR);
        assert_int_equal(kind_at(f, "h", "x"), LAYER_WHITEOUT);
        assert_int_equal(kind_at(f, ".", "not-on-host"), LAYER_ABSENT);
}

static int into_buf(void *arg, const void *data, size_t len) {
        return buf_add(arg, data, len);
}

static void pack_round_trip_changes_nothing(void **state) {
        struct fixture *f = *state;
        struct pack_report report = { 0 };
        const struct rule_def hide = { .path = "/secret", .action = GUARD_HIDE };
        AUTO_RULES struct rules *rules = NULL;
        struct error err = { 0 };
        char name[201];

        memset(name, 'n', 200);
        name[200] = '\0';
        tree_dir(&f->tree, "host/d");
        tree_dir(&f->tree, "host/.git");
        tree_dir(&f->tree, "host/.git/worktrees");
        tree_dir(&f->tree, "host/secret");
        tree_file(&f->tree, "host/secret/key", "key", 0600);
        tree_file(&f->tree, "host/d/\303\244 \n\"x", "odd", 0755);
        tree_file(&f->tree, "host/empty", "", 0644);
        {
                AUTO_FD int fd = openat(f->lower_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

                assert_int_equal(write_all(fd, "long", 4), 0);
        }
        assert_int_equal(symlinkat("d", f->lower_fd, "link"), 0);
        assert_int_equal(mkfifoat(f->lower_fd, "fifo", 0600), 0);
        assert_int_equal(rules_new(&hide, 1, false, &rules, &err), 0);
        f->tar.len = 0;
        assert_int_equal(pack_stream(f->lower_fd, rules, into_buf, &f->tar, &report, &err), 0);
        assert_true(paths_has(&report.sent, name) && paths_has(&report.sent, "d") &&
                    paths_has(&report.sent, ".git"));
        assert_false(paths_has(&report.sent, "secret") || paths_has_below(&report.sent, "secret"));
        assert_true(paths_has(&report.kept, "secret") && paths_has(&report.kept, "fifo") &&
                    paths_has(&report.kept, ".git/worktrees"));
        assert_null(memmem(f->tar.data, f->tar.len, "key", 3));
        assert_int_equal(land(f, NULL, &report.sent, &report.kept), 0);
        expect_upper(f, "");
        assert_int_equal(f->counts.changed + f->counts.deleted + f->counts.skipped, 0);
        paths_deinit(&report.sent);
        paths_deinit(&report.kept);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(member_path_takes_names_below_only),
                cmocka_unit_test(member_excluded_knows_every_git_directory),
                cmocka_unit_test(member_link_stays_refuses_what_may_leave),
                cmocka_unit_test(paths_has_below_finds_directories),
                cmocka_unit_test_setup_teardown(landing_keeps_differences_only, setup, teardown),
                cmocka_unit_test_setup_teardown(landing_refuses_hostile_members, setup, teardown),
                cmocka_unit_test_setup_teardown(landing_goes_through_no_link, setup, teardown),
                cmocka_unit_test_setup_teardown(landing_cuts_modes_to_permissions, setup, teardown),
                cmocka_unit_test_setup_teardown(landing_takes_the_last_of_a_name, setup, teardown),
                cmocka_unit_test_setup_teardown(landing_stops_at_its_limits, setup, teardown),
                cmocka_unit_test_setup_teardown(unpack_refuses_what_is_cut_short, setup, teardown),
                cmocka_unit_test_setup_teardown(unpack_refuses_every_cut, setup, teardown),
                cmocka_unit_test_setup_teardown(landing_deletes_what_did_not_come_back, setup, teardown),
                cmocka_unit_test_setup_teardown(pack_round_trip_changes_nothing, setup, teardown),
        };

        assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
        return cmocka_run_group_tests(tests, NULL, NULL);
}
