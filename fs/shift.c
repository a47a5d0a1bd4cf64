/*
 * rename where everything goes to the upper: both ends are copied up, then it is the upper's own rename. A
 * directory that the lower has is not copied: its upper part moves, with a record (user.overlay.redirect) of
 * the lower directory that it goes on being merged with.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/layer.h"
#include "fs/renaming.h"
#include "fs/tree.h"
#include "fs/upper.h"
#include "fs/wide.h"
#include "runtime/base/cleanup.h"

static bool is_dir(const struct end *end) {
        return S_ISDIR(end->facts.st.st_mode);
}

/* the directory carries its records */
static bool is_special(const struct end *end) {
        return !is_dir(end) && !S_ISREG(end->facts.st.st_mode);
}

/* which lower object the name stands for, as far as the upper or the lower says */
static int origin_of(const struct end *end, struct layer_origin *ret) {
        const struct spot *spot = &end->spot;
        struct facts lower;

        *ret = (struct layer_origin){ 0 };
        if (spot->kind != LAYER_ABSENT && !(spot->kind == LAYER_DIR && spot->redirect))
                return layer_origin_at(spot->upper, spot->name, ret);
        if (spot_in_lower(spot, &lower))
                *ret = layer_origin_of(&lower.st);
        return 0;
}

/* where the lower has the merged directory at @end; owned */
static int lower_path(const struct end *end, char **ret) {
        struct table *t = end->spot.server->table;
        AUTO_BUF struct buf path = { 0 };
        int r;

        if (end->spot.redirect) {
                r = buf_str(&path, end->spot.redirect);
        } else {
                table_lock(t);
                r = node_lower_path(t, end->spot.parent, &path);
                table_unlock(t);
                if (r == 0 && path.len)
                        r = buf_add(&path, "/", 1);
                if (r == 0)
                        r = buf_str(&path, end->spot.name);
        }
        if (r == 0)
                *ret = buf_take(&path);
        return r;
}

/* Brings what is at @end into the upper. */
static int lift(struct end *end) {
        struct spot *spot = &end->spot;
        struct server *s = spot->server;
        struct node *node;
        int r;

        if (end->layer == NODE_UPPER)
                return 0;
        table_lock(s->table);
        node = node_child(s->table, spot->parent, spot->name);
        if (node)
                node->refs++;
        table_unlock(s->table);
        if (!node)
                return -ESTALE; /* the kernel looks names up before it renames them */
        r = node->host == end->facts.st.st_ino ? upper_copy_up(s, node, true) : -ESTALE;
        node_put(s->table, node);
        if (r == 0)
                r = spot_upper_dir(spot);
        if (r >= 0)
                r = layer_lookup(spot->upper, spot->name, &spot->kind, NULL);
        if (r == 0 && !is_dir(end)) {
                end->layer = NODE_UPPER;
                r = facts_at(spot->upper, spot->name, &end->facts);
        }
        return r;
}

/** struct moving - what happens to one object */
struct moving {
        struct end *what;
        const struct end *to;       /* where it goes */
        struct layer_origin origin; /* what its new name stands for */
        char *redirect;             /* owned; merged directory: its path in the lower */
        uint64_t dev, ino;          /* the number it shows, of what cannot carry the record */
};

static void moving_deinit(struct moving *m) {
        free(TAKE_PTR(m->redirect));
}
#define AUTO_MOVING __attribute__((cleanup(moving_deinit)))

/* Everything that can fail before the names change. */
static int prepare(struct moving *m) {
        struct facts lower;
        int r = origin_of(m->to, &m->origin);

        if (r == 0)
                r = lift(m->what);
        if (r == 0 && is_special(m->what))
                r = layer_get_number(m->what->spot.upper, m->what->spot.name, &m->dev, &m->ino);
        if (r < 0 || !is_dir(m->what))
                return r;
        if (m->what->layer == NODE_UPPER)
                return spot_in_lower(&m->to->spot, &lower)
                               ? layer_set_opaque(m->what->spot.upper, m->what->spot.name)
                               : 0;
        r = lower_path(m->what, &m->redirect);
        if (r == 0)
                r = layer_set_redirect(m->what->spot.upper, m->what->spot.name, m->redirect);
        return r == -ENOSPC || r == -ERANGE || r == -E2BIG ? -EXDEV : r;
}

/* What has to be said once the object is at its new name. Failing to say it makes a conflict at apply, no
 * more. */
