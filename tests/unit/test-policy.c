#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netns/policy.h"
#include "netns/preset.h"
#include "runtime/base/cleanup.h"

enum { RULES = 8 };

static struct policy *compile(enum network_mode mode, const char *preset, const char *const *rules) {
        struct policy *policy = NULL;
        struct error err = { 0 };
        size_t n = 0;

        while (n < RULES && rules && rules[n])
                n++;
        if (policy_new(mode, preset, rules, n, &policy, &err) < 0)
                fail_msg("policy_new: %s", err.msg);
        return policy;
}

static struct policy_verdict ask(const struct policy *policy, const char *s) {
        struct host host;
        uint16_t port;

        if (host_parse_authority(s, strlen(s), 443, &host, &port, NULL) < 0)
                fail_msg("'%s'", s);
        return policy_host(policy, &host, port);
}

static void policy_host_takes_the_last_rule_that_matches(void **state) {
        enum { A = NETWORK_ALLOWLIST, D = NETWORK_DENYLIST, N = NETWORK_NONE };
        enum {
                OK = POLICY_OK,
                NO = POLICY_NO_MATCH,
                PORT = POLICY_PORT,
                RULE = POLICY_RULE,
                ADDR = POLICY_ADDRESS
        };
        static const struct {
                int mode;
                const char *rules[RULES];
                const char *host;
                int want;
                int rule;
        } cases[] = {
                /* an empty allowlist allows nothing, an empty denylist denies nothing but special addresses
                 */
                { A, { 0 }, "a.example", NO, -1 },
                { A, { 0 }, "localhost", NO, -1 },
                { A, { 0 }, "8.8.8.8", NO, -1 },
                { D, { 0 }, "a.example", OK, -1 },
                { D, { 0 }, "a.example:22", OK, -1 },
                { D, { 0 }, "8.8.8.8:53", OK, -1 },
                { D, { 0 }, "127.0.0.1", ADDR, -1 },
                { N, { "**" }, "a.example", NO, -1 },
                /* exact */
                { A, { "a.example" }, "a.example", OK, 0 },
                { A, { "A.Example." }, "a.EXAMPLE.", OK, 0 },
                { A, { "a.example" }, "b.a.example", NO, -1 },
                { A, { "a.example" }, "xa.example", NO, -1 },
                { A, { "a.example" }, "example", NO, -1 },
                { A, { "a.example" }, "a.example.b", NO, -1 },
                { A,
                  { "b\xc3\xbc"
                    "cher.example" },
                  "xn--bcher-kva.example",
                  OK,
                  0 },
                { A, { " a.example\t" }, "a.example", OK, 0 },
                /* one label */
                { A, { "*.a.example" }, "b.a.example", OK, 0 },
                { A, { "*.a.example" }, "a.example", NO, -1 },
                { A, { "*.a.example" }, "c.b.a.example", NO, -1 },
                { A, { "*.a.example" }, "ba.example", NO, -1 },
                { A, { "*" }, "localhost", OK, 0 },
                { A, { "*" }, "a.example", NO, -1 },
                { A, { "*" }, "8.8.8.8", NO, -1 },
                { A, { "*.example" }, "a.example", OK, 0 },
                /* any number of labels, and the host itself */
                { A, { "**.a.example" }, "a.example", OK, 0 },
                { A, { "**.a.example" }, "b.a.example", OK, 0 },
                { A, { "**.a.example" }, "d.c.b.a.example", OK, 0 },
                { A, { "**.a.example" }, "ba.example", NO, -1 },
                { A, { "**.a.example" }, "a.example.b", NO, -1 },
                { A, { "**" }, "a.example", OK, 0 },
                { A, { "**" }, "localhost", OK, 0 },
                { A, { "**" }, "8.8.8.8", OK, 0 },
                { A, { "**" }, "[2606:4700:4700::1111]", OK, 0 },
                { A, { "**" }, "10.0.0.1", ADDR, 0 },
                { A, { "**" }, "169.254.169.254:80", ADDR, 0 },
                { A, { "**" }, "[::1]", ADDR, 0 },
                { A, { "**" }, "0x7f.1", ADDR, 0 },
                /* order */
                { A, { "**.a.example", "!b.a.example" }, "b.a.example", RULE, 1 },
                { A, { "**.a.example", "!b.a.example" }, "c.a.example", OK, 0 },
                { A, { "!b.a.example", "**.a.example" }, "b.a.example", OK, 1 },
                { A, { "**", "!**.evil.example", "good.evil.example" }, "good.evil.example", OK, 2 },
                { A, { "**", "!**.evil.example", "good.evil.example" }, "evil.example", RULE, 1 },
                { A, { "a.example", "a.example" }, "a.example", OK, 1 },
                { D, { "!**.evil.example" }, "x.evil.example:8080", RULE, 0 },
                { D, { "!**.evil.example" }, "a.example:8080", OK, -1 },
                { D, { "!**.evil.example", "ok.evil.example" }, "ok.evil.example", OK, 1 },
                { D, { "evil.example" }, "evil.example", OK, 0 },
                { D, { "!*.example", "!example" }, "a.example", RULE, 0 },
                { D, { "!**" }, "a.example", RULE, 0 },
                /* ports */
                { A, { "a.example" }, "a.example:80", OK, 0 },
                { A, { "a.example" }, "a.example:8080", PORT, 0 },
                { A, { "a.example:8080" }, "a.example:8080", OK, 0 },
                { A, { "a.example:8080" }, "a.example:443", PORT, 0 },
                { A, { "a.example:*" }, "a.example:22", OK, 0 },
                { A, { "a.example", "a.example:22/tcp" }, "a.example:22", OK, 1 },
                { A, { "a.example", "a.example:22/tcp" }, "a.example:443", OK, 0 },
                { A, { "**:*", "!a.example:22" }, "a.example:22", RULE, 1 },
                { A, { "**:*", "!a.example:22" }, "a.example:23", OK, 0 },
                { A, { "**:*", "!a.example" }, "a.example:23", RULE, 1 },
                /* addresses */
                { A, { "8.8.8.8" }, "8.8.8.8", OK, 0 },
                { A, { "8.8.8.8" }, "134744072", OK, 0 },
                { A, { "8.8.8.8" }, "[::ffff:8.8.8.8]", OK, 0 },
                { A, { "0x08080808" }, "8.8.8.8", OK, 0 },
                { A, { "8.8.8.8" }, "8.8.8.9", NO, -1 },
                { A, { "8.8.8.8" }, "[64:ff9b::8.8.8.8]", NO, -1 },
                { A, { "10.0.0.0/8" }, "10.1.2.3", OK, 0 },
                { A, { "10.0.0.0/8" }, "10.1.2.3:22", PORT, 0 },
                { A, { "10.0.0.0/8:22/tcp" }, "10.1.2.3:22", OK, 0 },
                { A, { "10.0.0.0/8", "!10.1.0.0/16" }, "10.1.2.3", RULE, 1 },
                { A, { "10.0.0.0/8", "!10.1.0.0/16" }, "10.2.2.3", OK, 0 },
                { A, { "10.0.0.0/8", "**" }, "10.2.2.3", OK, 1 },
                { A, { "!10.0.0.0/8", "**" }, "10.2.2.3", ADDR, 1 },
                { A, { "10.0.0.1:8080" }, "10.1:8080", OK, 0 },
                { A, { "10.0.0.1:8080" }, "10.0.0.1:8081", PORT, 0 },
                { A, { "[fd00::1]:8080" }, "[fd00::1]:8080", OK, 0 },
                { A, { "fd00::1" }, "[fd00::1]", OK, 0 },
                { A, { "[fd00::]/8:8443" }, "[fd12::1]:8443", OK, 0 },
                { A, { "fd00::/8" }, "[fd12::1]", OK, 0 },
                /* what a range names, and what it only holds; goes red when match_addr() forgets @least */
                { A, { "0.0.0.0/0" }, "8.8.8.8", OK, 0 },
                { A, { "0.0.0.0/0" }, "10.0.0.1", ADDR, 0 },
                { A, { "0.0.0.0/0" }, "169.254.169.254", ADDR, 0 },
                { A, { "8.0.0.0/5" }, "10.0.0.1", ADDR, 0 },
                { A, { "10.0.0.0/7" }, "10.0.0.1", ADDR, 0 },
                { A, { "10.0.0.0/8", "0.0.0.0/0" }, "10.0.0.1", OK, 1 },
                { A, { "!10.0.0.0/8", "0.0.0.0/0" }, "10.0.0.1", ADDR, 1 },
                { A, { "10.0.0.0/8", "!0.0.0.0/0" }, "10.0.0.1", RULE, 1 },
                { A, { "169.254.169.254" }, "169.254.169.254", OK, 0 },
                { A, { "169.254.0.0/16" }, "169.254.169.254", OK, 0 },
                { A, { "[fc00::]/6:*" }, "[fd12::1]:22", ADDR, 0 },
                { A, { "[fc00::]/7:*" }, "[fd12::1]:22", OK, 0 },
                { A, { "64:ff9b::/96" }, "[64:ff9b::10.0.0.1]", ADDR, 0 },
                { A, { "64:ff9b::a00:0/104" }, "[64:ff9b::10.0.0.1]", OK, 0 },
                /* the host's own addresses: whatever holds them; the same */
                { A, { "0.0.0.0/0:*" }, "127.0.0.1:8080", ADDR, 0 },
                { A, { "0.0.0.0/0:*" }, "0.0.0.0:8080", ADDR, 0 },
                { A, { "[::]/0:*" }, "[::1]:8080", ADDR, 0 },
                { A, { "[::]/0:*" }, "[::]:8080", ADDR, 0 },
                { A, { "[::]/0:*" }, "[::ffff:127.0.0.1]:8080", ADDR, 0 },
                { A, { "[::]/0:*" }, "[::127.0.0.1]:8080", ADDR, 0 },
                { A, { "[::]/0:*" }, "[64:ff9b::127.0.0.1]:8080", ADDR, 0 },
                { A, { "126.0.0.0/7:*" }, "127.0.0.1:8080", ADDR, 0 },
                { A, { "0.0.0.0/0" }, "[2606::1]", NO, -1 },
                { A, { "::/0" }, "10.0.0.1", ADDR, 0 },
                { A, { "::/0" }, "8.8.8.8", OK, 0 },
                { D, { "!8.8.8.0/24" }, "8.8.8.8", RULE, 0 },
                { D, { "10.0.0.1:5432" }, "10.0.0.1:5432", OK, 0 },
                { D, { "0.0.0.0/0:5432" }, "127.0.0.1:5432", ADDR, 0 },
                /* the loopback of the host: by its name and port, by nothing else; goes red without
                   decide_alias() */
                { A, { HOST_ALIAS ":8080" }, HOST_ALIAS ":8080", OK, 0 },
                { A, { HOST_ALIAS ":8080" }, "Host.Docker.Internal.:8080", OK, 0 },
                { A, { HOST_ALIAS ":8080" }, HOST_ALIAS ":8081", ADDR, -1 },
                { A, { HOST_ALIAS ":8080" }, HOST_ALIAS, ADDR, -1 },
                { A, { HOST_ALIAS ":8080" }, "x." HOST_ALIAS ":8080", NO, -1 },
                { A, { HOST_ALIAS ":8080" }, "127.0.0.1:8080", NO, -1 },
                { A, { HOST_ALIAS ":8080" }, "localhost:8080", NO, -1 },
                { A, { "**" }, HOST_ALIAS, ADDR, -1 },
                { A, { "**:*" }, HOST_ALIAS ":8080", ADDR, -1 },
                { A, { "**:8080" }, HOST_ALIAS ":8080", ADDR, -1 },
                { A, { "*.docker.internal:8080" }, HOST_ALIAS ":8080", ADDR, -1 },
                { A, { "**." HOST_ALIAS ":8080" }, HOST_ALIAS ":8080", ADDR, -1 },
                { A, { "126.0.0.0/7:*" }, HOST_ALIAS ":8080", ADDR, -1 },
                { A, { HOST_ALIAS ":8080", "**" }, HOST_ALIAS ":8080", OK, 0 },
                { A, { HOST_ALIAS ":8080", "!**" }, HOST_ALIAS ":8080", RULE, 1 },
                { A, { "!**", HOST_ALIAS ":8080" }, HOST_ALIAS ":8080", OK, 1 },
                { A, { HOST_ALIAS ":8080", "!" HOST_ALIAS }, HOST_ALIAS ":8080", RULE, 1 },
                { D, { 0 }, HOST_ALIAS ":8080", ADDR, -1 },
                { D, { "!a.example" }, HOST_ALIAS ":80", ADDR, -1 },
                { D, { HOST_ALIAS ":8080" }, HOST_ALIAS ":8080", OK, 0 },
                { N, { HOST_ALIAS ":8080" }, HOST_ALIAS ":8080", NO, -1 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_POLICY struct policy *policy =
                        compile((enum network_mode) cases[i].mode, NULL, cases[i].rules);
                const struct policy_verdict v = ask(policy, cases[i].host);

                if ((int) v.reason != cases[i].want || v.rule != cases[i].rule)
                        fail_msg("%s.. of '%s': %s, rule %d",
                                 cases[i].rules[0] ? cases[i].rules[0] : "(none)", cases[i].host,
                                 policy_reason_text(&v), v.rule);
        }
}

/* Goes red when policy_dial() is taken out: each name is allowed, the address is what counts. */
static void policy_dial_refuses_addresses_that_no_rule_names(void **state) {
        static const struct {
                enum network_mode mode;
                const char *rules[RULES];
                const char *host, *addr;
                enum policy_reason want;
        } cases[] = {
                { NETWORK_ALLOWLIST, { "a.example" }, "a.example", "93.184.216.34", POLICY_OK },
                { NETWORK_ALLOWLIST, { "a.example" }, "a.example", "127.0.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example" }, "a.example", "169.254.169.254", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example" }, "a.example", "::ffff:10.0.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example" }, "a.example", "64:ff9b::10.0.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example" }, "a.example", "64:ff9b::8.8.8.8", POLICY_OK },
                { NETWORK_ALLOWLIST, { "a.example" }, "a.example", "fe80::1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "**" }, "a.example", "192.168.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example", "10.0.0.0/8" }, "a.example", "10.0.0.1", POLICY_OK },
                { NETWORK_ALLOWLIST, { "10.0.0.0/8", "a.example" }, "a.example", "10.0.0.1", POLICY_OK },
                { NETWORK_ALLOWLIST,
                  { "10.0.0.0/8", "a.example" },
                  "a.example",
                  "192.168.0.1",
                  POLICY_ADDRESS },
                { NETWORK_ALLOWLIST,
                  { "10.0.0.0/8", "a.example:22/tcp" },
                  "a.example:22",
                  "10.0.0.1",
                  POLICY_OK },
                { NETWORK_ALLOWLIST,
                  { "10.0.0.0/8:80", "a.example" },
                  "a.example:443",
                  "10.0.0.1",
                  POLICY_ADDRESS },
                { NETWORK_ALLOWLIST,
                  { "10.0.0.0/8", "!10.1.0.0/16", "a.example" },
                  "a.example",
                  "10.1.0.1",
                  POLICY_RULE },
                { NETWORK_ALLOWLIST,
                  { "a.example", "!93.184.0.0/16" },
                  "a.example",
                  "93.184.216.34",
                  POLICY_RULE },
                { NETWORK_ALLOWLIST,
                  { "!93.184.0.0/16", "a.example" },
                  "a.example",
                  "93.184.216.34",
                  POLICY_OK },
                { NETWORK_DENYLIST, { 0 }, "a.example", "93.184.216.34", POLICY_OK },
                { NETWORK_DENYLIST, { 0 }, "a.example", "127.0.0.1", POLICY_ADDRESS },
                { NETWORK_DENYLIST, { "10.0.0.1" }, "a.example:5432", "10.0.0.1", POLICY_OK },
                { NETWORK_DENYLIST, { "0.0.0.0/0" }, "a.example:5432", "127.0.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example", "0.0.0.0/0" }, "a.example", "127.0.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example", "::/0" }, "a.example", "::1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example", "0.0.0.0/0" }, "a.example", "10.0.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { "a.example", "0.0.0.0/0" }, "a.example", "8.8.8.8", POLICY_OK },
                { NETWORK_DENYLIST, { "!93.184.216.34" }, "a.example", "93.184.216.34", POLICY_RULE },
                { NETWORK_ALLOWLIST, { HOST_ALIAS ":80" }, HOST_ALIAS ":80", "127.0.0.1", POLICY_OK },
                { NETWORK_ALLOWLIST, { HOST_ALIAS ":80" }, HOST_ALIAS ":80", "::1", POLICY_OK },
                { NETWORK_ALLOWLIST, { HOST_ALIAS ":80" }, HOST_ALIAS ":80", "127.0.0.2", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST, { HOST_ALIAS ":80" }, HOST_ALIAS ":80", "10.0.0.1", POLICY_ADDRESS },
                { NETWORK_ALLOWLIST,
                  { HOST_ALIAS ":80", "!127.0.0.0/8" },
                  HOST_ALIAS ":80",
                  "127.0.0.1",
                  POLICY_RULE },
                { NETWORK_ALLOWLIST,
                  { HOST_ALIAS ":80", "a.example:80" },
                  "a.example:80",
                  "127.0.0.1",
                  POLICY_ADDRESS },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_POLICY struct policy *policy = compile(cases[i].mode, NULL, cases[i].rules);
                const struct policy_verdict name = ask(policy, cases[i].host);
                struct policy_verdict v;
                struct host host;
                struct addr addr;
                uint16_t port;

                assert_int_equal(name.reason, POLICY_OK);
                assert_int_equal(
                        host_parse_authority(cases[i].host, strlen(cases[i].host), 443, &host, &port, NULL),
                        0);
                assert_int_equal(addr_parse(cases[i].addr, strlen(cases[i].addr), &addr), 0);
                v = policy_dial(policy, &name, &addr, port);
                if (v.reason != cases[i].want)
                        fail_msg("row %zu: %s at %s: %s", i, cases[i].host, cases[i].addr,
                                 policy_reason_text(&v));
                if (v.reason == POLICY_ADDRESS)
                        assert_non_null(v.special);
        }
}

