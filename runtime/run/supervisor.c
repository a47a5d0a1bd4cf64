/*
 * DOC: theory of operation
 *
 * One supervisor per run, without threads. It starts the sandbox through the driver's vtable, then waits: for
 * the sandbox (results, notices, loss), for its clients (commands.c), for deadlines. It parses nothing that
 * comes from inside; guard notices are fixed-size and their strings are escaped before they reach
 * events.jsonl.
 *
 * A run has an owner or lives on. The process of 'cofferdam run' owns its run: its end of file ends it (a
 * killed caller leaves nothing), and so does the end of its command. 'cofferdam start' owns its run only
 * until it is ready; from then on clients come and go by the control socket, and the run ends by 'stop', by
 * its timeout, or when the sandbox is lost.
 *
 * Phases, as state.json says: starting (also while post_create runs), running, finished. A sandbox that is
 * lost (the file server died, init died without a result) ends the run with a failure code. Whatever happens,
 * stop() runs before the last message, so a client that has seen the end finds everything gone and all writes
 * on the host.
 */
#include "runtime/run/supervisor.h"
#include "drivers/native/probe.h"
#include "runtime/base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "fs/layer.h"
#include "runtime/base/clock.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/run/changes.h"
#include "runtime/run/confine.h"
#include "runtime/run/control.h"
#include "runtime/run/land.h"
#include "runtime/run/list.h"
#include "runtime/run/supervise.h"
#include "runtime/spec/refuse.h"

enum {
        HELD_COUNT_MAX = 100000,
        NS_PER_MS = 1000000,
        GRACE_MS = 10000,
        POST_CREATE_MS = 30 * 60 * 1000,
        READER_END_MS = 2000
};

static const char post_create_phase[] = "post_create";

static void set_failure(struct supervisor *s, int code, const char *failure_code, const char *text) {
        if (s->final.type == RUN_MSG_ERROR)
                return; /* the first reason counts */
        s->final.type = RUN_MSG_ERROR;
        s->final.code = code;
        s->final.signal = s->final.exec_errno = 0;
        (void) snprintf(s->final.failure_code, sizeof(s->final.failure_code), "%s", failure_code);
        (void) snprintf(s->final.text, sizeof(s->final.text), "%s", text);
}

void supervisor_fail(struct supervisor *s, int code, const char *failure_code, const char *text) {
        set_failure(s, code, failure_code, text);
        s->over = true;
}