static void settle(struct server *s, const struct moving *m) {
        const struct spot *at = &m->to->spot;
        struct node *node;

        (void) !layer_claim(at->upper, at->name, &m->origin);
        if (is_special(m->what))
                (void) !layer_set_number(at->upper, at->name, m->dev, m->ino);
        if (!is_dir(m->what))
                return;
        table_lock(s->table);
        node = node_child(s->table, at->parent, at->name);
        if (node && m->redirect) {
                (void) !node_redirect(s->table, node, m->redirect);
                if (!node->redirect) /* back where it came from */
                        (void) !layer_set_redirect(at->upper, at->name, NULL);
        }
        table_unlock(s->table);
}

/* a whiteout for the old name, ready to be put there; @temp is "" when none is needed */
static int prepare_whiteout(const struct end *from, char temp[UPPER_TEMP_SIZE]) {
        struct layer_origin origin;
        struct facts lower;
        bool needed = false;
        int r;

        *temp = '\0';
        if (!spot_in_lower(&from->spot, &lower))
                return 0;
        r = origin_of(from, &origin);
        if (r == 0 && origin.ino == 0)
                origin = layer_origin_of(&lower.st);
        if (r == 0)
                r = layer_needs_whiteouts(from->spot.upper, &needed);
        if (r < 0 || !needed)
                return r;
        quota_note(from->spot.server, from->spot.parent->region, 1);
        upper_temp_name(temp);
        return layer_whiteout(from->spot.upper, temp, &origin);
}

/* what a directory came in the place of: a whiteout, or an empty directory. It is at the old name now. */
static int clear_replaced(struct renaming *r) {
        struct spot *from = &r->from.spot;

        if (r->to.spot.kind == LAYER_WHITEOUT || !S_ISDIR(r->to.facts.st.st_mode))
                return unlinkat(from->upper, from->name, 0) < 0 ? -errno : 0;
        return tree_purge_upper(from);
}

/* puts a directory in the place of what its new name has in the upper */
static int swap_in(struct renaming *r) {
        const struct spot *a = &r->from.spot, *b = &r->to.spot;
        AUTO_WIDE struct wide w = WIDE_INIT; /* a directory that moves is written to: its ".." */
        int q = b->kind == LAYER_WHITEOUT ? 0 : wide_init(&w, b->upper, b->name, S_IRWXU);

        if (q == 0 && renameat2(a->upper, a->name, b->upper, b->name, RENAME_EXCHANGE) < 0)
                q = -errno;
        return q;
}

static int move(struct renaming *r) {
        AUTO_MOVING struct moving m = { .what = &r->from, .to = &r->to };
        struct spot *a = &r->from.spot, *b = &r->to.spot;
        char temp[UPPER_TEMP_SIZE];
        int q = spot_upper_dir(b);

        if (q >= 0)
                q = prepare(&m);
        if (q == 0)
                q = prepare_whiteout(&r->from, temp);
        if (q < 0)
                return q;
        if (is_dir(&r->from) && b->kind != LAYER_ABSENT) {
                q = swap_in(r);
                if (q == 0)
                        q = clear_replaced(r);
        } else {
                q = renameat(a->upper, a->name, b->upper, b->name) < 0 ? -errno : 0;
        }
        if (*temp && (q < 0 || renameat(a->upper, temp, a->upper, a->name) < 0))
                (void) unlinkat(a->upper, temp, 0);
        if (q < 0)
                return q;
        if (is_dir(&r->from))
                upper_changed(r->server, a->parent->region);
        q = renaming_moved(r);
        quota_freed(r->server);
        settle(r->server, &m);
        return q;
}

static int exchange(struct renaming *r) {
        AUTO_MOVING struct moving m = { .what = &r->from, .to = &r->to };
        AUTO_MOVING struct moving n = { .what = &r->to, .to = &r->from };
        struct spot *a = &r->from.spot, *b = &r->to.spot;
        int q = prepare(&m);

        if (q == 0)
                q = prepare(&n);
        if (q == 0 && renameat2(a->upper, a->name, b->upper, b->name, RENAME_EXCHANGE) < 0)
                q = -errno;
        if (q < 0)
                return q;
        upper_changed(r->server, a->parent->region);
        q = renaming_exchanged(r);
        settle(r->server, &m);
        settle(r->server, &n);
        return q;
}

int shift(struct renaming *r) {
        const bool swap = r->flags & RENAME_EXCHANGE;
        int q;

        if (swap && !r->to.exists)
                return -ENOENT;
        if (!swap && r->to.exists && is_dir(&r->to)) {
                q = tree_is_empty(&r->to.spot);
                if (q <= 0)
                        return q < 0 ? q : -ENOTEMPTY;
        }
        if (is_dir(&r->from)) {
                q = tree_may_move(&r->from.spot, &r->to.spot);
                if (q < 0)
                        return q;
        }
        if (swap && is_dir(&r->to)) {
                q = tree_may_move(&r->to.spot, &r->from.spot);
                if (q < 0)
                        return q;
        }
        return swap ? exchange(r) : move(r);
}
