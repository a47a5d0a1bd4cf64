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

#include "drivers/native/probe.h"
#include "drivers/oci/build.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/fdpass.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/run/alone.h"
#include "runtime/run/changes.h"
#include "runtime/run/client.h"
#include "runtime/run/control.h"
#include "runtime/run/events.h"
#include "runtime/run/exposed.h"
#include "runtime/run/keeper.h"
#include "runtime/run/order.h"
#include "runtime/run/pass.h"
#include "runtime/run/supervisor.h"
#include "runtime/run/tokens.h"
#include "runtime/spec/keys.h"
#include "runtime/spec/refuse.h"
#include "runtime/spec/repository.h"
#include "runtime/spec/resolve.h"

enum { EXIT_SAID_WRONG = 2, EXIT_AROUND = 125, SINK_END_MS = 1000 }; /* see cofferdam-run(1) */

static void refuse(struct run_msg *ret, const char *failure_code, const char *text) {
        *ret = (struct run_msg){ .type = RUN_MSG_ERROR, .code = EXIT_AROUND };
        (void) snprintf(ret->failure_code, sizeof(ret->failure_code), "%s", failure_code);
        (void) snprintf(ret->text, sizeof(ret->text), "%s", text);
}

void run_refused(int events_fd, const char *failure_code, const char *reason) {
        struct events events = { .run_id = "", .file_fd = -1, .sink_fd = events_fd };

        if (events_fd < 0)
                return;
        events_refused(&events, failure_code, reason);
        events_drain(&events, SINK_END_MS);
        events_deinit(&events);
}

static void refuse_plan(const struct run_request *req, struct run_msg *ret, const char *failure_code,
                        const char *text) {
        refuse(ret, failure_code, text);
        run_refused(req->events_fd, failure_code, text);
}

static const char *failure_of(int r) {
        return r == -EPERM ? "BIND_SOURCE_REFUSED" : driver_failure(r);
}

static bool is_tty(const int stdio[3], int i) {
        return stdio[i] >= 0 && isatty(stdio[i]);
}

static void command_of(const char *const *argv, const int stdio[3], const struct run_tty_order *tty,
                       struct exec_request *ret) {
        const bool on = tty->when == TTY_ON;

        *ret = (struct exec_request){ .argv = argv,
                                      .tty = on || (is_tty(stdio, 0) && is_tty(stdio, 1)),
                                      .winsize = tty->size };
        memcpy(ret->stdio, stdio, sizeof(ret->stdio));
        /* "2>errors" at a prompt keeps its meaning; who asks for a terminal gets it for all three */
        for (int i = 0; ret->tty && i < 3; i++)
                if (i < 2 || on || is_tty(stdio, 2))
                        ret->stdio[i] = -1;
        for (int i = 0; ret->tty && i < 2; i++)
                if (stdio[i] >= 0 && ioctl(stdio[i], TIOCGWINSZ, &ret->winsize) == 0)
                        break;
}

/* The run lives on once its caller has heard of it. */
static int let_go(const struct run_request *req, int sock, const struct run_msg *end, struct error *err) {
        const struct run_msg heard = { .type = RUN_MSG_READY };
        int r = req->ready ? req->ready(req->arg, end->run_id) : 0;

        if (r < 0)
                return error_set(err, r, "tell the id of the run: %s", strerror(-r));
        if (req->hold_fd)
                return 0;
        r = run_msg_send(sock, &heard, -1);
        if (r == -EPIPE || r == -ECONNRESET) /* who was told the id has stopped the run already */
                return 0;
        return r < 0 ? error_set(err, r, "tell the supervisor of the run: %s", strerror(-r)) : 0;
}

/* Another process waits for the end of the command's streams: only files stay open here, which are ours to
 * read and write. */
static void drop_streams(const int stdio[3], const struct relay *relay) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int i = 0; null >= 0 && i < 3; i++)
                if (stdio[i] >= 0 && relay->streams[i].file_fd != stdio[i])
                        (void) dup2(null, stdio[i]);
}

