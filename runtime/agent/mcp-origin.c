#include "runtime/agent/mcp-origin.h"

#include <assert.h>
#include <string.h>

#include "runtime/base/cleanup.h"

static const struct {
        const char *name;
        bool on_host;
} origins[] = {
        [MCP_ORIGIN_UNKNOWN] = { "unknown", false },
        [MCP_ORIGIN_PROJECT] = { "project", false },
        [MCP_ORIGIN_WORKFLOW] = { "workflow", false },
        [MCP_ORIGIN_PLUGIN] = { "plugin", true },
};
static_assert(ARRAY_SIZE(origins) == MCP_ORIGIN_COUNT, "origins[] and enum differ");

const char *mcp_origin_name(enum mcp_origin origin) {
        return origins[origin].name;
}

enum mcp_origin mcp_origin_of(const char *name) {
        for (int i = 0; name && i < MCP_ORIGIN_COUNT; i++)
                if (strcmp(name, origins[i].name) == 0)
                        return (enum mcp_origin) i;
        return MCP_ORIGIN_UNKNOWN;
}

bool mcp_origin_on_host(enum mcp_origin origin) {
        return origins[origin].on_host;
}
