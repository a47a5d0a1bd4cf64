/*
 * fuzz-mcp.c - messages of MCP servers
 *
 * Each is one of four things; content becomes blocks that the Messages API takes.
 */
#include <string.h>

#include "runtime/agent/runner/mcp.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_JSON json_t *message = NULL, *blocks = NULL;
        json_int_t id;
        json_t *block;
        size_t i;

        if (size > 65536)
                return 0;
        message = json_loadb((const char *) data, size, JSON_REJECT_DUPLICATES, NULL);
        if (!message || mcp_frame_of(message, &id) != MCP_ANSWER ||
            !json_is_object(json_object_get(message, "result")))
                return 0;
        check(id >= -1 || json_is_integer(json_object_get(message, "id")));
        blocks = mcp_content(json_object_get(message, "result"));
        check(json_array_size(blocks) > 0);
        json_array_foreach(blocks, i, block) {
                const char *type = arg_str(block, "type", "");

                check(strcmp(type, "text") == 0 || strcmp(type, "image") == 0);
                check(strcmp(type, "text") != 0 ||
                      json_string_length(json_object_get(block, "text")) <= TOOL_TEXT_MAX + 64);
        }
        return 0;
}
