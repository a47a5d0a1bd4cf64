/*
 * DOC: theory of operation
 *
 * One supervisor per run, without threads. It starts the sandbox through the driver's vtable, starts the
 * command in it and then only waits: for the caller's process (its end of file ends the run: a killed caller
 * leaves nothing), for the sandbox (results, notices, loss). It parses nothing that comes from inside; guard
 * notices are fixed-size and their strings are escaped before they reach events.jsonl.
 *
 * Phases: running -> finished, as state.json says. A sandbox that is lost (the file
 * server died, init died without a result) ends the run with a failure code. Whatever happens, stop() runs
 * before the last message, so a caller that has seen RUN_MSG_EXIT finds everything gone and all writes on the
 * host.
 */
#include "runtime/run/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/layer.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/run/changes.h"
#include "runtime/run/message.h"
#include "runtime/run/record.h"

enum { HELD_COUNT_MAX = 100000, EXIT_AROUND = 125, COMMAND_ID = 1 };

struct supervisor {
        const struct supervisor_args *args;
        struct sandbox *sandbox;
        struct exec_result result;
        struct run_msg final; /* what the caller is told at the end */
        uint32_t held, denied;
        uint64_t started_ns;
        struct record record;
        json_t *seeds; /* what was copied into the home; NULL: nothing; owned */
        struct trace trace;
        bool over;
};

static void fail(struct supervisor *s, const char *failure_code, const char *text) {
        if (s->final.type == RUN_MSG_ERROR)
                return; /* the first reason counts */
        s->final.type = RUN_MSG_ERROR;
        s->final.code = EXIT_AROUND;
        s->final.signal = s->final.exec_errno = 0;
        (void) snprintf(s->final.failure_code, sizeof(s->final.failure_code), "%s", failure_code);
        (void) snprintf(s->final.text, sizeof(s->final.text), "%s", text);
        s->over = true;
}

static void on_seeded(void *arg, const struct seed_report *report) {
        struct supervisor *s = arg;

        if (!s->seeds)
                s->seeds = json_array();
        (void) json_array_append_new(
                s->seeds, json_pack("{s:o,s:o,s:s,s:i,s:I,s:s}", "source",
                                    json_from_bytes(report->source, EVENT_STRING_MAX), "target",
                                    json_from_bytes(report->target, EVENT_STRING_MAX), "kind",
                                    report->is_dir ? "directory" : "file", "files", (int) report->files,
                                    "bytes", (json_int_t) report->bytes, "sha256", report->sha256));
}

static void on_exec_started(void *arg, uint32_t id, int pty_fd) {
        struct supervisor *s = arg;
        struct run_msg msg = { .type = RUN_MSG_STARTED };

        (void) id;
        memcpy(msg.run_id, s->args->dir->id, sizeof(msg.run_id));
        if (run_msg_send(s->args->client_fd, &msg, pty_fd) < 0)
                s->over = true;
        (void) fd_close(pty_fd);
}

static json_t *argv_json(const char *const *argv) {
        json_t *list = json_array();
        size_t room = EVENT_STRING_MAX;

        for (size_t i = 0; argv[i] && room > 0; i++) {
                const size_t len = strlen(argv[i]);

                (void) json_array_append_new(list, json_from_bytes(argv[i], room));
                room -= len < room ? len : room;
        }
        return list;
}

static void on_exec_finished(void *arg, const struct exec_result *result) {
        struct supervisor *s = arg;

        s->result = *result;
        s->over = true;
        if (s->final.type != RUN_MSG_ERROR) { /* else it ended together with the sandbox */
                s->final.code = result->exit_code;
                s->final.signal = result->signal;
                s->final.exec_errno = result->exec_errno;
        }
        events_emit(&s->record.events, "exec_finished",
                    json_pack("{s:i,s:i,s:i,s:I,s:I}", "exec_id", COMMAND_ID, "exit_code", result->exit_code,
                              "signal", result->signal, "duration_ms",
                              (json_int_t) ((clock_ns() - s->started_ns) / 1000000), "max_rss_bytes",
                              (json_int_t) result->max_rss_bytes));
}

/* What the run does about it was done: the region is not served any more, or it is as before. */
static void on_source_changed(struct supervisor *s, const struct guard_notice *notice) {
        char text[ERROR_MSG_MAX];

        events_emit(
                &s->record.events, "bind_source_changed",
                json_pack("{s:o,s:o,s:o,s:o,s:i}", "source", json_from_bytes(notice->path, EVENT_STRING_MAX),
                          "was", json_from_bytes(notice->rule, EVENT_STRING_MAX), "now",
                          json_from_bytes(notice->detail, EVENT_STRING_MAX), "action",
                          json_from_bytes(notice->op, sizeof(notice->op)), "region", (int) notice->region));
        if (strcmp(notice->op, "stop") != 0)
                return;
        (void) snprintf(
                text, sizeof(text),
                "bind source '%s' changed while the run used it: was %s, now: %s; start again, or use "
                "on_source_change=pin",
                ESC(notice->path), ESC(notice->rule), ESC(notice->detail));
        fail(s, "BIND_SOURCE_CHANGED", text);
}

