/*
 * rename: between allowed names it is the host's own; onto a held name the content is copied into the upper,
 * into an object that the work never had open on the host; the rest is EXDEV, and mv(1) copies
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fs/handle.h"
#include "fs/layer.h"
#include "fs/ops.h"
#include "fs/renaming.h"
#include "fs/reply.h"
#include "fs/spot.h"
#include "fs/tree.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

static void renaming_deinit(struct renaming *r) {
        spot_close(&r->from.spot);
        spot_close(&r->to.spot);
}

static int open_end(struct server *s, struct end *end, fuse_ino_t parent, const char *name) {
        int r = spot_open(s, parent, name, &end->spot);

        if (r < 0)
                return r;
        r = spot_look(&end->spot, &end->facts, &end->layer);
        end->exists = r == 0;
        return r == -ENOENT ? 0 : r;
}

/* the target's rule for what comes and for what goes, whichever is stricter */
static int admit(struct renaming *r) {
        const mode_t type = r->from.facts.st.st_mode;
        int q;

        q = r->from.where = spot_admit(&r->from.spot, type, "rename");
        if (q < 0)
                return q;
        q = r->to.where = spot_admit(&r->to.spot, type, "rename");
        if (q < 0 || !r->to.exists)
                return q < 0 ? q : 0;
        q = spot_admit(&r->to.spot, r->to.facts.st.st_mode, "rename");
        if (q == SPOT_UPPER)
                r->to.where = q;
        if (q < 0 || !(r->flags & RENAME_EXCHANGE))
                return q < 0 ? q : 0;
        q = spot_admit(&r->from.spot, r->to.facts.st.st_mode, "rename");
        if (q == SPOT_UPPER)
                r->from.where = q;
        return q < 0 ? q : 0;
}

/* ---- bookkeeping ---- */

int renaming_moved(struct renaming *r) {
        struct server *s = r->server;
        int q;

        if (r->to.exists)
                spot_gone(&r->to.spot, &r->to.facts);
        table_lock(s->table);
        q = node_move(s->table, r->from.spot.parent, r->from.spot.name, r->to.spot.parent, r->to.spot.name);
        table_unlock(s->table);
        return q;
}

int renaming_exchanged(struct renaming *r) {
        struct table *t = r->server->table;
        const struct spot *a = &r->from.spot, *b = &r->to.spot;
        struct node *x, *y;
        int q = 0;

        table_lock(t);
        x = node_child(t, a->parent, a->name);
        y = node_child(t, b->parent, b->name);
        if (x && y && x != y) {
                /* by way of a name that nothing else can have */
                q = node_move(t, a->parent, a->name, a->parent, "/");
                if (q == 0)
                        q = node_move(t, b->parent, b->name, a->parent, a->name);
                if (q == 0)
                        q = node_move(t, a->parent, "/", b->parent, b->name);
        } else if (x != y) {
                node_unname(t, a->parent, a->name, false);
                node_unname(t, b->parent, b->name, false);
        }
        table_unlock(t);
        return q;
}

/* ---- between allowed names ---- */

/* the upper's part of a directory goes along */
static int move_upper_part(struct renaming *r) {
        struct spot *a = &r->from.spot, *b = &r->to.spot;
        const int dir = spot_upper_dir(b);

        if (dir < 0)
                return dir;
        if (renameat(a->upper, a->name, dir, b->name) < 0)
                return -errno;
        upper_changed(r->server, a->parent->region);
        return 0;
}

static int exchange(struct renaming *r) {
        struct spot *a = &r->from.spot, *b = &r->to.spot;
        const bool dirs = S_ISDIR(r->from.facts.st.st_mode) || S_ISDIR(r->to.facts.st.st_mode);

        if (!r->to.exists)
                return -ENOENT;
        if (r->from.where != SPOT_LOWER || r->to.where != SPOT_LOWER || a->kind != LAYER_ABSENT ||
            b->kind != LAYER_ABSENT || (dirs && (a->states.seen != b->states.seen || !tree_same_place(a, b))))
                return -EXDEV;
        if (renameat2(a->lower, a->name, b->lower, b->name, RENAME_EXCHANGE) < 0)
                return -errno;
        if (!spot_stayed(a) || !spot_stayed(b)) {
                (void) renameat2(a->lower, a->name, b->lower, b->name, RENAME_EXCHANGE);
                return -ESTALE;
        }
        return renaming_exchanged(r);
}

