/*
 * json.h - what jansson lacks: an owner for locals, and a look at foreign text before it takes memory
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

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

/**
 * json_modest() - whether the reader may see @text: it calls itself once a level, and an empty object of two
 * bytes takes two hundred
 * @depth_max: levels of arrays and objects
 * @nests_max: arrays and objects in all
 * @ret:       how many there are, NULL: not asked
 */
bool json_modest(const char *text, size_t len, size_t depth_max, size_t nests_max, size_t *ret)
        __attribute__((warn_unused_result));
