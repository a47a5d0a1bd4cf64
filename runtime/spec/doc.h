/*
 * doc.h - a document as a tree, whether it was YAML or JSON; each node knows its line and its place
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/error.h"

enum doc_kind { DOC_SCALAR, DOC_LIST, DOC_MAP };

enum {
        DOC_FILE_MAX = 1 << 20, /* bytes of a document */
        DOC_DEPTH_MAX = 64,     /* lists and mappings inside each other */
        DOC_COUNT_MAX = 20000,  /* values of a document */
        DOC_KEYS_MAX = 4096,    /* keys of one mapping */
        DOC_PATH_LEN = 256,     /* of the text of a place; longer ones are cut */
};

/** struct doc - one value */
struct doc {
        enum doc_kind kind;
        bool quoted;   /* scalar: written as a string; else YAML's plain form or JSON's number, true, false,
                          null */
        unsigned line; /* 1-based */
        char *name;    /* key in the parent mapping, owned; NULL elsewhere */
        char *text;    /* scalar: valid UTF-8 without NUL, owned */
        size_t n;      /* list, map: children */
        size_t index;  /* place in the parent */
        struct doc *parent;
        struct doc *first, *last, *next;
};

/**
 * doc_parse() - read a document
 * @name: of the file, for messages ("NAME:LINE: ...")
 * @json: strict JSON (RFC 8259), else YAML 1.1 without aliases, tags and further documents
 * @ret:  the root, caller frees with doc_free(); NULL when the document is empty
 * Return: 0, -EINVAL (syntax, duplicate key, NUL, invalid UTF-8), -EFBIG, -E2BIG (a limit above), -ENOMEM.
 */
int doc_parse(const char *name, const char *data, size_t len, bool json, struct doc **ret, struct error *err)
        __attribute__((warn_unused_result));

/** doc_free() - @node and all below it; accepts NULL. Return: NULL. */
struct doc *doc_free(struct doc *node);

/** doc_path() - "mounts[2].source", escaped; written to @out. Return: @out. */
const char *doc_path(const struct doc *node, char out[static DOC_PATH_LEN]);

/** doc_is_null() - a plain scalar that says "nothing": empty, ~ or null */
bool doc_is_null(const struct doc *node);

/** doc_child() - the value of @name in a mapping, NULL: none */
const struct doc *doc_child(const struct doc *map, const char *name);

static inline void auto_doc(struct doc **p) {
        *p = doc_free(*p);
}
#define AUTO_DOC __attribute__((cleanup(auto_doc)))
