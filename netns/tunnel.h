/*
 * tunnel.h - bytes between two sockets, in both directions, until both have ended
 *
 * Bytes go through a pipe with splice(2) and are never copied here. A pipe is borrowed from a pool only while
 * it holds bytes that the receiver has not taken yet: an idle tunnel has none, and usually one pipe serves
 * them all. When the pool is exhausted (many receivers that do not read) bytes are looked at in place
 * (MSG_PEEK), sent, and only what was sent is taken: slower, but without anything to keep.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "netns/loop.h"

enum {
        PIPES_MAX = 256,      /* that hold bytes at a time */
        PIPES_KEPT_MAX = 32,  /* empty ones kept for the next */
        PIPES_LARGE_MAX = 32, /* of a mebibyte: half of the pipe memory a user may have */
};

/** struct pipe - an empty pipe or one that a tunnel fills; fds are -1 when there is none */
struct pipe {
        int fds[2];
        bool large;
};

/** struct pipes - a pool; zeroed: empty */
struct pipes {
        struct pipe kept[PIPES_KEPT_MAX];
        size_t n_kept, n_out, n_large;
};

/** pipes_deinit() - close the empty pipes; those lent are their borrowers' */
void pipes_deinit(struct pipes *pipes);

/** struct tunnel_end - one socket and what was read from it but not sent to the other */
struct tunnel_end {
        struct loop_watch watch; /* first: events come with it */
        struct tunnel *tunnel;
        int fd; /* owned; as in the watch while that is active */
        struct pipe pipe;
        size_t in_pipe; /* bytes */
        bool eof;       /* nothing more comes from it */
        bool shut;      /* nothing more goes to it */
        bool hung_up;   /* both, as the kernel sees it: it reports that for ever */
        int broken;     /* errno: it takes nothing more; what it sent before goes to the other */
};

/** tunnel_fn - the tunnel has ended; @error: 0 or the errno that broke it. May free the tunnel. */
typedef void (*tunnel_fn)(struct tunnel *tunnel, int error);
/** tunnel_moved_fn - bytes moved: time to restart an idle timer */
typedef void (*tunnel_moved_fn)(struct tunnel *tunnel);

/** struct tunnel - two sockets; embedded in its owner */
struct tunnel {
        struct loop *loop;
        struct pipes *pipes;
        tunnel_fn ended;
        tunnel_moved_fn moved;
        struct tunnel_end ends[2];
        bool progress; /* in this turn */
};

/** tunnel_init() - no sockets yet */
void tunnel_init(struct tunnel *tunnel, struct loop *loop, struct pipes *pipes);

/** tunnel_deinit() - close both sockets and give the pipes back */
void tunnel_deinit(struct tunnel *tunnel);

/**
 * tunnel_send() - bytes for @to that were read elsewhere go before all others
 * Return: 0, -EPIPE and others of send(2), -EMFILE, -ENOBUFS (the receiver takes none and the pipe is too
 * small).
 */
int tunnel_send(struct tunnel *tunnel, struct tunnel_end *to, const void *data, size_t len)
        __attribute__((warn_unused_result));

/** tunnel_pending() - whether bytes for @to wait until it takes them */
bool tunnel_pending(struct tunnel_end *to);

/** tunnel_flush() - send what is pending for @to. Return: 0, -ENOBUFS (some is left), others of splice(2). */
int tunnel_flush(struct tunnel_end *to) __attribute__((warn_unused_result));

/**
 * tunnel_start() - from now on events of both sockets are the tunnel's
 * Both watches are active, both sockets non-blocking.
 */
void tunnel_start(struct tunnel *tunnel, tunnel_fn ended, tunnel_moved_fn moved);
