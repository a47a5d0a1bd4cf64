#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "drivers/oci/ignore.h"
#include "runtime/base/cleanup.h"

/* As a walk does: each directory above is judged first. Return: whether the walk comes to @path and keeps it.
 */
static bool keeps(struct ignore *g, const char *path) {
        const size_t n = ignore_count(g) + 1;
        AUTO_FREE bool *above = calloc(n, 1), *here = calloc(n, 1);
        struct ignore_verdict v = { 0 };
        char part[PATH_MAX];

        assert_true(above && here);
        for (size_t len = 0; path[len];) {
                const bool top = len == 0;

                len += strcspn(path + len + (len > 0), "/") + (len > 0);
                (void) snprintf(part, sizeof(part), "%.*s", (int) len, path);
                assert_int_equal(ignore_match(g, part, top ? NULL : above, here, &v), 0);
                if (v.ignored && !v.search)
                        return false;
                memcpy(above, here, n);
        }
        return !v.ignored;
}

/* The reference of docker and its man page, and what its own reader does with odd lines. */
static void ignore_match_follows_the_reference(void **state) {
        static const struct {
                const char *text, *kept, *ignored; /* words */
        } cases[] = {
                { "", "a a/b .dockerignore", "" },
                { "# comment\n*/temp*\n*/*/temp*\ntemp?\n", "temp a/b/c/temp a/xtemp",
                  "a/temporary.txt a/temp/x a/b/temp.txt tempa tempb/x" },
                { "*.md\n!README.md\n", "README.md a.txt a/b.md", "x.md README.md.md" },
                { "*.md\n!README*.md\nREADME-secret.md", "README.md README-x.md", "a.md README-secret.md" },
                { "*.md\nREADME-secret.md\n!README*.md", "README.md README-secret.md", "a.md" },
                { "sub/*\n!sub/kept\n**/*.secret", "sub sub/kept sub/kept/x a",
                  "sub/a sub/a/kept x.secret a/b/x.secret sub/kept/x.secret" },
                { "sub\n!sub/kept", "sub/kept sub/kept/x", "sub sub/a sub/a/kept" },
                { "a/b/c\n!a/b/c/d/e", "a a/b a/b/c/d/e a/b/c/d/e/f", "a/b/c a/b/c/d a/b/c/x" },
                { "**/*.go", "go a/go", "x.go a/x.go a/b/x.go" },
                { "*\n!kept", "kept kept/x", "a a/kept .dockerignore" },
                { "**", "", "a a/b" },
                { "**\n!a/b/**/c", "a/b/c a/b/x/c a/b/x/y/c/z", "a a/b a/c a/b/d" },
                { "foo/**", "foo foox/a", "foo/a foo/a/b" },
                { "a/**/z", "a a/y z", "a/z a/b/z a/b/c/z/x" },
                { "**/foo/bar", "foo bar xfoo/bar", "foo/bar a/foo/bar a/b/foo/bar/c" },
                { "**foo", "foob", "foo xfoo a/xfoo" },
                { "/foo/bar\n", "bar a/foo/bar foo", "foo/bar foo/bar/x" },
                { "foo/\n./bar/.\na/../b\n//c", "a", "foo foo/x bar b c" },
                { "../out\n/../in", "out", "in" },
                { "..\n.\n/\n", "a a/b", "" },
                { "a  \n\tb\t\n \n\n", "ab", "a b" },
                { "a\r\n!a/kept\r\n\r\n# no\r\nb\r\n", "a/kept no", "a a/x b" },
                { "\xef\xbb\xbf# no\na", "no", "a" },
                { " # no comment\n", "x", "#\\ no\\ comment" },
                { "! a\n!  /b\n*\n! /c", "c", "a b" },
                { "a?c", "a/c ac",
                  "abc a\xc3\xa9"
                  "c" },
                { "[a-c]x\n[^a-z]y\n[\\]]z", "dx by az", "ax cx By 1y ]z" },
                { "a\\*b\n\\#c", "axb", "a*b #c" },
                { ".git", "x/.git .gitignore", ".git .git/config" },
                { "caf\xc3\xa9\nx\xff", "cafe", "caf\xc3\xa9 x\xff" },
                { "a.b", "axb", "a.b" },
                { "a+(b)|c$^", "ab", "a+(b)|c$^" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                for (int want = 0; want < 2; want++) {
                        AUTO_FREE char *words = strdup(want ? cases[i].kept : cases[i].ignored);
                        AUTO_IGNORE struct ignore *g = NULL;
                        char *at = words, *word;

                        assert_int_equal(ignore_parse(cases[i].text, strlen(cases[i].text), &g, NULL), 0);
                        while ((word = strsep(&at, " ")) && *word) {
                                if (strstr(word, "#\\")) { /* a name with blanks */
                                        assert_false(keeps(g, "# no comment"));
                                        break;
                                }
                                if (keeps(g, word) != want)
                                        fail_msg("'%s': '%s' is %s", cases[i].text, word,
                                                 want ? "ignored" : "kept");
                        }
                }
}

static void ignore_parse_refuses(void **state) {
        static const char *const texts[] = { "!",    "a\n! \nb", "[",   "[a",   "[]a]", "[b-a]",
                                             "[a-]", "[-a]",     "a\\", "[a\\", "[^]" };
        AUTO_FREE char *big = malloc(IGNORE_BYTES_MAX + 2);
        struct ignore *g = NULL;
        struct error err = { 0 };

        (void) state;
        assert_non_null(big);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                assert_int_equal(ignore_parse(texts[i], strlen(texts[i]), &g, &err), -EINVAL);
                assert_non_null(strstr(err.msg, i == 1 ? "line 2" : "line 1"));
                assert_null(g);
        }
        assert_int_equal(ignore_parse("a\0b", 3, &g, &err), -EINVAL);
        memset(big, 'a', IGNORE_BYTES_MAX + 1);
        assert_int_equal(ignore_parse(big, IGNORE_BYTES_MAX + 1, &g, &err), -E2BIG);
        assert_int_equal(ignore_parse(big, IGNORE_PATTERN_MAX + 1, &g, &err), -E2BIG);
        assert_int_equal(ignore_parse(big, IGNORE_PATTERN_MAX, &g, &err), 0);
        g = ignore_free(g);
        for (size_t i = 0; i < IGNORE_PATTERNS_MAX + 1; i++)
                memcpy(big + 2 * i, "a\n", 2);
        assert_int_equal(ignore_parse(big, 2 * (IGNORE_PATTERNS_MAX + 1), &g, &err), -E2BIG);
        assert_null(g);
        assert_int_equal(ignore_parse(big, 2 * IGNORE_PATTERNS_MAX, &g, &err), 0);
        assert_int_equal(ignore_count(g), IGNORE_PATTERNS_MAX);
        g = ignore_free(g);
}

/* What takes a matcher that goes back for ever takes this one no longer than anything else. */
static void ignore_match_does_not_go_back(void **state) {
        AUTO_IGNORE struct ignore *g = NULL;
        struct ignore_verdict v;
        char text[400], path[PATH_MAX];
        bool here[2];

        (void) state;
        for (size_t i = 0; i < 100; i++)
                memcpy(text + 3 * i, i % 2 ? "*a?" : "**/", 3);
        text[300] = '\0';
        memset(path, 'a', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        path[sizeof(path) - 2] = 'b';
        assert_int_equal(ignore_parse(text, strlen(text), &g, NULL), 0);
        assert_int_equal(ignore_match(g, path, NULL, here, &v), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = { cmocka_unit_test(ignore_match_follows_the_reference),
                                            cmocka_unit_test(ignore_parse_refuses),
                                            cmocka_unit_test(ignore_match_does_not_go_back) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
