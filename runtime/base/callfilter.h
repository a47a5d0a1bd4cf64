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
#include "runtime/base/landlock.h"

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

/** CALL(), CALL_IF() - rows of a list, by the name of the call; a missing number is its header's fault */
#define CALL(name) \
        { SYS_##name, CALL_ALLOW, 0, 0, 0 }
#define CALL_IF(name, arg, mask, value) \
        { SYS_##name, CALL_ALLOW_IF, (arg), (uint32_t) (mask), (uint32_t) (value) }

/* x86-64 and aarch64 agree on both; the headers of Debian 12 have the second only in the kernel's own */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#endif

enum { CALLFILTER_CALLS_MAX = 160, CONFINEMENT_LISTS_MAX = 3 };

/** struct callfilter_list - @n rows, borrowed */
struct callfilter_list {
        const struct callfilter_call *calls;
        size_t n;
};

/** struct confinement - what a helper process may do from now on */
struct confinement {
        struct callfilter_list lists[CONFINEMENT_LISTS_MAX]; /* taken together */
        enum callfilter_else otherwise;
        const struct landlock_place *places; /* borrowed; NULL: landlock is not asked */
        size_t n_places;
        bool connects; /* as for landlock_confine() */
};

/**
 * callfilter_load() - put the calling thread, and threads made later, under a list for good
 * @calls: @n rows in any order, at most CALLFILTER_CALLS_MAX
 * Sets no_new_privs. x32 calls are as those that are not listed; other architectures end the process.
 * Return: 0, -E2BIG, -EINVAL (kernel without seccomp filters), -errno.
 */
int callfilter_load(const struct callfilter_call *calls, size_t n, enum callfilter_else otherwise)
        __attribute__((warn_unused_result));

/**
 * confine_process() - no core file, landlock where the kernel has it, and a list of calls; for good
 * Capabilities and descriptors are the caller's to give up before. An older kernel does without landlock: the
 * list and the descriptors are what there is.
 * Return: 0 or -errno with a message.
 */
int confine_process(const struct confinement *confinement, struct error *err)
        __attribute__((warn_unused_result));
