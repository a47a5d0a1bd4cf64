#include "runtime/spec/itemtext.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buf.h"
#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/suggest.h"
#include "runtime/spec/check.h"
#include "runtime/spec/secretrules.h"

/* Sets field @name of @item to @text, which is part of @whole. */
static int part_set(void *item, enum section section, const char *name, const char *text,
                    const struct doc *whole, const struct source *src, struct error *err) {
        struct doc part = *whole;
        const struct key *key = key_find(section, name);
        AUTO_FREE char *copy = strdup(text);

        if (!copy)
                return error_set(err, -ENOMEM, "out of memory");
        part.kind = DOC_SCALAR;
        part.text = copy;
        part.quoted = key->type != KEY_BOOL; /* a part has no quotes of its own */
        return value_set(item, key, &part, src, err);
}

int item_path_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        return value_set(item, key_find(ITEM_PATH, "path"), node, src, err);
}

int item_dir_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        return value_set(item, key_find(ITEM_DIR, "path"), node, src, err);
}

int item_host_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        return value_set(item, key_find(ITEM_HOST, "rule"), node, src, err);
}

int item_text_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        return value_set(item, key_find(ITEM_TEXT, "text"), node, src, err);
}

int item_seed_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        AUTO_FREE char *from = strdup(node->text);
        char *colon;
        int r;

        if (!from)
                return error_set(err, -ENOMEM, "out of memory");
        colon = strchr(from, ':');
        if (colon) {
                *colon = '\0';
                if (strchr(colon + 1, ':'))
                        return source_error(
                                src, node, err, -EINVAL,
                                "'%s' must be PATH or PATH:TARGET; a path with ':' can be written in a file",
                                ESC(node->text));
                r = part_set(item, ITEM_SEED, "to", colon + 1, node, src, err);
                if (r < 0)
                        return r;
        }
        return part_set(item, ITEM_SEED, "from", from, node, src, err);
}

/* docker's and podman's names for the fields of a mount */
static const struct {
        const char *name;
        const char *key;
} mount_fields[] = {
        { "type", "type" },
        { "source", "source" },
        { "src", "source" },
        { "target", "target" },
        { "dst", "target" },
        { "destination", "target" },
        { "readonly", "readonly" },
        { "ro", "readonly" },
        { "size", "size" },
        { "tmpfs-size", "size" },
        { "upper", "upper" },
        { "shared", "shared" },
        { "on_source_change", "on_source_change" },
};

static const char *mount_key(const char *name, const char **ret_near) {
        const char *names[ARRAY_SIZE(mount_fields)];

        for (size_t i = 0; i < ARRAY_SIZE(mount_fields); i++) {
                if (strcmp(mount_fields[i].name, name) == 0)
                        return mount_fields[i].key;
                names[i] = mount_fields[i].name;
        }
        *ret_near = suggest_name(name, names, ARRAY_SIZE(names));
        return NULL;
}

/* One FIELD[=VALUE]. @seen: bit per row of item_keys[] */
static int mount_field(struct spec_mount *mount, char *field, unsigned long long *seen,
                       const struct doc *node, const struct source *src, struct error *err) {
        char *value = strchr(field, '=');
        const char *name, *near = NULL;
        unsigned long long bit;

        if (value)
                *value++ = '\0';
        name = mount_key(field, &near);
        if (!name)
                return source_error(src, node, err, -EINVAL, "unknown field '%s'%s%s%s", ESC(field),
                                    near ? ", did you mean '"
                                         : ": known are type, source, target, readonly, size, upper, shared, "
                                           "on_source_change",
                                    near ? near : "", near ? "'?" : "");
        bit = 1ULL << (key_find(ITEM_MOUNT, name) - item_keys);
        if (*seen & bit)
                return source_error(src, node, err, -EINVAL, "field '%s' is given twice", name);
        *seen |= bit;
        if (!value && key_find(ITEM_MOUNT, name)->type != KEY_BOOL)
                return source_error(src, node, err, -EINVAL, "field '%s' needs a value: %s=..", name, name);
        return part_set(mount, ITEM_MOUNT, name, value ? value : "true", node, src, err);
}

bool item_mount_is_volume(const struct doc *node) {
        static const char *const types[] = { "pvc", "configmap", "secret" };
        const struct doc *child = node->kind == DOC_MAP ? doc_child(node, "type") : NULL;
        const char *text = node->kind == DOC_SCALAR ? node->text : NULL;

        if (child && child->kind == DOC_SCALAR)
                text = child->text;
        for (size_t n; text; text = text[n] ? text + n + 1 : NULL) {
                const bool typed = !child && strncmp(text, "type=", 5) == 0;
                const char *const word = typed ? text + 5 : text;

                n = strcspn(text, ",");
                for (size_t i = 0; (typed || child) && i < ARRAY_SIZE(types); i++)
                        if (strlen(types[i]) == n - (size_t) (word - text) &&
                            strncmp(word, types[i], strlen(types[i])) == 0)
                                return true;
        }
        return false;
}

