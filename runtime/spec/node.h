/*
 * node.h - a document as a tree, whether it was YAML or JSON; each node knows its line and its place
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

enum {
        NODE_FILE_MAX = 1 << 20, /* bytes of a document */
        NODE_DEPTH_MAX = 64,     /* lists and mappings inside each other */
        NODE_COUNT_MAX = 20000,  /* values of a document */
        NODE_KEYS_MAX = 4096,    /* keys of one mapping */
        NODE_PATH_LEN = 256,     /* of the text of a place; longer ones are cut */
};

/** struct node - one value */
struct node {
        enum node_kind kind;
        bool quoted;   /* scalar: written as a string; else YAML's plain form or JSON's number, true, false,
                          null */
        unsigned line; /* 1-based */
        char *name;    /* key in the parent mapping, owned; NULL elsewhere */
        char *text;    /* scalar: valid UTF-8 without NUL, owned */
        size_t n;      /* list, map: children */
        size_t index;  /* place in the parent */
        struct node *parent;
        struct node *first, *last, *next;
};

/**
 * node_parse() - read a document
 * @name: of the file, for messages ("NAME:LINE: ...")
 * @json: strict JSON (RFC 8259), else YAML 1.1 without aliases, tags and further documents
 * @ret:  the root, caller frees with node_free(); NULL when the document is empty
 * Return: 0, -EINVAL (syntax, duplicate key, NUL, invalid UTF-8), -EFBIG, -E2BIG (a limit above), -ENOMEM.
 */
int node_parse(const char *name, const char *data, size_t len, bool json, struct node **ret,
               struct error *err) __attribute__((warn_unused_result));

/** node_free() - @node and all below it; accepts NULL. Return: NULL. */
struct node *node_free(struct node *node);

/** node_path() - "mounts[2].source", escaped; written to @out. Return: @out. */
const char *node_path(const struct node *node, char out[static NODE_PATH_LEN]);

/** node_is_null() - a plain scalar that says "nothing": empty, ~ or null */
bool node_is_null(const struct node *node);

/** node_child() - the value of @name in a mapping, NULL: none */
const struct node *node_child(const struct node *map, const char *name);

static inline void auto_node(struct node **p) {
        *p = node_free(*p);
}
#define AUTO_NODE __attribute__((cleanup(auto_node)))
