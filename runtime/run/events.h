/*
 * events.h - events.jsonl: one JSON object a line, numbered without a gap
 */
#pragma once

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/buf.h"

enum { EVENT_MAX_BYTES = 65536, EVENT_STRING_MAX = 4096, EVENTS_BACKLOG_MAX = 256 << 10 };

/** struct events - the event stream of one run */
struct events {
        const char *run_id; /* borrowed */
        uint64_t seq;       /* of the last event written */
        int file_fd;        /* events.jsonl, O_APPEND; -1: none */
        int sink_fd;        /* --events FILE|fd:N; -1: none */
        struct buf backlog; /* lines that the sink has not taken yet; owned */
        uint64_t lost;      /* events that the file did not take since the last one that it took */
        int sink_errno;     /* why the sink was given up, to be said; 0: it was not, or that was said */
};

/**
 * events_emit() - write one event to the file and the sink
 * @type: a type of docs/man/cofferdam-events.7, e.g. "sandbox_started"
 * @data: consumed, NULL: {}; strings from inside must come from json_from_bytes()
 *
 * Each line is one write(2). An event above 64 KiB is written with its data replaced by {"truncated": bytes}.
 * Never waits. What a full disk does not take is lost whole, its number stays out, and the next that is taken
 * is followed by a sandbox_degraded that says so. What the sink does not take at once is kept for
 * events_flush(), up to EVENTS_BACKLOG_MAX; a sink that is further behind, or fails, is given up, which is
 * said in the same way: the run does not depend on its readers.
 */
void events_emit(struct events *events, const char *type, json_t *data);

/**
 * events_pass() - write an event that another process of the user made
 * @type: one of those that clients may send: events.c lists them, none is the supervisor's own
 * @json: an object, compact, as the client wrote it; it is passed on and not read
 * Return: false: it is none of these, or is no single line of less than EVENT_MAX_BYTES.
 */
bool events_pass(struct events *events, const char *type, const char *json);

/** events_poll() - fill @fd: whether the sink takes more; fd -1 when nothing waits for it */
void events_poll(const struct events *events, struct pollfd *fd);

/** events_flush() - give the sink what it takes without waiting. Return: whether something is left. */
bool events_flush(struct events *events);

/** events_drain() - events_flush() until nothing is left, for @ms at most */
void events_drain(struct events *events, unsigned int ms);

/** events_size() / events_catch_up() - another process writes to the file: before it begins, and when it has
 * ended: takes over the numbers, passes the lines on to the sink */
int64_t events_size(const struct events *events);
void events_catch_up(struct events *events, int64_t from);

/** events_deinit() - free the backlog; descriptors are the caller's */
void events_deinit(struct events *events);

/** events_refused() - say that the run failed before or around the command. @reason: cause and remedy */
void events_refused(struct events *events, const char *failure_code, const char *reason);

/**
 * events_reopen() - go on with the stream of a run that died: finds the last number
 * A last line that was cut off (a full disk, a power failure) is ended, so that the next one is whole.
 * @run_fd: the run directory
 * @events: file_fd and seq are set
 * Return: owned descriptor, which is events->file_fd; -errno.
 */
int events_reopen(int run_fd, struct events *events) __attribute__((warn_unused_result));
