/*
 * lines.h - the lines in which two texts differ (Myers' greedy algorithm), and hunks of them
 */
#pragma once

#include <stddef.h>

#include "runtime/base/buf.h"

/** struct lines - how much differs */
struct lines {
        size_t added, removed;
};

/* differences that are looked for; texts with more are shown as replaced, but for their common ends */
enum { LINES_EDITS_MAX = 1500 };

/**
 * lines_diff() - append unified hunks that turn @a into @b, with three lines around them
 * Lines end with a newline; a last one without is said as git says it. Nothing is appended for equal texts.
 * @out: NULL: count only
 * Return: 0, -ENOMEM, -E2BIG.
 */
int lines_diff(const char *a, size_t a_len, const char *b, size_t b_len, struct buf *out, struct lines *ret)
        __attribute__((warn_unused_result));
