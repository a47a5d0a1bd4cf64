/* cofferdam run: start a sandbox, run a command in it, tear it down. */
#include <stddef.h>

#include "cli/launch.h"
#include "runtime/base/cleanup.h"

static const struct flag_option options[] = {
        { "tty", 't', NULL, launch_tty,
          "Give the command a terminal (default: when stdin and stdout are terminals)" },
        { "interactive", 'i', NULL, launch_interactive, "Pass standard input on (always done)" },
        { "events", 0, "FILE|fd:N", launch_events,
          "Send the events of the run there as well, one JSON object a line" },
        { "json", 0, NULL, NULL, "Report failures of cofferdam itself as a JSON object on standard error",
          offsetof(struct launch_options, json) },
        { "trace-setup", 0, NULL, NULL, "Say on standard error how long each step of the start took",
          offsetof(struct launch_options, trace.on) },
        { "verbose", 'v', NULL, launch_verbose, "Say more on standard error" },
};

static const struct flag_set flags = {
        .usage = "cofferdam run [OPTIONS] [--] COMMAND [ARG...]",
        .summary = "Start a sandbox, run COMMAND in it, tear it down; the exit code is COMMAND's.",
        .options = options,
        .n_options = ARRAY_SIZE(options),
        .spec = true,
};

int verb_run(const struct ctx *ctx, int argc, char **argv) {
        return launch_main(ctx, &flags, true, argc, argv);
}
