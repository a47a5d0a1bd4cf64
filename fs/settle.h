/*
 * settle.h - the upper before and after its changes land; used by apply.c only
 */
#pragma once

#include "fs/apply.h"

/**
 * settle_flatten() - turn opaque directories into whiteouts of what they hide
 * So that what landed can leave an opaque directory without looking deleted. Shows the same before and after.
 * Return: 0, -ELOOP (deeper than DIFF_DEPTH_MAX), -errno with a message.
 */
int settle_flatten(int upper_fd, int lower_fd, struct error *err) __attribute__((warn_unused_result));

/**
 * settle_finish() - land the modes of directories, drop from the upper what says nothing new: equal files,
 * whiteouts of what is gone, empty directories
 * @ret_refused: directories whose mode did not land, added to what is there
 * Return: 0, -ELOOP, what the report gave, -errno with a message.
 */
int settle_finish(const struct apply_options *opt, size_t *ret_refused, struct error *err)
        __attribute__((warn_unused_result));
