/*
 * DOC: theory of operation
 *
 * The conversation with one runner: start it, hear its hello or none, offer tools, hand over policy, replay
 * and task, serve what it asks until its result. The runner is the contained side: everything it says has one
 * outcome here (table below), and none of them executes what the gate does not admit.
 *
 *   no line, over 4 MiB, not JSON      the channel is broken: the task fails, the runner is killed
 *   type of the launcher, or unknown   ignored, counted
 *   hello later than first             the channel is broken
 *   anything before the task but hello the channel is broken
 *   tool_call, ask_user                serve.c: answered in every case; without an id the channel is broken
 *   event, session_capture             counted, cut, written down
 *   result                             the end: nothing is read after it
 *   anything after a signal            nothing is carried out or answered
 *   end of the stream before it        the task fails with the runner's exit code and the end of its stderr
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "runtime/agent/launch/parts.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"

enum { NS_PER_MS = 1000000, DRAIN_MS = 1000, STDERR_SHOWN = 2048, FAREWELL_MS = 2000, EOF_MS = 500 };

/* A signal ends the task: the runner gets it and has LAUNCH_END_MS, a second one kills it. */
static void look_for_signal(struct launch *l) {
        struct signalfd_siginfo info;

        if (read(l->order->signal_fd, &info, sizeof(info)) != sizeof(info))
                return;
        if (!l->signal)
                l->patience = clock_ns() + (uint64_t) LAUNCH_END_MS * NS_PER_MS;
        launch_command_signal(&l->command, l->signal ? SIGKILL : (int) info.ssi_signo);
        l->signal = (int) info.ssi_signo;
}

/* How long to wait: until @end_ns (0: for ever), the end of the patience with a signal, or what may be waited
 * for somebody whom the runner left behind. Return: for poll(2). */
static int wait_ms(const struct launch *l, uint64_t now, uint64_t end_ns) {
        const uint64_t drain_ns = (uint64_t) DRAIN_MS * NS_PER_MS;
        uint64_t end = end_ns;

        if (l->signal && (end == 0 || l->patience < end))
                end = l->patience;
        if (l->command.over && (end == 0 || now + drain_ns - l->drain_ns < end))
                end = now + drain_ns - l->drain_ns;
        return end == 0 ? -1 : (int) ((end - now) / NS_PER_MS) + 1;
}

/* Reads more of what the runner says. */
static int read_on(struct launch *l, struct error *err) {
        const size_t before = l->channel.in.len - l->channel.start;

        if (channel_fill(&l->channel) < 0)
                return error_set(err, -EIO, "read from the runner: %s", strerror(errno));
        if (l->command.over)
                l->drain_bytes += l->channel.in.len - l->channel.start - before;
        return 0;
}

/**
 * The next envelope. @end_ns: 0: no limit
 * Return: 1, 0 (the stream has ended, or the runner has and left somebody who holds it), -ETIMEDOUT,
 * -ECANCELED (a signal, and the runner does not end), or as channel_next().
 */
static int hear(struct launch *l, uint64_t end_ns, struct envelope *ret, struct error *err) {
        for (;;) {
                struct pollfd fds[4] = { { .fd = l->channel.in_fd, .events = POLLIN },
                                         { .fd = l->command.over ? -1 : l->command.sock, .events = POLLIN },
                                         { .fd = l->command.err_fd, .events = POLLIN },
                                         { .fd = l->order->signal_fd, .events = POLLIN } };
                const uint64_t now = clock_ns();
                const bool over = l->command.over;
                int r;

                look_for_signal(l);
                if (l->signal && now >= l->patience)
                        return error_set(err, -ECANCELED, "the runner did not end after the signal");
                r = channel_next(&l->channel, ret, err);
                if (r != 0 || l->channel.eof)
                        return r;
                if (over &&
                    (l->drain_ns >= (uint64_t) DRAIN_MS * NS_PER_MS || l->drain_bytes > LAUNCH_DRAIN_MAX))
                        return 0;
                if (end_ns > 0 && now >= end_ns)
                        return -ETIMEDOUT;
                r = poll(fds, ARRAY_SIZE(fds), wait_ms(l, now, end_ns));
                if (over)
                        l->drain_ns += clock_ns() - now;
                if (r < 0 && errno != EINTR)
                        return error_set(err, -errno, "poll: %s", strerror(errno));
                if (r <= 0)
                        continue;
                if (fds[2].revents)
                        launch_command_said(&l->command);
                if (fds[0].revents && read_on(l, err) < 0)
                        return -EIO;
                if (fds[1].revents)
                        launch_command_heard(&l->command);
        }
}

