/*
 * schema.h - the part of JSON Schema that tools are described with
 *
 * type (a name or a list), enum, const, properties, required, additionalProperties, items, minItems,
 * maxItems, minimum, maximum, minLength, maxLength, anyOf. Other keywords accept everything.
 */
#pragma once

#include <jansson.h>

#include "runtime/base/error.h"

enum { SCHEMA_DEPTH_MAX = 64 };

/** schema_check() - Return: 0, -EINVAL with where and why. */
int schema_check(const json_t *schema, const json_t *value, struct error *err)
        __attribute__((warn_unused_result));
