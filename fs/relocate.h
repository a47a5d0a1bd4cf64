/*
 * relocate.h - directories that the work renamed, before everything else lands; used by apply.c only
 */
#pragma once

#include "fs/transaction.h"

/**
 * relocate_all() - rename on the host what the work renamed, or make it a copy in the upper
 * A directory whose new name is free, or will be, is renamed; what lies below stays where it is, and is not
 * copied. Where that cannot be (another file system, the new name is taken by something that the work
 * removed, a circle) the upper's directory gets a copy of all it shows and no longer stands for the old one:
 * then it lands as a new directory, and the old one is deleted. Renames in conflict are left for the diff.
 * Return: 0, what the report gave, -errno with a message.
 */
int relocate_all(struct transaction *t) __attribute__((warn_unused_result));
