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

/* what the upper's new object replaces is recorded: a whiteout's memory of it, or nothing */
static int make_in_upper(struct spot *spot, const struct making *m) {
        struct layer_origin origin = { 0 };
        struct facts lower;
        const int dir = spot_upper_dir(spot);
        int r;

        if (dir < 0)
                return dir;
        if (spot->kind == LAYER_WHITEOUT) {
                r = layer_unwhiteout(dir, spot->name, &origin);
                if (r < 0)
                        return r;
        }
        r = make_at(dir, spot->name, m);
        if (r < 0)
                return r;
        if (S_ISDIR(m->mode)) {
                if (spot_in_lower(spot, &lower))
                        r = layer_set_opaque(dir, spot->name);
                upper_changed(spot->server, spot->parent->region);
        }
        return r < 0 ? r : layer_claim(dir, spot->name, &origin);
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

        return S_ISDIR(m->mode) && spot->kind == LAYER_WHITEOUT &&
               spot_verdict(spot, m->mode).action == GUARD_ALLOW && spot_in_lower(spot, &lower) &&
               S_ISDIR(lower.st.st_mode);
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

static int make_entry(struct server *s, fuse_ino_t parent, const char *name, const struct making *m,
                      struct fuse_entry_param *e) {
        AUTO_TREE struct tree_hold hold = tree_read(s);
        AUTO_SPOT struct spot spot = SPOT_INIT;
        enum node_layer layer;
        struct facts facts;
        int r = check_mode(parent, m->mode);

        if (r == 0)
                r = spot_open(s, parent, name, &spot);
        if (r == 0)
                r = make(&spot, m, &layer);
        if (r == 0)
                r = facts_at(spot_dir(&spot, layer), name, &facts);
        return r < 0 ? r : spot_enter(&spot, &facts, layer, e);
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
        int fd = open_beneath(dir, spot->name, flags, mode & 0777);

        if (fd == -EMFILE || fd == -ENFILE) {
                dirs_trim(spot->server);
                fd = open_beneath(dir, spot->name, flags, mode & 0777);
        }
        return fd;
}

/* Return: -EEXIST: it is there already, and opening it is the kernel's next request */
static int create(struct server *s, fuse_ino_t parent, const char *name, mode_t mode, int flags,
                  struct created *ret) {
        AUTO_TREE struct tree_hold hold = tree_read(s);
        AUTO_SPOT struct spot spot = SPOT_INIT;
        const struct making m = { .op = "create", .mode = S_IFREG | (mode & 0777) };
        const int host_flags = handle_flags(s, flags) | O_NONBLOCK | O_NOCTTY;
        enum node_layer layer = NODE_LOWER;
        int fd, r = check_mode(parent, mode & ~(mode_t) S_IFMT);

        if (r == 0)
                r = spot_open(s, parent, name, &spot);
        if (r < 0)
                return r;
        r = spot_admit(&spot, S_IFREG, "create");
        if (r == SPOT_LOWER) {
                fd = open_created(&spot, NODE_LOWER, host_flags | O_CREAT | O_EXCL, mode);
                if (fd >= 0 && !spot_stayed(&spot)) {
                        (void) unlinkat(spot.lower, name, 0);
                        (void) fd_close(fd);
                        return -ESTALE;
                }
                return fd < 0 ? fd : register_open(&spot, fd, flags, NODE_LOWER, ret);
        }
        if (r >= 0)
                r = make(&spot, &m, &layer);
        if (r < 0)
                return r;
        /* made 0600 for the open, whatever the mode is to be */
        fd = open_created(&spot, layer, O_PATH, 0);
        if (fd < 0)
                return fd;
        {
                AUTO_FD int object = fd;

                r = attr_change_mode(object, 0600);
                fd = r < 0 ? r : open_created(&spot, layer, host_flags, 0);
                if (fd >= 0)
                        r = attr_change_mode(object, mode & 0777);
        }
        if (fd < 0 || r < 0) {
                (void) fd_close(fd);
                return fd < 0 ? fd : r;
        }
        return register_open(&spot, fd, flags, layer, ret);
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        struct created c = { 0 };
        int r = create(s, parent, name, mode, fi->flags, &c);

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
                AUTO_TREE struct tree_hold hold = tree_read(s);

                handle_free(s, c.fh);
                node_forget(s->table, c.e.ino, 1);
        }
}

/* ---- link ---- */

static int link_node(struct server *s, struct node *node, struct spot *spot) {
        char path[sizeof("/proc/self/fd/") + 12];
        AUTO_FD int fd = -1;
        bool plain;
        int r = place_admit(s, node, "link");

        if (r < 0)
                return r;
        table_lock(s->table);
        plain = node->layer == NODE_LOWER && node->names &&
                node_verdict(s->table, node, NULL).action == GUARD_ALLOW;
        table_unlock(s->table);
        r = spot_admit(spot, node->type, "link");
        if (r < 0)
                return r;
        /* a second name would lead around the rule of the first, either way */
        if (!plain || r != SPOT_LOWER)
                return -EPERM;
        fd = place_open(s, node, O_PATH);
        if (fd < 0)
                return TAKE(fd, -1);
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (linkat(AT_FDCWD, path, spot->lower, spot->name, AT_SYMLINK_FOLLOW) < 0)
                return -errno;
        if (spot_stayed(spot))
                return 0;
        (void) unlinkat(spot->lower, spot->name, 0);
        return -ESTALE;
}

static int link_entry(struct server *s, fuse_ino_t ino, fuse_ino_t parent, const char *name,
                      struct fuse_entry_param *e) {
        AUTO_TREE struct tree_hold hold = tree_read(s);
        AUTO_SPOT struct spot spot = SPOT_INIT;
        struct node *node;
        struct facts facts;
        int r;

        if (parent == NODE_ROOT_ID)
                return -EROFS;
        r = spot_open(s, parent, name, &spot);
        if (r < 0)
                return r;
        node = node_get(s->table, ino);
        if (!node)
                return -ESTALE;
        r = node->region == spot.parent->region ? link_node(s, node, &spot) : -EXDEV;
        node_put(s->table, node);
        if (r == 0)
                r = facts_at(spot.lower, name, &facts);
        return r < 0 ? r : spot_enter(&spot, &facts, NODE_LOWER, e);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name) {
        struct fuse_entry_param e;

        reply_entry(req, link_entry(fuse_req_userdata(req), ino, parent, name, &e), &e);
}
