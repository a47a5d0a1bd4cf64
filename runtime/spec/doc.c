#include "runtime/spec/doc.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/spec/tree.h"

struct doc *doc_free(struct doc *node) {
        struct doc *next;

        if (!node)
                return NULL;
        for (struct doc *c = node->first; c; c = next) { /* at most DOC_DEPTH_MAX deep */
                next = c->next;
                (void) doc_free(c);
        }
        free(node->name);
        free(node->text);
        free(node);
        return NULL;
}

bool doc_is_null(const struct doc *node) {
        return node->kind == DOC_SCALAR && !node->quoted &&
               (!*node->text || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

const struct doc *doc_child(const struct doc *map, const char *name) {
        for (const struct doc *c = map->first; c; c = c->next)
                if (strcmp(c->name, name) == 0)
                        return c;
        return NULL;
}

const char *doc_path(const struct doc *node, char out[static DOC_PATH_LEN]) {
        const struct doc *chain[DOC_DEPTH_MAX + 1];
        size_t n = 0, o = 0;
        char name[64];

        for (; node && node->parent && n < ARRAY_SIZE(chain); node = node->parent)
                chain[n++] = node;
        out[0] = '\0';
        while (n > 0 && o < DOC_PATH_LEN) {
                const struct doc *at = chain[--n];

                if (at->name)
                        o += (size_t) snprintf(out + o, DOC_PATH_LEN - o, "%s%s", o ? "." : "",
                                               escape_str(at->name, name, sizeof(name)));
                else
                        o += (size_t) snprintf(out + o, DOC_PATH_LEN - o, "[%zu]", at->index);
        }
        return out;
}

/* the place a new value gets, before it is there: "workspace.mode" */
static const char *tree_place(const struct tree *tree, char out[static DOC_PATH_LEN]) {
        const struct doc here = {
                .name = tree->key,
                .index = tree->cur ? tree->cur->n : 0,
                .parent = tree->cur,
        };

        /* between two keys it is the mapping itself */
        return doc_path(tree->cur && tree->cur->kind == DOC_MAP && !tree->key ? tree->cur : &here, out);
}

int tree_error(const struct tree *tree, unsigned line, int code, const char *msg) {
        char path[DOC_PATH_LEN];

        (void) tree_place(tree, path);
        return error_set(tree->err, code, "%s:%u: %s%s%s", ESC(tree->name), line, path, *path ? ": " : "",
                         msg);
}

static int checked_text(const struct tree *tree, const char *text, size_t len, unsigned line, char **ret) {
        char *copy;

        if (memchr(text, '\0', len))
                return tree_error(tree, line, -EINVAL, "contains a NUL character");
        if (!utf8_valid(text, len))
                return tree_error(tree, line, -EINVAL, "is not valid UTF-8");
        copy = strndup(text, len);
        if (!copy)
                return error_set(tree->err, -ENOMEM, "out of memory");
        *ret = copy;
        return 0;
}

int tree_key(struct tree *tree, const char *text, size_t len, unsigned line) {
        AUTO_FREE char *key = NULL;
        int r;

        assert(tree->cur && tree->cur->kind == DOC_MAP && !tree->key);
        r = checked_text(tree, text, len, line, &key);
        if (r < 0)
                return r;
        static_assert(DOC_KEYS_MAX == 4096 && DOC_COUNT_MAX == 20000, "the messages name them");
        if (tree->cur->n >= DOC_KEYS_MAX)
                return tree_error(tree, line, -E2BIG, "more than 4096 keys in one mapping");
        for (const struct doc *c = tree->cur->first; c; c = c->next) {
                char msg[64];

                if (strcmp(c->name, key) != 0)
                        continue;
                (void) snprintf(msg, sizeof(msg), "duplicate key, first on line %u", c->line);
                tree->key = TAKE_PTR(key);
                return tree_error(tree, line, -EINVAL, msg);
        }
        tree->key = TAKE_PTR(key);
        tree->key_line = line;
        return 0;
}

/* Puts @node at the current place. */
static void attach(struct tree *tree, struct doc *node) {
        struct doc *parent = tree->cur;

        node->parent = parent;
        if (!parent) {
                tree->root = node;
                return;
        }
        node->name = TAKE_PTR(tree->key);
        node->index = parent->n++;
        if (parent->last)
                parent->last->next = node;
        else
                parent->first = node;
        parent->last = node;
}

static int add(struct tree *tree, enum doc_kind kind, unsigned line, struct doc **ret) {
        struct doc *node;

        if (tree->count >= DOC_COUNT_MAX)
                return tree_error(tree, line, -E2BIG, "more than 20000 values in one document");
        node = calloc(1, sizeof(*node));
        if (!node)
                return error_set(tree->err, -ENOMEM, "out of memory");
        tree->count++;
        node->kind = kind;
        node->line = tree->key ? tree->key_line : line;
        *ret = node;
        return 0;
}

int tree_scalar(struct tree *tree, const char *text, size_t len, bool quoted, unsigned line) {
        AUTO_FREE char *copy = NULL;
        struct doc *node = NULL;
        int r;

        r = checked_text(tree, text, len, line, &copy);
        if (r == 0)
                r = add(tree, DOC_SCALAR, line, &node);
        if (r < 0)
                return r;
        assert(node);
        node->quoted = quoted;
        node->text = TAKE_PTR(copy);
        attach(tree, node);
        return 0;
}

int tree_open(struct tree *tree, enum doc_kind kind, unsigned line) {
        struct doc *node = NULL;
        int r;

        if (tree->depth >= DOC_DEPTH_MAX)
                return error_set(tree->err, -E2BIG,
                                 "%s:%u: more than %d lists and mappings inside each other", ESC(tree->name),
                                 line, DOC_DEPTH_MAX);
        r = add(tree, kind, line, &node);
        if (r < 0)
                return r;
        assert(node);
        attach(tree, node);
        tree->cur = node;
        tree->depth++;
        return 0;
}

void tree_close(struct tree *tree) {
        assert(tree->cur && !tree->key);
        tree->cur = tree->cur->parent;
        tree->depth--;
}

/* The line of the first byte that does not belong into a text file, 0: none. */
static unsigned bad_line(const char *data, size_t len) {
        unsigned line = 1;

        while (len > 0) {
                const char *nl = memchr(data, '\n', len);
                const size_t n = nl ? (size_t) (nl - data) + 1 : len;

                if (memchr(data, '\0', n) || !utf8_valid(data, n))
                        return line;
                data += n;
                len -= n;
                line++;
        }
        return 0;
}

int doc_parse(const char *name, const char *data, size_t len, bool json, struct doc **ret,
              struct error *err) {
        struct tree tree = { .name = name, .err = err };
        unsigned bad;
        int r;

        if (len > DOC_FILE_MAX)
                return error_set(err, -EFBIG, "%s: larger than %d KiB", ESC(name), DOC_FILE_MAX / 1024);
        bad = bad_line(data, len);
        if (bad)
                return error_set(err, -EINVAL, "%s:%u: not a text file in UTF-8", ESC(name), bad);
        r = json ? tree_read_json(&tree, data, len) : tree_read_yaml(&tree, data, len);
        free(tree.key);
        if (r < 0) {
                (void) doc_free(tree.root);
                return r;
        }
        *ret = tree.root;
        return 0;
}
