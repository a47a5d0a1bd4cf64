/*
 * pattern.h - the text of a rule's pattern taken apart: braces multiplied out, components, "**"
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

enum {
        PATTERN_BYTES_MAX = 4095,
        PATTERN_ALTERNATIVES_MAX = 128, /* what the braces of one pattern may multiply to */
        PATTERN_COMPS_MAX = 256,
};

/** struct pattern_comp - one component; never two @deep in a row, never one at the end */
struct pattern_comp {
        const char *text; /* literals without backslashes */
        size_t len;
        bool literal; /* compare bytes; else glob_match() */
        bool deep;    /* "**": any number of components, also none */
};

/** pattern_fn - called per alternative; @comps is borrowed during the call. Return: 0 or negative errno */
typedef int (*pattern_fn)(const struct pattern_comp *comps, size_t n, void *arg, struct error *err);

/**
 * pattern_walk() - call @fn for each alternative of @pattern
 * A pattern without '/' begins with "**"; a final "**" is "**" and "*" (something has to be there).
 * Return: 0, -EINVAL (message: the reason without the pattern), -ENOMEM, or what @fn gave.
 */
int pattern_walk(const char *pattern, pattern_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));
