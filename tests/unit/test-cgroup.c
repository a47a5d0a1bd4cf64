#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "drivers/native/cgroup.h"
#include "drivers/native/limits.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "tests/unit/tree.h"

/* A tree that looks like the kernel's: plain files keep what was written, and a new group gets its files by a
 * wrapper of mkdirat(2), as the kernel makes them. */
int __real_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode) {
        static const char *const files[] = { "cgroup.procs",      "memory.max",      "memory.swap.max",
                                             "pids.max",          "cpu.max",         "memory.limit_in_bytes",
                                             "cpu.cfs_period_us", "cpu.cfs_quota_us" };
        char path[128];

        if (__real_mkdirat(dir, name, mode) < 0)
                return -1;
        for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
                (void) snprintf(path, sizeof(path), "%s/%s", name, files[i]);
                (void) close(openat(dir, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
        }
        return 0;
}

static void make(const struct tree *t, const char *path, const char *text) {
        char name[256];
        AUTO_FD int fd = -1;

        (void) snprintf(name, sizeof(name), "%s/%s", t->path, path);
        for (char *p = strchr(name + strlen(t->path) + 1, '/'); p; p = strchr(p + 1, '/')) {
                *p = '\0';
                (void) mkdir(name, 0755);
                *p = '/';
        }
        fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        assert_true(fd >= 0);
        assert_int_equal(write_all(fd, text, strlen(text)), 0);
}

static void assert_holds(const struct cgroup *cg, int dir, const char *file, const char *want) {
        AUTO_BUF struct buf text = { 0 };

        assert_int_equal(file_read_at(cg->dirs[dir].fd, file, 4096, &text), 0);
        assert_string_equal(buf_cstr(&text), want);
}

static void cgroup_make_chooses_by_what_is_given(void **state) {
        static const struct cgroup_limits memory = { .memory_bytes = 1 << 20 };
        static const struct cgroup_limits all = { .memory_bytes = 1 << 20, .pids = 5, .cpu_milli = 1500 };
        static const struct {
                const char *self;
                const char *parent_gives, *own_gives; /* cgroup.subtree_control; NULL: no such file */
                const struct cgroup_limits *limits;
                const char *want; /* where the group is made, NULL: nowhere */
        } rows[] = {
                { "0::/app/own\n", "memory pids cpu\n", "\n", &memory, "app" },
                { "0::/app/own\n", "pids memory\n", NULL, &memory, "app" },
                { "1:name=systemd:/x\n0::/app/own\n", "cpu memory pids\n", "\n", &all, "app" },
                { "0::/app/own\n", NULL, "memory\n", &memory, "app/own" },
                { "0::/app/own\n", NULL, NULL, &memory, NULL },
                { "3:memory:/app/own\n", "memory\n", "memory\n", &memory, NULL },
                { "", "memory\n", "memory\n", &memory, NULL },
                { "0::\n", "memory\n", "memory\n", &memory, NULL },
                { "garbage", "memory\n", "memory\n", &memory, NULL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct tree t;
                struct cgroup cg = CGROUP_INIT;
                struct error err = { 0 };
                char want[256];
                int r;

                tree_init(&t);
                make(&t, "cgroup.controllers", "memory pids cpu\n");
                make(&t, "app/own/cgroup.procs", "1\n");
                if (rows[i].parent_gives)
                        make(&t, "app/cgroup.subtree_control", rows[i].parent_gives);
                if (rows[i].own_gives)
                        make(&t, "app/own/cgroup.subtree_control", rows[i].own_gives);
                r = cgroup_make(t.path, rows[i].self, rows[i].limits, "0123456789ab", &cg, &err);
                assert_int_equal(r, rows[i].want ? 0 : -ENOTSUP);
                if (rows[i].want) {
                        (void) snprintf(want, sizeof(want), "%s/%s/cofferdam-0123456789ab", t.path,
                                        rows[i].want);
                        assert_string_equal(cg.dirs[0].path, want);
                        assert_int_equal(cg.version, 2);
                        assert_holds(&cg, 0, "memory.max", "1048576");
                        assert_holds(&cg, 0, "memory.swap.max", "0");
                        assert_holds(&cg, 0, "pids.max", rows[i].limits->pids ? "5" : "");
                        assert_holds(&cg, 0, "cpu.max", rows[i].limits->cpu_milli ? "150000 100000" : "");
                        assert_int_equal(cgroup_enter(&cg, 4711), 0);
                        assert_holds(&cg, 0, "cgroup.procs", "4711");
                } else {
                        assert_non_null(strstr(err.msg, "no control group"));
                }
                cgroup_remove(&cg);
                tree_deinit(&t);
        }
}

static void cgroup_make_takes_each_controller_of_version_1(void **state) {
        static const struct cgroup_limits all = { .memory_bytes = 1 << 20, .pids = 5, .cpu_milli = 1500 };
        struct cgroup cg = CGROUP_INIT;
        struct tree t;

        (void) state;
        tree_init(&t);
        make(&t, "memory/vm/x", "");
        make(&t, "pids/x", "");
        make(&t, "cpu/x", "");
        assert_int_equal(cgroup_make(t.path, "8:pids:/\n4:memory:/vm\n2:cpu,cpuacct:/\n0::/\n", &all,
                                     "0123456789ab", &cg, NULL),
                         0);
        assert_int_equal(cg.version, 1);
        assert_holds(&cg, CGROUP_MEMORY, "memory.limit_in_bytes", "1048576");
        assert_holds(&cg, CGROUP_PIDS, "pids.max", "5");
        assert_holds(&cg, CGROUP_CPU, "cpu.cfs_quota_us", "150000");
        assert_int_equal(cgroup_enter(&cg, 4711), 0);
        for (int i = 0; i < CGROUP_CONTROLLER_COUNT; i++)
                assert_holds(&cg, i, "cgroup.procs", "4711");
        cgroup_remove(&cg);
        tree_deinit(&t);
}

/* All the places where cgroup_make() may have made one, without a state that names them. */
static void cgroup_reap_run_finds_what_was_not_reported(void **state) {
        static const char self[] = "8:pids:/\n4:memory:/vm\n2:cpu,cpuacct:/\n0::/app/own\n";
        static const char *const groups[] = { "memory/vm/", "pids/", "cpu/", "app/own/", "app/" };
        struct tree t;

        (void) state;
        tree_init(&t);
        for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
                char path[256];

                (void) snprintf(path, sizeof(path), "%sx", groups[i]);
                make(&t, path, "");
                (void) snprintf(path, sizeof(path), "%s/%scofferdam-0123456789ab", t.path, groups[i]);
                assert_int_equal(mkdir(path, 0755), 0);
                cgroup_reap_run(t.path, self, "0123456789ff"); /* another's */
                assert_int_equal(access(path, F_OK), 0);
                cgroup_reap_run(t.path, self, "0123456789ab");
                assert_int_equal(access(path, F_OK), -1);
        }
        tree_deinit(&t);
}

static void limits_plan_refuses_more_files_than_allowed(void **state) {
        AUTO_SPEC struct spec *spec = NULL;
        struct native_limits limits;
        struct error err = { 0 };

        (void) state;
        assert_int_equal(spec_new(&spec, NULL), 0);
        spec->limits.open_files = 1 << 30;
        assert_int_equal(limits_plan(spec, &limits, &err), -EINVAL);
        assert_non_null(strstr(err.msg, "limits.open_files"));
        spec->limits.open_files = 64;
        assert_int_equal(limits_plan(spec, &limits, NULL), 0);
}

static void limits_plan_reads_cpus(void **state) {
        static const struct {
                const char *text;
                uint64_t milli;
        } rows[] = { { "1", 1000 }, { "1.5", 1500 }, { "0.25", 250 }, { "0.001", 1 }, { "12.34", 12340 } };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                AUTO_SPEC struct spec *spec = NULL;
                struct native_limits limits;

                assert_int_equal(spec_new(&spec, NULL), 0);
                spec->limits.cpus = strdup(rows[i].text);
                assert_int_equal(limits_plan(spec, &limits, NULL), 0);
                assert_int_equal(limits.group.cpu_milli, rows[i].milli);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(cgroup_make_chooses_by_what_is_given),
                cmocka_unit_test(cgroup_make_takes_each_controller_of_version_1),
                cmocka_unit_test(cgroup_reap_run_finds_what_was_not_reported),
                cmocka_unit_test(limits_plan_refuses_more_files_than_allowed),
                cmocka_unit_test(limits_plan_reads_cpus),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
