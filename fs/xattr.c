/* extended attributes: user.* only; ours and overlayfs's do not exist for the work */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/copy.h"
#include "fs/handle.h"
#include "fs/ops.h"
#include "fs/place.h"
#include "fs/reply.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"

enum { XATTR_BYTES_MAX = 65536 };

static bool starts(const char *s, const char *prefix) {
        return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool visible(const char *name) {
        return starts(name, "user.") && !starts(name, COPY_XATTR_OVERLAY);
}

/** struct xattr_at - a path that leads to the object open as @fd, whatever it was opened for */
struct xattr_at {
        int fd;
        char path[sizeof("/proc/self/fd/") + 12];
};

static int locate(struct server *s, struct node *node, bool change, struct xattr_at *ret) {
        int fd;

        if (change && S_ISDIR(node->type) && node->layer == NODE_LOWER && place_held(s, node))
                fd = upper_make_dir(s, node);
        else if (S_ISDIR(node->type) && server_copies(s, node->region) && upper_has(s, node))
                fd = upper_open_node(s, node);
        else
                fd = place_open(s, node, O_PATH);
        if (fd == -ESTALE)
                fd = change ? handle_dup_to_change(s, node) : handle_dup(s, node);
        if (fd < 0)
                return fd == -EBADF ? -ESTALE : fd;
        ret->fd = fd;
        (void) snprintf(ret->path, sizeof(ret->path), "/proc/self/fd/%d", fd);
        return 0;
}

/* symlinks have no user attributes; a path through /proc must not be followed into one */
static int check(const struct node *node, const char *name, int hidden) {
        if (starts(name, "security.") || starts(name, "trusted."))
                return hidden == -ENODATA ? -ENODATA : -EPERM;
        if (!starts(name, "user."))
                return -EOPNOTSUPP;
        if (S_ISLNK(node->type))
                return hidden == -ENODATA ? -ENODATA : -EPERM;
        return visible(name) ? 0 : hidden;
}

/** struct change - one attribute to be set, or removed: @value NULL */
struct change {
        const char *name, *value;
        size_t size;
        int flags;
};

static int change(struct server *s, struct node *node, const struct change *c) {
        AUTO_TREE struct tree_hold hold = tree_read(s, node->id);
        struct xattr_at at = { .fd = -1 };
        bool copied = false;
        int r = check(node, c->name, -EPERM);

        if (r == 0)
                r = place_admit(s, node, "setxattr");
        if (r == PLACE_COPY_UP) {
                auto_tree(&hold);
                hold = tree_write(s, node->id);
                r = upper_copy_up(s, node, true);
                copied = r == 0;
        }
        if (r == 0)
                r = locate(s, node, true, &at);
        if (r == 0 && c->value)
                r = quota_reserve(s, node->region, QUOTA_BYTES_PER_INODE, 0);
        if (r < 0) {
                at.fd = fd_close(at.fd);
                return r;
        }
        if (c->value)
                r = setxattr(at.path, c->name, c->value, c->size, c->flags);
        else
                r = removexattr(at.path, c->name);
        r = r < 0 ? -errno : 0;
        (void) fd_close(at.fd);
        if (copied)
                (void) upper_land(s, node, node->writers > 0);
        return r;
}

static void op_change(fuse_req_t req, fuse_ino_t ino, const struct change *c) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = node_get(s->table, ino);
        const int r = node ? change(s, node, c) : -EPERM;

        node_put(s->table, node);
        reply_error(req, r);
}

void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                 int flags) {
        const struct change c = { .name = name, .value = value ? value : "", .size = size, .flags = flags };

        op_change(req, ino, &c);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name) {
        const struct change c = { .name = name };

        op_change(req, ino, &c);
}

/* Return: bytes of the value, -errno */
static ssize_t get(struct server *s, struct node *node, const char *name, char *value, size_t size) {
        AUTO_TREE struct tree_hold hold = { NULL };
        struct xattr_at at = { .fd = -1 };
        ssize_t n = check(node, name, -ENODATA);

        if (n < 0)
                return n;
        hold = tree_read(s, node->id);
        n = locate(s, node, false, &at);
        if (n < 0)
                return n;
        n = getxattr(at.path, name, value, size);
        if (n < 0)
                n = -errno;
        (void) fd_close(at.fd);
        return n;
}

static void reply_bytes(fuse_req_t req, ssize_t n, const char *value, size_t size) {
        if (n < 0)
                reply_error(req, (int) n);
        else if (size == 0)
                (void) fuse_reply_xattr(req, (size_t) n);
        else if ((size_t) n > size)
                reply_error(req, -ERANGE);
        else
                (void) fuse_reply_buf(req, value, (size_t) n);
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = node_get(s->table, ino);
        AUTO_FREE char *value = NULL;
        ssize_t n = -ENODATA;

        if (size > XATTR_BYTES_MAX)
                size = XATTR_BYTES_MAX;
        if (size && !(value = malloc(size)))
                n = -ENOMEM;
        else if (node)
                n = get(s, node, name, value, size);
        node_put(s->table, node);
        reply_bytes(req, n, value, size);
}

/* keeps what the work may see. Return: bytes left */
static size_t filter(char *list, size_t len) {
        size_t kept = 0;

        for (size_t i = 0, n; i < len; i += n) {
                n = strnlen(list + i, len - i) + 1;
                if (i + n > len || !visible(list + i))
                        continue;
                memmove(list + kept, list + i, n);
                kept += n;
        }
        return kept;
}

static ssize_t names(struct server *s, struct node *node, char *list) {
        AUTO_TREE struct tree_hold hold = tree_read(s, node->id);
        struct xattr_at at = { .fd = -1 };
        ssize_t n;

        if (S_ISLNK(node->type))
                return 0;
        n = locate(s, node, false, &at);
        if (n < 0)
                return n;
        n = listxattr(at.path, list, XATTR_BYTES_MAX);
        n = n < 0 ? -errno : (ssize_t) filter(list, (size_t) n);
        (void) fd_close(at.fd);
        return n == -EOPNOTSUPP ? 0 : n;
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = node_get(s->table, ino);
        AUTO_FREE char *list = malloc(XATTR_BYTES_MAX);
        ssize_t n = 0;

        if (!list)
                n = -ENOMEM;
        else if (node)
                n = names(s, node, list);
        node_put(s->table, node);
        reply_bytes(req, n, list, size);
}
