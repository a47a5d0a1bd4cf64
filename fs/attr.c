#include "fs/attr.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/admit.h"
#include "fs/handle.h"
#include "fs/place.h"
#include "fs/reply.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"

enum { OVERFLOW_ID = 65534, FCHMODAT2 = 452 /* Linux 6.6 */ };

int attr_init(struct idmap *ids, const struct guard_config *config) {
        const int n = getgroups(0, NULL);

        *ids = (struct idmap){
                .host_uid = config->host_uid,
                .inside_uid = config->inside_uid,
                .foreign_uid = OVERFLOW_ID - (config->inside_uid == OVERFLOW_ID),
                .host_gid = config->host_gid,
                .inside_gid = config->inside_gid,
                .foreign_gid = OVERFLOW_ID - (config->inside_gid == OVERFLOW_ID),
        };
        if (n <= 0)
                return n < 0 ? -errno : 0;
        ids->groups = calloc((size_t) n, sizeof(gid_t));
        if (!ids->groups)
                return -ENOMEM;
        ids->n_groups = (size_t) n;
        return getgroups(n, ids->groups) < 0 ? -errno : 0;
}

void attr_deinit(struct idmap *ids) {
        free(ids->groups);
        ids->groups = NULL;
}

static bool in_group(const struct idmap *ids, gid_t gid) {
        if (gid == ids->host_gid)
                return true;
        for (size_t i = 0; i < ids->n_groups; i++)
                if (ids->groups[i] == gid)
                        return true;
        return false;
}

/*
 * Every object is shown as the caller's own, with the bits of the class he is in on the host for the owner's.
 * The namespace knows one user, and the kernel refuses to write, rename or remove what belongs to an id that
 * it cannot name (EACCES, EOVERFLOW), also where the host lets the caller do it: a file that a container of
 * root has left in his directory. What only a real owner may do, the host refuses when it is asked.
 */
void attr_fill(const struct idmap *ids, const struct facts *facts, uint64_t ino, struct stat *ret) {
        const struct stat *st = &facts->st;
        const mode_t effective = (in_group(ids, st->st_gid) ? st->st_mode >> 3 : st->st_mode) & 07;

        *ret = *st;
        ret->st_dev = 0;
        ret->st_ino = ino;
        if (st->st_uid != ids->host_uid && !S_ISLNK(st->st_mode))
                ret->st_mode = (st->st_mode & ~(mode_t) 0700) | effective << 6;
        ret->st_uid = ids->inside_uid;
        ret->st_gid = ids->inside_gid;
        if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
                ret->st_rdev = 0; /* a host device is no device here */
}

