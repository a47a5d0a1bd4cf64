/*
 * order.h - a further command for a run that lives, as a message to its supervisor
 */
#pragma once

#include "drivers/driver.h"
#include "runtime/run/engine.h"
#include "runtime/run/message.h"

/**
 * order_message() - what the command needs, as one message
 * @command: terminal and streams of @order, as the command gets them; -1: closed
 * @fds:     the block, owned by the caller, then streams, borrowed from @command
 * Return: 0, -E2BIG, -ENOMEM, -errno with a message.
 */
int order_message(const struct exec_order *order, const struct exec_request *command, struct run_msg *msg,
                  int fds[RUN_MSG_FDS_MAX], size_t *ret_n, struct error *err)
        __attribute__((warn_unused_result));
