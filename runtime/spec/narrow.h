/*
 * narrow.h - what a repository may say: only what makes its sandbox tighter, or what happens inside it
 */
#pragma once

#include <stdbool.h>

#include "runtime/spec/value.h"

/** narrow_env_denied() - whether a repository may not set the variable @name: one that programs of the
 * sandbox take orders, addresses or credentials from */
bool narrow_env_denied(const char *name);

/**
 * narrow_key() - whether @src, which is a repository, may set @key at all; if not, that is noted
 * Return: 0: it may, 1: it may not, -ENOMEM.
 */
int narrow_key(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
               struct error *err) __attribute__((warn_unused_result));

/**
 * narrow_item() - the same for one item of a list
 * @item: read, not checked yet
 * Return: 0: it may, 1: it may not, -ENOMEM.
 */
int narrow_item(struct spec *spec, const struct key *key, void *item, const struct doc *node,
                const struct source *src, struct error *err) __attribute__((warn_unused_result));