static bool newer(struct timespec a, struct timespec b) {
        return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

void attr_merge(struct server *s, struct node *dir, struct facts *facts) {
        AUTO_FD int fd = -1;
        struct facts upper;
        bool held;

        if (!upper_has(s, dir))
                return;
        fd = upper_open_node(s, dir);
        if (fd < 0 || facts_at(fd, "", &upper) < 0)
                return;
        if (server_copies(s, dir->region)) { /* the upper's copy is what the work sees and changes */
                facts->st.st_mode = upper.st.st_mode;
                facts->st.st_atim = upper.st.st_atim;
                facts->st.st_mtim = upper.st.st_mtim;
                facts->st.st_ctim = upper.st.st_ctim;
                facts->st.st_nlink = 1;
                return;
        }
        table_lock(s->table);
        held = node_verdict(s->table, dir, NULL).action == GUARD_HOLD;
        table_unlock(s->table);
        if (held)
                facts->st.st_mode =
                        upper.st.st_mode | (facts->st.st_mode & S_ISGID); /* the upper keeps none */
        if (held || newer(upper.st.st_mtim, facts->st.st_mtim))
                facts->st.st_mtim = upper.st.st_mtim;
        if (held || newer(upper.st.st_ctim, facts->st.st_ctim))
                facts->st.st_ctim = upper.st.st_ctim;
        facts->st.st_nlink = 1; /* subdirectories of both are not counted */
}

static bool is_removed(struct server *s, const struct node *node) {
        bool named;

        table_lock(s->table);
        named = node->names || node == s->table->roots[node->region];
        table_unlock(s->table);
        return !named;
}

/* by name; the node may have several */
static int look_up(struct server *s, struct node *node, struct facts *ret) {
        int fd, r;

        if (S_ISDIR(node->type)) {
                r = dirs_get(s, node, &fd);
                if (r < 0)
                        return r;
                r = facts_at(fd, "", ret);
                dirs_put(s, node);
                if (r == 0 && is_removed(s, node))
                        ret->st.st_nlink = 0; /* the lower may have it still */
                if (r == 0 && node->layer == NODE_LOWER)
                        attr_merge(s, node, ret);
                return r;
        }
        return place_look(s, node, ret);
}

/* the host still has the name that the work removed */
static void discount(struct server *s, struct node *node, struct facts *facts) {
        if (!server_copies(s, node->region) || node == s->table->roots[node->region])
                return;
        table_lock(s->table);
        if (node->layer == NODE_LOWER && !node->names && facts->st.st_nlink > 0)
                facts->st.st_nlink--;
        table_unlock(s->table);
}

/* an object whose names are gone, or may not be reached any more: through a descriptor, else what was known
 * when the last name went */
static int look_nameless(struct server *s, struct node *node, struct stat *ret) {
        AUTO_FD int fd = handle_dup(s, node);
        struct facts facts;
        int r = -ESTALE;

        if (fd < 0)
                fd = dirs_kept(s, node);
        if (fd >= 0) {
                r = facts_at(fd, "", &facts);
                if (r == 0) {
                        discount(s, node, &facts);
                        attr_fill(&s->ids, &facts, node->ino, ret);
                }
                return r;
        }
        table_lock(s->table);
        if (node->last) {
                *ret = *node->last;
                r = 0;
        }
        table_unlock(s->table);
        return r;
}

int attr_read(struct server *s, struct node *node, struct stat *ret) {
        struct facts facts;
        int r;

        {
                AUTO_TREE struct tree_hold hold = tree_read(s, node->id);

                r = look_up(s, node, &facts);
        }
        if (r == -ESTALE || r == -ENOENT || r == -EACCES)
                return look_nameless(s, node, ret);
        if (r < 0)
                return r;
        attr_fill(&s->ids, &facts, node->ino, ret);
        return 0;
}

static double timeout_of(struct server *s, const struct node *node, const struct stat *st) {
        bool watched;

        table_lock(s->table);
        watched = node->watched;
        table_unlock(s->table);
        return sole_attr_s(s, node->region, st, watched);
}

/* @ret_s: how long it may be remembered, seconds */
static int getattr(struct server *s, fuse_ino_t ino, const struct fuse_file_info *fi, struct stat *ret,
                   double *ret_s) {
        struct node *node;
        struct facts facts;
        int fd, r;

        if (ino == NODE_ROOT_ID) {
                *ret = (struct stat){ .st_ino = 1,
                                      .st_mode = S_IFDIR | 0555,
                                      .st_nlink = 2,
                                      .st_uid = s->ids.foreign_uid,
                                      .st_gid = s->ids.foreign_gid };
                *ret_s = s->timeout_s;
                return 0;
        }
        node = node_get(s->table, ino);
        if (!node)
                return -ESTALE;
        fd = fi ? handle_fd(s, fi->fh) : -1;
        if (fd >= 0) {
                r = facts_at(fd, "", &facts);
                if (r == 0) {
                        discount(s, node, &facts);
                        attr_fill(&s->ids, &facts, node->ino, ret);
                }
        } else {
                r = attr_read(s, node, ret);
        }
        if (r == 0)
                *ret_s = timeout_of(s, node, ret);
        node_put(s->table, node);
        return r;
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        struct stat st;
        double seconds = 0;
        const int r = getattr(s, ino, fi, &st, &seconds);

        if (r < 0)
                reply_error(req, r);
        else
                (void) fuse_reply_attr(req, &st, seconds);
}

/* ---- setattr ---- */

int attr_change_mode(int fd, mode_t mode) {
        char path[sizeof("/proc/self/fd/") + 12];

        if (fchmod(fd, mode) == 0)
                return 0;
        if (errno != EBADF) /* of an O_PATH descriptor */
                return -errno;
        if (syscall(FCHMODAT2, fd, "", mode, AT_EMPTY_PATH) == 0)
                return 0;
        if (errno != ENOSYS && errno != EINVAL)
                return -errno;
        (void) snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        return chmod(path, mode) < 0 ? -errno : 0;
}

static struct timespec time_of(int to_set, int set, int now, struct timespec value) {
        if (to_set & now)
                return (struct timespec){ .tv_nsec = UTIME_NOW };
        return to_set & set ? value : (struct timespec){ .tv_nsec = UTIME_OMIT };
}

static int apply(int fd, const struct stat *attr, int to_set) {
        const struct timespec times[2] = {
                time_of(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, attr->st_atim),
                time_of(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, attr->st_mtim),
        };
        int r = 0;

        if (to_set & FUSE_SET_ATTR_SIZE)
                r = ftruncate(fd, attr->st_size) < 0 ? -errno : 0;
        if (r == 0 && (to_set & FUSE_SET_ATTR_MODE))
                r = attr_change_mode(fd, attr->st_mode & 07777);
        if (r == 0 && (times[0].tv_nsec != UTIME_OMIT || times[1].tv_nsec != UTIME_OMIT))
                r = utimensat(fd, "", times, AT_EMPTY_PATH) < 0 ? -errno : 0;
        return r;
}

/* a file that is not the caller's own on the host, for what takes its owner */
static bool is_foreign(struct server *s, struct node *node) {
        struct facts facts;

        return place_look(s, node, &facts) == 0 && facts.st.st_uid != s->ids.host_uid;
}

/* Set-id bits never reach a file of the host. On a directory setgid gives nobody anything, it only says which
 * group new files get. Nobody is given a file. */
static int check(struct server *s, struct node *node, const struct stat *attr, int to_set) {
        const mode_t refused = S_ISDIR(node->type) ? S_ISUID : S_ISUID | S_ISGID;
        AUTO_TREE struct tree_hold hold = { NULL };

        if ((to_set & FUSE_SET_ATTR_MODE) && (attr->st_mode & refused))
                return -EPERM;
        if (!(to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)))
                return 0;
        if (((to_set & FUSE_SET_ATTR_UID) && attr->st_uid != s->ids.inside_uid) ||
            ((to_set & FUSE_SET_ATTR_GID) && attr->st_gid != s->ids.inside_gid))
                return -EPERM;
        hold = tree_read(s, node->id);
        return is_foreign(s, node) ? -EPERM : 0;
}