int item_mount_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        AUTO_FREE char *text = strdup(node->text);
        unsigned long long seen = 0;
        char *rest = text;

        if (!text)
                return error_set(err, -ENOMEM, "out of memory");
        while (rest) {
                char *field = strsep(&rest, ",");
                int r;

                r = mount_field(item, field, &seen, node, src, err);
                if (r < 0)
                        return r;
        }
        if (!(seen & 1ULL << (key_find(ITEM_MOUNT, "type") - item_keys)))
                return source_error(
                        src, node, err, -EINVAL,
                        "a mount needs 'type=bind', 'type=tmpfs', 'type=overlay' or 'type=cache'");
        return 0;
}

/* which fields each type of mount takes: 'y'es, 'n'o, 'o'ptional */
static const struct {
        char source, target, size, readonly, upper, shared, change;
} mount_rules[] = {
        [MOUNT_BIND] = { 'y', 'y', 'n', 'o', 'n', 'n', 'o' },
        [MOUNT_TMPFS] = { 'n', 'y', 'o', 'n', 'n', 'n', 'n' },
        [MOUNT_OVERLAY] = { 'y', 'y', 'o', 'n', 'o', 'n', 'n' },
        [MOUNT_CACHE] = { 'y', 'o', 'o', 'o', 'o', 'o', 'n' },
};
static_assert(ARRAY_SIZE(mount_rules) == MOUNT_TYPE_COUNT, "mount_rules[] and enum mount_type differ");

int item_mount_check(void *item, const struct doc *node, const struct source *src, struct error *err) {
        struct spec_mount *mount = item;
        const char *type = key_find(ITEM_MOUNT, "type")->words[mount->type].name;
        const struct {
                const char *name;
                char rule;
                bool given;
        } fields[] = {
                { "source", mount_rules[mount->type].source, mount->source },
                { "target", mount_rules[mount->type].target, mount->target },
                { "size", mount_rules[mount->type].size, mount->size },
                { "readonly", mount_rules[mount->type].readonly, mount->readonly },
                { "upper", mount_rules[mount->type].upper, mount->upper != MOUNT_UPPER_DISK },
                { "shared", mount_rules[mount->type].shared, mount->shared },
                { "on_source_change", mount_rules[mount->type].change, mount->on_source_change },
        };
        const bool tmpfs = mount->upper == MOUNT_UPPER_TMPFS;

        if (node->kind == DOC_MAP && !doc_child(node, "type"))
                return source_error(src, node, err, -EINVAL,
                                    "a mount needs 'type': bind, tmpfs, overlay or cache");
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
                if (fields[i].rule == 'y' && !fields[i].given)
                        return source_error(src, node, err, -EINVAL, "a mount of type %s needs '%s'", type,
                                            fields[i].name);
                if (fields[i].rule == 'n' && fields[i].given)
                        return source_error(src, node, err, -EINVAL, "a mount of type %s has no '%s'", type,
                                            fields[i].name);
        }
        if (mount->readonly + mount->shared + tmpfs > 1)
                return source_error(src, node, err, -EINVAL,
                                    "a cache is one of readonly, shared and upper=tmpfs");
        if (mount->size && mount->type != MOUNT_TMPFS && !tmpfs)
                return source_error(src, node, err, -EINVAL,
                                    "a mount of type %s has a 'size' with upper=tmpfs only", type);
        if (mount->type == MOUNT_CACHE && !mount->target)
                return part_set(mount, ITEM_MOUNT, "target", mount->source, node, src, err);
        return 0;
}

int item_env_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        AUTO_FREE char *name = strdup(node->text);
        char *value;
        int r;

        if (!name)
                return error_set(err, -ENOMEM, "out of memory");
        value = strchr(name, '=');
        if (value)
                *value++ = '\0';
        r = part_set(item, ITEM_ENV, "name", name, node, src, err);
        if (r < 0 || !value)
                return r;
        r = part_set(item, ITEM_ENV, "value", value, node, src, err);
        return r == -ENOMEM ? r : r < 0 ? error_wrap(err, r, "variable '%s'", ESC(name)) : 0;
}

