#include "fs/node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "fs/dirs.h"
#include "runtime/base/cleanup.h"

enum { BUCKETS_MIN = 256, INO_BITS = 48 };

/* fails closed: the verdict of a path that cannot be told */
static const struct rules_verdict verdict_unknown = { .action = GUARD_PROTECT, .rule = -1 };

static uint64_t mix(uint64_t h, uint64_t v) {
        h = (h ^ v) * 0x9e3779b97f4a7c15U;
        return h ^ h >> 29;
}

static size_t key_bucket(const struct table *t, const struct node *n) {
        const uint64_t where = (uint64_t) n->region << 1 | n->layer;

        return mix(mix(mix(t->seed, n->host), n->dev), where) & t->key_mask;
}

static size_t name_bucket(const struct table *t, const struct node *parent, const char *text, size_t len) {
        uint64_t h = mix(t->seed, parent->id);

        for (size_t i = 0; i < len; i++)
                h = (h ^ (unsigned char) text[i]) * 0x100000001b3U;
        return mix(h, len) & t->name_mask;
}

/* ---- hash tables ---- */

static void grow_keys(struct table *t) {
        const size_t old = t->key_mask + 1;
        struct node **a;

        if (t->n_nodes < old)
                return;
        a = calloc(old * 4, sizeof(struct node *));
        if (!a)
                return; /* longer chains, nothing else */
        t->key_mask = old * 4 - 1;
        for (size_t i = 0; i < old; i++)
                for (struct node *n = t->by_key[i], *next; n; n = next) {
                        const size_t b = key_bucket(t, n);

                        next = n->hash_next;
                        n->hash_next = a[b];
                        a[b] = n;
                }
        free(t->by_key);
        t->by_key = a;
}

static void grow_names(struct table *t) {
        const size_t old = t->name_mask + 1;
        struct name **a;

        if (t->n_names < old)
                return;
        a = calloc(old * 4, sizeof(struct name *));
        if (!a)
                return;
        t->name_mask = old * 4 - 1;
        for (size_t i = 0; i < old; i++)
                for (struct name *n = t->by_name[i], *next; n; n = next) {
                        const size_t b = name_bucket(t, n->parent, n->text, n->len);

                        next = n->hash_next;
                        n->hash_next = a[b];
                        a[b] = n;
                }
        free(t->by_name);
        t->by_name = a;
}

static void key_add(struct table *t, struct node *n) {
        const size_t b = key_bucket(t, n);

        n->hash_next = t->by_key[b];
        t->by_key[b] = n;
        n->hashed = true;
}

static void key_del(struct table *t, struct node *n) {
        struct node **p = &t->by_key[key_bucket(t, n)];

        if (!n->hashed)
                return;
        while (*p != n)
                p = &(*p)->hash_next;
        *p = n->hash_next;
        n->hash_next = NULL;
        n->hashed = false;
}

static struct node *key_find(const struct table *t, const struct node *like) {
        struct node *n = t->by_key[key_bucket(t, like)];

        while (n && !(n->host == like->host && n->dev == like->dev && n->region == like->region &&
                      n->layer == like->layer))
                n = n->hash_next;
        return n;
}

static struct name *name_find(const struct table *t, const struct node *parent, const char *text,
                              size_t len) {
        struct name *n = t->by_name[name_bucket(t, parent, text, len)];

        while (n && !(n->parent == parent && n->len == len && memcmp(n->text, text, len) == 0))
                n = n->hash_next;
        return n;
}

/* ---- names ---- */

/* takes the name out of the table; its parent's reference is the caller's to drop */
static struct node *name_del(struct table *t, struct name *name) {
        struct name **p = &t->by_name[name_bucket(t, name->parent, name->text, name->len)];
        struct node *parent = name->parent;

        while (*p != name)
                p = &(*p)->hash_next;
        *p = name->hash_next;
        p = &name->node->names;
        while (*p != name)
                p = &(*p)->next;
        *p = name->next;
        t->n_names--;
        free(name);
        return parent;
}

