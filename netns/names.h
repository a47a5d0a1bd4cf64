/*
 * names.h - addresses that stand for names inside a sandbox, and lead nowhere else
 *
 * The stub resolver answers with one; when the work connects to it, the proxy knows what it asked for.
 */
#pragma once

#include <stdint.h>

#include "netns/addr.h"
#include "netns/host.h"

/* 198.18.0.0/15 and 2001:2::/48, which RFC 2544 and RFC 5180 keep for measurements between devices: no host
 * has one of them. The first address of each is the sandbox's own. */
#define NAMES_NET     0xc6120000U
#define NAMES_NETMASK 0xfffe0000U
#define NAMES_NET6    0x20, 0x01, 0x00, 0x02
enum {
        NAMES_MAX = 8192,
        NAMES_TTL_S = 60, /* of an answer with such an address */
};
/* twice as long nobody else gets the address: a clock and a queue may be late */
#define NAMES_KEEP_NS (2U * NAMES_TTL_S * UINT64_C(1000000000))

struct names;

/** names_new() - @ret: caller frees with names_free(). Return: 0, -ENOMEM. */
int names_new(struct names **ret) __attribute__((warn_unused_result));
struct names *names_free(struct names *names);

/** names_own() - the address of the sandbox itself in the IPv4 or IPv6 range */
struct addr names_own(bool six);

/**
 * names_address() - the address of @name
 * @name:   of HOST_NAME
 * @now_ns: clock_ns() or loop_now()
 * @ret:    one of IPv4 and one of IPv6
 * The address of either family is the name's alone for NAMES_KEEP_NS from the last answer or connection on.
 * After that it goes to another name when NAMES_MAX others are in use; the one that nobody has used the
 * longest is first. Return: 0, -ENOSPC (all are in use), -ENOMEM.
 */
int names_address(struct names *names, const struct host *name, uint64_t now_ns, struct addr ret[2])
        __attribute__((warn_unused_result));

/**
 * names_find() - the name that @addr stands for, which somebody connects to now
 * Return: borrowed until the next call of names_address(); NULL: none.
 */
const struct host *names_find(struct names *names, const struct addr *addr, uint64_t now_ns);
