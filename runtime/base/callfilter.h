/*
 * callfilter.h - a system call allow-list for a helper process of ours
 *
 * Each helper declares its list as a const table beside its code and takes it when it has everything it was
 * started with. The filter of the work in the sandbox is another matter (drivers/native/seccomp.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/error.h"

/** enum callfilter_else - what becomes of a call that is not in the list */
enum callfilter_else { CALL_ELSE_KILL, CALL_ELSE_EPERM };

/** enum callfilter_answer - what becomes of a call that is in the list */
enum callfilter_answer {
        CALL_ALLOW,
        CALL_ALLOW_IF, /* (argument @arg & @mask) == @value, else the next row; low 32 bits are compared */
        CALL_ENOSYS,   /* the C library tries it and does without */
        CALL_ANSWER_COUNT
};

/** struct callfilter_call - one system call; several ALLOW_IF rows of one number are alternatives */
struct callfilter_call {
        int nr;
        enum callfilter_answer answer;
        uint8_t arg; /* 0..5 */
        uint32_t mask, value;
};

enum { CALLFILTER_CALLS_MAX = 160 };

/**
 * callfilter_load() - put the calling thread, and threads made later, under a list for good
 * @calls: @n rows in any order, at most CALLFILTER_CALLS_MAX
 * Sets no_new_privs. x32 calls are as those that are not listed; other architectures end the process.
 * Return: 0, -E2BIG, -EINVAL (kernel without seccomp filters), -errno.
 */
int callfilter_load(const struct callfilter_call *calls, size_t n, enum callfilter_else otherwise)
        __attribute__((warn_unused_result));
