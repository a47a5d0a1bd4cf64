/*
 * verbs.h - the verb table; one file per verb (cli/<verb>.c)
 */
#pragma once

#include <stddef.h>

#include "runtime/base/ctx.h"

/* exit codes of cofferdam itself; see cofferdam(1) */
enum exit_code {
        EXIT_OK = 0,
        EXIT_FAILED = 1, /* doctor: a check failed; diff, apply: conflicts; other reports: failure */
        EXIT_USAGE = 2,
        EXIT_TIMEOUT = 124,
        EXIT_SETUP = 125,  /* run: cofferdam failed before or around the command */
        EXIT_NOEXEC = 126, /* run: found but not executable */
        EXIT_NOTFOUND = 127,
};

/** struct verb - one verb; @run gets argv with argv[0] = the verb's name. Return: exit code. */
struct verb {
        const char *name;
        const char *summary; /* one line of help, at most 60 columns */
        int (*run)(const struct ctx *ctx, int argc, char **argv);
};

extern const struct verb verbs[];
extern const size_t n_verbs;

/** verb_find() - the verb that @word names, also as --help, -h or --version; NULL: none */
const struct verb *verb_find(const char *word);

/** verb_unknown() - say on stderr that @word is none, with the nearest. Return: EXIT_USAGE. */
int verb_unknown(const char *word);

/** verb_help() - what the program is for and its verbs, or the options of the verb argv[1], on stdout */
int verb_help(const struct ctx *ctx, int argc, char **argv);

/** verb_doctor() - try what a run needs of the host; EXIT_FAILED when something required is missing */
int verb_doctor(const struct ctx *ctx, int argc, char **argv);

/** verb_run() - start a sandbox, run a command in it, tear it down; exit code of the command */
int verb_run(const struct ctx *ctx, int argc, char **argv);

/** verb_start() - start a sandbox and leave it; its id on stdout */
int verb_start(const struct ctx *ctx, int argc, char **argv);

/** verb_exec() - a further command in a sandbox that was started; exit code of the command */
int verb_exec(const struct ctx *ctx, int argc, char **argv);

/** verb_secret() - replace the content of a secret that is a file in a run that lives */
int verb_secret(const struct ctx *ctx, int argc, char **argv);

/** verb_launch() - have an agent do a task in a sandbox; its result on stdout */
int verb_launch(const struct ctx *ctx, int argc, char **argv);

/** verb_net() - show or change the rules of the network of a run that lives */
int verb_net(const struct ctx *ctx, int argc, char **argv);

/** verb_stop() - end runs that were started: SIGTERM, grace, SIGKILL */
int verb_stop(const struct ctx *ctx, int argc, char **argv);

/** verb_rm() - remove runs that have ended; what they hold only with --force */
int verb_rm(const struct ctx *ctx, int argc, char **argv);

/** verb_ps() - the runs that live, or all */
int verb_ps(const struct ctx *ctx, int argc, char **argv);

/** verb_inspect() - all that is known of a run, as JSON */
int verb_inspect(const struct ctx *ctx, int argc, char **argv);

/** verb_logs() - what detached commands said */
int verb_logs(const struct ctx *ctx, int argc, char **argv);

/** verb_events() - the events of a run */
int verb_events(const struct ctx *ctx, int argc, char **argv);

/** verb_gc() - reap what dead runs left */
int verb_gc(const struct ctx *ctx, int argc, char **argv);

/** verb_spec() - show, check and describe specifications */
int verb_spec(const struct ctx *ctx, int argc, char **argv);

/** verb_explain() - which rule decides about a path or a host; EXIT_FAILED when the operation asked for is
 * refused */
int verb_explain(const struct ctx *ctx, int argc, char **argv);

/** verb_diff() - what a run changed and the host does not have; EXIT_FAILED when something is in conflict */
int verb_diff(const struct ctx *ctx, int argc, char **argv);

/** verb_apply() - land it; EXIT_FAILED when something stays in the run */
int verb_apply(const struct ctx *ctx, int argc, char **argv);

/** verb_export() - the workspace as the run sees it; EXIT_FAILED when something was skipped */
int verb_export(const struct ctx *ctx, int argc, char **argv);

/** verb_discard() - remove the run and what it holds */
int verb_discard(const struct ctx *ctx, int argc, char **argv);

/** verb_cluster() - pod, job and env: executes cofferdam-kubernetes */
int verb_cluster(const struct ctx *ctx, int argc, char **argv);

/** verb_manifest() - the objects that driver kubernetes makes of a specification */
int verb_manifest(const struct ctx *ctx, int argc, char **argv);

/** verb_image() - pull, import and keep images: executes cofferdam-image */
int verb_image(const struct ctx *ctx, int argc, char **argv);

/** verb_auth_proxy() - the service that holds credentials: executes cofferdam-auth-proxy */
int verb_auth_proxy(const struct ctx *ctx, int argc, char **argv);

/** verb_runner() - the contained side of the agent pair: executes cofferdam-runner */
int verb_runner(const struct ctx *ctx, int argc, char **argv);
