/*
 * fuzz-sse.c - server-sent events, and what the Messages API says in them
 *
 * The events must not depend on where the bytes are cut; the blocks that come out are what the API takes
 * back.
 */
#include <errno.h>
#include <string.h>

#include "runtime/agent/runner/messages.h"
#include "runtime/agent/runner/sse.h"
#include "runtime/base/cleanup.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

/* All events, one behind the other, from pieces of @step bytes. */
static void events_of(const char *s, size_t size, size_t step, struct buf *out) {
        AUTO_SSE struct sse sse = { 0 };
        struct sse_event e;
        bool any;

        for (size_t at = 0, used; at < size; at += used) {
                const size_t n = size - at < step ? size - at : step;

                check(sse_feed(&sse, s + at, n, &used, &any, &e) == 0);
                check(used > 0 && used <= n);
                if (any)
                        check(buf_fmt(out, "%s|%zu|", e.event, e.len) == 0 &&
                              buf_add(out, e.data, e.len) == 0);
        }
}

static void answer_of(const char *s, size_t size) {
        AUTO_ANSWER struct model_answer a = { 0 };
        AUTO_SSE struct sse sse = { 0 };
        struct model_stream *stream = model_stream_new(&a);
        struct sse_event e;
        bool any;
        int r = 0;

        for (size_t at = 0, used; stream && r == 0 && at < size; at += used) {
                r = sse_feed(&sse, s + at, size - at, &used, &any, &e);
                if (r == 0 && any)
                        r = model_stream_event(stream, e.data, e.len);
        }
        check(r == 0 || r == 1 || r == -EPROTO || r == -ECANCELED);
        check((r == 1) == (json_is_array(a.content) && r >= 0) || r < 0);
        check(r >= 0 || *a.reason);
        (void) model_stream_free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        AUTO_BUF struct buf whole = { 0 }, cut = { 0 };
        const char *s = (const char *) data;

        if (size > 65536)
                return 0;
        events_of(s, size, size, &whole);
        events_of(s, size, 1, &cut);
        check(whole.len == cut.len && memcmp(buf_cstr(&whole), buf_cstr(&cut), whole.len) == 0);
        answer_of(s, size);
        return 0;
}
