/*
 * loop.h - the agent: asks the model, runs what it asks for, until there is a result
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "runtime/agent/policy.h"
#include "runtime/agent/runner/mcp.h"
#include "runtime/agent/runner/messages.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/agent/runner/wire.h"

enum {
        LOOP_STEPS = 100, /* turns, unless the task says; tool_max_steps */
        LOOP_STEPS_MAX = 10000,
        LOOP_RETRIES = 8,           /* of one model call; max_retries */
        LOOP_RETRY_MS_MAX = 600000, /* a server that wants more is not waited for */
        LOOP_COMPACTIONS_MAX = 3,   /* in a row */
        LOOP_TOKENS = 8192,         /* of an answer; max_tokens */
        LOOP_WINDOW = 200000,       /* tokens of a conversation; context_window */
        LOOP_CALLS_MAX = 128,       /* tools of one turn */
        LOOP_GO_ON_MAX = 3,         /* answers that were cut at max_tokens in a row */
};

/** struct agent - one task; zero is empty, agent_deinit() it */
struct agent {
        struct wire *wire;
        struct model model;
        struct tool_env env;
        struct permission
                *policy;  /* owned; NULL: everything is allowed here, and the launcher decides of its own */
        json_t *task;     /* owned: data of the task envelope */
        json_t *messages; /* owned: the conversation */
        json_t *tools;    /* owned: as the API takes them */
        json_t *routes;   /* owned: name for the API -> {"name", "server"} */
        struct mcp_place place;
        struct mcp_server *servers[MCP_SERVERS_MAX];
        size_t n_servers;
        struct model_usage usage;
        uint64_t requests; /* to the model */
        int protocol;
        uint64_t start_ns;
        json_int_t turn;
        char pending[256]; /* the tool_use that waits for the operator; "": none */
        json_t *question;  /* owned: what he is asked */
};

/**
 * agent_prepare() - take the task's tools and servers, and the conversation it goes on with
 * @a: wire, model, env, place, policy, task and messages (replayed, may be NULL) are set
 * Return: 0; -EPIPE; others with the reason in @err: the task cannot be done.
 */
int agent_prepare(struct agent *a, struct error *err) __attribute__((warn_unused_result));

/**
 * agent_run() - until there is a result, or a question for the operator
 * @ret: owned, data of the result envelope; also when the task failed
 * Return: 0; -EPIPE (the launcher is gone), -ENOMEM.
 */
int agent_run(struct agent *a, json_t **ret, struct error *err) __attribute__((warn_unused_result));

/** agent_failure() - data of the result envelope of a task that failed. Return: new reference. */
json_t *agent_failure(const struct agent *a, const char *why);

/** agent_deinit() - ends servers and shells, frees */
void agent_deinit(struct agent *a);

/** agent_call_tools() - run what the last message asks for and add the answers. Return: 0, -EPIPE, -ENOMEM.
 */
int agent_call_tools(struct agent *a, const json_t *content, const json_t *invalid, struct error *err)
        __attribute__((warn_unused_result));

/** agent_ask_model() - one turn of the model, with retries and compaction. Return: enum model_outcome (not
 * AGAIN), -errno. */
int agent_ask_model(struct agent *a, struct model_answer *answer, struct error *err)
        __attribute__((warn_unused_result));
