#include "runtime/agent/runner/tools.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "runtime/agent/placement.h"
#include "runtime/agent/protocol.h"
#include "runtime/agent/runner/schema.h"
#include "runtime/agent/runner/schemas.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"

/* SANDBOX_TOOL(): a name without a row in the placement table, or placed elsewhere, does not compile */
#define TOOL(name) \
        { SANDBOX_TOOL(name), tool_##name, schema_##name }

static const struct {
        const char *name;
        tool_fn *run;
        const char *schema;
} tools[] = {
        TOOL(agent),          TOOL(bash),           TOOL(diagnostic_shell),
        TOOL(file_edit),      TOOL(glob),           TOOL(grep),
        TOOL(notebook_edit),  TOOL(read_file),      TOOL(read_image),
        TOOL(remote_trigger), TOOL(repl),           TOOL(send_user_message),
        TOOL(skill),          TOOL(sleep),          TOOL(structured_output),
        TOOL(web_fetch),      TOOL(workspace_grep), TOOL(write_file),
};

static const char *const names[] = {
#define NAME(name, placement, reason) NAME_##placement(name)
#define NAME_SANDBOX(name)            #name,
#define NAME_LAUNCHER(name)
#define NAME_REFUSED(name)
        PLACEMENT_ROWS(NAME)
#undef NAME
                NULL,
};
static_assert(ARRAY_SIZE(names) == ARRAY_SIZE(tools) + 1, "a tool of the sandbox that the runner has not");

const char *const *tool_names(void) {
        return names;
}

static size_t find(const char *name) {
        for (size_t i = 0; i < ARRAY_SIZE(tools); i++) {
                if (strcmp(name, tools[i].name) == 0)
                        return i;
        }
        return ARRAY_SIZE(tools);
}

bool tool_here(const char *name) {
        return find(name) < ARRAY_SIZE(tools);
}

json_t *tool_schema(const char *name) {
        const size_t i = find(name);

        return i < ARRAY_SIZE(tools) ? json_loads(tools[i].schema, 0, NULL) : NULL;
}

int tool_text(struct tool_result *ret, const char *text, size_t len) {
        ret->content = text_json(text, len, TOOL_TEXT_MAX);
        return ret->content ? 0 : -ENOMEM;
}

int tool_fail(struct tool_result *ret, const char *fmt, ...) {
        char text[ERROR_MSG_MAX + 256];
        va_list args;

        va_start(args, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        ret->error = true;
        return tool_text(ret, text, strlen(text));
}

const char *arg_str(const json_t *input, const char *name, const char * or) {
        const json_t *v = json_object_get(input, name);

        return json_is_string(v) ? json_string_value(v) : or ;
}

json_int_t arg_int(const json_t *input, const char *name, json_int_t or) {
        const json_t *v = json_object_get(input, name);

        return json_is_integer(v) ? json_integer_value(v)
               : json_is_real(v)  ? (json_int_t) json_real_value(v)
                                  : or
                ;
}

bool arg_bool(const json_t *input, const char *name, bool or) {
        const json_t *v = json_object_get(input, name);

        return json_is_boolean(v) ? json_is_true(v) : or ;
}

int tool_run(struct tool_env *env, const char *name, const json_t *input, struct tool_result *ret) {
        const size_t i = find(name);
        AUTO_JSON json_t *schema = tool_schema(name);
        struct error err = { 0 };

        if (i == ARRAY_SIZE(tools))
                return -ENOENT;
        if (!schema)
                return -ENOMEM;
        if (schema_check(json_object_get(schema, "input_schema"), input, &err) < 0)
                return tool_fail(ret, "the input does not fit the schema of %s: %s", name, err.msg);
        return tools[i].run(env, input, ret);
}

void tool_env_deinit(struct tool_env *env) {
        env->shell = shell_free(env->shell, env->keep, env->n_keep);
        json_decref(env->output);
        env->output = NULL;
}
