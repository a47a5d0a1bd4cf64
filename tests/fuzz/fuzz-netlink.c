/*
 * fuzz-netlink.c - what the kernel answers, and its log of refused packets
 */
#include <string.h>

#include "netns/netlink.h"
#include "netns/udplog.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void on_packet(void *arg, const struct udplog_packet *packet) {
        size_t *n = arg;

        check(packet->port == 0 || packet->protocol == 17 || packet->protocol == 136);
        (*n)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct netlink_attr a;
        size_t at = 0, before = 0, packets = 0;
        bool done = true;
        int r;

        if (size > UDPLOG_BYTES_MAX)
                return 0;
        r = netlink_reply(data, size, 1, &done);
        check(r <= 0 && r >= -4095 && (r == 0 || done || r == -74 /* EBADMSG */));
        udplog_parse(data, size, on_packet, &packets);
        check(packets <= size / 40); /* each has a head of its own */
        while (netlink_attr_next(data, size, &at, &a)) {
                check(at > before && a.data >= data + 4 && a.data + a.len <= data + size);
                before = at;
        }
        return 0;
}
