/*
 * verdict.h - what the rules and the judge say of a change that is about to reach the host
 */
#pragma once

#include "fs/diff.h"
#include "fs/explain.h"

enum { VERDICT_TEXT_MAX = 256 };

/** struct verdict - GUARD_ALLOW: nothing speaks against it. GUARD_HOLD: a host tool would run or trust it.
 * GUARD_PROTECT, GUARD_HIDE: it never lands. */
struct verdict {
        enum guard_do action;
        char rule[VERDICT_TEXT_MAX];   /* that decides; "" when allowed; cut */
        char reason[VERDICT_TEXT_MAX]; /* what the judge says; "" when it was not asked; cut */
};

/**
 * verdict_change() - judge @change as diff_walk() gives it
 * The strictest counts: of the old and the new type, and of all that goes with a directory that is deleted,
 * replaced or renamed (of more than VERDICT_WALK_MAX objects: held). Files that rules hold are read and
 * judged by content; symbolic links are judged by target.
 * @region: descriptors open for reading
 * Blocks. Return: 0, -ENOMEM, -errno.
 */
int verdict_change(const struct explain_region *region, const struct change *change, struct verdict *ret)
        __attribute__((warn_unused_result));

enum { VERDICT_WALK_MAX = 200000 };
