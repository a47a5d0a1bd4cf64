/*
 * workers.h - the threads of the file server
 *
 * Few workers wait for requests at a time, the others for a turn: a request that is answered at once is best
 * answered by the thread that answered the one before. A worker that does not come back from a host call - a
 * disk, a server of the network - loses its turn to another; when all are away, more are started.
 */
#pragma once

#define FUSE_USE_VERSION 314

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include <fuse3/fuse_lowlevel.h>

struct server;

enum { WORKERS_FIRST = 6, WORKERS_MAX = 64 };

/** struct worker - one thread: its channel to the kernel and its buffers */
struct worker {
        struct server *server;
        pthread_t thread;
        int fd;
        struct fuse_buf request;
        char *reply;                 /* owned, SERVER_IO_MAX bytes, allocated at the first read */
        atomic_bool reads;           /* holds one of the turns */
        atomic_uint_fast32_t serial; /* of requests, twice; odd: answers one now */
        uint32_t seen;               /* @serial when it was last looked at */
        atomic_bool ended;
};

/** struct workers - all of them */
struct workers {
        struct worker list[WORKERS_MAX];
        unsigned int n;
        sem_t turns;
        pid_t pid, steward; /* of the process, and of the thread that called workers_run() */
        atomic_bool asleep; /* the steward waits to be woken */
};

/** workers_block_signals() - those that the steward waits for; before the first thread is made */
void workers_block_signals(sigset_t *ret);

/**
 * workers_run() - answer requests until the session is over
 * @fuse_fd: the session's, borrowed
 * SIGTERM and SIGHUP end the service: the file system is cut off from its requests, those being answered
 * included. Blocks. Return: 0; -EBUSY, -EINTR: there are threads left that use @s: the process has to end;
 * -errno.
 */
int workers_run(struct server *s, int fuse_fd) __attribute__((warn_unused_result));

/** server_answer() - read one message and answer it; @w is this thread's value of server.worker. Blocks.
 * Return: above 0, 0: the session is over, -errno. */
int server_answer(struct worker *w);

/** server_reply_buffer() - SERVER_IO_MAX bytes of the calling worker's own; NULL when out of memory */
char *server_reply_buffer(struct server *s);

/** server_yield_turn() - the request under way may take long: another worker waits for the next one meanwhile
 */
void server_yield_turn(struct server *s);
