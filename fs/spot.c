#include "fs/spot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/admit.h"
#include "fs/attr.h"
#include "fs/judge.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

static int check_name(const char *name) {
        const size_t len = strlen(name);

        if (len == 0 || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return -EINVAL;
        return len > NODE_NAME_MAX ? -ENAMETOOLONG : 0;
}

static int find_state(struct spot *spot) {
        struct table *t = spot->server->table;
        struct rules *rules = spot->region->rules;
        struct node_states dir = { RULES_ROOT, RULES_ROOT };
        int r;

        if (!rules)
                return 0;
        table_lock(t);
        r = node_states(t, spot->parent, &dir);
        table_unlock(t);
        if (r == 0)
                spot->states = states_step(rules, dir, spot->name, strlen(spot->name));
        return r;
}

struct rules_verdict spot_verdict(const struct spot *spot, mode_t type) {
        return states_verdict(spot->region->rules, spot->states, type);
}

static int open_dirs(struct spot *spot) {
        struct server *s = spot->server;
        int r;

        if (spot->parent->layer == NODE_UPPER)
                return dirs_get(s, spot->parent, &spot->upper);
        r = dirs_get(s, spot->parent, &spot->lower);
        if (r < 0 || !upper_has(s, spot->parent))
                return r;
        r = upper_open_node(s, spot->parent);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        spot->upper = r;
        spot->upper_owned = true;
        return 0;
}

/* a record that says nonsense leads nowhere: the directory is the upper's alone */
static int read_redirect(struct spot *spot) {
        AUTO_FREE char *raw = NULL;
        AUTO_BUF struct buf path = { 0 };
        int r = layer_get_redirect(spot->upper, spot->name, &raw);

        if (r == -EBADMSG)
                spot->kind = LAYER_OPAQUE_DIR;
        if (r < 0 || !raw)
                return r == -EBADMSG || r == -EACCES ? 0 : r;
        if (*raw != '/' && spot->parent->layer == NODE_UPPER)
                return 0; /* next to nothing */
        if (*raw != '/') {
                table_lock(spot->server->table);
                r = node_lower_path(spot->server->table, spot->parent, &path);
                table_unlock(spot->server->table);
        }
        if (r == 0 && path.len)
                r = buf_add(&path, "/", 1);
        if (r == 0)
                r = buf_str(&path, raw + (*raw == '/'));
        if (r < 0)
                return r;
        spot->redirect = buf_take(&path);
        if (spot->region->rules)
                spot->states.lower = rules_at(spot->region->rules, spot->redirect);
        return 0;
}

int spot_open(struct server *s, uint64_t parent_id, const char *name, struct spot *ret) {
        int r;

        ret->server = s;
        ret->name = name;
        r = check_name(name);
        if (r < 0)
                return r;
        ret->parent = node_get(s->table, parent_id);
        if (!ret->parent)
                return -ESTALE;
        ret->region = server_region(s, ret->parent->region);
        r = find_state(ret);
        if (r < 0)
                return r;
        r = open_dirs(ret);
        if (r < 0 || ret->upper < 0)
                return r;
        r = layer_lookup(ret->upper, name, &ret->kind, NULL);
        return r == 0 && ret->kind == LAYER_DIR && region_kind_copies(ret->region->kind) ? read_redirect(ret)
                                                                                         : r;
}

void spot_close(struct spot *spot) {
        if (!spot->parent)
                return;
        if (spot->upper_owned)
                spot->upper = fd_close(spot->upper);
        if (spot->lower >= 0 || spot->upper >= 0)
                dirs_put(spot->server, spot->parent);
        free(spot->redirect);
        node_put(spot->server->table, spot->parent);
        *spot = (struct spot) SPOT_INIT;
}

bool spot_in_lower(const struct spot *spot, struct facts *ret) {
        return spot->lower >= 0 && facts_at(spot->lower, spot->name, ret) == 0;
}

/* whether the upper directory of that name is merged with one of the lower. @ret: that one */
static bool merges(const struct spot *spot, struct facts *ret) {
        if (spot->redirect) {
                AUTO_FD int fd =
                        open_beneath_long(spot->region->root_fd, spot->redirect, O_PATH | O_DIRECTORY);

                return fd >= 0 && facts_at(fd, "", ret) == 0;
        }
        return spot_in_lower(spot, ret) && S_ISDIR(ret->st.st_mode);
}

int spot_open_lower(const struct spot *spot) {
        if (spot->redirect)
                return open_beneath_long(spot->region->root_fd, spot->redirect, O_RDONLY | O_DIRECTORY);
        return spot->lower < 0 ? -ENOENT : open_beneath(spot->lower, spot->name, O_RDONLY | O_DIRECTORY, 0);
}

static int look(const struct spot *spot, struct facts *ret, enum node_layer *ret_layer) {
        int r;

        *ret_layer = NODE_UPPER;
        if (spot->kind == LAYER_FILE || spot->kind == LAYER_OPAQUE_DIR)
                return facts_at(spot->upper, spot->name, ret);
        if (spot->kind == LAYER_DIR && !merges(spot, ret))
                return facts_at(spot->upper, spot->name, ret);
        *ret_layer = NODE_LOWER;
        if (spot->kind == LAYER_DIR)
                return 0; /* merged; @ret is filled already */
        if (spot->kind == LAYER_WHITEOUT || spot->lower < 0)
                return -ENOENT;
        r = facts_at(spot->lower, spot->name, ret);
        return r == -ENOTDIR ? -ENOENT : r;
}

int spot_number(const struct spot *spot, struct facts *facts) {
        if (S_ISDIR(facts->st.st_mode) || !region_kind_copies(spot->region->kind))
                return 0;
        return layer_get_number(spot->upper, spot->name, &facts->shown_dev, &facts->shown_ino);
}

int spot_look(const struct spot *spot, struct facts *ret, enum node_layer *ret_layer) {
        int r = look(spot, ret, ret_layer);

        if (r == 0 && *ret_layer == NODE_UPPER)
                r = spot_number(spot, ret);
        if (r == 0 && spot_verdict(spot, ret->st.st_mode).action == GUARD_HIDE)
                return -ENOENT;
        return r;
}

/* Return: length of the path of the object open as @fd, as the host has it now; -errno */
static ssize_t path_now(int fd, char path[PATH_MAX]) {
        char link[sizeof("/proc/self/fd/") + 12];
        ssize_t n;

        (void) snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, PATH_MAX - 1);
        if (n < 0)
                return -errno;
        path[n] = '\0';
        return n;
}

