/*
 * trace.h - where the time of a start goes: one line per step on standard error (cofferdam run --trace-setup)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** struct trace - plain memory; copied into each process of a run, which gives it its own name */
struct trace {
        bool on;
        const char *who;   /* "caller", "supervisor", "init"; borrowed */
        uint64_t start_ns; /* of the whole, see clock_ns() */
        uint64_t last_ns;  /* of the last step of this process */
};

/** trace_init() - start now */
void trace_init(struct trace *trace, bool on, const char *who);

/** trace_fork() - @trace as another process goes on with it, whose first step begins now */
struct trace trace_fork(const struct trace *trace, const char *who);

/** trace_step() - "cofferdam: trace: 1520 us: supervisor: fork 310 us": when it was done, and how long it
 * took */
void trace_step(struct trace *trace, const char *step);
