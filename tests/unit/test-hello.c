#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "netns/hello.h"
#include "runtime/base/cleanup.h"

enum { ROOM = 8 * HELLO_BYTES_MAX };

/* a message under construction */
struct out {
        uint8_t b[ROOM];
        size_t n;
};

static void put(struct out *o, const void *data, size_t len) {
        assert_true(o->n + len <= sizeof(o->b));
        if (len > 0)
                memcpy(o->b + o->n, data, len);
        o->n += len;
}

static void put_number(struct out *o, size_t v, size_t bytes) {
        for (size_t i = bytes; i > 0; i--)
                put(o, &(uint8_t){ (uint8_t) (v >> (8 * (i - 1))) }, 1);
}

static void put_ext(struct out *o, size_t type, const void *data, size_t len) {
        put_number(o, type, 2);
        put_number(o, len, 2);
        put(o, data, len);
}

static void put_sni(struct out *o, const char *name, size_t len) {
        struct out ext = { .n = 0 };

        put_number(&ext, len + 3, 2);
        put_number(&ext, 0, 1);
        put_number(&ext, len, 2);
        put(&ext, name, len);
        put_ext(o, 0, ext.b, ext.n);
}

/* A ClientHello with @exts (NULL: none at all) in records of at most @record bytes. */
static void make_hello(struct out *o, const struct out *exts, size_t record) {
        static const uint8_t random[32] = { 7 };
        static struct out body, message;

        body.n = message.n = o->n = 0;
        put_number(&body, 0x0303, 2);
        put(&body, random, sizeof(random));
        put_number(&body, 32, 1);
        put(&body, random, sizeof(random));
        put_number(&body, 6, 2);
        put(&body, "\x0a\x0a\x13\x01\x13\x02", 6); /* the first is GREASE */
        put_number(&body, 0x0100, 2);
        if (exts) {
                put_number(&body, exts->n, 2);
                put(&body, exts->b, exts->n);
        }
        put_number(&message, 1, 1);
        put_number(&message, body.n, 3);
        put(&message, body.b, body.n);
        for (size_t at = 0; at < message.n; at += record) {
                const size_t n = message.n - at < record ? message.n - at : record;

                put_number(o, 22, 1);
                put_number(o, 0x0301, 2);
                put_number(o, n, 2);
                put(o, message.b + at, n);
        }
}

static int parse(const uint8_t *b, size_t n, struct hello *hello) {
        AUTO_FREE uint8_t *exact = malloc(n > 0 ? n : 1);

        assert_non_null(exact);
        if (n > 0)
                memcpy(exact, b, n);
        return hello_parse(exact, n, hello, NULL);
}

static void hello_parse_finds_the_name_in_any_cut(void **state) {
        static const size_t records[] = { 16384, 200, 50, 7, 3, 1 };
        static struct out exts, o;
        struct hello last;

        (void) state;
        exts.n = 0;
        put_ext(&exts, 0x2a2a, "", 0); /* GREASE */
        put_ext(&exts, 43, "\x04\x03\x04\x03\x03", 5);
        put_sni(&exts, "A.Example", 9);
        put_ext(&exts, 0x5a5a, "\0", 1);
        for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
                make_hello(&o, &exts, records[i]);
                for (size_t n = 0; n <= o.n; n++) {
                        struct hello hello = { .has_name = false };

                        assert_int_equal(parse(o.b, n, &hello), n < o.n ? -EAGAIN : 0);
                        assert_int_equal(hello.has_name, n == o.n);
                        if (n == o.n) {
                                assert_string_equal(hello.host.name, "a.example");
                                assert_int_equal(hello.wire_len, n);
                        }
                        assert_false(hello.encrypted);
                }
                put(&o, "\x14\x03\x03\x00\x01\x01", 6); /* what follows is not looked at */
                assert_int_equal(parse(o.b, o.n, &last), 0);
                assert_int_equal(last.wire_len, o.n - 6);
        }
}