/* Forks the supervisor and stays until it has said its last word. */
static int supervise(struct supervisor_args *args, const struct run_request *req, struct relay *relay,
                     struct run_msg *ret, struct error *err) {
        int pair[2];
        AUTO_FD int ours = -1, theirs = -1;
        int r, status = 0;
        pid_t pid;

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
                relay_drop_ours(relay);
                if (req->client) /* whose end of file says that this process's parent is gone */
                        (void) close(*req->client);
                args->client_fd = theirs;
                _exit(supervisor_main(args));
        }
        theirs = fd_close(theirs);
        secrets_drop_files(args->secrets);
        relay_drop_theirs(relay);
        if (req->client)
                drop_streams(req->stdio, relay);
        r = req->client ? pass_wait(ours, *req->client, relay, ret, err)
                        : client_wait(pid, ours, req->stdio[0], req->stdio[1], relay, ret, err);
        if (r == 0 && ret->type == RUN_MSG_READY)
                r = let_go(req, ours, ret, err);
        if (r == 0 && ret->type == RUN_MSG_READY && req->hold_fd)
                *req->hold_fd = TAKE_FD(ours);
        if (r == 0 && ret->type == RUN_MSG_READY)
                return 0;
        if (r == 0 && (ret->flags & RUN_END_LINGERS))
                return 0;      /* only a reader of its events is waited for */
        ours = fd_close(ours); /* a run that is not let go ends with us */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        if (r == -ECONNRESET && WIFSIGNALED(status))
                return error_set(err, r, "the supervisor of the run was killed by signal %d",
                                 WTERMSIG(status));
        return r;
}

/* What a supervisor that was killed could not clear up. Return: whether nothing is left of the run. */
static bool bury(const struct ctx *ctx, const struct driver_ops *driver, struct run_dir *dir) {
        AUTO_JSON json_t *state = NULL;

        (void) !run_state_load(dir, &state, NULL);
        if (driver->reap && driver->reap(ctx, json_object_get(state, "plan"), dir->id, NULL) < 0)
                return false;
        return run_bury(dir, state);
}

/* Another run writes where this one was to be alone. */
static int not_alone(const struct run_request *req, const struct alone *alone, struct error *err) {
        if (req->spec->isolation == ISOLATION_STRICT)
                return error_set(err, -ENOTSUP,
                                 "workspace.cache: exclusive is not possible: %s: stop it, use shared, or "
                                 "--isolation degrade",
                                 alone->why);
        log_warn("degraded: cache shared instead of cache exclusive: %s", alone->why);
        return 0;
}

/* A failure of the run's directory, in doctor's words when its row says so. */
static int no_state(const struct ctx *ctx, int r, struct error *err) {
        struct probe_row row;

        return probe_one(ctx, "state_directory", &row) == PROBE_MISSING ? probe_refusal(&row, err) : r;
}

static int exposes(const struct driver_ops *driver, struct error *err) {
        return error_set(
                err, -EPERM,
                "driver '%s' hands the caller's own environment to the command: use --driver native, "
                "or no secrets",
                driver->name);
}

/* What comes inside, when @driver can have it there. @ret_failure: untouched unless there is to be any */
static int get_secrets(const struct ctx *ctx, const struct spec *spec, const struct driver_ops *driver,
                       struct secrets *ret, const char **ret_failure, struct error *err) {
        if (!secrets_wanted(spec, false))
                return 0;
        *ret_failure = "CREDENTIAL_EXPOSED";
        if (driver->starts_here)
                return exposes(driver, err);
        *ret_failure = "CAPABILITY_UNSUPPORTED";
        if (secrets_wanted(spec, true) && !driver->refresh_file)
                return error_set(err, -ENOTSUP,
                                 "secrets: driver '%s' has no files for them: use --driver native, or 'as: "
                                 "proxied'",
                                 driver->name);
        *ret_failure = "SPEC_INVALID";
        return secrets_read(ctx, spec, ret, err);
}

int run_check_secrets(const struct ctx *ctx, const struct spec *spec, const struct driver_ops *driver,
                      struct error *err) {
        AUTO_SECRETS struct secrets secrets = SECRETS_INIT;
        AUTO_SPEC struct spec *proxied = NULL;
        const char *failure;
        int r;

        r = get_secrets(ctx, spec, driver, &secrets, &failure, err);
        if (r == 0)
                r = secrets_without(spec, &proxied, err);
        if (r < 0 || !credentials_wanted(proxied))
                return r;
        return driver->starts_here ? exposes(driver, err)
                                   : keeper_check(ctx, proxied, driver->elsewhere, err);
}

/* Tokens in place of credentials. @ret_failure: untouched unless there are to be some */
static int get_tokens(const struct driver_ops *driver, const struct tokens_order *order, struct tokens *ret,
                      const char **ret_failure, struct error *err) {
        if (!credentials_wanted(order->spec))
                return 0;
        if (driver->starts_here) {
                *ret_failure = "CREDENTIAL_EXPOSED";
                return exposes(driver, err);
        }
        return tokens_start(order, ret, ret_failure, err);
}

