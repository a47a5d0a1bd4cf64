/*
 * Directory listings. A directory that only the lower has is read from the host as it is, with the host's
 * offsets. One with a part in the upper is listed by name, in the order of a hash of the names, so that
 * offsets stay true while entries come and go.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/attr.h"
#include "fs/ops.h"
#include "fs/place.h"
#include "fs/reply.h"
#include "fs/spot.h"
#include "fs/streams.h"
#include "fs/upper.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/sys.h"

/** struct listing - one READDIR request being answered */
struct listing {
        struct server *server;
        fuse_req_t req;
        struct node *node; /* referenced */
        struct rules *rules;
        struct node_states states; /* of the directory */
        char *buf;
        size_t size, used;
        bool plus, full;
};

/* adds an entry without attributes to give. Return: 0, or -ENOBUFS: no room */
static int add_plain(struct listing *l, const char *name, uint64_t ino, mode_t type, off_t off) {
        const struct fuse_entry_param e = { .attr = { .st_ino = ino, .st_mode = type } };
        char *at = l->buf + l->used;
        const size_t room = l->size - l->used;
        const size_t need = l->plus ? fuse_add_direntry_plus(l->req, at, room, name, &e, off)
                                    : fuse_add_direntry(l->req, at, room, name, &e.attr, off);

        if (need > room) {
                l->full = true;
                return -ENOBUFS;
        }
        l->used += need;
        return 0;
}

static bool has_room(struct listing *l, const char *name) {
        if (fuse_add_direntry_plus(l->req, NULL, 0, name, NULL, 0) <= l->size - l->used)
                return true;
        l->full = true;
        return false;
}

static void add_entry(struct listing *l, const char *name, const struct fuse_entry_param *e, off_t off) {
        l->used += fuse_add_direntry_plus(l->req, l->buf + l->used, l->size - l->used, name, e, off);
}

/* ---- lower only ---- */

static bool is_hidden(const struct listing *l, const char *name, mode_t type) {
        return l->rules &&
               states_verdict(l->rules, states_step(l->rules, l->states, name, strlen(name)), type).action ==
                       GUARD_HIDE;
}

