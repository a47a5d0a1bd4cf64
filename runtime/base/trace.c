#include "runtime/base/trace.h"

#include <stdio.h>
#include <unistd.h>

#include "runtime/base/clock.h"

void trace_init(struct trace *trace, bool on, const char *who) {
        *trace = (struct trace){ .on = on, .who = who };
        if (on)
                trace->start_ns = trace->last_ns = clock_ns();
}

struct trace trace_fork(const struct trace *trace, const char *who) {
        struct trace t = *trace;

        t.who = who;
        if (t.on)
                t.last_ns = clock_ns();
        return t;
}

void trace_step(struct trace *trace, const char *step) {
        uint64_t now;

        if (!trace->on)
                return;
        now = clock_ns();
        (void) dprintf(STDERR_FILENO, "cofferdam: trace: %6llu us: %s: %s %llu us\n",
                       (unsigned long long) (now - trace->start_ns) / 1000, trace->who, step,
                       (unsigned long long) (now - trace->last_ns) / 1000);
        trace->last_ns = clock_ns();
}
