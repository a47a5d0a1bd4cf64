#include "netns/hello.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/cleanup.h"

enum {
        RECORD_BYTES_MAX = 16384,
        CIPHERTEXT_BYTES_MAX = RECORD_BYTES_MAX + 2048, /* of TLS 1.2; 256 more than a record since */
        TYPE_CHANGE_CIPHER_SPEC = 20,
        TYPE_ALERT = 21,
        TYPE_HANDSHAKE = 22,
        TYPE_APPLICATION_DATA = 23,
        HANDSHAKE_HELLO_REQUEST = 0,
        HANDSHAKE_CLIENT_HELLO = 1,
        HANDSHAKE_SERVER_HELLO = 2,
        MESSAGE_HEADER = 4,
        EXT_SERVER_NAME = 0,
        EXT_ECH = 0xfe0d,
        EXT_ESNI = 0xffce,
        EXTENSIONS_MAX = 128,
};

/* a piece of the message that is still to be read */
struct piece {
        const uint8_t *p;
        size_t len;
};

static int malformed(struct error *err) {
        return error_set(err, -EINVAL, "a malformed ClientHello");
}

static int take_number(struct piece *in, size_t bytes, size_t *ret) {
        size_t v = 0;

        if (in->len < bytes)
                return -EINVAL;
        for (size_t i = 0; i < bytes; i++)
                v = v << 8 | in->p[i];
        in->p += bytes;
        in->len -= bytes;
        *ret = v;
        return 0;
}

static int take_piece(struct piece *in, size_t len, struct piece *ret) {
        if (in->len < len)
                return -EINVAL;
        *ret = (struct piece){ in->p, len };
        in->p += len;
        in->len -= len;
        return 0;
}

/* A vector: its length in @bytes bytes, then the content. */
static int take_vector(struct piece *in, size_t bytes, struct piece *ret) {
        size_t len;

        if (take_number(in, bytes, &len) < 0)
                return -EINVAL;
        return take_piece(in, len, ret);
}

/*
 * Joins what the records carry into @out; @in: what is behind them afterwards.
 * Return: 0 when the message is whole, -EAGAIN, -EINVAL, -E2BIG.
 */
static int join_records(struct piece *rest, uint8_t *out, struct piece *ret, struct error *err) {
        struct piece in = *rest;
        size_t have = 0, want = 0;

        for (;;) {
                size_t type, version, len, n;

                if (in.len > 0 && in.p[0] != TYPE_HANDSHAKE)
                        return error_set(err, -EINVAL, "not TLS");
                if (in.len > 1 && in.p[1] != 3)
                        return error_set(err, -EINVAL, "not TLS");
                if (in.len < HELLO_RECORD_HEADER)
                        return -EAGAIN;
                (void) take_number(&in, 1, &type);
                (void) take_number(&in, 2, &version);
                (void) take_number(&in, 2, &len);
                if (len == 0 || len > RECORD_BYTES_MAX)
                        return malformed(err);
                n = len < in.len ? len : in.len;
                if (have + n > HELLO_BYTES_MAX)
                        n = HELLO_BYTES_MAX -
                            have; /* more than the message, or it is too large: seen below */
                memcpy(out + have, in.p, n);
                have += n;
                if (have > 0 && out[0] != HANDSHAKE_CLIENT_HELLO)
                        return error_set(err, -EINVAL, "TLS that does not begin with a ClientHello");
                if (have >= MESSAGE_HEADER)
                        want = MESSAGE_HEADER + ((size_t) out[1] << 16 | (size_t) out[2] << 8 | out[3]);
                if (want > HELLO_BYTES_MAX)
                        return error_set(err, -E2BIG, "a ClientHello of more than %d bytes", HELLO_BYTES_MAX);
                if (want > 0 && have - n + len > want)
                        return error_set(err, -EINVAL, "a ClientHello with more behind it in its record");
                if (in.len < len)
                        return -EAGAIN;
                in.p += len;
                in.len -= len;
                if (want > 0 && have == want) {
                        *ret = (struct piece){ out + MESSAGE_HEADER, want - MESSAGE_HEADER };
                        *rest = in;
                        return 0;
                }
        }
}

static int parse_server_name(struct piece ext, struct hello *hello, struct error *err) {
        struct piece list, name;
        size_t type;
        int r;

        if (take_vector(&ext, 2, &list) < 0 || ext.len > 0 || take_number(&list, 1, &type) < 0 || type != 0 ||
            take_vector(&list, 2, &name) < 0 || list.len > 0)
                return error_set(err, -EINVAL, "a server_name extension that does not hold one name");
        r = host_parse((const char *) name.p, name.len, &hello->host, err);
        if (r < 0)
                return error_wrap(err, r, "the server name (SNI)");
        if (hello->host.kind != HOST_NAME)
                return error_set(err, -EINVAL, "a server name (SNI) that is an address");
        hello->has_name = true;
        return 0;
}

