/* Options, specification and messages of the verbs that build a sandbox. */
#include "cli/launch.h"

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

int launch_tty(void *arg, const char *value, struct error *err) {
        (void) value;
        (void) err;
        ((struct launch_options *) arg)->tty = TTY_ON;
        return 0;
}

/* Standard input is always passed on; the option is understood for those who are used to it. */
int launch_interactive(void *arg, const char *value, struct error *err) {
        (void) arg;
        (void) value;
        (void) err;
        return 0;
}

int launch_verbose(void *arg, const char *value, struct error *err) {
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

int launch_events(void *arg, const char *value, struct error *err) {
        struct launch_options *o = arg;
        const int fd = open_events(value, err);

        if (fd < 0)
                return fd;
        (void) fd_close(o->events_fd);
        o->events_fd = fd;
        return 0;
}

void launch_report(const struct launch_options *o, const char *failure_code, const char *text) {
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
void launch_remarks(const struct launch_options *o, const struct run_msg *end, const char *command) {
        char text[ERROR_MSG_MAX];

        if (end->exec_errno == ENOENT) {
                (void) snprintf(text, sizeof(text), "exec '%s': not found %s the sandbox", ESC(command),
                                strchr(command, '/') ? "inside" : "in PATH inside");
                launch_report(o, "", text);
        } else if (end->exec_errno < 0) {
                (void) snprintf(text, sizeof(text), "exec '%s': its working directory inside the sandbox: %s",
                                ESC(command), strerror(-end->exec_errno));
                launch_report(o, "", text);
        } else if (end->exec_errno) {
                (void) snprintf(text, sizeof(text), "exec '%s': %s", ESC(command), strerror(end->exec_errno));
                launch_report(o, "", text);
        }
        if (end->type == RUN_MSG_EXIT && *end->text)
                launch_report(o, "", end->text);
        if (end->held > 0 && isatty(STDERR_FILENO))
                (void) fprintf(
                        stderr,
                        "cofferdam: %u %s held for review: 'cofferdam diff %s' shows, 'cofferdam apply %s' "
                        "lands, 'cofferdam discard %s' drops\n",
                        end->held, end->held == 1 ? "change" : "changes", end->run_id, end->run_id,
                        end->run_id);
}

void launch_stdio(const struct ctx *ctx, int ret[3]) {
        for (int i = 0; i < 3; i++)
                ret[i] = ctx->stdio_closed[i] ? -1 : i;
}

/* The run lives on: its id is the answer. */
static int tell_id(void *arg, const char *id) {
        const struct launch_options *o = arg;

        if (o->json)
                printf("{\"id\":\"%s\"}\n", id);
        else
                printf("%s\n", id);
        return fflush(stdout) == 0 ? 0 : -errno;
}

static int execute(const struct ctx *ctx, struct launch_options *o, const struct spec *spec, char **argv) {
        AUTO_JSON json_t *dump = spec_dump(spec);
        struct run_request req = {
                .spec = spec,
                .spec_json = dump,
                .argv = (const char *const *) argv,
                .tty = { .when = o->tty },
                .events_fd = o->events_fd,
                .trace = o->trace,
                .ready = tell_id,
                .arg = o,
        };
        struct run_msg end;

        launch_stdio(ctx, req.stdio);
        if (!dump) {
                launch_report(o, "SANDBOX_SETUP_FAILED", "out of memory");
                return EXIT_SETUP;
        }
        run_execute(ctx, &req, &end);
        if (end.type == RUN_MSG_READY)
                return EXIT_OK;
        if (end.type == RUN_MSG_ERROR)
                launch_report(o, end.failure_code, end.text);
        else
                launch_remarks(o, &end, argv ? argv[0] : "");
        return end.code;
}

int launch_help(const struct flag_set *set) {
        AUTO_BUF struct buf text = { 0 };

        if (flags_help(set, &text) < 0)
                return EXIT_SETUP;
        (void) fputs(buf_cstr(&text), stdout);
        return EXIT_OK;
}

/* A specification that is wrong is a usage error; one that this host or build cannot do is not. */
static int refuse_spec(const struct launch_options *o, int r, const char *text) {
        const char *code = r == -ENOTSUP ? "CAPABILITY_UNSUPPORTED" : "SPEC_INVALID";

        run_refused(o->events_fd, code, text);
        launch_report(o, code, text);
        return r == -ENOTSUP || r == -ESTALE ? EXIT_SETUP : EXIT_USAGE;
}

/* Whether the words behind the options are what the verb takes. */
static bool words_fit(const struct launch_options *o, const struct flag_set *set, bool command,
                      const char *word) {
        char text[ERROR_MSG_MAX];

        if (command == (word != NULL))
                return true;
        if (command)
                (void) snprintf(text, sizeof(text), "no command: %s", set->usage);
        else
                (void) snprintf(text, sizeof(text),
                                "unexpected word '%s': start takes no command, 'cofferdam exec' does",
                                ESC(word));
        launch_report(o, "SPEC_INVALID", text);
        return false;
}

static int launch(const struct ctx *ctx, struct launch_options *o, const struct flag_set *set, bool command,
                  int argc, char **argv) {
        AUTO_FLAGS struct flags *flags = NULL;
        AUTO_SPEC struct spec *spec = NULL;
        struct error err = { 0 };
        int r;

        r = flags_parse(set, argc, argv, o, &flags, &err);
        if (r < 0)
                return refuse_spec(o, r, err.msg);
        if (flags->help)
                return launch_help(set);
        if (!words_fit(o, set, command, flags->next < argc ? argv[flags->next] : NULL))
                return EXIT_USAGE;
        trace_step(&o->trace, "options");
        r = spec_resolve(ctx, flags, &spec, &err);
        trace_step(&o->trace, "specification");
        if (r < 0)
                return refuse_spec(o, r, err.msg);
        return execute(ctx, o, spec, command ? argv + flags->next : NULL);
}

int launch_main(const struct ctx *ctx, const struct flag_set *set, bool command, int argc, char **argv) {
        struct launch_options o = LAUNCH_OPTIONS_INIT;
        int code;

        trace_init(&o.trace, true, "caller"); /* the option that wants it has not been read yet */
        o.trace.on = false;
        code = launch(ctx, &o, set, command, argc, argv);
        (void) fd_close(o.events_fd);
        return code;
}
