#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netns/dns.h"
#include "runtime/base/cleanup.h"

#define HEAD "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define NAME    \
        "\x01"  \
        "a\x07" \
        "eXample\0"
#define A_IN     "\x00\x01\x00\x01"
#define AAAA_IN  "\x00\x1c\x00\x01"
#define QUERY(s) s, sizeof(s) - 1

static void dns_question_parse_reads_one_question(void **state) {
        static const struct {
                const char *s;
                size_t len;
                int r;
                enum dns_rcode rcode;
                const char *host; /* NULL: no host */
        } cases[] = {
                { QUERY(HEAD NAME A_IN), 0, 0, "a.example" },
                { QUERY(HEAD NAME AAAA_IN), 0, 0, "a.example" },
                { QUERY(HEAD NAME A_IN "\0\0\x29\x10\0\0\0\0\0\0\0"), 0, 0, "a.example" }, /* OPT behind it */
                { QUERY(HEAD "\0" A_IN), 0, 0, NULL },                                     /* the root */
                { QUERY(HEAD "\x09"
                             "a.example\0" A_IN),
                  0, 0, NULL },
                { QUERY(HEAD "\x03"
                             "a\0b\x07"
                             "example\0" A_IN),
                  0, 0, NULL },
                { QUERY(HEAD "\x02"
                             "a \x07"
                             "example\0" A_IN),
                  0, 0, NULL },
                { QUERY(HEAD "\x03"
                             "127\x01"
                             "0\x01"
                             "0\x01"
                             "1\0" A_IN),
                  0, 0, "127.0.0.1" },
                { QUERY(HEAD "\x01"
                             "a\xc0\x0c" A_IN),
                  -EINVAL, DNS_FORMERR, NULL }, /* a pointer */
                { QUERY(HEAD "\x01"
                             "a\x40"
                             "example\0" A_IN),
                  -EINVAL, DNS_FORMERR, NULL },
                { QUERY(HEAD "\x01"
                             "a\x07"
                             "example"),
                  -EINVAL, DNS_FORMERR, NULL },
                { QUERY(HEAD "\x40"
                             "0123456789012345678901234567890123456789012345678901234567890123"
                             "\0" A_IN),
                  -EINVAL, DNS_FORMERR, NULL },
                { QUERY(HEAD NAME "\x00\x01\x00"), -EINVAL, DNS_FORMERR, NULL },
                { QUERY(HEAD), -EINVAL, DNS_FORMERR, NULL },
                { QUERY("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" NAME A_IN NAME A_IN), -EINVAL,
                  DNS_FORMERR, NULL },
                { QUERY("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"), -EINVAL, DNS_FORMERR, NULL },
                { QUERY("\x12\x34\x01\x00\x00\x01\x00\x01\x00\x00\x00\x00" NAME A_IN), -EINVAL, DNS_FORMERR,
                  NULL },
                { QUERY("\x12\x34\x29\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN), -EINVAL, DNS_NOTIMP,
                  NULL },
                { QUERY(HEAD NAME "\x00\x01\x00\x03"), -EINVAL, DNS_REFUSED, NULL }, /* class CH */
                { QUERY("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN), -EBADMSG, 0, NULL },
                { QUERY("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"), -EBADMSG, 0, NULL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FREE uint8_t *exact = malloc(cases[i].len);
                struct dns_question q = { .id = 0 };
                enum dns_rcode rcode = DNS_OK;
                int r;

                assert_non_null(exact);
                memcpy(exact, cases[i].s, cases[i].len);
                r = dns_question_parse(exact, cases[i].len, &q, &rcode);
                if (r != cases[i].r || rcode != cases[i].rcode || q.has_host != (cases[i].host != NULL) ||
                    (cases[i].host && strcmp(q.host.name, cases[i].host) != 0))
                        fail_msg("row %zu: %d, rcode %d, %s", i, r, (int) rcode,
                                 q.has_host ? q.host.name : "-");
                if (r != -EBADMSG)
                        assert_int_equal(q.id, 0x1234);
        }
}

static void dns_question_parse_limits_names(void **state) {
        uint8_t b[600];
        struct dns_question q;
        enum dns_rcode rcode;

        (void) state;
        for (size_t over = 0; over < 2; over++) {
                size_t n = 12;

                memcpy(b, HEAD, 12);
                for (int i = 0; i < 4; i++) {
                        const size_t label = i < 3 ? 63 : 61 + over; /* 253 bytes of text, and 254 */

                        b[n++] = (uint8_t) label;
                        memset(b + n, 'a', label);
                        n += label;
                }
                b[n++] = 0;
                memcpy(b + n, A_IN, 4);
                assert_int_equal(dns_question_parse(b, n + 4, &q, &rcode), over ? -EINVAL : 0);
                assert_int_equal(q.has_host, !over);
        }
}

static void dns_answer_write_repeats_the_question(void **state) {
        static const uint8_t query[] = HEAD NAME A_IN;
        static const uint8_t want[] = "\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" NAME A_IN
                                      "\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x64\x40\x00\x07";
        static const uint8_t none[] = "\x12\x34\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00" NAME A_IN;
        const struct addr addrs[] = { { .b = { 0xfd, [15] = 1 } }, addr_from_ipv4(0x64400007) };
        struct dns_question q;
        enum dns_rcode rcode;
        uint8_t out[DNS_MESSAGE_MAX];

        (void) state;
        assert_int_equal(dns_question_parse(query, sizeof(query) - 1, &q, &rcode), 0);
        assert_int_equal(dns_answer_write(&q, DNS_OK, addrs, 2, 5, out), sizeof(want) - 1);
        assert_memory_equal(out, want, sizeof(want) - 1);
        assert_int_equal(dns_answer_write(&q, DNS_NXDOMAIN, addrs, 2, 5, out), sizeof(none) - 1);
        assert_memory_equal(out, none, sizeof(none) - 1);
        q.type = DNS_TYPE_AAAA;
        assert_int_equal(dns_answer_write(&q, DNS_OK, addrs, 2, 5, out), sizeof(none) - 1 + 28);
        q.type = 65; /* HTTPS: the name is there, the record is not */
        assert_int_equal(dns_answer_write(&q, DNS_OK, addrs, 2, 5, out), sizeof(none) - 1);
        assert_int_equal(out[3] & 15, DNS_OK);
}

static void dns_answer_write_stays_within_a_datagram(void **state) {
        static const uint8_t query[] = HEAD NAME A_IN;
        struct addr addrs[100];
        struct dns_question q;
        enum dns_rcode rcode;
        uint8_t out[DNS_MESSAGE_MAX];
        size_t n;

        (void) state;
        for (uint32_t i = 0; i < ARRAY_SIZE(addrs); i++)
                addrs[i] = addr_from_ipv4(i);
        assert_int_equal(dns_question_parse(query, sizeof(query) - 1, &q, &rcode), 0);
        n = dns_answer_write(&q, DNS_OK, addrs, ARRAY_SIZE(addrs), 5, out);
        assert_in_range(n, DNS_MESSAGE_MAX - 15, DNS_MESSAGE_MAX);
        assert_int_equal(n, sizeof(query) - 1 + 16U * out[7]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(dns_question_parse_reads_one_question),
                cmocka_unit_test(dns_question_parse_limits_names),
                cmocka_unit_test(dns_answer_write_repeats_the_question),
                cmocka_unit_test(dns_answer_write_stays_within_a_datagram),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
