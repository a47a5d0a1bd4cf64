#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "auth/admin.h"
#include "auth/answer.h"
#include "auth/inject.h"
#include "auth/listen.h"
#include "auth/metrics.h"
#include "auth/presented.h"
#include "auth/target.h"
#include "auth/upstream.h"
#include "runtime/base/cleanup.h"

static struct http_text text(const char *s) {
        return (struct http_text){ s, strlen(s) };
}

static void target_split_finds_host_path_and_query(void **state) {
        static const struct {
                const char *in;
                bool secret;
                const char *host, *path, *query;
        } cases[] = {
                { "/v1/x", false, "", "/v1/x", "" },   { "/v1/x?a/r/b", false, "", "/v1/x", "?a/r/b" },
                { "/r/h/p", true, "h", "/p", "" },     { "/r/h", true, "h", "/", "" },
                { "/r/h?q", true, "h", "/", "?q" },    { "/r/h/?q?r", true, "h", "/", "?q?r" },
                { "/r/", true, "", "/", "" },          { "/r//x", true, "", "/x", "" },
                { "/r", false, "", "/r", "" },         { "/r?/", false, "", "/r", "?/" },
                { "/R/h/p", false, "", "/R/h/p", "" }, { "/r/a?b/../c", true, "a", "/", "?b/../c" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                struct target t;

                target_split(text(cases[i].in), &t);
                assert_int_equal(t.secret, cases[i].secret);
                assert_int_equal(t.host.len, strlen(cases[i].host));
                assert_int_equal(t.path.len, strlen(cases[i].path));
                assert_memory_equal(t.path.s, cases[i].path, t.path.len);
                assert_int_equal(t.query.len, strlen(cases[i].query));
        }
}

/* Goes red for each row when its check is taken out of target_path_clean(). */
static void target_path_clean_has_one_reading(void **state) {
        static const struct {
                const char *path;
                bool clean;
        } cases[] = {
                { "/", true },      { "/a", true },       { "/a/", true },     { "/a/b_c-d.e", true },
                { "/...", true },   { "/.a", true },      { "/a.", true },     { "/..a/b", true },
                { "/a/...", true }, { "", false },        { "a", false },      { "//", false },
                { "/a//b", false }, { "/a//", false },    { "/.", false },     { "/..", false },
                { "/a/.", false },  { "/a/..", false },   { "/a/./b", false }, { "/a/../b", false },
                { "/./", false },   { "/../", false },    { "/%61", false },   { "/a%2f", false },
                { "/a+b", false },  { "/~a", false },     { "/a b", false },   { "/a\\b", false },
                { "/a;b", false },  { "/a:b", false },    { "/a@b", false },   { "/a\x7f", false },
                { "/\xc3", false }, { "/a?b", false },    { "/a#b", false },   { "/a*b", false },
                { "/a\tb", false }, { "/a/\x01", false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                assert_int_equal(target_path_clean(text(cases[i].path)), cases[i].clean);
        assert_false(target_path_clean((struct http_text){ "/a\0b", 4 }));
}

/* --- tokens that requests present, and what is sent in their place --- */

static void parse(const char *lines, struct http_request *q, char *whole, size_t size) {
        size_t used;

        assert_in_range(snprintf(whole, size, "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n", lines), 1, size - 1);
        assert_int_equal(http_request_parse(whole, strlen(whole), 443, q, &used, NULL), 0);
}

#define TOKEN "ifap_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static void presented_id_takes_one_place(void **state) {
        static const struct {
                const char *lines;
                enum relay_result want;
        } cases[] = {
                { "", RELAY_NO_TOKEN },
                { "Authorization: Bearer " TOKEN "\r\n", RELAY_OK },
                { "Authorization: bearer  " TOKEN "\r\n", RELAY_OK },
                { "X-Api-Key: " TOKEN "\r\n", RELAY_OK },
                { "Private-Token: " TOKEN "\r\n", RELAY_OK },
                { "Authorization: Basic "
                  "dTppZmFwXzAwMTEyMjMzNDQ1NTY2Nzc4ODk5YWFiYmNjZGRlZWZmMDAxMTIyMzM0NDU1NjY3Nzg4OTlhYWJiY2NkZG"
                  "VlZmY="
                  "\r\n",
                  RELAY_OK },
                { "Authorization: Basic dTpp\r\n", RELAY_NO_TOKEN },
                { "Authorization: Basic =\r\n", RELAY_NO_TOKEN },
                { "Authorization: Basic ====\r\n", RELAY_NO_TOKEN },
                { "Authorization: Basic\r\n", RELAY_NO_TOKEN },
                { "Authorization: Bearer\r\n", RELAY_NO_TOKEN },
                { "Authorization: Bearer" TOKEN "\r\n", RELAY_NO_TOKEN },
                { "Authorization: Bearer x\r\nX-Api-Key: " TOKEN "\r\n", RELAY_NO_TOKEN },
                { "Authorization: Bearer " TOKEN "\r\nauthorization: x\r\n", RELAY_TWO_TOKENS },
                { "X-Api-Key: " TOKEN "\r\nx-api-key:\r\n", RELAY_TWO_TOKENS },
                { "Private-Token: " TOKEN "\r\nPrivate-Token: " TOKEN "\r\n", RELAY_TWO_TOKENS },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char id[TOKEN_ID_LEN + 1] = "", want[TOKEN_ID_LEN + 1], whole[2048];
                struct http_request q;

                parse(cases[i].lines, &q, whole, sizeof(whole));
                assert_int_equal(presented_id(&q.head, id), cases[i].want);
                assert_true(token_id(TOKEN, strlen(TOKEN), want));
                if (cases[i].want == RELAY_OK)
                        assert_string_equal(id, want);
                else
                        assert_string_equal(id, "");
        }
}

/* The lines for the server, with "|" after each. */
static void injected(const char *lines, const struct credential *c, char *out, size_t size) {
        AUTO_BUF struct buf headers = { 0 };
        struct http_request q;
        char whole[2048];

        parse(lines, &q, whole, sizeof(whole));
        assert_int_equal(inject_headers(&q.head, c, &headers), 0);
        assert_in_range(headers.len, 1, size - 1);
        memcpy(out, headers.data, headers.len);
        for (size_t i = 0; i < headers.len; i++) {
                if (!out[i])
                        out[i] = '|';
        }
        out[headers.len] = '\0';
}

static void inject_headers_leaves_nothing_of_the_client(void **state) {
        static char value[] = "real", user[] = "u", name[] = "x-vault";
        static const struct {
                struct credential c;
                const char *lines, *want;
        } cases[] = {
                { { .kind = CREDENTIAL_SECRET, .value = value, .inject = INJECT_BEARER },
                  "Authorization: Bearer t\r\nX-Api-Key: t\r\nPrivate-Token: t\r\nCookie: c\r\nExpect: "
                  "100-continue\r\nAccept-Encoding: gzip\r\nTE: trailers\r\nTrailer: "
                  "x\r\nProxy-Authorization: "
                  "x\r\nKeep-Alive: 1\r\nX: 1\r\n",
                  "X: 1|Authorization: Bearer real|" },
                { { .kind = CREDENTIAL_SECRET, .value = value, .inject = INJECT_BASIC, .arg = user },
                  "",
                  "Authorization: Basic dTpyZWFs|" },
                { { .kind = CREDENTIAL_SECRET, .value = value, .inject = INJECT_PRIVATE_TOKEN },
                  "",
                  "Private-Token: real|" },
                { { .kind = CREDENTIAL_SECRET, .value = value, .inject = INJECT_X_API_KEY },
                  "",
                  "X-Api-Key: real|" },
                { { .kind = CREDENTIAL_SECRET, .value = value, .inject = INJECT_HEADER, .arg = name },
                  "X-VAULT: forged\r\nx-vault: again\r\nX-Vaults: 1\r\n",
                  "X-Vaults: 1|x-vault: real|" },
                { { .kind = CREDENTIAL_SECRET, .value = value, .inject = INJECT_BEARER },
                  "Connection: x-a, Authorization\r\nX-A: 1\r\nX-B:\r\n",
                  "X-B: |Authorization: Bearer real|" },
                { { .kind = CREDENTIAL_MODEL_API_KEY, .value = value, .inject = INJECT_COUNT },
                  "anthropic-beta: a\r\n",
                  "anthropic-beta: a|X-Api-Key: real|" },
                { { .kind = CREDENTIAL_MODEL_OAUTH, .value = value, .inject = INJECT_COUNT },
                  "",
                  "Authorization: Bearer real|anthropic-beta: oauth-2025-04-20|" },
                { { .kind = CREDENTIAL_MODEL_OAUTH, .value = value, .inject = INJECT_COUNT },
                  "anthropic-beta: a,b\r\nAnthropic-Beta: c\r\nanthropic-beta:\r\n",
                  "Authorization: Bearer real|anthropic-beta: a,b,c,oauth-2025-04-20|" },
                { { .kind = CREDENTIAL_MODEL_OAUTH, .value = value, .inject = INJECT_COUNT },
                  "anthropic-beta: a , oauth-2025-04-20\r\n",
                  "Authorization: Bearer real|anthropic-beta: a , oauth-2025-04-20|" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                char out[1024];

                injected(cases[i].lines, &cases[i].c, out, sizeof(out));
                assert_string_equal(out, cases[i].want);
        }
}

/* --- whom it connects to --- */

static struct addr addr_of(const char *s) {
        struct addr a;

        assert_int_equal(addr_parse(s, strlen(s), &a), 0);
        return a;
}

/* Goes red when upstream_may_dial() allows everything. */
static void upstream_may_dial_refuses_what_no_public_name_has(void **state) {
        static const struct {
                const char *addr, *pinned;
                bool may;
        } cases[] = {
                { "93.184.216.34", NULL, true },
                { "2606:2800:220:1::1", NULL, true },
                { "127.0.0.1", NULL, false },
                { "::1", NULL, false },
                { "::ffff:127.0.0.1", NULL, false },
                { "169.254.169.254", NULL, false },
                { "10.0.0.1", NULL, false },
                { "192.168.1.1", NULL, false },
                { "0.0.0.0", NULL, false },
                { "fe80::1", NULL, false },
                { "64:ff9b::a00:1", NULL, false },
                { "224.0.0.1", NULL, false },
                { "127.0.0.1", "127.0.0.1", true },
                { "127.0.0.2", "127.0.0.1", false },
                { "10.1.2.3", NULL, true },
                { "10.2.0.0", NULL, false },
                { "::ffff:10.1.2.3", "10.9.9.9", true },
        };
        struct upstream_conf *conf = calloc(1, sizeof(*conf));

        (void) state;
        assert_non_null(conf);
        assert_int_equal(cidr_parse("10.1.0.0/16", 11, &conf->nets[0]), 0);
        conf->n_nets = 1;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                const struct addr addr = addr_of(cases[i].addr);
                struct addr pinned;

                if (cases[i].pinned)
                        pinned = addr_of(cases[i].pinned);
                assert_int_equal(upstream_may_dial(conf, &addr, cases[i].pinned ? &pinned : NULL) == NULL,
                                 cases[i].may);
        }
        free(conf);
}

/* --- the admin side --- */

#define CREDENTIAL "\"credential\":{\"kind\":\"api_key\",\"value\":\"v\"}"

static void admin_parse_has_limits(void **state) {
        static const struct {
                const char *body;
                const char *said; /* NULL: taken */
        } cases[] = {
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1001," CREDENTIAL "}", NULL },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":87400," CREDENTIAL "}", NULL },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1001,\"more\":1,\"source\":"
                  "null," CREDENTIAL "}",
                  NULL },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1001,\"source\":\"::ffff:1.2.3."
                  "4\"," CREDENTIAL "}",
                  NULL },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1000," CREDENTIAL "}", "in the past" },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":87401," CREDENTIAL "}", "24 hours" },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":-1," CREDENTIAL "}",
                  "invalid token request" },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1001.0," CREDENTIAL "}",
                  "invalid token request" },
                { "{\"run_id\":\"r\",\"step\":\"s\"," CREDENTIAL "}", "invalid token request" },
                { "{\"run_id\":\"\",\"step\":\"s\",\"expires_at\":1001," CREDENTIAL "}", "run_id is empty" },
                { "{\"run_id\":\"r\",\"step\":\"\",\"expires_at\":1001," CREDENTIAL "}", "step is empty" },
                { "{\"step\":\"s\",\"expires_at\":1001," CREDENTIAL "}", "invalid token request" },
                { "{\"run_id\":\"r\\u0000x\",\"step\":\"s\",\"expires_at\":1001," CREDENTIAL "}",
                  "invalid token request" },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1001}", "invalid token request" },
                { "{\"run_id\":\"r\",\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1001," CREDENTIAL "}",
                  "invalid token request" },
                { "{\"run_id\":\"r\",\"step\":\"s\",\"expires_at\":1001,\"source\":\"1.2.3\"," CREDENTIAL "}",
                  "source" },
                { "[]", "invalid token request" },
                { "", "invalid token request" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_GRANT struct grant *grant = NULL;
                struct error err = { 0 };
                const int r = admin_parse(cases[i].body, strlen(cases[i].body), 1000, &grant, &err);

                assert_int_equal(r, cases[i].said ? -EINVAL : 0);
                if (cases[i].said) {
                        assert_null(grant);
                        assert_non_null(strstr(err.msg, cases[i].said));
                        continue;
                }
                assert_string_equal(grant->run, "r");
                if (grant->source)
                        assert_string_equal(grant->source, "1.2.3.4");
        }
}