bool spot_stayed(const struct spot *spot) {
        struct table *t = spot->server->table;
        AUTO_BUF struct buf path = { 0 };
        char root[PATH_MAX], now[PATH_MAX];
        ssize_t n, len;
        int r;

        if (!spot->region->rules || spot->parent == t->roots[spot->parent->region])
                return true;
        len = path_now(spot->lower, now);
        if (len == -ENAMETOOLONG)
                return true; /* no path leads there, and no rule */
        n = path_now(spot->region->root_fd, root);
        if (len < 0 || n < 0)
                return false;
        table_lock(t);
        r = node_path(t, spot->parent, &path);
        table_unlock(t);
        n -= n == 1; /* the root of the host */
        return r == 0 && strncmp(now, root, (size_t) n) == 0 && now[n] == '/' &&
               strcmp(now + n + 1, buf_cstr(&path)) == 0;
}

int spot_path(const struct spot *spot, struct buf *out) {
        struct table *t = spot->server->table;
        size_t before = out->len;
        int r;

        table_lock(t);
        r = node_path(t, spot->parent, out);
        table_unlock(t);
        if (r == 0 && out->len > before)
                r = buf_str(out, "/");
        return r < 0 ? r : buf_str(out, spot->name);
}

/* what the judge decides about is told when it has decided */
static void tell(const struct spot *spot, struct rules_verdict v, mode_t mode, enum guard_notice_type type,
                 const char *op) {
        AUTO_BUF struct buf path = { 0 };
        struct guard_notice n = { .type = type, .region = spot->parent->region };

        if (spot_path(spot, &path) < 0 ||
            (type == NOTICE_HELD && upper_judges(spot->region, v, mode, buf_cstr(&path))))
                return;
        (void) snprintf(n.op, sizeof(n.op), "%s", op);
        (void) snprintf(n.rule, sizeof(n.rule), "%s",
                        spot->region->rules ? rules_text(spot->region->rules, v.rule) : "");
        (void) snprintf(n.path, sizeof(n.path), "%s", buf_cstr(&path));
        notice_post(&spot->server->notices, spot->server->config->notice_fd, &n);
}

