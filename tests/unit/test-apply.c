#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/apply.h"
#include "fs/journal.h"
#include "fs/moves.h"
#include "tests/unit/layers.h"

enum { LIST_MAX = 65536 };

static int collect(const struct change *c, void *arg) {
        return buf_fmt(arg, "%s%c %s|",
                       c->error == -EOPNOTSUPP ? "-"
                       : c->error              ? "?"
                       : c->conflict           ? "!"
                                               : "",
                       change_letter(c->kind), c->path);
}

static struct apply_options options(const struct layers *l, struct buf *report) {
        return (struct apply_options){ .run_fd = l->run_fd,
                                       .upper_fd = l->upper_fd,
                                       .lower_fd = l->lower_fd,
                                       .report = report ? collect : NULL,
                                       .arg = report };
}

static void expect_list(const struct layers *l, const char *dir, const char *want) {
        static char list[LIST_MAX];

        tree_list(&l->tree, dir, list, sizeof(list));
        assert_string_equal(list, want);
}

/* Applies; @want_report and @want_lower are what must come of it. */
static void expect_apply(const struct layers *l, bool force, int want, const char *want_report,
                         const char *want_lower) {
        AUTO_BUF struct buf report = { 0 };
        struct apply_options opt = options(l, &report);
        struct error err = { 0 };
        int r;

        opt.force = force;
        r = apply_run(&opt, &err);
        if (r != want)
                print_message("%s\n", err.msg);
        assert_int_equal(r, want);
        if (want_report)
                assert_string_equal(buf_cstr(&report), want_report);
        if (want_lower)
                expect_list(l, "lower", want_lower);
        expect_list(l, "run", "");
}

static void run_of_an_empty_upper_does_nothing(void **state) {
        struct layers *l = *state;

        tree_file(&l->tree, "lower/f", "x", 0644);
        expect_apply(l, false, 0, "", "f=x ");
}

static void run_lands_every_kind(void **state) {
        struct layers *l = *state;

        tree_file(&l->tree, "lower/mod", "old", 0644);
        tree_file(&l->tree, "lower/del", "old", 0644);
        tree_dir(&l->tree, "lower/d");
        tree_file(&l->tree, "lower/d/keep", "old", 0644);
        layers_modify(l, "", "mod", "new");
        layers_delete(l, "", "del");
        layers_add(l, "d", "new\n\xff", "new");
        layers_add(l, "x/y", "z", "deep");
        assert_int_equal(symlinkat("/etc/passwd", l->upper_fd, "link"), 0);
        expect_apply(l, false, 0, "A d/new\n\xff|A link|M mod|A x|A x/y|A x/y/z|D del|",
                     "d/ d/keep=old d/new\n\xff=new link@/etc/passwd mod=new x/ x/y/ x/y/z=deep ");
        expect_list(l, "upper", "");
        expect_apply(l, false, 0, "", NULL); /* again: nothing */
}

static enum apply_choice leave_held(const struct change *c, void *arg) {
        (void) arg;
        return strstr(c->path, "held") ? APPLY_LEAVE : APPLY_TAKE;
}

static int conflicts(const struct change *c, void *arg) {
        return buf_fmt(arg, "%c%s %s|", change_letter(c->kind), c->conflict ? "!" : "", c->path);
}

/* overlayfs marks a directory that is renamed to its place as opaque. Red without reveal(): nothing that
 * stays in such a directory could land any more, and what the host puts there would look deleted. */
static void run_lets_go_of_opaque_directories(void **state) {
        struct layers *l = *state;
        AUTO_BUF struct buf report = { 0 }, left = { 0 };
        struct apply_options opt = options(l, &report);
        struct error err = { 0 };

        layers_add(l, "new/sub", "held", "x");
        layers_add(l, "new", "f", "x");
        assert_int_equal(layer_set_opaque(l->upper_fd, "new"), 0);
        tree_file(&l->tree, "lower/type", "old", 0644);
        layers_mkdir_over(l, "type");
        layers_add(l, "type", "held", "x");
        assert_int_equal(layer_set_opaque(l->upper_fd, "type"), 0);
        opt.kernel = true;
        opt.choose = leave_held;
        layers_tick();
        assert_int_equal(apply_run(&opt, &err), 0);
        assert_string_equal(buf_cstr(&report), "A new|A new/f|A new/sub|T type|");
        tree_file(&l->tree, "lower/new/host", "h", 0644);
        assert_int_equal(
                diff_walk(&(struct diff_layers){ l->upper_fd, l->lower_fd, true }, conflicts, &left, &err),
                0);
        assert_string_equal(buf_cstr(&left), "A new/sub/held|A type/held|");
}

static void run_changes_types(void **state) {
        struct layers *l = *state;
        struct layer_origin origin;
        struct stat st;

        tree_file(&l->tree, "lower/f2d", "old", 0644);
        tree_dir(&l->tree, "lower/d2f");
        tree_file(&l->tree, "lower/d2f/x", "old", 0644);
        layers_tick();
        assert_int_equal(fchmodat(l->lower_fd, "d2f", 0700, 0), 0); /* its ctime is later than x's */
        layers_mkdir_over(l, "f2d");
        layers_add(l, "f2d/sub", "x", "new");
        layers_add(l, "", "d2f", "file");
        assert_int_equal(fstatat(l->lower_fd, "d2f", &st, 0), 0);
        origin = layer_origin_of(&st);
        assert_int_equal(layer_claim(l->upper_fd, "d2f", &origin), 0);
        expect_apply(l, false, 0, "T d2f|T f2d|A f2d/sub|A f2d/sub/x|",
                     "d2f=file f2d/ f2d/sub/ f2d/sub/x=new ");
        expect_list(l, "upper", "");
}

