/* names that appear: create, mknod, mkdir, symlink, link */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fs/attr.h"
#include "fs/handle.h"
#include "fs/layer.h"
#include "fs/names.h"
#include "fs/ops.h"
#include "fs/place.h"
#include "fs/reply.h"
#include "fs/spot.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

/** struct making - the object to be made */
struct making {
        const char *op;
        mode_t mode;        /* with type bits */
        const char *target; /* of a symlink */
};

static int make_at(int dir_fd, const char *name, const struct making *m) {
        int r;

        if (S_ISDIR(m->mode))
                r = mkdirat(dir_fd, name, m->mode & 07777);
        else if (S_ISLNK(m->mode) && m->target)
                r = symlinkat(m->target, dir_fd, name);
        else
                r = mknodat(dir_fd, name, m->mode, 0);
        return r < 0 ? -errno : 0;
}

static int make_in_lower(const struct spot *spot, const struct making *m) {
        int r = make_at(spot->lower, spot->name, m);

        if (r == 0 && !spot_stayed(spot)) {
                (void) unlinkat(spot->lower, spot->name, S_ISDIR(m->mode) ? AT_REMOVEDIR : 0);
                r = -ESTALE;
        }
        return r;
}

/* marks the new directory, whose mode may keep us out of it */
static int opaque_as(int dir, const char *name, mode_t mode) {
        struct stat st;
        int r;

        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || fchmodat(dir, name, 0700, 0) < 0)
                return -errno;
        r = layer_set_opaque(dir, name);
        if (r == 0 && fchmodat(dir, name, (mode & 01777) | (st.st_mode & S_ISGID), 0) < 0)
                r = -errno;
        return r;
}

/* the directory may remember another object of that name */
static int forget_name(int dir, const char *name) {
        static const struct layer_origin none = { 0 };
        const int r = layer_claim(dir, name, &none);

        return r < 0 ? r : layer_set_number(dir, name, 0, 0);
}

/* a whiteout gives way to the new object at once: nobody sees the lower through the gap */
static int make_over_whiteout(struct spot *spot, const struct making *m, int dir) {
        char temp[UPPER_TEMP_SIZE];
        struct layer_origin origin;
        struct facts lower;
        int r;

        upper_temp_name(temp);
        r = layer_origin_at(dir, spot->name, &origin);
        if (r == 0)
                r = make_at(dir, temp, m);
        if (r < 0)
                return r;
        if (S_ISDIR(m->mode) && spot_in_lower(spot, &lower))
                r = opaque_as(dir, temp, m->mode);
        if (r == 0 && renameat2(dir, temp, dir, spot->name, S_ISDIR(m->mode) ? RENAME_EXCHANGE : 0) < 0)
                r = -errno;
        if (r < 0 || S_ISDIR(m->mode)) /* what was made, or the whiteout */
                (void) unlinkat(dir, temp, r < 0 && S_ISDIR(m->mode) ? AT_REMOVEDIR : 0);
        if (r == 0 && !S_ISDIR(m->mode) && !S_ISREG(m->mode))
                r = forget_name(dir, spot->name);
        return r < 0 ? r : layer_claim(dir, spot->name, &origin);
}

/* what the upper's new object replaces is recorded: a whiteout's memory of it, or nothing */
static int make_in_upper(struct spot *spot, const struct making *m) {
        const int dir = spot_upper_dir(spot);
        int r;

        if (dir < 0)
                return dir;
        r = quota_reserve(spot->server, spot->parent->region, S_ISREG(m->mode) ? 0 : QUOTA_BYTES_PER_INODE,
                          1);
        if (r < 0)
                return r;
        r = spot->kind == LAYER_WHITEOUT ? make_over_whiteout(spot, m, dir) : make_at(dir, spot->name, m);
        if (r == 0 && S_ISDIR(m->mode))
                upper_changed(spot->server, spot->parent->region);
        if (r == 0 && spot->kind == LAYER_ABSENT && !S_ISDIR(m->mode) && !S_ISREG(m->mode))
                r = forget_name(dir, spot->name);
        return r;
}

