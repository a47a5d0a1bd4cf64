#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "netns/netlink.h"
#include "netns/udplog.h"
#include "runtime/base/cleanup.h"

static size_t put_error(uint8_t *out, uint32_t seq, int32_t code) {
        const struct nlmsghdr h = { .nlmsg_len = sizeof(h) + sizeof(code),
                                    .nlmsg_type = NLMSG_ERROR,
                                    .nlmsg_seq = seq };

        memcpy(out, &h, sizeof(h));
        memcpy(out + sizeof(h), &code, sizeof(code));
        return h.nlmsg_len;
}

static void netlink_messages_are_aligned_and_measured(void **state) {
        struct netlink_buf b = { 0 };
        struct nlmsghdr h;
        size_t nest;

        (void) state;
        netlink_begin(&b, 7, NLM_F_ACK, "abcd", 4);
        netlink_put(&b, 1, "xyz", 3);
        nest = netlink_nest(&b, 2);
        netlink_put_be32(&b, 3, 0x01020304);
        netlink_end(&b, nest);
        netlink_begin(&b, 8, 0, NULL, 0);
        assert_int_equal(b.len, 16 + 4 + 8 + 4 + 8 + 16);
        memcpy(&h, b.data, sizeof(h));
        assert_int_equal(h.nlmsg_len, 40);
        assert_int_equal(h.nlmsg_type, 7);
        assert_int_equal(h.nlmsg_flags, NLM_F_ACK | NLM_F_REQUEST);
        assert_int_equal(h.nlmsg_seq, 1);
        assert_int_equal(b.seq, 2);
        assert_int_equal(b.ack, 1);
        assert_memory_equal(b.data + 20, "\x07\0\x01\0xyz\0\x0c\0\x02\x80\x08\0\x03\0\1\2\3\4", 20);
}

static void netlink_buf_that_is_full_is_not_sent(void **state) {
        static const uint8_t block[1024];
        struct netlink_buf b = { 0 };

        (void) state;
        netlink_begin(&b, 7, NLM_F_ACK, NULL, 0);
        for (size_t i = 0; i < 7; i++)
                netlink_put(&b, 1, block, sizeof(block));
        netlink_put(&b, 1, block, NETLINK_BYTES_MAX - b.len - 4); /* the last byte */
        assert_int_equal(b.len, NETLINK_BYTES_MAX);
        assert_false(b.full);
        netlink_put(&b, 1, block, 0);
        assert_true(b.full);
        assert_int_equal(b.len, NETLINK_BYTES_MAX);
        assert_int_equal(netlink_send(-1, &b), -EMSGSIZE);
        b = (struct netlink_buf){ 0 };
        netlink_put(&b, 1, block, UINT16_MAX);
        assert_true(b.full);
}

static void netlink_reply_ends_with_the_ack_or_any_error(void **state) {
        uint8_t data[256] = { 0 };
        bool done = true;
        size_t n;

        (void) state;
        assert_int_equal(netlink_reply(data, 0, 1, &done), 0);
        assert_false(done);
        n = put_error(data, 1, 0);
        assert_int_equal(netlink_reply(data, n, 2, &done), 0);
        assert_false(done); /* of an earlier message */
        n += put_error(data + n, 2, 0);
        assert_int_equal(netlink_reply(data, n, 2, &done), 0);
        assert_true(done);
        n = put_error(data, 1, -ENOENT);
        n += put_error(data + n, 2, 0);
        assert_int_equal(netlink_reply(data, n, 2, &done), -ENOENT);
        assert_true(done);
        for (size_t cut = 1; cut < 20; cut++) { /* shorter than it says */
                (void) put_error(data, 2, 0);
                assert_true(netlink_reply(data, cut, 2, &done) == (cut < 16 ? 0 : -EBADMSG) && !done);
        }
        (void) put_error(data, 2, 5);
        assert_int_equal(netlink_reply(data, 20, 2, &done), -EBADMSG);
        (void) put_error(data, 2, INT32_MIN);
        assert_int_equal(netlink_reply(data, 20, 2, &done), -EBADMSG);
}

