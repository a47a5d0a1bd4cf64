/* cofferdam events: what happened in a run. */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/runs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/base/suggest.h"
#include "runtime/run/eventread.h"

enum { TYPES_MAX = 64 };

/* cofferdam-events(7) */
static const char *const types[] = {
        "agent_requested",
        "apply_conflict",
        "apply_finished",
        "apply_started",
        "ask_user",
        "bind_source_changed",
        "bind_source_refused",
        "delegate_finished",
        "delegate_started",
        "exec_finished",
        "exec_started",
        "guard_denied",
        "guard_held",
        "host_state_seeded",
        "llm_compacted",
        "llm_request",
        "llm_retry",
        "llm_step_finished",
        "llm_turn_capture",
        "mcp_server_degraded",
        "network_blocked",
        "network_policy_changed",
        "orphan_reaped",
        "quota_exceeded",
        "sandbox_degraded",
        "sandbox_env_denied",
        "sandbox_finished",
        "sandbox_host_state_mounted",
        "sandbox_network_defaulted",
        "sandbox_refused",
        "sandbox_setup_timeout",
        "sandbox_skipped",
        "sandbox_started",
        "sandbox_workspace_export_failed",
        "secret_refreshed",
        "secret_token_issued",
        "secret_token_revoked",
        "session_captured",
        "spec_key_refused",
        "tool_called",
        "tool_refused",
        "tool_started",
        "user_message",
        "workspace_exported",
        "workspace_shared",
};

struct options {
        bool follow;
        uint64_t since;               /* number of the last event that is not wanted */
        const char *types[TYPES_MAX]; /* borrowed from argv */
        size_t n_types;
};

static int set_since(void *arg, const char *value, struct error *err) {
        if (parse_u64(value, 0, INT64_MAX, &((struct options *) arg)->since) < 0)
                return error_set(err, -EINVAL, "want the number of an event");
        return 0;
}

static int set_type(void *arg, const char *value, struct error *err) {
        struct options *o = arg;
        const char *near;

        if (o->n_types >= TYPES_MAX)
                return error_set(err, -E2BIG, "more than %d types", TYPES_MAX);
        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (strcmp(types[i], value) == 0) {
                        o->types[o->n_types++] = value;
                        return 0;
                }
        near = suggest_name(value, types, ARRAY_SIZE(types));
        return error_set(err, -EINVAL, "no event has the type '%s'%s%s%s", ESC(value),
                         near ? ": did you mean '" : ": cofferdam-events(7) lists them", near ? near : "",
                         near ? "'?" : "");
}

static const struct flag_option options[] = {
        { "follow", 'f', NULL, NULL, "Go on until the run has ended", offsetof(struct options, follow) },
        { "since", 0, "SEQ", set_since, "Only events after number SEQ" },
        { "type", 0, "TYPE", set_type, "Only events of this type; may be repeated" },
};

static const struct flag_set flags = {
        .usage = "cofferdam events [OPTIONS] RUN",
        .summary = "Print the events of a run, one JSON object a line.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
};

static int print(const json_t *event, const char *line, size_t len, void *arg) {
        (void) event;
        (void) arg;
        return write_all(STDOUT_FILENO, line, len);
}

int verb_events(const struct ctx *ctx, int argc, char **argv) {
        AUTO_RUN_DIR struct run_dir dir = RUN_DIR_INIT;
        struct options o = { 0 };
        struct event_filter filter;
        struct error err = { 0 };
        int next, code, r;

        if (!runs_words(&flags, argc, argv, &o, &next, &code))
                return code;
        if (next + 1 != argc) {
                log_error("want one run: %s", flags.usage);
                return EXIT_USAGE;
        }
        r = run_dir_open(ctx, argv[next], &dir, &err);
        if (r < 0)
                return runs_complain(&err);
        filter = (struct event_filter){ o.since, o.n_types > 0 ? o.types : NULL, o.n_types, o.follow };
        r = events_read(&dir, &filter, print, NULL, &err);
        if (r == 0 || r == -EPIPE)
                return EXIT_OK;
        if (!err.code)
                (void) error_set(&err, r, "events of run %s: %s", dir.id, strerror(-r));
        return runs_complain(&err);
}
