/*
 * spot.h - one name in one directory, as the work sees it: lower, upper and the rule that applies
 */
#pragma once

#include <stdbool.h>

#include "fs/facts.h"
#include "fs/layer.h"
#include "fs/server.h"

/**
 * struct spot - valid from spot_open() to spot_close(), under a hold of the tree
 * A name is looked up in the upper when the upper has a directory of the parent's path; what is found there
 * hides the lower.
 */
struct spot {
        struct server *server;
        struct node *parent; /* referenced */
        const char *name;    /* borrowed */
        const struct region *region;
        struct node_states states; /* of the path; the verdict depends on the type too */
        int lower;            /* O_PATH of the parent in the lower, -1: it is in the upper only; borrowed */
        int upper;            /* O_PATH of the parent in the upper, -1: none */
        bool upper_owned;     /* else borrowed from the cache */
        enum layer_kind kind; /* what the upper says about the name */
        char *redirect;       /* owned; the upper directory of that name stands for this path of the lower */
};
#define SPOT_INIT \
        { .lower = -1, .upper = -1 }

/** enum spot_write - where a change of a name goes */
enum spot_write { SPOT_LOWER, SPOT_UPPER };

/**
 * spot_open() - resolve @name in the directory numbered @parent_id
 * @name: from the kernel: hostile
 * Return: 0, -EINVAL, -ENAMETOOLONG, -ESTALE, -errno. spot_close() is due in any case.
 */
int spot_open(struct server *s, uint64_t parent_id, const char *name, struct spot *ret)
        __attribute__((warn_unused_result));
void spot_close(struct spot *spot);
#define AUTO_SPOT __attribute__((cleanup(spot_close)))

/** spot_look() - the object the name leads to. Return: 0, -ENOENT (none, hidden or deleted), -errno. */
int spot_look(const struct spot *spot, struct facts *ret, enum node_layer *ret_layer)
        __attribute__((warn_unused_result));

/** spot_number() - add to the facts of the upper object of that name which number it shows. Return: 0 or
 * -errno. */
int spot_number(const struct spot *spot, struct facts *facts) __attribute__((warn_unused_result));

/** spot_in_lower() - whether the lower has an object of that name, whatever the upper says */
bool spot_in_lower(const struct spot *spot, struct facts *ret);

/** spot_open_lower() - the lower directory that the directory of that name is merged with. Return: owned
 * descriptor open for listing, -ENOENT (none), -errno. */
int spot_open_lower(const struct spot *spot) __attribute__((warn_unused_result));

/** spot_verdict() - the rule for an object of type @type (S_IFMT bits) at the name */
struct rules_verdict spot_verdict(const struct spot *spot, mode_t type);

/**
 * spot_admit() - whether and where the name may be changed; tells the supervisor of a hold or a refusal
 * @type: of the object that is there or is to be there (S_IFMT bits)
 * @op:   for the notice
 * Return: enum spot_write, -EROFS (protected, read-only), -EACCES (hidden).
 */
int spot_admit(const struct spot *spot, mode_t type, const char *op) __attribute__((warn_unused_result));

/** spot_admit_link() - spot_admit() for a new symlink, which is also held when judge_link() says so */
int spot_admit_link(const struct spot *spot, const char *target) __attribute__((warn_unused_result));

/**
 * spot_upper_dir() - the parent's directory in the upper, made when it is missing
 * Return: descriptor borrowed from @spot, -errno.
 */
int spot_upper_dir(struct spot *spot) __attribute__((warn_unused_result));

/**
 * spot_stayed() - whether the parent's directory on the host is still where the work sees it
 * Another run, or another region, may have moved it to a name under other rules. To be asked after a change
 * of the lower, which is then undone: whoever moves a directory looks at what is in it once more afterwards.
 */
bool spot_stayed(const struct spot *spot);

/** spot_path() - append the name's path relative to the region. Return: 0 or -errno. */
int spot_path(const struct spot *spot, struct buf *out) __attribute__((warn_unused_result));

/** spot_enter() - make the kernel's entry for an object just found or made at the name. Return: 0, -ENOMEM.
 */
int spot_enter(const struct spot *spot, const struct facts *facts, enum node_layer layer,
               struct fuse_entry_param *ret) __attribute__((warn_unused_result));

/**
 * spot_keep() - the name is about to go: hold on to the file, for who has looked it up and not opened it yet
 * @facts, @layer: from spot_look(). Best effort.
 */
void spot_keep(const struct spot *spot, const struct facts *facts, enum node_layer layer);

/** spot_gone() - the name was removed: forget it. @was: what it led to; NULL: not known */
void spot_gone(const struct spot *spot, const struct facts *was);
