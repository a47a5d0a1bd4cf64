/*
 * confine.h - what the supervisor and its children may still do once the sandbox runs
 */
#pragma once

#include "runtime/base/error.h"
#include "runtime/base/landlock.h"

/**
 * confine_supervisor() - no new privileges, few capabilities, a list of system calls; for good
 * Once, when the sandbox is ready: what it still does is to wait, to write the run's record, to hand commands
 * to the sandbox, to end it, to land and to remove. A call that is not in the list gets EPERM (ADR 023).
 * Return: 0 or -errno with a message.
 */
int confine_supervisor(struct error *err) __attribute__((warn_unused_result));

/**
 * confine_lander() - the same for the child that lands, which inherits the supervisor's: files only, and any
 * other call ends it
 * @places: what it opens and changes; nothing else, where the kernel has landlock
 */
int confine_lander(const struct landlock_place *places, size_t n, struct error *err)
        __attribute__((warn_unused_result));
