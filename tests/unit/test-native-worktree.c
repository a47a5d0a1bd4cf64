#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "drivers/native/native.h"
#include "drivers/native/parts.h"
#include "runtime/base/cleanup.h"

/* A main repository and a linked worktree, as git lays them out, in a directory of the test's own. */
struct fixture {
        char dir[64];
        int fd;
        struct ctx ctx;
        struct driver_plan plan;
};

static void put(const struct fixture *f, const char *path, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

static void put(const struct fixture *f, const char *path, const char *fmt, ...) {
        AUTO_FILE FILE *file = NULL;
        va_list ap;
        int fd;

        fd = openat(f->fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        file = fdopen(fd, "w");
        assert_non_null(file);
        va_start(ap, fmt);
        assert_true(vfprintf(file, fmt, ap) > 0);
        va_end(ap);
}

static int setup(void **state) {
        static const char *const dirs[] = { "main",
                                            "main/.git",
                                            "main/.git/objects",
                                            "main/.git/worktrees",
                                            "main/.git/worktrees/own[1]",
                                            "main/.git/worktrees/other",
                                            "wt",
                                            "wt/.inner" };
        static struct fixture f;
        char *real;

        f = (struct fixture){ .dir = "/tmp/native-worktree.XXXXXX" };
        if (!mkdtemp(f.dir))
                return -1;
        real = realpath(f.dir, NULL);
        assert_non_null(real);
        (void) snprintf(f.dir, sizeof(f.dir), "%s", real);
        free(real);
        f.fd = open(f.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < ARRAY_SIZE(dirs); i++)
                assert_int_equal(mkdirat(f.fd, dirs[i], 0755), 0);
        put(&f, "wt/.git", "gitdir: %s/main/.git/worktrees/own[1]\n", f.dir);
        put(&f, "main/.git/worktrees/own[1]/gitdir", "%s/wt/.git\n", f.dir);
        f.ctx = (struct ctx){ .uid = getuid(), .gid = getgid(), .home = "/nonexistent" };
        f.plan.ctx = &f.ctx;
        f.plan.id.host_uid = getuid();
        *state = &f;
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
        (void) st;
        (void) flag;
        (void) ftw;
        return remove(path);
}

static int teardown(void **state) {
        struct fixture *f = *state;

        for (size_t i = 0; i < f->plan.n_regions; i++) {
                pin_deinit(&f->plan.regions[i].pin);
                free(f->plan.regions[i].target);
                f->plan.regions[i].rules = rules_free(f->plan.regions[i].rules);
        }
        (void) fd_close(f->fd);
        return nftw(f->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int add(struct fixture *f) {
        char source[128];
        struct spec spec = { .guard.defaults = true };

        (void) snprintf(source, sizeof(source), "%s/wt", f->dir);
        spec.workspace.source = source;
        return workspace_add(&f->plan, &spec, NULL);
}

static void worktree_add_serves_the_common_directory(void **state) {
        static const struct {
                const char *path;
                enum guard_do want;
        } cases[] = {
                { "objects/ab/cd", GUARD_ALLOW },
                { "refs/heads/x.lock", GUARD_ALLOW },
                { "logs/HEAD", GUARD_ALLOW },
                { "packed-refs", GUARD_ALLOW },
                { "packed-refs.lock", GUARD_ALLOW },
                { "config", GUARD_HOLD },
                { "config.lock", GUARD_ALLOW },
                { "hooks/pre-commit", GUARD_HOLD },
                { "hooks/deep/x", GUARD_HOLD },
                { "commondir", GUARD_HOLD },
                { "remotes/x", GUARD_HOLD },
                { "objects/info/alternates", GUARD_HOLD },
                { "modules/a/commondir", GUARD_HOLD },
                { "modules/a/hooks/x", GUARD_HOLD },
                { "lfs/config", GUARD_HOLD },
                { "lfs/hooks/pre-commit", GUARD_HOLD },
                { "modules/a/config", GUARD_HOLD },
                { "HEAD", GUARD_PROTECT },
                { "index", GUARD_PROTECT },
                { "info/attributes", GUARD_HOLD },
                { "info/grafts", GUARD_PROTECT },
                { "description", GUARD_PROTECT },
                { "worktrees/own[1]/index", GUARD_ALLOW },
                { "worktrees/own[1]/HEAD.lock", GUARD_ALLOW },
                { "worktrees/own[1]/commondir", GUARD_PROTECT },
                { "worktrees/own[1]/gitdir", GUARD_PROTECT },
                { "worktrees/own[1]/config.worktree", GUARD_HOLD },
                { "worktrees/own[1]/rebase-merge/done", GUARD_ALLOW },
                { "worktrees/own[1]/rebase-merge/git-rebase-todo", GUARD_HOLD },
                { "worktrees/own[1]/rebase-merge/strategy", GUARD_HOLD },
                { "worktrees/own[1]/sequencer/opts", GUARD_HOLD },
                { "worktrees/own[1]/hooks/x", GUARD_HOLD },
                { "worktrees/other/gitdir", GUARD_PROTECT },
                { "worktrees/other/rebase-merge/git-rebase-todo", GUARD_PROTECT },
                { "worktrees/new/commondir", GUARD_HOLD },
                { "worktrees/other/HEAD", GUARD_PROTECT },
                { "worktrees/new/HEAD", GUARD_ALLOW },
        };
        struct fixture *f = *state;
        char want[128];

        assert_int_equal(add(f), 0);
        assert_int_equal(f->plan.n_regions, 2);
        (void) snprintf(want, sizeof(want), "%s/main/.git", f->dir);
        assert_string_equal(f->plan.regions[1].target, want);
        assert_int_equal(f->plan.regions[1].kind, REGION_DIRECT);
        assert_int_equal(f->plan.regions[1].role, ROLE_GIT_DIR);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                if (rules_path(f->plan.regions[1].rules, cases[i].path, S_IFREG).action != cases[i].want)
                        fail_msg("%s", cases[i].path);
}

static void worktree_add_wants_the_back_link(void **state) {
        struct fixture *f = *state;

        put(f, "main/.git/worktrees/own[1]/gitdir", "%s/elsewhere/.git\n", f->dir);
        assert_int_equal(add(f), 0);
        assert_int_equal(f->plan.n_regions, 1);
}

static void worktree_add_ignores_what_git_would(void **state) {
        static const char *const pointers[] = {
                "gitdir: /proc\n", "gitdir: \n",       "gitdir:/x\n",
                "nonsense\n",      "gitdir: .inner\n", "gitdir: ../main/.git\n",
        };

        for (size_t i = 0; i < ARRAY_SIZE(pointers); i++) {
                struct fixture *f = *state;

                put(f, "wt/.git", "%s", pointers[i]);
                assert_int_equal(add(f), 0);
                assert_int_equal(f->plan.n_regions, 1);
                pin_deinit(&f->plan.regions[0].pin);
                free(f->plan.regions[0].target);
                f->plan.regions[0].rules = rules_free(f->plan.regions[0].rules);
                f->plan.n_regions = 0;
        }
}

static void workspace_add_refuses_with_a_remedy(void **state) {
        static const struct {
                const char *path;
                int r;
                const char *says;
        } cases[] = {
                { "/", -EINVAL, "--workspace" },
                { "wt/.git", -ENOTDIR, "is a file" },
                { "missing", -ENOENT, "missing" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct fixture *f = *state;
                struct error err = { 0 };
                struct spec spec = { .guard.defaults = true };
                char source[128];

                if (cases[i].path[0] == '/')
                        (void) snprintf(source, sizeof(source), "%s", cases[i].path);
                else
                        (void) snprintf(source, sizeof(source), "%s/%s", f->dir, cases[i].path);
                spec.workspace.source = source;
                assert_int_equal(workspace_add(&f->plan, &spec, &err), cases[i].r);
                assert_non_null(strstr(err.msg, cases[i].says));
                for (size_t k = 0; k < f->plan.n_regions; k++) {
                        pin_deinit(&f->plan.regions[k].pin);
                        free(f->plan.regions[k].target);
                        f->plan.regions[k].rules = rules_free(f->plan.regions[k].rules);
                }
                f->plan.n_regions = 0;
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(worktree_add_serves_the_common_directory, setup, teardown),
                cmocka_unit_test_setup_teardown(worktree_add_wants_the_back_link, setup, teardown),
                cmocka_unit_test_setup_teardown(worktree_add_ignores_what_git_would, setup, teardown),
                cmocka_unit_test_setup_teardown(workspace_add_refuses_with_a_remedy, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
