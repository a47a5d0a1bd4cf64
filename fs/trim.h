/*
 * trim.h - an upper bound on what the server remembers: beyond it the kernel is asked to forget names
 */
#pragma once

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct server;

enum { TRIM_NODES_MAX = 1 << 19 /* about 160 MiB */ };

/**
 * struct trim - a thread of its own: the kernel takes a name back under the lock of its directory, which a
 * request that waits for a worker may hold
 */
struct trim {
        pthread_t thread;
        bool running;
        atomic_bool stop;
        atomic_bool busy;
        sem_t wake;
        uint64_t hand; /* where the next round begins; of the thread */
};

/** trim_start() / trim_stop() - the thread; without it (no more threads) nothing is bounded. stop() waits for
 * it. */
void trim_start(struct server *s);
void trim_stop(struct server *s);

/** trim_check() - whether there is too much; wakes the thread then. Locks the table; cheap. */
void trim_check(struct server *s);
