/*
 * http.h - one HTTP/1.1 request at a time, its answer read as it comes
 *
 * Heads and bodies are read by the strict parsers of netns/http.h. A connection serves one request. Redirects
 * are not followed: who asked decides.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "netns/http-body.h"
#include "runtime/agent/runner/stream.h"
#include "runtime/base/buf.h"

enum { HTTP_URL_BYTES_MAX = 8192, HTTP_EXTRA_MAX = 24, HTTP_VALUE_MAX = 2048 };

/** struct http_net - how servers are reached; strings borrowed from the environment, NULL: not set */
struct http_net {
        struct wire *wire;
        const char *https_proxy, *http_proxy, *no_proxy; /* "http://[user:password@]host:port" */
        bool own_authorities;                            /* SSL_CERT_FILE or SSL_CERT_DIR is set */
        uint64_t connect_ms;                             /* 0: 10 s */
};

/** struct http_url - what a URL says */
struct http_url {
        bool tls;
        struct host host;
        uint16_t port;
        const char *path; /* borrowed: path and query, may be empty or begin with '?' */
        size_t path_len;
};

/** struct http_extra - a header of a request */
struct http_extra {
        const char *name, *value; /* borrowed */
};

/** struct http_question - what is asked of a server; borrowed */
struct http_question {
        const char *method, *url;
        const struct http_extra
                *extra; /* terminated by a name that is NULL; values with control bytes are -EINVAL */
        const struct buf *content; /* NULL: none */
};

/** struct http_exchange - a request that was sent and its answer */
struct http_exchange {
        struct stream stream;
        struct http_body body;
        struct buf in; /* read from the server and not used */
        size_t used;   /* of it */
        bool eof;      /* of the server */
        unsigned int status;
        char content_type[HTTP_VALUE_MAX], retry_after[64], location[HTTP_VALUE_MAX], session[256];
};

/**
 * http_url_parse() - http and https, no user information; a fragment is left out
 * Return: 0, -EINVAL.
 */
int http_url_parse(const char *text, struct http_url *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * http_open() - send a request and read the head of the answer
 * @deadline_ns: for all of it
 * @ret:         zeroed by the caller; http_close() it in any case
 * Return: 0 (also for a status of failure), -EINVAL, -EPROTO (not HTTP, or TLS), -ETIMEDOUT, -ECONNRESET
 * (cut), -EPIPE (the launcher is gone), others of stream_connect().
 */
int http_open(const struct http_net *net, const struct http_question *q, uint64_t deadline_ns,
              struct http_exchange *ret, struct error *err) __attribute__((warn_unused_result));

/**
 * http_read() - the next bytes of the answer's body
 * Return: bytes, 0 when it is complete, -ECONNRESET (cut), -EPROTO, -ETIMEDOUT, -EPIPE.
 */
ssize_t http_read(struct http_exchange *x, void *buf, size_t size, uint64_t deadline_ns)
        __attribute__((warn_unused_result));

/** http_slurp() - what is left of the body. Return: 0, -EFBIG (more than @max; @out has that much), as
 * http_read(). */
int http_slurp(struct http_exchange *x, size_t max, uint64_t deadline_ns, struct buf *out)
        __attribute__((warn_unused_result));

/** http_close() - end the connection */
void http_close(struct http_exchange *x);
#define AUTO_HTTP CLEANUP(http_close)
