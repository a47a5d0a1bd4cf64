/*
 * uplink.h - --network open of root: an own network namespace and a way out of it (netns/veth.h)
 *
 * Anyone else, and root on a host that does not lend itself to it, has the host's network namespace then.
 */
#pragma once

#include <sys/types.h>

#include "drivers/native/plan.h"

/** struct uplink - the supervisor's part; embedded */
struct uplink {
        int rules_fd; /* what is made ends with it; -1: nothing is */
};
#define UPLINK_INIT \
        { .rules_fd = -1 }

/** uplink_plan() - fill @plan->uplink, or @plan->uplink_why. Return: 0, -ENOMEM. */
int uplink_plan(struct driver_plan *plan) __attribute__((warn_unused_result));

/**
 * uplink_start() - make the way out of the network namespace of @pid, and tell uplink_join() of it
 * @run_id: decides where to look for a place first
 * @sock:   the other end of uplink_join()'s
 * @ret:    after UPLINK_INIT; uplink_stop() is due in any case
 * Return: 0, -errno (message).
 */
int uplink_start(const char *run_id, pid_t pid, int sock, struct uplink *ret, struct error *err)
        __attribute__((warn_unused_result));

/** uplink_join() - in the namespace: wait for uplink_start(), and use what it made. Return: 0, -errno
 * (message). */
int uplink_join(int sock, struct error *err) __attribute__((warn_unused_result));

/** uplink_stop() - idempotent; the interfaces go with the namespace */
void uplink_stop(struct uplink *uplink);
