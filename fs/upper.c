#include "fs/upper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "fs/attr.h"
#include "fs/copy.h"
#include "fs/handle.h"
#include "fs/judge.h"
#include "fs/place.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/file.h"
#include "runtime/base/sys.h"

void upper_temp_name(char ret[UPPER_TEMP_SIZE]) {
        uint64_t nonce = 0;

        /* it need not be secret: names are made with O_EXCL, in directories that only we or the host write to
         */
        if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) != sizeof(nonce))
                nonce = clock_ns();
        (void) snprintf(ret, UPPER_TEMP_SIZE, LAYER_TEMP_PREFIX "%016" PRIx64, nonce);
}

static int path_of(struct server *s, const struct node *node, struct buf *out) {
        int r;

        table_lock(s->table);
        r = node_path(s->table, node, out);
        table_unlock(s->table);
        return r;
}

int upper_open_node(struct server *s, struct node *node) {
        const struct region *region = server_region(s, node->region);
        AUTO_BUF struct buf path = { 0 };
        int r;

        if (region->upper_fd < 0)
                return -ENOENT;
        r = path_of(s, node, &path);
        if (r < 0)
                return r;
        return open_beneath_long(region->upper_fd, path.len ? path.data : ".", O_PATH | O_DIRECTORY);
}

bool upper_has(struct server *s, struct node *dir) {
        const struct upper_gauge *g = &s->gauges[dir->region];
        const uint32_t epoch = (uint32_t) g->epoch;
        bool known, has;

        if (!g->used || dir->layer == NODE_UPPER)
                return false;
        table_lock(s->table);
        known = dir->upper_epoch == epoch;
        has = dir->has_upper;
        table_unlock(s->table);
        if (!known) {
                AUTO_FD int fd = upper_open_node(s, dir);

                has = fd >= 0;
                table_lock(s->table);
                dir->has_upper = has;
                dir->upper_epoch = epoch;
                table_unlock(s->table);
        }
        return has;
}

void upper_changed(struct server *s, uint32_t region) {
        struct upper_gauge *g = &s->gauges[region];

        g->used = true;
        if ((uint32_t) ++g->epoch == 0)
                g->epoch = 1;
}

/* the directory's first name, copied; its parent is referenced */
static int first_name(struct server *s, struct node *node, struct place *ret) {
        int r = -ESTALE;

        table_lock(s->table);
        if (node->names) {
                memcpy(ret->name, node->names->text, node->names->len + 1U);
                ret->parent = node->names->parent;
                ret->parent->refs++;
                r = 0;
        }
        table_unlock(s->table);
        return r;
}

/* Copies @dir, whose upper parent is there, from the lower. Return: 0 or -errno. */
static int copy_dir(struct server *s, struct node *dir, const struct place *where, int upper_parent) {
        int fd, r = dirs_get(s, dir, &fd);

        if (r < 0)
                return r;
        r = quota_reserve(s, dir->region, QUOTA_BYTES_PER_INODE, 1);
        if (r == 0)
                r = layer_copy_up_dir(fd, upper_parent, where->name);
        dirs_put(s, dir);
        if (r == 0)
                upper_changed(s, dir->region);
        return r == -EEXIST ? -ESTALE : r; /* a file or whiteout is in the way: the host has changed */
}

/* upper_make_dir() where everything goes to the upper: each directory as it is in the lower. Recurses as deep
 * as the tree goes. */
static int make_copied(struct server *s, struct node *dir, unsigned int depth) {
        struct place where = PLACE_INIT;
        int fd = upper_open_node(s, dir), r;

        if (fd != -ENOENT || depth >= NODE_DEPTH_MAX)
                return fd;
        if (dir->layer == NODE_UPPER)
                return -ESTALE;
        r = first_name(s, dir, &where);
        if (r < 0)
                return r;
        r = fd = make_copied(s, where.parent, depth + 1);
        if (r >= 0) {
                AUTO_FD int parent = fd;

                r = copy_dir(s, dir, &where, parent);
        }
        node_put(s->table, where.parent);
        return r < 0 ? r : upper_open_node(s, dir);
}

