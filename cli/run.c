/* cofferdam run: start a sandbox, run a command in it, tear it down. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/base/parse.h"
#include "runtime/run/engine.h"
#include "runtime/spec/resolve.h"

enum { FD_MAX = 1 << 20 };

/* What the options of this verb set, beside the specification. */
struct options {
        enum run_tty tty;
        int events_fd; /* owned */
        bool json;
        struct trace trace;
};

static int set_tty(void *arg, const char *value, struct error *err) {
        (void) value;
        (void) err;
        ((struct options *) arg)->tty = TTY_ON;
        return 0;
}

/* Standard input is always passed on; the option is understood for those who are used to it. */
static int set_interactive(void *arg, const char *value, struct error *err) {
        (void) arg;
        (void) value;
        (void) err;
        return 0;
}

static int set_verbose(void *arg, const char *value, struct error *err) {
        (void) arg;
        (void) value;
        (void) err;
        log_set_level(LOG_DEBUG);
        return 0;
}

static int open_events(const char *value, struct error *err) {
        uint64_t n;
        int fd;

        if (strncmp(value, "fd:", 3) == 0) {
                if (parse_u64(value + 3, 0, FD_MAX, &n) < 0)
                        return error_set(err, -EINVAL, "'%s': want FILE or fd:NUMBER", ESC(value));
                fd = fcntl((int) n, F_DUPFD_CLOEXEC, 3);
        } else {
                fd = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
        }
        if (fd < 0)
                return error_set(err, -errno, "'%s': %s", ESC(value), strerror(errno));
        return fd;
}

static int set_events(void *arg, const char *value, struct error *err) {
        struct options *o = arg;
        const int fd = open_events(value, err);

        if (fd < 0)
                return fd;
        (void) fd_close(o->events_fd);
        o->events_fd = fd;
        return 0;
}

static const struct flag_option run_options[] = {
        { "tty", 't', NULL, set_tty,
          "Give the command a terminal (default: when stdin and stdout are terminals)" },
        { "interactive", 'i', NULL, set_interactive, "Pass standard input on (always done)" },
        { "events", 0, "FILE|fd:N", set_events,
          "Send the events of the run there as well, one JSON object a line" },
        { "json", 0, NULL, NULL, "Report failures of cofferdam itself as a JSON object on standard error",
          offsetof(struct options, json) },
        { "trace-setup", 0, NULL, NULL, "Say on standard error how long each step of the start took",
          offsetof(struct options, trace.on) },
        { "verbose", 'v', NULL, set_verbose, "Say more on standard error" },
};

static const struct flag_set run_flags = {
        .usage = "cofferdam run [OPTIONS] [--] COMMAND [ARG...]",
        .summary = "Start a sandbox, run COMMAND in it, tear it down; the exit code is COMMAND's.",
        .options = run_options,
        .n_options = ARRAY_SIZE(run_options),
        .spec = true,
};

static void report(const struct options *o, const char *failure_code, const char *text) {
        AUTO_JSON json_t *json = NULL;
        AUTO_FREE char *line = NULL;

        if (!o->json) {
                log_error("%s", text);
                return;
        }
        json = json_pack("{s:s,s:o}", "failure_code", failure_code, "message",
                         json_from_bytes(text, ERROR_MSG_MAX));
        line = json ? json_dumps(json, JSON_COMPACT) : NULL;
        (void) fprintf(stderr, "%s\n", line ? line : "{}");
}

/* Where exec failed, and held changes: the two things the command's own output cannot tell. */
static void remarks(const struct options *o, const struct run_msg *end, const char *command) {
        char text[ERROR_MSG_MAX];

        if (end->exec_errno == ENOENT) {
                (void) snprintf(text, sizeof(text), "exec '%s': not found %s the sandbox", ESC(command),
                                strchr(command, '/') ? "inside" : "in PATH inside");
                report(o, "", text);
        } else if (end->exec_errno) {
                (void) snprintf(text, sizeof(text), "exec '%s': %s", ESC(command), strerror(end->exec_errno));
                report(o, "", text);
        }
        if (end->held > 0 && isatty(STDERR_FILENO))
                (void) fprintf(
                        stderr,
                        "cofferdam: %u %s held for review: 'cofferdam diff %s' shows, 'cofferdam apply %s' "
                        "lands, 'cofferdam discard %s' drops\n",
                        end->held, end->held == 1 ? "change" : "changes", end->run_id, end->run_id,
                        end->run_id);
}

static int execute(const struct ctx *ctx, const struct options *o, const struct spec *spec, char **argv) {
        AUTO_JSON json_t *dump = spec_dump(spec);
        struct run_request req = {
                .spec = spec,
                .spec_json = dump,
                .argv = (const char *const *) argv,
                .tty = o->tty,
                .events_fd = o->events_fd,
                .trace = o->trace,
        };
        struct run_msg end;

        for (int i = 0; i < 3; i++)
                req.stdio[i] = ctx->stdio_closed[i] ? -1 : i;
        if (!dump) {
                report(o, "SANDBOX_SETUP_FAILED", "out of memory");
                return EXIT_SETUP;
        }
        run_execute(ctx, &req, &end);
        if (end.type == RUN_MSG_ERROR)
                report(o, end.failure_code, end.text);
        else
                remarks(o, &end, argv[0]);
        return end.code;
}

static int help(void) {
        AUTO_BUF struct buf text = { 0 };

        if (flags_help(&run_flags, &text) < 0)
                return EXIT_SETUP;
        (void) fputs(buf_cstr(&text), stdout);
        return EXIT_OK;
}

/* A specification that is wrong is a usage error; one that this host or build cannot do is not. */
static int refuse_spec(const struct options *o, int r, const char *text) {
        const char *code = r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED" : "SPEC_INVALID";

        run_refused(o->events_fd, code, text);
        report(o, code, text);
        return r == -ENOTSUP || r == -ESTALE ? EXIT_SETUP : EXIT_USAGE;
}

static int run(const struct ctx *ctx, struct options *o, int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        AUTO_SPEC struct spec *spec = NULL;
        struct error err = { 0 };
        int r;

        r = flags_parse(&run_flags, argc, argv, o, &flags, &err);
        if (r < 0)
                return refuse_spec(o, r, err.msg);
        if (flags->help)
                return help();
        if (flags->next >= argc) {
                report(o, "SPEC_INVALID", "no command: cofferdam run [OPTIONS] [--] COMMAND [ARG...]");
                return EXIT_USAGE;
        }
        trace_step(&o->trace, "options");
        r = spec_resolve(ctx, flags, &spec, &err);
        trace_step(&o->trace, "specification");
        if (r < 0)
                return refuse_spec(o, r, err.msg);
        return execute(ctx, o, spec, argv + flags->next);
}

int verb_run(const struct ctx *ctx, int argc, char **argv) {
        struct options o = { .events_fd = -1 };
        int code;

        trace_init(&o.trace, true, "caller"); /* the option that wants it has not been read yet */
        o.trace.on = false;
        code = run(ctx, &o, argc, argv);

        (void) fd_close(o.events_fd);
        return code;
}
