/*
 * client.h - the caller's process while its run lasts: forwards signals, relays the terminal, waits for the
 * end
 */
#pragma once

#include <sys/types.h>

#include "runtime/base/error.h"
#include "runtime/run/message.h"
#include "runtime/run/relay.h"

/**
 * client_block_signals() - block what client_wait() reads; call it before anything is made
 * Signals that the caller ignored (nohup, a background job of a script) stay ignored and are not forwarded.
 * SIGXFSZ is ignored from here on. Return: 0 or -errno.
 */
int client_block_signals(void) __attribute__((warn_unused_result));

/**
 * client_wait() - stay until the run is over
 * @supervisor: a child that has not been waited for; 0: of a run that lives on without us
 * @sock:   to the supervisor, borrowed
 * @in_fd:  the caller's standard input for a terminal relay, -1: closed
 * @out_fd: the caller's standard output for a terminal relay
 * @relay:  standard descriptors that are files
 * @ret:    the last message: RUN_MSG_EXIT, RUN_MSG_ERROR or RUN_MSG_READY
 * SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCONT are forwarded once each; SIGTSTP stops the
 * command and this process. A second SIGINT ends the run, a third kills a supervisor that does not answer.
 * Return: 0, -ECONNRESET (the supervisor died), -errno.
 */
int client_wait(pid_t supervisor, int sock, int in_fd, int out_fd, struct relay *relay, struct run_msg *ret,
                struct error *err) __attribute__((warn_unused_result));

/** client_tell_lost() - when output could not be written: the command was told that it is, so its exit code
 * in
 * @ret cannot say so, and @ret becomes an error */
void client_tell_lost(const struct relay *relay, struct run_msg *ret);
