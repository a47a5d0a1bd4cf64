/*
 * land.h - what a staged region holds and no rule keeps, put on the host when the command has ended
 */
#pragma once

#include <jansson.h>

#include "runtime/run/events.h"
#include "runtime/run/state.h"

/**
 * run_land() - land the allowed changes of all staged regions of @state; the sandbox must be gone
 * Held names, conflicts and what the host refuses stay in the run; each is an event, as is the whole.
 * @events: continued
 * @when: what --land says, for the event
 * Forks: the work is done by a process of its own, which may gain no privileges. Blocks.
 */
void run_land(const struct run_dir *dir, const json_t *state, struct events *events, const char *when);
