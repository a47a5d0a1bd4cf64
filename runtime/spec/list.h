/*
 * list.h - the lists of the specification: rules, seeds, mounts, variables, paths
 *
 * An item is a struct whose fields are rows of item_keys[]; reading, copying, freeing and dumping follow
 * them.
 */
#pragma once

#include <jansson.h>

#include "runtime/base/error.h"
#include "runtime/spec/value.h"

/**
 * list_add() - add what @node says to the list of @key
 * @node: in a file a list of items (variables: also a mapping); from a flag the text of one item
 * @spec: may have gained some of the items on failure
 * Return: 0, -EINVAL, -EPERM, -E2BIG (more items than the key's max), -ENOTSUP, -ENOMEM.
 */
int list_add(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
             struct error *err) __attribute__((warn_unused_result));

/** list_add_rule() - append one guard rule. Return: as list_add(). */
int list_add_rule(struct spec *spec, enum guard_do action, const char *glob, const struct source *src,
                  struct error *err) __attribute__((warn_unused_result));

/** list_add_cache() - append one cache mount from PATH[:OPTION]. Return: as list_add(). */
int list_add_cache(struct spec *spec, const char *text, const struct source *src, struct error *err)
        __attribute__((warn_unused_result));

/** list_copy() - deep copy of the list of @key into an empty one. Return: 0, -ENOMEM. */
int list_copy(struct spec *to, const struct spec *from, const struct key *key)
        __attribute__((warn_unused_result));

/** list_free() - free the items and empty the list of @key */
void list_free(struct spec *spec, const struct key *key);

/** list_remove() - free item @i of the list of @key and close the gap */
void list_remove(struct spec *spec, const struct key *key, size_t i);

/** list_json() - array of the items, each with its tier; secret values left out. NULL: out of memory. */
json_t *list_json(const struct spec *spec, const struct key *key);

/** list_section() - the item_keys[] section of the items of a list type */
enum section list_section(enum key_type type);
