/*
 * supervisor.h - the process that owns a run: its directory, its events, its sandbox
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "drivers/driver.h"
#include "runtime/run/events.h"
#include "runtime/run/state.h"

/** struct supervisor_args - what the engine hands over at the fork; borrowed */
struct supervisor_args {
        const struct ctx *ctx;
        const struct driver_ops *driver;
        const struct driver_plan *plan;
        const struct exec_request *command; /* stdio as in the caller's process */
        struct run_dir *dir;
        struct events *events;
        json_t *state; /* state.json so far; the supervisor adds to it */
        int client_fd; /* struct run_msg; its end of file ends the run */
        bool keep;     /* keep the run directory also when nothing is held */
        struct trace trace;
};

/**
 * supervisor_main() - run the sandbox from start to end; the body of a forked process
 * Makes itself a session leader, has its standard descriptors on /dev/null, reports by messages only.
 * Return: exit status for _exit().
 */
int supervisor_main(const struct supervisor_args *args);
