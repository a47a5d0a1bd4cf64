/*
 * mcp.h - MCP servers of the operator, which the launcher starts on the host and speaks to over stdio
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#include "runtime/agent/envelope.h"
#include "runtime/agent/launch/program.h"
#include "runtime/agent/mcp-origin.h"

enum {
        MCP_TIMEOUT_MS = 30000, /* of one request, unless the operator says otherwise */
        MCP_PAGES_MAX = 64,     /* of a list */
        MCP_NOISE_MAX = 10000,  /* lines that are no answer, during one request */
};

/** struct mcp_server - one; owned; mcp_server_stop() */
struct mcp_server {
        const char *name; /* borrowed */
        pid_t pid;        /* 0: not started, or given up */
        int fds[2];       /* its input, its output */
        struct channel channel;
        unsigned int timeout_ms;
        int cancel_fds[2]; /* gives up a request when one of these becomes readable; -1: none */
        json_int_t last_id;
        json_t *tools;           /* array, as it lists them; owned */
        char why[ERROR_MSG_MAX]; /* it was given up because; "": it was not */
};
#define MCP_SERVER_INIT                                     \
        {                                                   \
                .fds = { -1, -1 }, .cancel_fds = { -1, -1 } \
        }

/**
 * mcp_server_start() - start it, agree on a version, list its tools
 * @origin: anything but the operator's is refused here, whoever asks
 * Forks; blocks. Return: 0, -EPERM, -ETIMEDOUT, -EPROTO, -ENOENT, ..., with a message.
 */
int mcp_server_start(struct mcp_server *server, enum mcp_origin origin, const struct program *program,
                     struct error *err) __attribute__((warn_unused_result));

/**
 * mcp_server_call() - one request
 * @params: consumed; NULL: out of memory
 * @ret: its result; new reference; written on success only
 * A server that dies, floods, or does not answer in time is given up: later requests fail at once. Answers to
 * other requests are left out. Return: 0, -EREMOTEIO (it answered with an error, the message is its),
 * -ECANCELED, -ETIMEDOUT, -EPIPE, -EPROTO, -ENOMEM, with a message.
 */
int mcp_server_call(struct mcp_server *server, const char *method, json_t *params, json_t **ret,
                    struct error *err) __attribute__((warn_unused_result));

/** mcp_server_stop() - end it; NULL-safe, idempotent */
void mcp_server_stop(struct mcp_server *server);

/** mcp_result_text() - what a tools/call answered as one text: its text blocks, other blocks as JSON
 * @ret_failed: the server says that the tool failed
 * Return: 0, -E2BIG, -ENOMEM. */
int mcp_result_text(const json_t *result, struct buf *out, bool *ret_failed)
        __attribute__((warn_unused_result));
