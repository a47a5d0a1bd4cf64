/*
 * net.h - the network by name of one sandbox: the egress process (netns/egress.h) and its sockets
 *
 *   pid 1 --listening sockets of the sandbox's namespace--> egress process --> the host's network
 *                                       supervisor <--notices--+
 */
#pragma once

#include <jansson.h>

#include "drivers/driver.h"
#include "drivers/native/plan.h"

/* where the work finds the proxy, in its own network namespace */
#define NET_PROXY_PORT 3128
#define NET_PROXY_URL  "http://127.0.0.1:3128"

/** struct net - the process, as the supervisor sees it; embedded */
struct net {
        pid_t pid; /* 0: none */
        int pidfd;
        int control; /* of egress_run(), -1: none */
};
#define NET_INIT \
        { .pidfd = -1, .control = -1 }

/** net_wanted() - whether the plan's mode needs the process */
bool net_wanted(const struct driver_plan *plan);

/** net_own() - whether the sandbox has a network namespace of its own */
bool net_own(const struct driver_plan *plan);

/** net_plan() - mode, preset and rules, compiled. Return: 0, -EINVAL (a rule, with its position), -ENOMEM. */
int net_plan(struct driver_plan *plan, const struct spec *spec, struct error *err)
        __attribute__((warn_unused_result));

/** net_json() - for describe(); new reference, NULL: out of memory */
json_t *net_json(const struct driver_plan *plan);

/**
 * net_start() - fork the process
 * @listen_sock: SOCK_SEQPACKET: what net_listen() sends arrives there; borrowed
 * @ret: after NET_INIT; net_stop() is due in any case
 * Return: 0 or -errno.
 */
int net_start(const struct driver_plan *plan, int listen_sock, struct net *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * net_listen() - in the sandbox's network namespace, with loopback up: make the sockets and hand them out
 * And the rules that lead connections to them. Return: 0 or -errno (message).
 */
int net_listen(const struct driver_plan *plan, int listen_sock, struct error *err)
        __attribute__((warn_unused_result));

/** net_relay() - likewise: a socket for the relay of the run's tokens. Return: 0 or -errno. */
int net_relay(int relay_sock) __attribute__((warn_unused_result));

/** net_read() - pass the notices that are there on to @fn; never blocks */
void net_read(const struct net *net, void (*fn)(void *arg, const struct egress_notice *notice), void *arg);

/** net_stop() - end the process, after its last notices; idempotent */
void net_stop(struct net *net, void (*fn)(void *arg, const struct egress_notice *notice), void *arg);
