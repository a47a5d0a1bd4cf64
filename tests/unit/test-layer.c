#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/layer.h"
#include "runtime/base/cleanup.h"
#include "tests/unit/tree.h"

struct fixture {
        struct tree tree; /* lower/, upper/, work/, mnt/ */
        int lower_fd, upper_fd;
};

static int setup(void **state) {
        struct fixture *f = calloc(1, sizeof(*f));

        assert_non_null(f);
        tree_init(&f->tree);
        tree_dir(&f->tree, "lower");
        tree_dir(&f->tree, "upper");
        tree_dir(&f->tree, "work");
        tree_dir(&f->tree, "mnt");
        f->lower_fd = tree_open(&f->tree, "lower", O_RDONLY | O_DIRECTORY);
        f->upper_fd = tree_open(&f->tree, "upper", O_PATH | O_DIRECTORY);
        *state = f;
        return 0;
}

static int teardown(void **state) {
        struct fixture *f = *state;

        (void) close(f->lower_fd);
        (void) close(f->upper_fd);
        tree_deinit(&f->tree);
        free(f);
        return 0;
}

static enum layer_kind kind_of(int dir_fd, const char *name) {
        enum layer_kind kind = LAYER_ABSENT;

        assert_int_equal(layer_lookup(dir_fd, name, &kind, NULL), 0);
        return kind;
}

static void layer_usable_accepts_the_test_directory(void **state) {
        struct fixture *f = *state;
        struct error err = { 0 };

        assert_int_equal(layer_usable(f->upper_fd, &err), 0);
        assert_int_equal(tree_count(&f->tree, "upper"), 0); /* the probe leaves nothing */
}

static void layer_usable_names_the_remedy(void **state) {
        AUTO_FD int fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct error err = { 0 };

        (void) state;
        assert_true(layer_usable(fd, &err) < 0);
        assert_true(strlen(err.msg) > 0);
}

