/*
 * test-guard-page.c - cofferdam-guard(7) lists what the tables hold, no more and no less
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fs/gitkeys.h"
#include "fs/pin.h"
#include "fs/rules.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

enum { PAGE_MAX = 1 << 20 };

static int page_setup(void **state) {
        struct buf *page = calloc(1, sizeof(*page));
        AUTO_FREE char *path = NULL;
        const char *root = getenv("SOURCE_ROOT");

        if (!page || asprintf(&path, "%s/docs/man/cofferdam-guard.7", root ? root : ".") < 0)
                return -1;
        *state = page;
        return file_read_at(AT_FDCWD, path, PAGE_MAX, page);
}

static int page_teardown(void **state) {
        buf_deinit(*state);
        free(*state);
        return 0;
}

/* Number of lines that begin with @start. */
static size_t count_lines(const struct buf *page, const char *start) {
        const char *line = page->data;
        size_t n = 0;

        while (line && *line) {
                n += strncmp(line, start, strlen(start)) == 0;
                line = strchr(line, '\n');
                line += line != NULL;
        }
        return n;
}

/* Looks for the whole lines @text after @from. Return: where they end. */
static const char *expect_lines(const struct buf *page, const char *from, const char *text) {
        const char *at = strstr(from, text);

        while (at && at > page->data && at[-1] != '\n')
                at = strstr(at + 1, text);
        if (!at)
                fail_msg("not in cofferdam-guard(7), or not in this order: %s", text);
        return at + strlen(text);
}

static void add_types(struct buf *text, unsigned int types) {
        static const struct {
                unsigned int type;
                const char *name;
        } names[] = { { RULE_FILE, "file" }, { RULE_LINK, "symlink" }, { RULE_DIR, "directory" } };
        const char *before = " Pq ";

        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                if (!(types & names[i].type))
                        continue;
                assert_int_equal(buf_fmt(text, "%s%s", before, names[i].name), 0);
                before = ", ";
        }
}

/* A pattern as the page has it: its line may be broken behind a comma. */
static void add_pattern(struct buf *text, const char *pattern) {
        for (; *pattern; pattern++) {
                assert_int_equal(buf_add(text, pattern, 1), 0);
                if (*pattern == ',')
                        assert_int_equal(buf_str(text, "\\:"), 0);
        }
}

static void page_lists_the_builtin_rules(void **state) {
        static const char *const actions[] = { "allow", "hold", "protect", "hide" };
        const struct buf *page = *state;
        const char *at = page->data;
        const struct rule_def *defs;
        size_t n;

        defs = rules_builtin(&n);
        for (size_t i = 0; i < n; i++) {
                AUTO_BUF struct buf text = { 0 };

                assert_int_equal(buf_fmt(&text, ".It Cm %s Li ", actions[defs[i].action]), 0);
                add_pattern(&text, defs[i].path);
                add_types(&text, defs[i].types);
                assert_int_equal(buf_str(&text, "\n"), 0);
                assert_non_null(rules_builtin_group(defs[i].path));
                if (i == 0 || rules_builtin_group(defs[i].path) != rules_builtin_group(defs[i - 1].path)) {
                        AUTO_BUF struct buf head = { 0 };

                        assert_int_equal(buf_fmt(&head, ".Ss %s\n", rules_builtin_group(defs[i].path)), 0);
                        at = expect_lines(page, at, head.data);
                }
                at = expect_lines(page, at, text.data);
        }
        assert_int_equal(count_lines(page, ".It Cm hold Li") + count_lines(page, ".It Cm allow Li") +
                                 count_lines(page, ".It Cm hide Li") + count_lines(page, ".It Cm protect Li"),
                         n);
}

static void page_lists_the_safe_keys(void **state) {
        const struct buf *page = *state;
        const char *at = page->data;
        const struct gitkeys_row *rows;
        size_t n;

        rows = gitkeys_table(&n);
        for (size_t i = 0; i < n; i++) {
                AUTO_BUF struct buf text = { 0 };

                assert_int_equal(buf_fmt(&text, ".It Li %s%s.%s\n%s\n", rows[i].section,
                                         rows[i].subsection ? ".*" : "", rows[i].name, rows[i].values),
                                 0);
                at = expect_lines(page, at, text.data);
        }
        assert_int_equal(count_lines(page, ".It Li"), n);
}

static void page_lists_the_refused_sources(void **state) {
        const struct buf *page = *state;
        const char *at = page->data;
        const struct pin_refusal *rows;
        size_t n;

        rows = pin_refused(&n);
        for (size_t i = 0; i < n; i++) {
                AUTO_BUF struct buf text = { 0 };

                assert_int_equal(buf_fmt(&text, ".It Pa %s%s\n%s\n",
                                         rows[i].base == PIN_BASE_HOME ? "~/" : "/", rows[i].path,
                                         rows[i].why),
                                 0);
                at = expect_lines(page, at, text.data);
        }
        assert_int_equal(count_lines(page, ".It Pa"), n);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(page_lists_the_builtin_rules),
                cmocka_unit_test(page_lists_the_safe_keys),
                cmocka_unit_test(page_lists_the_refused_sources),
        };

        return cmocka_run_group_tests(tests, page_setup, page_teardown);
}
