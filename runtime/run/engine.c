/*
 * DOC: theory of operation
 *
 * plan -> run directory -> fork of the supervisor -> wait. The plan is made by the caller's process with the
 * caller's rights and has no side effect; from the fork on the supervisor owns everything and this process
 * only forwards signals and the terminal (client.c). The two are joined by a socket: the end of either is
 * seen by the other.
 */
#include "runtime/run/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"
#include "runtime/run/client.h"
#include "runtime/run/supervisor.h"

enum { EXIT_SAID_WRONG = 2, EXIT_AROUND = 125 }; /* see cofferdam-run(1) */

static void refuse(struct run_msg *ret, const char *failure_code, const char *text) {
        *ret = (struct run_msg){ .type = RUN_MSG_ERROR, .code = EXIT_AROUND };
        (void) snprintf(ret->failure_code, sizeof(ret->failure_code), "%s", failure_code);
        (void) snprintf(ret->text, sizeof(ret->text), "%s", text);
}

static const char *failure_of(int r) {
        return r == -EINVAL    ? "SPEC_INVALID"
               : r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED"
               : r == -EPERM   ? "BIND_SOURCE_REFUSED"
                               : "SANDBOX_SETUP_FAILED";
}

/* The state as it is before the supervisor starts. */
static json_t *first_state(const struct run_request *req, const struct driver_ops *driver,
                           const struct driver_plan *plan, const struct run_dir *dir) {
        json_t *described = driver->describe(plan);
        json_t *state = json_pack("{s:i,s:s,s:s,s:s*,s:b}", "version", 1, "id", dir->id, "driver",
                                  driver->name, "name", req->spec->name, "keep", req->spec->keep);

        if (!state || !described ||
            json_object_set(state, "regions", json_object_get(described, "regions")) < 0 ||
            json_object_set(state, "plan", described) < 0) {
                json_decref(described);
                json_decref(state);
                return NULL;
        }
        json_decref(described);
        return state;
}

/* Writes spec.json and opens events.jsonl. */
static int fill_run_dir(const struct run_request *req, struct run_dir *dir, struct events *events,
                        struct error *err) {
        AUTO_FREE char *text = NULL;
        int r;

        text = json_dumps(req->spec_json, JSON_INDENT(1));
        if (!text)
                return error_set(err, -ENOMEM, "out of memory");
        r = file_replace_at(dir->fd, "spec.json", text, strlen(text), 0600, false);
        if (r < 0)
                return error_set(err, r, "write spec.json of run '%s': %s", dir->id, strerror(-r));
        events->file_fd =
                openat(dir->fd, "events.jsonl", O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        if (events->file_fd < 0)
                return error_set(err, -errno, "make events.jsonl of run '%s': %s", dir->id, strerror(errno));
        return 0;
}

static bool wants_tty(const struct run_request *req) {
        if (req->tty == TTY_ON)
                return true;
        return req->stdio[0] >= 0 && req->stdio[1] >= 0 && isatty(req->stdio[0]) && isatty(req->stdio[1]);
}

static void command_of(const struct run_request *req, struct exec_request *ret) {
        *ret = (struct exec_request){ .argv = req->argv, .tty = wants_tty(req) };
        memcpy(ret->stdio, req->stdio, sizeof(ret->stdio));
        for (int i = 0; ret->tty && i < 2; i++)
                if (req->stdio[i] >= 0 && ioctl(req->stdio[i], TIOCGWINSZ, &ret->winsize) == 0)
                        break;
}

/* Forks the supervisor and stays until it has said its last word. */
static int supervise(struct supervisor_args *args, const struct run_request *req, struct run_msg *ret,
                     struct error *err) {
        int pair[2];
        AUTO_FD int ours = -1, theirs = -1;
        pid_t pid;
        int r;

        r = client_block_signals();
        if (r == 0)
                r = fdpass_pair(pair);
        if (r < 0)
                return error_set(err, r, "socket to the supervisor: %s", strerror(-r));
        ours = pair[0];
        theirs = pair[1];
        pid = fork();
        if (pid < 0)
                return error_set(err, -errno, "fork the supervisor: %s", strerror(errno));
        if (pid == 0) {
                (void) fd_close(ours);
                args->client_fd = theirs;
                _exit(supervisor_main(args));
        }
        theirs = fd_close(theirs);
        r = client_wait(ours, req->stdio[0], req->stdio[1], ret, err);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                ;
        return r;
}

static int execute(const struct ctx *ctx, const struct run_request *req, const struct driver_ops *driver,
                   const struct driver_plan *plan, struct trace *trace, struct run_msg *ret,
                   struct error *err) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct events events = { .run_id = dir.id, .file_fd = -1, .sink_fd = req->events_fd };
        struct exec_request command;
        AUTO_JSON json_t *state = NULL;
        AUTO_FD int events_fd = -1;
        int r;

        r = run_dir_create(ctx, &dir, err);
        if (r < 0)
                return r;
        command_of(req, &command);
        state = first_state(req, driver, plan, &dir);
        r = state ? fill_run_dir(req, &dir, &events, err) : error_set(err, -ENOMEM, "out of memory");
        events_fd = events.file_fd;
        trace_step(trace, "run directory");
        if (r == 0) {
                struct supervisor_args args = {
                        .ctx = ctx,
                        .driver = driver,
                        .plan = plan,
                        .command = &command,
                        .dir = &dir,
                        .events = &events,
                        .state = state,
                        .client_fd = -1,
                        .keep = req->spec->keep,
                        .trace = trace_fork(trace, "supervisor"),
                };

                r = supervise(&args, req, ret, err);
                trace_step(trace, "everything of the supervisor");
        } else {
                (void) run_dir_remove(&dir);
        }
        return r;
}

/* Who serves @spec; NULL with a message: nobody. */
static const struct driver_ops *pick_driver(const struct spec *spec, struct error *err) {
        const char *name = spec->driver ? spec->driver : "auto";
        const struct driver_ops *driver = driver_find(name);

        if (spec->mode == MODE_NONE) {
                (void) error_set(err, -ENOTSUP, "mode 'none' is not in this version: every run is isolated");
                return NULL;
        }
        if (!driver)
                (void) error_set(err, -ENOTSUP, "driver '%s' is not in this build; use --driver native",
                                 ESC(name));
        return driver;
}

void run_execute(const struct ctx *ctx, const struct run_request *req, struct run_msg *ret) {
        struct error err = { 0 };
        const struct driver_ops *driver = pick_driver(req->spec, &err);
        struct driver_plan *plan = NULL;
        struct trace trace = req->trace;
        int r;

        if (!driver) {
                refuse(ret, "SANDBOX_DRIVER_UNAVAILABLE", err.msg);
                return;
        }
        r = driver->plan(ctx, req->spec, &plan, &err);
        trace_step(&trace, "plan");
        if (r < 0) {
                refuse(ret, failure_of(r), err.msg);
                if (r == -EINVAL) /* the specification, not the host */
                        ret->code = EXIT_SAID_WRONG;
                return;
        }
        r = execute(ctx, req, driver, plan, &trace, ret, &err);
        (void) driver->plan_free(plan);
        if (r < 0)
                refuse(ret, "SANDBOX_SETUP_FAILED", err.msg);
}
