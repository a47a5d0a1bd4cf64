/*
 * stream.h - bytes to and from a client, in clear or in TLS; nothing here blocks
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/error.h"

struct stream_tls;

/** struct stream - one connection; fields are private */
struct stream {
        int fd;                /* borrowed */
        void *ssl;             /* owned; NULL: in clear */
        bool read_wants_write; /* TLS has to send before it can give more bytes */
        bool write_wants_read; /* TLS has to receive before it can take more bytes */
        bool broken;           /* TLS failed: the connection is not used any more */
};

/**
 * stream_tls_new() - a server certificate
 * @cert: file with the chain, @key: file with the key, both PEM
 * Return: 0, -EINVAL (a file that cannot be read or does not fit; the message names it), -ENOMEM.
 */
int stream_tls_new(const char *cert, const char *key, struct stream_tls **ret, struct error *err)
        __attribute__((warn_unused_result));
struct stream_tls *stream_tls_free(struct stream_tls *tls);

/**
 * stream_ca_check() - whether @file has certificates of authorities (PEM)
 * Return: 0, -EINVAL (it cannot be read, or has none; the message names it), -ENOMEM.
 */
int stream_ca_check(const char *file, struct error *err) __attribute__((warn_unused_result));

/** stream_init() - @fd: connected, non-blocking; @tls: NULL: in clear. Return: 0, -ENOMEM. */
int stream_init(struct stream *s, int fd, const struct stream_tls *tls) __attribute__((warn_unused_result));

/** stream_deinit() - does not close the descriptor */
void stream_deinit(struct stream *s);

/** stream_read() - Return: bytes; 0: end of file; -EAGAIN; -errno. */
ssize_t stream_read(struct stream *s, void *data, size_t len) __attribute__((warn_unused_result));

/** stream_write() - Return: bytes, at least 1; -EAGAIN (the next call continues with the same bytes); -errno.
 */
ssize_t stream_write(struct stream *s, const void *data, size_t len) __attribute__((warn_unused_result));

/** stream_shutdown() - nothing more will be written */
void stream_shutdown(struct stream *s);

/** stream_events() - what epoll has to wait for when the caller wants to read or to write */
uint32_t stream_events(const struct stream *s, bool want_read, bool want_write);

/** stream_pending() - bytes were received that epoll does not tell of */
bool stream_pending(const struct stream *s);
