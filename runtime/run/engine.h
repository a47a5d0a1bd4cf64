/*
 * engine.h - one run from specification to exit code
 */
#pragma once

#include <stdbool.h>

#include "drivers/driver.h"
#include "runtime/run/message.h"

enum run_tty { TTY_AUTO, TTY_ON };

/** struct run_tty_order - whether the command gets a terminal */
struct run_tty_order {
        enum run_tty when;   /* TTY_AUTO: when stdin and stdout are terminals */
        struct winsize size; /* unless one of them has one */
};

/** struct run_request - what to run; borrowed */
struct run_request {
        const struct spec *spec;
        const json_t *spec_json; /* spec_dump(), for spec.json; borrowed */
        const char *const *argv; /* the command, NULL-terminated, not empty; NULL: none, the run lives on */
        struct run_tty_order tty;
        int stdio[3];       /* the caller's descriptors, -1: closed */
        int events_fd;      /* sink of --events, -1: none */
        struct trace trace; /* of the caller */
        const int *client;  /* who is told of the command and may signal it (pass.h), borrowed; NULL: this
                               process's user, by signals and its terminal */
        /* without a command: called with the run's id when it is ready. A caller that is killed before this
         * has returned 0 takes the run with it: nobody would know of it. NULL: nothing to do. */
        int (*ready)(void *arg, const char *run_id);
        void *arg;
        /* without a command: receives a descriptor, owned, whose end is the end of the run; NULL: it lives on
         */
        int *hold_fd;
};

/**
 * run_refused() - tell the sink of --events that there will be no run
 * @events_fd: borrowed, -1: none
 */
void run_refused(int events_fd, const char *failure_code, const char *reason);

/**
 * run_plan() - who serves @spec here, and how: what run_execute() and doctor both go by
 * With isolation: degrade and a mode: auto that somebody said, the last rung is taken when the host has no
 * other.
 * @ret_driver: static; NULL: there is no such driver
 * @ret: freed by the driver's plan_free(); written on success only
 * Return: as the driver's plan(), DRIVER_HOST_LACKS without a driver.
 */
int run_plan(const struct ctx *ctx, const struct spec *spec, const struct driver_ops **ret_driver,
             struct driver_plan **ret, struct error *err);

/**
 * run_check_secrets() - whether a run of @spec by @driver would find its credentials and who makes tokens of
 * them; contacts nobody, starts nothing. Return: 0, or as the run with a message.
 */
int run_check_secrets(const struct ctx *ctx, const struct spec *spec, const struct driver_ops *driver,
                      struct error *err) __attribute__((warn_unused_result));

/**
 * run_execute() - plan, start, run, stop; without a command: plan and start
 * @ret: how it ended: RUN_MSG_EXIT with the command's code, or RUN_MSG_ERROR with failure code and message;
 *       without a command: RUN_MSG_READY with the run's id, or RUN_MSG_ERROR
 * Forks the supervisor; blocks SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH and SIGCONT.
 * Every failure is told through @ret, none is lost.
 */
void run_execute(const struct ctx *ctx, const struct run_request *req, struct run_msg *ret);

/** struct exec_order - a further command in a run that lives; borrowed */
struct exec_order {
        const char *const *argv; /* NULL-terminated, not empty */
        const char *const *env;  /* "NAME=value", NULL-terminated: added to the run's; NULL: none */
        const char *cwd;         /* absolute path inside; NULL: the workspace */
        struct run_tty_order tty;
        bool detach;       /* do not wait: @ret of run_exec() carries the command's number */
        int stdio[3];      /* the caller's descriptors, -1: closed; not looked at with @detach */
        const int *client; /* as in struct run_request */
};

/**
 * run_exec() - run a command in the run @dir
 * @ret: as run_execute()'s
 * Blocks the same signals.
 */
void run_exec(const struct run_dir *dir, const struct exec_order *order, struct run_msg *ret);
