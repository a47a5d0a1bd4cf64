/*
 * merge.h - one source of values over a specification
 */
#pragma once

#include "runtime/spec/value.h"

/**
 * merge_key() - apply @node to @key and note who said it
 * @spec: may be half changed on failure
 * Return: 0, -EINVAL, -E2BIG, -EPERM (the tier may not set it), -ENOTSUP, -ENOMEM.
 */
int merge_key(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
              struct error *err) __attribute__((warn_unused_result));

/** merge_text() - merge_key() of text that is not in a document (a flag, a variable). */
int merge_text(struct spec *spec, const struct key *key, const char *text, const struct source *src,
               struct error *err) __attribute__((warn_unused_result));

/** merge_note() - note that @src said something of @key. Return: 0, -EPERM (the tier may not). */
int merge_note(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
               struct error *err) __attribute__((warn_unused_result));

/** merge_yields() - whether "mode: auto" of a higher tier leaves a workflow alone that names its own root */
bool merge_yields(const struct spec *spec, const struct key *key, const char *text);
