#include "fs/holds.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "fs/server.h"
#include "runtime/base/cleanup.h"

/* always from the lowest number on: nobody waits for who waits for him */
#define EACH_DOMAIN(i, mask)                                \
        for (unsigned int i = 0; i < NODE_DOMAINS_MAX; i++) \
                if ((mask) >> i & 1)

void auto_tree(struct tree_hold *h) {
        EACH_DOMAIN(i, h->mask)
        (void) pthread_rwlock_unlock(&h->server->domains[i]);
        h->mask = 0;
}

static uint64_t bit(const struct node *node) {
        return node ? UINT64_C(1) << node->domain : 1;
}

uint64_t holds_of(struct server *s, uint64_t id) {
        uint64_t mask;

        table_lock(s->table);
        mask = bit(slots_get(&s->table->ids, id));
        table_unlock(s->table);
        return mask;
}

static uint64_t of_entry(struct table *t, uint64_t parent, const char *name, struct node **ret) {
        const struct node *dir = slots_get(&t->ids, parent);

        *ret = dir ? node_child(t, dir, name) : NULL;
        return bit(dir) | (*ret ? bit(*ret) : 0);
}

uint64_t holds_of_entry(struct server *s, uint64_t parent, const char *name) {
        struct node *child;
        uint64_t mask;

        table_lock(s->table);
        mask = of_entry(s->table, parent, name, &child);
        table_unlock(s->table);
        return mask;
}

struct tree_hold holds_read(struct server *s, uint64_t mask) {
        EACH_DOMAIN(i, mask)
        (void) pthread_rwlock_rdlock(&s->domains[i]);
        return (struct tree_hold){ s, mask };
}

struct tree_hold holds_write(struct server *s, uint64_t mask) {
        EACH_DOMAIN(i, mask)
        (void) pthread_rwlock_wrlock(&s->domains[i]);
        return (struct tree_hold){ s, mask };
}

static int write_in_time(struct server *s, uint64_t mask, struct tree_hold *ret) {
        AUTO_TREE struct tree_hold hold = { s, 0 };
        struct timespec until;

        (void) clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += HOLDS_MOVE_MS / 1000;
        EACH_DOMAIN(i, mask) {
                if (pthread_rwlock_timedwrlock(&s->domains[i], &until) != 0)
                        return -EBUSY;
                hold.mask |= UINT64_C(1) << i;
        }
        *ret = hold;
        hold.mask = 0;
        return 0;
}

int holds_move(struct server *s, uint64_t parent, const char *name, uint64_t new_parent, const char *new_name,
               struct tree_hold *ret) {
        struct node *from, *to;
        uint64_t own, all;

        table_lock(s->table);
        own = of_entry(s->table, parent, name, &from) | of_entry(s->table, new_parent, new_name, &to);
        all = own;
        if (from && S_ISDIR(from->type))
                all |= node_domains(s->table, from->region);
        if (to && S_ISDIR(to->type))
                all |= node_domains(s->table, to->region);
        table_unlock(s->table);
        if (all != own)
                return write_in_time(s, all, ret);
        *ret = holds_write(s, own);
        return 0;
}