static void admin_segment_decodes_once(void **state) {
        static const struct {
                const char *in, *out;
        } cases[] = {
                { "a", "a" },       { "a%2fb", "a/b" }, { "a%2Fb%20", "a/b " },
                { "%252f", "%2f" }, { "%", NULL },      { "%2", NULL },
                { "%zz", NULL },    { "a%00", NULL },   { "%c3%a9", "\xc3\xa9" },
                { "a+b", "a+b" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_FREE char *out = admin_segment(text(cases[i].in));

                if (cases[i].out)
                        assert_string_equal(out, cases[i].out);
                else
                        assert_null(out);
        }
        assert_true(admin_is_for(text("/admin/x")));
        assert_true(admin_is_for(text("/metrics")));
        assert_false(admin_is_for(text("/metrics/")));
        assert_false(admin_is_for(text("/admin")));
        assert_false(admin_is_for(text("/healthz?x")));
}

static void metrics_text_adds_results_of_one_name(void **state) {
        AUTO_BUF struct buf out = { 0 };
        struct metrics *m = metrics_new();

        (void) state;
        assert_non_null(m);
        metrics_count(m, "", RELAY_NO_TOKEN);
        metrics_count(m, "", RELAY_UNKNOWN);
        metrics_count(m, "A", RELAY_OK);
        assert_int_equal(metrics_text(m, &out), 0);
        assert_non_null(strstr(out.data, "{secret=\"\",result=\"unknown_token\"} 2\n"));
        assert_non_null(strstr(out.data, "{secret=\"A\",result=\"relayed\"} 1\n"));
        for (int i = 0; i < METRICS_SECRETS_MAX + 10; i++) {
                char name[16];

                (void) snprintf(name, sizeof(name), "S%d", i);
                metrics_count(m, name, RELAY_OK);
        }
        metrics_count(m, "A", RELAY_OK);
        out.len = 0;
        assert_int_equal(metrics_text(m, &out), 0);
        assert_non_null(strstr(out.data, "{secret=\"<other>\",result=\"relayed\"} 12\n"));
        assert_non_null(strstr(out.data, "{secret=\"A\",result=\"relayed\"} 2\n"));
        (void) metrics_free(m);
}

static void answer_write_frames_itself(void **state) {
        static const struct answer a = { .status = 404, .type = "text/plain", .body = "no", .body_len = 2 };
        static const struct answer none = { .status = 204 };
        AUTO_BUF struct buf out = { 0 };

        (void) state;
        assert_int_equal(answer_write(&out, &a, false, true), 0);
        assert_string_equal(out.data,
                            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"
                            "Cache-Control: no-store\r\n\r\nno");
        out.len = 0;
        assert_int_equal(answer_write(&out, &a, true, false), 0);
        assert_non_null(strstr(out.data, "Content-Length: 2\r\n"));
        assert_non_null(strstr(out.data, "Connection: close\r\n\r\n"));
        assert_string_equal(out.data + out.len - 4, "\r\n\r\n");
        out.len = 0;
        assert_int_equal(answer_write(&out, &none, false, true), 0);
        assert_null(strstr(out.data, "Content-Length"));
}

static void listen_open_refuses_what_is_no_place(void **state) {
        static const char *const bad[] = {
                "",         "x",      "8080",    "example.com:80", "127.0.0.1",       "127.0.0.1:x",
                "127.1:80", "::1:80", "[::1:80", "[127.0.0.1",     "127.0.0.1:65536", "unix:"
        };
        char place[LISTEN_TEXT_MAX] = "";
        int fd = -1;

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                struct error err = { 0 };

                assert_int_equal(listen_open(bad[i], &fd, place, &err), -EINVAL);
                assert_int_equal(fd, -1);
                assert_string_not_equal(err.msg, "");
        }
        assert_int_equal(listen_open("localhost:0", &fd, place, NULL), 0);
        assert_memory_equal(place, "127.0.0.1:", 10);
        (void) fd_close(fd);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(target_split_finds_host_path_and_query),
                cmocka_unit_test(target_path_clean_has_one_reading),
                cmocka_unit_test(presented_id_takes_one_place),
                cmocka_unit_test(inject_headers_leaves_nothing_of_the_client),
                cmocka_unit_test(upstream_may_dial_refuses_what_no_public_name_has),
                cmocka_unit_test(admin_parse_has_limits),
                cmocka_unit_test(admin_segment_decodes_once),
                cmocka_unit_test(metrics_text_adds_results_of_one_name),
                cmocka_unit_test(answer_write_frames_itself),
                cmocka_unit_test(listen_open_refuses_what_is_no_place),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
