/*
 * json.h - what jansson lacks: an owner for locals, and writing to a descriptor in one step
 */
#pragma once

#include <jansson.h>

#include "runtime/base/cleanup.h"

static inline void auto_json(json_t **j) {
        const int saved = errno;

        json_decref(*j);
        *j = NULL;
        errno = saved;
}
#define AUTO_JSON CLEANUP(auto_json)

/**
 * json_from_bytes() - a JSON string of @s; bytes that are not UTF-8 become \xNN as escape_str() writes them
 * @max: longest result in bytes; a longer one is cut and ends with "... (N bytes)"
 * Return: new reference, NULL when out of memory.
 */
json_t *json_from_bytes(const char *s, size_t max) __attribute__((warn_unused_result));
