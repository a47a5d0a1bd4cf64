/*
 * value.h - values between text and their place in struct spec or an item, as the key table says
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"
#include "runtime/spec/doc.h"
#include "runtime/spec/keys.h"

/** struct source - where values come from; everything borrowed */
struct source {
        enum spec_tier tier;
        const char *file;   /* NULL: not a file */
        const char *origin; /* "--network" or "COFFERDAM_NETWORK" when @file is NULL */
        const struct spec_env_view *view;
        bool vouched; /* TIER_REPOSITORY: whoever calls has seen to it that the key may be set */
};

/**
 * source_error() - describe what is wrong with @node: "FILE:LINE: KEY: ..." or "--OPTION: ..."
 * @node: NULL: only the file or option is named
 * Return: @code.
 */
int source_error(const struct source *src, const struct doc *node, struct error *err, int code,
                 const char *fmt, ...) __attribute__((format(printf, 5, 6), cold));

/**
 * value_set() - read @node into the place of @key
 * @base: struct spec or item; unchanged on failure
 * @key:  of a scalar; KEY_NO_STORE: only checked
 * Return: 0, -EINVAL, -EPERM (the tier may not say this word), -ENOMEM.
 */
int value_set(void *base, const struct key *key, const struct doc *node, const struct source *src,
              struct error *err) __attribute__((warn_unused_result));

/** value_default() - set the place of @key to its fallback; nothing when it has none. Return: 0, -ENOMEM. */
int value_default(void *base, const struct key *key) __attribute__((warn_unused_result));

/** value_copy() - deep copy of one scalar. Return: 0, -ENOMEM. */
int value_copy(void *to, const void *from, const struct key *key) __attribute__((warn_unused_result));

/** value_free() - free what the place of a scalar @key owns and empty it */
void value_free(void *base, const struct key *key);

/** value_json() - as JSON; null when not given. Return: new reference, NULL: out of memory. */
json_t *value_json(const void *base, const struct key *key);

/** value_is_default() - whether the place of a scalar @key holds its fallback */
bool value_is_default(const void *base, const struct key *key);

/** value_has_dotdot() - whether a component of @path is ".." */
bool value_has_dotdot(const char *path);
