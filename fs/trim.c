#include "fs/trim.h"

#include <string.h>

#include "fs/server.h"
#include "runtime/base/cleanup.h"

enum { BATCH = 64 };

static size_t limit(const struct server *s) {
        return s->config->nodes_max ? s->config->nodes_max : TRIM_NODES_MAX;
}

static size_t count(struct server *s) {
        size_t n;

        table_lock(s->table);
        n = s->table->n_nodes;
        table_unlock(s->table);
        return n;
}

/** struct entry - a name that the kernel may forget */
struct entry {
        uint64_t parent;
        uint8_t len;
        char name[NODE_NAME_MAX + 1];
};

/* Directories go when nothing is known below them; a file that is open stays known anyway. */
static bool may_go(const struct node *n) {
        return n && !S_ISDIR(n->type) && n->nlookup && !n->handles && n->names;
}

/* The next names after the hand. Return: how many; @left: nodes that this round may still look at */
static size_t collect(struct server *s, struct entry *list, size_t *left) {
        struct table *t = s->table;
        size_t n = 0;

        table_lock(t);
        for (; *left > 0 && n < BATCH; --*left) {
                const struct node *node;

                if (s->trim.hand < SLOTS_FIRST || s->trim.hand >= t->ids.n + SLOTS_FIRST)
                        s->trim.hand = SLOTS_FIRST;
                node = slots_get(&t->ids, s->trim.hand++);
                if (!may_go(node))
                        continue;
                list[n].parent = node->names->parent->id;
                list[n].len = node->names->len;
                memcpy(list[n].name, node->names->text, node->names->len + 1U);
                n++;
        }
        table_unlock(t);
        return n;
}

/* Down to seven eighths. What the kernel forgets comes as FORGET, later: what was asked for is counted. */
static void trim(struct server *s) {
        const size_t now = count(s), aim = limit(s) - limit(s) / 8;
        size_t todo = now > aim ? now - aim : 0, left = now * 2 + BATCH, n = 1;
        struct entry list[BATCH];

        while (todo > 0 && n > 0 && !s->trim.stop) {
                n = collect(s, list, &left);
                for (size_t i = 0; i < n; i++)
                        (void) fuse_lowlevel_notify_inval_entry(s->session, list[i].parent, list[i].name,
                                                                list[i].len);
                todo -= n < todo ? n : todo;
        }
}

static void *run(void *arg) {
        struct server *s = arg;

        while (!s->trim.stop) {
                if (sem_wait(&s->trim.wake) == 0 && !s->trim.stop)
                        trim(s);
                s->trim.busy = false;
        }
        return NULL;
}

void trim_start(struct server *s) {
        (void) sem_init(&s->trim.wake, 0, 0);
        s->trim.running = pthread_create(&s->trim.thread, NULL, run, s) == 0;
}

void trim_stop(struct server *s) {
        if (!s->trim.running)
                return;
        s->trim.stop = true;
        (void) sem_post(&s->trim.wake);
        (void) pthread_join(s->trim.thread, NULL);
        (void) sem_destroy(&s->trim.wake);
        s->trim.running = false;
}

void trim_check(struct server *s) {
        if (s->trim.running && !s->trim.busy && count(s) > limit(s) && !atomic_exchange(&s->trim.busy, true))
                (void) sem_post(&s->trim.wake);
}
