/*
 * notice.h - what the guard held or refused, told once per path to the supervisor
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "fs/guard.h"

enum { NOTICES_MAX = 4096 };

/** struct notices - which notices were sent; bounded: what comes after NOTICES_MAX is counted only */
struct notices {
        pthread_mutex_t lock;
        uint64_t seed;
        uint64_t
                *seen; /* open addressing, 2 * NOTICES_MAX hashes, 0 = empty; owned, allocated at the first */
        uint32_t n;
        uint64_t counts[NOTICE_TYPE_COUNT];
        uint64_t dropped; /* not told: too many, or the socket was full */
};

/** notices_init() / notices_deinit() */
void notices_init(struct notices *n);
void notices_deinit(struct notices *n);

/** notice_send() - tell @fd whatever was told before. Never blocks. Return: false: the socket is full. */
bool notice_send(struct notices *n, int fd, const struct guard_notice *notice);

/**
 * notice_post() - count, and tell @fd when it is the first of this type and path
 * @fd: SOCK_SEQPACKET, -1: count only. Never blocks.
 */
void notice_post(struct notices *n, int fd, const struct guard_notice *notice);