/* The run directory holds nothing yet. */
static int give_up(const struct run_request *req, struct run_dir *dir, const char *failure, int r,
                   struct run_msg *ret, const struct error *err) {
        (void) run_bury(dir, NULL);
        if (!failure)
                return r;
        refuse_plan(req, ret, failure, err->msg);
        return 0;
}

static int execute(const struct ctx *ctx, const struct run_request *req, const struct driver_ops *driver,
                   const struct driver_plan *plan, struct trace *trace, struct run_msg *ret,
                   struct error *err) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        AUTO_ALONE struct alone alone = ALONE_INIT;
        AUTO_SECRETS struct secrets secrets = SECRETS_INIT;
        AUTO_SPEC struct spec *proxied = NULL;
        AUTO_TOKENS struct tokens tokens = TOKENS_INIT;
        CLEANUP(relay_deinit) struct relay relay = RELAY_INIT;
        struct tokens_order order = { .ctx = ctx,
                                      .spec = req->spec,
                                      .run_id = dir.id,
                                      .own_loopback = driver->own_loopback && driver->own_loopback(plan),
                                      .elsewhere = driver->elsewhere };
        const char *failure = NULL;
        struct exec_request command;
        struct supervisor_args args = {
                .ctx = ctx,
                .driver = driver,
                .plan = plan,
                .spec = req->spec,
                .spec_json = req->spec_json,
                .command = req->argv ? &command : NULL,
                .dir = &dir,
                .tokens = &tokens,
                .secrets = &secrets,
                .alone = &alone,
                .events_fd = req->events_fd,
                .client_fd = -1,
        };
        int r;

        command_of(req->argv, req->stdio, &req->tty, &command);
        r = relay_init(&relay, command.stdio, err);
        if (r < 0)
                return r;
        memcpy(args.stdio, command.stdio, sizeof(args.stdio));
        r = client_block_signals(); /* from here on there is something to clean up */
        if (r < 0)
                return error_set(err, r, "block signals: %s", strerror(-r));
        r = run_dir_create(ctx, &dir, err);
        if (r < 0)
                return no_state(ctx, r, err);
        if (req->spec->name)
                r = run_dir_name(ctx, &dir, req->spec->name, err);
        if (r == 0)
                r = alone_look(ctx, &dir, driver, plan, &alone, err);
        if (r == 0 && alone.why[0])
                r = not_alone(req, &alone, err);
        trace_step(trace, "run directory");
        order.run_dir_fd = dir.fd;
        if (r == 0)
                r = get_secrets(ctx, req->spec, driver, &secrets, &failure, err);
        if (r == 0 && secrets_wanted(req->spec, false)) {
                r = secrets_without(req->spec, &proxied, err);
                order.spec = proxied;
        }
        if (r == 0)
                r = get_tokens(driver, &order, &tokens, &failure, err);
        if (r == 0 && secrets.n_env > 0)
                r = tokens_add_env(&tokens, secrets.env, secrets.n_env);
        secrets_erase(ctx, req->spec);
        if (r < 0) {
                tokens_after(&tokens, &order);
                return give_up(req, &dir, failure, r, ret, err);
        }
        command.env = tokens.env;
        if (tokens.said)
                trace_step(trace, "tokens");
        args.trace = trace_fork(trace, "supervisor");
        r = supervise(&args, req, &relay, ret, err);
        trace_step(trace, "everything of the supervisor");
        if (r < 0) /* it was killed, or was not there: else it has done so */
                tokens_end(&tokens, (char[TOKENS_RESULTS_MAX]){ 0 });
        if (r < 0 || ret->type != RUN_MSG_READY) /* the run is over */
                tokens_after(&tokens, &order);
        if (r < 0 && !bury(ctx, driver, &dir))
                return error_wrap(err, r, "run %s keeps what it holds", dir.id);
        return r;
}

/* Who serves @spec; NULL with a message: nobody. */
static const struct driver_ops *pick_driver(const struct ctx *ctx, const struct spec *spec,
                                            struct error *err) {
        const char *name = spec->driver ? spec->driver : "auto";
        const struct driver_ops *driver;

        if (spec->mode == MODE_NONE)
                name = "noop"; /* wins over everything, and is said */
        if (strcmp(name, "auto") == 0)
                return driver_choose(ctx, spec, err);
        driver = driver_find(name);
        if (!driver)
                (void) error_set(err, -ENOTSUP, "driver '%s' is not in this build; use --driver native",
                                 ESC(name));
        return driver;
}

