/*
 * wire.h - the runner's end of the channel to the launcher
 *
 * One process, no threads: whoever waits for something waits by wire_poll(), which also takes in what the
 * launcher says meanwhile. Replies are kept until their caller asks for them; a reply nobody waits for is
 * dropped. When the launcher's stream ends, every wait ends with -EPIPE.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/agent/envelope.h"
#include "runtime/agent/protocol.h"
#include "runtime/base/error.h"

enum { WIRE_ID_SIZE = 48 };

/** struct wire - fields are private */
struct wire {
        struct channel channel; /* in_fd -1: nobody speaks, for tests */
        bool ended;             /* end of the launcher's stream, or it is malformed */
        struct pending pending; /* id -> type of the answer */
        json_t *replies;        /* owned: id -> data of an answer that nobody asked for yet */
};

/** wire_init() - @in_fd, @out_fd: borrowed, made non-blocking. Return: 0, -errno of fcntl(2). */
int wire_init(struct wire *w, int in_fd, int out_fd) __attribute__((warn_unused_result));
/** wire_deinit() - frees what is kept */
void wire_deinit(struct wire *w);

/**
 * wire_send() - write one envelope without an id
 * @data: consumed, also on failure; NULL: out of memory
 * Return: as channel_send().
 */
int wire_send(struct wire *w, enum envelope_type type, json_t *data, struct error *err)
        __attribute__((warn_unused_result));

/**
 * wire_ask() - send a request whose answer is awaited later
 * @type:  ENVELOPE_TOOL_CALL or ENVELOPE_ASK_USER
 * @data:  consumed
 * @id:    names the request for wire_answer()
 * Return: 0, -EAGAIN (PENDING_MAX wait), as wire_send().
 */
int wire_ask(struct wire *w, enum envelope_type type, json_t *data, char id[static WIRE_ID_SIZE],
             struct error *err) __attribute__((warn_unused_result));

/** wire_answer() - wait for the answer to @id. @ret: owned, its data. Return: 0, -EPIPE. */
int wire_answer(struct wire *w, const char *id, json_t **ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * wire_event() - tell the launcher, within the bounds of clamp_event()
 * @payload: consumed
 * What cannot be told is said on standard error: an event is not worth the end of the work.
 */
void wire_event(struct wire *w, const char *type, json_t *payload);

struct pollfd;
/**
 * wire_poll() - poll(2), and what the launcher says meanwhile is taken in
 * @fds, @n:     up to 63
 * @deadline_ns: CLOCK_MONOTONIC; 0: none
 * Return: how many are ready, 0 at the deadline, -EPIPE when the launcher is gone, -errno.
 */
int wire_poll(struct wire *w, struct pollfd *fds, size_t n, uint64_t deadline_ns)
        __attribute__((warn_unused_result));
