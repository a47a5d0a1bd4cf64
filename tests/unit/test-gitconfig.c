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

#include "fs/gitconfig.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"

static int collect(const char *key, const char *value, void *arg) {
        struct buf *out = arg;

        return value ? buf_fmt(out, "%s=%s|", key, value) : buf_fmt(out, "%s|", key);
}

static void gitconfig_parse_reads(void **state) {
        static const struct {
                const char *text, *want;
        } cases[] = {
                { "", "" },
                { "\n\n# c\n ; d\n", "" },
                { "[a]\nb = c\n", "a.b=c|" },
                { "[a]\nb=c", "a.b=c|" },
                { "[A]\n\tB = C D  \n", "a.b=C D|" },
                { "[a]b=c\n", "a.b=c|" },
                { "[a]b=1\n[c]d=2\n", "a.b=1|c.d=2|" },
                { "[a] [c] d=2\n", "c.d=2|" },
                { "[a \"X y\"]\nb=c\n", "a.X y.b=c|" },
                { "[a\t \"x\\\"\\\\\\z\"]\nb=c\n", "a.x\"\\z.b=c|" },
                { "[a.X.y]\nb=c\n", "a.x.y.b=c|" },
                { "[a]\nb\n", "a.b|" },
                { "[a]\nb", "a.b|" },
                { "[a]\nb=\n", "a.b=|" },
                { "[a]\nb = c # d\n", "a.b=c|" },
                { "[a]\nb = c;d\n", "a.b=c|" },
                { "[a]\nb = \"c # d\" ; e\n", "a.b=c # d|" },
                { "[a]\nb = \" c \"  d \n", "a.b= c   d|" },
                { "[a]\nb = c\\\n  d\n", "a.b=c  d|" },
                { "[a]\nb = \\t\\n\\\\\\\"\n", "a.b=\t\n\\\"|" },
                { "[a]\nb = \"x\\\ny\"\n", "a.b=xy|" },
                { "[a]\nb = \"x\ty\"\n", "a.b=x\ty|" },
                { "[a]\nb = x\t\n", "a.b=x|" },
                { "[a]\r\nb = x\r\nc = \"y\\\r\nz\"\r\n", "a.b=x|a.c=yz|" },
                { "\xef\xbb\xbf[a]\nb=c\n", "a.b=c|" },
                { "[a]\nb-C9=\xc3\xa4\n", "a.b-c9=\xc3\xa4|" },
                { "[a]\nb = c # d \\\ne = f\n", "a.b=c|a.e=f|" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_BUF struct buf out = { 0 };
                struct error err = { 0 };

                if (gitconfig_parse(cases[i].text, strlen(cases[i].text), collect, &out, &err) < 0)
                        fail_msg("row %zu: %s", i, err.msg);
                assert_string_equal(buf_cstr(&out), cases[i].want);
        }
}

static void gitconfig_parse_rejects(void **state) {
        static const struct {
                const char *text;
                size_t len;
                const char *says;
        } cases[] = {
#define ROW(text, says) { text, sizeof(text) - 1, says }
                ROW("a=b\n", "line 1: a key before"),
                ROW("[a\nb=c\n", "section name"),
                ROW("[]\nb=c\n", "empty part"),
                ROW("[.a]\n", "empty part"),
                ROW("[a.]\n", "empty part"),
                ROW("[a..b]\n", "empty part"),
                ROW("[a b]\n", "no '\"'"),
                ROW("[a \"b]\n", "end of the line"),
                ROW("[a \"b\" ]\n", "no ']'"),
                ROW("[a \"\"]\nb=c\n", "empty subsection"),
                ROW("[a.b \"c\"]\n", "dotted"),
                ROW("[a_b]\n", "section name"),
                ROW("[a\xc3\xa4]\n", "section name"),
                ROW("[a \"b\\\nc\"]\n", "end of the line"),
                ROW("[a]\n1b=c\n", "begins neither"),
                ROW("[a]\nb c\n", "no '='"),
                ROW("[a]\nb # c\n", "no '='"),
                ROW("[a]\nb.c=d\n", "no '='"),
                ROW("[a]\nb = \"c\n", "line 2: a quote"),
                ROW("[a]\nb = \\x\n", "unknown escape"),
                ROW("[a]\nb = \\", "unknown escape"),
                ROW("[a]\nb = c\0d\n", "control byte"),
                ROW("[a]\nb\0= c\n", "no '='"),
                ROW("[a]\0\n", "begins neither"),
                ROW("[a]\nb = c\rd\n", "control byte"),
                ROW("[a]\nb = c\x01\n", "control byte"),
                ROW("[a]\nb = c\td\n", "tab inside"),
                ROW("[a]\nb = \x7f\n", "control byte"),
                ROW("[a \"\x01\"]\n", "control byte"),
                ROW("[a \"b\0c\"]\n", "control byte"),
                ROW("\xef\xbb[a]\n", "begins neither"),
                ROW("[a]\n\xef\xbb\xbf"
                    "b=c\n",
                    "begins neither"),
                ROW("[a]\n\vb=c\n", "begins neither"),
#undef ROW
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_BUF struct buf out = { 0 };
                struct error err = { 0 };

                if (gitconfig_parse(cases[i].text, cases[i].len, collect, &out, &err) != -EINVAL ||
                    !strstr(err.msg, cases[i].says))
                        fail_msg("row %zu: '%s' (got '%s')", i, err.msg, buf_cstr(&out));
        }
}

static int stop(const char *key, const char *value, void *arg) {
        (void) key;
        (void) value;
        (void) arg;
        return -ECANCELED;
}

static void gitconfig_parse_hands_on_what_stops_it(void **state) {
        (void) state;
        assert_int_equal(gitconfig_parse("[a]\nb=c\n[", 9, stop, NULL, NULL), -ECANCELED);
}

static int accept(const char *key, const char *value, void *arg) {
        (void) key;
        (void) value;
        (void) arg;
        return 0;
}

static void gitconfig_parse_is_bounded(void **state) {
        static char text[2 * GITCONFIG_VALUE_MAX];
        size_t n;

        (void) state;
        memset(text, 'x', sizeof(text));
        memcpy(text, "[a]\nb=", 6);
        assert_int_equal(gitconfig_parse(text, 6 + GITCONFIG_VALUE_MAX, accept, NULL, NULL), 0);
        assert_int_equal(gitconfig_parse(text, 6 + GITCONFIG_VALUE_MAX + 1, accept, NULL, NULL), -EINVAL);
        text[0] = '[';
        memset(text + 1, 'x', 1024);
        n = 1 + GITCONFIG_NAME_MAX - 1;
        text[n] = ']';
        assert_int_equal(gitconfig_parse(text, n + 1, accept, NULL, NULL), 0);
        text[n++] = 'x';
        text[n] = ']';
        assert_int_equal(gitconfig_parse(text, n + 1, accept, NULL, NULL), -EINVAL);
        /* many brackets: no recursion */
        memset(text, '[', sizeof(text));
        assert_int_equal(gitconfig_parse(text, sizeof(text), accept, NULL, NULL), -EINVAL);
}

/* As `git config --list -z` prints it. */
static int collect_z(const char *key, const char *value, void *arg) {
        struct buf *out = arg;
        int r;

        r = buf_str(out, key);
        if (r == 0 && value)
                r = buf_fmt(out, "\n%s", value);
        return r == 0 ? buf_add(out, "", 1) : r;
}

static int git_reads(const char *path, struct buf *out) {
        AUTO_FREE char *command = NULL;
        FILE *git;
        int r;

        assert_true(asprintf(&command,
                             "GIT_CONFIG_NOSYSTEM=1 git config -f %s --no-includes --list -z 2>/dev/null",
                             path) > 0);
        git = popen(command, "re");
        assert_non_null(git);
        r = file_read(fileno(git), 1 << 20, out);
        return pclose(git) == 0 ? r : -EINVAL;
}

/* What is accepted, git accepts and reads in the same way. Return: whether it was accepted. */
static bool compare_with_git(const char *text, size_t len, const char *path) {
        AUTO_BUF struct buf ours = { 0 }, gits = { 0 };
        AUTO_FILE FILE *file = NULL;

        if (gitconfig_parse(text, len, collect_z, &ours, NULL) < 0)
                return false;
        file = fopen(path, "we");
        assert_non_null(file);
        assert_int_equal(fwrite(text, 1, len, file), len);
        assert_int_equal(fflush(file), 0);
        if (git_reads(path, &gits) < 0)
                fail_msg("git refuses: %.*s", (int) len, text);
        if (ours.len != gits.len || (ours.len > 0 && memcmp(ours.data, gits.data, ours.len) != 0))
                fail_msg("git reads it differently: %.*s", (int) len, text);
        return true;
}

static void gitconfig_parse_agrees_with_git(void **state) {
        static const char *const tokens[] = { "[a]", "[A \"x y\"]", "[b.C]",       "k",        "K-1",
                                              "=",   " = ",         "\"",          "\\\"",     "\\\\",
                                              "\\n", "\\\n",        "\\t",         "\n",       "\n",
                                              "\n",  "\r\n",        " ",           "\t",       "#",
                                              ";",   "v",           "v w",         "\xc3\xa4", "]",
                                              "'",   "$",           "\n[a]\nk = ", "\nq = v",  "!" };
        enum { TRIES = 30000, COMPARED_MAX = 120, TOKENS = 12 };
        char path[] = "/tmp/cofferdam-gitconfig-XXXXXX";
        AUTO_FD int fd = -1;
        uint32_t rng = 4;
        int compared = 0;

        (void) state;
        if (system("command -v git >/dev/null 2>&1") != 0)
                skip();
        fd = mkstemp(path);
        assert_true(fd >= 0);
        for (int i = 0; i < TRIES && compared < COMPARED_MAX; i++) {
                AUTO_BUF struct buf text = { 0 };

                assert_int_equal(buf_str(&text, "[a]\nk = "), 0);
                for (int t = 0; t < TOKENS; t++) {
                        rng = rng * 1664525U + 1013904223U;
                        assert_int_equal(buf_str(&text, tokens[(rng >> 16) % ARRAY_SIZE(tokens)]), 0);
                }
                compared += compare_with_git(text.data, text.len, path);
        }
        assert_int_equal(unlink(path), 0);
        assert_int_equal(compared, COMPARED_MAX);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(gitconfig_parse_reads),
                cmocka_unit_test(gitconfig_parse_rejects),
                cmocka_unit_test(gitconfig_parse_hands_on_what_stops_it),
                cmocka_unit_test(gitconfig_parse_is_bounded),
                cmocka_unit_test(gitconfig_parse_agrees_with_git),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
