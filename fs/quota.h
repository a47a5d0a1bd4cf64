/*
 * quota.h - what the uppers of one server may hold together
 *
 * Only growth is noted: each request that may make an upper grow is counted with the most it can add. When
 * the sum reaches the limit the uppers are looked at anew, with what is open and has no name any more, and
 * what was freed meanwhile - deleted, truncated, punched, replaced - is free. So the limit holds whatever is
 * forgotten, and nothing has to be remembered of what was freed.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

/** struct quota - under its own lock, a leaf; max 0: unlimited */
struct quota {
        pthread_mutex_t lock;
        uint64_t bytes_max, inodes_max;
        uint64_t bytes, inodes;        /* at most this much is held */
        _Atomic int64_t full_since_ns; /* monotonic: when counting found no room; 0: there was, or may be */
        bool told;
};

enum {
        QUOTA_BYTES_PER_INODE = 4096, /* of the limit in bytes, where none is given for inodes */
        QUOTA_RECOUNT_MS = 200 /* while it is full and nothing goes, looked at no more often than that */
};

/** quota_init() / quota_deinit() - server.config and the table must be there; counts what the uppers hold */
void quota_init(struct server *s);
void quota_deinit(struct server *s);

/**
 * quota_reserve() - ask before something in the upper of @region grows
 * @bytes: at most so many are added; @inodes: objects that are made
 * Tells the supervisor the first time there is no room. May look through all uppers. Return: 0, -EDQUOT.
 */
int quota_reserve(struct server *s, uint32_t region, uint64_t bytes, uint64_t inodes)
        __attribute__((warn_unused_result));

/** quota_reserve_node() - the same by number of a node */
int quota_reserve_node(struct server *s, uint64_t id, uint64_t bytes) __attribute__((warn_unused_result));

/** quota_freed() - something may take less now: looked at again when room is wanted */
void quota_freed(struct server *s);

/** quota_note() - what must not fail grew: a whiteout, without which nothing could be deleted */
void quota_note(struct server *s, uint32_t region, uint64_t inodes);
