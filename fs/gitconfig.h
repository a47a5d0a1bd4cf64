/*
 * gitconfig.h - a strict reader of git's config file format (git-config(1), "CONFIGURATION FILE")
 *
 * Strict means: what git would read differently, what versions of git read differently, or what this reader
 * is not sure of, is an error. Includes are not followed (the key is reported like any other).
 */
#pragma once

#include <stddef.h>

#include "runtime/base/error.h"

enum {
        GITCONFIG_NAME_MAX = 1024, /* bytes of "section.subsection." and of a variable's name */
        GITCONFIG_VALUE_MAX = 65536,
};

/**
 * gitconfig_fn - called per key
 * @key:   "section.name" or "section.subsection.name"; section and name in lower case (a-z 0-9 '-'),
 * subsection as written (in lower case when written "[section.subsection]"), never empty
 * @value: unquoted; NULL for a key without "=" (boolean true)
 * Return: 0 to go on, negative errno to stop (handed to the caller).
 */
typedef int (*gitconfig_fn)(const char *key, const char *value, void *arg);

/**
 * gitconfig_parse() - read @len bytes
 * Not in what is accepted: NUL and other control bytes outside of escapes, a carriage return that does not
 * end a line, a tab inside an unquoted value, keys before the first section, empty names, more than the MAX
 * above. Return: 0, -EINVAL (message with line), -ENOMEM, or what @fn gave.
 */
int gitconfig_parse(const char *data, size_t len, gitconfig_fn fn, void *arg, struct error *err)
        __attribute__((warn_unused_result));
