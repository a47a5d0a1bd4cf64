/*
 * eventread.h - the events of a run, read back
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/error.h"
#include "runtime/run/state.h"

/** struct event_filter - which events are wanted; borrowed */
struct event_filter {
        uint64_t since;           /* number of the last one that is not; 0: all */
        const char *const *types; /* NULL: all */
        size_t n_types;
        bool follow; /* go on until the run has ended */
};

/** event_fn - @line: the event as it was written, with its end of line; borrowed. Return: 0 to go on,
 * anything else to stop */
typedef int (*event_fn)(const json_t *event, const char *line, size_t len, void *arg);

/**
 * events_read() - call @fn for the events of @dir that @filter wants
 * A line that was cut off by a crash is left out.
 * Blocks with follow. Return: 0, what @fn gave, -errno with a message.
 */
int events_read(const struct run_dir *dir, const struct event_filter *filter, event_fn fn, void *arg,
                struct error *err) __attribute__((warn_unused_result));
