#include "netns/udplog.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "netns/netlink.h"
#include "runtime/base/cleanup.h"

enum {
        COPIED_BYTES = 96, /* of a packet: the longest IPv4 header and ports */
        LOG_MESSAGE = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET,
        IP4_HEADER = 20,
        IP6_HEADER = 40,
};

/* --- asking for them ------------------------------------------------------------------------------------ */

int udplog_open(void) {
        const struct nfgenmsg head = { .version = NFNETLINK_V0, .res_id = htons(UDPLOG_GROUP) };
        const struct nfulnl_msg_config_cmd bind = { .command = NFULNL_CFG_CMD_BIND };
        const struct nfulnl_msg_config_mode mode = { .copy_range = htonl(COPIED_BYTES),
                                                     .copy_mode = NFULNL_COPY_PACKET };
        AUTO_FD int fd = netlink_open(NETLINK_NETFILTER);
        struct netlink_buf b = { 0 };
        int r;

        if (fd < 0)
                return fd;
        netlink_begin(&b, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_ACK, &head, sizeof(head));
        netlink_put(&b, NFULA_CFG_CMD, &bind, sizeof(bind));
        netlink_put(&b, NFULA_CFG_MODE, &mode, sizeof(mode));
        netlink_put_be32(&b, NFULA_CFG_QTHRESH, 1); /* at once */
        r = netlink_send(fd, &b);
        if (r < 0)
                return r;
        /* more than is read is dropped: no news of that */
        (void) setsockopt(fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, &(int){ 1 }, sizeof(int));
        return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : TAKE_FD(fd);
}

/* --- reading them --------------------------------------------------------------------------------------- */

static uint16_t get16(const uint8_t *p) {
        return (uint16_t) (p[0] << 8 | p[1]);
}

/* The head of an IP packet, from its first byte. Return: whether it is one. */
static bool read_packet(const uint8_t *p, size_t len, struct udplog_packet *ret) {
        size_t header = IP6_HEADER;

        if (len >= IP4_HEADER && p[0] >> 4 == 4) {
                header = (size_t) (p[0] & 15) * 4;
                *ret = (struct udplog_packet){ .protocol = p[9] };
                ret->to = addr_from_ipv4((uint32_t) get16(p + 16) << 16 | get16(p + 18));
        } else if (len >= IP6_HEADER && p[0] >> 4 == 6) {
                *ret = (struct udplog_packet){ .protocol = p[6] };
                memcpy(ret->to.b, p + 24, sizeof(ret->to.b));
        } else {
                return false;
        }
        if ((ret->protocol == IPPROTO_UDP || ret->protocol == IPPROTO_UDPLITE) && header >= IP4_HEADER &&
            len >= header + 4)
                ret->port = get16(p + header + 2);
        return true;
}

static void read_message(const uint8_t *data, size_t len, udplog_fn fn, void *arg) {
        size_t at = NLMSG_ALIGN(sizeof(struct nfgenmsg));
        struct udplog_packet packet;
        struct netlink_attr a;

        while (netlink_attr_next(data, len, &at, &a))
                if (a.type == NFULA_PAYLOAD && read_packet(a.data, a.len, &packet))
                        fn(arg, &packet);
}

void udplog_parse(const uint8_t *data, size_t len, udplog_fn fn, void *arg) {
        for (size_t at = 0; at < len && len - at >= sizeof(struct nlmsghdr);) {
                struct nlmsghdr h;

                memcpy(&h, data + at, sizeof(h));
                if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len - at)
                        return;
                if (h.nlmsg_type == LOG_MESSAGE)
                        read_message(data + at + sizeof(h), h.nlmsg_len - sizeof(h), fn, arg);
                at += NLMSG_ALIGN(h.nlmsg_len);
        }
}
