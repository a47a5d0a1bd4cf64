/*
 * DOC: theory of operation
 *
 * The name of the host's end is the place, so that the kernel decides between two who want the same one. The
 * pair is made with its other end in the namespace at once: there is no moment at which it would outlive it.
 * The table of nftables has an owner, the socket that made it, and goes with that (Linux 5.12).
 *
 * No setting of the host is changed. That the host forwards is asked for and not done: with it on, a host
 * passes on what reaches it from any network, which is for its administrator to decide.
 *
 * Replies are the kernel's. Names of tables and chains in them are another root process's.
 */
#include "netns/veth.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "netns/netlink.h"
#include "netns/nft.h"
#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"

enum { STRIDE = 5003 /* coprime to VETH_PLACES: a network that has many places is soon left */ };
enum { BITS4 = 30, BITS6 = 64, TRIES = 256, REPLY_BYTES_MAX = 32768, SETTING_MAX = 64, TABLES_MAX = 4096 };

/* 198.19.0.0/16: of a range that no host has (RFC 2544); names inside have its other half (names.h) */
static const uint32_t net4 = 0xc6130000U;
/* a prefix for local use, chosen at random once (RFC 4193) */
static const uint8_t net6[] = { 0xfd, 0x9c, 0x1b, 0x5e, 0x6d, 0xa3 };

/* --- asking --------------------------------------------------------------------------------------------- */

/* One message of a reply, past its header. Return: 0 to go on. */
typedef int (*reply_fn)(void *arg, uint16_t type, const uint8_t *data, size_t len);

/* Return: 0; 1: there is more to come; the kernel's error; -EBADMSG; or what @fn says. */
static int read_replies(const uint8_t *data, size_t len, reply_fn fn, void *arg) {
        bool multi = false;

        for (size_t at = 0; at < len && len - at >= sizeof(struct nlmsghdr);) {
                struct nlmsghdr h;
                const uint8_t *body = data + at + sizeof(h);
                int32_t code = 0;
                int r;

                memcpy(&h, data + at, sizeof(h));
                if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len - at)
                        return -EBADMSG;
                if (h.nlmsg_type == NLMSG_DONE)
                        return 0;
                if (h.nlmsg_type == NLMSG_ERROR) {
                        if (h.nlmsg_len < sizeof(h) + sizeof(code))
                                return -EBADMSG;
                        memcpy(&code, body, sizeof(code));
                        return code <= 0 ? code : -EBADMSG;
                }
                multi = h.nlmsg_flags & NLM_F_MULTI;
                r = fn(arg, h.nlmsg_type, body, h.nlmsg_len - sizeof(h));
                if (r != 0)
                        return r;
                at += NLMSG_ALIGN(h.nlmsg_len);
        }
        return multi;
}

/* Sends @b, one question, and reads all of the answer. */
static int ask(int protocol, const struct netlink_buf *b, reply_fn fn, void *arg) {
        AUTO_FREE uint8_t *reply = malloc(REPLY_BYTES_MAX);
        AUTO_FD int fd = netlink_open(protocol);
        int r = 1;

        if (!reply)
                return -ENOMEM;
        if (fd < 0)
                return fd;
        if (b->full)
                return -EMSGSIZE;
        if (send(fd, b->data, b->len, 0) < 0)
                return -errno;
        while (r == 1) {
                /* the kernel has answered when the call above returns, and goes on as it is read */
                const ssize_t n = recv(fd, reply, REPLY_BYTES_MAX, MSG_DONTWAIT | MSG_TRUNC);

                if (n < 0)
                        return errno == EAGAIN ? -EIO : -errno;
                r = n > REPLY_BYTES_MAX ? -EBADMSG : read_replies(reply, (size_t) n, fn, arg);
        }
        return r;
}

/* --- what is in the way --------------------------------------------------------------------------------- */

static bool setting_is_on(const char *path) {
        AUTO_BUF struct buf b = { 0 };

        return file_read_at(AT_FDCWD, path, SETTING_MAX, &b) == 0 && b.len > 0 && b.data[0] != '0';
}