int upper_make_dir(struct server *s, struct node *dir) {
        const struct region *region = server_region(s, dir->region);
        AUTO_BUF struct buf path = { 0 };
        int fd, r;

        if (region->upper_fd < 0 || region->is_file)
                return -EROFS;
        if (region_kind_copies(region->kind)) {
                if (!s->gauges[dir->region].used)
                        upper_changed(s, dir->region);
                return make_copied(s, dir, 0);
        }
        fd = upper_open_node(s, dir);
        if (fd >= 0) {
                if (!s->gauges[dir->region].used)
                        upper_changed(s, dir->region); /* the upper's root was there from the start */
                return fd;
        }
        r = path_of(s, dir, &path);
        if (r < 0)
                return r;
        fd = layer_open_dir(region->upper_fd, region->root_fd, buf_cstr(&path));
        if (fd >= 0)
                upper_changed(s, dir->region);
        return fd;
}

/* the name under which the strictest rule applies; its parent is referenced */
static int ruled_name(struct server *s, struct node *node, struct place *ret, enum guard_do *ret_action) {
        struct name *name = NULL;
        struct rules_verdict v;

        table_lock(s->table);
        v = node_verdict(s->table, node, &name);
        if (name) {
                memcpy(ret->name, name->text, name->len + 1U);
                ret->parent = name->parent;
                ret->parent->refs++;
        }
        table_unlock(s->table);
        *ret_action = v.action;
        return name ? 0 : -ESTALE;
}

/* the node is the upper object @name in @dir_fd from now on */
static int rebase(struct server *s, struct node *node, enum node_layer layer, int dir_fd,
                  const struct place *where) {
        struct facts facts;
        struct name *keep = NULL;
        int r = facts_at(dir_fd, where->name, &facts);

        if (r < 0)
                return r;
        table_lock(s->table);
        for (struct name *n = node->names; n; n = n->next)
                if (n->parent == where->parent && strcmp(n->text, where->name) == 0)
                        keep = n;
        if (keep)
                node_keep_name(s->table, node, keep);
        node_rebase(s->table, node, layer, &facts);
        if (layer == NODE_LOWER)
                node_renumber(s->table, node); /* the host gives the old number to what is made next */
        table_unlock(s->table);
        handle_repoint(node, dir_fd, where->name);
        return 0;
}

static int copy_up(struct server *s, struct node *node, bool with_data, const struct place *where) {
        const bool regular = S_ISREG(node->type);
        AUTO_FD int lower = place_open(s, node, regular ? O_RDONLY : O_PATH);
        AUTO_FD int dir = -1;
        int r;

        if (lower < 0)
                return TAKE(lower, -1);
        dir = upper_make_dir(s, where->parent);
        if (dir < 0)
                return TAKE(dir, -1);
        r = layer_copy_up(lower, dir, where->name, with_data);
        if (r < 0)
                return r == -EEXIST ? -ESTALE : r;
        return rebase(s, node, NODE_UPPER, dir, where);
}

/* an open file whose last name is gone: its next version needs none either */
static int copy_nameless(struct server *s, struct node *node) {
        AUTO_FD int lower = handle_dup(s, node);
        AUTO_FD int fresh = -1;
        struct facts facts;
        int r;

        if (lower < 0)
                return lower == -EBADF ? -ESTALE : TAKE(lower, -1);
        r = facts_at(lower, "", &facts);
        if (r == 0)
                r = quota_reserve(s, node->region, (uint64_t) facts.st.st_blocks * 512, 1);
        if (r < 0)
                return r;
        fresh = layer_copy_nameless(lower, server_region(s, node->region)->upper_fd);
        if (fresh < 0)
                return TAKE(fresh, -1);
        r = facts_at(fresh, "", &facts);
        if (r < 0)
                return r;
        table_lock(s->table);
        node_rebase(s->table, node, NODE_UPPER, &facts);
        table_unlock(s->table);
        handle_repoint_fd(node, fresh);
        return 0;
}

/* the other names that the work knows the file by lead to the copy too */
static void link_others(struct server *s, struct node *node, int dir_fd, const struct place *where) {
        for (unsigned int i = 0;; i++) {
                struct place other = PLACE_INIT;
                int r = place_name(s, node, i, &other);

                if (r < 0)
                        return;
                if (other.parent != where->parent || strcmp(other.name, where->name) != 0) {
                        AUTO_FD int dir = upper_make_dir(s, other.parent);

                        r = dir < 0 ? dir : layer_link_known(dir_fd, where->name, dir, other.name);
                        if (r < 0) {
                                table_lock(s->table);
                                node_unname(s->table, other.parent, other.name, false);
                                table_unlock(s->table);
                                i--;
                        }
                }
                node_put(s->table, other.parent);
        }
}

