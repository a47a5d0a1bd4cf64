/*
 * schema.h - the key table for other readers: JSON Schema, and the list of keys of the manual
 */
#pragma once

#include <jansson.h>

#include "runtime/base/buf.h"

/** spec_schema() - JSON Schema (2020-12) of a specification. Return: new reference, NULL: out of memory. */
json_t *spec_schema(void);

/** spec_manual() - the keys as mdoc(7), for cofferdam.yaml(5). Return: 0, -ENOMEM, -E2BIG. */
int spec_manual(struct buf *out) __attribute__((warn_unused_result));
