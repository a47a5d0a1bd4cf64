/*
 * fuzz-envelope.c - what a peer of the agent pair says: bytes as they come, cut into lines and parsed
 *
 * What is accepted has a type and an id within bounds, can be written again, and reads back the same. Its
 * data is given to what reads a hello and to the clamps of an event.
 */
#include <errno.h>
#include <string.h>

#include "runtime/agent/envelope.h"
#include "runtime/agent/placement.h"
#include "runtime/agent/protocol.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/json.h"
#include "tests/fuzz/fuzz.h"

static void check(bool holds) {
        if (!holds)
                __builtin_trap();
}

static void check_again(const struct envelope *e) {
        AUTO_ENVELOPE struct envelope back = { 0 };
        AUTO_BUF struct buf line = { 0 };
        const int r = envelope_encode(e->type, e->id, e->data, &line, NULL);

        check(r == 0 || r == -EMSGSIZE);
        if (r < 0)
                return;
        check(line.len <= ENVELOPE_LINE_MAX && memchr(line.data, '\n', line.len) == line.data + line.len - 1);
        check(envelope_parse(line.data, line.len - 1, &back, NULL) == 0);
        check(strcmp(back.id, e->id) == 0 && (!e->data || json_equal(back.data, e->data)));
}

static void check_data(const struct envelope *e) {
        CLEANUP(hello_deinit) struct hello hello = { 0 };
        AUTO_JSON json_t *event = clamp_event(e->data);
        const int r = hello_read(e->data, &hello, NULL);

        check(r == 0 || r == -EBADMSG);
        check(r < 0 || (hello.protocol >= PROTOCOL_FIRST && hello.protocol <= PROTOCOL_VERSION));
        check(!event || json_is_object(event));
        check(placement_of(e->name, NULL) < PLACEMENT_COUNT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct channel c = { .in_fd = -1, .out_fd = -1, .eof = true };
        int r;

        if (buf_add(&c.in, data, size) < 0)
                return 0;
        do {
                AUTO_ENVELOPE struct envelope e = { 0 };

                r = channel_next(&c, &e, NULL);
                check(r == 1 || r == 0 || r == -EBADMSG || r == -EMSGSIZE);
                if (r == 1) {
                        check(*e.name && strlen(e.id) <= ENVELOPE_ID_MAX && e.type < ENVELOPE_TYPE_COUNT);
                        check_again(&e);
                        check_data(&e);
                }
        } while (r == 1);
        channel_deinit(&c);
        return 0;
}
