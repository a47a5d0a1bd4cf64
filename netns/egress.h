/*
 * egress.h - the process of the egress proxy, and what it says to the supervisor and is told
 *
 * The supervisor forks it with sockets that listen inside the sandbox's network namespace, and keeps the
 * other end of a SOCK_SEQPACKET pair. Messages are of fixed size; neither side believes the other's strings
 * to be terminated. When the supervisor's end is closed the process ends, and every connection with it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "netns/policy.h"
#include "netns/proxy.h"

enum {
        EGRESS_REASON_MAX = 128,
        EGRESS_RULE_MAX = 128,
        EGRESS_POLICY_BYTES_MAX = 4 << 20,   /* of the texts of a policy */
        EGRESS_RESOLV_BYTES_MAX = 256 << 10, /* of a resolv.conf */
};

/** enum egress_kind - kinds of notices */
enum egress_kind {
        EGRESS_BLOCKED,  /* a refusal (struct blocked) */
        EGRESS_REPLACED, /* the policy that was sent decides from now on */
        EGRESS_INVALID,  /* it does not compile, and the old one stays; @reason: why */
        EGRESS_RESOLV,   /* the host's resolv.conf is another one: wants egress_send_resolv_conf() */
        EGRESS_KIND_COUNT,
};

/** struct egress_notice - from the process to the supervisor; one message */
struct egress_notice {
        uint32_t kind; /* enum egress_kind */
        uint16_t port;
        uint16_t has_rule;
        uint64_t count;
        char host[256];
        char reason[EGRESS_REASON_MAX];
        char rule[EGRESS_RULE_MAX];
};

/** struct egress_socket - as for proxy_add_consume() */
struct egress_socket {
        enum proxy_socket kind;
        int fd;
};

/** struct egress_config - what the process is started with; all borrowed */
struct egress_config {
        enum network_mode mode;              /* allowlist or denylist */
        struct policy *policy;               /* owned by egress_run() from its call on */
        const char *token;                   /* NULL: only this sandbox can reach the sockets */
        const char *resolv_conf;             /* NULL: the host's */
        const struct egress_socket *sockets; /* owned by egress_run() from its call on */
        size_t n_sockets;
};

/**
 * egress_confine() - keep this process to what egress_run() needs, for good; call it before
 * @resolv_conf: NULL: the host's
 * Return: 0, or -errno (message).
 */
int egress_confine(const char *resolv_conf, struct error *err) __attribute__((warn_unused_result));

/**
 * egress_run() - be the egress process: serve until @control is closed on the other side
 * @control: non-blocking or not; borrowed
 * Notices that the supervisor does not read in time are dropped: it must not be able to stop the proxy, nor
 * the work to fill its memory. Their counts are lost, the refusals are not. Return: 0 after a regular end,
 * -errno (message).
 */
int egress_run(const struct egress_config *config, int control, struct error *err)
        __attribute__((warn_unused_result));

/**
 * egress_send_policy() - for the supervisor: have @rules decide from now on; answered by a notice
 * @preset: as for policy_new(), NULL: none
 * Return: 0, -E2BIG (EGRESS_POLICY_BYTES_MAX), -errno of memfd_create(2) and sendmsg(2).
 */
int egress_send_policy(int control, const char *preset, const char *const *rules, size_t n)
        __attribute__((warn_unused_result));

/**
 * egress_send_resolv_conf() - for the supervisor: hand over the text of the host's resolv.conf as it is now
 * @path: NULL: /etc/resolv.conf
 * Does not block, and so may not send it; the process asks again.
 * Return: 0, -EAGAIN (it does not read), -EFBIG (EGRESS_RESOLV_BYTES_MAX), -errno of what failed.
 */
int egress_send_resolv_conf(int control, const char *path) __attribute__((warn_unused_result));

/**
 * egress_recv() - for the supervisor: the next notice, with its strings terminated and its kind known
 * Blocks unless @control is non-blocking. Return: 0, -ECONNRESET (the process is gone), -EAGAIN, -EBADMSG,
 * -errno.
 */
int egress_recv(int control, struct egress_notice *ret) __attribute__((warn_unused_result));
