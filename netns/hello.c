#include "netns/hello.h"

#include <errno.h>
#include <string.h>

#include "runtime/base/cleanup.h"

enum {
        RECORD_HEADER = 5,
        RECORD_BYTES_MAX = 16384,
        TYPE_HANDSHAKE = 22,
        HANDSHAKE_CLIENT_HELLO = 1,
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

/* Joins what the records carry into @out. Return: 0 when the message is whole, -EAGAIN, -EINVAL, -E2BIG. */
static int join_records(struct piece in, uint8_t *out, struct piece *ret, struct error *err) {
        size_t have = 0, want = 0;

        for (;;) {
                size_t type, version, len, n;

                if (in.len > 0 && in.p[0] != TYPE_HANDSHAKE)
                        return error_set(err, -EINVAL, "not TLS");
                if (in.len > 1 && in.p[1] != 3)
                        return error_set(err, -EINVAL, "not TLS");
                if (in.len < RECORD_HEADER)
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
                if (have >= 4)
                        want = 4 + ((size_t) out[1] << 16 | (size_t) out[2] << 8 | out[3]);
                if (want > HELLO_BYTES_MAX)
                        return error_set(err, -E2BIG, "a ClientHello of more than %d bytes", HELLO_BYTES_MAX);
                if (want > 0 && have >= want) {
                        *ret = (struct piece){ out + 4, want - 4 };
                        return 0;
                }
                if (in.len < len)
                        return -EAGAIN;
                in.p += len;
                in.len -= len;
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
        struct piece body;
        struct hello hello = { .has_name = false };
        int r;

        r = join_records((struct piece){ buf, len }, joined, &body, err);
        if (r == -EAGAIN && len >= HELLO_WIRE_MAX)
                return error_set(err, -E2BIG, "a ClientHello in too many records");
        if (r == 0)
                r = parse_body(body, &hello, err);
        if (r == 0)
                *ret = hello;
        return r;
}
