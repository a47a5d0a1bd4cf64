/* cofferdam start: start a sandbox and leave it running for exec. */
#include <stddef.h>

#include "cli/launch.h"
#include "runtime/base/cleanup.h"

static const struct flag_option options[] = {
        { "events", 0, "FILE|fd:N", launch_events,
          "Send the events of the run there as well, one JSON object a line" },
        { "json", 0, NULL, NULL, "Print {\"id\":..}; failures as a JSON object on standard error",
          offsetof(struct launch_options, json) },
        { "trace-setup", 0, NULL, NULL, "Say on standard error how long each step of the start took",
          offsetof(struct launch_options, trace.on) },
        { "verbose", 'v', NULL, launch_verbose, "Say more on standard error" },
};

static const struct flag_set flags = {
        .usage = "cofferdam start [OPTIONS]",
        .summary =
                "Start a sandbox, leave it running and print its id; 'cofferdam exec' runs commands in it.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
        .spec = true,
};

int verb_start(const struct ctx *ctx, int argc, char **argv) {
        return launch_main(ctx, &flags, false, argc, argv);
}