static void policy_new_says_where_a_rule_is_wrong(void **state) {
        static const struct {
                const char *rule;
                size_t at; /* byte, from 1 */
                const char *part;
        } cases[] = {
                { "", 1, "empty rule" },
                { "  ", 3, "empty rule" },
                { "!", 2, "'!' alone" },
                { " !", 3, "'!' alone" },
                { "!!a.example", 2, "two '!'" },
                { "a*b.com", 2, "'*.host'" },
                { "x.*", 3, "'*.host'" },
                { "a.*.b", 3, "'*.host'" },
                { "*.*.b", 3, "one wildcard" },
                { "**.*.b", 4, "one wildcard" },
                { "***", 1, "'*' (one label)" },
                { "*b.example", 2, "'*.host'" },
                { "**b.example", 3, "'**.host'" },
                { "*.", 2, "'*.host'" },
                { "!*.", 3, "'*.host'" },
                { "*..a", 3, "empty label" },
                { "*.1.2.3.4", 3, "10.0.0.0/8" },
                { "**.10.0.0.0/8", 12, "URL or a path" },
                { "10.0.0.0/33", 1, "at most 32 bits" },
                { "::/129", 1, "at most 32 bits" },
                { "10.0.0.1/8", 1, "'10.0.0.0/8'" },
                { "fd00::1/8", 1, "'fd00::/8'" },
                { "fd00::/8:*", 9, "'[fd00::]/8:*'" },
                { "!fd00::/8:443", 10, "'[fd00::]/8:443'" },
                { "2001:db8::/32:22/tcp", 14, "'[2001:db8::]/32:22/tcp'" },
                { "10.0.0.0/", 1, "not an address range" },
                { "10.0.0.0/8/8", 1, "not an address range" },
                { "10.0.0/24", 1, "not an address range" },
                { "!10.0.0.1/8", 2, "'10.0.0.0/8'" },
                { "a.example:", 11, "1 to 65535" },
                { "a.example:0", 11, "1 to 65535" },
                { "a.example:65536", 11, "1 to 65535" },
                { "a.example:http", 11, "1 to 65535" },
                { "a.example:99999999999", 11, "1 to 65535" },
                { "a.example:-1", 11, "1 to 65535" },
                { "[::1]:x", 7, "1 to 65535" },
                { "a.example/tcp", 10, "host:22/tcp" },
                { "a.example:22/udp", 11, "1 to 65535" },
                { "https://a.example", 6, "write 'a.example'" },
                { "https://a.example:8443/x?y#z", 6, "write 'a.example:8443'" },
                { "!http://a.example/", 6, "write 'a.example'" },
                { "a.example/path", 10, "write 'a.example'" },
                { "https://u:p@a.example/", 9, "no user" },
                { "u@a.example", 2, "byte that no host has" },
                { "a b.example", 2, "byte that no host has" },
                { "a..example", 3, "empty label" },
                { ".a.example", 1, "empty label" },
                { "-a.example", 1, "'-'" },
                { "1.2.3", 0, NULL }, /* an address in a short spelling */
                { "1.2.3.4.5", 1, "ends in a number" },
                { "xn--a.example", 1, "IDNA" },
                { "\xff.example", 1, "IDNA" },
                { "[::1", 1, "IPv6" },
                { "[fe80::1%eth0]", 1, "zone" },
                { "*:70000", 3, "1 to 65535" },
                { HOST_ALIAS, 1, "port by port" },
                /* goes red without refuse_own() */
                { "127.0.0.1:5432", 1, "'" HOST_ALIAS ":5432'" },
                { "127.1", 1, "'" HOST_ALIAS ":8080'" },
                { "127.0.0.0/8:*", 1, "'" HOST_ALIAS ":8080'" },
                { "0.0.0.0:80", 1, "'" HOST_ALIAS ":80'" },
                { "[::1]:80/tcp", 1, "'" HOST_ALIAS ":80'" },
                { "[::ffff:127.0.0.1]:80", 1, "'" HOST_ALIAS ":80'" },
                { "[::]:80", 1, "'" HOST_ALIAS ":80'" },
                { "64:ff9b::7f00:0/104", 1, "'" HOST_ALIAS ":8080'" },
                { HOST_ALIAS ".:*/tcp", 1, "port by port" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *rules[] = { "ok.example", cases[i].rule };
                struct policy *policy = NULL;
                struct error err = { 0 };
                char where[64];
                const int r = policy_new(NETWORK_ALLOWLIST, NULL, rules, 2, &policy, &err);

                if (!cases[i].part) {
                        assert_int_equal(r, 0);
                        policy_free(policy);
                        continue;
                }
                (void) snprintf(where, sizeof(where), ", byte %zu: ", cases[i].at);
                if (r != -EINVAL || policy || !strstr(err.msg, "network.rules[1]: '") ||
                    !strstr(err.msg, where) || !strstr(err.msg, cases[i].part))
                        fail_msg("'%s': %d: %s", cases[i].rule, r, err.msg);
        }
}

static void policy_new_reads_presets_before_rules(void **state) {
        static const char *const own[] = { "!registry.npmjs.org", NULL };
        AUTO_POLICY struct policy *policy = compile(NETWORK_ALLOWLIST, "default", own);
        AUTO_POLICY struct policy *two = compile(NETWORK_ALLOWLIST, "none,code-hosts", NULL);
        static const char *const bad[] = { "", "!default", "defaults", "default,", ",default", "DEFAULT" };
        struct policy_verdict v;

        (void) state;
        assert_int_equal(ask(policy, "www.npmjs.org").reason, POLICY_OK);
        v = ask(policy, "registry.npmjs.org");
        assert_int_equal(v.reason, POLICY_RULE);
        assert_string_equal(policy_rule_text(policy, v.rule), "!registry.npmjs.org");
        assert_null(policy_rule_preset(policy, v.rule));
        v = ask(policy, "bedrock.amazonaws.com");
        assert_string_equal(policy_rule_text(policy, v.rule), "**.bedrock.amazonaws.com");
        assert_string_equal(policy_rule_preset(policy, v.rule), "default");
        assert_string_equal(policy_rule_text(policy, POLICY_NO_RULE), "(no rule)");
        v = ask(two, "github.com:22");
        assert_true(v.reason == POLICY_OK && v.raw);
        v = ask(two, "github.com:443");
        assert_true(v.reason == POLICY_OK && !v.raw);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct policy *none = NULL;
                struct error err = { 0 };

                assert_int_equal(policy_new(NETWORK_ALLOWLIST, bad[i], NULL, 0, &none, &err), -EINVAL);
                assert_non_null(strstr(err.msg, "network.preset: no preset"));
        }
}

