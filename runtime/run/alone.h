/*
 * alone.h - a run whose workspace is exclusive: no other run that lives may write there
 */
#pragma once

#include "drivers/driver.h"
#include "runtime/run/state.h"

/** struct alone - what was found out */
struct alone {
        int lock_fd;   /* owned; held until the run can be found by others, -1: none */
        char why[256]; /* why it is not alone; "" when it is, or when nobody asked */
};
#define ALONE_INIT \
        { .lock_fd = -1 }

/**
 * alone_look() - look for another run of this user that writes in the workspace of @plan, when this is
 * exclusive Runs that start later are not kept out: the file server sees them write.
 * @dir:  the new run's, which has no state yet
 * @ret:  filled; alone_done() is due
 * Blocks while another exclusive run starts. Return: 0, -errno with a message.
 */
int alone_look(const struct ctx *ctx, const struct run_dir *dir, const struct driver_ops *driver,
               const struct driver_plan *plan, struct alone *ret, struct error *err)
        __attribute__((warn_unused_result));

/** alone_done() - the run has a state, or will have none: the next one may look. In whichever process. */
void alone_done(struct alone *a);
#define AUTO_ALONE __attribute__((cleanup(alone_done)))
