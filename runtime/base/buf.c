#include "runtime/base/buf.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"

static int reserve(struct buf *b, size_t more) {
        const size_t max = b->max ? b->max : BUF_MAX_DEFAULT;
        size_t need, cap;
        char *p;

        if (__builtin_add_overflow(b->len, more, &need) || need > max)
                return -E2BIG;
        if (need < b->cap)
                return 0;
        cap = b->cap ? b->cap : 128;
        while (cap <= need)
                cap *= 2;
        p = realloc(b->data, cap);
        if (!p)
                return -ENOMEM;
        b->data = p;
        b->cap = cap;
        return 0;
}

int buf_add(struct buf *b, const void *data, size_t len) {
        int r;

        r = reserve(b, len);
        if (r < 0)
                return r;
        if (len)
                memcpy(b->data + b->len, data, len);
        b->len += len;
        b->data[b->len] = '\0';
        return 0;
}

int buf_str(struct buf *b, const char *s) {
        return buf_add(b, s, strlen(s));
}

int buf_fmt(struct buf *b, const char *fmt, ...) {
        va_list ap;
        int n, r;

        va_start(ap, fmt);
        n = vsnprintf(NULL, 0, fmt, ap);
        va_end(ap);
        if (n < 0)
                return -EINVAL;
        r = reserve(b, (size_t) n);
        if (r < 0)
                return r;
        va_start(ap, fmt);
        (void) vsnprintf(b->data + b->len, (size_t) n + 1, fmt, ap);
        va_end(ap);
        b->len += (size_t) n;
        return 0;
}

const char *buf_cstr(const struct buf *b) {
        return b->data ? b->data : "";
}

char *buf_take(struct buf *b) {
        char *p = TAKE_PTR(b->data);

        b->len = b->cap = 0;
        return p;
}

void buf_deinit(struct buf *b) {
        free(b->data);
        b->data = NULL;
        b->len = b->cap = 0;
}