static void presets_compile(void **state) {
        AUTO_FREE char *names = strdup(preset_names());

        (void) state;
        assert_non_null(names);
        for (char *name = names; *name;) {
                char *end = name + strcspn(name, ",");
                const bool more = *end;

                *end = '\0';
                policy_free(compile(NETWORK_ALLOWLIST, name, NULL));
                name = more ? end + 2 : end;
        }
        assert_true(preset_is_telemetry("api.datadoghq.com"));
        assert_true(preset_is_telemetry("o1.ingest.sentry.io"));
        assert_false(preset_is_telemetry("xapi.datadoghq.com"));
        assert_false(preset_is_telemetry("sentry.io"));
}

static void policy_next_idle_finds_forgotten_negations(void **state) {
        static const char *const rules[] = { "a.example", "10.0.0.0/8", "!b.example", "x.b.example", NULL };
        AUTO_POLICY struct policy *deny = compile(NETWORK_DENYLIST, NULL, rules);
        AUTO_POLICY struct policy *allow = compile(NETWORK_ALLOWLIST, NULL, rules);

        (void) state;
        assert_int_equal(policy_next_idle(deny, 0), 0);
        assert_int_equal(policy_next_idle(deny, 1), -1);
        assert_int_equal(policy_next_idle(allow, 0), -1);
}

