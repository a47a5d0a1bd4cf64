/*
 * watch.h - the server looks again at the sources of its regions, see guard.h (struct region)
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fs/pin.h"

struct server;

/** struct watched - what is known of a region's source */
struct watched {
        pthread_mutex_t lock;     /* one look at a time; the fields below but the atomic ones are under it */
        atomic_bool gone;         /* every request is answered with ESTALE */
        atomic_bool poked;        /* somebody has a reason to look */
        uint8_t stale;            /* looks for which lowers_look() has to tell; the thread's own */
        bool owed;                /* @change and @action still have to be told */
        int read_fd, write_fd;    /* of a file that was followed, owned, else -1; set with the tree held for
                                     writing */
        uint32_t told;            /* at most WATCH_TOLD_MAX times */
        const char *action;       /* static */
        struct pin_change change; /* the last difference; "" while there is none */
};

/** struct watch - of all regions, with a thread of its own: a path may lead over a file system that hangs */
struct watch {
        pthread_t thread;
        bool running;
        uint32_t interval_ms; /* between two looks at all regions */
        bool stop;            /* under @lock */
        pthread_mutex_t lock;
        pthread_mutex_t asking; /* one question to the supervisor at a time */
        pthread_cond_t wake;
        struct watched *regions; /* owned, one per region */
        atomic_bool any_gone;    /* at least one region is */
        atomic_bool any_poked;
};

enum { WATCH_TOLD_MAX = 32, WATCH_INTERVAL_MS = 1000, WATCH_OVERLAY_MS = 500, WATCH_GAP_MS = 50 };

/** watch_init() / watch_deinit() - Return: 0, -ENOMEM. */
int watch_init(struct server *s) __attribute__((warn_unused_result));
void watch_deinit(struct server *s);

/** watch_start() / watch_stop() - the thread, when there is a region to look at. stop() waits for it.
 * Return: 0, -EAGAIN (no more threads). */
int watch_start(struct server *s, struct error *err) __attribute__((warn_unused_result));
void watch_stop(struct server *s);

/**
 * watch_look() - look at a region's source now
 * A file that an editor has replaced is served from now on. The tree must not be held. Blocks (file system).
 * Return: 0, -ESTALE: it changed, and the region is not served any more.
 */
int watch_look(struct server *s, uint32_t region);

/**
 * watch_open() - a descriptor of the file of a file region that was followed; the tree must be held
 * Return: owned, -EBADF: none was followed, -EACCES.
 */
int watch_open(struct server *s, uint32_t region, int flags);

/** watch_poke() - have the thread look at a region's source soon, at most every WATCH_GAP_MS. Cheap. */
void watch_poke(struct server *s, uint32_t region);

/**
 * watch_refuses() - answer a request for a region that is not served any more
 * @request: of @size bytes, as the kernel gave it; @fd: where the answer goes
 * Return: whether it was answered.
 */
bool watch_refuses(struct server *s, const void *request, size_t size, int fd);
