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
                        if (n == o.n)
                                assert_string_equal(hello.host.name, "a.example");
                        assert_false(hello.encrypted);
                }
                put(&o, "\x14\x03\x03\x00\x01\x01", 6); /* what follows is not looked at */
                assert_int_equal(parse(o.b, o.n, &(struct hello){ 0 }), 0);
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(hello_parse_finds_the_name_in_any_cut),
                cmocka_unit_test(hello_parse_sees_what_is_absent_or_hidden),
                cmocka_unit_test(hello_parse_refuses_names_that_are_no_hosts),
                cmocka_unit_test(hello_parse_refuses_two_readings),
                cmocka_unit_test(hello_parse_survives_every_wrong_byte),
                cmocka_unit_test(hello_parse_refuses_what_is_not_tls),
                cmocka_unit_test(hello_parse_has_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
