/* Runs: started, opened, looked at, ended. */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/lib/library.h"
#include "runtime/run/control.h"
#include "runtime/run/eventread.h"

enum { GRACE_MAX_S = 3600, WORDS_MAX = 8 };

static int run_new(struct cofferdam *c, const char *id, struct cofferdam_run **ret) {
        struct cofferdam_run *run = calloc(1, sizeof(*run));
        AUTO_ASKED struct asked asked = { 0 };
        int r;

        if (!run)
                return context_memory(c, -ENOMEM);
        run->c = c;
        run->dir = (struct run_dir) RUN_DIR_INIT;
        r = context_asked(c, NULL, &asked);
        if (r == 0) {
                r = run_dir_open(&asked.ctx, id, &run->dir, &c->err);
                if (r < 0)
                        r = context_failed(c, r, "SANDBOX_DRIVER_UNAVAILABLE");
        }
        if (r < 0) {
                cofferdam_run_close(run);
                return r;
        }
        *ret = run;
        return 0;
}

/* Until the supervisor says that it is ready. @ret: its message */
static int await_ready(struct cofferdam *c, int sock, struct run_msg *ret) {
        int r;

        do
                r = run_msg_recv(sock, ret, NULL);
        while (r == 0 && ret->type == RUN_MSG_STARTED);
        if (r == 0 && ret->type == RUN_MSG_READY)
                return 0;
        if (r == 0) {
                r = ret->code == 2 ? -EINVAL : -EIO;
                (void) error_set(&c->err, r, "%s", ret->text);
                return context_failed(c, r, ret->failure_code);
        }
        (void) error_set(&c->err, r, "the program that builds the sandbox died: %s", strerror(-r));
        return context_failed(c, r, "SANDBOX_SETUP_FAILED");
}

int cofferdam_start(struct cofferdam *c, const struct cofferdam_spec *spec, int stderr_fd,
                    struct cofferdam_run **ret) {
        AUTO_REQUEST struct request request = { 0 };
        struct cofferdam_run *run = NULL;
        AUTO_FD int sock = -1;
        struct run_msg msg;
        int r;

        r = request_add(&request, "op", "run");
        if (r == 0)
                r = request_append(&request, &spec->said);
        if (r < 0)
                return context_memory(c, r);
        sock = engine_ask(c, &request, (const int[3]){ -1, -1, stderr_fd });
        if (sock < 0)
                return sock;
        r = await_ready(c, sock, &msg);
        if (r == 0)
                r = run_new(c, msg.run_id, &run);
        if (r < 0)
                return r; /* and the run ends */
        msg = (struct run_msg){ .type = RUN_MSG_READY };
        r = run_msg_send(sock, &msg, -1);
        if (r < 0) {
                cofferdam_run_close(run);
                (void) error_set(&c->err, r, "the program that built the sandbox died: %s", strerror(-r));
                return context_failed(c, r, "SANDBOX_SETUP_FAILED");
        }
        *ret = run;
        return 0;
}

int cofferdam_open(struct cofferdam *c, const char *name, struct cofferdam_run **ret) {
        return run_new(c, name, ret);
}

void cofferdam_run_close(struct cofferdam_run *run) {
        if (!run)
                return;
        run_dir_deinit(&run->dir);
        free(run);
}

const char *cofferdam_run_id(const struct cofferdam_run *run) {
        return run->dir.id;
}

int cofferdam_stop(struct cofferdam_run *run, unsigned int grace_s) {
        struct cofferdam *c = run->c;
        int r;

        r = control_stop(&run->dir, grace_s > GRACE_MAX_S ? GRACE_MAX_S : (int) grace_s, &c->err);
        return r < 0 ? context_failed(c, r, NULL) : 0;
}

int cofferdam_remove(struct cofferdam_run *run, int force) {
        const char *const words[] = { "rm", run->dir.id, NULL }, *const forced[] = { "rm", "-f", run->dir.id,
                                                                                     NULL };
        AUTO_BUF struct buf out = { 0 };
        int r;

        r = engine_verb(run->c, force ? forced : words, &out);
        if (r == -ENOENT) /* that it is not there is the other way to fail, and no failure of the caller's */
                r = run->c->err.code = -EBUSY;
        return r;
}

