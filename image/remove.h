/*
 * remove.h - remove a tree, whatever is in it
 */
#pragma once

/**
 * remove_tree_at() - remove @name below @dir_fd and everything in it, following no link
 * A directory that its owner may not change is made so first. Blocks. Return: 0 (also when there is none),
 * -errno.
 */
int remove_tree_at(int dir_fd, const char *name) __attribute__((warn_unused_result));
