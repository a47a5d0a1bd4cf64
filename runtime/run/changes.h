/*
 * changes.h - how much of a run waits for review
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/run/state.h"

/**
 * run_changes_count() - changes in the uppers of all regions of @state, at most @limit
 * An upper that cannot be compared (its source is gone) counts as one change: what it holds is never thrown
 * away. Return: count.
 */
uint32_t run_changes_count(const struct run_dir *dir, const json_t *state, uint32_t limit);

/**
 * run_bury() - after the supervisor died: wait until the file server is gone, then remove a run that holds
 * nothing: no change that `diff` would show
 * @state: of the run, or NULL: then nothing at all may be in its uppers
 * Blocks, for two seconds at most. Return: whether it was removed.
 */
bool run_bury(struct run_dir *dir, const json_t *state);
