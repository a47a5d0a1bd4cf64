#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "netns/addr.h"
#include "runtime/base/cleanup.h"

static struct addr parse(const char *s) {
        struct addr a = { .b = { 0 } };

        if (addr_parse(s, strlen(s), &a) < 0)
                fail_msg("'%s'", s);
        return a;
}

/* Both ends of each range and the neighbours outside: goes red when a row of the table is taken out or cut.
 */
static void addr_special_knows_both_ends(void **state) {
        static const struct {
                const char *addr;
                bool special;
        } cases[] = {
                { "0.0.0.0", true },
                { "0.255.255.255", true },
                { "1.0.0.0", false },
                { "1.1.1.1", false },
                { "9.255.255.255", false },
                { "10.0.0.0", true },
                { "10.255.255.255", true },
                { "11.0.0.0", false },
                { "100.63.255.255", false },
                { "100.64.0.0", true },
                { "100.127.255.255", true },
                { "100.128.0.0", false },
                { "126.255.255.255", false },
                { "127.0.0.1", true },
                { "127.255.255.254", true },
                { "128.0.0.0", false },
                { "168.63.129.15", false },
                { "168.63.129.16", true },
                { "169.253.255.255", false },
                { "169.254.0.0", true },
                { "169.254.169.254", true },
                { "169.254.255.255", true },
                { "169.255.0.0", false },
                { "172.15.255.255", false },
                { "172.16.0.0", true },
                { "172.31.255.255", true },
                { "172.32.0.0", false },
                { "192.0.0.0", true },
                { "192.0.0.192", true },
                { "192.0.1.0", false },
                { "192.0.2.1", true },
                { "192.0.3.0", false },
                { "192.88.99.1", true },
                { "192.167.255.255", false },
                { "192.168.0.0", true },
                { "192.168.255.255", true },
                { "192.169.0.0", false },
                { "198.17.255.255", false },
                { "198.18.0.0", true },
                { "198.19.255.255", true },
                { "198.20.0.0", false },
                { "198.51.100.7", true },
                { "203.0.113.7", true },
                { "223.255.255.255", false },
                { "224.0.0.0", true },
                { "239.255.255.255", true },
                { "240.0.0.0", true },
                { "255.255.255.254", true },
                { "255.255.255.255", true },
                { "::", true },
                { "::1", true },
                { "::2", true }, /* 0.0.0.2 */
                { "::127.0.0.1", true },
                { "::8.8.8.8", false },
                { "::ffff:10.0.0.1", true },
                { "::ffff:8.8.8.8", false },
                { "64:ff9b::10.0.0.1", true },
                { "64:ff9b::169.254.169.254", true },
                { "64:ff9b::8.8.8.8", false },
                { "64:ff9b:1::8.8.8.8", true },
                { "100::1", true },
                { "2001::1", true },
                { "2001:1ff:ffff::", true },
                { "2001:200::", false },
                { "2001:db8::1", true },
                { "2002:808:808::", true },
                { "2606:4700:4700::1111", false },
                { "2a00:1450:4001::8a", false },
                { "3fff::1", true },
                { "3fff:1000::", false },
                { "5f00::1", true },
                { "fbff::1", false },
                { "fc00::1", true },
                { "fd00:ec2::254", true },
                { "fe00::1", false },
                { "fe80::1", true },
                { "febf::1", true },
                { "fec0::1", true },
                { "feff::1", true },
                { "ff02::1", true },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct addr a = parse(cases[i].addr);

                if ((addr_special(&a, NULL) != NULL) != cases[i].special)
                        fail_msg("%s: %s", cases[i].addr,
                                 addr_special(&a, NULL) ? addr_special(&a, NULL) : "ordinary");
        }
}

static void cidr_parse_reads_prefixes(void **state) {
        static const struct {
                const char *s;
                int r;
                const char *in, *out;
        } cases[] = {
                { "10.0.0.0/8", 0, "10.255.1.2", "11.0.0.0" },
                { "10.0.0.0/8", 0, "::ffff:10.1.1.1", "::10.1.1.1" },
                { "1.2.3.4/32", 0, "1.2.3.4", "1.2.3.5" },
                { "1.2.3.4/31", 0, "1.2.3.5", "1.2.3.6" },
                { "0.0.0.0/0", 0, "255.255.255.255", "::1" },
                { "fd00::/8", 0, "fdff::1", "fc00::" },
                { "::1/128", 0, "::1", "::2" },
                { "::/0", 0, "1.2.3.4", NULL },
                { "::ffff:10.0.0.0/104", 0, "10.1.2.3", "11.0.0.1" },
                { "2001:db8::/33", 0, "2001:db8:7fff::", "2001:db8:8000::" },
                { "10.0.0.0/33", -ERANGE, NULL, NULL },
                { "::/129", -ERANGE, NULL, NULL },
                { "10.0.0.1/8", -EDOM, NULL, NULL },
                { "fd00::1/8", -EDOM, NULL, NULL },
                { "10.0.0.0/", -EINVAL, NULL, NULL },
                { "10.0.0.0", -EINVAL, NULL, NULL },
                { "/8", -EINVAL, NULL, NULL },
                { "10.0.0/8", -EINVAL, NULL, NULL },
                { "10.0.0.0/8/8", -EINVAL, NULL, NULL },
                { "10.0.0.0/-1", -EINVAL, NULL, NULL },
                { "10.0.0.0/ 8", -EINVAL, NULL, NULL },
                { "10.0.0.0/0008", -EINVAL, NULL, NULL },
                { "a.example/8", -EINVAL, NULL, NULL },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct cidr net = { .bits = 7 };
                struct addr a;

                if (cidr_parse(cases[i].s, strlen(cases[i].s), &net) != cases[i].r)
                        fail_msg("'%s'", cases[i].s);
                if (cases[i].r < 0) {
                        assert_int_equal(net.bits, 7);
                        continue;
                }
                a = parse(cases[i].in);
                assert_true(cidr_has(&net, &a));
                if (!cases[i].out)
                        continue;
                a = parse(cases[i].out);
                if (cidr_has(&net, &a))
                        fail_msg("%s has %s", cases[i].s, cases[i].out);
        }
}

static void addr_goes_through_socket_addresses(void **state) {
        static const char *const texts[] = { "1.2.3.4", "::1", "2001:db8::1", "255.255.255.255" };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                const struct addr a = parse(texts[i]);
                struct sockaddr_storage ss;
                struct addr b;
                char text[ADDR_TEXT_MAX];
                const socklen_t len = addr_to_sock(&a, 443, &ss);

                assert_int_equal(len,
                                 addr_is_ipv4(&a) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
                assert_int_equal(ntohs(((struct sockaddr_in *) &ss)->sin_port), 443);
                assert_int_equal(addr_from_sock((struct sockaddr *) &ss, &b), 0);
                assert_memory_equal(&a, &b, sizeof(a));
                assert_string_equal(addr_text(&b, text), texts[i]);
        }
        assert_int_equal(addr_from_sock(&(struct sockaddr){ .sa_family = AF_UNIX }, &(struct addr){ 0 }),
                         -EAFNOSUPPORT);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(addr_special_knows_both_ends),
                cmocka_unit_test(cidr_parse_reads_prefixes),
                cmocka_unit_test(addr_goes_through_socket_addresses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
