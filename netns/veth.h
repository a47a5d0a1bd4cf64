/*
 * veth.h - a pair of interfaces between the host and a network namespace, with addresses of its own that
 * leave the host as the host's
 *
 * What it makes on the host ends by itself: the pair with the namespace that has its other end, the rules
 * with the socket that made them. Nothing has to be cleared up after a process that was killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "netns/addr.h"
#include "runtime/base/error.h"

/** enum - places for pairs: a /30 of 198.19.0.0/16 and a /64 each */
enum { VETH_PLACES = 16383 };

#define VETH_INSIDE "eth0" /* the other end */

/** struct veth - a pair, and what the namespace needs to know of it; no pointers: it may be sent as it is */
struct veth {
        char name[16];           /* of the host's end */
        uint32_t place;          /* 0..VETH_PLACES - 1 */
        struct addr near4, far4; /* the host's end; the other */
        struct addr near6, far6; /* only with @six */
        uint32_t six;            /* whether there is IPv6 */
};

/**
 * veth_hindrance() - why this process cannot have a pair that leads out of the host
 * Asks only, and changes nothing. Return: true with the reason in @out, and what to do about it.
 */
bool veth_hindrance(char *out, size_t size);

/**
 * veth_make() - a pair and the rules that lead from it out of the host
 * @first:    the place to try first; ones that are taken, or whose addresses have a route already, are
 * skipped
 * @netns_fd: the namespace that gets VETH_INSIDE, down and without addresses
 * @ret_fd:   owned by the caller: the rules live as long as it
 * Blocks only in the kernel. Return: 0, -EPERM, -EADDRNOTAVAIL (no place), -errno (message).
 */
int veth_make(uint32_t first, int netns_fd, struct veth *ret, int *ret_fd, struct error *err)
        __attribute__((warn_unused_result));

/** veth_join() - in the namespace: give VETH_INSIDE its addresses and the default routes. Return: 0, -errno.
 */
int veth_join(const struct veth *veth, struct error *err) __attribute__((warn_unused_result));
