#include "fs/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "fs/admit.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

enum { NAMES_TRIED = 16 };

static bool is_root(const struct server *s, const struct node *node) {
        return node == s->table->roots[node->region];
}

static bool nth_name(struct table *t, const struct node *node, unsigned int nth, struct place *ret) {
        const struct name *n;

        table_lock(t);
        n = node->names;
        while (n && nth--)
                n = n->next;
        if (n) {
                memcpy(ret->name, n->text, n->len + 1U);
                ret->parent = n->parent;
                n->parent->refs++;
        }
        table_unlock(t);
        return n;
}

int place_name(struct server *s, struct node *node, unsigned int nth, struct place *ret) {
        return nth_name(s->table, node, nth, ret) ? 0 : -ESTALE;
}

int place_find(struct server *s, struct node *node, unsigned int nth, struct place *ret) {
        int r;

        if (!nth_name(s->table, node, nth, ret))
                return -ESTALE;
        if (node->layer == NODE_UPPER && ret->parent->layer == NODE_LOWER) {
                r = upper_open_node(s, ret->parent);
                if (r >= 0) {
                        ret->dir_fd = r;
                        ret->owned = true;
                        return 0;
                }
        } else {
                r = dirs_get(s, ret->parent, &ret->dir_fd);
                if (r == 0)
                        return 0;
        }
        node_put(s->table, TAKE_PTR(ret->parent));
        return r;
}

void place_done(struct server *s, struct place *place) {
        if (!place->parent)
                return;
        if (place->owned)
                (void) fd_close(place->dir_fd);
        else
                dirs_put(s, place->parent);
        node_put(s->table, place->parent);
        *place = (struct place) PLACE_INIT;
}

static bool is_object(const struct node *node, const struct facts *f) {
        return node->dev == f->st.st_dev && node->host == f->st.st_ino &&
               node->type == (f->st.st_mode & S_IFMT) &&
               (!node->btime_ns || !f->btime_ns || node->btime_ns == f->btime_ns);
}

/* no further names; the directory of one may be closed to us and another's not */
static bool is_end(int r) {
        return r == -ESTALE;
}

int place_look(struct server *s, struct node *node, struct facts *ret) {
        bool closed = false;
        int r;

        if (is_root(s, node))
                return facts_at(server_region(s, node->region)->root_fd, "", ret);
        for (unsigned int i = 0; i < NAMES_TRIED; i++) {
                struct place place = PLACE_INIT;

                r = place_find(s, node, i, &place);
                if (r == 0) {
                        r = facts_at(place.dir_fd, place.name, ret);
                        if (r == 0 && !is_object(node, ret))
                                r = -ENOENT;
                }
                place_done(s, &place);
                if (r == -EACCES)
                        closed = true;
                else if (r != -ENOENT && r != -ENOTDIR)
                        return is_end(r) && closed ? -EACCES : r;
        }
        return closed ? -EACCES : -ESTALE;
}

/* what an O_PATH descriptor of a regular file or directory stands for: through the descriptor, not by a path
 */
