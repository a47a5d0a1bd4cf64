/*
 * sse.h - server-sent events out of bytes, whatever their cuts (WHATWG HTML, section 9.2)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"

enum { SSE_EVENT_BYTES_MAX = 8 * 1024 * 1024 };

/** struct sse - position in a stream; zero is its beginning; fields are private */
struct sse {
        struct buf line, data, event;
        bool cr;      /* the last byte was a CR: an LF after it belongs to it */
        bool any;     /* @data has a line */
        bool started; /* past the place of a byte order mark */
};

/** struct sse_event - one event; borrowed until the next call; @data NUL-terminated, may hold NUL */
struct sse_event {
        const char *event; /* "message" when it has no name */
        const char *data;
        size_t len;
};

/**
 * sse_feed() - take bytes up to and including the end of the next event
 * @ret_used:  0..@len; call again with the rest
 * @ret_event: filled when @ret_any
 * Return: 0, -E2BIG (an event is longer than SSE_EVENT_BYTES_MAX), -ENOMEM.
 */
int sse_feed(struct sse *s, const char *bytes, size_t len, size_t *ret_used, bool *ret_any,
             struct sse_event *ret_event) __attribute__((warn_unused_result));

/** sse_deinit() - frees what is kept */
void sse_deinit(struct sse *s);
#define AUTO_SSE CLEANUP(sse_deinit)
