/*
 * server.h - what the modules of the FUSE server share; private to fs/
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/guard.h"
#include "fs/holds.h"
#include "fs/node.h"
#include "fs/notice.h"
#include "fs/quota.h"
#include "fs/sole.h"
#include "fs/trim.h"
#include "fs/watch.h"
#include "fs/workers.h"

struct streams;

/** struct upper_gauge - what is known of a region's upper without looking */
struct upper_gauge {
        atomic_bool used;           /* false: it is empty, nothing has to be looked up in it */
        atomic_uint_fast32_t epoch; /* changes when directories appear in it or go; never 0 */
};

/** struct idmap - who the caller is, outside and inside */
struct idmap {
        uid_t host_uid, inside_uid, foreign_uid;
        gid_t host_gid, inside_gid, foreign_gid;
        gid_t *groups; /* supplementary, owned */
        size_t n_groups;
};

enum { SERVER_IO_MAX = 1 << 20 };

/**
 * struct server - one mounted file system
 *
 * Locks, in this order: those of watch.h, @domains from the first on, then the table's, then those of rules,
 * streams and notices (leaves). "The tree is held" means the domain of the node in question, see holds.h;
 * requests on open handles hold nothing.
 */
struct server {
        const struct guard_config *config;
        struct table *table;
        struct rules **rules;       /* per region; entries borrowed */
        struct slots handles;       /* under the table's lock */
        struct upper_gauge *gauges; /* per region */
        char **hosts; /* per region: absolute path of its root when it is the same inside and has no base,
                         else NULL */
        struct streams *streams; /* owned */
        struct watch watch;
        struct notices notices;
        struct quota quota;
        struct idmap ids;
        pthread_rwlock_t domains[NODE_DOMAINS_MAX]; /* holds.h */
        pthread_key_t worker;                       /* struct worker of this thread */
        struct workers workers;
        struct trim trim;
        struct sole sole;
        struct fuse_session *session;
        double timeout_s;             /* of what is shared */
        bool no_opendir;              /* the kernel can do without OPENDIR */
        atomic_uint_fast64_t init;    /* unique number of the INIT request until it is answered, else 0 */
        atomic_uint_fast32_t offered; /* its flags */
};

static inline const struct region *server_region(const struct server *s, uint32_t index) {
        return &s->config->regions[index];
}

/** server_copies() - whether all changes of the region go to its upper */
static inline bool server_copies(const struct server *s, uint32_t index) {
        return region_kind_copies(s->config->regions[index].kind);
}

/** server_store() - a descriptor on the file system that what is written goes to */
static inline int server_store(const struct server *s, uint32_t index) {
        const struct region *region = server_region(s, index);

        return server_copies(s, index) && region->upper_fd >= 0 ? region->upper_fd : region->root_fd;
}

/**
 * server_init() - a server that answers @fuse_fd (consumed) when asked to; guard_serve() without the threads
 * Return: 0, -errno. server_deinit() is due in any case.
 */
int server_init(struct server *s, const struct guard_config *config, int fuse_fd, struct error *err)
        __attribute__((warn_unused_result));
void server_deinit(struct server *s);