void supervisor_end(struct supervisor *s, uint64_t grace_ms) {
        s->ending = true;
        s->deadline_ns = clock_ns() + grace_ms * NS_PER_MS;
        commands_signal(s, SIGTERM);
        if (grace_ms == 0 || commands_count(s) == 0)
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

static void on_exec_started(void *arg, uint32_t id, pid_t pid, int pty_fd) {
        commands_started(arg, id, pid, pty_fd);
}

static void on_exec_finished(void *arg, const struct exec_result *result) {
        commands_finished(arg, result);
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
        supervisor_fail(s, EXIT_AROUND, "BIND_SOURCE_CHANGED", text);
}

/* The workspace is not, or no longer, exclusive. */
static json_t *not_exclusive(const char *why) {
        return json_pack("{s:s,s:s,s:o}", "wanted", "cache exclusive", "got", "cache shared", "reason",
                         json_from_bytes(why, NOTICE_TEXT_MAX));
}

static void add_degraded(json_t *plan, const char *why) {
        json_t *rows = json_object_get(plan, "degraded");

        if (!rows && json_object_set_new(plan, "degraded", json_array()) == 0)
                rows = json_object_get(plan, "degraded");
        (void) json_array_append_new(rows, not_exclusive(why));
}

/* Somebody else writes in the workspace: its cache is as good as any from now on. */
static void on_not_alone(struct supervisor *s, const struct guard_notice *notice) {
        if (s->sandbox) /* else it is told with the start */
                events_emit(&s->record.events, "sandbox_degraded", not_exclusive(notice->detail));
        add_degraded(json_object_get(s->record.state, "plan"), notice->detail);
        (void) run_state_store(s->args->dir, s->record.state, false, NULL);
}

static void on_quota(struct supervisor *s, const struct guard_notice *notice) {
        uint64_t limit = 0;

        (void) !parse_u64(notice->detail, 0, INT64_MAX, &limit);
        events_emit(&s->record.events, "quota_exceeded",
                    json_pack("{s:i,s:I}", "region", (int) notice->region, "limit", (json_int_t) limit));
}

static void on_notice(void *arg, const struct guard_notice *notice) {
        struct supervisor *s = arg;
        const bool held = notice->type == NOTICE_HELD;

        if (notice->type == NOTICE_SOURCE_CHANGED) {
                on_source_changed(s, notice);
                return;
        }
        if (notice->type == NOTICE_NOT_ALONE) {
                on_not_alone(s, notice);
                return;
        }
        if (notice->type == NOTICE_QUOTA) {
                on_quota(s, notice);
                return;
        }
        if (held &&
            s->held == 0) /* from now on the run holds something that only its state can lead to the host */
                record_store(&s->record, true);
        s->held += held;
        s->denied += !held;
        events_emit(
                &s->record.events, held ? "guard_held" : "guard_denied",
                json_pack("{s:o,s:o,s:o,s:o,s:i}", "path", json_from_bytes(notice->path, EVENT_STRING_MAX),
                          "op", json_from_bytes(notice->op, sizeof(notice->op)), "rule",
                          json_from_bytes(notice->rule, EVENT_STRING_MAX), "detail",
                          json_from_bytes(notice->detail, EVENT_STRING_MAX), "region", (int) notice->region));
}

static void on_blocked(struct supervisor *s, const struct egress_notice *notice) {
        s->blocked += notice->count;
        events_emit(&s->record.events, "network_blocked",
                    json_pack("{s:o,s:i,s:o,s:o*,s:I}", "host",
                              json_from_bytes(notice->host, sizeof(notice->host)), "port", (int) notice->port,
                              "reason", json_from_bytes(notice->reason, sizeof(notice->reason)), "rule",
                              notice->has_rule ? json_from_bytes(notice->rule, sizeof(notice->rule)) : NULL,
                              "count", (json_int_t) notice->count));
}

static void on_network(void *arg, const struct egress_notice *notice) {
        if (notice->kind == EGRESS_BLOCKED)
                on_blocked(arg, notice);
        else
                network_answer(arg, notice);
}

static void on_lost(void *arg, const char *failure_code, const char *reason) {
        supervisor_fail(arg, EXIT_AROUND, failure_code, reason);
}

static void on_event(void *arg, const char *type, json_t *data) {
        struct supervisor *s = arg;

        events_emit(&s->record.events, type, data);
}

static void on_left(void *arg) {
        struct supervisor *s = arg;

        s->left = true;
}

/* ---- the loop ---- */

/* The grace is over, or the run took too long. */
static void on_deadline(struct supervisor *s) {
        char text[128];

        if (s->ending) {
                s->over = true;
                return;
        }
        if (s->post_create_id != 0) {
                (void) snprintf(text, sizeof(text), "post_create was not done after %d minutes",
                                POST_CREATE_MS / 60000);
                events_emit(&s->record.events, "sandbox_setup_timeout",
                            json_pack("{s:s,s:i}", "phase", post_create_phase, "budget_ms", POST_CREATE_MS));
                supervisor_fail(s, EXIT_AROUND, "SANDBOX_SETUP_TIMEOUT", text);
                return;
        }
        (void) snprintf(text, sizeof(text), "the run took longer than limits.timeout, %" PRIu64 ".%03u s",
                        s->args->spec->limits.timeout_ms / 1000,
                        (unsigned int) (s->args->spec->limits.timeout_ms % 1000));
        set_failure(s, EXIT_OVERTIME, "RUN_TIMEOUT", text);
        supervisor_end(s, GRACE_MS);
}

/* Milliseconds for poll(2), rounded up. */
static int time_left(const struct supervisor *s) {
        const uint64_t now = clock_ns();
        uint64_t ms;

        if (s->deadline_ns == 0)
                return -1;
        if (s->deadline_ns <= now)
                return 0;
        ms = (s->deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
        return ms > INT32_MAX ? INT32_MAX : (int) ms;
}

enum { POLL_MAX = SANDBOX_POLL_MAX + COMMANDS_POLL_MAX };

/* poll(2), which takes no more entries than there may be descriptors, counts those without one, too. */
static int poll_used(struct pollfd *fds, size_t n, int timeout_ms) {
        struct pollfd used[POLL_MAX];
        size_t at[POLL_MAX], m = 0;
        int r;

        for (size_t i = 0; i < n; i++) {
                fds[i].revents = 0;
                if (fds[i].fd < 0)
                        continue;
                at[m] = i;
                used[m++] = fds[i];
        }
        r = poll(used, m, timeout_ms);
        for (size_t i = 0; r > 0 && i < m; i++)
                fds[at[i]].revents = used[i].revents;
        return r;
}

static void loop(struct supervisor *s) {
        while (!s->over) {
                struct pollfd fds[POLL_MAX];
                const size_t n = s->args->driver->poll(s->sandbox, fds);
                const size_t m = commands_poll(s, fds + n);

                if (poll_used(fds, n + m, time_left(s)) < 0) {
                        if (errno != EINTR)
                                supervisor_fail(s, EXIT_AROUND, "SANDBOX_SETUP_FAILED",
                                                "poll failed in the supervisor");
                        continue;
                }
                if (fds[n + m].revents)
                        (void) events_flush(&s->record.events);
                commands_dispatch(s, fds + n);
                if (!s->over)
                        s->args->driver->dispatch(s->sandbox, fds, n);
                if (!s->over && s->deadline_ns != 0 && time_left(s) == 0)
                        on_deadline(s);
        }
}

/* What is over before its command has ended was killed: that is no success. */
static void note_killed(struct supervisor *s) {
        if (!s->args->command || s->ended || s->final.type == RUN_MSG_ERROR || s->final.code != 0)
                return;
        s->final.code = 128 + SIGKILL;
        s->final.signal = SIGKILL;
}

/* ---- start ---- */

/* Moves the caller's standard descriptors out of the way; 0, 1 and 2 become /dev/null (2 stays for a trace).
 */
static int detach_stdio(struct supervisor *s, struct error *err) {
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        for (int i = 0; null >= 0 && i < 3; i++) {
                if (s->args->stdio[i] >= 0) {
                        s->stdio[i] = fcntl(s->args->stdio[i], F_DUPFD_CLOEXEC, 3);
                        if (s->stdio[i] < 0)
                                return error_set(err, -errno, "standard descriptors: %s", strerror(errno));
                }
                if (!(i == 2 && s->args->trace.on) && dup2(null, i) < 0)
                        return error_set(err, -errno, "standard descriptors: %s", strerror(errno));
        }
        for (int i = 0; i < 3; i++) /* pipes that were made for the run; both streams may share one */
                if (s->args->stdio[i] > 2)
                        (void) close(s->args->stdio[i]);
        return null < 0 ? error_set(err, -errno, "open '/dev/null': %s", strerror(errno)) : 0;
}

/* The state before anything has happened. */
static json_t *first_state(const struct supervisor_args *args) {
        AUTO_JSON json_t *plan = args->driver->describe(args->plan);

        if (plan && args->alone->why[0])
                add_degraded(plan, args->alone->why);
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
        s->listen_fd = control_listen(s->args->dir, err); /* a run with a state had a socket: runs_glance() */
        if (s->listen_fd < 0)
                return s->listen_fd;
        /* a command that starts with the sandbox is not worth a second state */
        r = record_open(&s->record, s->args->spec_json, first_state(s->args),
                        s->args->command && !s->args->spec->post_create ? "running" : "starting", err);
        alone_done(s->args->alone);
        return r;
}

/* The run is not isolated at all. */
static void tell_skipped(struct supervisor *s, const json_t *why) {
        const json_t *const mode = json_object_get(s->args->spec_json, "mode");

        events_emit(&s->record.events, "sandbox_skipped",
                    json_pack("{s:s,s:O*,s:O*,s:O*,s:O*}", "driver", s->args->driver->name, "mode",
                              json_object_get(mode, "value"), "tier", json_object_get(mode, "tier"), "reason",
                              json_object_get(why, "reason"), "remedy", json_object_get(why, "remedy")));
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

/* What of the operator's home is inside although nobody named it. */
static void tell_host_state(struct supervisor *s, json_t *shown, const json_t *key) {
        events_emit(&s->record.events, "sandbox_host_state_mounted",
                    json_pack("{s:O*,s:O*,s:O*,s:O*}", "enabled", json_object_get(shown, "enabled"), "tier",
                              json_object_get(key, "tier"), "entries", json_object_get(shown, "entries"),
                              "home_not_mounted", json_object_get(shown, "home_not_mounted")));
}

/* What is refused by default and was allowed by name. */
static void tell_allowed(struct supervisor *s) {
        const struct spec *spec = s->args->spec;
        const char *action = "allow";

        for (size_t i = 0; i < spec->n_allow_sensitive; i++)
                events_emit(&s->record.events, "bind_source_refused",
                            json_pack("{s:o,s:s}", "source",
                                      json_from_bytes(spec->allow_sensitive[i], EVENT_STRING_MAX), "action",
                                      action));
}

/* What the repository asked for and does not get. */
static void tell_refused(struct supervisor *s) {
        const struct spec *const spec = s->args->spec;

        for (size_t i = 0; i < spec->n_refused; i++) {
                const struct spec_refusal *one = &spec->refused[i];

                events_emit(&s->record.events,
                            one->kind == REFUSAL_ENV       ? "sandbox_env_denied"
                            : one->kind == REFUSAL_NETWORK ? "sandbox_network_defaulted"
                                                           : "spec_key_refused",
                            json_pack("{s:o,s:s,s:o,s:o,s:s}", "key",
                                      json_from_bytes(one->key, EVENT_STRING_MAX), "tier",
                                      spec_tier_name(one->tier), "from",
                                      json_from_bytes(one->from, EVENT_STRING_MAX), "reason",
                                      json_from_bytes(one->reason, EVENT_STRING_MAX), "remedy", one->remedy));
        }
}

static void tell_started(struct supervisor *s) {
        const json_t *const spec = s->args->spec_json; /* each value as {"value":,"tier":} */
        const json_t *const mode = json_object_get(spec, "mode");
        const json_t *const network = json_object_get(json_object_get(spec, "network"), "mode");
        json_t *const plan = json_object_get(s->record.state, "plan");
        AUTO_JSON json_t *isolation = json_copy(plan);
        const char *const root = json_object_get(plan, "image") ? "image" : "host";

        if (json_object_get(plan, "network"))
                (void) json_object_set_new(isolation, "network",
                                           network_shown(json_object_get(plan, "network")));
        if (json_object_get(plan, "skipped"))
                tell_skipped(s, json_object_get(plan, "skipped"));
        tell_refused(s);
        tell_degraded(s, plan);
        events_emit(&s->record.events, "sandbox_started",
                    json_pack("{s:s,s:O*,s:O*,s:s,s:O*,s:O*,s:O*,s:I,s:O*}", "driver", s->args->driver->name,
                              "mode", json_object_get(mode, "value"), "tier", json_object_get(mode, "tier"),
                              "root", root, "image", json_object_get(plan, "image"), "workspace",
                              json_object_get(plan, "workspace"), "network",
                              json_object_get(network, "value"), "setup_ms",
                              (json_int_t) ((clock_ns() - s->started_ns) / 1000000), "isolation", isolation));
        tell_allowed(s);
        tell_host_state(s, json_object_get(plan, "host_state"), json_object_get(spec, "host_state"));
}

enum { ENTRIES_MAX_BYTES = EVENT_MAX_BYTES / 2 };

/* A seed may be a directory of thousands of files: as many events as it takes. */
static void tell_seeds(struct supervisor *s) {
        const size_t n = json_array_size(s->seeds);
        json_t *entries = NULL;
        size_t bytes = 0;

        for (size_t i = 0; i < n; i++) {
                json_t *row = json_array_get(s->seeds, i);

                if (!entries)
                        entries = json_array();
                bytes += json_dumpb(row, NULL, 0, JSON_COMPACT);
                (void) json_array_append(entries, row);
                if (bytes < ENTRIES_MAX_BYTES && i + 1 < n)
                        continue;
                events_emit(&s->record.events, "host_state_seeded",
                            json_pack("{s:o}", "entries", TAKE_PTR(entries)));
                bytes = 0;
        }
}

static void set_timeout(struct supervisor *s) {
        const uint64_t ms = s->args->spec->limits.timeout_ms;

        s->deadline_ns = ms ? s->started_ns + ms * NS_PER_MS : 0;
}

/* Whoever started the run learns of it, and says when it may live on. */
static void ready(struct supervisor *s) {
        struct run_msg msg = { .type = RUN_MSG_READY };

        memcpy(msg.run_id, s->args->dir->id, sizeof(msg.run_id));
        (void) json_object_set_new(s->record.state, "lives_on", json_true());
        record_phase(&s->record, "running"); /* who hears of it may ask at once */
        s->is_ready = true;
        if (run_msg_send(s->args->client_fd, &msg, -1) < 0)
                s->over = true; /* it did not live to hear of it */
}

void supervisor_let_go(struct supervisor *s) {
        (void) fd_close(s->args->client_fd);
        s->owner->fd = -1;
        s->owner->state = CLIENT_FREE;
        s->owner = NULL;
}

/* The caller's descriptors are the command's: their end must be seen by whoever reads. */
static void drop_stdio(struct supervisor *s) {
        for (int i = 0; i < 3; i++)
                s->stdio[i] = fd_close(s->stdio[i]);
}

/* The sandbox is complete: the command, which the driver may have started already, or the word that it is. */
static void go_on(struct supervisor *s, bool started) {
        struct exec_request command;
        struct error err = { 0 };

        set_timeout(s);
        if (!s->args->command) {
                drop_stdio(s);
                ready(s);
                return;
        }
        command = *s->args->command;
        if (!started) {
                memcpy(command.stdio, s->stdio, sizeof(command.stdio));
                command.id = commands_note(s, s->owner, command.argv);
                if (s->args->driver->exec(s->sandbox, &command, &err) < 0) {
                        supervisor_fail(s, EXIT_AROUND, "SANDBOX_SETUP_FAILED", err.msg);
                        return;
                }
                record_phase(&s->record, "running");
        }
        commands_announce(s, s->owner, command.argv);
        drop_stdio(s);
}

/* The specification's own commands, before the first of the work: they say what they say on standard error.
 */
static int post_create(struct supervisor *s, struct error *err) {
        const char *const argv[] = { "/bin/sh", "-c", s->args->spec->post_create, NULL };
        AUTO_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        const int out = s->stdio[2] >= 0 ? s->stdio[2] : null;
        struct exec_request req = { .argv = argv, .env = s->args->tokens->env, .stdio = { null, out, out } };
        struct slot *slot = commands_adopt(s, -1, CLIENT_EXEC);
        int r;

        if (null < 0 || !slot)
                return error_set(err, -errno, "open '/dev/null': %s", strerror(errno));
        req.id = commands_note(s, slot, argv);
        r = s->args->driver->exec(s->sandbox, &req, err);
        if (r < 0)
                return r;
        commands_announce(s, slot, argv);
        s->post_create_id = req.id;
        s->deadline_ns = clock_ns() + (uint64_t) POST_CREATE_MS * NS_PER_MS;
        return 0;
}

void supervisor_post_created(struct supervisor *s, const struct exec_result *result) {
        char text[96];

        s->post_create_id = 0;
        if (result->exit_code == 0 && !s->ending) {
                go_on(s, false);
                return;
        }
        (void) snprintf(text, sizeof(text), "post_create failed with exit code %d", result->exit_code);
        supervisor_fail(s, EXIT_AROUND, "POST_CREATE_FAILED", text);
}

/* What only the start could tell becomes part of the state. */
static void take_report(struct supervisor *s) {
        AUTO_JSON json_t *report = s->args->driver->report ? s->args->driver->report(s->sandbox) : NULL;
        json_t *const plan = json_object_get(s->record.state, "plan");
        json_t *rows = json_object_get(plan, "degraded");

        if (!report)
                return;
        if (!rows && json_object_set_new(plan, "degraded", json_array()) == 0)
                rows = json_object_get(plan, "degraded");
        (void) json_array_extend(rows, json_object_get(report, "degraded"));
        (void) json_object_del(report, "degraded");
        (void) json_object_update(plan, report);
        record_store(&s->record, false);
}

/* While the command runs: who else works here, and who died without a last word. */
static void look_around(struct supervisor *s) {
        const char *workspace =
                json_string_value(json_object_get(json_object_get(s->record.state, "plan"), "workspace"));
        struct glance glance;

        runs_glance(s->args->dir, workspace ? workspace : "", &glance);
        if (*glance.shares)
                events_emit(&s->record.events, "workspace_shared",
                            json_pack("{s:o,s:s}", "workspace", json_from_bytes(workspace, EVENT_STRING_MAX),
                                      "run", glance.shares));
        if (glance.dead)
                runs_reap_aside(s->args->ctx);
}

static void tell_issued(void *arg, size_t i, const char *name, const char *id) {
        struct supervisor *s = arg;

        (void) i;
        events_emit(&s->record.events, "secret_token_issued",
                    json_pack("{s:s,s:s}", "name", name, "token_id", id));
}

struct revoked {
        struct supervisor *s;
        char done[TOKENS_RESULTS_MAX];
};

static void tell_revoked(void *arg, size_t i, const char *name, const char *id) {
        const struct revoked *revoked = arg;

        events_emit(
                &revoked->s->record.events, "secret_token_revoked",
                json_pack("{s:s,s:s,s:b}", "name", name, "token_id", id, "revoked", revoked->done[i] == '1'));
}

/* Nothing inside holds a token any more. */
static void revoke_tokens(struct supervisor *s) {
        struct revoked revoked = { .s = s };

        tokens_end(s->args->tokens, revoked.done);
        tokens_each(s->args->tokens, tell_revoked, &revoked);
        if (s->args->tokens->said)
                trace_step(&s->trace, "revoke");
}

static void on_refreshed(void *arg, uint32_t id, const char *why) {
        commands_refreshed(arg, id, why);
}

static const struct sandbox_callbacks callbacks = {
        .seeded = on_seeded,
        .exec_started = on_exec_started,
        .exec_finished = on_exec_finished,
        .notice = on_notice,
        .network = on_network,
        .lost = on_lost,
        .event = on_event,
        .refreshed = on_refreshed,
        .left = on_left,
};

/* Starts the sandbox and the first command in it. */
static int start(struct supervisor *s, struct error *err) {
        const struct supervisor_args *args = s->args;
        const bool at_once = args->command && !args->spec->post_create;
        struct exec_request command = { 0 };
        struct start_request req = {
                .run_id = args->dir->id,
                .upper_fd = args->dir->upper_fd,
                .run_fd = args->dir->fd,
                .relay_sock = args->tokens->sock,
                .env = args->tokens->env,
                .n_env = args->tokens->n_opaque,
                .keep_fds = { args->client_fd, s->stdio[0], s->stdio[1], s->stdio[2], args->tokens->sock },
                .n_keep_fds = 5,
                .secrets = args->secrets->files,
                .n_secrets = args->secrets->n_files,
                .cache_shared = args->alone->why[0] != '\0',
                .trace = s->trace,
                .first = at_once ? &command : NULL,
                .meanwhile = meanwhile,
                .callbacks = &callbacks,
                .arg = s,
        };
        int r;

        s->started_ns = clock_ns();
        if (at_once) {
                command = *args->command;
                command.id = commands_note(s, s->owner, command.argv);
                memcpy(command.stdio, s->stdio, sizeof(command.stdio));
        }
        r = args->driver->start(args->plan, &req, &s->sandbox, err);
        secrets_drop_files(args->secrets);
        if (r < 0)
                return r;
        take_report(s);
        /* the command runs: from here on nothing takes time from it */
        s->trace = trace_fork(&s->trace, "supervisor"); /* the driver told its own steps */
        tell_started(s);
        tokens_each(args->tokens, tell_issued, s);
        s->started_ns = clock_ns();
        tell_seeds(s);
        if (!args->driver->starts_here) {
                r = confine_supervisor(err);
                if (r < 0)
                        return r;
                trace_step(&s->trace, "confine");
        }
        if (args->spec->post_create)
                return post_create(s, err);
        go_on(s, at_once);
        return 0;
}

/* Whether the run lived on for others to ask for. Who stopped it before its owner was heard knew it, too. */
static bool lived_on(const struct supervisor *s) {
        return !s->owner || (s->is_ready && s->ending);
}

/* Whether what no rule keeps reaches the host now. A run that was lost or killed keeps what it has. */
static bool may_land(const struct supervisor *s) {
        if (s->final.type == RUN_MSG_ERROR || !(s->ended || (lived_on(s) && s->ending)))
                return false;
        return s->args->spec->workspace.land != LAND_SUCCESS || !s->failed;
}

static void land(struct supervisor *s) {
        static const char *const words[LAND_COUNT] = {
                [LAND_COMMAND] = "command", [LAND_SUCCESS] = "success", [LAND_STOP] = "stop"
        };

        if (may_land(s))
                run_land(s->args->dir, s->record.state, &s->record.events,
                         words[s->args->spec->workspace.land]);
        trace_step(&s->trace, "land");
}

/* The last words: events, the final state, and the run directory, which stays only when it holds something.
 */
static void finish(struct supervisor *s) {
        const struct supervisor_args *args = s->args;

        s->final.held = run_changes_count(args->dir, s->record.state, HELD_COUNT_MAX);
        events_emit(&s->record.events, "sandbox_finished",
                    json_pack("{s:i,s:i,s:s,s:o,s:I,s:I,s:i,s:i,s:I}", "exit_code", s->final.code, "signal",
                              s->final.signal, "failure_code", s->final.failure_code, "reason",
                              json_from_bytes(s->final.text, EVENT_STRING_MAX), "duration_ms",
                              (json_int_t) (s->started_ns ? (clock_ns() - s->started_ns) / 1000000 : 0),
                              "peak_memory", (json_int_t) s->peak_memory_bytes, "held", (int) s->final.held,
                              "denied", (int) s->denied, "blocked", (json_int_t) s->blocked));
        if (s->left) { /* the run stays as one that died, which gc ends */
                s->record.stale = true;
                return;
        }
        record_close(&s->record, s->final.code, s->final.failure_code, s->final.held,
                     args->spec->keep || lived_on(s));
}

/* The run went as it went; what is written of it is not the end. */
static void tell_stale(struct supervisor *s) {
        if (s->final.type == RUN_MSG_EXIT && s->left)
                (void) snprintf(s->final.text, sizeof(s->final.text),
                                "something of run %s is left: 'cofferdam gc' ends it", s->args->dir->id);
        else if (s->final.type == RUN_MSG_EXIT)
                (void) snprintf(s->final.text, sizeof(s->final.text),
                                "the record of run %s could not be written, is the disk full? 'cofferdam gc' "
                                "mends it",
                                s->args->dir->id);
}

int supervisor_main(const struct supervisor_args *args) {
        struct supervisor s = {
                .args = args, .final = { .type = RUN_MSG_EXIT }, .listen_fd = -1, .stdio = { -1, -1, -1 }
        };
        struct error err = { 0 };
        int r;

        (void) setsid();
        (void) signal(SIGPIPE, SIG_IGN);
        memcpy(s.final.run_id, args->dir->id, sizeof(s.final.run_id));
        record_init(&s.record, args->dir, args->events_fd);
        s.trace = args->trace;
        trace_step(&s.trace, "fork");
        commands_init(&s);
        s.owner = commands_adopt(&s, args->client_fd, CLIENT_OWNER);
        r = detach_stdio(&s, &err);
        if (r == 0)
                r = start(&s, &err);
        if (r < 0)
                probe_remedy(r, &err);
        if (r < 0)
                supervisor_fail(&s, EXIT_AROUND,
                                driver_failure(r == -EINVAL ? -EIO : r), /* the plan has judged it */
                                err.msg);
        else
                look_around(&s);
        if (r == 0)
                loop(&s);
        note_killed(&s);
        trace_step(&s.trace, "command");
        s.sandbox = args->driver->stop(s.sandbox);
        if (s.final.type == RUN_MSG_ERROR)
                events_refused(&s.record.events, s.final.failure_code, s.final.text);
        trace_step(&s.trace, "stop");
        revoke_tokens(&s);
        land(&s);
        finish(&s);
        if (s.record.stale)
                tell_stale(&s); /* and the socket that leads nowhere shows that it is dead */
        else
                control_close(args->dir, s.listen_fd);
        s.listen_fd = s.record.stale ? fd_close(s.listen_fd) : -1;
        (void) flock(args->dir->fd, LOCK_UN); /* who hears the last word may remove the run */
        if (events_flush(&s.record.events))
                s.final.flags |= RUN_END_LINGERS;
        commands_farewell(&s);
        commands_deinit(&s);
        trace_step(&s.trace, "finish");
        r = s.owner ? run_msg_send(args->client_fd, &s.final, -1) : 0;
        events_drain(&s.record.events, READER_END_MS);
        record_deinit(&s.record);
        json_decref(s.seeds);
        json_decref(s.network_next);
        return r < 0;
}
