/*
 * tools.h - tools that the launcher has itself: questions, tasks, the list, plan mode, search, settings
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/agent/launch/gate.h"
#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum { LAUNCH_ITEMS_MAX = 1024 }; /* tasks, questions, entries of the list */

/** struct launch_state - what the tools remember; zero: nothing */
struct launch_state {
        json_t *todos;     /* array; owned */
        json_t *tasks;     /* array of objects; owned */
        json_t *questions; /* array of what ask_user_async was given and nobody has answered; owned */
        json_t *config;    /* object; borrowed; NULL: none */
        json_int_t last_task;
};

/** launch_state_deinit() - keeps errno */
void launch_state_deinit(struct launch_state *state);

/** struct tool_answer - what a call comes to: exactly one of them */
struct tool_answer {
        struct buf output;
        struct buf error; /* not empty: it failed */
        json_t *ask_user; /* the node pauses with this question; owned */
};

/** tool_answer_deinit() - keeps errno */
void tool_answer_deinit(struct tool_answer *answer);

/** tool_fail() - the call failed, for the reason in @fmt */
void tool_fail(struct tool_answer *answer, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** launch_tool_def() - {name, description, input_schema} of the built-in @name; new reference; NULL: there is
 * none, or out of memory */
json_t *launch_tool_def(const char *name) __attribute__((warn_unused_result));

/** launch_tool_is_quiet() - whether the tool changes nothing but what the launcher remembers; a name that is
 * none of the launcher's is not */
bool launch_tool_is_quiet(const char *name);

/** launch_tool_listed() - the name of the @i-th; NULL behind the last. For tests. */
const char *launch_tool_listed(size_t i);

/**
 * launch_tool_call() - carry out the built-in @name
 * @gate: its planning may change
 * @input: object, any content
 */
void launch_tool_call(struct launch_state *state, struct gate *gate, const char *name, json_t *input,
                      struct tool_answer *answer);