static int reopen(int fd, int flags) {
        char path[sizeof("/proc/self/fd/") + 12];
        int r;

        if (flags & O_PATH)
                return (r = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0 ? -errno : r;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        r = open(path, flags | O_CLOEXEC);
        return r < 0 ? -errno : r;
}

static int open_named(struct server *s, struct node *node, unsigned int nth, int flags) {
        struct place place = PLACE_INIT;
        AUTO_FD int fd = -1;
        struct facts facts;
        int r = place_find(s, node, nth, &place);

        if (r == 0)
                r = fd = open_beneath(place.dir_fd, place.name, flags, 0);
        place_done(s, &place);
        if (r < 0) {
                fd = -1;
                return r == -ELOOP ? -ENOENT : r; /* a symlink is there now */
        }
        r = facts_at(fd, "", &facts);
        if (r < 0)
                return r;
        return is_object(node, &facts) ? TAKE_FD(fd) : -ENOENT;
}

int place_open(struct server *s, struct node *node, int flags) {
        bool closed = false;
        int fd, r;

        /* O_NONBLOCK: a FIFO that the host put there must not hang the server */
        flags |= O_NOFOLLOW | (flags & O_PATH ? 0 : O_NONBLOCK | O_NOCTTY);
        if (S_ISDIR(node->type)) {
                r = dirs_get(s, node, &fd);
                if (r < 0)
                        return r;
                r = reopen(fd, flags & ~O_NOFOLLOW); /* "." could not be reached where its x bit is missing */
                if (!is_root(s, node))
                        dirs_put(s, node);
                return r;
        }
        if (is_root(s, node)) {
                r = flags & O_PATH ? -EBADF : watch_open(s, node->region, flags);
                return r == -EBADF ? reopen(server_region(s, node->region)->root_fd, flags & ~O_NOFOLLOW) : r;
        }
        for (unsigned int i = 0; i < NAMES_TRIED; i++) {
                r = open_named(s, node, i, flags);
                if (r == -EMFILE || r == -ENFILE) {
                        dirs_trim(s);
                        r = open_named(s, node, i, flags);
                }
                if (r == -EACCES)
                        closed = true;
                else if (r != -ENOENT && r != -ENOTDIR)
                        return is_end(r) && closed ? -EACCES : r;
        }
        return closed ? -EACCES : -ESTALE;
}

bool place_held(struct server *s, struct node *node) {
        bool held;

        if (server_copies(s, node->region))
                return true;
        table_lock(s->table);
        held = node_verdict(s->table, node, NULL).action == GUARD_HOLD;
        table_unlock(s->table);
        return held;
}

/* what the work sees of a refusal or hold goes to the supervisor too */
static void tell(struct server *s, struct node *node, struct rules_verdict v, enum guard_notice_type type,
                 const char *op) {
        const struct region *region = server_region(s, node->region);
        struct guard_notice n = { .type = type, .region = node->region };
        AUTO_BUF struct buf path = { 0 };
        int r;

        table_lock(s->table);
        r = node_path(s->table, node, &path);
        table_unlock(s->table);
        if (r < 0 || (type == NOTICE_HELD && upper_judges(region, v, node->type, buf_cstr(&path))))
                return;
        (void) snprintf(n.op, sizeof(n.op), "%s", op);
        (void) snprintf(n.rule, sizeof(n.rule), "%s", region->rules ? rules_text(region->rules, v.rule) : "");
        (void) snprintf(n.path, sizeof(n.path), "%s", buf_cstr(&path));
        notice_post(&s->notices, s->config->notice_fd, &n);
}

int place_admit(struct server *s, struct node *node, const char *op) {
        const struct region *region = server_region(s, node->region);
        struct rules_verdict v;
        bool named;
        int r;

        if (region->kind == REGION_RO)
                return -EROFS;
        table_lock(s->table);
        v = node_verdict(s->table, node, NULL);
        named = node->names;
        table_unlock(s->table);
        if (!named && !is_root(s, node))
                return S_ISDIR(node->type)                                             ? -ENOENT
                       : node->layer == NODE_LOWER && region_kind_copies(region->kind) ? PLACE_COPY_UP
                                                                                       : PLACE_AS_IS;
        /* as it is: see handle_dup_to_change() */
        r = admit_change(region->kind, region->upper_fd >= 0 && !region->is_file, v.action);
        if (r < 0) {
                tell(s, node, v, NOTICE_DENIED, op);
                return r;
        }
        if (r == ADMIT_LOWER || (node->layer == NODE_UPPER && !S_ISDIR(node->type)))
                return PLACE_AS_IS;
        if (r == ADMIT_HELD)
                tell(s, node, v, NOTICE_HELD, op);
        if (S_ISDIR(node->type))
                return node->layer == NODE_LOWER && region_kind_copies(region->kind) && !upper_has(s, node)
                               ? PLACE_COPY_UP
                               : PLACE_AS_IS;
        return PLACE_COPY_UP;
}
