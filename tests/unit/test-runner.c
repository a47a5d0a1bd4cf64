/* Parts of the runner: schemas, conversations, URLs, paths, output, events of the model, frames of MCP */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/agent/runner/http.h"
#include "runtime/agent/runner/mcp.h"
#include "runtime/agent/runner/messages.h"
#include "runtime/agent/runner/schema.h"
#include "runtime/agent/runner/session.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/json.h"

static json_t *parse(const char *text) {
        json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);

        assert_non_null(j);
        return j;
}

static void schema_check_accepts_and_rejects(void **state) {
        static const struct {
                const char *schema, *value;
                int want;
        } cases[] = {
                { "{}", "1", 0 },
                { "{\"type\":\"integer\"}", "1.0", 0 },
                { "{\"type\":\"integer\"}", "1.5", -EINVAL },
                { "{\"type\":[\"string\",\"null\"]}", "null", 0 },
                { "{\"type\":[\"string\",\"null\"]}", "1", -EINVAL },
                { "{\"enum\":[1,\"a\"]}", "\"a\"", 0 },
                { "{\"enum\":[1,\"a\"]}", "\"b\"", -EINVAL },
                { "{\"const\":{\"a\":1}}", "{\"a\":1}", 0 },
                { "{\"const\":{\"a\":1}}", "{\"a\":2}", -EINVAL },
                { "{\"required\":[\"a\"]}", "{}", -EINVAL },
                { "{\"required\":[\"a\"]}", "{\"a\":null}", 0 },
                { "{\"properties\":{\"a\":{\"type\":\"string\"}}}", "{\"a\":1}", -EINVAL },
                { "{\"additionalProperties\":false}", "{\"a\":1}", -EINVAL },
                { "{\"additionalProperties\":{\"type\":\"string\"}}", "{\"a\":1}", -EINVAL },
                { "{\"items\":{\"minimum\":2}}", "[2,3]", 0 },
                { "{\"items\":{\"minimum\":2}}", "[2,1]", -EINVAL },
                { "{\"minItems\":1}", "[]", -EINVAL },
                { "{\"maxItems\":1}", "[1,2]", -EINVAL },
                { "{\"maxLength\":2}", "\"abc\"", -EINVAL },
                { "{\"anyOf\":[{\"type\":\"string\"},{\"maximum\":3}]}", "4", -EINVAL },
                { "{\"anyOf\":[{\"type\":\"string\"},{\"maximum\":3}]}", "3", 0 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_JSON json_t *schema = parse(cases[i].schema), *value = parse(cases[i].value);
                struct error err = { 0 };

                if (schema_check(schema, value, &err) != cases[i].want)
                        fail_msg("%s of %s", cases[i].value, cases[i].schema);
                assert_int_equal(*err.msg != '\0', cases[i].want < 0);
        }
}

static void schema_check_stops_at_its_depth(void **state) {
        AUTO_JSON json_t *schema = json_object(), *value = json_integer(1);

        (void) state;
        for (int i = 0; i < SCHEMA_DEPTH_MAX + 1; i++) {
                json_t *outer = json_object(), *list = json_array();

                assert_int_equal(json_object_set_new(outer, "items", schema), 0);
                assert_int_equal(json_array_append_new(list, value), 0);
                schema = outer;
                value = list;
                assert_int_equal(schema_check(schema, value, NULL), i < SCHEMA_DEPTH_MAX ? 0 : -EINVAL);
        }
}

static void http_url_parse_reads_or_refuses(void **state) {
        static const struct {
                const char *text, *host, *path;
                unsigned int port;
                bool tls;
        } cases[] = {
                { "http://a/b?c#d", "a", "/b?c", 80, false },
                { "HTTPS://A.example:8443", "a.example", "", 8443, true },
                { "http://[::1]:9/", "::1", "/", 9, false },
                { "http://h?q", "h", "?q", 80, false },
                { "ftp://a/", NULL, NULL, 0, false },
                { "http://u:p@a/", NULL, NULL, 0, false },
                { "http:///x", NULL, NULL, 0, false },
                { "http://a b/", NULL, NULL, 0, false },
                { "http://a/\r\nX: y", NULL, NULL, 0, false },
                { "http://a:0/", NULL, NULL, 0, false },
                { "http://a:65536/", NULL, NULL, 0, false },
                { "", NULL, NULL, 0, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct http_url url = { 0 };
                struct error err = { 0 };
                const int r = http_url_parse(cases[i].text, &url, &err);

                if (r != (cases[i].host ? 0 : -EINVAL))
                        fail_msg("'%s': %d %s", cases[i].text, r, err.msg);
                if (r < 0)
                        continue;
                assert_string_equal(url.host.name, cases[i].host);
                assert_int_equal(url.port, cases[i].port);
                assert_int_equal(url.tls, cases[i].tls);
                assert_int_equal(url.path_len, strlen(cases[i].path));
                assert_memory_equal(url.path, cases[i].path, url.path_len);
        }
}

static void output_keeps_both_ends(void **state) {
        static const size_t sizes[] = {
                0, 1, OUTPUT_HALF, OUTPUT_HALF * 2, OUTPUT_HALF * 2 + 1, OUTPUT_HALF * 5 + 77
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
                for (size_t step = 1; step <= OUTPUT_HALF * 2; step = step * 37 + 3) {
                        AUTO_OUTPUT struct output o = { 0 };
                        AUTO_BUF struct buf text = { 0 };
                        AUTO_FREE char *all = malloc(sizes[i] + 1);

                        for (size_t k = 0; k < sizes[i]; k++)
                                all[k] = (char) ('a' + k % 23);
                        for (size_t at = 0; at < sizes[i]; at += step)
                                assert_int_equal(
                                        output_add(&o, all + at, sizes[i] - at < step ? sizes[i] - at : step),
                                        0);
                        assert_int_equal(output_text(&o, &text), 0);
                        if (sizes[i] <= OUTPUT_HALF * 2) {
                                assert_int_equal(text.len, sizes[i]);
                                assert_memory_equal(buf_cstr(&text), all, sizes[i]);
                        } else {
                                assert_memory_equal(text.data, all, OUTPUT_HALF);
                                assert_memory_equal(text.data + text.len - OUTPUT_HALF,
                                                    all + sizes[i] - OUTPUT_HALF, OUTPUT_HALF);
                                assert_non_null(strstr(text.data, " bytes cut]"));
                        }
                }
        }
}

static void work_path_stays_below(void **state) {
        static const struct {
                const char *path, *want;
        } cases[] = {
                { "a/b", "a/b" },  { "/w/d/a", "a" }, { "/w/d", "." }, { "/w/d/", "." },
                { "/w/dx", NULL }, { "/", NULL },     { "/w", NULL },
        };
        const struct tool_env env = { .work_fd = -1, .work_dir = "/w/d" };
        char longest[TOOL_PATH_MAX + 2];

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const char *got = work_path(&env, cases[i].path, NULL);

                assert_int_equal(got == NULL, cases[i].want == NULL);
                if (got)
                        assert_string_equal(got, cases[i].want);
        }
        memset(longest, 'x', sizeof(longest));
        longest[TOOL_PATH_MAX] = '\0';
        assert_non_null(work_path(&env, longest, NULL));
        longest[TOOL_PATH_MAX] = 'x';
        longest[TOOL_PATH_MAX + 1] = '\0';
        assert_null(work_path(&env, longest, NULL));
}

static void session_answer_needs_its_question(void **state) {
        AUTO_JSON json_t *m =
                parse("[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[{\"type\":"
                      "\"tool_use\","
                      "\"id\":\"q\",\"name\":\"ask_user\",\"input\":{}},{\"type\":\"tool_use\",\"id\":\"r\","
                      "\"name\":\"bash\",\"input\":{}}]}]");

        (void) state;
        assert_int_equal(session_answer(m, "other", "x"), -ENOENT);
        assert_int_equal(json_array_size(m), 2);
        assert_int_equal(session_answer(m, "q", "yes"), 0);
        assert_int_equal(json_array_size(m), 3);
        assert_int_equal(json_array_size(json_object_get(json_array_get(m, 2), "content")), 2);
}

static void session_split_never_parts_a_pair(void **state) {
        AUTO_JSON json_t *m = json_array();

        (void) state;
        for (int i = 0; i < 9; i++)
                assert_int_equal(
                        json_array_append_new(m, json_pack("{s:s,s:s}", "role", i % 2 ? "assistant" : "user",
                                                           "content", "x")),
                        0);
        for (size_t keep = 0; keep < 12; keep++) {
                const size_t at = session_split(m, keep);

                assert_true(at < 9);
                assert_true(at == 0 || at % 2 == 1);
        }
}

/* Feeds events to a stream. Return: of the last. */
static int feed(struct model_answer *a, const char *const *events) {
        struct model_stream *s = model_stream_new(a);
        int r = 0;

        for (; r == 0 && *events; events++)
                r = model_stream_event(s, *events, strlen(*events));
        (void) model_stream_free(s);
        return r;
}

static void model_stream_event_takes_the_order_of_the_api(void **state) {
        static const char start[] = "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5,"
                                    "\"output_tokens\":1}}}",
                          stop[] = "{\"type\":\"message_stop\"}",
                          block[] = "{\"type\":\"content_block_start\",\"index\":0,"
                                    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
                          text[] = "{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_"
                                   "delta\",\"text\":\"x\"}}",
                          end[] = "{\"type\":\"content_block_stop\",\"index\":0}",
                          error[] = "{\"type\":\"error\",\"error\":{\"type\":"
                                    "\"overloaded_error\",\"message\":\"m\"}}";
        static const struct {
                const char *events[8];
                int want;
        } cases[] = {
                { { start, block, text, end, stop }, 1 },
                { { start, stop }, 1 },
                { { stop }, -EPROTO },
                { { start, start }, -EPROTO },
                { { start, text }, -EPROTO },
                { { start, block, block }, -EPROTO },
                { { start, block, stop }, -EPROTO },
                { { start, end }, -EPROTO },
                { { start, block, end, text }, -EPROTO },
                { { start, error }, -ECANCELED },
                { { "[]" }, -EPROTO },
                { { "{\"type\":\"of_2030\"}", start, stop }, 1 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_ANSWER struct model_answer a = { 0 };

                assert_int_equal(feed(&a, cases[i].events), cases[i].want);
                assert_int_equal(*a.reason != '\0', cases[i].want < 0);
                assert_int_equal(a.content != NULL, cases[i].want == 1);
                if (cases[i].want == -ECANCELED)
                        assert_int_equal(a.status, 529);
        }
}

static void tool_schemas_are_tools(void **state) {
        (void) state;
        for (const char *const *name = tool_names(); *name; name++) {
                AUTO_JSON json_t *schema = tool_schema(*name);

                assert_true(tool_here(*name));
                assert_string_equal(arg_str(schema, "name", ""), *name);
                assert_string_equal(arg_str(json_object_get(schema, "input_schema"), "type", ""), "object");
        }
        assert_false(tool_here("todo_write"));
        assert_null(tool_schema("Bash"));
}

/* Red without the look at the clock, and at the launcher, in more(): bytes that are there are taken for ever.
 */
static void http_read_ends_at_its_time_though_there_is_more(void **state) {
        AUTO_HTTP struct http_exchange x = { .stream.fd = -1, .body.framing = HTTP_TO_EOF };
        AUTO_FD int peer = -1;
        struct wire wire;
        char room[16];
        int pair[2];

        (void) state;
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
        x.stream.fd = pair[0];
        peer = pair[1];
        assert_int_equal(wire_init(&wire, -1, -1), 0);
        x.stream.wire = &wire;
        assert_int_equal(write(peer, "abcdef", 6), 6);
        assert_int_equal(http_read(&x, room, sizeof(room), 1), -ETIMEDOUT);
        assert_int_equal(http_read(&x, room, 3, clock_ns() + 60000000000ULL), 3);
        assert_int_equal(write(peer, "ghi", 3), 3);
        assert_int_equal(http_read(&x, room, sizeof(room), 1), 3); /* what was read is had */
        wire.ended = true;
        assert_int_equal(http_read(&x, room, sizeof(room), clock_ns() + 60000000000ULL), -EPIPE);
        wire_deinit(&wire);
}

static void json_modest_counts_what_nests(void **state) {
        static const struct {
                const char *text;
                bool modest;
                size_t n;
        } cases[] = { { "[[[]]]", true, 3 },
                      { "[[[[]]]]", false, 4 },
                      { "[{},{},{}]", true, 4 },
                      { "[1,{},{},{},{}]", false, 5 },
                      { "\"[[[[[[\"", true, 0 },
                      { "\"\\\"[[[[[[\"", true, 0 },
                      { "]]][", true, 1 },
                      { "\"\\", true, 0 },
                      { "", true, 0 } };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                size_t n = 99;

                assert_int_equal(json_modest(cases[i].text, strlen(cases[i].text), 3, 4, &n),
                                 cases[i].modest);
                assert_int_equal(n, cases[i].n);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(schema_check_accepts_and_rejects),
                cmocka_unit_test(schema_check_stops_at_its_depth),
                cmocka_unit_test(http_url_parse_reads_or_refuses),
                cmocka_unit_test(output_keeps_both_ends),
                cmocka_unit_test(work_path_stays_below),
                cmocka_unit_test(session_answer_needs_its_question),
                cmocka_unit_test(session_split_never_parts_a_pair),
                cmocka_unit_test(model_stream_event_takes_the_order_of_the_api),
                cmocka_unit_test(tool_schemas_are_tools),
                cmocka_unit_test(http_read_ends_at_its_time_though_there_is_more),
                cmocka_unit_test(json_modest_counts_what_nests),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