static void on_notice(void *arg, const struct guard_notice *notice) {
        struct supervisor *s = arg;
        const bool held = notice->type == NOTICE_HELD;

        if (notice->type == NOTICE_SOURCE_CHANGED) {
                on_source_changed(s, notice);
                return;
        }
        if (held &&
            s->held == 0) /* from now on the run holds something that only its state can lead to the host */
                (void) run_state_store(s->args->dir, s->record.state, true, NULL);
        s->held += held;
        s->denied += !held;
        events_emit(
                &s->record.events, held ? "guard_held" : "guard_denied",
                json_pack("{s:o,s:o,s:o,s:o,s:i}", "path", json_from_bytes(notice->path, EVENT_STRING_MAX),
                          "op", json_from_bytes(notice->op, sizeof(notice->op)), "rule",
                          json_from_bytes(notice->rule, EVENT_STRING_MAX), "detail",
                          json_from_bytes(notice->detail, EVENT_STRING_MAX), "region", (int) notice->region));
}

static void on_lost(void *arg, const char *failure_code, const char *reason) {
        fail(arg, failure_code, reason);
}

static void on_client(struct supervisor *s) {
        const struct supervisor_args *args = s->args;
        struct run_msg msg;

        if (run_msg_recv(args->client_fd, &msg, NULL) < 0 || msg.type == RUN_MSG_KILL) {
                s->over = true;
                s->final.code = 128 + SIGKILL;
                s->final.signal = SIGKILL;
                return;
        }
        if (msg.type == RUN_MSG_SIGNAL)
                (void) args->driver->signal(s->sandbox, COMMAND_ID, msg.signal, msg.code == 1);
}

static void loop(struct supervisor *s) {
        while (!s->over) {
                struct pollfd fds[1 + SANDBOX_POLL_MAX] = { { .fd = s->args->client_fd, .events = POLLIN } };
                const size_t n = s->args->driver->poll(s->sandbox, fds + 1);

                if (poll(fds, 1 + n, -1) < 0) {
                        if (errno != EINTR)
                                fail(s, "SANDBOX_SETUP_FAILED", "poll failed in the supervisor");
                        continue;
                }
                if (fds[0].revents)
                        on_client(s);
                s->args->driver->dispatch(s->sandbox, fds + 1, n);
        }
}

/* Moves the caller's standard descriptors out of the way; 0, 1 and 2 become /dev/null (2 stays for a trace).
 */
static int detach_stdio(const struct supervisor_args *args, int stdio[3]) {
        AUTO_FD int null = -1;

        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null < 0)
                return -errno;
        for (int i = 0; i < 3; i++) {
                stdio[i] = args->command->stdio[i];
                if (stdio[i] >= 0) {
                        stdio[i] = fcntl(stdio[i], F_DUPFD_CLOEXEC, 3);
                        if (stdio[i] < 0)
                                return -errno;
                }
                if (!(i == 2 && args->trace.on) && dup2(null, i) < 0)
                        return -errno;
        }
        return 0;
}

/* The state before anything has happened. */
static json_t *first_state(const struct supervisor_args *args) {
        AUTO_JSON json_t *plan = args->driver->describe(args->plan);

        return plan ? json_pack("{s:i,s:s,s:s,s:s*,s:b,s:O,s:O}", "version", 1, "id", args->dir->id, "driver",
                                args->driver->name, "name", args->spec->name, "keep", args->spec->keep,
                                "regions", json_object_get(plan, "regions"), "plan", plan)
                    : NULL;
}

/* While the sandbox builds itself: the run's own files. */
static int meanwhile(void *arg, struct error *err) {
        struct supervisor *s = arg;
        int r;

        r = layer_usable(s->args->dir->upper_fd, err);
        if (r < 0)
                return r;
        return record_open(&s->record, s->args->spec_json, first_state(s->args), err);
}

/* What was asked for and is not done, each with its reason. */
static void tell_degraded(struct supervisor *s, const json_t *plan) {
        const json_t *const rows = json_object_get(plan, "degraded");

        for (size_t i = 0; i < json_array_size(rows); i++) {
                const json_t *const row = json_array_get(rows, i);

                events_emit(&s->record.events, "sandbox_degraded",
                            json_pack("{s:O,s:O,s:O}", "wanted", json_object_get(row, "wanted"), "got",
                                      json_object_get(row, "got"), "reason", json_object_get(row, "reason")));
        }
}

