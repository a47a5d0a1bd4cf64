/*
 * envelope.h - NDJSON between launcher and runner: one JSON object a line, at most 4 MiB, both ways
 *
 * Launcher and runner link the same code; either end may be somebody else's (protocol.h).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/buf.h"
#include "runtime/base/error.h"

enum {
        ENVELOPE_LINE_MAX = 4 << 20,  /* bytes, newline included */
        ENVELOPE_ID_MAX = 128,        /* bytes */
        ENVELOPE_DEPTH_MAX = 128,     /* arrays and objects inside one another */
        ENVELOPE_NESTS_MAX = 100000,  /* arrays and objects of a line: each takes memory */
        ENVELOPE_QUOTE_MAX = 256,     /* bytes of a malformed line in its error */
        CHANNEL_INPUT_MAX = 16 << 20, /* bytes read ahead while a write waits */
        CHANNEL_STALL_MS = 60000,     /* a peer that takes nothing for so long is gone */
};

enum envelope_type {
        ENVELOPE_UNKNOWN, /* of a later version: ignored */
        ENVELOPE_HELLO,   /* protocol 2, both ways; the others are those of protocol 1 */
        ENVELOPE_PERMISSION_POLICY,
        ENVELOPE_SESSION_REPLAY,
        ENVELOPE_TASK,
        ENVELOPE_TOOL_CALL,
        ENVELOPE_TOOL_RESULT,
        ENVELOPE_ASK_USER,
        ENVELOPE_ASK_USER_ANSWER,
        ENVELOPE_SESSION_CAPTURE,
        ENVELOPE_EVENT,
        ENVELOPE_RESULT,
        ENVELOPE_TYPE_COUNT
};

/** envelope_type_name() - as on the wire; "unknown" */
const char *envelope_type_name(enum envelope_type type);

/** envelope_from_runner() - whether @type goes from the runner to the launcher (hello goes both ways) */
bool envelope_from_runner(enum envelope_type type);

/** struct envelope - one line, parsed */
struct envelope {
        enum envelope_type type;
        json_t *line;     /* owned; the whole object */
        const char *name; /* the type as it was said; borrowed from @line */
        const char *id;   /* "": none; at most ENVELOPE_ID_MAX bytes; borrowed from @line */
        json_t *data;     /* NULL: none; any JSON: the type says what it must be; borrowed from @line */
};

/** envelope_deinit() - keeps errno */
void envelope_deinit(struct envelope *e);
#define AUTO_ENVELOPE __attribute__((cleanup(envelope_deinit)))

/**
 * envelope_parse() - one line without its newline
 * @ret: written on success only; envelope_deinit()
 * Keys that no version knows are left alone; a key that is there twice, text that is not UTF-8, and nesting
 * deeper than ENVELOPE_DEPTH_MAX or of more than ENVELOPE_NESTS_MAX are malformed. Return: 0, -EBADMSG,
 * -ENOMEM.
 */
int envelope_parse(const char *line, size_t len, struct envelope *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * envelope_encode() - append one line to @out
 * @id:   NULL or "": none
 * @data: borrowed, NULL: none
 * Return: 0, -EMSGSIZE (longer than a line may be; @out is as it was, the message names the type), -ENOMEM.
 */
int envelope_encode(enum envelope_type type, const char *id, const json_t *data, struct buf *out,
                    struct error *err) __attribute__((warn_unused_result));

/** struct channel - one end; descriptors borrowed, may be the same and are made non-blocking */
struct channel {
        int in_fd, out_fd;
        int stop_fd; /* when this becomes readable nobody waits for the peer; borrowed; -1: none, as at first
                      */
        struct buf in;
        size_t start;   /* of @in that has been taken */
        size_t scanned; /* of what is behind @start and has no newline */
        bool eof;
};

/** channel_init() - Return: 0, -errno of fcntl(2). */
int channel_init(struct channel *c, int in_fd, int out_fd) __attribute__((warn_unused_result));

/** channel_deinit() - descriptors are the caller's; keeps errno */
void channel_deinit(struct channel *c);

/**
 * channel_fill() - one read(2), for a loop that polls @in_fd itself
 * Return: 1 (read something), 0 (nothing now, or end of stream: see @eof), -ENOMEM, -errno of read(2).
 */
int channel_fill(struct channel *c) __attribute__((warn_unused_result));

/**
 * channel_next() - the next whole line of what has been read; empty lines are skipped, and at the end of the
 * stream a last line needs no newline
 * Return: 1, 0 (none yet), -EMSGSIZE (a line over ENVELOPE_LINE_MAX), -EBADMSG, -ENOMEM. After an error the
 * channel is of no more use: nobody knows what the peer meant.
 */
int channel_next(struct channel *c, struct envelope *ret, struct error *err)
        __attribute__((warn_unused_result));

/** channel_line() - channel_next() without the parsing: for peers that speak something else in lines
 * @ret: borrowed until the next call, without its newline, not terminated
 * Return: 1, 0, -EMSGSIZE. */
int channel_line(struct channel *c, const char **ret, size_t *ret_len, struct error *err)
        __attribute__((warn_unused_result));

/** channel_put() - channel_send() of bytes that are a line already. Return: as channel_send(). */
int channel_put(struct channel *c, const char *line, size_t len, struct error *err)
        __attribute__((warn_unused_result));

/**
 * channel_wait() - wait for the next line
 * @timeout_ms: -1: for ever. Blocks.
 * Return: 1, 0 (end of stream), -ETIMEDOUT, or as channel_next() and channel_fill().
 */
int channel_wait(struct channel *c, int timeout_ms, struct envelope *ret, struct error *err)
        __attribute__((warn_unused_result));

/**
 * channel_send() - write one line whole; what arrives meanwhile is kept, so that two ends that write at the
 * same time do not wait for each other
 * @data: borrowed, NULL: none
 * Blocks, for CHANNEL_STALL_MS without progress at most.
 * Return: 0, -EMSGSIZE (nothing was written), -ENOMEM, -ETIMEDOUT or -ECANCELED (part of a line may have been
 * written: the channel is of no more use), -errno of write(2).
 */
int channel_send(struct channel *c, enum envelope_type type, const char *id, const json_t *data,
                 struct error *err) __attribute__((warn_unused_result));