/* struct nfgenmsg, then the attributes of a chain */
static int note_chain(void *arg, uint16_t type, const uint8_t *data, size_t len) {
        struct netlink_attr attr, inner;
        const size_t head = NLMSG_ALIGN(sizeof(struct nfgenmsg));
        uint32_t hook = NF_INET_NUMHOOKS, policy = NF_ACCEPT;
        const char *table = "";

        if ((type & 0xff) != NFT_MSG_NEWCHAIN || len < head || data[0] == NFPROTO_BRIDGE ||
            data[0] == NFPROTO_ARP || data[0] == NFPROTO_NETDEV)
                return 0;
        for (size_t at = head; netlink_attr_next(data, len, &at, &attr);) {
                if (attr.type == NFTA_CHAIN_TABLE && attr.len > 0 && attr.data[attr.len - 1] == '\0')
                        table = (const char *) attr.data;
                if (attr.type == NFTA_CHAIN_POLICY && attr.len == sizeof(policy)) {
                        memcpy(&policy, attr.data, sizeof(policy));
                        policy = ntohl(policy);
                }
                for (size_t in = 0;
                     attr.type == NFTA_CHAIN_HOOK && netlink_attr_next(attr.data, attr.len, &in, &inner);)
                        if (inner.type == NFTA_HOOK_HOOKNUM && inner.len == sizeof(hook)) {
                                memcpy(&hook, inner.data, sizeof(hook));
                                hook = ntohl(hook);
                        }
        }
        if (hook != NF_INET_FORWARD || policy != NF_DROP)
                return 0;
        (void) snprintf(arg, 64, "%s", ESC(table));
        return -EPERM;
}

/* Someone's chain that drops what is forwarded: ours could not take it back. */
static int find_drop(char table[64]) {
        const struct nfgenmsg head = { .nfgen_family = NFPROTO_UNSPEC, .version = NFNETLINK_V0 };
        struct netlink_buf b = { 0 };

        *table = '\0';
        netlink_begin(&b, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_DUMP, &head, sizeof(head));
        return ask(NETLINK_NETFILTER, &b, note_chain, table);
}

/* iptables without nftables cannot be asked through it. */
static bool has_old_filter(void) {
        AUTO_BUF struct buf b = { 0 };

        return file_read_at(AT_FDCWD, "/proc/net/ip_tables_names", TABLES_MAX, &b) == 0 &&
               strstr(buf_cstr(&b), "filter");
}

/* --- a place -------------------------------------------------------------------------------------------- */

static void set_place(struct veth *veth, uint32_t place, bool six) {
        *veth = (struct veth){ .place = place,
                               .near4 = addr_from_ipv4(net4 + 4 * place + 1),
                               .far4 = addr_from_ipv4(net4 + 4 * place + 2),
                               .six = six };
        (void) snprintf(veth->name, sizeof(veth->name), "cofferdam%04x", place);
        memcpy(veth->near6.b, net6, sizeof(net6));
        veth->near6.b[6] = (uint8_t) (place >> 8);
        veth->near6.b[7] = (uint8_t) place;
        veth->far6 = veth->near6;
        veth->near6.b[15] = 1;
        veth->far6.b[15] = 2;
}

static const uint8_t *addr_bytes(const struct addr *a, size_t *ret_len) {
        *ret_len = addr_is_ipv4(a) ? 4 : 16;
        return a->b + 16 - *ret_len;
}

static uint8_t family_of(const struct addr *a) {
        return addr_is_ipv4(a) ? AF_INET : AF_INET6;
}

static int note_route(void *arg, uint16_t type, const uint8_t *data, size_t len) {
        struct rtmsg m;

        if (type != RTM_NEWROUTE || len < sizeof(m))
                return -EBADMSG;
        memcpy(&m, data, sizeof(m));
        *(bool *) arg = m.rtm_dst_len > 0;
        return 0;
}

/* Whether the host has a way to the address besides its default route: somebody has it, or its network. */
static bool is_used(const struct addr *a) {
        const struct rtmsg head = { .rtm_family = family_of(a),
                                    .rtm_dst_len = addr_is_ipv4(a) ? 32 : 128,
                                    .rtm_flags = RTM_F_FIB_MATCH };
        struct netlink_buf b = { 0 };
        bool used = false;
        size_t len;
        const uint8_t *bytes = addr_bytes(a, &len);
        int r;

        netlink_begin(&b, RTM_GETROUTE, 0, &head, sizeof(head));
        netlink_put(&b, RTA_DST, bytes, len);
        r = ask(NETLINK_ROUTE, &b, note_route, &used);
        return r == 0 ? used : r != -ENETUNREACH && r != -EHOSTUNREACH;
}

/* --- the pair ------------------------------------------------------------------------------------------- */

static int make_pair(int fd, const char *name, int netns_fd) {
        const struct ifinfomsg near = { .ifi_flags = IFF_UP, .ifi_change = IFF_UP }, far = { 0 };
        struct netlink_buf b = { 0 };
        size_t info, data, peer;

        netlink_begin(&b, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &near, sizeof(near));
        netlink_put_text(&b, IFLA_IFNAME, name);
        info = netlink_nest(&b, IFLA_LINKINFO);
        netlink_put_text(&b, IFLA_INFO_KIND, "veth");
        data = netlink_nest(&b, IFLA_INFO_DATA);
        peer = b.len;
        netlink_put(&b, VETH_INFO_PEER | NLA_F_NESTED, &far, sizeof(far));
        netlink_put_text(&b, IFLA_IFNAME, VETH_INSIDE);
        netlink_put(&b, IFLA_NET_NS_FD, &netns_fd, sizeof(netns_fd));
        netlink_end(&b, peer);
        netlink_end(&b, data);
        netlink_end(&b, info);
        return netlink_send(fd, &b);
}