static void run_skips_conflicts_until_forced(void **state) {
        struct layers *l = *state;

        tree_file(&l->tree, "lower/mod", "old", 0644);
        tree_file(&l->tree, "lower/del", "old", 0644);
        layers_modify(l, "", "mod", "new");
        layers_delete(l, "", "del");
        layers_add(l, "", "both", "new");
        layers_add(l, "", "fine", "new");
        tree_file(&l->tree, "lower/mod", "host", 0644);
        tree_file(&l->tree, "lower/del", "host", 0644);
        tree_file(&l->tree, "lower/both", "host", 0644);
        expect_apply(l, false, 3, "!M both|!D del|!M mod|A fine|", "both=host del=host fine=new mod=host ");
        expect_apply(l, true, 0, "M both|M mod|D del|", "both=new fine=new mod=new ");
        expect_list(l, "upper", "");
}

static void run_never_follows_a_parent_link(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "outside");
        tree_file(&l->tree, "outside/x", "canary", 0644);
        assert_int_equal(symlinkat("../outside", l->lower_fd, "d"), 0);
        layers_add(l, "d", "x", "evil");
        layers_add(l, "d", "y", "evil");
        expect_apply(l, false, 3, "!T d|!A d/x|!A d/y|", "d@../outside ");
        /* forced, the link itself is replaced: what the work made is a directory */
        expect_apply(l, true, 0, "T d|A d/x|A d/y|", "d/ d/x=evil d/y=evil ");
        expect_list(l, "outside", "x=canary ");
}

