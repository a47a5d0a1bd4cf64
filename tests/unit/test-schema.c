/*
 * The files that are generated from the key table are what the table says. With UPDATE=1 in the environment
 * they are written instead:  UPDATE=1 SOURCE_ROOT=. build/tests/unit/test-schema
 */
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

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/spec/flags.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/schema.h"

enum { TEXT_MAX = 1 << 20 };

static int open_root(void) {
        const char *root = getenv("SOURCE_ROOT");
        const int fd = open(root ? root : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

/* Compares @want with the file, or writes it there. */
static void compare(const char *dir, const char *name, const char *want) {
        AUTO_FD int root = open_root();
        AUTO_FD int at = openat(root, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        AUTO_BUF struct buf text = { 0 };

        if (getenv("UPDATE"))
                assert_int_equal(file_replace_at(at, name, want, strlen(want), 0644, false), 0);
        assert_int_equal(file_read_at(at, name, TEXT_MAX, &text), 0);
        if (strcmp(buf_cstr(&text), want) != 0)
                fail_msg("%s/%s is not what the key table says: run this test with UPDATE=1", dir, name);
}

static void schema_is_the_file(void **state) {
        AUTO_JSON json_t *schema = spec_schema();
        AUTO_FREE char *text = json_dumps(schema, JSON_INDENT(2));
        AUTO_BUF struct buf want = { 0 };

        (void) state;
        assert_non_null(text);
        assert_int_equal(buf_fmt(&want, "%s\n", text), 0);
        compare("docs/schema", "spec.json", buf_cstr(&want));
}

static void manual_lists_every_key(void **state) {
        static const char begin[] = ".\\\" generated from runtime/spec/keys.c; a test compares\n";
        static const char end[] = ".\\\" end of the generated part\n";
        AUTO_FD int root = open_root();
        AUTO_BUF struct buf page = { 0 }, want = { 0 };
        const char *from, *to;

        (void) state;
        assert_int_equal(file_read_at(root, "docs/man/cofferdam.yaml.5", TEXT_MAX, &page), 0);
        from = strstr(buf_cstr(&page), begin);
        to = strstr(buf_cstr(&page), end);
        assert_true(from && to && from < to);
        from += strlen(begin);
        assert_int_equal(buf_add(&want, page.data, (size_t) (from - page.data)), 0);
        assert_int_equal(spec_manual(&want), 0);
        assert_int_equal(buf_str(&want, to), 0);
        compare("docs/man", "cofferdam.yaml.5", buf_cstr(&want));
}

/* what the readers rely on, row by row */
static void keys_are_well_formed(void **state) {
        (void) state;
        for (size_t i = 0; i < spec_key_count(); i++) {
                const struct key *k = &spec_keys[i];

                assert_true(key_find(k->section, k->name) == k); /* no second row of the name */
                assert_true(!k->flag || key_by_flag(k->flag) == k);
                assert_true(k->help && *k->help && k->help[strlen(k->help) - 1] != '.');
                assert_true(k->offset != KEY_NO_STORE || k->instead); /* what is acted on is kept */
                assert_int_equal(k->words != NULL, k->type == KEY_ENUM || k->type == KEY_WORD);
                assert_true(!k->flag || k->type == KEY_BOOL || k->metavar);
                assert_true(k->type != KEY_BOOL || !k->metavar);
                if (key_is_list(k))
                        assert_true(k->max > 0 && k->count_offset > k->offset);
        }
}

/* a mistake here would let a file of somebody else decide what only the operator may */
static void keys_of_the_operator_stay_his(void **state) {
        static const char *const his[] = { "allow_sensitive",
                                           "secrets",
                                           "workspace.bypass",
                                           "security.seccomp",
                                           "security.nested_userns",
                                           "security.no_new_privs",
                                           "auth_proxy.url",
                                           "auth_proxy.admin_url",
                                           "auth_proxy.options",
                                           "kubernetes.kubeconfig",
                                           "kubernetes.context",
                                           "kubernetes.sandboxed",
                                           "kubernetes.service_account",
                                           "kubernetes.env_from_secret",
                                           "kubernetes.credentials_secret",
                                           "kubernetes.volumes",
                                           "kubernetes.claude_profiles",
                                           "kubernetes.managed_settings_presets",
                                           "kubernetes.sessions_volume",
                                           "kubernetes.node_selector",
                                           "kubernetes.tolerations",
                                           "kubernetes.spread_key",
                                           "kubernetes.image_pull_secrets",
                                           "kubernetes.managed_by",
                                           "kubernetes.label_domain",
                                           "kubernetes.owner_pod",
                                           "kubernetes.network_policy" };
        size_t n = 0;

        (void) state;
        for (size_t i = 0; i < spec_key_count(); i++) {
                char path[KEY_PATH_LEN];

                if (spec_keys[i].trust != TRUST_OPERATOR)
                        continue;
                assert_true(n < ARRAY_SIZE(his));
                assert_string_equal(key_path(&spec_keys[i], path), his[n++]);
        }
        assert_int_equal(n, ARRAY_SIZE(his));
        assert_int_equal(trust_of(TIER_WORKFLOW), TRUST_WORKFLOW);
        assert_int_equal(trust_of(TIER_REPOSITORY), TRUST_REPOSITORY);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(schema_is_the_file),
                cmocka_unit_test(manual_lists_every_key),
                cmocka_unit_test(keys_are_well_formed),
                cmocka_unit_test(keys_of_the_operator_stay_his),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
