/*
 * dial.h - from a host that a policy allows to a connected socket
 *
 * The name is looked up once. Each address is decided by the policy and then connected to as it is: nothing
 * is looked up between the decision and the connection.
 */
#pragma once

#include <stdint.h>

#include "netns/policy.h"
#include "netns/resolver.h"

struct dial;

/** struct dialer - what all dials of a proxy share; borrowed by each */
struct dialer {
        struct loop *loop;
        struct resolver *resolver;
        const struct policy *policy;
        struct loop_queue next_queue; /* .ns: when the next address is tried beside the one before */
        struct loop_queue now_queue;  /* .ns 0 */
};

/** enum dial_end - how a dial ended */
enum dial_end {
        DIAL_OK,
        DIAL_REFUSED, /* by the policy: no address of the name may be dialled */
        DIAL_NO_NAME, /* the name could not be looked up */
        DIAL_FAILED,  /* no address could be connected to */
};

/** struct dial_result - the end of a dial */
struct dial_result {
        enum dial_end end;
        struct loop_watch *watch; /* DIAL_OK: its socket is connected, non-blocking, TCP_NODELAY; the callee
                                     owns the socket and has it watched by dial_take() */
        const char *why;          /* a phrase, unless DIAL_OK */
        bool late;                /* DIAL_NO_NAME, DIAL_FAILED: nobody answered in time */
        struct policy_verdict verdict; /* DIAL_REFUSED: of the first address */
        struct addr addr;              /* connected to, or refused */
};

typedef void (*dial_fn)(void *arg, const struct dial_result *result);

/**
 * dial_start() - look up and connect, without blocking
 * @verdict: policy_host() of @host and @port: POLICY_OK
 * @fn:      called once, never from within dial_start(); the dial is gone then
 * @ret:     for dial_cancel()
 * There is no time limit here: the caller has one for the whole request.
 * Return: 0, -EAGAIN (more names are being looked up than may be at the same time), -ENOMEM.
 */
int dial_start(struct dialer *dialer, const struct host *host, uint16_t port,
               const struct policy_verdict *verdict, dial_fn fn, void *arg, struct dial **ret)
        __attribute__((warn_unused_result));

/**
 * dial_take() - for dial_fn, after DIAL_OK and only once: watch the socket as @watch from now on
 * Return: 0 or -errno of epoll_ctl(2), the socket is not watched then.
 */
int dial_take(const struct dialer *dialer, const struct dial_result *result, struct loop_watch *watch,
              uint32_t events, loop_fn fn) __attribute__((warn_unused_result));

/** dial_cancel() - give up; NULL-safe */
void dial_cancel(struct dial *dial);