/* ---- the beginning ---- */

static int greet(struct launch *l, struct error *err) {
        const uint64_t end = clock_ns() + (uint64_t) LAUNCH_HELLO_MS * NS_PER_MS;
        AUTO_ENVELOPE struct envelope e = { 0 };
        AUTO_JSON json_t *own = NULL;
        int r;

        l->protocol = PROTOCOL_FIRST;
        if (l->order->protocol == PROTOCOL_FIRST)
                return 0;
        r = hear(l, end, &e, err);
        if (r == -ETIMEDOUT)
                return 0;
        if (r <= 0)
                return r < 0 ? r : error_set(err, -EPIPE, "the runner ended before it had a task");
        if (e.type != ENVELOPE_HELLO)
                return error_set(err, -EPROTO, "the runner sent '%s' before it had a task", ESC(e.name));
        r = hello_read(e.data, &l->hello, err);
        if (r < 0)
                return r;
        l->said_hello = true;
        l->protocol = l->hello.protocol;
        own = hello_json(NULL, NULL);
        return own ? channel_send(&l->channel, ENVELOPE_HELLO, NULL, own, err)
                   : error_set(err, -ENOMEM, "out of memory");
}

/* Both policies, for the tools inside, where the runner is the one who looks. */
static int send_policy(struct launch *l, struct error *err) {
        AUTO_JSON json_t *own = permission_json(l->gate.policies[0]),
                         *task = permission_json(l->gate.policies[1]);
        json_t *rules = json_object_get(own, "rules");

        if (!own || !task || json_array_extend(rules, json_object_get(task, "rules")) < 0)
                return error_set(err, -ENOMEM, "out of memory");
        return json_array_size(rules) > 0
                       ? channel_send(&l->channel, ENVELOPE_PERMISSION_POLICY, NULL, own, err)
                       : 0;
}

static int send_task(struct launch *l, json_t *servers, struct error *err) {
        AUTO_JSON json_t *task = json_copy(l->order->task->data);
        json_t *defs = gate_defs(&l->gate);
        int r = task && defs ? 0 : -ENOMEM;

        if (r == 0 && (json_array_size(defs) > 0 || servers))
                r = json_object_set_new(task, "has_tools", json_true());
        if (r == 0 && json_array_size(defs) > 0)
                r = json_object_set(task, "tool_defs", defs);
        if (r == 0 && servers)
                r = json_object_set(task, "mcp_servers", servers);
        json_decref(defs);
        return r < 0 ? error_set(err, -ENOMEM, "out of memory")
                     : channel_send(&l->channel, ENVELOPE_TASK, NULL, task, err);
}

static int begin(struct launch *l, struct error *err) {
        AUTO_JSON json_t *servers = NULL;
        int r;

        r = teller_init(&l->teller, l->order->dir, err);
        if (r == 0)
                r = launch_command_start(l->order->dir, l->order->argv, &l->command, err);
        if (r == 0)
                r = channel_init(&l->channel, l->command.out_fd, l->command.in_fd);
        l->channel.stop_fd = l->order->signal_fd;
        if (r == 0)
                r = greet(l, err);
        if (r == 0)
                r = offer_make(l, &servers, err);
        if (r == 0)
                launch_event(l, "delegate_started",
                             json_pack("{s:O,s:i,s:o,s:i}", "node_id",
                                       json_object_get(l->order->task->data, "node_id"), "protocol",
                                       l->protocol, "runner",
                                       json_from_bytes(l->hello.version, sizeof(l->hello.version)), "tools",
                                       (int) l->gate.n));
        if (r == 0)
                r = send_policy(l, err);
        if (r == 0 && l->order->replay)
                r = channel_send(&l->channel, ENVELOPE_SESSION_REPLAY, NULL, l->order->replay, err);
        return r < 0 ? r : send_task(l, servers, err);
}

/* ---- the middle ---- */

static int on_result(struct launch *l, json_t *data, struct error *err) {
        if (!json_is_object(data))
                return error_set(err, -EPROTO, "the runner sent a result that is no object");
        l->result = json_incref(data);
        return 0;
}

