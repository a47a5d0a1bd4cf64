/*
 * cofferdam pod, job and env: what asks a cluster is a program of its own, because the libraries it needs
 * cannot be linked into this one (docs/adr/032); these verbs execute it in their own place.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/libexec.h"
#include "runtime/base/log.h"

static const char name[] = "cofferdam-kubernetes";

/* "cofferdam-kubernetes VERB ARG..." */
int verb_cluster(const struct ctx *ctx, int argc, char **argv) {
        AUTO_FREE char **words = calloc((size_t) argc + 2, sizeof(*words));
        char *program = strdup(name);
        int r = -ENOMEM;

        (void) ctx;
        if (words && program) {
                words[0] = program;
                memcpy(words + 1, argv, (size_t) argc * sizeof(*words));
                r = libexec_exec(name, words, environ);
        }
        if (r == -ENOENT)
                log_error("%s: '%s' is not installed: install it, or build where libcurl, OpenSSL, "
                          "libarchive and "
                          "wslay have their development files",
                          argv[0], name);
        else
                log_error("%s: execute '%s': %s", argv[0], name, strerror(-r));
        free(program);
        return EXIT_SETUP;
}
