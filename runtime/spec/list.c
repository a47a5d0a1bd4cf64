#include "runtime/spec/list.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/json.h"
#include "runtime/spec/itemtext.h"
#include "runtime/spec/merge.h"
#include "runtime/spec/narrow.h"

enum { ITEM_SIZE_MAX = 64, NO_TIER = -1, NO_FROM = -1, FROM_MAX = 4200 };

/* one value big and aligned enough for any item */
union item {
        struct spec_rule rule;
        struct spec_seed seed;
        struct spec_mount mount;
        struct spec_secret secret;
        struct spec_env env;
        char *path;
};

/* @check: what holds between the fields of an item once all are read */
struct list_type {
        enum section section;
        size_t size;
        int tier_offset;
        int from_offset; /* of the text that says where an item was said, owned by the item */
        int (*from_text)(void *item, const struct doc *node, const struct source *src, struct error *err);
        int (*check)(void *item, const struct doc *node, const struct source *src, struct error *err);
};

static int check_rule(void *item, const struct doc *node, const struct source *src, struct error *err) {
        const struct spec_rule *rule = item;

        if (!rule->path)
                return source_error(src, node, err, -EINVAL, "a rule needs 'path'");
        if (node->kind == DOC_MAP && !doc_child(node, "do"))
                return source_error(src, node, err, -EINVAL,
                                    "a rule needs 'do': allow, hold, protect or hide");
        return 0;
}

static int check_seed(void *item, const struct doc *node, const struct source *src, struct error *err) {
        const struct spec_seed *seed = item;

        return seed->from ? 0 : source_error(src, node, err, -EINVAL, "a seed needs 'from'");
}

static const struct list_type list_types[] = {
        [KEY_RULES - KEY_RULES] = { ITEM_RULE, sizeof(struct spec_rule), offsetof(struct spec_rule, tier),
                                    offsetof(struct spec_rule, from), NULL, check_rule },
        [KEY_SEEDS - KEY_RULES] = { ITEM_SEED, sizeof(struct spec_seed), offsetof(struct spec_seed, tier),
                                    NO_FROM, item_seed_text, check_seed },
        [KEY_MOUNTS - KEY_RULES] = { ITEM_MOUNT, sizeof(struct spec_mount), offsetof(struct spec_mount, tier),
                                     NO_FROM, item_mount_text, item_mount_check },
        [KEY_SECRETS - KEY_RULES] = { ITEM_SECRET, sizeof(struct spec_secret),
                                      offsetof(struct spec_secret, tier), NO_FROM, item_secret_text,
                                      item_secret_check },
        [KEY_ENV - KEY_RULES] = { ITEM_ENV, sizeof(struct spec_env), offsetof(struct spec_env, tier), NO_FROM,
                                  item_env_text, item_env_check },
        [KEY_PATHS - KEY_RULES] = { ITEM_PATH, sizeof(char *), NO_TIER, NO_FROM, item_path_text, NULL },
        [KEY_DIRS - KEY_RULES] = { ITEM_DIR, sizeof(char *), NO_TIER, NO_FROM, item_dir_text, NULL },
        [KEY_HOSTS - KEY_RULES] = { ITEM_HOST, sizeof(char *), NO_TIER, NO_FROM, item_host_text, NULL },
        [KEY_TEXTS - KEY_RULES] = { ITEM_TEXT, sizeof(char *), NO_TIER, NO_FROM, item_text_text, NULL },
};
static_assert(ARRAY_SIZE(list_types) == KEY_TREE - KEY_RULES, "list_types[] and enum key_type differ");

static const struct list_type *type_of(const struct key *key) {
        assert(key_is_list(key));
        return &list_types[key->type - KEY_RULES];
}

enum section list_section(enum key_type type) {
        assert(type >= KEY_RULES && type < KEY_TREE);
        return list_types[type - KEY_RULES].section;
}

static char *items_of(const struct spec *spec, const struct key *key, size_t *ret_n) {
        char *items;

        memcpy(&items, (const char *) spec + key->offset, sizeof(items));
        memcpy(ret_n, (const char *) spec + key->count_offset, sizeof(*ret_n));
        return items;
}

static void items_put(struct spec *spec, const struct key *key, char *items, size_t n) {
        memcpy((char *) spec + key->offset, &items, sizeof(items));
        memcpy((char *) spec + key->count_offset, &n, sizeof(n));
}