static void hello_parse_sees_what_is_absent_or_hidden(void **state) {
        static struct out exts, o;
        struct hello hello;

        (void) state;
        make_hello(&o, NULL, 16384);
        assert_int_equal(parse(o.b, o.n, &hello), 0);
        assert_false(hello.has_name || hello.encrypted);
        exts.n = 0;
        make_hello(&o, &exts, 16384);
        assert_int_equal(parse(o.b, o.n, &hello), 0);
        assert_false(hello.has_name);
        put_sni(&exts, "a.example", 9);
        put_ext(&exts, 0xfe0d, "\0", 1);
        make_hello(&o, &exts, 16384);
        assert_int_equal(parse(o.b, o.n, &hello), 0);
        assert_true(hello.has_name && hello.encrypted);
        exts.n = 0;
        put_ext(&exts, 0xffce, "", 0);
        make_hello(&o, &exts, 16384);
        assert_int_equal(parse(o.b, o.n, &hello), 0);
        assert_true(hello.encrypted);
}

static void hello_parse_refuses_names_that_are_no_hosts(void **state) {
        static const struct {
                const char *name;
                size_t len;
        } names[] = {
                { "", 0 },
                { "a.example\0.b", 12 },
                { "a..example", 10 },
                { "127.0.0.1", 9 },
                { "2130706433", 10 },
                { "::1", 3 },
                { "a.example:443", 13 },
                { "*.example", 9 },
                { "a.example ", 10 },
        };
        static struct out exts, o;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                struct hello hello;

                exts.n = 0;
                put_sni(&exts, names[i].name, names[i].len);
                make_hello(&o, &exts, 16384);
                if (parse(o.b, o.n, &hello) != -EINVAL)
                        fail_msg("'%s'", names[i].name);
        }
}

static void hello_parse_refuses_two_readings(void **state) {
        static const uint8_t two_names[] = { 0,   20, 0, 0, 7,   'a', '.', 'e', 'x', 'a', 'm',
                                             'p', 0,  0, 7, 'b', '.', 'e', 'x', 'a', 'm', 'p' };
        static const uint8_t no_name[] = { 0, 0 }, other_type[] = { 0, 4, 1, 0, 1, 'a' },
                             tail[] = { 0, 4, 0, 0, 1, 'a', 0 };
        static struct out exts, o;
        struct hello hello;

        (void) state;
        exts.n = 0;
        put_sni(&exts, "a.example", 9);
        put_sni(&exts, "b.example", 9);
        make_hello(&o, &exts, 16384);
        assert_int_equal(parse(o.b, o.n, &hello), -EINVAL);
#define REFUSED(bytes)                                              \
        do {                                                        \
                exts.n = 0;                                         \
                put_ext(&exts, 0, bytes, sizeof(bytes));            \
                make_hello(&o, &exts, 16384);                       \
                assert_int_equal(parse(o.b, o.n, &hello), -EINVAL); \
        } while (0)
        REFUSED(two_names);
        REFUSED(no_name);
        REFUSED(other_type);
        REFUSED(tail);
}

/* Each length field one too large or too small: never a crash, never a name. */
static void hello_parse_survives_every_wrong_byte(void **state) {
        static struct out exts, o;

        (void) state;
        exts.n = 0;
        put_sni(&exts, "a.example", 9);
        make_hello(&o, &exts, 16384);
        for (size_t i = 0; i < o.n; i++) {
                for (int d = -1; d <= 1; d += 2) {
                        struct hello hello = { .has_name = false };
                        const uint8_t was = o.b[i];

                        o.b[i] = (uint8_t) (was + d);
                        if (parse(o.b, o.n, &hello) == 0 && hello.has_name)
                                assert_int_not_equal(hello.host.name[0], '\0');
                        o.b[i] = was;
                }
        }
}

static void hello_parse_refuses_what_is_not_tls(void **state) {
        static const char *const texts[] = { "GET / HTTP/1.1\r\n",    "SSH-2.0-x\r\n",
                                             "\x80\x2e\x01\x03\x01",  "\x16\x02\x01\x00\x05",
                                             "\x17\x03\x03\x00\x01x", "\x16\x03\x01\x00\x04\x02" };
        struct hello hello;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                const size_t len = strlen(texts[i]) > 5 ? strlen(texts[i]) : 6;

                if (parse((const uint8_t *) texts[i], len < 6 ? 6 : len, &hello) != -EINVAL)
                        fail_msg("row %zu", i);
        }
        assert_int_equal(parse((const uint8_t *) "\x16\x03\x01\x00\x00", 5, &hello), -EINVAL);
        assert_int_equal(parse((const uint8_t *) "\x16\x03\x01\x40\x01", 5, &hello), -EINVAL);
}