static void policy_new_has_a_ceiling(void **state) {
        enum { N = POLICY_RULES_MAX + 1 };
        const char **rules = calloc(N, sizeof(*rules));
        char(*texts)[24] = calloc(N, sizeof(*texts));
        struct policy *policy = NULL;
        struct error err = { 0 };

        (void) state;
        assert_true(rules && texts);
        for (size_t i = 0; i < N; i++) {
                (void) snprintf(texts[i], sizeof(texts[i]), "n%zu.example", i);
                rules[i] = texts[i];
        }
        assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, rules, N, &policy, &err), -E2BIG);
        assert_null(policy);
        assert_int_equal(policy_new(NETWORK_ALLOWLIST, NULL, rules, N - 1, &policy, &err), 0);
        assert_int_equal(ask(policy, "n32767.example").rule, 32767);
        assert_int_equal(ask(policy, "n0.example").rule, 0);
        assert_int_equal(ask(policy, "n32768.example").rule, -1);
        policy_free(policy);
        free(texts);
        free(rules);
}

static void policy_ports_are_those_that_rules_allow(void **state) {
        static const char *const rules[] = { "a.example:22/tcp", "!b.example:25", "c.example:8443",
                                             "d.example:*",      "10.0.0.0/8:53", NULL };
        AUTO_POLICY struct policy *policy = compile(NETWORK_ALLOWLIST, NULL, rules);
        uint16_t ports[8];

        (void) state;
        assert_int_equal(policy_ports(policy, 1024, ports, ARRAY_SIZE(ports)), 4);
        assert_int_equal(ports[0], 22);
        assert_int_equal(ports[1], 53);
        assert_int_equal(ports[2], 80);
        assert_int_equal(ports[3], 443);
        assert_int_equal(policy_ports(policy, 1024, ports, 2), 2);
        assert_int_equal(policy_ports(policy, 65535, ports, ARRAY_SIZE(ports)), 5);
}

