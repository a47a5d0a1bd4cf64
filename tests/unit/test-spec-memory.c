/*
 * Every allocation on the way from files, variables and options to a specification fails once: the result is
 * -ENOMEM, nothing is handed out, nothing leaks (the sanitizer build watches).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "runtime/spec/resolve.h"
#include "runtime/spec/schema.h"

enum { ALLOCATIONS_MAX = 20000 };

static size_t calls, fail_at; /* the @fail_at-th call fails, 0: none; of this test program only */

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

static bool fails(void) {
        return ++calls == fail_at;
}

void *__wrap_malloc(size_t size) {
        return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size) {
        return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size) {
        return fails() ? NULL : __real_realloc(p, size);
}

char *__wrap_strdup(const char *s) {
        return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n) {
        return fails() ? NULL : __real_strndup(s, n);
}

/* One run through everything. */
static int resolve_all(struct spec **ret, struct error *err) {
        static const struct flag_set set = { "test", "Test.", NULL, 0, true };
        static const char *const variables[] = { "ITERION_SANDBOX_DEFAULT=auto", "COFFERDAM_NAME=n",
                                                 "COFFERDAM_KEEP=1", NULL };
        const char *root = getenv("SOURCE_ROOT") ? getenv("SOURCE_ROOT") : ".";
        const struct ctx ctx = { .uid = geteuid(),
                                 .home = "/home/op",
                                 .cwd = "/w",
                                 .environ = variables,
                                 .config_dir = "/nonexistent" };
        char yaml[512], json[512];
        const char *const words[] = { "run",
                                      "-s",
                                      yaml,
                                      "-s",
                                      json,
                                      "-eA=b",
                                      "--env",
                                      "C",
                                      "--cache",
                                      "~/.npm2",
                                      "--hold",
                                      "x",
                                      "--keep",
                                      "--mount",
                                      "type=bind,src=/a,dst=/b,ro",
                                      "--seed",
                                      "/etc/motd:~/motd",
                                      "--seed=~/x",
                                      "--workspace-target",
                                      "/t",
                                      "--allow-sensitive",
                                      "/s",
                                      "-u1:1",
                                      "--mode=auto",
                                      "true" };
        char *argv[ARRAY_SIZE(words)];
        AUTO_FLAGS struct flags *flags = NULL;
        int r;

        (void) snprintf(yaml, sizeof(yaml), "%s/tests/assets/spec/full.yaml", root);
        (void) snprintf(json, sizeof(json), "%s/tests/assets/spec/full.json", root);
        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                memcpy(&argv[i], &words[i], sizeof(argv[i]));
        r = flags_parse(&set, (int) ARRAY_SIZE(words), argv, NULL, &flags, err);
        return r < 0 ? r : spec_resolve(&ctx, flags, ret, err);
}

static void spec_resolve_survives_every_failed_allocation(void **state) {
        int r = -ENOMEM;

        (void) state;
        for (size_t n = 1; r != 0; n++) {
                AUTO_SPEC struct spec *spec = NULL;
                struct error err = { 0 };

                assert_true(n < ALLOCATIONS_MAX);
                calls = 0;
                fail_at = n;
                r = resolve_all(&spec, &err);
                fail_at = 0;
                if (r == 0) {
                        assert_true(calls < n); /* the end: nothing was left to fail */
                        continue;
                }
                if (r != -ENOMEM)
                        fail_msg("allocation %zu: %d %s", n, r, err.msg);
                assert_null(spec);
                assert_int_equal(err.code, -ENOMEM);
        }
}

static void spec_dump_survives_every_failed_allocation(void **state) {
        AUTO_SPEC struct spec *spec = NULL;
        bool done = false;

        (void) state;
        assert_int_equal(resolve_all(&spec, NULL), 0);
        for (size_t n = 1; !done; n++) {
                AUTO_JSON json_t *dump = NULL;

                assert_true(n < ALLOCATIONS_MAX);
                calls = 0;
                fail_at = n;
                dump = spec_dump(spec);
                fail_at = 0;
                done = dump != NULL;
                assert_int_equal(done, calls < n);
        }
}

static void spec_schema_survives_every_failed_allocation(void **state) {
        bool done = false;

        (void) state;
        for (size_t n = 1; !done; n++) {
                AUTO_JSON json_t *schema = NULL;

                assert_true(n < ALLOCATIONS_MAX);
                calls = 0;
                fail_at = n;
                schema = spec_schema();
                fail_at = 0;
                done = schema != NULL;
                assert_int_equal(done, calls < n);
        }
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(spec_resolve_survives_every_failed_allocation),
                cmocka_unit_test(spec_dump_survives_every_failed_allocation),
                cmocka_unit_test(spec_schema_survives_every_failed_allocation),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
