/*
 * launch.h - one task in a run that lives: the trusted side of the agent pair
 */
#pragma once

#include <jansson.h>

#include "runtime/agent/task.h"
#include "runtime/base/ctx.h"
#include "runtime/base/error.h"
#include "runtime/run/state.h"

/** struct launch_order - what to do; borrowed */
struct launch_order {
        const struct ctx *ctx;
        const struct run_dir *dir;
        const struct task *task;
        const struct operator* op;
        char *const *writable; /* physical paths on the host that the sandbox may write below, as far as they
                                  are known; NULL-terminated */
        const char *const *argv; /* the runner, as it is called inside; NULL-terminated */
        const json_t *replay;    /* data of a session_replay; NULL: none */
        int protocol;            /* the highest that is spoken: PROTOCOL_FIRST waits for no hello */
        int session_fd;          /* directory that gets session.json and the turns; -1: they are dropped */
        int signal_fd;           /* signalfd of what ends the task; -1: none */
};

/* exit codes of a task; what cofferdam itself says has the codes of every verb */
enum { LAUNCH_DONE = 0, LAUNCH_FAILED = 1, LAUNCH_ASKED = 3, LAUNCH_AROUND = 125 };

/** struct launch_end - how it ended */
struct launch_end {
        int code;              /* LAUNCH_*, 128 + signal, or that of a run that failed */
        json_t *report;        /* for standard output: the runner's result and what the launcher saw; owned;
                                  NULL: out of memory */
        char failure_code[32]; /* "": none */
        char text[ERROR_MSG_MAX]; /* why it failed around the task; "": it did not */
};

/**
 * launch_check() - whether the tools that @task names can be offered at all, before anything is started
 * Return: 0, -ENOTSUP (CAPABILITY_UNSUPPORTED), -EINVAL, with a message that names the tool.
 */
int launch_check(const struct task *task, const struct operator* op, struct error *err)
        __attribute__((warn_unused_result));

/**
 * launch_task() - start the runner, hand it the task, serve it until it has a result
 * Starts programs of the operator's file as the task needs them. Blocks. SIGPIPE is ignored by the caller.
 * Every failure is told through @ret.
 */
void launch_task(const struct launch_order *order, struct launch_end *ret);

/** launch_end_deinit() - keeps errno */
void launch_end_deinit(struct launch_end *end);