static int copy_up_named(struct server *s, struct node *node, bool with_data, const struct place *where) {
        AUTO_FD int lower = place_open(s, node, S_ISREG(node->type) ? O_RDONLY : O_PATH);
        AUTO_FD int dir = -1;
        struct facts was, facts;
        nlink_t names = 0;
        int r;

        if (lower < 0)
                return TAKE(lower, -1);
        dir = upper_make_dir(s, where->parent);
        if (dir < 0)
                return TAKE(dir, -1);
        r = facts_at(lower, "", &was);
        if (r == 0)
                r = quota_reserve(s, node->region, with_data ? (uint64_t) was.st.st_blocks * 512 : 0, 1);
        if (r == 0)
                r = layer_copy_up_quietly(lower, dir, where->name, with_data);
        if (r == 0)
                r = facts_at(dir, where->name, &facts);
        if (r < 0)
                return r == -EEXIST ? -ESTALE : r;
        link_others(s, node, dir, where);
        table_lock(s->table);
        for (const struct name *n = node->names; n; n = n->next)
                names++;
        node_rebase(s->table, node, NODE_UPPER, &facts);
        if (names < was.st.st_nlink) /* the other names keep the number, and the old content */
                node_renumber(s->table, node);
        table_unlock(s->table);
        if (names >= was.st.st_nlink)
                r = layer_set_number(dir, where->name, was.st.st_dev, was.st.st_ino);
        handle_repoint(node, dir, where->name);
        return r;
}

static int copy_up_all(struct server *s, struct node *node, bool with_data) {
        struct place where = PLACE_INIT;
        enum guard_do action;
        bool named;
        int r;

        if (S_ISDIR(node->type)) {
                AUTO_FD int fd = upper_make_dir(s, node);

                return fd < 0 ? TAKE(fd, -1) : 0;
        }
        table_lock(s->table);
        named = node->names;
        table_unlock(s->table);
        if (!named)
                return copy_nameless(s, node);
        r = ruled_name(s, node, &where, &action);
        if (r < 0)
                return r;
        r = action == GUARD_PROTECT || action == GUARD_HIDE ? -EROFS
                                                            : copy_up_named(s, node, with_data, &where);
        node_put(s->table, where.parent);
        return r;
}

int upper_copy_up(struct server *s, struct node *node, bool with_data) {
        struct place where = PLACE_INIT;
        enum guard_do action;
        int r;

        if (node->layer == NODE_UPPER)
                return 0;
        if (server_region(s, node->region)->upper_fd < 0 || server_region(s, node->region)->is_file)
                return -EROFS;
        if (server_copies(s, node->region))
                return copy_up_all(s, node, with_data);
        r = ruled_name(s, node, &where, &action);
        if (r < 0)
                return r;
        if (action == GUARD_HOLD)
                r = copy_up(s, node, with_data, &where);
        else if (action != GUARD_ALLOW)
                r = -EROFS;
        node_put(s->table, where.parent);
        return r;
}

/* ---- landing ---- */

int upper_judge_path(const struct region *region, const char *path, struct buf *out) {
        return region->base ? buf_fmt(out, "%s/%s", region->base, path) : buf_str(out, path);
}

bool upper_judges(const struct region *region, struct rules_verdict v, mode_t type, const char *path) {
        AUTO_BUF struct buf full = { 0 };

        return S_ISREG(type) && v.action == GUARD_HOLD && region->rules &&
               rules_is_builtin(region->rules, v.rule) && upper_judge_path(region, path, &full) == 0 &&
               judge_applies(buf_cstr(&full));
}

bool upper_judged(struct server *s, struct node *node) {
        AUTO_BUF struct buf path = { 0 };
        struct rules_verdict v = { 0 };
        bool held;

        /* a region that copies lands nothing by itself */
        if (!S_ISREG(node->type) || server_copies(s, node->region))
                return false;
        table_lock(s->table);
        held = node->layer == NODE_UPPER && node_path(s->table, node, &path) == 0;
        if (held)
                v = node_verdict(s->table, node, NULL);
        table_unlock(s->table);
        return held && upper_judges(server_region(s, node->region), v, node->type, buf_cstr(&path));
}

