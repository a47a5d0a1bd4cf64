/*
 * tree.h - what the YAML and the JSON reader share: building a tree of nodes within its limits
 */
#pragma once

#include "runtime/spec/doc.h"

/** struct tree - a document being read */
struct tree {
        const char *name; /* of the file, borrowed */
        struct error *err;
        struct doc *root; /* owned */
        struct doc *cur;  /* the open list or mapping, NULL: none yet, or all closed */
        char *key;        /* a key of @cur that has no value yet, owned */
        unsigned key_line;
        size_t depth;
        size_t count;
};

/** tree_error() - "FILE:LINE: PLACE: @msg". Return: @code. */
int tree_error(const struct tree *tree, unsigned line, int code, const char *msg);

/** tree_key() - the next value's key in the open mapping. Return: 0, -EINVAL, -E2BIG, -ENOMEM. */
int tree_key(struct tree *tree, const char *text, size_t len, unsigned line)
        __attribute__((warn_unused_result));
/** tree_scalar() - a value at the current place. Return: as tree_key(). */
int tree_scalar(struct tree *tree, const char *text, size_t len, bool quoted, unsigned line)
        __attribute__((warn_unused_result));
/** tree_open() - a list or mapping at the current place, which is now the open one. Return: as tree_key(). */
int tree_open(struct tree *tree, enum doc_kind kind, unsigned line) __attribute__((warn_unused_result));
/** tree_close() - end of the open list or mapping */
void tree_close(struct tree *tree);

/** tree_read_yaml() - read @data into an empty tree. Return: 0 or -errno, described. */
int tree_read_yaml(struct tree *tree, const char *data, size_t len) __attribute__((warn_unused_result));
/** tree_read_json() - read @data into an empty tree. Return: 0 or -errno, described. */
int tree_read_json(struct tree *tree, const char *data, size_t len) __attribute__((warn_unused_result));