/* newest first: the name the kernel looked up last is the one most likely to be right */
static int name_add(struct table *t, struct node *node, struct node *parent, const char *text, size_t len) {
        struct name *name = malloc(sizeof(*name) + len + 1);
        size_t b;

        if (!name)
                return -ENOMEM;
        grow_names(t);
        *name = (struct name){ .node = node, .parent = parent, .next = node->names, .len = (uint8_t) len };
        name->epoch = t->epoch - 1;
        memcpy(name->text, text, len);
        name->text[len] = '\0';
        b = name_bucket(t, parent, text, len);
        name->hash_next = t->by_name[b];
        t->by_name[b] = name;
        node->names = name;
        parent->refs++;
        t->n_names++;
        return 0;
}

/* frees nodes that nobody refers to; their parents may follow, one after the other */
static void release(struct table *t, struct node *node) {
        struct node *todo = node;

        while (todo && todo->refs == 0 && todo->nlookup == 0) {
                struct node *parent = NULL;

                key_del(t, todo);
                while (todo->names) {
                        struct node *p = name_del(t, todo->names);

                        p->refs--;
                        if (parent && parent != p && parent->refs == 0 && parent->nlookup == 0)
                                release(t, parent); /* only files have several names: one level */
                        parent = p;
                }
                slots_del(&t->ids, todo->id);
                dirs_drop(t, todo);
                t->n_nodes--;
                free(todo->last);
                free(todo->redirect);
                free(todo);
                todo = parent;
        }
}

static void name_drop(struct table *t, struct name *name) {
        struct node *parent = name_del(t, name);

        parent->refs--;
        release(t, parent);
}

/* ---- the table ---- */

/* what is in the upper stays with its directory */
static uint8_t domain_of(struct table *t, const struct node *parent, uint32_t region, uint64_t dev,
                         enum node_layer layer) {
        if (parent && (layer == NODE_UPPER || (parent->layer == NODE_LOWER && parent->dev == dev)))
                return parent->domain;
        for (unsigned int i = 0; i < t->n_domains; i++)
                if (t->domains[i].region == region && t->domains[i].dev == dev)
                        return (uint8_t) i;
        if (t->n_domains == NODE_DOMAINS_MAX)
                return NODE_DOMAINS_MAX - 1;
        t->domains[t->n_domains] = (struct domain){ region, dev };
        return (uint8_t) t->n_domains++;
}

uint64_t node_domains(const struct table *t, uint32_t region) {
        uint64_t mask = t->n_domains == NODE_DOMAINS_MAX ? UINT64_C(1) << (NODE_DOMAINS_MAX - 1) : 0;

        for (unsigned int i = 0; i < t->n_domains; i++)
                if (t->domains[i].region == region)
                        mask |= UINT64_C(1) << i;
        return mask;
}

static struct node *node_new(struct table *t, const struct node *parent, uint32_t region,
                             const struct facts *f, enum node_layer layer) {
        struct node *n = calloc(1, sizeof(*n));

        if (!n)
                return NULL;
        n->id = slots_add(&t->ids, n);
        if (!n->id) {
                free(n);
                return NULL;
        }
        n->region = region;
        n->type = f->st.st_mode & S_IFMT;
        n->layer = layer;
        n->domain = domain_of(t, parent, region, f->st.st_dev, layer);
        n->dev = f->st.st_dev;
        n->host = f->st.st_ino;
        n->btime_ns = f->btime_ns;
        n->seen_ns = f->st.st_mtim.tv_sec * INT64_C(1000000000) + f->st.st_mtim.tv_nsec;
        t->n_nodes++;
        grow_keys(t);
        key_add(t, n);
        return n;
}

static size_t dev_index(struct table *t, uint64_t dev) {
        uint64_t *a;

        for (size_t i = 0; i < t->n_devs; i++)
                if (t->devs[i] == dev)
                        return i;
        if (t->n_devs == NODE_DEVS_MAX)
                return NODE_DEVS_MAX;
        a = realloc(t->devs, (t->n_devs + 1) * sizeof(*a));
        if (!a)
                return NODE_DEVS_MAX;
        t->devs = a;
        a[t->n_devs] = dev;
        return t->n_devs++;
}

/* The first device's numbers are shown as they are; others get their index in the bits that inode numbers do
 * not reach. What fits neither is numbered from the top. */
static uint64_t fold(struct table *t, uint64_t dev, uint64_t ino) {
        const size_t i = dev_index(t, dev);

        if (ino >> INO_BITS || i == NODE_DEVS_MAX)
                return UINT64_C(1) << 62 | t->next_ino++;
        return (uint64_t) i << INO_BITS | ino;
}

