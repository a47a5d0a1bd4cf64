/*
 * relay.h - standard descriptors that lead out of the sandbox, handed to the command as pipes
 *
 * Whoever holds a descriptor can do more with it than read or write. A file: open it again for writing
 * through /proc/self/fd, change its mode up to set-uid, truncate it. A terminal: read what is typed for
 * somebody else, also from standard error, and turn its echo off. A socket, which is of the network it was
 * made in: connect it to another address. So these are read and written by the caller's process. What is left
 * is pipes, and unix stream sockets that are connected, which can be no other.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>

#include "runtime/base/error.h"

enum { RELAY_STREAMS = 3 };

/** struct relay_stream - one standard descriptor; file_fd -1: passed as it is */
struct relay_stream {
        int file_fd; /* the caller's, borrowed */
        bool live;   /* a terminal or socket: what is read from it cannot be given back */
        bool empty;  /* live input: nothing is in the pipe */
        int ours;    /* the other end of the pipe, owned; -1: ended */
        int theirs;  /* the command's end, owned */
        int error;   /* why nothing more could be written to the file, 0: it could */
};

/** struct relay - all of them */
struct relay {
        struct relay_stream streams[RELAY_STREAMS];
};
#define RELAY_STREAM_INIT \
        { .file_fd = -1, .ours = -1, .theirs = -1 }
#define RELAY_INIT                                                          \
        {                                                                   \
                { RELAY_STREAM_INIT, RELAY_STREAM_INIT, RELAY_STREAM_INIT } \
        }

/**
 * relay_init() - replace what leads out in @stdio by pipes; one for stdout and stderr if they are one
 * object
 * @stdio: -1: closed; entries that are replaced are borrowed from @ret
 * Return: 0, -EINVAL (a directory or a disk: it would lead out of the sandbox), -errno.
 */
int relay_init(struct relay *ret, int stdio[RELAY_STREAMS], struct error *err)
        __attribute__((warn_unused_result));

/** relay_drop_ours() - in the process that starts the command */
void relay_drop_ours(struct relay *r);
/** relay_drop_theirs() - in the caller's process, once the other has been forked; the end of the pipe of a
 * file that is stdin stays */
void relay_drop_theirs(struct relay *r);

/**
 * relay_poll() / relay_dispatch() - what to wait for, and what to do then
 * Return: for how many milliseconds at most: a terminal does not say when its job comes to the foreground;
 * -1: any time
 */
int relay_poll(const struct relay *r, struct pollfd fds[RELAY_STREAMS]);
void relay_dispatch(struct relay *r, const struct pollfd fds[RELAY_STREAMS]);

/** relay_drain() - when nobody is left to write: what is still in the pipes */
void relay_drain(struct relay *r);

/** relay_error() - whether something that the command said could not be written. Return: 0, or -errno with a
 * message. */
int relay_error(const struct relay *r, struct error *err);

/** relay_deinit() - close; what the command did not read of stdin is there for the caller's next program */
void relay_deinit(struct relay *r);