/* Whether the operator gave the value, and not the author of a workflow. */
static bool by_operator(const struct spec *spec, const char *name) {
        const enum spec_tier tier = spec->tier_of[key_index(key_find(SECTION_ROOT, name))];

        return tier != TIER_BUILTIN && tier != TIER_WORKFLOW;
}

/* The last rung is for an operator who asked for a sandbox if possible, by name, and for less where it is
 * not. */
static bool may_fall(const struct spec *spec, const struct driver_ops *driver) {
        return spec->isolation == ISOLATION_DEGRADE && spec->mode == MODE_AUTO &&
               strcmp(driver->name, "native") == 0 && by_operator(spec, "mode") &&
               by_operator(spec, "isolation");
}

int run_plan(const struct ctx *ctx, const struct spec *spec, const struct driver_ops **ret_driver,
             struct driver_plan **ret, struct error *err) {
        const struct driver_ops *driver = pick_driver(ctx, spec, err);
        struct error why;
        int r;

        *ret_driver = driver;
        if (!driver)
                return DRIVER_HOST_LACKS;
        if (spec->n_cluster_mounts > 0 && strcmp(driver->name, "kubernetes") != 0)
                return error_set(err, -ENOTSUP,
                                 "mounts: driver %s has no volumes of type pvc, configmap or secret: they "
                                 "are for --driver kubernetes",
                                 driver->name);
        r = driver->plan(ctx, spec, ret, err);
        if (r != DRIVER_HOST_LACKS || !may_fall(spec, driver))
                return r;
        driver = driver_find("landlock");
        why = *err; /* which becomes the reason of its events */
        if (driver->plan(ctx, spec, ret, &why) < 0) {
                log_debug("no fence either: %s", why.msg);
                return r; /* one cause, one remedy */
        }
        *ret_driver = driver;
        return 0;
}

/* What was asked for and is not done is said before the command's own words. */
static void warn_degraded(const struct driver_ops *driver, const struct driver_plan *plan) {
        AUTO_JSON json_t *text = driver->describe(plan);
        const json_t *const rows = json_object_get(text, "degraded");

        for (size_t i = 0; i < json_array_size(rows); i++) {
                const json_t *const row = json_array_get(rows, i);

                log_warn("degraded: %s instead of %s: %s", json_string_value(json_object_get(row, "got")),
                         json_string_value(json_object_get(row, "wanted")),
                         ESC(json_string_value(json_object_get(row, "reason"))));
        }
}

/** struct settled - a request that does without what the repository wanted and cannot have */
struct settled {
        struct run_request req;
        struct spec *spec;
        json_t *dump;
};

static void settled_deinit(struct settled *s) {
        s->spec = spec_free(s->spec);
        json_decref(s->dump);
        s->dump = NULL;
}

/* run_plan() of what is to be built first, which takes the place of the specification then. */
static int build_plan(const struct ctx *ctx, struct settled *s, const struct driver_ops **ret_driver,
                      struct driver_plan **ret, struct error *err) {
        int r;

        if (!build_wanted(s->req.spec))
                return run_plan(ctx, s->req.spec, ret_driver, ret, err);
        r = build_image(ctx, s->req.spec, &s->spec, err);
        if (r < 0)
                return r;
        s->dump = spec_dump(s->spec);
        return s->dump ? run_plan(ctx, s->spec, ret_driver, ret, err)
                       : error_set(err, -ENOMEM, "out of memory");
}

/* And where the image that a repository names is what fails, again without it. */
static int settle_plan(const struct ctx *ctx, struct settled *s, const struct driver_ops **ret_driver,
                       struct driver_plan **ret, struct error *err) {
        const struct spec *const asked = s->req.spec;
        struct error why;
        int r, again;

        r = build_plan(ctx, s, ret_driver, ret, err);
        if (r == 0 && s->spec) {
                s->req.spec = s->spec;
                s->req.spec_json = s->dump;
        }
        if (r == 0)
                return 0;
        settled_deinit(s);
        why = *err;
        again = repository_without_root(asked, why.msg, &s->spec, err);
        if (again == 0 && s->spec) {
                s->dump = spec_dump(s->spec);
                again = s->dump ? 0 : -ENOMEM;
        }
        if (again == 0 && s->spec)
                again = run_plan(ctx, s->spec, ret_driver, ret, err);
        if (again < 0 || !s->spec) {
                *err = why;
                return r;
        }
        s->req.spec = s->spec;
        s->req.spec_json = s->dump;
        log_warn("the repository's image is not used, but the host's root: %s", why.msg);
        return 0;
}

