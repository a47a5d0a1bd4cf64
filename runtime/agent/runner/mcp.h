/*
 * mcp.h - a client of MCP servers that run inside the sandbox
 *
 * JSON-RPC 2.0 over the standard streams of a process, or over streamable HTTP. One request at a time. What a
 * server may do: answer late (it is told that nobody waits), answer out of order, ask (ping and roots are
 * answered, all else is refused), notify. What ends it for good: it dies, it says something that is not
 * JSON-RPC, it says more than MCP_MESSAGE_MAX at once or MCP_NOISE_MAX messages that were not asked for.
 */
#pragma once

#include <jansson.h>

#include "runtime/agent/runner/children.h"
#include "runtime/agent/runner/http.h"

enum {
        MCP_MESSAGE_MAX = 4 * 1024 * 1024, /* bytes */
        MCP_NOISE_MAX = 10000,             /* messages that are no answer, while one is awaited */
        MCP_DEPTH_MAX = 96,                /* levels of JSON, and arrays and objects of a message */
        MCP_NESTS_MAX = 50000,
        MCP_TOOLS_MAX = 512,
        MCP_PAGES_MAX = 64,
        MCP_SERVERS_MAX = 32,
        MCP_START_MS = 30000,
        MCP_CALL_MS = 120000,
        MCP_NAME_MAX = 64,
        MCP_WHY_MAX = 512,
};

struct mcp_server;

/** struct mcp_place - what servers are started with; borrowed */
struct mcp_place {
        struct wire *wire;
        struct http_net net;
        int work_fd;
        const char *work_dir;
        char *const *environ;
        uint64_t start_ms, call_ms; /* 0: the ones above */
};

/**
 * mcp_start() - start or reach a server, agree on a version, list its tools
 * @name:   letters, digits, '-', '_', at most MCP_NAME_MAX
 * @config: {"command", "args", "env"} or {"url", "headers"}; borrowed while it lives
 * Return: 0; -EPIPE (the launcher is gone), -ENOMEM; others with the reason in @err: the server is of no use.
 */
int mcp_start(const struct mcp_place *place, const char *name, const json_t *config, struct mcp_server **ret,
              struct error *err) __attribute__((warn_unused_result));

/** mcp_stop() - end it. Return: NULL. */
struct mcp_server *mcp_stop(struct mcp_server *s);

/** mcp_name() - as it was started */
const char *mcp_name(const struct mcp_server *s);
/** mcp_pid() - its process, 0: it is reached by HTTP, or dead */
pid_t mcp_pid(const struct mcp_server *s);
/** mcp_version() - the protocol version that was agreed on */
const char *mcp_version(const struct mcp_server *s);
/** mcp_tools() - borrowed array of {"name", "description", "inputSchema"} */
const json_t *mcp_tools(const struct mcp_server *s);

/**
 * mcp_call() - call one of its tools
 * @ret_content: owned array of content blocks as the Messages API takes them
 * @ret_error: the tool says that it failed
 * Return: 0; -EPIPE, -ENOMEM; -EREMOTEIO (the server refused), -ETIMEDOUT (it may be called again),
 * -ESHUTDOWN (it is dead), each with its sentence in @err.
 */
int mcp_call(struct mcp_server *s, const char *tool, const json_t *input, json_t **ret_content,
             bool *ret_error, struct error *err) __attribute__((warn_unused_result));

/** mcp_resources() - all it lists. @ret: owned array. Return: as mcp_call(). */
int mcp_resources(struct mcp_server *s, json_t **ret, struct error *err) __attribute__((warn_unused_result));
/** mcp_read() - one of them. @ret: owned, its "contents". Return: as mcp_call(). */
int mcp_read(struct mcp_server *s, const char *uri, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/* --- frames, for the fuzz target ------------------------------------------------------------------------ */

/** enum mcp_frame - what a message of a server is */
enum mcp_frame { MCP_BROKEN, MCP_ANSWER, MCP_REQUEST, MCP_NOTIFICATION };
/** mcp_frame_of() - classify a message; @ret_id: of an answer, -1: not a number of ours */
enum mcp_frame mcp_frame_of(const json_t *message, json_int_t *ret_id);
/** mcp_content() - blocks of a tool's result as the Messages API takes them; NULL: out of memory */
json_t *mcp_content(const json_t *result);