static void run_strips_what_gives_power(void **state) {
        struct layers *l = *state;
        const struct timespec times[2] = { { 1000, 1 }, { 2000, 2 } };
        struct stat st;
        AUTO_FD int fd = -1;

        layers_add(l, "", "suid", "x");
        fd = tree_open(&l->tree, "upper/suid", O_RDWR);
        assert_int_equal(fsetxattr(fd, "user.note", "v", 1, 0), 0);
        assert_int_equal(fsetxattr(fd, "user.overlay.metacopy", "", 0, 0), 0);
        assert_int_equal(fchmod(fd, 06755), 0);
        assert_int_equal(futimens(fd, times), 0);
        assert_int_equal(mkfifoat(l->upper_fd, "fifo", 0644), 0);
        expect_apply(l, false, 1, "-A fifo|A suid|", "suid=x ");
        expect_list(l, "upper", "fifo! ");
        assert_int_equal(fstatat(l->lower_fd, "suid", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0755);
        assert_int_equal(st.st_mtim.tv_sec, 2000);
        assert_int_equal(st.st_mtim.tv_nsec, 2);
        (void) fd_close(TAKE_FD(fd));
        fd = tree_open(&l->tree, "lower/suid", O_RDONLY);
        assert_int_equal(fgetxattr(fd, "user.note", NULL, 0), 1);
        assert_int_equal(fgetxattr(fd, "user.overlay.metacopy", NULL, 0), -1);
        assert_int_equal(fgetxattr(fd, "user.overlay.cofferdam.origin", NULL, 0), -1);
}

static void run_lands_directory_modes_last(void **state) {
        struct layers *l = *state;
        struct stat st;

        tree_dir(&l->tree, "lower/old");
        layers_add(l, "closed/sub", "x", "new");
        layers_mkdir(l, "old");
        assert_int_equal(fchmodat(l->upper_fd, "closed/sub", 0555, 0), 0);
        assert_int_equal(fchmodat(l->upper_fd, "closed", 0555, 0), 0);
        assert_int_equal(fchmodat(l->upper_fd, "old", 0711, 0), 0);
        expect_apply(l, false, 0, "A closed|A closed/sub|A closed/sub/x|M closed/sub|M closed|M old|", NULL);
        assert_int_equal(fstatat(l->lower_fd, "closed", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0555);
        assert_int_equal(fstatat(l->lower_fd, "closed/sub", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0555);
        assert_int_equal(fstatat(l->lower_fd, "old", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0711);
}

static void run_deletes_a_tree_only_as_the_work_saw_it(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/gone");
        tree_dir(&l->tree, "lower/gone/sub");
        tree_file(&l->tree, "lower/gone/sub/x", "old", 0644);
        tree_dir(&l->tree, "lower/used");
        tree_dir(&l->tree, "lower/used/sub");
        tree_file(&l->tree, "lower/used/sub/x", "old", 0644);
        layers_tick();
        layers_delete(l, "", "gone");
        layers_delete(l, "", "used");
        layers_tick();
        tree_file(&l->tree, "lower/used/sub/y", "host", 0644);
        expect_apply(l, false, 1, "D gone|!D used|", "used/ used/sub/ used/sub/x=old used/sub/y=host ");
        expect_apply(l, true, 0, "D used|", "");
        expect_list(l, "upper", "");
}

static void run_empties_an_opaque_directory(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/o");
        tree_dir(&l->tree, "lower/o/sub");
        tree_file(&l->tree, "lower/o/sub/gone", "old", 0644);
        tree_file(&l->tree, "lower/o/gone", "old", 0644);
        tree_file(&l->tree, "lower/o/host", "old", 0644);
        layers_begin(l);
        layers_add(l, "o", "new", "new");
        layers_add(l, "o/sub", "new", "new");
        assert_int_equal(layer_set_opaque(l->upper_fd, "o"), 0);
        layers_tick();
        tree_file(&l->tree, "lower/o/host", "host", 0644);
        expect_apply(l, false, 1, "!D o/host|A o/new|A o/sub/new|D o/gone|D o/sub/gone|",
                     "o/ o/host=host o/new=new o/sub/ o/sub/new=new ");
        expect_apply(l, false, 1, "!D o/host|", "o/ o/host=host o/new=new o/sub/ o/sub/new=new ");
}

static void run_keeps_holes_and_large_files(void **state) {
        struct layers *l = *state;
        struct stat st;
        AUTO_FD int fd = -1;

        layers_add(l, "", "big", "");
        fd = tree_open(&l->tree, "upper/big", O_RDWR);
        assert_int_equal(pwrite(fd, "end", 3, 12 << 20), 3);
        expect_apply(l, false, 0, "A big|", NULL);
        assert_int_equal(fstatat(l->lower_fd, "big", &st, 0), 0);
        assert_int_equal(st.st_size, (12 << 20) + 3);
        assert_true(st.st_blocks < 1024);
}

static void run_needs_several_batches(void **state) {
        struct layers *l = *state;
        AUTO_BUF struct buf report = { 0 };
        struct apply_options opt = options(l, &report);
        char name[32];

        for (int i = 0; i < 3 * JOURNAL_ENTRIES_MAX + 1; i++) {
                (void) snprintf(name, sizeof(name), "%03d", i);
                layers_add(l, i % 2 ? "odd" : "even/x", name, name);
        }
        assert_int_equal(apply_run(&opt, NULL), 0);
        assert_int_equal(tree_count(&l->tree, "lower"), 3 * JOURNAL_ENTRIES_MAX + 1 + 3);
        tree_expect(&l->tree, "lower/even/x/192", "192");
        expect_list(l, "upper", "");
}

static void resume_wants_an_open_journal_of_its_region(void **state) {
        struct layers *l = *state;
        struct apply_options opt = options(l, NULL);
        struct journal *j = calloc(1, sizeof(*j));
        struct error err = { 0 };
        uint32_t region = 9;

        assert_int_equal(apply_pending(l->run_fd, &region, &err), 0);
        assert_int_equal(apply_resume(&opt, &err), -ENOENT);
        j->region = 1;
        j->entries[j->n++] = (struct journal_entry){ .op = JOURNAL_DELETE, .path = strdup("x") };
        assert_int_equal(journal_store(l->run_fd, j, &err), 0);
        assert_int_equal(apply_pending(l->run_fd, &region, &err), 1);
        assert_int_equal(region, 1);
        assert_int_equal(apply_run(&opt, &err), -EBUSY);
        assert_int_equal(apply_resume(&opt, &err), -EINVAL);
        opt.region = 1;
        assert_int_equal(apply_resume(&opt, &err), 0);
        expect_list(l, "run", "");
        tree_file(&l->tree, "run/journal", "garbage", 0600);
        assert_int_equal(apply_pending(l->run_fd, &region, &err), -EBADMSG);
        assert_int_equal(apply_run(&opt, &err), -EBADMSG);
        (void) journal_free(j);
}

/* Dies at the n-th step, as by kill -9. */
static void die_at(const char *what, void *arg) {
        int *left = arg;

        (void) what;
        if (--*left == 0)
                (void) raise(SIGKILL);
}

/** struct fatal - the name of a step */
struct fatal {
        const char *at;
};

static void die_at_name(const char *what, void *arg) {
        if (strcmp(what, ((const struct fatal *) arg)->at) == 0)
                (void) raise(SIGKILL);
}

/* Applies, or resumes, in a child that dies at step @n. Return: whether it lived. */
static bool apply_until(const struct layers *l, int n) {
        struct apply_options opt = options(l, NULL);
        int status = 0;
        pid_t pid;

        pid = fork();
        if (pid == 0) {
                uint32_t region;
                const int pending = apply_pending(l->run_fd, &region, NULL);

                opt.step = die_at;
                opt.step_arg = &n;
                _exit(pending < 0 || (pending ? apply_resume(&opt, NULL) : apply_run(&opt, NULL)) != 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status))
                assert_int_equal(WEXITSTATUS(status), 0);
        return WIFEXITED(status);
}

static const char before[] =
        "del=old f2d=old gone/ gone/x=old mod=old o/ o/hidden=old r/ r/f=old r/in/ r/in/i=old "
        "src/ src/k=old src/s=old taken/ taken/t=old type@target ";
static const char after[] =
        "f2d/ f2d/x=new mod=new n/ n/a=new n/moved/ n/moved/f=old n/moved/g=new o/ o/new=new "
        "side/ side/i=old taken/ taken/k=new taken/s=old type=file ";

/* The work renames the lower directory @from to @dir/@name. */
static void move_dir(const struct layers *l, const char *dir, const char *name, const char *from) {
        AUTO_FD int d = layers_dir(l, dir);
        AUTO_FD int fd = -1;

        assert_int_equal(mkdirat(d, name, 0755), 0);
        fd = openat(d, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(moves_set(fd, from), 0);
}

/* One is renamed into a new directory, one out of that, one onto a directory that the work removed. */
static void build_renames(const struct layers *l) {
        struct layer_origin origin;
        struct stat st;

        move_dir(l, "n", "moved", "r");
        layers_add(l, "n/moved", "g", "new");
        layers_delete(l, "", "r");
        move_dir(l, "", "side", "r/in");
        {
                AUTO_FD int d = layers_dir(l, "n/moved");

                assert_int_equal(layer_whiteout(d, "in", NULL), 0);
        }
        move_dir(l, "", "taken", "src");
        assert_int_equal(fstatat(l->lower_fd, "taken", &st, AT_SYMLINK_NOFOLLOW), 0);
        origin = layer_origin_of(&st);
        assert_int_equal(layer_claim(l->upper_fd, "taken", &origin), 0);
        layers_delete(l, "", "src");
        {
                AUTO_FD int d = layers_dir(l, "taken");
                AUTO_FD int lower = openat(l->lower_fd, "src/k", O_RDONLY | O_CLOEXEC);
                AUTO_FD int fd = -1;

                assert_int_equal(layer_copy_up(lower, d, "k", true), 0);
                fd = openat(d, "k", O_WRONLY | O_TRUNC | O_CLOEXEC);
                assert_int_equal(write_all(fd, "new", 3), 0);
        }
}

static void build(struct layers *l) {
        struct layer_origin origin = { 0 };

        layers_init_fast(l);
        tree_file(&l->tree, "lower/mod", "old", 0644);
        tree_file(&l->tree, "lower/del", "old", 0644);
        tree_file(&l->tree, "lower/f2d", "old", 0644);
        tree_dir(&l->tree, "lower/gone");
        tree_file(&l->tree, "lower/gone/x", "old", 0644);
        tree_dir(&l->tree, "lower/o");
        tree_file(&l->tree, "lower/o/hidden", "old", 0644);
        tree_dir(&l->tree, "lower/r");
        tree_file(&l->tree, "lower/r/f", "old", 0644);
        tree_dir(&l->tree, "lower/r/in");
        tree_file(&l->tree, "lower/r/in/i", "old", 0644);
        tree_dir(&l->tree, "lower/src");
        tree_file(&l->tree, "lower/src/k", "old", 0644);
        tree_file(&l->tree, "lower/src/s", "old", 0644);
        tree_dir(&l->tree, "lower/taken");
        tree_file(&l->tree, "lower/taken/t", "old", 0644);
        assert_int_equal(symlinkat("target", l->lower_fd, "type"), 0);
        expect_list(l, "lower", before);
        layers_begin(l);
        layers_modify(l, "", "mod", "new");
        layers_delete(l, "", "del");
        layers_delete(l, "", "gone");
        layers_mkdir_over(l, "f2d");
        layers_add(l, "f2d", "x", "new");
        layers_add(l, "n", "a", "new");
        layers_add(l, "o", "new", "new");
        assert_int_equal(layer_set_opaque(l->upper_fd, "o"), 0);
        layers_add(l, "", "type", "file");
        {
                struct stat st;

                assert_int_equal(fstatat(l->lower_fd, "type", &st, AT_SYMLINK_NOFOLLOW), 0);
                origin = layer_origin_of(&st);
        }
        assert_int_equal(layer_claim(l->upper_fd, "type", &origin), 0);
        build_renames(l);
        layers_tick();
}

/* After a kill: every path is whole, old or new; a deletion may be under way under a temporary name. */
static void expect_whole(const struct layers *l) {
        static const struct {
                const char *path, *old, *new;
        } files[] = { { "lower/mod", "old", "new" },
                      { "lower/n/a", "", "new" },
                      { "lower/o/new", "", "new" } };

        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                AUTO_BUF struct buf got = { 0 };

                if (!tree_has(&l->tree, files[i].path) && !*files[i].old)
                        continue;
                assert_int_equal(file_read_at(l->tree.fd, files[i].path, 100, &got), 0);
                if (strcmp(buf_cstr(&got), files[i].new) != 0)
                        assert_string_equal(buf_cstr(&got), files[i].old);
        }
}

static void expect_finished(const struct layers *l) {
        expect_list(l, "lower", after);
        expect_list(l, "upper", "");
        assert_false(tree_has(&l->tree, "run/journal") || tree_has(&l->tree, "run/journal.done") ||
                     tree_has(&l->tree, "run/journal.final"));
}

static void resume_finishes_after_a_kill_at_every_step(void **state) {
        int n = 1;

        (void) state;
        for (;; n++) {
                struct layers l;
                bool lived;

                build(&l);
                lived = apply_until(&l, n);
                expect_whole(&l);
                assert_true(apply_until(&l, 0));
                expect_finished(&l);
                layers_deinit(&l);
                if (lived)
                        break;
        }
        assert_in_range(n, 30, 200); /* it did die at each of many steps */
}

/* What --abort does, and whether it lived when killed at step @n. */
static bool abort_until(const struct layers *l, int n, int *ret) {
        struct apply_options opt = options(l, NULL);
        int status = 0;
        pid_t pid;

        pid = fork();
        if (pid == 0) {
                int r;

                opt.step = die_at;
                opt.step_arg = &n;
                r = apply_abort(&opt, NULL);
                _exit(r == 0 ? 0 : r == -EALREADY ? 1 : r == -ENOENT ? 2 : 3);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        *ret = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        return WIFEXITED(status);
}

/* All is back as it was, or all had landed; either way nothing is lost: a second apply lands everything. */
static void expect_back(const struct layers *l, int aborted) {
        static char list[LIST_MAX];

        assert_in_range(aborted, 0, 2);
        tree_list(&l->tree, "lower", list, sizeof(list));
        if (aborted == 0) /* there was something to undo */
                assert_string_equal(list, before);
        if (aborted == 2 && strcmp(list, after) != 0) /* nothing had begun, or all was over */
                assert_string_equal(list, before);
        assert_true(apply_until(l, 0));
        expect_finished(l);
}

/* Red when a step of the way back is left out: undo_put(), undo_delete(), undo_mkdir(), batch_undo_rename(),
 * or when batch_commit() removes what it replaced. */
static void abort_restores_after_a_kill_at_every_step(void **state) {
        int aborts = 0;

        (void) state;
        for (int n = 1;; n++) {
                struct layers l;
                bool lived;
                int r;

                build(&l);
                lived = apply_until(&l, n);
                assert_true(abort_until(&l, 0, &r));
                aborts += r == 0;
                expect_back(&l, r);
                layers_deinit(&l);
                if (lived)
                        break;
        }
        assert_in_range(aborts, 40, 400);
}

static void abort_survives_being_killed_itself(void **state) {
        (void) state;
        for (int n = 5; n < 90; n += 7) {
                struct layers l;
                int kills = 0, r;

                build(&l);
                (void) apply_until(&l, n);
                while (!abort_until(&l, ++kills, &r)) {
                        expect_whole(&l);
                        assert_true(kills < 200);
                }
                expect_back(&l, r);
                layers_deinit(&l);
        }
}

static void abort_keeps_what_the_host_wrote_meanwhile(void **state) {
        struct layers *l = *state;
        AUTO_BUF struct buf report = { 0 };
        struct apply_options opt = options(l, &report);
        struct error err = { 0 };
        int status = 0, n = 0;
        pid_t pid;

        tree_file(&l->tree, "lower/a", "old", 0644);
        tree_file(&l->tree, "lower/b", "old", 0644);
        layers_tick();
        layers_modify(l, "", "a", "new");
        layers_modify(l, "", "b", "new");
        pid = fork();
        if (pid == 0) {
                opt.report = NULL;
                opt.step = die_at_name;
                opt.step_arg = &(struct fatal){ "close journal" };
                _exit(apply_run(&opt, NULL) != 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        tree_expect(&l->tree, "lower/a", "new");
        tree_file(&l->tree, "lower/a", "the host", 0644);
        n = apply_abort(&opt, &err);
        assert_int_equal(n, 1);
        assert_string_equal(buf_cstr(&report), "!M a|");
        tree_expect(&l->tree, "lower/a", "the host");
        tree_expect(&l->tree, "lower/b", "old");
        tree_expect(&l->tree, "upper/a", "new");
        tree_expect(&l->tree, "upper/b", "new");
        assert_int_equal(apply_abort(&opt, &err), -ENOENT);
}

/* A renamed directory is not copied: what it holds keeps its inodes. */
static void run_renames_directories_in_place(void **state) {
        struct layers *l = *state;
        struct stat was, is;

        tree_dir(&l->tree, "lower/r");
        tree_file(&l->tree, "lower/r/f", "old", 0644);
        assert_int_equal(mknodat(l->lower_fd, "r/fifo", S_IFIFO | 0600, 0), 0);
        assert_int_equal(fstatat(l->lower_fd, "r/f", &was, 0), 0);
        layers_tick();
        move_dir(l, "new/deep", "moved", "r");
        layers_delete(l, "", "r");
        expect_apply(l, false, 0, "A new|A new/deep|R new/deep/moved|",
                     "new/ new/deep/ new/deep/moved/ new/deep/moved/f=old new/deep/moved/fifo! ");
        assert_int_equal(fstatat(l->lower_fd, "new/deep/moved/f", &is, 0), 0);
        assert_int_equal(was.st_ino, is.st_ino);
        expect_list(l, "upper", "");
}

/* Red without forget_place(): the file has the record of the directory that was there, and the directory is
 * gone. */
static void run_fills_the_place_of_a_renamed_directory(void **state) {
        struct layers *l = *state;
        struct layer_origin origin;
        struct stat st;

        tree_dir(&l->tree, "lower/a");
        tree_dir(&l->tree, "lower/a/b");
        tree_file(&l->tree, "lower/a/b/f", "old", 0644);
        layers_tick();
        move_dir(l, "", "moved", "a");
        move_dir(l, "", "in", "a/b");
        layers_add(l, "", "a", "new");
        assert_int_equal(fstatat(l->lower_fd, "a", &st, 0), 0);
        origin = layer_origin_of(&st);
        assert_int_equal(layer_claim(l->upper_fd, "a", &origin), 0);
        assert_int_equal(fstatat(l->lower_fd, "a/b", &st, 0), 0);
        origin = layer_origin_of(&st);
        layers_add(l, "moved", "b", "new");
        {
                AUTO_FD int moved = tree_open(&l->tree, "upper/moved", O_RDONLY | O_DIRECTORY);

                assert_int_equal(layer_claim(moved, "b", &origin), 0);
        }
        expect_apply(l, false, 0, NULL, "a=new in/ in/f=old moved/ moved/b=new ");
        expect_list(l, "upper", "");
}

/* Red without note_mode(): what lands in the directory changes its time, which decides in an upper of the
 * kernel's. */
static void run_lands_the_mode_of_a_directory_with_changes(void **state) {
        struct layers *l = *state;
        AUTO_BUF struct buf report = { 0 };
        struct apply_options opt = options(l, &report);
        struct error err = { 0 };
        struct stat st;

        tree_dir(&l->tree, "lower/d");
        tree_file(&l->tree, "lower/d/f", "old", 0644);
        layers_tick();
        assert_int_equal(mkdirat(l->upper_fd, "d", 0755), 0); /* as overlayfs does: without a record */
        tree_file(&l->tree, "upper/d/f", "new", 0644);
        assert_int_equal(fchmodat(l->upper_fd, "d", 0711, 0), 0);
        layers_tick();
        opt.kernel = true;
        assert_int_equal(apply_run(&opt, &err), 0);
        assert_int_equal(fstatat(l->lower_fd, "d", &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, 0711);
        tree_expect(&l->tree, "lower/d/f", "new");
        expect_list(l, "upper", "");
}

/* Red when is_planned() wants the time of change too: the first name that is renamed changes it for all. */
static void run_lands_on_all_names_of_a_file(void **state) {
        struct layers *l = *state;

        tree_file(&l->tree, "lower/a", "old", 0644);
        assert_int_equal(linkat(l->lower_fd, "a", l->lower_fd, "b", 0), 0);
        assert_int_equal(linkat(l->lower_fd, "a", l->lower_fd, "c", 0), 0);
        layers_tick();
        layers_modify(l, "", "a", "new");
        layers_modify(l, "", "b", "other");
        layers_delete(l, "", "c");
        expect_apply(l, false, 0, "M a|M b|D c|", "a=new b=other ");
        expect_list(l, "upper", "");
}

/* Red when only the directory's own time counts: what is in it may be younger, and the work saw it all the
 * same. */
static void run_replaces_a_directory_with_younger_files(void **state) {
        struct layers *l = *state;
        struct layer_origin origin;
        struct stat st;

        tree_dir(&l->tree, "lower/d");
        tree_dir(&l->tree, "lower/d/sub");
        layers_tick();
        tree_file(&l->tree, "lower/d/sub/f", "old", 0644);
        layers_tick();
        for (int i = 0; i < 2; i++) {
                const char *name = i == 0 ? "d" : "e";

                layers_add(l, "", name, "file");
                assert_int_equal(fstatat(l->lower_fd, name, &st, 0), 0);
                origin = layer_origin_of(&st);
                assert_int_equal(layer_claim(l->upper_fd, name, &origin), 0);
                if (i == 1)
                        break;
                expect_apply(l, false, 0, "T d|", "d=file ");
                tree_dir(&l->tree, "lower/e");
                tree_dir(&l->tree, "lower/e/sub");
                layers_tick();
        }
        layers_tick();
        tree_file(&l->tree, "lower/e/sub/host", "later", 0644);
        expect_apply(l, false, 1, "!T e|", "d=file e/ e/sub/ e/sub/host=later ");
}

/* Red without is_replaced(): the copy does not say what it replaces, which is a conflict. */
static void run_renames_onto_a_deleted_file(void **state) {
        struct layers *l = *state;
        struct layer_origin origin;
        struct stat st;

        tree_dir(&l->tree, "lower/d");
        tree_file(&l->tree, "lower/d/x", "old", 0644);
        tree_file(&l->tree, "lower/f", "old", 0644);
        layers_tick();
        move_dir(l, "", "f", "d");
        layers_delete(l, "", "d");
        assert_int_equal(fstatat(l->lower_fd, "f", &st, 0), 0);
        origin = layer_origin_of(&st);
        assert_int_equal(layer_claim(l->upper_fd, "f", &origin), 0);
        expect_apply(l, false, 0, NULL, "f/ f/x=old ");
        expect_list(l, "upper", "");
}

static void run_swaps_two_directories(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/a");
        tree_file(&l->tree, "lower/a/x", "a", 0644);
        tree_dir(&l->tree, "lower/b");
        tree_file(&l->tree, "lower/b/x", "b", 0644);
        layers_begin(l);
        move_dir(l, "", "a", "b");
        move_dir(l, "", "b", "a");
        for (unsigned i = 0; i < 2; i++) {
                struct layer_origin origin;
                struct stat st;

                assert_int_equal(fstatat(l->lower_fd, i ? "a" : "b", &st, AT_SYMLINK_NOFOLLOW), 0);
                origin = layer_origin_of(&st);
                assert_int_equal(layer_claim(l->upper_fd, i ? "a" : "b", &origin), 0);
        }
        expect_apply(l, false, 0, NULL, "a/ a/x=b b/ b/x=a ");
        expect_list(l, "upper", "");
}

static void run_leaves_renames_in_conflict(void **state) {
        struct layers *l = *state;

        tree_dir(&l->tree, "lower/a");
        tree_file(&l->tree, "lower/a/x", "a", 0644);
        layers_tick();
        move_dir(l, "", "new", "a");
        layers_add(l, "new", "y", "new");
        layers_delete(l, "", "a");
        tree_dir(&l->tree, "lower/new");
        tree_file(&l->tree, "lower/new/y", "the host", 0644);
        expect_apply(l, false, 2, "!R new|!A new/y|", "a/ a/x=a new/ new/y=the host ");
        expect_list(l, "upper", "a= new/ new/y=new ");
}

static enum apply_choice choose(const struct change *c, void *arg) {
        (void) arg;
        return strncmp(c->path, "take", 4) == 0    ? APPLY_TAKE
               : strncmp(c->path, "force", 5) == 0 ? APPLY_FORCE
                                                   : APPLY_LEAVE;
}

static void run_lands_what_is_chosen(void **state) {
        struct layers *l = *state;
        AUTO_BUF struct buf report = { 0 };
        struct apply_options opt = options(l, &report);
        struct error err = { 0 };

        tree_file(&l->tree, "lower/force", "old", 0644);
        tree_file(&l->tree, "lower/leave", "old", 0644);
        tree_file(&l->tree, "lower/take", "old", 0644);
        tree_dir(&l->tree, "lower/left");
        layers_tick();
        layers_modify(l, "", "force", "new");
        layers_modify(l, "", "leave", "new");
        layers_modify(l, "", "take", "new");
        layers_mkdir(l, "left");
        assert_int_equal(fchmodat(l->upper_fd, "left", 0711, 0), 0);
        layers_add(l, "", "leave2", "new");
        tree_file(&l->tree, "lower/force", "host", 0644);
        opt.choose = choose;
        assert_int_equal(apply_run(&opt, &err), 0);
        assert_string_equal(buf_cstr(&report), "M force|M take|");
        expect_list(l, "lower", "force=new leave=old left/ take=new ");
        expect_list(l, "upper", "leave=new leave2=new left/ ");
}

/* Whether the call may change a file system; others are no place to die at. */
static bool changes_something(uint64_t nr) {
        static const long calls[] = { SYS_openat,    SYS_openat2,      SYS_mkdirat,        SYS_renameat,
                                      SYS_renameat2, SYS_unlinkat,     SYS_linkat,         SYS_symlinkat,
                                      SYS_fsetxattr, SYS_fremovexattr, SYS_write,          SYS_ftruncate,
                                      SYS_fchmod,    SYS_fchmodat,     SYS_utimensat,      SYS_fchown,
                                      SYS_fsync,     SYS_sendfile,     SYS_copy_file_range };

        for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
                if (nr == (uint64_t) calls[i])
                        return true;
        return false;
}

/* Stops apply before its @n-th call that may change something and kills it there. Return: whether it lived.
 */
static bool apply_until_call(const struct layers *l, int n) {
        struct apply_options opt = options(l, NULL);
        bool entry = false;
        int status = 0;
        pid_t pid;

        pid = fork();
        if (pid == 0) {
                (void) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
                (void) raise(SIGSTOP);
                _exit(apply_run(&opt, NULL) != 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSTOPPED(status));
        (void) ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD);
        while (ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0 && waitpid(pid, &status, 0) == pid &&
               WIFSTOPPED(status)) {
                struct __ptrace_syscall_info info = { 0 };

                entry = ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0 &&
                        info.op == PTRACE_SYSCALL_INFO_ENTRY;
                if (entry && changes_something(info.entry.nr) && --n == 0) {
                        (void) kill(pid, SIGKILL);
                }
        }
        return WIFEXITED(status);
}

/* Each run takes one call in STRIDE, others the next time; COFFERDAM_EVERY_CALL=1 takes all, in half a
 * minute. */
static void apply_survives_a_kill_at_any_system_call(void **state) {
        const int stride = getenv("COFFERDAM_EVERY_CALL") ? 1 : 17;
        int deaths = 0;

        (void) state;
        for (int n = 1 + getpid() % stride;; n += stride) {
                struct layers l;
                bool lived;
                int r;

                build(&l);
                lived = apply_until_call(&l, n);
                deaths += !lived;
                expect_whole(&l);
                if (n / stride % 2) {
                        assert_true(abort_until(&l, 0, &r));
                        expect_back(&l, r);
                } else {
                        assert_true(apply_until(&l, 0));
                        expect_finished(&l);
                }
                layers_deinit(&l);
                if (lived)
                        break;
        }
        print_message("# killed at %d system calls, first %d\n", deaths, 1 + getpid() % stride);
        assert_true(deaths >= 10);
}

static void resume_survives_being_killed_itself(void **state) {
        (void) state;
        for (int n = 2; n < 60; n += 3) {
                struct layers l;
                int kills = 0;

                build(&l);
                (void) apply_until(&l, n);
                while (!apply_until(&l, ++kills)) { /* each time one step later */
                        expect_whole(&l);
                        assert_true(kills < 200);
                }
                expect_finished(&l);
                layers_deinit(&l);
        }
}

/* What the host does between two steps of apply. */
struct meddler {
        const struct layers *l;
        const char *at; /* step */
        const char *file, *text;
};

static void meddle(const char *what, void *arg) {
        struct meddler *m = arg;

        if (!m->at || strcmp(what, m->at) != 0)
                return;
        m->at = NULL;
        tree_file(&m->l->tree, m->file, m->text, 0644);
}

static void run_never_loses_what_the_host_writes_meanwhile(void **state) {
        static const char *const steps[] = { "stage", "journal", "rename", "rename away" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
                const bool deletion = strcmp(steps[i], "rename away") == 0;
                struct layers l;
                struct meddler m = { &l, steps[i], "lower/f", "written by the host" };
                struct apply_options opt;

                layers_init(&l);
                tree_file(&l.tree, "lower/f", "old", 0644);
                layers_tick();
                if (deletion)
                        layers_delete(&l, "", "f");
                else
                        layers_modify(&l, "", "f", "new");
                opt = options(&l, NULL);
                opt.step = meddle;
                opt.step_arg = &m;
                assert_int_equal(apply_run(&opt, NULL), 1);
                expect_list(&l, "lower", "f=written by the host ");
                expect_list(&l, "run", "");
                assert_int_equal(tree_count(&l.tree, "upper"), 1); /* nor what the work wrote */
                layers_deinit(&l);
        }
}

/* Renames the directory that a file is about to land in. */
static void rename_parent(const char *what, void *arg) {
        const struct layers *l = arg;

        if (strcmp(what, "rename") == 0)
                (void) !renameat(l->lower_fd, "d", l->lower_fd, ".vscode");
}

/* Nobody has asked whether the file may have the name that it would get. Red without the look at the parent
 * after the rename. */
static void run_does_not_follow_a_renamed_parent(void **state) {
        struct apply_options opt;

        (void) state;
        for (int existing = 0; existing < 2; existing++) {
                struct layers l;

                layers_init(&l);
                tree_dir(&l.tree, "lower/d");
                tree_dir(&l.tree, "upper/d");
                if (existing) {
                        tree_file(&l.tree, "lower/d/f", "old", 0644);
                        layers_tick();
                        layers_modify(&l, "d", "f", "new");
                } else {
                        layers_add(&l, "d", "f", "new");
                }
                opt = options(&l, NULL);
                opt.step = rename_parent;
                opt.step_arg = &l;
                assert_int_equal(apply_run(&opt, NULL), 1);
                expect_list(&l, "lower", existing ? ".vscode/ .vscode/f=old " : ".vscode/ ");
                expect_list(&l, "upper", "d/ d/f=new ");
                layers_deinit(&l);
        }
}

static void run_does_not_replace_what_appears_meanwhile(void **state) {
        struct layers *l = *state;
        struct meddler m = { l, "rename", "lower/f", "host" };
        struct apply_options opt = options(l, NULL);

        layers_add(l, "", "f", "new");
        opt.step = meddle;
        opt.step_arg = &m;
        assert_int_equal(apply_run(&opt, NULL), 1);
        expect_list(l, "lower", "f=host ");
        expect_list(l, "upper", "f=new ");
}

struct swapper {
        int lower_fd;
        atomic_bool stop;
};

/* Swaps the directory with a link that leads outside, and back, with pauses that let apply get anywhere. */
static void *swap(void *arg) {
        struct swapper *s = arg;

        for (unsigned i = 0; !atomic_load(&s->stop); i++) {
                const struct timespec pause = { 0, i % 2 ? (long) (i * 7919 % 400000) : 20000 };

                (void) !renameat2(s->lower_fd, "d", s->lower_fd, "link", RENAME_EXCHANGE);
                (void) nanosleep(&pause, NULL);
        }
        return NULL;
}

static void run_is_not_led_outside_by_a_race(void **state) {
        enum { ROUNDS = 50 }; /* each syncs about ten times */
        struct layers *l = *state;
        struct swapper s = { .lower_fd = l->lower_fd };
        struct apply_options opt = options(l, NULL);
        int early = 0;
        struct stat st;
        pthread_t thread;

        tree_dir(&l->tree, "outside");
        tree_dir(&l->tree, "outside/sub");
        tree_file(&l->tree, "outside/f", "canary", 0644);
        tree_dir(&l->tree, "lower/d");
        tree_dir(&l->tree, "lower/d/sub");
        /* the mode of upper directories made while the link is there */
        assert_int_equal(fchmodat(l->lower_fd, "d/sub", 0700, 0), 0);
        assert_int_equal(fchmodat(l->lower_fd, "d", 0700, 0), 0);
        assert_int_equal(symlinkat("../outside", l->lower_fd, "link"), 0);
        assert_int_equal(pthread_create(&thread, NULL, swap, &s), 0);
        for (int i = 0; i < ROUNDS; i++) {
                char name[16];
                int r;

                (void) snprintf(name, sizeof(name), "f%d", i);
                layers_add(l, "d", name, "new");
                layers_add(l, "d/sub", name, "new");
                r = apply_run(&opt, NULL);
                assert_true(r >= 0 || r == -ENOENT || r == -ELOOP || r == -ENOTDIR);
                early += !tree_has(&l->tree, "upper/d");
        }
        atomic_store(&s.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        expect_list(l, "outside", "f=canary sub/ ");
        assert_int_equal(fstatat(l->lower_fd, "d", &st, AT_SYMLINK_NOFOLLOW), 0);
        if (S_ISLNK(st.st_mode))
                assert_int_equal(renameat2(l->lower_fd, "d", l->lower_fd, "link", RENAME_EXCHANGE), 0);
        assert_int_equal(apply_run(&opt, NULL), 0);
        assert_int_equal(tree_count(&l->tree, "lower/d"),
                         2 * ROUNDS + 1); /* all landed, nothing else is there */
        assert_int_equal(tree_count(&l->tree, "lower"), 2 * ROUNDS + 3);
        expect_list(l, "upper", "");
        expect_list(l, "outside", "f=canary sub/ ");
        print_message("# %d of %d rounds landed whole while the link was swapped\n", early, ROUNDS);
}

int main(void) {
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, layers_setup, layers_teardown)
        const struct CMUnitTest tests[] = {
                CASE(run_of_an_empty_upper_does_nothing),
                CASE(run_lands_every_kind),
                CASE(run_lets_go_of_opaque_directories),
                CASE(run_changes_types),
                CASE(run_skips_conflicts_until_forced),
                CASE(run_never_follows_a_parent_link),
                CASE(run_strips_what_gives_power),
                CASE(run_lands_directory_modes_last),
                CASE(run_deletes_a_tree_only_as_the_work_saw_it),
                CASE(run_empties_an_opaque_directory),
                CASE(run_keeps_holes_and_large_files),
                CASE(run_needs_several_batches),
                CASE(resume_wants_an_open_journal_of_its_region),
                cmocka_unit_test(resume_finishes_after_a_kill_at_every_step),
                cmocka_unit_test(resume_survives_being_killed_itself),
                cmocka_unit_test(abort_restores_after_a_kill_at_every_step),
                cmocka_unit_test(abort_survives_being_killed_itself),
                cmocka_unit_test(apply_survives_a_kill_at_any_system_call),
                CASE(abort_keeps_what_the_host_wrote_meanwhile),
                CASE(run_renames_directories_in_place),
                CASE(run_fills_the_place_of_a_renamed_directory),
                CASE(run_lands_the_mode_of_a_directory_with_changes),
                CASE(run_lands_on_all_names_of_a_file),
                CASE(run_replaces_a_directory_with_younger_files),
                CASE(run_renames_onto_a_deleted_file),
                CASE(run_swaps_two_directories),
                CASE(run_leaves_renames_in_conflict),
                CASE(run_lands_what_is_chosen),
                cmocka_unit_test(run_never_loses_what_the_host_writes_meanwhile),
                cmocka_unit_test(run_does_not_follow_a_renamed_parent),
                CASE(run_does_not_replace_what_appears_meanwhile),
                CASE(run_is_not_led_outside_by_a_race),
        };

        return cmocka_run_group_tests_name("apply", tests, NULL, NULL);
}
