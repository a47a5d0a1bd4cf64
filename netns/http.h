/*
 * http.h - heads of HTTP/1.x messages, read strictly and written anew
 *
 * There is one reading of a head or none (RFC 9112, without what it tolerates): lines end with CR LF, no bare
 * CR or LF, no folded lines, no blank before the colon, no control bytes, Content-Length once and in digits,
 * Transfer-Encoding once and "chunked" only, never both. What is sent on is written from the parsed form, so
 * that whoever reads it next sees what was decided on.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netns/host.h"
#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum {
        HTTP_HEAD_BYTES_MAX = 32768,
        HTTP_LINE_BYTES_MAX = 16384,
        HTTP_HEADERS_MAX = 100,
};

/** struct http_text - bytes of the head, borrowed, not terminated */
struct http_text {
        const char *s;
        size_t len;
};

/** struct http_header - one header line; @value without blanks around it */
struct http_header {
        struct http_text name, value;
};

/** enum http_framing - what follows the head */
enum http_framing {
        HTTP_NO_BODY,
        HTTP_LENGTH,  /* exactly so many bytes */
        HTTP_CHUNKED, /* http-body.h finds the end */
        HTTP_TO_EOF,  /* responses only */
};

/** struct http_head - what requests and responses have in common */
struct http_head {
        int minor; /* HTTP/1.minor: 0 or 1 */
        struct http_header headers[HTTP_HEADERS_MAX];
        size_t n_headers;
        enum http_framing framing;
        uint64_t length; /* HTTP_LENGTH: bytes */
        bool upgrade; /* "Upgrade: websocket" that "Connection" names: the only upgrade that is passed on */
};

/** enum http_form - how the request names its target */
enum http_form {
        HTTP_CONNECT,  /* CONNECT host:port */
        HTTP_ABSOLUTE, /* GET http://host/path */
        HTTP_ORIGIN,   /* GET /path, the host from Host */
};

/** struct http_request - a request's head; texts are borrowed from the parsed buffer */
struct http_request {
        struct http_head head;
        enum http_form form;
        struct http_text method;
        struct http_text
                path; /* path and query, may be empty or begin with '?' for HTTP_ABSOLUTE; no CONNECT */
        struct host host;
        uint16_t port;
        struct http_text authorization; /* Proxy-Authorization; .s NULL: none */
};

/** struct http_response - a response's head */
struct http_response {
        struct http_head head;
        unsigned int status; /* 100..599 */
        struct http_text reason;
};

/**
 * http_request_parse() - read the head at the start of @buf
 * @origin_port: the port of HTTP_ORIGIN requests whose Host has none; 0: such requests are refused
 * @ret_used:    bytes of the head, its empty line included
 *
 * The target and Host have to name the same host and port.
 * Return: 0; -EAGAIN (no message): more bytes are needed; -EINVAL: not a request that is passed on (status
 * 400); -E2BIG: a limit above. @ret is undefined unless 0.
 */
int http_request_parse(const char *buf, size_t len, uint16_t origin_port, struct http_request *ret,
                       size_t *ret_used, struct error *err) __attribute__((warn_unused_result));

/**
 * http_response_parse() - as http_request_parse(), for what a server answers
 * @method: of the request that is answered: HEAD has no body
 */
int http_response_parse(const char *buf, size_t len, struct http_text method, struct http_response *ret,
                        size_t *ret_used, struct error *err) __attribute__((warn_unused_result));

/**
 * http_request_write() - append the head to send on: origin form, Host from the canonical host, without
 * hop-by-hop headers and those that Connection names, with "Connection: close" (or the upgrade) Return: 0,
 * -ENOMEM, -E2BIG.
 */
int http_request_write(const struct http_request *request, struct buf *out)
        __attribute__((warn_unused_result));

/** http_response_write() - append the head to send back, likewise. Return: as http_request_write(). */
int http_response_write(const struct http_response *response, struct buf *out)
        __attribute__((warn_unused_result));

/** http_text_is() - whether @t is @word, in any case */
bool http_text_is(struct http_text t, const char *word);

/** http_header_is_hop() - whether header @name of @head is about one connection only: by its name, or because
 * Connection names it */
bool http_header_is_hop(const struct http_head *head, struct http_text name);
