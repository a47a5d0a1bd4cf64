/*
 * cofferdam auth-proxy: the service that holds credentials. It is a program of its own, because the libraries
 * it needs cannot be linked into this one (docs/adr/032); this verb executes it in its own place.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/verbs.h"
#include "runtime/base/buf.h"
#include "runtime/base/log.h"

static const char name[] = "cofferdam-auth-proxy";

/* ../libexec from the directory of this executable, so that an installation can be moved as a whole. */
static int beside(struct buf *out) {
        char self[4096];
        const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
        const char *slash;

        if (n <= 0 || (size_t) n == sizeof(self))
                return -ENOENT;
        slash = memrchr(self, '/', (size_t) n);
        if (!slash)
                return -ENOENT;
        return buf_fmt(out, "%.*s/../libexec/%s", (int) (slash - self), self, name);
}

int verb_auth_proxy(const struct ctx *ctx, int argc, char **argv) {
        AUTO_BUF struct buf path = { 0 };

        (void) ctx;
        (void) argc;
        if (beside(&path) == 0)
                (void) execv(path.data, argv);
        if (errno == ENOENT)
                (void) execv(COFFERDAM_LIBEXEC "/cofferdam-auth-proxy", argv);
        if (errno == ENOENT)
                log_error("auth-proxy: '%s' is not installed: install it, or build where libcurl, libpq and "
                          "OpenSSL have their development files",
                          name);
        else
                log_error("auth-proxy: execute '%s': %s", name, strerror(errno));
        return EXIT_FAILED;
}
