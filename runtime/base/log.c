#include "runtime/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

static enum log_level current = LOG_WARN;

void log_set_level(enum log_level level) {
        current = level;
}

void log_write(enum log_level level, const char *fmt, ...) {
        const int saved = errno;
        char line[LINE_MAX_BYTES] = "cofferdam: ";
        size_t len = strlen(line);
        va_list ap;
        int n;

        if (level > current)
                return;
        va_start(ap, fmt);
        n = vsnprintf(line + len, sizeof(line) - len - 1, fmt, ap);
        va_end(ap);
        if (n > 0)
                len += (size_t) n < sizeof(line) - len - 2 ? (size_t) n : sizeof(line) - len - 2;
        line[len++] = '\n';
        if (write(STDERR_FILENO, line, len) < 0)
                errno = saved; /* nowhere left to say it */
        errno = saved;
}
