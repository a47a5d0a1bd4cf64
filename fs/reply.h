/*
 * reply.h - answers to the kernel that several operations share
 */
#pragma once

#include <errno.h>

#include "fs/server.h"

/** reply_error() - @r is 0 or a negative errno */
static inline void reply_error(fuse_req_t req, int r) {
        (void) fuse_reply_err(req, -r);
}

/** reply_entry() - an entry, or the error; a lookup that the kernel did not take is given back */
static inline void reply_entry(fuse_req_t req, int r, const struct fuse_entry_param *e) {
        struct server *s = fuse_req_userdata(req);

        if (r < 0)
                reply_error(req, r);
        else if (fuse_reply_entry(req, e) < 0 && e->ino)
                node_forget(s->table, e->ino, 1);
}
