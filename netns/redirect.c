/*
 * DOC: theory of operation
 *
 * All addresses are made local by two routes, so that a packet to anywhere goes out of lo and comes in again;
 * the source is an address that no host has. On its way out a TCP connection gets another destination: the
 * listener of ours. Other packets come in at the address they were sent to, and are refused there: the sender
 * has sent one and gets an answer, as from a host that serves nothing, where a refusal on the way out would
 * have been an error of send(2) that few programs expect. That error is what is left for multicast and
 * broadcast, which are answered by nobody (RFC 1122, 3.2.2): EPERM.
 *
 * The messages are built from constants; nothing in them is anyone's input.
 */
#include "netns/redirect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

#include "netns/names.h"
#include "netns/netlink.h"
#include "netns/nft.h"
#include "netns/udplog.h"
#include "runtime/base/cleanup.h"

static const char out_chain[] = "out", in_chain[] = "in", many_chain[] = "many";

/* --- addresses and routes ------------------------------------------------------------------------------- */

struct family {
        uint8_t family, bits;
        const uint8_t *own; /* the address of the namespace that packets come from */
};

static int request(int fd, const struct netlink_buf *b) {
        const int r = netlink_send(fd, b);

        return r == -EEXIST ? 0 : r;
}

static int add_address(int fd, const struct family *f, unsigned int lo) {
        const struct ifaddrmsg head = { .ifa_family = f->family,
                                        .ifa_prefixlen = f->bits,
                                        .ifa_flags = IFA_F_NODAD,
                                        .ifa_scope = RT_SCOPE_UNIVERSE,
                                        .ifa_index = lo };
        struct netlink_buf b = { 0 };

        netlink_begin(&b, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
        netlink_put(&b, IFA_LOCAL, f->own, f->bits / 8U);
        netlink_put(&b, IFA_ADDRESS, f->own, f->bits / 8U);
        return request(fd, &b);
}

static int add_route(int fd, const struct family *f, uint32_t lo) {
        const struct rtmsg head = { .rtm_family = f->family,
                                    .rtm_table = RT_TABLE_LOCAL,
                                    .rtm_protocol = RTPROT_BOOT,
                                    .rtm_scope = RT_SCOPE_HOST,
                                    .rtm_type = RTN_LOCAL };
        struct netlink_buf b = { 0 };

        netlink_begin(&b, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
        netlink_put(&b, RTA_OIF, &lo, sizeof(lo));
        netlink_put(&b, RTA_PREFSRC, f->own, f->bits / 8U);
        return request(fd, &b);
}

static int add_ways(bool *ret_six, struct error *err) {
        const struct addr own4 = names_own(false), own6 = names_own(true);
        const struct family four = { AF_INET, 32, own4.b + 12 }, six = { AF_INET6, 128, own6.b };
        const unsigned int lo = if_nametoindex("lo");
        AUTO_FD int fd = netlink_open(NETLINK_ROUTE);
        int r;

        if (fd < 0)
                return error_set(err, fd, "socket(NETLINK_ROUTE): %s", strerror(-fd));
        r = add_address(fd, &four, lo);
        if (r == 0)
                r = add_route(fd, &four, lo);
        if (r < 0)
                return error_set(err, r, "route all addresses to lo: %s", strerror(-r));
        /* a kernel without IPv6, or one where it is switched off */
        *ret_six = add_address(fd, &six, lo) == 0 && add_route(fd, &six, lo) == 0;
        return 0;
}

/* --- rules ---------------------------------------------------------------------------------------------- */

static void meta_is(struct nft_table *t, uint32_t key, uint8_t value) {
        nft_meta_is(t, key, &value, sizeof(value));
}

/* What goes to the namespace itself is nobody's business. */
static void add_own(struct nft_table *t, const char *chain) {
        enum { DST4 = 16, DST6 = 24 }; /* of the destination in a header */
        const struct addr own4 = names_own(false), own6 = names_own(true);
        const uint8_t loop4 = 127, loop6[16] = { [15] = 1 };
        const struct {
                uint8_t family;
                uint32_t at;
                const uint8_t *data;
                size_t len;
        } rows[] = {
                { NFPROTO_IPV4, DST4, &loop4, 1 },
                { NFPROTO_IPV4, DST4, own4.b + 12, 4 },
                { NFPROTO_IPV6, DST6, loop6, 16 },
                { NFPROTO_IPV6, DST6, own6.b, 16 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                nft_rule_begin(t, chain);
                meta_is(t, NFT_META_NFPROTO, rows[i].family);
                nft_bytes_are(t, NFT_PAYLOAD_NETWORK_HEADER, rows[i].at, rows[i].data, rows[i].len);
                nft_verdict(t, NF_ACCEPT);
                nft_rule_end(t);
        }
}

static void add_redirect(struct nft_table *t) {
        enum { DPORT = 2 }; /* in the header of UDP */
        const uint16_t dns = htons(REDIRECT_DNS_PORT);

        nft_rule_begin(t, out_chain);
        meta_is(t, NFT_META_L4PROTO, IPPROTO_TCP);
        nft_redirect(t, REDIRECT_TCP_PORT);
        nft_rule_end(t);
        nft_rule_begin(t, out_chain);
        meta_is(t, NFT_META_L4PROTO, IPPROTO_UDP);
        nft_bytes_are(t, NFT_PAYLOAD_TRANSPORT_HEADER, DPORT, &dns, sizeof(dns));
        nft_redirect(t, REDIRECT_DNS_PORT);
        nft_rule_end(t);
}

static void add_refusal(struct nft_table *t) {
        /* answers of our listeners, to whatever address a client has bound itself to */
        nft_rule_begin(t, in_chain);
        meta_is(t, NFT_META_L4PROTO, IPPROTO_TCP);
        nft_verdict(t, NF_ACCEPT);
        nft_rule_end(t);
        nft_rule_begin(t, in_chain);
        nft_log(t, UDPLOG_GROUP);
        nft_reject(t);
        nft_rule_end(t);
}

/* UDP to more than one receiver, from 224.0.0.0 on and ff00::/8. */
static void add_many(struct nft_table *t) {
        enum { DST4 = 16, DST6 = 24, FIRST4 = 224, FIRST6 = 0xff };
        static const struct {
                uint8_t family, least;
                uint32_t at;
        } rows[] = { { NFPROTO_IPV4, FIRST4, DST4 }, { NFPROTO_IPV6, FIRST6, DST6 } };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                nft_rule_begin(t, many_chain);
                meta_is(t, NFT_META_NFPROTO, rows[i].family);
                meta_is(t, NFT_META_L4PROTO, IPPROTO_UDP);
                nft_byte_from(t, NFT_PAYLOAD_NETWORK_HEADER, rows[i].at, rows[i].least);
                nft_log(t, UDPLOG_GROUP);
                nft_verdict(t, NF_DROP);
                nft_rule_end(t);
        }
}

static int add_rules(struct error *err) {
        AUTO_FD int fd = netlink_open(NETLINK_NETFILTER);
        struct netlink_buf b = { 0 };
        struct nft_table t = { .buf = &b, .name = "cofferdam" };
        int r;

        if (fd < 0)
                return error_set(err, fd, "socket(NETLINK_NETFILTER): %s", strerror(-fd));
        nft_batch_begin(&t);
        nft_table_add(&t, 0);
        nft_chain_add(&t, out_chain, "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST);
        nft_chain_add(&t, in_chain, "filter", NF_INET_LOCAL_IN, NF_IP_PRI_FILTER);
        nft_chain_add(&t, many_chain, "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER);
        add_many(&t);
        add_own(&t, out_chain);
        add_redirect(&t);
        add_own(&t, in_chain);
        add_refusal(&t);
        nft_batch_end(&t);
        r = netlink_send(fd, &b);
        return r < 0 ? error_set(err, r, "rules of nftables: %s", strerror(-r)) : 0;
}

int redirect_setup(struct redirect *ret, struct error *err) {
        AUTO_FD int log = udplog_open();
        bool six = false;
        int r;

        if (log < 0)
                return error_set(err, log, "a log of refused packets (NFLOG): %s", strerror(-log));
        r = add_ways(&six, err);
        if (r == 0)
                r = add_rules(err);
        if (r < 0)
                return r;
        *ret = (struct redirect){ .udp_log = TAKE_FD(log), .six = six };
        return 0;
}
