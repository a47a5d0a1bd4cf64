/*
 * refuse.h - what a repository asked for and does not get: dropped, and told
 */
#pragma once

#include <jansson.h>

#include "runtime/spec/value.h"

enum refusal_kind { REFUSAL_KEY, REFUSAL_ENV, REFUSAL_NETWORK, REFUSAL_KIND_COUNT };

enum { REFUSALS_MAX = 256 }; /* told one by one; the last says how many there are in all */

/** struct spec_refusal - one value that was dropped, or for REFUSAL_NETWORK completed; strings owned */
struct spec_refusal {
        enum refusal_kind kind;
        enum spec_tier tier;
        char *key;    /* "network.mode", "env.PATH", "containerEnv.PATH" */
        char *from;   /* "FILE:LINE" */
        char *reason; /* why */
        char *remedy; /* who wants it nevertheless */
};

/**
 * refusal_add() - note that what @node says is dropped
 * @key: what to call it; NULL: the place of @node in its document
 * Return: 0, -ENOMEM.
 */
int refusal_add(struct spec *spec, enum refusal_kind kind, const struct source *src, const struct doc *node,
                const char *key, const char *reason, const char *remedy) __attribute__((warn_unused_result));

/** refusals_copy() - into an empty list. Return: 0, -ENOMEM. */
int refusals_copy(struct spec *to, const struct spec *from) __attribute__((warn_unused_result));
void refusals_free(struct spec *spec);

/** refusals_json() - [{"key", "tier", "from", "reason", "remedy"}]. NULL: out of memory. */
json_t *refusals_json(const struct spec *spec);
