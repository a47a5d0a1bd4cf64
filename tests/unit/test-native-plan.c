#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "drivers/native/mnt.h"
#include "drivers/native/native.h"
#include "drivers/native/parts.h"
#include "drivers/native/setup.h"
#include "runtime/base/cleanup.h"
#include "tests/unit/tree.h"

static const char *const no_environ[] = { NULL };

static struct ctx some_ctx(const char *const *env) {
        return (struct ctx){ .uid = 1000,
                             .gid = 1000,
                             .user_name = "alice",
                             .home = "/home/alice",
                             .shell = "/bin/sh",
                             .cwd = "/",
                             .environ = env };
}

static void id_deinit(struct native_id *id) {
        free(id->name);
        free(id->home);
        free(id->shell);
}

static void id_resolve_reads_users(void **state) {
        static const struct {
                uid_t caller;
                const char *user;
                int r;
                uid_t host, inside;
                gid_t gid;
                bool switched;
        } cases[] = {
                { 1000, NULL, 0, 1000, 1000, 1000, false },
                { 1000, "0", 0, 1000, 0, 0, false },
                { 1000, "4242:77", 0, 1000, 4242, 77, false },
                { 0, NULL, 0, 0, 0, 0, false },
                { 0, "0", 0, 0, 0, 0, false },
                { 0, "4242:77", 0, 4242, 4242, 77, true },
                { 0, "root", 0, 0, 0, 0, false },
                { 1000, "no-such-user-here", -ENOENT, 0, 0, 0, false },
                { 1000, "1000:", -EINVAL, 0, 0, 0, false },
                { 1000, "1000:x", -EINVAL, 0, 0, 0, false },
                { 1000, "4294967295", -ENOENT, 0, 0, 0, false },
                { 1000, "-1", -ENOENT, 0, 0, 0, false },
                { 1000, "", -ENOENT, 0, 0, 0, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct ctx ctx = some_ctx(no_environ);
                struct native_id id = { 0 };
                struct error err = { 0 };

                ctx.uid = ctx.gid = cases[i].caller;
                assert_int_equal(id_resolve(&ctx, cases[i].user, NULL, NULL, &id, &err), cases[i].r);
                assert_int_equal(err.code, cases[i].r);
                if (cases[i].r < 0) {
                        assert_null(id.name);
                        continue;
                }
                assert_int_equal(id.host_uid, cases[i].host);
                assert_int_equal(id.inside_uid, cases[i].inside);
                assert_int_equal(id.inside_gid, cases[i].gid);
                assert_int_equal(id.switch_user, cases[i].switched);
                id_deinit(&id);
        }
}

static void id_resolve_finds_a_home(void **state) {
        static const struct {
                const char *home, *want;
        } cases[] = {
                { "/home/alice", "/home/alice" },
                { "/srv/homes/alice", "/srv/homes/alice" },
                { "/var/lib/app", "/var/lib/app" },
                { NULL, "/home/alice" },
                { "/", "/home/alice" },
                { "/nonexistent", "/home/alice" },
                { "/usr/games", "/home/alice" },
                { "/etc", "/home/alice" },
                { "/proc/x", "/home/alice" },
                { "relative", "/home/alice" },
                { "/a/../b", "/home/alice" },
                { "/home/a:b", "/home/alice" },
                { "/home/a\nb", "/home/alice" },
                { "/var/lib/dpkg/x", "/home/alice" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct ctx ctx = some_ctx(no_environ);
                struct native_id id = { 0 };

                ctx.home = cases[i].home;
                assert_int_equal(id_resolve(&ctx, NULL, NULL, NULL, &id, NULL), 0);
                assert_string_equal(id.home, cases[i].want);
                id_deinit(&id);
        }
}

static void id_resolve_makes_safe_names(void **state) {
        static const char *const bad[] = { "", "-x", ".x", "a b", "a:b", "a\nb", "a/b", "\x01" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct ctx ctx = some_ctx(no_environ);
                struct native_id id = { 0 };

                ctx.user_name = bad[i];
                assert_int_equal(id_resolve(&ctx, NULL, NULL, NULL, &id, NULL), 0);
                assert_string_equal(id.name, "u1000");
                id_deinit(&id);
        }
}

static const struct native_id alice = {
        .inside_uid = 1000,
        .inside_gid = 100,
        .name = (char *) (uintptr_t) "alice",
        .home = (char *) (uintptr_t) "/h/alice",
        .shell = (char *) (uintptr_t) "/bin/sh",
};

static void etc_passwd_has_one_entry(void **state) {
        static const char own[] = "alice:x:1000:100::/h/alice:/bin/sh\n";
        static const struct {
                const char *host, *rest;
        } cases[] = {
                { "", "" },
                { "root:x:0:0:root:/root:/bin/bash\n", "root:x:0:0:root:/root:/bin/bash\n" },
                { "root:x:0:0::/root:/bin/sh", "root:x:0:0::/root:/bin/sh\n" },
                { "alice:x:5:5::/x:/bin/sh\nbob:x:6:6::/:/bin/sh\n", "bob:x:6:6::/:/bin/sh\n" },
                { "other:x:1000:1::/x:/y\n", "" },
                { "short\n:\nalice\n", "short\n:\n" },
                { "big:x:99999999999999999999:1::/:/\n", "big:x:99999999999999999999:1::/:/\n" },
                { "alice2:x:10000:1::/:/\n", "alice2:x:10000:1::/:/\n" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_BUF struct buf b = { 0 };

                assert_int_equal(etc_passwd(cases[i].host, &alice, &b), 0);
                assert_memory_equal(buf_cstr(&b), own, sizeof(own) - 1);
                assert_string_equal(buf_cstr(&b) + sizeof(own) - 1, cases[i].rest);
        }
}

static void etc_group_adds_what_lacks(void **state) {
        static const struct {
                const char *host, *want;
        } cases[] = {
                { "", "alice:x:100:\n" },
                { "users:x:100:\n", "users:x:100:\n" },
                { "root:x:0:", "root:x:0:\nalice:x:100:\n" },
                { "alice:x:7:\n", "alice:x:7:\ng100:x:100:\n" },
                { "no\n", "no\nalice:x:100:\n" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_BUF struct buf b = { 0 };

                assert_int_equal(etc_group(cases[i].host, &alice, &b), 0);
                assert_string_equal(buf_cstr(&b), cases[i].want);
        }
}

static void toolchain_roots_know_their_tools(void **state) {
        static const struct {
                const char *entry;
                size_t n;
                const char *first;
        } cases[] = {
                { "/h/a/.nvm/versions/node/v20.1.0/bin", 1, ".nvm" },
                { "/h/a/.cargo/bin", 3, ".cargo/bin" },
                { "/h/a/.pyenv/shims", 1, ".pyenv" },
                { "/h/a/.local/bin", 7, ".local/bin" },
                { "/h/a/.local/bin/sub", 7, ".local/bin" },
                { "/h/a/.local/binary", 1, ".local/binary" },
                { "/h/a/go/bin", 1, "go/bin" },
                { "/h/a/go", 1, "go" },
                { "/h/a/tools/x", 1, "tools/x" },
                { "/h/a", 0, NULL },
                { "/h/ab/.nvm", 0, NULL },
                { "/usr/bin", 0, NULL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *roots[8] = { NULL };

                assert_int_equal(toolchain_roots(cases[i].entry, "/h/a", roots, 8), cases[i].n);
                if (cases[i].first)
                        assert_string_equal(roots[0], cases[i].first);
        }
}

static void os_shows_only_what_is_listed(void **state) {
        static const struct {
                const char *path;
                bool want;
        } cases[] = {
                { "/usr", true },
                { "/usr/bin", true },
                { "/etc/passwd", true },
                { "/bin", true },
                { "/nix/store", true },
                { "/home/linuxbrew/.linuxbrew/bin", true },
                { "/home/linuxbrew/.ssh", false },
                { "/var/lib/dpkg", true },
                { "/usrx", false },
                { "/", false },
                { "/home/alice", false },
                { "/root", false },
                { "/run", false },
                { "/srv", false },
                { "/var", false },
                { "/var/lib", false },
                { "/mnt", false },
                { "/boot", false },
                { "usr", false },
                { "", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(os_shows(cases[i].path), cases[i].want);
}

static const char *value_of(const struct driver_plan *plan, const char *name) {
        const size_t n = strlen(name);
        const char *found = NULL;

        for (size_t i = 0; i < plan->n_env; i++)
                if (strncmp(plan->env[i], name, n) == 0 && plan->env[i][n] == '=') {
                        assert_null(found); /* once only */
                        found = plan->env[i] + n + 1;
                }
        return found;
}

static void plan_env_free(struct driver_plan *plan) {
        for (size_t i = 0; i < plan->n_env; i++)
                free(plan->env[i]);
        free(plan->env);
}

static void env_build_passes_a_short_list(void **state) {
        static const char *const env[] = { "TERM=xterm",
                                           "LC_ALL=C",
                                           "LC_X=y",
                                           "TZ=UTC",
                                           "SECRET=1",
                                           "LD_PRELOAD=x",
                                           "HOME=/evil",
                                           "TERMX=1",
                                           "GIVEN=yes",
                                           "CI",
                                           "LANGUAGE=de",
                                           "NO_COLOR=",
                                           "PATH=/usr/bin:.::rel:/nowhere/bin:/usr/../usr/bin",
                                           NULL };
        struct spec_env given[] = { { .name = (char *) (uintptr_t) "GIVEN" },
                                    { .name = (char *) (uintptr_t) "ABSENT" },
                                    { .name = (char *) (uintptr_t) "LC_X",
                                      .value = (char *) (uintptr_t) "z" } };
        const struct spec spec = { .env = given, .n_env = ARRAY_SIZE(given) };
        const struct ctx ctx = some_ctx(env);
        static struct driver_plan plan;

        (void) state;
        plan = (struct driver_plan){ .ctx = &ctx, .id = alice };
        assert_int_equal(env_build(&plan, &spec, NULL), 0);
        assert_string_equal(value_of(&plan, "TERM"), "xterm");
        assert_string_equal(value_of(&plan, "LC_ALL"), "C");
        assert_string_equal(value_of(&plan, "LC_X"), "z");
        assert_string_equal(value_of(&plan, "NO_COLOR"), "");
        assert_string_equal(value_of(&plan, "GIVEN"), "yes");
        assert_string_equal(value_of(&plan, "HOME"), "/h/alice");
        assert_string_equal(value_of(&plan, "USER"), "alice");
        assert_string_equal(value_of(&plan, "TMPDIR"), "/tmp");
        assert_string_equal(value_of(&plan, "COFFERDAM"), "1");
        assert_string_equal(value_of(&plan, "PATH"), "/usr/bin:/usr/../usr/bin");
        assert_null(value_of(&plan, "SECRET"));
        assert_null(value_of(&plan, "LD_PRELOAD"));
        assert_null(value_of(&plan, "TERMX"));
        assert_null(value_of(&plan, "CI"));
        assert_null(value_of(&plan, "ABSENT"));
        plan_env_free(&plan);
}

static void places_sort_puts_parents_first(void **state) {
        static const char *const regions[] = { "/tmp/w/sub", "/home/a/p", "/tmp/w" };
        static const char *const tmpfs[] = { "/tmp", "/home/a" };
        static struct driver_plan plan;

        (void) state;
        plan = (struct driver_plan){ .n_regions = ARRAY_SIZE(regions), .n_tmpfs = ARRAY_SIZE(tmpfs) };
        for (size_t i = 0; i < ARRAY_SIZE(regions); i++)
                plan.regions[i].target = (char *) (uintptr_t) regions[i];
        for (size_t i = 0; i < ARRAY_SIZE(tmpfs); i++)
                plan.tmpfs[i].target = (char *) (uintptr_t) tmpfs[i];
        places_sort(&plan);
        assert_int_equal(plan.n_places, 5);
        assert_string_equal(plan.places[0].target, "/home/a");
        assert_int_equal(plan.places[0].tmpfs, 1);
        assert_string_equal(plan.places[1].target, "/home/a/p");
        assert_string_equal(plan.places[2].target, "/tmp");
        assert_string_equal(plan.places[3].target, "/tmp/w");
        assert_int_equal(plan.places[3].region, 2);
        assert_string_equal(plan.places[4].target, "/tmp/w/sub");
        assert_string_equal(region_find(&plan, "/tmp/w/sub/x")->target, "/tmp/w/sub");
        assert_string_equal(region_find(&plan, "/tmp/w/subx")->target, "/tmp/w");
        assert_null(region_find(&plan, "/tmp"));
}

static void mnt_point_changes_tmpfs_only(void **state) {
        char shm[] = "/dev/shm/mnt-point.XXXXXX";
        AUTO_FD int root = -1, made = -1, proc = -1;
        struct stat st;

        (void) state;
        proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(mnt_point(proc, "no-such-name/x", false), -ENOENT);
        assert_int_equal(mnt_point(proc, "self/fd", false), -ELOOP);
        if (!mkdtemp(shm))
                skip();
        root = open(shm, O_PATH | O_DIRECTORY | O_CLOEXEC);
        made = mnt_point(root, "a/b/file", true);
        assert_true(made >= 0);
        assert_int_equal(fstatat(root, "a/b/file", &st, 0), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(mnt_point(root, "a/b/file", false), -ENOTDIR);
        assert_int_equal(mnt_point(root, "a/b", true), -EISDIR);
        assert_int_equal(symlinkat("a", root, "link"), 0);
        assert_int_equal(mnt_point(root, "link/b", false), -ELOOP);
        assert_int_equal(unlinkat(root, "link", 0), 0);
        assert_int_equal(unlinkat(root, "a/b/file", 0), 0);
        assert_int_equal(unlinkat(root, "a/b", AT_REMOVEDIR), 0);
        assert_int_equal(unlinkat(root, "a", AT_REMOVEDIR), 0);
        assert_int_equal(rmdir(shm), 0);
}

/* what is said of a mountinfo whose last line says that @id lies on @parent */
static bool first_says(int dir, const char *before, unsigned long long id, unsigned long long parent) {
        AUTO_FD int info = openat(dir, "info", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(dprintf(info, "%s%llu %llu 0:2 / / rw - rootfs rootfs rw", before, id, parent) > 0);
        return mnt_is_first(dir, dir, "info");
}

/* red with `return true` for a mount that has another below it: a chroot would be taken for a way out of the
 * host */
static void mnt_is_first_needs_no_parent(void **state) {
        char tmp[] = "/tmp/mnt-first.XXXXXX";
        AUTO_FD int dir = -1;
        struct statx stx;

        (void) state;
        assert_non_null(mkdtemp(tmp));
        dir = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(statx(dir, "", AT_EMPTY_PATH, STATX_MNT_ID, &stx), 0);
        if (!(stx.stx_mask & STATX_MNT_ID)) { /* Linux 5.8 */
                assert_int_equal(rmdir(tmp), 0);
                skip();
        }
        assert_false(mnt_is_first(dir, dir, "missing"));
        assert_true(first_says(dir, "", stx.stx_mnt_id, stx.stx_mnt_id));
        assert_true(first_says(dir, "7 1 0:3 / / rw\n\nx\n", stx.stx_mnt_id, stx.stx_mnt_id));
        assert_false(first_says(dir, "", stx.stx_mnt_id, stx.stx_mnt_id + 1));
        assert_false(first_says(dir, "", stx.stx_mnt_id + 1, stx.stx_mnt_id + 1));
        assert_false(mnt_is_first(dir, AT_FDCWD, "/proc/self/mountinfo")); /* no initramfs here */
        assert_int_equal(unlinkat(dir, "info", 0), 0);
        assert_int_equal(rmdir(tmp), 0);
}

/* red without the flock(2) in upper_take(): two runs would write to one upper */
static void upper_take_is_for_one_run(void **state) {
        const struct native_id id = { .switch_user = false };
        struct tree tree;
        int first, second;

        (void) state;
        tree_init(&tree);
        first = upper_take(&id, tree.fd, 0);
        assert_true(first >= 0);
        assert_int_equal(upper_take(&id, tree.fd, 0), -EBUSY);
        second = upper_take(&id, tree.fd, 1);
        assert_true(second >= 0);
        (void) fd_close(first);
        first = upper_take(&id, tree.fd, 0); /* nobody writes to it any more */
        assert_true(first >= 0);
        (void) fd_close(first);
        (void) fd_close(second);
        tree_deinit(&tree);
}

/* red when the comparison in host_reopen() goes, or RESOLVE_NO_SYMLINKS */
static void host_reopen_wants_the_same_directory(void **state) {
        char path[256];
        struct tree tree;
        int fd, again;

        (void) state;
        tree_init(&tree);
        assert_int_equal(mkdirat(tree.fd, "d", 0700), 0);
        fd = openat(tree.fd, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        (void) snprintf(path, sizeof(path), "%s/d", tree.path);
        again = host_reopen(fd, path);
        assert_true(again >= 0);
        (void) fd_close(again);
        assert_int_equal(renameat(tree.fd, "d", tree.fd, "e"), 0);
        assert_int_equal(host_reopen(fd, path), -ENOENT);
        assert_int_equal(symlinkat("e", tree.fd, "d"), 0);
        assert_int_equal(host_reopen(fd, path), -ELOOP);
        assert_int_equal(unlinkat(tree.fd, "d", 0), 0);
        assert_int_equal(mkdirat(tree.fd, "d", 0700), 0);
        assert_int_equal(host_reopen(fd, path), -ESTALE);
        (void) fd_close(fd);
        tree_deinit(&tree);
}

static void bypasses_add_judges_directories(void **state) {
        static const struct {
                const char *path;
                int r;
        } cases[] = {
                { "node_modules", 0 },  { "sub/target", 0 },    { "sub/.git/objects", 0 },
                { ".git/objects", 0 },  { ".git", -EPERM },     { ".git/hooks", -EPERM },
                { "sub/.git", -EPERM }, { ".vscode", -EPERM },  { "bare.git", -EPERM },
                { ".husky/_", -EPERM }, { "missing", -ENOENT }, { "link", -ENOTDIR },
                { "link/sub", -ELOOP }, { "file", -ENOTDIR },   { ".github", -EPERM },
        };
        static const char *const made[] = { "node_modules",     "sub",      "sub/target",   "sub/.git",
                                            "sub/.git/objects", ".git",     ".git/objects", ".git/hooks",
                                            ".vscode",          "bare.git", ".husky",       ".husky/_",
                                            ".github" };
        struct tree tree;
        struct rules *rules = NULL;
        size_t n;
        const struct rule_def *defs = rules_builtin(&n);

        (void) state;
        tree_init(&tree);
        for (size_t i = 0; i < ARRAY_SIZE(made); i++)
                assert_int_equal(mkdirat(tree.fd, made[i], 0700), 0);
        assert_int_equal(symlinkat("sub", tree.fd, "link"), 0);
        assert_int_equal(mknodat(tree.fd, "file", S_IFREG | 0600, 0), 0);
        assert_int_equal(rules_new(defs, n, false, &rules, NULL), 0);
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char *dirs[] = { (char *) (uintptr_t) cases[i].path };
                struct spec spec = { .workspace = { .bypass = dirs, .n_bypass = 1 } };
                struct driver_plan *plan = calloc(1, sizeof(*plan));
                struct error err = { 0 };

                assert_non_null(plan);
                plan->n_regions = 1;
                plan->regions[0] = (struct native_region){
                        .pin = { .fd = fcntl(tree.fd, F_DUPFD_CLOEXEC, 3),
                                 .real = strdup(tree.path),
                                 .path = strdup(tree.path) },
                        .target = strdup("/w"),
                        .kind = REGION_DIRECT,
                        .rules = rules,
                        .rules_shared = true,
                };
                if (bypasses_add(plan, &spec, &err) != cases[i].r)
                        fail_msg("'%s': %d %s", cases[i].path, err.code, err.msg);
                if (cases[i].r == 0)
                        assert_int_equal(strncmp(plan->bypass[0].target, "/w/", 3), 0);
                (void) native_plan_free(plan);
        }
        (void) rules_free(rules);
        tree_deinit(&tree);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(id_resolve_reads_users),
                cmocka_unit_test(id_resolve_finds_a_home),
                cmocka_unit_test(id_resolve_makes_safe_names),
                cmocka_unit_test(etc_passwd_has_one_entry),
                cmocka_unit_test(etc_group_adds_what_lacks),
                cmocka_unit_test(toolchain_roots_know_their_tools),
                cmocka_unit_test(os_shows_only_what_is_listed),
                cmocka_unit_test(env_build_passes_a_short_list),
                cmocka_unit_test(places_sort_puts_parents_first),
                cmocka_unit_test(mnt_point_changes_tmpfs_only),
                cmocka_unit_test(mnt_is_first_needs_no_parent),
                cmocka_unit_test(upper_take_is_for_one_run),
                cmocka_unit_test(host_reopen_wants_the_same_directory),
                cmocka_unit_test(bypasses_add_judges_directories),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