/** struct landing - one file on its way to the host */
struct landing {
        struct server *server;
        struct node *node;
        struct place where;
        int upper_dir, upper, lower_dir;
        struct facts facts; /* of the upper file */
        struct buf path, data;
};

static void landing_deinit(struct landing *l) {
        l->upper_dir = fd_close(l->upper_dir);
        l->upper = fd_close(l->upper);
        if (l->lower_dir >= 0)
                dirs_put(l->server, l->where.parent);
        node_put(l->server->table, l->where.parent);
        buf_deinit(&l->path);
        buf_deinit(&l->data);
}

static int read_upper(struct landing *l) {
        struct server *s = l->server;
        enum guard_do action;
        int r = ruled_name(s, l->node, &l->where, &action);

        if (r < 0)
                return r;
        if (l->where.parent->layer != NODE_LOWER || action != GUARD_HOLD)
                return -EPERM; /* the host has no directory to put it into */
        r = dirs_get(s, l->where.parent, &l->lower_dir);
        if (r < 0)
                return r;
        r = l->upper_dir = upper_open_node(s, l->where.parent);
        if (r < 0)
                return r;
        r = l->upper = open_beneath(l->upper_dir, l->where.name, O_RDONLY | O_NONBLOCK, 0);
        if (r < 0)
                return r;
        r = facts_at(l->upper, "", &l->facts);
        if (r < 0)
                return r;
        if (!S_ISREG(l->facts.st.st_mode) || l->facts.st.st_size > JUDGE_MAX_BYTES)
                return -EFBIG;
        r = path_of(s, l->node, &l->path);
        return r < 0 ? r : file_read(l->upper, JUDGE_MAX_BYTES, &l->data);
}

/* an edit by the host since the work took its copy must not be lost */
static bool has_conflict(const struct landing *l) {
        struct layer_origin origin;
        struct facts lower;
        int r = layer_get_origin(l->upper, &origin);

        if (r < 0)
                return true;
        r = facts_at(l->lower_dir, l->where.name, &lower);
        if (r == -ENOENT)
                return origin.ino != 0;
        return r < 0 || !S_ISREG(lower.st.st_mode) || origin.ino == 0 ||
               !layer_origin_same(&origin, &lower.st);
}

/* The bytes that were judged as @temp in @dir, in an inode that the work never had open. */
static int write_temp(const struct landing *l, int dir, const char *temp) {
        const struct timespec times[2] = { l->facts.st.st_atim, l->facts.st.st_mtim };
        AUTO_FD int fd = open_beneath(dir, temp, O_CREAT | O_EXCL | O_WRONLY, 0600);
        int r;

        if (fd < 0)
                return TAKE(fd, -1);
        r = write_all(fd, l->data.data, l->data.len);
        if (r == 0)
                r = copy_xattrs(l->upper, fd);
        if (r == 0 && (fchmod(fd, l->facts.st.st_mode & 0777) < 0 || futimens(fd, times) < 0))
                r = -errno;
        return r;
}

static int land_from(const struct landing *l, int dir) {
        char temp[UPPER_TEMP_SIZE];
        int r;

        upper_temp_name(temp);
        r = write_temp(l, dir, temp);
        if (r == 0 && renameat(dir, temp, l->lower_dir, l->where.name) < 0)
                r = -errno;
        if (r < 0 && r != -EEXIST)
                (void) unlinkat(dir, temp, 0);
        return r;
}

/*
 * Made in the upper where that is on the same file system: whoever is killed in between leaves nothing on the
 * host. A directory that gives its group to files has to make them itself. Return: 0 or -errno.
 */
static int write_fresh(const struct landing *l) {
        struct stat upper, lower;
        int r = -EXDEV;

        if (fstat(l->upper_dir, &upper) < 0 || fstat(l->lower_dir, &lower) < 0)
                return -errno;
        if (upper.st_dev == lower.st_dev && !(lower.st_mode & S_ISGID))
                r = land_from(l, l->upper_dir);
        return r == -EXDEV ? land_from(l, l->lower_dir) : r;
}

