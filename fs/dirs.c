#include "fs/dirs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/server.h"
#include "fs/streams.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

static void lru_del(struct dirs *d, struct dir_fd *e) {
        *(e->prev ? &e->prev->next : &d->first) = e->next;
        *(e->next ? &e->next->prev : &d->last) = e->prev;
        e->prev = e->next = NULL;
        d->n--;
}

static void lru_add(struct dirs *d, struct dir_fd *e) {
        e->next = d->first;
        if (d->first)
                d->first->prev = e;
        d->first = e;
        if (!d->last)
                d->last = e;
        d->n++;
}

static void bury(struct table *t, struct dir_fd *e) {
        lru_del(&t->dirs, e);
        e->node->dir = NULL;
        e->node = NULL;
        e->next = t->dead;
        t->dead = e;
}

void dirs_drop(struct table *t, struct node *node) {
        if (node->dir && !node->dir->use)
                bury(t, node->dir);
}

void dirs_close(struct dir_fd *dead) {
        while (dead) {
                struct dir_fd *next = dead->next;

                (void) fd_close(dead->fd);
                free(dead);
                dead = next;
        }
}

static void evict(struct table *t, size_t max) {
        for (struct dir_fd *e = t->dirs.last, *prev; e && t->dirs.n > max; e = prev) {
                prev = e->prev;
                if (!e->use)
                        bury(t, e);
        }
}

void dirs_trim(struct server *s) {
        table_lock(s->table);
        evict(s->table, 0);
        table_unlock(s->table);
        streams_trim(s->streams);
}

/* the region's root is pinned by the caller of guard_serve() and needs no entry */
static bool cached(struct server *s, struct node *node, int *ret_fd) {
        struct table *t = s->table;

        if (node == t->roots[node->region]) {
                *ret_fd = server_region(s, node->region)->root_fd;
                return true;
        }
        if (!node->dir)
                return false;
        if (t->dirs.first != node->dir) {
                lru_del(&t->dirs, node->dir);
                lru_add(&t->dirs, node->dir);
        }
        node->dir->use++;
        *ret_fd = node->dir->fd;
        return true;
}

static int install(struct server *s, struct node *node, int fd, int *ret_fd) {
        AUTO_FD int owned = fd;
        struct dir_fd *e = calloc(1, sizeof(*e));
        struct table *t = s->table;

        if (!e)
                return -ENOMEM;
        table_lock(t);
        if (cached(s, node, ret_fd)) { /* another thread was faster */
                table_unlock(t);
                free(e);
                return 0;
        }
        *e = (struct dir_fd){ .fd = TAKE_FD(owned), .use = 1, .node = node };
        node->dir = e;
        lru_add(&t->dirs, e);
        evict(t, t->dirs.max);
        table_unlock(t);
        *ret_fd = e->fd;
        return 0;
}

static bool is_backing(struct table *t, const struct node *node, const struct facts *f) {
        bool same;

        table_lock(t);
        same = node->dev == f->st.st_dev && node->host == f->st.st_ino &&
               (!node->btime_ns || !f->btime_ns || node->btime_ns == f->btime_ns);
        table_unlock(t);
        return same;
}

/* the first name of a directory, copied out of the table; its parent is referenced */
static int first_name(struct table *t, const struct node *node, char name[NODE_NAME_MAX + 1],
                      struct node **ret_parent) {
        int r = -ESTALE;

        table_lock(t);
        if (node->names) {
                for (size_t i = 0; i <= node->names->len; i++)
                        name[i] = node->names->text[i];
                *ret_parent = node->names->parent;
                (*ret_parent)->refs++;
                r = 0;
        }
        table_unlock(t);
        return r;
}

static int get(struct server *s, struct node *node, unsigned int depth, int *ret_fd);

/* where the lower has a directory that was renamed; owned, NULL: where its name says */
static char *redirect_of(struct table *t, const struct node *node) {
        char *copy;

        table_lock(t);
        copy = node->redirect ? strdup(node->redirect) : NULL;
        table_unlock(t);
        return copy;
}

/* opens a directory of the lower beneath its parent, or where it was before it was renamed */
static int open_lower(struct server *s, struct node *node, unsigned int depth) {
        char name[NODE_NAME_MAX + 1];
        AUTO_FREE char *redirect = redirect_of(s->table, node);
        struct node *parent = NULL;
        int parent_fd, fd;
        int r;

        if (redirect) {
                r = open_beneath_long(server_region(s, node->region)->root_fd, redirect,
                                      O_PATH | O_DIRECTORY);
                return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? -ESTALE : r;
        }
        r = first_name(s->table, node, name, &parent);
        if (r < 0)
                return r;
        r = get(s, parent, depth + 1, &parent_fd);
        if (r == 0) {
                fd = open_beneath(parent_fd, name, O_PATH | O_DIRECTORY, 0);
                dirs_put(s, parent);
                r = fd;
        }
        node_put(s->table, parent);
        return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? -ESTALE : r;
}

static int get(struct server *s, struct node *node, unsigned int depth, int *ret_fd) {
        AUTO_FD int fd = -1;
        struct facts facts;
        bool hit;
        int r;

        table_lock(s->table);
        hit = cached(s, node, ret_fd);
        table_unlock(s->table);
        if (hit)
                return 0;
        if (depth >= NODE_DEPTH_MAX)
                return -ELOOP;
        fd = node->layer == NODE_UPPER ? upper_open_node(s, node) : open_lower(s, node, depth);
        if (fd < 0)
                return TAKE(fd, -1);
        r = facts_at(fd, "", &facts);
        if (r < 0)
                return r;
        if (!is_backing(s->table, node, &facts))
                return -ESTALE;
        sole_watch(s, node, fd);
        return install(s, node, TAKE_FD(fd), ret_fd);
}

int dirs_get(struct server *s, struct node *node, int *ret_fd) {
        if (!S_ISDIR(node->type))
                return -ENOTDIR;
        return get(s, node, 0, ret_fd);
}

void dirs_put(struct server *s, struct node *node) {
        table_lock(s->table);
        if (node->dir && node->dir->use)
                node->dir->use--;
        table_unlock(s->table);
}

void dirs_keep(struct server *s, struct node *node, int fd) {
        int unused;

        if (install(s, node, fd, &unused) == 0)
                dirs_put(s, node);
}

int dirs_kept(struct server *s, struct node *node) {
        int fd = -EBADF;

        table_lock(s->table);
        if (node->dir && !S_ISDIR(node->type))
                fd = fcntl(node->dir->fd, F_DUPFD_CLOEXEC, 3);
        if (fd == -1)
                fd = -errno;
        table_unlock(s->table);
        return fd;
}
