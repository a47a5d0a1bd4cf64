/*
 * DOC: theory of operation
 *
 * All patterns of a list share one tree of nodes ("trie"): an edge takes one path component (literal or
 * glob), a node that stands for "**" keeps itself at every step. A state is the sorted set of the nodes that
 * a path reaches, with the number of the last rule that matched the path or one of its parents (what a rule
 * matches it matches with everything below). Sets are interned, so a state is an index, and two paths with
 * the same state have the same future. Nodes from which only rules before the one that already matched can be
 * reached are left out: they cannot change a verdict any more.
 *
 * An attacker chooses the names. Cost of a step: edges of the set's nodes times a match that is at most
 * quadratic in the name (glob.h). What grows: the table of states, up to RULES_STATES_MAX; a step that would
 * need one more gives STATE_FULL, which protects itself and everything below.
 *
 * Threads: tree and rules are constant once compiled. States are constant once published: a pointer stored
 * with release order into states[] and a bucket. Readers take no lock; the mutex only orders writers.
 */
#include "fs/rules.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/fold.h"
#include "fs/glob.h"
#include "fs/pattern.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"

enum { BUCKETS = 4096, STATE_FULL = RULES_STATES_MAX, NO_RULE = -1, LIMIT_RULE = -2 };

/* as what a node is judged; in the order of the bits of enum rule_types */
enum node_type { NODE_FILE, NODE_LINK, NODE_DIR, NODE_TYPE_COUNT };

static_assert(1 << NODE_FILE == RULE_FILE && 1 << NODE_LINK == RULE_LINK && 1 << NODE_DIR == RULE_DIR,
              "node_type and rule_types differ");
static_assert(RULES_NODES_MAX <= UINT16_MAX && RULES_MAX <= INT16_MAX, "too wide for the tables");

/** struct edge - from a node to @to by one component */
struct edge {
        char *text; /* owned, not terminated */
        char *fold; /* owned, folded form of @text; NULL: bytewise only */
        uint16_t len, fold_len;
        bool literal;
        bool folded; /* @fold is @text */
        uint16_t to;
        int next; /* edge of the same node, -1: last */
};

/** struct node - what is still possible; rule numbers, NO_RULE: none */
struct node {
        int edges;                     /* first, -1: none */
        int deep;                      /* node of a "**" that follows, entered without a step; -1: none */
        bool loop;                     /* stands for "**" */
        int16_t covers;                /* last rule that ends here with everything below */
        int16_t ends[NODE_TYPE_COUNT]; /* last rule that ends here, by type */
        int16_t guards;                /* last rule whose literal way leads through here */
        int16_t reach;                 /* last rule that can be reached from here */
};

struct state {
        struct state *next; /* in the bucket */
        rules_state id;
        uint32_t hash;
        struct rules_verdict verdict[NODE_TYPE_COUNT];
        int16_t covered; /* last rule that matched this path or a parent */
        uint16_t n;
        uint16_t nodes[]; /* ascending */
};

/** struct set - a state being made */
struct set {
        int16_t covered;
        uint16_t n;
        uint16_t nodes[RULES_NODES_MAX];
};

struct rule {
        char *text; /* owned */
        enum guard_do action;
        bool builtin;
        unsigned int types;
        char *from; /* owned; NULL: not said */
};

struct rules {
        struct rule *rules;
        size_t n_rules;
        bool fold;
        char *base; /* of rules_rebase(), owned; NULL: none */
        struct node *nodes;
        size_t n_nodes;
        struct edge *edges;
        size_t n_edges;
        rules_state root;
        pthread_mutex_t lock; /* of the writers of what follows */
        uint32_t n_states;
        _Atomic(struct state *) buckets[BUCKETS];
        _Atomic(struct state *) states[RULES_STATES_MAX];
};

/* --- compiling -------------------------------------------------------------------------------------- */

static int node_new(struct rules *rules, bool loop, struct error *err) {
        struct node *v;

        if (rules->n_nodes == RULES_NODES_MAX)
                return error_set(err, -E2BIG, "the rules are too many or too long together");
        v = reallocarray(rules->nodes, rules->n_nodes + 1, sizeof(*v));
        if (!v)
                return error_set(err, -ENOMEM, "out of memory");
        rules->nodes = v;
        v[rules->n_nodes] = (struct node){
                .edges = -1,
                .deep = -1,
                .loop = loop,
                .covers = NO_RULE,
                .ends = { NO_RULE, NO_RULE, NO_RULE },
                .guards = NO_RULE,
                .reach = NO_RULE,
        };
        return (int) rules->n_nodes++;
}

