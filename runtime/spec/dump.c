#include "runtime/base/json.h"
#include "runtime/spec/list.h"
#include "runtime/spec/resolve.h"

/* The object of a section, made when it is not there yet; borrowed. */
static json_t *section_object(json_t *root, enum section section) {
        const char *name = section_name(section);
        json_t *obj = *name ? json_object_get(root, name) : root;

        if (!obj && json_object_set_new(root, name, json_object()) == 0)
                obj = json_object_get(root, name);
        return obj;
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
                if (!section || !value ||
                    json_object_set_new(section, key->name,
                                        json_pack("{s:o, s:s}", "value", value, "tier",
                                                  spec_tier_name(spec->tier_of[i]))) < 0)
                        return NULL;
        }
        return TAKE_PTR(root);
}
