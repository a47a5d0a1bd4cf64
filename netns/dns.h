/*
 * dns.h - questions to the stub resolver, and its answers
 *
 * Only what the sandbox asks is read here; what servers outside answer is read by c-ares (record 012).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netns/addr.h"
#include "netns/host.h"

enum {
        DNS_MESSAGE_MAX = 512,   /* of an answer: needs no EDNS */
        DNS_QUESTION_MAX = 4096, /* longer questions are not read */
        DNS_TYPE_A = 1,
        DNS_TYPE_PTR = 12,
        DNS_TYPE_AAAA = 28,
        DNS_CLASS_IN = 1,
};

/** enum dns_rcode - RFC 1035, 4.1.1 */
enum dns_rcode {
        DNS_OK = 0,
        DNS_FORMERR = 1,
        DNS_SERVFAIL = 2,
        DNS_NXDOMAIN = 3,
        DNS_NOTIMP = 4,
        DNS_REFUSED = 5
};

/** struct dns_question - one question */
struct dns_question {
        uint16_t id;
        bool recursion; /* RD */
        uint16_t type, class;
        bool has_host;         /* the name is a host: host_parse() took it */
        struct host host;      /* @has_host */
        uint8_t wire[255 + 4]; /* name, type and class as asked, for the answer */
        size_t wire_len;       /* 0: there is no question to repeat */
};

/**
 * dns_question_parse() - read a query
 * A label with a dot in it is no host: it would look like two.
 * @ret: written on 0 and on -EINVAL
 * Return: 0; -EINVAL: not a query that is answered, *@ret_rcode says how to refuse it; -EBADMSG: no query at
 * all (shorter than a header, or an answer), not to be answered.
 */
int dns_question_parse(const uint8_t *buf, size_t len, struct dns_question *ret, enum dns_rcode *ret_rcode)
        __attribute__((warn_unused_result));

/**
 * dns_answer_write() - the answer to @q
 * @addrs: @n addresses; those of the family of q->type are given, as many as fit; rcode has to be DNS_OK for
 * any
 * @ttl:   seconds
 * @out:   room for DNS_MESSAGE_MAX bytes
 * Return: bytes.
 */
size_t dns_answer_write(const struct dns_question *q, enum dns_rcode rcode, const struct addr *addrs,
                        size_t n, uint32_t ttl, uint8_t *out);
