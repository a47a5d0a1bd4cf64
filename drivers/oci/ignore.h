/*
 * ignore.h - .dockerignore: which files of a context a build does not see
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

enum { IGNORE_BYTES_MAX = 1 << 20, IGNORE_PATTERNS_MAX = 4096, IGNORE_PATTERN_MAX = 4096 };

struct ignore;

/**
 * ignore_parse() - read the patterns
 * @text: foreign bytes, @len of them
 * @ret:  caller frees with ignore_free(); written on success only
 * Return: 0, -EINVAL (no pattern; the message names the line), -E2BIG (a limit above), -ENOMEM.
 */
int ignore_parse(const char *text, size_t len, struct ignore **ret, struct error *err)
        __attribute__((warn_unused_result));

/** ignore_free() - accepts NULL. Return: NULL. */
struct ignore *ignore_free(struct ignore *ignore);

/** ignore_count() - how many patterns there are */
size_t ignore_count(const struct ignore *ignore) __attribute__((nonnull));

/** struct ignore_verdict - on one path */
struct ignore_verdict {
        bool ignored;
        bool search; /* it is, and something below it may not be */
};

/**
 * ignore_match() - judge a path
 * @path:  relative, below the context, without "." and ".."; at most PATH_MAX - 1 bytes
 * @above: which patterns matched the directory that it is in, or one above; ignore_count() values; NULL: the
 *         context itself
 * @here:  receives the same of @path
 * Return: 0, -E2BIG (the patterns take too much work, all calls together), -ENAMETOOLONG.
 */
int ignore_match(struct ignore *ignore, const char *path, const bool *above, bool *here,
                 struct ignore_verdict *ret) __attribute__((warn_unused_result));

static inline void auto_ignore(struct ignore **p) {
        *p = ignore_free(*p);
}
#define AUTO_IGNORE __attribute__((cleanup(auto_ignore)))
