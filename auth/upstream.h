/*
 * upstream.h - requests to servers, with libcurl in the loop of the process
 *
 * https only, the server's name verified, HTTP/2 where it is offered, no redirect followed, no proxy, no
 * cookie, no file of the user's home. Every address is judged when its socket is made: that is the one that
 * is connected to, whatever a name server says afterwards. Connections are kept for later requests, but no
 * two requests share one at the same time: a client that does not read would stop the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "netns/addr.h"
#include "netns/loop.h"
#include "runtime/base/buf.h"
#include "runtime/base/error.h"

struct upstream;
struct transfer;

enum { UPSTREAM_ROUTES_MAX = 64, UPSTREAM_NETS_MAX = 64, UPSTREAM_HEAD_BYTES_MAX = 65536 };

/** struct upstream_route - an address that stands for a host, whatever name servers say */
struct upstream_route {
        char host[254]; /* lower case */
        struct addr addr;
        uint16_t port;
};

/** struct upstream_conf - what is configured about servers */
struct upstream_conf {
        const char *ca_file; /* borrowed while it is used; NULL: the system's */
        struct upstream_route routes[UPSTREAM_ROUTES_MAX];
        size_t n_routes;
        struct cidr nets[UPSTREAM_NETS_MAX]; /* special addresses that may be dialled all the same */
        size_t n_nets;
        uint64_t connect_ms;
};

/** struct upstream_request - borrowed during upstream_start() */
struct upstream_request {
        const char *host; /* a name, or an address (in brackets: IPv6) that may then be dialled */
        uint16_t port;
        const char *method;
        const char *target;        /* path and query, sent as they are */
        const struct buf *headers; /* "name: value" and a NUL for each */
        bool has_body;
        const char *body;   /* all of it, copied; NULL: it is pulled */
        int64_t body_bytes; /* -1: not known */
};

/** struct upstream_head - of an answer that is final; borrowed during the call */
struct upstream_head {
        unsigned int status;
        const struct buf *headers; /* as above: checked names and values */
        bool one_length;           /* Content-Length is there once, and no Transfer-Encoding */
        uint64_t length;
};

/**
 * struct transfer_ops - what becomes of a transfer; @arg as it was handed in
 * @head, @data and @pull may call nothing of upstream_*() and must not free what they are about.
 */
struct transfer_ops {
        /** head() - the answer begins. Return: 0, or -errno to end the transfer. */
        int (*head)(void *arg, const struct upstream_head *head);
        /** data() - Return: 0; -EAGAIN: not now, transfer_resume() has it called again with the same; -errno
         * to end the transfer. */
        int (*data)(void *arg, const char *data, size_t len);
        /** pull() - fill @data. Return: bytes, 0 at the end, -EAGAIN: not now; -errno to end the transfer. */
        ssize_t (*pull)(void *arg, char *data, size_t len);
        /** moved() - any of the above was called meanwhile; here the owner may be freed */
        void (*moved)(void *arg);
        /** ended() - @why: a phrase without a URL, NULL: the answer is complete. The transfer is gone. */
        void (*ended)(void *arg, const char *why);
};

/** upstream_new() - @conf: copied. Return: 0, -ENOMEM, -EINVAL. */
int upstream_new(struct loop *loop, const struct upstream_conf *conf, struct upstream **ret,
                 struct error *err) __attribute__((warn_unused_result));
struct upstream *upstream_free(struct upstream *upstream);

/** upstream_start() - nothing of @ops is called before the loop turns. Return: 0, -ENOMEM, -EINVAL. */
int upstream_start(struct upstream *upstream, const struct upstream_request *request,
                   const struct transfer_ops *ops, void *arg, struct transfer **ret)
        __attribute__((warn_unused_result));

/** transfer_resume() - both directions are tried again */
void transfer_resume(struct transfer *transfer);

/** transfer_cancel() - end it without a call of @ops; NULL-safe. Return: NULL. */
struct transfer *transfer_cancel(struct transfer *transfer);

/**
 * upstream_may_dial() - is an address one that a request may be sent to?
 * @pinned: an address that is configured for the host, NULL: none
 * Return: NULL, or what kind of address it is that may not be dialled, static.
 */
const char *upstream_may_dial(const struct upstream_conf *conf, const struct addr *addr,
                              const struct addr *pinned);
