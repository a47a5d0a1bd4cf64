/*
 * mcp-origin.h - who brought an MCP server, which decides where it may run: a server is a process
 */
#pragma once

#include <stdbool.h>

enum mcp_origin {
        MCP_ORIGIN_UNKNOWN,
        MCP_ORIGIN_PROJECT,  /* the repository that is worked on: .mcp.json */
        MCP_ORIGIN_WORKFLOW, /* the author of the task */
        MCP_ORIGIN_PLUGIN,   /* the operator: code, enabling and configuration */
        MCP_ORIGIN_COUNT
};

/** mcp_origin_name() - "unknown", "project", "workflow", "plugin" */
const char *mcp_origin_name(enum mcp_origin origin);

/** mcp_origin_of() - by exactly this name; NULL and anything else: unknown */
enum mcp_origin mcp_origin_of(const char *name);

/** mcp_origin_on_host() - whether the launcher may start a server of this origin */
bool mcp_origin_on_host(enum mcp_origin origin);
