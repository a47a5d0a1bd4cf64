/*
 * hello.h - the server name of a TLS ClientHello, read without terminating TLS
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "netns/host.h"
#include "runtime/base/error.h"

enum {
        HELLO_BYTES_MAX = 16384,              /* of the ClientHello itself */
        HELLO_WIRE_MAX = HELLO_BYTES_MAX * 2, /* with the headers of the records that it is cut into */
};

/** struct hello - what a ClientHello says of whom it is for */
struct hello {
        bool has_name;    /* there is a server_name extension with one name */
        struct host host; /* @has_name: the name, canonical; never an address (RFC 6066) */
        bool encrypted;   /* encrypted_client_hello or its forerunner: the real name is another */
};

/**
 * hello_parse() - read the ClientHello at the start of a stream
 * @buf: @len bytes so far; the message may be cut into any number of records (RFC 8446, 5.1)
 * @ret: written on success only
 * Return: 0; -EAGAIN (no message): more bytes are needed; -EINVAL: no ClientHello, or one that is malformed,
 * has an extension twice, or a name that is no host; -E2BIG: a limit above.
 */
int hello_parse(const uint8_t *buf, size_t len, struct hello *ret, struct error *err)
        __attribute__((warn_unused_result));
