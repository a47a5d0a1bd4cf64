/* sleep, structured_output, send_user_message, agent */
#include <errno.h>
#include <string.h>

#include "runtime/agent/runner/schema.h"
#include "runtime/agent/runner/tools.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

int tool_sleep(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        const double seconds = json_number_value(json_object_get(input, "seconds"));
        const uint64_t end = clock_ns() + (uint64_t) (seconds * 1e9);
        int r = 0;

        while (r == 0 && clock_ns() < end) /* what the launcher says ends a wait early */
                r = wire_poll(env->wire, NULL, 0, end);
        return r < 0 ? r : tool_text(ret, "slept", 5);
}

int tool_structured_output(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        struct error err = { 0 };

        if (env->output_schema && schema_check(env->output_schema, input, &err) < 0)
                return tool_fail(ret, "the output does not fit its schema: %s", err.msg);
        json_decref(env->output);
        env->output = json_deep_copy(input);
        return env->output ? tool_text(ret, "taken as the result", 19) : -ENOMEM;
}

int tool_send_user_message(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        wire_event(env->wire, "user_message", json_pack("{s:O}", "text", json_object_get(input, "message")));
        return tool_text(ret, "sent", 4);
}

/* A child conversation would need a model and a task of its own, which the launcher gives out. */
int tool_agent(struct tool_env *env, const json_t *input, struct tool_result *ret) {
        wire_event(env->wire, "agent_requested",
                   json_pack("{s:s}", "description",
                             arg_str(input, "description", arg_str(input, "prompt", ""))));
        return tool_text(ret, "noted; inside a sandbox no further agent is started: do the work yourself",
                         73);
}