static uint64_t shown(struct table *t, const struct facts *f) {
        return f->shown_ino ? fold(t, f->shown_dev, f->shown_ino) : fold(t, f->st.st_dev, f->st.st_ino);
}

int table_new(struct rules *const *rules, const struct facts *roots, size_t n_regions, struct table **ret) {
        struct table *t = calloc(1, sizeof(*t));

        if (!t)
                return -ENOMEM;
        (void) pthread_mutex_init(&t->lock, NULL);
        t->key_mask = t->name_mask = BUCKETS_MIN - 1;
        t->by_key = calloc(BUCKETS_MIN, sizeof(struct node *));
        t->by_name = calloc(BUCKETS_MIN, sizeof(struct name *));
        t->roots = calloc(n_regions + 1, sizeof(struct node *));
        t->rules = rules;
        t->epoch = 1;
        if (getrandom(&t->seed, sizeof(t->seed), GRND_NONBLOCK) != sizeof(t->seed))
                t->seed = (uintptr_t) t;
        for (size_t i = 0; t->by_key && t->by_name && t->roots && i < n_regions; i++) {
                t->roots[i] = node_new(t, NULL, (uint32_t) i, &roots[i], NODE_LOWER);
                if (!t->roots[i])
                        break;
                t->roots[i]->refs = 1;
                t->roots[i]->ino = fold(t, roots[i].st.st_dev, roots[i].st.st_ino);
                t->n_regions++;
        }
        if (t->n_regions < n_regions || !t->roots || !t->by_key || !t->by_name) {
                (void) table_free(t);
                return -ENOMEM;
        }
        *ret = t;
        return 0;
}

struct table *table_free(struct table *t) {
        if (!t)
                return NULL;
        table_lock(t);
        for (size_t i = 0; t->by_name && i <= t->name_mask; i++)
                while (t->by_name[i])
                        name_del(t, t->by_name[i])->refs--;
        for (size_t i = SLOTS_FIRST; i < t->ids.n + SLOTS_FIRST; i++) {
                struct node *n = slots_get(&t->ids, i);

                if (!n)
                        continue;
                dirs_drop(t, n);
                free(n->last);
                free(n->redirect);
                free(n);
        }
        table_unlock(t);
        slots_deinit(&t->ids);
        free(t->by_key);
        free(t->by_name);
        free(t->roots);
        free(t->devs);
        (void) pthread_mutex_destroy(&t->lock);
        free(t);
        return NULL;
}

void table_lock(struct table *t) {
        (void) pthread_mutex_lock(&t->lock);
}

void table_unlock(struct table *t) {
        struct dir_fd *dead = TAKE_PTR(t->dead);

        (void) pthread_mutex_unlock(&t->lock);
        dirs_close(dead);
}

/* ---- nodes ---- */

struct node *node_get(struct table *t, uint64_t id) {
        struct node *n;

        table_lock(t);
        n = slots_get(&t->ids, id);
        if (n)
                n->refs++;
        table_unlock(t);
        return n;
}

void node_put_locked(struct table *t, struct node *node) {
        if (!node)
                return;
        assert(node->refs > 0);
        node->refs--;
        release(t, node);
}

void node_put(struct table *t, struct node *node) {
        if (!node)
                return;
        table_lock(t);
        node_put_locked(t, node);
        table_unlock(t);
}

/* a name that led elsewhere before leads to @node now */
static int attach(struct table *t, struct node *node, struct node *parent, const char *name, size_t len) {
        struct name *old = name_find(t, parent, name, len);

        if (old && old->node == node)
                return 0;
        if (old)
                name_drop(t, old); /* @parent is referenced by the caller */
        if (S_ISDIR(node->type) && node->names) {
                /* the host moved the directory: what is below may be under other rules */
                name_drop(t, node->names);
                node->upper_epoch = 0;
                t->epoch++;
        }
        return name_add(t, node, parent, name, len);
}

