/*
 * ws.h - channels of a WebSocket of the exec protocol, over any transport: the first byte of a message is its
 * channel
 *
 * Framing is wslay's. What a peer sends is bounded by KUBE_EXEC_FRAME_MAX, for a frame and for a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/cleanup.h"

struct ws; /* opaque */

/**
 * struct ws_io - the transport below, and the reader above
 * @recv: Return: bytes, 0: the end, -EAGAIN: none now, or another negative errno
 * @send: Return: bytes taken, -EAGAIN: none now, or another negative errno
 * @message: a whole message of @channel. Return: 0; 1: the rest may wait for the next ws_pump(); or a
 * negative errno, which ws_pump() returns
 */
struct ws_io {
        ssize_t (*recv)(void *arg, void *buf, size_t len);
        ssize_t (*send)(void *arg, const void *buf, size_t len);
        int (*message)(void *arg, int channel, const void *data, size_t len);
};

/** ws_new() - the client's side. @io, @arg: borrowed. Return: 0, -ENOMEM. */
int ws_new(const struct ws_io *io, void *arg, struct ws **ret) __attribute__((warn_unused_result));

/** ws_free() - Return: NULL. */
struct ws *ws_free(struct ws *ws);
DEFINE_AUTO(struct ws, ws, ws_free)
#define AUTO_WS CLEANUP(auto_ws)

/**
 * ws_pump() - send and receive what can be moved now
 * @read: false: do not receive
 * @ret_heard: set to true when bytes came, a pong among them
 * Return: 0; -ECONNRESET: the end without a close frame, or that of the transport; -EBADMSG: the peer broke
 * the protocol; -EFBIG: a message above the bound; -ENOMEM; what @io said.
 */
int ws_pump(struct ws *ws, bool read, bool *ret_heard) __attribute__((warn_unused_result));

/** ws_queue() - queue a message of @channel made of two parts. Return: 0, -EPIPE (closed), -ENOMEM. */
int ws_queue(struct ws *ws, int channel, const void *a, size_t a_len, const void *b, size_t b_len)
        __attribute__((warn_unused_result));

/** ws_ping() - queue a ping. Return: 0, -EPIPE, -ENOMEM. */
int ws_ping(struct ws *ws) __attribute__((warn_unused_result));

/** ws_queued() - bytes of messages that have not been begun to be sent */
size_t ws_queued(const struct ws *ws);

/** ws_full() - whether so much is queued, pongs among it, that nothing is received until the peer reads */
bool ws_full(const struct ws *ws);

/** ws_wants_write() - whether there is something to send */
bool ws_wants_write(const struct ws *ws);

/** ws_closed() - whether the peer has sent a close frame; @ret_code: its status code, NULL allowed */
bool ws_closed(const struct ws *ws, unsigned *ret_code);