struct seen {
        size_t n;
        struct udplog_packet last;
};

static void on_packet(void *arg, const struct udplog_packet *packet) {
        struct seen *seen = arg;

        seen->n++;
        seen->last = *packet;
}

/* A message of the log about the packet. */
static size_t put_log(struct netlink_buf *b, const uint8_t *packet, size_t len) {
        const struct nfgenmsg head = { .version = NFNETLINK_V0 };

        *b = (struct netlink_buf){ 0 };
        netlink_begin(b, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET, 0, &head, sizeof(head));
        netlink_put_text(b, NFULA_PREFIX, "prefix");
        netlink_put(b, NFULA_PAYLOAD, packet, len);
        return b->len;
}

static void udplog_parse_reads_heads_of_packets(void **state) {
        static const uint8_t v4[] = { 0x45, 0, 0,  32, 0, 0, 0, 0, 64, 17,   0, 0,  198, 18,
                                      0,    1, 93, 1,  2, 3, 0, 5, 1,  0xbb, 0, 12, 0,   0 };
        uint8_t options[40] = { 0x47, [9] = 17, [16] = 9, 9, 9, 9, [28] = 0, 1, 0x12, 0x34 };
        uint8_t v6[48] = { 0x60, [6] = 17, [24] = 0x20, 1, [39] = 5, [42] = 0x10, 0x01 };
        uint8_t icmp[40] = { 0x45, [9] = 1, [16] = 1, 2, 3, 4, 8, 0, 0x55, 0x55 };
        struct seen seen = { 0 };
        char text[ADDR_TEXT_MAX];
        struct netlink_buf b;

        (void) state;
        udplog_parse(b.data, put_log(&b, v4, sizeof(v4)), on_packet, &seen);
        assert_int_equal(seen.n, 1);
        assert_string_equal(addr_text(&seen.last.to, text), "93.1.2.3");
        assert_int_equal(seen.last.port, 443);
        udplog_parse(b.data, put_log(&b, options, sizeof(options)), on_packet, &seen);
        assert_int_equal(seen.last.port, 0x1234);
        udplog_parse(b.data, put_log(&b, v6, sizeof(v6)), on_packet, &seen);
        assert_string_equal(addr_text(&seen.last.to, text), "2001::5");
        assert_int_equal(seen.last.port, 0x1001);
        udplog_parse(b.data, put_log(&b, icmp, sizeof(icmp)), on_packet, &seen);
        assert_int_equal(seen.last.port, 0);
        assert_int_equal(seen.last.protocol, 1);
        assert_int_equal(seen.n, 4);
        /* without its ports, without all of its head, of no version, as another message, cut */
        udplog_parse(b.data, put_log(&b, v4, 20), on_packet, &seen);
        assert_int_equal(seen.last.port, 0);
        seen.n = 0;
        udplog_parse(b.data, put_log(&b, v4, 19), on_packet, &seen);
        udplog_parse(b.data, put_log(&b, v6, 39), on_packet, &seen);
        options[0] = 0x57;
        udplog_parse(b.data, put_log(&b, options, sizeof(options)), on_packet, &seen);
        (void) put_log(&b, v4, sizeof(v4));
        for (size_t cut = 0; cut < b.len; cut++)
                udplog_parse(b.data, cut, on_packet, &seen);
        b.data[4]++;
        udplog_parse(b.data, b.len, on_packet, &seen);
        assert_int_equal(seen.n, 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(netlink_messages_are_aligned_and_measured),
                cmocka_unit_test(netlink_buf_that_is_full_is_not_sent),
                cmocka_unit_test(netlink_reply_ends_with_the_ack_or_any_error),
                cmocka_unit_test(udplog_parse_reads_heads_of_packets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