static void copy_up_keeps_what_the_file_has(void **state) {
        struct fixture *f = *state;
        const struct timespec times[2] = { { 1000, 5 }, { 2000, 123456789 } };
        struct layer_origin origin = { 0 };
        struct stat lower, upper;
        char value[8] = { 0 };
        AUTO_FD int fd = -1;

        tree_file(&f->tree, "lower/f", "hello", 06751);
        fd = tree_open(&f->tree, "lower/f", O_RDWR);
        assert_int_equal(ftruncate(fd, 8 << 20), 0);
        assert_int_equal(pwrite(fd, "tail", 4, 8 << 20), 4);
        assert_int_equal(fsetxattr(fd, "user.keep", "v", 1, 0), 0);
        assert_int_equal(fsetxattr(fd, "user.overlay.redirect", "/etc", 4, 0), 0);
        assert_int_equal(fchmod(fd, 06751), 0); /* the write took the bits away */
        assert_int_equal(futimens(fd, times), 0);
        assert_int_equal(fstat(fd, &lower), 0);
        assert_int_equal(layer_copy_up(fd, f->upper_fd, "f", true), 0);

        assert_int_equal(fstatat(f->upper_fd, "f", &upper, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(upper.st_mode & 07777, 0751);
        assert_int_equal(upper.st_size, (8 << 20) + 4);
        assert_true(upper.st_blocks < 1024); /* the hole is still one */
        assert_int_equal(upper.st_mtim.tv_sec, 2000);
        assert_int_equal(upper.st_mtim.tv_nsec, 123456789);
        assert_true(tree_same_content(&f->tree, "lower/f", "upper/f"));
        assert_int_equal(layer_origin_at(f->upper_fd, "f", &origin), 0);
        assert_true(layer_origin_same(&origin, &lower));
        (void) fd_close(TAKE_FD(fd));
        fd = tree_open(&f->tree, "upper/f", O_RDONLY);
        assert_int_equal(fgetxattr(fd, "user.keep", value, sizeof(value)), 1);
        assert_int_equal(fgetxattr(fd, "user.overlay.redirect", value, sizeof(value)), -1);
}

static void copy_up_refuses_what_it_must(void **state) {
        struct fixture *f = *state;
        AUTO_FD int fd = -1, device = -1;

        tree_file(&f->tree, "lower/f", "new", 0644);
        tree_file(&f->tree, "upper/f", "old", 0644);
        fd = tree_open(&f->tree, "lower/f", O_RDONLY);
        assert_int_equal(layer_copy_up(fd, f->upper_fd, "f", true), -EEXIST);
        tree_expect(&f->tree, "upper/f", "old");
        device = open("/dev/null", O_PATH | O_CLOEXEC);
        assert_int_equal(layer_copy_up(device, f->upper_fd, "null", true), -EINVAL);
        assert_int_equal(tree_count(&f->tree, "upper"), 1); /* no temporary name */
}

static void copy_up_without_data_is_empty(void **state) {
        struct fixture *f = *state;
        AUTO_FD int fd = -1;

        tree_file(&f->tree, "lower/f", "data", 0600);
        fd = tree_open(&f->tree, "lower/f", O_RDONLY);
        assert_int_equal(layer_copy_up(fd, f->upper_fd, "f", false), 0);
        tree_expect(&f->tree, "upper/f", "");
        assert_int_equal(kind_of(f->upper_fd, "f"), LAYER_FILE); /* empty is not deleted */
}

static void copy_up_copies_the_link_not_its_target(void **state) {
        struct fixture *f = *state;
        char target[64] = { 0 };
        AUTO_FD int fd = -1;

        assert_int_equal(symlinkat("/etc/passwd", f->lower_fd, "l"), 0);
        fd = openat(f->lower_fd, "l", O_PATH | O_NOFOLLOW | O_CLOEXEC);
        assert_int_equal(layer_copy_up(fd, f->upper_fd, "l", true), 0);
        assert_true(readlinkat(f->upper_fd, "l", target, sizeof(target) - 1) > 0);
        assert_string_equal(target, "/etc/passwd");
}

static void open_dir_makes_parents_like_the_lower(void **state) {
        struct fixture *f = *state;
        struct layer_origin origin = { 0 };
        struct stat st;
        AUTO_FD int fd = -1;

        tree_dir(&f->tree, "lower/a");
        assert_int_equal(fchmodat(f->lower_fd, "a", 02555, 0), 0);
        fd = layer_open_dir(f->upper_fd, f->lower_fd, "a/b/c");
        assert_true(fd >= 0);
        assert_int_equal(fstatat(f->upper_fd, "a", &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_mode & 07777, 0755); /* u+w for us, no set-gid */
        assert_int_equal(fstatat(f->upper_fd, "a/b", &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_mode & 07777, 0700);
        assert_int_equal(layer_origin_at(f->upper_fd, "a", &origin), 0);
        assert_int_equal(fstatat(f->lower_fd, "a", &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(layer_origin_same(&origin, &st));
        assert_int_equal(origin.mode & 07777, 02555);
        assert_int_equal(layer_origin_at(f->upper_fd, "a/b", &origin), 0);
        assert_int_equal(origin.ino, 0);
}

static void open_dir_rejects_bad_paths(void **state) {
        struct fixture *f = *state;
        static const struct {
                const char *path;
                int want;
        } cases[] = {
                { "..", -EINVAL },      { "a/../b", -EINVAL }, { "/a", -EINVAL },      { "a//b", -EINVAL },
                { "a/", -EINVAL },      { ".", -EINVAL },      { "file/x", -ENOTDIR }, { "link/x", -ENOTDIR },
                { "gone/x", -ENOTDIR }, { "file", -ENOTDIR },
        };
        char name[300] = { 0 };

        tree_file(&f->tree, "upper/file", "", 0600);
        tree_dir(&f->tree, "outside");
        assert_int_equal(symlinkat("../outside", f->upper_fd, "link"), 0);
        assert_int_equal(layer_whiteout(f->upper_fd, "gone", NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const int r = layer_open_dir(f->upper_fd, f->lower_fd, cases[i].path);

                if (r != -ELOOP || cases[i].want != -ENOTDIR) /* which of the two depends on the kernel */
                        assert_int_equal(r, cases[i].want);
        }
        memset(name, 'n', 256);
        assert_int_equal(layer_open_dir(f->upper_fd, f->lower_fd, name), -ENAMETOOLONG);
        assert_int_equal(tree_count(&f->tree, "outside"), 0);
}

static void open_dir_goes_deeper_than_path_max(void **state) {
        struct fixture *f = *state;
        char path[100 * 101] = { 0 };
        AUTO_FD int fd = -1;

        for (size_t i = 0; i < 100; i++) {
                memset(path + i * 101, 'd', 100);
                path[i * 101 + 100] = i == 99 ? '\0' : '/';
        }
        fd = layer_open_dir(f->upper_fd, f->lower_fd, path);
        assert_true(fd >= 0);
}

static void whiteout_is_one_until_undone(void **state) {
        struct fixture *f = *state;
        struct layer_origin want, got = { 0 };
        struct stat st;

        tree_file(&f->tree, "lower/f", "x", 0644);
        assert_int_equal(fstatat(f->lower_fd, "f", &st, 0), 0);
        want = layer_origin_of(&st);
        assert_int_equal(layer_whiteout(f->upper_fd, "f", &want), 0);
        assert_int_equal(layer_whiteout(f->upper_fd, "f", &want), -EEXIST);
        assert_int_equal(kind_of(f->upper_fd, "f"), LAYER_WHITEOUT);
        assert_int_equal(layer_unwhiteout(f->upper_fd, "f", &got), 0);
        assert_true(layer_origin_same(&got, &st));
        assert_int_equal(got.dev, want.dev);
        assert_int_equal(kind_of(f->upper_fd, "f"), LAYER_ABSENT);
        assert_int_equal(layer_unwhiteout(f->upper_fd, "f", &got), 0);
        assert_int_equal(got.ino, 0);
}

static void whiteout_in_an_opaque_directory_is_not_needed(void **state) {
        struct fixture *f = *state;
        AUTO_FD int fd = layer_open_dir(f->upper_fd, f->lower_fd, "d");

        assert_int_equal(layer_set_opaque(f->upper_fd, "d"), 0);
        assert_int_equal(kind_of(f->upper_fd, "d"), LAYER_OPAQUE_DIR);
        assert_int_equal(layer_whiteout(fd, "x", NULL), 0);
        assert_int_equal(kind_of(fd, "x"), LAYER_ABSENT);
        assert_int_equal(layer_set_opaque(f->upper_fd, "missing"), -ENOENT);
}

static void lookup_reads_the_kernels_whiteout(void **state) {
        struct fixture *f = *state;

        if (mknodat(f->upper_fd, "dev", S_IFCHR, 0) < 0) { /* without privilege since Linux 5.8 */
                tree_cannot("make the kernel's whiteout");
                return;
        }
        assert_int_equal(kind_of(f->upper_fd, "dev"), LAYER_WHITEOUT);
}

static void get_origin_is_strict(void **state) {
        struct fixture *f = *state;
        const struct layer_origin origin = { .ino = 7, .size = 9, .mode = S_IFREG };
        struct layer_origin got = { .ino = 99 };
        char rec[49] = { 0 };
        AUTO_FD int fd = -1;

        tree_file(&f->tree, "upper/f", "", 0600);
        fd = tree_open(&f->tree, "upper/f", O_RDWR);
        assert_int_equal(layer_set_origin(fd, &origin), 0);
        assert_int_equal(fgetxattr(fd, "user.overlay.cofferdam.origin", rec, sizeof(rec)), 48);
        assert_int_equal(fsetxattr(fd, "user.overlay.cofferdam.origin", rec, 47, 0), 0);
        assert_int_equal(layer_get_origin(fd, &got), -EBADMSG);
        assert_int_equal(fsetxattr(fd, "user.overlay.cofferdam.origin", rec, 49, 0), 0);
        assert_int_equal(layer_get_origin(fd, &got), -EBADMSG);
        rec[3] = '2';
        assert_int_equal(fsetxattr(fd, "user.overlay.cofferdam.origin", rec, 48, 0), 0);
        assert_int_equal(layer_get_origin(fd, &got), -EBADMSG);
        assert_int_equal(got.ino, 99); /* untouched */
        assert_int_equal(layer_claim(f->upper_fd, "f", &(struct layer_origin){ 0 }), 0);
        assert_int_equal(layer_get_origin(fd, &got), 0);
        assert_int_equal(got.ino, 0);
}

static void closed_objects_open_for_their_owner(void **state) {
        struct fixture *f = *state;
        const struct layer_origin want = { .ino = 7, .mode = S_IFREG };
        struct layer_origin got = { 0 };
        struct stat st;
        AUTO_FD int fd = -1;

        tree_file(&f->tree, "upper/f", "text", 0000);
        assert_int_equal(layer_claim(f->upper_fd, "f", &want), 0);
        fd = layer_open_read(f->upper_fd, "f");
        assert_true(fd >= 0);
        assert_int_equal(fstatat(f->upper_fd, "f", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0); /* as before */
        assert_int_equal(fchmod(fd, 0600), 0);
        assert_int_equal(layer_get_origin(fd, &got), 0);
        assert_int_equal(got.ino, 7);
        assert_int_equal(symlinkat("f", f->upper_fd, "l"), 0);
        assert_int_equal(layer_open_read(f->upper_fd, "l"), -ELOOP);
        assert_int_equal(layer_claim(f->upper_fd, "l", &want), 0);
}

static void links_keep_their_origin_in_the_directory(void **state) {
        struct fixture *f = *state;
        const struct layer_origin want = { .ino = 7, .mode = S_IFLNK };
        struct layer_origin got = { 0 };
        char name[32];

        for (int i = 0; i < 200; i++) { /* more than ext4 has room for: never an error */
                (void) snprintf(name, sizeof(name), "l%d", i);
                assert_int_equal(symlinkat("x", f->upper_fd, name), 0);
                assert_int_equal(layer_claim(f->upper_fd, name, &want), 0);
        }
        assert_int_equal(layer_origin_at(f->upper_fd, "l0", &got), 0);
        assert_int_equal(got.ino, 7);
        assert_int_equal(layer_claim(f->upper_fd, "l0", &(struct layer_origin){ 0 }), 0);
        assert_int_equal(layer_origin_at(f->upper_fd, "l0", &got), 0);
        assert_int_equal(got.ino, 0);
}

/* What the kernel must show: every kind of entry, below the top and at it. */
static void build_merge(struct fixture *f) {
        AUTO_FD int d = -1, sub = -1, file = -1;

        tree_file(&f->tree, "lower/stay", "stay", 0644);
        tree_file(&f->tree, "lower/gone", "gone", 0644);
        tree_file(&f->tree, "lower/change", "old", 0644);
        tree_dir(&f->tree, "lower/d");
        tree_file(&f->tree, "lower/d/gone", "gone", 0644);
        tree_file(&f->tree, "lower/d/stay", "stay", 0644);
        tree_dir(&f->tree, "lower/o");
        tree_file(&f->tree, "lower/o/hidden", "hidden", 0644);
        tree_dir(&f->tree, "lower/rmdir");
        tree_file(&f->tree, "lower/rmdir/x", "x", 0644);

        assert_int_equal(layer_whiteout(f->upper_fd, "gone", NULL), 0);
        assert_int_equal(layer_whiteout(f->upper_fd, "rmdir", NULL), 0);
        file = tree_open(&f->tree, "lower/change", O_RDONLY);
        assert_int_equal(layer_copy_up(file, f->upper_fd, "change", false), 0);
        d = layer_open_dir(f->upper_fd, f->lower_fd, "d");
        assert_int_equal(layer_whiteout(d, "gone", NULL), 0);
        sub = layer_open_dir(f->upper_fd, f->lower_fd, "o/new");
        assert_true(sub >= 0);
        assert_int_equal(layer_set_opaque(f->upper_fd, "o"), 0);
        tree_file(&f->tree, "upper/o/new/file", "new", 0644);
}

enum { CHILD_OK, CHILD_REFUSED = 77, CHILD_WRONG = 1 };

static int write_map(const char *path, const char *text) {
        AUTO_FD int fd = open(path, O_WRONLY | O_CLOEXEC);

        return fd < 0 || write(fd, text, strlen(text)) < 0 ? -1 : 0;
}

static int enter_namespaces(void) {
        char uid[32], gid[32];

        (void) snprintf(uid, sizeof(uid), "0 %u 1", (unsigned) getuid());
        (void) snprintf(gid, sizeof(gid), "0 %u 1", (unsigned) getgid());
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
                return -1;
        (void) write_map("/proc/self/setgroups", "deny");
        return write_map("/proc/self/uid_map", uid) < 0 || write_map("/proc/self/gid_map", gid) < 0 ? -1 : 0;
}

/* In the child: mounts the upper as the topmost read-only layer and compares the whole tree. */
static int child_compare(const struct fixture *f, const char *options) {
        static const char want[] = "change= d/ d/stay=stay o/ o/new/ o/new/file=new stay=stay ";
        struct tree inside = f->tree; /* its descriptor shows the old namespace */
        char list[4096] = { 0 };

        if (enter_namespaces() < 0 || chdir(f->tree.path) < 0)
                return CHILD_REFUSED;
        if (mount("overlay", "mnt", "overlay", 0, options) < 0)
                return CHILD_REFUSED;
        inside.fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        tree_list(&inside, "mnt", list, sizeof(list));
        if (strcmp(list, want) == 0)
                return CHILD_OK;
        (void) fprintf(stderr, "overlayfs shows '%s'\nwant            '%s'\n", list, want);
        return CHILD_WRONG;
}

static void kernel_overlayfs_shows_the_same_tree(void **state) {
        struct fixture *f = *state;
        int status = 0;
        pid_t pid;

        build_merge(f);
        pid = fork();
        if (pid == 0)
                _exit(child_compare(f, "userxattr,lowerdir=upper:lower"));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == CHILD_REFUSED) {
                tree_cannot("mount overlayfs in a user namespace");
                return;
        }
        assert_int_equal(WEXITSTATUS(status), CHILD_OK);
}

int main(void) {
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
        const struct CMUnitTest tests[] = {
                CASE(layer_usable_accepts_the_test_directory),
                CASE(layer_usable_names_the_remedy),
                CASE(copy_up_keeps_what_the_file_has),
                CASE(copy_up_refuses_what_it_must),
                CASE(copy_up_without_data_is_empty),
                CASE(copy_up_copies_the_link_not_its_target),
                CASE(open_dir_makes_parents_like_the_lower),
                CASE(open_dir_rejects_bad_paths),
                CASE(open_dir_goes_deeper_than_path_max),
                CASE(whiteout_is_one_until_undone),
                CASE(whiteout_in_an_opaque_directory_is_not_needed),
                CASE(lookup_reads_the_kernels_whiteout),
                CASE(get_origin_is_strict),
                CASE(closed_objects_open_for_their_owner),
                CASE(links_keep_their_origin_in_the_directory),
                CASE(kernel_overlayfs_shows_the_same_tree),
        };

        return cmocka_run_group_tests_name("layer", tests, NULL, NULL);
}