static void edge_deinit(struct edge *e) {
        free(e->text);
        free(e->fold);
}

static int edge_init(struct edge *e, const struct pattern_comp *comp, bool fold) {
        *e = (struct edge){ .len = (uint16_t) comp->len, .literal = comp->literal, .next = -1 };
        e->text = malloc(comp->len + 1);
        e->fold = fold ? malloc(comp->len + 1) : NULL;
        if (!e->text || (fold && !e->fold)) {
                edge_deinit(e);
                return -ENOMEM;
        }
        memcpy(e->text, comp->text, comp->len);
        if (fold) {
                e->fold_len = (uint16_t) fold_name(comp->text, comp->len, e->fold);
                e->folded = e->fold_len == e->len && memcmp(e->fold, e->text, e->len) == 0;
        }
        return 0;
}

static int edge_find(const struct rules *rules, int from, const struct pattern_comp *comp, bool fold) {
        for (int i = rules->nodes[from].edges; i >= 0; i = rules->edges[i].next) {
                const struct edge *e = &rules->edges[i];

                if (e->literal == comp->literal && (e->fold != NULL) == fold && e->len == comp->len &&
                    memcmp(e->text, comp->text, e->len) == 0)
                        return e->to;
        }
        return -ENOENT;
}

/* The node that the component @comp leads to from @from, made when it is new. Return: node, negative errno.
 */
static int edge_follow(struct rules *rules, int from, const struct pattern_comp *comp, bool fold,
                       struct error *err) {
        struct edge *v;
        int to, r;

        to = edge_find(rules, from, comp, fold);
        if (to >= 0)
                return to;
        v = reallocarray(rules->edges, rules->n_edges + 1, sizeof(*v));
        if (!v)
                return error_set(err, -ENOMEM, "out of memory");
        rules->edges = v;
        to = node_new(rules, false, err);
        if (to < 0)
                return to;
        r = edge_init(&v[rules->n_edges], comp, fold);
        if (r < 0)
                return error_set(err, r, "out of memory");
        v[rules->n_edges].to = (uint16_t) to;
        v[rules->n_edges].next = rules->nodes[from].edges;
        rules->nodes[from].edges = (int) rules->n_edges++;
        return to;
}

/* The node of "**" after @from. */
static int deep_follow(struct rules *rules, int from, struct error *err) {
        int to = rules->nodes[from].deep;

        if (to >= 0)
                return to;
        to = node_new(rules, true, err);
        if (to >= 0)
                rules->nodes[from].deep = to;
        return to;
}

static void raise_to(int16_t *slot, int16_t rule) {
        if (rule > *slot)
                *slot = rule;
}

/** struct compiling - the rule that pattern_walk() is taking apart */
struct compiling {
        struct rules *rules;
        const struct rule_def *def;
        int16_t index;
        bool fold;
};

static void end_here(struct node *node, const struct compiling *c) {
        if (c->def->types == RULE_ANY)
                raise_to(&node->covers, c->index);
        for (int t = 0; t < NODE_TYPE_COUNT; t++) {
                if (c->def->types == RULE_ANY || c->def->types & 1U << t)
                        raise_to(&node->ends[t], c->index);
        }
}

static int add_alternative(const struct pattern_comp *comps, size_t n, void *arg, struct error *err) {
        const struct compiling *c = arg;
        struct rules *rules = c->rules;
        bool literal = c->def->action != GUARD_ALLOW; /* the way so far is one that a link must not replace */
        int at = 0;

        raise_to(&rules->nodes[0].reach, c->index);
        for (size_t i = 0; i < n; i++) {
                at = comps[i].deep ? deep_follow(rules, at, err)
                                   : edge_follow(rules, at, &comps[i], c->fold, err);
                if (at < 0)
                        return at;
                raise_to(&rules->nodes[at].reach, c->index);
                literal = literal && (comps[i].literal || (comps[i].deep && i == 0));
                if (literal && comps[i].literal && i + 1 < n)
                        raise_to(&rules->nodes[at].guards, c->index);
        }
        end_here(&rules->nodes[at], c);
        return 0;
}