/* One file that says nothing because of one mistake in it is said aloud; the rest is for 'spec show'. */
static void warn_unusable(const struct spec *spec) {
        for (size_t i = 0; i < spec->n_refused; i++)
                if (strcmp(spec->refused[i].key, "devcontainer.json") == 0)
                        log_warn("devcontainer.json is not used: %s: %s", ESC(spec->refused[i].reason),
                                 spec->refused[i].remedy);
}

void run_execute(const struct ctx *ctx, const struct run_request *asked, struct run_msg *ret) {
        CLEANUP(settled_deinit) struct settled settled = { .req = *asked };
        const struct run_request *const req = &settled.req;
        struct error err = { 0 };
        const struct driver_ops *driver;
        struct driver_plan *plan = NULL;
        struct trace trace = req->trace;
        int r;

        warn_unusable(req->spec);
        r = probe_limits(ctx, &err);
        if (r == 0)
                r = settle_plan(ctx, &settled, &driver, &plan, &err);
        trace_step(&trace, "plan");
        if (r < 0) {
                refuse_plan(req, ret, failure_of(r), err.msg);
                if (r == -EINVAL) /* the specification, not the host */
                        ret->code = EXIT_SAID_WRONG;
                return;
        }
        /* a strict run takes no rung that was asked not to be taken, but one of the network that nobody named
         */
        if (req->spec->isolation == ISOLATION_DEGRADE || req->spec->image ||
            strcmp(driver->name, "noop") == 0 || req->spec->network.mode == NETWORK_ALLOWLIST ||
            req->spec->network.mode == NETWORK_DENYLIST)
                warn_degraded(driver, plan);
        r = execute(ctx, req, driver, plan, &trace, ret, &err);
        (void) driver->plan_free(plan);
        if (r < 0)
                probe_remedy(r, &err);
        if (r == -ENOTSUP || r == DRIVER_HOST_LACKS)
                refuse_plan(req, ret, failure_of(r), err.msg);
        else if (r < 0)
                refuse(ret, "SANDBOX_SETUP_FAILED", err.msg);
}

static int exec_in(const struct run_dir *dir, const struct exec_order *order, struct run_msg *ret,
                   struct error *err) {
        CLEANUP(relay_deinit) struct relay relay = RELAY_INIT;
        AUTO_FD int sock = -1, block = -1;
        struct exec_request command = { 0 };
        struct run_msg msg;
        int fds[RUN_MSG_FDS_MAX];
        size_t n;
        int r = 0;

        if (!order->detach) {
                command_of(order->argv, order->stdio, &order->tty, &command);
                r = relay_init(&relay, command.stdio, err);
        }
        if (r == 0)
                r = order_message(order, &command, &msg, fds, &n, err);
        if (r < 0)
                return r;
        block = fds[0];
        r = client_block_signals(); /* from here on there is something to clean up */
        if (r < 0)
                return error_set(err, r, "block signals: %s", strerror(-r));
        sock = control_connect(dir, err);
        if (sock < 0)
                return sock;
        r = fdpass_send(sock, &msg, sizeof(msg), fds, n);
        if (r < 0 && r != -EPIPE) /* refused: why stands in what it said before it hung up */
                return error_set(err, r, "hand the command to run %s: %s", dir->id, strerror(-r));
        relay_drop_theirs(&relay);
        if (order->client) {
                drop_streams(order->stdio, &relay);
                return pass_wait(sock, *order->client, &relay, ret, err);
        }
        return client_wait(0, sock, order->stdio[0], order->stdio[1], &relay, ret, err);
}

void run_exec(const struct run_dir *dir, const struct exec_order *order, struct run_msg *ret) {
        struct error err = { 0 };
        const int r = exec_in(dir, order, ret, &err);

        if (r < 0)
                refuse(ret,
                       r == -ESRCH || r == -ECONNRESET ? "SANDBOX_DRIVER_UNAVAILABLE"
                                                       : "SANDBOX_SETUP_FAILED",
                       err.msg);
}
