#include "fs/lowers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fs/server.h"
#include "runtime/base/cleanup.h"

enum { LOOKS_AFTER = 3 };

/* The directories of the region that have a descriptor, and its root. Return: count. */
static size_t collect(struct server *s, uint32_t region, uint64_t ids[static LOWERS_LOOK_MAX]) {
        size_t n = 0;

        table_lock(s->table);
        ids[n++] = s->table->roots[region]->id;
        for (const struct dir_fd *d = s->table->dirs.first; d && n < LOWERS_LOOK_MAX; d = d->next)
                if (d->node->region == region)
                        ids[n++] = d->node->id;
        table_unlock(s->table);
        return n;
}

static int look_at(struct server *s, struct node *node, struct stat *ret) {
        AUTO_TREE struct tree_hold hold = tree_read(s, node->id);
        int fd, r;

        r = dirs_get(s, node, &fd);
        if (r < 0)
                return r;
        r = fstat(fd, ret) < 0 ? -errno : 0;
        dirs_put(s, node);
        return r;
}

/* Whether names came or went; what cannot be told changes nothing. */
static bool differs(struct server *s, uint64_t id) {
        struct node *node = node_get(s->table, id);
        bool changed = false;
        struct stat st;

        if (!node)
                return false;
        if (look_at(s, node, &st) == 0) {
                const int64_t now = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;

                table_lock(s->table);
                changed = node->seen_ns != now;
                node->seen_ns = now;
                table_unlock(s->table);
        }
        node_put(s->table, node);
        return changed;
}

static bool any_differs(struct server *s, uint32_t region, uint64_t ids[static LOWERS_LOOK_MAX]) {
        const size_t n = collect(s, region, ids);
        bool changed = false;

        for (size_t i = 0; i < n; i++)
                changed |= differs(s, ids[i]); /* all, or the next look would find them again */
        return changed;
}

void lowers_look(struct server *s) {
        AUTO_FREE uint64_t *ids = NULL;

        for (uint32_t i = 0; i < s->config->n_regions; i++) {
                const struct guard_notice notice = { .type = NOTICE_LOWER_CHANGED, .region = i };

                if (!s->config->regions[i].below_overlay || sole_alone(s, i))
                        continue;
                if (!ids)
                        ids = calloc(LOWERS_LOOK_MAX, sizeof(*ids));
                if (!ids)
                        return;
                if (any_differs(s, i, ids))
                        s->watch.regions[i].stale = LOOKS_AFTER;
                if (s->watch.regions[i].stale > 0 && notice_send(&s->notices, s->config->notice_fd, &notice))
                        s->watch.regions[i].stale--;
        }
}
