/*
 * http.h - one GET at a time with libcurl; who is asked, and what is told to whom, is decided here
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum { HTTP_URL_MAX = 8192, HTTP_REDIRECTS_MAX = 5 };

struct http;

/** struct http_options - borrowed */
struct http_options {
        bool insecure;       /* plain HTTP to any host */
        const char *ca_file; /* PEM of who is trusted, besides nobody; NULL: the system's */
};

/** struct http_request - borrowed */
struct http_request {
        const char *url;
        const char *accept;        /* header value; NULL: any */
        const char *authorization; /* header value; sent to the host of @url and to no other; NULL: none */
        const char *form;          /* body of a POST; NULL: GET */
        uint64_t from;             /* the first byte that is wanted */
        /* What arrives of an answer of 200 or 206. @whole: it is 200, from byte 0. Return: 0 or -errno, which
         * ends it. */
        int (*sink)(void *arg, const void *data, size_t len, bool whole);
        void *arg;
        unsigned int timeout_s; /* of all of it; 0: as long as something arrives */
};

/** struct http_reply - the last answer; strings owned */
struct http_reply {
        long status;
        char *challenge; /* values of WWW-Authenticate, joined by ", " */
        char *type;      /* Content-Type, without parameters */
        char *digest;    /* Docker-Content-Digest */
        char *elsewhere; /* HOST:PORT that answered, when a redirection led to another; NULL: it did not */
        unsigned int retry_after_s;
        bool plain_tls; /* the connection failed because the other side speaks no TLS */
};

/** http_new() - @options: borrowed, outlives it. Return: NULL: out of memory. */
struct http *http_new(const struct http_options *options) __attribute__((warn_unused_result));

/** http_free() - accepts NULL. Return: NULL. */
struct http *http_free(struct http *http);

/**
 * http_get() - ask, and follow redirections
 * @ret: caller frees with http_reply_deinit(), also after a failure
 * Plain HTTP is only spoken with this host, or with http_options.insecure. Blocks.
 * Return: 0 (whatever the status is), -EPERM (a scheme or host that is not allowed), -ECONNREFUSED,
 * -EHOSTUNREACH (no such name, no way), -ETIMEDOUT, -EPROTO (TLS or HTTP is violated), -ECANCELED, what @sink
 * said.
 */
int http_get(struct http *http, const struct http_request *request, struct http_reply *ret, struct error *err)
        __attribute__((warn_unused_result));

/** http_reply_deinit() - accepts a zeroed struct */
void http_reply_deinit(struct http_reply *reply);
#define AUTO_HTTP_REPLY __attribute__((cleanup(http_reply_deinit)))

/** host_is_loopback() - "localhost", 127.0.0.0/8 or [::1]; with or without ":PORT" */
bool host_is_loopback(const char *host);

/** http_escape() - append @s to a URL, percent-encoded. Return: as buf_add(). */
int http_escape(struct buf *out, const char *s) __attribute__((warn_unused_result));

static inline void auto_http(struct http **p) {
        *p = http_free(*p);
}
#define AUTO_HTTP __attribute__((cleanup(auto_http)))