/* The sandbox exists. */
static void tell_started(struct supervisor *s) {
        const json_t *const spec = s->args->spec_json; /* each value as {"value":,"tier":} */
        const json_t *const mode = json_object_get(spec, "mode");
        const json_t *const network = json_object_get(json_object_get(spec, "network"), "mode");
        json_t *const plan = json_object_get(s->record.state, "plan");
        const char *const root = "host";

        tell_degraded(s, plan);
        events_emit(&s->record.events, "sandbox_started",
                    json_pack("{s:s,s:O*,s:O*,s:s,s:O*,s:O*,s:I,s:O*}", "driver", s->args->driver->name,
                              "mode", json_object_get(mode, "value"), "tier", json_object_get(mode, "tier"),
                              "root", root, "workspace", json_object_get(plan, "workspace"), "network",
                              json_object_get(network, "value"), "setup_ms",
                              (json_int_t) ((clock_ns() - s->started_ns) / 1000000), "isolation", plan));
}

/* Starts the sandbox and the command in it. */
static int start(struct supervisor *s, int stdio[3], struct error *err) {
        static const struct sandbox_callbacks callbacks = {
                .seeded = on_seeded,
                .exec_started = on_exec_started,
                .exec_finished = on_exec_finished,
                .notice = on_notice,
                .lost = on_lost,
        };
        const struct supervisor_args *args = s->args;
        struct exec_request command = *args->command;
        struct start_request req = {
                .run_id = args->dir->id,
                .upper_fd = args->dir->upper_fd,
                .run_fd = args->dir->fd,
                .keep_fds = { args->client_fd, stdio[0], stdio[1], stdio[2] },
                .n_keep_fds = 4,
                .trace = s->trace,
                .first = &command,
                .meanwhile = meanwhile,
                .callbacks = &callbacks,
                .arg = s,
        };
        int r;

        s->started_ns = clock_ns();
        command.id = COMMAND_ID;
        memcpy(command.stdio, stdio, sizeof(command.stdio));
        r = args->driver->start(args->plan, &req, &s->sandbox, err);
        if (r < 0)
                return r;
        /* the command runs: from here on nothing takes time from it */
        s->trace = trace_fork(&s->trace, "supervisor"); /* the driver told its own steps */
        tell_started(s);
        s->started_ns = clock_ns();
        if (s->seeds)
                events_emit(&s->record.events, "host_state_seeded",
                            json_pack("{s:o}", "entries", TAKE_PTR(s->seeds)));
        events_emit(&s->record.events, "exec_started",
                    json_pack("{s:i,s:o}", "exec_id", COMMAND_ID, "argv", argv_json(command.argv)));
        return 0;
}

/* The last words: events, the final state, and the run directory, which stays only when it holds something.
 */
static void finish(struct supervisor *s) {
        const struct supervisor_args *args = s->args;

        s->final.held = run_changes_count(args->dir, s->record.state, HELD_COUNT_MAX);
        events_emit(&s->record.events, "sandbox_finished",
                    json_pack("{s:i,s:i,s:s,s:I,s:I,s:i,s:i}", "exit_code", s->final.code, "signal",
                              s->final.signal, "failure_code", s->final.failure_code, "duration_ms",
                              (json_int_t) (s->started_ns ? (clock_ns() - s->started_ns) / 1000000 : 0),
                              "peak_memory", (json_int_t) s->result.max_rss_bytes, "held",
                              (int) s->final.held, "denied", (int) s->denied));
        record_close(&s->record, s->final.code, s->final.failure_code, s->final.held, args->spec->keep);
}

int supervisor_main(const struct supervisor_args *args) {
        struct supervisor s = { .args = args, .final = { .type = RUN_MSG_EXIT } };
        struct error err = { 0 };
        int stdio[3] = { -1, -1, -1 };
        int r;

        (void) setsid();
        (void) signal(SIGPIPE, SIG_IGN);
        memcpy(s.final.run_id, args->dir->id, sizeof(s.final.run_id));
        record_init(&s.record, args->dir, args->events_fd);
        s.trace = args->trace;
        trace_step(&s.trace, "fork");
        r = detach_stdio(args, stdio);
        if (r < 0)
                (void) error_set(&err, r, "/dev/null for standard descriptors: %s", strerror(-r));
        else
                r = start(&s, stdio, &err);
        for (int i = 0; i < 3; i++)
                stdio[i] = fd_close(stdio[i]); /* the command's own: its end must be seen by whoever reads */
        if (r < 0)
                fail(&s, r == -ENOTSUP ? "SANDBOX_DRIVER_UNAVAILABLE" : "SANDBOX_SETUP_FAILED", err.msg);
        else
                loop(&s);
        trace_step(&s.trace, "command");
        s.sandbox = args->driver->stop(s.sandbox);
        if (s.final.type == RUN_MSG_ERROR)
                events_refused(&s.record.events, s.final.failure_code, s.final.text);
        trace_step(&s.trace, "stop");
        finish(&s);
        record_deinit(&s.record);
        json_decref(s.seeds);
        trace_step(&s.trace, "finish");
        return run_msg_send(args->client_fd, &s.final, -1) < 0;
}
