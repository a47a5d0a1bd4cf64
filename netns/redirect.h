/*
 * redirect.h - a network namespace whose every way out leads to sockets of ours
 */
#pragma once

#include <stdbool.h>

#include "runtime/base/error.h"

/** struct redirect - what was set up */
struct redirect {
        int udp_log; /* a netlink socket: packets that were refused (udplog.h), owned by the caller */
        bool six;    /* IPv6 too */
};

/** enum - ports on 127.0.0.1 and ::1 that packets are led to; below 1024, so the work cannot take them */
enum { REDIRECT_TCP_PORT = 3, REDIRECT_DNS_PORT = 53 };

/**
 * redirect_setup() - in a network namespace of ours with its loopback up, with CAP_NET_ADMIN in it:
 * TCP to whatever address but the namespace's own is led to REDIRECT_TCP_PORT (SO_ORIGINAL_DST tells where it
 * went), UDP to port 53 to REDIRECT_DNS_PORT, and other UDP is refused with a port-unreachable and told to a
 * log. Every address has a route. Whoever has no CAP_NET_ADMIN in the user namespace that owns this network
 * namespace cannot change it.
 * @ret: written on success only
 * Return: 0, -errno of the kernel's answer (message).
 */
int redirect_setup(struct redirect *ret, struct error *err) __attribute__((warn_unused_result));