static int rename_lower(struct renaming *r) {
        struct spot *a = &r->from.spot, *b = &r->to.spot;
        const bool dir = S_ISDIR(r->from.facts.st.st_mode);
        int q;

        if (dir) {
                q = tree_same_rules(a, b);
                if (q <= 0)
                        return q < 0 ? q : -EXDEV;
                if (b->kind == LAYER_DIR && (q = tree_is_empty(b)) <= 0)
                        return q < 0 ? q : -ENOTEMPTY;
        }
        if (renameat2(a->lower, a->name, b->lower, b->name, r->flags) < 0)
                return b->kind == LAYER_DIR && errno == ENOTEMPTY ? -EXDEV : -errno;
        q = !spot_stayed(b)                                                         ? -ESTALE
            : dir && a->states.seen != b->states.seen && tree_same_rules(b, a) <= 0 ? -EXDEV
                                                                                    : 0;
        if (q < 0) { /* see spot_stayed() */
                (void) renameat2(b->lower, b->name, a->lower, a->name, RENAME_NOREPLACE);
                return q;
        }
        if (dir && b->kind == LAYER_DIR && (q = tree_purge_upper(b)) < 0)
                return q;
        if (dir && a->kind == LAYER_DIR) {
                q = move_upper_part(r);
                if (q < 0) {
                        (void) renameat2(b->lower, b->name, a->lower, a->name, RENAME_NOREPLACE);
                        return q;
                }
        }
        return renaming_moved(r);
}

/* ---- onto a held name ---- */

/* a new object in the upper with what the source holds */
static int copy_source(const struct end *from, int dir, const char *temp) {
        const mode_t mode = from->facts.st.st_mode;
        AUTO_FD int fd = -1;
        struct facts opened;

        if (S_ISFIFO(mode) || S_ISSOCK(mode))
                return mknodat(dir, temp, mode & (S_IFMT | 0777), 0) < 0 ? -errno : 0;
        fd = open_beneath(from->spot.lower, from->spot.name,
                          S_ISREG(mode) ? O_RDONLY | O_NONBLOCK | O_NOCTTY : O_PATH, 0);
        if (fd < 0)
                return TAKE(fd, -1);
        if (facts_at(fd, "", &opened) < 0 || !facts_same(&opened, &from->facts))
                return -ESTALE;
        return layer_copy_up(fd, dir, temp, true);
}

/* which lower object the target's path stands for; it was recorded when the upper first replaced it */
static int origin_of_target(const struct end *to, int dir, struct layer_origin *ret) {
        struct facts lower;

        *ret = (struct layer_origin){ 0 };
        if (to->spot.kind == LAYER_FILE)
                return layer_origin_at(dir, to->spot.name, ret);
        if (to->spot.kind == LAYER_WHITEOUT)
                return layer_unwhiteout(dir, to->spot.name, ret);
        if (spot_in_lower(&to->spot, &lower))
                *ret = layer_origin_of(&lower.st);
        return 0;
}

/* the source is gone from the work's sight */
static int drop_source(struct end *from) {
        struct layer_origin origin;
        struct facts lower;
        int dir;

        if (from->where == SPOT_LOWER && from->layer == NODE_LOWER)
                return unlinkat(from->spot.lower, from->spot.name, 0) < 0 ? -errno : 0;
        if (!spot_in_lower(&from->spot, &lower))
                return 0;
        dir = spot_upper_dir(&from->spot);
        if (dir < 0)
                return dir;
        origin = layer_origin_of(&lower.st);
        return layer_whiteout(dir, from->spot.name, &origin);
}

/* the moved node is the upper object @to now; its other names keep leading to the old one */
static int settle(struct renaming *r, int dir) {
        struct server *s = r->server;
        const struct spot *to = &r->to.spot;
        struct node *node;
        struct facts facts;
        int q = renaming_moved(r);

        if (q == 0)
                q = facts_at(dir, to->name, &facts);
        if (q < 0)
                return q;
        table_lock(s->table);
        node = node_child(s->table, to->parent, to->name);
        if (node) {
                node->refs++;
                if (!S_ISDIR(node->type))
                        node_keep_name(s->table, node, node->names);
                node_rebase(s->table, node, NODE_UPPER, &facts);
                if (!S_ISDIR(node->type) && r->from.layer == NODE_LOWER)
                        node_renumber(s->table, node); /* the host gives the old one away */
        }
        table_unlock(s->table);
        if (!node)
                return 0;
        handle_repoint(node, dir, to->name);
        (void) upper_land(s, node, node->writers > 0);
        node_put(s->table, node);
        return 0;
}