/* fills @dir_fd, a new directory of the upper, with whiteouts for all that @lower_fd holds */
static int hide_entries(int lower_fd, int dir_fd) {
        AUTO_NAMES struct names names = { 0 };
        int r = names_read(lower_fd, &names);

        for (size_t i = 0; r == 0 && i < names.n; i++) {
                struct layer_origin origin;
                struct facts facts;

                if (facts_at(lower_fd, names.v[i], &facts) < 0)
                        continue;
                origin = layer_origin_of(&facts.st);
                r = layer_whiteout(dir_fd, names.v[i], &origin);
        }
        return r;
}

/*
 * A directory was removed inside but the host keeps it, for the held files in it. It is made again: the
 * host's directory comes back, without what was deleted.
 */
static int revive(struct spot *spot, const struct making *m) {
        char temp[UPPER_TEMP_SIZE];
        AUTO_FD int lower = open_beneath(spot->lower, spot->name, O_RDONLY | O_DIRECTORY, 0);
        AUTO_FD int fresh = -1;
        int r;

        if (lower < 0)
                return TAKE(lower, -1);
        upper_temp_name(temp);
        if (mkdirat(spot->upper, temp, 0700) < 0)
                return -errno;
        r = fresh = open_beneath(spot->upper, temp, O_RDONLY | O_DIRECTORY, 0);
        if (r >= 0)
                r = layer_dress_dir(fresh, lower);
        if (r == 0)
                r = hide_entries(lower, fresh);
        if (r == 0)
                r = layer_unwhiteout(spot->upper, spot->name, NULL);
        if (r == 0 && renameat(spot->upper, temp, spot->upper, spot->name) < 0)
                r = -errno;
        if (r < 0)
                return r;
        upper_changed(spot->server, spot->parent->region);
        spot->kind = LAYER_DIR;
        return fchmod(lower, m->mode & 0777) < 0 ? -errno : 0;
}

static bool must_revive(const struct spot *spot, const struct making *m) {
        struct facts lower;

        return S_ISDIR(m->mode) && spot->kind == LAYER_WHITEOUT && !region_kind_copies(spot->region->kind) &&
               spot_verdict(spot, m->mode).action == GUARD_ALLOW && spot_in_lower(spot, &lower) &&
               S_ISDIR(lower.st.st_mode);
}

enum { NEEDS_WRITE = 1 };

/* Copying directories up changes more than one name. Return: 0, NEEDS_WRITE (the tree is to be held for
 * writing), -errno */
static int reach(const struct spot *spot, bool exclusive) {
        return spot->upper < 0 && region_kind_copies(spot->region->kind) && !exclusive ? NEEDS_WRITE : 0;
}

/* the object at @spot: made where the rules say. @ret_layer: where that was */
static int make(struct spot *spot, const struct making *m, enum node_layer *ret_layer) {
        struct facts facts;
        enum node_layer layer;
        int r = S_ISLNK(m->mode) ? spot_admit_link(spot, m->target) : spot_admit(spot, m->mode, m->op);

        if (r < 0)
                return r;
        *ret_layer = NODE_LOWER;
        if (r == SPOT_LOWER && spot->kind == LAYER_ABSENT)
                return make_in_lower(spot, m);
        if (spot_look(spot, &facts, &layer) == 0)
                return -EEXIST;
        if (must_revive(spot, m))
                return revive(spot, m);
        if (r == SPOT_LOWER)
                return make_in_lower(spot, m);
        *ret_layer = NODE_UPPER;
        return make_in_upper(spot, m);
}

static int spot_dir(const struct spot *spot, enum node_layer layer) {
        return layer == NODE_UPPER ? spot->upper : spot->lower;
}

static int check_mode(fuse_ino_t parent, mode_t mode) {
        if (parent == NODE_ROOT_ID)
                return -EROFS;
        if (mode & (S_ISUID | S_ISGID))
                return -EPERM; /* never on the host */
        return S_ISCHR(mode) || S_ISBLK(mode) ? -EPERM : 0;
}

static int make_held(struct server *s, fuse_ino_t parent, const char *name, const struct making *m,
                     bool exclusive, struct fuse_entry_param *e) {
        AUTO_SPOT struct spot spot = SPOT_INIT;
        enum node_layer layer;
        struct facts facts;
        int r = check_mode(parent, m->mode);

        if (r == 0)
                r = spot_open(s, parent, name, &spot);
        if (r == 0)
                r = reach(&spot, exclusive);
        if (r == NEEDS_WRITE)
                return r;
        if (r == 0)
                r = make(&spot, m, &layer);
        if (r == 0)
                r = facts_at(spot_dir(&spot, layer), name, &facts);
        return r < 0 ? r : spot_enter(&spot, &facts, layer, e);
}