/* chown(2) to whom it belongs clears set-id bits and moves the time of change, as chmod(2) does; not worth a
 * copy */
static int keep_owner(struct server *s, struct node *node) {
        AUTO_TREE struct tree_hold hold = tree_read(s, node->id);
        AUTO_FD int fd = -1;
        enum guard_do action;
        struct facts facts;
        mode_t mode;

        table_lock(s->table);
        action = node_verdict(s->table, node, NULL).action;
        table_unlock(s->table);
        if (S_ISLNK(node->type) ||
            (node->layer == NODE_LOWER &&
             admit_change(server_region(s, node->region)->kind, true, action) != ADMIT_LOWER))
                return 0;
        fd = place_open(s, node, O_PATH);
        if (fd == -ESTALE)
                fd = handle_dup_to_change(s, node);
        if (fd < 0 || facts_at(fd, "", &facts) < 0)
                return fd == -EBADF || fd >= 0 ? -ESTALE : TAKE(fd, -1);
        mode = facts.st.st_mode & 07777;
        if (!S_ISDIR(node->type))
                mode &= ~(mode_t) (S_ISUID | (mode & S_IXGRP ? S_ISGID : 0));
        return facts.st.st_uid == s->ids.host_uid ? attr_change_mode(fd, mode) : 0;
}

