/*
 * upper.h - a region's upper as the server uses it: finding its directories, copy-up and landing
 */
#pragma once

#include <stdbool.h>

#include "fs/layer.h"
#include "fs/server.h"

#define UPPER_TEMP_SIZE sizeof(LAYER_TEMP_PREFIX "0123456789abcdef")

/** upper_temp_name() - a name that nothing has; the work may not make such names */
void upper_temp_name(char ret[UPPER_TEMP_SIZE]);

/** upper_open_node() - the upper's directory of the node's path. Return: owned O_PATH descriptor, -ENOENT,
 * -errno. */
int upper_open_node(struct server *s, struct node *node) __attribute__((warn_unused_result));

/** upper_has() - whether the upper has a directory of this lower directory's path; remembered while nothing
 * changes */
bool upper_has(struct server *s, struct node *dir);

/** upper_make_dir() - upper_open_node() that makes what is missing. Return: owned O_PATH descriptor, -errno.
 */
int upper_make_dir(struct server *s, struct node *dir) __attribute__((warn_unused_result));

/** upper_changed() - directories of the upper came or went */
void upper_changed(struct server *s, uint32_t region);

/**
 * upper_copy_up() - move a lower file or symlink that is about to change into the upper, with its open
 * handles; where everything goes to the upper, other types and directories too (without what is in them)
 * @with_data: false: it will be truncated
 * the tree must be held for writing. Nothing happens when the node is in the upper already.
 * Return: 0, -EROFS (no upper, or a rule refuses), -ESTALE, -ENOSPC, -errno.
 */
int upper_copy_up(struct server *s, struct node *node, bool with_data) __attribute__((warn_unused_result));

/**
 * upper_land() - put a held file whose content the judge accepts onto the host, as a new inode
 * @keep: the upper's version stays what the work sees (it is still open for writing)
 * the tree must be held for writing. What does not land stays where it is; that is not an error.
 * Return: true: the host has the content.
 */
bool upper_land(struct server *s, struct node *node, bool keep);

/** upper_judges() - whether the judge decides about a regular file at @path that verdict @v holds */
bool upper_judges(const struct region *region, struct rules_verdict v, mode_t type, const char *path);

/** upper_judge_path() - append what the judge calls the region's @path. Return: 0, -ENOMEM. */
int upper_judge_path(const struct region *region, const char *path, struct buf *out)
        __attribute__((warn_unused_result));

/** upper_judged() - whether the node is a held file of the upper that the judge decides about. Locks the
 * table. */
bool upper_judged(struct server *s, struct node *node);
