/*
 * cofferdam image: pull, import and keep images. It is a program of its own, because the libraries
 * it needs cannot be linked into this one (docs/adr/032); this verb executes it in its own place.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/libexec.h"
#include "runtime/base/log.h"

static const char name[] = "cofferdam-image";

int verb_image(const struct ctx *ctx, int argc, char **argv) {
        int r;

        (void) ctx;
        (void) argc;
        r = libexec_exec(name, argv, environ);
        if (r == -ENOENT)
                log_error("image: '%s' is not installed: install it, or build where libcurl, OpenSSL and "
                          "libarchive have their development files",
                          name);
        else
                log_error("image: execute '%s': %s", name, strerror(-r));
        return EXIT_FAILED;
}