uint64_t node_enter(struct table *t, struct node *parent, const char *name, const struct facts *facts,
                    enum node_layer layer, uint64_t *ret_ino) {
        const struct node like = {
                .region = parent->region, .layer = layer, .dev = facts->st.st_dev, .host = facts->st.st_ino
        };
        struct node *n;
        uint64_t id = 0;

        table_lock(t);
        n = key_find(t, &like);
        if (n && (n->type != (facts->st.st_mode & S_IFMT) ||
                  (n->btime_ns && facts->btime_ns && n->btime_ns != facts->btime_ns))) {
                key_del(t, n); /* the number was given to a new object */
                n = NULL;
        }
        if (!n) {
                n = node_new(t, parent, parent->region, facts, layer);
                if (n)
                        n->ino = shown(t, facts);
        }
        if (n) {
                n->nlookup++;
                if (n == t->roots[n->region] || attach(t, n, parent, name, strlen(name)) == 0) {
                        id = n->id;
                        *ret_ino = n->ino;
                } else {
                        n->nlookup--;
                        release(t, n);
                }
        }
        table_unlock(t);
        return id;
}

void node_forget(struct table *t, uint64_t id, uint64_t n) {
        struct node *node;

        table_lock(t);
        node = slots_get(&t->ids, id);
        if (node) {
                node->nlookup -= n < node->nlookup ? n : node->nlookup;
                release(t, node);
        }
        table_unlock(t);
}

uint64_t node_fold_ino(struct table *t, uint64_t dev, uint64_t ino) {
        uint64_t r;

        table_lock(t);
        r = fold(t, dev, ino);
        table_unlock(t);
        return r;
}

uint64_t node_shown_ino(struct table *t, const struct facts *facts) {
        uint64_t r;

        table_lock(t);
        r = shown(t, facts);
        table_unlock(t);
        return r;
}

void node_renumber(struct table *t, struct node *node) {
        node->ino = fold(t, node->dev, node->host);
}

struct node *node_child(struct table *t, const struct node *parent, const char *name) {
        struct name *n = name_find(t, parent, name, strlen(name));

        return n ? n->node : NULL;
}

void node_unname(struct table *t, struct node *parent, const char *name, bool gone) {
        struct name *n = name_find(t, parent, name, strlen(name));

        if (!n)
                return;
        if (gone)
                key_del(t, n->node);
        name_drop(t, n);
}

int node_move(struct table *t, struct node *parent, const char *name, struct node *new_parent,
              const char *new_name) {
        struct name *old = name_find(t, parent, name, strlen(name));
        struct node *node;
        int r;

        if (!old)
                return 0;
        node = old->node;
        node->refs++;
        name_drop(t, old);
        r = attach(t, node, new_parent, new_name, strlen(new_name));
        if (S_ISDIR(node->type)) {
                node->upper_epoch = 0;
                t->epoch++;
        }
        node_put_locked(t, node);
        return r;
}

void node_rebase(struct table *t, struct node *node, enum node_layer layer, const struct facts *facts) {
        key_del(t, node);
        node->layer = layer;
        node->dev = facts->st.st_dev;
        node->host = facts->st.st_ino;
        node->btime_ns = facts->btime_ns;
        if (node->names) /* without one nothing leads to it, and its number may be used again */
                key_add(t, node);
}

void node_keep_name(struct table *t, struct node *node, const struct name *keep) {
        for (struct name *n = node->names, *next; n; n = next) {
                next = n->next;
                if (n != keep)
                        name_drop(t, n);
        }
}

/* ---- paths and rules ---- */

struct node_states states_step(struct rules *rules, struct node_states dir, const char *name, size_t len) {
        struct node_states r = { .seen = rules_step(rules, dir.seen, name, len) };

        r.lower = dir.lower == dir.seen ? r.seen : rules_step(rules, dir.lower, name, len);
        return r;
}

struct rules_verdict states_verdict(const struct rules *rules, struct node_states states, mode_t type) {
        struct rules_verdict v = { .action = GUARD_ALLOW, .rule = -1 }, w;

        if (!rules)
                return v;
        v = rules_verdict(rules, states.seen, type);
        if (states.lower == states.seen)
                return v;
        w = rules_verdict(rules, states.lower, type);
        return w.action > v.action ? w : v;
}

