/*
 * http-body.h - where a body ends, while its bytes pass by unchanged
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netns/http.h"

enum { HTTP_CHUNK_LINE_BYTES_MAX = 1024, HTTP_TRAILER_BYTES_MAX = 8192 };

/** struct http_body - position in a body; fields are private */
struct http_body {
        enum http_framing framing;
        uint64_t left; /* of the body (HTTP_LENGTH) or of the chunk */
        unsigned int state;
        unsigned int digits;
        size_t line; /* bytes of the line or of the trailer so far */
};

/** http_body_init() - at the start of the body of @head */
void http_body_init(struct http_body *body, const struct http_head *head);

/** http_body_done() - whether the body is complete; never for HTTP_TO_EOF */
bool http_body_done(const struct http_body *body);

/**
 * http_body_feed() - how many of the next @len bytes at @data are the body's
 * Chunks are read strictly: sizes in at most 15 hexadecimal digits, CR LF, no control bytes in extensions and
 * trailers.
 * @ret_used: 0..@len; less than @len means that the body is done
 * Return: 0, -EINVAL (not a chunked body; no more calls).
 */
int http_body_feed(struct http_body *body, const char *data, size_t len, size_t *ret_used)
        __attribute__((warn_unused_result));

/**
 * http_body_split() - http_body_feed() for who wants the data without the framing
 * @ret_used: 0..@len, bytes that are all of one kind; call again with the rest until the body is done
 * @ret_data: whether they are data; else they are sizes of chunks, their extensions or the trailer
 * Return: as http_body_feed().
 */
int http_body_split(struct http_body *body, const char *data, size_t len, size_t *ret_used, bool *ret_data)
        __attribute__((warn_unused_result));
