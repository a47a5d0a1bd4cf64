/*
 * handle.h - open files: a descriptor each, which follows its node when the backing object changes
 */
#pragma once

#include "fs/server.h"

/** struct handle - one open(2) of the work; @fd keeps its number for life */
struct handle {
        uint64_t id;       /* fuse_file_info.fh */
        struct node *node; /* referenced */
        int fd;            /* owned */
        int flags;         /* open(2) flags it was opened with */
        bool writes;
        struct handle *prev, *next; /* of the node */
};

/**
 * handle_new() - register @fd as an open file of @node; the tree must be held
 * @fd: consumed on success
 * Return: number, 0 when out of memory.
 */
uint64_t handle_new(struct server *s, struct node *node, int fd, int flags)
        __attribute__((warn_unused_result));

/** handle_free() - close; the tree must be held. Locks the table. */
void handle_free(struct server *s, uint64_t id);

/** handle_fd() - the descriptor of handle @id, borrowed while the kernel holds the file open. Return: -EBADF.
 */
int handle_fd(struct server *s, uint64_t id) __attribute__((warn_unused_result));

/** handle_node() - the node of handle @id, referenced; NULL: none */
struct node *handle_node(struct server *s, uint64_t id) __attribute__((warn_unused_result));

/** handle_dup() - a duplicate of any open descriptor of @node. Return: owned descriptor, -EBADF: none is
 * open. */
int handle_dup(struct server *s, struct node *node) __attribute__((warn_unused_result));

/**
 * handle_dup_to_change() - handle_dup() for a change of the object that place_admit() has admitted
 * Without a name it must be gone from the host, or be open for writing already: which rule it was under
 * before its last name went is not known any more. Return: owned descriptor, -EBADF, -EROFS, -errno.
 */
int handle_dup_to_change(struct server *s, struct node *node) __attribute__((warn_unused_result));

/**
 * handle_repoint() - reopen @name in @dir_fd for each handle of the node, in place
 * the tree must be held for writing. A handle that cannot be reopened keeps the old object.
 */
void handle_repoint(struct node *node, int dir_fd, const char *name);

/** handle_repoint_fd() - the same with the object open as @object, O_PATH or not */
void handle_repoint_fd(struct node *node, int object);