static int make_entry(struct server *s, fuse_ino_t parent, const char *name, const struct making *m,
                      struct fuse_entry_param *e) {
        AUTO_TREE struct tree_hold hold = tree_read(s, parent);
        int r = make_held(s, parent, name, m, false, e);

        if (r != NEEDS_WRITE)
                return r;
        auto_tree(&hold);
        hold = tree_write(s, parent);
        return make_held(s, parent, name, m, true, e);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev) {
        const struct making m = { .op = "mknod", .mode = mode & S_IFMT ? mode : mode | S_IFREG };
        struct fuse_entry_param e;

        (void) rdev;
        reply_entry(req, make_entry(fuse_req_userdata(req), parent, name, &m, &e), &e);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode) {
        /* a directory's setgid bit comes from its parent, not from here */
        const struct making m = { .op = "mkdir", .mode = S_IFDIR | (mode & 01777) };
        struct fuse_entry_param e;

        reply_entry(req, make_entry(fuse_req_userdata(req), parent, name, &m, &e), &e);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name) {
        const struct making m = { .op = "symlink", .mode = S_IFLNK | 0777, .target = target };
        struct fuse_entry_param e;

        reply_entry(req, make_entry(fuse_req_userdata(req), parent, name, &m, &e), &e);
}

/* ---- create ---- */

/** struct created - result of op_create() */
struct created {
        struct fuse_entry_param e;
        uint64_t fh;
};

static int register_open(struct spot *spot, int fd, int flags, enum node_layer layer, struct created *ret) {
        AUTO_FD int owned = fd;
        struct server *s = spot->server;
        struct facts facts;
        struct node *node;
        int r = facts_at(fd, "", &facts);

        if (r < 0)
                return r;
        if (!S_ISREG(facts.st.st_mode))
                return -ESTALE; /* not what was made: the host put something else there */
        r = spot_enter(spot, &facts, layer, &ret->e);
        if (r < 0)
                return r;
        node = node_get(s->table, ret->e.ino);
        ret->fh = node ? handle_new(s, node, fd, flags) : 0;
        node_put(s->table, node);
        if (!ret->fh) {
                node_forget(s->table, ret->e.ino, 1);
                return -ENOMEM;
        }
        (void) TAKE_FD(owned);
        return 0;
}

static int open_created(const struct spot *spot, enum node_layer layer, int flags, mode_t mode) {
        const int dir = spot_dir(spot, layer);
        int fd = open_beneath(dir, spot->name, flags, mode & 01777);

        if (fd == -EMFILE || fd == -ENFILE) {
                dirs_trim(spot->server);
                fd = open_beneath(dir, spot->name, flags, mode & 01777);
        }
        return fd;
}

/** struct creating - the request */
struct creating {
        fuse_ino_t parent;
        const char *name;
        mode_t mode;
        int flags, host_flags;
};

static int create_lower(struct spot *spot, const struct creating *c, struct created *ret) {
        int fd = open_created(spot, NODE_LOWER, c->host_flags | O_CREAT | O_EXCL, c->mode);

        if (fd >= 0 && !spot_stayed(spot)) {
                (void) unlinkat(spot->lower, spot->name, 0);
                (void) fd_close(fd);
                return -ESTALE;
        }
        return fd < 0 ? fd : register_open(spot, fd, c->flags, NODE_LOWER, ret);
}

/* the upper says nothing of the name, and takes all: made and opened in one */
static int create_copied(struct spot *spot, const struct creating *c, struct created *ret) {
        enum node_layer layer;
        struct facts facts;
        int fd, r = spot_look(spot, &facts, &layer);

        if (r != -ENOENT)
                return r < 0 ? r : -EEXIST;
        r = spot_upper_dir(spot);
        if (r >= 0)
                r = quota_reserve(spot->server, spot->parent->region, 0, 1);
        if (r < 0)
                return r;
        fd = open_created(spot, NODE_UPPER, c->host_flags | O_CREAT | O_EXCL, c->mode);
        return fd < 0 ? fd : register_open(spot, fd, c->flags, NODE_UPPER, ret);
}

