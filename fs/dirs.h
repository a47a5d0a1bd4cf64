/*
 * dirs.h - descriptors of directories: a bounded cache, so that memory and descriptors grow with what is in
 * use and not with the tree
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct node;
struct server;
struct table;

/** struct dir_fd - an O_PATH descriptor of a directory node, or of a file that lost its name; under the
 * table's lock */
struct dir_fd {
        int fd;
        uint32_t use; /* requests that use it now; it is not closed meanwhile */
        struct node *node;
        struct dir_fd *prev, *next; /* least recently used last */
};

/** struct dirs - the cache; regions' roots are not counted */
struct dirs {
        struct dir_fd *first, *last;
        size_t n, max;
};

/**
 * dirs_get() - a descriptor of the directory @node, opened beneath its parents when it is not cached
 * @ret_fd: O_PATH, borrowed until dirs_put(node)
 * Return: 0, -ESTALE (another object is there now, or none), -ELOOP (too deep), -errno.
 */
int dirs_get(struct server *s, struct node *node, int *ret_fd) __attribute__((warn_unused_result));
void dirs_put(struct server *s, struct node *node);

/**
 * dirs_keep() - hold on to a file whose name is about to go
 * Somebody may have looked it up and not opened it yet: with its name replaced again and again, he would meet
 * ESTALE however often the kernel looks it up anew.
 * @fd: O_PATH, consumed. May be closed early, like the others.
 */
void dirs_keep(struct server *s, struct node *node, int fd);

/** dirs_kept() - a duplicate of what dirs_keep() holds. Return: owned descriptor, -EBADF: nothing */
int dirs_kept(struct server *s, struct node *node) __attribute__((warn_unused_result));

/** dirs_trim() - close all that are not in use (descriptors ran out). Locks. */
void dirs_trim(struct server *s);

/** dirs_drop() - @node goes away: its descriptor moves to the table's list of the dead. Lock held. */
void dirs_drop(struct table *t, struct node *node);

/** dirs_close() - close and free a list of the dead; NULL allowed */
void dirs_close(struct dir_fd *dead);