static int rename_held(struct renaming *r) {
        struct end *from = &r->from, *to = &r->to;
        char temp[UPPER_TEMP_SIZE];
        const int dir = spot_upper_dir(&to->spot);
        const bool link = S_ISLNK(from->facts.st.st_mode);
        struct layer_origin origin;
        int q;

        if (dir < 0)
                return dir;
        if (to->exists && S_ISDIR(to->facts.st.st_mode))
                return -EISDIR;
        upper_temp_name(temp);
        if (from->layer == NODE_LOWER)
                q = copy_source(from, dir, temp);
        else
                q = renameat(from->spot.upper, from->spot.name, dir, temp) < 0 ? -errno : 0;
        if (q < 0)
                return q;
        q = origin_of_target(to, dir, &origin);
        if (q == 0 && !link)
                q = layer_claim(dir, temp, &origin);
        if (q == 0)
                q = renameat(dir, temp, dir, to->spot.name) < 0 ? -errno : 0;
        if (q == 0 && link) /* recorded by name */
                q = layer_claim(dir, to->spot.name, &origin);
        if (q == 0)
                q = drop_source(from);
        if (q < 0) {
                /* a copy is thrown away; what was moved goes back */
                if (from->layer == NODE_LOWER)
                        (void) unlinkat(dir, temp, 0);
                else
                        (void) renameat(dir, temp, from->spot.upper, from->spot.name);
                return q;
        }
        return settle(r, dir);
}

/* a directory that only the upper has */
static int rename_upper_dir(struct renaming *r) {
        struct end *from = &r->from, *to = &r->to;
        const int dir = spot_upper_dir(&to->spot);
        struct layer_origin origin = { 0 };
        struct facts lower;
        int q;

        if (dir < 0)
                return dir;
        if (to->exists && to->layer != NODE_UPPER)
                return -EXDEV;
        if (to->spot.kind == LAYER_WHITEOUT) {
                q = layer_unwhiteout(dir, to->spot.name, &origin);
                if (q < 0)
                        return q;
        }
        if (renameat(from->spot.upper, from->spot.name, dir, to->spot.name) < 0)
                return -errno;
        upper_changed(r->server, from->spot.parent->region);
        if (spot_in_lower(&to->spot, &lower)) {
                q = layer_set_opaque(dir, to->spot.name);
                if (q == 0)
                        q = layer_claim(dir, to->spot.name, &origin);
                if (q < 0)
                        return q;
        }
        q = drop_source(from);
        return q < 0 ? q : settle(r, dir);
}

static int dispatch(struct renaming *r) {
        const bool dir = S_ISDIR(r->from.facts.st.st_mode);

        if (!r->from.exists)
                return -ENOENT;
        if (r->to.exists && (r->flags & RENAME_NOREPLACE))
                return -EEXIST;
        if (r->to.exists && facts_same(&r->from.facts, &r->to.facts) && !(r->flags & RENAME_EXCHANGE))
                return 0; /* two names of one object: nothing is done (rename(2)) */
        if (r->to.exists && !(r->flags & RENAME_EXCHANGE))
                spot_keep(&r->to.spot, &r->to.facts, r->to.layer);
        if (server_copies(r->server, r->from.spot.parent->region))
                return shift(r);
        if (r->flags & RENAME_EXCHANGE)
                return exchange(r);
        if (r->from.where == SPOT_LOWER && r->to.where == SPOT_LOWER && r->from.layer == NODE_LOWER)
                return rename_lower(r);
        if (r->to.where != SPOT_UPPER)
                return -EXDEV; /* out of the upper: each file is judged by its new name */
        if (!dir)
                return rename_held(r);
        return r->from.layer == NODE_UPPER ? rename_upper_dir(r) : -EXDEV;
}

static int rename_entry(struct server *s, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
                        const char *new_name, unsigned int flags) {
        AUTO_TREE struct tree_hold hold = { s, 0 };
        struct renaming r = { .server = s, .flags = flags, .from.spot = SPOT_INIT, .to.spot = SPOT_INIT };
        int q;

        if (flags & ~(unsigned int) (RENAME_NOREPLACE | RENAME_EXCHANGE))
                return -EINVAL;
        if (parent == NODE_ROOT_ID || new_parent == NODE_ROOT_ID)
                return -EROFS;
        q = holds_move(s, parent, name, new_parent, new_name, &hold);
        if (q == 0)
                q = open_end(s, &r.from, parent, name);
        if (q == 0)
                q = open_end(s, &r.to, new_parent, new_name);
        if (q == 0 && r.from.spot.parent->region != r.to.spot.parent->region)
                q = -EXDEV;
        if (q == 0 && r.from.exists)
                q = admit(&r);
        if (q == 0)
                q = dispatch(&r);
        renaming_deinit(&r);
        return q;
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned int flags) {
        reply_error(req, rename_entry(fuse_req_userdata(req), parent, name, new_parent, new_name, flags));
}
