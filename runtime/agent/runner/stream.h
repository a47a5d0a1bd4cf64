/*
 * stream.h - a connection to a server, plain or under TLS; waits by wire_poll()
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "netns/host.h"
#include "runtime/agent/runner/wire.h"
#include "runtime/base/error.h"

struct tls;

/** struct stream - fields are private to stream.c and tls*.c */
struct stream {
        struct wire *wire;    /* borrowed */
        int fd;               /* owned, -1: none */
        struct tls *tls;      /* owned, NULL: plain */
        bool own_authorities; /* the environment says whose certificates are trusted */
};

/**
 * stream_connect() - TCP to @host, trying its addresses one after the other
 * @deadline_ns: CLOCK_MONOTONIC
 * Names are looked up with c-ares (/etc/hosts, /etc/resolv.conf). Blocks.
 * Return: 0, -ENOENT (no such name), -ETIMEDOUT, -EPIPE (the launcher is gone), -errno of connect(2).
 */
int stream_connect(struct stream *s, const struct host *host, uint16_t port, uint64_t deadline_ns,
                   struct error *err) __attribute__((warn_unused_result));

/** stream_read() - Return: bytes, 0 at the end, -ETIMEDOUT, -EPIPE (the launcher is gone), -errno. */
ssize_t stream_read(struct stream *s, void *buf, size_t size, uint64_t deadline_ns)
        __attribute__((warn_unused_result));
/** stream_write() - all of it. Return: 0 or as stream_read(). */
int stream_write(struct stream *s, const void *data, size_t len, uint64_t deadline_ns)
        __attribute__((warn_unused_result));
/** stream_close() - for good; NULL-safe fields */
void stream_close(struct stream *s);
#define AUTO_STREAM CLEANUP(stream_close)

/** stream_wait() - until @events of the connection. Return: 0, -ETIMEDOUT, -EPIPE, -errno. */
int stream_wait(struct stream *s, short events, uint64_t deadline_ns) __attribute__((warn_unused_result));

/**
 * tls_start() - TLS 1.2 or later, the certificate checked for @host against the system's authorities
 * (SSL_CERT_FILE and SSL_CERT_DIR, else the places where distributions keep them)
 * Return: 0, -EPROTO (said in @err), -ENOTSUP (built without OpenSSL), as stream_read().
 */
int tls_start(struct stream *s, const struct host *host, uint64_t deadline_ns, struct error *err)
        __attribute__((warn_unused_result));
/** tls_read() - as stream_read() */
ssize_t tls_read(struct stream *s, void *buf, size_t size, uint64_t deadline_ns);
/** tls_write() - Return: bytes, or as stream_read(). */
ssize_t tls_write(struct stream *s, const void *data, size_t len, uint64_t deadline_ns);
/** tls_free() - Return: NULL. */
struct tls *tls_free(struct tls *tls);
