#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netns/host.h"
#include "runtime/base/cleanup.h"

static unsigned int hex(char c) {
        const char *digits = "0123456789abcdef", *at = strchr(digits, c);

        assert_non_null(at);
        return (unsigned int) (at - digits);
}

/* Takes \xNN for bytes, in place. Return: bytes. */
static size_t unescape(char *s) {
        size_t n = 0;

        for (size_t i = 0; s[i]; i++) {
                if (s[i] == '\\') {
                        assert_int_equal(s[i + 1], 'x');
                        s[n++] = (char) (hex(s[i + 2]) << 4 | hex(s[i + 3]));
                        i += 3;
                } else {
                        s[n++] = s[i];
                }
        }
        return n;
}

/* Goes red when a check is taken out of host.c: each refused row has one thing wrong. */
static void host_parse_gives_the_verdicts_of_the_table(void **state) {
        const char *root = getenv("SOURCE_ROOT");
        AUTO_FILE FILE *f = NULL;
        AUTO_FREE char *line = NULL;
        char path[4096];
        size_t room = 0, rows = 0, wrong = 0;

        (void) state;
        assert_non_null(root);
        (void) snprintf(path, sizeof(path), "%s/tests/assets/net/hosts.tsv", root);
        f = fopen(path, "re");
        assert_non_null(f);
        while (getline(&line, &room, f) > 0) {
                AUTO_FREE char *spelling = NULL;
                struct host host = { .name = "-" };
                struct error err = { 0 };
                char *want;
                size_t len;
                int r;

                if (strncmp(line, "# ", 2) == 0)
                        continue;
                want = strchr(line, '\t');
                assert_non_null(want);
                *want++ = '\0';
                want[strcspn(want, "\t\n")] = '\0'; /* what is behind a second tab is about protocols */
                spelling = strdup(line);
                assert_non_null(spelling);
                len = unescape(spelling);
                r = host_parse(spelling, len, &host, &err);
                if (strcmp(want, host.name) != 0 || (r < 0) != (strcmp(want, "-") == 0) ||
                    (r < 0 && !*err.msg)) {
                        print_error("'%s': want %s, got %s (%s)\n", line, want, host.name, err.msg);
                        wrong++;
                }
                rows++;
        }
        assert_true(rows >= 300);
        assert_int_equal(wrong, 0);
}

static void host_parse_authority_splits_ports(void **state) {
        static const struct {
                const char *s, *name;
                uint16_t fallback, port;
        } cases[] = {
                { "a.example", "a.example", 443, 443 },
                { "a.example:1", "a.example", 443, 1 },
                { "a.example:65535", "a.example", 0, 65535 },
                { "A.example.:00443", "a.example", 0, 443 },
                { "[::1]", "::1", 80, 80 },
                { "[::1]:8080", "::1", 80, 8080 },
                { "127.1:22", "127.0.0.1", 0, 22 },
                { "a.example", NULL, 0, 0 },
                { "a.example:", NULL, 443, 0 },
                { "a.example:0", NULL, 443, 0 },
                { "a.example:65536", NULL, 443, 0 },
                { "a.example:000443", NULL, 443, 0 },
                { "a.example:+1", NULL, 443, 0 },
                { "a.example: 1", NULL, 443, 0 },
                { "a.example:1 ", NULL, 443, 0 },
                { "a.example:0x1", NULL, 443, 0 },
                { "a.example:https", NULL, 443, 0 },
                { "a.example:1:2", NULL, 443, 0 },
                { "::1", NULL, 443, 0 },
                { "::1:80", NULL, 443, 0 },
                { "[::1]:", NULL, 443, 0 },
                { "[::1]80", NULL, 443, 0 },
                { "[::1]:80:90", NULL, 443, 0 },
                { "u@a.example:1", NULL, 443, 0 },
                { ":443", NULL, 443, 0 },
                { "", NULL, 443, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct host host = { .name = "-" };
                struct error err = { 0 };
                uint16_t port = 0;
                const int r = host_parse_authority(cases[i].s, strlen(cases[i].s), cases[i].fallback, &host,
                                                   &port, &err);

                if (r != (cases[i].name ? 0 : -EINVAL) || port != cases[i].port ||
                    strcmp(host.name, cases[i].name ? cases[i].name : "-") != 0)
                        fail_msg("'%s': %d, %s, %u", cases[i].s, r, host.name, port);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(host_parse_gives_the_verdicts_of_the_table),
                cmocka_unit_test(host_parse_authority_splits_ports),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
