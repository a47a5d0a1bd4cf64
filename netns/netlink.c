#include "netns/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/base/cleanup.h"

/* --- writing -------------------------------------------------------------------------------------------- */

/* Room for @len bytes and the zeroes behind them; NULL: there is none. */
static uint8_t *room(struct netlink_buf *b, size_t len) {
        const size_t whole = NLMSG_ALIGN(len);
        uint8_t *p = b->data + b->len;

        if (b->full || whole < len || whole > sizeof(b->data) - b->len) {
                b->full = true;
                return NULL;
        }
        memset(p, 0, whole);
        b->len += whole;
        return p;
}

/* The last message is as long as what was written since it began. */
static void measure(struct netlink_buf *b) {
        const uint32_t len = (uint32_t) (b->len - b->message);

        memcpy(b->data + b->message + offsetof(struct nlmsghdr, nlmsg_len), &len, sizeof(len));
}

void netlink_begin(struct netlink_buf *b, uint16_t type, uint16_t flags, const void *head, size_t len) {
        const struct nlmsghdr h = { .nlmsg_type = type,
                                    .nlmsg_flags = (uint16_t) (flags | NLM_F_REQUEST),
                                    .nlmsg_seq = b->seq + 1 };
        const size_t start = b->len;
        uint8_t *p = room(b, sizeof(h) + len);

        if (!p)
                return;
        b->message = start;
        b->seq++;
        if (flags & NLM_F_ACK)
                b->ack = b->seq;
        memcpy(p, &h, sizeof(h));
        if (len > 0)
                memcpy(p + sizeof(h), head, len);
        measure(b);
}

void netlink_put(struct netlink_buf *b, uint16_t type, const void *data, size_t len) {
        const struct nlattr a = { .nla_len = (uint16_t) (sizeof(a) + len), .nla_type = type };
        uint8_t *p = len > UINT16_MAX - sizeof(a) ? NULL : room(b, sizeof(a) + len);

        if (!p) {
                b->full = true;
                return;
        }
        memcpy(p, &a, sizeof(a));
        if (len > 0)
                memcpy(p + sizeof(a), data, len);
        measure(b);
}

void netlink_put_text(struct netlink_buf *b, uint16_t type, const char *text) {
        netlink_put(b, type, text, strlen(text) + 1);
}

void netlink_put_be16(struct netlink_buf *b, uint16_t type, uint16_t v) {
        const uint16_t be = htons(v);

        netlink_put(b, type, &be, sizeof(be));
}

void netlink_put_be32(struct netlink_buf *b, uint16_t type, uint32_t v) {
        const uint32_t be = htonl(v);

        netlink_put(b, type, &be, sizeof(be));
}

size_t netlink_nest(struct netlink_buf *b, uint16_t type) {
        const size_t start = b->len;

        netlink_put(b, type | NLA_F_NESTED, NULL, 0);
        return start;
}

void netlink_end(struct netlink_buf *b, size_t nest) {
        const uint16_t len = (uint16_t) (b->len - nest);

        if (!b->full)
                memcpy(b->data + nest + offsetof(struct nlattr, nla_len), &len, sizeof(len));
}

/* --- reading -------------------------------------------------------------------------------------------- */

bool netlink_attr_next(const uint8_t *data, size_t len, size_t *at, struct netlink_attr *ret) {
        struct nlattr a;

        if (*at > len || len - *at < sizeof(a))
                return false;
        memcpy(&a, data + *at, sizeof(a));
        if (a.nla_len < sizeof(a) || a.nla_len > len - *at)
                return false;
        *ret = (struct netlink_attr){ .type = (uint16_t) (a.nla_type & ~(NLA_F_NESTED | NLA_F_NET_BYTEORDER)),
                                      .data = data + *at + sizeof(a),
                                      .len = a.nla_len - sizeof(a) };
        *at += ((size_t) a.nla_len + NLA_ALIGNTO - 1) / NLA_ALIGNTO * NLA_ALIGNTO;
        return true;
}

int netlink_reply(const uint8_t *data, size_t len, uint32_t seq, bool *ret_done) {
        *ret_done = false;
        for (size_t at = 0; at < len && len - at >= sizeof(struct nlmsghdr);) {
                struct nlmsghdr h;
                int32_t code;

                memcpy(&h, data + at, sizeof(h));
                if (h.nlmsg_len < sizeof(h) || h.nlmsg_len > len - at)
                        return -EBADMSG;
                if (h.nlmsg_type == NLMSG_ERROR) {
                        if (h.nlmsg_len < sizeof(h) + sizeof(code))
                                return -EBADMSG;
                        memcpy(&code, data + at + sizeof(h), sizeof(code));
                        if (code > 0 || code < -4095)
                                return -EBADMSG;
                        *ret_done = code < 0 || h.nlmsg_seq == seq;
                        if (*ret_done)
                                return code;
                }
                at += NLMSG_ALIGN(h.nlmsg_len);
        }
        return 0;
}

/* --- the socket ----------------------------------------------------------------------------------------- */

int netlink_open(int protocol) {
        const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);

        if (fd < 0)
                return -errno;
        /* an error need not repeat what it is about */
        (void) setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &(int){ 1 }, sizeof(int));
        return fd;
}

int netlink_send(int fd, const struct netlink_buf *b) {
        const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
        _Alignas(4) uint8_t reply[NETLINK_BYTES_MAX];
        bool done = false;

        if (b->full)
                return -EMSGSIZE;
        if (sendto(fd, b->data, b->len, 0, (const struct sockaddr *) &kernel, sizeof(kernel)) < 0)
                return -errno;
        while (!done) {
                /* the kernel has answered when the call above returns */
                const ssize_t n = recv(fd, reply, sizeof(reply), MSG_DONTWAIT | MSG_TRUNC);
                int r;

                if (n < 0)
                        return errno == EAGAIN ? -EIO : -errno;
                if ((size_t) n > sizeof(reply))
                        return -EBADMSG;
                r = netlink_reply(reply, (size_t) n, b->ack, &done);
                if (r < 0)
                        return r;
        }
        return 0;
}