static void policy_somewhere_asks_for_every_port(void **state) {
        static const char *const rules[] = { "**.a.example", "raw.example:4444/tcp", "any.example:*",
                                             "!b.a.example", "c.a.example:65535",    "!c.a.example:443",
                                             "d.example:53", "!d.example:53",        NULL };
        static const struct {
                const char *host;
                bool want;
                enum policy_reason reason;
        } cases[] = {
                { "a.example", true, POLICY_OK },    { "raw.example", true, POLICY_OK },
                { "any.example", true, POLICY_OK },  { "b.a.example", false, POLICY_RULE },
                { "c.a.example", true, POLICY_OK },  { "other.example", false, POLICY_NO_MATCH },
                { "d.example", false, POLICY_RULE },
        };
        AUTO_POLICY struct policy *list = compile(NETWORK_ALLOWLIST, NULL, rules);
        AUTO_POLICY struct policy *deny = compile(NETWORK_DENYLIST, NULL, rules);

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct policy_verdict v;
                struct host host;

                assert_int_equal(host_parse(cases[i].host, strlen(cases[i].host), &host, NULL), 0);
                if (policy_somewhere(list, &host, &v) != cases[i].want ||
                    (v.reason != cases[i].reason &&
                     !(cases[i].reason == POLICY_RULE && v.reason != POLICY_OK)))
                        fail_msg("%s: %s", cases[i].host, policy_reason_text(&v));
                assert_int_equal(policy_somewhere(deny, &host, &v), i != 3);
        }
}

