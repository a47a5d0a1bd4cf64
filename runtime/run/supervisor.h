/*
 * supervisor.h - the process that owns a run: its directory, its events, its sandbox
 */
#pragma once

#include <jansson.h>

#include "drivers/driver.h"
#include "runtime/run/alone.h"
#include "runtime/run/secrets.h"
#include "runtime/run/state.h"
#include "runtime/run/tokens.h"

/** struct supervisor_args - what the engine hands over at the fork; borrowed */
struct supervisor_args {
        const struct ctx *ctx;
        const struct driver_ops *driver;
        const struct driver_plan *plan;
        const struct exec_request *command; /* NULL: none, the run lives on; its stdio is not looked at */
        int stdio[3];                       /* of the command, as in the caller's process; -1: closed */
        const struct spec *spec;
        const json_t *spec_json; /* for spec.json */
        struct run_dir *dir;
        struct tokens *tokens;   /* in place of credentials; without any: TOKENS_INIT */
        struct secrets *secrets; /* that come inside */
        struct alone *alone;     /* given back when the first state is written */
        int events_fd;           /* sink of --events, -1: none */
        int client_fd; /* struct run_msg; its end of file ends the run, until it is told that it is ready */
        struct trace trace;
};

/**
 * supervisor_main() - run the sandbox from start to end; the body of a forked process
 * Makes itself a session leader, has its standard descriptors on /dev/null, reports by messages only.
 * Return: exit status for _exit().
 */
int supervisor_main(const struct supervisor_args *args);
