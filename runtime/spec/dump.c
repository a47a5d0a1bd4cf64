#include <errno.h>

#include "runtime/base/json.h"
#include "runtime/spec/list.h"
#include "runtime/spec/refuse.h"
#include "runtime/spec/resolve.h"

/* The object of a section, made when it is not there yet; borrowed. */
static json_t *section_object(json_t *root, enum section section) {
        const char *name = section_name(section);
        json_t *obj = *name ? json_object_get(root, name) : root;

        if (!obj && json_object_set_new(root, name, json_object()) == 0)
                obj = json_object_get(root, name);
        return obj;
}

/* {"value": ..., "tier": ...} as member @name of @section; NULL for either is a failure before. */
static int add_value(json_t *section, const char *name, json_t *value, const char *tier) {
        AUTO_JSON json_t *entry = json_object();
        AUTO_JSON json_t *owned = value;

        if (!section || !entry || !owned || json_object_set(entry, "value", owned) < 0 ||
            json_object_set_new(entry, "tier", json_string(tier)) < 0)
                return -ENOMEM;
        return json_object_set(section, name, entry) < 0 ? -ENOMEM : 0;
}

json_t *spec_dump(const struct spec *spec) {
        AUTO_JSON json_t *root = json_object();

        for (size_t i = 0; root && i < spec_key_count(); i++) {
                const struct key *key = &spec_keys[i];
                json_t *section, *value;

                if (key->offset == KEY_NO_STORE)
                        continue;
                section = section_object(root, key->section);
                value = key_is_list(key) ? list_json(spec, key) : value_json(spec, key);
                if (add_value(section, key->name, value, spec_tier_name(spec->tier_of[i])) < 0)
                        return NULL;
        }
        if (root && spec->n_refused && json_object_set_new(root, "refused", refusals_json(spec)) < 0)
                return NULL;
        return TAKE_PTR(root);
}