/* it landed when it was closed for the first time, and nothing was written since */
static bool has_landed(const struct landing *l) {
        AUTO_FD int fd = open_beneath(l->lower_dir, l->where.name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        AUTO_BUF struct buf data = { 0 };
        struct facts lower;

        return fd >= 0 && facts_at(fd, "", &lower) == 0 && S_ISREG(lower.st.st_mode) &&
               lower.st.st_mode == l->facts.st.st_mode && lower.st.st_size == l->facts.st.st_size &&
               lower.st.st_mtim.tv_sec == l->facts.st.st_mtim.tv_sec &&
               lower.st.st_mtim.tv_nsec == l->facts.st.st_mtim.tv_nsec &&
               file_read(fd, JUDGE_MAX_BYTES, &data) == 0 && data.len == l->data.len &&
               (data.len == 0 || memcmp(data.data, l->data.data, data.len) == 0);
}

/* directories that only led to what has landed */
static void prune(struct server *s, struct node *dir) {
        const int upper_fd = server_region(s, dir->region)->upper_fd;
        AUTO_BUF struct buf path = { 0 };
        char *slash;

        if (place_held(s, dir) || path_of(s, dir, &path) < 0)
                return;
        while (path.len) {
                slash = strrchr(path.data, '/');
                if (slash)
                        *slash = '\0';
                {
                        AUTO_FD int fd =
                                open_beneath(upper_fd, slash ? path.data : ".", O_PATH | O_DIRECTORY, 0);

                        if (fd < 0 || unlinkat(fd, slash ? slash + 1 : path.data, AT_REMOVEDIR) < 0)
                                break;
                }
                path.len = slash ? (size_t) (slash - path.data) : 0;
                upper_changed(s, dir->region);
        }
}

static void tell_held(const struct landing *l, const char *reason) {
        struct server *s = l->server;
        struct guard_notice n = { .type = NOTICE_HELD, .region = l->node->region };
        struct rules_verdict v;

        table_lock(s->table);
        v = node_verdict(s->table, l->node, NULL);
        table_unlock(s->table);
        (void) snprintf(n.rule, sizeof(n.rule), "%s", rules_text(s->rules[n.region], v.rule));
        (void) snprintf(n.op, sizeof(n.op), "%s", "judge");
        (void) snprintf(n.path, sizeof(n.path), "%s", buf_cstr(&l->path));
        (void) snprintf(n.detail, sizeof(n.detail), "%s", reason);
        notice_post(&s->notices, s->config->notice_fd, &n);
}

/* what a person has set in the host's version does not hold what the work adds to it */
static bool may_land(const struct landing *l, struct buf *reason) {
        AUTO_FD int fd = open_beneath(l->lower_dir, l->where.name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        AUTO_BUF struct buf old = { 0 };
        AUTO_BUF struct buf path = { 0 };
        const bool known = fd >= 0 && file_read(fd, JUDGE_MAX_BYTES, &old) == 0;

        if (upper_judge_path(server_region(l->server, l->node->region), buf_cstr(&l->path), &path) < 0)
                return false;
        return judge_change(l->server->hosts[l->node->region], buf_cstr(&path), buf_cstr(&old),
                            known ? old.len : 0, l->data.data ? l->data.data : "", l->data.len, reason);
}

static int land(struct landing *l, bool keep) {
        struct server *s = l->server;
        AUTO_BUF struct buf reason = { 0 };
        struct layer_origin origin;
        struct facts lower;
        int r;

        if (!may_land(l, &reason)) {
                tell_held(l, buf_cstr(&reason));
                return -EPERM;
        }
        if (has_conflict(l)) {
                tell_held(l, "changed on the host meanwhile");
                return -EBUSY;
        }
        r = has_landed(l) ? 0 : write_fresh(l);
        if (r < 0)
                return r;
        if (!keep) {
                (void) unlinkat(l->upper_dir, l->where.name, 0);
                r = rebase(s, l->node, NODE_LOWER, l->lower_dir, &l->where);
                prune(s, l->where.parent);
                return r;
        }
        r = facts_at(l->lower_dir, l->where.name, &lower);
        if (r < 0)
                return r;
        origin = layer_origin_of(&lower.st);
        return layer_set_origin(l->upper, &origin);
}

bool upper_land(struct server *s, struct node *node, bool keep) {
        struct landing l = {
                .server = s, .node = node, .where = PLACE_INIT, .upper_dir = -1, .upper = -1, .lower_dir = -1
        };
        int r;

        if (!upper_judged(s, node))
                return false;
        r = read_upper(&l);
        if (r == 0)
                r = land(&l, keep);
        landing_deinit(&l);
        return r == 0;
}