/* made 0600 for the open, whatever the mode is to be */
static int create_upper(struct spot *spot, const struct creating *c, struct created *ret) {
        const struct making m = { .op = "create", .mode = S_IFREG | (c->mode & 01777) };
        AUTO_FD int object = -1;
        enum node_layer layer;
        int fd = -1, r = make(spot, &m, &layer);

        if (r == 0)
                r = object = open_created(spot, layer, O_PATH, 0);
        if (r >= 0)
                r = attr_change_mode(object, 0600);
        if (r == 0)
                r = fd = open_created(spot, layer, c->host_flags, 0);
        if (r >= 0)
                r = attr_change_mode(object, c->mode & 01777);
        if (r < 0) {
                (void) fd_close(fd);
                return r;
        }
        return register_open(spot, fd, c->flags, layer, ret);
}

/* Return: -EEXIST: it is there already, and opening it is the kernel's next request */
static int create_held(struct server *s, const struct creating *c, bool exclusive, struct created *ret) {
        AUTO_SPOT struct spot spot = SPOT_INIT;
        int r = check_mode(c->parent, c->mode & ~(mode_t) S_IFMT);

        if (r == 0)
                r = spot_open(s, c->parent, c->name, &spot);
        if (r == 0)
                r = reach(&spot, exclusive);
        if (r != 0)
                return r;
        r = spot_admit(&spot, S_IFREG, "create");
        if (r < 0)
                return r;
        if (r == SPOT_LOWER)
                return create_lower(&spot, c, ret);
        if (spot.kind == LAYER_ABSENT && region_kind_copies(spot.region->kind))
                return create_copied(&spot, c, ret);
        return create_upper(&spot, c, ret);
}

static int create(struct server *s, const struct creating *c, struct created *ret) {
        AUTO_TREE struct tree_hold hold = tree_read(s, c->parent);
        int r = create_held(s, c, false, ret);

        if (r != NEEDS_WRITE)
                return r;
        auto_tree(&hold);
        hold = tree_write(s, c->parent);
        return create_held(s, c, true, ret);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        const struct creating request = { .parent = parent,
                                          .name = name,
                                          .mode = mode,
                                          .flags = fi->flags,
                                          .host_flags = (fi->flags & O_ACCMODE) | O_NONBLOCK | O_NOCTTY };
        struct created c = { 0 };
        int r = create(s, &request, &c);

        if (r == -EEXIST && !(fi->flags & O_EXCL))
                r = -ESTALE; /* it appeared on the host: the kernel looks it up and opens it */
        if (r < 0) {
                reply_error(req, r);
                return;
        }
        fi->fh = c.fh;
        fi->keep_cache = 1;
        fi->noflush = !io_wants_flush(s, c.e.ino);
        if (fuse_reply_create(req, &c.e, fi) < 0) {
                AUTO_TREE struct tree_hold hold = tree_read(s, c.e.ino);

                handle_free(s, c.fh);
                node_forget(s->table, c.e.ino, 1);
        }
}

/* ---- link ---- */

/* a second name would lead around the rule of the first, either way */
static bool is_ruled(struct server *s, struct node *node) {
        bool ruled;

        table_lock(s->table);
        ruled = !node->names || node_verdict(s->table, node, NULL).action != GUARD_ALLOW;
        table_unlock(s->table);
        return ruled;
}

