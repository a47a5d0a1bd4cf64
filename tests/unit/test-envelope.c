/*
 * test-envelope.c - lines of the agent pair: what is one, what is none, how long it may be, and two ends that
 * write at the same time
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/agent/envelope.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

static void pair(int ret[2]) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret), 0);
}

static void envelope_parse_takes_what_facts_show(void **state) {
        static const struct {
                const char *line;
                enum envelope_type type;
                const char *id;
        } rows[] = {
                { "{\"type\":\"hello\",\"data\":{\"protocol\":2}}", ENVELOPE_HELLO, "" },
                { "{\"type\":\"tool_call\",\"id\":\"call-1\",\"data\":{}}", ENVELOPE_TOOL_CALL, "call-1" },
                { "{\"id\":\"x\",\"type\":\"result\"}", ENVELOPE_RESULT, "x" },
                { " {\"type\":\"of_a_later_version\",\"more\":[1]} ", ENVELOPE_UNKNOWN, "" },
                { "{\"type\":\"Tool_call\"}", ENVELOPE_UNKNOWN, "" },
                { "{\"type\":\"event\",\"data\":\"nul \\u0000 in a text\"}", ENVELOPE_EVENT, "" },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                AUTO_ENVELOPE struct envelope e = { 0 };

                assert_int_equal(envelope_parse(rows[i].line, strlen(rows[i].line), &e, NULL), 0);
                assert_int_equal(e.type, rows[i].type);
                assert_string_equal(e.id, rows[i].id);
        }
}

static void envelope_parse_refuses_what_is_none(void **state) {
        static const char *const rows[] = {
                "",
                "null",
                "[]",
                "\"type\"",
                "{",
                "{}",
                "{\"type\":1}",
                "{\"type\":\"\"}",
                "{\"type\":null}",
                "{\"type\":\"result\"} x",
                "{\"type\":\"result\"}{\"type\":\"result\"}",
                "{\"type\":\"tool_call\",\"id\":7}",
                "{\"type\":\"tool_call\",\"id\":null}",
                "{\"type\":\"tool_call\",\"id\":\"a\\u0000b\"}",
                "{\"type\":\"result\\u0000x\"}",
                "{\"type\":\"result\",\"type\":\"event\"}", /* which one another reader takes is anybody's
                                                               guess */
                "{\"type\":\"event\",\"data\":{\"a\":1,\"a\":2}}",
                "{\"type\":\"event\",\"data\":\"\xff\"}",
                "{\"type\":\"event\",\"data\":\"\\ud800\"}",
                "{\"type\":\"event\",\"data\":1e999}",
                "{\"type\":\"event\",\"data\":NaN}",
                "\xef\xbb\xbf{\"type\":\"event\"}",
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct envelope e = { .id = "untouched" };
                struct error err = { 0 };

                assert_int_equal(envelope_parse(rows[i], strlen(rows[i]), &e, &err), -EBADMSG);
                assert_string_equal(e.id, "untouched");
                assert_non_null(strstr(err.msg, "malformed envelope"));
        }
}

static void nested(char *out, int depth) {
        memcpy(out, "{\"type\":\"event\",\"data\":", 23);
        memset(out + 23, '[', (size_t) depth);
        memset(out + 23 + depth, ']', (size_t) depth);
        memcpy(out + 23 + 2 * depth, "}", 2);
}

static void envelope_parse_bounds_ids_and_depth(void **state) {
        char line[1024], id[ENVELOPE_ID_MAX + 2];

        (void) state;
        for (int over = 0; over < 2; over++) {
                AUTO_ENVELOPE struct envelope e = { 0 };
                AUTO_ENVELOPE struct envelope deep = { 0 };

                memset(id, 'i', sizeof(id));
                id[ENVELOPE_ID_MAX + over] = '\0';
                (void) snprintf(line, sizeof(line), "{\"type\":\"event\",\"id\":\"%s\"}", id);
                assert_int_equal(envelope_parse(line, strlen(line), &e, NULL), over ? -EBADMSG : 0);
                nested(line, ENVELOPE_DEPTH_MAX - 1 + over); /* the envelope is a level itself */
                assert_int_equal(envelope_parse(line, strlen(line), &deep, NULL), over ? -EBADMSG : 0);
        }
}

/* A text that makes a line of exactly @len bytes, newline included. */
static json_t *text_of(size_t len) {
        const size_t n = len - strlen("{\"type\":\"event\",\"data\":\"\"}\n");
        AUTO_FREE char *text = malloc(n);

        assert_non_null(text);
        memset(text, 'x', n);
        return json_stringn(text, n);
}

static void envelope_encode_refuses_one_byte_more(void **state) {
        AUTO_JSON json_t *fits = text_of(ENVELOPE_LINE_MAX), *over = text_of(ENVELOPE_LINE_MAX + 1);
        AUTO_BUF struct buf out = { 0 };
        struct error err = { 0 };

        (void) state;
        assert_int_equal(envelope_encode(ENVELOPE_EVENT, NULL, fits, &out, &err), 0);
        assert_int_equal(out.len, ENVELOPE_LINE_MAX);
        assert_int_equal(envelope_encode(ENVELOPE_EVENT, NULL, over, &out, &err), -EMSGSIZE);
        assert_int_equal(out.len, ENVELOPE_LINE_MAX);
        assert_non_null(strstr(err.msg, "'event'"));
}

