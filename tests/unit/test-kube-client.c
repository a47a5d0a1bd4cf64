/* What the client of clusters makes of answers: failures, ends of commands, tails of logs, paths. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kubernetes/client/exec.h"
#include "kubernetes/client/logs.h"
#include "kubernetes/client/transfer.h"
#include "kubernetes/client/ws.h"

static void failure_read_maps_codes(void **state) {
        static const struct {
                int http;
                const char *body;
                int want;
                const char *message;
        } rows[] = {
                { 200, "{}", 0, "" },
                { 400, "", -EINVAL, "" },
                { 401, "{\"message\":\"Unauthorized\"}", -EACCES, "Unauthorized" },
                { 403, "{\"message\":1}", -EPERM, "" },
                { 404, "plain\n", -ENOENT, "plain" },
                { 409, "{\"reason\":\"AlreadyExists\"}", -EEXIST, "" },
                { 409, "{\"reason\":\"Conflict\",\"message\":\"a\\nb\"}", -EBUSY, "a\\nb" },
                { 409, "", -EBUSY, "" },
                { 410, "", -ESTALE, "" },
                { 413, "", -EINVAL, "" },
                { 429, "[[[", -EAGAIN, "[[[" },
                { 500, "\x1b[2J", -EREMOTEIO, "\\x1b[2J" },
                { 599, "", -EREMOTEIO, "" },
                { 302, "", -EBADMSG, "" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct kube_failure f;

                kube_failure_read(rows[i].http, rows[i].body, strlen(rows[i].body), &f);
                assert_int_equal(kube_failure_errno(&f), rows[i].want);
                assert_string_equal(f.message, rows[i].message);
                assert_int_equal(f.http, rows[i].http);
        }
}

static void failure_read_bounds_the_pause(void **state) {
        static const struct {
                const char *seconds;
                unsigned want;
        } rows[] = { { "7", 7 }, { "-1", 0 }, { "\"7\"", 0 }, { "3600", 3600 }, { "99999999999", 3600 } };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct kube_failure f;
                char body[128];

                (void) snprintf(body, sizeof(body), "{\"details\":{\"retryAfterSeconds\":%s}}",
                                rows[i].seconds);
                kube_failure_read(429, body, strlen(body), &f);
                assert_int_equal(f.retry_s, rows[i].want);
        }
        assert_int_equal(kube_pause_ms(1, 0), 200);
        assert_int_equal(kube_pause_ms(4, 0), 1600);
        assert_int_equal(kube_pause_ms(1000, 0), KUBE_PAUSE_MS_MAX);
        assert_int_equal(kube_pause_ms(1, 2), 2000);
        assert_int_equal(kube_pause_ms(1, UINT32_MAX), KUBE_PAUSE_MS_MAX);
}

static void json_parse_bounds_depth(void **state) {
        char text[2 * KUBE_DEPTH_MAX + 8];

        (void) state;
        for (unsigned depth = KUBE_DEPTH_MAX - 1; depth <= KUBE_DEPTH_MAX + 1; depth++) {
                json_t *j = NULL;

                memset(text, '[', depth);
                memset(text + depth, ']', depth);
                assert_int_equal(kube_json_parse(text, 2UL * depth, &j),
                                 depth <= KUBE_DEPTH_MAX ? 0 : -EBADMSG);
                json_decref(j);
        }
}

static void exec_status_tells_ends_apart(void **state) {
#define CAUSE(m)                                                                                       \
        "{\"status\":\"Failure\",\"message\":\"m\",\"details\":{\"causes\":[{\"reason\":\"ExitCode\"," \
        "\"message\":" m "}]}}"
#define MESSAGE(m) "{\"status\":\"Failure\",\"message\":\"" m "\"}"
        static const struct {
                const char *text;
                int want, code;
                bool started;
        } rows[] = {
                { "{\"metadata\":{},\"status\":\"Success\"}", 0, 0, true },
                { CAUSE("\"0\""), 0, 0, true },
                { CAUSE("\"1\""), 0, 1, true },
                { CAUSE("\"255\""), 0, 255, true },
                { CAUSE("\"256\""), -EREMOTEIO, 0, false },
                { CAUSE("\"-1\""), -EREMOTEIO, 0, false },
                { CAUSE("\" 1\""), -EREMOTEIO, 0, false },
                { CAUSE("\"1x\""), -EREMOTEIO, 0, false },
                { CAUSE("\"\""), -EREMOTEIO, 0, false },
                { CAUSE("3"), -EREMOTEIO, 0, false },
                { MESSAGE("exec: \\\"x\\\": executable file not found in $PATH"), 0, 127, false },
                { MESSAGE("exec failed: permission denied"), 0, 126, false },
                { MESSAGE("exec /x: exec format error"), 0, 126, false },
                { MESSAGE("error dialing backend"), -EREMOTEIO, 0, false },
                { "{\"status\":\"Failure\"}", -EREMOTEIO, 0, false },
                { "{\"status\":\"success\"}", -EBADMSG, 0, false },
                { "{}", -EBADMSG, 0, false },
                { "[]", -EBADMSG, 0, false },
                { "\"Success\"", -EBADMSG, 0, false },
                { "", -EBADMSG, 0, false },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct kube_exec_end end = { .exit_code = 77 };

                assert_int_equal(kube_exec_status(rows[i].text, strlen(rows[i].text), &end), rows[i].want);
                assert_int_equal(end.exit_code, rows[i].want == 0 ? rows[i].code : 77);
                assert_int_equal(end.started, rows[i].started);
        }
}

/* Against the whole stream, for portions of every size around the bound. */
/* struct peer - sends @frame without end, and takes nothing */
struct peer {
        const char *frame;
        size_t len, at, received, messages;
        int answer; /* of message */
};

