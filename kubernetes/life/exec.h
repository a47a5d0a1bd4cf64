/*
 * exec.h - the process of one command: what its parent and it have in common (drivers/kubernetes)
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum { EXEC_ORDER = 3, EXEC_RESULT = 4, EXEC_SIGNALS = 5, EXEC_NO_DIRECTORY = 122 };

/** struct exec_signal - on EXEC_SIGNALS, whole */
struct exec_signal {
        int32_t number;
        int32_t group;
};

/** struct exec_report - on EXEC_RESULT, whole: once when the command runs, once when it has ended */
struct exec_report {
        bool started, ended;
        int32_t exit_code;
        int32_t error; /* 0, or the errno with which the connection was lost or the command refused */
        char text[512];
};

/** exec_tell() - @report on EXEC_RESULT, with @err where @r is -errno. Return: CODE_OK, the exit code of who
 * tells it. */
int exec_tell(struct exec_report *report, int r, const struct error *err);

/** exec_script() - the lines of sh that become the command of @order; for tests
 * $2 is the working directory, $3 the file for the process id. Return: 0, -ENOMEM, -E2BIG. */
int exec_script(const json_t *order, struct buf *out) __attribute__((warn_unused_result));