/* Writes @text from another process, so that neither end waits for the other. */
static pid_t write_from_child(const int fds[2], const char *text, size_t len) {
        const pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                (void) close(fds[0]);
                _exit(write_all(fds[1], text, len) < 0);
        }
        return pid;
}

static void channel_wait_takes_a_line_at_the_limit(void **state) {
        (void) state;
        for (size_t over = 0; over < 2; over++) {
                AUTO_JSON json_t *text = text_of(ENVELOPE_LINE_MAX);
                CLEANUP(channel_deinit) struct channel c = { 0 };
                AUTO_ENVELOPE struct envelope e = { 0 };
                AUTO_BUF struct buf line = { 0 };
                int fds[2], status;
                pid_t pid;

                pair(fds);
                assert_int_equal(envelope_encode(ENVELOPE_EVENT, NULL, text, &line, NULL), 0);
                line.len--;
                assert_int_equal(buf_str(&line, over ? " \n" : "\n"), 0);
                pid = write_from_child(fds, line.data, line.len);
                (void) close(fds[1]);
                assert_int_equal(channel_init(&c, fds[0], fds[0]), 0);
                assert_int_equal(channel_wait(&c, 60000, &e, NULL), over ? -EMSGSIZE : 1);
                (void) close(fds[0]);
                assert_int_equal(waitpid(pid, &status, 0), pid);
        }
}

static void channel_next_puts_pieces_together(void **state) {
        static const char text[] = "{\"type\":\"event\",\"data\":\"caf\xc3\xa9\"}\n\n\r\n{\"type\":\"event\"}"
                                   "\n{\"type\":\"result\"}";
        CLEANUP(channel_deinit) struct channel c = { 0 };
        int fds[2], n = 0;

        (void) state;
        pair(fds);
        assert_int_equal(channel_init(&c, fds[0], fds[0]), 0);
        for (size_t i = 0; i < sizeof(text) - 1; i++) {
                if (text[i] == '\r')
                        continue;
                assert_int_equal(write(fds[1], text + i, 1), 1);
                assert_int_equal(channel_fill(&c), 1);
                for (;;) {
                        AUTO_ENVELOPE struct envelope e = { 0 };

                        if (channel_next(&c, &e, NULL) != 1)
                                break;
                        if (n++ == 0)
                                assert_string_equal(json_string_value(e.data), "caf\xc3\xa9");
                }
        }
        assert_int_equal(n, 2);
        (void) close(fds[1]);
        for (int i = 0; i < 2; i++) {
                AUTO_ENVELOPE struct envelope e = { 0 };

                /* the last line has no newline, and then there is none */
                assert_int_equal(channel_wait(&c, 1000, &e, NULL), 1 - i);
        }
        (void) close(fds[0]);
}

/* Red without the reading in wait_writable(): each end waits for the other to read. */
static void channel_send_reads_while_it_writes(void **state) {
        enum { LINES = 3 };
        AUTO_JSON json_t *text = text_of(ENVELOPE_LINE_MAX);
        CLEANUP(channel_deinit) struct channel c = { 0 };
        int fds[2], status;
        pid_t pid;

        (void) state;
        pair(fds);
        pid = fork();
        assert_true(pid >= 0);
        (void) alarm(600);
        assert_int_equal(channel_init(&c, fds[pid == 0], fds[pid == 0]), 0);
        (void) close(fds[pid != 0]);
        for (int i = 0; i < LINES; i++)
                if (channel_send(&c, ENVELOPE_EVENT, NULL, text, NULL) < 0)
                        _exit(1);
        for (int i = 0; i < LINES; i++) {
                AUTO_ENVELOPE struct envelope e = { 0 };

                if (channel_wait(&c, 300000, &e, NULL) != 1)
                        _exit(2);
        }
        if (pid == 0) { /* valgrind counts what an end leaves */
                channel_deinit(&c);
                json_decref(text);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        (void) alarm(0);
        (void) close(fds[0]);
}

static void channel_wait_does_not_wait_for_ever(void **state) {
        CLEANUP(channel_deinit) struct channel c = { 0 };
        AUTO_ENVELOPE struct envelope e = { 0 };
        int fds[2];

        (void) state;
        pair(fds);
        assert_int_equal(channel_init(&c, fds[0], fds[0]), 0);
        assert_int_equal(channel_wait(&c, 20, &e, NULL), -ETIMEDOUT);
        (void) close(fds[0]);
        (void) close(fds[1]);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(envelope_parse_takes_what_facts_show),
                cmocka_unit_test(envelope_parse_refuses_what_is_none),
                cmocka_unit_test(envelope_parse_bounds_ids_and_depth),
                cmocka_unit_test(envelope_encode_refuses_one_byte_more),
                cmocka_unit_test(channel_wait_takes_a_line_at_the_limit),
                cmocka_unit_test(channel_next_puts_pieces_together),
                cmocka_unit_test(channel_send_reads_while_it_writes),
                cmocka_unit_test(channel_wait_does_not_wait_for_ever),
        };

        (void) signal(SIGPIPE, SIG_IGN);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