static int add_rule(struct rules *rules, const struct rule_def *def, bool fold, struct error *err) {
        struct compiling c = {
                .rules = rules, .def = def, .index = (int16_t) rules->n_rules, .fold = fold || def->builtin
        };
        struct rule *rule = &rules->rules[rules->n_rules];
        int r;

        rule->text = strdup(def->path);
        rule->from = def->from ? strdup(def->from) : NULL;
        if (!rule->text || (def->from && !rule->from)) {
                free(rule->text);
                free(rule->from);
                return error_set(err, -ENOMEM, "out of memory");
        }
        rule->action = def->action;
        rule->builtin = def->builtin;
        rule->types = def->types;
        rules->n_rules++;
        r = pattern_walk(def->path, add_alternative, &c, err);
        if (r < 0)
                return error_wrap(err, r, "guard rule '%s'", ESC(def->path));
        return 0;
}

/* --- states ----------------------------------------------------------------------------------------- */

/* Adds a node in order; nodes come nearly sorted, so the place is near the end. */
static void set_add(struct set *set, int node) {
        size_t i = set->n;

        while (i > 0 && set->nodes[i - 1] > node)
                i--;
        if (i > 0 && set->nodes[i - 1] == node)
                return;
        memmove(&set->nodes[i + 1], &set->nodes[i], (set->n - i) * sizeof(set->nodes[0]));
        set->nodes[i] = (uint16_t) node;
        set->n++;
}

/* Adds a node that was reached, and the "**" after it. */
static void set_reach(const struct rules *rules, struct set *set, int node) {
        set_add(set, node);
        if (rules->nodes[node].deep >= 0)
                set_add(set, rules->nodes[node].deep);
}

/* Notes what covers everything below, and drops the nodes that cannot matter any more. */
static void set_finish(const struct rules *rules, struct set *set) {
        uint16_t kept = 0;

        for (uint16_t i = 0; i < set->n; i++)
                raise_to(&set->covered, rules->nodes[set->nodes[i]].covers);
        for (uint16_t i = 0; i < set->n; i++) {
                if (rules->nodes[set->nodes[i]].reach > set->covered)
                        set->nodes[kept++] = set->nodes[i];
        }
        set->n = kept;
}

static struct rules_verdict set_verdict(const struct rules *rules, const struct set *set,
                                        enum node_type type) {
        struct rules_verdict v = { .action = GUARD_ALLOW, .rule = NO_RULE };
        int16_t best = set->covered, guard = NO_RULE;

        for (uint16_t i = 0; i < set->n; i++) {
                const struct node *node = &rules->nodes[set->nodes[i]];

                raise_to(&best, node->ends[type]);
                if (type == NODE_LINK)
                        raise_to(&guard, node->guards);
        }
        if (best >= 0)
                v = (struct rules_verdict){ .action = rules->rules[best].action, .rule = best };
        if (guard > best) {
                v = (struct rules_verdict){ .action = rules->rules[guard].action, .rule = guard };
                if (v.action == GUARD_HIDE)
                        v.action = GUARD_PROTECT; /* the link itself is no secret */
        }
        return v;
}

/* FNV-1a over the rule number and the nodes */
static uint32_t set_hash(const struct set *set) {
        uint32_t h = (2166136261U ^ (uint16_t) set->covered) * 16777619U;

        for (uint16_t i = 0; i < set->n; i++)
                h = (h ^ set->nodes[i]) * 16777619U;
        return h ^ h >> 15;
}

static const struct state *state_find(const struct rules *rules, const struct set *set, uint32_t hash) {
        const struct state *s = atomic_load_explicit(&rules->buckets[hash % BUCKETS], memory_order_acquire);

        for (; s; s = s->next) {
                if (s->hash == hash && s->covered == set->covered && s->n == set->n &&
                    memcmp(s->nodes, set->nodes, set->n * sizeof(set->nodes[0])) == 0)
                        return s;
        }
        return NULL;
}