static void policy_hears_where_a_name_may_be_allowed(void **state) {
        static const char *const rules[] = { "raw.example:4444/tcp", "10.0.0.0/8:5555", "!a.example:6666",
                                             "b.example:7777", NULL };
        static const char *const usual[] = { "a.example", NULL }, *const any[] = { "a.example:*", NULL },
                                 *const none[] = { "[2001:db8::1]", NULL };
        AUTO_POLICY struct policy *some = compile(NETWORK_ALLOWLIST, NULL, rules);
        AUTO_POLICY struct policy *two = compile(NETWORK_ALLOWLIST, NULL, usual);
        AUTO_POLICY struct policy *all = compile(NETWORK_ALLOWLIST, NULL, any);
        AUTO_POLICY struct policy *addr = compile(NETWORK_ALLOWLIST, NULL, none);
        AUTO_POLICY struct policy *deny = compile(NETWORK_DENYLIST, NULL, any);

        (void) state;
        assert_true(policy_hears(some, 7777));
        assert_false(policy_hears(some, 4444)); /* it says no name */
        assert_false(policy_hears(some, 5555));
        assert_false(policy_hears(some, 6666));
        assert_false(policy_hears(some, 443));
        assert_true(policy_hears(two, 443) && policy_hears(two, 80) && !policy_hears(two, 81));
        assert_true(policy_hears(all, 1) && policy_hears(all, 65535));
        assert_false(policy_hears(addr, 443));
        assert_false(policy_hears(deny, 443));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(policy_host_takes_the_last_rule_that_matches),
                cmocka_unit_test(policy_dial_refuses_addresses_that_no_rule_names),
                cmocka_unit_test(policy_new_says_where_a_rule_is_wrong),
                cmocka_unit_test(policy_new_reads_presets_before_rules),
                cmocka_unit_test(presets_compile),
                cmocka_unit_test(policy_next_idle_finds_forgotten_negations),
                cmocka_unit_test(policy_new_has_a_ceiling),
                cmocka_unit_test(policy_ports_are_those_that_rules_allow),
                cmocka_unit_test(policy_somewhere_asks_for_every_port),
                cmocka_unit_test(policy_hears_where_a_name_may_be_allowed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
