/*
 * hello.h - the server name of a TLS ClientHello, and whether the server asks for another one, read without
 * terminating TLS
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
        HELLO_RECORD_HEADER = 5,
        HELLO_RANDOM_END = 4 + 2 + 32, /* of a message: type, length, version, random */
};

/** struct hello - what a ClientHello says of whom it is for */
struct hello {
        bool has_name;    /* there is a server_name extension with one name */
        struct host host; /* @has_name: the name, canonical; never an address (RFC 6066) */
        bool encrypted;   /* encrypted_client_hello or its forerunner: the real name is another */
        size_t wire_len;  /* bytes of the stream that it takes: whole records */
};

/** struct hello_answer - what a server says to ClientHellos; zeroed: nothing yet */
struct hello_answer {
        size_t retries; /* HelloRetryRequests: so many more ClientHellos are to come, in the clear */
        bool settled;   /* no other one is asked for: a ServerHello, or no TLS at all */
        uint8_t header[HELLO_RECORD_HEADER], message[HELLO_RANDOM_END]; /* their starts, as they come */
        size_t n_header, n_message;
        size_t record_left, message_left; /* bytes that are still to come of what has begun */
};

/**
 * hello_parse() - read the ClientHello at the start of a stream
 * @buf: @len bytes so far; the message may be cut into any number of records, the last of which ends with it
 * (RFC 8446, 5.1): nothing is hidden behind it
 * @ret: written on success only
 * Return: 0; -EAGAIN (no message): more bytes are needed; -EINVAL: no ClientHello, or one that is malformed,
 * has an extension twice, or a name that is no host; -E2BIG: a limit above.
 */
int hello_parse(const uint8_t *buf, size_t len, struct hello *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * hello_is_other() - whether a record of @type may come between two ClientHellos
 * change_cipher_spec (RFC 8446, D.4), early data, alerts: none of them can hold a ClientHello.
 */
bool hello_is_other(uint8_t type);

/** hello_skip_others() - the whole records of those types at the start of @buf. Return: their bytes. */
size_t hello_skip_others(const uint8_t *buf, size_t len) __attribute__((warn_unused_result));

/**
 * hello_answer_feed() - the next @len bytes of the server
 * In any pieces and records. Once @answer->settled nothing is looked at any more.
 */
void hello_answer_feed(struct hello_answer *answer, const uint8_t *buf, size_t len);
