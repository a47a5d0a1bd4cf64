#include "runtime/spec/merge.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/escape.h"
#include "runtime/base/file.h"
#include "runtime/spec/list.h"
#include "runtime/spec/narrow.h"

int merge_note(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
               struct error *err) {
        static const char *const who[] = {
                [TRUST_REPOSITORY] = "anyone",
                [TRUST_WORKFLOW] = "the workflow and the operator",
                [TRUST_OPERATOR] = "the operator",
        };
        enum spec_tier *tier = &spec->tier_of[key_index(key)];

        static_assert(ARRAY_SIZE(who) == TRUST_COUNT, "who[] and enum spec_trust differ");
        if (src->tier != TIER_REPOSITORY && key->trust > trust_of(src->tier))
                return source_error(src, node, err, -EPERM, "only %s may set this, not the %s",
                                    who[key->trust], spec_tier_name(src->tier));
        if (src->tier > *tier)
                *tier = src->tier;
        return 0;
}

int merge_key(struct spec *spec, const struct key *key, const struct doc *node, const struct source *src,
              struct error *err) {
        int r = 0;

        if (src->tier == TIER_REPOSITORY && !src->vouched) {
                r = narrow_key(spec, key, node, src, err);
                if (r != 0)
                        return r < 0 ? r : 0;
        }
        r = merge_note(spec, key, node, src, err);
        if (r < 0 || key->type == KEY_TREE)
                return r;
        return key_is_list(key) ? list_add(spec, key, node, src, err) : value_set(spec, key, node, src, err);
}

int merge_text(struct spec *spec, const struct key *key, const char *text, const struct source *src,
               struct error *err) {
        AUTO_FREE char *copy = strdup(text);
        const struct doc node = { .kind = DOC_SCALAR, .quoted = true, .text = copy };

        if (!copy)
                return error_set(err, -ENOMEM, "out of memory");
        return merge_key(spec, key, &node, src, err);
}

bool merge_yields(const struct spec *spec, const struct key *key, const char *text) {
        static const struct {
                enum section section;
                const char *name;
        } roots[] = { { SECTION_ROOT, "image" },
                      { SECTION_ROOT, "rootfs" },
                      { SECTION_BUILD, "dockerfile" } };
        const struct key *mode = key_find(SECTION_ROOT, "mode");

        if (key != mode || strcmp(text, "auto") != 0)
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
                if (spec->tier_of[key_index(key_find(roots[i].section, roots[i].name))] == TIER_WORKFLOW)
                        return true;
        return false;
}

static enum section section_find(const char *name) {
        for (size_t i = SECTION_ROOT + 1; i < SECTION_COUNT; i++)
                if (strcmp(section_name((enum section) i), name) == 0)
                        return (enum section) i;
        return SECTION_COUNT;
}

static int unknown_key(enum section section, const struct doc *node, const struct source *src,
                       struct error *err) {
        const char *near = key_nearest(section, node->name), *in = section_name(section);

        if (near)
                return source_error(src, node, err, -EINVAL, "unknown key, did you mean '%s%s%s'?", in,
                                    *in ? "." : "", near);
        return source_error(src, node, err, -EINVAL, "unknown key: see cofferdam.yaml(5)");
}

/* Every key of @map, which is the mapping of @section. */
static int merge_map(struct spec *spec, enum section section, const struct doc *map, const struct source *src,
                     struct error *err) {
        for (const struct doc *c = map->first; c; c = c->next) {
                const struct key *key = key_find(section, c->name);
                const enum section inner = section == SECTION_ROOT ? section_find(c->name) : SECTION_COUNT;
                int r = 0;

                if (key)
                        r = merge_key(spec, key, c, src, err);
                else if (inner == SECTION_COUNT)
                        r = unknown_key(section, c, src, err);
                else if (c->kind == DOC_MAP)
                        r = merge_map(spec, inner, c, src, err);
                else if (!doc_is_null(c))
                        r = source_error(src, c, err, -EINVAL, "must be a mapping");
                if (r < 0)
                        return r;
        }
        return 0;
}

static int merge_root(struct spec *spec, const struct doc *root, const struct source *src,
                      struct error *err) {
        if (!root || doc_is_null(root))
                return 0; /* a file of comments */
        if (root->kind != DOC_MAP)
                return source_error(src, root, err, -EINVAL,
                                    "must be a mapping of keys such as 'workspace:'");
        return merge_map(spec, SECTION_ROOT, root, src, err);
}

static bool is_json(const char *name) {
        const size_t n = strlen(name);

        return n >= 5 && strcmp(name + n - 5, ".json") == 0;
}

int spec_merge_bytes(struct spec *spec, const char *name, const char *data, size_t len, enum spec_tier tier,
                     const struct spec_env_view *view, struct error *err) {
        const struct source src = { .tier = tier, .file = name, .view = view };
        AUTO_SPEC struct spec *merged = NULL;
        AUTO_DOC struct doc *root = NULL;
        struct spec old;
        int r;

        r = doc_parse(name, data, len, is_json(name), &root, err);
        if (r == 0)
                r = spec_copy(spec, &merged, err);
        if (r == 0)
                r = merge_root(merged, root, &src, err);
        if (r < 0)
                return r;
        old = *spec;
        *spec = *merged;
        *merged = old; /* freed on return */
        return 0;
}

int spec_merge_file(struct spec *spec, const char *path, enum spec_tier tier,
                    const struct spec_env_view *view, struct error *err) {
        AUTO_BUF struct buf text = { 0 };
        int r;

        r = file_read_at(AT_FDCWD, path, DOC_FILE_MAX, &text);
        if (r == -EFBIG)
                return error_set(err, r, "%s: larger than %d KiB", ESC(path), DOC_FILE_MAX / 1024);
        if (r == -EINVAL)
                return error_set(err, r, "%s: not a regular file", ESC(path));
        if (r < 0)
                return error_set(err, r, "%s: cannot read: %s", ESC(path), strerror(-r));
        if (text.len == 0)
                return error_set(err, -EINVAL, "%s: is empty", ESC(path));
        return spec_merge_bytes(spec, path, buf_cstr(&text), text.len, tier, view, err);
}
