/*
 * tree.h - questions about directories that span lower and upper
 */
#pragma once

#include <stdbool.h>

#include "fs/spot.h"

/** tree_is_empty() - whether the directory @spot leads to shows no entry. Return: 1, 0, -errno. */
int tree_is_empty(const struct spot *spot) __attribute__((warn_unused_result));

/** tree_purge_upper() - remove the upper directory at @spot, which holds nothing but whiteouts. Return: 0 or
 * -errno. */
int tree_purge_upper(const struct spot *spot) __attribute__((warn_unused_result));

/** tree_same_place() - whether the judge reads what is below a directory at @from as it would below @to */
bool tree_same_place(const struct spot *from, const struct spot *to);

/**
 * tree_same_rules() - whether every object below the directory at @from would have the same verdict below @to
 * What is held by another rule there is another verdict: it may have landed by its content.
 * Looks at lower and upper, at most TREE_WALK_MAX entries. Return: 1, 0 (some differ, or too many to look
 * at), -errno.
 */
int tree_same_rules(const struct spot *from, const struct spot *to) __attribute__((warn_unused_result));

/**
 * tree_may_move() - whether the directory at @from may get the name @to where everything goes to the upper
 * What is hidden below stays hidden (struct node_states). What a rule protects neither loses its name nor
 * appears under one. Return: 0, -EROFS, -EXDEV (too many to look at), -errno.
 */
int tree_may_move(const struct spot *from, const struct spot *to) __attribute__((warn_unused_result));

enum { TREE_WALK_MAX = 200000, TREE_WALK_DEPTH = 512 };