static int name_states(struct table *t, struct name *name, unsigned int depth, struct node_states *ret) {
        struct rules *rules = t->rules[name->node->region];
        struct node_states dir = { RULES_ROOT, RULES_ROOT };
        struct node *parent = name->parent;
        int r;

        if (name->epoch != t->epoch) {
                if (depth >= NODE_DEPTH_MAX)
                        return -ELOOP;
                if (parent != t->roots[parent->region]) {
                        if (!parent->names)
                                return -ELOOP;
                        r = name_states(t, parent->names, depth + 1, &dir);
                        if (r < 0)
                                return r;
                }
                name->states = dir;
                if (rules)
                        name->states = states_step(rules, dir, name->text, name->len);
                if (rules && name->node->redirect)
                        name->states.lower = rules_at(rules, name->node->redirect);
                name->epoch = t->epoch;
        }
        *ret = name->states;
        return 0;
}

int node_states(struct table *t, struct node *node, struct node_states *ret) {
        if (node == t->roots[node->region]) {
                *ret = (struct node_states){ RULES_ROOT, RULES_ROOT };
                return 0;
        }
        return node->names ? name_states(t, node->names, 0, ret) : -ELOOP;
}

struct rules_verdict node_verdict(struct table *t, struct node *node, struct name **ret_name) {
        const struct rules *rules = t->rules[node->region];
        struct rules_verdict worst = { .action = GUARD_ALLOW, .rule = -1 };
        struct name *which = node->names;

        if (node == t->roots[node->region])
                worst = states_verdict(rules, (struct node_states){ RULES_ROOT, RULES_ROOT }, node->type);
        for (struct name *n = node->names; n; n = n->next) {
                struct rules_verdict v = verdict_unknown;
                struct node_states states;

                if (name_states(t, n, 0, &states) == 0)
                        v = states_verdict(rules, states, node->type);
                if (n == node->names || v.action > worst.action) {
                        worst = v;
                        which = n;
                }
        }
        if (ret_name)
                *ret_name = which;
        return worst;
}

/** struct trail - names from a node up to its region's root, or to where it was redirected from */
struct trail {
        const struct name *v[NODE_DEPTH_MAX];
        size_t n;
        const char *redirect;
};

static int trail_find(struct trail *trail, const struct table *t, const struct node *node, bool lower) {
        while (!(lower && node->redirect)) {
                const struct name *name = node->names;

                if (!name)
                        return node == t->roots[node->region] ? 0 : -ESTALE;
                if (trail->n == NODE_DEPTH_MAX)
                        return -ELOOP;
                trail->v[trail->n++] = name;
                node = name->parent;
        }
        trail->redirect = node->redirect;
        return 0;
}

static int path_of(const struct table *t, const struct node *node, bool lower, struct buf *out) {
        struct trail trail;
        int r;

        trail.n = 0;
        trail.redirect = NULL;
        r = trail_find(&trail, t, node, lower);
        if (r == 0)
                r = buf_str(out, trail.redirect ? trail.redirect : "");
        for (size_t i = trail.n; r == 0 && i > 0; i--) {
                if (i < trail.n || trail.redirect)
                        r = buf_add(out, "/", 1);
                if (r == 0)
                        r = buf_add(out, trail.v[i - 1]->text, trail.v[i - 1]->len);
        }
        return r;
}

int node_path(const struct table *t, const struct node *node, struct buf *out) {
        return path_of(t, node, false, out);
}

int node_lower_path(const struct table *t, const struct node *node, struct buf *out) {
        return path_of(t, node, true, out);
}

int node_redirect(struct table *t, struct node *node, const char *path) {
        AUTO_BUF struct buf natural = { 0 };
        char *copy = NULL;

        if (path && node->names && node->names->parent->layer == NODE_LOWER) {
                int r = node_lower_path(t, node->names->parent, &natural);

                if (r == 0 && natural.len)
                        r = buf_add(&natural, "/", 1);
                if (r == 0)
                        r = buf_add(&natural, node->names->text, node->names->len);
                if (r < 0)
                        return r;
                if (strcmp(buf_cstr(&natural), path) == 0)
                        path = NULL;
        }
        if (!path && !node->redirect)
                return 0;
        if (path && node->redirect && strcmp(path, node->redirect) == 0)
                return 0;
        if (path && !(copy = strdup(path)))
                return -ENOMEM;
        free(node->redirect);
        node->redirect = copy;
        t->epoch++;
        return 0;
}
