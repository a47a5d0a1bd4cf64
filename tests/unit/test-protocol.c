/*
 * test-protocol.c - versions, clamps and the answers that calls wait for
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/agent/protocol.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

static void hello_read_takes_the_lower_version(void **state) {
        static const struct {
                const char *data;
                int r, protocol;
        } rows[] = {
                { "{\"protocol\":1}", 0, 1 },
                { "{\"protocol\":2,\"tools\":[\"bash\"],\"features\":[\"mcp\"],\"version\":\"9\"}", 0, 2 },
                { "{\"protocol\":99,\"more\":{}}", 0, PROTOCOL_VERSION },
                { "{\"protocol\":9223372036854775807}", 0, PROTOCOL_VERSION },
                { "{}", -EBADMSG, 0 },
                { "[]", -EBADMSG, 0 },
                { "{\"protocol\":0}", -EBADMSG, 0 },
                { "{\"protocol\":-2}", -EBADMSG, 0 },
                { "{\"protocol\":\"2\"}", -EBADMSG, 0 },
                { "{\"protocol\":2.5}", -EBADMSG, 0 },
                { "{\"protocol\":2,\"tools\":{}}", -EBADMSG, 0 },
                { "{\"protocol\":2,\"tools\":[1]}", -EBADMSG, 0 },
                { "{\"protocol\":2,\"features\":\"mcp\"}", -EBADMSG, 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                AUTO_JSON json_t *data = json_loads(rows[i].data, 0, NULL);
                CLEANUP(hello_deinit) struct hello h = { 0 };

                assert_int_equal(hello_read(data, &h, NULL), rows[i].r);
                assert_int_equal(h.protocol, rows[i].protocol);
        }
}

static void hello_json_is_read_back(void **state) {
        static const char *const tools[] = { "bash", "glob", NULL }, *const features[] = { "mcp", NULL };
        AUTO_JSON json_t *data = hello_json(tools, features);
        CLEANUP(hello_deinit) struct hello h = { 0 };

        (void) state;
        assert_int_equal(hello_read(data, &h, NULL), 0);
        assert_int_equal(h.protocol, PROTOCOL_VERSION);
        assert_int_equal(json_array_size(h.tools), 2);
        assert_true(hello_has(&h, "mcp"));
        assert_false(hello_has(&h, "mc"));
}

static void text_json_keeps_what_it_can(void **state) {
        static const struct {
                const char *in;
                size_t len, max;
                const char *out;
        } rows[] = {
                { "plain\nlines", 11, 11, "plain\nlines" },
                { "caf\xc3\xa9", 5, 5, "caf\xc3\xa9" },
                { "caf\xc3\xa9", 5, 4, "caf\n[2 bytes cut]" },
                { "\xff\xfe", 2, 100, "\\xff\\xfe" },
                { "a\xc3", 2, 100, "a\\xc3" },
                { "\xed\xa0\x80", 3, 100, "\\xed\\xa0\\x80" },
                { "\xf5", 1, 3, "\n[1 bytes cut]" },
                { "abcdef", 6, 0, "\n[6 bytes cut]" },
                { "", 0, 0, "" },
        };
        AUTO_JSON json_t *nul = text_json("a\0b", 3, 3);

        (void) state;
        assert_int_equal(json_string_length(nul), 3);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                AUTO_JSON json_t *text = text_json(rows[i].in, rows[i].len, rows[i].max);

                assert_string_equal(json_string_value(text), rows[i].out);
        }
}

/* A text of @len bytes. */
static json_t *bulk(size_t len) {
        AUTO_FREE char *text = malloc(len + 1);

        assert_non_null(text);
        memset(text, 'x', len);
        return json_stringn(text, len);
}

static size_t length(const json_t *object, const char *key) {
        return json_string_length(json_object_get(object, key));
}

