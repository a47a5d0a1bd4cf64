/*
 * pass.h - between a run's supervisor and a client that is not this process: see cli/library.c
 */
#pragma once

#include "runtime/run/message.h"
#include "runtime/run/relay.h"

/**
 * pass_wait() - pass messages on, and move what the relay holds, until the command or the run is over
 * @sock:   to the supervisor, borrowed
 * @client: gets RUN_MSG_STARTED with the terminal's master, may send RUN_MSG_SIGNAL and RUN_MSG_KILL, and its
 *          end of file is RUN_MSG_KILL; borrowed
 * @ret:    the last message, which the client has not been told
 * Return: 0, -ECONNRESET (the supervisor died), -errno with a message.
 */
int pass_wait(int sock, int client, struct relay *relay, struct run_msg *ret, struct error *err)
        __attribute__((warn_unused_result));