/* Publishes a new state; the caller holds the lock. Return: NULL when out of room or memory. */
static const struct state *state_new(struct rules *rules, const struct set *set, uint32_t hash) {
        _Atomic(struct state *) *bucket = &rules->buckets[hash % BUCKETS];
        struct state *s;

        if (rules->n_states == RULES_STATES_MAX)
                return NULL;
        s = calloc(1, sizeof(*s) + set->n * sizeof(s->nodes[0]));
        if (!s)
                return NULL;
        s->id = rules->n_states++;
        s->hash = hash;
        s->covered = set->covered;
        s->n = set->n;
        memcpy(s->nodes, set->nodes, set->n * sizeof(s->nodes[0]));
        for (int t = 0; t < NODE_TYPE_COUNT; t++)
                s->verdict[t] = set_verdict(rules, set, (enum node_type) t);
        s->next = atomic_load_explicit(bucket, memory_order_relaxed);
        atomic_store_explicit(&rules->states[s->id], s, memory_order_release);
        atomic_store_explicit(bucket, s, memory_order_release);
        return s;
}

static rules_state set_intern(struct rules *rules, struct set *set) {
        const struct state *s;
        uint32_t hash;

        set_finish(rules, set);
        hash = set_hash(set);
        s = state_find(rules, set, hash);
        if (s)
                return s->id;
        (void) pthread_mutex_lock(&rules->lock);
        s = state_find(rules, set, hash);
        if (!s)
                s = state_new(rules, set, hash);
        (void) pthread_mutex_unlock(&rules->lock);
        return s ? s->id : STATE_FULL;
}

static const struct state *state_get(const struct rules *rules, rules_state id) {
        if (id >= RULES_STATES_MAX)
                return NULL;
        return atomic_load_explicit(&rules->states[id], memory_order_acquire);
}

/** struct spelling - a name as it is and folded */
struct spelling {
        const char *name;
        size_t len, fold_len;
        size_t tail_len; /* of the folded name without final dots and spaces */
        bool folded;     /* the folded name is the name */
        bool alias;      /* may be an 8.3 name */
        char fold[RULES_NAME_MAX];
};

static void spelling_init(struct spelling *s, const char *name, size_t len) {
        s->name = name;
        s->len = len;
        s->fold_len = fold_name(name, len, s->fold);
        s->tail_len = fold_tail(s->fold, s->fold_len);
        s->folded = s->fold_len == len && memcmp(s->fold, name, len) == 0;
        s->alias = memchr(s->fold, '~', s->fold_len) != NULL;
}

static bool glob_takes(const struct edge *e, const struct spelling *s) {
        if (glob_match(e->text, e->len, s->name, s->len))
                return true;
        if (!e->fold)
                return false;
        if (!(e->folded && s->folded) && glob_match(e->fold, e->fold_len, s->fold, s->fold_len))
                return true;
        return s->tail_len != s->fold_len && glob_match(e->fold, e->fold_len, s->fold, s->tail_len);
}

static bool edge_takes(const struct edge *e, const struct spelling *s) {
        if (!e->literal)
                return glob_takes(e, s);
        if (e->len == s->len && memcmp(e->text, s->name, s->len) == 0)
                return true;
        if (!e->fold)
                return false;
        if ((e->fold_len == s->fold_len || e->fold_len == s->tail_len) &&
            memcmp(e->fold, s->fold, e->fold_len) == 0)
                return true;
        return s->alias && fold_alias(s->fold, s->tail_len, e->fold, e->fold_len);
}

static void set_step(const struct rules *rules, const struct state *from, const struct spelling *name,
                     struct set *set) {
        set->covered = from->covered;
        for (uint16_t i = 0; i < from->n; i++) {
                const struct node *node = &rules->nodes[from->nodes[i]];

                if (node->loop)
                        set_add(set, from->nodes[i]);
                for (int e = node->edges; e >= 0; e = rules->edges[e].next) {
                        if (edge_takes(&rules->edges[e], name))
                                set_reach(rules, set, rules->edges[e].to);
                }
        }
}

rules_state rules_step(struct rules *rules, rules_state dir, const char *name, size_t len) {
        const struct state *from = state_get(rules, dir == RULES_ROOT ? rules->root : dir);
        struct spelling s __attribute__((uninitialized));
        struct set set __attribute__((uninitialized)); /* 16 KiB; filled up to .n */

        if (!from || len > RULES_NAME_MAX)
                return STATE_FULL;
        if (from->n == 0)
                return from->id; /* decided for everything below */
        spelling_init(&s, name, len);
        set.n = 0;
        set_step(rules, from, &s, &set);
        return set_intern(rules, &set);
}

