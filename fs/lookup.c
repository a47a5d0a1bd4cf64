#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fs/attr.h"
#include "fs/ops.h"
#include "fs/place.h"
#include "fs/reply.h"
#include "fs/spot.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/parse.h"

/* the mount's root: one entry per region, named by its index; only whoever mounts it sees this */
static int lookup_region(struct server *s, const char *name, struct fuse_entry_param *e) {
        struct facts facts;
        struct node *root;
        uint64_t index;
        int r;

        if (s->config->n_regions == 0 || parse_u64(name, 0, s->config->n_regions - 1, &index) < 0)
                return -ENOENT;
        r = watch_look(s, (uint32_t) index); /* it is about to be mounted */
        if (r == 0)
                r = facts_at(s->config->regions[index].root_fd, "", &facts);
        if (r < 0)
                return r;
        root = s->table->roots[index];
        table_lock(s->table);
        root->nlookup++;
        table_unlock(s->table);
        *e = (struct fuse_entry_param){ .ino = root->id,
                                        .attr_timeout = s->timeout_s,
                                        .entry_timeout = sole_entry_s(s, (uint32_t) index) };
        if (S_ISDIR(root->type)) {
                AUTO_TREE struct tree_hold hold = tree_read(s, root->id);

                attr_merge(s, root, &facts);
        }
        attr_fill(&s->ids, &facts, root->ino, &e->attr);
        return 0;
}

/* The root may be empty because it is not what the host means by its path any more. */
static void poke(struct server *s, const struct spot *spot) {
        if (spot->parent && spot->parent == s->table->roots[spot->parent->region])
                watch_poke(s, spot->parent->region);
}

static int lookup(struct server *s, fuse_ino_t parent, const char *name, struct fuse_entry_param *e) {
        AUTO_TREE struct tree_hold hold = tree_read(s, parent);
        AUTO_SPOT struct spot spot = SPOT_INIT;
        enum node_layer layer;
        struct facts facts;
        int r = spot_open(s, parent, name, &spot);

        if (r == 0)
                r = spot_look(&spot, &facts, &layer);
        if (r == -ENOENT || r == -ESTALE)
                poke(s, &spot);
        if (r == -ENOENT) {
                *e = (struct fuse_entry_param){ .entry_timeout = s->timeout_s };
                return 0; /* the kernel remembers that there is none */
        }
        return r < 0 ? r : spot_enter(&spot, &facts, layer, e);
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name) {
        struct server *s = fuse_req_userdata(req);
        struct fuse_entry_param e;
        const int r = parent == NODE_ROOT_ID ? lookup_region(s, name, &e) : lookup(s, parent, name, &e);

        reply_entry(req, r, &e);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup) {
        struct server *s = fuse_req_userdata(req);

        node_forget(s->table, ino, nlookup);
        fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets) {
        struct server *s = fuse_req_userdata(req);

        for (size_t i = 0; i < count; i++)
                node_forget(s->table, forgets[i].ino, forgets[i].nlookup);
        fuse_reply_none(req);
}

static int read_link(struct server *s, fuse_ino_t ino, char target[PATH_MAX]) {
        AUTO_TREE struct tree_hold hold = tree_read(s, ino);
        struct node *node = node_get(s->table, ino);
        AUTO_FD int fd = -1;
        ssize_t n;

        if (!node)
                return -ESTALE;
        fd = S_ISLNK(node->type) ? place_open(s, node, O_PATH) : -EINVAL;
        node_put(s->table, node);
        if (fd < 0)
                return TAKE(fd, -1);
        n = readlinkat(fd, "", target, PATH_MAX - 1);
        if (n < 0)
                return -errno;
        target[n] = '\0';
        return 0;
}

void op_readlink(fuse_req_t req, fuse_ino_t ino) {
        char target[PATH_MAX];
        const int r = read_link(fuse_req_userdata(req), ino, target);

        if (r < 0)
                reply_error(req, r);
        else
                (void) fuse_reply_readlink(req, target);
}

void op_statfs(fuse_req_t req, fuse_ino_t ino) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = node_get(s->table, ino);
        struct statvfs st = { .f_bsize = 4096, .f_frsize = 4096, .f_namemax = NODE_NAME_MAX };
        int r = 0;

        if (node && fstatvfs(server_store(s, node->region), &st) < 0)
                r = -errno;
        node_put(s->table, node);
        if (r < 0)
                reply_error(req, r);
        else
                (void) fuse_reply_statfs(req, &st);
}