static void clamp_event_keeps_numbers(void **state) {
        AUTO_JSON json_t *payload =
                json_pack("{s:i,s:o,s:o,s:[o],s:s}", "input_size", 5 << 20, "fits", bulk(CLAMP_TEXT_MAX),
                          "over", bulk(CLAMP_TEXT_MAX + 1), "list", bulk(CLAMP_TEXT_MAX), "tool", "bash");
        AUTO_JSON json_t *out = clamp_event(payload);
        const json_t *omitted =
                json_object_get(json_object_get(out, "list"), "_iterion_sandbox_relay_omitted_bytes");

        (void) state;
        assert_int_equal(json_integer_value(json_object_get(out, "input_size")), 5 << 20);
        assert_int_equal(length(out, "fits"), CLAMP_TEXT_MAX);
        assert_int_equal(length(out, "over"), CLAMP_TEXT_MAX + strlen("\n[1 bytes cut]"));
        assert_int_equal(json_integer_value(omitted), CLAMP_TEXT_MAX + 4);
        assert_int_equal(length(payload, "over"), CLAMP_TEXT_MAX + 1); /* the caller's is as it was */
}

static void clamp_event_drops_bulk_of_the_sum(void **state) {
        AUTO_JSON json_t *payload =
                json_pack("{s:i,s:o,s:o,s:o,s:o,s:b,s:s}", "tokens", 7, "a", bulk(CLAMP_TEXT_MAX), "b",
                          bulk(CLAMP_TEXT_MAX), "c", bulk(CLAMP_TEXT_MAX), "d", bulk(CLAMP_TEXT_MAX), "ok", 1,
                          "tool", "bash");
        AUTO_JSON json_t *out = clamp_event(payload);

        (void) state;
        assert_true(clamp_bytes(out) < 4096);
        assert_int_equal(json_integer_value(json_object_get(out, "tokens")), 7);
        assert_true(json_is_true(json_object_get(out, "ok")));
        assert_string_equal(json_string_value(json_object_get(out, "tool")), "bash");
}

static void clamp_event_leaves_snapshots_whole_or_out(void **state) {
        (void) state;
        for (size_t over = 0; over < 2; over++) {
                /* with its quotes the text has the size */
                AUTO_JSON json_t *payload =
                        json_pack("{s:o}", "snapshot", bulk(CLAMP_SNAPSHOT_MAX - 2 + over));
                AUTO_JSON json_t *out = clamp_event(payload);

                assert_int_equal(length(out, "snapshot"), over ? 0 : CLAMP_SNAPSHOT_MAX - 2);
                assert_int_equal(json_integer_value(json_object_get(out, "snapshot_bytes")),
                                 CLAMP_SNAPSHOT_MAX + (json_int_t) over);
        }
}

static void pending_take_answers_once(void **state) {
        CLEANUP(pending_deinit) struct pending p = PENDING_INIT;
        char first[48], second[48];
        json_t *value;

        (void) state;
        assert_null(pending_take(&p, "call-1"));
        assert_null(pending_first(&p));
        assert_int_equal(pending_add(&p, "call-", json_integer(1), first), 0);
        assert_int_equal(pending_add(&p, "call-", json_integer(2), second), 0);
        assert_string_equal(first, "call-1");
        assert_string_equal(second, "call-2");
        value = pending_take(&p, second);
        assert_int_equal(json_integer_value(value), 2);
        json_decref(value);
        assert_null(pending_take(&p, second)); /* a second answer is dropped */
        assert_null(pending_take(&p, ""));
        assert_null(pending_take(&p, "call-01"));
        assert_string_equal(pending_first(&p), first);
}

static void pending_add_has_a_ceiling(void **state) {
        CLEANUP(pending_deinit) struct pending p = PENDING_INIT;
        char id[48];

        (void) state;
        for (int i = 0; i < PENDING_MAX; i++)
                assert_int_equal(pending_add(&p, "call-", NULL, id), 0);
        assert_int_equal(pending_add(&p, "call-", NULL, id), -EAGAIN);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(hello_read_takes_the_lower_version),
                cmocka_unit_test(hello_json_is_read_back),
                cmocka_unit_test(text_json_keeps_what_it_can),
                cmocka_unit_test(clamp_event_keeps_numbers),
                cmocka_unit_test(clamp_event_drops_bulk_of_the_sum),
                cmocka_unit_test(clamp_event_leaves_snapshots_whole_or_out),
                cmocka_unit_test(pending_take_answers_once),
                cmocka_unit_test(pending_add_has_a_ceiling),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
