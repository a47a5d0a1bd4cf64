/*
 * node.h - what the kernel knows of the tree: nodes by identity, each with the names that lead to it
 *
 * A node stands for one host object, keyed by (region, layer, device, inode), so hard links share one node
 * and one page cache. Its names are (parent node, text) pairs. Nothing here makes a system call; one mutex
 * covers everything, and the fields of struct node and struct name are read and written under it unless said
 * otherwise.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "fs/dirs.h"
#include "fs/facts.h"
#include "fs/rules.h"
#include "fs/slots.h"
#include "runtime/base/buf.h"

enum node_layer { NODE_LOWER, NODE_UPPER };
enum { NODE_ROOT_ID = 1, NODE_DEPTH_MAX = 4096, NODE_NAME_MAX = 255 };

struct handle;

/** struct node_version - changes when a file's content does */
struct node_version {
        struct timespec mtime, ctime;
        off_t size;
};

/** struct node - see above; @region, @type, @domain and @id never change */
struct node {
        uint64_t id;          /* number handed to the kernel */
        uint64_t ino;         /* what stat(2) shows inside; survives a change of the backing object */
        uint64_t dev, host;   /* identity: device and inode of the backing object */
        int64_t btime_ns;     /* of the backing object, 0: not known */
        int64_t seen_ns;      /* modification time of a directory as lowers.c last saw it */
        uint64_t nlookup;     /* the kernel's references, until FORGET */
        uint32_t refs;        /* ours: requests under way, handles, names of children */
        uint32_t region;      /* index */
        uint32_t writers;     /* handles open for writing */
        uint32_t upper_epoch; /* directory: of the region when @has_upper was found out; 0: never */
        mode_t type;          /* S_IFMT bits */
        uint8_t domain;       /* which lock its part of the tree has: see holds.h */
        enum node_layer layer;
        struct node_version
                version; /* regular file: when its pages in the kernel were last known to be right */
        bool watched;    /* directory: sole.h sees what others do in it */
        bool has_upper;  /* lower directory: the upper holds a directory of the same path */
        bool hashed;     /* found by identity; false: the backing object is gone or was replaced */
        struct name *names;
        struct node *hash_next;
        struct handle *handles;
        struct dir_fd *dir; /* cached descriptor of a directory, see dirs.h */
        struct stat *last;  /* owned; attributes before the last name went, NULL otherwise */
        char *redirect;     /* owned; lower directory that was renamed: its path in the lower, else NULL */
};

/** struct node_states - rules states of a path: of what is seen, and of where the lower has it. They differ
 * below a directory that was renamed in the upper only; the stricter verdict counts. */
struct node_states {
        rules_state seen, lower;
};

/** struct name - one directory entry that leads to a node */
struct name {
        struct node *node;   /* borrowed */
        struct node *parent; /* holds a reference */
        struct name *next;   /* of the same node */
        struct name *hash_next;
        struct node_states states; /* valid while @epoch is the table's */
        uint32_t epoch;
        uint8_t len;
        char text[];
};

enum { NODE_DOMAINS_MAX = 64 };

/** struct domain - a host file system in a region */
struct domain {
        uint32_t region;
        uint64_t dev;
};

/** struct table - all nodes of one server */
struct table {
        pthread_mutex_t lock;
        struct slots ids;
        struct node **by_key;
        struct name **by_name;
        size_t key_mask, name_mask; /* sizes - 1, powers of two */
        size_t n_nodes, n_names;
        struct rules *const *rules; /* per region, borrowed; an entry is NULL: everything allowed */
        struct node **roots;        /* per region */
        size_t n_regions;
        uint64_t seed;     /* of the hashes */
        uint64_t *devs;    /* devices seen; their index folds inode numbers */
        size_t n_devs;     /* at most NODE_DEVS_MAX */
        uint64_t next_ino; /* for inode numbers that cannot be folded */
        uint32_t epoch;    /* changes when a directory moved to other rules */
        struct domain domains[NODE_DOMAINS_MAX];
        unsigned int n_domains; /* the last one is shared by all that came too late for one of their own */
        struct dirs dirs;
        struct dir_fd *dead; /* descriptors of freed nodes, closed by table_unlock() */
};

enum { NODE_DEVS_MAX = 4096 };

/**
 * table_new() - an empty table with one root node per region
 * @rules: per region, borrowed; @roots: facts of each region's root
 * @ret: caller frees with table_free(). Return: 0, -ENOMEM.
 */
