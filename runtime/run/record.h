/*
 * record.h - what a run writes about itself while it lasts: spec.json, state.json, events.jsonl
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "runtime/base/error.h"
#include "runtime/run/events.h"
#include "runtime/run/state.h"

/** struct record - embedded; made with record_init() */
struct record {
        struct run_dir *dir; /* borrowed */
        json_t *state;       /* state.json, owned */
        struct events events;
        bool stale; /* state.json could not be written, and that was said */
};

/**
 * record_init() - nothing is written yet; events go to the sink only
 * @sink_fd: of --events, borrowed, -1: none
 */
void record_init(struct record *record, struct run_dir *dir, int sink_fd);

/**
 * record_open() - write spec.json, the first state.json and begin events.jsonl
 * @spec_json: borrowed
 * @state:     consumed: the first state without phase and supervisor; NULL is -ENOMEM
 * @phase:     "starting" or "running"
 * Return: 0 or -errno with a message.
 */
int record_open(struct record *record, const json_t *spec_json, json_t *state, const char *phase,
                struct error *err) __attribute__((warn_unused_result));

/** record_phase() - the run has come to @phase */
void record_phase(struct record *record, const char *phase);

/** record_store() - write the state as it is now; a failure is an event, once */
void record_store(struct record *record, bool durable);

/**
 * record_close() - the last state, synced, or no run directory at all
 * @keep: keep the directory; it is kept in any case when @held is not 0
 */
void record_close(struct record *record, int exit_code, const char *failure_code, uint32_t held, bool keep);

/** record_deinit() - free and close */
void record_deinit(struct record *record);