static int on_envelope(struct launch *l, const struct envelope *e, struct error *err) {
        switch (e->type) {
        case ENVELOPE_TOOL_CALL:
                return serve_call(l, e, err);
        case ENVELOPE_ASK_USER:
                return serve_question(l, e, err);
        case ENVELOPE_EVENT:
                launch_relay(l, e->data);
                return 0;
        case ENVELOPE_SESSION_CAPTURE:
                launch_keep(l, e->data);
                return 0;
        case ENVELOPE_RESULT:
                return on_result(l, e->data, err);
        case ENVELOPE_HELLO:
                return error_set(err, -EPROTO, "the runner sent a second or a late hello");
        case ENVELOPE_UNKNOWN:
        case ENVELOPE_PERMISSION_POLICY:
        case ENVELOPE_SESSION_REPLAY:
        case ENVELOPE_TASK:
        case ENVELOPE_TOOL_RESULT:
        case ENVELOPE_ASK_USER_ANSWER:
        case ENVELOPE_TYPE_COUNT:
                break;
        }
        l->ignored++;
        return 0;
}

static int converse(struct launch *l, struct error *err) {
        int r = 0;

        while (r == 0 && !l->result) {
                AUTO_ENVELOPE struct envelope e = { 0 };

                r = hear(l, 0, &e, err);
                if (r > 0)
                        r = on_envelope(l, &e, err);
                else if (r == 0)
                        r = error_set(err, -EPIPE, "runner exited without sending result envelope");
        }
        return r;
}

/* ---- the end ---- */

/* A runner that a signal ended may have ended with its run, which tells why: its time was over, the guard
 * died. */
static void ask_run(struct launch *l) {
        struct run_msg last;

        if (l->command.over && l->command.end.type == RUN_MSG_EXIT && l->command.end.code > 128 &&
            teller_farewell(&l->teller, FAREWELL_MS, &last) && *last.failure_code) {
                last.type = RUN_MSG_ERROR;
                l->command.end = last;
        }
}

/* Why a runner that had no result ended. */
static void add_cause(struct launch *l, struct error *err) {
        const struct run_msg *end = &l->command.end;
        const char *text = buf_cstr(&l->command.text);
        const size_t len = strlen(text);
        char shown[STDERR_SHOWN / 4];

        if (!l->command.over)
                return;
        (void) escape_str(len > STDERR_SHOWN / 8 ? text + len - STDERR_SHOWN / 8 : text, shown,
                          sizeof(shown));
        if (end->type == RUN_MSG_ERROR)
                (void) error_wrap(err, err->code, "%s", end->text);
        else if (end->exec_errno)
                (void) error_wrap(err, err->code, "execute '%s': %s", ESC(l->order->argv[0]),
                                  strerror(abs(end->exec_errno)));
        else if (end->code != 0 || len > 0)
                (void) error_wrap(err, err->code, "exit code %d: '%s'", end->code, shown);
}

static void finish(struct launch *l, bool kill_it) {
        l->command.in_fd = fd_close(l->command.in_fd);
        /* one that has closed its output may have ended: then how it did is on the way */
        if (kill_it && !(l->channel.eof && launch_command_wait(&l->command, EOF_MS)))
                launch_command_signal(&l->command, SIGKILL);
        if (launch_command_wait(&l->command, LAUNCH_END_MS))
                return;
        log_warn("the runner did not end after its result: it is killed");
        launch_command_signal(&l->command, SIGKILL);
        (void) launch_command_wait(&l->command, LAUNCH_END_MS);
}

static const char *failure_of(int r) {
        return r == -ENOTSUP  ? "CAPABILITY_UNSUPPORTED"
               : r == -EINVAL ? "SPEC_INVALID"
               : r == -ESRCH  ? "SANDBOX_DRIVER_UNAVAILABLE"
                              : "";
}

static int code_of(const struct launch *l, int r) {
        const json_t *error = json_object_get(l->result, "error");

        if (l->signal)
                return 128 + l->signal;
        if (r < 0)
                return l->command.over && l->command.end.type == RUN_MSG_ERROR && l->command.end.code > 0
                               ? l->command.end.code
                               : LAUNCH_AROUND;
        if (l->question)
                return LAUNCH_ASKED;
        return json_is_string(error) && json_string_length(error) > 0 ? LAUNCH_FAILED : LAUNCH_DONE;
}