static bool is_dots(const char *name) {
        return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int add_lower_plain(struct listing *l, const struct dirent64 *d) {
        const mode_t type = DTTOIF((mode_t) d->d_type);

        if (!is_dots(d->d_name) && is_hidden(l, d->d_name, type))
                return 0;
        return add_plain(l, d->d_name, node_fold_ino(l->server->table, l->node->dev, d->d_ino), type,
                         d->d_off);
}

static int add_lower_plus(struct listing *l, int dir_fd, const struct dirent64 *d) {
        struct server *s = l->server;
        struct fuse_entry_param e = { .entry_timeout = sole_entry_s(s, l->node->region) };
        struct facts facts;
        uint64_t ino = 0;
        int r;

        if (!has_room(l, d->d_name))
                return -ENOBUFS;
        r = facts_at(dir_fd, d->d_name, &facts);
        if (r == -EACCES) /* a directory that may be read, not searched */
                return add_lower_plain(l, d);
        if (r < 0 || is_hidden(l, d->d_name, facts.st.st_mode))
                return 0; /* gone since */
        e.ino = node_enter(s->table, l->node, d->d_name, &facts, NODE_LOWER, &ino);
        if (!e.ino)
                return add_plain(l, d->d_name, facts.st.st_ino, facts.st.st_mode, d->d_off);
        e.attr_timeout = facts.loose ? 0 : sole_attr_s(s, l->node->region, &facts.st, false);
        attr_fill(&s->ids, &facts, ino, &e.attr);
        add_entry(l, d->d_name, &e, d->d_off);
        return 0;
}

static int add_lower(struct listing *l, int dir_fd, const struct dirent64 *d) {
        return l->plus && !is_dots(d->d_name) ? add_lower_plus(l, dir_fd, d) : add_lower_plain(l, d);
}

/* Return: 0 (full, or the end), -errno */
static int fill_lower(struct listing *l, struct stream *stream, bool *ret_end) {
        for (;;) {
                const struct dirent64 *d;

                if (stream->at == stream->len) {
                        const ssize_t n = getdents64(stream->fd, stream->data, STREAM_BYTES);

                        if (n <= 0) {
                                *ret_end = n == 0;
                                return n < 0 ? -errno : 0;
                        }
                        stream->at = 0;
                        stream->len = (size_t) n;
                }
                d = (const struct dirent64 *) (const void *) (stream->data + stream->at);
                if (add_lower(l, stream->fd, d) < 0)
                        return 0;
                stream->at += d->d_reclen;
                stream->off = d->d_off;
        }
}

/* ---- lower and upper ---- */

enum { MERGED_DOT = 1, MERGED_DOTDOT = 2, MERGED_FIRST = 3 };

static off_t merged_pos(const char *name) {
        uint64_t h = 0xcbf29ce484222325U;

        for (const char *p = name; *p; p++)
                h = (h ^ (unsigned char) *p) * 0x100000001b3U;
        h ^= h >> 29;
        return (off_t) (h >> 2) + MERGED_FIRST;
}

static int by_pos(const void *a, const void *b) {
        const char *x = *(char *const *) a, *y = *(char *const *) b;
        const off_t p = merged_pos(x), q = merged_pos(y);

        return p < q ? -1 : p > q ? 1 : strcmp(x, y);
}

static int merge_names(struct server *s, struct node *node, struct names *names) {
        AUTO_FD int lower = -1, upper = -1;
        AUTO_NAMES struct names more = { 0 };
        size_t n;
        int r = 0;

        if (node->layer == NODE_LOWER) {
                r = lower = place_open(s, node, O_RDONLY | O_DIRECTORY);
                if (r >= 0)
                        r = names_read(lower, names);
        }
        n = names->n;
        if (r < 0)
                return r;
        upper = upper_open_node(s, node);
        if (upper >= 0)
                r = names_read(upper, &more);
        for (size_t i = 0; r == 0 && i < more.n; i++)
                if (!names_has(names, n, more.v[i])) /* the first n are sorted */
                        r = names_add(names, more.v[i]);
        if (r == 0 && names->n)
                qsort(names->v, names->n, sizeof(names->v[0]), by_pos);
        return r;
}

static int add_merged(struct listing *l, const char *name) {
        AUTO_SPOT struct spot spot = SPOT_INIT;
        struct fuse_entry_param e;
        enum node_layer layer;
        struct facts facts;
        const off_t next = merged_pos(name) + 1;
        int r;

        if (strncmp(name, LAYER_TEMP_PREFIX, sizeof(LAYER_TEMP_PREFIX) - 1) == 0)
                return 0;
        if (l->plus && !has_room(l, name))
                return -ENOBUFS;
        r = spot_open(l->server, l->node->id, name, &spot);
        if (r == 0)
                r = spot_look(&spot, &facts, &layer);
        if (r == -EACCES && !is_hidden(l, name, 0)) /* a directory that may be read, not searched */
                return add_plain(l, name, (uint64_t) next, 0, next);
        if (r < 0)
                return 0;
        if (!l->plus)
                return add_plain(l, name, node_shown_ino(l->server->table, &facts), facts.st.st_mode & S_IFMT,
                                 next);
        if (spot_enter(&spot, &facts, layer, &e) == 0)
                add_entry(l, name, &e, next);
        return 0;
}

static int fill_merged(struct listing *l, struct stream *stream, bool *ret_end) {
        if (stream->off < MERGED_DOT) {
                if (add_plain(l, ".", l->node->ino, S_IFDIR, MERGED_DOT) < 0)
                        return 0;
                stream->off = MERGED_DOT;
        }
        if (stream->off < MERGED_DOTDOT) {
                if (add_plain(l, "..", l->node->ino, S_IFDIR, MERGED_DOTDOT) < 0)
                        return 0;
                stream->off = MERGED_DOTDOT;
        }
        for (size_t i = 0; i < stream->names.n; i++) {
                const off_t pos = merged_pos(stream->names.v[i]);

                if (pos < stream->off)
                        continue;
                if (add_merged(l, stream->names.v[i]) < 0)
                        return 0;
                stream->off = pos + 1;
        }
        *ret_end = true;
        return 0;
}

/* ---- requests ---- */

static int open_stream(struct listing *l, off_t off, struct stream **ret) {
        struct server *s = l->server;
        struct stream *stream = calloc(1, sizeof(*stream));
        int r = 0;

        if (!stream)
                return -ENOMEM;
        *stream = (struct stream){ .node = l->node->id, .host = l->node->host, .off = off, .fd = -1 };
        if (l->node->layer == NODE_UPPER || upper_has(s, l->node)) {
                r = merge_names(s, l->node, &stream->names);
        } else {
                r = stream->fd = place_open(s, l->node, O_RDONLY | O_DIRECTORY);
                stream->data = malloc(STREAM_BYTES);
                if (!stream->data)
                        r = -ENOMEM;
                else if (r >= 0)
                        r = off && lseek(stream->fd, off, SEEK_SET) < 0 ? -errno : 0;
        }
        if (r < 0)
                (void) stream_free(stream);
        else
                *ret = stream;
        return r;
}

static int fill(struct listing *l, off_t off) {
        AUTO_TREE struct tree_hold hold = tree_read(l->server, l->node->id);
        struct stream *stream = NULL;
        bool end = false;
        int r = 0;

        if (!S_ISDIR(l->node->type))
                return -ENOTDIR;
        table_lock(l->server->table);
        r = l->rules ? node_states(l->server->table, l->node, &l->states) : 0;
        table_unlock(l->server->table);
        if (r < 0)
                return -ESTALE;
        if (off > 0)
                stream = streams_take(l->server->streams, l->node->id, l->node->host, off);
        if (!stream)
                r = open_stream(l, off, &stream);
        if (r < 0)
                return r;
        r = stream->fd >= 0 ? fill_lower(l, stream, &end) : fill_merged(l, stream, &end);
        /* after the end the kernel asks once more, and is told so without reading again */
        if (r < 0 || (end && l->used == 0))
                (void) stream_free(stream);
        else
                streams_give(l->server->streams, stream);
        return l->used ? 0 : r;
}

static int fill_root(struct listing *l, off_t off) {
        for (uint64_t i = (uint64_t) off; i < l->server->table->n_regions + 2; i++) {
                char name[24];

                if (i < 2)
                        (void) snprintf(name, sizeof(name), "%s", i ? ".." : ".");
                else
                        (void) snprintf(name, sizeof(name), "%zu", (size_t) i - 2);
                if (add_plain(l, name, i < 2 ? 1 : l->server->table->roots[i - 2]->ino, 0, (off_t) i + 1) < 0)
                        break;
        }
        return 0;
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus) {
        struct server *s = fuse_req_userdata(req);
        struct listing l = { .server = s, .req = req, .plus = plus };
        int r = -ESTALE;

        l.size = size < SERVER_IO_MAX ? size : SERVER_IO_MAX;
        l.buf = server_reply_buffer(s);
        l.node = node_get(s->table, ino);
        if (!l.buf)
                r = -ENOMEM;
        else if (ino == NODE_ROOT_ID)
                r = fill_root(&l, off);
        else if (l.node) {
                l.rules = server_region(s, l.node->region)->rules;
                r = fill(&l, off);
        }
        node_put(s->table, l.node);
        if (r < 0)
                reply_error(req, r);
        else
                (void) fuse_reply_buf(req, l.buf, l.used);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi) {
        (void) fi;
        list(req, ino, size, off, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi) {
        (void) fi;
        list(req, ino, size, off, true);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);

        (void) ino;
        if (s->no_opendir) {
                reply_error(req, -ENOSYS); /* from now on the kernel does without */
                return;
        }
        fi->fh = 0;
        fi->cache_readdir = 1;
        fi->keep_cache = 1;
        (void) fuse_reply_open(req, fi);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi) {
        struct server *s = fuse_req_userdata(req);
        struct node *node = node_get(s->table, ino);
        AUTO_FD int fd = -1;
        int r = -ESTALE;

        (void) datasync;
        (void) fi;
        if (node) {
                AUTO_TREE struct tree_hold hold = tree_read(s, node->id);

                r = fd = place_open(s, node, O_RDONLY | O_DIRECTORY);
        }
        node_put(s->table, node);
        server_yield_turn(s);
        if (r >= 0)
                r = fsync(fd) < 0 ? -errno : 0;
        reply_error(req, r);
}