int item_env_pair(struct spec_env *env, const struct doc *node, const struct source *src, struct error *err) {
        int r;

        r = part_set(env, ITEM_ENV, "name", node->name, node, src, err);
        if (r < 0 || (node->kind == DOC_SCALAR && doc_is_null(node)))
                return r;
        return value_set(env, key_find(ITEM_ENV, "value"), node, src, err);
}

int item_env_check(void *item, const struct doc *node, const struct source *src, struct error *err) {
        const struct spec_env *env = item;

        if (!env->name)
                return source_error(src, node, err, -EINVAL, "a variable needs 'name'");
        if (strlen(env->name) + (env->value ? strlen(env->value) : 0) + 2 > CHECK_ENV_MAX)
                return source_error(src, node, err, -EINVAL,
                                    "variable '%s' is too long: at most %d bytes with its value",
                                    ESC(env->name), CHECK_ENV_MAX - 2);
        if (!env->value && trust_of(src->tier) < TRUST_OPERATOR)
                return source_error(src, node, err, -EPERM,
                                    "variable '%s' has no value: only the operator may pass one on from the "
                                    "caller's environment",
                                    ESC(env->name));
        return 0;
}

/* One FIELD=VALUE of a secret; hosts add up. */
static int secret_field(struct spec_secret *secret, char *field, struct buf *hosts, const struct doc *node,
                        const struct source *src, struct error *err) {
        char *value = strchr(field, '=');

        if (value)
                *value++ = '\0';
        if (value && strcmp(field, "host") == 0)
                return buf_fmt(hosts, "%s%s", hosts->len ? "," : "", value) < 0
                               ? error_set(err, -ENOMEM, "out of memory")
                               : 0;
        if (value && (strcmp(field, "inject") == 0 || strcmp(field, "env") == 0 || strcmp(field, "as") == 0 ||
                      strcmp(field, "path") == 0))
                return part_set(secret, ITEM_SECRET, field, value, node, src, err);
        return source_error(src, node, err, -EINVAL,
                            "'%s': want NAME=env:VARIABLE or NAME=file:PATH, then as=.., inject=.., env=.., "
                            "path=.., host=.., "
                            "joined by commas",
                            ESC(field));
}

int item_secret_text(void *item, const struct doc *node, const struct source *src, struct error *err) {
        AUTO_FREE char *text = strdup(node->text);
        AUTO_BUF struct buf hosts = { 0 };
        char *rest = text, *source;
        int r;

        if (!text)
                return error_set(err, -ENOMEM, "out of memory");
        source = strsep(&rest, ",");
        if (strchr(source, '=')) {
                char *from = strchr(source, '=');

                *from++ = '\0';
                r = part_set(item, ITEM_SECRET, "name", source, node, src, err);
                if (r == 0)
                        r = part_set(item, ITEM_SECRET, "from", from, node, src, err);
        } else {
                r = source_error(src, node, err, -EINVAL,
                                 "'%s': want NAME=env:VARIABLE or NAME=file:PATH first", ESC(source));
        }
        while (r == 0 && rest)
                r = secret_field(item, strsep(&rest, ","), &hosts, node, src, err);
        if (r == 0 && hosts.len)
                r = part_set(item, ITEM_SECRET, "hosts", buf_cstr(&hosts), node, src, err);
        return r;
}

int item_secret_check(void *item, const struct doc *node, const struct source *src, struct error *err) {
        const struct spec_secret *secret = item;
        const bool proxied = secret_is(secret, "proxied"), file = secret_is(secret, "file");
        const char *lacks = !secret->name               ? "name"
                            : !secret->from             ? "from"
                            : proxied && !secret->hosts ? "hosts"
                                                        : NULL;

        if (lacks)
                return source_error(src, node, err, -EINVAL, "a secret needs '%s'%s", lacks,
                                    strcmp(lacks, "hosts") == 0 ? ": the hosts it may be sent to" : "");
        if (!proxied && (secret->hosts || strcmp(secret->inject, "bearer") != 0))
                return source_error(src, node, err, -EINVAL,
                                    "'hosts' and 'inject' are for 'as: proxied': leave them out");
        if (secret->path && !file)
                return source_error(src, node, err, -EINVAL, "'path' is for 'as: file'");
        if (file && strspn(secret->name, ".") == strlen(secret->name))
                return source_error(src, node, err, -EINVAL, "'%s' cannot be a file: give it another name",
                                    secret->name);
        if (!file && !secret->env && !secret_env_valid(secret->name))
                return source_error(
                        src, node, err, -EINVAL,
                        "'%s' cannot be a variable: name one with 'env', of letters, digits and '_'",
                        ESC(secret->name));
        return 0;
}
