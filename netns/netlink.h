/*
 * netlink.h - messages to the kernel's netlink, and its replies
 *
 * A buffer of fixed size takes one or more messages; what does not fit is found when they are sent, so that a
 * caller need not ask after each attribute. Replies are read apart from that, by bounds of their own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NETLINK_BYTES_MAX = 8192 };

/** struct netlink_buf - messages that are being written; zeroed: none */
struct netlink_buf {
        _Alignas(4) uint8_t data[NETLINK_BYTES_MAX];
        size_t len;
        size_t message; /* where the last one begins */
        uint32_t seq;   /* of the last one */
        uint32_t ack;   /* of the last one with NLM_F_ACK */
        bool full;      /* something did not fit */
};

/** netlink_begin() - a message of @type with NLM_F_REQUEST, @flags and the @len bytes of its fixed head */
void netlink_begin(struct netlink_buf *b, uint16_t type, uint16_t flags, const void *head, size_t len);

/** netlink_put() - an attribute of the last message */
void netlink_put(struct netlink_buf *b, uint16_t type, const void *data, size_t len);
/** netlink_put_text() - with its terminator */
void netlink_put_text(struct netlink_buf *b, uint16_t type, const char *text);
/** netlink_put_be16(), netlink_put_be32() - @v in host byte order */
void netlink_put_be16(struct netlink_buf *b, uint16_t type, uint16_t v);
void netlink_put_be32(struct netlink_buf *b, uint16_t type, uint32_t v);

/** netlink_nest() - attributes from here up to netlink_end() are inside of one of @type. Return: for
 * netlink_end(). */
size_t netlink_nest(struct netlink_buf *b, uint16_t type);
void netlink_end(struct netlink_buf *b, size_t nest);

/** netlink_open() - @protocol: NETLINK_*. Return: a socket, owned; -errno. */
int netlink_open(int protocol) __attribute__((warn_unused_result));

/**
 * netlink_send() - send all messages of @b and wait for what the kernel says of the last one with NLM_F_ACK
 * Return: 0; the first error that the kernel answers any of them with; -EMSGSIZE (full), -EBADMSG, -EIO (no
 * answer), -errno.
 */
int netlink_send(int fd, const struct netlink_buf *b) __attribute__((warn_unused_result));

/**
 * netlink_reply() - read replies
 * @seq:      the message whose acknowledgement is the end
 * @ret_done: whether it was there, or an error of any
 * Return: 0, the kernel's error, -EBADMSG.
 */
int netlink_reply(const uint8_t *data, size_t len, uint32_t seq, bool *ret_done)
        __attribute__((warn_unused_result));

/** struct netlink_attr - one attribute; @data is borrowed from the message */
struct netlink_attr {
        uint16_t type; /* without flags */
        const uint8_t *data;
        size_t len;
};

/** netlink_attr_next() - the attribute at *@at of @len bytes; moves *@at behind it. Return: whether there was
 * one that is whole. */
bool netlink_attr_next(const uint8_t *data, size_t len, size_t *at, struct netlink_attr *ret);
