/*
 * task.h - what `cofferdam launch` is to do (the task, which the author of a workflow writes) and what it may
 * use for that (the operator's file)
 *
 * The two are told apart because they are trusted differently: a program on the host is started for what the
 * operator's file names, never for what a task, a workspace, an environment or a home directory holds.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

enum {
        TASK_FILE_MAX = 4 << 20, /* bytes */
        TASK_TOOLS_MAX = 512,    /* names of allowed_tools; tools and servers of the operator */
        TASK_NAME_MAX = 64,      /* bytes of the name of a tool of the operator's, or of a server */
        TASK_WORDS_MAX = 256,    /* arguments of a program */
};

/** struct task - one that was checked */
struct task {
        json_t *data;    /* what the runner gets, without tool_defs; owned */
        json_t *allowed; /* array of names and patterns; NULL: whatever the runner has; borrowed from @data */
        json_t *permission;  /* rules for every call; NULL: none; owned */
        json_t *tool_policy; /* rules for what is advertised; NULL: none; owned */
        json_t *servers;     /* object: MCP servers of the workflow, by name; owned */
};

/**
 * task_read() - check the text of a task; docs/schema/task.json
 * @ret: written on success only; task_deinit()
 * Unknown and duplicate keys are errors. Return: 0, -EINVAL, -ENOMEM, with a message that names the key.
 */
int task_read(const char *text, size_t len, struct task *ret, struct error *err)
        __attribute__((warn_unused_result));

/** task_resume() - go on after a question of the operator was asked
 * @result: what the launch that asked wrote on its standard output
 * @answer: NULL: none
 * Return: 0, -EINVAL, -ENOMEM. */
int task_resume(struct task *task, const json_t *result, const char *answer, struct error *err)
        __attribute__((warn_unused_result));

/** task_deinit() - keeps errno */
void task_deinit(struct task *task);

/* the server that tools of the operator with names of their own are called by: mcp__tools__NAME */
#define OPERATOR_TOOLS_SERVER "tools"

/** struct operator - what the operator provides */
struct operator{
        json_t *tools;      /* object: {name: {description, input_schema, command, timeout_ms, env}}; owned */
        json_t *servers;    /* object: {name: {command, env}}; owned */
        json_t *permission; /* NULL: none; owned */
        json_t *config;     /* object that the tool `config` shows; owned */
};

/** operator_read() - as task_read(), also -ENOTSUP: a server by HTTP; docs/schema/operator.json. @text NULL:
 * no file */
int operator_read(const char *text, size_t len, struct operator* ret, struct error *err)
        __attribute__((warn_unused_result));

/** operator_deinit() - keeps errno */
void operator_deinit(struct operator* op);

/** words_of() - the strings of a JSON array as a vector; NULL-terminated, its words borrowed; NULL: out of
 * memory */
const char **words_of(const json_t *list) __attribute__((warn_unused_result));
