/*
 * client.h - the caller's process while its run lasts: forwards signals, relays the terminal, waits for the
 * end
 */
#pragma once

#include "runtime/base/error.h"
#include "runtime/run/message.h"

/** client_block_signals() - block what client_wait() reads; call it before the fork of the supervisor.
 * Return: 0 or -errno. */
int client_block_signals(void) __attribute__((warn_unused_result));

/**
 * client_wait() - stay until the run is over
 * @sock:   to the supervisor, borrowed
 * @in_fd:  the caller's standard input for a terminal relay, -1: closed
 * @out_fd: the caller's standard output for a terminal relay
 * @ret:    the last message: RUN_MSG_EXIT or RUN_MSG_ERROR
 * SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded once each; a second SIGINT ends the
 * run. Return: 0, -ECONNRESET (the supervisor died), -errno.
 */
int client_wait(int sock, int in_fd, int out_fd, struct run_msg *ret, struct error *err)
        __attribute__((warn_unused_result));