static int parse_extensions(struct piece in, struct hello *hello, struct error *err) {
        uint16_t seen[EXTENSIONS_MAX];
        size_t n = 0;

        while (in.len > 0) {
                struct piece ext;
                size_t type;

                if (take_number(&in, 2, &type) < 0 || take_vector(&in, 2, &ext) < 0)
                        return malformed(err);
                for (size_t i = 0; i < n; i++) {
                        if (seen[i] == type)
                                return error_set(err, -EINVAL, "a ClientHello with an extension twice");
                }
                if (n == ARRAY_SIZE(seen))
                        return malformed(err);
                seen[n++] = (uint16_t) type;
                if (type == EXT_ECH || type == EXT_ESNI)
                        hello->encrypted = true;
                if (type == EXT_SERVER_NAME) {
                        const int r = parse_server_name(ext, hello, err);

                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int parse_body(struct piece in, struct hello *hello, struct error *err) {
        struct piece part, extensions;
        size_t version;

        if (take_number(&in, 2, &version) < 0 || version >> 8 != 3 || take_piece(&in, 32, &part) < 0)
                return malformed(err);
        if (take_vector(&in, 1, &part) < 0 || part.len > 32)
                return malformed(err); /* session id */
        if (take_vector(&in, 2, &part) < 0 || part.len < 2 || part.len % 2 != 0)
                return malformed(err); /* cipher suites */
        if (take_vector(&in, 1, &part) < 0 || part.len < 1)
                return malformed(err); /* compression methods */
        if (in.len == 0)
                return 0; /* before TLS 1.3 a hello without extensions is one */
        if (take_vector(&in, 2, &extensions) < 0 || in.len > 0)
                return malformed(err);
        return parse_extensions(extensions, hello, err);
}

int hello_parse(const uint8_t *buf, size_t len, struct hello *ret, struct error *err) {
        uint8_t joined[HELLO_BYTES_MAX];
        struct piece body, rest = { buf, len };
        struct hello hello = { .has_name = false };
        int r;

        r = join_records(&rest, joined, &body, err);
        if (r == -EAGAIN && len >= HELLO_WIRE_MAX)
                return error_set(err, -E2BIG, "a ClientHello in too many records");
        if (r == 0)
                r = parse_body(body, &hello, err);
        if (r < 0)
                return r;
        hello.wire_len = len - rest.len;
        *ret = hello;
        return 0;
}

bool hello_is_other(uint8_t type) {
        return type == TYPE_CHANGE_CIPHER_SPEC || type == TYPE_ALERT || type == TYPE_APPLICATION_DATA;
}

size_t hello_skip_others(const uint8_t *buf, size_t len) {
        struct piece in = { buf, len };

        for (;;) {
                const size_t used = len - in.len;
                struct piece record;
                size_t type, version;

                if (take_number(&in, 1, &type) < 0 || !hello_is_other((uint8_t) type) ||
                    take_number(&in, 2, &version) < 0 || take_vector(&in, 2, &record) < 0)
                        return used;
        }
}

/* --- the server ----------------------------------------------------------------------------------------- */

/* RFC 8446, 4.1.3: the random of a ServerHello that is a HelloRetryRequest */
static const uint8_t retry_random[32] = { 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
                                          0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
                                          0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c };

/* The start of what comes in pieces: its first @want bytes. Return: whether they are whole. */
static bool take_start(struct piece *in, uint8_t *start, size_t *n, size_t want) {
        while (*n < want && in->len > 0) {
                start[(*n)++] = *in->p++;
                in->len--;
        }
        return *n == want;
}

static void take_record_header(struct hello_answer *a, struct piece *in) {
        const bool whole = take_start(in, a->header, &a->n_header, HELLO_RECORD_HEADER);
        const uint8_t *h = a->header;

        a->settled = (h[0] != TYPE_HANDSHAKE && h[0] != TYPE_CHANGE_CIPHER_SPEC && h[0] != TYPE_ALERT) ||
                     (a->n_header > 1 && h[1] != 3);
        if (!whole || a->settled)
                return;
        a->n_header = 0;
        a->record_left = (size_t) h[3] << 8 | h[4];
        a->settled = a->record_left > CIPHERTEXT_BYTES_MAX;
}

static void take_message_header(struct hello_answer *a, struct piece *in) {
        const uint8_t *m = a->message;

        if (!take_start(in, a->message, &a->n_message, MESSAGE_HEADER))
                return;
        a->message_left = (size_t) m[1] << 16 | (size_t) m[2] << 8 | m[3];
        if (m[0] == HANDSHAKE_HELLO_REQUEST && a->message_left == 0)
                a->n_message = 0; /* a client that has said hello does not mind it */
        else
                a->settled =
                        m[0] != HANDSHAKE_SERVER_HELLO || a->message_left < HELLO_RANDOM_END - MESSAGE_HEADER;
}

/* Messages may begin and end anywhere in a record. */
static void take_messages(struct hello_answer *a, struct piece in) {
        while (in.len > 0 && !a->settled) {
                const size_t before = in.len;
                size_t n;

                if (a->n_message < MESSAGE_HEADER) {
                        take_message_header(a, &in);
                        continue;
                }
                if (a->n_message < HELLO_RANDOM_END) {
                        if (take_start(&in, a->message, &a->n_message, HELLO_RANDOM_END)) {
                                a->settled = memcmp(a->message + HELLO_RANDOM_END - sizeof(retry_random),
                                                    retry_random, sizeof(retry_random)) != 0;
                                a->retries += !a->settled;
                        }
                        a->message_left -= before - in.len;
                } else {
                        n = a->message_left < in.len ? a->message_left : in.len;
                        in.p += n;
                        in.len -= n;
                        a->message_left -= n;
                }
                if (a->message_left == 0)
                        a->n_message = 0;
        }
}

void hello_answer_feed(struct hello_answer *answer, const uint8_t *buf, size_t len) {
        struct piece in = { buf, len };

        while (in.len > 0 && !answer->settled) {
                struct piece part = { in.p, 0 };

                if (answer->record_left == 0) {
                        take_record_header(answer, &in);
                        continue;
                }
                (void) take_piece(&in, answer->record_left < in.len ? answer->record_left : in.len, &part);
                answer->record_left -= part.len;
                if (answer->header[0] == TYPE_HANDSHAKE)
                        take_messages(answer, part);
        }
}
