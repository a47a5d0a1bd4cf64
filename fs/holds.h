/*
 * holds.h - what keeps a decision about names true until it is carried out
 *
 * Every request that goes from names to host objects holds its part of the tree for reading; what moves names
 * (rename, copy-up, landing) holds it for writing. Host calls are made under a hold, and a host file system
 * that does not answer - a server of the network is gone - keeps a hold for as long. So the tree has parts: a
 * region, and in it each host file system that is mounted there, has a lock of its own (node.domain), and
 * nothing waits for another part, but for a directory that is renamed where its region has several: whatever
 * is below it keeps its rules meanwhile, and it is EBUSY when a part cannot be had.
 */
#pragma once

#include <stdint.h>

struct server;

/** struct tree_hold - owner of locks; bit N of @mask: of domain N */
struct tree_hold {
        struct server *server;
        uint64_t mask;
};
void auto_tree(struct tree_hold *h);
#define AUTO_TREE __attribute__((cleanup(auto_tree), unused)) /* unused: clang does not count the cleanup */

/** holds_of() - the part that the node numbered @id belongs to; of no such node: any. Locks the table. */
uint64_t holds_of(struct server *s, uint64_t id);

/** holds_of_entry() - those of the directory @parent and of what is known as @name in it. Locks the table. */
uint64_t holds_of_entry(struct server *s, uint64_t parent, const char *name);

/** holds_read(), holds_write() - take parts; blocks while others have them */
struct tree_hold holds_read(struct server *s, uint64_t mask);
struct tree_hold holds_write(struct server *s, uint64_t mask);

/** tree_read(), tree_write() - the part of the node numbered @id */
static inline struct tree_hold tree_read(struct server *s, uint64_t id) {
        return holds_read(s, holds_of(s, id));
}
static inline struct tree_hold tree_write(struct server *s, uint64_t id) {
        return holds_write(s, holds_of(s, id));
}

/**
 * holds_move() - for a rename of @name in @parent and @new_name in @new_parent, for writing
 * @ret: released by auto_tree()
 * Blocks; at most HOLDS_MOVE_MS where another part than the directories' own is needed.
 * Return: 0, -EBUSY.
 */
int holds_move(struct server *s, uint64_t parent, const char *name, uint64_t new_parent, const char *new_name,
               struct tree_hold *ret) __attribute__((warn_unused_result));
enum { HOLDS_MOVE_MS = 1000 };
