/*
 * discard.h - throw away some of what an upper holds: the host's version is right
 */
#pragma once

#include "fs/apply.h"

/**
 * discard_run() - drop every change that is chosen (APPLY_TAKE, APPLY_FORCE), with all below it
 * A renamed directory that is dropped is at its old place again, with nothing of what the work did below it.
 * @opt: choose must be given; report hears of each change that was dropped
 * Return: 0, what the report gave, -errno with a message.
 */
int discard_run(const struct apply_options *opt, struct error *err) __attribute__((warn_unused_result));