static const char *status_of(int code) {
        return code == LAUNCH_DONE ? "done" : code == LAUNCH_ASKED ? "asked" : "failed";
}

/* What the launcher saw stands over what the runner says. */
static json_t *report(struct launch *l, int code, const char *failure, const char *text) {
        AUTO_JSON json_t *own = json_pack(
                "{s:s,s:s,s:i,s:{s:I,s:I,s:I,s:I,s:I},s:I,s:I,s:I}", "status", status_of(code), "run_id",
                l->order->dir->id, "protocol", l->protocol, "usage", "steps", l->meter.steps, "input_tokens",
                l->meter.input, "output_tokens", l->meter.output, "cache_read_input_tokens",
                l->meter.cache_read, "cache_creation_input_tokens", l->meter.cache_creation, "refused_calls",
                (json_int_t) l->refused, "ignored_envelopes", (json_int_t) l->ignored, "dropped_events",
                (json_int_t) l->dropped);
        AUTO_JSON json_t *all = l->result ? json_copy(l->result) : json_object();
        int r = own && all ? 0 : -1;

        /* its words for what only the launcher knows */
        (void) json_object_del(all, "failure_code");
        (void) json_object_del(all, "question");
        if (r == 0 && *text)
                r = json_object_set_new(own, "error", json_from_bytes(text, ERROR_MSG_MAX));
        if (r == 0 && *failure)
                r = json_object_set_new(own, "failure_code", json_string(failure));
        if (r == 0 && l->question)
                r = json_object_set(own, "question", l->question);
        if (r == 0)
                r = json_object_update(all, own);
        return r == 0 ? TAKE_PTR(all) : NULL;
}

static void conclude(struct launch *l, int r, struct error *err, struct launch_end *ret) {
        const char *failure = failure_of(r);

        if (r < 0)
                ask_run(l);
        if (r < 0 && l->command.over && l->command.end.type == RUN_MSG_ERROR)
                failure = l->command.end.failure_code;
        if (r < 0)
                add_cause(l, err);
        ret->code = code_of(l, r);
        (void) snprintf(ret->failure_code, sizeof(ret->failure_code), "%s", failure);
        (void) snprintf(ret->text, sizeof(ret->text), "%s", r < 0 ? err->msg : "");
        launch_event(l, "delegate_finished",
                     json_pack("{s:s,s:i,s:I,s:I,s:I,s:I,s:I,s:o}", "status", status_of(ret->code),
                               "exit_code", ret->code, "steps", l->meter.steps, "tokens",
                               launch_tokens(&l->meter), "refused", (json_int_t) l->refused, "ignored",
                               (json_int_t) l->ignored, "dropped", (json_int_t) l->dropped, "error",
                               json_from_bytes(ret->text, ERROR_MSG_MAX)));
        ret->report = report(l, ret->code, failure, ret->text);
}

static void launch_deinit(struct launch *l) {
        for (size_t i = 0; i < l->n_servers; i++)
                mcp_server_stop(&l->servers[i]);
        free(l->servers);
        gate_deinit(&l->gate);
        launch_state_deinit(&l->state);
        hello_deinit(&l->hello);
        channel_deinit(&l->channel);
        launch_command_deinit(&l->command);
        teller_deinit(&l->teller);
        json_decref(l->seen);
        json_decref(l->result);
        json_decref(l->question);
}

void launch_task(const struct launch_order *order, struct launch_end *ret) {
        struct launch l = { .order = order,
                            .teller = TELLER_INIT,
                            .command = LAUNCH_COMMAND_INIT,
                            .channel = { .in_fd = -1, .out_fd = -1 } };
        struct error err = { 0 };
        int r;

        *ret = (struct launch_end){ 0 };
        r = begin(&l, &err);
        if (r == 0)
                r = converse(&l, &err);
        if (r == -ECANCELED)
                look_for_signal(&l); /* which broke off what was written */
        if (l.command.sock >= 0)
                finish(&l, r < 0);
        conclude(&l, r, &err, ret);
        launch_deinit(&l);
}

void launch_end_deinit(struct launch_end *end) {
        const int saved = errno;

        json_decref(end->report);
        end->report = NULL;
        errno = saved;
}