static enum node_type node_type(mode_t type) {
        if (S_ISDIR(type))
                return NODE_DIR;
        return S_ISLNK(type) ? NODE_LINK : NODE_FILE;
}

struct rules_verdict rules_verdict(const struct rules *rules, rules_state state, mode_t type) {
        const struct state *s = state_get(rules, state == RULES_ROOT ? rules->root : state);

        if (!s)
                return (struct rules_verdict){ .action = GUARD_PROTECT, .rule = LIMIT_RULE };
        return s->verdict[node_type(type)];
}

rules_state rules_at(struct rules *rules, const char *path) {
        rules_state state = RULES_ROOT;

        while (*path) {
                const size_t len = strcspn(path, "/");

                if (len > 0)
                        state = rules_step(rules, state, path, len);
                path += len + (path[len] == '/');
        }
        return state;
}

struct rules_verdict rules_path(struct rules *rules, const char *path, mode_t type) {
        return rules_verdict(rules, rules_at(rules, path), type);
}

const char *rules_text(const struct rules *rules, int index) {
        if (index == LIMIT_RULE)
                return "(limit)";
        return index < 0 || (size_t) index >= rules->n_rules ? "(default)" : rules->rules[index].text;
}

bool rules_is_builtin(const struct rules *rules, int index) {
        return index >= 0 && (size_t) index < rules->n_rules && rules->rules[index].builtin;
}

bool rules_def(const struct rules *rules, size_t index, struct rule_def *ret) {
        const struct rule *rule = index < rules->n_rules ? &rules->rules[index] : NULL;

        if (!rule)
                return false;
        *ret = (struct rule_def){ rule->text, rule->action, rule->builtin, rule->types, rule->from };
        return true;
}

bool rules_fold(const struct rules *rules) {
        return rules->fold;
}

const char *rules_base(const struct rules *rules) {
        return rules->base;
}

int rules_rebase(struct rules *rules, const char *base) {
        rules_state state = RULES_ROOT;

        free(rules->base);
        rules->base = strdup(base);
        if (!rules->base)
                return -ENOMEM;
        while (*base) {
                const size_t len = strcspn(base, "/");

                if (len > 0)
                        state = rules_step(rules, state, base, len);
                base += len + (base[len] == '/');
        }
        if (state == STATE_FULL)
                return -ENOMEM;
        rules->root = state;
        return 0;
}

int rules_new(const struct rule_def *defs, size_t n, bool fold, struct rules **ret, struct error *err) {
        AUTO_RULES struct rules *rules = NULL;
        struct set root = { .covered = NO_RULE };
        int r;

        if (n > RULES_MAX)
                return error_set(err, -E2BIG, "%zu guard rules: at most %d", n, RULES_MAX);
        rules = calloc(1, sizeof(*rules));
        if (!rules)
                return error_set(err, -ENOMEM, "out of memory");
        (void) pthread_mutex_init(&rules->lock, NULL);
        rules->fold = fold;
        rules->rules = calloc(n ? n : 1, sizeof(*rules->rules));
        if (!rules->rules)
                return error_set(err, -ENOMEM, "out of memory");
        r = node_new(rules, false, err);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = add_rule(rules, &defs[i], fold, err);
        if (r < 0)
                return r;
        set_reach(rules, &root, 0);
        rules->root = set_intern(rules, &root);
        if (rules->root == STATE_FULL)
                return error_set(err, -ENOMEM, "out of memory");
        *ret = TAKE_PTR(rules);
        return 0;
}

struct rules *rules_free(struct rules *rules) {
        if (!rules)
                return NULL;
        for (size_t i = 0; i < rules->n_rules; i++) {
                free(rules->rules[i].text);
                free(rules->rules[i].from);
        }
        for (size_t i = 0; i < rules->n_edges; i++)
                edge_deinit(&rules->edges[i]);
        for (uint32_t i = 0; i < rules->n_states; i++)
                free(atomic_load_explicit(&rules->states[i], memory_order_relaxed));
        free(rules->base);
        free(rules->rules);
        free(rules->nodes);
        free(rules->edges);
        (void) pthread_mutex_destroy(&rules->lock);
        free(rules);
        return NULL;
}
