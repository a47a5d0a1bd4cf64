/*
 * events.h - events.jsonl: one JSON object a line, numbered without a gap
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

enum { EVENT_MAX_BYTES = 65536, EVENT_STRING_MAX = 4096 };

/** struct events - the event stream of one run */
struct events {
        const char *run_id; /* borrowed */
        uint64_t seq;       /* of the last event written */
        int file_fd;        /* events.jsonl, O_APPEND; -1: none */
        int sink_fd;        /* --events FILE|fd:N; -1: none */
};

/**
 * events_emit() - write one event to the file and the sink
 * @type: a type of docs/man/cofferdam-events.7, e.g. "sandbox_started"
 * @data: consumed, NULL: {}; strings from inside must come from json_from_bytes()
 *
 * Each line is one write(2). An event above 64 KiB is written with its data replaced by {"truncated": bytes}.
 * A sink that fails, or takes nothing for a second, is dropped: the run does not depend on its readers.
 */
void events_emit(struct events *events, const char *type, json_t *data);

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