static void hello_parse_has_limits(void **state) {
        static uint8_t filler[HELLO_BYTES_MAX];
        static struct out exts, o;
        const size_t fixed = 4 + 2 + 32 + 33 + 8 + 2 + 2 + 4; /* all but the filler */
        struct hello hello;

        (void) state;
        for (size_t over = 0; over < 2; over++) {
                exts.n = 0;
                put_ext(&exts, 21, filler, HELLO_BYTES_MAX - fixed + over);
                make_hello(&o, &exts, 16384);
                assert_int_equal(parse(o.b, o.n, &hello), over ? -E2BIG : 0);
        }
        make_hello(&o, &exts, 1);
        assert_int_equal(parse(o.b, 2 * HELLO_WIRE_MAX, &hello), -E2BIG);
        exts.n = 0;
        put_ext(&exts, 21, filler, 8000);
        make_hello(&o, &exts, 1);
        assert_int_equal(parse(o.b, HELLO_WIRE_MAX - 1, &hello), -EAGAIN);
        assert_int_equal(parse(o.b, HELLO_WIRE_MAX, &hello), -E2BIG);
}

/* RFC 8446, 5.1. Goes red without the look at what is behind the message: a second one could hide there. */
static void hello_parse_refuses_more_in_the_last_record(void **state) {
        static struct out exts, o, two;

        (void) state;
        exts.n = two.n = 0;
        put_sni(&exts, "a.example", 9);
        make_hello(&o, &exts, 16384);
        for (size_t n = 1; n <= o.n - 5; n += o.n - 6) { /* a byte, or a whole message */
                two.n = 0;
                put(&two, o.b, 3);
                put_number(&two, o.n - 5 + n, 2);
                put(&two, o.b + 5, o.n - 5);
                put(&two, o.b + 5, n);
                assert_int_equal(parse(two.b, two.n, &(struct hello){ 0 }), -EINVAL);
        }
}

static void hello_skip_others_stops_at_a_handshake(void **state) {
        static const uint8_t in[] = { 20, 3,  3, 0, 1, 1, 23, 3, 3, 0, 2, 9,
                                      9,  21, 3, 3, 0, 0, 22, 3, 1, 0, 1, 1 };

        (void) state;
        for (size_t n = 0; n <= sizeof(in); n++)
                assert_int_equal(hello_skip_others(in, n), n < 6 ? 0 : n < 13 ? 6 : n < 18 ? 13 : 18);
        assert_true(hello_is_other(20) && hello_is_other(21) && hello_is_other(23));
        assert_false(hello_is_other(22) || hello_is_other(24) || hello_is_other('G'));
}

/* --- the server ----------------------------------------------------------------------------------------- */

/* echo -n HelloRetryRequest | sha256sum: RFC 8446, 4.1.3 */
static const uint8_t retry[32] = "\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
                                 "\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";

/* A message of @type with @random and @more bytes behind it, in records of at most @record bytes. */
static void put_message(struct out *o, size_t type, const uint8_t random[32], size_t more, size_t record) {
        static struct out message;

        message.n = 0;
        put_number(&message, type, 1);
        put_number(&message, 34 + more, 3);
        put_number(&message, 0x0303, 2);
        put(&message, random, 32);
        for (size_t i = 0; i < more; i++)
                put_number(&message, 2, 1); /* reads as the start of a ServerHello to whoever loses count */
        for (size_t at = 0; at < message.n; at += record) {
                const size_t n = message.n - at < record ? message.n - at : record;

                put_number(o, 22, 1);
                put_number(o, 0x0303, 2);
                put_number(o, n, 2);
                put(o, message.b + at, n);
        }
}

