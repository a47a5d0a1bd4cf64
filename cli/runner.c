/*
 * cofferdam runner: the contained side of `cofferdam launch`. It is a program of its own, because TLS would
 * cost each start of this one (docs/adr/045); this verb executes it in its own place.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/libexec.h"
#include "runtime/base/log.h"

static const char name[] = "cofferdam-runner";

int verb_runner(const struct ctx *ctx, int argc, char **argv) {
        int r;

        (void) ctx;
        (void) argc;
        r = libexec_exec(name, argv, environ);
        log_error("runner: execute '%s': %s%s", name, strerror(-r),
                  r == -ENOENT ? ": it is not installed beside this program" : "");
        return EXIT_FAILED;
}