/* The text of an item's from_offset; NULL also when its type has none. */
static char *from_get(const void *item, const struct list_type *type) {
        char *from = NULL;

        if (type->from_offset != NO_FROM)
                memcpy(&from, (const char *) item + type->from_offset, sizeof(from));
        return from;
}

static int from_put(void *item, const struct list_type *type, const char *text) {
        char *copy;

        if (type->from_offset == NO_FROM || !text)
                return 0;
        copy = strdup(text);
        if (!copy)
                return -ENOMEM;
        memcpy((char *) item + type->from_offset, &copy, sizeof(copy));
        return 0;
}

/* Where @node of @src was said. */
static int from_note(void *item, const struct list_type *type, const struct doc *node,
                     const struct source *src, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        if (type->from_offset == NO_FROM)
                return 0;
        r = src->file ? buf_fmt(&text, "%s:%u", src->file, node->line) : buf_str(&text, src->origin);
        if (r == 0)
                r = from_put(item, type, buf_cstr(&text));
        return r < 0 ? error_set(err, r, "out of memory") : 0;
}

static void item_free(void *item, const struct list_type *type) {
        free(from_get(item, type));
        for (size_t i = 0; i < item_key_count(); i++)
                if (item_keys[i].section == type->section)
                        value_free(item, &item_keys[i]);
}

static int item_default(void *item, const struct list_type *type, enum spec_tier tier) {
        int r = 0;

        memset(item, 0, type->size);
        for (size_t i = 0; r == 0 && i < item_key_count(); i++)
                if (item_keys[i].section == type->section)
                        r = value_default(item, &item_keys[i]);
        if (type->tier_offset != NO_TIER)
                memcpy((char *) item + type->tier_offset, &tier, sizeof(tier));
        return r;
}

