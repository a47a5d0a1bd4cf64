#include "runtime/agent/runner/sse.h"

#include <errno.h>
#include <string.h>

static void clear(struct buf *b) {
        b->len = 0;
        if (b->data)
                b->data[0] = '\0';
}

void sse_deinit(struct sse *s) {
        buf_deinit(&s->line);
        buf_deinit(&s->data);
        buf_deinit(&s->event);
}

static bool named(const struct buf *line, size_t len, const char *name) {
        return len == strlen(name) && memcmp(line->data, name, len) == 0;
}

/* A line that is not empty: fields other than these two, and comments, mean nothing to us. */
static int field(struct sse *s) {
        const char *colon = memchr(s->line.data, ':', s->line.len);
        const size_t name = colon ? (size_t) (colon - s->line.data) : s->line.len;
        size_t at = colon ? name + 1 : name;
        int r = 0;

        if (at < s->line.len && s->line.data[at] == ' ')
                at++;
        if (named(&s->line, name, "data")) {
                if (s->any)
                        r = buf_str(&s->data, "\n");
                if (r == 0 && s->line.len > at)
                        r = buf_add(&s->data, s->line.data + at, s->line.len - at);
                s->any = true;
                if (s->data.len > SSE_EVENT_BYTES_MAX)
                        return -E2BIG;
        } else if (named(&s->line, name, "event")) {
                clear(&s->event);
                if (s->line.len > at)
                        r = buf_add(&s->event, s->line.data + at, s->line.len - at);
        }
        return r;
}

/* The end of a line. Whether an event is complete: an empty line ends one, if it has data. */
static int end_line(struct sse *s, bool *ret_any) {
        int r = 0;

        *ret_any = s->line.len == 0 && s->any;
        if (s->line.len > 0)
                r = field(s);
        else if (!s->any)
                clear(&s->event);
        clear(&s->line);
        return r;
}

int sse_feed(struct sse *s, const char *bytes, size_t len, size_t *ret_used, bool *ret_any,
             struct sse_event *ret) {
        size_t i = 0;
        int r = 0;

        *ret_any = false;
        if (s->any && s->line.len == 0 && s->data.max) { /* the event of the last call is done with */
                clear(&s->data);
                clear(&s->event);
                s->data.max = 0;
                s->any = false;
        }
        while (i < len && r == 0 && !*ret_any) {
                size_t n = 0;

                if (s->cr && bytes[i] == '\n')
                        i++;
                s->cr = false;
                while (i + n < len && bytes[i + n] != '\n' && bytes[i + n] != '\r')
                        n++;
                if (s->line.len + n > SSE_EVENT_BYTES_MAX)
                        return -E2BIG;
                r = n > 0 ? buf_add(&s->line, bytes + i, n) : 0;
                i += n;
                if (r < 0 || i >= len)
                        break;
                if (!s->started && s->line.len >= 3 && memcmp(s->line.data, "\xef\xbb\xbf", 3) == 0) {
                        memmove(s->line.data, s->line.data + 3, s->line.len - 3);
                        s->line.len -= 3;
                }
                s->started = true;
                s->cr = bytes[i] == '\r';
                i++;
                r = end_line(s, ret_any);
        }
        *ret_used = i;
        if (r == 0 && *ret_any) {
                *ret = (struct sse_event){ s->event.len ? buf_cstr(&s->event) : "message", buf_cstr(&s->data),
                                           s->data.len };
                s->data.max = BUF_MAX_DEFAULT; /* marks it as handed out */
        }
        return r;
}
