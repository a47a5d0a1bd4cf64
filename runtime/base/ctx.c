#include "runtime/base/ctx.h"

#include <stddef.h>
#include <string.h>

const char *ctx_getenv(const struct ctx *ctx, const char *name) {
        const size_t n = strlen(name);

        for (const char *const *e = ctx->environ; e && *e; e++)
                if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
                        return *e + n + 1;
        return NULL;
}