int spot_admit(const struct spot *spot, mode_t type, const char *op) {
        const struct rules_verdict v = spot_verdict(spot, type);
        const int r = admit_change(spot->region->kind, spot->region->upper_fd >= 0, v.action);

        if (r < 0) {
                if (spot->region->kind != REGION_RO)
                        tell(spot, v, type, NOTICE_DENIED, op);
                return r;
        }
        /* what the upper has replaced stays there; so does what is below a directory the lower lacks */
        if (r == ADMIT_LOWER && spot->lower >= 0 &&
            (spot->kind == LAYER_ABSENT || (spot->kind == LAYER_DIR && S_ISDIR(type))))
                return SPOT_LOWER;
        if (strncmp(spot->name, LAYER_TEMP_PREFIX, sizeof(LAYER_TEMP_PREFIX) - 1) == 0)
                return -EACCES;
        if (r == ADMIT_HELD)
                tell(spot, v, type, NOTICE_HELD, op);
        return SPOT_UPPER;
}

int spot_admit_link(const struct spot *spot, const char *target) {
        const struct rules_verdict held = { .action = GUARD_HOLD, .rule = -1 };
        const int r = spot_admit(spot, S_IFLNK, "symlink");

        if (r != SPOT_LOWER || !spot->region->rules || judge_link(target))
                return r;
        tell(spot, held, S_IFLNK, spot->region->upper_fd < 0 ? NOTICE_DENIED : NOTICE_HELD, "symlink");
        return spot->region->upper_fd < 0 ? -EROFS : SPOT_UPPER;
}

int spot_upper_dir(struct spot *spot) {
        int fd;

        if (spot->upper >= 0)
                return spot->upper;
        fd = upper_make_dir(spot->server, spot->parent);
        if (fd < 0)
                return fd;
        spot->upper = fd;
        spot->upper_owned = true;
        return fd;
}

int spot_enter(const struct spot *spot, const struct facts *facts, enum node_layer layer,
               struct fuse_entry_param *ret) {
        struct server *s = spot->server;
        struct facts merged = *facts;
        uint64_t ino = 0;
        const uint64_t id = node_enter(s->table, spot->parent, spot->name, facts, layer, &ino);

        if (!id)
                return -ENOMEM;
        if (layer == NODE_LOWER && S_ISDIR(facts->st.st_mode)) {
                struct node *node = node_get(s->table, id);
                int r;

                table_lock(s->table);
                r = node ? node_redirect(s->table, node, spot->redirect) : 0;
                table_unlock(s->table);
                if (node && spot->kind == LAYER_DIR)
                        attr_merge(s, node, &merged);
                node_put(s->table, node);
                if (r < 0) {
                        node_forget(s->table, id, 1);
                        return r;
                }
        }
        *ret = (struct fuse_entry_param){
                .ino = id,
                .attr_timeout = facts->loose ? 0 /* the kernel asks for them */
                                             : sole_attr_s(s, spot->parent->region, &facts->st, false),
                .entry_timeout = sole_entry_s(s, spot->parent->region),
        };
        attr_fill(&s->ids, &merged, ino, &ret->attr);
        return 0;
}

void spot_keep(const struct spot *spot, const struct facts *facts, enum node_layer layer) {
        struct server *s = spot->server;
        AUTO_FD int fd = -1;
        struct facts opened;
        struct node *node;
        bool known;

        if (!S_ISREG(facts->st.st_mode))
                return;
        table_lock(s->table);
        node = node_child(s->table, spot->parent, spot->name);
        known = node && node->nlookup && node->dev == facts->st.st_dev && node->host == facts->st.st_ino;
        if (known)
                node->refs++;
        table_unlock(s->table);
        if (!known)
                return;
        fd = open_beneath(layer == NODE_UPPER ? spot->upper : spot->lower, spot->name, O_PATH, 0);
        if (fd >= 0 && facts_at(fd, "", &opened) == 0 && facts_same(&opened, facts))
                dirs_keep(s, node, TAKE_FD(fd));
        node_put(s->table, node);
}

void spot_gone(const struct spot *spot, const struct facts *was) {
        struct table *t = spot->server->table;
        const bool gone = was && (S_ISDIR(was->st.st_mode) || was->st.st_nlink <= 1);
        struct node *node;

        table_lock(t);
        node = node_child(t, spot->parent, spot->name);
        if (node && gone && was->st.st_ino == node->host && was->st.st_dev == node->dev) {
                if (!node->last && (node->last = malloc(sizeof(*node->last)))) {
                        attr_fill(&spot->server->ids, was, node->ino, node->last);
                        node->last->st_nlink = 0;
                }
                node_unname(t, spot->parent, spot->name, true);
        } else {
                node_unname(t, spot->parent, spot->name, false);
        }
        table_unlock(t);
}
