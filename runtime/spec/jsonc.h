/*
 * jsonc.h - JSON with comments and trailing commas, as editors write it
 */
#pragma once

#include <stddef.h>

#include "runtime/base/error.h"

/**
 * jsonc_plain() - blanks in place of comments and of commas before '}' and ']': what is left is JSON
 * Newlines stay, so that lines keep their numbers; strings stay as they are. Strict JSON is not changed.
 * @name: of the file, for messages
 * Return: 0, -EINVAL (a comment without an end).
 */
int jsonc_plain(const char *name, char *data, size_t len, struct error *err)
        __attribute__((warn_unused_result));
