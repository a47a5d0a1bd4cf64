/*
 * rules-json.h - the rules of a region as a run's state keeps them, for who judges after the run
 */
#pragma once

#include <jansson.h>

#include "fs/rules.h"

/**
 * rules_to_json() - all of @rules: {"fold":,"base":,"list":[...]}
 * The list holds rules in order, [pattern, action, types, builtin, from]; the built-in list is the word
 * "defaults".
 * @rules: NULL: no rules
 * Return: new reference, null for no rules; NULL: out of memory.
 */
json_t *rules_to_json(const struct rules *rules) __attribute__((warn_unused_result));

/**
 * rules_from_json() - compile them again
 * @ret: NULL: there are none (null, or no value); else caller frees with rules_free()
 * Return: 0, -EINVAL (not what rules_to_json() makes), or as rules_new().
 */
int rules_from_json(const json_t *json, struct rules **ret, struct error *err)
        __attribute__((warn_unused_result));