/* what the host would say of a change of a file of another, when it is not asked: the copy is the caller's */
static int check_foreign(struct server *s, struct node *node, int to_set) {
        const int times = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME;
        const bool to_now = (to_set & FUSE_SET_ATTR_ATIME_NOW) && (to_set & FUSE_SET_ATTR_MTIME_NOW);
        struct facts facts;
        struct stat st;

        if (!(to_set & (times | FUSE_SET_ATTR_MODE)) || place_look(s, node, &facts) < 0 ||
            facts.st.st_uid == s->ids.host_uid)
                return 0;
        attr_fill(&s->ids, &facts, 0, &st);
        if ((to_set & FUSE_SET_ATTR_MODE) || !to_now)
                return -EPERM;
        return st.st_mode & S_IWUSR ? 0 : -EACCES;
}

/* a descriptor through which @to_set can be applied; the tree is held */
static int open_for(struct server *s, struct node *node, int to_set) {
        int fd;

        if (S_ISDIR(node->type) && node->layer == NODE_LOWER && place_held(s, node))
                return upper_make_dir(s, node);
        fd = place_open(s, node, to_set & FUSE_SET_ATTR_SIZE ? O_WRONLY : O_PATH);
        return fd == -ESTALE || fd == -ENOENT || fd == -EACCES ? handle_dup_to_change(s, node) : fd;
}

static int change(struct server *s, struct node *node, const struct stat *attr, int to_set) {
        AUTO_TREE struct tree_hold hold = tree_read(s, node->id);
        AUTO_FD int fd = -1;
        bool copied = false;
        int q = 0, r = place_admit(s, node, "setattr");

        if (r == PLACE_COPY_UP || (r == PLACE_AS_IS && S_ISDIR(node->type)))
                q = check_foreign(s, node, to_set);
        if (r < 0 || q < 0)
                return r < 0 ? r : q;
        if (r == PLACE_COPY_UP) {
                auto_tree(&hold);
                hold = tree_write(s, node->id);
                r = upper_copy_up(s, node, !((to_set & FUSE_SET_ATTR_SIZE) && attr->st_size == 0));
                if (r < 0)
                        return r;
                copied = true;
        }
        fd = open_for(s, node, to_set);
        if (fd < 0)
                return fd == -EBADF ? -ESTALE : TAKE(fd, -1);
        r = apply(fd, attr, to_set);
        if (r == 0 && S_ISDIR(node->type) && node->layer == NODE_LOWER && !server_copies(s, node->region) &&
            upper_has(s, node)) {
                AUTO_FD int upper = upper_open_node(s, node);

                /* the newer of both is shown */
                if (upper >= 0)
                        (void) apply(upper, attr, to_set & ~FUSE_SET_ATTR_MODE);
        }
        if (copied) /* nobody may ever open and close it */
                (void) upper_land(s, node, node->writers > 0);
        return r;
}

static int setattr(struct server *s, struct node *node, const struct stat *attr, int to_set,
                   const struct fuse_file_info *fi, struct stat *ret) {
        const int doable = FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_ATIME |
                           FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW;
        int r = check(s, node, attr, to_set);

        if (r < 0)
                return r;
        if (fi && (to_set & (FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_MTIME)) && !(to_set & FUSE_SET_ATTR_MODE)) {
                /* ftruncate(2), or the time of a write: what is open for writing was admitted when it was
                 * opened */
                const int fd = handle_fd(s, fi->fh);

                r = fd < 0 ? fd : apply(fd, attr, to_set);
        } else if (to_set & doable) {
                r = change(s, node, attr, to_set);
        } else {
                r = keep_owner(s, node);
        }
        if (to_set & FUSE_SET_ATTR_SIZE)
                quota_freed(s);
        return r < 0 ? r : attr_read(s, node, ret);
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = node_get(s->table, ino);
        struct stat st;
        double seconds = 0;
        int r = node ? setattr(s, node, attr, to_set, fi, &st) : -EROFS;

        if (r == 0)
                seconds = timeout_of(s, node, &st);
        node_put(s->table, node);
        if (r < 0)
                reply_error(req, r);
        else
                (void) fuse_reply_attr(req, &st, seconds);
}
