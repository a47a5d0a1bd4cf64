/*
 * admit.h - what the rules make of a change: the one place that the server and 'cofferdam explain' ask
 */
#pragma once

#include <stdbool.h>

#include "fs/guard.h"

/** region_kind_name() - the word for @kind in the state of a run and in reports. Static. */
const char *region_kind_name(enum region_kind kind);

/** enum admit - where a change of a name goes */
enum admit {
        ADMIT_LOWER, /* the host */
        ADMIT_UPPER, /* the upper of a region where everything goes there */
        ADMIT_HELD,  /* the upper, and the supervisor is told */
};

/**
 * admit_change() - whether and where a name of a region may be changed
 * @kind:      of the region
 * @has_upper: whether the region has one
 * @action:    of the verdict for the name and the type of what is there or is to be there
 * Return: enum admit, -EROFS (protected, a region that is read-only, or nowhere to hold it), -EACCES
 * (hidden).
 */
int admit_change(enum region_kind kind, bool has_upper, enum guard_do action);
