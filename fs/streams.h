/*
 * streams.h - directories that are being read, kept between two requests
 *
 * The kernel does not open directories here (no round trip); a request names the node and an offset. Where
 * the last request stopped is remembered for a few directories; any other offset is reached anew.
 */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fs/names.h"

enum { STREAMS_MAX = 16, STREAM_BYTES = 32768 };

/** struct stream - one directory between two requests; owned by whoever took it */
struct stream {
        uint64_t node, host; /* number, and inode of its backing object: numbers are used again */
        off_t off;           /* where the next request goes on */
        int fd;              /* plain directory: open for reading; -1: @names is used */
        char *data;          /* plain: entries of the host that were not handed on yet, STREAM_BYTES */
        size_t at, len;
        struct names names; /* lower and upper together */
};

/** struct streams - the remembered ones */
struct streams {
        pthread_mutex_t lock;
        struct stream *slots[STREAMS_MAX];
        unsigned int next; /* slot to be used again */
};

/** streams_new() / streams_free() - Return: NULL when out of memory / NULL */
struct streams *streams_new(void);
struct streams *streams_free(struct streams *s);

/** streams_take() - the stream of (@node, @host) that stopped at @off, owned; NULL: none */
struct stream *streams_take(struct streams *s, uint64_t node, uint64_t host, off_t off);

/** streams_trim() - forget all (descriptors ran out) */
void streams_trim(struct streams *s);

/** streams_give() - remember; consumed, another one may be dropped for it */
void streams_give(struct streams *s, struct stream *stream);

/** stream_free() - accepts NULL. Return: NULL. */
struct stream *stream_free(struct stream *stream);
