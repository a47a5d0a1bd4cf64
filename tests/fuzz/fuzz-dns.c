/*
 * fuzz-dns.c - questions to the stub resolver, and the answers to them
 */
#include <errno.h>
#include <string.h>

#include "netns/dns.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct addr addrs[] = { addr_from_ipv4(0x64400001), { .b = { 0xfd } } };
        struct dns_question q;
        enum dns_rcode rcode = DNS_OK;
        uint8_t out[DNS_MESSAGE_MAX];
        size_t n;
        const int r = dns_question_parse(data, size, &q, &rcode);

        if (r == -EBADMSG)
                return 0;
        check(r == 0 || (r == -EINVAL && rcode != DNS_OK && !q.has_host));
        check(q.wire_len <= sizeof(q.wire) && (r < 0 || q.wire_len >= 5));
        n = dns_answer_write(&q, rcode, addrs, 2, 1, out);
        check(n >= 12 + q.wire_len && n <= DNS_MESSAGE_MAX && (out[2] & 0x80));
        check(memcmp(out, data, 2) == 0 && memcmp(out + 12, q.wire, q.wire_len) == 0);
        if (q.has_host)
                check(*q.host.name && strlen(q.host.name) <= HOST_NAME_BYTES_MAX);
        return 0;
}
