/* What the library asks the program. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/lib/cofferdam.h"
#include "runtime/lib/request.h"

static void asked_parse_takes_what_was_said(void **state) {
        static const char text[] =
                "op\0run\0env\0A=1\0env\0B=2\0env\0A=3\0home\0/h\0home\0/i\0arg\0sh\0arg\0-c\0arg\0";
        AUTO_ASKED struct asked asked = { 0 };

        (void) state;
        assert_int_equal(asked_parse(text, sizeof(text), &asked), 0); /* the last NUL ends an empty word */
        assert_string_equal(asked.op, "run");
        assert_string_equal(asked.ctx.home, "/i");
        assert_int_equal(asked.env.n, 2);
        assert_string_equal(asked.ctx.environ[0], "A=3");
        assert_string_equal(asked.ctx.environ[1], "B=2");
        assert_null(asked.ctx.environ[2]);
        assert_int_equal(asked.args.n, 3);
        assert_string_equal(asked.args.v[2], "");
        assert_null(asked.args.v[3]);
        assert_null(asked.exec_env.v); /* none, not an empty list */
}

static void asked_parse_completes_the_context(void **state) {
        AUTO_ASKED struct asked nothing = { 0 }, home = { 0 };
        static const char text[] = "home\0/h";

        (void) state;
        assert_int_equal(asked_parse(NULL, 0, &nothing), 0);
        assert_non_null(nothing.ctx.environ);
        assert_null(nothing.ctx.environ[0]);
        assert_null(nothing.ctx.cwd);
        assert_null(nothing.ctx.config_dir);
        assert_string_equal(nothing.ctx.shell, "/bin/sh");
        assert_int_equal(nothing.ctx.uid, geteuid());
        assert_int_equal(asked_parse(text, sizeof(text), &home), 0);
        assert_string_equal(home.ctx.state_dir,
                            geteuid() == 0 ? "/var/lib/cofferdam" : "/h/.local/state/cofferdam");
}

static void asked_parse_rejects(void **state) {
        static const struct {
                const char *text;
                size_t len;
        } cases[] = {
                { "op\0run", 6 },                         /* no final NUL */
                { "op", 3 },                              /* no value */
                { "op\0run\0op", 10 }, { "ops\0run", 8 }, /* an unknown name */
                { "\0run", 5 },        { "", 1 },         { "op\0run\0\0", 8 + 1 },
        };

        (void) state;
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                AUTO_ASKED struct asked asked = { 0 };

                assert_int_equal(asked_parse(cases[i].text, cases[i].len, &asked), -EPROTO);
        }
}

static void request_fd_holds_all_of_it(void **state) {
        AUTO_REQUEST struct request r = { 0 }, more = { 0 };
        AUTO_BUF struct buf text = { 0 };
        AUTO_ASKED struct asked asked = { 0 };
        AUTO_FD int fd = -1;

        (void) state;
        for (int i = 0; i < 5000; i++) {
                char word[32];

                (void) snprintf(word, sizeof(word), "N%d=%d", i, i);
                assert_int_equal(request_add(i % 2 ? &r : &more, "exec-env", word), 0);
        }
        assert_int_equal(request_append(&r, &more), 0);
        fd = request_fd(&r);
        assert_true(fd >= 0);
        assert_int_equal(file_read(fd, REQUEST_MAX_BYTES, &text), 0);
        assert_int_equal(asked_parse(text.data, text.len, &asked), 0);
        assert_int_equal(asked.exec_env.n, 5000);
        assert_string_equal(asked.exec_env.v[0], "N1=1");
        assert_string_equal(asked.exec_env.v[4999], "N4998=4998");
        assert_null(asked.exec_env.v[5000]);
}

static void request_add_stops_at_its_ceiling(void **state) {
        AUTO_FREE char *big = calloc(1, REQUEST_MAX_BYTES);
        AUTO_REQUEST struct request r = { 0 };
        size_t len;

        (void) state;
        assert_non_null(big);
        memset(big, 'x', REQUEST_MAX_BYTES - 1);
        assert_int_equal(request_add(&r, "arg", "word"), 0);
        len = r.text.len;
        assert_int_equal(request_add(&r, "arg", big), -E2BIG);
        assert_int_equal(r.text.len, len); /* nothing of it */
        big[REQUEST_MAX_BYTES - 1 - len - strlen("arg") - 1] = '\0';
        assert_int_equal(request_add(&r, "arg", big), 0);
        assert_int_equal(r.text.len, REQUEST_MAX_BYTES);
        assert_int_equal(request_add(&r, "arg", ""), -E2BIG);
}

/* Keys stand over documents, whatever was said first, as options stand over --spec. */
static void spec_set_is_over_documents(void **state) {
        struct cofferdam *c = NULL;
        struct cofferdam_spec *spec = NULL;
        char *text = NULL;

        (void) state;
        assert_int_equal(cofferdam_new(&c), 0);
        assert_int_equal(cofferdam_set(c, "cwd", "/w"), 0);
        assert_int_equal(cofferdam_spec_new(c, &spec), 0);
        assert_int_equal(cofferdam_spec_set(spec, "limits.pids", "11"), 0);
        assert_int_equal(cofferdam_spec_text(spec, "a.yaml", "limits: { pids: 12 }"), 0);
        assert_int_equal(
                cofferdam_spec_text(spec, "b.json", "{\"limits\": {\"pids\": 13, \"open_files\": 114}}"), 0);
        assert_int_equal(cofferdam_spec_text(spec, "c.json", "{\"limits\": 1"), -EINVAL);
        assert_int_equal(cofferdam_spec_set(spec, "limits.pid", "15"), -EINVAL);
        assert_non_null(strstr(cofferdam_error(c), "limits.pid"));
        assert_int_equal(cofferdam_spec_set(spec, "pids", "many"), -EINVAL);
        assert_int_equal(cofferdam_spec_json(spec, &text), 0);
        assert_non_null(strstr(text, "\"value\": 11"));
        assert_non_null(strstr(text, "\"value\": 114"));
        assert_null(strstr(text, "\"value\": 12"));
        free(text);
        cofferdam_spec_free(spec);
        cofferdam_free(c);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(asked_parse_takes_what_was_said),
                cmocka_unit_test(asked_parse_completes_the_context),
                cmocka_unit_test(asked_parse_rejects),
                cmocka_unit_test(request_fd_holds_all_of_it),
                cmocka_unit_test(request_add_stops_at_its_ceiling),
                cmocka_unit_test(spec_set_is_over_documents),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