static int unknown_field(const struct doc *node, const struct list_type *type, const struct source *src,
                         struct error *err) {
        const char *near = key_nearest(type->section, node->name);

        return source_error(src, node, err, -EINVAL, "unknown key of a %s%s%s%s", section_name(type->section),
                            near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int item_from_map(void *item, const struct list_type *type, const struct doc *node,
                         const struct source *src, struct error *err) {
        for (const struct doc *c = node->first; c; c = c->next) {
                const struct key *key = key_find(type->section, c->name);
                int r;

                if (!key)
                        return unknown_field(c, type, src, err);
                r = value_set(item, key, c, src, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int item_read(void *item, const struct list_type *type, const struct doc *node,
                     const struct source *src, struct error *err) {
        int r;

        if (node->kind == DOC_MAP && type->section < ITEM_PATH)
                r = item_from_map(item, type, node, src, err);
        else if (node->kind == DOC_SCALAR && type->from_text && !doc_is_null(node))
                r = type->from_text(item, node, src, err);
        else
                r = source_error(src, node, err, -EINVAL, "must be %s",
                                 type->from_text ? "one line of text" : "a mapping");
        return r;
}

/* What holds between the fields of an item that is read. Return: 1: a repository may not say it. */
static int item_check(struct spec *spec, const struct key *key, void *item, const struct doc *node,
                      const struct source *src, struct error *err) {
        const struct list_type *type = type_of(key);
        int r = 0;

        if (src->tier == TIER_REPOSITORY)
                r = narrow_item(spec, key, item, node, src, err);
        return r == 0 && type->check ? type->check(item, node, src, err) : r;
}

/* The place of a variable of this name, for env merges by name. */
static struct spec_env *env_find(const struct spec *spec, const struct key *key, const char *name) {
        size_t n;
        struct spec_env *env = (void *) items_of(spec, key, &n);

        for (size_t i = 0; i < n; i++)
                if (strcmp(env[i].name, name) == 0)
                        return &env[i];
        return NULL;
}

/* Moves @item into the list; on failure it stays the caller's. */
static int item_push(struct spec *spec, const struct key *key, union item *item, const struct doc *node,
                     const struct source *src, struct error *err) {
        const struct list_type *type = type_of(key);
        struct spec_env *old = key->type == KEY_ENV ? env_find(spec, key, item->env.name) : NULL;
        size_t n;
        char *items = items_of(spec, key, &n), *more;

        if (old) {
                item_free(old, type);
                *old = item->env;
                return 0;
        }
        if (n >= key->max)
                return source_error(src, node, err, -E2BIG, "more than %llu items",
                                    (unsigned long long) key->max);
        if ((n & (n - 1)) == 0) { /* the room doubles at each power of two */
                more = realloc(items, (n ? 2 * n : 1) * type->size);
                if (!more)
                        return error_set(err, -ENOMEM, "out of memory");
                items = more;
        }
        memcpy(items + n * type->size, item, type->size);
        items_put(spec, key, items, n + 1);
        return 0;
}

/* Finishes an item that is read, or frees it. @r: of item_check() */
static int item_finish(struct spec *spec, const struct key *key, union item *item, int r,
                       const struct doc *node, const struct source *src, struct error *err) {
        if (r == 0)
                r = item_push(spec, key, item, node, src, err);
        if (r != 0)
                item_free(item, type_of(key));
        return r < 0 ? r : 0;
}

static int add_one(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
                   struct error *err);

/* A mount of what only a cluster has is a volume of kubernetes.volumes, and set by whom those may be set. */
static int add_volume(struct spec *spec, const struct doc *node, const struct source *src,
                      struct error *err) {
        const struct key *key = key_find(SECTION_KUBERNETES, "volumes");
        int r = 0;

        if (node->kind != DOC_SCALAR)
                return source_error(src, node, err, -EINVAL,
                                    "a volume of a cluster is one line: 'type=..,source=..,target=..'");
        if (src->tier == TIER_REPOSITORY && !src->vouched)
                r = narrow_key(spec, key, node, src, err);
        if (r != 0)
                return r < 0 ? r : 0;
        r = merge_note(spec, key, node, src, err);
        if (r == 0)
                r = add_one(spec, key, node, src, err);
        spec->n_cluster_mounts += r == 0;
        return r;
}

static int add_one(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
                   struct error *err) {
        const struct list_type *type = type_of(key);
        union item item;
        int r;

        if (key->type == KEY_MOUNTS && item_mount_is_volume(node))
                return add_volume(spec, node, src, err);
        r = item_default(&item, type, src->tier);
        if (r < 0) {
                item_free(&item, type);
                return error_set(err, r, "out of memory");
        }
        r = item_read(&item, type, node, src, err);
        if (r == 0)
                r = item_check(spec, key, &item, node, src, err);
        if (r == 0)
                r = from_note(&item, type, node, src, err);
        return item_finish(spec, key, &item, r, node, src, err);
}

/* "env: {NAME: value}" */
static int add_env_map(struct spec *spec, const struct key *key, const struct doc *map,
                       const struct source *src, struct error *err) {
        for (const struct doc *c = map->first; c; c = c->next) {
                union item item = { .env = { .tier = src->tier } };
                int r;

                r = item_env_pair(&item.env, c, src, err);
                if (r == 0)
                        r = item_check(spec, key, &item, c, src, err);
                r = item_finish(spec, key, &item, r, c, src, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

int list_add(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
             struct error *err) {
        if (!src->file)
                return add_one(spec, key, node, src, err);
        if (node->kind == DOC_SCALAR && doc_is_null(node))
                return 0;
        if (node->kind == DOC_MAP && key->type == KEY_ENV)
                return add_env_map(spec, key, node, src, err);
        if (node->kind != DOC_LIST)
                return source_error(src, node, err, -EINVAL, "must be a %s",
                                    key->type == KEY_ENV ? "mapping" : "list");
        for (const struct doc *c = node->first; c; c = c->next) {
                int r;

                r = add_one(spec, key, c, src, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* One field of an item from text that is not in a document. */
static int field_set(void *item, enum section section, const char *name, const char *text,
                     const struct source *src, struct error *err) {
        char *copy = strdup(text);
        const struct doc node = { .kind = DOC_SCALAR, .quoted = true, .text = copy };
        int r = -ENOMEM;

        if (copy)
                r = value_set(item, key_find(section, name), &node, src, err);
        else
                (void) error_set(err, r, "out of memory");
        free(copy);
        return r;
}

int list_add_rule(struct spec *spec, enum guard_do action, const char *glob, const struct source *src,
                  struct error *err) {
        const struct key *key = key_find(SECTION_GUARD, "rules");
        const struct doc node = { .kind = DOC_SCALAR, .quoted = true };
        union item item = { .rule = { .action = action, .tier = src->tier } };
        int r;

        r = field_set(&item, ITEM_RULE, "path", glob, src, err);
        if (r == 0)
                r = from_note(&item, type_of(key), &node, src, err);
        return item_finish(spec, key, &item, r, &node, src, err);
}

/* ":shared" and ":tmpfs" behind the path of a cache; @ret_len: of the path. Return: 0 or -EINVAL. */
static int cache_option(const char *text, struct spec_mount *mount, size_t *ret_len, struct error *err) {
        const char *option = strrchr(text, ':');

        *ret_len = option ? (size_t) (option - text) : strlen(text);
        if (option && strcmp(option, ":shared") == 0)
                mount->shared = true;
        else if (option && strcmp(option, ":tmpfs") == 0)
                mount->upper = MOUNT_UPPER_TMPFS;
        else if (option && strcmp(option, ":ro") == 0)
                mount->readonly = true;
        else if (option && !strchr(option, '/'))
                return error_set(err, -EINVAL,
                                 "--cache: '%s' is none of shared, tmpfs and ro: a path with a ':' in its "
                                 "last part needs "
                                 "--mount type=cache,source=PATH",
                                 ESC(option + 1));
        else
                *ret_len = strlen(text);
        return 0;
}

int list_add_cache(struct spec *spec, const char *text, const struct source *src, struct error *err) {
        const struct key *key = key_find(SECTION_ROOT, "mounts");
        const struct doc node = { .kind = DOC_SCALAR, .quoted = true };
        union item item = { .mount = { .type = MOUNT_CACHE, .tier = src->tier } };
        AUTO_FREE char *path = NULL;
        size_t len;
        int r = cache_option(text, &item.mount, &len, err);

        if (r < 0)
                return r;
        path = strndup(text, len);
        if (!path)
                return error_set(err, -ENOMEM, "out of memory");
        r = field_set(&item, ITEM_MOUNT, "source", path, src, err);
        if (r == 0)
                r = item_mount_check(&item.mount, &node, src, err);
        return item_finish(spec, key, &item, r, &node, src, err);
}

int list_copy(struct spec *to, const struct spec *from, const struct key *key) {
        const struct list_type *type = type_of(key);
        size_t n, room = 1;
        char *src = items_of(from, key, &n), *items;
        int r = 0;

        if (n == 0)
                return 0;
        while (room < n)
                room *= 2;
        items = calloc(room, type->size);
        if (!items)
                return -ENOMEM;
        items_put(to, key, items, n); /* half-built: what is not copied yet is empty */
        for (size_t i = 0; i < n; i++) {
                char *item = items + i * type->size;

                if (type->tier_offset != NO_TIER)
                        memcpy(item + type->tier_offset, src + i * type->size + type->tier_offset,
                               sizeof(enum spec_tier));
                if (r == 0)
                        r = from_put(item, type, from_get(src + i * type->size, type));
                for (size_t k = 0; r == 0 && k < item_key_count(); k++)
                        if (item_keys[k].section == type->section)
                                r = value_copy(item, src + i * type->size, &item_keys[k]);
        }
        return r;
}

void list_free(struct spec *spec, const struct key *key) {
        const struct list_type *type = type_of(key);
        size_t n;
        char *items = items_of(spec, key, &n);

        for (size_t i = 0; i < n; i++)
                item_free(items + i * type->size, type);
        free(items);
        items_put(spec, key, NULL, 0);
}

void list_remove(struct spec *spec, const struct key *key, size_t i) {
        const struct list_type *type = type_of(key);
        size_t n;
        char *items = items_of(spec, key, &n), *item = items + i * type->size;

        assert(i < n);
        item_free(item, type);
        memmove(item, item + type->size, (n - i - 1) * type->size);
        items_put(spec, key, items, n - 1);
}

static json_t *item_json(const char *item, const struct list_type *type) {
        AUTO_JSON json_t *obj = json_object();
        const char *from = from_get(item, type);
        enum spec_tier tier;

        if (!obj)
                return NULL;
        for (size_t k = 0; k < item_key_count(); k++)
                if (item_keys[k].section == type->section && !item_keys[k].secret &&
                    json_object_set_new(obj, item_keys[k].name, value_json(item, &item_keys[k])) < 0)
                        return NULL;
        if (type->tier_offset != NO_TIER) {
                memcpy(&tier, item + type->tier_offset, sizeof(tier));
                if (json_object_set_new(obj, "tier", json_string(spec_tier_name(tier))) < 0)
                        return NULL;
        }
        if (from && json_object_set_new(obj, "from", json_from_bytes(from, FROM_MAX)) < 0)
                return NULL;
        return TAKE_PTR(obj);
}

json_t *list_json(const struct spec *spec, const struct key *key) {
        const struct list_type *type = type_of(key);
        AUTO_JSON json_t *array = json_array();
        size_t n;
        const char *items = items_of(spec, key, &n);

        for (size_t i = 0; array && i < n; i++)
                if (json_array_append_new(array, item_json(items + i * type->size, type)) < 0)
                        return NULL;
        return TAKE_PTR(array);
}
