#include "fs/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/handle.h"
#include "fs/names.h"
#include "fs/server.h"
#include "fs/wide.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/sys.h"

enum { PARTS = 1 << 12, BLOCK = 512, SLACK = 8192 /* partly filled blocks at both ends */ };

/** struct count - what was found; inodes in parts, since a file with N names is found N times */
struct count {
        uint64_t bytes, inode_parts;
};

static void count_object(struct count *c, const struct stat *st) {
        const uint64_t names = S_ISDIR(st->st_mode) || st->st_nlink == 0 ? 1 : st->st_nlink;

        c->bytes += (uint64_t) st->st_blocks * BLOCK / names;
        c->inode_parts += PARTS / (names < PARTS ? names : PARTS);
}

/* Return: 0, -errno: something could not be looked at */
static int count_dir(struct count *c, int dir_fd, unsigned int depth) {
        AUTO_NAMES struct names names = { 0 };
        int r = depth >= NODE_DEPTH_MAX ? -ELOOP : names_read(dir_fd, &names);

        for (size_t i = 0; r == 0 && i < names.n; i++) {
                struct stat st;

                if (fstatat(dir_fd, names.v[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
                        continue; /* gone */
                count_object(c, &st);
                if (S_ISDIR(st.st_mode)) {
                        AUTO_WIDE struct wide w = WIDE_INIT;

                        r = wide_init(&w, dir_fd, names.v[i], S_IRUSR | S_IXUSR);
                        if (r == 0)
                                r = count_dir(c, w.fd, depth + 1);
                        if (r == -ENOENT)
                                r = 0;
                }
        }
        return r;
}

/* files that are open and have no name */
static void count_nameless(struct server *s, struct count *c) {
        table_lock(s->table);
        for (uint64_t id = SLOTS_FIRST; id < s->handles.n + SLOTS_FIRST; id++) {
                const struct handle *h = slots_get(&s->handles, id);
                struct stat st;

                if (h && h->node->layer == NODE_UPPER && h == h->node->handles && fstat(h->fd, &st) == 0 &&
                    st.st_nlink == 0)
                        count_object(c, &st);
        }
        table_unlock(s->table);
}

static int count_all(struct server *s, struct count *c) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < s->config->n_regions; i++)
                if (server_copies(s, (uint32_t) i) && s->config->regions[i].upper_fd >= 0)
                        r = count_dir(c, s->config->regions[i].upper_fd, 0);
        count_nameless(s, c);
        return r;
}

/* Lock held. What cannot be looked at leaves the estimate as it is: too high. */
static void recount(struct server *s) {
        struct quota *q = &s->quota;
        struct count c = { 0 };

        if (count_all(s, &c) < 0)
                return;
        q->bytes = c.bytes;
        q->inodes = (c.inode_parts + PARTS - 1) / PARTS;
}

static bool has_room(const struct quota *q, uint64_t bytes, uint64_t inodes) {
        return (bytes == 0 || q->bytes + bytes <= q->bytes_max) &&
               (inodes == 0 || q->inodes + inodes <= q->inodes_max);
}

static void tell(struct server *s, uint32_t region) {
        struct guard_notice n = { .type = NOTICE_QUOTA, .region = region };

        (void) snprintf(n.rule, sizeof(n.rule), "%s", "limits.disk");
        (void) snprintf(n.detail, sizeof(n.detail), "%" PRIu64, s->quota.bytes_max);
        notice_post(&s->notices, s->config->notice_fd, &n);
}

/* Lock held. */
static bool make_room(struct server *s, uint64_t bytes, uint64_t inodes) {
        struct quota *q = &s->quota;
        const int64_t now = (int64_t) clock_ns();

        if (has_room(q, bytes, inodes))
                return true;
        if (q->full_since_ns && now - q->full_since_ns < (int64_t) QUOTA_RECOUNT_MS * 1000000)
                return false;
        recount(s);
        q->full_since_ns = has_room(q, bytes, inodes) ? 0 : (int64_t) clock_ns();
        return !q->full_since_ns;
}

int quota_reserve(struct server *s, uint32_t region, uint64_t bytes, uint64_t inodes) {
        struct quota *q = &s->quota;
        bool room, first = false;

        if (!q->bytes_max || !server_copies(s, region))
                return 0;
        bytes += bytes && bytes < UINT64_MAX / 2 ? SLACK : 0;
        (void) pthread_mutex_lock(&q->lock);
        room = make_room(s, bytes, inodes);
        if (room) {
                q->bytes += bytes;
                q->inodes += inodes;
        } else {
                first = !q->told;
                q->told = true;
        }
        (void) pthread_mutex_unlock(&q->lock);
        if (first)
                tell(s, region);
        return room ? 0 : -EDQUOT;
}

int quota_reserve_node(struct server *s, uint64_t id, uint64_t bytes) {
        struct node *node = s->quota.bytes_max ? node_get(s->table, id) : NULL;
        const int r = node ? quota_reserve(s, node->region, bytes, 0) : 0;

        node_put(s->table, node);
        return r;
}

void quota_note(struct server *s, uint32_t region, uint64_t inodes) {
        struct quota *q = &s->quota;

        if (!q->bytes_max || !server_copies(s, region))
                return;
        (void) pthread_mutex_lock(&q->lock);
        q->inodes += inodes;
        (void) pthread_mutex_unlock(&q->lock);
}

void quota_freed(struct server *s) {
        s->quota.full_since_ns = 0;
}

void quota_init(struct server *s) {
        struct quota *q = &s->quota;

        *q = (struct quota){ .bytes_max = s->config->disk_max, .inodes_max = s->config->inodes_max };
        (void) pthread_mutex_init(&q->lock, NULL);
        if (q->bytes_max && !q->inodes_max)
                q->inodes_max = q->bytes_max / QUOTA_BYTES_PER_INODE;
        if (!q->bytes_max)
                return;
        /* until it could be counted it is full */
        q->bytes = q->bytes_max;
        q->inodes = q->inodes_max;
        recount(s);
}

void quota_deinit(struct server *s) {
        (void) pthread_mutex_destroy(&s->quota.lock);
}
