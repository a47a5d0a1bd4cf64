#include "runtime/base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *err, int code, const char *fmt, ...) {
        const int saved = errno;
        va_list ap;

        assert(code < 0);
        if (err) {
                err->code = code;
                va_start(ap, fmt);
                (void) vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
                va_end(ap);
        }
        errno = saved;
        return code;
}

int error_wrap(struct error *err, int r, const char *fmt, ...) {
        const int saved = errno;
        char head[ERROR_MSG_MAX / 2];
        char tail[ERROR_MSG_MAX];
        va_list ap;

        assert(r < 0);
        if (err) {
                va_start(ap, fmt);
                (void) vsnprintf(head, sizeof(head), fmt, ap);
                va_end(ap);
                memcpy(tail, err->msg, sizeof(tail));
                tail[sizeof(tail) - 1] = '\0';
                if (err->code == 0)
                        err->code = r;
                (void) snprintf(err->msg, sizeof(err->msg), "%s: %.*s", head,
                                (int) (sizeof(err->msg) - sizeof(head) - 2), tail);
        }
        errno = saved;
        return r;
}