static ssize_t peer_recv(void *arg, void *buf, size_t len) {
        struct peer *p = arg;

        for (size_t i = 0; i < len; i++)
                ((char *) buf)[i] = p->frame[p->at++ % p->len];
        p->received += len;
        assert_true(p->received < (size_t) 64 << 20); /* it would go on for ever */
        return (ssize_t) len;
}

static ssize_t peer_send(void *arg, const void *buf, size_t len) {
        (void) arg;
        (void) buf;
        (void) len;
        return -EAGAIN;
}

static int peer_message(void *arg, int channel, const void *data, size_t len) {
        struct peer *p = arg;

        (void) channel;
        (void) data;
        (void) len;
        p->messages++;
        return p->answer;
}

static void ws_pump_ends_though_the_peer_does_not(void **state) {
        static const struct ws_io io = { peer_recv, peer_send, peer_message };
        static const char ping[127] = { '\x89', 125 }, out[7] = { '\x82', 5, 1, 'a', 'b', 'c', 'd' };
        struct peer pings = { .frame = ping, .len = sizeof(ping) };
        struct peer output = { .frame = out, .len = sizeof(out), .answer = 1 };
        AUTO_WS struct ws *a = NULL;
        AUTO_WS struct ws *b = NULL;
        bool heard;

        (void) state;
        /* pongs that it does not read */
        assert_int_equal(ws_new(&io, &pings, &a), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(ws_pump(a, true, &heard), 0);
        assert_true(ws_full(a));
        assert_true(ws_queued(a) < (size_t) KUBE_EXEC_QUEUE_MAX * 3);
        /* output that nobody takes now */
        assert_int_equal(ws_new(&io, &output, &b), 0);
        for (int i = 0; i < 3; i++)
                assert_int_equal(ws_pump(b, true, &heard), 0);
        assert_true(output.messages > 0 && output.received < 1 << 20);
}

static void tail_keeps_the_end(void **state) {
        enum { MAX = 10, ALL = 47 };
        char all[ALL + 1];

        (void) state;
        for (int i = 0; i < ALL; i++)
                all[i] = (char) ('a' + i % 26);
        all[ALL] = '\0';
        for (size_t total = 0; total <= ALL; total++) {
                for (size_t portion = 1; portion <= ALL; portion++) {
                        struct kube_tail tail = { .max = MAX };
                        AUTO_BUF struct buf text = { 0 };
                        char want[80] = "";
                        bool truncated = true;

                        for (size_t at = 0; at < total; at += portion)
                                assert_int_equal(kube_tail_add(&tail, all + at,
                                                               total - at < portion ? total - at : portion),
                                                 0);
                        assert_int_equal(kube_tail_text(&tail, &text, &truncated), 0);
                        assert_int_equal(truncated, total > MAX);
                        if (total > MAX)
                                (void) snprintf(want, sizeof(want), "[... %zu bytes truncated ...]\n",
                                                total - MAX);
                        (void) snprintf(want + strlen(want), sizeof(want) - strlen(want), "%.*s",
                                        (int) (total > MAX ? MAX : total),
                                        all + (total > MAX ? total - MAX : 0));
                        assert_string_equal(buf_cstr(&text), want);
                        assert_true(tail.ring.len <= 2UL * MAX);
                        kube_tail_deinit(&tail);
                }
        }
}

static void tail_keeps_characters_whole(void **state) {
        struct kube_tail tail = { .max = 4 };
        AUTO_BUF struct buf text = { 0 };

        (void) state;
        assert_int_equal(kube_tail_add(&tail,
                                       "ab\xe2\x82\xac"
                                       "cd",
                                       7),
                         0); /* the euro sign is cut */
        assert_int_equal(kube_tail_text(&tail, &text, NULL), 0);
        assert_string_equal(buf_cstr(&text), "[... 5 bytes truncated ...]\ncd");
        kube_tail_deinit(&tail);
}

static void path_escapes_and_refuses(void **state) {
        static const char config[] = "current-context: a\n"
                                     "clusters: [{name: c, cluster: {server: https://h}}]\n"
                                     "contexts: [{name: a, context: {cluster: c, namespace: n s}}]\n";
        const struct kube_config_from from = { .text = config };
        struct kube_config *c = NULL;
        AUTO_KUBE struct kube *kube = NULL;
        static const char *const bad[] = { "", ".", ".." };
        AUTO_BUF struct buf path = { 0 }, query = { 0 };

        (void) state;
        assert_int_equal(kube_config_load(&from, &c, NULL), 0);
        assert_int_equal(kube_open_consume(c, &kube, NULL), 0);
        assert_int_equal(kube_path(kube, KUBE_JOB, NULL, "a/b?c#%", "log", &path, NULL), 0);
        assert_string_equal(path.data, "/apis/batch/v1/namespaces/n%20s/jobs/a%2Fb%3Fc%23%25/log");
        path.len = 0;
        assert_int_equal(kube_path(kube, KUBE_NODE, "x", NULL, NULL, &path, NULL), 0);
        assert_string_equal(path.data, "/api/v1/nodes");
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_int_equal(kube_path(kube, KUBE_POD, NULL, bad[i], NULL, &path, NULL), -EINVAL);
        assert_int_equal(kube_query_add(&query, "a", "b c&d=\xc3\xbc"), 0);
        assert_int_equal(kube_query_add(&query, "e", ""), 0);
        assert_string_equal(query.data, "a=b%20c%26d%3D%C3%BC&e=");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(failure_read_maps_codes),
                cmocka_unit_test(failure_read_bounds_the_pause),
                cmocka_unit_test(json_parse_bounds_depth),
                cmocka_unit_test(exec_status_tells_ends_apart),
                cmocka_unit_test(ws_pump_ends_though_the_peer_does_not),
                cmocka_unit_test(tail_keeps_the_end),
                cmocka_unit_test(tail_keeps_characters_whole),
                cmocka_unit_test(path_escapes_and_refuses),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
