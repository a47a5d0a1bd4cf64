/*
 * gitconfig.h - a strict reader of git's config file format
 *
 * Strict means: what git would read differently, or what this reader is not sure of, is an error. Includes
 * are not followed (the key is reported like any other).
 */
#pragma once

#include <stddef.h>

#include "runtime/base/error.h"

/**
 * gitconfig_fn - called per key
 * @key:   "section.name" or "section.subsection.name"; section and name in lower case, subsection as written
 * @value: unquoted; NULL for a key without "=" (boolean true)
 * Return: 0 to go on, negative errno to stop (handed to the caller).
 */
typedef int (*gitconfig_fn)(const char *key, const char *value, void *arg);

/** gitconfig_parse() - read @len bytes. Return: 0, -EINVAL (syntax, NUL byte; message with line), -ENOMEM, or
 * what @fn gave. */
int gitconfig_parse(const char *data, size_t len, gitconfig_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));
