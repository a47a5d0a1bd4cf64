/*
 * proxy.h - the egress proxy: CONNECT and absolute-form HTTP/1.x, decided by a policy
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "netns/blocked.h"
#include "netns/loop.h"
#include "netns/policy.h"
#include "netns/resolver.h"
#include "runtime/base/error.h"

struct proxy;

enum { PROXY_LISTENERS_MAX = 80, PROXY_PORTS_MAX = 64 };

/** enum proxy_socket - what comes in at a socket; all but the first are for programs that know of no proxy */
enum proxy_socket {
        PROXY_CLIENTS,    /* listens: clients of the proxy */
        PROXY_LED,        /* listens on all addresses: the address stands for a name (names.h) */
        PROXY_REDIRECTED, /* listens: SO_ORIGINAL_DST tells the address that was meant */
        PROXY_DNS,        /* datagrams: questions to the stub resolver */
        PROXY_DNS_TCP,    /* listens: the same */
        PROXY_UDP_LOG,    /* netlink: packets that were refused (udplog.h) */
        PROXY_SOCKET_COUNT
};

/** struct proxy_config - what a proxy is to do; 0 and NULL: the default */
struct proxy_config {
        const struct policy *policy;       /* borrowed, outlives the proxy or is replaced; never NULL */
        const char *token;                 /* required of every request; NULL: none is */
        const char *resolv_conf;           /* NULL: the host's */
        resolver_config_fn resolv_changed; /* with @arg; see struct resolver_config */
        size_t max_clients;                /* 0: half of the descriptors of this process, less a few */
        uint32_t head_ms;                  /* for a whole head or ClientHello; 10 s */
        uint32_t dial_ms;                  /* from the request to a connection; 15 s */
        uint32_t idle_ms;                  /* without a byte in either direction; 2 h */
        uint32_t half_ms;   /* the same for plain HTTP whose client has closed its side; 5 min */
        uint64_t report_ms; /* at most one report of the same refusal in this time; 10 s */
        blocked_fn blocked; /* never NULL */
        void *arg;          /* of @blocked and @resolv_changed */
};

/** struct proxy_stats - counters since the start */
struct proxy_stats {
        size_t clients; /* now */
        uint64_t accepted, blocked;
};

/**
 * proxy_new() - a proxy without a socket
 * The process ignores SIGPIPE from now on.
 * @loop:   borrowed, outlives the proxy
 * @config: copied; what it points to is borrowed
 * @ret:    caller frees with proxy_free(), which closes every connection and tells the last counts
 * Return: 0, -ENOMEM, -EIO (message).
 */
int proxy_new(struct loop *loop, const struct proxy_config *config, struct proxy **ret, struct error *err)
        __attribute__((warn_unused_result));
struct proxy *proxy_free(struct proxy *proxy);

/**
 * proxy_add_consume() - serve @fd, which may live in another network namespace
 * The stub resolver answers questions about names that are allowed on some port that leads here with an
 * address that stands for the name, and says that others do not exist. What connects to such an address is
 * decided by the name; what connects to another one by the address, or, where names could be allowed, by the
 * name that it says itself (SNI, Host), which is then looked up and dialled in place of the address.
 * Return: 0, -E2BIG (PROXY_LISTENERS_MAX, PROXY_PORTS_MAX), -ENOMEM, -errno.
 */
int proxy_add_consume(struct proxy *proxy, enum proxy_socket kind, int fd)
        __attribute__((warn_unused_result));

/** proxy_set_policy() - decide by @policy from now on, and end what it refuses. @policy: as in the
 * configuration. */
void proxy_set_policy(struct proxy *proxy, const struct policy *policy);

/** proxy_set_resolv_conf() - see resolver_set_config() */
void proxy_set_resolv_conf(struct proxy *proxy, int fd);

/** proxy_stats() - counters. */
struct proxy_stats proxy_stats(const struct proxy *proxy);
