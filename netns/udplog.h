/*
 * udplog.h - packets that nftables refused and tells of (NFLOG): whom they were for
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "netns/addr.h"

enum { UDPLOG_GROUP = 1, UDPLOG_BYTES_MAX = 4096 };

/** struct udplog_packet - a packet that was refused */
struct udplog_packet {
        struct addr to;
        uint8_t protocol; /* IPPROTO_* */
        uint16_t port;    /* 0: the protocol has none, or it is not in the part that was copied */
};

/** udplog_open() - a netlink socket that gets the heads of what is logged to UDPLOG_GROUP in this network
 * namespace. Needs CAP_NET_ADMIN in it. Return: non-blocking socket, owned; -errno. */
int udplog_open(void) __attribute__((warn_unused_result));

/** udplog_fn - one packet; @packet is borrowed during the call */
typedef void (*udplog_fn)(void *arg, const struct udplog_packet *packet);

/** udplog_parse() - call @fn for the packets in what was read from the socket; what is malformed is left out
 */
void udplog_parse(const uint8_t *data, size_t len, udplog_fn fn, void *arg);
