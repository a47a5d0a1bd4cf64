/*
 * place.h - from a node back to its host object, by the names that lead to it
 *
 * the tree must be held. Each name is tried; what is found counts only when it is the node's object, so a
 * swap on the host ends in -ESTALE, never in another file.
 */
#pragma once

#include <stdbool.h>

#include "fs/server.h"

/** struct place - a directory and a name in it */
struct place {
        int dir_fd; /* O_PATH; borrowed or owned */
        bool owned;
        struct node *parent; /* referenced, its descriptor in use unless owned */
        char name[NODE_NAME_MAX + 1];
};
#define PLACE_INIT \
        { .dir_fd = -1 }

/** place_find() - the directory of the @nth name of @node in the node's layer. Return: 0, -ESTALE (no such
 * name), -errno. */
int place_find(struct server *s, struct node *node, unsigned int nth, struct place *ret)
        __attribute__((warn_unused_result));
/** place_name() - the @nth name of @node; its parent is referenced, no directory opened. Return: 0, -ESTALE.
 */
int place_name(struct server *s, struct node *node, unsigned int nth, struct place *ret)
        __attribute__((warn_unused_result));
void place_done(struct server *s, struct place *place);

/** place_look() - attributes of the backing object of a file. Return: 0, -ESTALE, -errno. */
int place_look(struct server *s, struct node *node, struct facts *ret) __attribute__((warn_unused_result));

/**
 * place_open() - open the backing object
 * @flags: open(2) flags for the host; O_PATH for anything but a regular file or directory
 * Return: owned descriptor, -ESTALE, -errno.
 */
int place_open(struct server *s, struct node *node, int flags) __attribute__((warn_unused_result));

enum { PLACE_AS_IS, PLACE_COPY_UP };
/**
 * place_admit() - whether the object may be modified, by all names it is known under
 * Return: PLACE_AS_IS, PLACE_COPY_UP (upper_copy_up() first), -EROFS, -EACCES.
 */
int place_admit(struct server *s, struct node *node, const char *op) __attribute__((warn_unused_result));

/** place_held() - whether changes of the object go to the upper: the strictest verdict is hold, or the region
 * copies */
bool place_held(struct server *s, struct node *node);
