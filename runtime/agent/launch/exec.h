/*
 * exec.h - a command in a run, with our ends of its three streams
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/buf.h"
#include "runtime/base/error.h"
#include "runtime/run/message.h"
#include "runtime/run/state.h"

enum { LAUNCH_STDERR_MAX = 64 << 10 }; /* bytes that are kept of what it says in free text: the last ones */

/** struct launch_command - owned; launch_command_deinit() */
struct launch_command {
        int sock;         /* to the supervisor; its end is the command's */
        int in_fd;        /* what it reads */
        int out_fd;       /* what it writes */
        int err_fd;       /* -1: ended */
        struct buf text;  /* the end of what came from @err_fd */
        uint64_t dropped; /* bytes before it */
        bool over;
        struct run_msg end; /* RUN_MSG_EXIT or RUN_MSG_ERROR, when it is over */
};
#define LAUNCH_COMMAND_INIT \
        { .sock = -1, .in_fd = -1, .out_fd = -1, .err_fd = -1 }

/**
 * launch_command_start() - start @argv in the run @dir
 * @ret: written in every case; launch_command_deinit()
 * Return: 0, -ESRCH (the run is over) and others of control_connect(), -errno, with a message.
 */
int launch_command_start(const struct run_dir *dir, const char *const *argv, struct launch_command *ret,
                         struct error *err) __attribute__((warn_unused_result));

/** launch_command_signal() - forward @sig; SIGKILL ends it now */
void launch_command_signal(struct launch_command *c, int sig);

/** launch_command_heard() - take what poll(2) reported on @sock */
void launch_command_heard(struct launch_command *c);

/** launch_command_said() - take what poll(2) reported on @err_fd */
void launch_command_said(struct launch_command *c);

/** launch_command_wait() - until it is over, @ms at most; reads @err_fd meanwhile. Return: whether it is. */
bool launch_command_wait(struct launch_command *c, unsigned int ms);

/** launch_command_deinit() - close; a command that lives is killed by the supervisor then; keeps errno */
void launch_command_deinit(struct launch_command *c);