static int link_at(struct server *s, struct node *node, int dir, const char *name) {
        char path[sizeof("/proc/self/fd/") + 12];
        AUTO_FD int fd = place_open(s, node, O_PATH);

        if (fd < 0)
                return TAKE(fd, -1);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int link_lower(struct server *s, struct node *node, struct spot *spot) {
        const int r = link_at(s, node, spot->lower, spot->name);

        if (r < 0 || spot_stayed(spot))
                return r;
        (void) unlinkat(spot->lower, spot->name, 0);
        return -ESTALE;
}

/* what a symlink and the like shows as its number: the directory of any of its names knows, if we get in */
static int number_of(struct server *s, struct node *node, struct facts *ret) {
        int r = -EACCES;

        for (unsigned int i = 0; r == -EACCES || r == -ENOENT; i++) {
                struct place place = PLACE_INIT;

                r = place_find(s, node, i, &place);
                if (r == 0)
                        r = layer_get_number(place.dir_fd, place.name, &ret->shown_dev, &ret->shown_ino);
                place_done(s, &place);
        }
        return r;
}

/* the tree is held for writing */
static int link_upper(struct server *s, struct node *node, struct spot *spot) {
        struct layer_origin origin = { 0 };
        struct facts number = { 0 };
        char temp[UPPER_TEMP_SIZE];
        int dir, r = upper_copy_up(s, node, true);

        if (r < 0)
                return r;
        r = dir = spot_upper_dir(spot);
        if (r >= 0 && spot->kind == LAYER_WHITEOUT)
                r = layer_origin_at(dir, spot->name, &origin);
        if (r < 0)
                return r;
        if (!S_ISREG(node->type))
                r = number_of(s, node, &number);
        if (r < 0)
                return r;
        upper_temp_name(temp);
        r = link_at(s, node, dir, temp);
        if (r < 0)
                return r;
        if (renameat2(dir, temp, dir, spot->name, spot->kind == LAYER_ABSENT ? RENAME_NOREPLACE : 0) < 0) {
                r = -errno;
                (void) unlinkat(dir, temp, 0);
                return r;
        }
        if (!S_ISREG(node->type))
                r = layer_set_number(dir, spot->name, number.shown_dev, number.shown_ino);
        return r < 0 ? r : layer_claim(dir, spot->name, &origin);
}

static int link_node(struct server *s, struct node *node, struct spot *spot, bool exclusive) {
        enum node_layer layer;
        struct facts facts;
        int where, r = place_admit(s, node, "link");

        if (r < 0)
                return r;
        where = spot_admit(spot, node->type, "link");
        if (where < 0)
                return where;
        if (is_ruled(s, node) || spot_verdict(spot, node->type).action != GUARD_ALLOW)
                return -EPERM;
        if (where == SPOT_LOWER && node->layer == NODE_LOWER)
                return link_lower(s, node, spot);
        if (!region_kind_copies(spot->region->kind))
                return -EPERM;
        if (spot_look(spot, &facts, &layer) == 0)
                return -EEXIST;
        return exclusive ? link_upper(s, node, spot) : NEEDS_WRITE;
}

/* Return: 0, NEEDS_WRITE, -errno */
static int link_held(struct server *s, struct node *node, fuse_ino_t parent, const char *name, bool exclusive,
                     struct fuse_entry_param *e) {
        AUTO_SPOT struct spot spot = SPOT_INIT;
        enum node_layer layer;
        struct facts facts;
        int r = spot_open(s, parent, name, &spot);

        if (r < 0)
                return r;
        r = node->region == spot.parent->region ? link_node(s, node, &spot, exclusive) : -EXDEV;
        if (r != 0)
                return r;
        layer = spot.lower >= 0 && !region_kind_copies(spot.region->kind) ? NODE_LOWER : NODE_UPPER;
        r = facts_at(spot_dir(&spot, layer), name, &facts);
        if (r == 0 && layer == NODE_UPPER)
                r = spot_number(&spot, &facts);
        return r < 0 ? r : spot_enter(&spot, &facts, layer, e);
}

static int link_entry(struct server *s, fuse_ino_t ino, fuse_ino_t parent, const char *name,
                      struct fuse_entry_param *e) {
        const uint64_t parts = holds_of(s, ino) | holds_of(s, parent);
        AUTO_TREE struct tree_hold hold = holds_read(s, parts);
        struct node *node;
        int r;

        if (parent == NODE_ROOT_ID)
                return -EROFS;
        node = node_get(s->table, ino);
        if (!node)
                return -ESTALE;
        r = link_held(s, node, parent, name, false, e);
        if (r == NEEDS_WRITE) {
                auto_tree(&hold);
                hold = holds_write(s, parts);
                r = link_held(s, node, parent, name, true, e);
        }
        node_put(s->table, node);
        return r;
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name) {
        struct fuse_entry_param e;

        reply_entry(req, link_entry(fuse_req_userdata(req), ino, parent, name, &e), &e);
}