int table_new(struct rules *const *rules, const struct facts *roots, size_t n_regions, struct table **ret)
        __attribute__((warn_unused_result));
struct table *table_free(struct table *t);

/** table_lock() / table_unlock() - unlock closes the descriptors of nodes that were freed meanwhile */
void table_lock(struct table *t);
void table_unlock(struct table *t);

/** node_get() - the node with number @id, referenced; NULL: no such node. Locks. */
struct node *node_get(struct table *t, uint64_t id) __attribute__((warn_unused_result));
/** node_put() - give a reference back; NULL allowed. Locks. */
void node_put(struct table *t, struct node *node);
/** node_put_locked() - the same with the lock held */
void node_put_locked(struct table *t, struct node *node);

/**
 * node_enter() - the node of a directory entry that was just looked at; counts one kernel lookup. Locks.
 * @ret_ino: inode number to show. Return: number for the kernel, 0 when out of memory.
 */
uint64_t node_enter(struct table *t, struct node *parent, const char *name, const struct facts *facts,
                    enum node_layer layer, uint64_t *ret_ino) __attribute__((warn_unused_result));

/** node_forget() - the kernel dropped @n lookups of @id. Locks. */
void node_forget(struct table *t, uint64_t id, uint64_t n);

/** node_fold_ino() - the number that (dev, ino) has inside, also for objects that are no node. Locks. */
uint64_t node_fold_ino(struct table *t, uint64_t dev, uint64_t ino);

/** node_domains() - bit N: domain N has nodes of @region. Lock held. */
uint64_t node_domains(const struct table *t, uint32_t region);

/** node_shown_ino() - the number that the object has inside, also when it is no node. Locks. */
uint64_t node_shown_ino(struct table *t, const struct facts *facts);

/** node_renumber() - the node shows its backing object's own number from now on. Lock held. */
void node_renumber(struct table *t, struct node *node);

/** node_child() - the node that was last seen as @name in @parent, not referenced; NULL: none. Lock held. */
struct node *node_child(struct table *t, const struct node *parent, const char *name);

/**
 * node_unname() - @name in @parent is gone. Lock held.
 * @gone: it was the object's last name: later objects with the same inode number are other nodes
 */
void node_unname(struct table *t, struct node *parent, const char *name, bool gone);

/** node_move() - @name in @parent is now @new_name in @new_parent (which is taken over). Lock held.
 * Return: 0, -ENOMEM (the names are forgotten). */
int node_move(struct table *t, struct node *parent, const char *name, struct node *new_parent,
              const char *new_name) __attribute__((warn_unused_result));

/** node_rebase() - the node's backing object is now another one. Lock held. */
void node_rebase(struct table *t, struct node *node, enum node_layer layer, const struct facts *facts);

/** node_keep_name() - drop all names of @node but @keep. Lock held. */
void node_keep_name(struct table *t, struct node *node, const struct name *keep);

/** node_states() - rules states of a directory or of the first name of a file. Lock held. Return: 0 or -ELOOP
 * (deeper than NODE_DEPTH_MAX, or no name left). */
int node_states(struct table *t, struct node *node, struct node_states *ret);

/** states_step() - the states of the child @name of a directory in @dir */
struct node_states states_step(struct rules *rules, struct node_states dir, const char *name, size_t len);

/** states_verdict() - the stricter verdict of both for an object of type @type; @rules NULL: allowed */
struct rules_verdict states_verdict(const struct rules *rules, struct node_states states, mode_t type);

/** node_verdict() - the strictest verdict of all known names. Lock held.
 * @ret_name: the name that decided, NULL for a region's root; NULL allowed */
struct rules_verdict node_verdict(struct table *t, struct node *node, struct name **ret_name);

/** node_path() - append the path relative to the region ("" for its root) by the first names. Lock held.
 * It may be longer than PATH_MAX. Return: 0, -ESTALE (no name left), -ELOOP, -ENOMEM. */
int node_path(const struct table *t, const struct node *node, struct buf *out)
        __attribute__((warn_unused_result));

/** node_lower_path() - node_path() as the lower has it: where the directories that were renamed come from */
int node_lower_path(const struct table *t, const struct node *node, struct buf *out)
        __attribute__((warn_unused_result));

/**
 * node_redirect() - say where the lower has the directory @node. Lock held.
 * @path: relative to the region; NULL, or the path that its names say: nowhere else
 * Return: 0, -ENOMEM (what was said before stays).
 */
int node_redirect(struct table *t, struct node *node, const char *path) __attribute__((warn_unused_result));