static struct hello_answer fed(const struct out *o, size_t piece) {
        struct hello_answer a = { .retries = 0 };

        for (size_t at = 0; at < o->n; at += piece) {
                const size_t n = o->n - at < piece ? o->n - at : piece;
                AUTO_FREE uint8_t *exact = malloc(n);

                assert_non_null(exact);
                memcpy(exact, o->b + at, n);
                hello_answer_feed(&a, exact, n);
        }
        return a;
}

/* A HelloRetryRequest, change_cipher_spec, another one, then a ServerHello: in any records, in any segments.
 */
static void hello_answer_counts_retries_in_any_cut(void **state) {
        static const size_t records[] = { 16384, 50, 38, 7, 1 }, pieces[] = { 16384, 100, 39, 5, 1 };
        static const uint8_t random[32] = { 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11 };
        static struct out o;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
                for (size_t k = 0; k < ARRAY_SIZE(pieces); k++) {
                        struct hello_answer a;

                        o.n = 0;
                        put(&o, "\x15\x03\x03\x00\x02\x01\x70", 7);         /* a warning goes before */
                        put(&o, "\x16\x03\x03\x00\x04\x00\x00\x00\x00", 9); /* and a HelloRequest */
                        put_message(&o, 2, retry, 50, records[i]);
                        put(&o, "\x14\x03\x03\x00\x01\x01", 6);
                        a = fed(&o, pieces[k]);
                        assert_int_equal(a.retries, 1);
                        assert_false(a.settled);
                        put_message(&o, 2, retry, 0, records[i]);
                        a = fed(&o, pieces[k]);
                        assert_int_equal(a.retries, 2);
                        assert_false(a.settled);
                        put_message(&o, 2, random, 50, records[i]);
                        put_message(&o, 2, retry, 50, records[i]); /* too late to mean anything */
                        a = fed(&o, pieces[k]);
                        assert_int_equal(a.retries, 2);
                        assert_true(a.settled);
                }
        }
}

static void hello_answer_settles_with_anything_else(void **state) {
        static const struct {
                const char *bytes;
                size_t len;
                bool want;
        } rows[] = {
                { "HTTP/1.1", 1, true },
                { "\x16\x02", 2, true },
                { "\x17\x03\x03\x00\x01x", 1, true },
                { "\x16\x03\x03\x48\x01", 5, true }, /* more than a record may have */
                { "\x16\x03\x03\x48\x00", 5, false },
                { "\x16\x03\x03\x00\x04\x0b\x00\x00\x09", 9, true },  /* a Certificate */
                { "\x16\x03\x03\x00\x04\x02\x00\x00\x21", 9, true },  /* too short for a random */
                { "\x16\x03\x03\x00\x04\x02\x00\x00\x22", 9, false }, /* just not */
                { "\x16\x03\x03\x00\x04\x00\x00\x00\x01", 9, true },  /* no HelloRequest */
                { "\x15\x03\x03\x00\x02\x02\x28", 7, false },
                { "\x16\x03\x03\x00\x00", 5, false },
                { "", 0, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct hello_answer a = { .retries = 0 };

                hello_answer_feed(&a, (const uint8_t *) rows[i].bytes, rows[i].len);
                if (a.settled != rows[i].want || a.retries != 0)
                        fail_msg("row %zu", i);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(hello_parse_finds_the_name_in_any_cut),
                cmocka_unit_test(hello_parse_sees_what_is_absent_or_hidden),
                cmocka_unit_test(hello_parse_refuses_names_that_are_no_hosts),
                cmocka_unit_test(hello_parse_refuses_two_readings),
                cmocka_unit_test(hello_parse_survives_every_wrong_byte),
                cmocka_unit_test(hello_parse_refuses_what_is_not_tls),
                cmocka_unit_test(hello_parse_has_limits),
                cmocka_unit_test(hello_parse_refuses_more_in_the_last_record),
                cmocka_unit_test(hello_skip_others_stops_at_a_handshake),
                cmocka_unit_test(hello_answer_counts_retries_in_any_cut),
                cmocka_unit_test(hello_answer_settles_with_anything_else),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
