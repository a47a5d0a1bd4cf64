/*
 * DOC: theory of operation
 *
 * libcofferdam executes this program where a process of its own is needed: to build a sandbox, to carry
 * streams that are files, and for the reports. The first process forks and ends, so that the library can wait
 * for it at once and its host never has a child of ours. The second reads the request
 * (runtime/lib/request.h), does what it says with the same code as the verbs, and tells how it went by
 * messages (runtime/run/message.h) over the socket. The end of file of that socket is the library's wish that
 * it ends.
 */
#include "cli/library.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/lib/request.h"
#include "runtime/run/engine.h"
#include "runtime/spec/resolve.h"

static const int client = REQUEST_SOCK_FD;

static void say(struct run_msg *msg) {
        (void) run_msg_send(client, msg, -1); /* who does not listen any more needs no answer */
}

static void fail(int code, const char *failure_code, const char *text) {
        struct run_msg msg = { .type = RUN_MSG_ERROR, .code = code };

        (void) snprintf(msg.failure_code, sizeof(msg.failure_code), "%s", failure_code);
        (void) snprintf(msg.text, sizeof(msg.text), "%s", text);
        say(&msg);
}

static struct run_tty_order tty_of(const struct asked *asked) {
        struct run_tty_order tty = { .when = asked->tty ? TTY_ON : TTY_AUTO };
        uint64_t rows = 0, cols = 0;

        if (asked->rows && parse_u64(asked->rows, 0, UINT16_MAX, &rows) == 0)
                tty.size.ws_row = (unsigned short) rows;
        if (asked->cols && parse_u64(asked->cols, 0, UINT16_MAX, &cols) == 0)
                tty.size.ws_col = (unsigned short) cols;
        return tty;
}

static void stdio_of(const struct asked *asked, int ret[3]) {
        for (int i = 0; i < 3; i++)
                ret[i] = asked->closed && strchr(asked->closed, '0' + i) ? -1 : i;
}

/* The run lives on when the library has it: it says so. */
static int tell_ready(void *arg, const char *run_id) {
        struct run_msg msg = { .type = RUN_MSG_READY };
        int r;

        (void) arg;
        (void) snprintf(msg.run_id, sizeof(msg.run_id), "%s", run_id);
        r = run_msg_send(client, &msg, -1);
        if (r == 0)
                r = run_msg_recv(client, &msg, NULL);
        return r == 0 && msg.type != RUN_MSG_READY ? -ECANCELED : r;
}

/* A run: with a command it ends with that, else it lives on. */
static void op_run(const struct asked *asked) {
        AUTO_SPEC struct spec *spec = NULL;
        AUTO_JSON json_t *dump = NULL;
        struct run_request req = {
                .argv = asked->args.v, .tty = tty_of(asked), .events_fd = -1, .client = &client
        };
        struct error err = { 0 };
        struct run_msg end;
        int r;

        r = asked_spec(asked, &spec, &err);
        if (r < 0) {
                fail(r == -ENOTSUP || r == -ESTALE ? EXIT_SETUP : EXIT_USAGE,
                     r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED" : "SPEC_INVALID", err.msg);
                return;
        }
        dump = spec_dump(spec);
        if (!dump) {
                fail(EXIT_SETUP, "SANDBOX_SETUP_FAILED", "out of memory");
                return;
        }
        stdio_of(asked, req.stdio);
        trace_init(&req.trace, false, "library");
        req.spec = spec;
        req.spec_json = dump;
        req.ready = tell_ready;
        run_execute(&asked->ctx, &req, &end);
        if (end.type != RUN_MSG_READY) /* which was told */
                say(&end);
}

static void op_exec(const struct asked *asked) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct exec_order order = { .argv = asked->args.v,
                                    .env = asked->exec_env.v,
                                    .cwd = asked->exec_cwd,
                                    .tty = tty_of(asked),
                                    .client = &client };
        struct error err = { 0 };
        struct run_msg end;

        if (asked->args.n == 0 || run_dir_open(&asked->ctx, asked->run, &dir, &err) < 0) {
                fail(EXIT_SETUP, "SANDBOX_DRIVER_UNAVAILABLE", err.msg);
                return;
        }
        stdio_of(asked, order.stdio);
        run_exec(&dir, &order, &end);
        say(&end);
}

/* A verb, as on the command line: what it prints is the answer. One that changes something is not cut off
 * when the library is gone. */
static void op_verb(const struct asked *asked) {
        const struct verb *verb = asked->args.n > 0 ? verb_find(asked->args.v[0]) : NULL;
        struct run_msg end = { .type = RUN_MSG_EXIT, .code = EXIT_USAGE };

        if (verb)
                end.code = verb->run(&asked->ctx, (int) asked->args.n, (char **) (uintptr_t) asked->args.v);
        if (fflush(stdout) != 0)
                end.code = EXIT_SETUP;
        say(&end);
}

/* The same for as long as somebody wants it: the end of the socket is SIGIO, which kills. */
static void op_stream(const struct asked *asked) {
        if (fcntl(client, F_SETOWN, getpid()) < 0 || fcntl(client, F_SETFL, O_ASYNC) < 0)
                fail(EXIT_SETUP, "SANDBOX_SETUP_FAILED", "the socket of the library is none");
        else
                op_verb(asked);
}

static const struct {
        const char *name;
        void (*run)(const struct asked *asked);
} ops[] = {
        { "run", op_run },
        { "exec", op_exec },
        { "verb", op_verb },
        { "stream", op_stream },
};

static void serve(const struct asked *asked) {
        if (!asked->version || strcmp(asked->version, COFFERDAM_VERSION) != 0) {
                fail(EXIT_SETUP, "SANDBOX_SETUP_FAILED",
                     "the program cofferdam is version " COFFERDAM_VERSION ", and libcofferdam is not");
                return;
        }
        for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
                if (asked->op && strcmp(ops[i].name, asked->op) == 0) {
                        ops[i].run(asked);
                        return;
                }
        fail(EXIT_SETUP, "SANDBOX_SETUP_FAILED", "the program cofferdam does not know what is asked");
}

int library_main(void) {
        AUTO_BUF struct buf text = { .max = REQUEST_MAX_BYTES };
        AUTO_ASKED struct asked asked = { 0 };
        const pid_t pid = fork();
        int r;

        if (pid != 0)
                return pid < 0 ? EXIT_SETUP : EXIT_OK;
        log_set_level(LOG_ERROR); /* what is degraded stands in the events */
        for (int fd = REQUEST_SOCK_FD; fd < REQUEST_FDS; fd++)
                if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
                        return EXIT_USAGE; /* somebody typed the word: there is nothing to serve */
        r = file_read(REQUEST_TEXT_FD, REQUEST_MAX_BYTES, &text);
        (void) close(REQUEST_TEXT_FD);
        if (r == 0)
                r = asked_parse(text.data, text.len, &asked);
        if (r < 0)
                fail(EXIT_SETUP, "SANDBOX_SETUP_FAILED", "the request of the library cannot be read");
        else
                serve(&asked);
        return EXIT_OK;
}