static int add_address(int fd, const char *name, const struct addr *a) {
        const struct ifaddrmsg head = { .ifa_family = family_of(a),
                                        .ifa_prefixlen = addr_is_ipv4(a) ? BITS4 : BITS6,
                                        .ifa_flags = IFA_F_NODAD, /* nobody else is on this wire */
                                        .ifa_index = if_nametoindex(name) };
        struct netlink_buf b = { 0 };
        size_t len;
        const uint8_t *bytes = addr_bytes(a, &len);

        netlink_begin(&b, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
        netlink_put(&b, IFA_LOCAL, bytes, len);
        netlink_put(&b, IFA_ADDRESS, bytes, len);
        return netlink_send(fd, &b);
}

static int add_default(int fd, const struct addr *gateway) {
        const struct rtmsg head = { .rtm_family = family_of(gateway),
                                    .rtm_table = RT_TABLE_MAIN,
                                    .rtm_protocol = RTPROT_BOOT,
                                    .rtm_scope = RT_SCOPE_UNIVERSE,
                                    .rtm_type = RTN_UNICAST };
        struct netlink_buf b = { 0 };
        size_t len;
        const uint8_t *bytes = addr_bytes(gateway, &len);

        netlink_begin(&b, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &head, sizeof(head));
        netlink_put(&b, RTA_GATEWAY, bytes, len);
        return netlink_send(fd, &b);
}

/* --- the rules ------------------------------------------------------------------------------------------ */

static void masquerade_from(struct nft_table *t, const char *chain, const struct addr *a) {
        enum { SOURCE4 = 12, SOURCE6 = 8 }; /* in the header */
        const uint8_t family = addr_is_ipv4(a) ? NFPROTO_IPV4 : NFPROTO_IPV6;
        size_t len;
        const uint8_t *bytes = addr_bytes(a, &len);

        nft_rule_begin(t, chain);
        nft_meta_is(t, NFT_META_NFPROTO, &family, sizeof(family));
        nft_bytes_are(t, NFT_PAYLOAD_NETWORK_HEADER, addr_is_ipv4(a) ? SOURCE4 : SOURCE6, bytes, len);
        nft_masquerade(t);
        nft_rule_end(t);
}

/* What leaves has the host's address, and nobody but the host opens a connection to the other end.
 * @ret_fd: NULL: only whether it would work */
static int add_rules(const struct veth *veth, int *ret_fd) {
        static const char out[] = "out", in[] = "in";
        AUTO_FD int fd = netlink_open(NETLINK_NETFILTER);
        struct netlink_buf b = { 0 };
        struct nft_table t = { .buf = &b, .name = veth->name };
        char name[IFNAMSIZ] = { 0 };
        int r;

        if (fd < 0)
                return fd;
        memcpy(name, veth->name, strlen(veth->name));
        nft_batch_begin(&t);
        nft_table_add(&t, NFT_TABLE_F_OWNER);
        nft_chain_add(&t, out, "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC);
        masquerade_from(&t, out, &veth->far4);
        if (veth->six)
                masquerade_from(&t, out, &veth->far6);
        nft_chain_add(&t, in, "filter", NF_INET_FORWARD, NF_IP_PRI_FILTER);
        nft_rule_begin(&t, in);
        nft_meta_is(&t, NFT_META_OIFNAME, name, sizeof(name));
        nft_state_is_new(&t);
        nft_verdict(&t, NF_DROP);
        nft_rule_end(&t);
        if (!ret_fd)
                nft_table_add(&t, NFT_TABLE_F_OWNER); /* a second time: EEXIST, and all is undone */
        nft_batch_end(&t);
        r = netlink_send(fd, &b);
        if (!ret_fd)
                return r == -EEXIST ? 0 : r < 0 ? r : -EIO;
        if (r == 0)
                *ret_fd = TAKE_FD(fd);
        return r;
}

/* What take_place() does, up to where the kernel has looked at all of it. */
static int try_place(void) {
        AUTO_FD int fd = netlink_open(NETLINK_ROUTE);
        struct veth veth;
        int r;

        if (fd < 0)
                return fd;
        set_place(&veth, VETH_PLACES, true);
        r = add_rules(&veth, NULL);
        if (r < 0)
                return r;
        r = make_pair(fd, veth.name, -1); /* there is no such namespace */
        return r == -EBADF || r == -EINVAL ? 0 : r < 0 ? r : -EIO;
}

/* --- both ----------------------------------------------------------------------------------------------- */

/* The rules first: two who want the same place cannot both make its table, nor its interface. */
static int take_place(int fd, struct veth *veth, int netns_fd, int *ret_fd) {
        AUTO_FD int rules = -1;
        int r;

        r = add_rules(veth, &rules);
        if (r == 0)
                r = make_pair(fd, veth->name, netns_fd);
        if (r == 0)
                *ret_fd = TAKE_FD(rules);
        return r;
}

/* A table that is another socket's is there, but not for us: EPERM comes before EEXIST. */
static int find_place(int fd, uint32_t first, bool six, int netns_fd, struct veth *ret, int *ret_fd) {
        int r = -EADDRNOTAVAIL;

        for (uint32_t i = 0; i < TRIES; i++) {
                set_place(ret, (first + i * STRIDE) % VETH_PLACES, six);
                if (is_used(&ret->far4) || (six && is_used(&ret->far6)))
                        continue;
                r = take_place(fd, ret, netns_fd, ret_fd);
                if (r != -EEXIST && r != -EPERM)
                        return r;
        }
        return r == -EEXIST ? -EADDRNOTAVAIL : r;
}

/* Some network has all of our addresses: the last one, which no pair gets, has a way already. */
static bool range_is_used(void) {
        const struct addr last = addr_from_ipv4(net4 + 4 * VETH_PLACES + 1);

        return is_used(&last);
}

bool veth_hindrance(char *out, size_t size) {
        char table[64];
        int r;

        if (!setting_is_on("/proc/sys/net/ipv4/ip_forward")) {
                (void) snprintf(
                        out, size,
                        "this host forwards no packets: sysctl -w net.ipv4.ip_forward=1, if it is to");
                return true;
        }
        r = find_drop(table);
        if (*table)
                (void) snprintf(out, size, "the table '%s' of nftables drops what this host forwards", table);
        else if (r < 0)
                (void) snprintf(out, size, "nftables cannot be asked: %s", strerror(-r));
        else if (has_old_filter())
                (void) snprintf(out, size, "this host filters with iptables-legacy");
        else if (range_is_used())
                (void) snprintf(out, size, "this host has a route to 198.19.0.0/16");
        else if ((r = try_place()) < 0)
                (void) snprintf(out, size, "veth and rules of nftables with an owner (Linux 5.12): %s",
                                strerror(-r));
        else
                return false;
        return true;
}

int veth_make(uint32_t first, int netns_fd, struct veth *ret, int *ret_fd, struct error *err) {
        const bool six = setting_is_on("/proc/sys/net/ipv6/conf/all/forwarding");
        AUTO_FD int fd = netlink_open(NETLINK_ROUTE), rules = -1;
        struct veth veth;
        int r;

        if (fd < 0)
                return error_set(err, fd, "socket(NETLINK_ROUTE): %s", strerror(-fd));
        r = find_place(fd, first % VETH_PLACES, six, netns_fd, &veth, &rules);
        if (r < 0)
                return error_set(err, r, "a pair of interfaces and its rules: %s", strerror(-r));
        r = add_address(fd, veth.name, &veth.near4);
        if (r == 0 && six)
                r = add_address(fd, veth.name, &veth.near6);
        if (r < 0)
                return error_set(err, r, "an address of '%s': %s", veth.name, strerror(-r));
        *ret = veth;
        *ret_fd = TAKE_FD(rules);
        return 0;
}

int veth_join(const struct veth *veth, struct error *err) {
        const struct ifinfomsg up = { .ifi_index = (int) if_nametoindex(VETH_INSIDE),
                                      .ifi_flags = IFF_UP,
                                      .ifi_change = IFF_UP };
        AUTO_FD int fd = netlink_open(NETLINK_ROUTE);
        struct netlink_buf b = { 0 };
        int r;

        if (fd < 0)
                return error_set(err, fd, "socket(NETLINK_ROUTE): %s", strerror(-fd));
        netlink_begin(&b, RTM_NEWLINK, NLM_F_ACK, &up, sizeof(up));
        r = netlink_send(fd, &b);
        if (r == 0)
                r = add_address(fd, VETH_INSIDE, &veth->far4);
        if (r == 0)
                r = add_default(fd, &veth->near4);
        if (r == 0 && veth->six)
                r = add_address(fd, VETH_INSIDE, &veth->far6);
        if (r == 0 && veth->six)
                r = add_default(fd, &veth->near6);
        return r < 0 ? error_set(err, r, "set up " VETH_INSIDE ": %s", strerror(-r)) : 0;
}
