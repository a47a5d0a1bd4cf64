/*
 * select.h - which paths of a run are meant: the words behind RUN of diff, apply and discard
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/review.h"
#include "runtime/base/error.h"

struct rules;

/** struct select - zero: nothing was named, all are meant */
struct select {
        struct rules *rules; /* owned */
};

/**
 * select_init() - paths as diff prints them, or globs
 * A word without '*', '?' or '[' is one path, with everything below it: relative to the workspace, or
 * absolute. Any other is a glob as a guard rule has them: without a '/' it fits at any depth.
 * @workspace: source and target of the workspace, for absolute words; NULL: not known
 * Return: 0, -EINVAL (a word names what it cannot), -ENOMEM.
 */
int select_init(struct select *s, char *const *words, size_t n, const char *workspace[2], struct error *err)
        __attribute__((warn_unused_result));

/** select_has() - whether the path of a change, or where it was renamed from, is meant */
bool select_has(const struct select *s, const struct review_region *region, const struct change *change);

void select_deinit(struct select *s);
#define AUTO_SELECT __attribute__((cleanup(select_deinit)))
