/*
 * fuzz-tool.c - inputs of tools against their schemas
 */
#include "runtime/agent/runner/http.h"
#include "runtime/agent/runner/schema.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_JSON json_t *input = NULL, *schema = NULL;
        const char *const *name = tool_names();
        struct http_url url;
        size_t n = 0;

        if (size < 1 || size > 65536)
                return 0;
        while (name[n])
                n++;
        schema = tool_schema(name[data[0] % n]);
        input = json_loadb((const char *) data + 1, size - 1, JSON_DECODE_ANY, NULL);
        if (!input)
                return 0;
        if (schema_check(json_object_get(schema, "input_schema"), input, NULL) == 0 && !json_is_object(input))
                __builtin_trap();
        if (schema_check(input, input, NULL) > 0) /* a schema of the task is foreign, too */
                __builtin_trap();
        if (http_url_parse(arg_str(input, "url", ""), &url, NULL) == 0 && url.port == 0)
                __builtin_trap();
        return 0;
}