static int take_text(struct cofferdam *c, struct buf *out, char **ret) {
        char *text = buf_take(out);

        if (!text)
                return context_memory(c, -ENOMEM);
        *ret = text;
        return 0;
}

int cofferdam_inspect(struct cofferdam_run *run, char **ret) {
        const char *const words[] = { "inspect", run->dir.id, NULL };
        AUTO_BUF struct buf out = { 0 };
        int r;

        r = engine_verb(run->c, words, &out);
        return r < 0 ? r : take_text(run->c, &out, ret);
}

int cofferdam_doctor(struct cofferdam *c, char **ret) {
        static const char *const words[] = { "doctor", "--json", NULL };
        AUTO_BUF struct buf out = { 0 };
        int r, e;

        r = engine_verb(c, words, &out);
        e = r < 0 ? r : take_text(c, &out, ret);
        return e < 0 ? e : r;
}

static const char *text_of(const json_t *row, const char *name) {
        const char *text = json_string_value(json_object_get(row, name));

        return text ? text : "";
}

static int tell_info(const json_t *row, cofferdam_info_fn fn, void *arg) {
        const json_t *exit_code = json_object_get(row, "exit_code");
        const struct cofferdam_info info = {
                .size = sizeof(info),
                .id = text_of(row, "id"),
                .name = text_of(row, "name"),
                .status = text_of(row, "status"),
                .driver = text_of(row, "driver"),
                .workspace = text_of(row, "workspace"),
                .created_ns = json_integer_value(json_object_get(row, "created_ns")),
                .exit_code = json_is_integer(exit_code) ? (int) json_integer_value(exit_code) : -1,
                .held = (uint32_t) json_integer_value(json_object_get(row, "held")),
        };

        return fn(&info, arg);
}

int cofferdam_list(struct cofferdam *c, int all, cofferdam_info_fn fn, void *arg) {
        static const char *const living[] = { "ps", "--json", NULL }, *const every[] = { "ps", "-a", "--json",
                                                                                         NULL };
        AUTO_BUF struct buf out = { 0 };
        AUTO_JSON json_t *rows = NULL;
        int r;

        r = engine_verb(c, all ? every : living, &out);
        if (r < 0)
                return r;
        rows = json_loadb(buf_cstr(&out), out.len, 0, NULL);
        if (!rows)
                return context_memory(c, -ENOMEM);
        for (size_t i = 0; r == 0 && i < json_array_size(rows); i++)
                r = tell_info(json_array_get(rows, i), fn, arg);
        return r;
}

int cofferdam_gc(struct cofferdam *c) {
        static const char *const words[] = { "gc", "--json", NULL };
        AUTO_BUF struct buf out = { 0 };
        int r, n = 0;

        r = engine_verb(c, words, &out);
        for (size_t i = 0; r == 0 && i < out.len; i++)
                n += out.data[i] == '\n';
        return r < 0 ? r : n;
}

/* ---- events ---- */

/** struct telling - the callback of the library's user */
struct telling {
        cofferdam_event_fn fn;
        void *arg;
};

static int tell_event(const json_t *event, const char *line, size_t len, void *arg) {
        const struct telling *t = arg;
        struct cofferdam_event e = { .size = sizeof(e),
                                     .seq = (uint64_t) json_integer_value(json_object_get(event, "seq")),
                                     .type = text_of(event, "type") };
        AUTO_FREE char *copy = strndup(line, len - 1); /* without the end of line */

        if (!copy)
                return -ENOMEM;
        e.json = copy;
        return t->fn(&e, t->arg);
}

int cofferdam_events(struct cofferdam_run *run, uint64_t since, int follow, const char *const *types,
                     cofferdam_event_fn fn, void *arg) {
        struct event_filter filter = { .since = since, .types = types, .follow = follow != 0 };
        struct cofferdam *c = run->c;
        struct telling t = { fn, arg };
        struct error err = { 0 };
        int r;

        while (types && types[filter.n_types])
                filter.n_types++;
        r = events_read(&run->dir, &filter, tell_event, &t, &err);
        if (!err.code)
                return r;
        c->err = err;
        return context_failed(c, r, NULL);
}
