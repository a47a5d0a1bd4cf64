/*
 * gate.h - the boundary: which tools this node was offered, and whether a call that came from inside is
 * carried out
 *
 * What the runner says is a request from inside the sandbox. A call is carried out only when a tool was
 * advertised to this node under exactly its name, is placed in the launcher, and is allowed by every policy
 * under every name that the tool has.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/agent/policy.h"
#include "runtime/base/error.h"

enum { GATE_TOOLS_MAX = 1024, GATE_POLICIES = 2 };

enum tool_kind {
        TOOL_INSIDE,  /* the runner's; never carried out here */
        TOOL_BUILTIN, /* tools.c */
        TOOL_PROGRAM, /* of the operator */
        TOOL_SERVER,  /* an MCP server of the operator's */
};

/** struct tool - one that was advertised */
struct tool {
        enum tool_kind kind;
        json_t *def;        /* {name, description, input_schema}; owned */
        char *fqn, *dotted; /* mcp__SERVER__TOOL, mcp.SERVER.TOOL; NULL: not of a server; owned */
        struct identity id; /* borrowed from the above */
        const char
                *remote; /* TOOL_SERVER, TOOL_PROGRAM: its name there; borrowed from @def's owner or static */
        size_t server;   /* TOOL_SERVER: which */
};

/** struct gate - zero: nothing is advertised */
struct gate {
        struct tool *tools; /* owned */
        size_t n;
        struct permission *policies[GATE_POLICIES]; /* the operator's, the task's; owned; NULL: none */
        struct permission *offer;                   /* what is not even advertised; owned; NULL: none */
        bool planning;                              /* only what changes nothing is carried out */
};

/**
 * gate_add() - advertise a tool, unless a policy denies it whatever its input
 * @def: consumed in every case: {name, description, input_schema}
 * @server: NULL, or the server that the tool is of, for its other names
 * @remote: its name there, borrowed; alive as long as the gate
 * @ret: the tool; NULL: it was denied and is not advertised
 * Return: 0, -EINVAL (its placement does not fit its kind; a name twice), -E2BIG, -ENOMEM, with a message.
 */
int gate_add(struct gate *gate, enum tool_kind kind, json_t *def, const char *server, const char *remote,
             struct tool **ret, struct error *err) __attribute__((warn_unused_result));

/** gate_find() - the tool that was advertised under exactly @name; NULL: none */
const struct tool *gate_find(const struct gate *gate, const char *name);

/**
 * gate_admit() - whether a call from inside is carried out
 * @name, @input: as the runner said them: any JSON, NULL
 * @ret_reason: why not, in words, at most @size bytes
 * Return: the tool; NULL: refused.
 */
const struct tool *gate_admit(const struct gate *gate, const json_t *name, const json_t *input,
                              char *ret_reason, size_t size);

/** gate_defs() - the tools as tool_defs of a task; new reference, NULL: out of memory */
json_t *gate_defs(const struct gate *gate) __attribute__((warn_unused_result));

/** gate_deinit() - keeps errno */
void gate_deinit(struct gate *gate);
