/*
 * launch.h - what run, start and exec share: their options, and how they say what went wrong
 */
#pragma once

#include "cli/verbs.h"
#include "runtime/run/engine.h"
#include "runtime/spec/flags.h"

/** struct launch_options - what the options of these verbs set, beside the specification */
struct launch_options {
        enum run_tty tty;
        int events_fd; /* owned */
        bool json, detach;
        struct trace trace;
        const char *cwd;  /* exec: borrowed from argv; NULL: the workspace */
        const char *user; /* exec: borrowed from argv; NULL: the run's */
        char **env;       /* exec: "NAME=value", NULL-terminated, owned */
        size_t n_env;
        const struct ctx *ctx; /* for values of the caller's environment */
};
#define LAUNCH_OPTIONS_INIT \
        { .events_fd = -1 }

/** launch_tty() and the others - setters for struct flag_option */
int launch_tty(void *arg, const char *value, struct error *err);
int launch_interactive(void *arg, const char *value, struct error *err);
int launch_events(void *arg, const char *value, struct error *err);
int launch_verbose(void *arg, const char *value, struct error *err);

/** launch_report() - a failure, as a line or as JSON. @failure_code: "": none */
void launch_report(const struct launch_options *o, const char *failure_code, const char *text);

/** launch_help() - the help of @set on stdout. Return: exit code. */
int launch_help(const struct flag_set *set);

/** launch_stdio() - the caller's standard descriptors, -1 where he had none */
void launch_stdio(const struct ctx *ctx, int ret[3]);

/** launch_remarks() - what the command's own output cannot tell: where exec failed, and held changes */
void launch_remarks(const struct launch_options *o, const struct run_msg *end, const char *command);

/**
 * launch_main() - parse, resolve and execute
 * @command: whether words after the options are the command; otherwise there may be none
 * Return: exit code.
 */
int launch_main(const struct ctx *ctx, const struct flag_set *set, bool command, int argc, char **argv);
